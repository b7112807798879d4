//! The internet checksum over bytes that lie in memory.

use warpwire_device::Piece;
use warpwire_protocols::checksum::Sum;

use super::arrive::Bytes;

/// The sum over `length` bytes of a frame from `skip` on.
#[inline(always)]
pub(super) fn frame<B: Bytes>(frame: &B, skip: u32, length: u32) -> Sum {
    let (mut skip, mut left, mut index) = (skip, length, 0);
    let mut sum = Sum::ZERO;
    let mut next = Some(frame.head());
    while left > 0
        && let Some(whole) = next
    {
        let count = whole.length().saturating_sub(skip).min(left);
        if let Some(part) = whole.part(skip, count) {
            sum = join(sum, piece(&part), length - left);
            left -= count;
        }
        skip = skip.saturating_sub(whole.length());
        index += 1;
        next = frame.piece(index);
    }
    sum
}

/// Two sums, the second over bytes that begin `offset` bytes behind the first of all.
#[inline(always)]
pub(super) const fn join(sum: Sum, other: Sum, offset: u32) -> Sum {
    sum.plus(if offset.is_multiple_of(2) {
        other
    } else {
        other.at_odd_offset()
    })
}

/// The sum over a piece. Not inlined: one copy for received and sent bytes of all ring formats.
#[inline(never)]
pub(super) fn piece(piece: &Piece<'_>) -> Sum {
    folded(piece.sum())
}

/// Copies a piece to another one, of the same length, and sums what it copied.
#[inline(never)]
pub(super) fn copy(from: &Piece<'_>, to: &Piece<'_>) -> Sum {
    folded(from.copy_and_sum(to))
}

/// A sum of words as a sum of the internet checksum: the upper half is a word more.
const fn folded(words: u64) -> Sum {
    Sum::ZERO
        .add_word(words as u32)
        .add_word((words >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::area;
    use warpwire_ring::DeviceAddress;
    use warpwire_ring::mlx5::serve::Bytes;

    fn bytes_at(at: *const u8, length: usize) -> Bytes {
        Bytes {
            address: DeviceAddress::new(at as u64),
            length: length as u32,
            key: 0,
            is_inline: false,
        }
    }

    #[test]
    fn pieces_are_summed_and_copied_wherever_they_lie() {
        let bytes: std::vec::Vec<u8> = (0..3000u32).map(|i| ((i * i) >> 3) as u8).collect();
        for length in [0, 1, 2, 3, 4, 5, 63, 511, 512, 513, 1460, 2600] {
            for skip in 0..5 {
                let part = &bytes[skip..][..length];
                let from = area(&bytes_at(part.as_ptr(), length));
                let from = from.piece(0, length as u32).expect("inside");
                let want = Sum::of(part).fold();
                assert_eq!(piece(&from).fold(), want, "{skip} {length}");
                let mut copied = std::vec![0u8; length + 1];
                let to = area(&bytes_at(copied.as_mut_ptr(), length));
                let to = to.piece(0, length as u32).expect("inside");
                assert_eq!(copy(&from, &to).fold(), want, "{skip} {length}");
                assert_eq!(&copied[..length], part);
            }
        }
    }

    #[test]
    fn parts_join_at_any_offset() {
        let bytes: std::vec::Vec<u8> = (0..=255).collect();
        for cut in 0..20 {
            let (first, second) = bytes.split_at(cut);
            let sum = join(Sum::of(first), Sum::of(second), cut as u32);
            assert_eq!(sum.fold(), Sum::of(&bytes).fold(), "{cut}");
        }
    }
}
