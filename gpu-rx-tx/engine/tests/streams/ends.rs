//! One end: an engine, its tables, and the application and the host at its words.
#![expect(
    unsafe_code,
    reason = "tests own the memory that engines and applications work on"
)]

use std::cell::Cell;
use std::mem::offset_of;
use std::sync::Barrier;

use warpwire_device::{CopyBlock, Place, Scalar, ScalarHost, Simt};
use warpwire_engine::Crew;
use warpwire_engine::streams::tables::*;
use warpwire_engine::streams::{Bits, Board, StreamEngine, owner_of};
use warpwire_engine::tables::Path;
use warpwire_protocols::tcp::{Config, Tuple};
use warpwire_ring::{DeviceAddress, memory};

use crate::widths::Lanes;
use crate::wires::{Pages, Wire};

/// What an end is made of.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) places: u32,
    pub(crate) chunks: u32,
    pub(crate) chunk_bytes: u32,
    pub(crate) accepts: u32,
    pub(crate) share: u32,
    pub(crate) policy: u32,
    /// Warps that run an end together, and what of the above each owner has.
    pub(crate) warps: u32,
    pub(crate) config: Config,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            places: 16,
            chunks: 32,
            chunk_bytes: 1 << 16,
            accepts: 16,
            share: 4,
            policy: 0,
            warps: 1,
            config: Config {
                receive_bytes: 1 << 16,
                send_bytes: 1 << 16,
                time_wait_ns: 1_000_000_000,
                ..Config::of_mtu(1500, false)
            },
        }
    }
}

/// The clock that all ends of a test share.
#[derive(Default)]
pub(crate) struct Clock(pub(crate) Cell<u64>);

impl ScalarHost for Clock {
    fn now_ns(&self) -> u64 {
        self.0.get()
    }

    fn pause(&self) {}

    fn sync_block(&self) {}
}

/// An end of connections.
pub(crate) struct End<W> {
    pub(crate) wire: W,
    tables: Pages,
    /// Of each engine.
    shares: Vec<Share>,
    /// The blocks of all engines.
    blocks: &'static [StreamBlock],
    warps: u32,
    pub(crate) slow: DeviceAddress,
    pub(crate) inject: DeviceAddress,
    pub(crate) mac: [u8; 6],
    pub(crate) address: Address,
    pub(crate) way: Way,
    /// Whether it takes peers that it connects to for neighbours.
    pub(crate) is_on_link: u32,
}

/// How the warps of an end run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// One lane, which has all warps in hand.
    Narrow,
    /// 32 lanes, which have all warps in hand.
    Wide,
    /// A thread of one lane for each, which meet.
    Apart,
}

/// What an engine has of its own.
struct Share {
    block: StreamBlock,
    asked: Bits,
    told: Bits,
    commands: u32,
    accepted: Vec<DeviceAddress>,
}

pub(crate) const LISTENERS: u32 = 2;
pub(crate) const HOST_SLOTS: u32 = 8;
const COMMANDS: u32 = 4;

impl Share {
    fn new(
        mut cut: &mut dyn FnMut(usize) -> DeviceAddress,
        plan: &Plan,
        wire: &impl Wire,
        (number, board): (u8, DeviceAddress),
        address: Address,
    ) -> Self {
        let places = plan.places as usize;
        let buckets = (plan.places * 2).next_power_of_two();
        let numbers = |at, count: u32| put(at, &(0..count).rev().collect::<Vec<u32>>());
        let (free_chunks, free_places) = (cut(plan.chunks as usize * 4), cut(places * 4));
        numbers(free_chunks, plan.chunks);
        numbers(free_places, plan.places);
        let deadlines = cut(places * 8);
        put(deadlines, &vec![u64::MAX; places]);
        let configs = cut(size_of::<Config>());
        put(configs, &[plan.config]);
        let standing = cut(size_of::<Standing>());
        put(standing, &[Standing::new(plan.places, plan.chunks)]);
        let (listeners, accepted) = listeners(&mut cut, plan);
        let (slow, inject) = (host_ring(&mut cut), host_ring(&mut cut));
        let told_bits = plan.places + LISTENERS;
        let mut bits = |count| cut(Bits::bytes(count) as usize);
        let (asked, told, ready) = (bits(plan.places), bits(told_bits), bits(plan.places));
        let block = StreamBlock {
            receive: wire.rx_block(),
            transmit: wire.tx_block(),
            layout: LAYOUT,
            connections: cut(places * size_of::<ConnectionBlock>()),
            words: cut(places * size_of::<StreamWords>()),
            buckets: cut(buckets as usize * 4),
            listeners,
            configs,
            chunks: cut(plan.chunks as usize * plan.chunk_bytes as usize),
            free_chunks,
            free_places,
            asked,
            told,
            ready,
            deadlines,
            commands: cut(COMMANDS as usize * size_of::<CommandSlot>()),
            slow,
            inject,
            mirror: DeviceAddress::NULL,
            counters: cut(size_of::<StreamCounters>()),
            standing,
            secret: [0x1234, u64::from(number)],
            connection_count: plan.places,
            bucket_count: buckets,
            listener_count: LISTENERS,
            config_count: 1,
            chunk_count: plan.chunks,
            chunk_bytes: plan.chunk_bytes,
            command_count: COMMANDS,
            share: plan.share,
            policy: plan.policy,
            offloads: 0,
            resets_a_second: 5,
            address_count: 1,
            addresses: [address; ADDRESSES],
            homes: DeviceAddress::NULL,
            handed: DeviceAddress::NULL,
            home_count: 0,
            number: 0,
            board,
        };
        Self {
            block,
            // SAFETY: cut for it, and zeros.
            asked: unsafe { Bits::attach(asked, plan.places) },
            // SAFETY: as above.
            told: unsafe { Bits::attach(told, told_bits) },
            commands: 0,
            accepted,
        }
    }
}

impl<W: Wire> End<W> {
    pub(crate) fn new(plan: &Plan, number: u8, is_ipv6: bool) -> Self {
        let wire = W::with_slots(256, 0, 2048);
        let owners = (plan.warps - 1).max(1);
        let bytes = plan.chunks as usize * plan.chunk_bytes as usize + plan.places as usize * 2048;
        let mut pages = Pages::new((bytes + (256 << 10)) * owners as usize);
        let mut cut = |bytes: usize| pages.cut(bytes.max(8), 128);
        let board = match plan.warps {
            1 => DeviceAddress::NULL,
            _ => cut(size_of::<Board>()),
        };
        let address = address(number, is_ipv6);
        let share = |_| Share::new(&mut cut, plan, &wire, (number, board), address);
        let shares: Vec<Share> = (0..owners).map(share).collect();
        let blocks: Vec<StreamBlock> = shares.iter().map(|share| share.block).collect();
        Self {
            wire,
            tables: pages,
            slow: blocks[0].slow,
            inject: blocks[0].inject,
            blocks: blocks.leak(),
            shares,
            warps: plan.warps,
            mac: [2, 0, 0, 0, 0, number],
            address,
            way: Way::Narrow,
            is_on_link: 0,
        }
    }

    /// Whether one of a crew can go on with the first so many blocks.
    pub(crate) fn is_attachable(&self, blocks: usize, crew: Crew) -> bool {
        // SAFETY: an end's own memory; nobody else drives it.
        unsafe { StreamEngine::<W::Rx, W::Tx>::attach(&self.blocks[..blocks], crew) }.is_ok()
    }

    /// Engines there are.
    pub(crate) fn owners(&self) -> u32 {
        self.shares.len() as u32
    }

    /// The engine of a place, and its number there.
    fn at(&self, place: u32) -> (usize, u32) {
        let each = self.blocks[0].connection_count;
        ((place / each) as usize, place % each)
    }

    /// The engine of a connection.
    pub(crate) fn owner(&self, path: &Path, port: u32) -> usize {
        owner_of(self.blocks[0].secret, path, port as u16, self.owners()) as usize
    }

    /// Runs the engines for some rounds.
    pub(crate) fn run(&mut self, clock: &Clock, rounds: u32) {
        let (blocks, warps) = (self.blocks, self.warps);
        match self.way {
            Way::Narrow => run::<W, _>(&Scalar::new(clock), blocks, warps, rounds),
            Way::Wide => {
                Lanes::new(clock.0.get()).run(|simt| run::<W, _>(simt, blocks, warps, rounds))
            }
            Way::Apart => {
                let (met, now_ns) = (Barrier::new(warps as usize), clock.0.get());
                std::thread::scope(|scope| {
                    for warp in 0..warps {
                        let met = &met;
                        scope.spawn(move || {
                            let host = Apart {
                                met,
                                now_ns,
                                place: Place {
                                    warp,
                                    warps,
                                    ..Place::ALONE
                                },
                            };
                            run_apart::<W>(&Scalar::new(&host), blocks, rounds);
                        });
                    }
                });
            }
        }
    }

    /// Asks all engines for something, which answer alike; runs them until there is an answer.
    pub(crate) fn command(&mut self, clock: &Clock, command: Command) -> CommandAnswer {
        let answers = (0..self.shares.len()).map(|owner| self.ask_owner(clock, owner, command));
        let answers: Vec<CommandAnswer> = answers.collect();
        let first = answers[0];
        let mut others = answers.iter();
        assert!(
            others.all(|one| one.outcome == first.outcome),
            "{answers:?}"
        );
        first
    }

    /// Asks an engine for something; runs the engines until there is an answer.
    fn ask_owner(&mut self, clock: &Clock, owner: usize, command: Command) -> CommandAnswer {
        let share = &mut self.shares[owner];
        let slot = share.commands % COMMANDS;
        share.commands += 1;
        let number = share.commands;
        let at = u64::from(slot) * size_of::<CommandSlot>() as u64;
        let at = share.block.commands.offset(at);
        put(
            at,
            &[Command {
                number: 0,
                ..command
            }],
        );
        // SAFETY: a word of the slot.
        unsafe { memory::store_release_u32(at, number) };
        self.run(clock, 1);
        let answer = at.offset(offset_of!(CommandSlot, answer) as u64);
        // SAFETY: the answer of the slot.
        let answer = unsafe { (answer.value() as *const CommandAnswer).read() };
        assert_eq!(answer.number, number, "answered at once");
        answer
    }

    pub(crate) fn listen(&mut self, clock: &Clock, listener: u32, port: u32, backlog: u32) {
        let path = Path {
            ip_version: self.address.ip_version as u8,
            ..Path::default()
        };
        let command = Command {
            kind: LISTEN,
            listener,
            port,
            backlog,
            path,
            ..Command::default()
        };
        assert_eq!(self.command(clock, command).outcome, DONE);
    }

    /// The way to another end.
    pub(crate) fn path_to(&self, other: &Self, local_port: u16) -> Path {
        Path {
            local: self.address.words,
            remote: other.address.words,
            next_hop: other.mac,
            mac: self.mac,
            source_port: local_port,
            ip_version: self.address.ip_version as u8,
            hop_limit: 64,
            ..Path::default()
        }
    }

    pub(crate) fn connect(&mut self, clock: &Clock, path: Path, port: u32) -> CommandAnswer {
        let command = Command {
            kind: CONNECT,
            port,
            path,
            is_on_link: self.is_on_link,
            ..Command::default()
        };
        let owner = self.owner(&path, port);
        let mut answer = self.ask_owner(clock, owner, command);
        if answer.outcome == DONE {
            answer.place += owner as u32 * self.blocks[0].connection_count;
        }
        answer
    }

    /// The next connection of a listener: its place.
    pub(crate) fn accept(&mut self, listener: u32) -> Option<u32> {
        (0..self.shares.len()).find_map(|owner| self.accept_of(owner, listener))
    }

    fn accept_of(&self, owner: usize, listener: u32) -> Option<u32> {
        let ring = self.shares[owner].accepted[listener as usize];
        let read = load(ring, offset_of!(AcceptBlock, read));
        if load(ring, offset_of!(AcceptBlock, written)) == read {
            return None;
        }
        let depth = load(ring, offset_of!(AcceptBlock, depth));
        let entries = ring.offset(offset_of!(AcceptBlock, entries) as u64);
        // SAFETY: words of the ring.
        let entries = DeviceAddress::new(unsafe { memory::load_u64(entries) });
        // SAFETY: as above.
        let entry = unsafe { memory::load_u64(entries.offset(u64::from(read % depth) * 8)) };
        store(ring, offset_of!(AcceptBlock, read), read.wrapping_add(1));
        let place = entry as u32 + owner as u32 * self.blocks[0].connection_count;
        assert_eq!(
            self.word(place, offset_of!(StreamWords, generation)),
            (entry >> 32) as u32
        );
        Some(place)
    }

    fn words(&self, place: u32) -> DeviceAddress {
        let (owner, place) = self.at(place);
        let at = u64::from(place) * size_of::<StreamWords>() as u64;
        self.blocks[owner].words.offset(at)
    }

    pub(crate) fn word(&self, place: u32, offset: usize) -> u32 {
        load(self.words(place), offset)
    }

    pub(crate) fn flags(&self, place: u32) -> u32 {
        self.word(place, offset_of!(StreamWords, flags))
    }

    pub(crate) fn cause(&self, place: u32) -> u32 {
        self.word(place, offset_of!(StreamWords, cause))
    }

    pub(crate) fn generation(&self, place: u32) -> u32 {
        self.word(place, offset_of!(StreamWords, generation))
    }

    /// The peer's port.
    pub(crate) fn remote_port(&self, place: u32) -> u32 {
        let at = offset_of!(StreamWords, tuple) + offset_of!(Tuple, local_port);
        self.word(place, at) >> 16
    }

    /// Bytes that came, at most so many; the rest stays.
    pub(crate) fn read(&mut self, place: u32, most: u32) -> Vec<u8> {
        let readable = self.word(place, offset_of!(StreamWords, readable));
        let consumed = self.word(place, offset_of!(StreamWords, consumed));
        let count = readable.wrapping_sub(consumed).min(most);
        let (ring, bytes) = self.ring(
            place,
            offset_of!(StreamWords, receive_ring),
            offset_of!(StreamWords, receive_bytes),
        );
        let read = (0..count).map(|i| {
            let at = consumed.wrapping_add(i) & (bytes - 1);
            // SAFETY: a byte of the ring that the engine leaves alone.
            unsafe { memory::load_u8(ring.offset(u64::from(at))) }
        });
        let read = read.collect();
        if count > 0 {
            let consumed = consumed.wrapping_add(count);
            self.ask(place, offset_of!(StreamWords, consumed), consumed);
        }
        read
    }

    /// Puts bytes into the send ring, as many as fit; how many.
    pub(crate) fn write(&mut self, place: u32, bytes: &[u8]) -> usize {
        let written = self.word(place, offset_of!(StreamWords, written));
        let freed = self.word(place, offset_of!(StreamWords, freed));
        let (ring, size) = self.ring(
            place,
            offset_of!(StreamWords, send_ring),
            offset_of!(StreamWords, send_bytes),
        );
        let room = size - written.wrapping_sub(freed);
        let count = bytes.len().min(room as usize);
        for (byte, i) in bytes[..count].iter().zip(0u32..) {
            let at = written.wrapping_add(i) & (size - 1);
            // SAFETY: a byte of the ring that the engine leaves alone.
            unsafe { memory::store_u8(ring.offset(u64::from(at)), *byte) };
        }
        if count > 0 {
            let written = written.wrapping_add(count as u32);
            self.ask(place, offset_of!(StreamWords, written), written);
        }
        count
    }

    fn ring(&self, place: u32, ring: usize, bytes: usize) -> (DeviceAddress, u32) {
        let at = self.words(place).offset(ring as u64);
        // SAFETY: a word of the stream.
        let ring = DeviceAddress::new(unsafe { memory::load_u64(at) });
        assert!(!ring.is_null(), "only of connected streams");
        (ring, self.word(place, bytes))
    }

    /// Wishes.
    pub(crate) fn wish(&mut self, place: u32, wishes: u32) {
        let before = self.word(place, offset_of!(StreamWords, wishes));
        self.ask(place, offset_of!(StreamWords, wishes), before | wishes);
    }

    /// Stores positions that make no sense.
    pub(crate) fn go_wild(&mut self, place: u32, value: u32) {
        self.ask(place, offset_of!(StreamWords, consumed), value);
        self.ask(place, offset_of!(StreamWords, written), value);
    }

    fn ask(&mut self, place: u32, offset: usize, value: u32) {
        store(self.words(place), offset, value);
        let (owner, place) = self.at(place);
        self.shares[owner].asked.set(place);
    }

    /// Whom there is news for since the last time; of listeners, behind all places.
    pub(crate) fn news(&self) -> Vec<u32> {
        let mut news = Vec::new();
        let each = self.blocks[0].connection_count;
        for (share, owner) in self.shares.iter().zip(0..) {
            share.told.drain(|number| match number.checked_sub(each) {
                None => news.push(owner * each + number),
                Some(listener) => news.push(self.owners() * each + listener),
            });
        }
        news
    }

    /// What an engine counted.
    pub(crate) fn counters_of(&self, owner: usize) -> StreamCounters {
        let at = self.blocks[owner].counters;
        // SAFETY: the block's own; no engine runs.
        unsafe { (at.value() as *const StreamCounters).read() }
    }

    /// What all engines counted.
    pub(crate) fn counters(&self) -> StreamCounters {
        const WORDS: usize = size_of::<StreamCounters>() / 8;
        let mut sum = [0u64; WORDS];
        for owner in 0..self.shares.len() {
            // SAFETY: words alone, of the same size.
            let words: [u64; WORDS] = unsafe { std::mem::transmute(self.counters_of(owner)) };
            sum.iter_mut()
                .zip(words)
                .for_each(|(sum, word)| *sum += word);
        }
        // SAFETY: as above.
        unsafe { std::mem::transmute(sum) }
    }

    /// Places and chunks that are free, of all engines.
    pub(crate) fn free(&self) -> (u32, u32) {
        let standings = self.blocks.iter().map(|block| {
            // SAFETY: the block's own; no engine runs.
            unsafe { (block.standing.value() as *const Standing).read() }
        });
        standings.fold((0, 0), |(places, chunks), one| {
            (places + one.free_places, chunks + one.free_chunks)
        })
    }

    /// Whether all places are free.
    pub(crate) fn is_empty(&self, plan: &Plan) -> bool {
        self.free().0 == plan.places * self.owners()
    }

    /// Panics unless all that connections took was given back, and nothing else was written.
    pub(crate) fn check_is_empty(&self, plan: &Plan) {
        let all = (plan.places * self.owners(), plan.chunks * self.owners());
        assert_eq!(self.free(), all, "{:?}", self.counters());
        for block in self.blocks {
            for bucket in 0..block.bucket_count as usize {
                assert_eq!(load(block.buckets, bucket * 4), 0, "bucket {bucket}");
            }
        }
        self.check_untouched();
    }

    pub(crate) fn check_untouched(&self) {
        self.tables.check_marks();
        self.wire.check_untouched();
    }
}

/// The engines of an end go on where they stand, all in the hands of one warp.
fn run<W: Wire, S: Simt>(simt: &S, blocks: &[StreamBlock], warps: u32, rounds: u32) {
    let crew = Crew::all(warps).map(|crew| attach::<W>(blocks, crew));
    let mut crew: Vec<_> = crew.collect();
    for _ in 0..rounds {
        StreamEngine::step_all(&mut crew, simt).expect("goes on");
    }
    crew.iter_mut().for_each(|engine| engine.save(simt));
}

/// A warp of a crew goes on.
fn run_apart<W: Wire>(simt: &Scalar<'_>, blocks: &[StreamBlock], rounds: u32) {
    let mut engine = attach::<W>(blocks, Crew::of_block(simt));
    let mut left = rounds;
    while engine.agree(simt, || left > 0) {
        engine.step(simt).expect("goes on");
        left = left.saturating_sub(1);
    }
    engine.save(simt);
}

fn attach<W: Wire>(blocks: &[StreamBlock], crew: Crew) -> StreamEngine<'_, W::Rx, W::Tx> {
    // SAFETY: an end's own memory; nobody but the crew drives it.
    let engine = unsafe { StreamEngine::<W::Rx, W::Tx>::attach(blocks, crew) };
    engine.expect("attaches")
}

/// A thread that is a warp of an end.
struct Apart<'a> {
    met: &'a Barrier,
    now_ns: u64,
    place: Place,
}

impl ScalarHost for Apart<'_> {
    fn place(&self) -> Place {
        self.place
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn pause(&self) {}

    fn sync_block(&self) {
        self.met.wait();
    }
}

/// Listeners, and their rings.
fn listeners(
    cut: &mut impl FnMut(usize) -> DeviceAddress,
    plan: &Plan,
) -> (DeviceAddress, Vec<DeviceAddress>) {
    let listeners = cut(size_of::<ListenerBlock>() * LISTENERS as usize);
    let ring_of = |index: u64| {
        let ring = cut(size_of::<AcceptBlock>());
        let entries = cut(plan.accepts as usize * 8);
        store(ring, offset_of!(AcceptBlock, depth), plan.accepts);
        put(
            ring.offset(offset_of!(AcceptBlock, entries) as u64),
            &[entries],
        );
        let at = index * size_of::<ListenerBlock>() as u64;
        let at = at + offset_of!(ListenerBlock, accepts) as u64;
        put(listeners.offset(at), &[ring]);
        ring
    };
    (listeners, (0..u64::from(LISTENERS)).map(ring_of).collect())
}

/// A ring between the engine and the host.
fn host_ring(cut: &mut impl FnMut(usize) -> DeviceAddress) -> DeviceAddress {
    let block = cut(size_of::<CopyBlock>());
    let ring = CopyBlock {
        depth: HOST_SLOTS,
        slots: cut(HOST_SLOTS as usize * 2048),
        slot_bytes: 2048,
        ..CopyBlock::default()
    };
    put(block, &[ring]);
    block
}

const fn address(number: u8, is_ipv6: bool) -> Address {
    let last = number as u32;
    match is_ipv6 {
        false => Address {
            words: [0x0a4d_0000 | last, 0, 0, 0],
            ip_version: 4,
        },
        true => Address {
            words: [0xfd77_0000, 0, 7, last],
            ip_version: 6,
        },
    }
}

pub(crate) fn put<T: Copy>(at: DeviceAddress, values: &[T]) {
    for (value, i) in values.iter().zip(0u64..) {
        let at = at.offset(i * size_of::<T>() as u64);
        // SAFETY: memory that was cut for such values.
        unsafe { (at.value() as *mut T).write(*value) };
    }
}

pub(crate) fn load(at: DeviceAddress, offset: usize) -> u32 {
    // SAFETY: a word of the end's memory.
    unsafe { memory::load_acquire_u32(at.offset(offset as u64)) }
}

pub(crate) fn store(at: DeviceAddress, offset: usize, value: u32) {
    // SAFETY: a word of the end's memory.
    unsafe { memory::store_release_u32(at.offset(offset as u64), value) };
}
