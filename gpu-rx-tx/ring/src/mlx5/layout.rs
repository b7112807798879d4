//! Byte-exact layouts, one definition for driver and device model.
//!
//! ```text
//! send WQE, one piece (64 bytes)
//!  0  opmod(8) index(16) opcode(8)   number(24) segments(8)
//!  8  signature(8) stream(16) fm_ce_se(8)   immediate(32)
//! 16  0(32)   checksum flags(8) 0(8) mss(16)
//! 24  0(32)   inline size(16) inline start(16)
//! 32  byte count(32)  key(32)  address(64)
//! 48  the next data segment, or not looked at
//!
//! receive WQE (2^n segments of 16 bytes)      doorbell record (8 bytes)
//!  0  byte count(32)  key(32)  address(64)    0  receive producer(32)  send producer(32)
//!                                             or, for completions: consumer(32)  arm(32)
//! ```
//! Everything is big-endian. The doorbell is the first eight bytes of the last WQE's control
//! segment.

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::memory::Quad;

/// Bytes of a work queue basic block: the unit of send queue indices.
pub const WQEBB_BYTES: u64 = 64;
/// Bytes of a segment: the unit of a WQE's length (`ds`).
pub const SEGMENT_BYTES: u64 = 16;
/// Segments of a basic block.
pub const SEGMENTS_PER_WQEBB: u32 = 4;
/// Bytes of a completion.
pub const CQE_BYTES: u64 = 64;
/// Bytes of a doorbell record.
pub const RECORD_BYTES: u64 = 8;
/// Most segments of one WQE: `ds` has six bits.
pub const MAX_SEGMENTS: u32 = 63;
/// In a byte count: data follow inline.
pub const INLINE: u32 = 0x8000_0000;
/// The key of a receive segment that ends the list.
pub const INVALID_LKEY: u32 = 0x100;
/// Last byte of a completion that was never written: opcode invalid, owner 1.
pub const NEVER_WRITTEN: u8 = 0xf1;
/// Offset of the word of a completion that holds counter, signature, opcode and owner.
pub const CQE_LAST_WORD: u64 = 60;
/// Offset of the quad of a completion that ends with that word and holds an error's syndrome.
pub const CQE_LAST_QUAD: u64 = 48;
/// Bits of a completion queue's consumer index in its record.
pub const CONSUMER_MASK: u32 = 0x00ff_ffff;

/// Opcodes of send WQEs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opcode(pub u8);

impl Opcode {
    /// Does nothing, may complete.
    pub const NOP: Self = Self(0x00);
    /// Send, and take a key of the peer's away.
    pub const SEND_INVALIDATE: Self = Self(0x01);
    /// RDMA write.
    pub const WRITE: Self = Self(0x08);
    /// RDMA write with immediate.
    pub const WRITE_IMM: Self = Self(0x09);
    /// Send; on a raw packet queue: transmit a frame.
    pub const SEND: Self = Self(0x0a);
    /// Send with immediate.
    pub const SEND_IMM: Self = Self(0x0b);
    /// Segmented send.
    pub const TSO: Self = Self(0x0e);
    /// RDMA read.
    pub const READ: Self = Self(0x10);
    /// Compare and swap.
    pub const COMPARE_SWAP: Self = Self(0x11);
    /// Fetch and add.
    pub const FETCH_ADD: Self = Self(0x12);
}

/// Opcodes of completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CqeOpcode(pub u8);

impl CqeOpcode {
    /// A send WQE completed.
    pub const REQUEST: Self = Self(0);
    /// A write with immediate arrived.
    pub const RESPONSE_WRITE_IMM: Self = Self(1);
    /// A receive WQE was filled.
    pub const RESPONSE_SEND: Self = Self(2);
    /// A receive WQE was filled, with immediate.
    pub const RESPONSE_SEND_IMM: Self = Self(3);
    /// A receive WQE was filled, and a key of ours is to go.
    pub const RESPONSE_SEND_INVALIDATE: Self = Self(4);
    /// A send WQE failed.
    pub const REQUEST_ERROR: Self = Self(13);
    /// A receive WQE failed.
    pub const RESPONSE_ERROR: Self = Self(14);
    /// Never written.
    pub const INVALID: Self = Self(15);

    /// Whether the completion is an [`ErrorCqe`].
    #[inline(always)]
    pub const fn is_error(self) -> bool {
        self.0 == Self::REQUEST_ERROR.0 || self.0 == Self::RESPONSE_ERROR.0
    }
}

/// `fm_ce_se`: make a completion in any case. Without it only errors complete.
pub const COMPLETE_ALWAYS: u8 = 2 << 2;
/// `fm_ce_se`: the peer's completion raises an event.
pub const SOLICITED: u8 = 1 << 1;
/// `fm_ce_se`: begin after all reads and atomics before it.
pub const FENCE: u8 = 4 << 5;
/// Ethernet segment: fill in the IP header checksum.
pub const CHECKSUM_L3: u8 = 1 << 6;
/// Ethernet segment: fill in the TCP or UDP checksum.
pub const CHECKSUM_L4: u8 = 1 << 7;
/// Completion `hds_ip_ext`: the IP header is right.
pub const CQE_L3_OK: u8 = 1 << 1;
/// Completion `hds_ip_ext`: the TCP or UDP checksum is right.
pub const CQE_L4_OK: u8 = 1 << 2;
/// Completion `l4_hdr_type_etc`: a VLAN tag was taken off.
pub const CQE_VLAN_STRIPPED: u8 = 1;
/// Completion header type: IPv6 (bits 2 and 3).
pub const CQE_L3_IPV6: u8 = 1 << 2;
/// Completion header type: IPv4 (bits 2 and 3).
pub const CQE_L3_IPV4: u8 = 2 << 2;
/// The bits of the network header type.
pub const CQE_L3_MASK: u8 = 3 << 2;
/// Completion header type: TCP without an acknowledgement (bits 4 to 6).
pub const CQE_L4_TCP: u8 = 1 << 4;
/// Completion header type: UDP (bits 4 to 6).
pub const CQE_L4_UDP: u8 = 2 << 4;
/// Completion header type: TCP acknowledgement without data.
pub const CQE_L4_TCP_ACK: u8 = 3 << 4;
/// Completion header type: TCP acknowledgement with data.
pub const CQE_L4_TCP_ACK_DATA: u8 = 4 << 4;
/// The bits of the transport header type.
pub const CQE_L4_MASK: u8 = 7 << 4;

macro_rules! segment {
    ($name:ident) => {
        const _: () = assert!(size_of::<$name>() == 16);

        impl $name {
            /// The 16 bytes, to be stored as one.
            #[inline(always)]
            pub fn to_quad(self) -> Quad {
                Quad(zerocopy::transmute!(self))
            }

            /// From 16 bytes that were loaded as one.
            #[inline(always)]
            pub fn from_quad(quad: Quad) -> Self {
                zerocopy::transmute!(quad.0)
            }
        }
    };
}

mod transport;

pub use transport::{AtomicSegment, DATAGRAM_EXTENDED, DatagramSegment, RemoteAddressSegment};

/// First segment of every send WQE.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ControlSegment {
    /// Modifier in the top byte, WQE index in the two middle ones, [`Opcode`] below.
    pub opmod_idx_opcode: U32,
    /// Queue number in the top three bytes, segments of the WQE in the lowest.
    pub qpn_ds: U32,
    /// Signature; zero.
    pub signature: u8,
    /// DCI stream; zero.
    pub dci_stream_channel_id: U16,
    /// Fence mode, completion mode ([`COMPLETE_ALWAYS`]), solicited event.
    pub fm_ce_se: u8,
    /// Immediate.
    pub imm: U32,
}
segment!(ControlSegment);

impl ControlSegment {
    /// A control segment; `index` is narrowed to its 16 bits.
    #[inline(always)]
    pub fn new(opcode: Opcode, index: u64, number: u32, segments: u32, signal: bool) -> Self {
        let index = u32::from(index as u16);
        let modes = if signal { COMPLETE_ALWAYS } else { 0 };
        // Word by word: it is stored as one, not field by field.
        Self::from_quad(Quad([
            (index << 8 | u32::from(opcode.0)).to_be(),
            (number << 8 | segments & 0x3f).to_be(),
            u32::from(modes).to_be(),
            0,
        ]))
    }

    /// The operation.
    #[inline(always)]
    pub fn opcode(&self) -> Opcode {
        Opcode(self.opmod_idx_opcode.get() as u8)
    }

    /// The low 16 bits of the WQE's index.
    #[inline(always)]
    pub fn index(&self) -> u16 {
        (self.opmod_idx_opcode.get() >> 8) as u16
    }

    /// Number of the queue.
    #[inline(always)]
    pub fn number(&self) -> u32 {
        self.qpn_ds.get() >> 8
    }

    /// Segments of the WQE, this one included.
    #[inline(always)]
    pub fn segments(&self) -> u32 {
        self.qpn_ds.get() & 0x3f
    }

    /// Whether it completes in any case.
    #[inline(always)]
    pub fn signal(&self) -> bool {
        self.fm_ce_se & COMPLETE_ALWAYS != 0
    }
}

/// The doorbell register's content: the first eight bytes of a control segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Doorbell {
    /// As in [`ControlSegment`].
    pub opmod_idx_opcode: U32,
    /// As in [`ControlSegment`].
    pub qpn_ds: U32,
}

impl Doorbell {
    /// Reads the word as it lies in memory.
    #[inline(always)]
    pub fn from_word(word: u64) -> Self {
        zerocopy::transmute!(word)
    }

    /// The low 16 bits of the index behind the WQE that was posted last.
    #[inline(always)]
    pub fn end(&self) -> u16 {
        let index = (self.opmod_idx_opcode.get() >> 8) as u16;
        index.wrapping_add(wqebbs(self.qpn_ds.get() & 0x3f) as u16)
    }

    /// Number of the queue.
    #[inline(always)]
    pub fn number(&self) -> u32 {
        self.qpn_ds.get() >> 8
    }
}

/// Second segment of a WQE on a raw packet queue; more inline header bytes may follow it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EthernetSegment {
    /// Zero.
    pub rsvd0: U32,
    /// [`CHECKSUM_L3`], [`CHECKSUM_L4`].
    pub cs_flags: u8,
    /// Zero.
    pub rsvd1: u8,
    /// Segment size of a segmented send; zero.
    pub mss: U16,
    /// Zero.
    pub rsvd2: U32,
    /// Header bytes that stand in the WQE, from `inline_hdr_start` on.
    pub inline_hdr_sz: U16,
    /// The first two of them.
    pub inline_hdr_start: [u8; 2],
}
segment!(EthernetSegment);

/// Offset of the inline header's first byte in the Ethernet segment.
pub const INLINE_HEADER_OFFSET: u32 =
    core::mem::offset_of!(EthernetSegment, inline_hdr_start) as u32;

impl EthernetSegment {
    /// Without inline header.
    #[inline(always)]
    pub fn new(cs_flags: u8) -> Self {
        Self::from_quad(Quad([0, (u32::from(cs_flags) << 24).to_be(), 0, 0]))
    }

    /// Bytes of this segment with its inline header, rounded up to whole segments.
    #[inline(always)]
    pub fn bytes(&self) -> u32 {
        let used = INLINE_HEADER_OFFSET + u32::from(self.inline_hdr_sz.get());
        used.next_multiple_of(SEGMENT_BYTES as u32)
            .max(SEGMENT_BYTES as u32)
    }
}

/// A piece of memory, in send and receive WQEs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DataSegment {
    /// Bytes; zero means 2^31. With [`INLINE`], that many bytes follow here instead of key and
    /// address.
    pub byte_count: U32,
    /// Local key.
    pub lkey: U32,
    /// First byte.
    pub addr: U64,
}
segment!(DataSegment);

impl DataSegment {
    /// A piece of memory.
    #[inline(always)]
    pub fn new(length: u32, key: u32, address: u64) -> Self {
        Self {
            byte_count: U32::new(length),
            lkey: U32::new(key),
            addr: U64::new(address),
        }
    }
}

/// Head of inline data: `byte_count` with [`INLINE`], then the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InlineSegment {
    /// Bytes, with [`INLINE`].
    pub byte_count: U32,
}

/// A completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Cqe {
    /// Zero.
    pub rsvd0: [u8; 2],
    /// Striding receive queues: index of the WQE.
    pub wqe_id: U16,
    /// Zero.
    pub rsvd4: [u8; 8],
    /// Receive hash.
    pub rx_hash_res: U32,
    /// What the hash covers; 0: there is none.
    pub rx_hash_type: u8,
    /// Multicast and loopback bits.
    pub ml_path: u8,
    /// Zero.
    pub rsvd18: [u8; 2],
    /// Ones' complement sum over the network packet.
    pub checksum: U16,
    /// Source LID.
    pub slid: U16,
    /// Flags and remote queue number.
    pub flags_rqpn: U32,
    /// [`CQE_L3_OK`], [`CQE_L4_OK`].
    pub hds_ip_ext: u8,
    /// Header types, [`CQE_VLAN_STRIPPED`].
    pub l4_hdr_type_etc: u8,
    /// Tag control information of the tag that was taken off.
    pub vlan_info: U16,
    /// Shared receive queue or user index.
    pub srqn_uidx: U32,
    /// Immediate, invalidated key, P_Key, or the metadata word of a flow rule.
    pub imm_inval_pkey: U32,
    /// Application.
    pub app: u8,
    /// Application's operation.
    pub app_op: u8,
    /// Application's information.
    pub app_info: U16,
    /// Bytes of the frame.
    pub byte_cnt: U32,
    /// Time of the completion, in the NIC's format.
    pub timestamp: U64,
    /// Top byte: opcode of the send WQE; the rest: queue number, or the flow tag of a raw packet.
    pub sop_drop_qpn: U32,
    /// The low 16 bits of the WQE's index.
    pub wqe_counter: U16,
    /// Signature.
    pub signature: u8,
    /// Opcode in the high nibble, format in bits 2 and 3, solicited in bit 1, owner in bit 0.
    pub op_own: u8,
}

const _: () = assert!(size_of::<Cqe>() == 64);
const _: () = assert!(core::mem::offset_of!(Cqe, rx_hash_res) == 12);
const _: () = assert!(core::mem::offset_of!(Cqe, byte_cnt) == 44);
const _: () = assert!(core::mem::offset_of!(Cqe, op_own) == 63);

impl Cqe {
    /// All zero but for opcode and counter; the owner bit is set when it is written.
    #[inline(always)]
    pub fn new(opcode: CqeOpcode, counter: u64) -> Self {
        Self {
            wqe_counter: U16::new(counter as u16),
            op_own: opcode.0 << 4,
            ..Self::new_zeroed()
        }
    }

    /// The kind of completion.
    #[inline(always)]
    pub fn opcode(&self) -> CqeOpcode {
        CqeOpcode(self.op_own >> 4)
    }

    /// The 24 bits that hold the flow tag of a received raw packet.
    #[inline(always)]
    pub fn flow_tag(&self) -> u32 {
        self.sop_drop_qpn.get() & 0x00ff_ffff
    }

    /// The same bytes as eight words: what stays in registers until it is stored.
    #[inline(always)]
    pub fn to_words(self) -> CqeWords {
        zerocopy::transmute!(self)
    }

    /// The same bytes as an error completion.
    #[inline(always)]
    pub fn as_error(self) -> ErrorCqe {
        zerocopy::transmute!(self)
    }
}

/// A completion as words in the order and byte order of memory.
pub type CqeWords = [u64; 8];

/// The last word of a completion with another WQE index.
#[inline(always)]
pub const fn with_counter(last_word: u64, counter: u64) -> u64 {
    let rest = u64::from_be(last_word) & !0xffff_0000;
    (rest | (counter & 0xffff) << 16).to_be()
}

/// An error completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ErrorCqe {
    /// Zero.
    pub rsvd0: [u8; 32],
    /// Shared receive queue.
    pub srqn: U32,
    /// Zero.
    pub rsvd36: [u8; 16],
    /// Hardware's error number.
    pub hw_err_synd: u8,
    /// Hardware's error class.
    pub hw_synd_type: u8,
    /// Vendor's error number.
    pub vendor_err_synd: u8,
    /// What went wrong, see [`crate::Cause::from_syndrome`].
    pub syndrome: u8,
    /// Opcode of the WQE in the top byte, queue number below.
    pub s_wqe_opcode_qpn: U32,
    /// The low 16 bits of the WQE's index.
    pub wqe_counter: U16,
    /// Signature.
    pub signature: u8,
    /// As in [`Cqe`].
    pub op_own: u8,
}

const _: () = assert!(size_of::<ErrorCqe>() == 64);
const _: () = assert!(core::mem::offset_of!(ErrorCqe, syndrome) == 55);

impl ErrorCqe {
    /// An error completion; the owner bit is set when it is written.
    #[inline(always)]
    pub fn new(opcode: CqeOpcode, counter: u64, syndrome: u8) -> Self {
        Self {
            syndrome,
            wqe_counter: U16::new(counter as u16),
            op_own: opcode.0 << 4,
            ..Self::new_zeroed()
        }
    }

    /// The same bytes as a plain completion.
    #[inline(always)]
    pub fn as_cqe(self) -> Cqe {
        zerocopy::transmute!(self)
    }
}

/// Doorbell record of a work queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DoorbellRecord {
    /// Receive producer index, 16 bits.
    pub receive: U32,
    /// Send producer index, 16 bits.
    pub send: U32,
}

/// Offset of the receive word in a record; also that of a completion queue's consumer index.
pub const RECORD_RECEIVE: u64 = core::mem::offset_of!(DoorbellRecord, receive) as u64;
/// Offset of the send word in a record.
pub const RECORD_SEND: u64 = core::mem::offset_of!(DoorbellRecord, send) as u64;

/// Basic blocks that a WQE of so many segments takes.
#[inline(always)]
pub const fn wqebbs(segments: u32) -> u32 {
    segments.div_ceil(SEGMENTS_PER_WQEBB)
}

/// The owner bit of completion `index`: the parity of the lap.
#[inline(always)]
pub const fn owner(index: u64, log_depth: u32) -> u8 {
    (index >> log_depth) as u8 & 1
}

/// Whether the last word of a completion, as it lies in memory, says that completion `index` is
/// there.
#[inline(always)]
pub const fn is_owned(last_word: u32, index: u64, log_depth: u32) -> bool {
    let op_own = u32::from_be(last_word) as u8;
    op_own >> 4 != CqeOpcode::INVALID.0 && op_own & 1 == owner(index, log_depth)
}

/// Whether the last word of a completion, as it lies in memory, says that a frame came into receive
/// slot `index`.
#[inline(always)]
pub const fn is_response_to(last_word: u32, index: u64) -> bool {
    let word = u32::from_be(last_word);
    let opcode = word as u8 >> 4;
    opcode == CqeOpcode::RESPONSE_SEND.0 && word >> 16 == index as u16 as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_count_basic_blocks() {
        let cases = [(1, 1), (3, 1), (4, 1), (5, 2), (8, 2), (9, 3), (63, 16)];
        for (segments, blocks) in cases {
            assert_eq!(wqebbs(segments), blocks, "{segments} segments");
        }
    }

    #[test]
    fn control_segment_bytes_are_as_documented() {
        let control = ControlSegment::new(Opcode::SEND, 0x1_2345, 0x00ab_cdef, 3, true);
        let bytes: [u8; 16] = zerocopy::transmute!(control);
        let want = [
            0, 0x23, 0x45, 0x0a, 0xab, 0xcd, 0xef, 3, 0, 0, 0, 8, 0, 0, 0, 0,
        ];
        assert_eq!(bytes, want);
        assert_eq!(ControlSegment::from_quad(control.to_quad()), control);
    }

    #[test]
    fn the_last_word_tells_owner_and_slot() {
        // Counter, signature, opcode and owner, as they lie in memory.
        let word = |counter: u16, op_own: u8| {
            let [high, low] = counter.to_be_bytes();
            u32::from_ne_bytes([high, low, 0x5a, op_own])
        };
        let send = CqeOpcode::RESPONSE_SEND.0 << 4;
        let error = CqeOpcode::RESPONSE_ERROR.0 << 4;
        assert!(is_owned(word(9, send), 9, 4) && is_owned(word(9, error), 9, 4));
        assert!(!is_owned(word(9, send | 1), 9, 4), "another lap");
        assert!(is_owned(word(9, send | 1), 9 + 16, 4));
        assert!(!is_owned(word(9, NEVER_WRITTEN), 9 + 16, 4));
        let index = 0x0001_0002_0003;
        assert!(is_response_to(word(3, send | 1), index));
        assert!(!is_response_to(word(4, send), index), "another slot");
        assert!(!is_response_to(word(3, error), index), "no frame");
    }

    #[test]
    fn inline_headers_round_up_to_segments() {
        for (inline, bytes) in [(0u16, 16), (2, 16), (3, 32), (18, 32), (19, 48)] {
            let mut segment = EthernetSegment::new(0);
            segment.inline_hdr_sz = U16::new(inline);
            assert_eq!(segment.bytes(), bytes, "{inline} bytes inline");
        }
    }

    #[test]
    fn fresh_completions_belong_to_nobody() {
        let word = u32::from_ne_bytes([0, 0, 0, NEVER_WRITTEN]);
        assert!(!is_owned(word, 0, 3) && !is_owned(word, 8, 3));
        let word = u32::from_ne_bytes([0, 0, 0, 0x21]);
        assert!(!is_owned(word, 7, 3) && is_owned(word, 8, 3) && !is_owned(word, 16, 3));
    }
}
