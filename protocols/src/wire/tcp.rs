//! TCP. RFC 9293 section 3.1; ECN bits: RFC 3168 section 6.1 and RFC 9768.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          source port          |       destination port        |
//! +-------------------------------+-------------------------------+
//! |                        sequence number                        |
//! +---------------------------------------------------------------+
//! |                     acknowledgement number                    |
//! +-------+-----+-+-+-+-+-+-+-+-+-+-------------------------------+
//! |offset |reser|A|C|E|U|A|P|R|S|F|            window             |
//! |       | ved |E|W|C|R|C|S|S|Y|I|                               |
//! |       |     | |R|E|G|K|H|T|N|N|                               |
//! +-------+-----+-+-+-+-+-+-+-+-+-+-------------------------------+
//! |           checksum            |        urgent pointer         |
//! +-------------------------------+-------------------------------+
//! |  options, 0 to 40 bytes, padded to a multiple of 4
//! +---
//! ```
//! Offset: where data starts, in words of 4 bytes, 5 to 15.

use super::tcp_option::Options;
use super::{BufferTooShort, emit_header};
use crate::DropReason;
use crate::checksum::{Fill, Sum};
use bitflags::bitflags;
use core::fmt;
use zerocopy::IntoBytes;
use zerocopy::byteorder::network_endian::{U16, U32};

wire_header! {
    /// The fixed part as it lies on the wire: any bits.
    Header: 20 bytes, else TruncatedL4 {
        /// Source port.
        source_port: U16,
        /// Destination port.
        destination_port: U16,
        /// Number of the first byte of data (of SYN itself, in a SYN).
        sequence: U32,
        /// Number of the next byte expected.
        acknowledgement: U32,
        /// Data offset, reserved bits and flags.
        control: U16,
        /// Receive window, to be scaled.
        window: U16,
        /// Checksum over pseudo header and segment.
        checksum: U16,
        /// Offset of the last urgent byte.
        urgent: U16,
    }
}

impl Header {
    /// Bytes of header and options, as the header says: 0 to 60.
    pub const fn header_length(&self) -> usize {
        (self.control.get() >> 12) as usize * 4
    }

    /// The flags.
    pub const fn flags(&self) -> TcpFlags {
        TcpFlags::from_bits_truncate(self.control.get())
    }
}

bitflags! {
    /// The control bits, with the three ECN bits (RFC 3168, RFC 9768) above them.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    #[repr(transparent)]
    pub struct TcpFlags: u16 {
        /// No more data from the sender.
        const FIN = 0x001;
        /// Synchronise sequence numbers.
        const SYN = 0x002;
        /// Reset the connection.
        const RST = 0x004;
        /// Push.
        const PSH = 0x008;
        /// The acknowledgement number is valid.
        const ACK = 0x010;
        /// The urgent pointer is valid.
        const URG = 0x020;
        /// ECN echo.
        const ECE = 0x040;
        /// Congestion window reduced.
        const CWR = 0x080;
        /// Accurate ECN (formerly the nonce sum).
        const AE = 0x100;
    }
}

/// A TCP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Number of the first byte of data (of SYN itself, in a SYN).
    pub sequence: TcpSequence,
    /// Number of the next byte expected; zero by habit without [`TcpFlags::ACK`].
    pub acknowledgement: TcpSequence,
    /// Flags.
    pub flags: TcpFlags,
    /// Receive window, to be scaled.
    pub window: u16,
    /// Offset of the last urgent byte.
    pub urgent: u16,
    /// The options that are modelled.
    pub options: Options,
}

impl Repr {
    /// Reads header and options of a whole segment; also gives the data. The checksum is not
    /// looked at; options that are not modelled are skipped.
    ///
    /// # Errors
    /// [`DropReason::TruncatedL4`], [`DropReason::TcpDataOffset`], [`DropReason::TcpOption`].
    pub fn parse(segment: &[u8]) -> Result<(Self, &[u8]), DropReason> {
        let (header, _) = Header::split(segment)?;
        let length = header.header_length();
        let options = segment
            .get(Header::LENGTH..length)
            .ok_or(DropReason::TcpDataOffset)?;
        let repr = Self {
            source_port: header.source_port.get(),
            destination_port: header.destination_port.get(),
            sequence: TcpSequence(header.sequence.get()),
            acknowledgement: TcpSequence(header.acknowledgement.get()),
            flags: header.flags(),
            window: header.window.get(),
            urgent: header.urgent.get(),
            options: Options::parse(options)?,
        };
        Ok((repr, segment.get(length..).unwrap_or(&[])))
    }

    /// Bytes that `emit` writes: 20 to 60.
    pub const fn length(&self) -> usize {
        Header::LENGTH + self.options.length()
    }

    /// Writes header and options to the start of `buffer`; `pseudo` is the pseudo-header sum.
    /// Returns the bytes written. [`Fill::Absent`] leaves zero, which no receiver accepts.
    ///
    /// # Errors
    /// [`BufferTooShort`] if `buffer` cannot hold them.
    pub fn emit(
        &self,
        buffer: &mut [u8],
        pseudo: Sum,
        fill: Fill,
    ) -> Result<usize, BufferTooShort> {
        let (need, have) = (self.length(), buffer.len());
        let target = buffer
            .get_mut(..need)
            .ok_or(BufferTooShort { need, have })?;
        let mut header = Header {
            source_port: U16::new(self.source_port),
            destination_port: U16::new(self.destination_port),
            sequence: U32::new(self.sequence.0),
            acknowledgement: U32::new(self.acknowledgement.0),
            control: U16::new((need as u16 / 4) << 12 | self.flags.bits()),
            window: U16::new(self.window),
            checksum: U16::ZERO,
            urgent: U16::new(self.urgent),
        };
        let options = target.get_mut(Header::LENGTH..).unwrap_or_default();
        self.options.emit(options)?;
        header.checksum = match fill {
            Fill::Compute { payload } => {
                let start = Sum::of(header.as_bytes()).plus(Sum::of(options));
                start.plus(pseudo).plus(payload).field()
            }
            Fill::Partial => U16::new(pseudo.fold()),
            Fill::Absent => U16::ZERO,
        };
        emit_header(&header, target)?;
        Ok(need)
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TCP {} > {}", self.source_port, self.destination_port)?;
        for (name, _) in self.flags.iter_names() {
            write!(f, " {name}")?;
        }
        write!(f, " seq {} ack {}", self.sequence.0, self.acknowledgement.0)?;
        write!(f, " window {}", self.window)
    }
}

/// A TCP sequence number. Without an order: it wraps; see [`TcpSequence::is_before`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TcpSequence(pub u32);

impl TcpSequence {
    /// `count` bytes later.
    pub const fn wrapping_add(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// Bytes from `earlier` to `self`: -2^31 to 2^31 - 1.
    pub const fn diff(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }

    /// Whether `self` comes before `other`. Meaningful within half of the number space.
    pub const fn is_before(self, other: Self) -> bool {
        self.diff(other) < 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::IpProtocol;
    use super::super::tcp_option::Timestamps;
    use super::super::testing::{check_emit, hex};
    use super::*;
    use crate::checksum::pseudo_ipv4;
    use core::net::Ipv4Addr;

    /// scapy: IP(src="10.77.0.3", dst="10.77.0.2") / TCP(sport=40000, dport=80, seq=0x01020304,
    /// flags="SEC", window=64240, options=[("MSS", 1460), ("SAckOK", b""), ("Timestamp",
    /// (0x11223344, 0)), ("NOP", None), ("WScale", 7)])
    const SYN: &str = "9c4000500102030400000000a0c2faf052b40000
        020405b40402080a112233440000000001030307";

    fn pseudo(length: usize) -> Sum {
        let (source, destination) = (Ipv4Addr::new(10, 77, 0, 3), Ipv4Addr::new(10, 77, 0, 2));
        pseudo_ipv4(source, destination, IpProtocol::TCP, length as u16)
    }

    #[test]
    fn golden_syn() {
        let bytes = hex(SYN);
        assert!(pseudo(bytes.len()).plus(Sum::of(&bytes)).holds());
        let (repr, data) = Repr::parse(&bytes).unwrap();
        assert!(data.is_empty());
        assert_eq!(repr.flags, TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR);
        assert_eq!(repr.options.maximum_segment_size, Some(1460));
        assert_eq!(repr.options.window_scale, Some(7));
        assert!(repr.options.sack_permitted);
        let timestamps = Timestamps {
            value: 0x1122_3344,
            echo: 0,
        };
        assert_eq!(repr.options.timestamps, Some(timestamps));
        assert_eq!(
            repr.to_string(),
            "TCP 40000 > 80 SYN ECE CWR seq 16909060 ack 0 window 64240"
        );
    }

    #[test]
    fn emit_then_parse() {
        let (syn, _) = Repr::parse(&hex(SYN)).unwrap();
        let plain = Repr {
            flags: TcpFlags::ACK | TcpFlags::PSH | TcpFlags::AE,
            acknowledgement: TcpSequence(77),
            urgent: 3,
            options: Options::default(),
            ..syn
        };
        for repr in [syn, plain] {
            let length = repr.length();
            let fill = Fill::Compute {
                payload: Sum::of(b"data!"),
            };
            let bytes = check_emit(length, |buffer| repr.emit(buffer, pseudo(length + 5), fill));
            let segment = [&bytes[..], b"data!"].concat();
            assert!(pseudo(length + 5).plus(Sum::of(&segment)).holds());
            assert_eq!(Repr::parse(&segment), Ok((repr, &b"data!"[..])));
            let bytes = check_emit(length, |buffer| repr.emit(buffer, pseudo(9), Fill::Partial));
            assert_eq!(bytes[16..18], pseudo(9).fold().to_be_bytes());
        }
    }

    #[test]
    fn data_offsets_are_checked() {
        let bytes = hex(SYN);
        for (offset, reason) in [
            (0, Some(DropReason::TcpDataOffset)),
            (4, Some(DropReason::TcpDataOffset)),
            (5, None),
            (10, None),
            (11, Some(DropReason::TcpDataOffset)),
            (15, Some(DropReason::TcpDataOffset)),
        ] {
            let mut bytes = bytes.clone();
            bytes[12] = offset << 4;
            assert_eq!(Repr::parse(&bytes).err(), reason, "{offset}");
        }
        assert_eq!(
            Repr::parse(&bytes[..19]).err(),
            Some(DropReason::TruncatedL4)
        );
    }

    #[test]
    fn sequence_numbers_wrap() {
        let (before, after) = (TcpSequence(u32::MAX - 1), TcpSequence(3));
        assert_eq!(before.wrapping_add(5), after);
        assert_eq!(after.diff(before), 5);
        assert_eq!(before.diff(after), -5);
        assert!(before.is_before(after) && !after.is_before(before));
        assert!(!after.is_before(after));
    }
}
