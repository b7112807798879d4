//! The invariant CRC over bytes that lie in memory.

use warpwire_device::Piece;
use warpwire_protocols::checksum::{Crc32, Engine as Sum};

/// The CRC after the bytes of a piece too. Not inlined: one copy for received and sent bytes of all
/// ring formats.
#[inline(never)]
pub(crate) fn sum<E: Sum>(crc: Crc32, piece: &Piece<'_>) -> Crc32 {
    if E::BY_WORDS {
        by_words(crc, piece)
    } else {
        by_chunks::<E>(crc, piece)
    }
}

#[inline(always)]
fn by_words(crc: Crc32, piece: &Piece<'_>) -> Crc32 {
    let count = piece.length() / 4;
    let mut words = piece.words(0);
    let mut crc = crc.update_words(count as usize, |_| words.take());
    let mut at = count * 4;
    while let Some(byte) = piece.byte(at) {
        crc = crc.update_byte(byte);
        at += 1;
    }
    crc
}

#[inline(always)]
fn by_chunks<E: Sum>(crc: Crc32, piece: &Piece<'_>) -> Crc32 {
    match piece.length() as usize {
        0..=SHORT => chunks::<E, SHORT>(crc, piece, None),
        _ => chunks::<E, LONG>(crc, piece, None),
    }
}

/// Copies a piece to another one, of the same length, and sums what it copied: the source may
/// change meanwhile.
#[inline(never)]
pub(crate) fn copy_and_sum<E: Sum>(crc: Crc32, from: &Piece<'_>, to: &Piece<'_>) -> Crc32 {
    if E::BY_WORDS {
        from.copy_to(to);
        return sum::<E>(crc, to);
    }
    match from.length() as usize {
        0..=SHORT => chunks::<E, SHORT>(crc, from, Some(to)),
        _ => chunks::<E, LONG>(crc, from, Some(to)),
    }
}

/// Sums a piece by copies of `BYTES`, and copies those on.
#[inline(always)]
fn chunks<E: Sum, const BYTES: usize>(
    crc: Crc32,
    piece: &Piece<'_>,
    to: Option<&Piece<'_>>,
) -> Crc32 {
    let (mut crc, mut done) = (crc, 0);
    let mut chunk = [0; BYTES];
    while done < piece.length() {
        let count = piece.copy_out(done, &mut chunk);
        if count == 0 {
            break;
        }
        let bytes = chunk.get(..count).unwrap_or(&[]);
        if let Some(to) = to {
            to.copy_in(done, bytes);
        }
        crc = E::update(crc, bytes);
        done += count as u32;
    }
    crc
}

/// Bytes that are summed at once, of short pieces: clearing more would take longer than summing.
const SHORT: usize = 64;
/// Of others.
const LONG: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::area;
    use warpwire_ring::DeviceAddress;
    use warpwire_ring::mlx5::serve::Bytes;

    /// Bytes by the arithmetic, as a host that has no words.
    struct Chunked;

    impl Sum for Chunked {
        fn update(crc: Crc32, bytes: &[u8]) -> Crc32 {
            crc.update(bytes)
        }
    }

    #[test]
    fn words_and_chunks_are_the_bytes() {
        let bytes: std::vec::Vec<u8> = (0..3000u32).map(|i| ((i * i) >> 3) as u8).collect();
        for (from, length) in (0..8).zip([0, 1, 3, 64, 65, 257, 1025, 2600]) {
            for skip in 0..4 {
                let part = &bytes[from + skip..][..length];
                let at = Bytes {
                    address: DeviceAddress::new(part.as_ptr() as u64),
                    length: length as u32,
                    key: 0,
                    is_inline: false,
                };
                let area = area(&at);
                let piece = area.piece(0, length as u32).expect("inside");
                let want = Crc32::new().update(part);
                assert_eq!(by_words(Crc32::new(), &piece), want, "{from} {length}");
                let found = by_chunks::<Chunked>(Crc32::new(), &piece);
                assert_eq!(found, want, "{from} {length}");
                let mut copied = std::vec![0u8; length.max(1)];
                let to = Bytes {
                    address: DeviceAddress::new(copied.as_mut_ptr() as u64),
                    ..at
                };
                let to = crate::engine::area(&to);
                let to = to.piece(0, length as u32).expect("inside");
                let found = copy_and_sum::<Chunked>(Crc32::new(), &piece, &to);
                assert_eq!(found, want, "{from} {length}");
                assert_eq!(&copied[..length], part, "{from} {length}");
            }
        }
    }
}
