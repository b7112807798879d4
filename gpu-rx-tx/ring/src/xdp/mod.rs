//! AF_XDP: the four rings of a Linux socket and the frame memory behind them.
//!
//! Receive (the kernel fills, we drain) hands its buffers back through the fill ring; transmit (we
//! fill, the kernel drains) gets its buffers back through the completion ring, in any order. Each
//! ring is
//!
//! ```text
//! producer: u32   consumer: u32   flags: u32   entries[size]
//! receive, transmit: 16 bytes   { address: u64, length: u32, options: u32 }   see Descriptor
//! fill, completion:   8 bytes   address: u64
//! ```
//!
//! with free-running 32-bit indices; an address is an offset into the frame memory, which is cut
//! into chunks of a power of two. Which chunk belongs to which slot:
//!
//! - receive slot `i` is descriptor `i`; its chunk goes back as fill entry `primed + i`, where
//!   `primed` entries were put there at the start. The fill ring holds at least as many, so it
//!   never overflows.
//! - transmit slot `i` owns the chunk in word `i` of the free list; completion entry `k` brings
//!   the chunk of slot `k + depth`, whoever had it before.
//!
//! Source: `linux/if_xdp.h`, and Documentation/networking/af_xdp.rst and xsk-tx-metadata.rst of the
//! kernel.
#![expect(unsafe_code, reason = "bodies are read from plain words")]

mod kernel;
mod receive;
#[cfg(test)]
mod tests;
mod transmit;

pub use kernel::{Kernel, Refusal};
pub use receive::RxQueue;
pub use transmit::TxQueue;

use crate::address::DeviceAddress;
use crate::block::{ABI, Direction, Format, QueueBlock};
use crate::cause::Cause;
use crate::layout;
use crate::layout_hash;
use crate::memory::{Quad, load_quad, store_quad};
use crate::region::Location;

/// Bit of [`Descriptor::options`]: the frame goes on in the next descriptor (`XDP_PKT_CONTD`).
pub const OPTION_CONTINUED: u32 = 1;
/// Bit of [`Descriptor::options`]: a request stands before the packet (`XDP_TX_METADATA`).
pub const OPTION_METADATA: u32 = 2;
/// Bit of a ring's flags: the kernel sleeps and wants a system call (`XDP_RING_NEED_WAKEUP`).
pub const FLAG_NEED_WAKEUP: u32 = 1;
/// Bytes of the request before a packet (`struct xsk_tx_metadata`).
pub const METADATA_BYTES: u32 = 24;
/// Request bit: fill in the checksum (`XDP_TXMD_FLAGS_CHECKSUM`).
pub const METADATA_CHECKSUM: u64 = 2;
/// Bytes that the kernel leaves free at the start of a chunk (`XDP_PACKET_HEADROOM`).
pub const PACKET_HEADROOM: u32 = 256;

/// An entry of the receive or the transmit ring (`struct xdp_desc`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(16))]
pub struct Descriptor {
    /// Offset of the first byte in the frame memory.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// `OPTION_…` bits.
    pub options: u32,
}

const _: () = assert!(size_of::<Descriptor>() == 16);

impl Descriptor {
    /// Reads entry `index & mask` of the entries at `entries`.
    ///
    /// # Safety
    /// The queue's promise; the entry is ours to read.
    #[inline(always)]
    unsafe fn load(entries: DeviceAddress, index: u64, mask: u32) -> Self {
        let at = entries.offset((index & u64::from(mask)) * 16);
        // SAFETY: a masked entry of a ring of `mask + 1` aligned entries, ours by the caller's
        // promise.
        let Quad([low, high, length, options]) = unsafe { load_quad(at) };
        let address = u64::from(low) | u64::from(high) << 32;
        Self {
            address,
            length,
            options,
        }
    }

    /// Writes entry `index & mask` of the entries at `entries`.
    ///
    /// # Safety
    /// The queue's promise; the entry is ours to write.
    #[inline(always)]
    unsafe fn store(self, entries: DeviceAddress, index: u64, mask: u32) {
        let at = entries.offset((index & u64::from(mask)) * 16);
        let (low, high) = (self.address as u32, (self.address >> 32) as u32);
        // SAFETY: a masked entry of a ring of `mask + 1` aligned entries, ours by the caller's
        // promise.
        unsafe { store_quad(at, Quad([low, high, self.length, self.options])) }
    }
}

/// One ring: where its words lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Ring {
    /// The producer's index, 32 bits.
    pub producer: DeviceAddress,
    /// The consumer's index, 32 bits.
    pub consumer: DeviceAddress,
    /// The kernel's flags, 32 bits.
    pub flags: DeviceAddress,
    /// The first entry; a multiple of 16.
    pub entries: DeviceAddress,
    /// Entries; a power of two.
    pub size: u32,
    /// Written as zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<Ring>() == 40);

impl Ring {
    /// The mask of an index.
    #[inline(always)]
    pub const fn mask(&self) -> u32 {
        self.size.wrapping_sub(1)
    }

    fn is_sound(&self) -> bool {
        self.size.is_power_of_two() && self.entries.is_aligned(16)
    }
}

/// The frame memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Umem {
    /// First byte, as the code that drives the rings sees it; a multiple of the chunk.
    pub base: DeviceAddress,
    /// Bytes; a multiple of the chunk.
    pub bytes: u64,
    /// Names this memory: equal for all queues that use it, never 0.
    pub pool: u64,
    /// Bytes of a chunk; a power of two.
    pub chunk_bytes: u32,
    /// Written as zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<Umem>() == 32);

impl Umem {
    /// The mask of an offset within its chunk.
    #[inline(always)]
    const fn mask(&self) -> u64 {
        (self.chunk_bytes as u64).wrapping_sub(1)
    }

    /// The address of `length` bytes at `offset`, if they lie within one chunk of the memory.
    #[inline(always)]
    pub const fn piece(&self, offset: u64, length: u32) -> Option<DeviceAddress> {
        let end = (offset & self.mask()) + length as u64;
        if offset < self.bytes && end <= self.chunk_bytes as u64 {
            Some(self.base.offset(offset))
        } else {
            None
        }
    }

    /// Bytes from `offset` to the end of its chunk.
    #[inline(always)]
    const fn room(&self, offset: u64) -> u32 {
        self.chunk_bytes - (offset & self.mask()) as u32
    }

    /// The start of the chunk that `address` lies in, as an offset; [`NO_CHUNK`] outside the
    /// memory.
    #[inline(always)]
    pub const fn chunk(&self, address: DeviceAddress) -> u64 {
        self.chunk_of(address.value().wrapping_sub(self.base.value()))
    }

    /// The start of the chunk that `offset` lies in; [`NO_CHUNK`] outside the memory.
    #[inline(always)]
    pub const fn chunk_of(&self, offset: u64) -> u64 {
        if offset < self.bytes {
            offset & !self.mask()
        } else {
            NO_CHUNK
        }
    }

    fn is_sound(&self) -> bool {
        self.chunk_bytes.is_power_of_two()
            && self.bytes & self.mask() == 0
            && self.base.is_aligned(u64::from(self.chunk_bytes))
            && self.pool != 0
    }
}

/// The offset that stands for no chunk: beyond any memory, so that nobody takes it for one.
pub const NO_CHUNK: u64 = u64::MAX;

/// The body of a receive queue's block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct RxBody {
    /// The frame memory.
    pub umem: Umem,
    /// The receive ring; as many entries as the queue has slots.
    pub receive: Ring,
    /// The fill ring; at least `primed` entries.
    pub fill: Ring,
    /// A 64-bit word where the queue asks the host for a system call; on a line of its own.
    pub kick: DeviceAddress,
    /// Fill entries that the host wrote before slot 0 was received.
    pub primed: u64,
}

/// The body of a transmit queue's block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct TxBody {
    /// The frame memory.
    pub umem: Umem,
    /// The transmit ring; as many entries as the queue has slots.
    pub transmit: Ring,
    /// The completion ring; at least as many entries.
    pub completion: Ring,
    /// The free list: a 64-bit offset of a chunk for every slot.
    pub free: DeviceAddress,
    /// A 64-bit word where the queue asks the host for a system call; on a line of its own.
    pub kick: DeviceAddress,
    /// Bytes at the start of a chunk that a slot's buffer leaves out; a multiple of 16.
    pub headroom: u32,
    /// [`METADATA_BYTES`] if the memory was registered with them, else 0.
    pub metadata_bytes: u32,
    /// Pieces that a frame may have; 1 without multi-buffer.
    pub max_parts: u32,
    /// Written as zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<RxBody>() == 128);
const _: () = assert!(size_of::<TxBody>() == 144);
const _: () = assert!(align_of::<RxBody>() == 8 && align_of::<TxBody>() == 8);

const PARTS_LAYOUT: u64 = {
    let ring = layout_hash!(Ring {
        producer,
        consumer,
        flags,
        entries,
        size,
        reserved
    });
    let umem = layout_hash!(Umem {
        base,
        bytes,
        pool,
        chunk_bytes,
        reserved
    });
    let descriptor = layout_hash!(Descriptor {
        address,
        length,
        options
    });
    layout::fold(layout::fold(ring, umem as usize), descriptor as usize)
};

impl RxBody {
    /// The hash of the layout, for [`QueueBlock::layout`].
    pub const LAYOUT: u64 = layout::fold(
        layout_hash!(RxBody {
            umem,
            receive,
            fill,
            kick,
            primed
        }),
        PARTS_LAYOUT as usize,
    );

    /// A block with this body. `slot_bytes` is what a piece of a frame may take; cursor, provenance
    /// and done bitmap are left null, the location is ordinary host memory.
    pub fn block(&self) -> QueueBlock {
        let slot_bytes = self.umem.chunk_bytes.saturating_sub(PACKET_HEADROOM);
        let shape = (
            Direction::Receive,
            Self::LAYOUT,
            self.receive.size,
            slot_bytes,
        );
        block(shape, |words| {
            // SAFETY: the body is plain words, as large and aligned as the array or less.
            unsafe { core::ptr::write(words.as_mut_ptr().cast::<Self>(), *self) }
        })
    }

    /// The body of a block, and what is wrong with them: without that, any words are a body.
    fn of(block: &QueueBlock) -> (Self, Option<Cause>) {
        // SAFETY: any words are a body, and the array is as large and aligned as one or more.
        let body = unsafe { core::ptr::read(block.body.as_ptr().cast::<Self>()) };
        let sound = body.umem.is_sound()
            && body.receive.is_sound()
            && body.fill.is_sound()
            && body.receive.size == block.depth
            && body.primed <= u64::from(body.fill.size);
        let checked = block.check(Format::Xdp, Direction::Receive, Self::LAYOUT);
        (body, fault(checked, sound))
    }
}

impl TxBody {
    /// The hash of the layout, for [`QueueBlock::layout`].
    pub const LAYOUT: u64 = layout::fold(
        layout_hash!(TxBody {
            umem,
            transmit,
            completion,
            free,
            kick,
            headroom,
            metadata_bytes,
            max_parts,
            reserved,
        }),
        PARTS_LAYOUT as usize,
    );

    /// A block with this body; cursor and provenance are left null, the location is ordinary host
    /// memory.
    pub fn block(&self) -> QueueBlock {
        let slot_bytes = self.umem.chunk_bytes.saturating_sub(self.headroom);
        let shape = (
            Direction::Transmit,
            Self::LAYOUT,
            self.transmit.size,
            slot_bytes,
        );
        block(shape, |words| {
            // SAFETY: the body is plain words, as large and aligned as the array or less.
            unsafe { core::ptr::write(words.as_mut_ptr().cast::<Self>(), *self) }
        })
    }

    /// The body of a block, and what is wrong with them: without that, any words are a body.
    fn of(block: &QueueBlock) -> (Self, Option<Cause>) {
        // SAFETY: any words are a body, and the array is as large and aligned as one or more.
        let body = unsafe { core::ptr::read(block.body.as_ptr().cast::<Self>()) };
        let sound = body.umem.is_sound()
            && body.transmit.is_sound()
            && body.completion.is_sound()
            && body.transmit.size == block.depth
            && body.completion.size >= block.depth
            && body.headroom < body.umem.chunk_bytes
            && body.headroom >= body.metadata_bytes
            && body.headroom.is_multiple_of(16)
            && matches!(body.metadata_bytes, 0 | METADATA_BYTES)
            && body.max_parts >= 1;
        let checked = block.check(Format::Xdp, Direction::Transmit, Self::LAYOUT);
        (body, fault(checked, sound))
    }
}

fn block(shape: (Direction, u64, u32, u32), write: impl FnOnce(&mut [u64; 24])) -> QueueBlock {
    let (direction, layout, depth, slot_bytes) = shape;
    let mut body = [0; 24];
    write(&mut body);
    QueueBlock {
        abi: ABI,
        format: Format::Xdp as u32,
        direction: direction as u32,
        scope: crate::barrier::Scope::System as u32,
        layout,
        depth,
        slot_bytes,
        cursor: DeviceAddress::NULL,
        provenance: DeviceAddress::NULL,
        done: DeviceAddress::NULL,
        location: Location::PageableHost as u32,
        reserved: 0,
        body,
    }
}

/// The 64-bit index that ends in `narrow` and follows `near` by less than 2^32.
#[inline(always)]
const fn widen(near: u64, narrow: u32) -> u64 {
    near.wrapping_add(narrow.wrapping_sub(near as u32) as u64)
}

/// What is wrong with a block and its body, if anything is.
#[inline(always)]
fn fault(checked: Result<(), Cause>, sound: bool) -> Option<Cause> {
    match checked {
        Err(cause) => Some(cause),
        Ok(()) if !sound => Some(Cause::LayoutMismatch),
        Ok(()) => None,
    }
}
