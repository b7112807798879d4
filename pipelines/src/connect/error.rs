//! Why two ends did not come together.

use std::net::SocketAddr;
use std::time::Duration;

use warpwire_protocols::cm::{Cause, Misuse};
use warpwire_protocols::wire::cm::rej::Reason;
use warpwire_protocols::wire::cm::sidr_rep::Status;

/// Errors by blame: the environment's, the peer's silence, the peer's words, the peer's refusal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name has no address, or a port cannot be had.
    #[error("{address}: {source}")]
    Address {
        /// Host and port.
        address: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Nobody listens there.
    #[error("{address}: nobody listens after {} s ({source}); is the server up?", waited.as_secs())]
    Unreachable {
        /// Host and port.
        address: String,
        /// How long it was tried.
        waited: Duration,
        /// The last answer.
        source: std::io::Error,
    },
    /// Nobody came.
    #[error("{address}: no client within {} s", waited.as_secs())]
    NoClient {
        /// Where we listen.
        address: SocketAddr,
        /// How long.
        waited: Duration,
    },
    /// The peer did not do its step in time.
    #[error("{peer}: {step}: nothing within {} s", waited.as_secs())]
    Late {
        /// Who.
        peer: String,
        /// What was waited for.
        step: &'static str,
        /// How long the whole conversation might take.
        waited: Duration,
    },
    /// The connection broke.
    #[error("{peer}: {step}: {source}")]
    Broken {
        /// Who.
        peer: String,
        /// What was under way.
        step: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The peer said something that is none of the language.
    #[error("{peer}: {field}: {problem}")]
    Field {
        /// Who.
        peer: String,
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The two want different things.
    #[error("{peer}: {by} refused {field}: {problem}")]
    Refused {
        /// With whom.
        peer: String,
        /// Who refused: `we` or `the peer`.
        by: &'static str,
        /// Which field.
        field: String,
        /// What is different.
        problem: String,
    },
    /// A connection by RDMA-CM is over, or did not come about; or a datagram service was refused.
    #[error("{peer}: {cause}{}", hint(cause))]
    Ended {
        /// With whom.
        peer: String,
        /// Why.
        cause: Box<Cause>,
    },
    /// Nobody asked for a connection.
    #[error("port {port}: nobody asked for a connection within {} s", waited.as_secs())]
    NoCall {
        /// The port of RDMA-CM.
        port: u16,
        /// How long.
        waited: Duration,
    },
    /// Nobody asked for a datagram service.
    #[error("port {port}: nobody asked for the datagram service within {} s", waited.as_secs())]
    NoQuestion {
        /// The port of RDMA-CM.
        port: u16,
        /// How long.
        waited: Duration,
    },
    /// Two listeners want one port.
    #[error("port {port} of RDMA-CM is listened at already; choose another port")]
    PortTaken {
        /// The port.
        port: u16,
    },
    /// Connection management was asked for what it cannot do.
    #[error("connection management: {0}")]
    Misuse(#[from] Misuse),
    /// The thread that answers for queue pair 1 has ended.
    #[error("connection management has ended: the engine behind queue pair 1 does not answer")]
    Agent,
    /// The queue pair or its device failed.
    #[error(transparent)]
    Messaging(#[from] crate::messaging::Error),
}

impl Error {
    /// Whether the peer is there, and nobody listens at the port.
    #[must_use]
    pub fn is_unheard(&self) -> bool {
        match self {
            Self::Ended { cause, .. } => is_unheard(cause),
            _ => false,
        }
    }
}

/// Whether the peer says that it has no such service.
fn is_unheard(cause: &Cause) -> bool {
    match cause {
        Cause::Rejected { reason, .. } => *reason == Reason::INVALID_SERVICE_ID,
        Cause::Refused(status) => *status == Status::UNSUPPORTED_SERVICE,
        _ => false,
    }
}

/// What helps when a connection did not come about.
fn hint(cause: &Cause) -> &'static str {
    match cause {
        _ if is_unheard(cause) => "; nobody listens at this port there: start the server first",
        Cause::Rejected { reason, .. } if *reason == Reason::INVALID_MTU => {
            "; the links' MTUs differ: choose a smaller path MTU"
        }
        Cause::NoAnswer => "; does its host speak RDMA-CM, and wait at this address?",
        _ => "",
    }
}
