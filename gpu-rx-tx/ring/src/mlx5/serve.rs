//! Work queues of messages as whoever carries them out sees them: send and receive requests, and
//! completions. For an engine that shares the memory with the application, and reaches it by
//! address.
//!
//! ```text
//! connected: control · [remote address] · [atomic] · data …
//! datagram:  control · datagram (3 segments) · data …
//! ```
#![expect(
    unsafe_code,
    reason = "reads and writes queue memory under the queue's promise"
)]

use super::layout::{
    self, AtomicSegment, ControlSegment, Cqe, CqeWords, DataSegment, DatagramSegment, INLINE,
    Opcode, RemoteAddressSegment, SEGMENT_BYTES, WQEBB_BYTES,
};
use super::{widen_u16, widen_u24};
use crate::address::DeviceAddress;
use crate::barrier::{self, Scope};
use crate::memory::{self, Quad};

/// A work queue: where it lies and how large it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct WorkQueue {
    /// The ring, aligned to 64.
    pub ring: DeviceAddress,
    /// The word of the doorbell record that has the producer's index.
    pub record: DeviceAddress,
    /// Binary logarithm of the slots, at most 15: of 64 bytes (send), or of 16 bytes times
    /// 2^`log_stride` (receive).
    pub log_depth: u32,
    /// Binary logarithm of the segments of a receive slot.
    pub log_stride: u32,
    /// Number of the queue pair.
    pub number: u32,
    /// A [`Scope`]: who is at the other end.
    pub scope: u32,
}

/// A completion queue that an engine writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(64))]
pub struct CompletionQueue {
    /// The ring, 64 bytes an entry, aligned to 64.
    pub ring: DeviceAddress,
    /// The word of the doorbell record that has the consumer's index.
    pub record: DeviceAddress,
    /// Completions that were written. The engine's own.
    pub produced: u64,
    /// Completions that are known to be consumed. The engine's own.
    pub consumed: u64,
    /// Binary logarithm of the entries, at most 22.
    pub log_depth: u32,
    /// A [`Scope`]: who is at the other end.
    pub scope: u32,
}

/// A send request, read from its slots.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The operation.
    pub opcode: Opcode,
    /// Slots that it takes.
    pub slots: u32,
    /// Completion, fence and event modes.
    pub modes: u8,
    /// The immediate, or the key to take away.
    pub immediate: u32,
    /// The peer's address.
    pub address: u64,
    /// The peer's key.
    pub key: u32,
    /// Operand of an atomic: what is added or replaces.
    pub value: u64,
    /// Operand of an atomic: what must be there.
    pub compare: u64,
    /// Bytes from the start of the request to its first data segment.
    data: u32,
    /// Bytes of the request.
    bytes: u32,
}

/// Contiguous bytes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes {
    /// First byte.
    pub address: DeviceAddress,
    /// Bytes, at least one.
    pub length: u32,
    /// Key of the region that they lie in.
    pub key: u32,
    /// They stand in the queue itself, and need no key.
    pub is_inline: bool,
}

/// Where a walk over the bytes of a request stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    at: u32,
    inline_left: u32,
}

/// A request that contradicts itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

impl WorkQueue {
    fn scope(&self) -> Scope {
        scope(self.scope)
    }

    /// The first slot that is not posted. `near` is an index that is at most one depth behind.
    ///
    /// # Safety
    /// *The queue's promise*: the queue's memory is live.
    #[inline(always)]
    pub unsafe fn head(&self, near: u64) -> u64 {
        // SAFETY: passed on.
        let word = unsafe { memory::load_u32(self.record) };
        // pairs with: before_publish in whoever posts.
        barrier::after_observe(self.scope());
        let head = widen_u16(near, u32::from_be(word) as u16);
        // An index that cannot be counts as nothing posted.
        if head.wrapping_sub(near) > 1 << self.log_depth {
            near
        } else {
            head
        }
    }

    #[inline(always)]
    fn place(&self, index: u64, byte: u32) -> DeviceAddress {
        let bytes = WQEBB_BYTES << self.log_depth;
        let at = index
            .wrapping_mul(WQEBB_BYTES)
            .wrapping_add(u64::from(byte));
        self.ring.offset(at & (bytes - 1))
    }

    /// # Safety
    /// The queue's promise.
    #[inline(always)]
    unsafe fn quad(&self, index: u64, byte: u32) -> Quad {
        // SAFETY: masked to the ring and aligned to 16; posted slots do not change.
        unsafe { memory::load_quad(self.place(index, byte)) }
    }

    /// Reads the send request that begins in slot `index`, of which `posted` are posted from there
    /// on.
    ///
    /// # Errors
    /// [`Malformed`] if its head contradicts itself or the queue.
    ///
    /// # Safety
    /// *The queue's promise*, and the slot is posted.
    #[inline(always)]
    pub unsafe fn entry(
        &self,
        index: u64,
        posted: u64,
        is_datagram: bool,
    ) -> Result<Entry, Malformed> {
        // SAFETY: passed on.
        let control = ControlSegment::from_quad(unsafe { self.quad(index, 0) });
        let segments = control.segments();
        let slots = layout::wqebbs(segments);
        let ours = control.number() == self.number && control.index() == index as u16;
        if segments == 0 || u64::from(slots) > posted || !ours {
            return Err(Malformed);
        }
        let bytes = segments * SEGMENT_BYTES as u32;
        let mut entry = Entry {
            opcode: control.opcode(),
            slots,
            modes: control.fm_ce_se,
            immediate: control.imm.get(),
            address: 0,
            key: 0,
            value: 0,
            compare: 0,
            data: SEGMENT_BYTES as u32,
            bytes,
        };
        let has_atomic = matches!(entry.opcode, Opcode::COMPARE_SWAP | Opcode::FETCH_ADD);
        let has_address = has_atomic
            || matches!(
                entry.opcode,
                Opcode::WRITE | Opcode::WRITE_IMM | Opcode::READ
            );
        if is_datagram {
            entry.data += size_of::<DatagramSegment>() as u32;
        }
        if has_address {
            // SAFETY: passed on; the ring is masked.
            let quad = unsafe { self.quad(index, entry.data) };
            let remote = RemoteAddressSegment::from_quad(quad);
            (entry.address, entry.key) = (remote.raddr.get(), remote.rkey.get());
            entry.data += SEGMENT_BYTES as u32;
        }
        if has_atomic {
            // SAFETY: passed on; the ring is masked.
            let quad = unsafe { self.quad(index, entry.data) };
            let atomic = AtomicSegment::from_quad(quad);
            (entry.value, entry.compare) = (atomic.swap_add.get(), atomic.compare.get());
            entry.data += SEGMENT_BYTES as u32;
        }
        if entry.data > bytes {
            return Err(Malformed);
        }
        Ok(entry)
    }

    /// Where the datagram in slot `index` goes.
    ///
    /// # Safety
    /// *The queue's promise*, and the slot is posted.
    #[inline(always)]
    pub unsafe fn datagram(&self, index: u64) -> DatagramSegment {
        let quads = [16, 32, 48].map(|byte| {
            // SAFETY: passed on; the ring is masked.
            unsafe { self.quad(index, byte) }.0
        });
        zerocopy::transmute!(quads)
    }

    /// The next contiguous bytes of a send request. Begin with `Walk::default()`.
    ///
    /// # Errors
    /// [`Malformed`] if the segments do not add up.
    ///
    /// # Safety
    /// *The queue's promise*, and the request is posted.
    #[inline(always)]
    pub unsafe fn bytes(
        &self,
        index: u64,
        entry: &Entry,
        walk: &mut Walk,
    ) -> Result<Option<Bytes>, Malformed> {
        if walk.at == 0 {
            walk.at = entry.data;
        }
        if walk.inline_left > 0 {
            return Ok(Some(self.inline(index, entry, walk)));
        }
        if walk.at >= entry.bytes {
            return Ok(None);
        }
        // SAFETY: passed on; the ring is masked.
        let data = DataSegment::from_quad(unsafe { self.quad(index, walk.at) });
        let count = data.byte_count.get();
        if count & INLINE != 0 {
            walk.at += 4;
            walk.inline_left = count & !INLINE;
            let end = walk.at.checked_add(walk.inline_left);
            if walk.inline_left == 0 || end.is_none_or(|end| end > entry.bytes) {
                return Err(Malformed);
            }
            return Ok(Some(self.inline(index, entry, walk)));
        }
        walk.at += SEGMENT_BYTES as u32;
        if count == 0 {
            return Err(Malformed);
        }
        Ok(Some(Bytes {
            address: DeviceAddress::new(data.addr.get()),
            length: count,
            key: data.lkey.get(),
            is_inline: false,
        }))
    }

    /// Inline bytes lie in the ring itself, and may go on at its start.
    #[inline(always)]
    fn inline(&self, index: u64, entry: &Entry, walk: &mut Walk) -> Bytes {
        let address = self.place(index, walk.at);
        let end = self.ring.offset(WQEBB_BYTES << self.log_depth);
        let room = end.value().wrapping_sub(address.value());
        let length = u64::from(walk.inline_left).min(room) as u32;
        walk.at += length;
        walk.inline_left -= length;
        if walk.inline_left == 0 {
            walk.at = walk
                .at
                .next_multiple_of(SEGMENT_BYTES as u32)
                .min(entry.bytes);
        }
        Bytes {
            address,
            length,
            key: 0,
            is_inline: true,
        }
    }

    /// Data segment `part` of the receive request in slot `index`, if it has that many.
    ///
    /// # Safety
    /// *The queue's promise*, and the slot is posted.
    #[inline(always)]
    pub unsafe fn receive_bytes(&self, index: u64, part: u32) -> Option<Bytes> {
        if part >> self.log_stride != 0 {
            return None;
        }
        let slot = index & ((1 << self.log_depth) - 1);
        let segment = (slot << self.log_stride) + u64::from(part);
        // SAFETY: masked to the ring and aligned; posted slots do not change.
        let quad = unsafe { memory::load_quad(self.ring.offset(segment * SEGMENT_BYTES)) };
        let data = DataSegment::from_quad(quad);
        let (length, key) = (data.byte_count.get(), data.lkey.get());
        (length != 0 && key != layout::INVALID_LKEY).then_some(Bytes {
            address: DeviceAddress::new(data.addr.get()),
            length,
            key,
            is_inline: false,
        })
    }
}

impl CompletionQueue {
    /// Whether another completion can be written without losing one.
    ///
    /// # Safety
    /// *The queue's promise*: the queue's memory is live.
    #[inline(always)]
    pub unsafe fn has_room(&mut self) -> bool {
        let depth = 1u64 << self.log_depth;
        if self.produced.wrapping_sub(self.consumed) < depth {
            return true;
        }
        // SAFETY: passed on.
        let word = unsafe { memory::load_u32(self.record) };
        // pairs with: before_release in whoever retires completions.
        barrier::after_observe(scope(self.scope));
        let consumed = widen_u24(self.consumed, u32::from_be(word) & layout::CONSUMER_MASK);
        if consumed.wrapping_sub(self.consumed) <= depth {
            self.consumed = consumed;
        }
        self.produced.wrapping_sub(self.consumed) < depth
    }

    /// Writes a completion; there is room.
    ///
    /// # Safety
    /// *The queue's promise*.
    #[inline(always)]
    pub unsafe fn write(&mut self, cqe: Cqe) {
        let index = self.produced;
        let owned = Cqe {
            op_own: cqe.op_own & 0xf0 | layout::owner(index, self.log_depth),
            ..cqe
        };
        let words: CqeWords = owned.to_words();
        let mask = (1u64 << self.log_depth) - 1;
        let at = self.ring.offset((index & mask) * layout::CQE_BYTES);
        let [body @ .., last] = words;
        for (word, place) in body.into_iter().zip(0u64..) {
            // SAFETY: masked to the ring; the entry was consumed.
            unsafe { memory::store_u64(at.offset(place * 8), word) };
        }
        // What the completion is about, and its body, are seen before it is.
        barrier::before_publish(scope(self.scope));
        // SAFETY: as above. pairs with: after_observe in whoever polls.
        unsafe { memory::store_u64(at.offset(56), last) };
        self.produced = index.wrapping_add(1);
    }
}

fn scope(number: u32) -> Scope {
    if number == Scope::Gpu as u32 {
        Scope::Gpu
    } else {
        Scope::System
    }
}
