//! Bitmaps in two levels: who has something to tell sets a bit, who listens takes whole words.
//!
//! ```text
//!  summary words      one bit a word of bits      aligned to 128
//!  words of bits      one bit a place             aligned to 128
//! ```
//! Setting a bit twice is setting it once, so nothing overflows. Whoever turns a word of bits from
//! zero to something sets the word's bit in the summary after that; whoever listens takes the
//! summary first and then the words that it names. So no bit is left behind, and each is taken
//! once.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that the bitmap is live"
)]

use warpwire_ring::{DeviceAddress, memory};

/// A bitmap of places in memory, which warps, kernels and the host share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bits {
    summary: DeviceAddress,
    words: DeviceAddress,
    count: u32,
}

impl Bits {
    /// Names a bitmap of `count` bits.
    ///
    /// # Safety
    /// *The bitmap's promise*: `at` is a multiple of 8 and points to [`Bits::bytes`] of live
    /// memory, zeros at first, which stays so for as long as the value is used and is touched
    /// through this type only.
    pub const unsafe fn attach(at: DeviceAddress, count: u32) -> Self {
        Self {
            summary: at,
            words: at.offset(summary_bytes(count)),
            count,
        }
    }

    /// Bytes of a bitmap of `count` bits.
    pub const fn bytes(count: u32) -> u64 {
        summary_bytes(count) + line(words(count) as u64 * 8)
    }

    /// Bits.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Sets a bit, if there is one of this number: what was done before is seen by whoever takes
    /// it. pairs with: [`Bits::take`].
    #[inline]
    pub fn set(&self, number: u32) {
        if number >= self.count {
            return;
        }
        let word = number / 64;
        let at = self.words.offset(u64::from(word) * 8);
        // SAFETY: a word of the bitmap, by its promise.
        let before = unsafe { memory::remote_or_u64(at, 1 << (number % 64)) };
        if before == 0 {
            let at = self.summary.offset(u64::from(word / 64) * 8);
            // SAFETY: as above.
            unsafe { memory::remote_or_u64(at, 1 << (word % 64)) };
        }
    }

    /// Words of the summary.
    pub const fn summaries(&self) -> u32 {
        summaries(self.count)
    }

    /// Takes the bits of a summary word: which of the 64 words from `index * 64` on have bits. 0
    /// if there are none, without changing anything.
    #[inline]
    pub fn take_summary(&self, index: u32) -> u64 {
        if index >= self.summaries() {
            return 0;
        }
        let at = self.summary.offset(u64::from(index) * 8);
        // SAFETY: a word of the bitmap, by its promise.
        if unsafe { memory::load_u64(at) } == 0 {
            return 0;
        }
        // SAFETY: as above.
        unsafe { memory::remote_swap_u64(at, 0) }
    }

    /// Gives bits of a summary word back whose words were not taken.
    pub fn put_back_summary(&self, index: u32, bits: u64) {
        if index < self.summaries() {
            let at = self.summary.offset(u64::from(index) * 8);
            // SAFETY: a word of the bitmap, by its promise.
            unsafe { memory::remote_or_u64(at, bits) };
        }
    }

    /// Takes the bits of a word, which are those of the 64 places from `index * 64` on. What was
    /// done before they were set is seen after. pairs with: [`Bits::set`].
    #[inline]
    pub fn take(&self, index: u32) -> u64 {
        if index >= words(self.count) {
            return 0;
        }
        let at = self.words.offset(u64::from(index) * 8);
        // SAFETY: a word of the bitmap, by its promise.
        unsafe { memory::remote_swap_u64(at, 0) }
    }

    /// Takes all bits and calls `each` for every one, from the lowest on. By one at a time.
    #[inline]
    pub fn drain(&self, mut each: impl FnMut(u32)) {
        for index in 0..self.summaries() {
            let mut summary = self.take_summary(index);
            while summary != 0 {
                let word = index * 64 + summary.trailing_zeros();
                summary &= summary - 1;
                let mut bits = self.take(word);
                while bits != 0 {
                    each(word * 64 + bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
        }
    }
}

/// A bitmap that the leader of one warp alone reads and writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OwnBits(Bits);

impl OwnBits {
    /// Names a bitmap of `count` bits.
    ///
    /// # Safety
    /// *The bitmap's promise*, see [`Bits::attach`]; and nobody else touches it.
    pub(super) const unsafe fn attach(at: DeviceAddress, count: u32) -> Self {
        // SAFETY: passed on.
        Self(unsafe { Bits::attach(at, count) })
    }

    /// Sets a bit, if there is one of this number.
    #[inline]
    pub(super) fn set(&self, number: u32) {
        if number < self.0.count {
            let (at, word) = (self.word_at(number / 64), number / 64);
            let before = load(at);
            if before == 0 {
                let at = self.summary_at(word / 64);
                store(at, load(at) | 1 << (word % 64));
            }
            store(at, before | 1 << (number % 64));
        }
    }

    /// Clears a bit.
    #[inline]
    pub(super) fn clear(&self, number: u32) {
        if number < self.0.count {
            let (at, word) = (self.word_at(number / 64), number / 64);
            let after = load(at) & !(1 << (number % 64));
            store(at, after);
            if after == 0 {
                let at = self.summary_at(word / 64);
                store(at, load(at) & !(1 << (word % 64)));
            }
        }
    }

    /// The first bit that is set from `from` on, or else the first of all.
    #[inline]
    pub(super) fn next(&self, from: u32) -> Option<u32> {
        let from = if from < self.0.count { from } else { 0 };
        let found = self.first(from);
        if found.is_some() || from == 0 {
            return found;
        }
        self.first(0)
    }

    /// The first bit that is set from `from` on.
    fn first(&self, from: u32) -> Option<u32> {
        let word = from / 64;
        let bits = load(self.word_at(word)) & u64::MAX << (from % 64);
        if bits != 0 {
            return Some(word * 64 + bits.trailing_zeros());
        }
        let word = word + 1;
        let mut mask = u64::MAX << (word % 64);
        for index in word / 64..self.0.summaries() {
            let summary = load(self.summary_at(index)) & mask;
            if summary != 0 {
                let word = index * 64 + summary.trailing_zeros();
                return Some(word * 64 + load(self.word_at(word)).trailing_zeros());
            }
            mask = u64::MAX;
        }
        None
    }

    fn word_at(&self, index: u32) -> DeviceAddress {
        self.0.words.offset(u64::from(index) * 8)
    }

    fn summary_at(&self, index: u32) -> DeviceAddress {
        self.0.summary.offset(u64::from(index) * 8)
    }
}

fn load(at: DeviceAddress) -> u64 {
    // SAFETY: a word of a bitmap, by its promise.
    unsafe { memory::load_u64(at) }
}

fn store(at: DeviceAddress, value: u64) {
    // SAFETY: as above.
    unsafe { memory::store_u64(at, value) };
}

const fn words(count: u32) -> u32 {
    count.div_ceil(64)
}

const fn summaries(count: u32) -> u32 {
    words(count).div_ceil(64)
}

const fn summary_bytes(count: u32) -> u64 {
    line(summaries(count) as u64 * 8)
}

const fn line(bytes: u64) -> u64 {
    bytes.next_multiple_of(128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(128))]
    struct Memory([u64; 1024]);

    fn bits(memory: &mut Memory, count: u32) -> Bits {
        let at = DeviceAddress::new(memory.0.as_mut_ptr() as u64);
        assert!(Bits::bytes(count) <= size_of::<Memory>() as u64);
        // SAFETY: the test's own zeros, long enough.
        unsafe { Bits::attach(at, count) }
    }

    fn drained(bits: &Bits) -> std::vec::Vec<u32> {
        let mut all = std::vec::Vec::new();
        bits.drain(|number| all.push(number));
        all
    }

    #[test]
    fn each_bit_is_taken_once() {
        let mut memory = Memory([0; 1024]);
        let bits = bits(&mut memory, 10_000);
        assert_eq!(bits.summaries(), 3);
        for number in [9_999, 0, 63, 64, 4_096, 64, 10_000, u32::MAX] {
            bits.set(number);
        }
        assert_eq!(drained(&bits), [0, 63, 64, 4_096, 9_999]);
        assert_eq!(drained(&bits), []);
        bits.set(63);
        assert_eq!(drained(&bits), [63]);
    }

    #[test]
    fn own_bits_come_in_turn() {
        for count in [1, 63, 64, 65, 4_096, 4_097, 10_000] {
            let mut memory = Memory([0; 1024]);
            let bits = OwnBits(bits(&mut memory, count));
            assert_eq!(bits.next(0), None);
            let wanted: std::vec::Vec<u32> = (0..count).filter(|i| i % 61 == 0).collect();
            wanted.iter().for_each(|i| bits.set(*i));
            bits.set(count);
            for from in 0..count + 2 {
                let after = wanted.iter().find(|i| **i >= from && from < count);
                let want = after.or(wanted.first()).copied();
                assert_eq!(bits.next(from), want, "{count} {from}");
            }
            wanted.iter().for_each(|i| bits.clear(*i));
            assert_eq!(bits.next(0), None);
            assert!(memory.0.iter().all(|word| *word == 0));
        }
    }

    #[test]
    fn no_bit_is_lost_between_threads() {
        let mut memory = Memory([0; 1024]);
        let bits = bits(&mut memory, 200);
        let total = 20_000u64;
        let mut seen = std::vec![0u64; 200];
        std::thread::scope(|scope| {
            let set: std::vec::Vec<_> = (0..2)
                .map(|part: u64| {
                    scope.spawn(move || {
                        for i in 0..total {
                            bits.set(((i * 7 + part) % 200) as u32);
                        }
                    })
                })
                .collect();
            while !set.iter().all(|one| one.is_finished()) {
                bits.drain(|number| seen[number as usize] += 1);
            }
        });
        bits.drain(|number| seen[number as usize] += 1);
        assert!(seen.iter().all(|count| *count > 0));
        assert_eq!(drained(&bits), []);
        assert!(memory.0.iter().all(|word| *word == 0));
    }
}
