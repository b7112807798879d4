//! RDMA extended transport header. InfiniBand Architecture Specification volume 1, section 9.3.3.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                      virtual address (8)                      |
//! +---------------------------------------------------------------+
//! |                          remote key                           |
//! +---------------------------------------------------------------+
//! |                          DMA length                           |
//! +---------------------------------------------------------------+
//! ```
//! In the first packet of a WRITE and in a READ request. The length is the message's, without pads.

use core::fmt;
use zerocopy::byteorder::network_endian::{U32, U64};

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 16 bytes, else BthLength {
        /// Address in the responder's region.
        address: U64,
        /// Key of the responder's region.
        remote_key: U32,
        /// Bytes of the message.
        length: U32,
    }
}

/// An RDMA extended transport header; every pattern of its bits is legal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Address in the responder's region.
    pub address: u64,
    /// Key of the responder's region.
    pub remote_key: u32,
    /// Bytes of the message.
    pub message_length: u32,
}

impl Repr {
    /// Reads a header.
    pub const fn parse(header: &Header) -> Self {
        Self {
            address: header.address.get(),
            remote_key: header.remote_key.get(),
            message_length: header.length.get(),
        }
    }

    /// The header by value.
    pub const fn header(&self) -> Header {
        Header {
            address: U64::new(self.address),
            remote_key: U32::new(self.remote_key),
            length: U32::new(self.message_length),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            remote_key,
            message_length,
        } = self;
        write!(
            f,
            "{message_length} bytes at {address:#x} rkey {remote_key:#x}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;
    use crate::DropReason;

    #[test]
    fn emit_then_parse() {
        let repr = Repr {
            address: 0x55d4_c072_6000,
            remote_key: 0x47b3,
            message_length: 5,
        };
        let bytes = check_emit(16, |buffer| repr.emit(buffer));
        assert_eq!(bytes, hex("000055d4c0726000 000047b3 00000005"));
        assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), repr);
        assert_eq!(repr.to_string(), "5 bytes at 0x55d4c0726000 rkey 0x47b3");
        assert_eq!(Header::split(&bytes[..15]), Err(DropReason::BthLength));
    }
}
