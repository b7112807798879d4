//! CRC-32 of IEEE 802.3 without tables, for lanes of a GPU and for anyone.
//!
//! A byte string is a polynomial over GF(2), its first byte's lowest bit the highest power; its CRC
//! is the remainder of it times x^32 by P = x^32 + x^26 + x^23 + x^22 + x^16 + x^12 + x^11 + x^10 +
//! x^8 + x^7 + x^5 + x^4 + x^2 + x + 1, begun from and ended with all bits flipped.
//!
//! A table looks up what a few bits leave behind. Here a word is removed by adding a *sparse*
//! multiple of P: some shifts and exclusive-ors, no memory, no branch, whatever the word holds (the
//! idea is that of Chorba, arXiv:2412.16398; the multiples were found by an exhaustive search):
//!
//! - [`WIDE`]: x^300 + x^155 + x^117 + x^89 + 1: four double shifts a double word, five are left;
//! - [`NARROW`]: nine terms, degree 85: eight double shifts a word, three are left;
//! - P itself, for the last words.
//!
//! Remainders are linear. A part may be fed to its own [`Crc32::partial`] by another lane; parts
//! join by [`Crc32::then`] with a [`Shift`], a power of x that is a constant for a given length.

/// A running CRC over the bytes fed so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Crc32(u32);

/// What computes CRCs of bytes in ordinary memory.
pub trait Engine {
    /// Whether it takes words as readily as bytes: whoever has words need not copy them, and calls
    /// [`Crc32::update_words`].
    const BY_WORDS: bool = false;

    /// The CRC after these bytes too.
    fn update(crc: Crc32, bytes: &[u8]) -> Crc32;

    /// The CRC after `count` words too, at most [`MOST_HEADER_WORDS`]; `load` as for
    /// [`Crc32::update_words`].
    fn update_headers(crc: Crc32, count: usize, mut load: impl FnMut(usize) -> u32) -> Crc32 {
        let mut bytes = [0; MOST_HEADER_WORDS * 4];
        let (chunks, _) = bytes.as_chunks_mut::<4>();
        let mut length = 0;
        for (chunk, index) in chunks.iter_mut().zip(0..count) {
            *chunk = load(index).to_le_bytes();
            length += chunk.len();
        }
        Self::update(crc, bytes.get(..length).unwrap_or(&[]))
    }
}

/// Words of the headers that an invariant CRC begins with: IPv4 with all its options, UDP, base
/// transport header, extended headers.
pub const MOST_HEADER_WORDS: usize = 15 + 2 + 3 + 7;

/// Shifts and exclusive-ors: runs anywhere.
#[derive(Clone, Copy, Debug)]
pub struct Arithmetic;

impl Engine for Arithmetic {
    const BY_WORDS: bool = true;

    fn update(crc: Crc32, bytes: &[u8]) -> Crc32 {
        crc.update(bytes)
    }

    /// Word by word: headers are too short for more, and the code is.
    fn update_headers(crc: Crc32, count: usize, load: impl FnMut(usize) -> u32) -> Crc32 {
        let count = count.min(MOST_HEADER_WORDS);
        if count >= NARROW_WORDS {
            Crc32(narrow(crc.0, count, load))
        } else {
            Crc32(plain(crc.0, count, load))
        }
    }
}

/// The `crc32fast` crate: carry-less multiplication where the processor has it.
#[cfg(feature = "host")]
#[derive(Clone, Copy, Debug)]
pub struct Host;

#[cfg(feature = "host")]
impl Engine for Host {
    fn update(crc: Crc32, bytes: &[u8]) -> Crc32 {
        let mut hasher = crc32fast::Hasher::new_with_initial(crc.finish());
        hasher.update(bytes);
        Crc32(!hasher.finalize())
    }
}

impl Crc32 {
    /// The CRC over nothing yet: the start of a byte string.
    pub const fn new() -> Self {
        Self(u32::MAX)
    }

    /// The remainder over nothing yet: the start of a later part, to be joined by
    /// [`Crc32::then`].
    pub const fn partial() -> Self {
        Self(0)
    }

    /// From the value that [`Crc32::finish`] gave.
    pub const fn resume(value: u32) -> Self {
        Self(!value)
    }

    /// The CRC, as zlib's `crc32` gives it.
    pub const fn finish(self) -> u32 {
        !self.0
    }

    /// The running value, before the final flip.
    pub const fn state(self) -> u32 {
        self.0
    }

    /// The CRC after these bytes too.
    pub fn update(self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<4>();
        let load = |index: usize| words.get(index).map_or(0, |word| u32::from_le_bytes(*word));
        let mut crc = self.update_words(words.len(), load);
        for byte in rest {
            crc = crc.update_byte(*byte);
        }
        crc
    }

    /// The CRC after `count` words too, each four bytes in little-endian order. `load` gives the
    /// word at an index and is called once for each, in order.
    #[inline(always)]
    pub fn update_words(self, count: usize, load: impl FnMut(usize) -> u32) -> Self {
        if count >= WIDE_MINIMUM {
            Self(wide(self.0, count, load))
        } else if count >= NARROW_WORDS {
            Self(narrow(self.0, count, load))
        } else {
            Self(plain(self.0, count, load))
        }
    }

    /// The CRC after four bytes too, given as a little-endian load gives them.
    #[inline(always)]
    pub const fn update_word(self, word: u32) -> Self {
        Self(times_x32(self.0 ^ word))
    }

    /// The CRC after one byte too.
    #[inline(always)]
    pub const fn update_byte(self, byte: u8) -> Self {
        Self(times_x32((self.0 ^ byte as u32) << 24) ^ self.0 >> 8)
    }

    /// Joins a later part: `shift` is [`Shift::bytes`] of that part's length.
    #[inline(always)]
    pub const fn then(self, part: Self, shift: Shift) -> Self {
        Self(multiply(self.0, shift.0) ^ part.0)
    }

    /// What this part adds to a whole in which bytes follow it, as many as `shift` says. The whole
    /// is the exclusive-or of all parts so shifted: see [`Crc32::plus`].
    #[inline(always)]
    pub const fn shifted(self, shift: Shift) -> Self {
        Self(multiply(self.0, shift.0))
    }

    /// Adds a part of the same whole.
    #[inline(always)]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

/// How far a remainder moves when bytes follow it: a power of x, by P. A constant for a given
/// number of bytes; make it in a `const`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Shift(u32);

impl Shift {
    /// For no bytes.
    pub const NONE: Self = Self(1 << 31);

    /// For this many bytes.
    pub const fn bytes(count: u64) -> Self {
        // x^8; bit 31 is x^0.
        Self(1 << 23).times(count)
    }

    /// For `count` times as many bytes.
    pub const fn times(self, count: u64) -> Self {
        let (mut power, mut square, mut rest) = (Self::NONE.0, self.0, count);
        while rest != 0 {
            if rest & 1 != 0 {
                power = multiply(power, square);
            }
            square = multiply(square, square);
            rest >>= 1;
        }
        Self(power)
    }

    /// For the bytes of both.
    pub const fn plus(self, other: Self) -> Self {
        Self(multiply(self.0, other.0))
    }
}

/// The CRC of two byte strings in a row from their CRCs, as zlib's `crc32_combine`.
pub const fn combine(first: u32, second: u32, second_length: u64) -> u32 {
    multiply(first, Shift::bytes(second_length).0) ^ second
}

/// Bit 31 is x^0, as in every remainder here.
const P: u32 = 0xedb8_8320;

/// x^300 = x^155 + x^117 + x^89 + 1, by P. A bit is removed by flipping those this far behind it.
const WIDE: [usize; 4] = [145, 183, 211, 300];

/// Double words that a [`WIDE`] reduction leaves behind.
const WIDE_WORDS: usize = 5;

/// Words from which on a [`WIDE`] reduction pays.
const WIDE_MINIMUM: usize = 16;

/// x^85 = x^48 + x^41 + x^39 + x^17 + x^13 + x^6 + x^3 + 1, by P, in the form of [`WIDE`].
const NARROW: [usize; 8] = [37, 44, 46, 68, 72, 79, 82, 85];

/// Words that a [`NARROW`] reduction leaves behind.
const NARROW_WORDS: usize = 3;

/// Reduces `count` words, at least eleven, to a remainder.
#[inline(always)]
fn wide(state: u32, count: usize, mut load: impl FnMut(usize) -> u32) -> u32 {
    let mut removed = [0; WIDE_WORDS];
    let mut start = u64::from(state);
    let mut index = 0;
    // An odd word goes first: a word of zeros before it changes nothing.
    if count % 2 == 1 {
        removed = push_wide(removed, u64::from(load(0) ^ state) << 32);
        (start, index) = (0, 1);
    }
    let mut step = |index| {
        let word = u64::from(load(index)) | u64::from(load(index + 1)) << 32;
        removed = push_wide(removed, word ^ start ^ flips_wide(&removed));
        start = 0;
    };
    let end = count - 2 * WIDE_WORDS;
    // Five at once: then nothing moves between registers.
    while index + 10 <= end {
        step(index);
        step(index + 2);
        step(index + 4);
        step(index + 6);
        step(index + 8);
        index += 10;
    }
    while index < end {
        step(index);
        index += 2;
    }
    let mut left = 0;
    narrow(start as u32, 2 * WIDE_WORDS, |word| {
        if word % 2 == 0 {
            left = flips_wide(&removed);
            removed = push_wide(removed, 0);
        } else {
            left >>= 32;
        }
        load(end + word) ^ left as u32
    })
}

/// Reduces `count` words, at least three, to a remainder.
#[inline(always)]
fn narrow(state: u32, count: usize, mut load: impl FnMut(usize) -> u32) -> u32 {
    let end = count - NARROW_WORDS;
    let (mut reduction, mut start) = (Narrow::new(), state);
    for index in 0..end {
        reduction = reduction.remove(load(index) ^ start);
        start = 0;
    }
    let last = [load(end) ^ start, load(end + 1), load(end + 2)];
    reduction.finish(last).0
}

/// Reduces `count` words to a remainder.
#[inline(always)]
fn plain(state: u32, count: usize, mut load: impl FnMut(usize) -> u32) -> u32 {
    (0..count).fold(state, |crc, index| times_x32(crc ^ load(index)))
}

/// What the last double words removed, the oldest first, flip in the one after them.
#[inline(always)]
fn flips_wide(removed: &[u64; WIDE_WORDS]) -> u64 {
    // Written out: each offset is a constant where it is used, and no array is walked.
    let flip = |offset: usize| {
        let (words, bits) = (offset / 64, offset % 64);
        let (near, far) = (removed[WIDE_WORDS - words], removed[WIDE_WORDS - words - 1]);
        near << bits | far >> (64 - bits)
    };
    let [a, b, c, d] = WIDE;
    flip(a) ^ flip(b) ^ flip(c) ^ flip(d)
}

#[inline(always)]
fn push_wide([_, b, c, d, e]: [u64; WIDE_WORDS], word: u64) -> [u64; WIDE_WORDS] {
    [b, c, d, e, word]
}

/// A [`NARROW`] reduction under way: the last three words removed, the oldest first. As a chain of
/// calls, for a fixed number of words, it needs no array in memory.
#[derive(Clone, Copy)]
pub(super) struct Narrow([u32; NARROW_WORDS]);

impl Narrow {
    /// Begins with a partial remainder: a running one is to be added to the first word.
    pub(super) const fn new() -> Self {
        Self([0; NARROW_WORDS])
    }

    /// Removes the next word.
    #[inline(always)]
    pub(super) const fn remove(self, word: u32) -> Self {
        let [_, b, c] = self.0;
        Self([b, c, word ^ self.flips()])
    }

    /// Reduces the last three words.
    #[inline(always)]
    pub(super) const fn finish(self, [first, second, third]: [u32; NARROW_WORDS]) -> Crc32 {
        let [_, b, c] = self.0;
        let first = Crc32(0).update_word(first ^ self.flips());
        let second = first.update_word(second ^ Self([b, c, 0]).flips());
        second.update_word(third ^ Self([c, 0, 0]).flips())
    }

    /// What the words removed flip in the word after them.
    #[inline(always)]
    const fn flips(self) -> u32 {
        let (mut flips, mut term) = (0, 0);
        while term < NARROW.len() {
            let (words, bits) = (NARROW[term] / 32, NARROW[term] % 32);
            let (near, far) = (
                self.0[NARROW_WORDS - words],
                self.0[NARROW_WORDS - words - 1],
            );
            flips ^= near << bits | far >> (32 - bits);
            term += 1;
        }
        flips
    }
}

/// `value` times x^32, by P.
#[inline(always)]
const fn times_x32(value: u32) -> u32 {
    // Removing a bit flips later bits of the word itself, which are to be removed too: with f the
    // sum of these shifts the word to remove is value / (1 + f), and 1 / (1 + f) is the product of
    // (1 + f), (1 + f^2), (1 + f^4), of which little is left within 32 bits.
    let word = value ^ value << 12 ^ value << 18 ^ value << 20;
    let word = word ^ word << 24;
    let word = word
        ^ word << 6
        ^ word << 9
        ^ word << 10
        ^ word << 16
        ^ word << 20
        ^ word << 21
        ^ word << 22
        ^ word << 24
        ^ word << 25
        ^ word << 27
        ^ word << 28
        ^ word << 30
        ^ word << 31;
    word ^ word >> 26
        ^ word >> 23
        ^ word >> 22
        ^ word >> 16
        ^ word >> 12
        ^ word >> 11
        ^ word >> 10
        ^ word >> 8
        ^ word >> 7
        ^ word >> 5
        ^ word >> 4
        ^ word >> 2
        ^ word >> 1
}

/// The product of two remainders, by P: no branch depends on their bits.
#[inline(always)]
const fn multiply(a: u32, b: u32) -> u32 {
    let (mut product, mut power, mut bit) = (0, a, 0);
    while bit < 32 {
        product ^= power & ((b << bit) as i32 >> 31) as u32;
        power = power >> 1 ^ (P & (power & 1).wrapping_neg());
        bit += 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, bit by bit.
    fn naive(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = if crc & 1 != 0 { crc >> 1 ^ P } else { crc >> 1 };
            }
        }
        !crc
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..length).map(next).collect()
    }

    #[test]
    fn check_values() {
        // The check value of CRC-32/ISO-HDLC, and the state after eight bytes of ones.
        assert_eq!(Crc32::new().update(b"123456789").finish(), 0xcbf4_3926);
        assert_eq!(Crc32::new().update(&[0xff; 8]).state(), 0xdebb_20e3);
        assert_eq!(Crc32::new().finish(), 0);
        assert_eq!(Crc32::resume(0xcbf4_3926).finish(), 0xcbf4_3926);
    }

    #[test]
    fn the_multiples_are_multiples() {
        fn check(offsets: &[usize]) {
            // One, and the powers that replace it, seen from the last offset.
            let degree = offsets[offsets.len() - 1];
            let power = |exponent: usize| {
                (0..exponent).fold(1 << 31, |value: u32, _| {
                    value >> 1 ^ (P & (value & 1).wrapping_neg())
                })
            };
            let sum = offsets
                .iter()
                .fold(power(degree), |sum, offset| sum ^ power(degree - offset));
            assert_eq!(sum, 0, "{offsets:?}");
        }
        check(&WIDE);
        check(&NARROW);
    }

    #[test]
    fn every_length_agrees_with_the_definition() {
        let bytes = noise(400);
        for length in 0..bytes.len() {
            let piece = &bytes[..length];
            assert_eq!(
                Crc32::new().update(piece).finish(),
                naive(piece),
                "{length} bytes"
            );
        }
        let bytes = noise(9001);
        assert_eq!(Crc32::new().update(&bytes).finish(), naive(&bytes));
    }

    #[test]
    fn a_single_bit_anywhere() {
        // Linearity makes single bits a proof for all inputs of this length.
        let zeros = naive(&[0; 128]);
        for bit in 0..128 * 8 {
            let mut bytes = [0; 128];
            bytes[bit / 8] = 1 << (bit % 8);
            assert_eq!(
                Crc32::new().update(&bytes).finish(),
                naive(&bytes),
                "bit {bit}"
            );
            assert_ne!(naive(&bytes), zeros);
        }
    }

    #[test]
    fn lanes_join_by_one_shift_each() {
        let bytes = noise(32 * 52 + 13);
        let (head, body) = bytes.split_at(13);
        const LANE: Shift = Shift::bytes(52);
        let mut whole = Crc32::new().update(head).shifted(LANE.times(32));
        for (lane, part) in body.chunks(52).enumerate() {
            let part = Crc32::partial().update(part);
            whole = whole.plus(part.shifted(LANE.times(31 - lane as u64)));
        }
        assert_eq!(whole.finish(), naive(&bytes));

        // The same as a tree: neighbours join, then pairs, then fours.
        let mut parts: Vec<_> = body
            .chunks(52)
            .map(|part| Crc32::partial().update(part))
            .collect();
        let mut shift = LANE;
        while parts.len() > 1 {
            parts = parts
                .chunks(2)
                .map(|pair| pair[0].then(pair[1], shift))
                .collect();
            shift = shift.plus(shift);
        }
        let whole = Crc32::new().update(head).then(parts[0], shift);
        assert_eq!(whole.finish(), naive(&bytes));
    }

    #[test]
    fn shifts_are_powers() {
        assert_eq!(Shift::bytes(0), Shift::NONE);
        assert_eq!(Shift::bytes(5).plus(Shift::bytes(7)), Shift::bytes(12));
        assert_eq!(Shift::bytes(5).times(3), Shift::bytes(15));
        let crc = Crc32::new().update(b"abc");
        assert_eq!(crc.shifted(Shift::bytes(4)), crc.update(&[0; 4]));
    }

    proptest! {
        #[test]
        fn pieces_and_combine(
            bytes in prop::collection::vec(any::<u8>(), 0..600),
            at in any::<prop::sample::Index>(),
        ) {
            let (first, second) = bytes.split_at(at.index(bytes.len() + 1));
            let whole = naive(&bytes);
            prop_assert_eq!(Crc32::new().update(first).update(second).finish(), whole);
            prop_assert_eq!(combine(naive(first), naive(second), second.len() as u64), whole);
            let part = Crc32::partial().update(second);
            let joined = Crc32::new().update(first).then(part, Shift::bytes(second.len() as u64));
            prop_assert_eq!(joined.finish(), whole);
        }
    }

    #[cfg(feature = "host")]
    #[test]
    fn engines_agree() {
        let bytes = noise(3000);
        for length in (0..bytes.len()).step_by(37) {
            let start = Crc32::new().update(b"start");
            let piece = &bytes[..length];
            assert_eq!(Host::update(start, piece), Arithmetic::update(start, piece));
        }
    }
}
