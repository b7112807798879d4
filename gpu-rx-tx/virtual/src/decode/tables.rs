//! Which function computes which instruction.

use super::form::Type;
use crate::alu::{self, Int, ones};
use crate::column::{Compare, Op1, Op2, Op3, compare, op1, op2, op3};

/// Calls a function that is generic over the integer type that `kind` stands for.
macro_rules! by_type {
    ($kind:expr, $function:ident($($argument:expr),*)) => {
        match $kind {
            Type::Unsigned(16) => $function::<u16>($($argument),*),
            Type::Unsigned(32) => $function::<u32>($($argument),*),
            Type::Unsigned(64) => $function::<u64>($($argument),*),
            Type::Signed(16) => $function::<i16>($($argument),*),
            Type::Signed(32) => $function::<i32>($($argument),*),
            Type::Signed(64) => $function::<i64>($($argument),*),
            _ => None,
        }
    };
}

/// Instructions of one operand, of the same type as the result.
pub(super) fn one(name: &str, kind: Type) -> Option<Op1> {
    match kind {
        Type::Bits(bits) => one_of_bits(name, bits),
        _ => by_type!(kind, one_of(name)),
    }
}

fn one_of<T: Int>(name: &str) -> Option<Op1> {
    Some(match name {
        "neg" if T::SIGNED => op1!(|a| T::of(0).sub(T::of(a)).raw()),
        "abs" if T::SIGNED => op1!(|a| {
            let a = T::of(a);
            T::narrow(a.wide().abs()).raw()
        }),
        _ => return None,
    })
}

fn one_of_bits(name: &str, bits: u32) -> Option<Op1> {
    Some(match (name, bits) {
        ("not", 16) => op1!(|a| !a & ones(16)),
        ("not", 32) => op1!(|a| !a & ones(32)),
        ("not", 64) => op1!(|a| !a),
        ("cnot", 16 | 32 | 64) => op1!(|a| u64::from(a == 0)),
        ("brev", 32) => op1!(|a| u64::from((a as u32).reverse_bits())),
        ("brev", 64) => op1!(|a| a.reverse_bits()),
        _ => return None,
    })
}

/// Instructions of one operand whose result has 32 bits.
pub(super) fn counting(name: &str, kind: Type) -> Option<Op1> {
    Some(match (name, kind) {
        ("popc", Type::Bits(32 | 64)) => op1!(|a| u64::from(a.count_ones())),
        ("clz", Type::Bits(32)) => op1!(|a| u64::from((a as u32).leading_zeros())),
        ("clz", Type::Bits(64)) => op1!(|a| u64::from(a.leading_zeros())),
        ("bfind", Type::Unsigned(32) | Type::Signed(32)) => return found(kind, false),
        ("bfind", Type::Unsigned(64) | Type::Signed(64)) => return found(kind, false),
        ("bfind.shiftamt", Type::Unsigned(32) | Type::Signed(32)) => return found(kind, true),
        ("bfind.shiftamt", Type::Unsigned(64) | Type::Signed(64)) => return found(kind, true),
        _ => return None,
    })
}

fn found(kind: Type, as_shift: bool) -> Option<Op1> {
    by_type!(kind, found_of(as_shift))
}

fn found_of<T: Int>(as_shift: bool) -> Option<Op1> {
    Some(match as_shift {
        true => op1!(|a| alu::find::<T>(a, true)),
        false => op1!(|a| alu::find::<T>(a, false)),
    })
}

/// Instructions of two operands; all of the same type but for the amount of a shift, of 32 bits,
/// and the result of `mul.wide`, of twice the width.
pub(super) fn two(name: &str, kind: Type) -> Option<Op2> {
    match kind {
        Type::Bits(bits) => two_of_bits(name, bits),
        Type::Float => two_of_floats(name),
        _ => by_type!(kind, two_of(name)),
    }
}

fn two_of<T: Int>(name: &str) -> Option<Op2> {
    let is_int = T::SIGNED && T::BITS == 32;
    Some(match name {
        "add" => op2!(|a, b| T::of(a).add(T::of(b)).raw()),
        "sub" => op2!(|a, b| T::of(a).sub(T::of(b)).raw()),
        "add.sat" if is_int => op2!(|a, b| T::saturate(T::of(a).wide() + T::of(b).wide()).raw()),
        "sub.sat" if is_int => op2!(|a, b| T::saturate(T::of(a).wide() - T::of(b).wide()).raw()),
        "mul.lo" => op2!(|a, b| T::of(a).mul(T::of(b)).raw()),
        "mul.hi" => op2!(|a, b| T::of(a).mul_hi(T::of(b)).raw()),
        "mul.wide" if T::BITS < 64 => op2!(wide_product::<T>),
        "div" => op2!(|a, b| T::of(a).div(T::of(b)).raw()),
        "rem" => op2!(|a, b| T::of(a).rem(T::of(b)).raw()),
        "min" => op2!(|a, b| T::of(a).min(T::of(b)).raw()),
        "max" => op2!(|a, b| T::of(a).max(T::of(b)).raw()),
        "shr" => op2!(|a, b| T::of(a).shr(b).raw()),
        _ => return None,
    })
}

/// Each rounded for itself, to the nearest, as Rust does.
fn two_of_floats(name: &str) -> Option<Op2> {
    Some(match name {
        "add.rn" => op2!(|a, b| alu::float(alu::of_float(a) + alu::of_float(b))),
        "sub.rn" => op2!(|a, b| alu::float(alu::of_float(a) - alu::of_float(b))),
        "mul.rn" => op2!(|a, b| alu::float(alu::of_float(a) * alu::of_float(b))),
        _ => return None,
    })
}

/// `cvt.rn.f32`: from an integer.
pub(super) fn to_float(kind: Type) -> Option<Op1> {
    by_type!(kind, to_float_of())
}

fn to_float_of<T: Int>() -> Option<Op1> {
    Some(op1!(|a| alu::float(T::of(a).wide() as f32)))
}

#[inline(always)]
fn wide_product<T: Int>(a: u64, b: u64) -> u64 {
    (T::of(a).wide() * T::of(b).wide()) as u64 & ones(2 * T::BITS)
}

fn two_of_bits(name: &str, bits: u32) -> Option<Op2> {
    Some(match (name, bits) {
        ("and", 16 | 32 | 64) => op2!(|a, b| a & b),
        ("or", 16 | 32 | 64) => op2!(|a, b| a | b),
        ("xor", 16 | 32 | 64) => op2!(|a, b| a ^ b),
        ("shl", 16) => op2!(|a, b| alu::shl(16, a, b)),
        ("shl", 32) => op2!(|a, b| alu::shl(32, a, b)),
        ("shl", 64) => op2!(|a, b| alu::shl(64, a, b)),
        ("shr", 16) => return two_of::<u16>(name),
        ("shr", 32) => return two_of::<u32>(name),
        ("shr", 64) => return two_of::<u64>(name),
        ("bmsk.clamp", 32) => op2!(|a, b| alu::mask(a, b, false)),
        ("bmsk.wrap", 32) => op2!(|a, b| alu::mask(a, b, true)),
        _ => return None,
    })
}

/// Instructions of three operands.
pub(super) fn three(name: &str, kind: Type) -> Option<Op3> {
    match (name, kind) {
        ("shf.l.wrap", Type::Bits(32)) => Some(op3!(|a, b, c| alu::funnel_left(a, b, c & 31))),
        ("shf.l.clamp", Type::Bits(32)) => Some(op3!(|a, b, c| alu::funnel_left(a, b, c.min(32)))),
        ("shf.r.wrap", Type::Bits(32)) => Some(op3!(|a, b, c| alu::funnel_right(a, b, c & 31))),
        ("shf.r.clamp", Type::Bits(32)) => Some(op3!(|a, b, c| alu::funnel_right(a, b, c.min(32)))),
        _ => by_type!(kind, three_of(name)),
    }
}

fn three_of<T: Int>(name: &str) -> Option<Op3> {
    let is_int = T::SIGNED && T::BITS == 32;
    Some(match name {
        "mad.lo" => op3!(|a, b, c| T::of(a).mul(T::of(b)).add(T::of(c)).raw()),
        "mad.hi" => op3!(|a, b, c| T::of(a).mul_hi(T::of(b)).add(T::of(c)).raw()),
        "mad.hi.sat" if is_int => op3!(|a, b, c| {
            T::saturate(T::of(a).mul_hi(T::of(b)).wide() + T::of(c).wide()).raw()
        }),
        "mad.wide" if T::BITS < 64 => {
            op3!(|a, b, c| { wide_product::<T>(a, b).wrapping_add(c) & ones(2 * T::BITS) })
        }
        "bfe" if T::BITS > 16 => op3!(alu::extract::<T>),
        _ => return None,
    })
}

/// `prmt` in one of its modes, of 32 bits.
pub(super) fn permute(mode: &str) -> Option<Op3> {
    Some(match mode {
        "" => op3!(|a, b, c| alu::permute(a, b, c, |c, at| c >> (at * 4) & 15)),
        "f4e" => op3!(|a, b, c| alu::permute(a, b, c, |c, at| (c & 3) + u64::from(at))),
        "b4e" => op3!(|a, b, c| alu::permute(a, b, c, |c, at| {
            (c & 3).wrapping_sub(u64::from(at)) & 7
        })),
        "rc8" => op3!(|a, b, c| alu::permute(a, b, c, |c, _| c & 3)),
        "ecl" => op3!(|a, b, c| alu::permute(a, b, c, |c, at| (c & 3).max(u64::from(at)))),
        "ecr" => op3!(|a, b, c| alu::permute(a, b, c, |c, at| (c & 3).min(u64::from(at)))),
        "rc16" => {
            op3!(|a, b, c| alu::permute(a, b, c, |c, at| { (c & 1) * 2 + u64::from(at & 1) }))
        }
        _ => return None,
    })
}

/// From three values and the carry to a value and the carry.
pub(super) type CarryOp = fn(u64, u64, u64, bool) -> (u64, bool);

/// Instructions that read or write the carry, without `.cc` and the type.
pub(super) fn carrying(name: &str, kind: Type) -> Option<CarryOp> {
    by_type!(kind, carrying_of(name))
}

fn carrying_of<T: Int>(name: &str) -> Option<CarryOp> {
    if T::BITS < 32 {
        return None;
    }
    Some(match name {
        "add" => |a, b, _, carry| sum::<T>(a, b, carry),
        "sub" => |a, b, _, borrow| {
            let less = u128::from(b) + u128::from(borrow);
            let value = u128::from(a).wrapping_sub(less) as u64 & ones(T::BITS);
            (value, u128::from(a) < less)
        },
        "mad.lo" => |a, b, c, carry| sum::<T>(T::of(a).mul(T::of(b)).raw(), c, carry),
        "mad.hi" => |a, b, c, carry| sum::<T>(T::of(a).mul_hi(T::of(b)).raw(), c, carry),
        _ => return None,
    })
}

fn sum<T: Int>(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let sum = u128::from(a) + u128::from(b) + u128::from(carry);
    (sum as u64 & ones(T::BITS), sum >> T::BITS != 0)
}

/// Comparisons.
pub(super) fn comparison(name: &str, kind: Type) -> Option<Compare> {
    match (name, kind) {
        ("eq", Type::Bits(16 | 32 | 64)) => Some(compare!(|a, b| a == b)),
        ("ne", Type::Bits(16 | 32 | 64)) => Some(compare!(|a, b| a != b)),
        _ => by_type!(kind, comparison_of(name)),
    }
}

fn comparison_of<T: Int>(name: &str) -> Option<Compare> {
    Some(match (name, T::SIGNED) {
        ("eq", _) => compare!(|a, b| a == b),
        ("ne", _) => compare!(|a, b| a != b),
        ("lt", _) | ("lo", false) => compare!(|a, b| T::of(a) < T::of(b)),
        ("le", _) | ("ls", false) => compare!(|a, b| T::of(a) <= T::of(b)),
        ("gt", _) | ("hi", false) => compare!(|a, b| T::of(a) > T::of(b)),
        ("ge", _) | ("hs", false) => compare!(|a, b| T::of(a) >= T::of(b)),
        _ => return None,
    })
}

/// How predicates are combined.
pub(super) fn logic(name: &str) -> Option<fn(u32, u32) -> u32> {
    Some(match name {
        "and" => |a, b| a & b,
        "or" => |a, b| a | b,
        "xor" => |a, b| a ^ b,
        _ => return None,
    })
}

/// What `atom`, `red` and `redux` make of the old value and the operand.
pub(super) fn update(name: &str, kind: Type) -> Option<fn(u64, u64) -> u64> {
    match (name, kind) {
        ("and", Type::Bits(32 | 64)) => Some(|a, b| a & b),
        ("or", Type::Bits(32 | 64)) => Some(|a, b| a | b),
        ("xor", Type::Bits(32 | 64)) => Some(|a, b| a ^ b),
        ("exch", Type::Bits(32 | 64)) => Some(|_, b| b),
        ("inc", Type::Unsigned(32)) => Some(|a, b| if a >= b { 0 } else { a + 1 }),
        ("dec", Type::Unsigned(32)) => Some(|a, b| if a == 0 || a > b { b } else { a - 1 }),
        (_, Type::Unsigned(16) | Type::Signed(16)) => None,
        _ => by_type!(kind, update_of(name)),
    }
}

fn update_of<T: Int>(name: &str) -> Option<fn(u64, u64) -> u64> {
    Some(match name {
        "add" => |a, b| T::of(a).add(T::of(b)).raw(),
        "min" => |a, b| T::of(a).min(T::of(b)).raw(),
        "max" => |a, b| T::of(a).max(T::of(b)).raw(),
        _ => return None,
    })
}
