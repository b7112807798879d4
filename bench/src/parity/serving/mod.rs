//! Applications over streams: a server, and a carrier that the test plays, with peers who break.

mod requests;

use std::mem::offset_of;

use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::kernels::{ServeParameters, entries};
use warpwire_core::serving::{Seat, ServeBlock, ServeCounters, Service};
use warpwire_core::streaming::{Ended, TableBlock};
use warpwire_device::KernelRow;
use warpwire_engine::streams::Bits;
use warpwire_engine::streams::tables::{
    ABORT, AcceptBlock, CLOSE, CLOSED, CONNECTED, PEER_CLOSED, RELEASE, StreamWords,
};
use warpwire_nic::soft::Dice;
use warpwire_protocols::stream::http::Limits;
use warpwire_ring::DeviceAddress;

use requests::{requests, site};

use super::blocks::{Wrong, refuse};
use super::plain::Outcome;
use super::seen::Seen;
use super::{Case, Machine};
use crate::machine::Ready;
use crate::stage::Stage;

/// The comparisons of an entry point, if it is one of these kernels.
pub(super) fn cases(name: &str) -> Vec<Case> {
    let Some(row) = entries::servers().iter().find(|row| row.name == name) else {
        return Vec::new();
    };
    let of = |service: Service, words| {
        Case::new(row.name, words, move |machine, seed| {
            let cpu = Scene::run(row, service, &Machine::SCALAR, seed);
            let cpu = cpu.map_err(|error| format!("on the CPU: {error}"))?;
            let found = Scene::run(row, service, machine, seed)?;
            found.seen.compare(&cpu.seen)?;
            Ok(cpu.frames.min(found.frames))
        })
    };
    vec![
        of(Service::Echo, "echo"),
        of(Service::Discard, "discard"),
        of(Service::Source, "source"),
        of(Service::Http, "http"),
        of(Service::Splice, "splice"),
    ]
}

/// A server, the carrier, and who talks to it.
struct Scene {
    stage: Stage,
    row: &'static KernelRow,
    service: Service,
    block: ServeBlock,
    /// That, and others that are refused.
    blocks: DeviceAddress,
    table: TableBlock,
    /// Where the host tells of streams: its listener's ring, or pairs.
    names: DeviceAddress,
    ring_bytes: u32,
    peers: Vec<Peer>,
    /// Pieces that came or left.
    pieces: u64,
    seen: Seen,
    dice: Dice,
}

/// Who talks to the server.
struct Peer {
    place: u32,
    to_send: Vec<u8>,
    sent: usize,
    /// What it must read, if it does not break.
    wanted: Vec<u8>,
    read: Vec<u8>,
    breaks: bool,
    has_broken: bool,
    is_over: bool,
}

impl Scene {
    fn run(
        row: &'static KernelRow,
        service: Service,
        machine: &Machine,
        seed: u64,
    ) -> Result<Outcome, String> {
        let ready = machine.ready(seed)?;
        let mut scene = Self::new(row, service, seed);
        let valid = scene.parameters(1, Steering::default());
        refuse(
            &ready,
            row,
            &scene.stage,
            valid,
            |block| &mut block.header,
            WRONG,
        )?;
        let count = 2 + 2 * scene.dice.below(MOST_PEERS / 2) as usize;
        for _ in 0..MOST_ROUNDS {
            let turns = 1 + scene
                .dice
                .below(if scene.block.share < 100 { 60 } else { 4 });
            scene.turn(&ready, turns)?;
            scene.open(count);
            for number in 0..scene.peers.len() {
                scene.talk(number)?;
            }
            scene.note();
            if scene.peers.len() == count && scene.peers.iter().all(|peer| peer.is_over) {
                return scene.end(&ready);
            }
        }
        let counters = scene.counters();
        Err(format!("nothing comes of it: {counters:?}"))
    }

    fn new(row: &'static KernelRow, service: Service, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let stage = Stage::of(512 << 10, Vec::new());
        let bits = |count| stage.cut(Bits::bytes(count) as usize);
        let names = stage.place(AcceptBlock {
            written: 0,
            depth: DEPTH,
            entries: stage.cut(DEPTH as usize * 8),
            reserved: [0; 28],
            read: 0,
            reserved_read: [0; 31],
        });
        let (listener, pairs) = match service {
            Service::Splice => (DeviceAddress::NULL, names),
            _ => (names, DeviceAddress::NULL),
        };
        let table = TableBlock {
            header: TableBlock::HEADER,
            words: stage.cut(PLACES as usize * size_of::<StreamWords>()),
            asked: bits(PLACES),
            told: bits(PLACES + LISTENERS),
            accepts: stage.place_all(&[DeviceAddress::NULL, listener]),
            heartbeat: DeviceAddress::NULL,
            stale_ns: 0,
            place_count: PLACES,
            listener_count: LISTENERS,
        };
        let pattern: Vec<u8> = (0..PATTERN * 3).map(|at| (at % PATTERN) as u8).collect();
        let block = ServeBlock {
            table: stage.place(table),
            seats: stage.cut(PLACES as usize * size_of::<Seat>()),
            counters: stage.cut(size_of::<ServeCounters>()),
            site: site(&stage),
            pattern: stage.place_all(&pattern),
            pattern_bytes: pattern.len() as u32,
            pattern_period: PATTERN,
            source_bytes: dice.below(10_000),
            epoch_ns: u64::MAX,
            limits: Limits::default(),
            pairs,
            service: service as u32,
            share: [20 + dice.below(80), 100 + dice.below(4000)][dice.below(2) as usize] as u32,
            most: 1 + dice.below(5) as u32,
            reserved: 0,
        };
        Self {
            blocks: stage.place_all(&right_and_wrong(block)),
            ring_bytes: 1024 << dice.below(3),
            stage,
            row,
            service,
            block,
            table,
            names,
            peers: Vec::new(),
            pieces: 0,
            seen: Seen::default(),
            dice,
        }
    }

    fn parameters(&self, turns: u64, steering: Steering) -> ServeParameters {
        ServeParameters {
            header: ServeParameters::HEADER,
            steering: Steering { turns, ..steering },
            blocks: self.blocks,
            block_count: 1,
            reserved: 0,
        }
    }

    fn turn(&mut self, ready: &Ready, turns: u64) -> Result<(), String> {
        let steering = Steering {
            heartbeats: self.stage.heartbeat,
            ..Steering::default()
        };
        let parameters = self.parameters(turns, steering);
        let block = self.stage.place(parameters);
        ready.run(self.stage.job::<ServeParameters>(self.row, block))?;
        match self.stage.take_cause() {
            0 => Ok(()),
            cause => Err(format!("ended by cause {cause}")),
        }
    }

    /// Somebody new comes, now and then.
    fn open(&mut self, count: usize) {
        let ring: AcceptBlock = self.stage.read_value(self.names);
        let is_taken = |place: u32| {
            let mut peers = self.peers.iter();
            peers.any(|peer| peer.place == place && !peer.is_over)
        };
        let free: Vec<u32> = (0..PLACES).filter(|place| !is_taken(*place)).collect();
        let at_once = if self.service == Service::Splice {
            2
        } else {
            1
        };
        let room = ring.depth - ring.written.wrapping_sub(ring.read);
        let is_time = self.peers.len() < count && self.dice.below(3) > 0;
        let Some(places) = free.get(..at_once).filter(|_| is_time && room >= 2) else {
            return;
        };
        let mut next = ring.written;
        for place in places {
            let generation = self.begin(*place);
            let slot = ring.entries.offset(u64::from(next % DEPTH) * 8);
            let entry = u64::from(generation) << 32 | u64::from(*place);
            self.stage.write_value(slot, entry);
            next = next.wrapping_add(1);
            let peer = self.peer(*place);
            self.peers.push(peer);
        }
        if let [.., one, other] = &mut self.peers[..]
            && at_once == 2
        {
            one.wanted.clone_from(&other.to_send);
            other.wanted.clone_from(&one.to_send);
        }
        let written = offset_of!(AcceptBlock, written) as u64;
        self.stage.write_value(self.names.offset(written), next);
        self.told().set(PLACES + 1);
    }

    /// A stream begins: its generation.
    fn begin(&self, place: u32) -> u32 {
        let at = self.words(place);
        let before: StreamWords = self.stage.read_value(at);
        let generation = before.generation + 1;
        let position = 0u32.wrapping_sub(300 * place);
        let words = StreamWords {
            written: position,
            consumed: position,
            wishes: 0,
            readable: position,
            freed: position,
            flags: CONNECTED,
            cause: 0,
            generation,
            receive_ring: self.stage.cut(self.ring_bytes as usize),
            send_ring: self.stage.cut(self.ring_bytes as usize),
            receive_bytes: self.ring_bytes,
            send_bytes: self.ring_bytes,
            ..before
        };
        self.stage.write_value(at, words);
        generation
    }

    fn peer(&mut self, place: u32) -> Peer {
        let some = self.dice.below(5000);
        let bytes = |dice: &mut Dice| (0..some).map(|_| dice.below(256) as u8).collect();
        let (to_send, wanted) = match self.service {
            Service::Echo => {
                let bytes: Vec<u8> = bytes(&mut self.dice);
                (bytes.clone(), bytes)
            }
            Service::Discard | Service::Splice => (bytes(&mut self.dice), Vec::new()),
            Service::Source => {
                let count = self.block.source_bytes;
                let wanted = (0..count).map(|at| (at % u64::from(PATTERN)) as u8);
                (bytes(&mut self.dice), wanted.collect())
            }
            Service::Http => requests(&mut self.dice),
        };
        Peer {
            place,
            to_send,
            sent: 0,
            wanted,
            read: Vec::new(),
            breaks: self.dice.below(6) == 0,
            has_broken: false,
            is_over: false,
        }
    }

    /// A peer sends, reads, ends; and the carrier of its stream.
    fn talk(&mut self, number: usize) -> Result<(), String> {
        let peer = &self.peers[number];
        if peer.is_over {
            return Ok(());
        }
        let at = self.words(peer.place);
        let words: StreamWords = self.stage.read_value(at);
        self.fetch(number, &words)?;
        self.bring(number, &words);
        let peer = &mut self.peers[number];
        let is_through = peer.sent == peer.to_send.len();
        let words: StreamWords = self.stage.read_value(at);
        let all_read = words.freed == words.written;
        let mut flags = words.flags;
        if is_through {
            flags |= PEER_CLOSED;
        }
        let mut ended = None;
        if peer.breaks && is_through && self.dice.below(2) == 0 {
            ended = Some(Ended::Reset);
        } else if flags & PEER_CLOSED != 0 && words.wishes & CLOSE != 0 && all_read {
            ended = Some(Ended::Finished);
        }
        if let Some(ended) = ended.filter(|_| flags & CLOSED == 0) {
            peer.has_broken = ended == Ended::Reset;
            flags |= CLOSED;
            let cause = offset_of!(StreamWords, cause) as u64;
            self.stage.write_value(at.offset(cause), ended as u32);
        }
        let place = peer.place;
        let is_lost = peer.has_broken || words.wishes & ABORT != 0;
        peer.is_over = words.wishes & RELEASE != 0 && (all_read || is_lost);
        if flags != words.flags {
            let offset = offset_of!(StreamWords, flags) as u64;
            self.stage.write_value(at.offset(offset), flags);
            self.told().set(place);
        }
        let peer = &self.peers[number];
        if peer.is_over && !is_lost && peer.read != peer.wanted {
            let (read, wanted) = (peer.read.len(), peer.wanted.len());
            return Err(format!(
                "peer {number} read {read} bytes, not the {wanted} it must"
            ));
        }
        Ok(())
    }

    /// A peer reads a part of what was written for it.
    fn fetch(&mut self, number: usize, words: &StreamWords) -> Result<(), String> {
        let there = words.written.wrapping_sub(words.freed);
        if there > self.ring_bytes {
            return Err(format!(
                "{there} bytes are in a ring of {}",
                self.ring_bytes
            ));
        }
        let count = (self.dice.below(1500) as u32).min(there);
        let peer = &mut self.peers[number];
        for i in 0..count {
            let offset = words.freed.wrapping_add(i) & (self.ring_bytes - 1);
            let from = words.send_ring.offset(u64::from(offset));
            peer.read.push(self.stage.read_value(from));
        }
        if !peer.wanted.starts_with(&peer.read) {
            return Err(format!("peer {number} read something else"));
        }
        if count > 0 {
            let place = peer.place;
            let at = offset_of!(StreamWords, freed) as u64;
            let at = self.words(place).offset(at);
            self.stage.write_value(at, words.freed.wrapping_add(count));
            self.told().set(place);
            self.pieces += 1;
        }
        Ok(())
    }

    /// A peer sends some more.
    fn bring(&mut self, number: usize, words: &StreamWords) {
        let room = self.ring_bytes - words.readable.wrapping_sub(words.consumed);
        let most = self.dice.below(400) as u32;
        let peer = &mut self.peers[number];
        let left = (peer.to_send.len() - peer.sent) as u32;
        let count = most.min(room).min(left);
        for i in 0..count {
            let offset = words.readable.wrapping_add(i) & (self.ring_bytes - 1);
            let to = words.receive_ring.offset(u64::from(offset));
            self.stage.write_value(to, peer.to_send[peer.sent]);
            peer.sent += 1;
        }
        if count > 0 {
            let place = peer.place;
            let at = offset_of!(StreamWords, readable) as u64;
            let at = self.words(place).offset(at);
            self.stage
                .write_value(at, words.readable.wrapping_add(count));
            self.told().set(place);
            self.pieces += 1;
        }
    }

    /// What the server said of each stream so far.
    fn note(&mut self) {
        let mut said = Vec::new();
        for place in 0..PLACES {
            let words: StreamWords = self.stage.read_value(self.words(place));
            let StreamWords {
                written,
                consumed,
                wishes,
                ..
            } = words;
            said.extend([written, consumed, wishes].map(u64::from));
        }
        self.seen.counts("words of a round", said);
        let mut asked = Vec::new();
        let bits = self.stage.bits(self.table.asked, PLACES);
        bits.drain(|place| asked.push(u64::from(place)));
        self.seen.counts("asked in a round", asked);
    }

    fn end(mut self, ready: &Ready) -> Result<Outcome, String> {
        // What was told last may still have to be heard.
        for _ in 0..4 {
            self.turn(ready, 16)?;
        }
        let counters = self.counters();
        let broken = self.peers.iter().filter(|peer| peer.has_broken).count() as u64;
        let ServeCounters {
            accepted, ended, ..
        } = counters;
        let count = match self.service {
            Service::Splice => self.peers.len() as u64 / 2,
            _ => self.peers.len() as u64,
        };
        if (accepted, ended) != (count, count) || counters.broken > broken {
            return Err(format!("{count} peers, {broken} broke: {counters:?}"));
        }
        for (number, peer) in self.peers.iter().enumerate() {
            self.seen.fact(format!("read by {number}"), &peer.read);
        }
        self.seen.fact("counters", counters);
        Ok(Outcome {
            seen: self.seen,
            frames: self.pieces,
        })
    }

    fn told(&self) -> Bits {
        self.stage.bits(self.table.told, PLACES + LISTENERS)
    }

    fn words(&self, place: u32) -> DeviceAddress {
        let offset = u64::from(place) * size_of::<StreamWords>() as u64;
        self.table.words.offset(offset)
    }

    fn counters(&self) -> ServeCounters {
        self.stage.read_value(self.block.counters)
    }
}

/// The right block, and behind it those that are refused.
fn right_and_wrong(block: ServeBlock) -> [ServeBlock; 10] {
    [
        block,
        ServeBlock {
            service: 0,
            ..block
        },
        ServeBlock { share: 0, ..block },
        ServeBlock { most: 0, ..block },
        ServeBlock {
            table: DeviceAddress::NULL,
            ..block
        },
        ServeBlock {
            table: block.seats,
            ..block
        },
        ServeBlock {
            seats: DeviceAddress::NULL,
            ..block
        },
        ServeBlock {
            counters: block.seats.offset(8),
            ..block
        },
        ServeBlock {
            service: Service::Http as u32,
            site: DeviceAddress::NULL,
            ..block
        },
        ServeBlock {
            service: Service::Source as u32,
            pattern_period: 0,
            ..block
        },
    ]
}

const WRONG: &[Wrong<ServeParameters>] = &[
    ("no blocks", |block| block.blocks = DeviceAddress::NULL),
    ("blocks off their alignment", |block| {
        block.blocks = block.blocks.offset(32);
    }),
    ("too few blocks", |block| block.block_count = 0),
    ("an unknown service", |block| skip(block, 1)),
    ("no share", |block| skip(block, 2)),
    ("nobody in a turn", |block| skip(block, 3)),
    ("no table", |block| skip(block, 4)),
    ("something else for a table", |block| skip(block, 5)),
    ("no seats", |block| skip(block, 6)),
    ("counters off their alignment", |block| skip(block, 7)),
    ("no site", |block| skip(block, 8)),
    ("a pattern without bytes", |block| skip(block, 9)),
];

fn skip(block: &mut ServeParameters, count: u64) {
    block.blocks = block.blocks.offset(count * size_of::<ServeBlock>() as u64);
}

const PLACES: u32 = 70;
const LISTENERS: u32 = 2;
const DEPTH: u32 = 4;
const PATTERN: u32 = 251;
const MOST_PEERS: u64 = 8;
const MOST_ROUNDS: u32 = 1000;
