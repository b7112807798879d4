//! The streams of one carrier: who has news, who was accepted, and each by its name.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that words, bitmaps and rings are live memory"
)]

use warpwire_device::{Heartbeat, SharedWord, Simt, Wait};
use warpwire_engine::streams::Bits;
use warpwire_engine::streams::tables::StreamWords;
use warpwire_ring::{Cause, DeviceAddress};

use super::block::TableBlock;
use super::stream::Stream;
use super::words::{Accepts, Words};
use crate::messaging::{Progress, keep_on};

/// The streams of one carrier.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    words: DeviceAddress,
    asked: Bits,
    told: Option<Bits>,
    accepts: DeviceAddress,
    places: u32,
    listeners: u32,
    heartbeat: Option<Heartbeat>,
}

/// Which stream: its place in the table, and which stream of the place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Name {
    /// The place.
    pub place: u32,
    /// Counts the streams that the place had, from 1 on.
    pub generation: u32,
}

/// Of what the carrier did something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// A stream: its place.
    Place(u32),
    /// A listener: somebody waits to be accepted.
    Listener(u32),
}

/// Where a pass over those with news stands: bits that were taken, and are to be dealt with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct News {
    /// The next word of the summary.
    index: u32,
    /// Words of the last one that were not looked at.
    summary: u64,
    /// The word that was taken last.
    word: u32,
    /// Its bits that were not told.
    bits: u64,
}

impl Table {
    /// Attaches to the streams of a carrier.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if there is no such block.
    ///
    /// # Safety
    /// *The table's promise*: at `block` lies a [`TableBlock`], or at least a header; words,
    /// bitmaps, rings and heartbeat are live memory for as long as the value is used. Nobody else
    /// uses the streams that are used by it, takes bits of `told`, or reads rings of accepted
    /// streams that are read by it. The lanes of a warp do so together, each with a copy.
    pub unsafe fn attach(block: DeviceAddress) -> Result<Self, Cause> {
        if block.is_null() || !block.is_aligned(align_of::<TableBlock>() as u64) {
            return Err(Cause::LayoutMismatch);
        }
        // SAFETY: a header lies there by the promise, and any bits are one.
        let header = unsafe { *(block.value() as *const crate::block::Header) };
        if header != TableBlock::HEADER {
            return Err(Cause::LayoutMismatch);
        }
        // SAFETY: the header says that it is such a block; nobody changes it.
        let block = unsafe { &*(block.value() as *const TableBlock) };
        let has_told = !block.told.is_null();
        let bits = block.place_count.saturating_add(block.listener_count);
        let heartbeat = (!block.heartbeat.is_null()).then(|| Heartbeat {
            // SAFETY: the carrier's word, by the promise.
            word: unsafe { SharedWord::attach(block.heartbeat) },
            stale_ns: block.stale_ns,
        });
        Ok(Self {
            words: block.words,
            // SAFETY: bitmaps of the table, by the promise.
            asked: unsafe { Bits::attach(block.asked, block.place_count) },
            // SAFETY: as above.
            told: has_told.then(|| unsafe { Bits::attach(block.told, bits) }),
            accepts: block.accepts,
            places: block.place_count,
            listeners: block.listener_count,
            heartbeat,
        })
    }

    /// Places.
    pub const fn places(&self) -> u32 {
        self.places
    }

    /// Listeners.
    pub const fn listeners(&self) -> u32 {
        self.listeners
    }

    /// *Collective.* Takes a stream by its name.
    ///
    /// # Errors
    /// [`Cause::Disconnected`] if the place has another one, or none.
    pub fn stream<S: Simt>(&self, simt: &S, name: Name) -> Result<Stream, Cause> {
        if name.place >= self.places || name.generation == 0 {
            return Err(Cause::Disconnected);
        }
        let offset = u64::from(name.place) * size_of::<StreamWords>() as u64;
        // SAFETY: words of the table, by its promise.
        let words = unsafe { Words::attach(self.words.offset(offset)) };
        let is_there = simt.is_leader() && words.generation() == name.generation;
        if !simt.any(is_there) {
            return Err(Cause::Disconnected);
        }
        Ok(Stream::of(simt, words, name, self.asked, self.heartbeat))
    }

    /// *Collective.* Takes the oldest stream that waits at a listener to be accepted.
    pub fn accept<S: Simt>(&self, simt: &S, listener: u32) -> Option<Name> {
        if listener >= self.listeners || self.accepts.is_null() {
            return None;
        }
        let at = self.accepts.offset(u64::from(listener) * 8);
        // SAFETY: a word of the table, which the host does not change, and the ring that it names,
        // by its promise.
        let ring = unsafe { Accepts::of_word(at) };
        ring?.take(simt)
    }

    /// *Collective.* Waits for a stream to be accepted.
    ///
    /// # Errors
    /// What ends waits.
    pub fn wait_accept<S: Simt, P: Progress>(
        &self,
        simt: &S,
        listener: u32,
        wait: &Wait,
        progress: &mut P,
    ) -> Result<Name, Cause> {
        let wait = guarded(wait, self.heartbeat);
        keep_on(simt, &wait, progress, |_| self.accept(simt, listener))
    }

    /// *Collective.* The next stream or listener of which the carrier did something since it was
    /// named last; `None` at the end of a pass, after which the next one begins. Who was named
    /// once is named again in a later pass, not in this one.
    pub fn next_news<S: Simt>(&self, simt: &S, news: &mut News) -> Option<Told> {
        let mut number = NONE;
        if simt.is_leader() {
            number = self.told.and_then(|told| news.next(&told)).unwrap_or(NONE);
        }
        match simt.shuffle(number, 0) {
            NONE => None,
            number => Some(match number.checked_sub(self.places) {
                None => Told::Place(number),
                Some(listener) => Told::Listener(listener),
            }),
        }
    }

    /// *Collective.* Has a stream or listener named again in the next pass: there is more to do
    /// than was done.
    pub fn again<S: Simt>(&self, simt: &S, told: Told) {
        let number = match told {
            Told::Place(place) => place,
            Told::Listener(listener) => self.places.saturating_add(listener),
        };
        if let Some(told) = &self.told
            && simt.is_leader()
        {
            told.set(number);
        }
    }

    /// *Collective.* Leaves those who were not named to the next who asks.
    pub fn put_back<S: Simt>(&self, simt: &S, news: News) {
        if let Some(told) = &self.told
            && simt.is_leader()
        {
            news.put_back(told);
        }
        simt.sync_warp();
    }
}

impl News {
    fn next(&mut self, told: &Bits) -> Option<u32> {
        while self.bits == 0 {
            while self.summary == 0 {
                if self.index >= told.summaries() {
                    self.index = 0;
                    return None;
                }
                self.summary = told.take_summary(self.index);
                self.index += 1;
            }
            self.word = (self.index - 1) * 64 + self.summary.trailing_zeros();
            self.summary &= self.summary - 1;
            self.bits = told.take(self.word);
        }
        let number = self.word * 64 + self.bits.trailing_zeros();
        self.bits &= self.bits - 1;
        Some(number)
    }

    fn put_back(mut self, told: &Bits) {
        while self.bits != 0 {
            told.set(self.word * 64 + self.bits.trailing_zeros());
            self.bits &= self.bits - 1;
        }
        if self.summary != 0 {
            told.put_back_summary(self.index - 1, self.summary);
        }
    }
}

/// The wait, ended as well when the carrier stops.
pub(super) fn guarded(wait: &Wait, heartbeat: Option<Heartbeat>) -> Wait {
    match heartbeat {
        Some(heartbeat) => wait.while_beating(heartbeat),
        None => *wait,
    }
}

const NONE: u32 = u32::MAX;
