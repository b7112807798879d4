//! A server of static files over HTTP/1.1, by the parser that kernels have.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use warpwire_pipelines::streaming::{Error, Stream};
use warpwire_protocols::stream::Pieces;
use warpwire_protocols::stream::http::{
    CONTINUE, FieldValue, Head, Limits, Method, Parser, Progress, Request, Status, Version, date,
};

use super::report::Tally;
use super::site::Site;

/// A connection with a client.
pub(super) struct Conversation {
    site: Arc<Site>,
    parser: Parser,
    /// What is to be said, and how much of it was.
    head: Vec<u8>,
    said: usize,
    /// The content that follows, and how much of it was sent.
    content: Arc<[u8]>,
    sent: usize,
    /// Nothing is answered after this.
    is_last: bool,
    /// Bytes that came after the last answer.
    ignored: usize,
}

impl Conversation {
    pub(super) fn new(site: &Arc<Site>) -> Self {
        Self {
            site: Arc::clone(site),
            parser: Parser::new(),
            head: Vec::new(),
            said: 0,
            content: Arc::default(),
            sent: 0,
            is_last: false,
            ignored: 0,
        }
    }

    /// Does what can be done now. No once the connection needs nothing any more.
    pub(super) fn go_on(&mut self, stream: &mut Stream, tally: &mut Tally) -> Result<bool, Error> {
        loop {
            if !self.speak(stream, tally)? {
                return Ok(true);
            }
            if self.is_last {
                break;
            }
            let [first, second] = stream.peek()?;
            let pieces = Pieces { first, second };
            let taken = self.parser.take(&pieces, 0, &Limits::default());
            stream.consume(taken.consumed as usize)?;
            tally.came += u64::from(taken.consumed);
            match taken.progress {
                Progress::NeedMore if stream.is_at_end()? => return Ok(false),
                Progress::NeedMore => return Ok(true),
                Progress::Continue => self.say(CONTINUE),
                Progress::Whole => self.answer(),
                Progress::Refused(status) => {
                    self.is_last = true;
                    self.refuse(status, Version::Http11, true);
                }
            }
        }
        // The end follows the answer; what the client still says is read, as a reset could
        // overtake the answer.
        stream.close()?;
        let came = stream.peek()?.iter().map(|piece| piece.len()).sum();
        stream.consume(came)?;
        self.ignored += came;
        Ok(!stream.is_at_end()? && self.ignored < MOST_IGNORED)
    }

    /// Writes what is to be said, as far as there is room. Whether that was all.
    fn speak(&mut self, stream: &mut Stream, tally: &mut Tally) -> Result<bool, Error> {
        for (bytes, done) in [
            (&self.head[..], &mut self.said),
            (&self.content[..], &mut self.sent),
        ] {
            let rest = bytes.get(*done..).unwrap_or_default();
            if rest.is_empty() {
                continue;
            }
            let count = stream.write(rest)?;
            *done += count;
            tally.left += count as u64;
            if count < rest.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn answer(&mut self) {
        let site = Arc::clone(&self.site);
        let Some(request) = self.parser.request() else {
            return;
        };
        let Request {
            method,
            version,
            persists,
            ..
        } = request;
        let has_content = method != Method::Head;
        self.is_last = !persists;
        let page = match request.answer {
            Some(status) => Err(status),
            None => site.page(request.path).ok_or(Status::NotFound),
        };
        self.parser.begin();
        match page {
            Ok(page) => {
                let kind = FieldValue::new(page.kind.as_bytes());
                let length = page.bytes.len() as u64;
                self.begin(Status::Ok, length, kind, version);
                if has_content {
                    self.content = Arc::clone(&page.bytes);
                }
            }
            Err(status) => self.refuse(status, version, has_content),
        }
    }

    /// An answer without a file.
    fn refuse(&mut self, status: Status, version: Version, has_content: bool) {
        let words = status.reason().as_bytes();
        let kind = FieldValue::new(b"text/plain");
        self.begin(status, words.len() as u64, kind, version);
        if has_content {
            self.content = words.into();
        }
    }

    fn begin(
        &mut self,
        status: Status,
        length: u64,
        kind: Option<FieldValue<'_>>,
        version: Version,
    ) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let date = date(now.map_or(0, |now| now.as_secs()));
        let head = Head {
            status,
            length,
            media_type: kind,
            date: Some(&date),
            version,
            persists: !self.is_last,
        };
        let mut buffer = [0; HEAD_BYTES];
        // Media types of ours are short: a head always fits.
        let count = head.emit(&mut buffer).unwrap_or(0);
        self.say(buffer.get(..count).unwrap_or_default());
    }

    /// Says this next; all before was said.
    fn say(&mut self, bytes: &[u8]) {
        self.head.clear();
        self.head.extend_from_slice(bytes);
        (self.said, self.sent) = (0, 0);
        self.content = Arc::default();
    }
}

/// Bytes of the longest head.
const HEAD_BYTES: usize = 512;
/// Bytes that a client may still send after the last answer.
const MOST_IGNORED: usize = 1 << 16;
