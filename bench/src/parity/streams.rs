//! Streams: an engine whose frames come back to it, so that its connections talk to each other over
//! a wire that repeats frames and changes their order.
//!
//! Several warps are compared with one, whatever they are on: applications see the same.
//!
//! Clocks of machines differ, and with them numbers in frames; what applications read and are told
//! does not.

use std::collections::VecDeque;
use std::mem::offset_of;
use std::sync::Arc;

use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::kernels::{StreamParameters, entries};
use warpwire_device::KernelRow;
use warpwire_engine::Crew;
use warpwire_engine::streams::tables::{
    ADDRESSES, AcceptBlock, Address, CLOSE, CONNECT, CONNECTED, Command, CommandAnswer,
    CommandSlot, ConnectionBlock, DONE, LAYOUT, LISTEN, ListenerBlock, PEER_CLOSED, RELEASE,
    Standing, StreamBlock, StreamCounters, StreamWords,
};
use warpwire_engine::streams::{Bits, Board, owner_of};
use warpwire_engine::tables::Path;
use warpwire_nic::soft::Dice;
use warpwire_protocols::tcp::Config;
use warpwire_ring::DeviceAddress;

use super::blocks::{Wrong, refuse};
use super::plain::Outcome;
use super::seen::Seen;
use super::{Case, Machine};
use crate::machine::Ready;
use crate::stage::Stage;
use crate::wires::{Client, Memif, Mlx5, STARTS, Server, Wire, Xdp};

/// The comparisons of an entry point, if it is one of these kernels.
pub(super) fn cases(name: &str) -> Vec<Case> {
    let Some(row) = entries::streams().iter().find(|row| row.name == name) else {
        return Vec::new();
    };
    match name {
        "streams_memif_client" => vec![
            over::<Memif<Client>>(row, "memif client", 1),
            over::<Memif<Client>>(row, "memif client, two warps", 2),
        ],
        "streams_memif_server" => vec![
            over::<Memif<Server>>(row, "memif server", 1),
            over::<Memif<Server>>(row, "memif server, three warps", 3),
        ],
        "streams_xdp" => vec![
            over::<Xdp>(row, "xdp", 1),
            over::<Xdp>(row, "xdp, three warps", 3),
        ],
        "streams_mlx5" => vec![
            over::<Mlx5<1>>(row, "mlx5", 1),
            over::<Mlx5<4>>(row, "mlx5 scattered", 1),
            over::<Mlx5<1>>(row, "mlx5, two warps", 2),
            over::<Mlx5<4>>(row, "mlx5 scattered, four warps", 4),
        ],
        _ => Vec::new(),
    }
}

fn over<W: Wire>(row: &'static KernelRow, word: &'static str, warps: u32) -> Case {
    Case::new(row.name, word, move |machine, seed| {
        let cpu = Scene::<W>::run(row, &Machine::SCALAR, 1, seed);
        let cpu = cpu.map_err(|error| format!("on the CPU: {error}"))?;
        let found = Scene::<W>::run(row, machine, warps, seed)?;
        found.seen.compare(&cpu.seen)?;
        Ok(cpu.frames.min(found.frames))
    })
}

/// The engine of each warp that has one, their applications, and frames under way.
struct Scene<W> {
    wire: W,
    stage: Stage,
    row: &'static KernelRow,
    warps: u32,
    blocks: Vec<StreamBlock>,
    /// Where they lie.
    first: DeviceAddress,
    accepts: Vec<DeviceAddress>,
    commands: Vec<u32>,
    talks: Vec<Talk>,
    under_way: VecDeque<Vec<u8>>,
    frames: u64,
    is_hostile: bool,
    seed: u64,
    dice: Dice,
}

/// What an application does with a stream.
struct Talk {
    place: u32,
    /// The port of who opened it.
    port: u32,
    is_opener: bool,
    to_write: Vec<u8>,
    written: u32,
    read: Vec<u8>,
    is_closed: bool,
    is_released: bool,
}

impl<W: Wire> Scene<W> {
    fn run(
        row: &'static KernelRow,
        machine: &Machine,
        warps: u32,
        seed: u64,
    ) -> Result<Outcome, String> {
        let ready = machine.ready(seed)?;
        let mut scene = Self::new(row, warps, seed);
        let valid = scene.parameters(1, Steering::default());
        refuse(
            &ready,
            row,
            &scene.stage,
            valid,
            |block| &mut block.header,
            WRONG,
        )?;
        let backlog = scene.dice.below(3) as u32;
        let local = scene.path(0, 1, 0);
        for engine in 0..scene.blocks.len() {
            scene.command(
                &ready,
                engine,
                Command {
                    kind: LISTEN,
                    port: PORT,
                    backlog,
                    path: Path {
                        local: [0; 4],
                        ..local
                    },
                    ..Command::default()
                },
            )?;
        }
        let count = 1 + scene.dice.below(MOST_STREAMS);
        for number in 0..count {
            let path = scene.path(0, 1, 1000 + number as u16);
            let command = Command {
                kind: CONNECT,
                port: PORT,
                path,
                ..Command::default()
            };
            let engines = scene.blocks.len() as u32;
            let engine = owner_of(scene.blocks[0].secret, &path, PORT as u16, engines);
            let answer = scene.command(&ready, engine as usize, command)?;
            let port = u32::from(path.source_port);
            let to_write = scene.bytes(port, true);
            let place = engine * PLACES + answer.place;
            scene.talks.push(Talk::new(place, port, true, to_write));
        }
        for round in 0.. {
            let turns = 1 + scene.dice.below(3);
            scene.turn(&ready, turns)?;
            if scene.talk(count as usize) {
                break;
            }
            if round > MOST_ROUNDS {
                let counters = scene.counters();
                return Err(format!("nothing comes of it: {counters:?}"));
            }
        }
        scene.end()
    }

    fn new(row: &'static KernelRow, warps: u32, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let start = STARTS[dice.below(4) as usize];
        let wire = W::with_slots(DEPTH, start, 2048);
        let others = vec![Arc::clone(&wire.pages().ground.0)];
        let stage = Stage::of(8 << 20, others);
        let config = Config {
            receive_bytes: CHUNK_BYTES,
            send_bytes: CHUNK_BYTES,
            delayed_ack_ns: 0,
            no_delay: true,
            timestamps: dice.below(2) == 0,
            ..Config::of_mtu(1500, false)
        };
        let share = 1 + dice.below(4) as u32;
        let board = match warps {
            1 => DeviceAddress::NULL,
            _ => stage.cut(size_of::<Board>()),
        };
        let engines = Crew::all(warps).next().map_or(1, Crew::engines);
        let lay_out = |_| {
            let (block, accepts) = lay_out(&stage, &wire, config, seed);
            let block = StreamBlock {
                share,
                board,
                ..block
            };
            (block, accepts)
        };
        let (blocks, accepts): (Vec<_>, Vec<_>) = (0..engines).map(lay_out).unzip();
        Self {
            warps,
            commands: vec![0; blocks.len()],
            first: stage.place_all(&blocks),
            blocks,
            accepts,
            talks: Vec::new(),
            under_way: VecDeque::new(),
            frames: 0,
            is_hostile: dice.below(3) > 0,
            seed,
            wire,
            stage,
            row,
            dice,
        }
    }

    /// What an end of the connection from a port writes: whenever it is asked for.
    fn bytes(&self, port: u32, is_opener: bool) -> Vec<u8> {
        let mut dice = Dice::new(self.seed ^ u64::from(port * 2 + u32::from(is_opener)) << 32);
        let most = [1, 100, 5000, 40_000][dice.below(4) as usize];
        let count = dice.below(most);
        (0..count).map(|_| dice.below(256) as u8).collect()
    }

    fn path(&self, from: u32, to: u32, port: u16) -> Path {
        Path {
            local: address(from).words,
            remote: address(to).words,
            next_hop: MAC,
            mac: MAC,
            source_port: port,
            ip_version: 4,
            hop_limit: 64,
            ..Path::default()
        }
    }

    fn parameters(&self, turns: u64, steering: Steering) -> StreamParameters {
        StreamParameters {
            header: StreamParameters::HEADER,
            steering: Steering { turns, ..steering },
            blocks: self.first,
            block_count: self.blocks.len() as u32,
            reserved: 0,
        }
    }

    /// The engine runs for some turns, and frames come back.
    fn turn(&mut self, ready: &Ready, turns: u64) -> Result<(), String> {
        let steering = Steering {
            heartbeats: self.stage.heartbeat,
            ..Steering::default()
        };
        let block = self.stage.place(self.parameters(turns, steering));
        let job = self.stage.job::<StreamParameters>(self.row, block);
        ready.run_block(job, self.warps)?;
        let cause = self.stage.take_cause();
        if cause != 0 {
            return Err(format!("ended by cause {cause}"));
        }
        while let Some(frame) = self.wire.take() {
            self.frames += 1;
            if self.is_hostile && self.dice.below(20) == 0 {
                self.under_way.push_back(frame.clone());
            }
            let places = self.under_way.len() as u64;
            let at = match self.is_hostile && self.dice.below(10) == 0 {
                true => self.dice.below(places + 1),
                false => places,
            };
            self.under_way.insert(at as usize, frame);
        }
        while self.wire.complete() {}
        while let Some(frame) = self.under_way.front() {
            if !self.wire.deliver(frame) {
                break;
            }
            self.under_way.pop_front();
        }
        Ok(())
    }

    fn command(
        &mut self,
        ready: &Ready,
        engine: usize,
        command: Command,
    ) -> Result<CommandAnswer, String> {
        self.commands[engine] += 1;
        let number = self.commands[engine];
        let slot = self.blocks[engine].commands;
        self.stage.write_value(slot, Command { number, ..command });
        self.turn(ready, 1)?;
        let at = offset_of!(CommandSlot, answer) as u64;
        let answer: CommandAnswer = self.stage.read_value(slot.offset(at));
        match (answer.number, answer.outcome) {
            (answered, DONE) if answered == number => Ok(answer),
            other => Err(format!("a command came to {other:?}")),
        }
    }

    /// Applications do what they can; whether all is done.
    fn talk(&mut self, opened: usize) -> bool {
        for (engine, accepts) in (0..).zip(self.accepts.clone()) {
            let ring: AcceptBlock = self.stage.read_value(accepts);
            if ring.read == ring.written {
                continue;
            }
            let at = ring.entries.offset(u64::from(ring.read % PLACES) * 8);
            let entry: u64 = self.stage.read_value(at);
            let at = accepts.offset(offset_of!(AcceptBlock, read) as u64);
            self.stage.write_value(at, ring.read.wrapping_add(1));
            let place = engine * PLACES + entry as u32;
            let words: StreamWords = self.stage.read_value(self.words(place));
            let port = u32::from(words.tuple.remote_port);
            let to_write = self.bytes(port, false);
            self.talks.push(Talk::new(place, port, false, to_write));
        }
        let mut talks = std::mem::take(&mut self.talks);
        let mut done = talks.len() == opened * 2;
        for talk in &mut talks {
            done &= talk.step(self);
        }
        self.talks = talks;
        done
    }

    fn words(&self, place: u32) -> DeviceAddress {
        let offset = u64::from(place % PLACES) * size_of::<StreamWords>() as u64;
        self.block(place).words.offset(offset)
    }

    /// The block of a place.
    fn block(&self, place: u32) -> &StreamBlock {
        &self.blocks[(place / PLACES) as usize]
    }

    fn counters(&self) -> Vec<StreamCounters> {
        let of = |block: &StreamBlock| self.stage.read_value(block.counters);
        self.blocks.iter().map(of).collect()
    }

    /// What applications have, after it was compared with what their peers wrote.
    fn end(self) -> Result<Outcome, String> {
        let mut seen = Seen::default();
        self.wire.check_untouched();
        for one in self.talks.iter().filter(|talk| talk.is_opener) {
            let peer = self.talks.iter().find(|talk| talk.is_peer_of(one));
            let peer = peer.ok_or_else(|| format!("nobody accepted {}", one.port))?;
            if one.read != peer.to_write || peer.read != one.to_write {
                return Err(format!("{}: other bytes than were written", one.port));
            }
            seen.fact(
                format!("bytes of {}", one.port),
                (one.read.len(), peer.read.len()),
            );
        }
        let all = self.counters();
        let sum = |of: fn(&StreamCounters) -> u64| all.iter().map(of).sum::<u64>();
        let ended = [
            sum(|one| one.connected),
            sum(|one| one.failed),
            sum(|one| one.slow_lost),
        ];
        seen.fact("connected, failed, lost", ended);
        seen.fact("dropped", sum(|one| one.drops.iter().sum()));
        Ok(Outcome {
            seen,
            frames: self.frames,
        })
    }
}

/// The tables of an engine, and its ring of accepted connections.
fn lay_out(
    stage: &Stage,
    wire: &impl Wire,
    config: Config,
    seed: u64,
) -> (StreamBlock, DeviceAddress) {
    let places = PLACES as usize;
    let numbers = |count: u32| stage.place_all(&(0..count).rev().collect::<Vec<_>>());
    let accepts = stage.place(AcceptBlock {
        written: 0,
        depth: PLACES,
        entries: stage.cut(places * 8),
        reserved: [0; 28],
        read: 0,
        reserved_read: [0; 31],
    });
    let listeners = stage.cut(size_of::<ListenerBlock>());
    let at = listeners.offset(offset_of!(ListenerBlock, accepts) as u64);
    stage.write(at, &accepts.value().to_ne_bytes());
    let bits = |count| stage.cut(Bits::bytes(count) as usize);
    let block = StreamBlock {
        receive: wire.rx_block(),
        transmit: wire.tx_block(),
        layout: LAYOUT,
        connections: stage.cut(places * size_of::<ConnectionBlock>()),
        words: stage.cut(places * size_of::<StreamWords>()),
        buckets: stage.cut(places * 2 * 4),
        listeners,
        configs: stage.place(config),
        chunks: stage.cut(places * 2 * CHUNK_BYTES as usize),
        free_chunks: numbers(PLACES * 2),
        free_places: numbers(PLACES),
        asked: bits(PLACES),
        told: bits(PLACES + 1),
        ready: bits(PLACES),
        deadlines: stage.place_all(&vec![u64::MAX; places]),
        commands: stage.cut(size_of::<CommandSlot>()),
        slow: DeviceAddress::NULL,
        inject: DeviceAddress::NULL,
        mirror: DeviceAddress::NULL,
        counters: stage.cut(size_of::<StreamCounters>()),
        standing: stage.place(Standing::new(PLACES, PLACES * 2)),
        secret: [seed, !seed],
        connection_count: PLACES,
        bucket_count: PLACES * 2,
        listener_count: 1,
        config_count: 1,
        chunk_count: PLACES * 2,
        chunk_bytes: CHUNK_BYTES,
        command_count: 1,
        share: 1,
        policy: 0,
        offloads: 0,
        resets_a_second: 10,
        address_count: 2,
        addresses: [0, 1, 0, 0, 0, 0, 0, 0].map(address),
        homes: DeviceAddress::NULL,
        handed: DeviceAddress::NULL,
        home_count: 0,
        number: 0,
        board: DeviceAddress::NULL,
    };
    (block, accepts)
}

impl Talk {
    fn new(place: u32, port: u32, is_opener: bool, to_write: Vec<u8>) -> Self {
        Self {
            place,
            port,
            is_opener,
            to_write,
            written: 0,
            read: Vec::new(),
            is_closed: false,
            is_released: false,
        }
    }

    fn is_peer_of(&self, other: &Self) -> bool {
        self.port == other.port && self.is_opener != other.is_opener
    }

    /// Reads, writes and closes; whether that is all.
    fn step<W: Wire>(&mut self, scene: &mut Scene<W>) -> bool {
        let at = scene.words(self.place);
        let words: StreamWords = scene.stage.read_value(at);
        if self.is_released || words.flags & CONNECTED == 0 {
            return self.is_released;
        }
        let ring = CHUNK_BYTES - 1;
        let mut consumed = words.consumed;
        while consumed != words.readable {
            let count =
                (CHUNK_BYTES - (consumed & ring)).min(words.readable.wrapping_sub(consumed));
            let mut bytes = vec![0; count as usize];
            let from = words.receive_ring.offset(u64::from(consumed & ring));
            scene.stage.arena.read(from, &mut bytes).expect("inside");
            self.read.extend(bytes);
            consumed = consumed.wrapping_add(count);
        }
        let room = CHUNK_BYTES - self.written.wrapping_sub(words.freed);
        let left = self.to_write.len() as u32 - self.written;
        let most = room.min(left);
        let count = most.min(1 + scene.dice.below(3000) as u32);
        for i in self.written..self.written + count {
            let to = words.send_ring.offset(u64::from(i & ring));
            scene.stage.write(to, &self.to_write[i as usize..][..1]);
        }
        self.written += count;
        self.is_closed |= self.written == self.to_write.len() as u32;
        self.is_released =
            self.is_closed && words.flags & PEER_CLOSED != 0 && words.freed >= self.written;
        let mut wishes = if self.is_closed { CLOSE } else { 0 };
        if self.is_released {
            wishes |= RELEASE;
        }
        let stores = [
            (offset_of!(StreamWords, written), self.written),
            (offset_of!(StreamWords, consumed), consumed),
            (offset_of!(StreamWords, wishes), wishes),
        ];
        for (offset, value) in stores {
            scene.stage.write_value(at.offset(offset as u64), value);
        }
        let asked = scene.block(self.place).asked;
        scene.stage.bits(asked, PLACES).set(self.place % PLACES);
        self.is_released
    }
}

const fn address(number: u32) -> Address {
    Address {
        words: [0x0a4d_0001 + number, 0, 0, 0],
        ip_version: 4,
    }
}

const WRONG: &[Wrong<StreamParameters>] = &[
    ("no blocks", |block| block.blocks = DeviceAddress::NULL),
    ("blocks off their alignment", |block| {
        block.blocks = block.blocks.offset(64);
    }),
    ("too few blocks", |block| block.block_count = 0),
];

const _: () = assert!(ADDRESSES == 8);
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PORT: u32 = 80;
const DEPTH: u32 = 64;
const PLACES: u32 = 16;
const CHUNK_BYTES: u32 = 4096;
const MOST_STREAMS: u64 = 5;
const MOST_ROUNDS: u32 = 3000;
