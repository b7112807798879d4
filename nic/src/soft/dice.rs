//! Chance from one seed: the same seed, the same run.

/// A SplitMix64 generator.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// 64 bits.
    pub fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.roll()) * u128::from(bound)) >> 64) as u64
    }

    /// True `parts_per_million` times in a million. Certainties use up no chance.
    pub fn chance(&mut self, parts_per_million: u32) -> bool {
        match parts_per_million {
            0 => false,
            1_000_000.. => true,
            parts => self.below(1_000_000) < u64::from(parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_rolls_the_same() {
        let (mut one, mut two, mut other) = (Dice::new(7), Dice::new(7), Dice::new(8));
        let rolls: Vec<u64> = (0..100).map(|_| one.roll()).collect();
        assert!(rolls.iter().all(|&roll| two.roll() == roll));
        assert!(rolls.iter().any(|&roll| other.roll() != roll));
    }

    #[test]
    fn chances_come_true_about_as_often() {
        let mut dice = Dice::new(1);
        for (parts, low, high) in [
            (0, 0, 0),
            (250_000, 2_300, 2_700),
            (1_000_000, 10_000, 10_000),
        ] {
            let hits = (0..10_000).filter(|_| dice.chance(parts)).count();
            assert!((low..=high).contains(&hits), "{parts} ppm: {hits} of 10000");
        }
        assert!((0..1000).all(|_| dice.below(3) < 3) && dice.below(0) == 0);
    }
}
