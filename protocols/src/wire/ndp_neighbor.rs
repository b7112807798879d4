//! Neighbour solicitation and advertisement. RFC 4861 sections 4.3, 4.4, 7.1.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |type 135 or 136|    code 0     |           checksum            |
//! +-+-+-+---------+---------------+-------------------------------+
//! |R|S|O|  reserved; the three bits are an advertisement's        |
//! +-+-+-+---------------------------------------------------------+
//! |                      target address (16)                      |
//! +---------------------------------------------------------------+
//! |  options: source (135) or target (136) link-layer address ...
//! +---
//! ```
//! R: the sender is a router. S: the answer to a solicitation. O: replaces what is cached.

use super::ndp_option::{LinkHeader, NdOption, NdOptions};
use super::{BufferTooShort, MacAddress, emit_header};
use crate::DropReason;
use crate::checksum::Sum;
use core::fmt;
use core::net::Ipv6Addr;
use zerocopy::IntoBytes;
use zerocopy::byteorder::network_endian::U16;

wire_header! {
    /// The fixed part as it lies on the wire: any bits.
    Header: 24 bytes, else IcmpFormat {
        /// 135 or 136.
        kind: u8,
        /// 0.
        code: u8,
        /// Checksum over pseudo header and message.
        checksum: U16,
        /// Flags of an advertisement.
        flags: u8,
        /// Reserved.
        reserved: [u8; 3],
        /// The address in question.
        target: [u8; 16],
    }
}

/// Which of the two messages it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// Who has the target?
    Solicitation,
    /// The sender has the target.
    Advertisement {
        /// The sender is a router.
        is_router: bool,
        /// The answer to a solicitation.
        is_solicited: bool,
        /// Replaces what is cached.
        overrides: bool,
    },
}

/// A neighbour discovery message about one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Which message.
    pub message: Message,
    /// The address in question.
    pub target: Ipv6Addr,
    /// The source (solicitation) or target (advertisement) link-layer address, if given.
    pub link: Option<MacAddress>,
}

impl Repr {
    /// Reads a whole ICMPv6 message of type 135 or 136 that arrived with this hop limit. The
    /// checksum is not looked at.
    ///
    /// # Errors
    /// [`DropReason::NdHopLimit`] unless the hop limit is 255, [`DropReason::IcmpFormat`],
    /// [`DropReason::NdOption`].
    pub fn parse(message: &[u8], hop_limit: u8) -> Result<Self, DropReason> {
        if hop_limit != HOP_LIMIT {
            return Err(DropReason::NdHopLimit);
        }
        let (header, rest) = Header::split(message)?;
        let message = match (header.kind, header.code) {
            (SOLICITATION, 0) => Message::Solicitation,
            (ADVERTISEMENT, 0) => Message::Advertisement {
                is_router: header.flags & ROUTER != 0,
                is_solicited: header.flags & SOLICITED != 0,
                overrides: header.flags & OVERRIDE != 0,
            },
            _ => return Err(DropReason::IcmpFormat),
        };
        let target = Ipv6Addr::from(header.target);
        if target.is_multicast() {
            return Err(DropReason::IcmpFormat);
        }
        let mut link = None;
        for option in NdOptions::new(rest) {
            match (option?, message) {
                (NdOption::SourceLink(address), Message::Solicitation)
                | (NdOption::TargetLink(address), Message::Advertisement { .. }) => {
                    link = Some(address);
                }
                _ => {}
            }
        }
        Ok(Self {
            message,
            target,
            link,
        })
    }

    /// The answer of the target's holder to this solicitation.
    pub const fn answer(&self, link: MacAddress) -> Self {
        let message = Message::Advertisement {
            is_router: false,
            is_solicited: true,
            overrides: true,
        };
        Self {
            message,
            target: self.target,
            link: Some(link),
        }
    }

    /// Bytes that `emit` writes: 24 or 32.
    pub const fn length(&self) -> usize {
        Header::LENGTH
            + if self.link.is_some() {
                LinkHeader::LENGTH
            } else {
                0
            }
    }

    /// The fixed part and the option by value, the checksum computed; `pseudo` is the sum over the
    /// pseudo header with [`Repr::length`] as its length.
    pub fn headers(&self, pseudo: Sum) -> (Header, Option<LinkHeader>) {
        let (kind, flags) = match self.message {
            Message::Solicitation => (SOLICITATION, 0),
            Message::Advertisement {
                is_router,
                is_solicited,
                overrides,
            } => (
                ADVERTISEMENT,
                (is_router as u8 * ROUTER)
                    | (is_solicited as u8 * SOLICITED)
                    | (overrides as u8 * OVERRIDE),
            ),
        };
        let option = self.link.map(|link| match self.message {
            Message::Solicitation => LinkHeader::source(link),
            Message::Advertisement { .. } => LinkHeader::target(link),
        });
        let mut header = Header {
            kind,
            code: 0,
            checksum: U16::ZERO,
            flags,
            reserved: [0; 3],
            target: self.target.octets(),
        };
        let sum = Sum::of(header.as_bytes()).plus(pseudo);
        let options = option.map_or(Sum::ZERO, |option| Sum::of(option.as_bytes()));
        header.checksum = sum.plus(options).field();
        (header, option)
    }

    /// Writes the message to the start of `buffer`; returns the bytes written.
    ///
    /// # Errors
    /// [`BufferTooShort`] if `buffer` cannot hold it.
    pub fn emit(&self, buffer: &mut [u8], pseudo: Sum) -> Result<usize, BufferTooShort> {
        let (need, have) = (self.length(), buffer.len());
        let target = buffer
            .get_mut(..need)
            .ok_or(BufferTooShort { need, have })?;
        let (header, option) = self.headers(pseudo);
        let written = emit_header(&header, target)?;
        if let (Some(option), Some(rest)) = (option, target.get_mut(written..)) {
            emit_header(&option, rest)?;
        }
        Ok(need)
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message {
            Message::Solicitation => write!(f, "who has {}?", self.target),
            Message::Advertisement { .. } => match self.link {
                Some(link) => write!(f, "{} is at {link}", self.target),
                None => write!(f, "{} is here", self.target),
            },
        }
    }
}

/// The hop limit of every neighbour discovery message: proof that no router passed it on.
pub const HOP_LIMIT: u8 = 255;
/// ICMPv6 type of a solicitation.
pub const SOLICITATION: u8 = 135;
/// ICMPv6 type of an advertisement.
pub const ADVERTISEMENT: u8 = 136;

const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

#[cfg(test)]
mod tests {
    use super::super::IpProtocol;
    use super::super::testing::{check_emit, hex};
    use super::*;
    use crate::checksum::pseudo_ipv6;

    /// scapy: IPv6(src="fe80::1", dst="ff02::1:ff00:2", hlim=255) / ICMPv6ND_NS(tgt="fe80::2") /
    /// ICMPv6NDOptSrcLLAddr(lladdr="52:54:00:77:00:03")
    const NS: &str = "870029ca00000000fe8000000000000000000000000000020101525400770003";
    /// scapy: IPv6(src="fe80::2", dst="fe80::1", hlim=255) / ICMPv6ND_NA(tgt="fe80::2", R=0, S=1,
    /// O=1) / ICMPv6NDOptDstLLAddr(lladdr="52:54:00:77:00:02")
    const NA: &str = "8800c74e60000000fe8000000000000000000000000000020201525400770002";

    fn pseudo(source: &str, destination: &str, length: usize) -> Sum {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        pseudo_ipv6(source, destination, IpProtocol::ICMPV6, length as u32)
    }

    #[test]
    fn solicitation_and_answer() {
        let solicitation = Repr::parse(&hex(NS), 255).unwrap();
        assert_eq!(solicitation.message, Message::Solicitation);
        assert_eq!(
            solicitation.link,
            Some(MacAddress([0x52, 0x54, 0, 0x77, 0, 3]))
        );
        let sum = pseudo("fe80::1", "ff02::1:ff00:2", 32);
        assert_eq!(
            check_emit(32, |buffer| solicitation.emit(buffer, sum)),
            hex(NS)
        );
        assert_eq!(solicitation.to_string(), "who has fe80::2?");

        let answer = solicitation.answer(MacAddress([0x52, 0x54, 0, 0x77, 0, 2]));
        let sum = pseudo("fe80::2", "fe80::1", 32);
        assert_eq!(check_emit(32, |buffer| answer.emit(buffer, sum)), hex(NA));
        assert_eq!(Repr::parse(&hex(NA), 255), Ok(answer));
        assert_eq!(answer.to_string(), "fe80::2 is at 52:54:00:77:00:02");
    }

    #[test]
    fn without_an_option() {
        let repr = Repr {
            link: None,
            ..Repr::parse(&hex(NS), 255).unwrap()
        };
        let bytes = check_emit(24, |buffer| repr.emit(buffer, Sum::ZERO));
        assert!(Sum::of(&bytes).holds());
        assert_eq!(Repr::parse(&bytes, 255), Ok(repr));
    }

    #[test]
    fn what_rfc_4861_refuses() {
        assert_eq!(Repr::parse(&hex(NS), 254), Err(DropReason::NdHopLimit));
        assert_eq!(
            Repr::parse(&hex(NS)[..23], 255),
            Err(DropReason::IcmpFormat)
        );
        assert_eq!(Repr::parse(&hex(NS)[..30], 255), Err(DropReason::NdOption));
        for (at, byte, reason) in [
            (0, 134, DropReason::IcmpFormat),
            (1, 1, DropReason::IcmpFormat),
            (8, 0xff, DropReason::IcmpFormat),
            (25, 0, DropReason::NdOption),
            (25, 2, DropReason::NdOption),
        ] {
            let mut bytes = hex(NS);
            bytes[at] = byte;
            assert_eq!(Repr::parse(&bytes, 255), Err(reason), "byte {at}");
        }
    }

    #[test]
    fn the_other_message_s_option_is_ignored() {
        let mut bytes = hex(NS);
        bytes[24] = 2;
        assert_eq!(Repr::parse(&bytes, 255).unwrap().link, None);
    }
}
