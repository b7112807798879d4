//! Listeners: who wants to connect, one after the other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::endpoint::Shared;
use super::error::Error;
use super::stream::Stream;

/// A port that is listened at. Dropping it ends that, and sends away who waits.
pub struct Listener {
    shared: Arc<Shared>,
    index: u32,
    at: SocketAddr,
}

impl Listener {
    pub(super) fn new(
        shared: &Arc<Shared>,
        at: SocketAddr,
        patience: Duration,
    ) -> Result<Self, Error> {
        let (index, at) = shared.begin_to_listen(at, patience)?;
        Ok(Self {
            shared: Arc::clone(shared),
            index,
            at,
        })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.at
    }

    /// Its number among those of [`super::News`].
    pub fn number(&self) -> u32 {
        self.shared.table.connections() + self.index
    }

    /// The next connection, if one waits.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn try_accept(&self) -> Result<Option<Stream>, Error> {
        let next = self.shared.table.accept(self.index as usize)?;
        next.map(|(place, generation)| Stream::new(&self.shared, place, generation))
            .transpose()
    }

    /// Nobody connects any more where the engine ended.
    #[cfg(feature = "tokio")]
    pub(super) fn check_running(&self) -> Result<(), Error> {
        self.shared.check_running()
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// [`Error::Deadline`], [`Error::Ended`].
    pub fn accept(&self, patience: Duration) -> Result<Stream, Error> {
        let what = "nobody connected";
        self.shared.wait(what, patience, || self.try_accept())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.end_to_listen(self.index);
    }
}
