//! Answer about another path. InfiniBand Architecture Specification volume 1, section 12.8.2.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            local id                           |
//! +---------------------------------------------------------------+
//! |                           remote id                           |
//! +---------------------------------------------------------------+
//! |  info length  |    status     |           reserved            |
//! +---------------+---------------+-------------------------------+
//! |                     additional information (72)               |
//! +---------------------------------------------------------------+
//! |                       private data (148)                      |
//! +---------------------------------------------------------------+
//! ```
//! Status: 0 taken, 1 unknown connection, 2 not supported, above that refused for a reason.

use super::CommId;
use core::fmt;
use zerocopy::byteorder::network_endian::{U16, U32};

/// Bytes of private data.
pub const PRIVATE: usize = 148;

wire_header! {
    /// The message as it lies on the wire: any bits.
    Header: 232 bytes, else MadLength {
        /// The sender's name for the connection.
        local_id: U32,
        /// The receiver's name for the connection.
        remote_id: U32,
        /// Bytes of additional information.
        information_length: u8,
        /// What becomes of the path.
        status: u8,
        /// Reserved.
        reserved: U16,
        /// Additional information.
        information: [u8; 72],
        /// Private data.
        private: [u8; PRIVATE],
    }
}

/// The status that says that nobody here takes another path.
pub const NOT_SUPPORTED: u8 = 2;

/// An answer about another path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The sender's name for the connection.
    pub local_id: CommId,
    /// The receiver's name for the connection.
    pub remote_id: CommId,
    /// Bytes of additional information.
    pub information_length: u8,
    /// What becomes of the path.
    pub status: u8,
    /// Additional information.
    pub information: [u8; 72],
    /// Private data.
    pub private: [u8; PRIVATE],
}

impl Repr {
    /// Reads a message; reserved bits are ignored.
    pub const fn parse(header: &Header) -> Self {
        Self {
            local_id: CommId(header.local_id.get()),
            remote_id: CommId(header.remote_id.get()),
            information_length: header.information_length,
            status: header.status,
            information: header.information,
            private: header.private,
        }
    }

    /// The message by value.
    pub const fn header(&self) -> Header {
        Header {
            local_id: U32::new(self.local_id.0),
            remote_id: U32::new(self.remote_id.0),
            information_length: self.information_length,
            status: self.status,
            reserved: U16::ZERO,
            information: self.information,
            private: self.private,
        }
    }
}

message_body!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} to {} status {}",
            self.local_id, self.remote_id, self.status
        )
    }
}
