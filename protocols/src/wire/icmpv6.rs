//! ICMP for IPv6. RFC 4443; its neighbour discovery messages are in the `ndp` files.
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
//! The checksum covers the IPv6 pseudo header too. The second word belongs to the message body; all
//! messages modelled here have it.

use super::icmpv4::Echo;
use super::{BufferTooShort, emit_header};
use crate::checksum::{Fill, Sum};
use core::fmt;
use zerocopy::byteorder::network_endian::{U16, U32};

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 8 bytes, else TruncatedL4 {
        /// Type; below 128 an error.
        kind: u8,
        /// Code.
        code: u8,
        /// Checksum over pseudo header and message.
        checksum: U16,
        /// What the type defines.
        body: U32,
    }
}

/// The header of an ICMPv6 message that the stack sends or acts on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repr {
    /// Destination unreachable; the start of the packet follows.
    DestinationUnreachable {
        /// Why: 0 no route, 1 forbidden, 3 address, 4 port.
        code: u8,
    },
    /// The packet does not fit a link; its start follows.
    PacketTooBig {
        /// The MTU that would have fit.
        mtu: u32,
    },
    /// Time exceeded; the start of the packet follows.
    TimeExceeded {
        /// 0 on the way, 1 in reassembly.
        code: u8,
    },
    /// A field makes no sense; the start of the packet follows.
    ParameterProblem {
        /// 0 field, 1 next header, 2 option.
        code: u8,
        /// Offset of the field in the packet.
        pointer: u32,
    },
    /// Echo request.
    EchoRequest(Echo),
    /// Echo reply.
    EchoReply(Echo),
}

impl Repr {
    /// Reads a header; `None` for a message that is not modelled. The checksum is not looked at.
    pub const fn parse(header: &Header) -> Option<Self> {
        let body = header.body.get();
        let echo = Echo {
            identifier: (body >> 16) as u16,
            sequence: body as u16,
        };
        Some(match (header.kind, header.code) {
            (UNREACHABLE, code) => Self::DestinationUnreachable { code },
            (TOO_BIG, 0) => Self::PacketTooBig { mtu: body },
            (TIME_EXCEEDED, code) => Self::TimeExceeded { code },
            (PARAMETER_PROBLEM, code) => Self::ParameterProblem {
                code,
                pointer: body,
            },
            (ECHO_REQUEST, 0) => Self::EchoRequest(echo),
            (ECHO_REPLY, 0) => Self::EchoReply(echo),
            _ => return None,
        })
    }

    /// Bytes that `emit` writes.
    pub const fn length(&self) -> usize {
        Header::LENGTH
    }

    /// The header by value; `pseudo` is the pseudo-header sum. [`Fill::Absent`] leaves zero, which
    /// no receiver accepts.
    pub const fn header(&self, pseudo: Sum, fill: Fill) -> Header {
        let (kind, code, body) = match *self {
            Self::DestinationUnreachable { code } => (UNREACHABLE, code, 0),
            Self::PacketTooBig { mtu } => (TOO_BIG, 0, mtu),
            Self::TimeExceeded { code } => (TIME_EXCEEDED, code, 0),
            Self::ParameterProblem { code, pointer } => (PARAMETER_PROBLEM, code, pointer),
            Self::EchoRequest(echo) => (ECHO_REQUEST, 0, echo_body(echo)),
            Self::EchoReply(echo) => (ECHO_REPLY, 0, echo_body(echo)),
        };
        let checksum = match fill {
            Fill::Compute { payload } => {
                let start = pseudo.add_field((kind as u16) << 8 | code as u16);
                start.add_field32(body).plus(payload).checksum()
            }
            Fill::Partial => pseudo.fold(),
            Fill::Absent => 0,
        };
        Header {
            kind,
            code,
            checksum: U16::new(checksum),
            body: U32::new(body),
        }
    }

    /// Writes the header to the start of `buffer`; returns the bytes written.
    ///
    /// # Errors
    /// [`BufferTooShort`] if `buffer` cannot hold it.
    pub fn emit(
        &self,
        buffer: &mut [u8],
        pseudo: Sum,
        fill: Fill,
    ) -> Result<usize, BufferTooShort> {
        emit_header(&self.header(pseudo, fill), buffer)
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DestinationUnreachable { code } => {
                write!(f, "destination unreachable, code {code}")
            }
            Self::PacketTooBig { mtu } => write!(f, "packet too big, mtu {mtu}"),
            Self::TimeExceeded { code } => write!(f, "time exceeded, code {code}"),
            Self::ParameterProblem { code, pointer } => {
                write!(f, "parameter problem, code {code}, at {pointer}")
            }
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
        }
    }
}

const fn echo_body(echo: Echo) -> u32 {
    (echo.identifier as u32) << 16 | echo.sequence as u32
}

/// Type of an echo request.
pub const ECHO_REQUEST: u8 = 128;
/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 129;
const UNREACHABLE: u8 = 1;
const TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;

#[cfg(test)]
mod tests {
    use super::super::IpProtocol;
    use super::super::testing::{check_emit, hex};
    use super::*;
    use crate::checksum::pseudo_ipv6;

    fn pseudo(length: u32) -> Sum {
        let (source, destination) = ("fe80::1".parse().unwrap(), "fe80::2".parse().unwrap());
        pseudo_ipv6(source, destination, IpProtocol::ICMPV6, length)
    }

    #[test]
    fn golden_echo() {
        // scapy: IPv6(src="fe80::1", dst="fe80::2") / ICMPv6EchoRequest(id=0x1122, seq=3,
        // data=b"xyz")
        let repr = Repr::EchoRequest(Echo {
            identifier: 0x1122,
            sequence: 3,
        });
        let fill = Fill::Compute {
            payload: Sum::of(b"xyz"),
        };
        let bytes = check_emit(8, |buffer| repr.emit(buffer, pseudo(11), fill));
        assert_eq!(bytes, hex("8000 7f16 1122 0003"));
        assert_eq!(repr.to_string(), "echo request 4386 3");
    }

    #[test]
    fn emit_then_parse() {
        for repr in [
            Repr::DestinationUnreachable { code: 4 },
            Repr::PacketTooBig { mtu: 1280 },
            Repr::TimeExceeded { code: 1 },
            Repr::ParameterProblem {
                code: 1,
                pointer: 40,
            },
            Repr::EchoReply(Echo {
                identifier: 0xffff,
                sequence: 0,
            }),
        ] {
            let fill = Fill::Compute { payload: Sum::ZERO };
            let bytes = check_emit(8, |buffer| repr.emit(buffer, pseudo(8), fill));
            assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), Some(repr));
            assert!(pseudo(8).plus(Sum::of(&bytes)).holds(), "{repr}");
            let partial = repr.header(pseudo(8), Fill::Partial);
            assert_eq!(partial.checksum.get(), pseudo(8).fold());
        }
        for kind in [0, 100, 130, 135, 136, 255] {
            let bytes = [kind, 0, 0, 0, 0, 0, 0, 0];
            assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), None);
        }
    }
}
