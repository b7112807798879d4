//! Request for the queue pair of a datagram service. InfiniBand Architecture Specification volume
//! 1, section 12.11.1.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            request                            |
//! +-------------------------------+-------------------------------+
//! |             P_Key             |           reserved            |
//! +-------------------------------+-------------------------------+
//! |                           service (8)                         |
//! +---------------------------------------------------------------+
//! |                       private data (216)                      |
//! +---------------------------------------------------------------+
//! ```

use super::{CommId, ServiceId};
use crate::wire::PKey;
use core::fmt;
use zerocopy::byteorder::network_endian::{U16, U32, U64};

/// Bytes of private data.
pub const PRIVATE: usize = 216;

wire_header! {
    /// The message as it lies on the wire: any bits.
    Header: 232 bytes, else MadLength {
        /// The sender's name for the request.
        request: U32,
        /// Partition.
        pkey: U16,
        /// Reserved.
        reserved: U16,
        /// What is asked for.
        service: U64,
        /// Private data.
        private: [u8; PRIVATE],
    }
}

/// A request for the queue pair of a datagram service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The sender's name for the request.
    pub request: CommId,
    /// Partition.
    pub pkey: PKey,
    /// What is asked for.
    pub service: ServiceId,
    /// Private data.
    pub private: [u8; PRIVATE],
}

impl Repr {
    /// Reads a message; reserved bits are ignored.
    pub const fn parse(header: &Header) -> Self {
        Self {
            request: CommId(header.request.get()),
            pkey: PKey(header.pkey.get()),
            service: ServiceId(header.service.get()),
            private: header.private,
        }
    }

    /// The message by value.
    pub const fn header(&self) -> Header {
        Header {
            request: U32::new(self.request.0),
            pkey: U16::new(self.pkey.0),
            reserved: U16::ZERO,
            service: U64::new(self.service.0),
            private: self.private,
        }
    }
}

message_body!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.request, self.service)
    }
}
