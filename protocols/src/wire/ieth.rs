//! Invalidate extended transport header. InfiniBand Architecture Specification volume 1, section
//! 9.3.7.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |           remote key that the receiver invalidates            |
//! +---------------------------------------------------------------+
//! ```

use core::fmt;
use zerocopy::byteorder::network_endian::U32;

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 4 bytes, else BthLength {
        /// The key.
        remote_key: U32,
    }
}

/// An invalidate extended transport header; every pattern of its bits is legal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The key that the receiver invalidates.
    pub remote_key: u32,
}

impl Repr {
    /// Reads a header.
    pub const fn parse(header: &Header) -> Self {
        Self {
            remote_key: header.remote_key.get(),
        }
    }

    /// The header by value.
    pub const fn header(&self) -> Header {
        Header {
            remote_key: U32::new(self.remote_key),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalidate rkey {:#x}", self.remote_key)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;
    use crate::DropReason;

    #[test]
    fn emit_then_parse() {
        let repr = Repr { remote_key: 0x1eea };
        let bytes = check_emit(4, |buffer| repr.emit(buffer));
        assert_eq!(bytes, hex("00001eea"));
        assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), repr);
        assert_eq!(repr.to_string(), "invalidate rkey 0x1eea");
        assert_eq!(Header::split(&bytes[..3]), Err(DropReason::BthLength));
    }
}
