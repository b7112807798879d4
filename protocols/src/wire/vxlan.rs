//! VXLAN. RFC 7348 section 5.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-----------------------------------------------+
//! |R|R|R|R|I|R|R|R|                   reserved                    |
//! +-+-+-+-+-+-+-+-+-------------------------------+---------------+
//! |       VXLAN network identifier (VNI)          |   reserved    |
//! +-----------------------------------------------+---------------+
//! ```
//! I: the identifier is valid. An Ethernet frame follows.

use crate::DropReason;
use core::fmt;
use zerocopy::byteorder::network_endian::U32;

/// The UDP destination port.
pub const UDP_PORT: u16 = 4789;

/// The bit of the first byte that says that the network identifier is valid.
pub const VALID_IDENTIFIER: u8 = 0x08;

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 8 bytes, else TruncatedL4 {
        /// Flags.
        flags: u8,
        /// Reserved.
        reserved: [u8; 3],
        /// The identifier in the upper 24 bits; the rest is reserved.
        identifier: U32,
    }
}

/// A 24-bit VXLAN network identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Vni(u32);

impl Vni {
    /// `None` if `value` does not fit 24 bits.
    pub const fn new(value: u32) -> Option<Self> {
        if value >> 24 == 0 {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The value, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }
}

/// A VXLAN header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The overlay network.
    pub vni: Vni,
}

impl Repr {
    /// Reads a header; reserved bits are ignored, as the RFC demands.
    ///
    /// # Errors
    /// [`DropReason::VxlanFlags`] if the identifier is not marked as valid.
    pub const fn parse(header: &Header) -> Result<Self, DropReason> {
        if header.flags & VALID_IDENTIFIER == 0 {
            return Err(DropReason::VxlanFlags);
        }
        Ok(Self {
            vni: Vni(header.identifier.get() >> 8),
        })
    }

    /// The header by value.
    pub const fn header(&self) -> Header {
        Header {
            flags: VALID_IDENTIFIER,
            reserved: [0; 3],
            identifier: U32::new(self.vni.0 << 8),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VXLAN {}", self.vni.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;

    #[test]
    fn emit_then_parse() {
        let repr = Repr {
            vni: Vni::new(0x12_3456).unwrap(),
        };
        let bytes = check_emit(8, |buffer| repr.emit(buffer));
        assert_eq!(bytes, hex("08000000 12345600"));
        assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), Ok(repr));
        assert_eq!(repr.to_string(), "VXLAN 1193046");
    }

    #[test]
    fn reserved_bits_are_ignored_and_the_flag_is_not() {
        let bytes = hex("fcffffff 123456ff");
        let repr = Repr::parse(Header::split(&bytes).unwrap().0).unwrap();
        assert_eq!(repr.vni.value(), 0x12_3456);
        let bytes = hex("f7000000 12345600");
        let parsed = Repr::parse(Header::split(&bytes).unwrap().0);
        assert_eq!(parsed, Err(DropReason::VxlanFlags));
        assert_eq!(Vni::new(1 << 24), None);
    }
}
