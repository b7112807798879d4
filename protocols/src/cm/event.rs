//! What a table tells.

use super::table::Handle;
use super::terms::Terms;
use crate::DropReason;
use crate::wire::cm::rej::{self, Reason};
use crate::wire::cm::{Datagram, ServiceId, ip, rep, req, rtu, sidr_rep, sidr_req};
use crate::wire::{FlowLabel, Gid, Qpn, TrafficClass};
use core::fmt;

/// What happened to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Somebody asks for a connection: accept or reject.
    Asked(Asked),
    /// The peer agrees: make the queue pair ready to send, then say so.
    Agreed(Agreed),
    /// The peer is ready to send, and so may we be. With the private data of its message.
    Established([u8; rtu::PRIVATE]),
    /// Somebody asks for the queue pair of a datagram service: answer.
    AskedDatagram(AskedDatagram),
    /// The queue pair of a datagram service. The handle means nothing any more.
    Resolved(Resolved),
    /// It is over. The handle means nothing any more.
    Ended(Cause),
}

/// A request that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// What is asked for.
    pub service: ServiceId,
    /// The addresses, if the service is one at a port.
    pub addresses: Option<ip::Repr>,
    /// What is offered. Sequence number of the peer's first packet, and how many reads are served,
    /// are for the answer to say.
    pub terms: Terms,
    /// Private data, IP addresses included.
    pub private: [u8; req::PRIVATE],
}

/// An agreement that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// What both agreed on.
    pub terms: Terms,
    /// Private data.
    pub private: [u8; rep::PRIVATE],
}

/// A request for the queue pair of a datagram service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskedDatagram {
    /// What is asked for.
    pub service: ServiceId,
    /// Our address.
    pub here: Gid,
    /// The address of who asks.
    pub there: Gid,
    /// The addresses, if the service is one at a port.
    pub addresses: Option<ip::Repr>,
    /// Private data, IP addresses included.
    pub private: [u8; sidr_req::PRIVATE],
}

/// The queue pair of a datagram service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// The queue pair.
    pub qp: Qpn,
    /// Its key.
    pub qkey: u32,
    /// Private data.
    pub private: [u8; sidr_rep::PRIVATE],
}

/// Why it is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The peer refused, or ended what it had begun.
    Rejected {
        /// Why.
        reason: Reason,
        /// Private data.
        private: [u8; rej::PRIVATE],
    },
    /// The peer has no such datagram service, or does not offer it to us.
    Refused(sidr_rep::Status),
    /// The peer did not answer, however often it was asked.
    NoAnswer,
    /// Our user took too long to answer.
    Patience,
    /// The peer ended the connection.
    PeerLeft,
    /// We ended the connection; whether the peer agreed.
    Left {
        /// The peer said so.
        is_heard: bool,
    },
    /// The peer has forgotten the connection: it asks for another from the same queue pair.
    Stale,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected { reason, .. } => write!(f, "the peer rejected: {reason}"),
            Self::Refused(status) => write!(f, "the peer refused: {status}"),
            Self::NoAnswer => f.write_str("the peer did not answer"),
            Self::Patience => f.write_str("our user did not answer in time"),
            Self::PeerLeft => f.write_str("the peer ended the connection"),
            Self::Left { is_heard: true } => f.write_str("we ended the connection"),
            Self::Left { is_heard: false } => {
                f.write_str("we ended the connection, and the peer did not answer")
            }
            Self::Stale => f.write_str("the peer has forgotten the connection"),
        }
    }
}

/// Why a datagram changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Note {
    /// It is none of connection management.
    Malformed(DropReason),
    /// It names no connection that is there.
    Unknown,
    /// It does not come from the connection's peer.
    WrongPeer,
    /// It came before.
    Duplicate,
    /// It does not fit the connection's state.
    Unexpected,
    /// It was refused for what it says.
    Refused(Reason),
}

/// What came of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reaction {
    /// What happened to which connection.
    pub event: Option<(Handle, Event)>,
    /// What to send at once.
    pub answer: Option<Transmit>,
    /// Why nothing changed.
    pub note: Option<Note>,
}

impl Reaction {
    pub(super) fn event(handle: Handle, event: Event) -> Self {
        Self {
            event: Some((handle, event)),
            ..Self::default()
        }
    }

    pub(super) fn note(note: Note) -> Self {
        Self {
            note: Some(note),
            ..Self::default()
        }
    }

    pub(super) fn answer(self, answer: Transmit) -> Self {
        Self {
            answer: Some(answer),
            ..self
        }
    }
}

/// A datagram to send: from queue pair 1 to queue pair 1, with their well-known key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Our address.
    pub here: Gid,
    /// The peer's address.
    pub there: Gid,
    /// Traffic class.
    pub traffic_class: TrafficClass,
    /// Hop limit.
    pub hop_limit: u8,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// What to say.
    pub datagram: Datagram,
}
