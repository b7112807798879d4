//! The generator behind seeded schedules (SplitMix64): small, fast, the same everywhere.

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // The high half of a 64 by 64 bit product: no division, bias far below what a schedule
        // shows.
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// The position of one of the bits that are set in `mask`, or `None` if there is none.
    pub fn bit(&mut self, mask: u32) -> Option<u32> {
        let mut rest = mask;
        for _ in 0..self.below(mask.count_ones() as usize) {
            rest &= rest - 1;
        }
        (rest != 0).then(|| rest.trailing_zeros())
    }
}

pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_bit_is_drawn_and_no_other() {
        let mut random = Random::new(1);
        for mask in [0u32, 1, 0x8000_0000, 0x8000_0011, u32::MAX] {
            let mut seen = 0u32;
            for _ in 0..2000 {
                if let Some(bit) = random.bit(mask) {
                    seen |= 1 << bit;
                }
            }
            assert_eq!(seen, mask);
        }
    }
}
