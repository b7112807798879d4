//! Router solicitation and advertisement. RFC 4861 sections 4.1, 4.2, 6.1.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |   type 134    |    code 0     |           checksum            |
//! +---------------+-+-+-----------+-------------------------------+
//! |   hop limit   |M|O| reserved  |      router lifetime, s       |
//! +---------------+-+-+-----------+-------------------------------+
//! |                      reachable time, ms                       |
//! +---------------------------------------------------------------+
//! |                   retransmission timer, ms                    |
//! +---------------------------------------------------------------+
//! |  options: source link-layer address, MTU, prefixes ...
//! +---
//! ```
//! M: addresses by DHCPv6. O: other configuration by DHCPv6. A solicitation (type 133) has four
//! reserved bytes after the checksum, and options. The stack sends solicitations only.

use super::ndp_neighbor::HOP_LIMIT;
use super::ndp_option::{LinkHeader, NdOptions};
use super::{BufferTooShort, MacAddress, emit_header};
use crate::DropReason;
use crate::checksum::Sum;
use core::fmt;
use zerocopy::IntoBytes;
use zerocopy::byteorder::network_endian::{U16, U32};

wire_header! {
    /// The fixed part of an advertisement as it lies on the wire: any bits.
    Header: 16 bytes, else IcmpFormat {
        /// 134.
        kind: u8,
        /// 0.
        code: u8,
        /// Checksum over pseudo header and message.
        checksum: U16,
        /// Hop limit for hosts; 0: not said.
        hop_limit: u8,
        /// Managed 0x80, other 0x40.
        flags: u8,
        /// Seconds for which the sender is a default router; 0: it is none.
        lifetime: U16,
        /// Milliseconds for which a neighbour counts as reachable; 0: not said.
        reachable: U32,
        /// Milliseconds between solicitations; 0: not said.
        retransmit: U32,
    }
}

wire_header! {
    /// The fixed part of a solicitation as it lies on the wire: any bits.
    SolicitationHeader: 8 bytes, else IcmpFormat {
        /// 133.
        kind: u8,
        /// 0.
        code: u8,
        /// Checksum over pseudo header and message.
        checksum: U16,
        /// Reserved.
        reserved: U32,
    }
}

/// What a router says of itself and its link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advertisement<'a> {
    /// Hop limit for hosts; 0: not said.
    pub hop_limit: u8,
    /// Addresses by DHCPv6.
    pub is_managed: bool,
    /// Other configuration by DHCPv6.
    pub has_other_configuration: bool,
    /// Seconds for which the sender is a default router; 0: it is none.
    pub lifetime_s: u16,
    /// Milliseconds for which a neighbour counts as reachable; 0: not said.
    pub reachable_ms: u32,
    /// Milliseconds between solicitations; 0: not said.
    pub retransmit_ms: u32,
    /// Its options, whose lengths are legal.
    pub options: NdOptions<'a>,
}

impl<'a> Advertisement<'a> {
    /// Reads a whole ICMPv6 message of type 134 that arrived with this hop limit. The checksum is
    /// not looked at.
    ///
    /// # Errors
    /// [`DropReason::NdHopLimit`] unless the hop limit is 255, [`DropReason::IcmpFormat`],
    /// [`DropReason::NdOption`].
    pub fn parse(message: &'a [u8], hop_limit: u8) -> Result<Self, DropReason> {
        if hop_limit != HOP_LIMIT {
            return Err(DropReason::NdHopLimit);
        }
        let (header, rest) = Header::split(message)?;
        if (header.kind, header.code) != (ADVERTISEMENT, 0) {
            return Err(DropReason::IcmpFormat);
        }
        let options = NdOptions::new(rest);
        if let Some(reason) = options.into_iter().find_map(Result::err) {
            return Err(reason);
        }
        Ok(Self {
            hop_limit: header.hop_limit,
            is_managed: header.flags & 0x80 != 0,
            has_other_configuration: header.flags & 0x40 != 0,
            lifetime_s: header.lifetime.get(),
            reachable_ms: header.reachable.get(),
            retransmit_ms: header.retransmit.get(),
            options,
        })
    }
}

impl fmt::Display for Advertisement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "router for {} s, hop limit {}",
            self.lifetime_s, self.hop_limit
        )
    }
}

/// A question for routers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Solicitation {
    /// The sender's Ethernet address; none if it has no IPv6 address yet.
    pub link: Option<MacAddress>,
}

impl Solicitation {
    /// Bytes that `emit` writes: 8 or 16.
    pub const fn length(&self) -> usize {
        SolicitationHeader::LENGTH
            + if self.link.is_some() {
                LinkHeader::LENGTH
            } else {
                0
            }
    }

    /// Writes the message to the start of `buffer`, the checksum computed; `pseudo` is the sum over
    /// the pseudo header with [`Solicitation::length`]. Returns the bytes written.
    ///
    /// # Errors
    /// [`BufferTooShort`] if `buffer` cannot hold it.
    pub fn emit(&self, buffer: &mut [u8], pseudo: Sum) -> Result<usize, BufferTooShort> {
        let (need, have) = (self.length(), buffer.len());
        let target = buffer
            .get_mut(..need)
            .ok_or(BufferTooShort { need, have })?;
        let mut header = SolicitationHeader {
            kind: SOLICITATION,
            code: 0,
            checksum: U16::ZERO,
            reserved: U32::ZERO,
        };
        let option = self.link.map(LinkHeader::source);
        let options = option.map_or(Sum::ZERO, |option| Sum::of(option.as_bytes()));
        header.checksum = Sum::of(header.as_bytes())
            .plus(pseudo)
            .plus(options)
            .field();
        let written = emit_header(&header, target)?;
        if let (Some(option), Some(rest)) = (option, target.get_mut(written..)) {
            emit_header(&option, rest)?;
        }
        Ok(need)
    }
}

/// ICMPv6 type of a solicitation.
pub const SOLICITATION: u8 = 133;
/// ICMPv6 type of an advertisement.
pub const ADVERTISEMENT: u8 = 134;

#[cfg(test)]
mod tests {
    use super::super::IpProtocol;
    use super::super::ndp_option::NdOption;
    use super::super::testing::{check_emit, hex};
    use super::*;
    use crate::checksum::pseudo_ipv6;

    /// scapy: IPv6(src="fe80::2", dst="ff02::1", hlim=255) / ICMPv6ND_RA(chlim=64, M=0, O=1,
    /// routerlifetime=1800, reachabletime=30000, retranstimer=1000) /
    /// ICMPv6NDOptSrcLLAddr(lladdr="52:54:00:77:00:02") / ICMPv6NDOptMTU(mtu=1400) /
    /// ICMPv6NDOptPrefixInfo(prefixlen=64, validlifetime=86400, preferredlifetime=14400,
    /// prefix="fd77::")
    const RA: &str = "860092504048070800007530000003e8010152540077000205010000000005780304
        40c0000151800000384000000000fd770000000000000000000000000000";
    /// scapy: IPv6(src="fe80::1", dst="ff02::2", hlim=255) / ICMPv6ND_RS() /
    /// ICMPv6NDOptSrcLLAddr(lladdr="52:54:00:77:00:03")
    const RS: &str = "8500295f000000000101525400770003";

    #[test]
    fn golden_advertisement() {
        let bytes = hex(RA);
        let repr = Advertisement::parse(&bytes, 255).unwrap();
        assert_eq!(repr.to_string(), "router for 1800 s, hop limit 64");
        // scapy sets the preference bits (0x08) by default; they are not modelled.
        assert!(!repr.is_managed && repr.has_other_configuration);
        assert_eq!((repr.reachable_ms, repr.retransmit_ms), (30000, 1000));
        let options: Vec<_> = repr.options.map(Result::unwrap).collect();
        let address = MacAddress([0x52, 0x54, 0, 0x77, 0, 2]);
        assert_eq!(
            options[..2],
            [NdOption::SourceLink(address), NdOption::Mtu(1400)]
        );
        let NdOption::Prefix(prefix) = options[2] else {
            panic!("{options:?}")
        };
        assert_eq!(
            (prefix.length, prefix.prefix),
            (64, "fd77::".parse().unwrap())
        );
    }

    #[test]
    fn what_rfc_4861_refuses() {
        let bytes = hex(RA);
        assert_eq!(
            Advertisement::parse(&bytes, 64),
            Err(DropReason::NdHopLimit)
        );
        assert_eq!(
            Advertisement::parse(&bytes[..15], 255),
            Err(DropReason::IcmpFormat)
        );
        assert_eq!(
            Advertisement::parse(&bytes[..60], 255),
            Err(DropReason::NdOption)
        );
        assert_eq!(
            Advertisement::parse(&hex(RS), 255),
            Err(DropReason::IcmpFormat)
        );
    }

    #[test]
    fn golden_solicitation() {
        let repr = Solicitation {
            link: Some(MacAddress([0x52, 0x54, 0, 0x77, 0, 3])),
        };
        let (source, destination) = ("fe80::1".parse().unwrap(), "ff02::2".parse().unwrap());
        let pseudo = pseudo_ipv6(source, destination, IpProtocol::ICMPV6, 16);
        assert_eq!(check_emit(16, |buffer| repr.emit(buffer, pseudo)), hex(RS));
        let repr = Solicitation { link: None };
        let bytes = check_emit(8, |buffer| repr.emit(buffer, Sum::ZERO));
        assert_eq!(bytes, hex("85007aff00000000"));
    }
}
