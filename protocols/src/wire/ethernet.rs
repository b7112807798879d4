//! Ethernet II and IEEE 802.3 frames. IEEE 802.3-2022 section 3.1; types:
//! IANA "IEEE 802 Numbers".
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                      destination address                      |
//! |                               +-------------------------------+
//! |                               |                               |
//! +-------------------------------+        source address         |
//! |                                                               |
//! +-------------------------------+-------------------------------+
//! |   type (>= 0x600) or length   |  payload, 46 to 1500 or more
//! +-------------------------------+
//! ```
//! A value up to 1500 in the last field is a length: the frame is IEEE 802.3 and an LLC header
//! follows. Such frames are recognised and not followed. The frame check sequence is the NIC's.

use core::fmt;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 14 bytes, else TruncatedL2 {
        /// Destination address.
        destination: MacAddress,
        /// Source address.
        source: MacAddress,
        /// Type, or length if at most 1500.
        type_or_length: U16,
    }
}

impl Header {
    /// The type field, whatever it means.
    pub const fn ether_type(&self) -> EtherType {
        EtherType(self.type_or_length.get())
    }
}

/// An Ethernet II header: the type is a type, not a length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    /// What follows.
    pub ether_type: EtherType,
}

impl Repr {
    /// Reads an Ethernet II header; `None` if the frame is IEEE 802.3 with a length.
    pub const fn parse(header: &Header) -> Option<Self> {
        let ether_type = header.ether_type();
        if !ether_type.is_type() {
            return None;
        }
        Some(Self {
            destination: header.destination,
            source: header.source,
            ether_type,
        })
    }

    /// The header by value.
    pub const fn header(&self) -> Header {
        Header {
            destination: self.destination,
            source: self.source,
            type_or_length: U16::new(self.ether_type.0),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} > {} {}",
            self.source, self.destination, self.ether_type
        )
    }
}

/// A 48-bit Ethernet address, in wire order.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Debug,
    Default,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// ff:ff:ff:ff:ff:ff.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// From a number whose bit 47 is the first bit on the wire; the upper 16 bits are ignored.
    pub const fn from_bits(bits: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = bits.to_be_bytes();
        Self([a, b, c, d, e, f])
    }

    /// As a number below 2^48 whose bit 47 is the first bit on the wire.
    pub const fn to_bits(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// Whether the address names a group (broadcast included).
    pub const fn is_multicast(self) -> bool {
        let [first, ..] = self.0;
        first & 1 != 0
    }

    /// Whether the address is administered locally.
    pub const fn is_local(self) -> bool {
        let [first, ..] = self.0;
        first & 2 != 0
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

/// An Ethernet type; values up to 1500 are lengths.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// ARP.
    pub const ARP: Self = Self(0x0806);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// IEEE 802.1Q customer tag.
    pub const VLAN: Self = Self(0x8100);
    /// IEEE 802.1ad service tag.
    pub const SERVICE_VLAN: Self = Self(0x88a8);
    /// The type that stacked tags used before IEEE 802.1ad.
    pub const OLD_STACKED_VLAN: Self = Self(0x9100);
    /// MPLS, unicast.
    pub const MPLS: Self = Self(0x8847);
    /// MPLS, multicast (or upstream-assigned labels).
    pub const MPLS_MULTICAST: Self = Self(0x8848);
    /// RoCE version 1.
    pub const ROCE1: Self = Self(0x8915);

    /// Whether the value is a type and not a length or undefined (1501 to 1535).
    pub const fn is_type(self) -> bool {
        self.0 >= 0x0600
    }

    /// Whether the value is the length of an IEEE 802.3 frame.
    pub const fn is_length(self) -> bool {
        self.0 <= 1500
    }

    /// Whether a VLAN tag follows.
    pub const fn is_tag(self) -> bool {
        matches!(
            self,
            Self::VLAN | Self::SERVICE_VLAN | Self::OLD_STACKED_VLAN
        )
    }

    /// The name, or `None` for a type without one here.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::IPV4 => "IPv4",
            Self::ARP => "ARP",
            Self::IPV6 => "IPv6",
            Self::VLAN => "802.1Q",
            Self::SERVICE_VLAN => "802.1ad",
            Self::OLD_STACKED_VLAN => "QinQ",
            Self::MPLS => "MPLS",
            Self::MPLS_MULTICAST => "MPLS-multicast",
            Self::ROCE1 => "RoCEv1",
            _ => return None,
        })
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None if self.is_length() => write!(f, "length {}", self.0),
            None => write!(f, "type {:#06x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;
    use crate::DropReason;

    const SOURCE: MacAddress = MacAddress([0x52, 0x54, 0, 0x77, 0, 3]);

    #[test]
    fn emit_then_parse() {
        for ether_type in [EtherType::IPV4, EtherType::ARP, EtherType(0x88cc)] {
            let repr = Repr {
                destination: MacAddress::BROADCAST,
                source: SOURCE,
                ether_type,
            };
            let bytes = check_emit(repr.length(), |buffer| repr.emit(buffer));
            let (header, rest) = Header::split(&bytes).unwrap();
            assert!(rest.is_empty());
            assert_eq!(Repr::parse(header), Some(repr));
        }
    }

    #[test]
    fn golden_bytes() {
        let bytes = hex("ffffffffffff 525400770003 0806");
        let (header, _) = Header::split(&bytes).unwrap();
        assert_eq!(header.destination, MacAddress::BROADCAST);
        assert_eq!(header.source, SOURCE);
        assert_eq!(header.ether_type(), EtherType::ARP);
        let repr = Repr::parse(header).unwrap();
        assert_eq!(
            repr.to_string(),
            "52:54:00:77:00:03 > ff:ff:ff:ff:ff:ff ARP"
        );
    }

    #[test]
    fn a_length_is_not_a_type() {
        for (value, is_type, is_length) in [
            (0, false, true),
            (1500, false, true),
            (1501, false, false),
            (1536, true, false),
        ] {
            assert_eq!(EtherType(value).is_type(), is_type, "{value}");
            assert_eq!(EtherType(value).is_length(), is_length, "{value}");
        }
        let bytes = hex("0180c2000000 525400770003 0026");
        let (header, _) = Header::split(&bytes).unwrap();
        assert_eq!(Repr::parse(header), None);
    }

    #[test]
    fn short_frames_are_refused() {
        for length in 0..Header::LENGTH {
            assert_eq!(
                Header::split(&[0; 14][..length]),
                Err(DropReason::TruncatedL2)
            );
        }
    }

    #[test]
    fn address_bits() {
        assert_eq!(SOURCE.to_bits(), 0x5254_0077_0003);
        assert_eq!(MacAddress::from_bits(SOURCE.to_bits()), SOURCE);
        assert!(SOURCE.is_local() && !SOURCE.is_multicast());
        assert!(MacAddress::BROADCAST.is_multicast());
    }
}
