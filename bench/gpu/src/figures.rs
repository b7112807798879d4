//! Many measured values as a few: percentiles by nearest rank, medians.

use serde::Serialize;

/// Values in short, in the unit that they were taken in.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Spread {
    pub(crate) count: usize,
    pub(crate) least: u64,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) p99_9: u64,
    pub(crate) most: u64,
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(mut values: Vec<u64>) -> Option<Self> {
        values.sort_unstable();
        let rank = |thousandths: usize| {
            let place = (values.len() * thousandths).div_ceil(1000).max(1) - 1;
            values.get(place).copied()
        };
        Some(Self {
            count: values.len(),
            least: *values.first()?,
            p50: rank(500)?,
            p90: rank(900)?,
            p99: rank(990)?,
            p99_9: rank(999)?,
            most: *values.last()?,
        })
    }
}

/// The median; 0 of no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.len() % 2, values.get(middle)) {
        (1, Some(value)) => *value,
        (_, Some(value)) => (value + values.get(middle - 1).unwrap_or(value)) / 2.0,
        (_, None) => 0.0,
    }
}

/// Four digits are more than a round can tell.
pub(crate) fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let digits = 4 - value.abs().log10().floor() as i32 - 1;
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_the_nearest() {
        let spread = Spread::of((1..=1000).rev().collect()).expect("values");
        let found = (spread.p50, spread.p90, spread.p99, spread.p99_9);
        assert_eq!(found, (500, 900, 990, 999));
        assert_eq!((spread.least, spread.most, spread.count), (1, 1000, 1000));
        let one = Spread::of(vec![7]).expect("a value");
        assert_eq!((one.least, one.p50, one.p99_9, one.most), (7, 7, 7, 7));
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn medians_lie_in_the_middle() {
        for (values, want) in [
            (&[][..], 0.0),
            (&[3.0], 3.0),
            (&[5.0, 1.0], 3.0),
            (&[9.0, 1.0, 2.0], 2.0),
            (&[4.0, 1.0, 2.0, 3.0], 2.5),
        ] {
            assert_eq!(median(values), want, "{values:?}");
        }
    }

    #[test]
    fn four_digits_stay() {
        for (value, want) in [
            (0.0, 0.0),
            (1234.56, 1235.0),
            (0.012_345, 0.012_35),
            (987_654.0, 987_700.0),
            (f64::NAN, 0.0),
        ] {
            assert_eq!(short(value), want);
        }
    }
}
