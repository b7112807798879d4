//! Instructions of one lane, with the results that the PTX manual states.

use super::Bench;

/// Runs a case: its result is in `%r0`, `%rd0`, `%rs0` or `%p0`, whichever comes first in the text.
/// Once for all lanes together, and once for every other lane.
fn check(text: &str, expected: u64) {
    let store = [
        ("%rd0", "mov.b64 %rd29, %rd0;"),
        ("%rs0", "cvt.u64.u16 %rd29, %rs0;"),
        ("%r0", "cvt.u64.u32 %rd29, %r0;"),
        ("%p0", "selp.b64 %rd29, 1, 0, %p0;"),
    ];
    let (_, store) = store
        .iter()
        .filter_map(|(name, store)| Some((text.find(name)?, store)))
        .min()
        .unwrap_or_else(|| panic!("`{text}` has no result"));
    let skips = "and.b32 %r30, %r31, 1; setp.ne.b32 %p30, %r30, 0; @%p30 bra END;";
    for (skips, lanes) in [("", 1), (skips, 2)] {
        let bench = Bench::body(&format!(
            "{skips}\n{text}\n{store}\n\
             mul.wide.u32 %rd30, %r31, 8; add.u64 %rd30, %rd30, %rd31;\n\
             st.global.b64 [%rd30], %rd29;\nEND:"
        ));
        let outcome = bench
            .run()
            .unwrap_or_else(|fault| panic!("`{text}`: {fault}"));
        for (lane, &word) in outcome.words.iter().take(32).enumerate() {
            let expected = match lane % lanes {
                0 => expected,
                _ => 0,
            };
            assert_eq!(
                word, expected,
                "`{text}` lane {lane}: {word:#x}, not {expected:#x}"
            );
        }
    }
}

fn check_all(cases: &[(&str, u64)]) {
    for &(text, expected) in cases {
        check(text, expected);
    }
}

#[test]
fn floating_point() {
    check_all(&[
        ("cvt.rn.f32.s16 %r0, -1;", 0xbf80_0000),
        ("cvt.rn.f32.s32 %r0, 16777217;", 0x4b80_0000),
        ("cvt.rn.f32.u32 %r0, 0xffffffff;", 0x4f80_0000),
        ("add.rn.f32 %r0, 0x3f800000, 0x40000000;", 0x4040_0000),
        ("sub.rn.f32 %r0, 0x3f800000, 0x40000000;", 0xbf80_0000),
        ("mul.rn.f32 %r0, 0x3f800001, 0x3f800001;", 0x3f80_0002),
        ("mul.rn.f32 %r0, 0x7f800000, 0;", 0x7fff_ffff),
    ]);
}

#[test]
fn sums_and_differences() {
    check_all(&[
        ("add.u16 %rs0, 0xffff, 1;", 0),
        ("add.s16 %rs0, 0x7fff, 1;", 0x8000),
        ("add.u32 %r0, 0xffffffff, 2;", 1),
        ("add.s32 %r0, -3, 1;", 0xffff_fffe),
        ("add.s64 %rd0, -1, 1;", 0),
        ("add.u64 %rd0, 0xffffffffffffffff, 3;", 2),
        ("add.sat.s32 %r0, 0x7fffffff, 1;", 0x7fff_ffff),
        ("add.sat.s32 %r0, 0x80000000, -1;", 0x8000_0000),
        ("add.sat.s32 %r0, 5, -7;", 0xffff_fffe),
        ("sub.u16 %rs0, 0, 1;", 0xffff),
        ("sub.s32 %r0, 1, 3;", 0xffff_fffe),
        ("sub.s64 %rd0, 0, 1;", u64::MAX),
        ("sub.sat.s32 %r0, 0x80000000, 1;", 0x8000_0000),
        ("sub.sat.s32 %r0, 0x7fffffff, -1;", 0x7fff_ffff),
        ("neg.s16 %rs0, 1;", 0xffff),
        ("neg.s32 %r0, 0x80000000;", 0x8000_0000),
        ("neg.s64 %rd0, 5;", 5u64.wrapping_neg()),
        ("abs.s16 %rs0, -5;", 5),
        ("abs.s32 %r0, -7;", 7),
        ("abs.s32 %r0, 0x80000000;", 0x8000_0000),
        ("abs.s64 %rd0, -1;", 1),
    ]);
}

#[test]
fn products() {
    check_all(&[
        ("mul.lo.u16 %rs0, 0x1234, 0x100;", 0x3400),
        ("mul.lo.s32 %r0, -3, 5;", 0xffff_fff1),
        ("mul.lo.u32 %r0, 0x10000, 0x10000;", 0),
        ("mul.lo.s64 %rd0, 0x100000000, 0x100000001;", 0x1_0000_0000),
        ("mul.hi.u16 %rs0, 0xffff, 0xffff;", 0xfffe),
        ("mul.hi.s16 %rs0, -1, 1;", 0xffff),
        ("mul.hi.u32 %r0, 0xffffffff, 0xffffffff;", 0xffff_fffe),
        ("mul.hi.s32 %r0, 0xffffffff, 0xffffffff;", 0),
        ("mul.hi.s32 %r0, 0x80000000, 2;", 0xffff_ffff),
        (
            "mul.hi.u64 %rd0, 0xffffffffffffffff, 0xffffffffffffffff;",
            u64::MAX - 1,
        ),
        ("mul.hi.s64 %rd0, -1, -1;", 0),
        ("mul.wide.u16 %r0, 0xffff, 0xffff;", 0xfffe_0001),
        ("mul.wide.s16 %r0, -1, 2;", 0xffff_fffe),
        (
            "mul.wide.u32 %rd0, 0xffffffff, 0xffffffff;",
            0xffff_fffe_0000_0001,
        ),
        ("mul.wide.s32 %rd0, -1, 3;", 3u64.wrapping_neg()),
        ("mad.lo.u16 %rs0, 0xff, 0x101, 2;", 1),
        ("mad.lo.s32 %r0, -2, 3, 4;", 0xffff_fffe),
        ("mad.lo.s64 %rd0, 3, 4, -13;", u64::MAX),
        ("mad.hi.u32 %r0, 0x80000000, 4, 5;", 7),
        ("mad.hi.s32 %r0, -1, 1, 1;", 0),
        (
            "mad.hi.sat.s32 %r0, 0x7fffffff, 0x7fffffff, 0x7fffffff;",
            0x7fff_ffff,
        ),
        ("mad.wide.u16 %r0, 0xffff, 0xffff, 0xffffffff;", 0xfffe_0000),
        ("mad.wide.u32 %rd0, 0xffffffff, 2, 3;", 0x2_0000_0001),
        ("mad.wide.s32 %rd0, -1, 1, 1;", 0),
    ]);
}

/// By zero the manual says that the result is unspecified: all ones, and the dividend as remainder,
/// are ours.
#[test]
fn quotients_and_remainders() {
    check_all(&[
        ("div.u16 %rs0, 0xffff, 16;", 0xfff),
        ("div.s16 %rs0, -7, 2;", 0xfffd),
        ("div.u32 %r0, 0xffffffff, 2;", 0x7fff_ffff),
        ("div.s32 %r0, -7, 2;", 0xffff_fffd),
        ("div.s32 %r0, 0x80000000, -1;", 0x8000_0000),
        ("div.u64 %rd0, 0xffffffffffffffff, 10;", u64::MAX / 10),
        ("div.s64 %rd0, -9, -2;", 4),
        ("div.u32 %r0, 5, 0;", 0xffff_ffff),
        ("div.s64 %rd0, 5, 0;", u64::MAX),
        ("rem.u16 %rs0, 0xffff, 16;", 15),
        ("rem.u32 %r0, 0xffffffff, 10;", 5),
        ("rem.s32 %r0, -7, 2;", 0xffff_ffff),
        ("rem.s32 %r0, 7, -2;", 1),
        ("rem.s32 %r0, 0x80000000, -1;", 0),
        ("rem.u64 %rd0, 0xffffffffffffffff, 10;", u64::MAX % 10),
        ("rem.u32 %r0, 5, 0;", 5),
    ]);
}

#[test]
fn smaller_and_larger() {
    check_all(&[
        ("min.u16 %rs0, 0x8000, 1;", 1),
        ("min.s16 %rs0, 0x8000, 1;", 0x8000),
        ("min.u32 %r0, -1, 1;", 1),
        ("min.s32 %r0, -1, 1;", 0xffff_ffff),
        ("min.u64 %rd0, -1, 1;", 1),
        ("min.s64 %rd0, -1, 1;", u64::MAX),
        ("max.u16 %rs0, 0x8000, 1;", 0x8000),
        ("max.s16 %rs0, 0x8000, 1;", 1),
        ("max.u32 %r0, -1, 1;", 0xffff_ffff),
        ("max.s32 %r0, -1, 1;", 1),
        ("max.u64 %rd0, -1, 1;", u64::MAX),
        ("max.s64 %rd0, -1, 1;", 1),
    ]);
}

#[test]
fn shifts_beyond_the_width_are_clamped() {
    check_all(&[
        ("shl.b16 %rs0, 1, 15;", 0x8000),
        ("shl.b16 %rs0, 1, 16;", 0),
        ("shl.b32 %r0, 1, 31;", 0x8000_0000),
        ("shl.b32 %r0, 1, 32;", 0),
        ("shl.b32 %r0, 1, 0xffffffff;", 0),
        ("shl.b64 %rd0, 1, 63;", 1 << 63),
        ("shl.b64 %rd0, 1, 64;", 0),
        ("shl.b64 %rd0, 3, 63;", 1 << 63),
        ("shr.u16 %rs0, 0x8000, 15;", 1),
        ("shr.u16 %rs0, 0x8000, 16;", 0),
        ("shr.s16 %rs0, 0x8000, 16;", 0xffff),
        ("shr.u32 %r0, 0x80000000, 31;", 1),
        ("shr.u32 %r0, 0x80000000, 32;", 0),
        ("shr.b32 %r0, 0x80000000, 4;", 0x0800_0000),
        ("shr.s32 %r0, 0x80000000, 31;", 0xffff_ffff),
        ("shr.s32 %r0, 0x80000000, 99;", 0xffff_ffff),
        ("shr.s32 %r0, 0x7fffffff, 99;", 0),
        ("shr.u64 %rd0, 0x8000000000000000, 63;", 1),
        ("shr.u64 %rd0, 0x8000000000000000, 64;", 0),
        ("shr.s64 %rd0, 0x8000000000000000, 64;", u64::MAX),
        (
            "shf.l.wrap.b32 %r0, 0x89abcdef, 0x01234567, 8;",
            0x2345_6789,
        ),
        (
            "shf.l.wrap.b32 %r0, 0x89abcdef, 0x01234567, 0;",
            0x0123_4567,
        ),
        (
            "shf.l.wrap.b32 %r0, 0x89abcdef, 0x01234567, 32;",
            0x0123_4567,
        ),
        (
            "shf.l.wrap.b32 %r0, 0x89abcdef, 0x01234567, 40;",
            0x2345_6789,
        ),
        (
            "shf.l.clamp.b32 %r0, 0x89abcdef, 0x01234567, 32;",
            0x89ab_cdef,
        ),
        (
            "shf.l.clamp.b32 %r0, 0x89abcdef, 0x01234567, 40;",
            0x89ab_cdef,
        ),
        (
            "shf.l.clamp.b32 %r0, 0x89abcdef, 0x01234567, 31;",
            0xc4d5_e6f7,
        ),
        (
            "shf.r.wrap.b32 %r0, 0x89abcdef, 0x01234567, 8;",
            0x6789_abcd,
        ),
        (
            "shf.r.wrap.b32 %r0, 0x89abcdef, 0x01234567, 32;",
            0x89ab_cdef,
        ),
        (
            "shf.r.clamp.b32 %r0, 0x89abcdef, 0x01234567, 32;",
            0x0123_4567,
        ),
        (
            "shf.r.clamp.b32 %r0, 0x89abcdef, 0x01234567, 0;",
            0x89ab_cdef,
        ),
    ]);
}

#[test]
fn bits_are_counted_found_and_turned() {
    check_all(&[
        ("popc.b32 %r0, 0xf000000f;", 8),
        ("popc.b64 %r0, 0xffffffffffffffff;", 64),
        ("clz.b32 %r0, 0;", 32),
        ("clz.b32 %r0, 1;", 31),
        ("clz.b64 %r0, 0;", 64),
        ("clz.b64 %r0, 0x100000000;", 31),
        ("brev.b32 %r0, 1;", 0x8000_0000),
        ("brev.b64 %rd0, 6;", 0x6000_0000_0000_0000),
        ("bfind.u32 %r0, 0;", 0xffff_ffff),
        ("bfind.u32 %r0, 0x80000000;", 31),
        ("bfind.s32 %r0, -1;", 0xffff_ffff),
        ("bfind.s32 %r0, 0x80000000;", 30),
        ("bfind.s32 %r0, 0x00000010;", 4),
        ("bfind.shiftamt.u32 %r0, 1;", 31),
        ("bfind.shiftamt.u32 %r0, 0;", 0xffff_ffff),
        ("bfind.u64 %r0, 0x8000000000000000;", 63),
        ("bfind.shiftamt.s64 %r0, 1;", 63),
        ("not.b16 %rs0, 0;", 0xffff),
        ("not.b32 %r0, 0x0f0f0f0f;", 0xf0f0_f0f0),
        ("not.b64 %rd0, 0;", u64::MAX),
        ("cnot.b32 %r0, 0;", 1),
        ("cnot.b32 %r0, 5;", 0),
        ("and.b16 %rs0, 0xff00, 0x0ff0;", 0x0f00),
        ("or.b32 %r0, 0xf0, 0x0f;", 0xff),
        ("xor.b64 %rd0, -1, 1;", u64::MAX - 1),
        ("bmsk.clamp.b32 %r0, 4, 8;", 0xff0),
        ("bmsk.clamp.b32 %r0, 30, 8;", 0xc000_0000),
        ("bmsk.clamp.b32 %r0, 40, 8;", 0),
        ("bmsk.wrap.b32 %r0, 36, 40;", 0xff0),
    ]);
}

#[test]
fn bit_fields() {
    check_all(&[
        ("bfe.u32 %r0, 0x12345678, 8, 8;", 0x56),
        ("bfe.u32 %r0, 0xffffffff, 28, 8;", 0xf),
        ("bfe.u32 %r0, 0xffffffff, 32, 8;", 0),
        ("bfe.u32 %r0, 0xffffffff, 4, 0;", 0),
        ("bfe.u32 %r0, 0x12345678, 0, 32;", 0x1234_5678),
        ("bfe.u32 %r0, 0x12345678, 0x104, 4;", 7),
        ("bfe.u32 %r0, 0xffffffff, 0, 0x102;", 3),
        ("bfe.s32 %r0, 0x0000f000, 8, 8;", 0xffff_fff0),
        ("bfe.s32 %r0, 0x00007000, 8, 8;", 0x70),
        ("bfe.s32 %r0, 0x80000000, 28, 8;", 0xffff_fff8),
        ("bfe.s32 %r0, 0x80000000, 40, 8;", 0xffff_ffff),
        ("bfe.s32 %r0, 0x80000000, 40, 0;", 0),
        ("bfe.s32 %r0, 1, 0, 1;", 0xffff_ffff),
        ("bfe.u64 %rd0, 0x123456789abcdef0, 32, 16;", 0x5678),
        ("bfe.u64 %rd0, 0xffffffffffffffff, 60, 16;", 0xf),
        ("bfe.s64 %rd0, 0x8000000000000000, 63, 1;", u64::MAX),
        ("bfe.s64 %rd0, 0x8000000000000000, 100, 1;", u64::MAX),
        ("bfi.b32 %r0, 0xff, 0, 8, 4;", 0xf00),
        ("bfi.b32 %r0, 0, 0xffffffff, 8, 8;", 0xffff_00ff),
        ("bfi.b32 %r0, 0xff, 0x12345678, 28, 8;", 0xf234_5678),
        ("bfi.b32 %r0, 0xff, 0x12345678, 32, 8;", 0x1234_5678),
        ("bfi.b32 %r0, 0xff, 0x12345678, 4, 0;", 0x1234_5678),
        ("bfi.b32 %r0, 0x12345678, 0, 0, 64;", 0x1234_5678),
        ("bfi.b64 %rd0, 0xff, 0, 60, 8;", 0xf000_0000_0000_0000),
        ("bfi.b64 %rd0, 0xff, 7, 70, 8;", 7),
    ]);
}

#[test]
fn bytes_are_permuted() {
    // Bytes 0 to 3 are of the first operand, 4 to 7 of the second.
    check_all(&[
        ("prmt.b32 %r0, 0x33221100, 0x77665544, 0x3210;", 0x3322_1100),
        ("prmt.b32 %r0, 0x33221100, 0x77665544, 0x7654;", 0x7766_5544),
        ("prmt.b32 %r0, 0x33221100, 0x77665544, 0x0123;", 0x0011_2233),
        ("prmt.b32 %r0, 0x80221100, 0x77665584, 0xcb31;", 0xffff_8011),
        ("prmt.b32 %r0, 0x33221100, 0x77665544, 0x89ab;", 0),
        (
            "prmt.b32 %r0, 0x33221100, 0x77665544, 0xffff5410;",
            0x5544_1100,
        ),
        ("prmt.b32.f4e %r0, 0x33221100, 0x77665544, 0;", 0x3322_1100),
        ("prmt.b32.f4e %r0, 0x33221100, 0x77665544, 1;", 0x4433_2211),
        ("prmt.b32.f4e %r0, 0x33221100, 0x77665544, 3;", 0x6655_4433),
        ("prmt.b32.b4e %r0, 0x33221100, 0x77665544, 0;", 0x5566_7700),
        ("prmt.b32.b4e %r0, 0x33221100, 0x77665544, 1;", 0x6677_0011),
        ("prmt.b32.b4e %r0, 0x33221100, 0x77665544, 2;", 0x7700_1122),
        ("prmt.b32.b4e %r0, 0x33221100, 0x77665544, 3;", 0x0011_2233),
        ("prmt.b32.rc8 %r0, 0x33221100, 0x77665544, 2;", 0x2222_2222),
        ("prmt.b32.ecl %r0, 0x33221100, 0x77665544, 0;", 0x3322_1100),
        ("prmt.b32.ecl %r0, 0x33221100, 0x77665544, 2;", 0x3322_2222),
        ("prmt.b32.ecl %r0, 0x33221100, 0x77665544, 3;", 0x3333_3333),
        ("prmt.b32.ecr %r0, 0x33221100, 0x77665544, 0;", 0),
        ("prmt.b32.ecr %r0, 0x33221100, 0x77665544, 1;", 0x1111_1100),
        ("prmt.b32.ecr %r0, 0x33221100, 0x77665544, 3;", 0x3322_1100),
        ("prmt.b32.rc16 %r0, 0x33221100, 0x77665544, 0;", 0x1100_1100),
        ("prmt.b32.rc16 %r0, 0x33221100, 0x77665544, 1;", 0x3322_3322),
        ("prmt.b32.rc16 %r0, 0x33221100, 0x77665544, 2;", 0x1100_1100),
        ("lop3.b32 %r0, 0xf0, 0xcc, 0xaa, 0x80;", 0x80),
        ("lop3.b32 %r0, 0xf0, 0xcc, 0xaa, 0x96;", 0xf0 ^ 0xcc ^ 0xaa),
        ("lop3.b32 %r0, 0xf0, 0xcc, 0xaa, 0xfe;", 0xf0 | 0xcc | 0xaa),
        ("lop3.b32 %r0, 0, 0, 0, 1;", 0xffff_ffff),
    ]);
}

#[test]
fn carries_go_from_one_to_the_next() {
    check_all(&[
        ("add.cc.u32 %r1, 0xffffffff, 1; addc.u32 %r0, 5, 6;", 12),
        ("add.cc.u32 %r1, 1, 1; addc.u32 %r0, 5, 6;", 11),
        ("add.cc.s32 %r1, 0x7fffffff, 1; addc.s32 %r0, 5, 6;", 11),
        (
            "add.cc.u32 %r1, -1, 1; addc.cc.u32 %r2, -1, 0; addc.u32 %r0, 0, 0;",
            1,
        ),
        (
            "add.cc.u32 %r1, -1, 1; add.u32 %r2, -1, 1; addc.u32 %r0, 0, 0;",
            1,
        ),
        ("add.cc.u64 %rd1, -1, 1; addc.u64 %rd0, 1, 1;", 3),
        ("sub.cc.u32 %r1, 0, 1; subc.u32 %r0, 5, 2;", 2),
        ("sub.cc.u32 %r1, 1, 1; subc.u32 %r0, 5, 2;", 3),
        (
            "sub.cc.s64 %rd1, 0, 1; subc.cc.s64 %rd2, 0, 0; subc.s64 %rd0, 9, 0;",
            8,
        ),
        ("sub.cc.u32 %r1, 0, 1; subc.u32 %r0, 0, 0xffffffff;", 0),
        (
            "mad.lo.cc.u32 %r1, -1, 1, 1; madc.hi.u32 %r0, 0x10000, 0x10000, 1;",
            3,
        ),
        ("mad.lo.cc.u32 %r1, 2, 3, 4; madc.lo.u32 %r0, 2, 3, 4;", 10),
        ("mad.hi.cc.u32 %r1, -1, -1, 2; addc.u32 %r0, 0, 0;", 1),
    ]);
}

#[test]
fn conversions() {
    check_all(&[
        ("cvt.u64.u32 %rd0, 0xffffffff;", 0xffff_ffff),
        ("cvt.s64.s32 %rd0, -1;", u64::MAX),
        ("cvt.u64.s32 %rd0, -1;", u64::MAX),
        ("cvt.s64.u32 %rd0, -1;", 0xffff_ffff),
        ("cvt.u32.u64 %r0, 0x123456789;", 0x2345_6789),
        ("cvt.u16.u32 %rs0, 0x12345;", 0x2345),
        ("cvt.u32.u16 %r0, 0xffff;", 0xffff),
        ("cvt.s32.s16 %r0, 0xffff;", 0xffff_ffff),
        ("mov.b32 %r1, 0x1ff; cvt.u32.u8 %r0, %r1;", 0xff),
        ("mov.b32 %r1, 0x180; cvt.s32.s8 %r0, %r1;", 0xffff_ff80),
        ("mov.b32 %r1, 0x180; cvt.u32.s8 %r0, %r1;", 0xffff_ff80),
        ("mov.b32 %r1, 0x180; cvt.s8.s32 %r0, %r1;", 0xffff_ff80),
        ("mov.b32 %r1, 0x180; cvt.u8.u32 %r0, %r1;", 0x80),
        ("mov.b32 %r1, 0x180; cvt.s8.u32 %rs0, %r1;", 0xff80),
        ("mov.b32 %r1, 0x180; cvt.u16.u8 %rs0, %r1;", 0x80),
        ("mov.b32 %r1, 0x8000; cvt.s16.u32 %r0, %r1;", 0xffff_8000),
        ("cvt.sat.u8.s32 %r0, -5;", 0),
        ("cvt.sat.u8.s32 %r0, 300;", 255),
        ("cvt.sat.s8.s32 %r0, 300;", 127),
        ("cvt.sat.s8.s32 %r0, -300;", 0xffff_ff80),
        ("cvt.sat.s16.s32 %r0, 0x7fffffff;", 0x7fff),
        ("cvt.sat.u32.s64 %r0, -1;", 0),
        ("cvt.sat.u32.s64 %r0, 0x100000000;", 0xffff_ffff),
        ("cvt.sat.s32.u32 %r0, 0xffffffff;", 0x7fff_ffff),
        ("cvt.sat.s64.u64 %rd0, 0xffffffffffffffff;", i64::MAX as u64),
        ("cvt.sat.u64.s64 %rd0, -1;", 0),
    ]);
}

#[test]
fn comparisons() {
    check_all(&[
        ("setp.eq.b16 %p0, 5, 5;", 1),
        ("setp.ne.b64 %p0, 5, 5;", 0),
        ("setp.eq.s32 %p0, -1, 0xffffffff;", 1),
        ("setp.ne.u32 %p0, 1, 2;", 1),
        ("setp.lt.s32 %p0, -1, 1;", 1),
        ("setp.lt.u32 %p0, -1, 1;", 0),
        ("setp.le.s32 %p0, 1, 1;", 1),
        ("setp.gt.s32 %p0, 1, -1;", 1),
        ("setp.gt.u64 %p0, 1, -1;", 0),
        ("setp.ge.s64 %p0, -1, 1;", 0),
        ("setp.ge.u16 %p0, 0x8000, 0x7fff;", 1),
        ("setp.ge.s16 %p0, 0x8000, 0x7fff;", 0),
        ("setp.lo.u32 %p0, 1, 2;", 1),
        ("setp.ls.u32 %p0, 2, 2;", 1),
        ("setp.hi.u32 %p0, 2, 2;", 0),
        ("setp.hs.u64 %p0, 2, 2;", 1),
        ("setp.eq.u32 %p1, 1, 2; setp.eq.and.u32 %p0, 1, 1, %p1;", 0),
        ("setp.eq.u32 %p1, 1, 2; setp.eq.and.u32 %p0, 1, 1, !%p1;", 1),
        ("setp.eq.u32 %p1, 1, 1; setp.eq.or.u32 %p0, 1, 2, %p1;", 1),
        ("setp.eq.u32 %p1, 1, 1; setp.eq.xor.u32 %p0, 1, 1, %p1;", 0),
        ("setp.lt.u32 %p1|%p0, 1, 2;", 0),
        ("setp.lt.u32 %p1|%p0, 2, 1;", 1),
        (
            "setp.eq.u32 %p2, 1, 1; setp.lt.and.u32 %p1|%p0, 2, 1, %p2;",
            1,
        ),
        (
            "setp.eq.u32 %p2, 1, 2; setp.lt.and.u32 %p1|%p0, 2, 1, %p2;",
            0,
        ),
        ("setp.eq.u32 %p1, 1, 1; not.pred %p0, %p1;", 0),
        (
            "setp.eq.u32 %p1, 1, 1; mov.pred %p2, 0; or.pred %p0, %p1, %p2;",
            1,
        ),
        (
            "mov.pred %p1, -1; mov.pred %p2, 0; and.pred %p0, %p1, %p2;",
            0,
        ),
        (
            "mov.pred %p1, -1; mov.pred %p2, 0; xor.pred %p0, %p1, %p2;",
            1,
        ),
        ("setp.eq.u32 %p1, 1, 1; selp.b16 %rs0, 7, 8, %p1;", 7),
        ("setp.eq.u32 %p1, 1, 2; selp.b32 %r0, 7, 8, %p1;", 8),
        (
            "setp.eq.u32 %p1, 1, 2; selp.b64 %rd0, 7, -1, %p1;",
            u64::MAX,
        ),
        (
            "mov.b32 %r0, 1; setp.eq.u32 %p1, 1, 2; @%p1 mov.b32 %r0, 2;",
            1,
        ),
        (
            "mov.b32 %r0, 1; setp.eq.u32 %p1, 1, 2; @!%p1 mov.b32 %r0, 2;",
            2,
        ),
    ]);
}

#[test]
fn moves() {
    check_all(&[
        ("mov.b16 %rs0, -1;", 0xffff),
        ("mov.b64 %rd0, -1;", u64::MAX),
        ("mov.b32 %r0, {0x1234, 0x5678};", 0x5678_1234),
        ("mov.b64 %rd0, {1, 2};", 0x2_0000_0001),
        ("mov.b64 %rd0, {1, 2, 3, 4};", 0x4_0003_0002_0001),
        ("mov.b64 {%r1, %r0}, 0x200000001; mov.b32 %r0, %r0;", 2),
        ("mov.b64 {_, %r0}, 0x300000001;", 3),
        ("mov.b32 {%rs0, %rs1}, 0x56781234;", 0x1234),
        ("mov.u32 %r0, %ntid.x;", 32),
        ("mov.u32 %r0, %nctaid.x;", 1),
        ("mov.u32 %r0, %ctaid.x;", 0),
        ("mov.u32 %r0, %tid.y;", 0),
        ("mov.u32 %r0, %ntid.z;", 1),
        ("mov.u32 %r0, %warpid;", 0),
        ("mov.u32 %r0, WARP_SZ;", 32),
        (
            "mov.b32 %r1, 3; { .reg .b32 %r<4>; mov.b32 %r1, 9; } mov.b32 %r0, %r1;",
            3,
        ),
    ]);
}

#[test]
fn memory_of_the_lane() {
    check_all(&[
        (
            ".local .align 8 .b8 depot[16]; mov.b64 %rd1, depot; \
             st.local.b64 [%rd1], 0; st.local.b32 [%rd1+4], 0x89abcdef; ld.local.b64 %rd0, [%rd1];",
            0x89ab_cdef_0000_0000,
        ),
        (
            ".local .align 8 .b8 depot[16]; mov.b64 %rd1, depot; cvta.local.u64 %rd2, %rd1; \
             st.b8 [%rd2+9], 0x85; ld.local.s8 %r0, [%rd1+9];",
            0xffff_ff85,
        ),
        (
            ".local .align 8 .b8 depot[16]; mov.b64 %rd1, depot; \
             st.local.v2.b32 [%rd1], {1, 2}; ld.local.v2.b32 {%r1, %r0}, [%rd1]; \
             mov.b32 %r0, %r0;",
            2,
        ),
        (
            ".local .align 8 .b8 depot[16]; cvta.local.u64 %rd1, depot; \
             cvta.to.local.u64 %rd2, %rd1; st.local.b16 [%rd2], 0xbeef; ld.u8 %rs0, [%rd1+1];",
            0xbe,
        ),
        (
            ".local .align 8 .b8 depot[16]; cvta.local.u64 %rd1, depot; isspacep.local %p0, %rd1;",
            1,
        ),
        ("isspacep.global %p0, %rd31;", 1),
        ("isspacep.shared %p0, %rd31;", 0),
    ]);
}

#[test]
fn instructions_that_are_not_known_are_named_with_their_line() {
    let check = |line: &str, expected: &str| {
        let text = format!(
            "{}.entry k()\n{{\n.reg .b32 %r<4>;\n{line}\nret;\n}}\n",
            super::HEAD
        );
        let error = crate::Module::parse(&text).expect_err(line).to_string();
        assert_eq!(error, format!("line 7 of the PTX: {expected}"));
    };
    check("frob.b32 %r0, %r1;", "unknown instruction `frob.b32`");
    check("add.f32 %r0, %r1, %r2;", "unknown instruction `add.f32`");
    check("add.b32 %r0, %r1, %r2;", "unknown instruction `add.b32`");
    check(
        "ld.global.foo.b32 %r0, [%r1];",
        "unknown instruction `ld.global.foo.b32`",
    );
    check("add.s32 %r0, %r1;", "`add.s32`: 2 operands, expected 3");
    check(
        "add.s64 %r0, %r1, %r2;",
        "`add.s64`: `%r0` has 32 bits, the operand 64",
    );
    check("add.s32 %r0, %r9, 1;", "`%r9` is not declared");
    check("bra NOWHERE;", "`NOWHERE` is not declared");
    check(
        "bar.sync 1;",
        "`bar.sync`: barrier 1: a block has barrier 0 only",
    );
    check(".reg .f32 %f<2>;", "unknown directive `.reg .f32`");
    // What other kernels use and ours do not.
    for name in [
        "mapa.shared::cluster.u32",
        "mbarrier.init.shared.b64",
        "cp.async.ca.shared.global",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16",
        "dp4a.u32.u32",
        "vset2.u32.u32.eq",
    ] {
        let expected = format!("unknown instruction `{name}`");
        check(&format!("{name} %r0, %r1, 0;"), &expected);
    }
}
