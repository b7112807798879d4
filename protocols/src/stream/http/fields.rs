//! The header fields of a request: RFC 9112, section 5. What five of them say is kept.

use super::grammar::{Match, Word, is_field_byte, is_space, is_token, word};
use super::host::Host;
use super::list::{Element, List};
use super::request::Version;
use super::status::Status;

/// Reads header fields, or trailer fields, as their bytes come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fields {
    place: Place,
    field: Field,
    digits: Digits,
    host: Host,
    name: Match,
    list: List,
    facts: Facts,
}

/// What the fields said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Facts {
    /// The value of Content-Length.
    length: Option<u64>,
    has_host: bool,
    has_codings: bool,
    /// `chunked` among the transfer codings.
    has_chunked: bool,
    /// Other transfer codings.
    has_others: bool,
    closes: bool,
    keeps_alive: bool,
    expects_continue: bool,
    expects_else: bool,
}

/// What the fields mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meaning {
    pub(super) content: Content,
    /// The connection goes on after the answer.
    pub(super) persists: bool,
    /// The client waits to be told to send the content.
    pub(super) expects_continue: bool,
}

/// How the content is told from what follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// So many bytes.
    Length(u64),
    Chunked,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Place {
    LineStart,
    Name,
    Value,
    /// CR came at the end of a value.
    ValueEnd,
    /// CR came at the start of a line.
    End,
}

/// Fields that matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Field {
    Other,
    Host,
    ContentLength,
    TransferEncoding,
    Connection,
    Expect,
}

/// Where in a number Content-Length stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Digits {
    Before,
    Inside,
    Behind,
}

impl Fields {
    pub(super) const NEW: Self = Self {
        place: Place::LineStart,
        field: Field::Other,
        digits: Digits::Before,
        host: Host::Start,
        name: Match::NEW,
        list: List::NEW,
        facts: Facts {
            length: None,
            has_host: false,
            has_codings: false,
            has_chunked: false,
            has_others: false,
            closes: false,
            keeps_alive: false,
            expects_continue: false,
            expects_else: false,
        },
    };

    /// Takes a byte. `true` if it ends the fields.
    ///
    /// Trailer fields mean nothing here (RFC 9112, section 7.1.2): only their form is looked at.
    pub(super) fn step(&mut self, byte: u8, is_trailer: bool) -> Result<bool, Status> {
        match (self.place, byte) {
            (Place::LineStart, b'\r') => self.place = Place::End,
            (Place::End, b'\n') => {
                self.place = Place::LineStart;
                return Ok(true);
            }
            (Place::LineStart, _) if is_token(byte) => {
                self.name = Match::NEW;
                self.place = Place::Name;
                self.name.step(&NAMES, byte.to_ascii_lowercase());
            }
            (Place::Name, _) if is_token(byte) => {
                self.name.step(&NAMES, byte.to_ascii_lowercase());
            }
            (Place::Name, b':') => {
                self.place = Place::Value;
                self.field = match is_trailer {
                    true => Field::Other,
                    false => field(self.name.word(&NAMES)),
                };
                self.begin_value()?;
            }
            (Place::Value, b'\r') => self.place = Place::ValueEnd,
            (Place::Value, _) if is_field_byte(byte) => self.value(byte)?,
            (Place::ValueEnd, b'\n') => {
                self.place = Place::LineStart;
                self.end_value()?;
            }
            // A line that is folded begins with white space, and is refused with what else does
            // not begin a name: RFC 9112, sections 2.2 and 5.2. White space before a colon:
            // section 5.1. CR without LF, LF without CR: section 2.2.
            _ => return Err(Status::BadRequest),
        }
        Ok(false)
    }

    fn begin_value(&mut self) -> Result<(), Status> {
        self.digits = Digits::Before;
        self.host = Host::Start;
        self.list = List::NEW;
        let facts = &mut self.facts;
        let again = match self.field {
            Field::Host => core::mem::replace(&mut facts.has_host, true),
            Field::ContentLength => facts.length.replace(0).is_some(),
            Field::TransferEncoding => {
                facts.has_codings = true;
                false
            }
            Field::Other | Field::Connection | Field::Expect => false,
        };
        match again {
            true => Err(Status::BadRequest),
            false => Ok(()),
        }
    }

    fn value(&mut self, byte: u8) -> Result<(), Status> {
        match self.field {
            Field::Other => Ok(()),
            Field::Host => {
                self.host = self.host.step(byte);
                match self.host {
                    Host::Wrong => Err(Status::BadRequest),
                    _ => Ok(()),
                }
            }
            Field::ContentLength => self.content_length(byte),
            Field::TransferEncoding => match self.list.step(&CODINGS, byte) {
                Some(element) => self.coding(element),
                None => Ok(()),
            },
            Field::Connection => {
                let element = self.list.step(&OPTIONS, byte);
                self.option(element);
                Ok(())
            }
            Field::Expect => {
                let element = self.list.step(&EXPECTATIONS, byte);
                self.expectation(element);
                Ok(())
            }
        }
    }

    fn end_value(&mut self) -> Result<(), Status> {
        let is_right = match self.field {
            Field::Other => true,
            Field::Host => self.host.may_end(),
            Field::ContentLength => self.digits != Digits::Before,
            Field::TransferEncoding => match self.list.end(&CODINGS) {
                Some(element) => return self.coding(element),
                None => true,
            },
            Field::Connection => {
                let element = self.list.end(&OPTIONS);
                self.option(element);
                true
            }
            Field::Expect => {
                let element = self.list.end(&EXPECTATIONS);
                self.expectation(element);
                true
            }
        };
        match is_right {
            true => Ok(()),
            false => Err(Status::BadRequest),
        }
    }

    /// Digits and nothing else: RFC 9110, section 8.6. What 64 bits cannot count is the largest
    /// number, which no limit admits.
    fn content_length(&mut self, byte: u8) -> Result<(), Status> {
        self.digits = match (self.digits, byte) {
            (Digits::Before, _) if is_space(byte) => Digits::Before,
            (Digits::Before | Digits::Inside, b'0'..=b'9') => {
                let digit = u64::from(byte - b'0');
                let before = self.facts.length.unwrap_or(0);
                let length = before.saturating_mul(10).saturating_add(digit);
                self.facts.length = Some(length);
                Digits::Inside
            }
            (Digits::Inside | Digits::Behind, _) if is_space(byte) => Digits::Behind,
            _ => return Err(Status::BadRequest),
        };
        Ok(())
    }

    /// RFC 9112, sections 6.1 and 7.1: `chunked` comes once, last, and has no parameters.
    fn coding(&mut self, element: Element) -> Result<(), Status> {
        let is_chunked = element.word.is_some();
        let facts = &mut self.facts;
        if element.is_malformed || facts.has_chunked || is_chunked && element.has_parameters {
            return Err(Status::BadRequest);
        }
        facts.has_chunked |= is_chunked;
        facts.has_others |= !is_chunked;
        Ok(())
    }

    fn option(&mut self, element: Option<Element>) {
        match element.and_then(|element| element.word) {
            Some(0) => self.facts.closes = true,
            Some(_) => self.facts.keeps_alive = true,
            None => {}
        }
    }

    fn expectation(&mut self, element: Option<Element>) {
        match element {
            Some(Element {
                word: Some(_),
                has_parameters: false,
                ..
            }) => self.facts.expects_continue = true,
            Some(_) => self.facts.expects_else = true,
            None => {}
        }
    }

    /// What the header fields of a request of this version mean together.
    pub(super) fn meaning(&self, version: Version) -> Result<Meaning, Status> {
        let facts = &self.facts;
        let is_old = version == Version::Http10;
        // RFC 9112, section 3.2.
        if !is_old && !facts.has_host {
            return Err(Status::BadRequest);
        }
        let content = match facts.has_codings {
            false => Content::Length(facts.length.unwrap_or(0)),
            // RFC 9112, sections 6.1 and 6.3, items 3 and 4.
            true if is_old || facts.length.is_some() || !facts.has_chunked => {
                return Err(Status::BadRequest);
            }
            true if facts.has_others => return Err(Status::NotImplemented),
            true => Content::Chunked,
        };
        // RFC 9110, section 10.1.1: a client of HTTP/1.0 expects nothing.
        if !is_old && facts.expects_else {
            return Err(Status::ExpectationFailed);
        }
        Ok(Meaning {
            content,
            // RFC 9112, section 9.3.
            persists: !facts.closes && (!is_old || facts.keeps_alive),
            expects_continue: !is_old && facts.expects_continue,
        })
    }
}

fn field(name: Option<usize>) -> Field {
    match name {
        Some(0) => Field::Host,
        Some(1) => Field::ContentLength,
        Some(2) => Field::TransferEncoding,
        Some(3) => Field::Connection,
        Some(4) => Field::Expect,
        _ => Field::Other,
    }
}

/// In the order of [`field`].
const NAMES: [Word; 5] = [
    word(b"host"),
    word(b"content-length"),
    word(b"transfer-encoding"),
    word(b"connection"),
    word(b"expect"),
];
const CODINGS: [Word; 1] = [word(b"chunked")];
/// In the order of [`Fields::option`].
const OPTIONS: [Word; 2] = [word(b"close"), word(b"keep-alive")];
const EXPECTATIONS: [Word; 1] = [word(b"100-continue")];
