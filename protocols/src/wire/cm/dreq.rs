//! Request for the end of a connection. InfiniBand Architecture Specification volume 1, section
//! 12.6.10.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            local id                           |
//! +---------------------------------------------------------------+
//! |                           remote id                           |
//! +---------------------------------------------------------------+
//! |              receiver's queue pair            |   reserved    |
//! +-----------------------------------------------+---------------+
//! |                       private data (220)                      |
//! +---------------------------------------------------------------+
//! ```

use super::CommId;
use crate::wire::Qpn;
use core::fmt;
use zerocopy::byteorder::network_endian::U32;

/// Bytes of private data.
pub const PRIVATE: usize = 220;

wire_header! {
    /// The message as it lies on the wire: any bits.
    Header: 232 bytes, else MadLength {
        /// The sender's name for the connection.
        local_id: U32,
        /// The receiver's name for the connection.
        remote_id: U32,
        /// The receiver's queue pair.
        remote_qp: U32,
        /// Private data.
        private: [u8; PRIVATE],
    }
}

/// The sender ends the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The sender's name for the connection.
    pub local_id: CommId,
    /// The receiver's name for the connection.
    pub remote_id: CommId,
    /// The receiver's queue pair.
    pub remote_qp: Qpn,
    /// Private data.
    pub private: [u8; PRIVATE],
}

impl Repr {
    /// Reads a message; reserved bits are ignored.
    pub const fn parse(header: &Header) -> Self {
        Self {
            local_id: CommId(header.local_id.get()),
            remote_id: CommId(header.remote_id.get()),
            remote_qp: Qpn::new(header.remote_qp.get() >> 8),
            private: header.private,
        }
    }

    /// The message by value.
    pub const fn header(&self) -> Header {
        Header {
            local_id: U32::new(self.local_id.0),
            remote_id: U32::new(self.remote_id.0),
            remote_qp: U32::new(self.remote_qp.value() << 8),
            private: self.private,
        }
    }
}

message_body!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} to {} qp {}",
            self.local_id, self.remote_id, self.remote_qp
        )
    }
}
