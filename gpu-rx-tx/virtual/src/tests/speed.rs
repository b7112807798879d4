//! How fast the interpreter is. Printed, not asserted: the machine may be busy. See it with
//! `--nocapture`.

use super::Bench;

/// Prints lane-instructions a second of a loop of `rounds` rounds with this body.
fn measure(what: &str, start: &str, body: &str, rounds: u32) {
    let bench = Bench::body(&format!(
        "mul.wide.u32 %rd30, %r31, 8; add.u64 %rd30, %rd30, %rd31; mov.b32 %r30, 0;\n{start}\n\
         LOOP: {body}\nadd.u32 %r30, %r30, 1; setp.lt.u32 %p30, %r30, {rounds};\n\
         @%p30 bra LOOP;\nEND:"
    ));
    let begin_ns = thread_time_ns();
    let outcome = bench
        .run()
        .unwrap_or_else(|fault| panic!("{what}: {fault}"));
    let spent_ns = (thread_time_ns() - begin_ns).max(1);
    let total = outcome.counts.total();
    println!(
        "{what}: {:.1} million lane-instructions a second, {:.1} ns an instruction of the warp",
        total.lanes as f64 * 1e3 / spent_ns as f64,
        spent_ns as f64 / total.warps as f64,
    );
    assert!(total.warps > u64::from(rounds), "{what} was run");
}

#[test]
fn instructions_are_measured() {
    let alu = "add.s32 %r1, %r1, %r31; xor.b32 %r2, %r1, %r30; shl.b32 %r3, %r2, 3; \
               mad.lo.s32 %r4, %r3, %r1, %r2; setp.lt.u32 %p1, %r4, %r3; \
               selp.b32 %r5, %r1, %r2, %p1;";
    let memory = "ld.global.b64 %rd1, [%rd30]; add.s64 %rd1, %rd1, 1; \
                  st.global.b64 [%rd30], %rd1;";
    let local = "st.local.b32 [%rd2+4], %r30; ld.local.b32 %r1, [%rd2+4];";
    let depot = ".local .align 8 .b8 depot[16]; mov.b64 %rd2, depot;";
    let parting = "and.b32 %r1, %r31, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra EVEN; \
                   add.s32 %r2, %r2, 1; bra.uni MEET; EVEN: sub.s32 %r2, %r2, 1; MEET:";
    let one = "setp.ne.u32 %p2, %r31, 7; @%p2 bra END;";
    let shuffle = "shfl.sync.bfly.b32 %r1, %r31, 1, 31, -1; vote.sync.ballot.b32 %r2, %p1, -1;";
    measure("arithmetic, 32 lanes", "", alu, 200_000);
    measure("arithmetic, one lane", one, alu, 200_000);
    measure("memory, 32 lanes", "", memory, 200_000);
    measure("memory, one lane", one, memory, 200_000);
    measure("local memory, 32 lanes", depot, local, 200_000);
    measure("lanes that part", "", parting, 100_000);
    measure("shuffle and vote", "", shuffle, 100_000);
}

/// Time that this thread ran, without what the rest of the machine took.
fn thread_time_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().unwrap_or_default();
    first.parse().unwrap_or(0)
}
