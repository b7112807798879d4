//! The content of a request, which is passed over: RFC 9112, sections 6.2 and 7.1.

use super::fields::{Content, Fields};
use super::grammar::{hex, is_field_byte};
use super::request::Limits;
use super::status::Status;

/// Passes over a content as its bytes come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Body {
    /// Bytes of the content, or of the chunk, that are to come.
    left: u64,
    /// Bytes of all chunks so far.
    total: u64,
    /// Bytes of a line with a size, or of the trailer.
    line: u32,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Place {
    /// Content of a known length; [`Body::left`] are to come.
    Counted,
    SizeStart,
    Size,
    Extension,
    /// CR came behind a size.
    SizeEnd,
    Data,
    DataEnd,
    DataEndLine,
    Trailer,
}

impl Body {
    pub(super) const NEW: Self = Self {
        left: 0,
        total: 0,
        line: 0,
        place: Place::Counted,
    };

    /// The content that the fields announced.
    pub(super) fn new(content: Content, limits: &Limits) -> Result<Self, Status> {
        let (left, place) = match content {
            Content::Length(length) => (length, Place::Counted),
            Content::Chunked => (0, Place::SizeStart),
        };
        if left > limits.content {
            return Err(Status::ContentTooLarge);
        }
        Ok(Self {
            left,
            place,
            ..Self::NEW
        })
    }

    /// There is no content, or no more of it.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.place, Place::Counted) && self.left == 0
    }

    /// Passes over as many of the next `bytes` bytes as nobody needs to look at.
    pub(super) fn pass(&mut self, bytes: u32) -> u32 {
        if !matches!(self.place, Place::Counted | Place::Data) {
            return 0;
        }
        let passed = self.left.min(u64::from(bytes));
        self.left -= passed;
        if self.left == 0 && self.place == Place::Data {
            self.place = Place::DataEnd;
        }
        passed as u32
    }

    /// Takes a byte that [`pass`](Self::pass) left. `true` if it ends the content.
    pub(super) fn step(
        &mut self,
        byte: u8,
        trailer: &mut Fields,
        limits: &Limits,
    ) -> Result<bool, Status> {
        self.line = self.line.saturating_add(1);
        self.place = match (self.place, byte) {
            (Place::SizeStart | Place::Size, _) if let Some(digit) = hex(byte) => {
                self.size_digit(digit, limits)?;
                Place::Size
            }
            (Place::Size, b';') => Place::Extension,
            (Place::Extension, _) if is_field_byte(byte) => Place::Extension,
            (Place::Size | Place::Extension, b'\r') => Place::SizeEnd,
            (Place::SizeEnd, b'\n') => self.end_size(),
            (Place::DataEnd, b'\r') => Place::DataEndLine,
            (Place::DataEndLine, b'\n') => {
                self.line = 0;
                Place::SizeStart
            }
            (Place::Trailer, _) => return self.trailer(byte, trailer, limits),
            _ => return Err(Status::BadRequest),
        };
        if self.line > MOST_SIZE_LINE {
            return Err(Status::BadRequest);
        }
        Ok(false)
    }

    fn size_digit(&mut self, digit: u8, limits: &Limits) -> Result<(), Status> {
        if self.line > MOST_SIZE_DIGITS {
            return Err(Status::BadRequest);
        }
        self.left = self.left << 4 | u64::from(digit);
        if self.left > limits.content.saturating_sub(self.total) {
            return Err(Status::ContentTooLarge);
        }
        Ok(())
    }

    fn end_size(&mut self) -> Place {
        self.line = 0;
        self.total += self.left;
        match self.left {
            0 => Place::Trailer,
            _ => Place::Data,
        }
    }

    fn trailer(&mut self, byte: u8, trailer: &mut Fields, limits: &Limits) -> Result<bool, Status> {
        if self.line > limits.head {
            return Err(Status::FieldsTooLarge);
        }
        let is_over = trailer.step(byte, true)?;
        if is_over {
            self.place = Place::Counted;
        }
        Ok(is_over)
    }
}

/// Digits of the size of a chunk: what 64 bits hold.
const MOST_SIZE_DIGITS: u32 = 16;
/// Bytes of the line with the size of a chunk, and with extensions that nobody knows: RFC 9112,
/// section 7.1.1, asks for a limit.
const MOST_SIZE_LINE: u32 = 256;
