//! Atomic acknowledge extended transport header. InfiniBand Architecture Specification volume 1,
//! section 9.5.3.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |             original value of the remote word (8)             |
//! +---------------------------------------------------------------+
//! ```

use core::fmt;
use zerocopy::byteorder::network_endian::U64;

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 8 bytes, else BthLength {
        /// The value before the operation.
        original: U64,
    }
}

/// An atomic acknowledge extended transport header; every pattern of its bits is legal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The value before the operation.
    pub original: u64,
}

impl Repr {
    /// Reads a header.
    pub const fn parse(header: &Header) -> Self {
        Self {
            original: header.original.get(),
        }
    }

    /// The header by value.
    pub const fn header(&self) -> Header {
        Header {
            original: U64::new(self.original),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "original {:#x}", self.original)
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
            original: 0x0102_0304_0506_0708,
        };
        let bytes = check_emit(8, |buffer| repr.emit(buffer));
        assert_eq!(bytes, hex("0102030405060708"));
        assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), repr);
        assert_eq!(Header::split(&bytes[..7]), Err(DropReason::BthLength));
        assert_eq!(repr.to_string(), "original 0x102030405060708");
    }
}
