//! Numbers of a few bits.

use core::fmt;

/// A number of `N` bits, 1 to 7.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub struct Bits<const N: u32>(u8);

impl<const N: u32> Bits<N> {
    /// The largest.
    pub const MAX: Self = Self((1 << N) - 1);

    /// `None` if `value` does not fit.
    pub const fn new(value: u8) -> Option<Self> {
        if value <= Self::MAX.0 {
            Some(Self(value))
        } else {
            None
        }
    }

    /// `value`, or the largest if that is less.
    pub const fn saturating(value: u8) -> Self {
        match Self::new(value) {
            Some(bits) => bits,
            None => Self::MAX,
        }
    }

    /// The value.
    pub const fn value(self) -> u8 {
        self.0
    }

    /// The bits of a byte from `low` on.
    pub(super) const fn of(byte: u8, low: u32) -> Self {
        Self(byte >> low & Self::MAX.0)
    }
}

impl<const N: u32> fmt::Display for Bits<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits() {
        assert_eq!(Bits::<5>::new(31).map(Bits::value), Some(31));
        assert_eq!(Bits::<5>::new(32), None);
        assert_eq!(Bits::<7>::new(127).map(Bits::value), Some(127));
        assert_eq!(Bits::<3>::saturating(9), Bits::MAX);
        assert_eq!(Bits::<5>::of(0b1010_1111, 3).value(), 0b10101);
    }
}
