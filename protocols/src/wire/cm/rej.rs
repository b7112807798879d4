//! Refusal of a connection. InfiniBand Architecture Specification volume 1, section 12.6.7.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            local id                           |
//! +---------------------------------------------------------------+
//! |                           remote id                           |
//! +---------------------------------------------------------------+
//! |msg| reserved  | ARI length  |r|            reason             |
//! +---+-----------+-------------+-+-------------------------------+
//! |                     additional information (72)               |
//! +---------------------------------------------------------------+
//! |                       private data (148)                      |
//! +---------------------------------------------------------------+
//! ```
//! msg: the message that is refused: 0 a request, 1 an agreement, 2 none in particular. ARI
//! length: bytes of additional reject information, 7 bits.

use super::{Bits, CommId};
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
        /// The message that is refused.
        message: u8,
        /// Bytes of additional information, in the upper seven bits.
        information_length: u8,
        /// Why.
        reason: U16,
        /// Additional information.
        information: [u8; 72],
        /// Private data.
        private: [u8; PRIVATE],
    }
}

/// A refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The sender's name for the connection.
    pub local_id: CommId,
    /// The receiver's name for the connection.
    pub remote_id: CommId,
    /// The message that is refused: 0 a request, 1 an agreement, 2 none in particular.
    pub message: Bits<2>,
    /// Bytes of additional information.
    pub information_length: Bits<7>,
    /// Why.
    pub reason: Reason,
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
            message: Bits::of(header.message, 6),
            information_length: Bits::of(header.information_length, 1),
            reason: Reason(header.reason.get()),
            information: header.information,
            private: header.private,
        }
    }

    /// The message by value.
    pub const fn header(&self) -> Header {
        Header {
            local_id: U32::new(self.local_id.0),
            remote_id: U32::new(self.remote_id.0),
            message: self.message.value() << 6,
            information_length: self.information_length.value() << 1,
            reason: U16::new(self.reason.0),
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
            "{} to {}: {}",
            self.local_id, self.remote_id, self.reason
        )
    }
}

/// Declares the reasons, their values and explanations from one table.
macro_rules! reasons {
    ($($name:ident $value:literal $explanation:literal;)*) => {
        impl Reason {
            $(#[doc = $explanation] pub const $name: Self = Self($value);)*

            /// A few words; none for a value that the specification does not have.
            pub const fn explanation(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($explanation),)*
                    _ => None,
                }
            }
        }
    };
}

/// Why a connection is refused. Values that the specification does not name are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct Reason(pub u16);

reasons! {
    NO_QUEUE_PAIR 1 "no queue pair available";
    NO_CONTEXT 2 "no end-to-end context available";
    NO_RESOURCES 3 "no resources available";
    TIMEOUT 4 "timeout";
    UNSUPPORTED_REQUEST 5 "unsupported request";
    INVALID_COMM_ID 6 "invalid communication id";
    INVALID_COMM_INSTANCE 7 "invalid communication instance";
    INVALID_SERVICE_ID 8 "invalid service id";
    INVALID_TRANSPORT 9 "invalid transport service type";
    STALE_CONNECTION 10 "stale connection";
    NO_SUCH_CONTEXT 11 "the end-to-end context does not exist";
    INVALID_GID 12 "primary remote GID rejected";
    INVALID_LID 13 "primary remote LID rejected";
    INVALID_SERVICE_LEVEL 14 "invalid primary service level";
    INVALID_TRAFFIC_CLASS 15 "invalid primary traffic class";
    INVALID_HOP_LIMIT 16 "invalid primary hop limit";
    INVALID_PACKET_RATE 17 "invalid primary packet rate";
    INVALID_ALTERNATE_GID 18 "alternate remote GID rejected";
    INVALID_ALTERNATE_LID 19 "alternate remote LID rejected";
    INVALID_ALTERNATE_SERVICE_LEVEL 20 "invalid alternate service level";
    INVALID_ALTERNATE_TRAFFIC_CLASS 21 "invalid alternate traffic class";
    INVALID_ALTERNATE_HOP_LIMIT 22 "invalid alternate hop limit";
    INVALID_ALTERNATE_PACKET_RATE 23 "invalid alternate packet rate";
    REDIRECT 24 "port and queue pair redirection";
    PORT_REDIRECT 25 "port redirection";
    INVALID_MTU 26 "invalid path MTU";
    INSUFFICIENT_RESPONDER_RESOURCES 27 "insufficient responder resources";
    CONSUMER 28 "rejected by the user";
    INVALID_RNR_RETRIES 29 "RNR retry count rejected";
    DUPLICATE_COMM_ID 30 "duplicate local communication id";
    INVALID_CLASS_VERSION 31 "unsupported class version";
    INVALID_FLOW_LABEL 32 "invalid primary flow label";
    INVALID_ALTERNATE_FLOW_LABEL 33 "invalid alternate flow label";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let explanation = self.explanation().unwrap_or("reason unknown");
        write!(f, "{explanation} ({})", self.0)
    }
}
