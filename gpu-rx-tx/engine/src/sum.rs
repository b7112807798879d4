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
    let (mut crc, mut done) = (crc, 0);
    let mut chunk = [0; CHUNK];
    while done < piece.length() {
        let count = piece.copy_out(done, &mut chunk);
        if count == 0 {
            break;
        }
        crc = E::update(crc, chunk.get(..count).unwrap_or(&[]));
        done += count as u32;
    }
    crc
}

/// Bytes that are summed at once.
const CHUNK: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::area;
    use warpwire_protocols::checksum::Arithmetic;
    use warpwire_ring::DeviceAddress;
    use warpwire_ring::mlx5::serve::Bytes;

    #[test]
    fn words_and_chunks_are_the_bytes() {
        let bytes: std::vec::Vec<u8> = (0..700u32).map(|i| ((i * i) >> 3) as u8).collect();
        for (from, length) in (0..8).zip([0, 1, 3, 4, 5, 64, 257, 600]) {
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
                let found = by_chunks::<Arithmetic>(Crc32::new(), &piece);
                assert_eq!(found, want, "{from} {length}");
            }
        }
    }
}
