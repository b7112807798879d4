//! Congestion notification packet. InfiniBand Architecture Specification volume 1, annex A17.9.3.
//!
//! ```text
//! +---------------------------------------------------------------+
//! |  base transport header (12): opcode 0x81, BECN set, PSN 0     |
//! +---------------------------------------------------------------+
//! |  reserved (16), zero                                          |
//! +---------------------------------------------------------------+
//! ```
//! Sent by the receiver of packets marked congestion-experienced to their sender's queue pair.

use super::bth::{self, PKey, Pad, Psn, Qpn};
use super::opcode::Opcode;
use crate::DropReason;
use core::fmt;

wire_header! {
    /// The packet as it lies on the wire, without its invariant CRC: any bits.
    Header: 28 bytes, else BthLength {
        /// Base transport header.
        bth: bth::Header,
        /// Reserved.
        reserved: [u8; 16],
    }
}

/// A congestion notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The queue pair that sends too fast.
    pub destination_qp: Qpn,
    /// Its partition.
    pub pkey: PKey,
}

impl Repr {
    /// Reads a notification; reserved bits are ignored.
    ///
    /// # Errors
    /// [`DropReason::BthVersion`], [`DropReason::BthOpcode`] if it is not one.
    pub const fn parse(header: &Header) -> Result<Self, DropReason> {
        match bth::Repr::parse(&header.bth) {
            Ok(bth::Repr {
                opcode: Opcode::CNP,
                destination_qp,
                pkey,
                ..
            }) => Ok(Self {
                destination_qp,
                pkey,
            }),
            Ok(_) => Err(DropReason::BthOpcode),
            Err(reason) => Err(reason),
        }
    }

    /// The packet by value, without its invariant CRC.
    pub const fn header(&self) -> Header {
        let bth = bth::Repr {
            opcode: Opcode::CNP,
            solicited_event: false,
            migration: false,
            pad: Pad::of(0),
            pkey: self.pkey,
            forward_congestion: false,
            backward_congestion: true,
            destination_qp: self.destination_qp,
            acknowledge: false,
            psn: Psn::new(0),
        };
        Header {
            bth: bth.header(),
            reserved: [0; 16],
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "congestion notification for qp {}", self.destination_qp)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;

    #[test]
    fn the_packet_of_a_connectx_4() {
        let repr = Repr {
            destination_qp: Qpn::new(0x118),
            pkey: PKey::DEFAULT,
        };
        let bytes = check_emit(28, |buffer| repr.emit(buffer));
        let text = format!("8100ffff 40000118 00000000 {}", "00".repeat(16));
        assert_eq!(bytes, hex(&text));
        assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), Ok(repr));
        assert_eq!(repr.to_string(), "congestion notification for qp 0x000118");
    }

    #[test]
    fn what_is_refused() {
        let bytes = hex(&format!("0400ffff 40000118 00000000 {}", "00".repeat(16)));
        let parsed = Repr::parse(Header::split(&bytes).unwrap().0);
        assert_eq!(parsed, Err(DropReason::BthOpcode));
        assert_eq!(Header::split(&bytes[..27]), Err(DropReason::BthLength));
    }
}
