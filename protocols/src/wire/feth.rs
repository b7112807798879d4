//! Flush extended transport header. InfiniBand Architecture Specification volume 1, annex A19.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------+---+-------+
//! |                     reserved                      |sel|  plt  |
//! +---------------------------------------------------+---+-------+
//! ```
//! Sel: 0 a range, 1 the whole region. Plt: bit 0 until visible to all, bit 1 until persistent.

use crate::DropReason;
use core::fmt;
use zerocopy::byteorder::network_endian::U32;

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 4 bytes, else BthLength {
        /// Reserved bits, selectivity and placement.
        flags: U32,
    }
}

/// A flush extended transport header; reserved bits are ignored and sent as zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The whole region, not only the range that the RETH names.
    pub whole_region: bool,
    /// Until visible to all.
    pub global_visibility: bool,
    /// Until persistent.
    pub persistence: bool,
}

impl Repr {
    /// Reads a header.
    ///
    /// # Errors
    /// [`DropReason::BthOpcode`] for a reserved selectivity or placement.
    pub const fn parse(header: &Header) -> Result<Self, DropReason> {
        let flags = header.flags.get();
        if flags & 0x2c != 0 {
            return Err(DropReason::BthOpcode);
        }
        Ok(Self {
            whole_region: flags & 0x10 != 0,
            global_visibility: flags & 0x01 != 0,
            persistence: flags & 0x02 != 0,
        })
    }

    /// The header by value.
    pub const fn header(&self) -> Header {
        let flags = (self.whole_region as u32) << 4
            | (self.persistence as u32) << 1
            | self.global_visibility as u32;
        Header {
            flags: U32::new(flags),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.whole_region { "region" } else { "range" };
        let until = if self.persistence {
            "persistent"
        } else {
            "visible"
        };
        write!(f, "flush the {what} until {until}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;

    #[test]
    fn emit_then_parse() {
        for (text, whole_region, global_visibility, persistence) in [
            ("00000001", false, true, false),
            ("00000013", true, true, true),
        ] {
            let repr = Repr {
                whole_region,
                global_visibility,
                persistence,
            };
            let bytes = check_emit(4, |buffer| repr.emit(buffer));
            assert_eq!(bytes, hex(text));
            assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), Ok(repr));
        }
        for text in ["00000004", "00000008", "00000020"] {
            let parsed = Repr::parse(Header::split(&hex(text)).unwrap().0);
            assert_eq!(parsed, Err(DropReason::BthOpcode));
        }
        assert_eq!(Header::split(&[0; 3]), Err(DropReason::BthLength));
    }
}
