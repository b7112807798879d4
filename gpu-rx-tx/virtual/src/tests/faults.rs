//! What lanes do wrong, and how it is told.

use super::{Bench, HEAD};

/// What the error says: all of `words`.
fn check(bench: &Bench, words: &[&str]) {
    let text = bench.fault();
    for word in words {
        assert!(text.contains(word), "`{text}` does not say `{word}`");
    }
}

fn body(text: &str, words: &[&str]) {
    check(&Bench::body(text), words);
}

#[test]
fn accesses_that_go_astray_are_named() {
    body(
        "ld.global.b32 %r0, [0];",
        &["null pointer: 4 bytes at 0x0", "lane 0"],
    );
    body(
        "ld.global.b32 %r0, [%rd31+8192];",
        &["out of bounds", "`ld.global.b32` in `k`, line 12"],
    );
    body(
        "ld.global.b64 %rd0, [%rd31+8190];",
        &["misaligned: 8 bytes"],
    );
    body(
        "ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%rd31+8];",
        &["misaligned: 16 bytes"],
    );
    body("ld.b32 %r0, [%rd31+-4];", &["out of bounds"]);
    body(
        "st.b64 [0x1234567890], %rd0;",
        &["out of bounds", "0x1234567890"],
    );
    body("ld.local.b32 %r0, [0x8000];", &["out of bounds", "Local"]);
    body("ld.shared.b32 %r0, [0];", &["out of bounds", "Shared"]);
    body("ld.b32 %r0, [0x5000000000000000];", &["out of bounds"]);
    body(
        ".local .align 8 .b8 depot[8]; cvta.local.u64 %rd1, depot; atom.add.u32 %r0, [%rd1], 1;",
        &["atomic operation", "local memory"],
    );
    // The one lane that is off.
    body(
        "mul.wide.u32 %rd1, %r31, 400; add.u64 %rd1, %rd1, %rd31; ld.global.b32 %r0, [%rd1];",
        &["lane 21", "out of bounds"],
    );
    let text = format!(
        "{HEAD}.const .align 4 .u32 fixed = 1;\n.entry k(.param .u64 m)\n{{\n.reg .b64 %rd<2>;\n\
         mov.u64 %rd1, fixed;\nst.u32 [%rd1], 3;\nret;\n}}"
    );
    check(&Bench::new(&text), &["read-only", "line 9"]);
}

#[test]
fn lanes_that_wait_for_each_other_for_ever_are_named() {
    body(
        "setp.lt.u32 %p1, %r31, 4; @%p1 bra A; bar.warp.sync -1; bra.uni B;\n\
         A: vote.sync.ballot.b32 %r0, 1, -1;\nB:",
        &[
            "wait for each other for ever",
            "lanes 4-31 waiting at `bar.warp.sync`",
            "for lanes 0-3",
            "lanes 0-3 waiting at `vote.sync.ballot.b32` in `k`, line 13, for lanes 4-31",
        ],
    );
    body(
        "setp.lt.u32 %p1, %r31, 4; @%p1 bra A; bar.warp.sync 0xfffffff0;\n\
         A: vote.sync.any.pred %p2, 1, 0xff;",
        &[
            "the mask of lanes 0x000000ff does not hold the lane itself",
            "lane 8",
        ],
    );
    body(
        "bar.warp.sync 0xfffffffe;",
        &["does not hold the lane itself", "lane 0"],
    );
}

#[test]
fn barriers_under_divergence_are_named() {
    body(
        "setp.lt.u32 %p1, %r31, 4; @%p1 bra A; bar.sync 0; bra.uni B;\nA: bar.sync 0;\nB:",
        &[
            "barrier under divergence",
            "lanes 4-31 waiting at `bar.sync` in `k`, line 12",
            "line 13",
        ],
    );
    body(
        "setp.lt.u32 %p1, %r31, 4; @%p1 bra A; bar.sync 0; bra.uni B;\n\
         A: bar.warp.sync -1;\nB:",
        &[
            "barrier under divergence",
            "lanes 0-3 waiting at `bar.warp.sync`",
        ],
    );
    body(
        "setp.lt.u32 %p1, %r31, 4; @%p1 bra A; barrier.sync 0; bra.uni B;\n\
         A: bar.warp.sync -1;\nB:",
        &[
            "barrier under divergence",
            "lanes 4-31 waiting at `barrier.sync`",
        ],
    );
    body(
        "setp.lt.u32 %p1, %r31, 4; @%p1 exit; bar.sync 0;",
        &["barrier under divergence", "lanes 0-3 exited"],
    );
    body(
        "bar.sync 0, 64;",
        &["barrier over 64 threads: the block has 32"],
    );
}

#[test]
fn other_ends_are_named() {
    body("trap;", &["trap"]);
    body(
        "T: .branchtargets A, A;\nbrx.idx %r31, T;\nA:",
        &["branch index 2: the table has 2 labels", "lane 2"],
    );
    let endless = format!(
        "{HEAD}.func f() {{ call f, (); ret; }}\n.entry k(.param .u64 m) {{ call f, (); ret; }}"
    );
    check(
        &Bench::new(&endless),
        &["call stack exceeds 256 calls", "`call` in `f`, line 4"],
    );
    let deep = format!(
        "{HEAD}.func f() {{ .local .b8 big[65536]; call f, (); ret; }}\n\
         .entry k(.param .u64 m) {{ call f, (); ret; }}"
    );
    check(
        &Bench::new(&deep),
        &["call stack exceeds 524288 bytes a lane"],
    );
    let open = format!("{HEAD}.entry k(.param .u64 m) {{ .reg .b32 %r; mov.b32 %r, 1; }}");
    check(&Bench::new(&open), &["ends without `ret`", "line 4"]);
}
