//! Acknowledgement of a message that takes time. InfiniBand Architecture Specification volume 1,
//! section 12.6.6.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            local id                           |
//! +---------------------------------------------------------------+
//! |                           remote id                           |
//! +---------------------------------------------------------------+
//! |msg| reserved  | timeout |rsvd |                               |
//! +---+-----------+---------+-----+                               |
//! |                       private data (222)                      |
//! +---------------------------------------------------------------+
//! ```
//! msg: the message that is acknowledged: 0 a request, 1 an agreement, 2 a proposal. Timeout: how
//! long its answer may take from now on, 4.096 us times 2 to it.

use super::{Bits, CommId};
use core::fmt;
use zerocopy::byteorder::network_endian::U32;

/// Bytes of private data.
pub const PRIVATE: usize = 222;

wire_header! {
    /// The message as it lies on the wire: any bits.
    Header: 232 bytes, else MadLength {
        /// The sender's name for the connection.
        local_id: U32,
        /// The receiver's name for the connection.
        remote_id: U32,
        /// The message that is acknowledged.
        message: u8,
        /// Timeout.
        timeout: u8,
        /// Private data.
        private: [u8; PRIVATE],
    }
}

/// The answer to a message takes longer than was agreed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The sender's name for the connection.
    pub local_id: CommId,
    /// The receiver's name for the connection.
    pub remote_id: CommId,
    /// The message that is acknowledged: 0 a request, 1 an agreement, 2 a proposal.
    pub message: Bits<2>,
    /// How long its answer may take from now on: 4.096 us times 2 to it.
    pub timeout: Bits<5>,
    /// Private data.
    pub private: [u8; PRIVATE],
}

impl Repr {
    /// Reads a message; reserved bits are ignored.
    pub const fn parse(header: &Header) -> Self {
        Self {
            local_id: CommId(header.local_id.get()),
            remote_id: CommId(header.remote_id.get()),
            message: Bits::of(header.message, 6),
            timeout: Bits::of(header.timeout, 3),
            private: header.private,
        }
    }

    /// The message by value.
    pub const fn header(&self) -> Header {
        Header {
            local_id: U32::new(self.local_id.0),
            remote_id: U32::new(self.remote_id.0),
            message: self.message.value() << 6,
            timeout: self.timeout.value() << 3,
            private: self.private,
        }
    }
}

message_body!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} to {} timeout {}",
            self.local_id, self.remote_id, self.timeout
        )
    }
}
