//! The kernels that measure and generate.

use std::iter::from_fn;
use std::mem::offset_of;

use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::kernels::entries;
use warpwire_core::kernels::{
    MeasureCounters, MeasureParameters, MeasurePort, TEMPLATE_BYTES, Template, TransmitCounters,
    TransmitParameters, TransmitPort,
};
use warpwire_device::KernelRow;
use warpwire_nic::soft::Dice;
use warpwire_ring::{DeviceAddress, Provenance};

use super::blocks::{Wrong, refuse};
use super::seen::Seen;
use super::{Case, Machine};
use crate::stage::Stage;
use crate::wires;
use crate::wires::{Client, Memif, Mlx5, STARTS, Server, Wire, Xdp, rx_cursor, tx_cursor};

/// The comparisons of an entry point, if it is one of these kernels.
pub(super) fn cases(name: &str) -> Vec<Case> {
    let Some(row) = entries::measuring().iter().find(|row| row.name == name) else {
        return Vec::new();
    };
    let formats = ["memif_client", "memif_server", "xdp", "mlx5"];
    let format = formats.iter().find_map(|format| {
        let kernel = name.strip_suffix(format)?.strip_suffix('_')?;
        Some((kernel, *format))
    });
    let Some((kernel, format)) = format else {
        return Vec::new();
    };
    let case = match kernel {
        "receive_count" => Kernel::ReceiveCount,
        "mac_swap" => Kernel::MacSwap,
        "transmit" => Kernel::Transmit,
        _ => return Vec::new(),
    };
    match format {
        "memif_client" => vec![over::<Memif<Client>>(row, case, "memif client")],
        "memif_server" => vec![over::<Memif<Server>>(row, case, "memif server")],
        "xdp" => vec![over::<Xdp>(row, case, "xdp")],
        _ => vec![
            over::<Mlx5<1>>(row, case, "mlx5"),
            over::<Mlx5<4>>(row, case, "mlx5 scattered"),
        ],
    }
}

#[derive(Clone, Copy)]
enum Kernel {
    ReceiveCount,
    MacSwap,
    Transmit,
}

fn over<W: Wire>(row: &'static KernelRow, kernel: Kernel, word: &'static str) -> Case {
    Case::new(row.name, word, move |machine, seed| {
        let run = |machine: &Machine| match kernel {
            Kernel::ReceiveCount | Kernel::MacSwap => measure::<W>(row, machine, seed),
            Kernel::Transmit => transmit::<W>(row, machine, seed),
        };
        let cpu = run(&Machine::SCALAR).map_err(|error| format!("on the CPU: {error}"))?;
        let found = run(machine)?;
        found.seen.compare(&cpu.seen)?;
        Ok(cpu.frames)
    })
}

/// What came of a run.
pub(super) struct Outcome {
    pub(super) seen: Seen,
    pub(super) frames: u64,
}

fn measure<W: Wire>(row: &KernelRow, machine: &Machine, seed: u64) -> Result<Outcome, String> {
    let ready = machine.ready(seed)?;
    let mut dice = Dice::new(seed);
    let depth = DEPTHS[dice.below(3) as usize];
    let mut wire = W::new(depth, STARTS[dice.below(4) as usize]);
    let stage = Stage::beside(&wire);
    let counters = stage.cut(size_of::<MeasureCounters>());
    let port = stage.place(MeasurePort {
        receive: wire.rx_block(),
        transmit: wire.tx_block(),
        counters,
    });
    let mut block = MeasureParameters {
        header: MeasureParameters::HEADER,
        steering: Steering::default(),
        ports: port,
        port_count: 1,
        batch: 0,
    };
    let frames = frames();
    wire.deliver(&frames[0]);
    refuse(
        &ready,
        row,
        &stage,
        block,
        |block| &mut block.header,
        WRONG_MEASURES,
    )?;
    block.steering.heartbeats = stage.heartbeat;
    let (mut sent, mut causes) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for _ in 0..dice.below(50) {
            let frame = broken(&frames[dice.below(frames.len() as u64) as usize], &mut dice);
            if wire.slots_for(frame.len()) > 0 {
                wire.deliver(&frame);
            }
            if dice.below(20) == 0 && wire.has_room() {
                wire.deliver_bad();
            }
        }
        if dice.below(2 * u64::from(ROUNDS)) == 0 {
            wire.fall_asleep();
        }
        if round + 1 == ROUNDS && dice.below(4) == 0 {
            wire.break_receive();
        }
        block.steering.turns = 1 + dice.below(4);
        block.batch = dice.below(65) as u32;
        let job = stage.job::<MeasureParameters>(row, stage.place(block));
        ready.run(job)?;
        causes.push(stage.take_cause());
        take_some(&mut wire, &mut dice, &mut sent);
    }
    let counted = stage.words(counters, size_of::<MeasureCounters>());
    Ok(outcome(wire, sent, causes, counted))
}

fn transmit<W: Wire>(row: &KernelRow, machine: &Machine, seed: u64) -> Result<Outcome, String> {
    let ready = machine.ready(seed)?;
    let mut dice = Dice::new(seed);
    let depth = DEPTHS[dice.below(3) as usize];
    let mut wire = W::new(depth, STARTS[dice.below(4) as usize]);
    let stage = Stage::beside(&wire);
    let counters = stage.cut(size_of::<TransmitCounters>());
    let port = stage.place(TransmitPort {
        transmit: wire.tx_block(),
        counters,
    });
    let mut block = TransmitParameters {
        header: TransmitParameters::HEADER,
        steering: Steering::default(),
        ports: port,
        port_count: 1,
        template_count: 1,
        templates: stage.place(template(60, &mut dice)),
        frames: 10,
        rate: 0,
        batch: 0,
        reserved: 0,
    };
    refuse(
        &ready,
        row,
        &stage,
        block,
        |block| &mut block.header,
        WRONG_TRANSMITS,
    )?;
    block.steering.heartbeats = stage.heartbeat;
    let (mut sent, mut causes) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let most = (wire.slot_bytes() as u32).min(333);
        // Now and then one that fits no slot: it cuts its batch and ends the kernel.
        let long = match dice.below(8) {
            0 => TEMPLATE_BYTES as u32,
            _ => most,
        };
        if dice.below(2 * u64::from(ROUNDS)) == 0 {
            wire.fall_asleep();
        }
        let other = 14 + dice.below(100) as u32;
        let templates = [60, 64, long, other].map(|length| template(length, &mut dice));
        block.template_count = templates.len() as u32;
        block.templates = stage.place(templates);
        block.steering.turns = 1 + dice.below(6);
        block.frames += 1 + dice.below(100);
        block.batch = dice.below(65) as u32;
        let job = stage.job::<TransmitParameters>(row, stage.place(block));
        ready.run(job)?;
        causes.push(stage.take_cause());
        take_some(&mut wire, &mut dice, &mut sent);
    }
    let mut counted = stage.words(counters, size_of::<TransmitCounters>());
    // The clock's, which stands differently on every machine.
    counted[offset_of!(TransmitCounters, started_ns) / 8] = 0;
    Ok(outcome(wire, sent, causes, counted))
}

/// Takes some of what was sent, and lets the NIC be done with some of it.
fn take_some<W: Wire>(wire: &mut W, dice: &mut Dice, sent: &mut Vec<Vec<u8>>) {
    for _ in 0..dice.below(60) {
        sent.extend(wire.take());
    }
    for _ in 0..dice.below(60) {
        wire.complete();
    }
}

pub(super) fn outcome<W: Wire>(
    mut wire: W,
    mut sent: Vec<Vec<u8>>,
    causes: Vec<u32>,
    counted: Vec<u64>,
) -> Outcome {
    sent.extend(from_fn(|| wire.take()));
    wire.check_untouched();
    let (received, transmitted) = (rx_cursor(&wire), tx_cursor(&wire));
    let mut seen = Seen::default();
    seen.sent("sent", sent);
    seen.fact("receive cursor", received);
    seen.fact("transmit cursor", transmitted);
    provenance(
        &mut seen,
        "receive",
        wires::counters(&wire, wire.rx_block()),
    );
    let of_transmit = wires::counters(&wire, wire.tx_block());
    provenance(&mut seen, "transmit", of_transmit);
    // Lanes behind the one whose frame cut a batch have written theirs already.
    if transmitted.faults == 0 {
        seen.memory(&[&wire.pages().ground.0]);
        seen.fact("transmit headers", of_transmit.headers_built.value());
    }
    seen.fact("causes that ended the kernel", causes);
    seen.counts("counter", counted);
    Outcome {
        seen,
        frames: received.frames + transmitted.frames,
    }
}

/// Who did what, but for headers.
fn provenance(seen: &mut Seen, queue: &str, counters: &Provenance) {
    let [mmio, polled, system_call] = &counters.triggers;
    let figures = [
        ("calls", &counters.device_calls),
        ("descriptors", &counters.descriptors_built),
        ("triggers by MMIO", mmio),
        ("triggers by index", polled),
        ("triggers by system call", system_call),
        ("bytes copied on the device", &counters.bytes_copied_device),
        (
            "bytes copied to or from the host",
            &counters.bytes_copied_host,
        ),
        ("bytes by reference", &counters.bytes_by_reference),
    ];
    for (name, counter) in figures {
        seen.fact(format!("{queue} {name}"), counter.value());
    }
}

/// A frame as it is, or with something wrong: a bit, or its end.
pub(super) fn broken(frame: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut frame = frame.to_vec();
    match dice.below(4) {
        0 => {
            let place = dice.below(frame.len().min(80) as u64) as usize;
            frame[place] ^= 1 << dice.below(8);
        }
        1 => frame.truncate(1 + dice.below(frame.len() as u64) as usize),
        _ => {}
    }
    frame
}

fn template(length: u32, dice: &mut Dice) -> Template {
    let near_the_end = length - dice.below(4) as u32;
    let mut place = |usual: u32| [usual, usual, usual, 0, 33, near_the_end][dice.below(6) as usize];
    let (vary_at, checksum_at) = (place(34), place(40));
    Template {
        length,
        flows: 1 + dice.below(9) as u32,
        vary_at,
        checksum_at,
        reserved: [0; 28],
        bytes: [0; TEMPLATE_BYTES].map(|_: u8| dice.below(256) as u8),
    }
}

/// Frames of every kind, some of them malformed.
pub(super) fn frames() -> Vec<Vec<u8>> {
    let lines = include_str!("../../../pipelines/core/testdata/frames.hex").lines();
    let lines = lines.filter(|line| !line.starts_with('#') && !line.is_empty());
    let bytes = |text: &str| -> Vec<u8> {
        let pairs = text.as_bytes().chunks(2);
        let pair = |pair| u8::from_str_radix(str::from_utf8(pair).unwrap_or(""), 16);
        pairs.map(|two| pair(two).expect("digits")).collect()
    };
    lines
        .map(|line| bytes(line.split_whitespace().last().expect("bytes")))
        .collect()
}

const WRONG_MEASURES: &[Wrong<MeasureParameters>] = &[
    ("no ports", |block| block.ports = DeviceAddress::NULL),
    ("a count of no ports", |block| block.port_count = 0),
];
const WRONG_TRANSMITS: &[Wrong<TransmitParameters>] = &[
    ("no ports", |block| block.ports = DeviceAddress::NULL),
    ("a count of no ports", |block| block.port_count = 0),
    ("no templates", |block| {
        block.templates = DeviceAddress::NULL
    }),
    ("a count of no templates", |block| block.template_count = 0),
    ("too many templates", |block| block.template_count = 33),
];
const ROUNDS: u32 = 16;
/// Slots of a queue: some are gone round several times.
const DEPTHS: [u32; 3] = [8, 32, 64];
