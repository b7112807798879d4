//! Arithmetic against Rust's own integers.

use proptest::prelude::*;

use super::Bench;

/// Runs `text` with a different pair of values in each lane, `%rd1` and `%rd2` (and their low
/// halves `%r1`, `%r2` and quarters `%rs1`, `%rs2`); each lane's `%rd0`.
fn run(text: &str, pairs: &[(u64, u64)]) -> Vec<u64> {
    let bench = Bench::body(&format!(
        "mul.wide.u32 %rd30, %r31, 16; add.u64 %rd30, %rd30, %rd31;\n\
         ld.global.v2.b64 {{%rd1, %rd2}}, [%rd30+4096];\n\
         cvt.u32.u64 %r1, %rd1; cvt.u32.u64 %r2, %rd2;\n\
         cvt.u16.u64 %rs1, %rd1; cvt.u16.u64 %rs2, %rd2;\n{text}\n\
         mul.wide.u32 %rd30, %r31, 8; add.u64 %rd30, %rd30, %rd31;\n\
         st.global.b64 [%rd30], %rd0;"
    ));
    let mut bytes = Vec::new();
    for (a, b) in pairs {
        bytes.extend(a.to_le_bytes());
        bytes.extend(b.to_le_bytes());
    }
    let start = warpwire_ring::DeviceAddress::new(bench.address() + 4096);
    bench.memory.write(start, &bytes).expect("inside");
    let outcome = bench
        .run()
        .unwrap_or_else(|fault| panic!("`{text}`: {fault}"));
    outcome.words[..pairs.len()].to_vec()
}

type Expected = fn(u64, u64) -> u64;

/// Of 32 bits: `(instruction, expected)`; the result is in `%r0`.
const WORDS: &[(&str, Expected)] = &[
    ("add.u32 %r0, %r1, %r2;", |a, b| {
        low(u64::wrapping_add(a, b))
    }),
    ("sub.s32 %r0, %r1, %r2;", |a, b| {
        low(u64::wrapping_sub(a, b))
    }),
    ("mul.lo.s32 %r0, %r1, %r2;", |a, b| {
        low(u64::wrapping_mul(a, b))
    }),
    ("mul.hi.u32 %r0, %r1, %r2;", |a, b| (low(a) * low(b)) >> 32),
    ("mul.hi.s32 %r0, %r1, %r2;", |a, b| {
        low((i64::from(a as i32) * i64::from(b as i32)) as u64 >> 32)
    }),
    ("min.s32 %r0, %r1, %r2;", |a, b| {
        low((a as i32).min(b as i32) as u64)
    }),
    ("max.u32 %r0, %r1, %r2;", |a, b| low(a).max(low(b))),
    ("shl.b32 %r0, %r1, %r2;", |a, b| {
        u64::from((a as u32).checked_shl(b as u32).unwrap_or(0))
    }),
    ("shr.u32 %r0, %r1, %r2;", |a, b| {
        u64::from((a as u32).checked_shr(b as u32).unwrap_or(0))
    }),
    ("shr.s32 %r0, %r1, %r2;", |a, b| {
        low((a as i32 >> (b as u32).min(31)) as u64)
    }),
    ("shf.l.wrap.b32 %r0, %r1, %r1, %r2;", |a, b| {
        u64::from((a as u32).rotate_left(b as u32 & 31))
    }),
    ("shf.r.wrap.b32 %r0, %r1, %r1, %r2;", |a, b| {
        u64::from((a as u32).rotate_right(b as u32 & 31))
    }),
    ("popc.b64 %r0, %rd1;", |a, _| u64::from(a.count_ones())),
    ("clz.b64 %r0, %rd1;", |a, _| u64::from(a.leading_zeros())),
    ("brev.b32 %r0, %r1;", |a, _| {
        u64::from((a as u32).reverse_bits())
    }),
    ("prmt.b32 %r0, %r1, 0, 0x0123;", |a, _| {
        u64::from((a as u32).swap_bytes())
    }),
    ("lop3.b32 %r0, %r1, %r2, %r1, 0x3c;", |a, b| low(a ^ b)),
    ("xor.b32 %r0, %r1, %r2;", |a, b| low(a ^ b)),
    (
        "setp.lt.s32 %p1, %r1, %r2; selp.b32 %r0, 1, 0, %p1;",
        |a, b| u64::from((a as i32) < b as i32),
    ),
    (
        "setp.ge.u64 %p1, %rd1, %rd2; selp.b32 %r0, 1, 0, %p1;",
        |a, b| u64::from(a >= b),
    ),
    (
        "setp.le.s64 %p1, %rd1, %rd2; selp.b32 %r0, 1, 0, %p1;",
        |a, b| u64::from(a as i64 <= b as i64),
    ),
    ("bfe.u32 %r0, %r1, 5, 9;", |a, _| a >> 5 & 0x1ff),
    ("bfi.b32 %r0, %r1, %r2, 5, 9;", |a, b| {
        low(b) & !(0x1ff << 5) | (a & 0x1ff) << 5
    }),
    ("cvt.s32.s16 %r0, %rs1;", |a, _| low(a as i16 as u64)),
    ("cvt.sat.s16.s32 %r0, %r1;", |a, _| {
        low((a as i32).clamp(i16::MIN.into(), i16::MAX.into()) as u64)
    }),
    ("mul.wide.s16 %r0, %rs1, %rs2;", |a, b| {
        low((i32::from(a as i16) * i32::from(b as i16)) as u64)
    }),
];

/// Of 64 bits; the result is in `%rd0`.
const LONGS: &[(&str, Expected)] = &[
    ("add.s64 %rd0, %rd1, %rd2;", u64::wrapping_add),
    ("sub.u64 %rd0, %rd1, %rd2;", u64::wrapping_sub),
    ("mul.lo.u64 %rd0, %rd1, %rd2;", u64::wrapping_mul),
    ("mul.hi.u64 %rd0, %rd1, %rd2;", |a, b| {
        ((u128::from(a) * u128::from(b)) >> 64) as u64
    }),
    ("mul.hi.s64 %rd0, %rd1, %rd2;", |a, b| {
        ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
    }),
    ("mul.wide.u32 %rd0, %r1, %r2;", |a, b| low(a) * low(b)),
    ("mul.wide.s32 %rd0, %r1, %r2;", |a, b| {
        (i64::from(a as i32) * i64::from(b as i32)) as u64
    }),
    ("mad.lo.s64 %rd0, %rd1, %rd2, %rd1;", |a, b| {
        a.wrapping_mul(b).wrapping_add(a)
    }),
    ("mad.wide.u32 %rd0, %r1, %r2, %rd1;", |a, b| {
        (low(a) * low(b)).wrapping_add(a)
    }),
    ("div.u64 %rd0, %rd1, %rd2;", |a, b| {
        a.checked_div(b).unwrap_or(u64::MAX)
    }),
    ("rem.s64 %rd0, %rd1, %rd2;", |a, b| match b {
        0 => a,
        _ => (a as i64).wrapping_rem(b as i64) as u64,
    }),
    ("min.u64 %rd0, %rd1, %rd2;", u64::min),
    ("max.s64 %rd0, %rd1, %rd2;", |a, b| {
        (a as i64).max(b as i64) as u64
    }),
    ("shl.b64 %rd0, %rd1, %r2;", |a, b| {
        a.checked_shl(b as u32).unwrap_or(0)
    }),
    ("shr.s64 %rd0, %rd1, %r2;", |a, b| {
        (a as i64 >> (b as u32).min(63)) as u64
    }),
    ("neg.s64 %rd0, %rd1;", |a, _| a.wrapping_neg()),
    ("abs.s64 %rd0, %rd1;", |a, _| {
        (a as i64).wrapping_abs() as u64
    }),
    ("brev.b64 %rd0, %rd1;", |a, _| a.reverse_bits()),
    ("cvt.s64.s32 %rd0, %r1;", |a, _| a as i32 as u64),
    ("bfe.s64 %rd0, %rd1, 10, 20;", |a, _| {
        ((a << 34) as i64 >> 44) as u64
    }),
    // 128 bits in two halves.
    (
        "add.cc.u64 %rd3, %rd1, %rd2; addc.u64 %rd0, %rd1, %rd2;",
        |a, b| {
            a.wrapping_add(b)
                .wrapping_add(u64::from(a.checked_add(b).is_none()))
        },
    ),
    (
        "sub.cc.u64 %rd3, %rd1, %rd2; subc.u64 %rd0, %rd1, %rd2;",
        |a, b| a.wrapping_sub(b).wrapping_sub(u64::from(a < b)),
    ),
];

const fn low(value: u64) -> u64 {
    value & 0xffff_ffff
}

/// Values with many edges among them.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        any::<u32>().prop_map(u64::from),
        any::<i8>().prop_map(|value| value as u64),
        (0..64u32).prop_map(|bit| 1 << bit),
        (0..64u32).prop_map(|bit| u64::MAX << bit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn registers_hold_what_rust_says(pairs in prop::collection::vec((value(), value()), 32)) {
        for &(text, expected) in WORDS {
            let found = run(&format!("{text} cvt.u64.u32 %rd0, %r0;"), &pairs);
            for (&(a, b), found) in pairs.iter().zip(found) {
                prop_assert_eq!(found, expected(a, b), "{} of {:#x} and {:#x}", text, a, b);
            }
        }
        for &(text, expected) in LONGS {
            let found = run(text, &pairs);
            for (&(a, b), found) in pairs.iter().zip(found) {
                prop_assert_eq!(found, expected(a, b), "{} of {:#x} and {:#x}", text, a, b);
            }
        }
    }
}
