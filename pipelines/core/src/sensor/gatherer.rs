//! Placing records in their rows, by a whole warp.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that tensors, words and state are live memory"
)]

use core::mem::offset_of;

use warpwire_device::{Area, Piece, SharedCounters, SharedSignal, Simt, copy_across};
use warpwire_protocols::stream::Bytes;
use warpwire_ring::memory::Quad;
use warpwire_ring::{DeviceAddress, Location, Region};

use super::block::{Gap, SensorBlock, SensorCounters, SensorState, SensorWords, Why};
use super::parts::Parts;
use super::state::{Limits, Step};

/// A gatherer, as a warp has it: each lane a copy, all copies equal.
#[derive(Clone, Copy, Debug)]
pub struct Gatherer<'a> {
    block: &'a SensorBlock,
    headers: Area,
    values: Area,
}

/// What became of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Became {
    /// It has its row.
    Placed,
    /// It was dropped, and counted.
    Dropped(Why),
    /// The host is behind. It may be offered again; who drops it says [`Gatherer::refuse`].
    Full,
}

impl<'a> Gatherer<'a> {
    /// Attaches to a block; `None` for null and for a block that is none.
    ///
    /// # Safety
    /// *The gatherer's promise*: at an aligned address lie a [`SensorBlock`] or 16 bytes at least,
    /// live with all that it names for `'a`; nobody changes the block or the state, and tensors
    /// and words only as their texts say. One warp uses it at a time, its lanes together.
    #[inline]
    pub unsafe fn attach(at: DeviceAddress) -> Option<Self> {
        if at.is_null() || !at.is_aligned(align_of::<SensorBlock>() as u64) {
            return None;
        }
        let layout = at.offset(offset_of!(SensorBlock, layout) as u64);
        // SAFETY: within the first 16 bytes.
        if unsafe { *(layout.value() as *const u64) } != SensorBlock::LAYOUT {
            return None;
        }
        // SAFETY: the layout says that it is such a block; nobody changes it.
        let block = unsafe { &*(at.value() as *const SensorBlock) };
        let tables = [
            (block.headers, 1),
            (block.values, 16),
            (block.gaps, align_of::<Gap>()),
            (block.words, align_of::<SensorWords>()),
            (block.state, align_of::<SensorState>()),
            (block.counters, align_of::<SensorCounters>()),
        ];
        let is_there =
            |(at, align): (DeviceAddress, usize)| !at.is_null() && at.is_aligned(align as u64);
        if !block.is_sound() || !tables.into_iter().all(is_there) {
            return None;
        }
        let area = |address, length| {
            let region = Region {
                address,
                length,
                key: 0,
                location: Location::Device,
            };
            // SAFETY: a tensor, by the promise.
            unsafe { Area::attach(region) }
        };
        let tensors = block.tensors();
        Some(Self {
            block,
            headers: area(block.headers, tensors.header_bytes),
            values: area(block.values, tensors.value_bytes),
        })
    }

    /// *Collective.* Offers a record. All lanes name the same one. It is told by
    /// [`Gatherer::turn`].
    pub fn offer<S: Simt>(&self, simt: &S, record: &Parts<'_>) -> Became {
        if record.length() != self.block.record_bytes() {
            return self.drop(simt, Why::Length);
        }
        let Some(number) = self.block.format.sequence(record, 0) else {
            return self.drop(simt, Why::Scattered);
        };
        // Once to find out what is to be settled before, and once again.
        for _ in 0..MOST_STEPS {
            match self.judge(simt, number) {
                Step::Place(position) => {
                    self.place(simt, record, position);
                    self.count(simt, offset_of!(SensorCounters, placed), 1);
                    return Became::Placed;
                }
                Step::Drop(Why::Full) => return Became::Full,
                Step::Drop(why) => return self.drop(simt, why),
                Step::Settle(before) => {
                    if !self.settle(simt, before) {
                        return Became::Full;
                    }
                }
                Step::Restart(number) => {
                    if !self.restart(simt, number) {
                        return Became::Full;
                    }
                }
            }
        }
        Became::Full
    }

    /// *Collective.* Drops a record for a reason.
    pub fn drop<S: Simt>(&self, simt: &S, why: Why) -> Became {
        let at = offset_of!(SensorCounters, dropped) + why as usize * 8;
        self.count(simt, at, 1);
        Became::Dropped(why)
    }

    /// *Collective.* Settles what came and what its time has passed for, and tells the host. Says
    /// whether there was any.
    pub fn turn<S: Simt>(&self, simt: &S) -> bool {
        let before = self.leading(simt, |one| one.state().whole());
        self.settle(simt, 0);
        let now_ns = simt.now_ns();
        let due = self.leading(simt, |one| {
            one.state().due(now_ns, one.block.patience_ns).unwrap_or(0)
        });
        if due != 0 {
            self.settle(simt, due);
        }
        before != self.leading(simt, |one| one.state().whole())
    }

    /// *Collective.* What is to be done about a record.
    fn judge<S: Simt>(&self, simt: &S, number: u64) -> Step {
        let (mut code, mut value) = (0, 0);
        if simt.is_leader() {
            let limits = Limits {
                rows: u64::from(self.block.rows),
                // pairs with: the host's release of what it has read.
                consumed: self.word(offset_of!(SensorWords, consumed)).load(),
                far_limit: self.block.far_limit,
                late_limit: self.block.late_limit,
            };
            (code, value) = match self.state().judge(number, &limits) {
                Step::Drop(why) => (why as u32, 0),
                Step::Place(position) => (PLACE, position),
                Step::Settle(before) => (SETTLE, before),
                Step::Restart(number) => (RESTART, number),
            };
        }
        let value = simt.shuffle_u64(value, 0);
        match simt.shuffle(code, 0) {
            PLACE => Step::Place(value),
            SETTLE => Step::Settle(value),
            RESTART => Step::Restart(value),
            why => {
                let why = Why::ALL.into_iter().find(|one| *one as u32 == why);
                Step::Drop(why.unwrap_or(Why::Late))
            }
        }
    }

    /// *Collective.* Settles what came, and all before a number. Says no if gaps could not be told.
    fn settle<S: Simt>(&self, simt: &S, before: u64) -> bool {
        let mut kind = MISSING;
        // A run has a record at least, and rows are as many as records can be.
        for _ in 0..=self.block.rows {
            let (mut from, mut count) = (0, 0);
            if simt.is_leader() {
                let state = self.state();
                let run = match self.has_room_for_gap() {
                    true => state.window.give_up(before),
                    false => state.window.settle(),
                };
                kind = match run {
                    Some(run) => {
                        (from, count) = (run.from, run.count);
                        if run.came { CAME } else { MISSING }
                    }
                    None if state.window.base() < before => STUCK,
                    None => DONE,
                };
            }
            kind = simt.shuffle(kind, 0);
            match kind {
                CAME => {}
                MISSING => {
                    from = simt.shuffle_u64(from, 0);
                    count = simt.shuffle_u64(count, 0);
                    self.miss(simt, from, count);
                }
                _ => break,
            }
        }
        self.publish(simt);
        kind == DONE
    }

    /// *Collective.* Settles everything, and begins anew. Says no if that could not be told.
    fn restart<S: Simt>(&self, simt: &S, number: u64) -> bool {
        let top = self.leading(simt, |one| one.state().window.top());
        if !self.settle(simt, top) {
            return false;
        }
        let has_room = self.leading(simt, |one| u64::from(one.has_room_for_gap())) != 0;
        if has_room && simt.is_leader() {
            let gap = self.state().restart(number);
            self.tell(&gap);
            self.count(simt, offset_of!(SensorCounters, missing), gap.count);
            self.count(simt, offset_of!(SensorCounters, restarts), 1);
        }
        has_room
    }

    /// *Collective.* Fills the rows of records that did not come, and tells the gap.
    fn miss<S: Simt>(&self, simt: &S, from: u64, count: u64) {
        let position = self.leading(simt, |one| one.state().position(from));
        for row in 0..count.min(u64::from(self.block.rows)) {
            let (header, values) = self.row(position.wrapping_add(row));
            fill(simt, &header, 0);
            fill(simt, &values, NOT_A_NUMBER);
        }
        if simt.is_leader() {
            self.tell(&Gap {
                first: from,
                count,
                position,
                rows: count,
            });
            self.count(simt, offset_of!(SensorCounters, missing), count);
        }
    }

    /// *Collective.* Lets the host see the rows that are settled.
    fn publish<S: Simt>(&self, simt: &S) {
        // What lanes wrote is seen by the leader, which lets the host see it.
        simt.sync_warp();
        if simt.is_leader() {
            let word = self.word(offset_of!(SensorWords, whole));
            let whole = self.state().whole();
            if word.load() != whole {
                // pairs with: the host's acquire before it reads rows.
                word.store(whole);
            }
        }
    }

    /// *Collective.* Writes a record to its row.
    fn place<S: Simt>(&self, simt: &S, record: &Parts<'_>, position: u64) {
        let (header, values) = self.row(position);
        let (header_bytes, samples) = (self.block.header_bytes, self.block.samples);
        match record.run(0, header_bytes) {
            Some(from) => copy_across(simt, &from, &header),
            None => {
                let mut at = simt.lane();
                while at < header_bytes {
                    header.set_byte(at, record.byte(at).unwrap_or(0));
                    at += S::WIDTH;
                }
            }
        }
        let done = match record.run(header_bytes, samples * 2) {
            Some(from) => self.convert(simt, &from, &values),
            None => 0,
        };
        let mut index = done + simt.lane();
        while index < samples {
            let value = self.block.conversion.sample(record, header_bytes, index);
            set_word(&values, index, value.map_or(NOT_A_NUMBER, f32::to_bits));
            index += S::WIDTH;
        }
    }

    /// *Collective.* Converts samples that lie together, eight a lane. Returns how many: the rest
    /// are less than eight.
    fn convert<S: Simt>(&self, simt: &S, from: &Piece<'_>, to: &Piece<'_>) -> u32 {
        let groups = self.block.samples / GROUP;
        let mut group = simt.lane();
        while group < groups {
            let mut words = from.words(group * GROUP * 2);
            for half in [0, 1] {
                let [a, b] = self.block.conversion.pair(words.take());
                let [c, d] = self.block.conversion.pair(words.take());
                let quad = [a, b, c, d].map(f32::to_bits);
                let at = group * 2 + half;
                if !to.set_quad(at, Quad(quad)) {
                    for (word, index) in quad.into_iter().zip(at * 4..) {
                        set_word(to, index, word);
                    }
                }
            }
            group += S::WIDTH;
        }
        groups * GROUP
    }

    /// The row of a position: its header and its values.
    fn row(&self, position: u64) -> (Piece<'_>, Piece<'_>) {
        let row = position & u64::from(self.block.rows - 1);
        let (header, values) = (self.block.header_bytes, self.block.samples * 4);
        let header = self.headers.piece(row * u64::from(header), header);
        let values = self.values.piece(row * u64::from(values), values);
        (
            header.unwrap_or(Piece::EMPTY),
            values.unwrap_or(Piece::EMPTY),
        )
    }

    /// By the leader: whether a gap can be told.
    fn has_room_for_gap(&self) -> bool {
        let written = self.word(offset_of!(SensorWords, gaps_written)).load();
        // pairs with: the host's release of what it has read.
        let read = self.word(offset_of!(SensorWords, gaps_read)).load();
        written.wrapping_sub(read) < u64::from(self.block.gap_count)
    }

    /// By the leader, if there is room: tells a gap.
    fn tell(&self, gap: &Gap) {
        let word = self.word(offset_of!(SensorWords, gaps_written));
        let written = word.load();
        let slot = written & u64::from(self.block.gap_count - 1);
        let at = self.block.gaps.offset(slot * size_of::<Gap>() as u64);
        // SAFETY: an entry of the ring, which the host has read.
        unsafe { (at.value() as *mut Gap).write(*gap) };
        // pairs with: the host's acquire before it reads gaps.
        word.store(written.wrapping_add(1));
        if let Some(counter) = self
            .counters()
            .at(offset_of!(SensorCounters, gaps) as u32 / 8)
        {
            counter.add_alone(1);
        }
    }

    /// *Collective.* What the leader finds out.
    fn leading<S: Simt>(&self, simt: &S, find: impl FnOnce(&Self) -> u64) -> u64 {
        let found = if simt.is_leader() { find(self) } else { 0 };
        simt.shuffle_u64(found, 0)
    }

    /// By the leader, for as long as it calls nothing collective.
    #[expect(
        clippy::mut_from_ref,
        reason = "the leader alone asks, one borrow at a time"
    )]
    fn state(&self) -> &mut SensorState {
        // SAFETY: the state, by the promise; one lane of one warp uses it.
        unsafe { &mut *(self.block.state.value() as *mut SensorState) }
    }

    fn word(&self, offset: usize) -> SharedSignal {
        // SAFETY: a word of the block, by the promise.
        unsafe { SharedSignal::attach(self.block.words.offset(offset as u64)) }
    }

    fn counters(&self) -> SharedCounters {
        // SAFETY: the block's counters, by the promise.
        unsafe { SharedCounters::attach(self.block.counters, SensorCounters::ENTRIES) }
    }

    fn count<S: Simt>(&self, simt: &S, offset: usize, value: u64) {
        if simt.is_leader()
            && let Some(counter) = self.counters().at((offset / 8) as u32)
        {
            counter.add_alone(value);
        }
    }
}

/// *Collective.* Fills a piece with a word, and what is left of it with zeros.
fn fill<S: Simt>(simt: &S, to: &Piece<'_>, word: u32) {
    let words = to.length() / 4;
    let mut index = simt.lane();
    while index < words {
        set_word(to, index, word);
        index += S::WIDTH;
    }
    let mut at = words * 4 + simt.lane();
    while at < to.length() {
        to.set_byte(at, 0);
        at += S::WIDTH;
    }
}

/// Stores word `index` of a piece as it is.
#[inline(always)]
fn set_word(to: &Piece<'_>, index: u32, word: u32) {
    to.set_be32(index * 4, u32::from_be(word));
}

/// What a sample is that did not come.
const NOT_A_NUMBER: u32 = 0x7fc0_0000;
/// Samples that a lane converts at a time.
const GROUP: u32 = 8;
const MOST_STEPS: u32 = 4;

const PLACE: u32 = 0x100;
const SETTLE: u32 = 0x101;
const RESTART: u32 = 0x102;

const DONE: u32 = 0;
const STUCK: u32 = 1;
const CAME: u32 = 2;
const MISSING: u32 = 3;
