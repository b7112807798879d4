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

    #[inline(always)]
    pub(crate) fn store(&self, cursor: &RxCursor) {
        for (offset, value) in [
            (core::mem::offset_of!(RxCursor, head), cursor.head),
            (core::mem::offset_of!(RxCursor, released), cursor.released),
            (core::mem::offset_of!(RxCursor, frames), cursor.frames),
            (core::mem::offset_of!(RxCursor, bytes), cursor.bytes),
            (core::mem::offset_of!(RxCursor, faults), cursor.faults),
            (core::mem::offset_of!(RxCursor, too_long), cursor.too_long),
        ] {
            // SAFETY: a field of the queue's cursor; a host that watches sees whole words.
            unsafe { memory::store_u64(self.cursor.offset(offset as u64), value) };
        }
        for (offset, value) in [
            (
                core::mem::offset_of!(RxCursor, last_cause),
                cursor.last_cause,
            ),
            (core::mem::offset_of!(RxCursor, skipping), cursor.skipping),
        ] {
            // SAFETY: a field of the queue's cursor.
            unsafe { memory::store_u32(self.cursor.offset(offset as u64), value) };
        }
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

    #[inline(always)]
    pub(crate) fn store(&self, cursor: &TxCursor) {
        for (offset, value) in [
            (core::mem::offset_of!(TxCursor, reserved), cursor.reserved),
            (core::mem::offset_of!(TxCursor, published), cursor.published),
            (core::mem::offset_of!(TxCursor, completed), cursor.completed),
            (
                core::mem::offset_of!(TxCursor, completions),
                cursor.completions,
            ),
            (core::mem::offset_of!(TxCursor, frames), cursor.frames),
            (core::mem::offset_of!(TxCursor, bytes), cursor.bytes),
            (
                core::mem::offset_of!(TxCursor, no_resource),
                cursor.no_resource,
            ),
            (core::mem::offset_of!(TxCursor, faults), cursor.faults),
        ] {
            // SAFETY: a field of the queue's cursor; a host that watches sees whole words.
            unsafe { memory::store_u64(self.cursor.offset(offset as u64), value) };
        }
        let last_cause = core::mem::offset_of!(TxCursor, last_cause) as u64;
        // SAFETY: a field of the queue's cursor.
        unsafe { memory::store_u32(self.cursor.offset(last_cause), cursor.last_cause) };
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

#[inline(always)]
fn is_word_of(address: DeviceAddress, alignment: u64) -> bool {
    !address.is_null() && address.is_aligned(alignment)
}
