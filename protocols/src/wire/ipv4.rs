//! IPv4. RFC 791 section 3.1, with the TOS byte of RFC 2474 and RFC 3168.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+-----------+---+-------------------------------+
//! |version|  IHL  |   DSCP    |ECN|  total length                 |
//! +-------+-------+-----------+---+-----+-------------------------+
//! |         identification        |0|D|M|  offset in 8 bytes      |
//! +---------------+---------------+-----+-------------------------+
//! |      TTL      |    protocol   |        header checksum        |
//! +---------------+---------------+-------------------------------+
//! |                        source address                         |
//! +---------------------------------------------------------------+
//! |                      destination address                      |
//! +---------------------------------------------------------------+
//! |  options, 0 to 40 bytes, padded to a multiple of 4
//! +---
//! ```
//! IHL: header length in words of 4 bytes, 5 to 15. D: don't fragment. M: more fragments.

use super::{BufferTooShort, IpProtocol, TrafficClass, emit_header};
use crate::DropReason;
use crate::checksum::Sum;
use core::fmt;
use core::net::Ipv4Addr;
use zerocopy::IntoBytes;
use zerocopy::byteorder::network_endian::U16;

wire_header! {
    /// The fixed part as it lies on the wire: any bits.
    Header: 20 bytes, else TruncatedL3 {
        /// Version and header length.
        version_and_length: u8,
        /// DSCP and ECN.
        traffic_class: u8,
        /// Bytes of header, options and payload.
        total_length: U16,
        /// Identification of a fragmented datagram.
        identification: U16,
        /// Flags and fragment offset.
        fragment: U16,
        /// Time to live.
        ttl: u8,
        /// What follows.
        protocol: u8,
        /// Checksum over header and options.
        checksum: U16,
        /// Source address.
        source: [u8; 4],
        /// Destination address.
        destination: [u8; 4],
    }
}

impl Header {
    /// The version nibble.
    pub const fn version(&self) -> u8 {
        self.version_and_length >> 4
    }

    /// Bytes of header and options, as the header says: 0 to 60.
    pub const fn header_length(&self) -> usize {
        (self.version_and_length & 0x0f) as usize * 4
    }

    /// Whether the packet is part of a larger datagram.
    pub const fn is_fragment(&self) -> bool {
        self.fragment.get() & 0x3fff != 0
    }
}

/// An IPv4 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr<'a> {
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
    /// Identification of a fragmented datagram.
    pub identification: u16,
    /// Whether routers must not cut the packet.
    pub dont_fragment: bool,
    /// Whether fragments follow this one.
    pub more_fragments: bool,
    /// Where this fragment's payload belongs.
    pub fragment_offset: FragmentOffset,
    /// Time to live.
    pub ttl: u8,
    /// What follows.
    pub protocol: IpProtocol,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Bytes that follow header and options.
    pub payload_length: u16,
    /// The options.
    pub options: Options<'a>,
}

impl<'a> Repr<'a> {
    /// Reads header and options; also gives the payload, cut to the total length. The checksum is
    /// not looked at: see [`checksum_holds`].
    ///
    /// # Errors
    /// The [`DropReason`] that the structure demands.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), DropReason> {
        let (header, _) = Header::split(bytes)?;
        if header.version() != 4 {
            return Err(DropReason::IpVersion);
        }
        let header_length = header.header_length();
        if header_length < Header::LENGTH {
            return Err(DropReason::Ipv4HeaderLength);
        }
        let total = usize::from(header.total_length.get());
        let payload_length = total.checked_sub(header_length);
        let payload_length = payload_length.ok_or(DropReason::IpLengthBelowHeader)?;
        let datagram = bytes.get(..total).ok_or(DropReason::IpLengthOverFrame)?;
        let (with_options, payload) = datagram
            .split_at_checked(header_length)
            .ok_or(DropReason::TruncatedL3)?;
        let options = with_options.get(Header::LENGTH..).unwrap_or(&[]);
        let fragment = header.fragment.get();
        let repr = Self {
            traffic_class: TrafficClass(header.traffic_class),
            identification: header.identification.get(),
            dont_fragment: fragment & DONT_FRAGMENT != 0,
            more_fragments: fragment & MORE_FRAGMENTS != 0,
            fragment_offset: FragmentOffset(fragment & FragmentOffset::MAX),
            ttl: header.ttl,
            protocol: IpProtocol(header.protocol),
            source: Ipv4Addr::from(header.source),
            destination: Ipv4Addr::from(header.destination),
            payload_length: payload_length as u16,
            options: Options(options),
        };
        Ok((repr, payload))
    }

    /// Bytes that `emit` writes: 20 to 60.
    pub const fn length(&self) -> usize {
        Header::LENGTH + self.options.0.len()
    }

    /// The fixed part by value, its checksum over options too. A total length above 65535
    /// saturates.
    pub fn header(&self) -> Header {
        let total = self.payload_length.saturating_add(self.length() as u16);
        let flags = (self.dont_fragment as u16 * DONT_FRAGMENT)
            | (self.more_fragments as u16 * MORE_FRAGMENTS);
        let mut header = Header {
            version_and_length: 0x40 | (self.length() / 4) as u8,
            traffic_class: self.traffic_class.0,
            total_length: U16::new(total),
            identification: U16::new(self.identification),
            fragment: U16::new(flags | self.fragment_offset.0),
            ttl: self.ttl,
            protocol: self.protocol.0,
            checksum: U16::ZERO,
            source: self.source.octets(),
            destination: self.destination.octets(),
        };
        header.checksum = Sum::of(header.as_bytes())
            .plus(Sum::of(self.options.0))
            .field();
        header
    }

    /// Writes header and options to the start of `buffer`; returns the bytes written.
    ///
    /// # Errors
    /// [`BufferTooShort`] if `buffer` cannot hold them.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooShort> {
        let (need, have) = (self.length(), buffer.len());
        let target = buffer
            .get_mut(..need)
            .ok_or(BufferTooShort { need, have })?;
        let written = emit_header(&self.header(), target)?;
        for (to, from) in target.iter_mut().skip(written).zip(self.options.0) {
            *to = *from;
        }
        Ok(need)
    }
}

impl fmt::Display for Repr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} > {} {} ",
            self.source, self.destination, self.protocol
        )?;
        write!(f, "ttl {} {}", self.ttl, self.traffic_class)?;
        if self.more_fragments || self.fragment_offset.0 != 0 {
            write!(
                f,
                " fragment {} at {}",
                self.identification,
                self.fragment_offset.bytes()
            )?;
        }
        Ok(())
    }
}

/// Whether the checksum over `header`, options included, holds.
pub fn checksum_holds(header: &[u8]) -> bool {
    Sum::of(header).holds()
}

/// Where a fragment's payload belongs, in units of 8 bytes: 0 to 8191.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct FragmentOffset(u16);

impl FragmentOffset {
    /// The largest value.
    pub const MAX: u16 = 0x1fff;

    /// `None` if `units` is above 8191.
    pub const fn new(units: u16) -> Option<Self> {
        if units <= Self::MAX {
            Some(Self(units))
        } else {
            None
        }
    }

    /// The offset in bytes.
    pub const fn bytes(self) -> u32 {
        self.0 as u32 * 8
    }

    /// The offset in units of 8 bytes.
    pub const fn units(self) -> u16 {
        self.0
    }
}

/// The options of a header: 0 to 40 bytes, a multiple of 4.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// `None` unless `bytes` are at most 40 and a multiple of 4.
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() <= 40 && bytes.len().is_multiple_of(4) {
            Some(Self(bytes))
        } else {
            None
        }
    }

    /// The options as they lie.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Walks the options, at most 40: `Err` once, and then the end, if a length is illegal.
impl<'a> Iterator for Options<'a> {
    type Item = Result<IpOption<'a>, DropReason>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (kind, rest) = self.0.split_first()?;
            match *kind {
                END => {
                    self.0 = &[];
                    return None;
                }
                NO_OPERATION => self.0 = rest,
                kind => {
                    // The length counts kind and length itself.
                    let length = rest.first().map_or(0, |length| usize::from(*length));
                    let whole = (length >= 2)
                        .then(|| self.0.split_at_checked(length))
                        .flatten();
                    let Some((option, rest)) = whole else {
                        self.0 = &[];
                        return Some(Err(DropReason::Ipv4Option));
                    };
                    self.0 = rest;
                    return Some(Ok(IpOption {
                        kind,
                        data: option.get(2..).unwrap_or(&[]),
                    }));
                }
            }
        }
    }
}

/// An option other than the two of one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpOption<'a> {
    /// Copied flag, class and number.
    pub kind: u8,
    /// What follows the length.
    pub data: &'a [u8],
}

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const END: u8 = 0;
const NO_OPERATION: u8 = 1;

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;

    /// scapy: IP(src="10.77.0.3", dst="10.77.0.2", tos=0xb9, id=0x1234, flags="DF", ttl=63,
    /// options=[IPOption_Router_Alert()]) / ICMP(type=8, id=0x4321, seq=7) / b"abcdefgh"
    const WITH_OPTION: &str = "46b90028123440003f017f450a4d00030a4d000294040000
        08002342432100076162636465666768";
    /// scapy: IP(src="10.77.0.3", dst="10.77.0.2", id=0x1234, flags="MF", proto=17) / (b"\0" * 8)
    const FRAGMENT: &str = "4500001c12342000401133ff0a4d00030a4d0002 0000000000000000";

    #[test]
    fn golden_packets() {
        for (text, display) in [
            (
                WITH_OPTION,
                "10.77.0.3 > 10.77.0.2 ICMP ttl 63 dscp 46 ecn 1",
            ),
            (
                FRAGMENT,
                "10.77.0.3 > 10.77.0.2 UDP ttl 64 dscp 0 ecn 0 fragment 4660 at 0",
            ),
        ] {
            let bytes = hex(text);
            let (repr, payload) = Repr::parse(&bytes).unwrap();
            assert_eq!(repr.to_string(), display);
            assert_eq!(payload, &bytes[repr.length()..]);
            assert!(checksum_holds(&bytes[..repr.length()]));
            let emitted = check_emit(repr.length(), |buffer| repr.emit(buffer));
            assert_eq!(emitted, bytes[..repr.length()]);
        }
        let bytes = hex(WITH_OPTION);
        let options: Vec<_> = Repr::parse(&bytes).unwrap().0.options.collect();
        assert_eq!(
            options,
            [Ok(IpOption {
                kind: 0x94,
                data: &[0, 0]
            })]
        );
        let (header, _) = Header::split(&bytes).unwrap();
        assert!(!header.is_fragment());
        let bytes = hex(FRAGMENT);
        assert!(Header::split(&bytes).unwrap().0.is_fragment());
    }

    #[test]
    fn padding_is_cut_and_lengths_are_checked() {
        let bytes = hex(FRAGMENT);
        let padded = [&bytes[..], &[0xee; 18]].concat();
        assert_eq!(Repr::parse(&padded).unwrap().1, [0; 8]);
        for (at, byte, reason) in [
            (0, 0x55, DropReason::IpVersion),
            (0, 0x44, DropReason::Ipv4HeaderLength),
            (0, 0x4f, DropReason::IpLengthBelowHeader),
            (3, 19, DropReason::IpLengthBelowHeader),
            (3, 29, DropReason::IpLengthOverFrame),
        ] {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            assert_eq!(Repr::parse(&bytes), Err(reason), "byte {at} = {byte}");
        }
        assert_eq!(Repr::parse(&bytes[..19]), Err(DropReason::TruncatedL3));
    }

    #[test]
    fn options_are_walked_with_a_bound() {
        let bad = Err(DropReason::Ipv4Option);
        for (text, expected) in [
            ("", vec![]),
            ("01010100", vec![]),
            ("00ffffff", vec![]),
            (
                "07030400",
                vec![Ok(IpOption {
                    kind: 7,
                    data: &[4],
                })],
            ),
            (
                "01440400 00000000",
                vec![Ok(IpOption {
                    kind: 0x44,
                    data: &[0, 0],
                })],
            ),
            ("07000000", vec![bad]),
            ("07010000", vec![bad]),
            ("07050000", vec![bad]),
            ("01010107", vec![bad]),
        ] {
            let bytes = hex(text);
            let options = Options::new(&bytes).unwrap();
            assert_eq!(options.collect::<Vec<_>>(), expected, "{text}");
        }
        assert_eq!(Options::new(&[0; 44]), None);
        assert_eq!(Options::new(&[0; 3]), None);
        assert_eq!(FragmentOffset::new(0x2000), None);
        assert_eq!(
            FragmentOffset::new(185).map(FragmentOffset::bytes),
            Some(1480)
        );
    }
}
