//! What became of requests and receives, as the host is told.

use warpwire_core::messaging::{Arrival, Sent};
use warpwire_ring::Cause;

/// A message that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Its receive.
    pub index: u64,
    /// The queue pair that it came to, by its number.
    pub pair: u32,
    /// Bytes.
    pub length: u32,
    /// Its immediate.
    pub immediate: Option<u32>,
    /// A key of ours that the peer took away.
    pub invalidate: Option<u32>,
    /// Whether the bytes were written to memory that the peer named, not to the receive.
    pub is_write: bool,
    /// Of a datagram: who sent it.
    pub source_qp: u32,
}

impl Message {
    pub(super) fn of(arrival: &Arrival) -> Self {
        Self {
            index: arrival.index,
            pair: arrival.pair,
            length: arrival.length,
            immediate: arrival.immediate,
            invalidate: arrival.invalidate,
            is_write: arrival.is_write,
            source_qp: arrival.source_qp,
        }
    }
}

/// What a completion says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completed {
    /// A send request, and all before it, are done.
    Sent {
        /// Its number.
        index: u64,
    },
    /// A receive was filled.
    Received(Message),
    /// A send request failed.
    SendFailed {
        /// Its number.
        index: u64,
        /// Why.
        cause: Cause,
    },
    /// A receive failed.
    ReceiveFailed {
        /// Its number.
        index: u64,
        /// Why.
        cause: Cause,
    },
}

impl Completed {
    pub(super) const fn of(sent: Sent) -> Self {
        let Sent { index, failed } = sent;
        match failed {
            None => Self::Sent { index },
            Some(cause) => Self::SendFailed { index, cause },
        }
    }

    pub(super) fn of_arrival(arrival: &Arrival) -> Self {
        match arrival.failed {
            None => Self::Received(Message::of(arrival)),
            Some(cause) => Self::ReceiveFailed {
                index: arrival.index,
                cause,
            },
        }
    }
}
