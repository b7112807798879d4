//! Bytes of a ring: one piece, or two where the ring's end lies between.

use warpwire_device::{Piece, Simt, copy_across};
use warpwire_protocols::stream::Bytes;

/// Bytes that follow each other in a stream, where they lie.
#[derive(Clone, Copy, Debug)]
pub struct Extent<'a> {
    /// The front.
    pub first: Piece<'a>,
    /// What follows; empty if nothing does.
    pub second: Piece<'a>,
}

impl<'a> Extent<'a> {
    /// Bytes.
    #[inline(always)]
    pub const fn length(&self) -> u32 {
        self.first.length().saturating_add(self.second.length())
    }

    /// Whether there are none.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.length() == 0
    }

    /// `length` bytes from `offset` on, if there are that many.
    #[inline]
    pub fn part(&self, offset: u32, length: u32) -> Option<Self> {
        let before = offset.min(self.first.length());
        let here = length.min(self.first.length() - before);
        let (behind, rest) = (offset - before, length - here);
        Some(Self {
            first: self.first.part(before, here)?,
            second: self.second.part(behind, rest)?,
        })
    }

    /// The first `most` bytes, or all if they are less.
    #[inline]
    pub fn up_to(&self, most: u32) -> Self {
        let count = most.min(self.length());
        self.part(0, count).unwrap_or(*self)
    }

    /// The bytes from `offset` on that lie together; `None` behind the last.
    #[inline]
    fn run(&self, offset: u32) -> Option<Piece<'a>> {
        let (piece, offset) = match offset.checked_sub(self.first.length()) {
            None => (&self.first, offset),
            Some(rest) => (&self.second, rest),
        };
        let left = piece.length().saturating_sub(offset);
        piece.part(offset, left).filter(|run| !run.is_empty())
    }

    /// *Collective.* Copies to the start of `to`, which overlaps nowhere, by the whole warp; as
    /// many bytes as there are and fit. Returns how many. Lanes see each other's part after
    /// [`Simt::sync_warp`].
    pub fn copy_to<S: Simt>(&self, simt: &S, to: &Extent<'_>) -> u32 {
        let count = self.length().min(to.length());
        let mut done = 0;
        // Two pieces here and two there have three parts at most.
        while done < count
            && let (Some(from), Some(into)) = (self.run(done), to.run(done))
        {
            let here = from.length().min(into.length()).min(count - done);
            if let (Some(from), Some(into)) = (from.part(0, here), into.part(0, here)) {
                copy_across(simt, &from, &into);
            }
            done += here;
        }
        done
    }

    /// *Collective.* Copies bytes that every lane has to the start, as many as fit. Returns how
    /// many.
    pub fn fill<S: Simt>(&self, simt: &S, bytes: &[u8]) -> u32 {
        let count = bytes.length().min(self.length());
        if S::WIDTH == 1 {
            let (front, back) = bytes
                .split_at_checked(self.first.length() as usize)
                .unwrap_or((bytes, &[]));
            self.first.copy_in(0, front);
            let left = (count as usize).saturating_sub(front.len());
            self.second.copy_in(0, back.get(..left).unwrap_or_default());
            return count;
        }
        let mut at = simt.lane();
        while at < count {
            if let (Some(run), Some(byte)) = (self.run(at), bytes.byte(at)) {
                run.set_byte(0, byte);
            }
            at += S::WIDTH;
        }
        count
    }
}

impl<'a> From<Piece<'a>> for Extent<'a> {
    fn from(first: Piece<'a>) -> Self {
        Self {
            first,
            second: Piece::EMPTY,
        }
    }
}

impl Bytes for Extent<'_> {
    #[inline]
    fn length(&self) -> u32 {
        Self::length(self)
    }

    #[inline]
    fn byte(&self, at: u32) -> Option<u8> {
        match at.checked_sub(self.first.length()) {
            None => self.first.byte(at),
            Some(rest) => self.second.byte(rest),
        }
    }
}
