//! Samples of 16 bits to floating point: one multiplication and one addition each.

use crate::stream::bytes::{ByteOrder, Bytes};

/// What a sample stands for: `sample * scale + offset`.
///
/// Product and sum are rounded each for itself, so that all machines give the same bits.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub struct Conversion {
    /// What one step of a sample is worth.
    pub scale: f32,
    /// What a sample of 0 is worth.
    pub offset: f32,
    /// How samples lie in the payload.
    pub order: ByteOrder,
}

impl Conversion {
    /// What a sample stands for.
    #[inline]
    pub fn value(&self, sample: i16) -> f32 {
        f32::from(sample) * self.scale + self.offset
    }

    /// The two samples of four bytes, which were loaded as a little-endian number: the one at the
    /// lower address first.
    #[inline]
    pub fn pair(&self, word: u32) -> [f32; 2] {
        let swapped = (word & 0x00ff_00ff) << 8 | word >> 8 & 0x00ff_00ff;
        let word = match self.order {
            ByteOrder::Little => word,
            ByteOrder::Big => swapped,
        };
        [self.value(word as i16), self.value((word >> 16) as i16)]
    }

    /// Sample `index` of a payload that begins at `at`; `None` if that is not there.
    #[inline]
    pub fn sample(&self, bytes: &(impl Bytes + ?Sized), at: u32, index: u32) -> Option<f32> {
        let at = at.checked_add(index.checked_mul(SAMPLE_BYTES)?)?;
        let sample = self.order.read(bytes, at, SAMPLE_BYTES)?;
        Some(self.value(sample as u16 as i16))
    }
}

/// Bytes of a sample.
const SAMPLE_BYTES: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_in_both_orders() {
        let (scale, offset) = (0.1, -7.25);
        for sample in i16::MIN..=i16::MAX {
            let other = sample.wrapping_mul(31).wrapping_add(5);
            let expected = [sample, other].map(|one| f32::from(one) * scale + offset);
            let [little, big] = [ByteOrder::Little, ByteOrder::Big].map(|order| Conversion {
                scale,
                offset,
                order,
            });
            let bytes = [sample.to_le_bytes(), other.to_le_bytes()].concat();
            let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
            assert_eq!(little.pair(word(&bytes)), expected);
            assert_eq!(little.sample(&bytes[..], 0, 1), Some(expected[1]));
            let bytes = [sample.to_be_bytes(), other.to_be_bytes()].concat();
            assert_eq!(big.pair(word(&bytes)), expected);
            assert_eq!(big.sample(&bytes[..], 2, 0), Some(expected[1]));
        }
    }

    #[test]
    fn values_by_hand() {
        let check = |sample: i16, scale: f32, offset: f32, value: f32| {
            let order = ByteOrder::Big;
            let conversion = Conversion {
                scale,
                offset,
                order,
            };
            assert_eq!(conversion.value(sample), value);
        };
        check(0, 3.0, 1.5, 1.5);
        check(i16::MIN, 1.0 / 32768.0, 0.0, -1.0);
        check(i16::MAX, 1.0 / 32768.0, 0.0, 32767.0 / 32768.0);
        check(-3, 0.5, 10.0, 8.5);
    }

    #[test]
    fn samples_that_are_not_there() {
        let conversion = Conversion {
            scale: 1.0,
            offset: 0.0,
            order: ByteOrder::Little,
        };
        let bytes: &[u8] = &[1, 0, 2, 0, 3];
        assert_eq!(conversion.sample(bytes, 0, 1), Some(2.0));
        assert_eq!(conversion.sample(bytes, 0, 2), None);
        assert_eq!(conversion.sample(bytes, 0, u32::MAX), None);
        assert_eq!(conversion.sample(bytes, u32::MAX, 1), None);
    }
}
