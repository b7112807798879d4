//! UDP. RFC 768; zero checksums over IPv6: RFC 6935.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          source port          |       destination port        |
//! +-------------------------------+-------------------------------+
//! | length: header and payload    | checksum, 0: there is none    |
//! +-------------------------------+-------------------------------+
//! ```

use super::{BufferTooShort, emit_header};
use crate::DropReason;
use crate::checksum::{Fill, Sum};
use core::fmt;
use zerocopy::byteorder::network_endian::U16;

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 8 bytes, else TruncatedL4 {
        /// Source port.
        source_port: U16,
        /// Destination port.
        destination_port: U16,
        /// Bytes of header and payload.
        length: U16,
        /// Checksum; zero if there is none.
        checksum: U16,
    }
}

/// A UDP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Source port; zero if no answer is wanted.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Bytes of the payload, at most 65527.
    pub payload_length: u16,
}

impl Repr {
    /// The longest payload.
    pub const MAX_PAYLOAD: u16 = u16::MAX - Header::LENGTH as u16;

    /// Reads a header; `available` counts the bytes of the IP payload, header included.
    ///
    /// # Errors
    /// [`DropReason::UdpLength`] if the length is below 8 or above `available`.
    pub const fn parse(header: &Header, available: usize) -> Result<Self, DropReason> {
        let length = header.length.get();
        if (length as usize) < Header::LENGTH || length as usize > available {
            return Err(DropReason::UdpLength);
        }
        Ok(Self {
            source_port: header.source_port.get(),
            destination_port: header.destination_port.get(),
            payload_length: length - Header::LENGTH as u16,
        })
    }

    /// The length field: header and payload. A payload above [`Repr::MAX_PAYLOAD`] saturates.
    pub const fn datagram_length(&self) -> u16 {
        self.payload_length.saturating_add(Header::LENGTH as u16)
    }

    /// Bytes that `emit` writes.
    pub const fn length(&self) -> usize {
        Header::LENGTH
    }

    /// The header by value; `pseudo` is the pseudo-header sum.
    pub const fn header(&self, pseudo: Sum, fill: Fill) -> Header {
        let checksum = match fill {
            Fill::Compute { payload } => self.sum().plus(pseudo).plus(payload).udp_checksum(),
            Fill::Partial => pseudo.fold(),
            Fill::Absent => 0,
        };
        Header {
            source_port: U16::new(self.source_port),
            destination_port: U16::new(self.destination_port),
            length: U16::new(self.datagram_length()),
            checksum: U16::new(checksum),
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

    const fn sum(&self) -> Sum {
        Sum::ZERO
            .add_field(self.source_port)
            .add_field(self.destination_port)
            .add_field(self.datagram_length())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source_port,
            destination_port,
            payload_length,
        } = self;
        write!(
            f,
            "UDP {source_port} > {destination_port}, {payload_length} bytes"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::IpProtocol;
    use super::super::testing::{check_emit, hex};
    use super::*;
    use crate::checksum::pseudo_ipv4;
    use core::net::Ipv4Addr;

    const REPR: Repr = Repr {
        source_port: 1000,
        destination_port: 53,
        payload_length: 5,
    };

    fn pseudo() -> Sum {
        let (source, destination) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        pseudo_ipv4(source, destination, IpProtocol::UDP, REPR.datagram_length())
    }

    #[test]
    fn emit_then_parse() {
        // The computed checksum is scapy's for IP(src="10.0.0.1",dst="10.0.0.2")/UDP(...)/b"hello".
        for (fill, bytes) in [
            (
                Fill::Compute {
                    payload: Sum::of(b"hello"),
                },
                "03e80035000d a3e2",
            ),
            (Fill::Partial, "03e80035000d 1421"),
            (Fill::Absent, "03e80035000d 0000"),
        ] {
            let emitted = check_emit(8, |buffer| REPR.emit(buffer, pseudo(), fill));
            assert_eq!(emitted, hex(bytes), "{fill:?}");
            assert_eq!(
                Repr::parse(Header::split(&emitted).unwrap().0, 13),
                Ok(REPR)
            );
        }
        assert_eq!(REPR.to_string(), "UDP 1000 > 53, 5 bytes");
    }

    #[test]
    fn lengths_are_checked() {
        for (length, available, is_legal) in [
            (7, 100, false),
            (0, 100, false),
            (8, 8, true),
            (9, 8, false),
            (8, 20, true),
        ] {
            let bytes = [0, 1, 0, 2, 0, length, 0, 0];
            let parsed = Repr::parse(Header::split(&bytes).unwrap().0, available);
            assert_eq!(parsed.is_ok(), is_legal, "{length} of {available}");
            if !is_legal {
                assert_eq!(parsed, Err(DropReason::UdpLength));
            }
        }
        assert_eq!(Header::split(&[0; 7]), Err(DropReason::TruncatedL4));
    }

    #[test]
    fn a_computed_zero_is_sent_as_ones() {
        let repr = Repr {
            source_port: 0,
            destination_port: 0,
            payload_length: 2,
        };
        let payload = Sum::of(&(!10_u16).to_be_bytes());
        let header = repr.header(Sum::ZERO, Fill::Compute { payload });
        assert_eq!(header.checksum.get(), 0xffff);
    }
}
