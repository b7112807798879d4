//! Wrong texts are errors, never panics, and so is running what is left of them.

use proptest::prelude::*;

use super::{Bench, HEAD};
use crate::Module;

const TEXT: &str = "\
.global .align 8 .b8 bytes[12] = {1, 2, 3, 0xFF(bytes), 0xFF00(bytes)};
.func (.param .align 8 .b8 out[8]) f(.param .b32 n)
{
    .local .align 8 .b8 depot[16];
    .reg .pred %p<3>; .reg .b16 %rs<3>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ld.param.b32 %r1, [n];
    mov.b64 %rd1, depot;
    st.local.v2.b32 [%rd1+8], {%r1, 7};
    setp.lt.and.u32 %p1|%p2, %r1, 5, !%p1;
    @%p1 bra $L__A;
    T: .branchtargets $L__A, $L__B;
    brx.idx 1, T;
$L__A:
    { .reg .b32 %t; mov.u32 %t, %laneid; add.cc.u32 %r2, %t, -1; addc.u32 %r3, 0, 0; }
$L__B:
    shfl.sync.bfly.b32 %r2|%p2, %r1, 0x1, 31, -1;
    prmt.b32 %r3, %r2, 0, 0x3210; bfi.b32 %r3, %r3, %r2, 4, 8;
    cvt.u16.u32 %rs1, %r3; cvt.s32.s16 %r3, %rs1;
    ld.local.b64 %rd2, [%rd1+8];
    st.param.b64 [out], %rd2;
    ret;
}
.visible .entry k(.param .u64 .ptr .align 1 memory)
.maxntid 64, 1, 1
{
    .reg .b32 %r<4>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [memory];
    mov.u32 %r1, %tid.x;
    { // callseq 0, 0
        .param .b32 param0;
        .param .align 8 .b8 retval0[8];
        st.param.b32 [param0], %r1;
        call.uni (retval0), f, (param0);
        ld.param.v2.b32 {%r2, %r3}, [retval0];
    }
    atom.add.relaxed.gpu.u64 %rd2, [%rd1+8], 1;
    fence.acq_rel.sys; bar.warp.sync -1; bar.sync 0;
    ret;
}
";

fn text() -> String {
    format!("{HEAD}{TEXT}")
}

#[test]
fn the_text_is_right_before_it_is_changed() {
    Bench::new(&text())
        .run()
        .unwrap_or_else(|fault| panic!("{fault}"));
}

/// Bytes taken from `from`, `length` of them put over those at `to`.
fn changed(from: usize, to: usize, length: usize) -> String {
    let mut bytes = text().into_bytes();
    let most = bytes.len() - length;
    let piece: Vec<u8> = bytes[from.min(most)..][..length].to_vec();
    bytes[to.min(most)..][..length].copy_from_slice(&piece);
    String::from_utf8(bytes).expect("is ASCII")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_makes_a_panic(from in 0..2000usize, to in 0..2000usize, length in 0..12usize) {
        let text = changed(from, to, length);
        if let Ok(module) = Module::parse(&text)
            && module.entries().count() == 1
        {
            let mut bench = Bench::new(&text);
            bench.most_turns = 8;
            // It may go astray, wait for ever or not end.
            let _ = bench.run();
        }
    }

    #[test]
    fn no_cut_makes_a_panic(from in 0..2000usize, length in 0..40usize) {
        let text = text();
        let (head, rest) = text.split_at(from.min(text.len()));
        let tail = rest.get(length..).unwrap_or_default();
        let _ = Module::parse(&format!("{head}{tail}"));
        let _ = Module::parse(head);
    }
}
