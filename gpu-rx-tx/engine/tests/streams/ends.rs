//! One end: an engine, its tables, and the application and the host at its words.
#![expect(
    unsafe_code,
    reason = "tests own the memory that engines and applications work on"
)]

use std::cell::Cell;
use std::mem::offset_of;

use warpwire_device::{CopyBlock, Scalar, ScalarHost, Simt};
use warpwire_engine::streams::tables::*;
use warpwire_engine::streams::{Bits, StreamEngine};
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
    block: &'static StreamBlock,
    asked: Bits,
    told: Bits,
    commands: u32,
    accepted: Vec<DeviceAddress>,
    pub(crate) slow: DeviceAddress,
    pub(crate) inject: DeviceAddress,
    pub(crate) mac: [u8; 6],
    pub(crate) address: Address,
    /// Runs 32 lanes.
    pub(crate) is_wide: bool,
    /// Whether it takes peers that it connects to for neighbours.
    pub(crate) is_on_link: u32,
}

pub(crate) const LISTENERS: u32 = 2;
pub(crate) const HOST_SLOTS: u32 = 8;
const COMMANDS: u32 = 4;

impl<W: Wire> End<W> {
    pub(crate) fn new(plan: &Plan, number: u8, is_ipv6: bool) -> Self {
        let wire = W::with_slots(256, 0, 2048);
        let bytes = plan.chunks as usize * plan.chunk_bytes as usize + plan.places as usize * 2048;
        let mut pages = Pages::new(bytes + (256 << 10));
        let mut cut = |bytes: usize| pages.cut(bytes.max(8), 128);
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
        let address = address(number, is_ipv6);
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
        };
        Self {
            wire,
            tables: pages,
            block: Box::leak(Box::new(block)),
            // SAFETY: cut for it, and zeros.
            asked: unsafe { Bits::attach(asked, plan.places) },
            // SAFETY: as above.
            told: unsafe { Bits::attach(told, told_bits) },
            commands: 0,
            accepted,
            slow,
            inject,
            mac: [2, 0, 0, 0, 0, number],
            address,
            is_wide: false,
            is_on_link: 0,
        }
    }

    /// Runs the engine for some rounds.
    pub(crate) fn run(&mut self, clock: &Clock, rounds: u32) {
        if self.is_wide {
            let block = self.block;
            return Lanes::new(clock.0.get()).run(|simt| run::<W, _>(simt, block, rounds));
        }
        run::<W, _>(&Scalar::new(clock), self.block, rounds);
    }

    /// Asks for something; runs the engine until there is an answer.
    pub(crate) fn command(&mut self, clock: &Clock, command: Command) -> CommandAnswer {
        let slot = self.commands % COMMANDS;
        self.commands += 1;
        let at = u64::from(slot) * size_of::<CommandSlot>() as u64;
        let at = self.block.commands.offset(at);
        put(
            at,
            &[Command {
                number: 0,
                ..command
            }],
        );
        // SAFETY: a word of the slot.
        unsafe { memory::store_release_u32(at, self.commands) };
        self.run(clock, 1);
        let answer = at.offset(offset_of!(CommandSlot, answer) as u64);
        // SAFETY: the answer of the slot.
        let answer = unsafe { (answer.value() as *const CommandAnswer).read() };
        assert_eq!(answer.number, self.commands, "answered at once");
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
        self.command(clock, command)
    }

    /// The next connection of a listener: its place.
    pub(crate) fn accept(&mut self, listener: u32) -> Option<u32> {
        let ring = self.accepted[listener as usize];
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
        let place = entry as u32;
        assert_eq!(
            self.word(place, offset_of!(StreamWords, generation)),
            (entry >> 32) as u32
        );
        Some(place)
    }

    fn words(&self, place: u32) -> DeviceAddress {
        let at = u64::from(place) * size_of::<StreamWords>() as u64;
        self.block.words.offset(at)
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
        self.asked.set(place);
    }

    /// Whom there is news for since the last time.
    pub(crate) fn news(&self) -> Vec<u32> {
        let mut news = Vec::new();
        self.told.drain(|number| news.push(number));
        news
    }

    pub(crate) fn counters(&self) -> StreamCounters {
        // SAFETY: the block's own; no engine runs.
        unsafe { (self.block.counters.value() as *const StreamCounters).read() }
    }

    pub(crate) fn standing(&self) -> Standing {
        // SAFETY: as above.
        unsafe { (self.block.standing.value() as *const Standing).read() }
    }

    /// Panics unless all that connections took was given back, and nothing else was written.
    pub(crate) fn check_is_empty(&self, plan: &Plan) {
        let standing = self.standing();
        assert_eq!(standing.free_places, plan.places, "{:?}", self.counters());
        assert_eq!(standing.free_chunks, plan.chunks);
        for bucket in 0..self.block.bucket_count as usize {
            assert_eq!(load(self.block.buckets, bucket * 4), 0, "bucket {bucket}");
        }
        self.check_untouched();
    }

    pub(crate) fn check_untouched(&self) {
        self.tables.check_marks();
        self.wire.check_untouched();
    }
}

/// An engine goes on where it stands.
fn run<W: Wire, S: Simt>(simt: &S, block: &StreamBlock, rounds: u32) {
    // SAFETY: an end's own memory; nobody else drives it.
    let engine = unsafe { StreamEngine::<W::Rx, W::Tx>::attach(block) };
    let mut engine = engine.expect("attaches");
    for _ in 0..rounds {
        engine.step(simt).expect("goes on");
    }
    engine.save(simt);
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
