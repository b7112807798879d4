//! Applications over streams: a server, and a carrier that the test plays, with peers who break.

use std::mem::offset_of;

use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::kernels::{ServeParameters, entries};
use warpwire_core::serving::{FileEntry, Seat, ServeBlock, ServeCounters, Service, SiteBlock};
use warpwire_core::streaming::{Ended, TableBlock};
use warpwire_device::KernelRow;
use warpwire_engine::streams::Bits;
use warpwire_engine::streams::tables::{
    AcceptBlock, CLOSE, CLOSED, CONNECTED, PEER_CLOSED, RELEASE, StreamWords,
};
use warpwire_nic::soft::Dice;
use warpwire_protocols::stream::http::Limits;
use warpwire_ring::DeviceAddress;

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
    accepts: DeviceAddress,
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
        let count = 2 + scene.dice.below(MOST_PEERS) as usize;
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
        let accepts = stage.place(AcceptBlock {
            written: 0,
            depth: DEPTH,
            entries: stage.cut(DEPTH as usize * 8),
            reserved: [0; 28],
            read: 0,
            reserved_read: [0; 31],
        });
        let table = TableBlock {
            header: TableBlock::HEADER,
            words: stage.cut(PLACES as usize * size_of::<StreamWords>()),
            asked: bits(PLACES),
            told: bits(PLACES + LISTENERS),
            accepts: stage.place_all(&[DeviceAddress::NULL, accepts]),
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
            accepts,
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
        let ring: AcceptBlock = self.stage.read_value(self.accepts);
        let is_taken = |place: u32| {
            let mut peers = self.peers.iter();
            peers.any(|peer| peer.place == place && !peer.is_over)
        };
        let free = (0..PLACES).find(|place| !is_taken(*place));
        let is_full = ring.written.wrapping_sub(ring.read) == ring.depth;
        let Some(place) = free.filter(|_| self.peers.len() < count && !is_full) else {
            return;
        };
        if self.dice.below(3) == 0 {
            return;
        }
        let at = self.words(place);
        let before: StreamWords = self.stage.read_value(at);
        let generation = before.generation + 1;
        let position = 0u32.wrapping_sub(self.dice.below(3000) as u32);
        self.stage.write_value(
            at,
            StreamWords {
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
            },
        );
        let slot = ring.entries.offset(u64::from(ring.written % DEPTH) * 8);
        let entry = u64::from(generation) << 32 | u64::from(place);
        self.stage.write_value(slot, entry);
        let written = offset_of!(AcceptBlock, written) as u64;
        let next = ring.written.wrapping_add(1);
        self.stage.write_value(self.accepts.offset(written), next);
        self.told().set(PLACES + 1);
        let peer = self.peer(place);
        self.peers.push(peer);
    }

    fn peer(&mut self, place: u32) -> Peer {
        let some = self.dice.below(5000);
        let bytes = |dice: &mut Dice| (0..some).map(|_| dice.below(256) as u8).collect();
        let (to_send, wanted) = match self.service {
            Service::Echo => {
                let bytes: Vec<u8> = bytes(&mut self.dice);
                (bytes.clone(), bytes)
            }
            Service::Discard => (bytes(&mut self.dice), Vec::new()),
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
        peer.is_over = words.wishes & RELEASE != 0 && (all_read || peer.has_broken);
        if flags != words.flags {
            let offset = offset_of!(StreamWords, flags) as u64;
            self.stage.write_value(at.offset(offset), flags);
            self.told().set(place);
        }
        let peer = &self.peers[number];
        if peer.is_over && !peer.has_broken && peer.read != peer.wanted {
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
        let count = self.peers.len() as u64;
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

/// The files that are served, in the order of their paths.
fn files() -> [(&'static str, &'static str, Vec<u8>); 4] {
    let text = |bytes: usize| (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect();
    [
        ("/a", "text/html", text(0)),
        ("/b.txt", "", text(100)),
        ("/big", "image/png", text(9000)),
        ("/folder/", "text/html; charset=utf-8", text(11)),
    ]
}

fn site(stage: &Stage) -> DeviceAddress {
    let entries = files().map(|(path, media, content)| FileEntry {
        path: stage.place_all(path.as_bytes()),
        media: stage.place_all(media.as_bytes()),
        content: stage.place_all(&content),
        content_bytes: content.len() as u64,
        path_bytes: path.len() as u32,
        media_bytes: media.len() as u32,
    });
    stage.place(SiteBlock {
        files: stage.place_all(&entries),
        file_count: entries.len() as u32,
        reserved: 0,
    })
}

/// What a client asks for, and what it must be answered.
fn requests(dice: &mut Dice) -> (Vec<u8>, Vec<u8>) {
    let (mut asks, mut answers) = (Vec::new(), Vec::new());
    let mut is_over = false;
    for _ in 0..dice.below(12) {
        let (ask, answer, ends) = request(dice);
        asks.extend(ask);
        if !is_over {
            answers.extend(answer);
        }
        is_over |= ends;
    }
    (asks, answers)
}

/// A request, its answer, and whether that is the last.
fn request(dice: &mut Dice) -> (Vec<u8>, Vec<u8>, bool) {
    let head = |status: &str, media: &str, length: usize, more: &str| {
        let media = match media {
            "" => "Content-Type: \r\n".to_owned(),
            media => format!("Content-Type: {media}\r\n"),
        };
        format!("HTTP/1.1 {status}\r\n{media}Content-Length: {length}\r\n{more}\r\n").into_bytes()
    };
    let refused = |status: &str, more: &str| {
        let reason = status.split_once(' ').map_or("", |(_, reason)| reason);
        [
            head(status, "text/plain", reason.len(), more),
            reason.as_bytes().to_vec(),
        ]
        .concat()
    };
    let close = "Connection: close\r\n";
    let files = files();
    let [_, _, (path, media, content), _] = &files;
    match dice.below(12) {
        0..6 => {
            let (path, media, content) = &files[dice.below(4) as usize];
            let ask = format!("GET {path}?x HTTP/1.1\r\nHost: a\r\n\r\n");
            let answer = [head("200 OK", media, content.len(), ""), content.clone()];
            (ask.into_bytes(), answer.concat(), false)
        }
        6 => {
            let ask = format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n");
            let answer = head("200 OK", media, content.len(), "");
            (ask.into_bytes(), answer, false)
        }
        7 => {
            let ask = "GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            (ask.into(), refused("404 Not Found", close), true)
        }
        8 => {
            let ask = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345";
            let allow = "Allow: GET, HEAD\r\n";
            (ask.into(), refused("405 Method Not Allowed", allow), false)
        }
        9 => {
            let ask = "POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\
                       Content-Length: 3\r\n\r\n123";
            let allow = "Allow: GET, HEAD\r\n";
            let answer = [
                b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(),
                refused("405 Method Not Allowed", allow),
            ];
            (ask.into(), answer.concat(), false)
        }
        10 if dice.below(4) == 0 => {
            let ask = "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n";
            (ask.into(), refused("400 Bad Request", close), true)
        }
        _ => {
            let ask = "GET /none HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
            let more = "Connection: keep-alive\r\n";
            (ask.into(), refused("404 Not Found", more), false)
        }
    }
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
