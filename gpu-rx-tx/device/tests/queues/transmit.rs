//! Transmit credits, claims and completions.

use std::ops::Range;

use warpwire_device::{Claim, Scalar, Sender};
use warpwire_ring::{Cause, DeviceAddress, Format, Post, Transmit};

use crate::desk::{Desk, frame};
use crate::each;
use crate::model::fill;
use crate::wires::{STARTS, Wire, counters, tx_cursor};

/// Sends frames of one part each, in one batch.
pub(crate) fn send<T: Transmit>(
    tx: &mut Sender<T>,
    simt: &Scalar<'_>,
    numbers: Range<u64>,
) -> Result<u32, Cause> {
    tx.reserve(simt, (numbers.end - numbers.start) as u32)?;
    for number in numbers {
        let claim = tx.claim(simt, 1).expect("reserved");
        fill(tx, &claim, &frame(number, 60), 60)?;
    }
    let slots = tx.publish(simt)?;
    tx.ring(simt);
    Ok(slots)
}

/// Takes and completes all that is there.
fn drain<W: Wire>(wire: &mut W) {
    while wire.take().is_some() {}
    while wire.complete() {}
}

mod check {
    use super::*;

    /// Exactly full, one more, and a consumer that is slower than we are.
    pub(crate) fn a_full_queue_is_no_resource<W: Wire>() {
        for start in STARTS {
            let mut wire = W::new(8, start);
            let desk = Desk::new();
            let simt = Scalar::new(&desk);
            let mut tx = wire.sender();
            assert_eq!(tx.reserve(&simt, 9), Err(Cause::NoResource), "depth + 1");
            assert_eq!(send(&mut tx, &simt, 0..8), Ok(8), "depth");
            assert_eq!(tx.in_flight(), 8);
            for _ in 0..3 {
                assert_eq!(tx.credits(&simt, 1), Ok(0));
                assert_eq!(tx.reserve(&simt, 1), Err(Cause::NoResource));
                assert_eq!(tx.claim(&simt, 1), None);
                assert_eq!(tx.publish(&simt), Ok(0));
            }
            assert_eq!(tx.cursor().no_resource, 5 + 2);
            for number in 0..8 {
                assert_eq!(wire.take(), Some(frame(number, 60)), "nothing overwritten");
            }
            assert_eq!(tx.credits(&simt, 8), Ok(0), "taken is not completed");
            // An interval of two: with selective completions, one may not have said so.
            let untold = u32::from(!W::COMPLETES_ALL);
            assert!(wire.complete() && wire.complete() && wire.complete());
            let free = tx.credits(&simt, 8).unwrap();
            assert!((3 - untold..=3).contains(&free), "{free} of 3");
            assert_eq!(send(&mut tx, &simt, 8..8 + u64::from(free)), Ok(free));
            assert_eq!(tx.credits(&simt, 8), Ok(0));
            drain(&mut wire);
            let left = tx.credits(&simt, 99).unwrap();
            assert!((8 - untold..=8).contains(&left), "start {start}: {left}");
            let frames = 8 + u64::from(free);
            let cursor = tx.cursor();
            assert_eq!((cursor.frames, cursor.bytes), (frames, frames * 60));
            assert_eq!(tx_cursor(&wire).frames, frames, "the host sees it");
        }
    }

    /// Laps over every wrap; a completion is asked for once a quarter of the depth.
    pub(crate) fn slots_come_back_lap_after_lap<W: Wire>() {
        for start in STARTS {
            let mut wire = W::new(16, start);
            let desk = Desk::new();
            let simt = Scalar::new(&desk);
            let mut tx = wire.sender();
            let mut next = 0;
            for round in 0..200 {
                let batch = 1 + round % 5;
                let sent = send(&mut tx, &simt, next..next + batch);
                assert_eq!(sent, Ok(batch as u32), "round {round} start {start}");
                for number in next..next + batch {
                    assert_eq!(wire.take(), Some(frame(number, 60)));
                }
                assert_eq!(wire.take(), None);
                while wire.complete() {}
                next += batch;
            }
            assert_eq!(tx.poll(&simt), Ok(()));
            let cursor = tx.cursor();
            assert_eq!(cursor.frames, next);
            assert!(tx.in_flight() < 4, "less than an interval is not told of");
            if W::Tx::FORMAT == Format::Mlx5 {
                let asked = cursor.completions - start;
                assert!(
                    asked <= next / 4 + 1,
                    "{asked} completions for {next} frames"
                );
            }
        }
    }

    /// The host is asked for a system call, and only then. Doorbells are rung in any case.
    pub(crate) fn a_nic_that_sleeps_is_woken<W: Wire>() {
        let mut wire = W::new(8, 0);
        let desk = Desk::new();
        let simt = Scalar::new(&desk);
        let mut tx = wire.sender();
        assert_eq!(send(&mut tx, &simt, 0..2), Ok(2));
        wire.fall_asleep();
        assert_eq!(send(&mut tx, &simt, 2..3), Ok(1));
        let expected = match W::Tx::FORMAT {
            Format::Mlx5 => [2, 0, 0],
            Format::Xdp | Format::Memif => [0, 1, 1],
        };
        let triggers = &counters(&wire, wire.tx_block()).triggers;
        assert_eq!(triggers.each_ref().map(|count| count.value()), expected);
    }

    pub(crate) fn long_frames_take_several_slots<W: Wire>() {
        for start in STARTS {
            let mut wire = W::new(32, start);
            let desk = Desk::new();
            let simt = Scalar::new(&desk);
            let mut tx = wire.sender();
            for round in 0..40_u64 {
                let parts = 1 + (round * 7 % 9) as usize;
                let (long, short) = (frame(round, parts * 100), frame(round + 500, 60));
                tx.reserve(&simt, parts as u32 + 1).expect("room");
                let claim = tx.claim(&simt, parts as u32).expect("reserved");
                fill(&mut tx, &claim, &long, 100).expect("writes");
                let claim = tx.claim(&simt, 1).expect("reserved");
                fill(&mut tx, &claim, &short, 60).expect("writes");
                assert_eq!(tx.publish(&simt), Ok(parts as u32 + 1));
                tx.ring(&simt);
                assert_eq!(wire.take(), Some(long), "round {round} start {start}");
                assert_eq!(wire.take(), Some(short));
                while wire.complete() {}
            }
            assert_eq!(tx.cursor().frames, 80);
        }
    }

    /// What cannot be sent cuts the batch: what was before it goes, the rest does not.
    pub(crate) fn a_bad_frame_cuts_the_batch<W: Wire>() {
        type Act<T> = fn(&mut Sender<T>, &Claim) -> Cause;
        let acts: [Act<W::Tx>; 4] = [
            |tx, claim| {
                let post = Post {
                    address: DeviceAddress::new(64),
                    length: 60,
                    ..Post::default()
                };
                tx.write(claim, &post).expect_err("out of reach")
            },
            |_, _| Cause::LocalQpOperation,
            |tx, claim| {
                let post = Post {
                    part: 1,
                    length: 60,
                    ..Post::default()
                };
                tx.write(claim, &post).expect_err("no such part")
            },
            |tx, claim| {
                fill(tx, claim, &frame(0, 60), 60).expect("writes");
                fill(tx, claim, &frame(0, 60), 60).expect_err("written twice")
            },
        ];
        for (number, act) in acts.into_iter().enumerate() {
            let mut wire = W::new(8, 0);
            let desk = Desk::new();
            let simt = Scalar::new(&desk);
            let mut tx = wire.sender();
            for round in 1..5 {
                tx.reserve(&simt, 4).expect("room");
                for good in 0..2 {
                    let claim = tx.claim(&simt, 1).expect("reserved");
                    fill(&mut tx, &claim, &frame(good, 60), 60).expect("writes");
                }
                let claim = tx.claim(&simt, 1).expect("reserved");
                let cause = act(&mut tx, &claim);
                assert_eq!(tx.claim(&simt, 1), None, "nothing after a cut");
                assert_eq!(tx.publish(&simt), Err(cause), "act {number}");
                tx.ring(&simt);
                assert_eq!(wire.take(), Some(frame(0, 60)));
                assert_eq!(wire.take(), Some(frame(1, 60)));
                assert_eq!(wire.take(), None);
                while wire.complete() {}
                let cursor = tx.cursor();
                assert_eq!((cursor.frames, cursor.bytes), (2 * round, 120 * round));
                assert_eq!(cursor.faults, round);
                assert_eq!(Cause::from_number(cursor.last_cause), Some(cause));
            }
            assert_eq!(send(&mut tx, &simt, 0..4), Ok(4), "and the queue goes on");
        }
    }

    pub(crate) fn claims_end_with_the_reservation<W: Wire>() {
        let mut wire = W::new(8, 0);
        let desk = Desk::new();
        let simt = Scalar::new(&desk);
        let mut tx = wire.sender();
        tx.reserve(&simt, 3).expect("room");
        assert_eq!(tx.claim(&simt, 0), None, "no frame, no slot");
        let claim = tx.claim(&simt, 1).expect("reserved");
        fill(&mut tx, &claim, &frame(0, 60), 60).expect("writes");
        assert_eq!(tx.claim(&simt, 3), None, "only two are left");
        assert_eq!(tx.claim(&simt, 2), None, "nothing overtakes it");
        assert_eq!(tx.cursor().no_resource, 1);
        assert_eq!(tx.slot(&claim, 0).map(|_| ()), None, "the claim is closed");
        assert_eq!(tx.publish(&simt), Ok(1), "the rest is let go");
        tx.ring(&simt);
        assert_eq!(tx.claim(&simt, 1), None, "nothing is reserved");
        assert_eq!(tx.slot(&claim, 0).map(|_| ()), None, "the claim is over");
        assert_eq!(tx.credits(&simt, 8), Ok(7));
        // A reservation that is not used is let go by the next one.
        tx.reserve(&simt, 7).expect("room");
        tx.reserve(&simt, 7).expect("room");
        tx.save(&simt);
        let mut tx = wire.sender();
        assert_eq!(tx.in_flight(), 1);
        assert_eq!(send(&mut tx, &simt, 1..8), Ok(7));
        for number in 0..8 {
            assert_eq!(wire.take(), Some(frame(number, 60)));
        }
    }

    pub(crate) fn error_completions_surface_once<W: Wire>() {
        for start in STARTS {
            let mut wire = W::new(8, start);
            let desk = Desk::new();
            let simt = Scalar::new(&desk);
            let mut tx = wire.sender();
            send(&mut tx, &simt, 0..8).expect("room");
            while wire.take().is_some() {}
            for _ in 0..3 {
                wire.complete();
            }
            let Some(cause) = wire.complete_bad() else {
                return;
            };
            while wire.complete() {}
            assert_eq!(tx.poll(&simt), Err(cause));
            assert_eq!(tx.poll(&simt), Ok(()), "once");
            assert!(tx.credits(&simt, 8).unwrap() >= 7, "its slot is free");
            let cursor = tx.cursor();
            assert_eq!(cursor.faults, 1);
            assert_eq!(Cause::from_number(cursor.last_cause), Some(cause));
            assert_eq!(send(&mut tx, &simt, 0..7), Ok(7));
        }
    }

    pub(crate) fn an_impossible_completion_is_told<W: Wire>() {
        for start in STARTS {
            let mut wire = W::new(8, start);
            let desk = Desk::new();
            let simt = Scalar::new(&desk);
            let mut tx = wire.sender();
            send(&mut tx, &simt, 0..3).expect("room");
            while wire.take().is_some() {}
            if !wire.break_transmit() {
                return;
            }
            for _ in 0..2 {
                assert_eq!(tx.poll(&simt), Err(Cause::RingCorrupted), "start {start}");
                assert_eq!(tx.reserve(&simt, 8), Err(Cause::RingCorrupted));
            }
            let cause = Cause::from_number(tx.cursor().last_cause);
            assert_eq!(cause, Some(Cause::RingCorrupted));
        }
    }
}

each! {
    a_full_queue_is_no_resource,
    slots_come_back_lap_after_lap,
    long_frames_take_several_slots,
    a_bad_frame_cuts_the_batch,
    claims_end_with_the_reservation,
    error_completions_surface_once,
    an_impossible_completion_is_told,
    a_nic_that_sleeps_is_woken,
}
