//! Segments of requests that a transport carries out.

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::memory::Quad;

/// Target of an RDMA operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RemoteAddressSegment {
    /// First byte at the peer.
    pub raddr: U64,
    /// The peer's key.
    pub rkey: U32,
    /// Zero.
    pub reserved: U32,
}
segment!(RemoteAddressSegment);

/// Operands of an atomic operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AtomicSegment {
    /// New value, or what is added.
    pub swap_add: U64,
    /// Value to compare with.
    pub compare: U64,
}
segment!(AtomicSegment);

/// Where a datagram goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DatagramSegment {
    /// Key of the peer's queue pair.
    pub qkey: U32,
    /// Zero.
    pub reserved: U32,
    /// The peer's queue pair, 24 bits, below [`DATAGRAM_EXTENDED`].
    pub dqp_dct: U32,
    /// Rate and service level.
    pub stat_rate_sl: u8,
    /// Path bits.
    pub fl_mlid: u8,
    /// For RoCE: the UDP source port.
    pub rlid: U16,
    /// Zero.
    pub reserved0: [u8; 4],
    /// The next hop.
    pub rmac: [u8; 6],
    /// Traffic class.
    pub tclass: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Flow label and index of the own address.
    pub grh_gid_fl: U32,
    /// The peer's address; IPv4 mapped into IPv6.
    pub rgid: [u8; 16],
}

const _: () = assert!(size_of::<DatagramSegment>() == 48);
const _: () = assert!(core::mem::offset_of!(DatagramSegment, rgid) == 32);

impl DatagramSegment {
    /// To a queue pair of the peer that has this address. The way there is left out: next hop, UDP
    /// source port, traffic class and hop limit are zero.
    pub const fn to(number: u32, qkey: u32, rgid: [u8; 16]) -> Self {
        Self {
            qkey: U32::new(qkey),
            reserved: U32::new(0),
            dqp_dct: U32::new(number & 0x00ff_ffff | DATAGRAM_EXTENDED),
            stat_rate_sl: 0,
            fl_mlid: 0,
            rlid: U16::new(0),
            reserved0: [0; 4],
            rmac: [0; 6],
            tclass: 0,
            hop_limit: 0,
            grh_gid_fl: U32::new(0),
            rgid,
        }
    }
}

/// In `dqp_dct`: the segment has its full length.
pub const DATAGRAM_EXTENDED: u32 = 1 << 31;
