//! Packets that came before their turn, as both ends keep them: the responder those that it has,
//! the requester those of which it was told.
//!
//! A packet's bit is its sequence number modulo the number of bits, so that nothing is ever
//! shifted: the window slides over the bits, and what it leaves behind is cleared.

use crate::wire::bth::Psn;

/// Packets that may be under way between ends that repeat selectively: bits that there are, less a
/// block, so that a block never holds bits of both ends of the window.
pub const SELECTIVE_WINDOW: u32 = BITS - BLOCK;

const BITS: u32 = 128;
/// Bits that one answer tells.
const BLOCK: u32 = 16;

/// A set of sequence numbers, none [`SELECTIVE_WINDOW`] or more behind another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub(super) struct Arrived([u32; 4]);

impl Arrived {
    pub(super) const NONE: Self = Self([0; 4]);

    /// The set that a responder stored where else it keeps a write under way.
    pub(super) const fn from_words(words: [u32; 4]) -> Self {
        Self(words)
    }

    /// As stored.
    pub(super) const fn words(self) -> [u32; 4] {
        self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    pub(super) fn has(&self, psn: Psn) -> bool {
        let word = self.0.get(word_of(psn)).copied().unwrap_or(0);
        word >> (psn.value() % 32) & 1 != 0
    }

    pub(super) fn put(&mut self, psn: Psn) {
        if let Some(word) = self.0.get_mut(word_of(psn)) {
            *word |= 1 << (psn.value() % 32);
        }
    }

    /// Takes `count` sequence numbers out, from `from` on.
    pub(super) fn clear(&mut self, from: Psn, count: u32) {
        if count >= BITS {
            *self = Self::NONE;
            return;
        }
        let (mut psn, mut left) = (from, count);
        while left > 0 && !self.is_empty() {
            let shift = psn.value() % 32;
            let taken = (32 - shift).min(left);
            let mask = (u32::MAX >> (32 - taken)) << shift;
            if let Some(word) = self.0.get_mut(word_of(psn)) {
                *word &= !mask;
            }
            psn = psn.wrapping_add(taken);
            left -= taken;
        }
    }

    /// How many sequence numbers in a row are in the set, from `from` on.
    pub(super) fn run(&self, from: Psn) -> u32 {
        let mut count = 0;
        while count < BITS {
            let psn = from.wrapping_add(count);
            let word = self.0.get(word_of(psn)).copied().unwrap_or(0);
            let shift = psn.value() % 32;
            let ones = (word >> shift).trailing_ones();
            count += ones;
            if ones < 32 - shift {
                break;
            }
        }
        count.min(BITS)
    }

    /// The blocks that are not empty, a bit each.
    pub(super) fn blocks(&self) -> u8 {
        let mut blocks = 0;
        for (word, place) in self.0.iter().zip(0..) {
            blocks |= u8::from(word & 0xffff != 0) << (place * 2);
            blocks |= u8::from(word >> 16 != 0) << (place * 2 + 1);
        }
        blocks
    }

    /// The bits of a block.
    fn block(&self, block: u32) -> u32 {
        let word = self.0.get(block as usize / 2).copied().unwrap_or(0);
        word >> (block % 2 * BLOCK) & 0xffff
    }
}

/// What one answer tells of packets that came before their turn: a block of 16 sequence numbers,
/// and one of them that came, taken or not.
///
/// It stands in the 24 bits of an acknowledgement's message sequence number, behind a negative
/// acknowledgement of the sequence error whose sequence number is the one that is missing.
///
/// ```text
/// +-+-----+-------+-------------------------------+
/// |0|block| came  |      bits of the block        |
/// +-+-----+-------+-------------------------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Report(u32);

impl Report {
    /// The report of a block; of packet `came`, if it lies in it, else of the last that is there.
    /// `None` if there is nothing to be told.
    pub(super) fn new(arrived: &Arrived, block: u32, came: Option<Psn>) -> Option<Self> {
        let bits = arrived.block(block);
        let came = came.filter(|psn| block_of(*psn) == block);
        let index = match came {
            Some(psn) => psn.value() % BLOCK,
            None => bits.checked_ilog2()?,
        };
        Some(Self(block << 20 | index << 16 | bits))
    }

    /// As it stands in an answer.
    pub(super) const fn value(self) -> u32 {
        self.0
    }

    /// Reads it from an answer.
    pub(super) const fn of(aeth: u32) -> Self {
        Self(aeth & 0x007f_ffff)
    }

    /// Adds what is told to what is known.
    pub(super) fn add_to(self, arrived: &mut Arrived) {
        let (block, bits) = (self.0 >> 20, self.0 & 0xffff);
        if let Some(word) = arrived.0.get_mut(block as usize / 2) {
            *word |= bits << (block % 2 * BLOCK);
        }
    }

    /// The last sequence number that came, where `missing` is missing.
    pub(super) fn last(self, missing: Psn) -> Psn {
        let block = self.0 >> 20;
        let index = self.0 >> 16 & (BLOCK - 1);
        let last = (self.0 & 0xffff).checked_ilog2().unwrap_or(0).max(index);
        let place = block * BLOCK + last;
        let ahead = place.wrapping_sub(missing.value()) % BITS;
        missing.wrapping_add(ahead)
    }
}

/// Which block of 16 a sequence number lies in.
pub(super) const fn block_of(psn: Psn) -> u32 {
    psn.value() % BITS / BLOCK
}

const fn word_of(psn: Psn) -> usize {
    (psn.value() % BITS / 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Against a set of numbers, over the end of the sequence numbers.
    #[test]
    fn a_set_like_any_other() {
        let mut seed = 7u32;
        let mut next = move || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 8
        };
        let (mut arrived, mut model) = (Arrived::NONE, BTreeSet::new());
        let mut from = 0x00ff_ff00;
        for _ in 0..20_000 {
            let psn = from + next() % SELECTIVE_WINDOW;
            match next() % 4 {
                0..=2 => {
                    arrived.put(Psn::new(psn));
                    model.insert(psn);
                }
                _ => {
                    let count = next() % 40;
                    arrived.clear(Psn::new(from), count);
                    model.retain(|one| *one >= from + count);
                    from += count;
                }
            }
            let psn = from + next() % SELECTIVE_WINDOW;
            assert_eq!(arrived.has(Psn::new(psn)), model.contains(&psn));
            let run = (psn..).take_while(|one| model.contains(one)).count();
            assert_eq!(arrived.run(Psn::new(psn)), run as u32);
            assert_eq!(arrived.is_empty(), model.is_empty());
            assert_eq!(Arrived::from_words(arrived.words()), arrived);
        }
        arrived.clear(Psn::new(from), BITS);
        assert!(arrived.is_empty());
        (0..BITS).for_each(|psn| arrived.put(Psn::new(psn)));
        assert_eq!(arrived.run(Psn::new(5)), BITS, "bounded");
    }

    #[test]
    fn reports_say_what_is_there() {
        let missing = Psn::new(0x00ff_fff5);
        let ahead = |count| missing.wrapping_add(count);
        let mut arrived = Arrived::NONE;
        let came = [1, 2, 3, 9, 12, 30, 31, 64, 111];
        came.iter().for_each(|count| arrived.put(ahead(*count)));
        let mut known = Arrived::NONE;
        let mut last = Vec::new();
        for block in (0..8).filter(|block| arrived.blocks() >> block & 1 != 0) {
            let report = Report::new(&arrived, block, None).expect("not empty");
            let report = Report::of(0x6000_0000 | report.value());
            report.add_to(&mut known);
            last.push(report.last(missing).diff(missing));
        }
        assert_eq!(known, arrived);
        last.sort_unstable();
        assert_eq!(last, [9, 12, 31, 64, 111], "the last of each block");
        // One that came and was not taken.
        let report = Report::new(&Arrived::NONE, block_of(ahead(5)), Some(ahead(5)));
        let report = report.expect("came");
        assert_eq!(report.last(missing), ahead(5));
        assert_eq!(Report::new(&Arrived::NONE, 3, None), None);
        let elsewhere = Some(ahead(40));
        let block = block_of(ahead(3));
        let report = Report::new(&arrived, block, elsewhere).expect("not empty");
        assert_eq!(report.last(missing), ahead(9));
    }
}
