//! The target of a request: RFC 9112, section 3.2. What is kept is the path: RFC 3986, sections 3.3
//! and 5.2.4.

use super::grammar::{hex, is_path_byte};
use super::host::Host;
use super::status::Status;

/// The most bytes of a path, dot segments that are not over yet included: longer ones are answered
/// by 414.
pub const PATH_BYTES: usize = 256;

/// Reads a target as its bytes come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Target {
    /// Decoded, and without the dot segments that are over.
    path: [u8; PATH_BYTES],
    length: u16,
    /// Where the last segment begins.
    segment: u16,
    place: Place,
    host: Host,
    /// Letters of the scheme that came.
    scheme: u8,
    /// The first digit of an escape.
    escape: u8,
    is_too_long: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Place {
    Start,
    Asterisk,
    /// authority-form, of CONNECT only.
    Peer,
    Scheme,
    /// The authority of an absolute-form.
    Authority,
    Path,
    PathEscape,
    PathEscapeEnd,
    Query,
    QueryEscape,
    QueryEscapeEnd,
}

/// The forms of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// origin-form or absolute-form.
    Path,
    Asterisk,
    Authority,
}

impl Target {
    pub(super) const NEW: Self = Self {
        path: [0; PATH_BYTES],
        length: 0,
        segment: 0,
        place: Place::Start,
        host: Host::Start,
        scheme: 0,
        escape: 0,
        is_too_long: false,
    };

    /// Begins anew; what an earlier path left is not seen.
    pub(super) const fn clear(&mut self) {
        self.length = 0;
        self.segment = 0;
        self.place = Place::Start;
        self.host = Host::Start;
        self.scheme = 0;
        self.is_too_long = false;
    }

    /// The target is that of CONNECT.
    pub(super) const fn expect_authority(&mut self) {
        self.place = Place::Peer;
    }

    /// The path; nothing in targets that have none.
    pub(super) fn path(&self) -> &[u8] {
        self.path.get(..usize::from(self.length)).unwrap_or(&[])
    }

    /// The path is longer than what is kept.
    pub(super) const fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// Takes a byte, which is not a space.
    pub(super) fn step(&mut self, byte: u8) -> Result<(), Status> {
        if !byte.is_ascii_graphic() {
            return Err(Status::BadRequest);
        }
        match self.place {
            Place::Start => self.start(byte),
            Place::Asterisk => Err(Status::BadRequest),
            Place::Peer => self.authority(byte),
            Place::Scheme => self.scheme(byte),
            Place::Authority => match byte {
                b'/' | b'?' => {
                    self.end_authority()?;
                    self.path_byte(byte)
                }
                _ => self.authority(byte),
            },
            Place::Path => self.path_byte(byte),
            Place::PathEscape | Place::QueryEscape => {
                self.escape = hex(byte).ok_or(Status::BadRequest)?;
                self.place = match self.place {
                    Place::PathEscape => Place::PathEscapeEnd,
                    _ => Place::QueryEscapeEnd,
                };
                Ok(())
            }
            Place::PathEscapeEnd => self.escaped(byte),
            Place::QueryEscapeEnd => {
                hex(byte).ok_or(Status::BadRequest)?;
                self.place = Place::Query;
                Ok(())
            }
            Place::Query => match byte {
                b'%' => {
                    self.place = Place::QueryEscape;
                    Ok(())
                }
                b'/' | b'?' => Ok(()),
                _ if is_path_byte(byte) => Ok(()),
                _ => Err(Status::BadRequest),
            },
        }
    }

    /// The target is over.
    pub(super) fn end(&mut self) -> Result<Form, Status> {
        match self.place {
            Place::Asterisk => return Ok(Form::Asterisk),
            Place::Peer if self.host.is_name() => return Ok(Form::Authority),
            Place::Authority => self.end_authority()?,
            Place::Path | Place::Query => {}
            _ => return Err(Status::BadRequest),
        }
        if self.place == Place::Path && !self.end_dots() && self.length == 0 {
            self.put(b'/');
        }
        Ok(Form::Path)
    }

    fn start(&mut self, byte: u8) -> Result<(), Status> {
        self.place = match byte {
            b'/' => Place::Path,
            b'*' => Place::Asterisk,
            _ => Place::Scheme,
        };
        match self.place {
            Place::Path => self.path_byte(byte),
            Place::Scheme => self.scheme(byte),
            _ => Ok(()),
        }
    }

    /// Of absolute-forms, `http` alone leads here.
    fn scheme(&mut self, byte: u8) -> Result<(), Status> {
        if SCHEME.get(usize::from(self.scheme)) != Some(&byte.to_ascii_lowercase()) {
            return Err(Status::BadRequest);
        }
        self.scheme += 1;
        if usize::from(self.scheme) == SCHEME.len() {
            self.place = Place::Authority;
        }
        Ok(())
    }

    fn authority(&mut self, byte: u8) -> Result<(), Status> {
        self.host = self.host.step(byte);
        match self.host {
            Host::Wrong => Err(Status::BadRequest),
            _ => Ok(()),
        }
    }

    /// An authority without a name is none; user information is refused with what precedes `@`.
    fn end_authority(&mut self) -> Result<(), Status> {
        if !self.host.is_name() {
            return Err(Status::BadRequest);
        }
        self.place = Place::Path;
        Ok(())
    }

    fn path_byte(&mut self, byte: u8) -> Result<(), Status> {
        match byte {
            b'/' => {
                if !self.end_dots() {
                    self.put(byte);
                    self.segment = self.length;
                }
            }
            b'?' => {
                if !self.end_dots() && self.length == 0 {
                    self.put(b'/');
                }
                self.place = Place::Query;
            }
            b'%' => self.place = Place::PathEscape,
            _ if is_path_byte(byte) => self.put(byte),
            _ => return Err(Status::BadRequest),
        }
        Ok(())
    }

    /// The second digit of an escape in the path. What is no part of a name, or parts names for
    /// somebody else, is refused.
    fn escaped(&mut self, byte: u8) -> Result<(), Status> {
        let low = hex(byte).ok_or(Status::BadRequest)?;
        let byte = self.escape << 4 | low;
        if byte.is_ascii_control() || matches!(byte, b'/' | b'\\') {
            return Err(Status::BadRequest);
        }
        self.put(byte);
        self.place = Place::Path;
        Ok(())
    }

    /// A segment is over. If it is `.` or `..`, takes away what it stands for: then the path ends
    /// with a slash already.
    fn end_dots(&mut self) -> bool {
        let segment = self.path().get(usize::from(self.segment)..);
        let segments = match segment {
            Some(b".") => 0,
            Some(b"..") => 1,
            _ => return false,
        };
        self.length = self.segment;
        // The path is `/`, or ends with the slash behind the segment that goes too.
        if segments == 1 && self.length > 1 {
            let before = self.path().get(..usize::from(self.length) - 1);
            let slash = before.and_then(|before| before.iter().rposition(|byte| *byte == b'/'));
            self.length = slash.map_or(1, |slash| slash as u16 + 1);
            self.segment = self.length;
        }
        true
    }

    fn put(&mut self, byte: u8) {
        match self.path.get_mut(usize::from(self.length)) {
            Some(place) => {
                *place = byte;
                self.length += 1;
            }
            None => self.is_too_long = true,
        }
    }
}

const SCHEME: &[u8] = b"http://";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], is_connect: bool) -> Result<(Form, Vec<u8>, bool), Status> {
        let mut target = Target::NEW;
        target.path = [b'.'; PATH_BYTES];
        if is_connect {
            target.expect_authority();
        }
        for byte in text {
            target.step(*byte)?;
        }
        let form = target.end()?;
        Ok((form, target.path().to_vec(), target.is_too_long()))
    }

    #[test]
    fn paths() {
        let check = |text: &str, path: &str| {
            let read = read(text.as_bytes(), false);
            let path = path.as_bytes().to_vec();
            assert_eq!(read, Ok((Form::Path, path, false)), "{text}");
        };
        check("/", "/");
        check("/index.html", "/index.html");
        check("/a/b/?c=/d/../?", "/a/b/");
        check("/?", "/");
        check("/a:b@c!$&'()*+,;=-._~", "/a:b@c!$&'()*+,;=-._~");
        // RFC 3986, section 2.1: escapes, digits of either case, decoded once.
        check("/%41%7a%2e%2E.%20%25", "/Az... %");
        check("/%252e%252e/", "/%2e%2e/");
        check("/%c3%a4", "/\u{e4}");
        check("/a?%00%2f", "/a");
        // RFC 3986, section 5.2.4: dot segments, escaped ones too (section 6.2.2.2).
        check("/a/b/c/./../../g", "/a/g");
        check("/../../g", "/g");
        check("/.", "/");
        check("/..", "/");
        check("/a/.", "/a/");
        check("/a/..", "/");
        check("/a/b/..?x", "/a/");
        check("/a/%2e%2E/b", "/b");
        check("/a/.%2e", "/");
        check("/...", "/...");
        check("/.a/..b/c.", "/.a/..b/c.");
        check("//a//../b", "//a/b");
        check("//../b", "/b");
        check("/a//", "/a//");
        // RFC 9112, section 3.2.2: absolute-form.
        check("http://example.org/a", "/a");
        check("HTTP://[::1]:80", "/");
        check("http://example.org?q", "/");
        check("http://example.org/../a/.", "/a/");
    }

    #[test]
    fn refused() {
        let long = format!("/{}%", "a".repeat(400));
        for text in [
            "",
            "a",
            "index.html",
            "/a b",
            "/a\tb",
            "/\u{e4}",
            "/a#b",
            "/a?b#c",
            "/<",
            "/\"",
            "/{",
            "/a\\b",
            "/|",
            "/^",
            "/`",
            "/a?[",
            "/a\0",
            "/a\x7f",
            "/%",
            "/%4",
            "/%4/",
            "/%g0",
            "/%0g",
            "/%00",
            "/%0a",
            "/%1F",
            "/%7f",
            "/%2f",
            "/..%2F..",
            "/%5c",
            "/a?%",
            "/a?%4",
            "/a?%4g",
            "**",
            "*/",
            "https://a/",
            "http:/a",
            "http://",
            "http:///a",
            "http://?a",
            "http://user@a/",
            "http://a:b/",
            "http://a\\b/",
            "ftp://a/",
            "http://a#",
            &long,
        ] {
            assert_eq!(
                read(text.as_bytes(), false),
                Err(Status::BadRequest),
                "{text:?}"
            );
        }
    }

    #[test]
    fn other_forms() {
        let check = |text: &str, is_connect: bool, form: Option<Form>| {
            let found = read(text.as_bytes(), is_connect).ok();
            assert_eq!(found, form.map(|form| (form, vec![], false)), "{text}");
        };
        check("*", false, Some(Form::Asterisk));
        check("example.org:443", true, Some(Form::Authority));
        check("[::1]:443", true, Some(Form::Authority));
        for bad in ["", "/", "a/b", "a\tb", "http://a/"] {
            check(bad, true, None);
        }
    }

    #[test]
    fn paths_that_are_too_long_say_so() {
        let check = |path: String, is_too_long: bool| {
            let (_, kept, found) = read(path.as_bytes(), false).unwrap();
            assert_eq!(found, is_too_long, "{} bytes", path.len());
            assert!(kept.len() <= PATH_BYTES);
        };
        let long = |bytes: usize| format!("/{}", "a".repeat(bytes - 1));
        check(long(PATH_BYTES), false);
        check(long(PATH_BYTES + 1), true);
        check(long(PATH_BYTES) + "?" + &"q".repeat(1000), false);
        check("/%41".repeat(PATH_BYTES / 2), false);
        check("/a/..".repeat(500), false);
        check(long(PATH_BYTES - 3) + "/..", false);
        check(long(PATH_BYTES - 2) + "/..", true);
    }
}
