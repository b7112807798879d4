//! The verbs that every queue format offers to the code that drives it.
//!
//! The implementations are plain data, copied into every lane of a warp. Methods marked *one lane*
//! are called by a single lane after the warp has met; the rest may be called by every lane with an
//! index of its own. Indices run free in 64 bits and are narrowed only here, behind the verbs.
//!
//! Receive: `produced` or `owned` → `segment`, `meta` → (`exchange`) → `refill` → `release`.
//! Transmit: `buffer` → (`exchange`) → `write` → `publish` → `ring`; `completions` or `completion`
//! → `recycle` → `retire`. Leases, credits, bounds and waits stand above these, in the device
//! crate.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use crate::address::DeviceAddress;
use crate::block::{Format, QueueBlock};
use crate::cause::Cause;
use crate::frame::{Buffer, Meta, Post, Segment};
use crate::provenance::Trigger;

/// A completion of a format whose completions carry a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Every slot before this one is free again.
    pub upto: u64,
    /// Why the slot before `upto` failed, if it did.
    pub fault: Option<Cause>,
}

/// The driver half of a receive queue.
pub trait Receive: Copy {
    /// The format's number.
    const FORMAT: Format;
    /// Whether each entry says by a phase that it is ready (`owned`), or one index does
    /// (`produced`).
    const PHASED: bool;
    /// Whether `refill` does anything.
    const REFILLS: bool = true;
    /// Whether a frame's pieces lie in one slot (as parts) or in consecutive slots.
    const SCATTER: bool;

    /// Attaches to a queue.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if the block is not of this format, direction, version or layout.
    ///
    /// # Safety
    /// *The queue's promise*: every address in the block points to live memory of the right size,
    /// which stays so for as long as the value is used, and nobody else drives this half of the
    /// queue.
    unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause>;

    /// Slots; a power of two.
    fn depth(&self) -> u32;

    /// Names the memory that the queue's buffers come from. Buffers can be exchanged between queues
    /// of equal pools; 0 matches nothing.
    fn pool(&self) -> u64;

    /// Unless `PHASED`: every slot before the result is ready. `near` is an index that is at most
    /// one depth behind. The load acquires. pairs with: the producer's publish. A peer that
    /// misbehaves can cause any result; the caller checks the distance.
    fn produced(&self, near: u64) -> u64;

    /// If `PHASED`: whether slot `index` is ready. A relaxed look; `observe` orders what follows.
    fn owned(&self, index: u64) -> Phase;

    /// After `owned` said yes: what the producer wrote before is read after this.
    fn observe(&self);

    /// Piece `part` of slot `index` (`part` is 0 unless `SCATTER`). Bounds were checked: a piece
    /// outside the queue's memory comes back with `FAULT`.
    fn segment(&self, index: u64, part: u32) -> Segment;

    /// If `PHASED`: piece 0 of slot `index`, whose `owned` gave `word`: what it says is not loaded
    /// again.
    #[inline(always)]
    fn first_segment(&self, index: u64, word: u32) -> Segment {
        let _ = word;
        self.segment(index, 0)
    }

    /// What the NIC found out about the frame that starts in slot `index`.
    fn meta(&self, index: u64) -> Meta;

    /// Why slot `index` is a fault.
    fn fault(&self, index: u64) -> Cause;

    /// Puts another buffer of the same pool into slot `index`; the old one now belongs to the
    /// caller. `buffer` is any address within that buffer: the format finds its start.
    fn exchange(&self, index: u64, buffer: DeviceAddress);

    /// Writes what slot `index` needs to be given back; not yet visible to the producer.
    fn refill(&self, index: u64);

    /// Hands slots back up to `upto`, exclusive. *One lane*, after the warp has met behind
    /// `refill`.
    fn release(&self, upto: u64) -> Trigger;
}

/// What a look at a slot's phase gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Phase {
    /// Whether the slot is ready.
    pub is_ready: bool,
    /// The word that says so, as it lies in memory.
    pub word: u32,
}

/// The driver half of a transmit queue.
pub trait Transmit: Copy {
    /// The format's number.
    const FORMAT: Format;
    /// Whether completions carry a phase (`completion`), or one index counts them (`completions`).
    const PHASED: bool;

    /// Attaches to a queue.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if the block is not of this format, direction, version or layout.
    ///
    /// # Safety
    /// *The queue's promise*, see [`Receive::attach`].
    unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause>;

    /// Slots; a power of two.
    fn depth(&self) -> u32;

    /// Names the memory that the buffers come from, see [`Receive::pool`].
    fn pool(&self) -> u64;

    /// Most pieces that a frame may have.
    fn max_parts(&self) -> u32;

    /// The buffer of slot `index`, which is free.
    fn buffer(&self, index: u64) -> Buffer;

    /// Says that slot `index`, which is free, is about to be written, buffer and descriptor. A hint
    /// for caches that another core may have emptied; does nothing where there are none.
    #[inline(always)]
    fn prepare(&self, index: u64) {
        let _ = index;
    }

    /// Gives slot `index`, which is free, another buffer of the same pool. Returns the old one.
    /// `buffer` is any address within that buffer: the format finds its start.
    fn exchange(&self, index: u64, buffer: DeviceAddress) -> DeviceAddress;

    /// Writes the descriptor of slot `index`; not yet visible to the consumer. Piece `part` of a
    /// frame goes to slot `first + part`.
    ///
    /// # Errors
    /// [`Cause::LocalProtection`] if the piece lies outside memory that the queue may read, or the
    /// format cannot express it; [`Cause::RingCorrupted`] if the peer spoilt the slot. Nothing was
    /// written then, and the slot must not be published before a write to it succeeds.
    fn write(&self, index: u64, post: &Post) -> Result<(), Cause>;

    /// Makes slots visible up to `upto`, exclusive. *One lane*, after the warp has met behind
    /// `write`.
    fn publish(&self, upto: u64);

    /// Tells the consumer to look. *One lane*, after `publish`.
    fn ring(&self, upto: u64) -> Trigger;

    /// Unless `PHASED`: completion entries so far. `near` is at most one depth behind. The load
    /// acquires.
    fn completions(&self, near: u64) -> u64;

    /// If `PHASED`: completion entry `index`, if it is there; `near` is the first slot not known to
    /// be free. Orders what follows after it.
    fn completion(&self, index: u64, near: u64) -> Option<Completion>;

    /// Unless `PHASED`: takes the buffer of completion entry `index` back into the queue.
    fn recycle(&self, index: u64);

    /// Hands completion entries back up to `upto`, exclusive. *One lane*, after the warp has met.
    fn retire(&self, upto: u64);
}
