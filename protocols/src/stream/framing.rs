//! Records out of a stream of bytes, and into it.
//!
//! ```text
//! fixed:       | record | record | record | ...
//! delimited:   | length | record | length | record | ...
//! ```
//! The length is a number of 1, 2, 4 or 8 bytes, in either order; it counts the record alone, or
//! itself too. A record is given when all of it is there, so that whoever works on it never waits
//! in the middle.

use super::bytes::{ByteOrder, Bytes};

/// How the records of a stream are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Framing {
    /// Bytes of each record, or the most that one may have.
    bytes: u32,
    /// Bytes of the length; 0 if all records are of one size.
    width: u8,
    order: ByteOrder,
    counts_itself: bool,
    reserved: u8,
}

const _: () = assert!(size_of::<Framing>() == 8);

/// What stands next in a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// A record, and all of it is there.
    Record(Record),
    /// The record is not all there.
    NeedMore {
        /// So many bytes more at least, one at the least: exact once its length is known.
        bytes: u32,
    },
    /// The stream is not framed like this, and nothing behind this can be told apart.
    Wrong(Wrong),
}

/// Where a record lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Offset of its first byte, behind its length.
    pub at: u32,
    /// Bytes; may be 0 if lengths say so.
    pub length: u32,
}

impl Record {
    /// Offset of what follows it.
    pub const fn end(&self) -> u32 {
        self.at.saturating_add(self.length)
    }
}

/// Why a length is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// The record is longer than any may be.
    TooLong {
        /// Bytes of the record.
        length: u64,
        /// The most that it may have.
        most: u32,
    },
    /// The length counts itself, and is less than that.
    ShorterThanItself {
        /// What it says.
        length: u64,
    },
    /// Not a record to be written: all records of this framing have another size.
    OtherSize {
        /// Bytes of the record.
        length: u64,
        /// What all records have.
        size: u32,
    },
}

/// A framing that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Illegal {
    /// Records of no bytes never end.
    NoBytes,
    /// More bytes than any ring of a stream has ([`MOST_BYTES`]).
    TooManyBytes,
    /// A length of other than 1, 2, 4 or 8 bytes.
    Width,
    /// Records so long have lengths that do not fit into the width.
    Unspeakable,
}

/// What stands before a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    bytes: [u8; 8],
    width: u8,
}

impl Header {
    /// Its bytes: none if all records are of one size.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.width)).unwrap_or(&[])
    }
}

impl Framing {
    /// Records of `bytes` bytes each.
    ///
    /// # Errors
    /// [`Illegal`].
    pub const fn fixed(bytes: u32) -> Result<Self, Illegal> {
        match bytes {
            0 => Err(Illegal::NoBytes),
            1..=MOST_BYTES => Ok(Self {
                bytes,
                width: 0,
                order: ByteOrder::Big,
                counts_itself: false,
                reserved: 0,
            }),
            _ => Err(Illegal::TooManyBytes),
        }
    }

    /// Records of at most `most` bytes, each behind its length: a number of `width` bytes.
    ///
    /// # Errors
    /// [`Illegal`].
    pub const fn delimited(
        width: u32,
        order: ByteOrder,
        counts_itself: bool,
        most: u32,
    ) -> Result<Self, Illegal> {
        if !matches!(width, 1 | 2 | 4 | 8) {
            return Err(Illegal::Width);
        }
        if most > MOST_BYTES {
            return Err(Illegal::TooManyBytes);
        }
        let itself = if counts_itself { width } else { 0 };
        if width < 4 && (most + itself) >> (8 * width) != 0 {
            return Err(Illegal::Unspeakable);
        }
        Ok(Self {
            bytes: most,
            width: width as u8,
            order,
            counts_itself,
            reserved: 0,
        })
    }

    /// The most bytes that a record and what stands before it take: a ring must have room for them.
    pub const fn most_with_header(&self) -> u32 {
        self.bytes + self.width as u32
    }

    /// What stands at offset `from` of the readable bytes.
    pub fn next(&self, bytes: &(impl Bytes + ?Sized), from: u32) -> Next {
        let have = bytes.length().saturating_sub(from);
        let width = u32::from(self.width);
        if have < width {
            return Next::NeedMore {
                bytes: width - have,
            };
        }
        let length = match self.width {
            0 => self.bytes,
            _ => match self.length(bytes, from) {
                Ok(length) => length,
                Err(wrong) => return Next::Wrong(wrong),
            },
        };
        let missing = length.saturating_sub(have - width);
        if missing != 0 {
            return Next::NeedMore { bytes: missing };
        }
        let at = from.saturating_add(width);
        Next::Record(Record { at, length })
    }

    /// Bytes of the record whose length stands at `from`.
    fn length(&self, bytes: &(impl Bytes + ?Sized), from: u32) -> Result<u32, Wrong> {
        let width = u32::from(self.width);
        let said = self.order.read(bytes, from, width).unwrap_or(u64::MAX);
        let length = match self.counts_itself {
            true => said.checked_sub(u64::from(width)),
            false => Some(said),
        };
        let length = length.ok_or(Wrong::ShorterThanItself { length: said })?;
        let most = self.bytes;
        match u32::try_from(length) {
            Ok(fits) if fits <= most => Ok(fits),
            _ => Err(Wrong::TooLong { length, most }),
        }
    }

    /// What is to be written before a record of `length` bytes.
    ///
    /// # Errors
    /// [`Wrong`] if the framing has no such record.
    pub fn header(&self, length: u32) -> Result<Header, Wrong> {
        let (size, width) = (self.bytes, self.width);
        let wide = u64::from(length);
        if width == 0 && length != size {
            let length = wide;
            return Err(Wrong::OtherSize { length, size });
        }
        if length > size {
            let (length, most) = (wide, size);
            return Err(Wrong::TooLong { length, most });
        }
        let itself = if self.counts_itself { width } else { 0 };
        let said = wide + u64::from(itself);
        let bytes = self.order.written(said, u32::from(width));
        Ok(Header { bytes, width })
    }
}

/// The most bytes that a record may have: the most of a stream's ring, less a length.
pub const MOST_BYTES: u32 = (1 << 30) - 8;

#[cfg(test)]
mod tests;
