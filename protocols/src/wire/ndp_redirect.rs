//! Redirect. RFC 4861 sections 4.5, 8.1. Received only.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |   type 137    |    code 0     |           checksum            |
//! +---------------+---------------+-------------------------------+
//! |                           reserved                            |
//! +---------------------------------------------------------------+
//! |                 target: the better next hop (16)              |
//! +---------------------------------------------------------------+
//! |                    destination address (16)                   |
//! +---------------------------------------------------------------+
//! |  options: target link-layer address, redirected header ...
//! +---
//! ```

use super::MacAddress;
use super::ndp_neighbor::HOP_LIMIT;
use super::ndp_option::{NdOption, NdOptions};
use crate::DropReason;
use core::fmt;
use core::net::Ipv6Addr;
use zerocopy::byteorder::network_endian::{U16, U32};

wire_header! {
    /// The fixed part as it lies on the wire: any bits.
    Header: 40 bytes, else IcmpFormat {
        /// 137.
        kind: u8,
        /// 0.
        code: u8,
        /// Checksum over pseudo header and message.
        checksum: U16,
        /// Reserved.
        reserved: U32,
        /// The better next hop.
        target: [u8; 16],
        /// The address that is better reached there.
        destination: [u8; 16],
    }
}

/// A router's word on a better next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The better next hop.
    pub target: Ipv6Addr,
    /// The address that is better reached there.
    pub destination: Ipv6Addr,
    /// The Ethernet address of the next hop, if given.
    pub link: Option<MacAddress>,
}

impl Repr {
    /// Reads a whole ICMPv6 message of type 137 that arrived with this hop limit. The checksum is
    /// not looked at.
    ///
    /// # Errors
    /// [`DropReason::NdHopLimit`] unless the hop limit is 255, [`DropReason::IcmpFormat`],
    /// [`DropReason::NdOption`].
    pub fn parse(message: &[u8], hop_limit: u8) -> Result<Self, DropReason> {
        if hop_limit != HOP_LIMIT {
            return Err(DropReason::NdHopLimit);
        }
        let (header, rest) = Header::split(message)?;
        let destination = Ipv6Addr::from(header.destination);
        if (header.kind, header.code) != (REDIRECT, 0) || destination.is_multicast() {
            return Err(DropReason::IcmpFormat);
        }
        let mut link = None;
        for option in NdOptions::new(rest) {
            if let NdOption::TargetLink(address) = option? {
                link = Some(address);
            }
        }
        Ok(Self {
            target: Ipv6Addr::from(header.target),
            destination,
            link,
        })
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is better reached through {}",
            self.destination, self.target
        )
    }
}

/// ICMPv6 type of a redirect.
pub const REDIRECT: u8 = 137;

#[cfg(test)]
mod tests {
    use super::super::testing::hex;
    use super::*;

    /// scapy: IPv6(src="fe80::2", dst="fe80::1", hlim=255) / ICMPv6ND_Redirect(tgt="fe80::3",
    /// dst="fd77::9") / ICMPv6NDOptDstLLAddr(lladdr="52:54:00:77:00:04")
    const REDIRECTED: &str = "890028bb00000000fe800000000000000000000000000003
        fd7700000000000000000000000000090201525400770004";

    #[test]
    fn golden_message() {
        let repr = Repr::parse(&hex(REDIRECTED), 255).unwrap();
        assert_eq!(repr.link, Some(MacAddress([0x52, 0x54, 0, 0x77, 0, 4])));
        assert_eq!(
            repr.to_string(),
            "fd77::9 is better reached through fe80::3"
        );
    }

    #[test]
    fn what_rfc_4861_refuses() {
        let bytes = hex(REDIRECTED);
        assert_eq!(Repr::parse(&bytes, 1), Err(DropReason::NdHopLimit));
        assert_eq!(Repr::parse(&bytes[..39], 255), Err(DropReason::IcmpFormat));
        assert_eq!(Repr::parse(&bytes[..41], 255), Err(DropReason::NdOption));
        for (at, byte) in [(0, 136), (1, 1), (24, 0xff)] {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            assert_eq!(
                Repr::parse(&bytes, 255),
                Err(DropReason::IcmpFormat),
                "byte {at}"
            );
        }
    }
}
