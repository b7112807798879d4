//! A request, read as its bytes come: RFC 9112, sections 2 and 3.

use super::body::Body;
use super::fields::Fields;
use super::grammar::{Match, Word, is_token, word};
use super::status::Status;
use super::target::{Form, Target};
use crate::stream::bytes::Bytes;

/// What a client may make a server read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Limits {
    /// Bytes of content that is passed over.
    pub content: u64,
    /// Bytes of a head: request line, header fields, and empty lines around them. Trailer fields
    /// may have as many again.
    pub head: u32,
    /// Bytes of a target. RFC 9112, section 3, asks for lines of 8000.
    pub target: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            content: 1 << 20,
            head: 8192,
            target: 8000,
        }
    }
}

/// What a client wants done: RFC 9110, section 9.3; PATCH: RFC 5789.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Method {
    /// The file.
    Get,
    /// What would be said of the file.
    Head,
    /// Not for files.
    Post,
    /// Not for files that cannot be written.
    Put,
    /// Not for files that cannot be removed.
    Delete,
    /// For proxies.
    Connect,
    /// Not for files.
    Options,
    /// Not for files.
    Trace,
    /// Not for files that cannot be written.
    Patch,
    /// None that is known.
    Unknown,
}

/// The version that a client speaks; later ones of major version 1 are [`Version::Http11`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// Reads requests, one at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parser {
    stage: Stage,
    method: Method,
    version: Version,
    persists: bool,
    /// The client is to be told to go on.
    owes_continue: bool,
    /// Bytes of the version that came, CR and LF included, and its two digits.
    version_bytes: u8,
    digits: [u8; 2],
    matched: Match,
    head_bytes: u32,
    target_bytes: u32,
    body: Body,
    fields: Fields,
    target: Target,
}

const _: () = assert!(size_of::<Parser>() <= 384);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Before the request line.
    Start,
    /// CR came before the request line.
    StartEnd,
    Method,
    Target,
    Version,
    Fields,
    Body,
    Whole,
    Refused(Status),
}

/// What came of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// So many bytes are not needed any more.
    pub consumed: u32,
    /// Where the request stands.
    pub progress: Progress,
}

/// Where a request stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It is not over; all bytes that are there were taken.
    NeedMore,
    /// The client waits to be told to send the content: [`CONTINUE`](super::CONTINUE) is to be
    /// sent, then bytes are to be taken on. Said once in a request.
    Continue,
    /// It is there: [`Parser::request`].
    Whole,
    /// It is to be answered by this, and the connection closed: nobody knows where the next one
    /// would begin.
    Refused(Status),
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// What is to be done.
    pub method: Method,
    /// The client's version.
    pub version: Version,
    /// Begins with `/`; decoded, without dot segments and query. Empty if the target has no path,
    /// or too long a one.
    pub path: &'a [u8],
    /// The client wants to go on with the connection after the answer.
    pub persists: bool,
    /// The answer, if it does not depend on which files there are.
    pub answer: Option<Status>,
}

impl Parser {
    /// Waits for the first request.
    pub const fn new() -> Self {
        Self {
            stage: Stage::Start,
            method: Method::Unknown,
            version: Version::Http11,
            persists: false,
            owes_continue: false,
            version_bytes: 0,
            digits: [0; 2],
            matched: Match::NEW,
            head_bytes: 0,
            target_bytes: 0,
            body: Body::NEW,
            fields: Fields::NEW,
            target: Target::NEW,
        }
    }

    /// Waits for the next request.
    pub const fn begin(&mut self) {
        self.stage = Stage::Start;
        self.method = Method::Unknown;
        self.owes_continue = false;
        self.version_bytes = 0;
        self.matched = Match::NEW;
        self.head_bytes = 0;
        self.target_bytes = 0;
        self.fields = Fields::NEW;
        self.target.clear();
    }

    /// Whether anything of a request came: a connection that is idle otherwise may be closed
    /// without an answer.
    pub fn has_begun(&self) -> bool {
        self.head_bytes != 0
    }

    /// Takes bytes from offset `from` on, up to the end of the request. Once that is over, takes
    /// none until [`begin`](Self::begin).
    pub fn take(&mut self, bytes: &(impl Bytes + ?Sized), from: u32, limits: &Limits) -> Taken {
        let length = bytes.length();
        let mut at = from;
        let progress = loop {
            match self.stage {
                Stage::Whole => break Progress::Whole,
                Stage::Refused(status) => break Progress::Refused(status),
                Stage::Body if core::mem::take(&mut self.owes_continue) => {
                    break Progress::Continue;
                }
                Stage::Body => {
                    at = at.saturating_add(self.body.pass(length.saturating_sub(at)));
                    if self.body.is_over() {
                        self.stage = Stage::Whole;
                        continue;
                    }
                }
                _ => {}
            }
            let Some(byte) = bytes.byte(at) else {
                break Progress::NeedMore;
            };
            at = at.saturating_add(1);
            self.stage = match self.step(byte, limits) {
                Ok(stage) => stage,
                Err(status) => Stage::Refused(status),
            };
        };
        Taken {
            consumed: at.saturating_sub(from),
            progress,
        }
    }

    /// The request, once it is [whole](Progress::Whole).
    pub fn request(&self) -> Option<Request<'_>> {
        if self.stage != Stage::Whole {
            return None;
        }
        let (is_too_long, path) = (self.target.is_too_long(), self.target.path());
        Some(Request {
            method: self.method,
            version: self.version,
            path: if is_too_long { &[] } else { path },
            persists: self.persists,
            answer: match self.method {
                Method::Unknown => Some(Status::NotImplemented),
                Method::Get | Method::Head if is_too_long => Some(Status::UriTooLong),
                Method::Get | Method::Head => None,
                _ => Some(Status::MethodNotAllowed),
            },
        })
    }

    fn step(&mut self, byte: u8, limits: &Limits) -> Result<Stage, Status> {
        if self.stage == Stage::Body {
            return match self.body.step(byte, &mut self.fields, limits)? {
                true => Ok(Stage::Whole),
                false => Ok(Stage::Body),
            };
        }
        self.head_bytes = self.head_bytes.saturating_add(1);
        if self.head_bytes > limits.head {
            return Err(self.excess());
        }
        match (self.stage, byte) {
            // RFC 9112, section 2.2: empty lines before a request.
            (Stage::Start, b'\r') => Ok(Stage::StartEnd),
            (Stage::StartEnd, b'\n') => Ok(Stage::Start),
            (Stage::Start | Stage::Method, _) if is_token(byte) => {
                self.matched.step(&METHODS, byte);
                match self.matched.letters() {
                    ..=MOST_METHOD => Ok(Stage::Method),
                    _ => Err(Status::NotImplemented),
                }
            }
            (Stage::Method, b' ') => {
                self.method = method(self.matched.word(&METHODS));
                if self.method == Method::Connect {
                    self.target.expect_authority();
                }
                Ok(Stage::Target)
            }
            (Stage::Target, b' ') => self.end_target(),
            (Stage::Target, _) => {
                self.target_bytes = self.target_bytes.saturating_add(1);
                if self.target_bytes > limits.target {
                    return Err(Status::UriTooLong);
                }
                self.target.step(byte)?;
                Ok(Stage::Target)
            }
            (Stage::Version, _) => self.version(byte),
            (Stage::Fields, _) => match self.fields.step(byte, false)? {
                true => self.end_head(limits),
                false => Ok(Stage::Fields),
            },
            _ => Err(Status::BadRequest),
        }
    }

    /// The head has more bytes than it may.
    fn excess(&self) -> Status {
        match self.stage {
            Stage::Target => Status::UriTooLong,
            Stage::Version | Stage::Fields => Status::FieldsTooLarge,
            _ => Status::BadRequest,
        }
    }

    /// Each form of a target has its methods: RFC 9112, section 3.2.
    fn end_target(&mut self) -> Result<Stage, Status> {
        let is_right = match self.target.end()? {
            Form::Path => true,
            Form::Authority => self.method == Method::Connect,
            Form::Asterisk => self.method == Method::Options,
        };
        match is_right {
            true => Ok(Stage::Version),
            false => Err(Status::BadRequest),
        }
    }

    /// `HTTP/`, a digit, a dot, a digit, CR, LF: RFC 9112, section 2.3.
    fn version(&mut self, byte: u8) -> Result<Stage, Status> {
        let is_right = match self.version_bytes {
            5 | 7 => byte.is_ascii_digit(),
            at => VERSION.get(usize::from(at)) == Some(&byte),
        };
        if !is_right {
            return Err(Status::BadRequest);
        }
        match self.version_bytes {
            5 => self.digits[0] = byte,
            7 => self.digits[1] = byte,
            _ => {}
        }
        self.version_bytes += 1;
        if usize::from(self.version_bytes) < VERSION.len() {
            return Ok(Stage::Version);
        }
        self.version = match self.digits {
            [b'1', b'0'] => Version::Http10,
            [b'1', _] => Version::Http11,
            _ => return Err(Status::VersionNotSupported),
        };
        Ok(Stage::Fields)
    }

    fn end_head(&mut self, limits: &Limits) -> Result<Stage, Status> {
        let meaning = self.fields.meaning(self.version)?;
        self.body = Body::new(meaning.content, limits)?;
        self.persists = meaning.persists;
        self.owes_continue = meaning.expects_continue && !self.body.is_over();
        Ok(Stage::Body)
    }
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

fn method(word: Option<usize>) -> Method {
    match word {
        Some(0) => Method::Get,
        Some(1) => Method::Head,
        Some(2) => Method::Post,
        Some(3) => Method::Put,
        Some(4) => Method::Delete,
        Some(5) => Method::Connect,
        Some(6) => Method::Options,
        Some(7) => Method::Trace,
        Some(8) => Method::Patch,
        _ => Method::Unknown,
    }
}

/// In the order of [`method`].
const METHODS: [Word; 9] = [
    word(b"GET"),
    word(b"HEAD"),
    word(b"POST"),
    word(b"PUT"),
    word(b"DELETE"),
    word(b"CONNECT"),
    word(b"OPTIONS"),
    word(b"TRACE"),
    word(b"PATCH"),
];
/// Letters of a method; with more, nobody looks for its end.
const MOST_METHOD: u16 = 32;
const VERSION: &[u8; 10] = b"HTTP/1.1\r\n";
