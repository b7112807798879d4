//! Request for a connection. InfiniBand Architecture Specification volume 1, section 12.6.5.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            local id                           |
//! +---------------------------------------------------------------+
//! |                            reserved                           |
//! +---------------------------------------------------------------+
//! |                           service (8)                         |
//! +---------------------------------------------------------------+
//! |                        adapter's GUID (8)                     |
//! +---------------------------------------------------------------+
//! |                            reserved                           |
//! +---------------------------------------------------------------+
//! |                             Q_Key                             |
//! +-----------------------------------------------+---------------+
//! |                   queue pair                  |   resources   |
//! +-----------------------------------------------+---------------+
//! |            end-to-end context (RD)            |     depth     |
//! +-----------------------------------------------+---------+---+-+
//! |        remote end-to-end context (RD)         | rem. TO |svc|F|
//! +-----------------------------------------------+---------+---+-+
//! |           starting sequence number            | loc. TO |retry|
//! +-------------------------------+-------+-+-----+-------+-+-----+
//! |             P_Key             |  MTU  |D| RNR |CM retr|S| ext |
//! +-------------------------------+-------+-+-----+-------+-+-----+
//! |                        primary path (44)                      |
//! +---------------------------------------------------------------+
//! |                       alternate path (44)                     |
//! +---------------------------------------------------------------+
//! |                        private data (92)                      |
//! +---------------------------------------------------------------+
//! ```
//! Resources: reads and atomics that the sender answers at once. Depth: those that it has under
//! way. rem. TO, loc. TO: how long the receiver, the sender takes to answer a message, 4.096 us
//! times 2 to it. svc: the service. F: end-to-end flow control. D: the RD context exists. S:
//! shared receive queue. ext: the service, where svc is 3.
//!
//! The starting sequence number is that of the first packet that the *receiver* of this message
//! sends.

use super::{Bits, CommId, ServiceId, path};
use crate::wire::{Guid, PKey, Psn, Qpn};
use core::fmt;
use zerocopy::byteorder::network_endian::{U16, U32, U64};

/// Bytes of private data.
pub const PRIVATE: usize = 92;

wire_header! {
    /// The message as it lies on the wire: any bits.
    Header: 232 bytes, else MadLength {
        /// The sender's name for the connection.
        local_id: U32,
        /// Reserved.
        reserved: U32,
        /// What is asked for.
        service: U64,
        /// The sender's adapter.
        adapter: U64,
        /// Reserved.
        reserved_2: U32,
        /// Queue key; of datagrams.
        qkey: U32,
        /// The sender's queue pair, and the reads and atomics that it answers at once.
        qp_resources: U32,
        /// End-to-end context, and the reads and atomics that the sender has under way.
        context_depth: U32,
        /// Remote end-to-end context, timeout, service and flow control.
        context_timeout: U32,
        /// Starting sequence number, timeout and retries.
        psn_timeout: U32,
        /// Partition.
        pkey: U16,
        /// MTU, whether the context exists, and retries without a receive.
        mtu: u8,
        /// Retries of messages, shared receive queue, extended service.
        retries: u8,
        /// The path.
        primary: path::Header,
        /// Another path, or zeros.
        alternate: path::Header,
        /// Private data.
        private: [u8; PRIVATE],
    }
}

/// A service between connected queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Transport {
    /// Reliable connection.
    #[default]
    Reliable = 0,
    /// Unreliable connection.
    Unreliable = 1,
    /// Reliable datagram.
    Datagram = 2,
    /// What the extended field says.
    Extended = 3,
}

/// A request for a connection. What only reliable datagrams use is ignored and sent as zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The sender's name for the connection.
    pub local_id: CommId,
    /// What is asked for.
    pub service: ServiceId,
    /// The sender's adapter.
    pub adapter: Guid,
    /// Queue key; of datagrams.
    pub qkey: u32,
    /// The sender's queue pair.
    pub local_qp: Qpn,
    /// Reads and atomics that the sender answers at once.
    pub responder_resources: u8,
    /// Reads and atomics that the sender has under way.
    pub initiator_depth: u8,
    /// How long the receiver may take to answer a message: 4.096 us times 2 to it.
    pub remote_timeout: Bits<5>,
    /// The service.
    pub transport: Transport,
    /// The sender takes part in end-to-end flow control.
    pub has_flow_control: bool,
    /// The sequence number of the first packet that the receiver of this message sends.
    pub starting_psn: Psn,
    /// How long the sender takes to answer a message: 4.096 us times 2 to it.
    pub local_timeout: Bits<5>,
    /// How often the receiver shall repeat packets.
    pub retries: Bits<3>,
    /// Partition.
    pub pkey: PKey,
    /// Path MTU, coded: 1 to 5 for 256 to 4096 bytes.
    pub mtu: Bits<4>,
    /// How often the receiver shall repeat packets that find no receive.
    pub rnr_retries: Bits<3>,
    /// How often messages are repeated.
    pub max_cm_retries: Bits<4>,
    /// The sender's queue pair has a shared receive queue.
    pub has_shared_receives: bool,
    /// The service, where [`Transport::Extended`].
    pub extended_transport: Bits<3>,
    /// The path.
    pub primary: path::Repr,
    /// Another path, or zeros.
    pub alternate: path::Repr,
    /// Private data.
    pub private: [u8; PRIVATE],
}

impl Repr {
    /// Reads a message; reserved bits are ignored.
    pub const fn parse(header: &Header) -> Self {
        let qp = header.qp_resources.get();
        let timeout = header.context_timeout.get() as u8;
        let psn = header.psn_timeout.get();
        Self {
            local_id: CommId(header.local_id.get()),
            service: ServiceId(header.service.get()),
            adapter: Guid(header.adapter.get()),
            qkey: header.qkey.get(),
            local_qp: Qpn::new(qp >> 8),
            responder_resources: qp as u8,
            initiator_depth: header.context_depth.get() as u8,
            remote_timeout: Bits::of(timeout, 3),
            transport: match timeout >> 1 & 3 {
                0 => Transport::Reliable,
                1 => Transport::Unreliable,
                2 => Transport::Datagram,
                _ => Transport::Extended,
            },
            has_flow_control: timeout & 1 != 0,
            starting_psn: Psn::new(psn >> 8),
            local_timeout: Bits::of(psn as u8, 3),
            retries: Bits::of(psn as u8, 0),
            pkey: PKey(header.pkey.get()),
            mtu: Bits::of(header.mtu, 4),
            rnr_retries: Bits::of(header.mtu, 0),
            max_cm_retries: Bits::of(header.retries, 4),
            has_shared_receives: header.retries & SHARED_RECEIVES != 0,
            extended_transport: Bits::of(header.retries, 0),
            primary: path::Repr::parse(&header.primary),
            alternate: path::Repr::parse(&header.alternate),
            private: header.private,
        }
    }

    /// The message by value.
    pub const fn header(&self) -> Header {
        let timeout = self.remote_timeout.value() << 3
            | (self.transport as u8) << 1
            | self.has_flow_control as u8;
        let local = self.local_timeout.value() << 3 | self.retries.value();
        let shared = if self.has_shared_receives {
            SHARED_RECEIVES
        } else {
            0
        };
        Header {
            local_id: U32::new(self.local_id.0),
            reserved: U32::ZERO,
            service: U64::new(self.service.0),
            adapter: U64::new(self.adapter.0),
            reserved_2: U32::ZERO,
            qkey: U32::new(self.qkey),
            qp_resources: U32::new(self.local_qp.value() << 8 | self.responder_resources as u32),
            context_depth: U32::new(self.initiator_depth as u32),
            context_timeout: U32::new(timeout as u32),
            psn_timeout: U32::new(self.starting_psn.value() << 8 | local as u32),
            pkey: U16::new(self.pkey.0),
            mtu: self.mtu.value() << 4 | self.rnr_retries.value(),
            retries: self.max_cm_retries.value() << 4 | shared | self.extended_transport.value(),
            primary: self.primary.header(),
            alternate: self.alternate.header(),
            private: self.private,
        }
    }
}

message_body!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            local_id,
            service,
            local_qp,
            starting_psn,
            primary,
            ..
        } = self;
        write!(
            f,
            "{local_id} for {service} qp {local_qp} psn {starting_psn} {primary}"
        )
    }
}

const SHARED_RECEIVES: u8 = 0x08;
