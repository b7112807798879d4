//! The pipeline kernel over arbitrary programs and hostile frames: it ends, and every frame that it
//! received was sent or is counted with a reason.
#![expect(
    unsafe_code,
    reason = "owns all memory that the kernel is launched with"
)]

use std::iter::from_fn;
use std::time::Duration;

use warpwire_core::block::{
    Block, BlockCounters, PARTIAL_CHECKSUMS, Parameters, PipelineParameters, Port, PortCounters,
    Steering,
};
use warpwire_core::format::{self, RingFormat};
use warpwire_core::kernel::{Kernel, row};
use warpwire_core::kernels::Pipeline;
use warpwire_core::program::{ARGS_BYTES, MAX_NICS, Op, Program};
use warpwire_core::rule::{Looks, Prefix, Rule, Within};
use warpwire_core::sample::{RingBlock, SLOT_BYTES};
use warpwire_core::spec::{PackedAddress, Span};
use warpwire_core::stage::StageSet;
use warpwire_core::stages::BuiltIn;
use warpwire_device::{KernelRow, Scalar};
use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::{Backend, Grid, IdlePolicy, Parameters as Promised};
use warpwire_ring::DeviceAddress;

use super::desk::Desk;
use super::wires::{Client, Memif, Mlx5, Server, Wire, Xdp};
use crate::choices::Choices;

/// The bytes are a format, a program, then frames.
pub fn check(data: &[u8]) {
    let mut choices = Choices::new(data);
    if let Some(format) = choices.below(3) {
        let _ = outcome(format, choices, Width::One);
    }
}

/// The same program over the same frames and queues of every format, one lane wide and 32 lanes
/// wide in an order that `seed` decides. Says whether the bytes are a program.
pub fn check_widths(data: &[u8], seed: u64) -> bool {
    let mut choices = Choices::new(data);
    let mut is_program = choices.below(3).is_some();
    for format in 0..4 {
        let one = outcome(format, choices.clone(), Width::One);
        let many = outcome(format, choices.clone(), Width::Warp { seed });
        assert_eq!(many, one, "format {format}, seed {seed}");
        is_program &= one.is_some();
    }
    is_program
}

/// How many lanes run the kernel.
#[derive(Clone, Copy)]
enum Width {
    One,
    Warp { seed: u64 },
}

/// What can be seen of a run from outside.
#[derive(PartialEq, Debug)]
struct Seen {
    sent: Vec<Vec<u8>>,
    dropped: Vec<u64>,
    counters: Vec<u64>,
    /// Samples written, and frames that were looked at.
    samples: (u32, u64),
}

fn outcome(format: u32, choices: Choices<'_>, width: Width) -> Option<Seen> {
    match format {
        0 => run::<Memif<Client>, format::MemifClient>(choices, width),
        1 => run::<Xdp, format::Xdp>(choices, width),
        2 => run::<Mlx5<1>, format::Mlx5>(choices, width),
        _ => run::<Memif<Server>, format::MemifServer>(choices, width),
    }
}

fn run<W, F>(mut choices: Choices<'_>, width: Width) -> Option<Seen>
where
    W: Wire,
    F: RingFormat<Receive = W::Rx, Transmit = W::Tx>,
{
    let mut wire = W::new(DEPTH, 0);
    let mut tables = Tables::read(&mut choices)?;
    let mut received = 0;
    while let Some(length) = choices.below(256) {
        let frame = choices.bytes(length as usize);
        let fits = !frame.is_empty() && wire.slots_for(frame.len()) > 0;
        if fits && wire.deliver(frame) {
            received += 1;
        }
    }
    tables.launch::<W, F>(&wire, width);
    let sent: Vec<Vec<u8>> = from_fn(|| wire.take()).collect();
    let dropped: u64 = tables.port_counters.drops.iter().sum();
    let left = sent.len() as u64 + dropped;
    assert_eq!(received, left, "a frame is lost and not counted");
    let causes = (
        tables.port_counters.receive_cause,
        tables.port_counters.transmit_cause,
    );
    assert_eq!(causes, (0, 0), "a sound NIC is blamed");
    wire.check_untouched();
    Some(Seen {
        sent,
        dropped: tables.port_counters.drops.to_vec(),
        counters: tables.counters,
        samples: (tables.ring.written, tables.ring.seen),
    })
}

/// All that the kernel reads and writes but for the queues.
struct Tables {
    ops: Vec<Op>,
    rules: Vec<Rule>,
    addresses: Vec<PackedAddress>,
    outputs: [Span; MAX_NICS],
    flags: u16,
    /// Counters of all operations.
    counters: Vec<u64>,
    port_counters: Box<PortCounters>,
    block_counters: Box<BlockCounters>,
    ring: Box<RingBlock>,
    samples: Vec<u128>,
}

impl Tables {
    fn read(choices: &mut Choices<'_>) -> Option<Self> {
        let flags = u16::from(choices.byte()?) & PARTIAL_CHECKSUMS;
        let outputs = Span {
            first: choices.below(3)?,
            count: choices.below(4)?,
        };
        let rule_count = choices.below(6)?;
        let rules = from_fn(|| rule(choices)).take(rule_count as usize);
        let rules: Vec<Rule> = rules.collect();
        let op_count = choices.below(9)?;
        let ops = from_fn(|| op(choices)).take(op_count as usize);
        let ops: Vec<Op> = ops.collect();
        if ops.is_empty() {
            // A port without operations is not received from.
            return None;
        }
        let entries: u32 = ops.iter().map(counter_entries).sum();
        let own = PackedAddress {
            words: [0x0a00_0001, 0, 0, 0],
            version: 4,
        };
        let other = PackedAddress {
            words: [0xfd00_0000, 0, 0, 1],
            version: 6,
        };
        Some(Self {
            ops,
            rules,
            addresses: vec![own, other],
            outputs: [outputs; MAX_NICS],
            flags,
            counters: vec![0; entries as usize],
            port_counters: Box::default(),
            block_counters: Box::default(),
            ring: Box::default(),
            samples: vec![0; SAMPLES * SLOT_BYTES as usize / 16],
        })
    }

    fn launch<W, F>(&mut self, wire: &W, width: Width)
    where
        W: Wire,
        F: RingFormat<Receive = W::Rx, Transmit = W::Tx>,
    {
        let address = |pointer: *mut u64| DeviceAddress::new(pointer as u64);
        *self.ring = RingBlock {
            depth: SAMPLES as u32,
            slots: address(self.samples.as_mut_ptr().cast()),
            ..RingBlock::default()
        };
        let mut counters = address(self.counters.as_mut_ptr());
        for op in &mut self.ops {
            op.counter_count = counter_entries(op);
            op.counters = counters;
            counters = counters.offset(u64::from(op.counter_count) * 8);
            if !op.samples.is_null() {
                op.samples = address((&raw mut *self.ring).cast());
            }
        }
        let port = Port {
            receive: wire.rx_block(),
            transmit: wire.tx_block(),
            program: Program {
                ops: address(self.ops.as_mut_ptr().cast()),
                rules: address(self.rules.as_mut_ptr().cast()),
                addresses: address(self.addresses.as_mut_ptr().cast()),
                op_count: self.ops.len() as u32,
                rule_count: self.rules.len() as u32,
                address_count: self.addresses.len() as u32,
                reserved: 0,
            },
            counters: address((&raw mut *self.port_counters).cast()),
            mac: [2, 0, 0, 0, 0, 1],
            flags: self.flags,
            nic: 0,
            queue: 0,
        };
        let block = Block {
            ports: DeviceAddress::new(&raw const port as u64),
            counters: address((&raw mut *self.block_counters).cast()),
            near: 1,
            far: 0,
            outputs: self.outputs,
        };
        let mut stop = 0u32;
        let parameters = PipelineParameters {
            header: PipelineParameters::HEADER,
            steering: Steering {
                stop: DeviceAddress::new(&raw mut stop as u64),
                heartbeats: DeviceAddress::NULL,
                turns: TURNS,
            },
            stages: BuiltIn::LAYOUT,
            blocks: DeviceAddress::new(&raw const block as u64),
            block_count: 1,
            reserved: 0,
        };
        match width {
            Width::One => {
                let desk = Desk::new();
                let simt = Scalar::new(&desk);
                // SAFETY: everything that the parameters point to lives until the end of this
                // function, and nobody else drives the wire's queues.
                let ended = unsafe { Pipeline::<BuiltIn, F, F>::run(&simt, &parameters) };
                assert_eq!(ended, Ok(()));
            }
            Width::Warp { seed } => {
                let row = row::<Pipeline<BuiltIn, F, F>>("pipeline");
                let block = DeviceAddress::new(&raw const parameters as u64);
                // SAFETY: as above, and the launch is over before this function is.
                let promised =
                    unsafe { Promised::new(block, PipelineParameters::LAYOUT, Vec::new()) };
                warp(&row, promised, seed);
            }
        }
    }
}

/// Runs a kernel as one warp of 32 lanes to its end.
fn warp(row: &KernelRow, parameters: Promised, seed: u64) {
    let executor = CpuExecutor::builder()
        .idle(IdlePolicy::POLITE)
        .backend(Backend::Lockstep { seed })
        .build()
        .expect("threads can be had");
    let launch = executor.launch(row, Grid::ONE, parameters);
    let report = launch.expect("launches").join(PATIENCE).expect("ends");
    assert_eq!(report.cause(), None);
}

fn counter_entries(op: &Op) -> u32 {
    let spec = BuiltIn::SPECS.get(op.kind as usize);
    spec.map_or(2, |spec| spec.counter_entries())
}

fn op(choices: &mut Choices<'_>) -> Option<Op> {
    // One more than there are, which lets every frame go on.
    let kind = choices.below(BuiltIn::SPECS.len() as u32 + 1)?;
    let when = Span {
        first: choices.below(7)?,
        count: choices.below(4)?,
    };
    let samples = u64::from(choices.byte()? & 1);
    let count = choices.below(ARGS_BYTES as u32 + 1)?;
    let mut bytes = [0; ARGS_BYTES];
    for (to, from) in bytes.iter_mut().zip(choices.bytes(count as usize)) {
        *to = *from;
    }
    let mut args = [0; ARGS_BYTES / 8];
    for (word, bytes) in args.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Some(Op {
        kind,
        when,
        // Filled in at the launch if it is not null.
        samples: DeviceAddress::new(samples),
        args,
        ..Op::default()
    })
}

fn rule(choices: &mut Choices<'_>) -> Option<Rule> {
    let looks = Looks::from_bits_retain(choices.u32()?);
    let kinds = choices.u32()?;
    let range = Within {
        low: choices.u32()?,
        high: choices.u32()?,
    };
    let prefix = Prefix {
        words: [choices.u32()?, 0, 0, choices.u32()?],
        mask: [choices.u32()?, 0, 0, choices.u32()?],
    };
    Some(Rule {
        looks,
        kinds,
        ether_type: range,
        vlan: range,
        protocol: range,
        source_port: range,
        destination_port: range,
        port: range,
        opcode: range,
        qp: range,
        version: choices.below(8)?,
        malformed: u16::from(choices.byte()? & 1),
        fragment: u16::from(choices.byte()? & 1),
        source: prefix,
        destination: prefix,
    })
}

const DEPTH: u32 = 32;
/// Enough for all frames, of which a turn takes many.
const TURNS: u64 = 40;
const SAMPLES: usize = 4;
/// Long enough for any kernel that ends at all.
const PATIENCE: Duration = Duration::from_secs(60);
