//! Heads of answers: RFC 9112, section 4; RFC 9110, sections 6.6.1, 8.3, 8.6 and 10.2.1.

use super::date::DATE_BYTES;
use super::grammar::is_field_byte;
use super::request::Version;
use super::status::Status;
use crate::wire::BufferTooShort;

/// What tells a client to go on: RFC 9110, section 15.2.1.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A value that is written into a head as it is: no line end can be in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldValue<'a>(&'a [u8]);

impl<'a> FieldValue<'a> {
    /// `None` if there is a byte that no field may have.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let is_right = bytes.iter().all(|byte| is_field_byte(*byte));
        is_right.then_some(Self(bytes))
    }
}

/// The head of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head<'a> {
    /// What is said.
    pub status: Status,
    /// Bytes of the content; of a request by HEAD, of that which is left out.
    pub length: u64,
    /// The media type of the content.
    pub media_type: Option<FieldValue<'a>>,
    /// When this is said; servers without a clock say nothing.
    pub date: Option<&'a [u8; DATE_BYTES]>,
    /// The version that the client speaks.
    pub version: Version,
    /// The connection goes on.
    pub persists: bool,
}

impl Head<'_> {
    /// Writes it, up to and including the empty line. Returns how many bytes that are.
    ///
    /// # Errors
    /// [`BufferTooShort`]; what is in the buffer then is of no use.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooShort> {
        let mut writer = Writer { buffer, at: 0 };
        writer.put(b"HTTP/1.1 ");
        writer.number(u64::from(self.status.code()));
        writer.put(b" ");
        writer.put(self.status.reason().as_bytes());
        if let Some(date) = self.date {
            writer.field(b"Date", date);
        }
        if let Some(media_type) = self.media_type {
            writer.field(b"Content-Type", media_type.0);
        }
        writer.field(b"Content-Length", b"");
        writer.number(self.length);
        if self.status == Status::MethodNotAllowed {
            writer.field(b"Allow", b"GET, HEAD");
        }
        // RFC 9112, section 9.3: what a client of this version does not take for granted.
        match (self.version, self.persists) {
            (Version::Http11, true) | (Version::Http10, false) => {}
            (Version::Http11, false) => writer.field(b"Connection", b"close"),
            (Version::Http10, true) => writer.field(b"Connection", b"keep-alive"),
        }
        writer.put(b"\r\n\r\n");
        let (need, have) = (writer.at, writer.buffer.len());
        match need <= have {
            true => Ok(need),
            false => Err(BufferTooShort { need, have }),
        }
    }
}

/// Writes what fits, and counts all.
struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, text: &[u8]) {
        let places = self.buffer.get_mut(self.at..).unwrap_or(&mut []);
        for (place, byte) in places.iter_mut().zip(text) {
            *place = *byte;
        }
        self.at += text.len();
    }

    /// Begins a field on a line of its own.
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.put(b"\r\n");
        self.put(name);
        self.put(b": ");
        self.put(value);
    }

    fn number(&mut self, number: u64) {
        let mut digits = [0; MOST_DIGITS];
        let (mut left, mut start) = (number, MOST_DIGITS);
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
            start -= 1;
            if left == 0 {
                break;
            }
        }
        self.put(digits.get(start..).unwrap_or(&[]));
    }
}

/// Digits of the largest number.
const MOST_DIGITS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head<'_> = Head {
        status: Status::Ok,
        length: 0,
        media_type: None,
        date: None,
        version: Version::Http11,
        persists: true,
    };

    #[test]
    fn heads() {
        let check = |head: Head<'_>, text: &str| {
            let mut buffer = [0xa5; 400];
            let length = head.emit(&mut buffer);
            assert_eq!(length, Ok(text.len()), "{head:?}");
            assert_eq!(str::from_utf8(&buffer[..text.len()]), Ok(text));
            assert!(buffer[text.len()..].iter().all(|byte| *byte == 0xa5));
            for have in 0..text.len() {
                let need = text.len();
                let short = head.emit(&mut buffer[..have]);
                assert_eq!(short, Err(BufferTooShort { need, have }));
            }
        };
        check(HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        check(
            Head {
                length: u64::MAX,
                media_type: FieldValue::new(b"text/html; charset=utf-8"),
                date: Some(b"Sun, 06 Nov 1994 08:49:37 GMT"),
                ..HEAD
            },
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Content-Type: text/html; charset=utf-8\r\n\
             Content-Length: 18446744073709551615\r\n\r\n",
        );
        check(
            Head {
                status: Status::MethodNotAllowed,
                length: 100,
                persists: false,
                ..HEAD
            },
            "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 100\r\nAllow: GET, HEAD\r\n\
             Connection: close\r\n\r\n",
        );
        check(
            Head {
                status: Status::NotFound,
                length: 9,
                version: Version::Http10,
                ..HEAD
            },
            "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\nConnection: keep-alive\r\n\r\n",
        );
        check(
            Head {
                version: Version::Http10,
                persists: false,
                ..HEAD
            },
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        );
    }

    #[test]
    fn line_ends_do_not_get_into_heads() {
        for bad in [&b"a\r\nb"[..], b"a\n", b"\r", b"\0", b"\x7f"] {
            assert_eq!(FieldValue::new(bad), None);
        }
        assert!(FieldValue::new(b"image/svg+xml").is_some());
    }

    #[test]
    fn every_status_has_three_digits_and_a_reason() {
        for status in Status::ALL {
            assert!((200..600).contains(&status.code()) && !status.reason().is_empty());
        }
    }
}
