//! The kernels that measure and generate, one lane wide and 32 lanes wide, over queues of every
//! format against the same NIC: the same frames leave, the same counts stay. (The pipeline kernels
//! do so over the corpora of `fuzz/`.)
#![expect(
    unsafe_code,
    reason = "launches carry the promise of the queues that the test owns"
)]

#[path = "../../../gpu-rx-tx/device/tests/queues/wires/mod.rs"]
#[expect(dead_code, reason = "the device crate's own tests use more of it")]
mod wires;

use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;

use warpwire::pipelines::Kit;
use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::kernels::{
    MeasureCounters, MeasureParameters, MeasurePort, TEMPLATE_BYTES, Template, TransmitCounters,
    TransmitParameters, TransmitPort,
};
use warpwire_gpu::Arena;
use warpwire_gpu::executor::{Backend, CpuExecutor, Exit, Grid, IdlePolicy, Parameters};
use warpwire_nic::soft::Dice;
use warpwire_ring::{Cause, DeviceAddress, Location, RxCursor, TxCursor};

use wires::{Client, Memif, Mlx5, STARTS, Server, Wire, Xdp, rx_cursor, tx_cursor};

/// What can be seen of a run from outside.
#[derive(PartialEq, Debug)]
struct Seen {
    sent: Vec<Vec<u8>>,
    codes: Vec<u32>,
    received: RxCursor,
    transmitted: TxCursor,
    counted: Vec<u64>,
}

/// Memory of a launch, and what it runs on.
struct Stage {
    executor: CpuExecutor,
    arena: Arc<Arena>,
    counters: DeviceAddress,
}

impl Stage {
    fn new(backend: Backend) -> Self {
        let executor = CpuExecutor::builder()
            .idle(IdlePolicy::POLITE)
            .backend(backend)
            .build()
            .expect("builds");
        let arena = Arc::new(Arena::new(1 << 20, Location::Device).expect("maps"));
        let counters = arena.allocate(4096, 128).expect("fits").address;
        Self {
            executor,
            arena,
            counters,
        }
    }

    fn place<T: Copy + Send + 'static>(&self, value: T) -> DeviceAddress {
        self.arena.place(value).expect("fits").address
    }

    /// Runs a kernel until its turns are over; what it returned.
    fn run(&self, kernel: &str, block: DeviceAddress, layout: u64) -> u32 {
        let kit = Kit::built_in();
        let row = kit.kernel(kernel).expect("is in the table");
        // SAFETY: the caller placed such a block in the arena; the queues that it names are a
        // wire's, which lives until the end of the test and is driven by nobody else meanwhile.
        let parameters = unsafe { Parameters::new(block, layout, vec![Arc::clone(&self.arena)]) };
        let launch = self.executor.launch(row, Grid::ONE, parameters);
        let report = launch.expect("launches").join(PATIENCE).expect("ends");
        match report.warps[0].exit {
            Exit::Returned(code) => code,
            other => panic!("{kernel} ended by {other:?}"),
        }
    }

    fn word(&self, offset: usize) -> u64 {
        let mut bytes = [0; 8];
        let read = self
            .arena
            .read(self.counters.offset(offset as u64), &mut bytes);
        read.expect("inside");
        u64::from_ne_bytes(bytes)
    }

    fn words(&self, first: usize, count: usize) -> Vec<u64> {
        (0..count)
            .map(|place| self.word(first + place * 8))
            .collect()
    }
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

fn seen<W: Wire>(mut wire: W, mut sent: Vec<Vec<u8>>, codes: Vec<u32>, counted: Vec<u64>) -> Seen {
    while let Some(frame) = wire.take() {
        sent.push(frame);
    }
    wire.check_untouched();
    Seen {
        sent,
        codes,
        received: rx_cursor(&wire),
        transmitted: tx_cursor(&wire),
        counted,
    }
}

fn steering(turns: u64) -> Steering {
    Steering {
        turns,
        ..Steering::default()
    }
}

fn measure<W: Wire>(kernel: &str, backend: Backend, seed: u64) -> Seen {
    let mut dice = Dice::new(seed);
    let mut wire = W::new(DEPTH, STARTS[dice.below(4) as usize]);
    let stage = Stage::new(backend);
    let frames = frames();
    let (mut sent, mut codes) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        for _ in 0..dice.below(50) {
            let frame = &frames[dice.below(frames.len() as u64) as usize];
            if wire.slots_for(frame.len()) > 0 {
                wire.deliver(frame);
            }
        }
        let port = stage.place(MeasurePort {
            receive: wire.rx_block(),
            transmit: wire.tx_block(),
            counters: stage.counters,
        });
        let block = stage.place(MeasureParameters {
            header: MeasureParameters::HEADER,
            steering: steering(1 + dice.below(4)),
            ports: port,
            port_count: 1,
            batch: 1 + dice.below(64) as u32,
        });
        codes.push(stage.run(kernel, block, MeasureParameters::LAYOUT));
        take_some(&mut wire, &mut dice, &mut sent);
    }
    let kinds = offset_of!(MeasureCounters, turns) - offset_of!(MeasureCounters, received);
    let counted = stage.words(offset_of!(MeasureCounters, received), kinds / 8);
    seen(wire, sent, codes, counted)
}

fn transmit<W: Wire>(kernel: &str, backend: Backend, seed: u64) -> Seen {
    let mut dice = Dice::new(seed);
    let mut wire = W::new(DEPTH, STARTS[dice.below(4) as usize]);
    let stage = Stage::new(backend);
    let (mut sent, mut codes) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        let most = (wire.slot_bytes() as u32).min(333);
        // Now and then one that fits no slot: it cuts its batch and ends the kernel.
        let long = match dice.below(8) {
            0 => TEMPLATE_BYTES as u32,
            _ => most,
        };
        let templates = [60, 64, long].map(|length| template(length, &mut dice));
        let port = stage.place(TransmitPort {
            transmit: wire.tx_block(),
            counters: stage.counters,
        });
        let block = stage.place(TransmitParameters {
            header: TransmitParameters::HEADER,
            steering: steering(1 + dice.below(6)),
            ports: port,
            port_count: 1,
            template_count: templates.len() as u32,
            templates: stage.place(templates),
            frames: 1 + dice.below(100),
            rate: 0,
            batch: 1 + dice.below(64) as u32,
            reserved: 0,
        });
        codes.push(stage.run(kernel, block, TransmitParameters::LAYOUT));
        take_some(&mut wire, &mut dice, &mut sent);
    }
    let counted = stage.words(offset_of!(TransmitCounters, templates), 3);
    seen(wire, sent, codes, counted)
}

fn template(length: u32, dice: &mut Dice) -> Template {
    Template {
        length,
        flows: 1 + dice.below(9) as u32,
        vary_at: 34,
        checksum_at: 40,
        reserved: [0; 28],
        bytes: [0; TEMPLATE_BYTES].map(|_: u8| dice.below(256) as u8),
    }
}

/// Frames of every kind, some of them malformed.
fn frames() -> Vec<Vec<u8>> {
    let lines = include_str!("../../../pipelines/core/testdata/frames.hex").lines();
    let lines = lines.filter(|line| !line.starts_with('#') && !line.is_empty());
    let bytes = |text: &str| -> Vec<u8> {
        let pairs = (0..text.len() / 2).map(|place| &text[place * 2..place * 2 + 2]);
        pairs
            .map(|pair| u8::from_str_radix(pair, 16).expect("digits"))
            .collect()
    };
    lines
        .map(|line| bytes(line.split_whitespace().last().expect("bytes")))
        .collect()
}

fn check<W: Wire>(word: &str) {
    type Run = fn(&str, Backend, u64) -> Seen;
    let kernels: [(&str, Run); 3] = [
        ("receive_count", measure::<W>),
        ("mac_swap", measure::<W>),
        ("transmit", transmit::<W>),
    ];
    for (kernel, run) in kernels {
        let name = format!("{kernel}_{word}");
        let mut busy = 0;
        for seed in 0..SEEDS {
            let one = run(&name, Backend::Scalar, seed);
            let many = run(&name, Backend::Lockstep { seed }, seed);
            assert_eq!(many, one, "{name}, seed {seed}");
            let fine = |code: &u32| *code == 0 || *code == Cause::FrameTooLong as u32;
            assert!(one.codes.iter().all(fine), "{name}: {:?}", one.codes);
            busy += one.received.frames + one.transmitted.frames;
        }
        assert!(busy > 20 * SEEDS, "{name} did next to nothing");
    }
}

#[test]
fn memif_client() {
    check::<Memif<Client>>("memif_client");
}

#[test]
fn memif_server() {
    check::<Memif<Server>>("memif_server");
}

#[test]
fn xdp() {
    check::<Xdp>("xdp");
}

#[test]
fn mlx5() {
    check::<Mlx5<1>>("mlx5");
}

#[test]
fn mlx5_scattered() {
    check::<Mlx5<4>>("mlx5");
}

const DEPTH: u32 = 64;
const SEEDS: u64 = 64;
/// Long enough for anything that ends at all.
const PATIENCE: Duration = Duration::from_secs(60);
