//! Options of IPv6 neighbour discovery. RFC 4861 section 4.6.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |      type     |  units of 8   |  data ...
//! +---------------+---------------+---
//! ```
//! Source (1) and target (2) link-layer address: 6 bytes on Ethernet. Prefix (3): length, flags,
//! lifetimes, prefix. Redirected header (4). MTU (5): 2 reserved bytes, 4 bytes.

use super::{BufferTooShort, MacAddress, emit_header};
use crate::DropReason;
use core::net::Ipv6Addr;
use zerocopy::FromBytes;
use zerocopy::byteorder::network_endian::U32;

/// An option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NdOption<'a> {
    /// The sender's Ethernet address.
    SourceLink(MacAddress),
    /// The target's Ethernet address.
    TargetLink(MacAddress),
    /// A prefix of this link.
    Prefix(Prefix),
    /// The start of the packet that led to a redirect.
    RedirectedHeader(&'a [u8]),
    /// The MTU of this link.
    Mtu(u32),
    /// An option that is not modelled, or one for another kind of link.
    Other {
        /// Type.
        kind: u8,
        /// What follows the length.
        data: &'a [u8],
    },
}

/// A prefix of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// Bits of the prefix.
    pub length: u8,
    /// Whether addresses with it are reached without a router.
    pub is_on_link: bool,
    /// Whether hosts may form addresses with it.
    pub is_autonomous: bool,
    /// Seconds for which it is valid; `u32::MAX`: for ever.
    pub valid_s: u32,
    /// Seconds for which addresses formed with it are preferred; `u32::MAX`: for ever.
    pub preferred_s: u32,
    /// The prefix; the other bits are zero by right.
    pub prefix: Ipv6Addr,
}

wire_header! {
    /// An option with an Ethernet address.
    LinkHeader: 8 bytes, else NdOption {
        /// 1 source, 2 target.
        kind: u8,
        /// 1.
        units: u8,
        /// The address.
        address: MacAddress,
    }
}

wire_header! {
    /// A prefix option.
    PrefixHeader: 32 bytes, else NdOption {
        /// 3.
        kind: u8,
        /// 4.
        units: u8,
        /// Bits of the prefix.
        length: u8,
        /// On-link 0x80, autonomous 0x40.
        flags: u8,
        /// Seconds.
        valid: U32,
        /// Seconds.
        preferred: U32,
        /// Reserved.
        reserved: U32,
        /// The prefix.
        prefix: [u8; 16],
    }
}

wire_header! {
    /// An MTU option.
    MtuHeader: 8 bytes, else NdOption {
        /// 5.
        kind: u8,
        /// 1.
        units: u8,
        /// Reserved.
        reserved: [u8; 2],
        /// The MTU.
        mtu: U32,
    }
}

impl LinkHeader {
    /// A source link-layer address.
    pub const fn source(address: MacAddress) -> Self {
        Self {
            kind: SOURCE_LINK,
            units: 1,
            address,
        }
    }

    /// A target link-layer address.
    pub const fn target(address: MacAddress) -> Self {
        Self {
            kind: TARGET_LINK,
            units: 1,
            address,
        }
    }
}

impl NdOption<'_> {
    /// Writes a link-layer address, prefix or MTU option to the start of `buffer`; returns the
    /// bytes written, which are none for the options that the stack never sends.
    ///
    /// # Errors
    /// [`BufferTooShort`] if `buffer` cannot hold it.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooShort> {
        match *self {
            Self::SourceLink(address) => emit_header(&LinkHeader::source(address), buffer),
            Self::TargetLink(address) => emit_header(&LinkHeader::target(address), buffer),
            Self::Prefix(prefix) => emit_header(&prefix.header(), buffer),
            Self::Mtu(mtu) => {
                let header = MtuHeader {
                    kind: MTU,
                    units: 1,
                    reserved: [0; 2],
                    mtu: U32::new(mtu),
                };
                emit_header(&header, buffer)
            }
            Self::RedirectedHeader(_) | Self::Other { .. } => Ok(0),
        }
    }
}

impl Prefix {
    const fn parse(header: &PrefixHeader) -> Self {
        Self {
            length: header.length,
            is_on_link: header.flags & 0x80 != 0,
            is_autonomous: header.flags & 0x40 != 0,
            valid_s: header.valid.get(),
            preferred_s: header.preferred.get(),
            prefix: Ipv6Addr::from_octets(header.prefix),
        }
    }

    /// The option by value.
    pub const fn header(&self) -> PrefixHeader {
        PrefixHeader {
            kind: PREFIX,
            units: 4,
            length: self.length,
            flags: (self.is_on_link as u8) << 7 | (self.is_autonomous as u8) << 6,
            valid: U32::new(self.valid_s),
            preferred: U32::new(self.preferred_s),
            reserved: U32::ZERO,
            prefix: self.prefix.octets(),
        }
    }
}

/// Walks the options of a message: `Err` once, and then the end, if a length is illegal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NdOptions<'a>(&'a [u8]);

impl<'a> NdOptions<'a> {
    /// The options in `bytes`, which reach to the end of the message.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for NdOptions<'a> {
    type Item = Result<NdOption<'a>, DropReason>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let whole = self
            .0
            .get(1)
            .filter(|units| **units != 0)
            .and_then(|units| self.0.split_at_checked(usize::from(*units) * 8));
        let Some((option, rest)) = whole else {
            self.0 = &[];
            return Some(Err(DropReason::NdOption));
        };
        self.0 = rest;
        Some(Ok(parse(option)))
    }
}

/// Reads an option of at least 8 bytes; a size that does not fit its kind makes it `Other`.
fn parse(option: &[u8]) -> NdOption<'_> {
    let kind = option.first().copied().unwrap_or_default();
    let other = NdOption::Other {
        kind,
        data: option.get(2..).unwrap_or(&[]),
    };
    match kind {
        SOURCE_LINK | TARGET_LINK => match LinkHeader::ref_from_bytes(option) {
            Ok(header) if kind == SOURCE_LINK => NdOption::SourceLink(header.address),
            Ok(header) => NdOption::TargetLink(header.address),
            Err(_) => other,
        },
        PREFIX => PrefixHeader::ref_from_bytes(option)
            .map_or(other, |header| NdOption::Prefix(Prefix::parse(header))),
        REDIRECTED => NdOption::RedirectedHeader(option.get(8..).unwrap_or(&[])),
        MTU => MtuHeader::ref_from_bytes(option)
            .map_or(other, |header| NdOption::Mtu(header.mtu.get())),
        _ => other,
    }
}

const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;
const PREFIX: u8 = 3;
const REDIRECTED: u8 = 4;
const MTU: u8 = 5;

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;

    const ADDRESS: MacAddress = MacAddress([0x52, 0x54, 0, 0x77, 0, 2]);

    #[test]
    fn emit_then_parse() {
        let prefix = Prefix {
            length: 64,
            is_on_link: true,
            is_autonomous: true,
            valid_s: 86400,
            preferred_s: 14400,
            prefix: "fd77::".parse().unwrap(),
        };
        // The bytes are scapy's: see the router advertisement in `ndp_router`.
        for (option, text) in [
            (NdOption::SourceLink(ADDRESS), "0101525400770002"),
            (NdOption::TargetLink(ADDRESS), "0201525400770002"),
            (NdOption::Mtu(1400), "0501000000000578"),
            (
                NdOption::Prefix(prefix),
                "030440c0000151800000384000000000fd770000000000000000000000000000",
            ),
        ] {
            let bytes = hex(text);
            assert_eq!(check_emit(bytes.len(), |buffer| option.emit(buffer)), bytes);
            let parsed: Vec<_> = NdOptions::new(&bytes).collect();
            assert_eq!(parsed, [Ok(option)]);
        }
    }

    #[test]
    fn lengths_are_checked() {
        let bad = Err(DropReason::NdOption);
        let other = Ok(NdOption::Other {
            kind: 14,
            data: &[1, 2, 3, 4, 5, 6],
        });
        for (text, expected) in [
            ("", vec![]),
            ("0e01010203040506", vec![other]),
            ("0e01010203040506 0100", vec![other, bad]),
            ("0e01010203040506 0e00010203040506", vec![other, bad]),
            ("0e02010203040506", vec![bad]),
            ("01", vec![bad]),
            (
                "0401000000000000",
                vec![Ok(NdOption::RedirectedHeader(&[]))],
            ),
            (
                "0301000000000000",
                vec![Ok(NdOption::Other {
                    kind: 3,
                    data: &[0; 6],
                })],
            ),
        ] {
            let bytes = hex(text);
            assert_eq!(
                NdOptions::new(&bytes).collect::<Vec<_>>(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_never_sent_writes_nothing() {
        let option = NdOption::Other { kind: 9, data: &[] };
        assert_eq!(option.emit(&mut [0; 8]), Ok(0));
    }
}
