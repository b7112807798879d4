//! Warps: lanes that part and meet, exit early, call, and come to barriers.

use super::{Bench, HEAD};

/// Each lane's word, written to by `st.global.b64 [%rd30], %rd29` at the label END.
fn body(text: &str) -> Bench {
    Bench::body(&format!(
        "mul.wide.u32 %rd30, %r31, 8; add.u64 %rd30, %rd30, %rd31; mov.b64 %rd29, 0;\n\
         {text}\nEND: st.global.b64 [%rd30], %rd29;"
    ))
}

/// Under many seeds, each lane's word is what `expected` says.
fn check(bench: Bench, expected: impl Fn(u64) -> u64) {
    let mut bench = bench;
    for seed in 0..64 {
        bench.seed = seed;
        let outcome = bench
            .run()
            .unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        let threads = bench.warps as usize * 32;
        for (thread, &word) in (0..).zip(outcome.words.iter().take(threads)) {
            assert_eq!(word, expected(thread), "seed {seed} thread {thread}");
        }
    }
}

#[test]
fn lanes_part_within_a_loop_and_meet_behind_it() {
    // Lane n goes round n times, even rounds one way and odd rounds another; then all vote.
    let bench = body(
        "mov.b32 %r1, 0;\n\
         LOOP: setp.ge.u32 %p1, %r1, %r31; @%p1 bra OUT;\n\
         and.b32 %r2, %r1, 1; setp.eq.u32 %p2, %r2, 0; @%p2 bra EVEN;\n\
         add.u64 %rd29, %rd29, 100; bra.uni NEXT;\n\
         EVEN: add.u64 %rd29, %rd29, 1;\n\
         NEXT: add.u32 %r1, %r1, 1; bra.uni LOOP;\n\
         OUT: vote.sync.ballot.b32 %r3, 1, -1; setp.ne.u32 %p3, %r3, -1;\n\
         @%p3 mov.b64 %rd29, 0;",
    );
    check(bench, |lane| lane.div_ceil(2) + lane / 2 * 100);
}

#[test]
fn lanes_that_exit_early_are_not_waited_for() {
    // In round n lane n exits; the others vote every round.
    let bench = body(
        "mov.b32 %r1, 0;\n\
         LOOP: setp.ne.u32 %p1, %r1, %r31; @%p1 bra STAY;\n\
         st.global.b64 [%rd30], %rd29; exit;\n\
         STAY: vote.sync.ballot.b32 %r2, 1, -1; popc.b32 %r3, %r2; cvt.u64.u32 %rd1, %r3;\n\
         add.u64 %rd29, %rd29, %rd1; add.u32 %r1, %r1, 1; bra.uni LOOP;",
    );
    check(bench, |lane| (0..lane).map(|round| 31 - round).sum());
}

#[test]
fn a_shuffle_does_not_wait_for_lanes_that_exited() {
    // Odd lanes exit; the others take from the next even lane, by a mask that names all.
    let bench = body(
        "and.b32 %r1, %r31, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra STAY;\n\
         st.global.b64 [%rd30], 77; exit;\n\
         STAY: add.u32 %r2, %r31, 100; shfl.sync.down.b32 %r3|%p2, %r2, 2, 31, -1;\n\
         cvt.u64.u32 %rd29, %r3; @%p2 bra END; mov.b64 %rd29, 5;",
    );
    check(bench, |lane| match lane {
        30 => 5,
        lane if lane % 2 == 1 => 77,
        lane => lane + 102,
    });
}

#[test]
fn branches_within_branches_meet_level_by_level() {
    let bench = body(
        "and.b32 %r1, %r31, 1; setp.ne.u32 %p1, %r1, 0; and.b32 %r2, %r31, 2;\n\
         setp.ne.u32 %p2, %r2, 0;\n\
         @%p1 bra ODD;\n\
         @%p2 bra EVENTWO; mov.b64 %rd29, 10; bra.uni EVEN;\n\
         EVENTWO: mov.b64 %rd29, 20;\n\
         EVEN: vote.sync.ballot.b32 %r3, 1, 0x55555555; bra.uni MEET;\n\
         ODD: @%p2 bra ODDTWO; mov.b64 %rd29, 30; bra.uni ODDMEET;\n\
         ODDTWO: mov.b64 %rd29, 40;\n\
         ODDMEET: vote.sync.ballot.b32 %r3, 1, 0xaaaaaaaa;\n\
         MEET: shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1; cvt.u64.u32 %rd1, %r4;\n\
         shl.b64 %rd1, %rd1, 8; add.u64 %rd29, %rd29, %rd1;",
    );
    check(bench, |lane| match lane % 4 {
        0 => 10 + (0xaaaa_aaaa << 8),
        1 => 30 + (0x5555_5555 << 8),
        2 => 20 + (0xaaaa_aaaa << 8),
        _ => 40 + (0x5555_5555 << 8),
    });
}

#[test]
fn tables_of_labels_send_each_lane_its_way() {
    let bench = body(
        "and.b32 %r1, %r31, 3;\n\
         T: .branchtargets A, B, C, A;\n\
         brx.idx %r1, T;\n\
         A: mov.b64 %rd29, 1; bra.uni END;\n\
         B: mov.b64 %rd29, 2; bra.uni END;\n\
         C: mov.b64 %rd29, 3;",
    );
    check(bench, |lane| [1, 2, 3, 1][lane as usize % 4]);
}

#[test]
fn calls_recurse_under_divergence() {
    // factorial(lane % 7), with a local variable in each frame.
    let text = format!(
        "{HEAD}\
.func (.param .b64 out) factorial(.param .b64 n);
.func (.param .b64 out) factorial(.param .b64 n)
{{
    .local .align 8 .b8 depot[16];
    .reg .pred %p<2>; .reg .b64 %rd<8>;
    ld.param.b64 %rd1, [n];
    mov.b64 %rd2, depot;
    st.local.b64 [%rd2+8], %rd1;
    setp.eq.u64 %p1, %rd1, 0;
    @%p1 bra ZERO;
    add.s64 %rd3, %rd1, -1;
    {{
        .param .b64 in; .param .b64 back;
        st.param.b64 [in], %rd3;
        call.uni (back), factorial, (in);
        ld.param.b64 %rd4, [back];
    }}
    ld.local.b64 %rd5, [%rd2+8];
    mul.lo.s64 %rd6, %rd4, %rd5;
    st.param.b64 [out], %rd6;
    ret;
ZERO:
    st.param.b64 [out], 1;
    ret;
}}
.visible .entry k(.param .u64 memory)
{{
    .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [memory];
    mov.u32 %r1, %tid.x;
    rem.u32 %r2, %r1, 7;
    cvt.u64.u32 %rd2, %r2;
    setp.eq.u32 %p1, %r2, 3;
    mov.b64 %rd3, 99;
    @%p1 bra SKIP;
    {{
        .param .b64 in; .param .b64 back;
        st.param.b64 [in], %rd2;
        call.uni (back), factorial, (in);
        ld.param.b64 %rd3, [back];
    }}
SKIP:
    bar.warp.sync -1;
    mul.wide.u32 %rd4, %r1, 8;
    add.u64 %rd4, %rd4, %rd1;
    st.global.b64 [%rd4], %rd3;
    ret;
}}
"
    );
    check(Bench::new(&text), |lane| match lane % 7 {
        3 => 99,
        n => (1..=n).product(),
    });
}

#[test]
fn byte_arrays_go_through_parameters() {
    let text = format!(
        "{HEAD}\
.func (.param .align 16 .b8 out[12]) swap(.param .align 8 .b8 in[12])
{{
    .reg .b32 %r<4>;
    ld.param.v2.b32 {{%r1, %r2}}, [in];
    ld.param.b32 %r3, [in+8];
    st.param.v2.b32 [out], {{%r3, %r2}};
    st.param.b32 [out+8], %r1;
    ret;
}}
.visible .entry k(.param .u64 memory)
{{
    .reg .b32 %r<8>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [memory];
    mov.u32 %r1, %tid.x;
    {{
        .param .align 8 .b8 in[12]; .param .align 16 .b8 back[12];
        st.param.b32 [in], %r1;
        st.param.b32 [in+4], 5;
        st.param.b32 [in+8], 6;
        call (back), swap, (in);
        ld.param.b32 %r2, [back];
        ld.param.b32 %r3, [back+8];
    }}
    mov.b64 %rd2, {{%r2, %r3}};
    mul.wide.u32 %rd4, %r1, 8;
    add.u64 %rd4, %rd4, %rd1;
    st.global.b64 [%rd4], %rd2;
    ret;
}}
"
    );
    check(Bench::new(&text), |lane| lane << 32 | 6);
}

#[test]
fn a_lane_may_wait_for_another_of_its_warp() {
    // Lanes 1 and up spin on a word that lane 0 writes behind the loop, at a higher address.
    let bench = body(
        "setp.eq.u32 %p1, %r31, 0; @%p1 bra FIRST;\n\
         SPIN: ld.acquire.gpu.global.b64 %rd29, [%rd31+4096]; setp.eq.u64 %p2, %rd29, 0;\n\
         @%p2 bra SPIN; bra.uni END;\n\
         FIRST: mov.b64 %rd29, 7; st.release.gpu.global.b64 [%rd31+4096], %rd29;",
    );
    check(bench, |_| 7);
}

#[test]
fn atomics_of_lanes_add_up() {
    for (operation, expected) in [
        (
            "atom.add.relaxed.gpu.global.u64 %rd29, [%rd31+4096], 2;",
            64u64,
        ),
        (
            "atom.global.add.u32 %r1, [%rd31+4096], 2; cvt.u64.u32 %rd29, %r1;",
            64,
        ),
        ("red.relaxed.gpu.global.add.u64 [%rd31+4096], 3;", 96),
        ("atom.max.relaxed.sys.s32 %r1, [%rd31+4096], %r31;", 31),
        ("atom.inc.u32 %r1, [%rd31+4096], 9;", 2),
        (
            "atom.or.acq_rel.gpu.b32 %r1, [%rd31+4096], %lanemask_eq;",
            0xffff_ffff,
        ),
        ("atom.exch.relaxed.gpu.b64 %rd1, [%rd31+4096], 5;", 5),
        ("atom.cas.acq_rel.gpu.b64 %rd1, [%rd31+4096], 0, 8;", 8),
        ("atom.acq_rel.gpu.cas.b64 %rd1, [%rd31+4096], 1, 8;", 0),
    ] {
        let bench = body(operation);
        let outcome = bench
            .run()
            .unwrap_or_else(|fault| panic!("{operation}: {fault}"));
        assert_eq!(outcome.words[512], expected, "{operation}");
    }
}

#[test]
fn the_block_meets_and_shares_its_memory() {
    // Each warp writes its words, the block meets, each reads those of the next warp.
    let text = format!(
        "{HEAD}.shared .align 8 .b8 room[1024];\n.visible .entry k(.param .u64 memory)\n{{\n\
         .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;\n\
         ld.param.u64 %rd1, [memory]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x;\n\
         mov.b64 %rd2, room; mul.wide.u32 %rd3, %r1, 8; add.u64 %rd4, %rd2, %rd3;\n\
         cvt.u64.u32 %rd5, %r1; st.shared.b64 [%rd4], %rd5; bar.sync 0;\n\
         add.u32 %r3, %r1, 32; rem.u32 %r3, %r3, %r2; mul.wide.u32 %rd4, %r3, 8;\n\
         cvta.shared.u64 %rd2, %rd2; add.u64 %rd4, %rd4, %rd2; ld.b64 %rd6, [%rd4];\n\
         add.u64 %rd3, %rd3, %rd1; st.global.b64 [%rd3], %rd6; ret;\n}}\n"
    );
    let mut bench = Bench::new(&text);
    bench.warps = 4;
    check(bench, |thread| (thread + 32) % 128);
}

#[test]
fn a_barrier_does_not_wait_for_warps_that_exited() {
    // Warp 1 exits at once; the other two meet twice.
    let mut bench = body(
        "setp.lt.u32 %p1, %r31, 32; setp.ge.u32 %p2, %r31, 64; or.pred %p3, %p1, %p2;\n\
         @%p3 bra STAY; exit;\n\
         STAY: bar.sync 0; barrier.sync.aligned 0, 96; mov.b64 %rd29, 1;",
    );
    bench.warps = 3;
    check(bench, |thread| u64::from(thread / 32 != 1));
}

#[test]
fn an_unaligned_barrier_takes_lanes_that_parted() {
    let mut bench = body(
        "setp.lt.u32 %p1, %r31, 40; @%p1 bra A; barrier.sync 0; mov.b64 %rd29, 1; bra.uni END;\n\
         A: barrier.sync 0; mov.b64 %rd29, 2;",
    );
    bench.warps = 2;
    check(bench, |thread| 1 + u64::from(thread < 40));
}

#[test]
fn sleeping_lanes_let_their_warp_and_time_go_on() {
    let bench = body(
        "mov.u64 %rd1, %globaltimer;\n\
         WAIT: nanosleep.u32 32; mov.u64 %rd2, %globaltimer; sub.u64 %rd3, %rd2, %rd1;\n\
         setp.lt.u64 %p1, %rd3, 5000; @%p1 bra WAIT; mov.b64 %rd29, 1;",
    );
    let outcome = bench.run().expect("runs");
    assert_eq!(&outcome.words[..32], [1; 32]);
    assert!(
        outcome.turns >= 40,
        "a pause ends a turn: {}",
        outcome.turns
    );
}

#[test]
fn tables_of_the_module_are_read_and_written() {
    let text = format!(
        "{HEAD}.global .align 8 .b8 zeros[24] = {{}};\n\
         .global .align 4 .b8 bytes[8] = {{1, 2, 3, 4, 255}};\n\
         .global .align 8 .u64 names[2] = {{bytes, generic(bytes)+4}};\n\
         .const .align 4 .u32 fixed = 77;\n.global .align 8 .b64 room;\n\
         .global .align 8 .b8 packed[8] = {{0xFF(bytes), 0xFF00(bytes), 0xFF0000(bytes), \
         0xFF000000(bytes), 0xFF00000000(bytes), 0xFF0000000000(bytes), \
         0xFF000000000000(bytes), 0xFF00000000000000(bytes)}};\n\
         .visible .entry k(.param .u64 memory)\n{{\n\
         .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<12>;\n\
         ld.param.u64 %rd1, [memory]; mov.u32 %r1, %tid.x;\n\
         ld.global.nc.b32 %r2, [bytes]; ld.global.u64 %rd2, [names+8]; ld.u8 %r3, [%rd2];\n\
         ld.const.u32 %r4, [fixed]; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4;\n\
         atom.global.add.u64 %rd3, [room], 1; bar.warp.sync -1; ld.global.u64 %rd3, [room];\n\
         ld.global.u64 %rd6, [packed]; ld.u8 %r5, [%rd6+1]; add.u32 %r2, %r2, %r5;\n\
         ld.global.u32 %r5, [zeros+20]; add.u32 %r2, %r2, %r5;\n\
         cvt.u64.u32 %rd4, %r2; shl.b64 %rd3, %rd3, 32; or.b64 %rd4, %rd4, %rd3;\n\
         mul.wide.u32 %rd5, %r1, 8; add.u64 %rd5, %rd5, %rd1; st.global.b64 [%rd5], %rd4;\n\
         ret;\n}}\n"
    );
    check(Bench::new(&text), |_| {
        32 << 32 | (0x0403_0201 + 255 + 77 + 2)
    });
}

#[test]
fn what_was_done_is_counted() {
    let bench = body("setp.lt.u32 %p1, %r31, 8; @%p1 mov.b64 %rd29, 5; fence.acq_rel.gpu;");
    let counts = bench.run().expect("runs").counts;
    use crate::{Class, Direction, Space};
    let class = |class| counts.classes.get(&class).copied().unwrap_or_default();
    assert_eq!(
        (class(Class::Fence).warps, class(Class::Fence).lanes),
        (1, 32)
    );
    assert_eq!(
        (class(Class::Store).warps, class(Class::Store).lanes),
        (1, 32)
    );
    // The thread's number, the zero, and the one under the predicate.
    assert_eq!(
        (class(Class::Move).warps, class(Class::Move).lanes),
        (3, 32 + 32 + 8)
    );
    let stores = counts.traffic[&(Space::Global, Direction::Store)];
    assert_eq!(
        (stores.count.lanes, stores.bytes, stores.sectors),
        (32, 256, 8)
    );
    let by_line: u64 = counts.lines.values().map(|line| line.sectors).sum();
    assert_eq!(by_line, 8, "sectors are those of the one line that stores");
    let twice = counts.since(&Default::default());
    assert_eq!(twice, counts);
    let nothing = counts.since(&counts);
    assert_eq!(
        (nothing.total(), nothing.lines.len()),
        (Default::default(), 0)
    );
    let total = counts.total();
    let functions = counts.functions();
    assert_eq!(functions["k"], total);
    assert!(
        counts
            .lines
            .values()
            .any(|line| line.instruction == "fence.acq_rel.gpu")
    );
}
