//! Streams over messages: a carrier with both ends of each stream, over the queue pairs of an
//! engine whose packets come back to it. The engine runs between the carrier's launches, on the
//! CPU.
//!
//! The rings of both runs lie in the same memory: their addresses stand in packets.

use std::mem::offset_of;
use std::sync::Arc;

use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::carrier::tables::{
    CarrierBlock, Opening, Report, SeatBlock, SeatState, Standing,
};
use warpwire_core::kernels::{CarryParameters, entries};
use warpwire_core::messaging::Remote;
use warpwire_device::KernelRow;
use warpwire_engine::streams::Bits;
use warpwire_engine::streams::tables::{
    ABORT, AcceptBlock, CLOSE, CLOSED, NONE, PEER_CLOSED, RELEASE, StreamCounters, StreamWords,
};
use warpwire_gpu::Arena;
use warpwire_nic::soft::Dice;
use warpwire_protocols::rdma::Service;
use warpwire_protocols::stream::credits::{Inbox, Terms};
use warpwire_protocols::tcp::Tuple;
use warpwire_ring::{DeviceAddress, Location};

use super::blocks::{Wrong, refuse};
use super::messages::{DEPTH, LARGEST_FRAME, MEMORY, NUMBER, Way, connect, leave};
use super::plain::Outcome;
use super::{Case, Machine};
use crate::ends::{End, KEY};
use crate::wires::{Client, Memif, Mlx5, STARTS, Wire};

/// The comparisons of an entry point, if it is this kernel.
pub(super) fn cases(name: &str) -> Vec<Case> {
    let row = entries::streams().iter().find(|row| row.name == name);
    match row.filter(|row| row.name == "carry_streams") {
        Some(row) => vec![
            over::<Memif<Client>>(row, "memif_client", "memif client"),
            over::<Mlx5<1>>(row, "mlx5", "mlx5"),
        ],
        None => Vec::new(),
    }
}

fn over<W: Wire>(row: &'static KernelRow, format: &str, word: &'static str) -> Case {
    let name = format!("transport_{format}");
    Case::new(row.name, word, move |machine, seed| {
        let engine = entries::transports().iter().find(|row| row.name == name);
        let rows = (engine.ok_or("no such transport")?, row);
        let memory = Arena::new(MEMORY as usize, Location::PageableHost);
        let memory = Arc::new(memory.map_err(|error| error.to_string())?);
        let cpu = Scene::<W>::run(rows, &Machine::SCALAR, seed, &memory);
        let cpu = cpu.map_err(|error| format!("on the CPU: {error}"))?;
        let found = Scene::<W>::run(rows, machine, seed, &memory)?;
        found.seen.compare(&cpu.seen)?;
        Ok(cpu.frames)
    })
}

/// The engine, the carrier over it, and the applications of its streams.
struct Scene<W> {
    end: End<W>,
    dice: Dice,
    way: Way,
    block: CarrierBlock,
    at: DeviceAddress,
    talks: Vec<Talk>,
    causes: Vec<u32>,
}

/// What an application does with its end of a stream.
struct Talk {
    place: u32,
    to_write: Vec<u8>,
    read: Vec<u8>,
    written: u32,
    wishes: u32,
    /// It gives up once it has read so much.
    gives_up_at: Option<usize>,
}

impl<W: Wire> Scene<W> {
    fn run(
        (engine, row): (&'static KernelRow, &'static KernelRow),
        machine: &Machine,
        seed: u64,
        memory: &Arc<Arena>,
    ) -> Result<Outcome, String> {
        let ready = machine.ready(seed)?;
        let host = Machine::SCALAR.ready(seed)?;
        let mut scene = Self::new(engine, seed, memory)?;
        connect(&mut scene.end, &host, &mut scene.dice, &SERVICES)?;
        let valid = CarryParameters {
            // What ends a kernel is told beside its heartbeat: here nothing may be written.
            steering: Steering::default(),
            ..scene.parameters(1)
        };
        let stage = &scene.end.stage;
        refuse(&ready, row, stage, valid, |block| &mut block.header, WRONG)?;
        for place in 0..PAIRS as u32 {
            scene.open(place)?;
        }
        for round in 0.. {
            let turns = 1 + scene.dice.below(3);
            let parameters = scene.end.stage.place(scene.parameters(turns));
            let job = scene.end.stage.job::<CarryParameters>(row, parameters);
            ready.run(job)?;
            scene.causes.push(scene.end.stage.take_cause());
            scene.causes.push(scene.end.run(&host, turns)?);
            let goes_on = scene.way.carry(&mut scene.end.wire, &mut scene.dice);
            if scene.talk() && !goes_on {
                break;
            }
            if round > MOST_ROUNDS {
                return Err(format!("nothing comes of it: {:?}", scene.counters()));
            }
        }
        scene.end()
    }

    fn new(engine: &'static KernelRow, seed: u64, memory: &Arc<Arena>) -> Result<Self, String> {
        let mut dice = Dice::new(seed);
        let cleared = memory.write(memory.whole().address, &vec![0; MEMORY as usize]);
        cleared.map_err(|error| error.to_string())?;
        let start = STARTS[dice.below(4) as usize];
        let mut wire = W::with_slots(DEPTH, start, 256);
        if wire.slots_for(LARGEST_FRAME) == 0 {
            wire = W::with_slots(DEPTH, start, 512);
        }
        let end = End::new(engine, wire, memory, LOG_QUEUE, PAIRS as u32, NUMBER)?;
        let stage = &end.stage;
        let places = PAIRS as u32;
        let bits = |count| stage.cut(Bits::bytes(count) as usize);
        let accepts = stage.place(AcceptBlock {
            written: 0,
            depth: places.next_power_of_two(),
            entries: stage.cut(PAIRS * 8),
            reserved: [0; 28],
            read: 0,
            reserved_read: [0; 31],
        });
        let block = CarrierBlock {
            header: CarrierBlock::HEADER,
            seats: stage.cut(PAIRS * size_of::<SeatBlock>()),
            words: stage.cut(PAIRS * size_of::<StreamWords>()),
            asked: bits(places),
            told: bits(places + 1),
            accepts,
            counters: stage.cut(size_of::<StreamCounters>()),
            standing: stage.place(Standing::default()),
            place_count: places,
            listener_count: 1,
            share: 1 + dice.below(4) as u32,
            reserved: 0,
        };
        let at = stage.place(block);
        Ok(Self {
            at,
            block,
            end,
            way: Way::new(false),
            talks: (0..places).map(|place| Talk::new(place, seed)).collect(),
            dice,
            causes: Vec::new(),
        })
    }

    fn parameters(&self, turns: u64) -> CarryParameters {
        CarryParameters {
            header: CarryParameters::HEADER,
            steering: Steering {
                heartbeats: self.end.stage.heartbeat,
                turns,
                ..Steering::default()
            },
            blocks: self.at,
            block_count: 1,
            reserved: 0,
        }
    }

    /// Has a stream begin, with receives posted.
    fn open(&mut self, place: u32) -> Result<(), String> {
        let inbox = Inbox {
            bytes: RING,
            words: 1 + (self.block.share + place / 2) % 8,
        };
        let terms = Terms {
            send_bytes: RING,
            own: inbox,
            peer: inbox,
            write_bytes: RING / 4,
        };
        self.end.post_receives(place as usize, terms.receives())?;
        let ring = |place: u32, which: u64| (u64::from(place) * 2 + which) * u64::from(RING);
        let whole = self.end.memory.whole().address.value();
        let ends = [place, place ^ 1].map(|end| end as u8);
        let opening = Opening {
            number: 7,
            listener: match place % 2 {
                0 => NONE,
                _ => 0,
            },
            channel: self.end.pairs[place as usize].places.home,
            send: self.end.gather(ring(place, 0), RING),
            receive: self.end.gather(ring(place, 1), RING),
            remote: Remote::new(whole + ring(place ^ 1, 1), KEY),
            terms,
            tuple: Tuple {
                local: [ends[0]; 16],
                remote: [ends[1]; 16],
                local_port: u16::from(ends[0]),
                remote_port: u16::from(ends[1]),
            },
            orphan_ns: u64::MAX,
            linger_ns: 0,
        };
        let seat = self.seat(place);
        self.end.stage.write_value(seat, opening);
        self.asked().set(place);
        Ok(())
    }

    /// Applications do what they can; whether all is done.
    fn talk(&mut self) -> bool {
        let mut talks = std::mem::take(&mut self.talks);
        let mut done = true;
        for talk in &mut talks {
            done &= talk.step(self);
        }
        self.talks = talks;
        done
    }

    fn asked(&self) -> Bits {
        self.end.stage.bits(self.block.asked, PAIRS as u32)
    }

    fn seat(&self, place: u32) -> DeviceAddress {
        let offset = u64::from(place) * size_of::<SeatBlock>() as u64;
        self.block.seats.offset(offset)
    }

    fn words(&self, place: u32) -> DeviceAddress {
        let offset = u64::from(place) * size_of::<StreamWords>() as u64;
        self.block.words.offset(offset)
    }

    fn counters(&self) -> StreamCounters {
        self.end.stage.read_value(self.block.counters)
    }

    /// What applications have, after it was compared with what their peers wrote.
    fn end(self) -> Result<Outcome, String> {
        let counters = self.counters();
        let entries: AcceptBlock = self.end.stage.read_value(self.block.accepts);
        let accepted = self.end.stage.words(entries.entries, PAIRS * 8);
        let states: Vec<SeatState> = (0..PAIRS as u32)
            .map(|place| {
                let at = self.seat(place).offset(offset_of!(SeatBlock, state) as u64);
                self.end.stage.read_value(at)
            })
            .collect();
        let cursors: Vec<_> = (0..PAIRS).map(|place| self.end.cursor(place)).collect();
        for [one, other] in self.talks.as_chunks::<2>().0 {
            for (writer, reader) in [(one, other), (other, one)] {
                let is_whole = reader.gives_up_at.or(writer.gives_up_at).is_none();
                let is_right = match is_whole {
                    true => reader.read == writer.to_write,
                    false => writer.to_write.starts_with(&reader.read),
                };
                if !is_right {
                    return Err(format!("place {}: other bytes came", reader.place));
                }
            }
        }
        let mut outcome = leave(self.end, self.way.sent, self.causes);
        let seen = &mut outcome.seen;
        for (state, place) in states.iter().zip(0..) {
            // When it settled is a matter of clocks.
            let settled_ns = 0;
            let state = SeatState {
                settled_ns,
                ..*state
            };
            seen.fact(format!("stream of {place}"), state);
        }
        for (cursor, place) in cursors.iter().zip(0..) {
            seen.fact(format!("cursor of {place}"), cursor);
        }
        for talk in &self.talks {
            let told = (talk.read.len(), talk.written, talk.wishes);
            seen.fact(format!("application of {}", talk.place), told);
        }
        seen.fact("turns and messages", counters);
        seen.counts("place that was accepted", accepted);
        Ok(outcome)
    }
}

impl Talk {
    fn new(place: u32, seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ u64::from(place) << 32);
        let most = [1, 100, 5000, 20_000][dice.below(4) as usize];
        let count = dice.below(most);
        Self {
            place,
            to_write: (0..count).map(|_| dice.below(256) as u8).collect(),
            read: Vec::new(),
            written: 0,
            wishes: 0,
            gives_up_at: (dice.below(6) == 0).then(|| dice.below(most) as usize),
        }
    }

    /// Reads, writes and closes; whether nothing of it is left.
    fn step<W: Wire>(&mut self, scene: &mut Scene<W>) -> bool {
        let vacated = scene.seat(self.place).offset(VACATED);
        if scene.end.stage.half_word(vacated) != 0 {
            return true;
        }
        let at = scene.words(self.place);
        let words: StreamWords = scene.end.stage.read_value(at);
        if words.generation == 0 || self.wishes & RELEASE != 0 {
            return false;
        }
        let mut consumed = words.consumed;
        let readable = words.readable.wrapping_sub(consumed);
        let mut most = readable.min(scene.dice.below(u64::from(RING)) as u32 + 1);
        while most > 0 {
            let count = (RING - (consumed % RING)).min(most);
            let mut bytes = vec![0; count as usize];
            let from = words.receive_ring.offset(u64::from(consumed % RING));
            scene.end.memory.read(from, &mut bytes).expect("inside");
            self.read.extend(bytes);
            consumed = consumed.wrapping_add(count);
            most -= count;
        }
        let room = RING - self.written.wrapping_sub(words.freed);
        let left = self.to_write.len() as u32 - self.written;
        let count = room.min(left).min(scene.dice.below(3000) as u32);
        for i in self.written..self.written + count {
            let to = words.send_ring.offset(u64::from(i % RING));
            let byte = &self.to_write[i as usize..][..1];
            scene.end.memory.write(to, byte).expect("inside");
        }
        self.written += count;
        if self.written == self.to_write.len() as u32 {
            self.wishes |= CLOSE;
        }
        let gives_up = self.gives_up_at.is_some_and(|at| self.read.len() >= at);
        if gives_up && words.flags & CLOSED == 0 {
            self.wishes |= ABORT;
        }
        let has_all = consumed == words.readable;
        let is_at_end = words.flags & PEER_CLOSED != 0 && self.wishes & CLOSE != 0;
        if has_all && (is_at_end || words.flags & CLOSED != 0) {
            self.wishes |= RELEASE;
        }
        let stores = [
            (offset_of!(StreamWords, written), self.written),
            (offset_of!(StreamWords, consumed), consumed),
            (offset_of!(StreamWords, wishes), self.wishes),
        ];
        for (offset, value) in stores {
            let at = at.offset(offset as u64);
            scene.end.stage.write(at, &value.to_ne_bytes());
        }
        scene.asked().set(self.place);
        false
    }
}

const VACATED: u64 = (offset_of!(SeatBlock, report) + offset_of!(Report, vacated)) as u64;
const PAIRS: usize = 8;
const SERVICES: [Service; PAIRS / 2] = [Service::Rc; PAIRS / 2];
/// Bytes of a ring.
const RING: u32 = 2048;
/// Binary logarithm of the slots of a work queue.
const LOG_QUEUE: u32 = 6;
/// Rounds after which something must have come of it.
const MOST_ROUNDS: u32 = 4000;

const WRONG: &[Wrong<CarryParameters>] = &[
    ("no blocks", |block| block.blocks = DeviceAddress::NULL),
    ("blocks off their alignment", |block| {
        block.blocks = block.blocks.offset(64)
    }),
    ("a count of no blocks", |block| block.block_count = 0),
];

const _: () = assert!(PAIRS as u64 * 2 * RING as u64 <= MEMORY);
