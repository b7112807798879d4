//! Bytes of a stream where they lie.

/// The readable bytes of a stream, in order, wherever they lie.
///
/// Whoever has them in memory that others write implements this by loads of single bytes; each byte
/// is asked for once by those who do not say otherwise.
pub trait Bytes {
    /// How many there are.
    fn length(&self) -> u32;

    /// The byte at an offset; `None` from [`length`](Self::length) on.
    fn byte(&self, at: u32) -> Option<u8>;
}

/// The contents of a ring: one piece, or two if they go past its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pieces<'a> {
    /// The front.
    pub first: &'a [u8],
    /// What follows; empty if nothing does.
    pub second: &'a [u8],
}

/// Which byte of a number comes first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum ByteOrder {
    /// The most significant one, as in headers of the network.
    #[default]
    Big,
    /// The least significant one.
    Little,
}

impl ByteOrder {
    /// The number that `width` bytes from `at` on are; `None` if they are not all there, or more
    /// than 8.
    pub fn read(self, bytes: &(impl Bytes + ?Sized), at: u32, width: u32) -> Option<u64> {
        let end = at.checked_add(width)?;
        if width > u64::BITS / 8 || end > bytes.length() {
            return None;
        }
        let mut number = 0;
        for index in 0..width {
            let byte = u64::from(bytes.byte(at + index)?);
            number = match self {
                Self::Big => number << 8 | byte,
                Self::Little => number | byte << (8 * index),
            };
        }
        Some(number)
    }

    /// The bytes of a number, in the front of the array; `width` is 1 to 8. What of the number does
    /// not fit is left out.
    pub const fn written(self, number: u64, width: u32) -> [u8; 8] {
        match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => {
                let unused = u64::BITS.saturating_sub(8 * width) & (u64::BITS - 1);
                (number << unused).to_be_bytes()
            }
        }
    }
}

impl Bytes for [u8] {
    #[inline]
    fn length(&self) -> u32 {
        u32::try_from(self.len()).unwrap_or(u32::MAX)
    }

    #[inline]
    fn byte(&self, at: u32) -> Option<u8> {
        self.get(at as usize).copied()
    }
}

impl Bytes for Pieces<'_> {
    #[inline]
    fn length(&self) -> u32 {
        self.first.length().saturating_add(self.second.length())
    }

    #[inline]
    fn byte(&self, at: u32) -> Option<u8> {
        match at.checked_sub(self.first.length()) {
            None => self.first.byte(at),
            Some(rest) => self.second.byte(rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_one_row() {
        let all: &[u8] = &[1, 2, 3, 4, 5];
        for cut in 0..=all.len() {
            let (first, second) = all.split_at(cut);
            let pieces = Pieces { first, second };
            assert_eq!(pieces.length(), 5);
            let read: Vec<_> = (0..7).map_while(|at| pieces.byte(at)).collect();
            assert_eq!(read, all);
        }
    }

    #[test]
    fn numbers_are_read_and_written_in_both_orders() {
        let check = |order: ByteOrder, width: u32, number: u64, bytes: &[u8]| {
            assert_eq!(order.read(bytes, 0, width), Some(number), "{bytes:?}");
            let written = order.written(number, width);
            assert_eq!(&written[..width as usize], bytes, "{number:#x}");
        };
        check(ByteOrder::Big, 1, 0x81, &[0x81]);
        check(ByteOrder::Little, 1, 0x81, &[0x81]);
        check(ByteOrder::Big, 2, 0x8102, &[0x81, 2]);
        check(ByteOrder::Little, 2, 0x8102, &[2, 0x81]);
        check(ByteOrder::Big, 4, 0x0102_0304, &[1, 2, 3, 4]);
        check(ByteOrder::Little, 4, 0x0102_0304, &[4, 3, 2, 1]);
        let long = 0x8102_0304_0506_0708;
        check(ByteOrder::Big, 8, long, &[0x81, 2, 3, 4, 5, 6, 7, 8]);
        check(ByteOrder::Little, 8, long, &[8, 7, 6, 5, 4, 3, 2, 0x81]);
    }

    #[test]
    fn what_is_not_there_is_not_read() {
        let bytes: &[u8] = &[0; 9];
        for (at, width) in [(8, 2), (9, 1), (0, 9), (u32::MAX, 1), (2, 8)] {
            assert_eq!(ByteOrder::Big.read(bytes, at, width), None, "{at} {width}");
        }
    }
}
