//! What the host sees of a stream that device code has.

use std::net::SocketAddr;

use warpwire_engine::streams::tables::Figures;
use warpwire_protocols::tcp::State;

use super::super::error::Error;
use super::super::stream::Stream;

/// A stream that is served, as it was when it was looked at. Its bytes are device code's.
pub struct Glimpse {
    stream: Stream,
    moved: (u64, u64),
}

impl Glimpse {
    pub(super) const fn new(stream: Stream, moved: (u64, u64)) -> Self {
        Self { stream, moved }
    }

    /// The address and port here.
    pub const fn local(&self) -> SocketAddr {
        self.stream.local()
    }

    /// The address and port there.
    pub const fn peer(&self) -> SocketAddr {
        self.stream.peer()
    }

    /// Bytes that came, and bytes that were written.
    pub const fn moved(&self) -> (u64, u64) {
        self.moved
    }

    /// The state of the protocol, now.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn state(&self) -> Result<State, Error> {
        self.stream.state()
    }

    /// See [`Stream::figures`].
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn figures(&self) -> Result<Figures, Error> {
        self.stream.figures()
    }
}
