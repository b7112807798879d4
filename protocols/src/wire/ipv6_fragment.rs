//! IPv6 fragment header. RFC 8200 section 4.5.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------+---+-+
//! |  next header  |   reserved    |    offset in 8 bytes    |res|M|
//! +---------------+---------------+-------------------------+---+-+
//! |                         identification                        |
//! +---------------------------------------------------------------+
//! ```
//! M: more fragments.

use super::IpProtocol;
use super::ipv4::FragmentOffset;
use core::fmt;
use zerocopy::byteorder::network_endian::{U16, U32};

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 8 bytes, else TruncatedL3 {
        /// What follows.
        next_header: u8,
        /// Reserved.
        reserved: u8,
        /// Offset and the more-fragments bit.
        fragment: U16,
        /// Identification of the fragmented datagram.
        identification: U32,
    }
}

/// A fragment header; reserved bits are ignored and sent as zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// What follows, in the first fragment.
    pub next_header: IpProtocol,
    /// Where this fragment belongs.
    pub offset: FragmentOffset,
    /// Whether fragments follow this one.
    pub more_fragments: bool,
    /// Identification of the fragmented datagram.
    pub identification: u32,
}

impl Repr {
    /// Reads a header.
    pub fn parse(header: &Header) -> Self {
        let field = header.fragment.get();
        Self {
            next_header: IpProtocol(header.next_header),
            offset: FragmentOffset::new(field >> 3).unwrap_or_default(),
            more_fragments: field & 1 != 0,
            identification: header.identification.get(),
        }
    }

    /// The header by value.
    pub const fn header(&self) -> Header {
        Header {
            next_header: self.next_header.0,
            reserved: 0,
            fragment: U16::new(self.offset.units() << 3 | self.more_fragments as u16),
            identification: U32::new(self.identification),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.more_fragments {
            ", more follow"
        } else {
            ""
        };
        write!(
            f,
            "fragment {:#x} at {}{more}",
            self.identification,
            self.offset.bytes()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;

    #[test]
    fn emit_then_parse() {
        for (text, units, more_fragments) in [
            ("1100 0001 99887766", 0, true),
            ("1100 fff8 99887766", 8191, false),
        ] {
            let repr = Repr {
                next_header: IpProtocol::UDP,
                offset: FragmentOffset::new(units).unwrap(),
                more_fragments,
                identification: 0x9988_7766,
            };
            let bytes = check_emit(8, |buffer| repr.emit(buffer));
            assert_eq!(bytes, hex(text));
            assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), repr);
        }
    }

    #[test]
    fn reserved_bits_are_ignored() {
        let bytes = hex("11ff 0006 00000001");
        let repr = Repr::parse(Header::split(&bytes).unwrap().0);
        assert_eq!(repr.to_string(), "fragment 0x1 at 0");
    }
}
