//! The bytes of a record where they lie: in one piece, or in a few.

use warpwire_device::Piece;
use warpwire_protocols::stream::Bytes;

use crate::streaming::Extent;

/// Bytes that follow each other, in some pieces.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    pieces: [Piece<'a>; MOST_PARTS],
}

impl<'a> Parts<'a> {
    /// These pieces, one behind the other.
    #[inline]
    pub const fn new(pieces: [Piece<'a>; MOST_PARTS]) -> Self {
        Self { pieces }
    }

    /// `length` bytes from `offset` on, if they lie in one piece.
    #[inline]
    pub fn run(&self, offset: u32, length: u32) -> Option<Piece<'a>> {
        let mut offset = offset;
        for piece in &self.pieces {
            match offset.checked_sub(piece.length()) {
                None => return piece.part(offset, length),
                Some(rest) => offset = rest,
            }
        }
        None
    }
}

impl<'a> From<Extent<'a>> for Parts<'a> {
    fn from(extent: Extent<'a>) -> Self {
        let mut pieces = [Piece::EMPTY; MOST_PARTS];
        let both = [extent.first, extent.second];
        for (slot, piece) in pieces.iter_mut().zip(both) {
            *slot = piece;
        }
        Self { pieces }
    }
}

impl Bytes for Parts<'_> {
    #[inline]
    fn length(&self) -> u32 {
        let lengths = self.pieces.iter().map(Piece::length);
        lengths.fold(0, u32::saturating_add)
    }

    #[inline]
    fn byte(&self, at: u32) -> Option<u8> {
        self.run(at, 1)?.byte(0)
    }
}

/// Pieces that a record may lie in.
pub const MOST_PARTS: usize = 8;
