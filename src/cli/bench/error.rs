//! Why a row could not be measured.

use warpwire_gpu::executor;
use warpwire_pipelines::runtime::Error as RunError;

/// Errors by blame: the user's, the machine's, the peer's, ours.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Ctrl-C, or a request to end.
    #[error("interrupted before it was over")]
    Interrupted,
    /// Something is not there.
    #[error("needs {what}; {cure}")]
    Missing {
        /// What.
        what: &'static str,
        /// How to have it.
        cure: &'static str,
    },
    /// Other programs were in the way.
    #[error(
        "other programs were in the way, or the processors moved, in all but {taken} of {tries} \
         rounds; write --others outrank, or come back when the machine is quiet"
    )]
    Busy {
        /// Rounds that count.
        taken: usize,
        /// Rounds.
        tries: usize,
    },
    /// A program could not be run.
    #[error(transparent)]
    Program(#[from] warpwire_ptx::Error),
    /// A kernel could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Messages could not be exchanged.
    #[error(transparent)]
    Messaging(#[from] warpwire_pipelines::messaging::Error),
    /// Streams could not be had, or broke.
    #[error(transparent)]
    Streaming(#[from] warpwire_pipelines::streaming::Error),
    /// A NIC could not be had.
    #[error(transparent)]
    Nic(#[from] warpwire_nic::Error),
    /// The executor refused.
    #[error(transparent)]
    Executor(#[from] executor::Error),
    /// The system refused.
    #[error("{action}: {source}; {cure}")]
    System {
        /// What was tried.
        action: String,
        /// The system's answer.
        source: std::io::Error,
        /// What helps.
        cure: &'static str,
    },
    /// A peer's words are not those that we know.
    #[error("{program} tells no {field}; use DPDK 22.11, UCX 1.13, libfabric 1.17")]
    Words {
        /// The program.
        program: &'static str,
        /// What was looked for.
        field: &'static str,
    },
    /// An end of a measurement failed.
    #[error("one end: {end}: {words}")]
    Ended {
        /// How it ended.
        end: String,
        /// The last that it said.
        words: String,
    },
    /// Nothing arrived.
    #[error("{what}: nothing arrived in {seconds} s; try --rows with this row alone")]
    Silent {
        /// At whom.
        what: &'static str,
        /// The time.
        seconds: f64,
    },
    /// What arrived is not what was sent.
    #[error("{what}: {count} frames arrived malformed; this is a defect")]
    Malformed {
        /// At whom.
        what: &'static str,
        /// How many.
        count: u64,
    },
}
