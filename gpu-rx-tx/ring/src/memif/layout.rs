//! The bytes that both sides of a memif ring agree on, and the bodies of our queue blocks.
//!
//! ```text
//!  ring:   0      4      6             64            128
//!         +------+------+------+- ... +------+- ... +------------+------------+ ...
//!         |cookie|flags | head |      | tail |      | descriptor | descriptor |
//!         +------+------+------+- ... +------+- ... +------------+------------+ ...
//!
//!  descriptor:  0       2        4        8        12         16
//!              +-------+--------+--------+--------+----------+
//!              | flags | region | length | offset | metadata |
//!              +-------+--------+--------+--------+----------+
//! ```
//!
//! Every field is in host order; hosts are little-endian.

use bitflags::bitflags;

use crate::address::DeviceAddress;
use crate::layout::fold;
use crate::layout_hash;
use crate::memif::Role;
use crate::memory::Quad;
use crate::region::Region;

/// First word of a ring.
pub const COOKIE: u32 = 0x03E3_1F20;

/// The deepest ring: half of the index space, so that full and empty differ under any 16-bit
/// distance.
pub const MAX_DEPTH: u32 = 1 << 15;

bitflags! {
    /// The flags of a ring.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[repr(transparent)]
    pub struct RingFlags: u16 {
        /// The reader of the ring polls: do not interrupt it.
        const MASK_INTERRUPT = 1;
    }
}

bitflags! {
    /// The flags of a descriptor.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[repr(transparent)]
    pub struct DescriptorFlags: u16 {
        /// The frame goes on in the next descriptor.
        const NEXT = 1;
    }
}

/// The start of a ring; descriptors follow.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct RingHeader {
    /// [`COOKIE`].
    pub cookie: u32,
    /// [`RingFlags`], written by the ring's reader.
    pub flags: u16,
    /// Moved by the client.
    pub head: u16,
    reserved: [u64; 7],
    /// Moved by the server.
    pub tail: u16,
    reserved_tail: [u16; 31],
}

/// One descriptor, by value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Descriptor {
    /// [`DescriptorFlags`].
    pub flags: u16,
    /// Number of the region that holds the buffer.
    pub region: u16,
    /// Bytes of the frame in the buffer; in an offered buffer, its capacity.
    pub length: u32,
    /// First byte of the buffer, from the region's start.
    pub offset: u32,
    /// Free for the application.
    pub metadata: u32,
}

const _: () = assert!(cfg!(target_endian = "little"));
const _: () = assert!(size_of::<RingHeader>() == 128);
const _: () = assert!(core::mem::offset_of!(RingHeader, flags) == 4);
const _: () = assert!(core::mem::offset_of!(RingHeader, head) == 6);
const _: () = assert!(core::mem::offset_of!(RingHeader, tail) == 64);
const _: () = assert!(size_of::<Descriptor>() == 16);
const _: () = assert!(core::mem::offset_of!(Descriptor, region) == 2);
const _: () = assert!(core::mem::offset_of!(Descriptor, length) == 4);
const _: () = assert!(core::mem::offset_of!(Descriptor, offset) == 8);
const _: () = assert!(core::mem::offset_of!(Descriptor, metadata) == 12);

/// Bytes of a ring of `depth` descriptors.
pub const fn ring_bytes(depth: u32) -> u64 {
    size_of::<RingHeader>() as u64 + depth as u64 * size_of::<Descriptor>() as u64
}

impl Descriptor {
    /// Whether the frame goes on in the next descriptor.
    #[inline(always)]
    pub const fn next(&self) -> bool {
        self.flags & DescriptorFlags::NEXT.bits() != 0
    }

    /// Flags, region and length: the first eight bytes.
    #[inline(always)]
    pub(super) const fn first_word(&self) -> u64 {
        self.flags as u64 | (self.region as u64) << 16 | (self.length as u64) << 32
    }

    #[inline(always)]
    pub(super) const fn quad(&self) -> Quad {
        let first = self.first_word();
        Quad([
            first as u32,
            (first >> 32) as u32,
            self.offset,
            self.metadata,
        ])
    }

    #[inline(always)]
    pub(super) const fn from_words(first: u64, second: u64) -> Self {
        Self {
            flags: first as u16,
            region: (first >> 16) as u16,
            length: (first >> 32) as u32,
            offset: second as u32,
            metadata: (second >> 32) as u32,
        }
    }
}

/// The body of a client's queue, both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct ClientBody {
    /// The ring, a multiple of 16.
    pub ring: DeviceAddress,
    /// A private table: the offset of each slot's buffer in the region, one `u32` a slot.
    pub buffers: DeviceAddress,
    /// First byte of the region that holds all buffers.
    pub region: DeviceAddress,
    /// Bytes of the region, at most 2^32.
    pub region_bytes: u64,
    /// First buffer, in bytes from the region's start; buffers follow each other without a gap.
    pub pool_offset: u64,
    /// Number of the region, as announced to the server.
    pub region_number: u64,
    /// Transmit: the word that asks the host to interrupt the peer. Receive, or if the peer polls
    /// for ever: null.
    pub kick: DeviceAddress,
}

/// The body of a server's queue, both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct ServerBody {
    /// The ring, a multiple of 16, in the client's memory.
    pub ring: DeviceAddress,
    /// The client's regions as they are mapped here: a table of [`Region`], by number. A number
    /// that the client did not announce has length 0.
    pub regions: DeviceAddress,
    /// Entries of the table.
    pub region_count: u64,
    /// Transmit: the word that asks the host to interrupt the peer. Receive, or if the peer polls
    /// for ever: null.
    pub kick: DeviceAddress,
    /// Transmit: a table of one 32-bit word a slot, zero at first, where the queue keeps how long
    /// the buffer is while the slot's descriptor holds the length of a frame. Receive: null.
    pub written: DeviceAddress,
}

/// What a client's queue blocks carry as their layout.
pub const CLIENT_LAYOUT: u64 = fold(
    layout_hash!(ClientBody {
        ring,
        buffers,
        region,
        region_bytes,
        pool_offset,
        region_number,
        kick
    }),
    Role::Client as usize,
);

/// What a server's queue blocks carry as their layout.
pub const SERVER_LAYOUT: u64 = fold(
    fold(
        layout_hash!(ServerBody {
            ring,
            regions,
            region_count,
            kick,
            written
        }),
        size_of::<Region>(),
    ),
    Role::Server as usize,
);

const _: () = assert!(size_of::<ClientBody>() == 7 * 8);
const _: () = assert!(size_of::<ServerBody>() == 5 * 8);
const _: () = assert!(CLIENT_LAYOUT != SERVER_LAYOUT);

impl ClientBody {
    /// The words of [`crate::QueueBlock::body`].
    pub const fn words(&self) -> [u64; 24] {
        let mut words = [0; 24];
        words[0] = self.ring.value();
        words[1] = self.buffers.value();
        words[2] = self.region.value();
        words[3] = self.region_bytes;
        words[4] = self.pool_offset;
        words[5] = self.region_number;
        words[6] = self.kick.value();
        words
    }

    /// The body that these words carry.
    pub const fn from_words(words: &[u64; 24]) -> Self {
        Self {
            ring: DeviceAddress::new(words[0]),
            buffers: DeviceAddress::new(words[1]),
            region: DeviceAddress::new(words[2]),
            region_bytes: words[3],
            pool_offset: words[4],
            region_number: words[5],
            kick: DeviceAddress::new(words[6]),
        }
    }
}

impl ServerBody {
    /// The words of [`crate::QueueBlock::body`].
    pub const fn words(&self) -> [u64; 24] {
        let mut words = [0; 24];
        words[0] = self.ring.value();
        words[1] = self.regions.value();
        words[2] = self.region_count;
        words[3] = self.kick.value();
        words[4] = self.written.value();
        words
    }

    /// The body that these words carry.
    pub const fn from_words(words: &[u64; 24]) -> Self {
        Self {
            ring: DeviceAddress::new(words[0]),
            regions: DeviceAddress::new(words[1]),
            region_count: words[2],
            kick: DeviceAddress::new(words[3]),
            written: DeviceAddress::new(words[4]),
        }
    }
}
