//! Why a pipeline cannot run, or did not run to its end.

use std::path::PathBuf;

use warpwire_gpu::arena::ArenaError;
use warpwire_gpu::executor;
use warpwire_ring::Cause;

use crate::file::Problems;

/// Errors by blame: the file's, the machine's, the kernel's.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// NICs that frames pass between have queues of more than two formats.
    #[error(
        "nic: {nics}: frames pass between queues of three formats ({formats}); \
         join at most two kinds of NIC"
    )]
    Formats {
        /// The NICs.
        nics: String,
        /// Their formats.
        formats: String,
    },
    /// A NIC has fewer queues than the kernel has blocks.
    #[error("nic.{nic}: has {have} queues for {blocks} blocks; write blocks = {have}")]
    Queues {
        /// The NIC.
        nic: String,
        /// Queue pairs that it has.
        have: usize,
        /// Blocks of the file.
        blocks: u32,
    },
    /// A block would drive more queue pairs than it can.
    #[error(
        "nic: {nics}: a block would drive {count} queue pairs, and can drive {most}; \
         use more blocks or fewer queues"
    )]
    Ports {
        /// The NICs of the group.
        nics: String,
        /// Queue pairs.
        count: usize,
        /// The limit.
        most: usize,
    },
    /// A GPU runs in real time.
    #[error("executor cuda: a GPU runs in real time; choose `Time::Real`")]
    VirtualTime,
    /// The GPU could not be had or could not run something.
    #[error(transparent)]
    Cuda(#[from] executor::cuda::Error),
    /// No kernel fits the queues.
    #[error("kernel `{name}`: is not in the table; build the command with it")]
    NoKernel {
        /// The kernel's name.
        name: String,
    },
    /// A NIC could not be opened or closed.
    #[error(transparent)]
    Nic(#[from] warpwire_nic::Error),
    /// Memory could not be had.
    #[error(transparent)]
    Memory(#[from] ArenaError),
    /// The executor could not run something.
    #[error(transparent)]
    Executor(#[from] executor::Error),
    /// A kernel ended before it was stopped.
    #[error("kernel `{kernel}`: ended by itself: {place}: {cause}; {}", cure(*.cause))]
    Ended {
        /// The kernel.
        kernel: &'static str,
        /// The NIC and the queue, or those of several that one block drives.
        place: String,
        /// Why.
        cause: Cause,
    },
    /// A kernel gave a queue up.
    #[error("nic.{nic}: {direction} queue {queue}: {cause}; {}", cure(*.cause))]
    Queue {
        /// The NIC.
        nic: String,
        /// `receive` or `transmit`.
        direction: &'static str,
        /// The queue, from 0.
        queue: u32,
        /// Why.
        cause: Cause,
    },
    /// A file that is to be written is to be read as well, or written twice.
    #[error(transparent)]
    Files(#[from] Problems),
    /// Records could not be gathered, or not be written.
    #[error(transparent)]
    Sensor(Box<crate::sensor::Error>),
    /// A file of samples could not be written.
    #[error("file `{}`: {source}; name a file that can be written", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl From<crate::sensor::Error> for Error {
    fn from(error: crate::sensor::Error) -> Self {
        Self::Sensor(Box::new(error))
    }
}

/// What helps against a cause that ends a queue.
fn cure(cause: Cause) -> &'static str {
    match cause {
        Cause::RingCorrupted => "the other end broke the ring: end it, and start both again",
        Cause::Disconnected => "start the other end again, and then this",
        Cause::LayoutMismatch => "build kernels and command from the same source",
        Cause::FrameTooLong => "send shorter frames, or open the NIC with larger slots",
        _ => "see the NIC's counters in the report, and start again",
    }
}
