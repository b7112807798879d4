//! Base transport header. InfiniBand Architecture Specification volume 1, section 9.2; behind UDP
//! port 4791: annex A17 (RoCEv2).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-+-+---+-------+-------------------------------+
//! |    opcode     |S|M|pad|version|             P_Key             |
//! +-+-+-----------+-+-+---+-------+-------------------------------+
//! |F|B| reserved  |            destination queue pair             |
//! +-+-+-----------+-----------------------------------------------+
//! |A|  reserved   |            packet sequence number             |
//! +-+-------------+-----------------------------------------------+
//! ```
//! S: solicited event. M: migration state. Pad: bytes that make the payload a multiple of 4. F, B:
//! forward and backward congestion. A: acknowledge request. Version: 0.
//!
//! Extended headers, payload, pad and a 4-byte invariant CRC follow.

use super::opcode::Opcode;
use crate::DropReason;
use core::fmt;
use zerocopy::byteorder::network_endian::{U16, U32};

/// The UDP destination port of RoCEv2.
pub const UDP_PORT: u16 = 4791;

/// Bytes of the invariant CRC at the end of every packet.
pub const ICRC_LENGTH: usize = 4;

/// The bits of the second byte that hold the transport version, which is 0.
pub const VERSION_MASK: u8 = 0x0f;

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 12 bytes, else BthLength {
        /// Opcode.
        opcode: u8,
        /// Solicited event, migration, pad count, version.
        flags: u8,
        /// Partition key.
        pkey: U16,
        /// Congestion bits, reserved bits and destination queue pair.
        destination_qp: U32,
        /// Acknowledge request, reserved bits and sequence number.
        psn: U32,
    }
}

impl Header {
    /// Bytes that pad the payload to a multiple of 4: 0 to 3.
    pub const fn pad(&self) -> u8 {
        pad_of(self.flags)
    }

    /// The destination queue pair.
    pub const fn destination_qp(&self) -> Qpn {
        Qpn::new(self.destination_qp.get())
    }

    /// The sequence number.
    pub const fn psn(&self) -> Psn {
        Psn::new(self.psn.get())
    }
}

/// The pad count in the second byte of a header.
pub const fn pad_of(flags: u8) -> u8 {
    flags >> 4 & 3
}

/// A base transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// What the packet is.
    pub opcode: Opcode,
    /// The responder raises an event when it completes the message.
    pub solicited_event: bool,
    /// The path is the primary one, or migrated.
    pub migration: bool,
    /// Bytes that pad the payload to a multiple of 4.
    pub pad: Pad,
    /// Partition.
    pub pkey: PKey,
    /// Congestion was met on the way here.
    pub forward_congestion: bool,
    /// Congestion was met on the way there: set in a CNP.
    pub backward_congestion: bool,
    /// Who the packet is for.
    pub destination_qp: Qpn,
    /// The responder shall acknowledge.
    pub acknowledge: bool,
    /// Sequence number.
    pub psn: Psn,
}

impl Repr {
    /// Reads a header; reserved bits are ignored.
    ///
    /// # Errors
    /// [`DropReason::BthVersion`], [`DropReason::BthOpcode`].
    pub const fn parse(header: &Header) -> Result<Self, DropReason> {
        if header.flags & VERSION_MASK != 0 {
            return Err(DropReason::BthVersion);
        }
        let Some(opcode) = Opcode::new(header.opcode) else {
            return Err(DropReason::BthOpcode);
        };
        Ok(Self {
            opcode,
            solicited_event: header.flags & SOLICITED != 0,
            migration: header.flags & MIGRATION != 0,
            pad: Pad(header.pad()),
            pkey: PKey(header.pkey.get()),
            forward_congestion: header.destination_qp.get() & FORWARD != 0,
            backward_congestion: header.destination_qp.get() & BACKWARD != 0,
            destination_qp: header.destination_qp(),
            acknowledge: header.psn.get() & ACKNOWLEDGE != 0,
            psn: header.psn(),
        })
    }

    /// The header by value.
    pub const fn header(&self) -> Header {
        let flags = bit(self.solicited_event, SOLICITED as u32) as u8
            | bit(self.migration, MIGRATION as u32) as u8
            | self.pad.0 << 4;
        let congestion =
            bit(self.forward_congestion, FORWARD) | bit(self.backward_congestion, BACKWARD);
        Header {
            opcode: self.opcode.value(),
            flags,
            pkey: U16::new(self.pkey.0),
            destination_qp: U32::new(congestion | self.destination_qp.value()),
            psn: U32::new(bit(self.acknowledge, ACKNOWLEDGE) | self.psn.value()),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} qp {} psn {}",
            self.opcode, self.destination_qp, self.psn
        )?;
        if self.acknowledge {
            f.write_str(" ack wanted")
        } else {
            Ok(())
        }
    }
}

/// Bytes that pad a payload to a multiple of 4: 0 to 3.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Pad(u8);

impl Pad {
    /// What a payload of this many bytes needs.
    pub const fn of(payload_length: u32) -> Self {
        Self((payload_length.wrapping_neg() & 3) as u8)
    }

    /// The number of bytes.
    pub const fn value(self) -> u8 {
        self.0
    }
}

/// A partition key: 15 bits of key, and whether the member is a full one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct PKey(pub u16);

impl PKey {
    /// The default partition, full membership.
    pub const DEFAULT: Self = Self(0xffff);

    /// Whether the member is a full one.
    pub const fn is_full(self) -> bool {
        self.0 & 0x8000 != 0
    }

    /// Whether two members may talk: same partition, and one of them at least is a full member.
    pub const fn matches(self, other: Self) -> bool {
        (self.0 ^ other.0) & 0x7fff == 0 && (self.is_full() || other.is_full())
    }
}

impl fmt::Display for PKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// A 24-bit packet sequence number. Without an order: it wraps; see [`Psn::is_before`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Psn(u32);

impl Psn {
    /// The low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & LOW_24)
    }

    /// The value, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// `count` packets later.
    pub const fn wrapping_add(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// Packets from `earlier` to `self`: -2^23 to 2^23 - 1.
    pub const fn diff(self, earlier: Self) -> i32 {
        (self.0.wrapping_sub(earlier.0) << 8) as i32 >> 8
    }

    /// Whether `self` comes before `other`. Meaningful within half of the number space.
    pub const fn is_before(self, other: Self) -> bool {
        self.diff(other) < 0
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// A 24-bit queue pair number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Qpn(u32);

impl Qpn {
    /// The general services interface: connection management.
    pub const GSI: Self = Self(1);

    /// The low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & LOW_24)
    }

    /// The value, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

const fn bit(is_set: bool, mask: u32) -> u32 {
    if is_set { mask } else { 0 }
}

const LOW_24: u32 = 0x00ff_ffff;
const SOLICITED: u8 = 0x80;
const MIGRATION: u8 = 0x40;
const FORWARD: u32 = 0x8000_0000;
const BACKWARD: u32 = 0x4000_0000;
const ACKNOWLEDGE: u32 = 0x8000_0000;

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;

    const WRITE: Repr = Repr {
        opcode: Opcode::WRITE_ONLY,
        solicited_event: false,
        migration: true,
        pad: Pad(3),
        pkey: PKey::DEFAULT,
        forward_congestion: false,
        backward_congestion: false,
        destination_qp: Qpn(0x11),
        acknowledge: true,
        psn: Psn(0x12_3456),
    };

    #[test]
    fn emit_then_parse() {
        let all = Repr {
            opcode: Opcode::CNP,
            solicited_event: true,
            migration: false,
            pad: Pad(0),
            pkey: PKey(0x8001),
            forward_congestion: true,
            backward_congestion: true,
            destination_qp: Qpn(LOW_24),
            acknowledge: false,
            psn: Psn(0),
        };
        for (repr, text) in [
            (WRITE, "0a70ffff 00000011 80123456"),
            (all, "81808001 c0ffffff 00000000"),
        ] {
            let bytes = check_emit(12, |buffer| repr.emit(buffer));
            assert_eq!(bytes, hex(text));
            assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), Ok(repr));
        }
        assert_eq!(
            WRITE.to_string(),
            "WRITE_ONLY qp 0x000011 psn 0x123456 ack wanted"
        );
    }

    #[test]
    fn what_is_refused_and_what_is_ignored() {
        for (text, reason) in [
            ("0a71ffff 00000011 80123456", DropReason::BthVersion),
            ("1570ffff 00000011 80123456", DropReason::BthOpcode),
            ("4470ffff 00000011 80123456", DropReason::BthOpcode),
            ("ff70ffff 00000011 80123456", DropReason::BthOpcode),
        ] {
            let bytes = hex(text);
            let parsed = Repr::parse(Header::split(&bytes).unwrap().0);
            assert_eq!(parsed, Err(reason), "{text}");
        }
        let bytes = hex("0a70ffff 3f000011 ff123456");
        assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), Ok(WRITE));
        assert_eq!(Header::split(&[0; 11]), Err(DropReason::BthLength));
    }

    #[test]
    fn sequence_numbers_wrap_at_24_bits() {
        let (before, after) = (Psn::new(0xff_fffe), Psn::new(0x0100_0003));
        assert_eq!(after.value(), 3);
        assert_eq!(before.wrapping_add(5), after);
        assert_eq!(after.diff(before), 5);
        assert_eq!(before.diff(after), -5);
        assert!(before.is_before(after) && !after.is_before(before));
        assert_eq!(Psn::new(1 << 23).diff(Psn::new(0)), -(1 << 23));
    }

    #[test]
    fn partitions() {
        for (ours, theirs, expected) in [
            (0xffff, 0xffff, true),
            (0xffff, 0x7fff, true),
            (0x7fff, 0x7fff, false),
            (0x8001, 0x8002, false),
        ] {
            assert_eq!(
                PKey(ours).matches(PKey(theirs)),
                expected,
                "{ours:x} {theirs:x}"
            );
        }
    }

    #[test]
    fn pads() {
        for (length, pad) in [(0, 0), (1, 3), (2, 2), (3, 1), (4, 0), (1021, 3)] {
            assert_eq!(Pad::of(length).value(), pad);
        }
    }
}
