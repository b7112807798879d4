//! The internet checksum. RFC 1071.
//!
//! The one's complement of the one's complement sum of all 16-bit words. Such a sum does not depend
//! on byte order but for a final swap (RFC 1071 section 2 B), so the sum is kept in the order in
//! which words are loaded, and 32-bit words are added whole: they fold to the same value (section
//! 2 C).

use zerocopy::byteorder::network_endian::U16;

/// A one's complement sum of bytes that start at an even offset. Adding is associative and
/// commutative: parts may be summed by different lanes and joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum over nothing.
    pub const ZERO: Self = Self(0);

    /// The sum over `bytes`; an odd last byte is padded with zero.
    pub fn of(bytes: &[u8]) -> Self {
        let mut sum = 0_u64;
        let (words, rest) = bytes.as_chunks::<4>();
        for word in words {
            sum = sum.wrapping_add(u64::from(u32::from_le_bytes(*word)));
        }
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        Self(sum).add_word(u32::from_le_bytes(last))
    }

    /// Adds four bytes, given as the word that a little-endian load of them gives. Up to 2^32 words
    /// may be added.
    #[inline(always)]
    pub const fn add_word(self, word: u32) -> Self {
        Self(self.0.wrapping_add(word as u64))
    }

    /// Adds a 16-bit field, given as the number that it holds.
    #[inline(always)]
    pub const fn add_field(self, field: u16) -> Self {
        self.add_word(field.swap_bytes() as u32)
    }

    /// Adds a 32-bit field, given as the number that it holds.
    #[inline(always)]
    pub const fn add_field32(self, field: u32) -> Self {
        self.add_word(field.swap_bytes())
    }

    /// Adds another sum.
    #[inline(always)]
    pub const fn plus(self, other: Self) -> Self {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Self(sum.wrapping_add(carry as u64))
    }

    /// The same bytes at an odd offset.
    #[inline(always)]
    pub const fn at_odd_offset(self) -> Self {
        Self(self.folded().swap_bytes() as u64)
    }

    /// The sum in 16 bits, as the number that a field with it would hold. Zero only if every byte
    /// summed was zero.
    #[inline(always)]
    pub const fn fold(self) -> u16 {
        self.folded().swap_bytes()
    }

    /// The checksum: the complement of the sum, as the number that the field holds.
    #[inline(always)]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }

    /// The checksum as the field's bytes.
    #[inline(always)]
    pub const fn field(self) -> U16 {
        U16::new(self.checksum())
    }

    /// The checksum of UDP, where zero says that there is none: a computed zero becomes 0xffff.
    #[inline(always)]
    pub const fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// Whether a sum that included the checksum field says that all is well.
    #[inline(always)]
    pub const fn holds(self) -> bool {
        self.folded() == 0xffff
    }

    /// In load order.
    #[inline(always)]
    const fn folded(self) -> u16 {
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        ((sum & 0xffff) + (sum >> 16)) as u16
    }
}

/// A sum over bytes that come in pieces of any length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PiecewiseSum {
    sum: Sum,
    is_odd: bool,
}

impl PiecewiseSum {
    /// The sum over nothing.
    pub const fn new() -> Self {
        Self {
            sum: Sum::ZERO,
            is_odd: false,
        }
    }

    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        let sum = Sum::of(piece);
        self.sum = self.sum.plus(if self.is_odd {
            sum.at_odd_offset()
        } else {
            sum
        });
        self.is_odd ^= piece.len() % 2 == 1;
    }

    /// The sum over all pieces.
    pub const fn sum(self) -> Sum {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::hex;

    /// The definition, by the book: big-endian words, one at a time.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = hex("0001 f203 f4f5 f6f7");
        assert_eq!(Sum::of(&bytes).fold(), 0xddf2);
        assert_eq!(Sum::of(&bytes).checksum(), !0xddf2);
    }

    #[test]
    fn agrees_with_the_definition() {
        let bytes: Vec<u8> = (0..200_u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        for start in 0..8 {
            for end in start..bytes.len() {
                let piece = &bytes[start..end];
                assert_eq!(Sum::of(piece).fold(), naive(piece), "{start}..{end}");
            }
        }
        for bytes in [vec![0xff; 70000], vec![0; 9], vec![0xff, 0xff], vec![]] {
            assert_eq!(Sum::of(&bytes).fold(), naive(&bytes));
        }
    }

    #[test]
    fn pieces_of_any_length_join() {
        let bytes: Vec<u8> = (0..=255).collect();
        for a in 0..40 {
            for b in a..80 {
                let mut sum = PiecewiseSum::new();
                for piece in [&bytes[..a], &bytes[a..b], &bytes[b..]] {
                    sum.update(piece);
                }
                assert_eq!(sum.sum().fold(), naive(&bytes), "{a} {b}");
            }
        }
    }

    #[test]
    fn fields_and_words_are_bytes() {
        let sum = Sum::ZERO.add_field(0x1234).add_field32(0x5678_9abc);
        assert_eq!(sum.fold(), Sum::of(&hex("1234 56789abc")).fold());
        assert_eq!(
            Sum::ZERO.add_word(u32::MAX).plus(Sum(u64::MAX)).fold(),
            0xffff
        );
        assert_eq!(Sum::of(&hex("ffff")).udp_checksum(), 0xffff);
        assert_eq!(Sum::of(&hex("fffe")).udp_checksum(), 1);
    }
}
