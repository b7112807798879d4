//! What can go wrong with records of a sensor.

use std::path::PathBuf;

use warpwire_gpu::arena::ArenaError;
use warpwire_protocols::stream::samples::Illegal;
use warpwire_ring::Cause;

use crate::file::Problems;
use crate::streaming;

/// Why records cannot be gathered, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that makes no sense.
    #[error("{field}: {problem}; {cure}")]
    Setting {
        /// Which, as the stage `gather` calls it.
        field: &'static str,
        /// What is wrong.
        problem: String,
        /// What helps.
        cure: String,
    },
    /// Memory could not be had.
    #[error(transparent)]
    Memory(#[from] ArenaError),
    /// A file cannot be written.
    #[error("file `{}`: {source}; name a file that can be written", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file cannot grow. It is one of whole rows, as the other one is.
    #[error(
        "file `{}`: {source}; the file has the first {rows} rows, not all; \
         make room, or name a file elsewhere",
        path.display()
    )]
    Cut {
        /// The file.
        path: PathBuf,
        /// Rows that it has.
        rows: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// Streams come over several pairs of queues, and a gatherer reads those of one.
    #[error(
        "{queues} pairs of queues: records are gathered from one; run `ethtool -L IFACE combined \
         1` (where that is not known, `ethtool -L IFACE rx 1 tx 1`), so that all frames arrive at \
         one; queues=1 alone would leave those of the others to the host"
    )]
    Queues {
        /// How many there are.
        queues: usize,
    },
    /// The streams cannot be read.
    #[error(transparent)]
    Streaming(#[from] streaming::Error),
    /// The pipeline cannot be as it is said.
    #[error(transparent)]
    Pipeline(#[from] Problems),
    /// The kernel that gathers ended.
    #[error("gather_streams ended: {cause}; build kernels and command from the same source")]
    Ended {
        /// Why.
        cause: Cause,
    },
    /// The executor could not run the kernel.
    #[error(transparent)]
    Executor(#[from] warpwire_gpu::executor::Error),
}

/// Why a number cannot stand where it is said to.
impl From<Illegal> for Error {
    fn from(illegal: Illegal) -> Self {
        let (field, problem, cure) = match illegal {
            Illegal::Width => ("number_bytes", "no number is so wide", "write 1, 2, 4 or 8"),
            Illegal::Offset => (
                "number_at",
                "the number does not lie within the header",
                "write a longer `header`, or a smaller `number_at`",
            ),
        };
        Self::Setting {
            field,
            problem: problem.to_owned(),
            cure: cure.to_owned(),
        }
    }
}
