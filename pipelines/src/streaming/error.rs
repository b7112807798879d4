//! What can go wrong with streams.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use warpwire_gpu::arena::ArenaError;
use warpwire_protocols::tcp::Cause;

use super::slow::{NoWay, SlowError};

/// Why a stream, or all of them, cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that makes no sense.
    #[error("{field} is {value} and must be {must}")]
    Setting {
        /// Which.
        field: &'static str,
        /// What it is.
        value: u64,
        /// What it has to be.
        must: &'static str,
    },
    /// Connections and their rings would take more memory than the machine has left.
    #[error(
        "`ring_bytes` and `open` want {need} MiB of memory in all, and the machine has {have} MiB \
         left; make one of them smaller"
    )]
    TooMuch {
        /// MiB that the endpoint takes.
        need: u64,
        /// MiB that are left.
        have: u64,
    },
    /// Addresses or routes that make no sense.
    #[error(transparent)]
    Slow(#[from] SlowError),
    /// An address that the operating system answers for as well.
    #[error(
        "`addresses` has {address}, which the operating system has on {interface}; give another, \
         or take it away there by `ip address del`"
    )]
    Owned {
        /// Which one.
        address: std::net::IpAddr,
        /// Where it is.
        interface: String,
    },
    /// The NIC cannot be used.
    #[error(transparent)]
    Nic(#[from] warpwire_nic::Error),
    /// Memory could not be had, or is not where it should be.
    #[error(transparent)]
    Memory(#[from] ArenaError),
    /// There is no kernel for the NIC's rings.
    #[error(transparent)]
    Kernel(#[from] crate::runtime::Error),
    /// The executor took no more.
    #[error(transparent)]
    Executor(#[from] warpwire_gpu::executor::Error),
    /// A thread could not be started.
    #[error("a thread for streams could not be started: {source}")]
    Thread {
        /// What the system said.
        source: std::io::Error,
    },
    /// There is no way to the peer.
    #[error(transparent)]
    NoWay(#[from] NoWay),
    /// The engine ended.
    #[error("the engine of streams ended: {cause}")]
    Ended {
        /// Why.
        cause: warpwire_ring::Cause,
    },
    /// Over messages: two ends did not come together.
    #[error(transparent)]
    Meeting(Box<crate::connect::Error>),
    /// Over messages: the endpoint beneath refused.
    #[error(transparent)]
    Messaging(Box<crate::messaging::Error>),
    /// The connection is over.
    #[error("connection with {peer}: {cause}")]
    Over {
        /// Who was at the other end.
        peer: SocketAddr,
        /// Why.
        cause: Cause,
    },
    /// Nothing can be written any more: this end closed.
    #[error("connection with {peer}: this end closed it; write before `close`")]
    Closed {
        /// Who is at the other end.
        peer: SocketAddr,
    },
    /// It took too long.
    #[error("{what} within {waited:?}")]
    Deadline {
        /// What did not happen.
        what: &'static str,
        /// How long it was waited for.
        waited: Duration,
    },
    /// Somebody has this already.
    #[error("{what} {address} is taken; choose another port")]
    Taken {
        /// What it is the address of.
        what: &'static str,
        /// The address.
        address: SocketAddr,
    },
    /// There is no room for more.
    #[error("no room for {what}; make `{setting}` larger")]
    Full {
        /// For what.
        what: &'static str,
        /// What decides how much there is.
        setting: &'static str,
    },
    /// A file of a site cannot be read.
    #[error(
        "{}: {source}; name a folder whose files can be read and stay as they are",
        path.display()
    )]
    File {
        /// The file, or a folder.
        path: PathBuf,
        /// What is wrong.
        source: std::io::Error,
    },
    /// The files of a site have more bytes than they may.
    #[error(
        "{}: {bytes} bytes are too many: files of a site may have {most} bytes in all, and {left} \
         are left; serve fewer, or let them have more",
        path.display()
    )]
    Large {
        /// The first file that does not fit, in the order of their paths.
        path: PathBuf,
        /// Its bytes.
        bytes: u64,
        /// Bytes that all may have.
        most: u64,
        /// Of these, those that the files before it left.
        left: u64,
    },
    /// Streams that something else uses.
    #[error("the streams of this endpoint are used already: one of `Serving` and `news` has them")]
    Used,
    /// The engine takes no such command.
    #[error("the engine refused to {what} (outcome {outcome}); this is a defect of warpwire")]
    Refused {
        /// To do what.
        what: &'static str,
        /// What it said.
        outcome: u32,
    },
}

impl From<crate::connect::Error> for Error {
    fn from(error: crate::connect::Error) -> Self {
        Self::Meeting(Box::new(error))
    }
}

impl From<crate::messaging::Error> for Error {
    fn from(error: crate::messaging::Error) -> Self {
        Self::Messaging(Box::new(error))
    }
}

/// As the standard library's streams would say it.
impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind;
        let kind = match &error {
            Error::Over { cause, .. } => match cause {
                Cause::Finished => ErrorKind::BrokenPipe,
                Cause::Reset => ErrorKind::ConnectionReset,
                Cause::Refused => ErrorKind::ConnectionRefused,
                Cause::TimedOut => ErrorKind::TimedOut,
                Cause::Aborted => ErrorKind::ConnectionAborted,
                Cause::Unreachable => ErrorKind::HostUnreachable,
            },
            Error::Closed { .. } => ErrorKind::BrokenPipe,
            Error::Deadline { .. } => ErrorKind::TimedOut,
            Error::Taken { .. } => ErrorKind::AddrInUse,
            Error::NoWay(_) => ErrorKind::HostUnreachable,
            Error::Meeting(error) => match &**error {
                crate::connect::Error::Late { .. } => ErrorKind::TimedOut,
                crate::connect::Error::Unreachable { source, .. }
                | crate::connect::Error::Broken { source, .. } => source.kind(),
                _ => ErrorKind::Other,
            },
            _ => ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
