//! Queues as they are attached: the ring, and the host's words beside it.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use core::num::NonZeroU32;

use warpwire_ring::memory;
use warpwire_ring::{
    Cause, DeviceAddress, Location, Provenance, QueueBlock, Receive, RxCursor, Segment, Transmit,
    TxCursor,
};

use crate::piece::Piece;

/// A receive queue under its promise: ring, done bitmap, cursor and counters.
#[derive(Clone, Copy)]
pub(crate) struct RxQueue<R> {
    pub(crate) ring: R,
    pub(crate) location: Location,
    depth: u32,
    done: DeviceAddress,
    cursor: DeviceAddress,
    provenance: DeviceAddress,
}

impl<R: Receive> RxQueue<R> {
    /// # Safety
    /// *The queue's promise*, see [`Receive::attach`].
    pub(crate) unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause> {
        // SAFETY: passed on.
        let ring = unsafe { R::attach(block) }?;
        let sound = is_word_of(block.done, 4)
            && is_word_of(block.cursor, align_of::<RxCursor>() as u64)
            && is_word_of(block.provenance, align_of::<Provenance>() as u64)
            && ring.depth() == block.depth
            && ring.depth().is_power_of_two();
        if !sound {
            return Err(Cause::LayoutMismatch);
        }
        Ok(Self {
            ring,
            location: block.location(),
            depth: block.depth,
            done: block.done,
            cursor: block.cursor,
            provenance: block.provenance,
        })
    }

    /// Slots. Held here, so that code which bounds itself by it does not depend on the format.
    #[inline(always)]
    pub(crate) const fn depth(&self) -> u32 {
        self.depth
    }

    #[inline(always)]
    pub(crate) fn restore(&self) -> RxCursor {
        // SAFETY: the queue's cursor, aligned; its only writer is the driver of the queue.
        unsafe { core::ptr::read(self.cursor.value() as *const RxCursor) }
    }

    /// Stores where the queue stands. *One lane.*
    #[inline(always)]
    pub(crate) fn store(&self, head: u64, released: u64, skipping: bool) {
        // SAFETY: a field of the queue's cursor; a host that watches sees whole words.
        unsafe { memory::store_u64(self.cursor.offset(rx::HEAD), head) };
        // SAFETY: as above.
        unsafe { memory::store_u64(self.cursor.offset(rx::RELEASED), released) };
        // SAFETY: as above.
        unsafe { memory::store_u32(self.cursor.offset(rx::SKIPPING), u32::from(skipping)) };
    }

    /// Adds to a counter of the cursor, named by its offset. *One lane.*
    #[inline(always)]
    pub(crate) fn count(&self, counter: u64, value: u64) {
        // SAFETY: a field of the queue's cursor; its only writer is the driver of the queue.
        unsafe { add(self.cursor.offset(counter), value) };
    }

    /// Remembers why something failed. *One lane.*
    #[inline(always)]
    pub(crate) fn set_cause(&self, cause: Cause) {
        // SAFETY: a field of the queue's cursor.
        unsafe { memory::store_u32(self.cursor.offset(rx::LAST_CAUSE), cause as u32) };
    }

    #[inline(always)]
    pub(crate) fn provenance(&self) -> &Provenance {
        // SAFETY: the queue's counters, live by its promise and made of atomics.
        unsafe { &*(self.provenance.value() as *const Provenance) }
    }

    /// A segment of a slot that is lent, as bytes.
    #[inline(always)]
    pub(crate) fn piece<'a>(&self, segment: &Segment) -> Piece<'a> {
        // SAFETY: bounds were checked by the ring; `'a` is bounded by the lease at the callers.
        unsafe { Piece::of(segment) }
    }

    /// The done bits of the 32 slots (or all, of a shallower queue) that slot `index` is among, and
    /// which bit is its own.
    /// pairs with: `set_done`.
    #[inline(always)]
    pub(crate) fn done(&self, index: u64) -> (u32, u32) {
        let slot = self.slot(index);
        // SAFETY: the word of a slot in the queue's done bitmap.
        let word = unsafe { memory::load_acquire_u32(self.done_word(slot)) };
        (word, slot % 32)
    }

    /// Says that slot `index` is done: what its holder read before is over.
    /// pairs with: `done`.
    #[inline(always)]
    pub(crate) fn set_done(&self, index: u64) {
        let slot = self.slot(index);
        // SAFETY: the word of a slot in the queue's done bitmap.
        unsafe { memory::fetch_or_u32(self.done_word(slot), 1 << (slot % 32)) };
    }

    /// Takes `bits` of the word that slot `index` is among back out of the bitmap.
    #[inline(always)]
    pub(crate) fn clear_done(&self, index: u64, bits: u32) {
        let slot = self.slot(index);
        // SAFETY: the word of a slot in the queue's done bitmap.
        unsafe { memory::fetch_and_u32(self.done_word(slot), !bits) };
    }

    #[inline(always)]
    fn slot(&self, index: u64) -> u32 {
        index as u32 & (self.depth - 1)
    }

    #[inline(always)]
    fn done_word(&self, slot: u32) -> DeviceAddress {
        self.done.offset(u64::from(slot / 32) * 4)
    }
}

/// A transmit queue under its promise: ring, cursor and counters.
#[derive(Clone, Copy)]
pub(crate) struct TxQueue<T> {
    pub(crate) ring: T,
    pub(crate) location: Location,
    depth: u32,
    slot_bytes: NonZeroU32,
    cursor: DeviceAddress,
    provenance: DeviceAddress,
}

impl<T: Transmit> TxQueue<T> {
    /// # Safety
    /// *The queue's promise*, see [`Receive::attach`].
    pub(crate) unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause> {
        // SAFETY: passed on.
        let ring = unsafe { T::attach(block) }?;
        let slot_bytes = NonZeroU32::new(block.slot_bytes).ok_or(Cause::LayoutMismatch)?;
        let sound = is_word_of(block.cursor, align_of::<TxCursor>() as u64)
            && is_word_of(block.provenance, align_of::<Provenance>() as u64)
            && ring.depth() == block.depth
            && ring.depth().is_power_of_two();
        if !sound {
            return Err(Cause::LayoutMismatch);
        }
        Ok(Self {
            ring,
            location: block.location(),
            depth: block.depth,
            slot_bytes,
            cursor: block.cursor,
            provenance: block.provenance,
        })
    }

    /// Slots.
    #[inline(always)]
    pub(crate) const fn depth(&self) -> u32 {
        self.depth
    }

    /// Bytes of a slot's buffer that a frame may fill.
    #[inline(always)]
    pub(crate) const fn slot_bytes(&self) -> NonZeroU32 {
        self.slot_bytes
    }

    #[inline(always)]
    pub(crate) fn restore(&self) -> TxCursor {
        // SAFETY: the queue's cursor, aligned; its only writer is the driver of the queue.
        unsafe { core::ptr::read(self.cursor.value() as *const TxCursor) }
    }

    /// Stores where the queue stands; nothing is reserved. *One lane.*
    #[inline(always)]
    pub(crate) fn store(&self, published: u64, completed: u64, completions: u64) {
        // SAFETY: a field of the queue's cursor; a host that watches sees whole words.
        unsafe { memory::store_u64(self.cursor.offset(tx::RESERVED), published) };
        // SAFETY: as above.
        unsafe { memory::store_u64(self.cursor.offset(tx::PUBLISHED), published) };
        // SAFETY: as above.
        unsafe { memory::store_u64(self.cursor.offset(tx::COMPLETED), completed) };
        // SAFETY: as above.
        unsafe { memory::store_u64(self.cursor.offset(tx::COMPLETIONS), completions) };
    }

    /// Adds to a counter of the cursor, named by its offset. *One lane.*
    #[inline(always)]
    pub(crate) fn count(&self, counter: u64, value: u64) {
        // SAFETY: a field of the queue's cursor; its only writer is the driver of the queue.
        unsafe { add(self.cursor.offset(counter), value) };
    }

    /// Remembers why something failed. *One lane.*
    #[inline(always)]
    pub(crate) fn set_cause(&self, cause: Cause) {
        // SAFETY: a field of the queue's cursor.
        unsafe { memory::store_u32(self.cursor.offset(tx::LAST_CAUSE), cause as u32) };
    }

    #[inline(always)]
    pub(crate) fn provenance(&self) -> &Provenance {
        // SAFETY: the queue's counters, live by its promise and made of atomics.
        unsafe { &*(self.provenance.value() as *const Provenance) }
    }

    /// The buffer of slot `index`, which is ours for now, as bytes.
    #[inline(always)]
    pub(crate) fn piece<'a>(&self, index: u64) -> Piece<'a> {
        let buffer = self.ring.buffer(index);
        // SAFETY: the slot's own buffer, which the queue's promise covers; `'a` is bounded by the
        // claim at the callers.
        unsafe { Piece::new(buffer.address, buffer.capacity, buffer.capacity) }
    }
}

/// Offsets within [`RxCursor`].
pub(crate) mod rx {
    use super::RxCursor;
    use core::mem::offset_of;

    pub(crate) const HEAD: u64 = offset_of!(RxCursor, head) as u64;
    pub(crate) const RELEASED: u64 = offset_of!(RxCursor, released) as u64;
    pub(crate) const FRAMES: u64 = offset_of!(RxCursor, frames) as u64;
    pub(crate) const BYTES: u64 = offset_of!(RxCursor, bytes) as u64;
    pub(crate) const FAULTS: u64 = offset_of!(RxCursor, faults) as u64;
    pub(crate) const TOO_LONG: u64 = offset_of!(RxCursor, too_long) as u64;
    pub(crate) const LAST_CAUSE: u64 = offset_of!(RxCursor, last_cause) as u64;
    pub(crate) const SKIPPING: u64 = offset_of!(RxCursor, skipping) as u64;
}

/// Offsets within [`TxCursor`].
pub(crate) mod tx {
    use super::TxCursor;
    use core::mem::offset_of;

    pub(crate) const RESERVED: u64 = offset_of!(TxCursor, reserved) as u64;
    pub(crate) const PUBLISHED: u64 = offset_of!(TxCursor, published) as u64;
    pub(crate) const COMPLETED: u64 = offset_of!(TxCursor, completed) as u64;
    pub(crate) const COMPLETIONS: u64 = offset_of!(TxCursor, completions) as u64;
    pub(crate) const FRAMES: u64 = offset_of!(TxCursor, frames) as u64;
    pub(crate) const BYTES: u64 = offset_of!(TxCursor, bytes) as u64;
    pub(crate) const NO_RESOURCE: u64 = offset_of!(TxCursor, no_resource) as u64;
    pub(crate) const FAULTS: u64 = offset_of!(TxCursor, faults) as u64;
    pub(crate) const LAST_CAUSE: u64 = offset_of!(TxCursor, last_cause) as u64;
}

/// Adds to a word that has this one writer; any number of readers see whole values.
///
/// # Safety
/// The address is that of a live, aligned word of 64 bits.
#[inline(always)]
unsafe fn add(address: DeviceAddress, value: u64) {
    // SAFETY: passed on.
    let now = unsafe { memory::load_u64(address) };
    // SAFETY: passed on.
    unsafe { memory::store_u64(address, now.wrapping_add(value)) };
}

#[inline(always)]
fn is_word_of(address: DeviceAddress, alignment: u64) -> bool {
    !address.is_null() && address.is_aligned(alignment)
}
