//! The transport's kernels in steady state: two engines, one of which writes to the other's memory.
//! Each is counted alone: what the one that asks does, and what the one that is asked does.

use std::sync::Arc;

use warpwire_core::kernels::entries;
use warpwire_device::KernelRow;
use warpwire_gpu::Arena;
use warpwire_protocols::rdma::{Attributes, Mtu, Start};
use warpwire_protocols::wire::bth::{Psn, Qpn};
use warpwire_ring::Location;
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Order, Payload};

use super::runs::{Counts, FEW, MANY, Subject, expect, steady};
use super::{MESSAGE_BATCH, Spans};
use crate::ends::{End, KEY, path};
use crate::machine::{Machine, Ready};
use crate::wires::{Client, Memif, Mlx5, Server, Wire};

/// Both ends over each kind of queues that has slots for the largest packets.
pub(super) fn subjects() -> Vec<Subject> {
    macro_rules! rows {
        ($kernel:literal, $over:literal, $wire:ty) => {
            [
                Subject {
                    kernel: $kernel,
                    over: concat!($over, ", asking"),
                    run: count::<$wire, ASKING>,
                },
                Subject {
                    kernel: $kernel,
                    over: concat!($over, ", asked"),
                    run: count::<$wire, ASKED>,
                },
            ]
        };
    }
    [
        rows!("transport_mlx5", "mlx5", Mlx5<1>),
        rows!("transport_memif_client", "memif client", Memif<Client>),
        rows!("transport_memif_server", "memif server", Memif<Server>),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Which end is counted.
const ASKING: usize = 0;
const ASKED: usize = 1;

/// Counts one end for writes of `length` bytes.
fn count<W: Wire, const COUNTED: usize>(
    kernel: &str,
    machine: &Machine,
    length: u32,
    counts: &Counts<'_>,
) -> Result<Spans, String> {
    let row = entries::transports().iter().find(|row| row.name == kernel);
    let row = row.ok_or_else(|| "there is no such kernel".to_owned())?;
    // The other end runs on the CPU, and is not counted.
    let other = Machine::SCALAR;
    let machines = match COUNTED {
        ASKING => [machine, &other],
        _ => [&other, machine],
    };
    let mut pair = Two::<W>::new(row, machines)?;
    let spans = steady(counts, |many| {
        let turns = if many { MANY } else { FEW };
        pair.write(length, turns)
    })?;
    Ok(Spans {
        packets: spans.packets / u64::from(super::BATCH) * u64::from(MESSAGE_BATCH),
        ..spans
    })
}

/// Two ends, each on its own machine.
struct Two<W> {
    ends: [End<W>; 2],
    ready: [Ready; 2],
}

impl<W: Wire> Two<W> {
    fn new(row: &'static KernelRow, machines: [&Machine; 2]) -> Result<Self, String> {
        let memory = Arena::new(MEMORY, Location::PageableHost);
        let memory = Arc::new(memory.map_err(|error| error.to_string())?);
        let end = |place: u32| {
            let wire = W::with_slots(DEPTH, 0, SLOT);
            End::new(row, wire, &memory, LOG_QUEUE, 1, 0x1100 + (place << 4))
        };
        let [one, other] = machines.map(|machine| machine.ready(0));
        let mut two = Self {
            ends: [end(0)?, end(1)?],
            ready: [one?, other?],
        };
        let numbers = [0, 1].map(|place: usize| two.ends[place].pairs[0].places.number());
        for place in [0, 1] {
            let peer = 1 - place;
            let attributes = Attributes {
                mtu: Mtu::M4096,
                timeout: 0,
                window: WINDOW,
                remote_qp: Qpn::new(numbers[peer]),
                ..Attributes::default()
            };
            let start = Start {
                send: Psn::new(0),
                receive: Psn::new(0),
            };
            let connection = (attributes, start, path(place as u8, peer as u8, 4));
            two.ends[place].connect(&two.ready[place], 0, connection)?;
        }
        Ok(two)
    }

    /// A batch of messages for every turn of a launch of each end, and their acknowledgements. Each
    /// message is told of when it is done.
    fn write(&mut self, length: u32, turns: u64) -> Result<(), String> {
        let messages = turns * u64::from(MESSAGE_BATCH);
        let [one, other] = &mut self.ends;
        let order = Order {
            address: other.memory.whole().address.value() + u64::from(SLOT),
            key: KEY,
            ..Order::new(Opcode::WRITE)
        };
        let source = [one.gather(0, length)];
        for _ in 0..messages {
            let posted = one.pairs[0].sends.write(&order, Payload::Pieces(&source));
            posted.map_err(|cause| format!("post: {cause:?}"))?;
        }
        one.pairs[0].sends.publish();
        for place in [0, 1] {
            let cause = self.ends[place].run(&self.ready[place], turns)?;
            expect("a cause", cause.into(), 0)?;
            let sent = self.carry(place)?;
            let wanted = if place == ASKING { messages } else { turns };
            expect("packets", sent, wanted)?;
        }
        // One turn takes all acknowledgements, however many there are.
        let [one, _] = &mut self.ends;
        let cause = one.run(&self.ready[0], 1)?;
        expect("a cause", cause.into(), 0)?;
        let completed = std::iter::from_fn(|| one.pairs[0].poll()).count() as u64;
        expect("completions", completed, messages)
    }

    /// Brings what an end sent to the other.
    fn carry(&mut self, place: usize) -> Result<u64, String> {
        let mut frames = 0;
        while let Some(frame) = self.ends[place].wire.take() {
            if !self.ends[1 - place].wire.deliver(&frame) {
                return Err("the queue takes no more".to_owned());
            }
            frames += 1;
        }
        while self.ends[place].wire.complete() {}
        Ok(frames)
    }
}

/// Slots of a queue, and of a work queue: for the most messages between two launches.
const DEPTH: u32 = 512;
const LOG_QUEUE: u32 = 10;
const WINDOW: u16 = 2048;
/// Bytes of a slot: for the largest packets.
const SLOT: u32 = 8192;
const MEMORY: usize = 16 << 10;
