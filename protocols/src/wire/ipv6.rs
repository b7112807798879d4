//! IPv6. RFC 8200 section 3.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-----------+---+---------------------------------------+
//! |version|   DSCP    |ECN|              flow label               |
//! +-------+-----------+---+-------+---------------+---------------+
//! |        payload length         |  next header  |   hop limit   |
//! +-------------------------------+---------------+---------------+
//! |                       source address (16)                     |
//! +---------------------------------------------------------------+
//! |                    destination address (16)                   |
//! +---------------------------------------------------------------+
//! ```
//! The payload length counts extension headers. Zero, with something behind the header, is a
//! jumbogram (RFC 2675) or a kernel's segment before it is cut: neither is supported.

use super::{IpProtocol, TrafficClass};
use crate::DropReason;
use core::fmt;
use core::net::Ipv6Addr;
use zerocopy::byteorder::network_endian::{U16, U32};

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 40 bytes, else TruncatedL3 {
        /// Version, traffic class and flow label.
        version_class_flow: U32,
        /// Bytes that follow the header.
        payload_length: U16,
        /// What follows.
        next_header: u8,
        /// Hop limit.
        hop_limit: u8,
        /// Source address.
        source: [u8; 16],
        /// Destination address.
        destination: [u8; 16],
    }
}

impl Header {
    /// The version nibble.
    pub const fn version(&self) -> u8 {
        (self.version_class_flow.get() >> 28) as u8
    }
}

/// An IPv6 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// Bytes that follow the header.
    pub payload_length: u16,
    /// What follows.
    pub next_header: IpProtocol,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Repr {
    /// Reads a header; also gives the payload, cut to the payload length.
    ///
    /// # Errors
    /// The [`DropReason`] that the structure demands.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), DropReason> {
        let (header, rest) = Header::split(bytes)?;
        if header.version() != 6 {
            return Err(DropReason::IpVersion);
        }
        let length = header.payload_length.get();
        let next_header = IpProtocol(header.next_header);
        if length == 0 && next_header != IpProtocol::NO_NEXT_HEADER {
            return Err(DropReason::Jumbogram);
        }
        let payload = rest
            .get(..usize::from(length))
            .ok_or(DropReason::IpLengthOverFrame)?;
        let word = header.version_class_flow.get();
        let repr = Self {
            traffic_class: TrafficClass((word >> 20) as u8),
            flow_label: FlowLabel(word & FlowLabel::MAX),
            payload_length: length,
            next_header,
            hop_limit: header.hop_limit,
            source: Ipv6Addr::from(header.source),
            destination: Ipv6Addr::from(header.destination),
        };
        Ok((repr, payload))
    }

    /// The header by value.
    pub const fn header(&self) -> Header {
        let class = (self.traffic_class.0 as u32) << 20;
        Header {
            version_class_flow: U32::new(0x6000_0000 | class | self.flow_label.0),
            payload_length: U16::new(self.payload_length),
            next_header: self.next_header.0,
            hop_limit: self.hop_limit,
            source: self.source.octets(),
            destination: self.destination.octets(),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} > {} {} ",
            self.source, self.destination, self.next_header
        )?;
        write!(f, "hop limit {} {}", self.hop_limit, self.traffic_class)?;
        if self.flow_label.0 != 0 {
            write!(f, " flow {:#07x}", self.flow_label.0)
        } else {
            Ok(())
        }
    }
}

/// A 20-bit flow label.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct FlowLabel(u32);

impl FlowLabel {
    /// The largest value.
    pub const MAX: u32 = 0x000f_ffff;

    /// No flow.
    pub const ZERO: Self = Self(0);

    /// `None` if `value` does not fit 20 bits.
    pub const fn new(value: u32) -> Option<Self> {
        if value <= Self::MAX {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The value.
    pub const fn value(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;

    /// scapy: IPv6(src="fe80::1", dst="fe80::2", tc=0xb8, fl=0x12345, hlim=255) /
    /// ICMPv6EchoRequest(id=0x1122, seq=3, data=b"xyz")
    const ECHO: &str = "6b812345000b3afffe800000000000000000000000000001
        fe800000000000000000000000000002 80007f161122000378797a";

    #[test]
    fn golden_packet() {
        let bytes = hex(ECHO);
        let (repr, payload) = Repr::parse(&bytes).unwrap();
        let display = "fe80::1 > fe80::2 ICMPv6 hop limit 255 dscp 46 ecn 0 flow 0x12345";
        assert_eq!(repr.to_string(), display);
        assert_eq!(payload, &bytes[40..]);
        assert_eq!(check_emit(40, |buffer| repr.emit(buffer)), bytes[..40]);
    }

    #[test]
    fn padding_is_cut_and_lengths_are_checked() {
        let bytes = hex(ECHO);
        let padded = [&bytes[..], &[0xee; 3]].concat();
        assert_eq!(Repr::parse(&padded).unwrap().1, &bytes[40..]);
        for (at, byte, reason) in [
            (0, 0x4b, DropReason::IpVersion),
            (5, 12, DropReason::IpLengthOverFrame),
        ] {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            assert_eq!(Repr::parse(&bytes), Err(reason), "byte {at} = {byte}");
        }
        let mut jumbo = bytes.clone();
        (jumbo[5], jumbo[6]) = (0, 0);
        assert_eq!(Repr::parse(&jumbo), Err(DropReason::Jumbogram));
        assert_eq!(Repr::parse(&bytes[..39]), Err(DropReason::TruncatedL3));
        assert_eq!(FlowLabel::new(1 << 20), None);
    }
}
