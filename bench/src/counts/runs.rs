//! Kernels in steady state.

use std::iter::from_fn;
use std::sync::Arc;

use warpwire_core::block::{Parameters as _, PipelineParameters, Steering};
use warpwire_core::kernels::{
    MeasureCounters, MeasureParameters, MeasurePort, TEMPLATE_BYTES, Template, TransmitCounters,
    TransmitParameters, TransmitPort,
};
use warpwire_device::KernelRow;
use warpwire_virtual::KernelCounts;

use super::{BATCH, Spans, program};
use crate::machine::Machine;
use crate::parity;
use crate::stage::Stage;
use crate::wires::{Client, Memif, Mlx5, Server, Wire, Xdp, rx_cursor, tx_cursor};

/// A kernel and the queues that it is counted over.
pub(super) struct Subject {
    pub(super) kernel: &'static str,
    pub(super) over: &'static str,
    pub(super) run: Run,
}

pub(super) type Run = fn(&str, &Machine, u32, &Counts<'_>) -> Result<Spans, String>;
pub(super) type Counts<'a> = dyn Fn() -> KernelCounts + 'a;

/// All of them.
pub(super) fn subjects() -> Vec<Subject> {
    let of_format = |over, kernels: [&'static str; 4], runs: [Run; 4]| {
        let pairs = kernels.into_iter().zip(runs);
        pairs.map(move |(kernel, run)| Subject { kernel, over, run })
    };
    macro_rules! rows {
        ($over:literal, $word:literal, $wire:ty) => {
            of_format(
                $over,
                [
                    concat!("receive_count_", $word),
                    concat!("mac_swap_", $word),
                    concat!("transmit_", $word),
                    concat!("pipeline_", $word),
                ],
                [
                    measure::<$wire>,
                    measure::<$wire>,
                    transmit::<$wire>,
                    pipeline::<$wire>,
                ],
            )
        };
    }
    let mut all: Vec<Subject> = rows!("mlx5", "mlx5", Mlx5<1>).collect();
    all.extend(rows!("mlx5 scattered", "mlx5", Mlx5<4>));
    all.extend(rows!("xdp", "xdp", Xdp));
    all.extend(rows!("memif client", "memif_client", Memif<Client>));
    all.extend(rows!("memif server", "memif_server", Memif<Server>));
    all
}

fn measure<W: Wire>(
    kernel: &str,
    machine: &Machine,
    length: u32,
    counts: &Counts<'_>,
) -> Result<Spans, String> {
    let row = row(kernel)?;
    let ready = machine.ready(0)?;
    let mut wire = W::with_slots(DEPTH, 0, SLOT);
    let stage = Stage::beside(&wire);
    let counters = stage.cut(size_of::<MeasureCounters>());
    let port = stage.place(MeasurePort {
        receive: wire.rx_block(),
        transmit: wire.tx_block(),
        counters,
    });
    let blocks = [FEW, MANY].map(|turns| {
        stage.place(MeasureParameters {
            header: MeasureParameters::HEADER,
            steering: steering(&stage, turns),
            ports: port,
            port_count: 1,
            batch: BATCH,
        })
    });
    let frame = program::frame(length);
    steady(counts, |many| {
        let turns = if many { MANY } else { FEW };
        deliver(&mut wire, &frame, turns)?;
        let before = rx_cursor(&wire).frames;
        ready.run(stage.job::<MeasureParameters>(row, blocks[usize::from(many)]))?;
        let received = rx_cursor(&wire).frames - before;
        expect("received", received, turns * u64::from(BATCH))?;
        expect("a cause", stage.take_cause().into(), 0)?;
        if kernel.starts_with("mac_swap") {
            done(&mut wire, turns * u64::from(BATCH))?;
        }
        Ok(())
    })
}

fn transmit<W: Wire>(
    kernel: &str,
    machine: &Machine,
    length: u32,
    counts: &Counts<'_>,
) -> Result<Spans, String> {
    let row = row(kernel)?;
    let ready = machine.ready(0)?;
    let mut wire = W::with_slots(DEPTH, 0, SLOT);
    let stage = Stage::beside(&wire);
    let port = stage.place(TransmitPort {
        transmit: wire.tx_block(),
        counters: stage.cut(size_of::<TransmitCounters>()),
    });
    let mut bytes = [0; TEMPLATE_BYTES];
    for (to, from) in bytes.iter_mut().zip(program::frame(length)) {
        *to = from;
    }
    let templates = stage.place(Template {
        length,
        flows: 16,
        vary_at: 34,
        checksum_at: 40,
        reserved: [0; 28],
        bytes,
    });
    let blocks = [FEW, MANY].map(|turns| {
        stage.place(TransmitParameters {
            header: TransmitParameters::HEADER,
            steering: steering(&stage, turns),
            ports: port,
            port_count: 1,
            template_count: 1,
            templates,
            frames: 0,
            rate: 0,
            batch: BATCH,
            reserved: 0,
        })
    });
    steady(counts, |many| {
        let turns = if many { MANY } else { FEW };
        let before = tx_cursor(&wire).frames;
        ready.run(stage.job::<TransmitParameters>(row, blocks[usize::from(many)]))?;
        let sent = tx_cursor(&wire).frames - before;
        expect("sent", sent, turns * u64::from(BATCH))?;
        expect("a cause", stage.take_cause().into(), 0)?;
        done(&mut wire, turns * u64::from(BATCH))
    })
}

fn pipeline<W: Wire>(
    kernel: &str,
    machine: &Machine,
    length: u32,
    counts: &Counts<'_>,
) -> Result<Spans, String> {
    let row = row(kernel)?;
    let ready = machine.ready(0)?;
    let mut wire = W::with_slots(DEPTH, 0, SLOT);
    let stage = Stage::of(PROGRAM_BYTES, vec![Arc::clone(&wire.pages().ground.0)]);
    let blocks = program::lay_out(&stage, &wire)?;
    let blocks = [FEW, MANY].map(|turns| {
        stage.place(PipelineParameters {
            steering: steering(&stage, turns),
            ..blocks
        })
    });
    let frame = program::frame(length);
    steady(counts, |many| {
        let turns = if many { MANY } else { FEW };
        deliver(&mut wire, &frame, turns)?;
        let before = rx_cursor(&wire).frames;
        ready.run(stage.job::<PipelineParameters>(row, blocks[usize::from(many)]))?;
        let received = rx_cursor(&wire).frames - before;
        expect("received", received, turns * u64::from(BATCH))?;
        expect("a cause", stage.take_cause().into(), 0)?;
        done(&mut wire, turns * u64::from(BATCH))
    })
}

/// Runs launches of few turns, then of many, over queues that were gone round before.
pub(super) fn steady(
    counts: &Counts<'_>,
    mut launch: impl FnMut(bool) -> Result<(), String>,
) -> Result<Spans, String> {
    for _ in 0..WARM_UP {
        launch(false)?;
        launch(true)?;
    }
    let mut span = |many: bool| {
        let before = counts();
        (0..LAUNCHES).try_for_each(|_| launch(many))?;
        Ok::<_, String>(counts().since(&before))
    };
    Ok(Spans {
        few: span(false)?,
        many: span(true)?,
        packets: LAUNCHES * (MANY - FEW) * u64::from(BATCH),
    })
}

fn row(kernel: &str) -> Result<&'static KernelRow, String> {
    let row = parity::rows().find(|row| row.name == kernel);
    row.ok_or_else(|| "there is no such kernel".to_owned())
}

fn steering(stage: &Stage, turns: u64) -> Steering {
    Steering {
        heartbeats: stage.heartbeat,
        turns,
        ..Steering::default()
    }
}

/// A batch for every turn.
fn deliver<W: Wire>(wire: &mut W, frame: &[u8], turns: u64) -> Result<(), String> {
    for _ in 0..turns * u64::from(BATCH) {
        if !wire.deliver(frame) {
            return Err("the queue takes no more".to_owned());
        }
    }
    Ok(())
}

/// The NIC sends all that it was given, and says so.
fn done<W: Wire>(wire: &mut W, frames: u64) -> Result<(), String> {
    let sent = from_fn(|| wire.take()).count() as u64;
    while wire.complete() {}
    expect("sent", sent, frames)
}

pub(super) fn expect(what: &str, found: u64, wanted: u64) -> Result<(), String> {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{what}: {found}, not {wanted}")),
    }
}

/// Slots of a queue: for the most frames between two launches.
const DEPTH: u32 = 256;
/// Bytes of a slot.
const SLOT: u32 = 2048;
/// Room for a program and its counters.
const PROGRAM_BYTES: usize = 4 << 20;
/// Turns of a launch.
pub(super) const FEW: u64 = 2;
pub(super) const MANY: u64 = 6;
/// Launches of each kind: whole laps of the queue.
const LAUNCHES: u64 = 16;
const WARM_UP: u64 = 3;
