//! Streams against naive models, with a carrier that brings what one end writes to the other.
#![expect(
    unsafe_code,
    reason = "tests own the memory that they attach to, and play the carrier"
)]

use core::mem::offset_of;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use warpwire_device::{Area, Scalar, ScalarHost, SharedWord, Wait};
use warpwire_engine::streams::Bits;
use warpwire_engine::streams::tables::{
    ABORT, AcceptBlock, CLOSE, CLOSED, CONNECTED, PEER_CLOSED, RELEASE, StreamWords,
};
use warpwire_protocols::stream::framing::{Framing, Next};
use warpwire_protocols::stream::{ByteOrder, Bytes as _};
use warpwire_ring::{Cause, DeviceAddress, Location, Region, memory};

use super::*;
use crate::messaging::{Elsewhere, Progress};

/// A host whose clock goes on with every look at it.
struct Host(core::cell::Cell<u64>);

impl ScalarHost for Host {
    fn now_ns(&self) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }

    fn pause(&self) {}

    fn sync_block(&self) {}
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }
}

/// Memory, in lines.
#[repr(C, align(128))]
#[derive(Clone, Copy)]
struct Line([u8; 128]);

/// A table of a few places, and the carrier's end of it.
struct Carrier {
    memory: Vec<Vec<Line>>,
    block: DeviceAddress,
    words: DeviceAddress,
    told: Bits,
    asked: Bits,
    accepts: DeviceAddress,
    heartbeat: DeviceAddress,
    ring_bytes: u32,
}

const PLACES: u32 = 130;
const LISTENERS: u32 = 2;
const DEPTH: u32 = 4;

impl Carrier {
    fn new(ring_bytes: u32) -> Self {
        let mut memory = Vec::new();
        let mut cut = |bytes: usize| {
            let mut lines = vec![Line([0; 128]); bytes.div_ceil(128)];
            let at = DeviceAddress::new(lines.as_mut_ptr() as u64);
            memory.push(lines);
            at
        };
        let words = cut(size_of::<StreamWords>() * PLACES as usize);
        let asked = cut(Bits::bytes(PLACES) as usize);
        let told = cut(Bits::bytes(PLACES + LISTENERS) as usize);
        let (ring, entries) = (cut(size_of::<AcceptBlock>()), cut(DEPTH as usize * 8));
        let (accepts, heartbeat) = (cut(8 * LISTENERS as usize), cut(4));
        let block = cut(size_of::<TableBlock>());
        // SAFETY: cut for these, here and below; nobody else has them.
        unsafe { memory::store_u32(ring.offset(offset_of!(AcceptBlock, depth) as u64), DEPTH) };
        let at = ring.offset(offset_of!(AcceptBlock, entries) as u64);
        // SAFETY: as above.
        unsafe { memory::store_u64(at, entries.value()) };
        // SAFETY: as above: the second listener's; the first has none.
        unsafe { memory::store_u64(accepts.offset(8), ring.value()) };
        let table = TableBlock {
            header: TableBlock::HEADER,
            words,
            asked,
            told,
            accepts,
            heartbeat,
            stale_ns: 1_000,
            place_count: PLACES,
            listener_count: LISTENERS,
        };
        // SAFETY: as above.
        unsafe { (block.value() as *mut TableBlock).write(table) };
        Self {
            // SAFETY: zeros that were cut for it.
            told: unsafe { Bits::attach(told, PLACES + LISTENERS) },
            // SAFETY: as above.
            asked: unsafe { Bits::attach(asked, PLACES) },
            memory,
            block,
            words,
            accepts: ring,
            heartbeat,
            ring_bytes,
        }
    }

    fn table(&self) -> Table {
        // SAFETY: the carrier's own memory.
        unsafe { Table::attach(self.block) }.expect("attaches")
    }

    fn at(&self, place: u32, offset: usize) -> DeviceAddress {
        let at = u64::from(place) * size_of::<StreamWords>() as u64 + offset as u64;
        self.words.offset(at)
    }

    fn word(&self, place: u32, offset: usize) -> u32 {
        // SAFETY: a word of the table.
        unsafe { memory::load_acquire_u32(self.at(place, offset)) }
    }

    fn set(&self, place: u32, offset: usize, value: u32) {
        // SAFETY: a word of the table.
        unsafe { memory::store_release_u32(self.at(place, offset), value) };
    }

    /// A stream begins, with positions that wrap soon.
    fn open(&mut self, place: u32, generation: u32, position: u32) -> Name {
        for offset in [
            offset_of!(StreamWords, written),
            offset_of!(StreamWords, consumed),
            offset_of!(StreamWords, readable),
            offset_of!(StreamWords, freed),
        ] {
            self.set(place, offset, position);
        }
        self.set(place, offset_of!(StreamWords, wishes), 0);
        for (ring, bytes) in [
            (
                offset_of!(StreamWords, receive_ring),
                offset_of!(StreamWords, receive_bytes),
            ),
            (
                offset_of!(StreamWords, send_ring),
                offset_of!(StreamWords, send_bytes),
            ),
        ] {
            let mut lines = vec![Line([0; 128]); self.ring_bytes.div_ceil(128) as usize];
            let at = lines.as_mut_ptr() as u64;
            self.memory.push(lines);
            // SAFETY: a word of the table.
            unsafe { memory::store_u64(self.at(place, ring), at) };
            self.set(place, bytes, self.ring_bytes);
        }
        self.set(place, offset_of!(StreamWords, flags), CONNECTED);
        self.set(place, offset_of!(StreamWords, generation), generation);
        Name { place, generation }
    }

    fn flag(&self, place: u32, flags: u32, cause: u32) {
        self.set(place, offset_of!(StreamWords, cause), cause);
        let before = self.word(place, offset_of!(StreamWords, flags));
        self.set(place, offset_of!(StreamWords, flags), before | flags);
        self.told.set(place);
    }

    fn ring(&self, place: u32, ring: usize, position: u32) -> DeviceAddress {
        // SAFETY: a word of the table.
        let at = unsafe { memory::load_u64(self.at(place, ring)) };
        DeviceAddress::new(at).offset(u64::from(position & (self.ring_bytes - 1)))
    }

    /// Brings bytes to a stream, as many as its ring has room for; how many.
    fn bring(&self, place: u32, bytes: &[u8]) -> usize {
        let readable = self.word(place, offset_of!(StreamWords, readable));
        let consumed = self.word(place, offset_of!(StreamWords, consumed));
        let room = self.ring_bytes - readable.wrapping_sub(consumed);
        let count = bytes.len().min(room as usize);
        for (byte, i) in bytes[..count].iter().zip(0..) {
            let at = self.ring(
                place,
                offset_of!(StreamWords, receive_ring),
                readable.wrapping_add(i),
            );
            // SAFETY: a byte of the ring that is the carrier's.
            unsafe { memory::store_u8(at, *byte) };
        }
        let readable = readable.wrapping_add(count as u32);
        self.set(place, offset_of!(StreamWords, readable), readable);
        self.told.set(place);
        count
    }

    /// Takes up to `most` bytes that a stream wrote and told of.
    fn fetch(&self, place: u32, most: u32) -> Vec<u8> {
        let written = self.word(place, offset_of!(StreamWords, written));
        let freed = self.word(place, offset_of!(StreamWords, freed));
        let count = written.wrapping_sub(freed);
        assert!(count <= self.ring_bytes, "more than the ring holds");
        let count = count.min(most);
        let bytes = (0..count).map(|i| {
            let at = self.ring(
                place,
                offset_of!(StreamWords, send_ring),
                freed.wrapping_add(i),
            );
            // SAFETY: a byte of the ring that was handed over.
            unsafe { memory::load_u8(at) }
        });
        let bytes = bytes.collect();
        let freed = freed.wrapping_add(count);
        self.set(place, offset_of!(StreamWords, freed), freed);
        self.told.set(place);
        bytes
    }

    fn asked(&self) -> Vec<u32> {
        let mut all = Vec::new();
        self.asked.drain(|place| all.push(place));
        all
    }

    fn offer(&self, name: Name) {
        let at = |offset: usize| self.accepts.offset(offset as u64);
        // SAFETY: words of the ring, here and below.
        let written = unsafe { memory::load_u32(at(offset_of!(AcceptBlock, written))) };
        // SAFETY: as above.
        let entries = unsafe { memory::load_u64(at(offset_of!(AcceptBlock, entries))) };
        let entry = DeviceAddress::new(entries).offset(u64::from(written % DEPTH) * 8);
        let value = u64::from(name.generation) << 32 | u64::from(name.place);
        // SAFETY: as above.
        unsafe { memory::store_u64(entry, value) };
        // SAFETY: as above.
        unsafe { memory::store_release_u32(at(offset_of!(AcceptBlock, written)), written + 1) };
        self.told.set(PLACES + 1);
    }
}

/// Bytes that the test owns, as an extent.
fn area(bytes: &[u8]) -> Area {
    let region = Region {
        address: DeviceAddress::new(bytes.as_ptr() as u64),
        length: bytes.len() as u64,
        key: 0,
        location: Location::PageableHost,
    };
    // SAFETY: outlives its use in a test, which only reads it.
    unsafe { Area::attach(region) }
}

fn all(extent: &Extent<'_>) -> Vec<u8> {
    (0..extent.length())
        .map_while(|at| extent.byte(at))
        .collect()
}

fn bytes(dice: &mut Dice, most: u64) -> Vec<u8> {
    let count = dice.below(most + 1);
    (0..count).map(|_| dice.below(256) as u8).collect()
}

#[test]
fn random_operations_do_as_queues_of_bytes_do() {
    let host = Host(core::cell::Cell::new(0));
    let simt = &Scalar::new(&host);
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let ring_bytes = 128 << dice.below(3);
        let mut carrier = Carrier::new(ring_bytes);
        let position = 0u32.wrapping_sub(dice.below(600) as u32);
        let place = dice.below(u64::from(PLACES)) as u32;
        let name = carrier.open(place, 7, position);
        let table = carrier.table();
        let mut stream = table.stream(simt, name).expect("is there");
        let (mut unread, mut unsent) = (VecDeque::new(), VecDeque::new());
        for _ in 0..300 {
            match dice.below(9) {
                0 => {
                    let bytes = bytes(&mut dice, u64::from(ring_bytes) * 2);
                    let count = carrier.bring(place, &bytes);
                    unread.extend(&bytes[..count]);
                }
                1 => {
                    let most = dice.below(u64::from(ring_bytes) * 2) as u32;
                    for byte in carrier.fetch(place, most) {
                        assert_eq!(unsent.pop_front(), Some(byte), "seed {seed}");
                    }
                }
                2 => {
                    let found = all(&stream.peek(simt));
                    assert_eq!(found, Vec::from(unread.clone()), "seed {seed}");
                }
                3 => {
                    let count = dice.below(u64::from(ring_bytes)) as u32;
                    let readable = stream.readable();
                    stream.consume(simt, count);
                    unread.drain(..readable.min(count) as usize);
                    assert_eq!(stream.readable(), readable - readable.min(count));
                }
                4 | 5 => {
                    let bytes = bytes(&mut dice, u64::from(ring_bytes));
                    let from = area(&bytes);
                    let from = from.piece(0, bytes.len() as u32).expect("whole").into();
                    let count = match dice.below(2) {
                        0 => stream.write(simt, &from),
                        _ => stream.write_bytes(simt, &bytes),
                    };
                    unsent.extend(&bytes[..count as usize]);
                    let is_full = stream.writable() == 0;
                    assert!(count as usize == bytes.len() || is_full, "seed {seed}");
                }
                6 => {
                    let most = dice.below(u64::from(ring_bytes)) as u32;
                    let want = most.min(stream.readable()).min(stream.writable());
                    assert_eq!(stream.reflect(simt, most), want, "seed {seed}");
                    unsent.extend(unread.drain(..want as usize));
                }
                7 => stream.look(simt),
                _ => {
                    stream.ring(simt);
                    // Where it stands lies in its words.
                    stream = table.stream(simt, name).expect("is there");
                }
            }
        }
        stream.ring(simt);
        stream.look(simt);
        assert_eq!(all(&stream.unread()), Vec::from(unread));
        let rest = carrier.fetch(place, u32::MAX);
        assert_eq!(rest, Vec::from(unsent), "seed {seed}");
        assert_eq!(carrier.asked(), [place]);
    }
}

#[test]
fn the_carrier_is_asked_once_for_what_changed() {
    let host = Host(core::cell::Cell::new(0));
    let simt = &Scalar::new(&host);
    let mut carrier = Carrier::new(128);
    let name = carrier.open(3, 1, 0);
    let mut stream = carrier.table().stream(simt, name).expect("is there");
    stream.ring(simt);
    assert_eq!(carrier.asked(), []);
    carrier.bring(3, b"abc");
    assert_eq!(all(&stream.peek(simt)), b"abc");
    stream.consume(simt, 2);
    stream.write_bytes(simt, b"xy");
    assert_eq!(carrier.asked(), []);
    stream.ring(simt);
    stream.ring(simt);
    assert_eq!(carrier.asked(), [3]);
    assert_eq!(carrier.word(3, offset_of!(StreamWords, consumed)), 2);
    assert_eq!(carrier.fetch(3, 9), b"xy");
    stream.close(simt);
    assert_eq!(carrier.word(3, offset_of!(StreamWords, wishes)), CLOSE);
    assert_eq!(stream.writable(), 0, "closed");
    assert_eq!(stream.write_bytes(simt, b"z"), 0);
    stream.abort(simt);
    stream.release(simt);
    let wishes = carrier.word(3, offset_of!(StreamWords, wishes));
    assert_eq!(wishes, CLOSE | ABORT | RELEASE);
    assert_eq!(carrier.asked(), [3]);
}

#[test]
fn names_of_others_and_wrong_blocks_are_refused() {
    let host = Host(core::cell::Cell::new(0));
    let simt = &Scalar::new(&host);
    let mut carrier = Carrier::new(128);
    let name = carrier.open(3, 5, 0);
    let table = carrier.table();
    for (place, generation) in [(3, 4), (3, 0), (4, 5), (4, 0), (PLACES, 1), (u32::MAX, 5)] {
        let found = table.stream(simt, Name { place, generation });
        assert_eq!(
            found.err(),
            Some(Cause::Disconnected),
            "{place} {generation}"
        );
    }
    assert_eq!(table.stream(simt, name).expect("is there").name(), name);
    for block in [
        DeviceAddress::NULL,
        carrier.block.offset(8),
        carrier.words,
        carrier.accepts,
    ] {
        // SAFETY: live memory, or none that is looked at.
        let found = unsafe { Table::attach(block) };
        assert_eq!(found.err(), Some(Cause::LayoutMismatch));
    }
}

#[test]
fn who_has_news_is_named_once_a_pass_and_never_lost() {
    let host = Host(core::cell::Cell::new(0));
    let simt = &Scalar::new(&host);
    let carrier = Carrier::new(128);
    let table = carrier.table();
    let mut news = News::default();
    assert_eq!(table.next_news(simt, &mut news), None);
    for number in [129, 0, 63, 64, PLACES + 1, 64] {
        carrier.told.set(number);
    }
    let pass = |news: &mut News| {
        let next = || table.next_news(simt, news);
        core::iter::from_fn(next).collect::<Vec<_>>()
    };
    let (place, listener) = (Told::Place, Told::Listener);
    assert_eq!(
        pass(&mut news),
        [place(0), place(63), place(64), place(129), listener(1)]
    );
    assert_eq!(pass(&mut news), []);
    // Whoever is not done is named in the next pass.
    carrier.told.set(1);
    carrier.told.set(2);
    assert_eq!(table.next_news(simt, &mut news), Some(place(1)));
    table.again(simt, place(1));
    assert_eq!(pass(&mut news), [place(2)]);
    assert_eq!(pass(&mut news), [place(1)]);
    // Who stops in the middle leaves the rest to the next.
    for number in [1, 2, 70, PLACES] {
        carrier.told.set(number);
    }
    assert_eq!(table.next_news(simt, &mut news), Some(place(1)));
    table.put_back(simt, news);
    let mut news = News::default();
    assert_eq!(pass(&mut news), [place(2), place(70), listener(0)]);
}

#[test]
fn streams_are_accepted_in_their_order() {
    let host = Host(core::cell::Cell::new(0));
    let simt = &Scalar::new(&host);
    let carrier = Carrier::new(128);
    let table = carrier.table();
    for listener in [0, 1, 2, u32::MAX] {
        assert_eq!(table.accept(simt, listener), None);
    }
    let name = |place| Name {
        place,
        generation: 9,
    };
    for round in 0..5 {
        for place in 0..DEPTH {
            carrier.offer(name(place + round));
        }
        let wait = Wait::within(simt, 100);
        let first = table.wait_accept(simt, 1, &wait, &mut Elsewhere);
        assert_eq!(first, Ok(name(round)));
        for place in 1..DEPTH {
            assert_eq!(table.accept(simt, 1), Some(name(place + round)));
        }
        assert_eq!(table.accept(simt, 1), None);
    }
}

/// A carrier that does something at each look.
struct Doing<F>(F);

impl<F: FnMut()> Progress for Doing<F> {
    fn progress<S: warpwire_device::Simt>(&mut self, _simt: &S) -> Result<bool, Cause> {
        (self.0)();
        Ok(true)
    }
}

#[test]
fn waits_end_by_what_they_are_for() {
    let host = Host(core::cell::Cell::new(0));
    let simt = &Scalar::new(&host);
    let mut carrier = Carrier::new(128);
    let name = carrier.open(3, 1, 5);
    let mut stream = carrier.table().stream(simt, name).expect("is there");
    let wait = Wait::within(simt, 1 << 40);
    let mut beat = 0;
    let mut bring = Doing(|| {
        beat += 1;
        // SAFETY: the carrier's word.
        unsafe { memory::store_release_u32(carrier.heartbeat, beat) };
        carrier.bring(3, b"abcd");
    });
    let read = stream.wait_readable(simt, 10, &wait, &mut bring);
    assert_eq!(read, Ok(12));
    // No more than the ring holds can be waited for.
    let read = stream.wait_readable(simt, 1000, &wait, &mut bring);
    assert_eq!(read, Ok(128));
    let mut taken = Vec::new();
    let mut fetch = Doing(|| taken.extend(carrier.fetch(3, 7)));
    let text: Vec<u8> = (0..=255).cycle().take(1000).collect();
    let from = area(&text);
    let from = from.piece(0, 1000).expect("whole").into();
    let written = stream.write_all(simt, &from, &wait, &mut fetch);
    assert_eq!(written, Ok(()));
    assert_eq!(stream.flush(simt, &wait, &mut fetch), Ok(()));
    assert_eq!(stream.wait_writable(simt, 1000, &wait, &mut fetch), Ok(128));
    assert_eq!(taken, text);
}

#[test]
fn waits_end_with_a_cause() {
    let host = Host(core::cell::Cell::new(0));
    let simt = &Scalar::new(&host);
    let check = |flags: u32, ended: u32, read: Result<u32, Cause>, write: Result<u32, Cause>| {
        let mut carrier = Carrier::new(128);
        let name = carrier.open(3, 1, 0);
        let mut stream = carrier.table().stream(simt, name).expect("is there");
        stream.write_bytes(simt, &[0; 128]);
        if flags != 0 {
            carrier.flag(3, flags, ended);
        }
        let wait = Wait::within(simt, 100);
        let found = stream.wait_readable(simt, 5, &wait, &mut Elsewhere);
        assert_eq!(found, read, "{flags} {ended}");
        let found = stream.wait_writable(simt, 1, &wait, &mut Elsewhere);
        assert_eq!(found, write, "{flags} {ended}");
        // What came is read before the end is told.
        carrier.bring(3, b"ab");
        let found = stream.wait_readable(simt, 5, &wait, &mut Elsewhere);
        assert_eq!(found, if flags == 0 { read } else { Ok(2) });
    };
    let late = Err(Cause::DeadlineExceeded);
    check(0, 0, late, late);
    check(PEER_CLOSED, 0, Ok(0), late);
    for ended in Ended::ALL {
        let cause = Err(ended.cause());
        let read = if ended == Ended::Finished {
            Ok(0)
        } else {
            cause
        };
        check(CLOSED, ended as u32, read, cause);
        check(CLOSED | PEER_CLOSED, ended as u32, Ok(0), cause);
    }
}

#[test]
fn waits_end_by_the_abort_word_and_without_a_heart() {
    let host = Host(core::cell::Cell::new(0));
    let simt = &Scalar::new(&host);
    let mut carrier = Carrier::new(128);
    let name = carrier.open(3, 1, 0);
    let mut stream = carrier.table().stream(simt, name).expect("is there");
    let wait = Wait::within(simt, 1 << 40);
    let found = stream.wait_readable(simt, 1, &wait, &mut Elsewhere);
    assert_eq!(found, Err(Cause::EngineNotRunning));
    let stop = 1u32;
    let at = DeviceAddress::new(&raw const stop as u64);
    // SAFETY: a word of the test's own.
    let wait = wait.abort_on(unsafe { SharedWord::attach(at) });
    let found = stream.wait_readable(simt, 1, &wait, &mut Elsewhere);
    assert_eq!(found, Err(Cause::Aborted));
    let found = carrier.table().wait_accept(simt, 1, &wait, &mut Elsewhere);
    assert_eq!(found, Err(Cause::Aborted));
    stream.close(simt);
    let found = stream.wait_writable(simt, 1, &wait, &mut Elsewhere);
    assert_eq!(found, Err(Cause::LocalQpOperation));
}

#[test]
fn records_come_whole_and_go_whole() {
    let host = Host(core::cell::Cell::new(0));
    let simt = &Scalar::new(&host);
    let framing = Framing::delimited(2, ByteOrder::Big, false, 1000).expect("is legal");
    for seed in 0..100 {
        let mut dice = Dice(seed);
        let mut carrier = Carrier::new(256);
        let position = 0u32.wrapping_sub(dice.below(300) as u32);
        let name = carrier.open(3, 1, position);
        let mut stream = carrier.table().stream(simt, name).expect("is there");
        let records: Vec<Vec<u8>> = (0..40).map(|_| bytes(&mut dice, 254)).collect();
        let mut on_way = VecDeque::new();
        let (mut sent, mut read) = (0, 0);
        while read < records.len() {
            if let Some(record) = records.get(sent)
                && dice.below(2) == 0
            {
                let from = area(record);
                let from = from.piece(0, record.len() as u32).expect("whole").into();
                let is_written = stream.write_record(simt, &framing, &from);
                sent += usize::from(is_written.expect("such records are"));
                stream.ring(simt);
            }
            on_way.extend(carrier.fetch(3, dice.below(100) as u32));
            let some = dice.below(100).min(on_way.len() as u64) as usize;
            let some: Vec<u8> = on_way.iter().copied().take(some).collect();
            on_way.drain(..carrier.bring(3, &some));
            if let Next::Record(record) = stream.record(simt, &framing) {
                let found = stream.unread().part(record.at, record.length);
                assert_eq!(all(&found.expect("is there")), records[read], "seed {seed}");
                stream.consume(simt, record.end());
                read += 1;
            }
            stream.ring(simt);
        }
    }
}

#[test]
fn records_that_cannot_be_are_told() {
    let host = Host(core::cell::Cell::new(0));
    let simt = &Scalar::new(&host);
    let check = |came: &[u8], flags: u32, want: Result<Option<u32>, Cause>| {
        let framing = Framing::delimited(2, ByteOrder::Big, false, 1000).expect("is legal");
        let mut carrier = Carrier::new(256);
        let name = carrier.open(3, 1, 0);
        let mut stream = carrier.table().stream(simt, name).expect("is there");
        carrier.bring(3, came);
        carrier.flag(3, flags, 0);
        let wait = Wait::within(simt, 100);
        let found = stream.wait_record(simt, &framing, &wait, &mut Elsewhere);
        let found = found.map(|record| record.map(|record| record.length));
        assert_eq!(found, want, "{came:?}");
    };
    check(&[0, 3, 1, 2, 3], 0, Ok(Some(3)));
    check(&[0, 3, 1, 2], 0, Err(Cause::DeadlineExceeded));
    check(&[0, 3, 1, 2], PEER_CLOSED, Err(Cause::LocalLength));
    check(&[], PEER_CLOSED, Ok(None));
    check(&[0, 0], PEER_CLOSED, Ok(Some(0)));
    check(&[4, 0], 0, Err(Cause::BadResponse));
    check(&[0, 255], 0, Err(Cause::FrameTooLong));
    check(&[0, 254], 0, Err(Cause::DeadlineExceeded));
}

#[test]
fn numbers_of_ends_are_those_of_tcp() {
    use warpwire_protocols::tcp::Cause as Tcp;
    let tcp = [
        Tcp::Finished,
        Tcp::Reset,
        Tcp::Refused,
        Tcp::TimedOut,
        Tcp::Aborted,
        Tcp::Unreachable,
    ];
    for (ended, cause) in Ended::ALL.into_iter().zip(tcp) {
        assert_eq!(ended as u32, cause as u32 + 1, "{ended:?}");
        assert_eq!(Ended::from_number(ended as u32), Some(ended));
    }
    assert_eq!(Ended::from_number(0), None);
}
