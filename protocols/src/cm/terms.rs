//! What is asked for, what is granted, and what both agreed on.

use crate::wire::cm::req::{self, Transport};
use crate::wire::cm::{Bits, PortSpace, ServiceId, ip, path, rep, sidr_rep, sidr_req};
use crate::wire::{FlowLabel, Gid, PKey, Psn, Qpn, TrafficClass};

/// What a connection agreed on, as one end sees it: what its queue pair needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The service: [`Transport::Reliable`] or [`Transport::Unreliable`].
    pub transport: Transport,
    /// Our address.
    pub here: Gid,
    /// The peer's address.
    pub there: Gid,
    /// The peer's queue pair.
    pub remote_qp: Qpn,
    /// The sequence number of our first packet.
    pub send_psn: Psn,
    /// The sequence number of the peer's first packet.
    pub receive_psn: Psn,
    /// Path MTU, coded: 1 to 5 for 256 to 4096 bytes.
    pub mtu: Bits<4>,
    /// After 4.096 us times 2 to it, what nobody acknowledged is repeated.
    pub ack_timeout: Bits<5>,
    /// How often.
    pub retries: Bits<3>,
    /// How often a packet is repeated that finds no receive; 7 for ever.
    pub rnr_retries: Bits<3>,
    /// Reads and atomics that we may have under way.
    pub reads: u8,
    /// Reads and atomics that the peer may have under way.
    pub reads_served: u8,
    /// Partition.
    pub pkey: PKey,
    /// Traffic class of the path.
    pub traffic_class: TrafficClass,
    /// Hop limit of the path.
    pub hop_limit: u8,
    /// Flow label of the path.
    pub flow_label: FlowLabel,
}

/// A wish for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask<'a> {
    /// What is asked for.
    pub service: ServiceId,
    /// Our port, if the service is asked for by IP addresses: they are told then.
    pub source_port: Option<u16>,
    /// The service between the queue pairs.
    pub transport: Transport,
    /// Our address.
    pub here: Gid,
    /// The peer's address.
    pub there: Gid,
    /// Our queue pair.
    pub local_qp: Qpn,
    /// The sequence number of the peer's first packet. Random.
    pub receive_psn: Psn,
    /// Reads and atomics that we answer at once.
    pub responder_resources: u8,
    /// Reads and atomics that we have under way.
    pub initiator_depth: u8,
    /// Path MTU, coded: 1 to 5.
    pub mtu: Bits<4>,
    /// After 4.096 us times 2 to it, what nobody acknowledged is repeated.
    pub ack_timeout: Bits<5>,
    /// How often.
    pub retries: Bits<3>,
    /// How often the peer repeats a packet that finds no receive here; 7 for ever.
    pub rnr_retries: Bits<3>,
    /// Our queue pair has a shared receive queue.
    pub has_shared_receives: bool,
    /// Traffic class of the path.
    pub traffic_class: TrafficClass,
    /// Hop limit of the path: not 0.
    pub hop_limit: u8,
    /// Flow label of the path.
    pub flow_label: FlowLabel,
    /// What the messages that we begin are called. Random.
    pub transaction: u64,
    /// For the user at the other end: at most 92 bytes, or 56 behind IP addresses.
    pub private: &'a [u8],
}

/// What is granted to who asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant<'a> {
    /// Our queue pair.
    pub local_qp: Qpn,
    /// The sequence number of the peer's first packet. Random.
    pub receive_psn: Psn,
    /// Reads and atomics that we answer at once; no more are granted than were asked for.
    pub responder_resources: u8,
    /// Reads and atomics that we have under way; no more than the peer answers.
    pub initiator_depth: u8,
    /// What our acknowledgements may take: 4.096 us times 2 to it.
    pub ack_delay: Bits<5>,
    /// How often the peer repeats a packet that finds no receive here; 7 for ever.
    pub rnr_retries: Bits<3>,
    /// Our queue pair has a shared receive queue.
    pub has_shared_receives: bool,
    /// What the messages that we begin are called. Random.
    pub transaction: u64,
    /// For the user at the other end: at most 196 bytes.
    pub private: &'a [u8],
}

/// A wish to know the queue pair of a datagram service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramAsk<'a> {
    /// What is asked for.
    pub service: ServiceId,
    /// Our port, if the service is asked for by IP addresses: they are told then.
    pub source_port: Option<u16>,
    /// Our address.
    pub here: Gid,
    /// The peer's address.
    pub there: Gid,
    /// Traffic class of the path.
    pub traffic_class: TrafficClass,
    /// Hop limit of the path.
    pub hop_limit: u8,
    /// What the message is called. Random.
    pub transaction: u64,
    /// For the user at the other end: at most 216 bytes, or 180 behind IP addresses.
    pub private: &'a [u8],
}

/// The answer to who asked for the queue pair of a datagram service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramAnswer<'a> {
    /// Whether there is one.
    pub status: sidr_rep::Status,
    /// The queue pair.
    pub qp: Qpn,
    /// Its key.
    pub qkey: u32,
    /// For the user at the other end: at most 136 bytes.
    pub private: &'a [u8],
}

impl Terms {
    /// What a request offers to who got it. What only the answer tells is not there yet.
    pub(super) fn offered(request: &req::Repr) -> Self {
        Self {
            transport: request.transport,
            here: request.primary.remote_gid,
            there: request.primary.local_gid,
            remote_qp: request.local_qp,
            send_psn: request.starting_psn,
            receive_psn: Psn::new(0),
            mtu: request.mtu,
            ack_timeout: request.primary.ack_timeout,
            retries: request.retries,
            rnr_retries: request.rnr_retries,
            reads: request.responder_resources,
            reads_served: request.initiator_depth,
            pkey: request.pkey,
            traffic_class: request.primary.traffic_class,
            hop_limit: request.primary.hop_limit,
            flow_label: request.primary.flow_label,
        }
    }

    /// What is asked for, as who asks sees it. What only the answer tells is not there yet.
    pub(super) fn asked(ask: &Ask<'_>, pkey: PKey) -> Self {
        Self {
            transport: ask.transport,
            here: ask.here,
            there: ask.there,
            remote_qp: Qpn::new(0),
            send_psn: Psn::new(0),
            receive_psn: ask.receive_psn,
            mtu: ask.mtu,
            ack_timeout: ask.ack_timeout,
            retries: ask.retries,
            rnr_retries: ask.rnr_retries,
            reads: ask.initiator_depth,
            reads_served: ask.responder_resources,
            pkey,
            traffic_class: ask.traffic_class,
            hop_limit: ask.hop_limit,
            flow_label: ask.flow_label,
        }
    }

    /// What an agreement adds to what was asked for.
    pub(super) fn agreed(self, reply: &rep::Repr) -> Self {
        Self {
            remote_qp: reply.local_qp,
            send_psn: reply.starting_psn,
            rnr_retries: reply.rnr_retries,
            reads: self.reads.min(reply.responder_resources),
            reads_served: self.reads_served.min(reply.initiator_depth),
            ..self
        }
    }

    /// What a grant adds to what was offered.
    pub(super) fn granted(self, grant: &Grant<'_>) -> Self {
        Self {
            receive_psn: grant.receive_psn,
            reads: self.reads.min(grant.initiator_depth),
            reads_served: self.reads_served.min(grant.responder_resources),
            ..self
        }
    }

    /// The path, as who asks describes it.
    pub(super) fn path(&self) -> path::Repr {
        path::Repr {
            local_lid: path::NO_LID,
            remote_lid: path::NO_LID,
            local_gid: self.here,
            remote_gid: self.there,
            flow_label: self.flow_label,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            ack_timeout: self.ack_timeout,
            ..path::Repr::default()
        }
    }
}

/// Lays private data out: behind IP addresses if there is a port. `None` if it does not fit, or the
/// addresses are of different families.
pub(super) fn private<const N: usize>(
    bytes: &[u8],
    source_port: Option<u16>,
    here: Gid,
    there: Gid,
) -> Option<[u8; N]> {
    let mut all = [0; N];
    let mut rest = all.as_mut_slice();
    if let Some(source_port) = source_port {
        let addresses = ip::Addresses::new(here.address(), there.address())?;
        let header = ip::Repr {
            source_port,
            addresses,
        };
        let length = header.emit(rest).ok()?;
        rest = rest.get_mut(length..)?;
    }
    rest.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(all)
}

/// The IP addresses that private data begins with, if the service is one at a port.
pub(super) fn addresses(service: ServiceId, space: PortSpace, private: &[u8]) -> Option<ip::Repr> {
    match service.port() {
        Some((found, _)) if found == space => {
            let (header, _) = ip::Header::split(private).ok()?;
            ip::Repr::parse(header).ok()
        }
        _ => None,
    }
}

const _: () = assert!(sidr_req::PRIVATE > ip::Header::LENGTH && req::PRIVATE > ip::Header::LENGTH);
