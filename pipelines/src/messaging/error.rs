//! What can go wrong with messages on the host's side, split by blame.

use warpwire_gpu::arena::ArenaError;
use warpwire_gpu::executor;
use warpwire_protocols::rdma::{State, Status};
use warpwire_ring::Cause;

/// Why something of an endpoint could not be had or done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // The caller.
    /// A setting is out of range.
    #[error("endpoint setting `{field}` is {value}; it must be {must}")]
    Setting {
        /// The field.
        field: &'static str,
        /// What it was.
        value: u64,
        /// What it accepts.
        must: &'static str,
    },
    /// The queues would take more than half of what is left of the machine's memory.
    #[error(
        "queues of {need} MiB are too much for a machine that has {have} MiB left; ask for fewer \
         queue pairs, or shallower queues"
    )]
    TooMuch {
        /// MiB that the endpoint takes.
        need: u64,
        /// MiB that are left.
        have: u64,
    },
    /// All queue pairs are in use.
    #[error("all {most} queue pairs of the endpoint are in use; raise `pairs`")]
    Pairs {
        /// How many there are.
        most: u32,
    },
    /// No NIC for messages to hosts whose addresses the kernel serves.
    #[error(
        "NIC `{nic}`: the kernel must serve the interface beside us; write xdp:INTERFACE, or \
         soft,uplink=xdp:INTERFACE"
    )]
    Kind {
        /// Its words.
        nic: String,
    },
    /// It cannot be said where to wait for peers.
    #[error("{problem}; {cure}")]
    Address {
        /// What is wrong.
        problem: String,
        /// What helps.
        cure: String,
    },
    /// There is no queue pair 1, or it is taken.
    #[error("queue pair 1 is not to be had; set `management`, and manage connections once")]
    Management,
    /// All receive queues for sharing are in use.
    #[error("all {most} shared receive queues of the endpoint are in use; raise `shared`")]
    Shared {
        /// How many there are.
        most: u32,
    },
    /// All regions are in use.
    #[error("all {most} regions of the endpoint are in use; raise `regions`")]
    Regions {
        /// How many there are.
        most: u32,
    },
    /// Memory that the engine cannot reach.
    #[error(
        "{length} bytes at {address:#x} lie in no arena that the endpoint was given; name it in \
         `memory`"
    )]
    OutOfReach {
        /// First byte.
        address: u64,
        /// Bytes.
        length: u64,
    },
    /// A move of a queue pair that the specification does not have.
    #[error("queue pair {number:#x} cannot go to {to:?} from where it stands")]
    Move {
        /// Its number.
        number: u32,
        /// Where it was to go.
        to: State,
    },
    /// Packets do not fit the NIC's slots.
    #[error(
        "queue pair {number:#x}: packets of MTU {mtu} do not fit the NIC's transmit slots; choose \
         a smaller MTU, or larger slots"
    )]
    Mtu {
        /// Its number.
        number: u32,
        /// The MTU, in bytes.
        mtu: u32,
    },
    /// A request could not be posted.
    #[error("queue pair {number:#x}: the request cannot be posted: {cause}")]
    Post {
        /// Its number.
        number: u32,
        /// Why.
        cause: Cause,
    },

    // The peer, or the way to it.
    /// A request or the queue pair failed.
    #[error("queue pair {number:#x} failed: {status}")]
    Failed {
        /// Its number.
        number: u32,
        /// How.
        status: Status,
    },

    /// A wait ended without what it was for.
    #[error("queue pair {number:#x}: the wait for {what} ended: {cause}")]
    Wait {
        /// Its number.
        number: u32,
        /// For what.
        what: &'static str,
        /// Why.
        cause: Cause,
    },

    // The environment.
    /// A capture cannot be written.
    #[error("{}: {problem}; name a file that can be written", path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What the system said.
        problem: String,
    },
    /// The peer's address cannot be one.
    #[error("the peer's address {gid} {problem}; see what the peer was told to use")]
    Gid {
        /// The address.
        gid: std::net::IpAddr,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The interface that leads to the peer cannot be used.
    #[error("interface {interface}: {problem}; see `warpwire interfaces`")]
    Interface {
        /// Its name, or its index.
        interface: String,
        /// What is wrong.
        problem: String,
    },
    /// There is no next hop.
    #[error(transparent)]
    Neighbor(#[from] warpwire_nic::neighbor::NeighborError),
    /// The NIC could not be opened.
    #[error(transparent)]
    Nic(#[from] warpwire_nic::Error),
    /// Something did not happen in time.
    #[error("queue pair {number:#x}: {what} within {waited:?}")]
    Deadline {
        /// Its number.
        number: u32,
        /// What did not happen.
        what: &'static str,
        /// How long was waited.
        waited: std::time::Duration,
    },
    /// The engine ended.
    #[error("the engine ended: {cause}")]
    Ended {
        /// Why.
        cause: Cause,
    },
    /// Memory could not be had.
    #[error(transparent)]
    Memory(#[from] ArenaError),
    /// The executor refused.
    #[error(transparent)]
    Executor(#[from] executor::Error),
    /// There is no kernel for the NIC's queues.
    #[error(transparent)]
    Kernel(#[from] crate::runtime::Error),
}

impl Error {
    /// The cause that a request was refused or a wait ended by.
    pub const fn cause(&self) -> Option<Cause> {
        match self {
            Self::Post { cause, .. } | Self::Wait { cause, .. } | Self::Ended { cause } => {
                Some(*cause)
            }
            _ => None,
        }
    }
}
