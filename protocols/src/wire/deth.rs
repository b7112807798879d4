//! Datagram extended transport header. InfiniBand Architecture Specification volume 1, section
//! 9.3.2.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                             Q_Key                             |
//! +---------------+-----------------------------------------------+
//! |   reserved    |               source queue pair               |
//! +---------------+-----------------------------------------------+
//! ```

use super::Qpn;
use core::fmt;
use zerocopy::byteorder::network_endian::U32;

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 8 bytes, else BthLength {
        /// Queue key.
        qkey: U32,
        /// Reserved bits and source queue pair.
        source_qp: U32,
    }
}

/// A queue key: a receiver takes only datagrams with its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct QKey(pub u32);

impl QKey {
    /// The key of the general services interface (queue pair 1).
    pub const GSI: Self = Self(0x8001_0000);
}

/// A datagram extended transport header; reserved bits are ignored and sent as zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The receiver's key.
    pub qkey: QKey,
    /// Who sent the datagram.
    pub source_qp: Qpn,
}

impl Repr {
    /// Reads a header.
    pub const fn parse(header: &Header) -> Self {
        Self {
            qkey: QKey(header.qkey.get()),
            source_qp: Qpn::new(header.source_qp.get()),
        }
    }

    /// The header by value.
    pub const fn header(&self) -> Header {
        Header {
            qkey: U32::new(self.qkey.0),
            source_qp: U32::new(self.source_qp.value()),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from qp {} qkey {:#010x}", self.source_qp, self.qkey.0)
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
            qkey: QKey(0x1111_1111),
            source_qp: Qpn::new(0x22),
        };
        let bytes = check_emit(8, |buffer| repr.emit(buffer));
        assert_eq!(bytes, hex("11111111 00000022"));
        assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), repr);
        assert_eq!(repr.to_string(), "from qp 0x000022 qkey 0x11111111");
        let reserved = hex("11111111 ff000022");
        assert_eq!(Repr::parse(Header::split(&reserved).unwrap().0), repr);
        assert_eq!(Header::split(&bytes[..7]), Err(DropReason::BthLength));
    }
}
