//! Immediate data extended transport header. InfiniBand Architecture Specification volume 1,
//! section 9.3.6.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |              immediate data, put into the completion          |
//! +---------------------------------------------------------------+
//! ```

use core::fmt;
use zerocopy::byteorder::network_endian::U32;

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 4 bytes, else BthLength {
        /// The data.
        immediate: U32,
    }
}

/// Immediate data; every pattern of its bits is legal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The data, as the number that the four bytes hold in network order.
    pub immediate: u32,
}

impl Repr {
    /// Reads a header.
    pub const fn parse(header: &Header) -> Self {
        Self {
            immediate: header.immediate.get(),
        }
    }

    /// The header by value.
    pub const fn header(&self) -> Header {
        Header {
            immediate: U32::new(self.immediate),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "immediate {:#010x}", self.immediate)
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
            immediate: 0x1122_3344,
        };
        let bytes = check_emit(4, |buffer| repr.emit(buffer));
        assert_eq!(bytes, hex("11223344"));
        assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), repr);
        assert_eq!(repr.to_string(), "immediate 0x11223344");
        assert_eq!(Header::split(&bytes[..3]), Err(DropReason::BthLength));
    }
}
