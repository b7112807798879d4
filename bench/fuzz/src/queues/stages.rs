//! The pipeline kernel over arbitrary programs and hostile frames: it ends, and every frame that it
//! received was sent or is counted with a reason.
#![expect(
    unsafe_code,
    reason = "owns all memory that the kernel is launched with"
)]

use std::iter::from_fn;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpwire_core::block::{
    Block, BlockCounters, PARTIAL_CHECKSUMS, Parameters, PipelineParameters, Port, PortCounters,
    Steering,
};
use warpwire_core::kernels::entries;
use warpwire_core::program::{ARGS_BYTES, MAX_NICS, Op, Program};
use warpwire_core::rule::{Looks, Prefix, Rule, Within};
use warpwire_core::sample::SLOT_BYTES;
use warpwire_core::spec::{PackedAddress, Span};
use warpwire_core::stage::StageSet;
use warpwire_core::stages::BuiltIn;
use warpwire_device::{CopyBlock, KernelRow, Scalar, VERDICT_OFFSET};
use warpwire_gpu::Arena;
use warpwire_gpu::executor::Parameters as Promised;
use warpwire_ring::{DeviceAddress, Location, RxCursor, TxCursor};

use super::desk::Desk;
use super::wires::{Client, Memif, Mlx5, Server, Wire, Xdp, rx_cursor, tx_cursor};
use crate::choices::Choices;
use crate::job::{Job, Run};

/// The bytes are a format, a program, then frames.
pub fn check(data: &[u8]) {
    if let Some(format) = Choices::new(data).below(3) {
        let _ = outcome(WIRES[format as usize], data, &alone);
    }
}

/// Queues that a program can be run over: the kernel's name, and what is special about the queues.
pub const WIRES: [(&str, &str); 5] = [
    ("pipeline_memif_client", ""),
    ("pipeline_xdp", ""),
    ("pipeline_mlx5", ""),
    ("pipeline_memif_server", ""),
    ("pipeline_mlx5", "scattered"),
];

/// What can be seen of a run from outside.
#[derive(Debug)]
pub struct Seen {
    /// Frames that were sent.
    pub sent: Vec<Vec<u8>>,
    /// Where the receive queue stands.
    pub received: RxCursor,
    /// Where the transmit queue stands.
    pub transmitted: TxCursor,
    /// The counters of all operations.
    pub counters: Vec<u64>,
    /// The counters of the port, then those of the block.
    pub counted: Vec<u64>,
    /// Samples written, and frames that were looked at.
    pub samples: (u32, u64),
    /// The memory of the queues.
    pub queues: Arc<Arena>,
}

/// What comes of a program over queues of one of [`WIRES`]; nothing if the bytes are none.
///
/// # Panics
/// If a frame is lost, a sound NIC is blamed, memory beside a queue was written, or the kernel did
/// not end by itself.
pub fn outcome(wire: (&str, &str), data: &[u8], run: &Run<'_>) -> Option<Seen> {
    let mut choices = Choices::new(data);
    choices.byte()?;
    let row = entries::pipelines().iter().find(|row| row.name == wire.0);
    let row = row.expect("is a kernel");
    match wire {
        ("pipeline_memif_client", _) => outcome_over::<Memif<Client>>(row, choices, run),
        ("pipeline_memif_server", _) => outcome_over::<Memif<Server>>(row, choices, run),
        ("pipeline_xdp", _) => outcome_over::<Xdp>(row, choices, run),
        (_, "scattered") => outcome_over::<Mlx5<4>>(row, choices, run),
        _ => outcome_over::<Mlx5<1>>(row, choices, run),
    }
}

fn outcome_over<W: Wire>(row: &KernelRow, mut choices: Choices<'_>, run: &Run) -> Option<Seen> {
    let mut wire = W::new(DEPTH, 0);
    let tables = Tables::read(&mut choices)?;
    let mut received = 0;
    while let Some(length) = choices.below(256) {
        let frame = choices.bytes(length as usize);
        let fits = !frame.is_empty() && wire.slots_for(frame.len()) > 0;
        if fits && wire.deliver(frame) {
            received += 1;
        }
    }
    let stage = tables.lay_out(&wire);
    run(stage.job(row)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(stage.cause(), 0, "the number of what ended the kernel");
    let sent: Vec<Vec<u8>> = from_fn(|| wire.take()).collect();
    let counted = stage.words(stage.port_counters, PortCounters::ENTRIES);
    let dropped: u64 = counted.iter().take(DROPS).sum();
    let left = sent.len() as u64 + dropped;
    assert_eq!(received, left, "a frame is lost and not counted");
    assert_eq!(
        counted.get(CAUSES..CAUSES + 2),
        Some(&[0, 0][..]),
        "a sound NIC is blamed"
    );
    wire.check_untouched();
    let block_counters = stage.words(stage.block_counters, BlockCounters::ENTRIES);
    Some(Seen {
        sent,
        received: rx_cursor(&wire),
        transmitted: tx_cursor(&wire),
        counters: stage.words(stage.counters, stage.counter_count),
        counted: [counted, block_counters].concat(),
        samples: stage.samples(),
        queues: Arc::clone(&stage.queues),
    })
}

/// All that the kernel reads but for the queues.
struct Tables {
    ops: Vec<Op>,
    rules: Vec<Rule>,
    addresses: [PackedAddress; 2],
    outputs: [Span; MAX_NICS],
    flags: u16,
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
            addresses: [own, other],
            outputs: [outputs; MAX_NICS],
            flags,
        })
    }

    /// Puts everything where a kernel can reach it.
    fn lay_out(mut self, wire: &impl Wire) -> Stage {
        let counter_count: u32 = self.ops.iter().map(counter_entries).sum();
        let bytes = (64 << 10) + counter_count as usize * 8;
        let arena = Arena::new(bytes, Location::PageableHost).expect("memory can be had");
        let cut = |bytes: usize| arena.allocate(bytes as u64, 128).expect("fits").address;
        let counters = cut(counter_count as usize * 8);
        let heartbeat = cut(128);
        let (port_counters, block_counters) = (
            cut(size_of::<PortCounters>()),
            cut(size_of::<BlockCounters>()),
        );
        let samples = place(
            &arena,
            CopyBlock {
                depth: SAMPLES as u32,
                slots: cut(SAMPLES * SLOT_BYTES as usize),
                slot_bytes: SLOT_BYTES,
                ..CopyBlock::default()
            },
        );
        let mut next = counters;
        for op in &mut self.ops {
            op.counter_count = counter_entries(op);
            op.counters = next;
            next = next.offset(u64::from(op.counter_count) * 8);
            if !op.samples.is_null() {
                op.samples = samples;
            }
        }
        let port = Port {
            receive: wire.rx_block(),
            transmit: wire.tx_block(),
            program: Program {
                ops: place_all(&arena, &self.ops),
                rules: place_all(&arena, &self.rules),
                addresses: place_all(&arena, &self.addresses),
                op_count: self.ops.len() as u32,
                rule_count: self.rules.len() as u32,
                address_count: self.addresses.len() as u32,
                reserved: 0,
            },
            counters: port_counters,
            mac: [2, 0, 0, 0, 0, 1],
            flags: self.flags,
            nic: 0,
            queue: 0,
        };
        let block = Block {
            ports: place(&arena, port),
            counters: block_counters,
            near: 1,
            far: 0,
            outputs: self.outputs,
        };
        let parameters = PipelineParameters {
            header: PipelineParameters::HEADER,
            steering: Steering {
                turns: TURNS,
                heartbeats: heartbeat,
                ..Steering::default()
            },
            stages: BuiltIn::LAYOUT,
            blocks: place(&arena, block),
            block_count: 1,
            reserved: 0,
        };
        Stage {
            heartbeat,
            parameters: place(&arena, parameters),
            counters,
            counter_count,
            port_counters,
            block_counters,
            sample_ring: samples,
            queues: Arc::clone(&wire.pages().ground.0),
            arena: Arc::new(arena),
        }
    }
}

fn place<T: Copy>(arena: &Arena, value: T) -> DeviceAddress {
    arena.place(value).expect("fits").address
}

fn place_all<T: Copy>(arena: &Arena, values: &[T]) -> DeviceAddress {
    arena.place_all(values).expect("fits").address
}

/// The memory of a launch: everything that the kernel reads and writes.
struct Stage {
    arena: Arc<Arena>,
    queues: Arc<Arena>,
    parameters: DeviceAddress,
    heartbeat: DeviceAddress,
    counters: DeviceAddress,
    counter_count: u32,
    port_counters: DeviceAddress,
    block_counters: DeviceAddress,
    sample_ring: DeviceAddress,
}

impl Stage {
    fn job<'a>(&self, row: &'a KernelRow) -> Job<'a> {
        let memory = vec![Arc::clone(&self.arena), Arc::clone(&self.queues)];
        // SAFETY: the block was laid out in these arenas with all that it points to; nobody else
        // drives the wire's queues.
        let parameters =
            unsafe { Promised::new(self.parameters, PipelineParameters::LAYOUT, memory) };
        Job {
            row,
            block: self.parameters,
            parameters,
        }
    }

    fn words(&self, first: DeviceAddress, count: u32) -> Vec<u64> {
        let mut bytes = vec![0; count as usize * 8];
        self.arena.read(first, &mut bytes).expect("inside");
        let words = bytes.as_chunks::<8>().0.iter();
        words.map(|word| u64::from_ne_bytes(*word)).collect()
    }

    fn cause(&self) -> u32 {
        let word = self.arena.half_word(self.heartbeat.offset(VERDICT_OFFSET));
        word.expect("inside").load(Ordering::Relaxed)
    }

    fn samples(&self) -> (u32, u64) {
        let at = |offset: usize| self.sample_ring.offset(offset as u64);
        let mut written = [0; 4];
        let read = self
            .arena
            .read(at(offset_of!(CopyBlock, written)), &mut written);
        read.expect("inside");
        let seen = self.words(at(offset_of!(CopyBlock, offered)), 1);
        (u32::from_ne_bytes(written), seen[0])
    }
}

/// Runs a kernel here and now, one lane wide.
fn alone(job: Job<'_>) -> Result<Option<u32>, String> {
    let desk = Desk::new();
    // SAFETY: the job's promise; its memory lives until the end of this function.
    let code = unsafe { (job.row.scalar)(&Scalar::new(&desk), job.block) };
    Ok(Some(code))
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

/// Where drops end and causes begin in the port's counters.
const DROPS: usize = offset_of!(PortCounters, checksums_completed) / 8;
const CAUSES: usize = offset_of!(PortCounters, receive_cause) / 8;
const DEPTH: u32 = 32;
/// Enough for all frames, of which a turn takes many.
const TURNS: u64 = 40;
const SAMPLES: usize = 4;
