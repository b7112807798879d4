//! Atomic extended transport header. InfiniBand Architecture Specification volume 1, section 9.3.4.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |           virtual address (8), a multiple of 8                |
//! +---------------------------------------------------------------+
//! |                          remote key                           |
//! +---------------------------------------------------------------+
//! |                    swap or add operand (8)                    |
//! +---------------------------------------------------------------+
//! |                      compare operand (8)                      |
//! +---------------------------------------------------------------+
//! ```
//! The compare operand of FETCH_ADD is reserved. That an address is aligned is checked by who
//! executes the operation: it is answered, not dropped.

use core::fmt;
use zerocopy::byteorder::network_endian::{U32, U64};

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 28 bytes, else BthLength {
        /// Address in the responder's region.
        address: U64,
        /// Key of the responder's region.
        remote_key: U32,
        /// What is stored or added.
        swap_or_add: U64,
        /// What is compared with.
        compare: U64,
    }
}

/// An atomic extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Address in the responder's region.
    pub address: u64,
    /// Key of the responder's region.
    pub remote_key: u32,
    /// What is stored (COMPARE_SWAP) or added (FETCH_ADD).
    pub swap_or_add: u64,
    /// What is compared with (COMPARE_SWAP); zero by right for FETCH_ADD.
    pub compare: u64,
}

impl Repr {
    /// Reads a header.
    pub const fn parse(header: &Header) -> Self {
        Self {
            address: header.address.get(),
            remote_key: header.remote_key.get(),
            swap_or_add: header.swap_or_add.get(),
            compare: header.compare.get(),
        }
    }

    /// The header by value.
    pub const fn header(&self) -> Header {
        Header {
            address: U64::new(self.address),
            remote_key: U32::new(self.remote_key),
            swap_or_add: U64::new(self.swap_or_add),
            compare: U64::new(self.compare),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            remote_key,
            swap_or_add,
            compare,
        } = self;
        write!(f, "at {address:#x} rkey {remote_key:#x} ")?;
        write!(f, "operand {swap_or_add:#x} compare {compare:#x}")
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
            address: 0x1000,
            remote_key: 0x74a,
            swap_or_add: 0x1122_3344_5566_7788,
            compare: 0xaaa3_9c95_8e87_807d,
        };
        let bytes = check_emit(28, |buffer| repr.emit(buffer));
        let text = "0000000000001000 0000074a 1122334455667788 aaa39c958e87807d";
        assert_eq!(bytes, hex(text));
        assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), repr);
        assert_eq!(Header::split(&bytes[..27]), Err(DropReason::BthLength));
        assert!(
            repr.to_string()
                .ends_with("operand 0x1122334455667788 compare 0xaaa39c958e87807d")
        );
    }
}
