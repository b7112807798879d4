//! Answer with the queue pair of a datagram service. InfiniBand Architecture Specification volume
//! 1, section 12.11.2.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            request                            |
//! +---------------+---------------+-------------------------------+
//! |    status     |  info length  |           reserved            |
//! +---------------+---------------+---------------+---------------+
//! |                   queue pair                  |   reserved    |
//! +-----------------------------------------------+---------------+
//! |                           service (8)                         |
//! +---------------------------------------------------------------+
//! |                             Q_Key                             |
//! +---------------------------------------------------------------+
//! |                     additional information (72)               |
//! +---------------------------------------------------------------+
//! |                       private data (136)                      |
//! +---------------------------------------------------------------+
//! ```

use super::{CommId, ServiceId};
use crate::wire::Qpn;
use core::fmt;
use zerocopy::byteorder::network_endian::{U16, U32, U64};

/// Bytes of private data.
pub const PRIVATE: usize = 136;

wire_header! {
    /// The message as it lies on the wire: any bits.
    Header: 232 bytes, else MadLength {
        /// The receiver's name for the request.
        request: U32,
        /// What became of it.
        status: u8,
        /// Bytes of additional information.
        information_length: u8,
        /// Reserved.
        reserved: U16,
        /// The queue pair.
        qp: U32,
        /// What was asked for.
        service: U64,
        /// The queue pair's key.
        qkey: U32,
        /// Additional information.
        information: [u8; 72],
        /// Private data.
        private: [u8; PRIVATE],
    }
}

/// What became of a request. Values that the specification does not name are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct Status(pub u8);

impl Status {
    /// There is a queue pair.
    pub const SUCCESS: Self = Self(0);
    /// Nobody offers the service.
    pub const UNSUPPORTED_SERVICE: Self = Self(1);
    /// Who offers it refused.
    pub const REJECTED: Self = Self(2);
    /// There is no queue pair.
    pub const NO_QUEUE_PAIR: Self = Self(3);
    /// Somebody else has it; additional information says who.
    pub const REDIRECT: Self = Self(4);
    /// The version of the request is not supported.
    pub const UNSUPPORTED_VERSION: Self = Self(5);
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let explanation = match *self {
            Self::SUCCESS => "success",
            Self::UNSUPPORTED_SERVICE => "service not supported",
            Self::REJECTED => "rejected by the user",
            Self::NO_QUEUE_PAIR => "no queue pair available",
            Self::REDIRECT => "somebody else has it",
            Self::UNSUPPORTED_VERSION => "version not supported",
            _ => "status unknown",
        };
        write!(f, "{explanation} ({})", self.0)
    }
}

/// An answer with the queue pair of a datagram service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The receiver's name for the request.
    pub request: CommId,
    /// What became of it.
    pub status: Status,
    /// Bytes of additional information.
    pub information_length: u8,
    /// The queue pair.
    pub qp: Qpn,
    /// What was asked for.
    pub service: ServiceId,
    /// The queue pair's key.
    pub qkey: u32,
    /// Additional information.
    pub information: [u8; 72],
    /// Private data.
    pub private: [u8; PRIVATE],
}

impl Repr {
    /// An answer that names no queue pair.
    pub const fn none(request: CommId, service: ServiceId, status: Status) -> Self {
        Self {
            request,
            status,
            information_length: 0,
            qp: Qpn::new(0),
            service,
            qkey: 0,
            information: [0; 72],
            private: [0; PRIVATE],
        }
    }

    /// Reads a message; reserved bits are ignored.
    pub const fn parse(header: &Header) -> Self {
        Self {
            request: CommId(header.request.get()),
            status: Status(header.status),
            information_length: header.information_length,
            qp: Qpn::new(header.qp.get() >> 8),
            service: ServiceId(header.service.get()),
            qkey: header.qkey.get(),
            information: header.information,
            private: header.private,
        }
    }

    /// The message by value.
    pub const fn header(&self) -> Header {
        Header {
            request: U32::new(self.request.0),
            status: self.status.0,
            information_length: self.information_length,
            reserved: U16::ZERO,
            qp: U32::new(self.qp.value() << 8),
            service: U64::new(self.service.0),
            qkey: U32::new(self.qkey),
            information: self.information,
            private: self.private,
        }
    }
}

message_body!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.request, self.status)?;
        if self.status == Status::SUCCESS {
            write!(f, " qp {} qkey {:#010x}", self.qp, self.qkey)?;
        }
        Ok(())
    }
}
