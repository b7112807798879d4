//! What is served: RFC 862 (echo), 863 (discard), bytes without end in the manner of RFC 864,
//! files, and measurements.

use std::sync::Arc;

use warpwire_pipelines::streaming::{Error, Stream};

use super::http::Conversation;
use super::report::Tally;
use super::site::Site;

/// A service.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Service {
    /// What comes goes back (port 7)
    Echo,
    /// What comes is thrown away (port 9)
    Discard,
    /// Bytes that count from 0 to 250, again and again (port 19)
    Source,
    /// Files, over HTTP/1.1 (port 80)
    Http,
    /// What a stock `iperf3 -c` measures over TCP (port 5201)
    Iperf3,
}

impl Service {
    /// The port that it has by right.
    pub(super) const fn port(self) -> u16 {
        match self {
            Self::Echo => 7,
            Self::Discard => 9,
            Self::Source => 19,
            Self::Http => 80,
            Self::Iperf3 => 5201,
        }
    }
}

/// A connection that is served.
pub(super) struct Served {
    service: Service,
    pub(super) stream: Stream,
    /// `Source`: bytes that were written, and that shall be.
    written: u64,
    bytes: u64,
    is_closed: bool,
    /// `Http`.
    conversation: Option<Box<Conversation>>,
}

impl Served {
    pub(super) fn new(
        service: Service,
        stream: Stream,
        bytes: u64,
        site: Option<&Arc<Site>>,
    ) -> Self {
        Self {
            conversation: site.map(|site| Box::new(Conversation::new(site))),
            service,
            stream,
            written: 0,
            bytes,
            is_closed: false,
        }
    }

    /// Does what can be done now. No once the connection needs nothing any more.
    pub(super) fn go_on(&mut self, tally: &mut Tally) -> Result<bool, Error> {
        if let Some(conversation) = &mut self.conversation {
            return conversation.go_on(&mut self.stream, tally);
        }
        match self.service {
            Service::Echo => {
                let count = self.stream.reflect()? as u64;
                tally.came += count;
                tally.left += count;
            }
            // Without files, HTTP has nothing to say; iperf3 is served elsewhere.
            Service::Discard | Service::Http | Service::Iperf3 => self.discard(tally)?,
            Service::Source => {
                self.discard(tally)?;
                self.fill(tally)?;
            }
        }
        let is_at_end = self.stream.is_at_end()?;
        let is_through = match self.service {
            Service::Source => self.written >= self.bytes,
            _ => is_at_end,
        };
        if is_through && !self.is_closed {
            self.stream.close()?;
            self.is_closed = true;
        }
        // A peer that reads no more may still have sent the end.
        Ok(!is_at_end || !self.is_closed && self.service == Service::Source)
    }

    fn discard(&mut self, tally: &mut Tally) -> Result<(), Error> {
        let came = self.stream.peek()?;
        let count = came.iter().map(|piece| piece.len()).sum();
        self.stream.consume(count)?;
        tally.came += count as u64;
        Ok(())
    }

    fn fill(&mut self, tally: &mut Tally) -> Result<(), Error> {
        if self.is_closed {
            return Ok(());
        }
        let mut left = self.bytes - self.written;
        let mut count = 0;
        let mut start = (self.written % PATTERN as u64) as usize;
        for piece in self.stream.room()? {
            let here = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            let (piece, _) = piece.split_at_mut(here);
            // From where the last piece ended to the table's end, which is a pattern's, and on.
            let table = PATTERNS.get(start..).unwrap_or_default();
            let (first, rest) = piece.split_at_mut(here.min(table.len()));
            first.copy_from_slice(table.get(..first.len()).unwrap_or_default());
            for part in rest.chunks_mut(PATTERNS.len()) {
                part.copy_from_slice(PATTERNS.get(..part.len()).unwrap_or_default());
            }
            start = (start + here) % PATTERN;
            left -= here as u64;
            count += here;
        }
        self.stream.commit(count)?;
        self.written += count as u64;
        tally.left += count as u64;
        Ok(())
    }
}

/// Bytes after which the pattern of a source begins again.
const PATTERN: usize = 251;

/// The pattern, many times, so that it can be copied.
static PATTERNS: [u8; PATTERN * 64] = {
    let mut bytes = [0; PATTERN * 64];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = (at % PATTERN) as u8;
        at += 1;
    }
    bytes
};
