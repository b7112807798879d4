//! Agreement to the end of a connection. InfiniBand Architecture Specification volume 1, section
//! 12.6.11.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            local id                           |
//! +---------------------------------------------------------------+
//! |                           remote id                           |
//! +---------------------------------------------------------------+
//! |                       private data (224)                      |
//! +---------------------------------------------------------------+
//! ```

use super::CommId;
use core::fmt;
use zerocopy::byteorder::network_endian::U32;

/// Bytes of private data.
pub const PRIVATE: usize = 224;

wire_header! {
    /// The message as it lies on the wire: any bits.
    Header: 232 bytes, else MadLength {
        /// The sender's name for the connection.
        local_id: U32,
        /// The receiver's name for the connection.
        remote_id: U32,
        /// Private data.
        private: [u8; PRIVATE],
    }
}

/// The sender ends the connection as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The sender's name for the connection.
    pub local_id: CommId,
    /// The receiver's name for the connection.
    pub remote_id: CommId,
    /// Private data.
    pub private: [u8; PRIVATE],
}

impl Repr {
    /// Reads a message; reserved bits are ignored.
    pub const fn parse(header: &Header) -> Self {
        Self {
            local_id: CommId(header.local_id.get()),
            remote_id: CommId(header.remote_id.get()),
            private: header.private,
        }
    }

    /// The message by value.
    pub const fn header(&self) -> Header {
        Header {
            local_id: U32::new(self.local_id.0),
            remote_id: U32::new(self.remote_id.0),
            private: self.private,
        }
    }
}

message_body!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.local_id, self.remote_id)
    }
}
