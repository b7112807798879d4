//! The transport of messages: an engine whose packets come back to it, so that its queue pairs talk
//! to each other, over a wire that loses, repeats and breaks some of them.
//!
//! The payload of both runs lies in the same memory: its addresses stand in packets.

use std::collections::VecDeque;
use std::sync::Arc;

use warpwire_core::block::Steering;
use warpwire_core::kernels::{TransportParameters, entries};
use warpwire_device::KernelRow;
use warpwire_engine::tables::EngineCounters;
use warpwire_gpu::Arena;
use warpwire_nic::soft::Dice;
use warpwire_protocols::rdma::{Attributes, Mtu, Service, Start};
use warpwire_protocols::wire::bth::{Psn, Qpn};
use warpwire_ring::mlx5::layout::{
    CQE_BYTES, Cqe, DatagramSegment, Opcode, SEGMENT_BYTES, WQEBB_BYTES,
};
use warpwire_ring::mlx5::post::{Gather, Order, Payload};
use warpwire_ring::{DeviceAddress, Location};

use super::blocks::{Wrong, refuse};
use super::plain::{Outcome, broken, outcome};
use super::{Case, Machine};
use crate::ends::{End, KEY, path};
use crate::machine::Ready;
use crate::wires::{Client, Memif, Mlx5, STARTS, Server, Wire, Xdp};

/// The comparisons of an entry point, if it is one of these kernels.
pub(super) fn cases(name: &str) -> Vec<Case> {
    let Some(row) = entries::transports().iter().find(|row| row.name == name) else {
        return Vec::new();
    };
    match name {
        "transport_memif_client" => vec![over::<Memif<Client>>(row, "memif client")],
        "transport_memif_server" => vec![over::<Memif<Server>>(row, "memif server")],
        "transport_xdp" => vec![over::<Xdp>(row, "xdp")],
        "transport_mlx5" => vec![
            over::<Mlx5<1>>(row, "mlx5"),
            over::<Mlx5<4>>(row, "mlx5 scattered"),
        ],
        _ => Vec::new(),
    }
}

fn over<W: Wire>(row: &'static KernelRow, word: &'static str) -> Case {
    Case::new(row.name, word, move |machine, seed| {
        let memory = Arena::new(MEMORY as usize, Location::PageableHost);
        let memory = Arc::new(memory.map_err(|error| error.to_string())?);
        let cpu = Scene::<W>::run(row, &Machine::SCALAR, seed, &memory);
        let cpu = cpu.map_err(|error| format!("on the CPU: {error}"))?;
        let found = Scene::<W>::run(row, machine, seed, &memory)?;
        found.seen.compare(&cpu.seen)?;
        Ok(cpu.frames)
    })
}

/// The engine, and what is under way.
struct Scene<W> {
    end: End<W>,
    dice: Dice,
    way: Way,
    completed: Vec<(usize, Cqe)>,
}

/// The way of frames from an end back to it.
pub(super) struct Way {
    under_way: VecDeque<Vec<u8>>,
    /// Frames that left.
    pub(super) sent: Vec<Vec<u8>>,
    /// Some are lost, repeated or broken.
    pub(super) is_hostile: bool,
}

impl<W: Wire> Scene<W> {
    fn run(
        row: &'static KernelRow,
        machine: &Machine,
        seed: u64,
        memory: &Arc<Arena>,
    ) -> Result<Outcome, String> {
        let ready = machine.ready(seed)?;
        let mut dice = Dice::new(seed);
        let bytes: Vec<u8> = (0..MEMORY).map(|_| dice.below(256) as u8).collect();
        let filled = memory.write(memory.whole().address, &bytes);
        filled.map_err(|error| error.to_string())?;
        let start = STARTS[dice.below(4) as usize];
        let slot = [256, 512][dice.below(2) as usize];
        let mut wire = W::with_slots(DEPTH, start, slot);
        if wire.slots_for(LARGEST_FRAME) == 0 {
            wire = W::with_slots(DEPTH, start, 512);
        }
        let mut end = End::new(row, wire, memory, LOG_QUEUE, PAIRS as u32, NUMBER)?;
        let valid = TransportParameters {
            // What ends a kernel is told beside its heartbeat: here nothing may be written.
            steering: Steering::default(),
            ..end.parameters(1)
        };
        refuse(
            &ready,
            row,
            &end.stage,
            valid,
            |block| &mut block.header,
            WRONG,
        )?;
        connect(&mut end, &ready, &mut dice, &SERVICES)?;
        let mut scene = Self {
            end,
            way: Way::new(dice.below(3) == 0),
            dice,
            completed: Vec::new(),
        };
        let mut causes = Vec::new();
        for round in 0..MOST_ROUNDS {
            if round < ROUNDS {
                scene.ask()?;
            }
            let turns = 1 + scene.dice.below(3);
            causes.push(scene.end.run(&ready, turns)?);
            // What was asked for is carried out, as far as the wire let it.
            if !scene.carry() && round >= ROUNDS {
                break;
            }
        }
        scene.is_done()?;
        Ok(scene.end(causes))
    }

    /// The application posts.
    fn ask(&mut self) -> Result<(), String> {
        for place in 0..PAIRS {
            while self.end.pairs[place].receives.free() > 0 {
                let at = self.dice.below(MEMORY - u64::from(LONGEST));
                let pieces = [
                    self.end.gather(at, 100),
                    self.end.gather(at + 100, LONGEST - 100),
                ];
                let posted = self.end.pairs[place].receives.write(&pieces);
                posted.map_err(|cause| format!("receive: {cause:?}"))?;
            }
            self.end.pairs[place].receives.publish();
            for _ in 0..self.dice.below(4) {
                if self.end.pairs[place].sends.free() < MOST_SLOTS {
                    break;
                }
                self.post(place)?;
            }
            self.end.pairs[place].sends.publish();
        }
        Ok(())
    }

    fn post(&mut self, place: usize) -> Result<(), String> {
        let service = SERVICES[place / 2];
        let opcodes = match service {
            Service::Rc => &OPCODES[..],
            Service::Uc => &OPCODES[..4],
            Service::Ud => &OPCODES[..2],
        };
        let opcode = opcodes[self.dice.below(opcodes.len() as u64) as usize];
        let is_atomic = matches!(opcode, Opcode::FETCH_ADD | Opcode::COMPARE_SWAP);
        let most = match (service, is_atomic) {
            (_, true) => 8,
            (Service::Ud, _) => u64::from(MTU.bytes()),
            _ => u64::from(LONGEST),
        };
        let dice = &mut self.dice;
        let length = match dice.below(4) {
            _ if is_atomic => 8,
            0 => [0, 1, 4, u64::from(MTU.bytes()) + 1][dice.below(4) as usize].min(most),
            1 => dice.below(40),
            _ => dice.below(most + 1),
        };
        let mut at = || dice.below(MEMORY - u64::from(LONGEST)) & if is_atomic { !7 } else { !0 };
        let (local, remote) = (at(), at());
        let order = Order {
            signal: dice.below(4) > 0,
            fence: dice.below(8) == 0,
            solicited: dice.below(8) == 0,
            immediate: dice.roll() as u32,
            address: self.end.memory.whole().address.value() + remote,
            // Now and then a key that nobody has: the queue pair fails.
            key: KEY ^ u32::from(self.way.is_hostile && dice.below(60) == 0),
            value: dice.roll(),
            compare: dice.roll(),
            datagram: (service == Service::Ud).then(|| datagram(place)),
            ..Order::new(opcode)
        };
        let is_inline = length <= 40 && !fetches(opcode) && dice.below(2) == 0;
        let split = match length > 1 && !is_atomic {
            true => dice.below(length),
            false => 0,
        } as u32;
        let length = length as u32;
        let first = self.end.gather(local, split);
        let second = self.end.gather(local + u64::from(split), length - split);
        let pieces: Vec<Gather> = [first, second]
            .into_iter()
            .filter(|piece| piece.length > 0)
            .collect();
        let bytes: Vec<u8> = (0..length).map(|i| i as u8 ^ local as u8).collect();
        let payload = match is_inline {
            true => Payload::Inline(&bytes),
            false => Payload::Pieces(&pieces),
        };
        let posted = self.end.pairs[place].sends.write(&order, payload);
        posted.map_err(|cause| format!("post: {cause:?}"))?;
        Ok(())
    }

    /// Frames that were sent come back; the application looks at completions. Says whether anything
    /// is under way.
    fn carry(&mut self) -> bool {
        let goes_on = self.way.carry(&mut self.end.wire, &mut self.dice);
        for (place, pair) in self.end.pairs.iter_mut().enumerate() {
            while let Some(cqe) = pair.poll() {
                self.completed.push((place, cqe));
            }
        }
        goes_on
    }

    /// Where nothing was lost, every request is done.
    fn is_done(&self) -> Result<(), String> {
        for place in 0..PAIRS {
            let block = self.end.block(place);
            let posted = self.end.pairs[place].sends.next();
            if !self.way.is_hostile && (block.told != posted || block.failed) {
                let told = block.told;
                return Err(format!("queue pair {place}: {told} of {posted} slots done"));
            }
        }
        Ok(())
    }

    fn end(self, causes: Vec<u32>) -> Outcome {
        let mut outcome = leave(self.end, self.way.sent, causes);
        for (place, cqe) in &self.completed {
            outcome.seen.fact(format!("a completion of {place}"), cqe);
        }
        outcome
    }
}

impl Way {
    pub(super) const fn new(is_hostile: bool) -> Self {
        Self {
            under_way: VecDeque::new(),
            sent: Vec::new(),
            is_hostile,
        }
    }

    /// Frames that were sent come back. Says whether any were or are under way.
    pub(super) fn carry<W: Wire>(&mut self, wire: &mut W, dice: &mut Dice) -> bool {
        let before = self.sent.len();
        while let Some(frame) = wire.take() {
            self.sent.push(frame.clone());
            let copies = match dice.below(30) {
                0 if self.is_hostile => 0,
                1 if self.is_hostile => 2,
                _ => 1,
            };
            for _ in 0..copies {
                let frame = match self.is_hostile && dice.below(30) == 0 {
                    true => broken(&frame, dice),
                    false => frame.clone(),
                };
                self.under_way.push_back(frame);
            }
        }
        while wire.complete() {}
        while let Some(frame) = self.under_way.front() {
            if wire.slots_for(frame.len()) > 0 && !wire.deliver(frame) {
                break;
            }
            self.under_way.pop_front();
        }
        self.sent.len() > before || !self.under_way.is_empty()
    }
}

/// What an end leaves.
pub(super) fn leave<W: Wire>(end: End<W>, sent: Vec<Vec<u8>>, causes: Vec<u32>) -> Outcome {
    let blocks: Vec<_> = (0..end.pairs.len()).map(|place| end.block(place)).collect();
    let counters = end.counters();
    let End {
        wire,
        memory,
        table,
        pairs,
        ..
    } = end;
    let ground = Arc::clone(&wire.pages().ground.0);
    let counted = counters.notes.iter().chain(&counters.drops).copied();
    let mut outcome = outcome(wire, sent, causes, counted.collect());
    let seen = &mut outcome.seen;
    for (block, place) in blocks.iter().zip(0..) {
        let told = (block.told, block.head, block.obeyed, block.failed);
        seen.fact(format!("queue pair {place}"), block.pair);
        seen.fact(format!("slots of queue pair {place}"), told);
    }
    let EngineCounters {
        turns,
        idle_turns,
        received,
        sent,
        foreign,
        ..
    } = counters;
    let counted = (turns, idle_turns, received, sent, foreign);
    seen.fact("turns and packets", counted);
    seen.memory(&[&ground, &memory]);
    for block in pairs.iter().map(|pair| &pair.places.block) {
        let (send, receive) = (&block.send, &block.receive);
        let queues = [
            (send.ring, WQEBB_BYTES << send.log_depth),
            (
                receive.ring,
                SEGMENT_BYTES << (receive.log_depth + receive.log_stride),
            ),
            (block.sent.ring, CQE_BYTES << block.sent.log_depth),
            (block.arrived.ring, CQE_BYTES << block.arrived.log_depth),
        ];
        for (ring, bytes) in queues {
            seen.more((&table.arena, ring, bytes), &[&memory, &table.arena]);
        }
    }
    outcome
}

/// Connects the queue pairs with each other, two by two.
pub(super) fn connect<W: Wire>(
    end: &mut End<W>,
    ready: &Ready,
    dice: &mut Dice,
    services: &[Service],
) -> Result<(), String> {
    let mut psn = || match dice.below(2) {
        0 => 0x00ff_fff0 | dice.below(16) as u32,
        _ => dice.below(1 << 24) as u32,
    };
    let psns: Vec<u32> = end.pairs.iter().map(|_| psn()).collect();
    for place in 0..psns.len() {
        let peer = place ^ 1;
        let attributes = Attributes {
            service: services[place / 2],
            mtu: MTU,
            // Clocks of two machines differ: nothing may depend on one.
            timeout: 0,
            window: [8, 128][dice.below(2) as usize],
            reads: 4,
            remote_qp: Qpn::new(end.pairs[peer].places.number()),
            qkey: QKEY,
            ..Attributes::default()
        };
        let start = Start {
            send: Psn::new(psns[place]),
            receive: Psn::new(psns[peer]),
        };
        let way = path(place as u8, peer as u8, VERSIONS[place / 2]);
        end.connect(ready, place, (attributes, start, way))?;
    }
    Ok(())
}

/// Where a datagram of this queue pair goes: to its neighbour.
fn datagram(place: usize) -> DatagramSegment {
    let peer = place ^ 1;
    let mut rgid = [0; 16];
    rgid[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, peer as u8]);
    DatagramSegment {
        rmac: [2, 0, 0, 0, 0, peer as u8],
        hop_limit: 64,
        ..DatagramSegment::to(NUMBER | peer as u32, QKEY, rgid)
    }
}

fn fetches(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::READ | Opcode::FETCH_ADD | Opcode::COMPARE_SWAP
    )
}

/// What every service has first, then those that connections have.
const OPCODES: [Opcode; 7] = [
    Opcode::SEND,
    Opcode::SEND_IMM,
    Opcode::WRITE,
    Opcode::WRITE_IMM,
    Opcode::READ,
    Opcode::FETCH_ADD,
    Opcode::COMPARE_SWAP,
];
const SERVICES: [Service; 4] = [Service::Rc, Service::Rc, Service::Uc, Service::Ud];
const VERSIONS: [u8; 4] = [4, 6, 4, 4];
const PAIRS: usize = 8;
pub(super) const NUMBER: u32 = 0x1100;
const QKEY: u32 = 0x1111_1111;
const MTU: Mtu = Mtu::M256;
pub(super) const LARGEST_FRAME: usize = 400;

const WRONG: &[Wrong<TransportParameters>] = &[
    ("no blocks", |block| block.blocks = DeviceAddress::NULL),
    ("blocks off their alignment", |block| {
        block.blocks = block.blocks.offset(64)
    }),
    ("a count of no blocks", |block| block.block_count = 0),
];

/// Bytes of the memory that payload lies in, and of the longest message.
pub(super) const MEMORY: u64 = 64 << 10;
pub(super) const LONGEST: u32 = 700;
/// Slots of a send queue that a request takes at most.
const MOST_SLOTS: u32 = 3;
pub(super) const DEPTH: u32 = 128;
/// Binary logarithm of the slots of a work queue.
const LOG_QUEUE: u32 = 6;
/// Rounds in which the application asks for something, and all of them.
const ROUNDS: u64 = 8;
const MOST_ROUNDS: u64 = 100;
