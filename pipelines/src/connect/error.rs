//! Why two ends did not come together.

use std::net::SocketAddr;
use std::time::Duration;

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
}
