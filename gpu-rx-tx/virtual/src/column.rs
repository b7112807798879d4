//! Columns: one value of each lane of a warp.

/// Lanes of a warp.
pub const LANES: usize = 32;

/// A register of all lanes. Values of less than 64 bits are zero-extended.
pub(crate) type Column = [u64; LANES];

/// From one column to another, in the lanes of the mask.
pub(crate) type Op1 = fn(u32, &mut Column, &Column);
/// From two columns to another.
pub(crate) type Op2 = fn(u32, &mut Column, &Column, &Column);
/// From three columns to another.
pub(crate) type Op3 = fn(u32, &mut Column, &Column, &Column, &Column);
/// Which lanes of the mask two columns compare true in.
pub(crate) type Compare = fn(u32, &Column, &Column) -> u32;

/// The lanes of a mask, lowest first.
pub(crate) fn lanes(mask: u32) -> Lanes {
    Lanes(mask)
}

/// See [`lanes`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes(u32);

impl Iterator for Lanes {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let lane = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        // The mask tells the compiler that a column has this lane.
        (lane < LANES).then_some(lane % LANES)
    }
}

#[inline(always)]
pub(crate) fn each1(mask: u32, d: &mut Column, a: &Column, f: impl Fn(u64) -> u64) {
    if mask == u32::MAX {
        for (d, a) in d.iter_mut().zip(a) {
            *d = f(*a);
        }
    } else {
        for lane in lanes(mask) {
            d[lane] = f(a[lane]);
        }
    }
}

#[inline(always)]
pub(crate) fn each2(
    mask: u32,
    d: &mut Column,
    a: &Column,
    b: &Column,
    f: impl Fn(u64, u64) -> u64,
) {
    if mask == u32::MAX {
        for (d, (a, b)) in d.iter_mut().zip(a.iter().zip(b)) {
            *d = f(*a, *b);
        }
    } else {
        for lane in lanes(mask) {
            d[lane] = f(a[lane], b[lane]);
        }
    }
}

#[inline(always)]
pub(crate) fn each3(
    mask: u32,
    d: &mut Column,
    (a, b, c): (&Column, &Column, &Column),
    f: impl Fn(u64, u64, u64) -> u64,
) {
    for lane in lanes(mask) {
        d[lane] = f(a[lane], b[lane], c[lane]);
    }
}

#[inline(always)]
pub(crate) fn where2(mask: u32, a: &Column, b: &Column, f: impl Fn(u64, u64) -> bool) -> u32 {
    let mut found = 0;
    if mask == u32::MAX {
        for lane in 0..LANES {
            found |= u32::from(f(a[lane], b[lane])) << lane;
        }
    } else {
        for lane in lanes(mask) {
            found |= u32::from(f(a[lane], b[lane])) << lane;
        }
    }
    found
}

/// An [`Op1`] from a closure over one lane.
macro_rules! op1 {
    ($f:expr) => {{
        let op: $crate::column::Op1 = |mask, d, a| $crate::column::each1(mask, d, a, $f);
        op
    }};
}

/// An [`Op2`] from a closure over one lane.
macro_rules! op2 {
    ($f:expr) => {{
        let op: $crate::column::Op2 = |mask, d, a, b| $crate::column::each2(mask, d, a, b, $f);
        op
    }};
}

/// An [`Op3`] from a closure over one lane.
macro_rules! op3 {
    ($f:expr) => {{
        let op: $crate::column::Op3 =
            |mask, d, a, b, c| $crate::column::each3(mask, d, (a, b, c), $f);
        op
    }};
}

/// A [`Compare`] from a closure over one lane.
macro_rules! compare {
    ($f:expr) => {{
        let op: $crate::column::Compare = |mask, a, b| $crate::column::where2(mask, a, b, $f);
        op
    }};
}

pub(crate) use {compare, op1, op2, op3};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lanes_of_the_mask_change() {
        let op = op2!(|a, b| a + b);
        let a: Column = std::array::from_fn(|lane| lane as u64);
        for mask in [u32::MAX, 0, 1, 0x8000_0001, 0x0f0f_0000] {
            let mut d = [7; LANES];
            op(mask, &mut d, &a, &a);
            for (lane, &value) in d.iter().enumerate() {
                let expected = match mask >> lane & 1 {
                    1 => 2 * lane as u64,
                    _ => 7,
                };
                assert_eq!(value, expected, "mask {mask:#x} lane {lane}");
            }
        }
    }

    #[test]
    fn lanes_go_from_low_to_high() {
        let found: Vec<usize> = lanes(0x8000_0101).collect();
        assert_eq!(found, [0, 8, 31]);
    }
}
