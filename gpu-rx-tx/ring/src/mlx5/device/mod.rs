//! The device half: what a NIC does with the queues, through [`crate::DeviceMemory`] alone.
//!
//! Nothing here trusts the driver: indices are checked against the depth, keys and bounds are
//! checked by the memory, and a WQE that makes no sense is a [`Fault`] with the syndrome that a
//! NIC would report.

mod completion;
mod receive;
mod send;

pub use completion::CompletionQueue;
pub use receive::ReceiveQueue;
pub use send::{Cursor, SendQueue, Wqe};

use crate::cause::Cause;
use crate::device_memory::{Denied, Place};

/// A piece of memory that a WQE names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Where it lies.
    pub place: Place,
    /// Bytes, at least one.
    pub length: u32,
}

/// What a NIC finds wrong with a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Fault {
    /// Memory was not accessible.
    Denied(Denied),
    /// The completion queue is full: the driver did not retire completions.
    CompletionOverrun,
    /// A producer or consumer index that is impossible.
    Index,
    /// A WQE that the queue cannot execute: opcode, index, queue number or segment count.
    Wqe,
}

impl Fault {
    /// The cause that an error completion reports.
    pub const fn cause(self) -> Cause {
        match self {
            Self::Denied(_) => Cause::LocalProtection,
            Self::CompletionOverrun | Self::Index | Self::Wqe => Cause::LocalQpOperation,
        }
    }
}

impl From<Denied> for Fault {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}
