//! What a ring says about a frame: its pieces, and what the NIC found out.

use bitflags::bitflags;

use crate::address::DeviceAddress;

bitflags! {
    /// Properties of a [`Segment`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[repr(transparent)]
    pub struct SegmentFlags: u32 {
        /// The frame goes on in the next segment.
        const MORE = 1;
        /// Not readable: an error completion, or a descriptor that points outside the queue's
        /// memory.
        const FAULT = 2;
    }
}

/// One contiguous piece of a frame in a receive slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Segment {
    /// First byte. Within the queue's memory, or [`DeviceAddress::NULL`] with
    /// [`SegmentFlags::FAULT`].
    pub address: DeviceAddress,
    /// Bytes of the frame in this piece.
    pub length: u32,
    /// Whether the frame goes on, and whether the piece can be read.
    pub flags: SegmentFlags,
    /// Bytes from `address` on that may be read, at least `length`: up to the end of the slot's
    /// buffer or of the memory that it lies in. What lies behind `length` has no meaning; it lets
    /// headers be loaded in whole 16-byte words. 0 with [`SegmentFlags::FAULT`].
    pub room: u32,
}

impl Segment {
    /// Whether the frame goes on in the next segment.
    #[inline(always)]
    pub fn more(&self) -> bool {
        self.flags.contains(SegmentFlags::MORE)
    }

    /// Whether the piece must not be read.
    #[inline(always)]
    pub fn fault(&self) -> bool {
        self.flags.contains(SegmentFlags::FAULT)
    }
}

bitflags! {
    /// Which fields of [`Meta`] the ring filled.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[repr(transparent)]
    pub struct MetaFlags: u32 {
        /// `timestamp_ns` holds the time of arrival.
        const TIMESTAMP = 1;
        /// `hash` holds the receive-side-scaling hash.
        const HASH = 2;
        /// `flow_tag` holds what a flow rule attached.
        const FLOW_TAG = 4;
        /// `vlan_tci` holds a tag that the NIC took off.
        const VLAN_STRIPPED = 8;
        /// The NIC looked at the IP header checksum.
        const L3_CHECKED = 16;
        /// The NIC found the IP header checksum right; only with `L3_CHECKED`.
        const L3_OK = 32;
        /// The NIC looked at the TCP or UDP checksum.
        const L4_CHECKED = 64;
        /// The NIC found the TCP or UDP checksum right; only with `L4_CHECKED`.
        const L4_OK = 128;
    }
}

/// What the NIC found out about a frame, where the ring has it; see `present`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Meta {
    /// Time of arrival in nanoseconds of the NIC's clock.
    pub timestamp_ns: u64,
    /// Receive-side-scaling hash.
    pub hash: u32,
    /// Tag of the flow rule that matched.
    pub flow_tag: u32,
    /// Tag control information of a VLAN tag that the NIC took off.
    pub vlan_tci: u16,
    /// Written as zero.
    pub reserved: u16,
    /// Which fields are filled.
    pub present: MetaFlags,
}

bitflags! {
    /// What the consumer of a transmit slot shall do with it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[repr(transparent)]
    pub struct PostFlags: u32 {
        /// Report the completion of this slot (selective signalling). Formats that report every
        /// slot ignore it; an error is always reported.
        const SIGNAL = 1;
        /// Fill in the IPv4 header checksum.
        const OFFLOAD_L3 = 2;
        /// Fill in the TCP or UDP checksum; the field holds the pseudo-header sum.
        const OFFLOAD_L4 = 4;
    }
}

/// One piece of a frame to be sent. A frame of `parts` pieces takes `parts` consecutive slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Post {
    /// First byte: in the slot's own buffer, or anywhere else in memory that the queue may read.
    pub address: DeviceAddress,
    /// Bytes in this piece.
    pub length: u32,
    /// Which piece of the frame this is, from 0.
    pub part: u32,
    /// Pieces of the whole frame, at least 1.
    pub parts: u32,
    /// What to do with it.
    pub flags: PostFlags,
    /// Where checksumming starts, in bytes from the frame's first byte; for `OFFLOAD_L4`.
    pub checksum_start: u16,
    /// Where the checksum goes, in bytes from `checksum_start`; for `OFFLOAD_L4`.
    pub checksum_offset: u16,
    /// Written as zero.
    pub reserved: u32,
}

/// The memory that belongs to a transmit slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Buffer {
    /// First byte, a multiple of 16.
    pub address: DeviceAddress,
    /// Bytes.
    pub capacity: u32,
    /// Written as zero.
    pub reserved: u32,
}
