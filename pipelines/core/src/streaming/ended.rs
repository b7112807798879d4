//! How a stream ended.

use warpwire_ring::Cause;

/// How a stream ended, whatever carried it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Ended {
    /// Both ends closed, and all was acknowledged.
    Finished = 1,
    /// The peer gave it up.
    Reset = 2,
    /// The peer did not want it.
    Refused = 3,
    /// The peer did not answer in time.
    TimedOut = 4,
    /// It was given up at this end.
    Aborted = 5,
    /// There is no way to the peer.
    Unreachable = 6,
}

impl Ended {
    /// Every way, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Finished,
        Self::Reset,
        Self::Refused,
        Self::TimedOut,
        Self::Aborted,
        Self::Unreachable,
    ];

    /// The way of a number in [`warpwire_engine::streams::tables::StreamWords::cause`].
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as u32 == number)
    }

    /// What a wait says that ends by it.
    pub const fn cause(self) -> Cause {
        match self {
            Self::Finished | Self::Unreachable => Cause::Disconnected,
            Self::Reset => Cause::RemoteAborted,
            Self::Refused => Cause::RemoteAccess,
            Self::TimedOut => Cause::RetryExceeded,
            Self::Aborted => Cause::Flushed,
        }
    }
}
