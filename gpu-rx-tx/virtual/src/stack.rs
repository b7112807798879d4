//! Local memory: parameters and local variables of all frames, of all lanes.

use warpwire_gpu::executor::Random;

use crate::column::{Column, LANES, lanes};
use crate::fault::Reason;
use crate::module::{Space, Span};

/// The local memory of a warp. Frames lie one behind the other, at the same offset in each lane.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    /// Eight bytes of each lane.
    words: Vec<Column>,
}

impl Stack {
    /// Makes room for `bytes` bytes a lane. What nobody wrote is drawn, so that nothing can depend
    /// on it.
    pub(crate) fn grow(&mut self, bytes: u64, random: &mut Random) -> Result<(), Reason> {
        if bytes > MOST_BYTES {
            return Err(Reason::Stack {
                what: "bytes a lane",
                limit: MOST_BYTES,
            });
        }
        let words = bytes.div_ceil(8) as usize;
        while self.words.len() < words {
            self.words.push([random.bits(); LANES]);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn load(&self, lane: usize, offset: u64, bytes: u64) -> Result<u64, Reason> {
        let word = self.words.get((offset / 8) as usize);
        let word = word.ok_or_else(|| outside(offset, bytes))?[lane];
        Ok(word >> (offset % 8 * 8) & mask(bytes))
    }

    #[inline]
    pub(crate) fn store(
        &mut self,
        lane: usize,
        offset: u64,
        bytes: u64,
        value: u64,
    ) -> Result<(), Reason> {
        let word = self.words.get_mut((offset / 8) as usize);
        let word = &mut word.ok_or_else(|| outside(offset, bytes))?[lane];
        let (mask, shift) = (mask(bytes), offset % 8 * 8);
        *word = *word & !(mask << shift) | (value & mask) << shift;
        Ok(())
    }

    /// Copies parameters or results of some lanes between frames: whole words, because both start
    /// at one.
    pub(crate) fn copy(&mut self, mask: u32, from: u64, to: u64, span: Span) {
        for word in 0..span.bytes.div_ceil(8) {
            let from = self.words.get((from / 8 + word) as usize).copied();
            let to = self.words.get_mut((to / 8 + word) as usize);
            if let (Some(from), Some(to)) = (from, to) {
                for lane in lanes(mask) {
                    to[lane] = from[lane];
                }
            }
        }
    }
}

pub(crate) fn outside(address: u64, bytes: u64) -> Reason {
    Reason::OutOfBounds {
        address,
        bytes,
        space: Space::Local,
    }
}

/// Ones in the low `bytes` bytes, from 1 to 8.
#[inline(always)]
pub(crate) fn mask(bytes: u64) -> u64 {
    u64::MAX >> (64 - 8 * bytes.clamp(1, 8))
}

/// As much as a GPU gives at most.
const MOST_BYTES: u64 = 512 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_words_are_apart() {
        let mut stack = Stack::default();
        let mut random = Random::new(1);
        stack.grow(20, &mut random).expect("fits");
        stack.store(3, 0, 8, 0).expect("inside");
        let before = stack.load(4, 0, 8);
        for (offset, bytes, value) in [(0, 8, u64::MAX), (2, 2, 0), (7, 1, 0x12), (4, 1, 0x34)] {
            stack.store(3, offset, bytes, value).expect("inside");
            assert_eq!(
                stack.load(3, offset, bytes),
                Ok(value),
                "{bytes} at {offset}"
            );
        }
        assert_eq!(stack.load(3, 0, 8), Ok(0x12ff_ff34_0000_ffff));
        assert_eq!(stack.load(4, 0, 8), before, "another lane");
        assert!(stack.load(3, 24, 1).is_err());
        assert!(stack.grow(MOST_BYTES + 1, &mut random).is_err());
    }
}
