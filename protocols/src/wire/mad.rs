//! Management datagram. InfiniBand Architecture Specification volume 1, section 13.4.3.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+---------------+-+-------------+
//! | base version  |     class     | class version |R|   method    |
//! +---------------+---------------+---------------+-+-------------+
//! |            status             |        class specific         |
//! +-------------------------------+-------------------------------+
//! |                        transaction (8)                        |
//! +-------------------------------+-------------------------------+
//! |           attribute           |           reserved            |
//! +-------------------------------+-------------------------------+
//! |                           modifier                            |
//! +---------------------------------------------------------------+
//! ```
//! R: a response; the field `method` here holds it too. 232 bytes of data follow: a datagram always
//! has 256.

use crate::DropReason;
use core::fmt;
use zerocopy::byteorder::network_endian::{U16, U32, U64};

/// Bytes of every management datagram.
pub const LENGTH: usize = 256;

/// Bytes that follow the header.
pub const DATA_LENGTH: usize = LENGTH - Header::LENGTH;

/// The base version.
pub const BASE_VERSION: u8 = 1;

/// The class of connection management.
pub const COMMUNICATION_MANAGEMENT: u8 = 0x07;

/// The method that carries a message which is neither question nor answer.
pub const SEND: u8 = 0x03;

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 24 bytes, else MadLength {
        /// Base version.
        base_version: u8,
        /// Management class.
        class: u8,
        /// Version of the class.
        class_version: u8,
        /// Response bit and method.
        method: u8,
        /// Status.
        status: U16,
        /// Of use to some classes.
        class_specific: U16,
        /// What belongs together.
        transaction: U64,
        /// What follows.
        attribute: U16,
        /// Reserved.
        reserved: U16,
        /// Says more about the attribute.
        modifier: U32,
    }
}

/// A header of a management datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Management class.
    pub class: u8,
    /// Version of the class.
    pub class_version: u8,
    /// Response bit and method.
    pub method: u8,
    /// Status: 0 in requests.
    pub status: u16,
    /// What belongs together.
    pub transaction: u64,
    /// What follows.
    pub attribute: u16,
    /// Says more about the attribute.
    pub modifier: u32,
}

impl Repr {
    /// Reads a header; reserved and class-specific bits are ignored.
    ///
    /// # Errors
    /// [`DropReason::MadFormat`] if it is of another base version.
    pub const fn parse(header: &Header) -> Result<Self, DropReason> {
        if header.base_version != BASE_VERSION {
            return Err(DropReason::MadFormat);
        }
        Ok(Self {
            class: header.class,
            class_version: header.class_version,
            method: header.method,
            status: header.status.get(),
            transaction: header.transaction.get(),
            attribute: header.attribute.get(),
            modifier: header.modifier.get(),
        })
    }

    /// The header by value.
    pub const fn header(&self) -> Header {
        Header {
            base_version: BASE_VERSION,
            class: self.class,
            class_version: self.class_version,
            method: self.method,
            status: U16::new(self.status),
            class_specific: U16::ZERO,
            transaction: U64::new(self.transaction),
            attribute: U16::new(self.attribute),
            reserved: U16::ZERO,
            modifier: U32::new(self.modifier),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "MAD class {:#04x} method {:#04x} attribute {:#06x} transaction {:#x}",
            self.class, self.method, self.attribute, self.transaction
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;

    #[test]
    fn the_header_of_a_request_of_soft_roce() {
        let text = "01070203 00000000 00000002106db4ad 00100000 00000000";
        let repr = Repr {
            class: COMMUNICATION_MANAGEMENT,
            class_version: 2,
            method: SEND,
            status: 0,
            transaction: 0x2_106d_b4ad,
            attribute: 0x10,
            modifier: 0,
        };
        let bytes = check_emit(24, |buffer| repr.emit(buffer));
        assert_eq!(bytes, hex(text));
        assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), Ok(repr));
        assert_eq!(
            repr.to_string(),
            "MAD class 0x07 method 0x03 attribute 0x0010 transaction 0x2106db4ad"
        );
        let reserved = hex("01070203 0000ffff 00000002106db4ad 0010ffff 00000000");
        assert_eq!(Repr::parse(Header::split(&reserved).unwrap().0), Ok(repr));
    }

    #[test]
    fn what_is_refused() {
        let other = hex("02070203 00000000 00000002106db4ad 00100000 00000000");
        let parsed = Repr::parse(Header::split(&other).unwrap().0);
        assert_eq!(parsed, Err(DropReason::MadFormat));
        assert_eq!(Header::split(&other[..23]), Err(DropReason::MadLength));
    }
}
