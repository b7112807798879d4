//! The kernels that measure the machine: what they count is the same everywhere, but for time.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpwire_core::block::{Header, Parameters, Steering};
use warpwire_core::kernels::{DESCRIPTOR_WORDS, entries};
use warpwire_core::kernels::{SweepCounters, SweepParameters};
use warpwire_core::kernels::{TimingCounters, TimingParameters, TimingPort};
use warpwire_device::KernelRow;
use warpwire_gpu::{Arena, Service};
use warpwire_nic::soft::Dice;
use warpwire_ring::DeviceAddress;

use super::blocks::{Wrong, refuse};
use super::plain::frames;
use super::seen::Seen;
use super::{Case, Machine};
use crate::stage::Stage;

/// The comparisons of an entry point, if it is one of these kernels.
pub(super) fn cases(name: &str) -> Vec<Case> {
    let Some(row) = entries::gauges().iter().find(|row| row.name == name) else {
        return Vec::new();
    };
    let run: Option<Run> = match name {
        "gauge_clock" => Some(clock),
        "gauge_publish" => Some(publish),
        "gauge_parse" | "gauge_icrc" => Some(sweep),
        _ => None,
    };
    let case = |run: Run| {
        Case::new(row.name, "memory", move |machine, seed| {
            let cpu = run(row, &Machine::SCALAR, seed);
            let (cpu, looked) = cpu.map_err(|error| format!("on the CPU: {error}"))?;
            let (found, _) = run(row, machine, seed)?;
            found.compare(&cpu)?;
            Ok(looked)
        })
    };
    run.map(case).into_iter().collect()
}

/// What was seen, and how many frames or samples were taken.
type Run = fn(&KernelRow, &Machine, u64) -> Result<(Seen, u64), String>;

fn sweep(row: &KernelRow, machine: &Machine, seed: u64) -> Result<(Seen, u64), String> {
    let mut dice = Dice::new(seed);
    let ready = machine.ready(seed)?;
    let stage = Stage::new(Vec::new());
    let all = frames();
    let frame_count = 1 + dice.below(100) as u32;
    let slots = stage.cut(frame_count as usize * STRIDE);
    let mut lengths = Vec::new();
    for place in 0..u64::from(frame_count) {
        let mut frame = all[dice.below(all.len() as u64) as usize].clone();
        // Some are broken, and some are longer than their slot: they are left out.
        if dice.below(4) == 0 {
            let byte = dice.below(frame.len() as u64) as usize;
            frame[byte] ^= 1 << dice.below(8);
        }
        lengths.push(match dice.below(30) {
            0 => STRIDE as u32 + 1,
            _ => frame.len() as u32,
        });
        stage.write(slots.offset(place * STRIDE as u64), &frame);
    }
    let counters = stage.cut(size_of::<SweepCounters>());
    let mut block = SweepParameters {
        header: SweepParameters::HEADER,
        steering: Steering::default(),
        frames: slots,
        lengths: stage.place_all(&lengths),
        counters,
        frame_count,
        stride: STRIDE as u32,
        rows: dice.below(3) as u32,
        laps: 1 + dice.below(3) as u32,
        block_count: 1,
        reserved: 0,
    };
    let header: fn(&mut SweepParameters) -> &mut Header = |block| &mut block.header;
    refuse(&ready, row, &stage, block, header, WRONG_SWEEPS)?;
    block.steering.heartbeats = stage.heartbeat;
    let mut seen = Seen::default();
    // Some slices end before all is done.
    for turns in [1 + dice.below(4), 1 + dice.below(4), 100] {
        block.steering.turns = turns;
        ready.run(stage.job::<SweepParameters>(row, stage.place(block)))?;
        seen.fact("cause", stage.take_cause());
        let mut counted = stage.words(counters, size_of::<SweepCounters>());
        counted[offset_of!(SweepCounters, started_ns) / 8] = 0;
        counted[offset_of!(SweepCounters, ended_ns) / 8] = 0;
        seen.counts("counter", counted);
    }
    let total = stage.words(counters, size_of::<SweepCounters>());
    let looked = [
        offset_of!(SweepCounters, good),
        offset_of!(SweepCounters, bad),
    ];
    Ok((seen, looked.map(|offset| total[offset / 8]).iter().sum()))
}

/// Takes samples in slices; what was counted but for time.
fn samples(
    row: &KernelRow,
    machine: &Machine,
    seed: u64,
    (sample_count, turns): (u32, [u64; 2]),
    answers: bool,
) -> Result<(Seen, u64), String> {
    let ready = machine.ready(seed)?;
    let stage = Stage::new(Vec::new());
    let port = TimingPort {
        samples: stage.cut(sample_count as usize * 8),
        counters: stage.cut(size_of::<TimingCounters>()),
        descriptor: stage.cut(DESCRIPTOR_WORDS as usize * 4),
        doorbell: stage.cut(4),
        completion: stage.cut(4),
        // A peer in real time may be kept waiting itself.
        timeout_ns: if answers { 5_000_000_000 } else { 1_000_000 },
        sample_count,
        reserved: 0,
    };
    let mut block = TimingParameters {
        header: TimingParameters::HEADER,
        steering: Steering::default(),
        ports: stage.place(port),
        port_count: 1,
        reserved: 0,
    };
    let header: fn(&mut TimingParameters) -> &mut Header = |block| &mut block.header;
    refuse(&ready, row, &stage, block, header, WRONG_TIMINGS)?;
    if answers {
        ready.serve(Box::new(Answerer {
            arena: Arc::clone(&stage.arena),
            doorbell: port.doorbell,
            completion: port.completion,
        }))?;
    }
    block.steering.heartbeats = stage.heartbeat;
    let mut seen = Seen::default();
    for turns in turns {
        block.steering.turns = turns;
        ready.run(stage.job::<TimingParameters>(row, stage.place(block)))?;
        seen.fact("cause", stage.take_cause());
        let mut counted = stage.words(port.counters, size_of::<TimingCounters>());
        counted[offset_of!(TimingCounters, elapsed_ns) / 8] = 0;
        counted[offset_of!(TimingCounters, elapsed_cycles) / 8] = 0;
        seen.counts("counter", counted);
        seen.fact("descriptor", stage.words(port.descriptor, 64));
        seen.fact("doorbell", stage.half_word(port.doorbell));
    }
    let counted = stage.words(port.counters, size_of::<TimingCounters>());
    Ok((seen, counted[offset_of!(TimingCounters, taken) / 8]))
}

fn clock(row: &KernelRow, machine: &Machine, seed: u64) -> Result<(Seen, u64), String> {
    let mut dice = Dice::new(seed);
    let count = 20 + dice.below(3) as u32;
    samples(row, machine, seed, (count, [1 + dice.below(20), 50]), false)
}

/// With a peer that answers; and with none, until the deadline.
fn publish(row: &KernelRow, machine: &Machine, seed: u64) -> Result<(Seen, u64), String> {
    let mut dice = Dice::new(seed);
    let count = 20 + dice.below(20) as u32;
    let turns = [1 + dice.below(20), 50];
    let answered = samples(row, machine, seed, (count, turns), true)?;
    let (alone, taken) = samples(row, machine, seed, (count, turns), false)?;
    let (mut seen, count) = answered;
    seen.fact("without a peer", alone);
    seen.fact("samples without a peer", taken);
    Ok((seen, count))
}

/// The peer of a kernel that publishes: what the doorbell says is done.
#[derive(Debug)]
struct Answerer {
    arena: Arc<Arena>,
    doorbell: DeviceAddress,
    completion: DeviceAddress,
}

impl Service for Answerer {
    fn name(&self) -> &str {
        "answerer"
    }

    fn run(&mut self, _budget: u32) -> u32 {
        let word = |address| self.arena.half_word(address).expect("inside");
        let rung = word(self.doorbell).load(Ordering::Acquire);
        let before = word(self.completion).swap(rung, Ordering::AcqRel);
        u32::from(before != rung)
    }
}

const WRONG_SWEEPS: &[Wrong<SweepParameters>] = &[
    ("no frames", |block| block.frames = DeviceAddress::NULL),
    ("no lengths", |block| block.lengths = DeviceAddress::NULL),
    ("no counters", |block| block.counters = DeviceAddress::NULL),
    ("an odd stride", |block| block.stride += 8),
    ("a count of no blocks", |block| block.block_count = 0),
];
const WRONG_TIMINGS: &[Wrong<TimingParameters>] = &[
    ("no ports", |block| block.ports = DeviceAddress::NULL),
    ("a count of no ports", |block| block.port_count = 0),
];
const STRIDE: usize = 2048;
