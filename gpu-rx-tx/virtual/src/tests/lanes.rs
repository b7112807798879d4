//! Instructions that lanes execute together, with whole and partial masks.

use super::Bench;

/// Lanes of `there` run `text`, which finds its lane's number in `%r31` and `there` in `%r29`;
/// their results, of `%r0` and `%p0`, are what `expected` says.
fn check(text: &str, there: u32, expected: impl Fn(u32) -> (u64, bool)) {
    let bench = Bench::body(&format!(
        "mov.b32 %r29, {there}; shr.u32 %r28, %r29, %r31; and.b32 %r28, %r28, 1;\n\
         setp.eq.u32 %p31, %r28, 0; @%p31 bra END;\n\
         mov.b32 %r0, 0; mov.pred %p0, 0;\n{text}\n\
         cvt.u64.u32 %rd29, %r0; selp.b64 %rd28, 1, 0, %p0;\n\
         mul.wide.u32 %rd30, %r31, 16; add.u64 %rd30, %rd30, %rd31;\n\
         st.global.v2.b64 [%rd30], {{%rd29, %rd28}};\nEND:"
    ));
    let outcome = bench
        .run()
        .unwrap_or_else(|fault| panic!("`{text}`: {fault}"));
    for (lane, pair) in (0..32).zip(outcome.words.chunks_exact(2)) {
        let (value, flag) = match there >> lane & 1 {
            1 => expected(lane),
            _ => (0, false),
        };
        assert_eq!(
            pair,
            [value, u64::from(flag)],
            "`{text}` by {there:#x}, lane {lane}"
        );
    }
}

/// Whole, low half, every other one, one alone, all but one.
const MASKS: [u32; 5] = [u32::MAX, 0xffff, 0x5555_5555, 1 << 7, 0xffff_fffe];

#[test]
fn votes_are_over_the_lanes_of_the_mask() {
    // Lanes 3 and up vote yes.
    let yes = |there: u32| 0xffff_fff8 & there;
    let vote = |what: &str| format!("setp.gt.u32 %p1, %r31, 2; vote.sync.{what}, %p1, %r29;");
    for there in MASKS {
        check(&vote("ballot.b32 %r0"), there, |_| {
            (u64::from(yes(there)), false)
        });
        check(&vote("all.pred %p0"), there, |_| (0, yes(there) == there));
        check(&vote("any.pred %p0"), there, |_| (0, yes(there) != 0));
        let uniform = yes(there) == there || yes(there) == 0;
        check(&vote("uni.pred %p0"), there, |_| (0, uniform));
        let not = "setp.gt.u32 %p1, %r31, 2; vote.sync.ballot.b32 %r0, !%p1, %r29;";
        check(not, there, |_| (u64::from(there & !yes(there)), false));
        check("vote.sync.all.pred %p0, 1, %r29;", there, |_| (0, true));
    }
    check("vote.sync.ballot.b32 %r0, 1, -1;", u32::MAX, |_| {
        (0xffff_ffff, false)
    });
}

#[test]
fn shuffles_take_from_the_lane_that_the_manual_says() {
    let shuffle = |mode: &str, by: &str, clamp: &str| {
        format!(
            "add.u32 %r1, %r31, 100; mov.b32 %r2, {by};\n\
             shfl.sync.{mode}.b32 %r0|%p0, %r1, %r2, {clamp}, %r29;"
        )
    };
    let from = |lane: u32, inside: bool| (100 + u64::from(lane), inside);
    let all = u32::MAX;
    check(&shuffle("idx", "5", "31"), all, |_| from(5, true));
    check(&shuffle("idx", "%r31", "31"), all, |lane| from(lane, true));
    // Of the amount the low five bits count.
    check(&shuffle("idx", "33", "31"), all, |_| from(1, true));
    // Beyond the clamp a lane keeps its own.
    check(&shuffle("idx", "9", "7"), all, |lane| from(lane, false));
    // Segments of eight: the segment mask is 24.
    check(&shuffle("idx", "3", "0x181f"), all, |lane| {
        from(lane / 8 * 8 + 3, true)
    });
    check(&shuffle("up", "1", "0"), all, |lane| match lane {
        0 => from(0, false),
        _ => from(lane - 1, true),
    });
    check(&shuffle("up", "4", "0x1800"), all, |lane| match lane % 8 {
        0..4 => from(lane, false),
        _ => from(lane - 4, true),
    });
    check(&shuffle("down", "1", "31"), all, |lane| match lane {
        31 => from(31, false),
        _ => from(lane + 1, true),
    });
    check(&shuffle("down", "2", "0x181f"), all, |lane| {
        match lane % 8 {
            6.. => from(lane, false),
            _ => from(lane + 2, true),
        }
    });
    check(&shuffle("bfly", "1", "31"), all, |lane| {
        from(lane ^ 1, true)
    });
    check(&shuffle("bfly", "16", "31"), all, |lane| {
        from(lane ^ 16, true)
    });
    check(&shuffle("bfly", "16", "15"), all, |lane| match lane {
        16.. => from(lane ^ 16, true),
        _ => from(lane, false),
    });
    check(&shuffle("bfly", "8", "0x181f"), all, |lane| {
        match lane & 8 {
            0 => from(lane, false),
            _ => from(lane ^ 8, true),
        }
    });
    check(&shuffle("bfly", "2", "31"), 0xffff, |lane| {
        from(lane ^ 2, true)
    });
    check(&shuffle("up", "2", "0"), 0x5555_5555, |lane| match lane {
        0 => from(0, false),
        _ => from(lane - 2, true),
    });
    check(&shuffle("idx", "7", "31"), 1 << 7, |_| from(7, true));
}

#[test]
fn what_comes_from_a_lane_that_is_not_there_can_not_be_relied_on() {
    let values: Vec<u64> = (0..4)
        .map(|seed| {
            let mut bench = Bench::body(
                "setp.gt.u32 %p1, %r31, 15; @%p1 bra END;\n\
                 shfl.sync.down.b32 %r0, %r31, 1, 31, 0xffff;\n\
                 cvt.u64.u32 %rd29, %r0; mul.wide.u32 %rd30, %r31, 8;\n\
                 add.u64 %rd30, %rd30, %rd31; st.global.b64 [%rd30], %rd29;\nEND:",
            );
            bench.seed = seed;
            let words = bench.run().expect("runs").words;
            for (lane, &word) in words.iter().take(15).enumerate() {
                assert_eq!(word, lane as u64 + 1);
            }
            words[15]
        })
        .collect();
    assert!(
        values.windows(2).any(|pair| pair[0] != pair[1]),
        "{values:?}"
    );
}

#[test]
fn reductions_and_matches() {
    let signed = "sub.s32 %r1, %r31, 4;";
    for there in MASKS {
        let members = || (0..32u32).filter(move |lane| there >> lane & 1 == 1);
        let value = |lane: u32| lane as i32 - 4;
        let reduce = |what: &str| format!("{signed} redux.sync.{what} %r0, %r1, %r29;");
        let sum: i32 = members().map(value).sum();
        check(&reduce("add.s32"), there, |_| {
            (u64::from(sum as u32), false)
        });
        let least = members().map(value).min().unwrap_or(0);
        check(&reduce("min.s32"), there, |_| {
            (u64::from(least as u32), false)
        });
        let most = members().map(|lane| value(lane) as u32).max().unwrap_or(0);
        check(&reduce("max.u32"), there, |_| (u64::from(most), false));
        let fold = |f: fn(u32, u32) -> u32| members().reduce(f).unwrap_or(0);
        let bits = |what: &str| format!("redux.sync.{what}.b32 %r0, %r31, %r29;");
        let (and, or) = (fold(|a, b| a & b), fold(|a, b| a | b));
        check(&bits("and"), there, |_| (u64::from(and), false));
        check(&bits("or"), there, |_| (u64::from(or), false));
        let xor = fold(|a, b| a ^ b);
        check(&bits("xor"), there, |_| (u64::from(xor), false));
        let thirds = "rem.u32 %r1, %r31, 3; match.any.sync.b32 %r0, %r1, %r29;";
        check(thirds, there, |lane| {
            let equal = members().filter(|other| other % 3 == lane % 3);
            (equal.fold(0, |mask, other| mask | 1 << other), false)
        });
        let all = "mov.b64 %rd1, 7; match.all.sync.b64 %r0|%p0, %rd1, %r29;";
        check(all, there, |_| (u64::from(there), true));
        let elect = "elect.sync %r0|%p0, %r29;";
        let leader = there.trailing_zeros();
        check(elect, there, |lane| (u64::from(leader), lane == leader));
        check("activemask.b32 %r0;", there, |_| (u64::from(there), false));
    }
    let differ = "cvt.u64.u32 %rd1, %r31; match.all.sync.b64 %r0|%p0, %rd1, %r29;";
    check(differ, 3, |_| (0, false));
}

#[test]
fn lanes_know_where_they_are() {
    check("mov.u32 %r0, %laneid;", u32::MAX, |lane| {
        (u64::from(lane), false)
    });
    let mask = |name: &str| format!("mov.u32 %r0, %lanemask_{name};");
    let below = |lane: u32| (1u64 << lane) - 1;
    let whole = u64::from(u32::MAX);
    check(&mask("eq"), u32::MAX, |lane| (1 << lane, false));
    check(&mask("lt"), u32::MAX, |lane| (below(lane), false));
    check(&mask("le"), u32::MAX, |lane| (below(lane + 1), false));
    check(&mask("ge"), u32::MAX, |lane| (whole & !below(lane), false));
    check(&mask("gt"), u32::MAX, |lane| {
        (whole & !below(lane + 1), false)
    });
}
