//! Sums of words in one pass over memory, with or without a copy of it.
#![expect(unsafe_code, reason = "accesses the memory that it sums")]

use core::ops::Range;

use crate::address::DeviceAddress;

/// The sum of the words of 32 bits from `from` on, as little-endian loads give them, in one pass;
/// bytes that fill no word count as if zeros followed. With `to` they are copied there as well.
///
/// # Safety
/// As [`copy`](super::copy), for `from` and for `to` if there is one.
#[inline(always)]
pub unsafe fn sum(from: DeviceAddress, to: Option<DeviceAddress>, length: u32) -> u64 {
    match to {
        // SAFETY: passed on.
        Some(to) => unsafe { pass::<true>(from, to, length) },
        // SAFETY: passed on.
        None => unsafe { pass::<false>(from, from, length) },
    }
}

/// One pass; with `COPIES` it also copies to `to`.
///
/// # Safety
/// As [`copy`](super::copy), for `from` and, if it copies, for `to`.
#[inline(always)]
unsafe fn pass<const COPIES: bool>(from: DeviceAddress, to: DeviceAddress, length: u32) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if avx2::get() {
        // SAFETY: the processor has AVX2; the rest is the caller's promise.
        return unsafe { by_avx2::<COPIES>(from, to, length) };
    }
    // SAFETY: passed on.
    unsafe { by_words::<COPIES>(from, to, length) }
}

#[cfg(target_arch = "x86_64")]
cpufeatures::new!(avx2, "avx2");

/// [`pass`] for processors with vectors of 32 bytes.
///
/// # Safety
/// As [`pass`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn by_avx2<const COPIES: bool>(from: DeviceAddress, to: DeviceAddress, length: u32) -> u64 {
    use core::arch::x86_64::{
        __m256i, _mm_add_epi64, _mm_cvtsi128_si64, _mm_unpackhi_epi64, _mm256_add_epi64,
        _mm256_and_si256, _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_loadu_si256,
        _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_srli_epi64, _mm256_storeu_si256,
    };
    let length = u64::from(length);
    let mask = _mm256_set1_epi64x(0xffff_ffff);
    // Words of 64 bits: their halves are summed apart, so that nothing carries. Two sums of each,
    // so that no addition waits for the one before.
    let mut low = [_mm256_setzero_si256(); 2];
    let mut high = [_mm256_setzero_si256(); 2];
    let mut at = 0;
    while length - at >= 64 {
        for (low, high) in low.iter_mut().zip(&mut high) {
            let from = from.offset(at).value() as *const __m256i;
            // SAFETY: 32 bytes lie there, by the caller's promise.
            let words = unsafe { _mm256_loadu_si256(from) };
            if COPIES {
                let to = to.offset(at).value() as *mut __m256i;
                // SAFETY: as above.
                unsafe { _mm256_storeu_si256(to, words) };
            }
            *low = _mm256_add_epi64(*low, _mm256_and_si256(words, mask));
            *high = _mm256_add_epi64(*high, _mm256_srli_epi64::<32>(words));
            at += 32;
        }
    }
    let [low, other_low] = low;
    let [high, other_high] = high;
    let sums = _mm256_add_epi64(
        _mm256_add_epi64(low, other_low),
        _mm256_add_epi64(high, other_high),
    );
    let upper = _mm256_extracti128_si256::<1>(sums);
    let sums = _mm_add_epi64(_mm256_castsi256_si128(sums), upper);
    let sum = _mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums));
    let sum = _mm_cvtsi128_si64(sum) as u64;
    // SAFETY: the rest of what the caller promises.
    unsafe { rest::<COPIES>(from, to, at..length, sum) }
}

/// [`pass`] for all processors.
///
/// # Safety
/// As [`pass`].
#[inline(always)]
unsafe fn by_words<const COPIES: bool>(from: DeviceAddress, to: DeviceAddress, length: u32) -> u64 {
    let length = u64::from(length);
    let mut low = [0u64; 4];
    let mut high = [0u64; 4];
    let mut at = 0;
    while length - at >= 32 {
        // SAFETY: 32 bytes lie there, by the caller's promise.
        let bytes = unsafe { moved::<32, COPIES>(from.offset(at), to.offset(at)) };
        let words = bytes.as_chunks::<8>().0;
        for ((low, high), word) in low.iter_mut().zip(&mut high).zip(words) {
            let word = u64::from_le_bytes(*word);
            *low = low.wrapping_add(word & 0xffff_ffff);
            *high = high.wrapping_add(word >> 32);
        }
        at += 32;
    }
    let sums = low.iter().chain(&high);
    let sum = sums.fold(0u64, |all, sum| all.wrapping_add(*sum));
    // SAFETY: the rest of what the caller promises.
    unsafe { rest::<COPIES>(from, to, at..length, sum) }
}

/// Goes on with a sum, over the bytes of a range: words of 8, of 4 and single ones. Not by way of a
/// block on the stack, which would be read wide as soon as it is written in parts.
///
/// # Safety
/// As [`copy`](super::copy), for the range's bytes behind `from` and, if it copies, behind `to`.
#[inline(always)]
unsafe fn rest<const COPIES: bool>(
    from: DeviceAddress,
    to: DeviceAddress,
    range: Range<u64>,
    mut sum: u64,
) -> u64 {
    let Range { start: mut at, end } = range;
    while end - at >= 8 {
        // SAFETY: 8 bytes lie there, by the caller's promise.
        let word = unsafe { moved::<8, COPIES>(from.offset(at), to.offset(at)) };
        let word = u64::from_le_bytes(word);
        sum = sum.wrapping_add(word & 0xffff_ffff);
        sum = sum.wrapping_add(word >> 32);
        at += 8;
    }
    if end - at >= 4 {
        // SAFETY: 4 bytes lie there, by the caller's promise.
        let word = unsafe { moved::<4, COPIES>(from.offset(at), to.offset(at)) };
        sum = sum.wrapping_add(u64::from(u32::from_le_bytes(word)));
        at += 4;
    }
    for (shift, at) in (0..).step_by(8).zip(at..end) {
        // SAFETY: a byte lies there, by the caller's promise.
        let [byte] = unsafe { moved::<1, COPIES>(from.offset(at), to.offset(at)) };
        sum = sum.wrapping_add(u64::from(byte) << shift);
    }
    sum
}

/// The bytes that lie at `from`; with `COPIES` they are written to `to`.
///
/// # Safety
/// As [`copy`](super::copy), for as many bytes at `from` and, if it copies, at `to`.
#[inline(always)]
unsafe fn moved<const BYTES: usize, const COPIES: bool>(
    from: DeviceAddress,
    to: DeviceAddress,
) -> [u8; BYTES] {
    // SAFETY: the bytes are live and unshared by the caller's promise, and need no
    // alignment.
    let bytes = unsafe { (from.value() as *const [u8; BYTES]).read() };
    if COPIES {
        // SAFETY: as above.
        unsafe { (to.value() as *mut [u8; BYTES]).write(bytes) };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pass = unsafe fn(DeviceAddress, DeviceAddress, u32) -> u64;

    /// All lengths up to a few blocks, from and to everywhere: what is summed and copied, and that
    /// nothing else is written.
    fn check(sum: Pass, copy_and_sum: Pass) {
        let bytes: std::vec::Vec<u8> = (0..300u32).map(|i| !((i * i) >> 2) as u8).collect();
        for length in 0..200 {
            for skip in 0..9 {
                let part = &bytes[skip..][..length];
                let words = part.chunks(4).map(|chunk| {
                    let mut word = [0; 4];
                    word[..chunk.len()].copy_from_slice(chunk);
                    u64::from(u32::from_le_bytes(word))
                });
                let want: u64 = words.sum();
                let mut copy = [0x5a; 256];
                let from = DeviceAddress::new(part.as_ptr() as u64);
                let at = 8 - skip;
                let to = DeviceAddress::new(copy[at..].as_mut_ptr() as u64);
                // SAFETY: `length` bytes lie at `from` and behind `to`.
                let summed = unsafe { sum(from, to, length as u32) };
                assert_eq!(summed, want, "{length} {skip}");
                assert_eq!(copy, [0x5a; 256]);
                // SAFETY: as above.
                let summed = unsafe { copy_and_sum(from, to, length as u32) };
                assert_eq!(summed, want, "{length} {skip}");
                let (before, rest) = copy.split_at(at);
                let (copied, behind) = rest.split_at(length);
                assert_eq!(copied, part);
                let others = before.iter().chain(behind);
                assert!(others.into_iter().all(|byte| *byte == 0x5a));
            }
        }
    }

    #[test]
    fn words_are_summed_and_copied() {
        check(by_words::<false>, by_words::<true>);
    }

    #[test]
    fn vectors_are_summed_and_copied() {
        check(pass::<false>, pass::<true>);
    }

    #[test]
    fn sums_do_not_wrap() {
        let bytes = std::vec![0xff_u8; 1 << 16];
        let from = DeviceAddress::new(bytes.as_ptr() as u64);
        // SAFETY: all of the vector.
        let sum = unsafe { sum(from, None, 1 << 16) };
        assert_eq!(sum, (1 << 14) * u64::from(u32::MAX));
    }
}
