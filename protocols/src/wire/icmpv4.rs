//! ICMP for IPv4. RFC 792; next-hop MTU: RFC 1191 section 4.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |      type     |     code      |           checksum            |
//! +---------------+---------------+-------------------------------+
//! |  what the type defines: echo: identifier, sequence number     |
//! +---------------------------------------------------------------+
//! ```

use super::{BufferTooShort, emit_header};
use crate::checksum::{Fill, Sum};
use core::fmt;
use zerocopy::byteorder::network_endian::U16;

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 8 bytes, else TruncatedL4 {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// Checksum over the whole message.
        checksum: U16,
        /// First half of what the type defines.
        first: U16,
        /// Second half of what the type defines.
        second: U16,
    }
}

/// The numbers of an echo.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Echo {
    /// Tells apart who asks.
    pub identifier: u16,
    /// Counts the questions.
    pub sequence: u16,
}

/// The header of an ICMP message that the stack sends or acts on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repr {
    /// Echo request.
    EchoRequest(Echo),
    /// Echo reply.
    EchoReply(Echo),
    /// Destination unreachable; the start of the packet follows.
    DestinationUnreachable {
        /// Why: 0 net, 1 host, 2 protocol, 3 port, 4 too large.
        code: u8,
        /// The MTU that would have fit, for code 4; else 0.
        next_hop_mtu: u16,
    },
    /// Time exceeded; the start of the packet follows.
    TimeExceeded {
        /// 0 on the way, 1 in reassembly.
        code: u8,
    },
}

impl Repr {
    /// Reads a header; `None` for a message that is not modelled. The checksum is not looked at.
    pub const fn parse(header: &Header) -> Option<Self> {
        let (first, second) = (header.first.get(), header.second.get());
        let echo = Echo {
            identifier: first,
            sequence: second,
        };
        Some(match (header.kind, header.code) {
            (ECHO_REQUEST, 0) => Self::EchoRequest(echo),
            (ECHO_REPLY, 0) => Self::EchoReply(echo),
            (UNREACHABLE, code) => Self::DestinationUnreachable {
                code,
                next_hop_mtu: second,
            },
            (TIME_EXCEEDED, code) => Self::TimeExceeded { code },
            _ => return None,
        })
    }

    /// Bytes that `emit` writes.
    pub const fn length(&self) -> usize {
        Header::LENGTH
    }

    /// The header by value. With [`Fill::Partial`] and [`Fill::Absent`] the checksum is zero.
    pub const fn header(&self, fill: Fill) -> Header {
        let (kind, code, first, second) = match *self {
            Self::EchoRequest(echo) => (ECHO_REQUEST, 0, echo.identifier, echo.sequence),
            Self::EchoReply(echo) => (ECHO_REPLY, 0, echo.identifier, echo.sequence),
            Self::DestinationUnreachable { code, next_hop_mtu } => {
                (UNREACHABLE, code, 0, next_hop_mtu)
            }
            Self::TimeExceeded { code } => (TIME_EXCEEDED, code, 0, 0),
        };
        let start = Sum::ZERO.add_field((kind as u16) << 8 | code as u16);
        let checksum = match fill {
            Fill::Compute { payload } => start
                .add_field(first)
                .add_field(second)
                .plus(payload)
                .checksum(),
            Fill::Partial | Fill::Absent => 0,
        };
        Header {
            kind,
            code,
            checksum: U16::new(checksum),
            first: U16::new(first),
            second: U16::new(second),
        }
    }

    /// Writes the header to the start of `buffer`; returns the bytes written.
    ///
    /// # Errors
    /// [`BufferTooShort`] if `buffer` cannot hold it.
    pub fn emit(&self, buffer: &mut [u8], fill: Fill) -> Result<usize, BufferTooShort> {
        emit_header(&self.header(fill), buffer)
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EchoRequest(Echo {
                identifier,
                sequence,
            }) => {
                write!(f, "echo request {identifier} {sequence}")
            }
            Self::EchoReply(Echo {
                identifier,
                sequence,
            }) => {
                write!(f, "echo reply {identifier} {sequence}")
            }
            Self::DestinationUnreachable { code, next_hop_mtu } => {
                write!(
                    f,
                    "destination unreachable, code {code}, mtu {next_hop_mtu}"
                )
            }
            Self::TimeExceeded { code } => write!(f, "time exceeded, code {code}"),
        }
    }
}

/// Type of an echo request.
pub const ECHO_REQUEST: u8 = 8;
/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const TIME_EXCEEDED: u8 = 11;

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;
    use crate::DropReason;

    #[test]
    fn golden_messages() {
        let inner = "4500001c00010000401166320a4d00030a4d0002000100020008eb3c";
        // scapy: ICMP(type=8, id=0x4321, seq=7) / b"abcdefgh"; ICMP(type=3, code=4,
        // nexthopmtu=1400) / IP() / UDP(); ICMP(type=11) / IP() / UDP()
        for (header, payload, repr) in [
            (
                "0800234243210007",
                "6162636465666768",
                Repr::EchoRequest(Echo {
                    identifier: 0x4321,
                    sequence: 7,
                }),
            ),
            (
                "03040c3c00000578",
                inner,
                Repr::DestinationUnreachable {
                    code: 4,
                    next_hop_mtu: 1400,
                },
            ),
            ("0b0009b800000000", inner, Repr::TimeExceeded { code: 0 }),
        ] {
            let fill = Fill::Compute {
                payload: Sum::of(&hex(payload)),
            };
            let bytes = check_emit(8, |buffer| repr.emit(buffer, fill));
            assert_eq!(bytes, hex(header));
            let whole = [bytes.clone(), hex(payload)].concat();
            assert!(Sum::of(&whole).holds());
            assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), Some(repr));
        }
    }

    #[test]
    fn a_reply_has_the_numbers_of_its_request() {
        let echo = Echo {
            identifier: 1,
            sequence: 2,
        };
        let bytes = check_emit(8, |buffer| Repr::EchoReply(echo).emit(buffer, Fill::Absent));
        assert_eq!(bytes, hex("0000 0000 0001 0002"));
        assert_eq!(Repr::EchoReply(echo).to_string(), "echo reply 1 2");
    }

    #[test]
    fn what_is_not_modelled_is_not_guessed() {
        for text in ["0801000000000000", "0d00000000000000", "0500000000000000"] {
            assert_eq!(
                Repr::parse(Header::split(&hex(text)).unwrap().0),
                None,
                "{text}"
            );
        }
        assert_eq!(Header::split(&[0; 7]), Err(DropReason::TruncatedL4));
    }
}
