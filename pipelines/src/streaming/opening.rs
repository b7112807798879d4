//! Connections that are being opened, while other things go on.

use std::net::SocketAddr;
use std::sync::Arc;

use super::carriage::Attempt;
use super::endpoint::Shared;
use super::error::Error;
use super::stream::Stream;

/// A connection that is being opened. Dropping it gives it up.
pub(super) struct Opening {
    shared: Arc<Shared>,
    attempt: Attempt,
    /// Once the engine knows of it.
    stream: Option<Stream>,
}

impl Opening {
    /// Begins to open a connection, of an engine if that matters.
    pub(super) fn new(shared: &Arc<Shared>, to: SocketAddr, engine: Option<usize>) -> Self {
        Self {
            shared: Arc::clone(shared),
            attempt: Attempt::new(to, engine),
            stream: None,
        }
    }

    /// Goes on, without waiting: the connection, once it is there.
    pub(super) fn go_on(&mut self) -> Result<Option<Stream>, Error> {
        if self.stream.is_none() {
            let opened = self.shared.carriage.open(&mut self.attempt)?;
            let stream =
                opened.map(|(place, generation)| Stream::new(&self.shared, place, generation));
            self.stream = stream.transpose()?;
        }
        let Some(stream) = &mut self.stream else {
            return Ok(None);
        };
        if !stream.is_connected()? {
            return Ok(None);
        }
        stream.find_rings()?;
        Ok(self.stream.take())
    }

    /// Whether the engine has been asked and did not answer yet: who gives it up now would leave it
    /// a connection that nobody has.
    pub(super) const fn is_asked_for(&self) -> bool {
        self.attempt.command.is_some()
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        // If the words are not there, the connection is not either.
        let _ = self.stream.take().map(Stream::abort);
    }
}
