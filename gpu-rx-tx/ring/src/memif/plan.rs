//! What the host sets up: how a client's region is laid out, and where cursors start.
#![expect(
    unsafe_code,
    reason = "a fresh region is written before anybody else sees it"
)]

use crate::address::DeviceAddress;
use crate::block::{RxCursor, TxCursor};
use crate::cause::Cause;
use crate::memif::layout::{COOKIE, Descriptor, MAX_DEPTH, RingFlags, RingHeader, ring_bytes};
use crate::memory;

/// Which way a ring's frames go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum RingKind {
    /// The client transmits.
    ClientToServer,
    /// The server transmits.
    ServerToClient,
}

/// The layout of a client's one region: all rings, then all buffers, each ring's in the order of
/// its slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionPlan {
    /// Rings client → server.
    pub to_server: u32,
    /// Rings server → client.
    pub to_client: u32,
    /// Slots of a ring: a power of two up to [`MAX_DEPTH`].
    pub depth: u32,
    /// Bytes of a buffer: a power of two, at least 64.
    pub slot_bytes: u32,
}

impl RegionPlan {
    /// Whether ring depth and buffer size are allowed and every offset fits the 32 bits of a
    /// descriptor.
    pub fn is_sound(&self) -> bool {
        let slots = self.rings() * u64::from(self.depth);
        self.depth.is_power_of_two()
            && self.depth <= MAX_DEPTH
            && self.slot_bytes.is_power_of_two()
            && self.slot_bytes >= 64
            && self.rings() >= 1
            && self.rings() <= 1 << 17
            && slots
                .checked_mul(u64::from(self.slot_bytes))
                .and_then(|buffers| buffers.checked_add(self.pool_offset()))
                .is_some_and(|bytes| bytes <= 1 << 32)
    }

    /// Bytes of the whole region.
    pub fn bytes(&self) -> u64 {
        self.pool_offset() + self.rings() * u64::from(self.depth) * u64::from(self.slot_bytes)
    }

    /// Where ring `queue` of a kind starts, in bytes from the region's start; a multiple of 128.
    pub fn ring_offset(&self, kind: RingKind, queue: u32) -> u64 {
        self.ring_number(kind, queue) * self.ring_stride()
    }

    /// Where the first buffer starts, in bytes from the region's start; a multiple of 4096.
    pub fn pool_offset(&self) -> u64 {
        (self.rings() * self.ring_stride()).next_multiple_of(4096)
    }

    /// The offset of the buffer that slot `slot` of a ring starts with.
    pub fn buffer_offset(&self, kind: RingKind, queue: u32, slot: u32) -> u64 {
        let number = self.ring_number(kind, queue) * u64::from(self.depth) + u64::from(slot);
        self.pool_offset() + number * u64::from(self.slot_bytes)
    }

    /// Writes header and descriptors of a ring, and the private table of its buffers. Both indices
    /// start at 0, because a server may reset them when it connects; after that the client offers
    /// its buffers by [`release`](crate::Receive::release) up to 0.
    ///
    /// # Safety
    /// `region` is live memory of [`Self::bytes`] bytes, aligned to 128, and `table` of `depth`
    /// words of 32 bits; nobody else reads or writes them yet; the plan is sound and has this ring.
    pub unsafe fn format_ring(
        &self,
        region: DeviceAddress,
        table: DeviceAddress,
        kind: RingKind,
        queue: u32,
        region_number: u16,
    ) {
        let ring = region.offset(self.ring_offset(kind, queue));
        for slot in 0..self.depth {
            let offset = self.buffer_offset(kind, queue, slot) as u32;
            let descriptor = Descriptor {
                flags: 0,
                region: region_number,
                length: self.slot_bytes,
                offset,
                metadata: 0,
            };
            let at = ring.offset(ring_bytes(slot));
            // SAFETY: within the ring, which is ours alone by the caller's promise.
            unsafe { memory::store_quad(at, descriptor.quad()) };
            // SAFETY: within the table, by the caller's promise.
            unsafe { memory::store_u32(table.offset(u64::from(slot) * 4), offset) };
        }
        let flags = match kind {
            RingKind::ClientToServer => RingFlags::empty(),
            RingKind::ServerToClient => RingFlags::MASK_INTERRUPT,
        };
        let words = [
            (core::mem::offset_of!(RingHeader, flags), flags.bits()),
            (core::mem::offset_of!(RingHeader, head), 0),
            (core::mem::offset_of!(RingHeader, tail), 0),
        ];
        // SAFETY: the first word of the ring, ours alone.
        unsafe { memory::store_u32(ring, COOKIE) };
        for (offset, value) in words {
            // SAFETY: a word of the ring's header, ours alone.
            unsafe { memory::store_release_u16(ring.offset(offset as u64), value) };
        }
    }

    fn rings(&self) -> u64 {
        u64::from(self.to_server) + u64::from(self.to_client)
    }

    fn ring_number(&self, kind: RingKind, queue: u32) -> u64 {
        match kind {
            RingKind::ClientToServer => u64::from(queue),
            RingKind::ServerToClient => u64::from(self.to_server) + u64::from(queue),
        }
    }

    fn ring_stride(&self) -> u64 {
        ring_bytes(self.depth).next_multiple_of(128)
    }
}

/// The index of a server's first slot: one lap of the 16-bit indices above zero, so that slots
/// which were not offered yet can lie behind it.
pub const FIRST: u64 = 1 << 16;

/// Where a server's receive cursor starts on a ring whose tail was found at `tail`.
pub fn server_rx_cursor(tail: u16) -> RxCursor {
    RxCursor {
        head: FIRST + u64::from(tail),
        released: FIRST + u64::from(tail),
        ..RxCursor::default()
    }
}

/// Where a server's transmit cursor starts on a ring of `depth` slots found at these indices.
///
/// # Errors
/// [`Cause::RingCorrupted`] if more buffers are offered than the ring has slots.
pub fn server_tx_cursor(head: u16, tail: u16, depth: u32) -> Result<TxCursor, Cause> {
    let offered = head.wrapping_sub(tail);
    if u32::from(offered) > depth || depth > MAX_DEPTH {
        return Err(Cause::RingCorrupted);
    }
    let next = FIRST + u64::from(tail);
    let free = next + u64::from(offered) - u64::from(depth);
    Ok(TxCursor {
        reserved: next,
        published: next,
        completed: free,
        completions: free,
        ..TxCursor::default()
    })
}
