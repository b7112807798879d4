//! What one lane computes: the definitions of the PTX manual, on values in 64 bits.

use crate::module::Convert;

/// An integer type of PTX. Values come and go zero-extended to 64 bits.
pub(crate) trait Int: Copy + Ord + 'static {
    const BITS: u32;
    const SIGNED: bool;
    /// The low bits of a value.
    fn of(value: u64) -> Self;
    /// Zero-extended.
    fn raw(self) -> u64;
    /// With its sign.
    fn wide(self) -> i128;
    /// The low bits of a value with a sign.
    fn narrow(value: i128) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn shr(self, by: u64) -> Self;

    /// The high half of the product.
    #[inline(always)]
    fn mul_hi(self, other: Self) -> Self {
        Self::narrow(self.wide().wrapping_mul(other.wide()) >> Self::BITS)
    }

    /// By zero, the manual calls the result unspecified: it is all ones here.
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        match other.wide() {
            0 => Self::narrow(-1),
            by => Self::narrow(self.wide() / by),
        }
    }

    /// By zero, unspecified: the dividend here.
    #[inline(always)]
    fn rem(self, other: Self) -> Self {
        match other.wide() {
            0 => self,
            by => Self::narrow(self.wide() % by),
        }
    }

    /// The value of this type that is nearest to `value`.
    #[inline(always)]
    fn saturate(value: i128) -> Self {
        let (least, most) = match Self::SIGNED {
            true => (
                -(1i128 << (Self::BITS - 1)),
                (1i128 << (Self::BITS - 1)) - 1,
            ),
            false => (0, (1i128 << Self::BITS) - 1),
        };
        Self::narrow(value.max(least).min(most))
    }
}

macro_rules! int {
    ($type:ty, $unsigned:ty, $signed:literal) => {
        impl Int for $type {
            const BITS: u32 = <$type>::BITS;
            const SIGNED: bool = $signed;
            #[inline(always)]
            fn of(value: u64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn raw(self) -> u64 {
                u64::from(self as $unsigned)
            }
            #[inline(always)]
            fn wide(self) -> i128 {
                i128::from(self)
            }
            #[inline(always)]
            fn narrow(value: i128) -> Self {
                value as Self
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn shr(self, by: u64) -> Self {
                let most = u64::from(Self::BITS - 1);
                match (by > most, $signed) {
                    (true, false) => 0,
                    _ => self >> by.min(most),
                }
            }
        }
    };
}

int!(u8, u8, false);
int!(i8, u8, true);
int!(u16, u16, false);
int!(i16, u16, true);
int!(u32, u32, false);
int!(i32, u32, true);
int!(u64, u64, false);
int!(i64, u64, true);

/// The bits of a floating-point number; of one that is none, those that a GPU gives.
#[inline(always)]
pub(crate) fn float(value: f32) -> u64 {
    match value.is_nan() {
        true => 0x7fff_ffff,
        false => u64::from(value.to_bits()),
    }
}

/// The floating-point number of the low 32 bits.
#[inline(always)]
pub(crate) fn of_float(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// Ones in the low `bits`.
#[inline(always)]
pub(crate) const fn ones(bits: u32) -> u64 {
    match bits {
        0 => 0,
        64.. => u64::MAX,
        _ => (1 << bits) - 1,
    }
}

/// `shl`: amounts beyond the width give 0.
#[inline(always)]
pub(crate) fn shl(bits: u32, a: u64, by: u64) -> u64 {
    match by >= u64::from(bits) {
        true => 0,
        false => (a << by) & ones(bits),
    }
}

/// `shf.l`: the high half of `[hi:lo]` shifted left by `n`, up to 32.
#[inline(always)]
pub(crate) fn funnel_left(lo: u64, hi: u64, n: u64) -> u64 {
    ((hi << 32 | lo) << n) >> 32
}

/// `shf.r`: the low half of `[hi:lo]` shifted right by `n`, up to 32.
#[inline(always)]
pub(crate) fn funnel_right(lo: u64, hi: u64, n: u64) -> u64 {
    ((hi << 32 | lo) >> n) & ones(32)
}

/// `bfe`: `len` bits from `pos`, extended by zeros or by the field's (or the value's) top bit.
pub(crate) fn extract<T: Int>(a: u64, pos: u64, len: u64) -> u64 {
    let (pos, len) = ((pos & 0xff) as u32, (len & 0xff) as u32);
    let most = T::BITS - 1;
    let sign = match T::SIGNED && len > 0 {
        true => a >> (pos + len - 1).min(most) & 1,
        false => 0,
    };
    let there = len.min(T::BITS.saturating_sub(pos));
    let field = a.checked_shr(pos).unwrap_or(0) & ones(there);
    let filled = match sign {
        1 => field | !ones(there),
        _ => field,
    };
    filled & ones(T::BITS)
}

/// `bfi`: `b` with the low `len` bits of `a` put at `pos`.
pub(crate) fn insert(bits: u32, a: u64, b: u64, pos: u64, len: u64) -> u64 {
    let (pos, len) = ((pos & 0xff) as u32, (len & 0xff) as u32);
    if pos >= bits {
        return b;
    }
    let field = ones(len.min(bits - pos)) << pos;
    b & !field | (a << pos) & field
}

/// `bfind`: where the highest bit is that differs from the sign; all ones if there is none.
pub(crate) fn find<T: Int>(a: u64, as_shift: bool) -> u64 {
    let value = match T::SIGNED && T::of(a).wide() < 0 {
        true => !a & ones(T::BITS),
        false => a,
    };
    if value == 0 {
        return ones(32);
    }
    let place = u64::from(63 - value.leading_zeros());
    match as_shift {
        true => u64::from(T::BITS - 1) - place,
        false => place,
    }
}

/// `prmt`: `pick` says which byte is taken for which byte of the result, as a selector of four bits
/// whose highest asks for the byte's sign alone.
#[inline(always)]
pub(crate) fn permute(a: u64, b: u64, selector: u64, pick: impl Fn(u64, u32) -> u64) -> u64 {
    let bytes = (b << 32 | a).to_le_bytes();
    let mut found = 0;
    for at in 0..4 {
        let select = pick(selector, at);
        let byte = bytes[select as usize & 7];
        let byte = match (select & 8 != 0, byte & 0x80 != 0) {
            (false, _) => byte,
            (true, true) => 0xff,
            (true, false) => 0,
        };
        found |= u64::from(byte) << (at * 8);
    }
    found
}

/// `cvt`: one integer type to another, extended to the destination register.
pub(crate) fn convert(convert: &Convert, a: u64) -> u64 {
    let value = match convert.from_signed {
        true => i128::from(signed(a, convert.from_bits)),
        false => i128::from(a & ones(convert.from_bits)),
    };
    let value = match (convert.saturates, convert.to_signed) {
        (false, _) => value,
        (true, false) => value.clamp(0, i128::from(ones(convert.to_bits))),
        (true, true) => {
            let most = i128::from(ones(convert.to_bits - 1));
            value.clamp(-most - 1, most)
        }
    };
    let extended = match convert.to_signed {
        true => signed(value as u64, convert.to_bits) as u64,
        false => value as u64 & ones(convert.to_bits),
    };
    extended & ones(convert.register_bits)
}

/// The low bits with their sign, from 1 to 64 of them.
#[inline(always)]
pub(crate) fn signed(a: u64, bits: u32) -> i64 {
    let shift = 64 - bits.clamp(1, 64);
    (a << shift) as i64 >> shift
}

/// `lop3`: any function of three bits.
pub(crate) fn lop3(table: u8, a: u64, b: u64, c: u64) -> u64 {
    let mut found = 0;
    for case in 0..8 {
        if table >> case & 1 == 1 {
            let a = if case & 4 != 0 { a } else { !a };
            let b = if case & 2 != 0 { b } else { !b };
            let c = if case & 1 != 0 { c } else { !c };
            found |= a & b & c;
        }
    }
    found & ones(32)
}

/// `bmsk`: `width` ones from `from`, both clamped to 32 or taken modulo 32.
pub(crate) fn mask(from: u64, width: u64, wraps: bool) -> u64 {
    let (from, width) = match wraps {
        true => (from & 31, width & 31),
        false => (from.min(32), width.min(32)),
    };
    (ones(width as u32) << from) & ones(32)
}
