//! Agreement to a connection. InfiniBand Architecture Specification volume 1, section 12.6.8.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            local id                           |
//! +---------------------------------------------------------------+
//! |                           remote id                           |
//! +---------------------------------------------------------------+
//! |                             Q_Key                             |
//! +-----------------------------------------------+---------------+
//! |                   queue pair                  |   reserved    |
//! +-----------------------------------------------+---------------+
//! |            end-to-end context (RD)            |   reserved    |
//! +-----------------------------------------------+---------------+
//! |           starting sequence number            |   reserved    |
//! +---------------+---------------+---------+---+-+-----+-+-------+
//! |   resources   |     depth     |ack delay|fov|F| RNR |S| rsvd  |
//! +---------------+---------------+---------+---+-+-----+-+-------+
//! |                        adapter's GUID (8)                     |
//! +---------------------------------------------------------------+
//! |                       private data (196)                      |
//! +---------------------------------------------------------------+
//! ```
//! Resources and depth as in a request. Ack delay: what the sender's acknowledgements may take,
//! 4.096 us times 2 to it. fov: whether the alternate path is taken. F: end-to-end flow control.
//! S: shared receive queue.
//!
//! The starting sequence number is that of the first packet that the *receiver* of this message
//! sends.

use super::{Bits, CommId};
use crate::wire::{Guid, Psn, Qpn};
use core::fmt;
use zerocopy::byteorder::network_endian::{U32, U64};

/// Bytes of private data.
pub const PRIVATE: usize = 196;

wire_header! {
    /// The message as it lies on the wire: any bits.
    Header: 232 bytes, else MadLength {
        /// The sender's name for the connection.
        local_id: U32,
        /// The receiver's name for the connection.
        remote_id: U32,
        /// Queue key; of datagrams.
        qkey: U32,
        /// The sender's queue pair.
        local_qp: U32,
        /// End-to-end context.
        context: U32,
        /// Starting sequence number.
        starting_psn: U32,
        /// Reads and atomics that the sender answers at once.
        responder_resources: u8,
        /// Reads and atomics that the sender has under way.
        initiator_depth: u8,
        /// Delay of acknowledgements, failover and flow control.
        delay: u8,
        /// Retries without a receive, shared receive queue.
        retries: u8,
        /// The sender's adapter.
        adapter: U64,
        /// Private data.
        private: [u8; PRIVATE],
    }
}

/// An agreement to a connection. What only reliable datagrams use is ignored and sent as zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The sender's name for the connection.
    pub local_id: CommId,
    /// The receiver's name for the connection.
    pub remote_id: CommId,
    /// Queue key; of datagrams.
    pub qkey: u32,
    /// The sender's queue pair.
    pub local_qp: Qpn,
    /// The sequence number of the first packet that the receiver of this message sends.
    pub starting_psn: Psn,
    /// Reads and atomics that the sender answers at once.
    pub responder_resources: u8,
    /// Reads and atomics that the sender has under way.
    pub initiator_depth: u8,
    /// What the sender's acknowledgements may take: 4.096 us times 2 to it.
    pub ack_delay: Bits<5>,
    /// What becomes of the alternate path: 0 taken, 1 not supported, 2 refused.
    pub failover: Bits<2>,
    /// The sender takes part in end-to-end flow control.
    pub has_flow_control: bool,
    /// How often the receiver shall repeat packets that find no receive.
    pub rnr_retries: Bits<3>,
    /// The sender's queue pair has a shared receive queue.
    pub has_shared_receives: bool,
    /// The sender's adapter.
    pub adapter: Guid,
    /// Private data.
    pub private: [u8; PRIVATE],
}

impl Repr {
    /// Reads a message; reserved bits are ignored.
    pub const fn parse(header: &Header) -> Self {
        Self {
            local_id: CommId(header.local_id.get()),
            remote_id: CommId(header.remote_id.get()),
            qkey: header.qkey.get(),
            local_qp: Qpn::new(header.local_qp.get() >> 8),
            starting_psn: Psn::new(header.starting_psn.get() >> 8),
            responder_resources: header.responder_resources,
            initiator_depth: header.initiator_depth,
            ack_delay: Bits::of(header.delay, 3),
            failover: Bits::of(header.delay, 1),
            has_flow_control: header.delay & 1 != 0,
            rnr_retries: Bits::of(header.retries, 5),
            has_shared_receives: header.retries & SHARED_RECEIVES != 0,
            adapter: Guid(header.adapter.get()),
            private: header.private,
        }
    }

    /// The message by value.
    pub const fn header(&self) -> Header {
        let shared = if self.has_shared_receives {
            SHARED_RECEIVES
        } else {
            0
        };
        Header {
            local_id: U32::new(self.local_id.0),
            remote_id: U32::new(self.remote_id.0),
            qkey: U32::new(self.qkey),
            local_qp: U32::new(self.local_qp.value() << 8),
            context: U32::ZERO,
            starting_psn: U32::new(self.starting_psn.value() << 8),
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            delay: self.ack_delay.value() << 3
                | self.failover.value() << 1
                | self.has_flow_control as u8,
            retries: self.rnr_retries.value() << 5 | shared,
            adapter: U64::new(self.adapter.0),
            private: self.private,
        }
    }
}

message_body!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} to {} qp {} psn {}",
            self.local_id, self.remote_id, self.local_qp, self.starting_psn
        )
    }
}

const SHARED_RECEIVES: u8 = 0x10;
