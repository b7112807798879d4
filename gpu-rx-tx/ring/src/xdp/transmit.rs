//! The transmit queue: transmit ring out, completion ring and free list back.
#![expect(
    unsafe_code,
    reason = "reads and writes ring memory under the queue's promise"
)]

use super::{
    Descriptor, FLAG_NEED_WAKEUP, METADATA_BYTES, METADATA_CHECKSUM, NO_CHUNK, OPTION_CONTINUED,
    OPTION_METADATA, TxBody, widen,
};
use crate::address::DeviceAddress;
use crate::barrier::{self, Scope};
use crate::block::{Format, QueueBlock};
use crate::cause::Cause;
use crate::frame::{Buffer, Post, PostFlags};
use crate::memory::{load_acquire_u32, load_u32, load_u64};
use crate::memory::{store_release_u32, store_release_u64, store_u8, store_u64};
use crate::provenance::Trigger;
use crate::verbs::{Completion, Transmit};

/// The transmit queue of an AF_XDP socket.
///
/// A piece is sent from the slot's own chunk only, because a completion names no slot, only a
/// chunk: to send from another chunk, `exchange` it into the slot first.
#[derive(Clone, Copy, Debug)]
pub struct TxQueue {
    body: TxBody,
    scope: Scope,
}

impl TxQueue {
    /// The word of the free list that belongs to `index`.
    #[inline(always)]
    fn free(&self, index: u64) -> DeviceAddress {
        let slot = index & u64::from(self.body.transmit.mask());
        self.body.free.offset(slot * 8)
    }

    #[inline(always)]
    fn free_chunk(&self, index: u64) -> u64 {
        // SAFETY: a masked word of the free list, which the queue's promise covers.
        unsafe { load_u64(self.free(index)) }
    }

    #[inline(always)]
    fn free_buffer(&self, chunk: u64) -> Buffer {
        if chunk == NO_CHUNK {
            return Buffer::default();
        }
        let headroom = self.body.headroom;
        let offset = chunk.wrapping_add(u64::from(headroom));
        Buffer {
            address: self.body.umem.base.offset(offset),
            capacity: self.body.umem.chunk_bytes.wrapping_sub(headroom),
            reserved: 0,
        }
    }

    /// Checks what the kernel would drop without a completion, or would refuse for ever.
    #[inline(always)]
    fn check(&self, index: u64, post: &Post, offset: u64) -> Result<(), Cause> {
        let body = &self.body;
        if body.umem.chunk_of(offset) != self.free_chunk(index) || offset >= body.umem.bytes {
            return Err(Cause::LocalProtection);
        }
        let at = offset & body.umem.mask();
        let fits = at >= u64::from(body.metadata_bytes)
            && at + u64::from(post.length) <= u64::from(body.umem.chunk_bytes);
        if !fits || post.length == 0 || post.part >= post.parts {
            return Err(Cause::LocalProtection);
        }
        if post.parts > body.max_parts {
            return Err(Cause::FrameTooLong);
        }
        if post.flags.contains(PostFlags::OFFLOAD_L3) {
            return Err(Cause::LocalProtection);
        }
        if self.wants_metadata(post) {
            let end = u32::from(post.checksum_start) + u32::from(post.checksum_offset) + 2;
            if body.metadata_bytes != METADATA_BYTES || end > post.length {
                return Err(Cause::LocalProtection);
            }
        }
        Ok(())
    }

    /// The request belongs to the frame, so it stands before the first piece alone.
    #[inline(always)]
    fn wants_metadata(&self, post: &Post) -> bool {
        post.part == 0 && post.flags.contains(PostFlags::OFFLOAD_L4)
    }

    /// Writes the checksum request before the packet; `check` saw that it fits.
    ///
    /// ```text
    /// flags: u64 | checksum_start: u16, checksum_offset: u16, padding: u32 | launch_time: u64
    /// ```
    #[inline(always)]
    fn request_checksum(&self, post: &Post) {
        let to = DeviceAddress::new(post.address.value().wrapping_sub(METADATA_BYTES.into()));
        let start = u64::from(post.checksum_start) | u64::from(post.checksum_offset) << 16;
        let words = [METADATA_CHECKSUM, start, 0];
        for (word, place) in words.into_iter().zip([0, 8, 16]) {
            let to = to.offset(place);
            if to.is_aligned(8) {
                // SAFETY: aligned, within the slot's chunk, which is ours until it is published.
                unsafe { store_u64(to, word) }
                continue;
            }
            for byte in 0..8 {
                // SAFETY: within the slot's chunk, which is ours until it is published.
                unsafe { store_u8(to.offset(byte), (word >> (byte * 8)) as u8) }
            }
        }
    }
}

impl Transmit for TxQueue {
    const FORMAT: Format = Format::Xdp;
    const PHASED: bool = false;

    unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause> {
        // One way out with a cause: a compiler that shares its store among several keeps the cause,
        // and with it a word of local memory.
        let (body, fault) = TxBody::of(block);
        match fault {
            Some(cause) => Err(cause),
            None => Ok(Self {
                body,
                scope: block.scope(),
            }),
        }
    }

    #[inline(always)]
    fn depth(&self) -> u32 {
        self.body.transmit.size
    }

    #[inline(always)]
    fn pool(&self) -> u64 {
        self.body.umem.pool
    }

    #[inline(always)]
    fn max_parts(&self) -> u32 {
        self.body.max_parts
    }

    /// The slot's chunk without its headroom; empty if the kernel completed a chunk that is none.
    #[inline(always)]
    fn buffer(&self, index: u64) -> Buffer {
        self.free_buffer(self.free_chunk(index))
    }

    #[inline(always)]
    fn exchange(&self, index: u64, buffer: DeviceAddress) -> DeviceAddress {
        let old = self.free_chunk(index);
        let chunk = self.body.umem.chunk(buffer);
        // SAFETY: a masked word of the free list; its slot is free, so it is ours.
        unsafe { store_u64(self.free(index), chunk) }
        self.free_buffer(old).address
    }

    #[inline(always)]
    fn write(&self, index: u64, post: &Post) -> Result<(), Cause> {
        let base = self.body.umem.base.value();
        let address = post.address.value().wrapping_sub(base);
        self.check(index, post, address)?;
        let mut options = 0;
        if post.part + 1 < post.parts {
            options |= OPTION_CONTINUED;
        }
        if self.wants_metadata(post) {
            self.request_checksum(post);
            options |= OPTION_METADATA;
        }
        let descriptor = Descriptor {
            address,
            length: post.length,
            options,
        };
        let ring = &self.body.transmit;
        // SAFETY: a masked entry of the ring; the slot is free, so the entry is ours until it is
        // published.
        unsafe { descriptor.store(ring.entries, index, ring.mask()) }
        Ok(())
    }

    #[inline(always)]
    fn publish(&self, upto: u64) {
        barrier::before_publish(self.scope);
        // SAFETY: our index of the transmit ring.
        // pairs with: the kernel's acquire of the producer before it reads descriptors.
        unsafe { store_release_u32(self.body.transmit.producer, upto as u32) }
    }

    #[inline(always)]
    fn ring(&self, upto: u64) -> Trigger {
        barrier::before_doorbell(self.scope);
        // SAFETY: the kernel's flags of the transmit ring.
        let flags = unsafe { load_u32(self.body.transmit.flags) };
        if flags & FLAG_NEED_WAKEUP == 0 {
            return Trigger::PolledIndex;
        }
        // SAFETY: the queue's kick word.
        // pairs with: the host proxy's acquire of the word.
        unsafe { store_release_u64(self.body.kick, upto) }
        Trigger::SystemCall
    }

    #[inline(always)]
    fn completions(&self, near: u64) -> u64 {
        // SAFETY: the producer's word, which the queue's promise covers.
        // pairs with: the kernel's release of the completion ring's producer.
        widen(near, unsafe {
            load_acquire_u32(self.body.completion.producer)
        })
    }

    #[inline(always)]
    fn completion(&self, _index: u64, _near: u64) -> Option<Completion> {
        None
    }

    #[inline(always)]
    fn recycle(&self, index: u64) {
        let ring = &self.body.completion;
        let entry = (index & u64::from(ring.mask())) * 8;
        // SAFETY: a masked entry of the completion ring, ours until the consumer index passes it.
        let offset = unsafe { load_u64(ring.entries.offset(entry)) };
        let chunk = self.body.umem.chunk_of(offset);
        // SAFETY: word `index` of the free list belongs to slot `index + depth` from now on:
        // completion `index` follows the publishing of slot `index`, which was its last reader.
        unsafe { store_u64(self.free(index), chunk) }
    }

    #[inline(always)]
    fn retire(&self, upto: u64) {
        barrier::before_release(self.scope);
        // SAFETY: our index of the completion ring.
        // pairs with: the kernel's acquire of the consumer before it overwrites entries.
        unsafe { store_release_u32(self.body.completion.consumer, upto as u32) }
    }
}
