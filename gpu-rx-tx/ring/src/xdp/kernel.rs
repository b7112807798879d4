//! The other half of the rings: what the Linux kernel does with them in copy mode.
//!
//! It stands for the kernel where no socket is: in tests, and where a model plays a kernel. It
//! keeps to what `net/xdp/xsk.c` does: frames are all or nothing, a bad address in the fill ring is
//! skipped, a bad transmit descriptor is skipped without a completion.
#![expect(
    unsafe_code,
    reason = "reads and writes ring memory under the queue's promise"
)]

use super::{
    Descriptor, FLAG_NEED_WAKEUP, METADATA_BYTES, NO_CHUNK, OPTION_CONTINUED, OPTION_METADATA,
    PACKET_HEADROOM, Ring, Umem,
};
use crate::memory::{copy_in, load_acquire_u32, load_u32, load_u64};
use crate::memory::{store_release_u32, store_u32, store_u64};

/// Why a frame was not delivered. The kernel counts each in `XDP_STATISTICS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Refusal {
    /// The receive ring has too few free entries (`rx_ring_full`).
    ReceiveRingFull,
    /// The fill ring has too few good entries (`rx_fill_ring_empty_descs`).
    FillRingEmpty,
    /// The frame needs more than one chunk and multi-buffer is off (`rx_dropped`).
    TooLong,
}

/// The kernel's half of a socket's rings.
#[derive(Debug)]
pub struct Kernel {
    /// The frame memory.
    pub umem: Umem,
    /// The fill ring.
    pub fill: Ring,
    /// The receive ring.
    pub receive: Ring,
    /// The transmit ring.
    pub transmit: Ring,
    /// The completion ring.
    pub completion: Ring,
    /// Whether frames may take several chunks (`XDP_USE_SG`).
    pub multi_buffer: bool,
    /// Bytes before a packet that the memory was registered with for requests.
    pub metadata_bytes: u32,
    /// Fill entries that were no chunk (`rx_invalid_descs`).
    pub invalid_fill: u64,
    /// Transmit descriptors that were skipped (`tx_invalid_descs`).
    pub invalid_transmit: u64,
}

impl Kernel {
    /// Chunks that one frame may take here; the kernel allows its `MAX_SKB_FRAGS` and one more.
    pub const MAX_PIECES: usize = 18;

    /// Bytes of a frame that fit one chunk.
    pub fn piece_bytes(&self) -> usize {
        self.umem.chunk_bytes.saturating_sub(PACKET_HEADROOM) as usize
    }

    /// Delivers a frame, cut into chunks. Returns how many it took.
    ///
    /// # Errors
    /// A [`Refusal`], and nothing was delivered.
    ///
    /// # Safety
    /// The queue's promise for all four rings and the memory, and nobody else drives this half.
    pub unsafe fn deliver(&mut self, frame: &[u8]) -> Result<usize, Refusal> {
        let piece_bytes = self.piece_bytes();
        let pieces = frame.len().div_ceil(piece_bytes.max(1)).max(1);
        if pieces > Self::MAX_PIECES || (pieces > 1 && !self.multi_buffer) {
            return Err(Refusal::TooLong);
        }
        let produced = word(self.receive.producer);
        // pairs with: RxQueue::release.
        let consumed = acquire(self.receive.consumer);
        if (self.receive.size as usize) < produced.wrapping_sub(consumed) as usize + pieces {
            return Err(Refusal::ReceiveRingFull);
        }
        let chunks = self.take_chunks(pieces).ok_or(Refusal::FillRingEmpty)?;
        let mut rest = frame;
        for (number, chunk) in chunks.into_iter().take(pieces).enumerate() {
            let (piece, tail) = rest.split_at(rest.len().min(piece_bytes));
            rest = tail;
            let address = chunk + u64::from(PACKET_HEADROOM);
            // SAFETY: a chunk of the memory that the fill ring gave us, longer than the piece.
            unsafe { copy_in(piece, self.umem.base.offset(address)) }
            let descriptor = Descriptor {
                address,
                length: piece.len() as u32,
                options: if number + 1 < pieces {
                    OPTION_CONTINUED
                } else {
                    0
                },
            };
            let index = produced.wrapping_add(number as u32);
            // SAFETY: the entry is free, as the consumer index says.
            unsafe { descriptor.store(self.receive.entries, index.into(), self.receive.mask()) }
        }
        // pairs with: RxQueue::produced.
        release(self.receive.producer, produced.wrapping_add(pieces as u32));
        Ok(pieces)
    }

    /// Takes `pieces` good entries from the fill ring, or none.
    fn take_chunks(&mut self, pieces: usize) -> Option<[u64; Self::MAX_PIECES]> {
        let mut consumed = word(self.fill.consumer);
        // pairs with: RxQueue::release.
        let produced = acquire(self.fill.producer);
        let mut chunks = [NO_CHUNK; Self::MAX_PIECES];
        let mut places = chunks.iter_mut().take(pieces);
        let mut bad = 0;
        let mut looked = 0;
        let mut place = places.next();
        while let Some(into) = place.take() {
            // An impossible index does not keep us here for longer than a lap.
            if consumed == produced || looked == self.fill.size {
                return None;
            }
            looked += 1;
            let entry = u64::from(consumed & self.fill.mask()) * 8;
            // SAFETY: an entry between consumer and producer, under the queue's promise.
            let offset = unsafe { load_u64(self.fill.entries.offset(entry)) };
            consumed = consumed.wrapping_add(1);
            if self.umem.chunk_of(offset) == NO_CHUNK {
                bad += 1;
                place = Some(into);
                continue;
            }
            *into = self.umem.chunk_of(offset);
            place = places.next();
        }
        self.invalid_fill += bad;
        release(self.fill.consumer, consumed);
        Some(chunks)
    }

    /// The next good transmit descriptor, if there is one. It is to be completed later.
    ///
    /// # Safety
    /// As for [`Kernel::deliver`].
    pub unsafe fn take(&mut self) -> Option<Descriptor> {
        // An impossible index does not keep us here for longer than a lap.
        for _ in 0..self.transmit.size {
            let consumed = word(self.transmit.consumer);
            // pairs with: TxQueue::publish.
            if consumed == acquire(self.transmit.producer) {
                return None;
            }
            let (entries, mask) = (self.transmit.entries, self.transmit.mask());
            // SAFETY: an entry between consumer and producer, under the queue's promise.
            let descriptor = unsafe { Descriptor::load(entries, consumed.into(), mask) };
            release(self.transmit.consumer, consumed.wrapping_add(1));
            if self.is_valid(&descriptor) {
                return Some(descriptor);
            }
            self.invalid_transmit += 1;
        }
        None
    }

    fn is_valid(&self, descriptor: &Descriptor) -> bool {
        let before = u64::from(self.metadata_bytes);
        let whole = descriptor.length.saturating_add(self.metadata_bytes);
        let known = OPTION_CONTINUED | OPTION_METADATA;
        let wants = descriptor.options & OPTION_METADATA != 0;
        descriptor.length != 0
            && descriptor.address >= before
            && self
                .umem
                .piece(descriptor.address - before, whole)
                .is_some()
            && descriptor.options & !known == 0
            && (self.multi_buffer || descriptor.options & OPTION_CONTINUED == 0)
            && (!wants || self.metadata_bytes == METADATA_BYTES)
    }

    /// Hands back the address of a descriptor that was sent. Says no if the completion ring is
    /// full.
    ///
    /// # Safety
    /// As for [`Kernel::deliver`].
    pub unsafe fn complete(&mut self, address: u64) -> bool {
        let produced = word(self.completion.producer);
        // pairs with: TxQueue::retire.
        let consumed = acquire(self.completion.consumer);
        if produced.wrapping_sub(consumed) >= self.completion.size {
            return false;
        }
        let entry = u64::from(produced & self.completion.mask()) * 8;
        // SAFETY: the entry is free, as the consumer index says.
        unsafe { store_u64(self.completion.entries.offset(entry), address) }
        // pairs with: TxQueue::completions.
        release(self.completion.producer, produced.wrapping_add(1));
        true
    }

    /// Sets or clears the flag by which `ring` asks for a system call.
    ///
    /// # Safety
    /// As for [`Kernel::deliver`].
    pub unsafe fn want_wakeup(&self, ring: &Ring, wanted: bool) {
        let flags = if wanted { FLAG_NEED_WAKEUP } else { 0 };
        // SAFETY: the ring's flags word, under the queue's promise.
        unsafe { store_u32(ring.flags, flags) }
    }
}

fn word(address: crate::DeviceAddress) -> u32 {
    // SAFETY: an index word of a ring; `deliver`, `take` and `complete` carry the queue's promise.
    unsafe { load_u32(address) }
}

fn acquire(address: crate::DeviceAddress) -> u32 {
    // SAFETY: an index word of a ring; `deliver`, `take` and `complete` carry the queue's promise.
    unsafe { load_acquire_u32(address) }
}

fn release(address: crate::DeviceAddress, value: u32) {
    // SAFETY: an index word of a ring; `deliver`, `take` and `complete` carry the queue's promise.
    unsafe { store_release_u32(address, value) }
}
