//! Waits end: with a value, with a cause, or at their deadline.

use std::cell::Cell;

use warpwire_device::{Heartbeat, Scalar, SharedWord, Simt, Wait, wait_until};
use warpwire_ring::{Cause, Post};

use crate::desk::{Desk, PAUSE_NS, frame};
use crate::each;
use crate::wires::{Pages, Wire, word};

mod check {
    use super::*;

    pub(crate) fn arrival_ends_a_wait_at_once<W: Wire>() {
        let mut wire = W::new(8, 0);
        let mut rx = wire.receiver();
        let desk = Desk::with(|pause| {
            if pause == 7 {
                assert!(wire.deliver(&frame(1, 60)));
            }
        });
        let simt = Scalar::new(&desk);
        let wait = Wait::within(&simt, 1_000_000);
        let batch = rx.wait(&simt, 32, &wait).expect("one arrives");
        assert_eq!(batch.slots(), 1, "not after more");
        assert_eq!(desk.pauses(), 7, "not at the deadline");
        rx.release(&simt, batch);
        let end = rx.wait(&simt, 32, &Wait::within(&simt, 5 * PAUSE_NS));
        assert_eq!(end.err(), Some(Cause::DeadlineExceeded));
        assert_eq!(desk.pauses(), 12, "and not later");
    }

    pub(crate) fn credits_end_a_wait<W: Wire>() {
        let wire = Cell::new(Some(W::new(4, 0)));
        let with = |act: &dyn Fn(&mut W)| {
            let mut inner = wire.take().expect("one at a time");
            act(&mut inner);
            wire.set(Some(inner));
        };
        let desk = Desk::with(|pause| {
            if pause == 3 {
                with(&|wire| {
                    while wire.take().is_some() {}
                    while wire.complete() {}
                });
            }
        });
        let simt = Scalar::new(&desk);
        let inner = wire.take().expect("there");
        let mut tx = inner.sender();
        wire.set(Some(inner));
        tx.reserve(&simt, 4).expect("fresh");
        for number in 0..4 {
            let claim = tx.claim(&simt, 1).expect("reserved");
            let slot = tx.slot(&claim, 0).expect("has a buffer");
            assert!(slot.copy_in(0, &frame(number, 60)));
            let post = Post {
                address: slot.address(),
                length: 60,
                ..Post::default()
            };
            tx.write(&claim, &post).expect("writes");
        }
        assert_eq!(tx.publish(&simt), Ok(4));
        tx.ring(&simt);
        let wait = Wait::within(&simt, 2 * PAUSE_NS);
        let late = tx.reserve_within(&simt, 1, &wait);
        assert_eq!(late, Err(Cause::DeadlineExceeded));
        let wait = Wait::within(&simt, 100 * PAUSE_NS);
        assert_eq!(tx.reserve_within(&simt, 1, &wait), Ok(()));
        assert_eq!(desk.pauses(), 3);
    }
}

each! { arrival_ends_a_wait_at_once, credits_end_a_wait }

#[test]
fn causes_of_a_wait() {
    let mut pages = Pages::new(4096);
    let (abort, heart) = (word(&mut pages), word(&mut pages));
    struct Case {
        name: &'static str,
        /// What happens in a pause.
        script: fn(u64, SharedWord, SharedWord),
        value_after: u64,
        want: Result<u64, Cause>,
        pauses: u64,
    }
    let cases = [
        Case {
            name: "a value at once needs no pause, even at the deadline",
            script: |_, _, _| (),
            value_after: 0,
            want: Ok(0),
            pauses: 0,
        },
        Case {
            name: "the deadline",
            script: |pause, _, heart| heart.store(pause as u32),
            value_after: u64::MAX,
            want: Err(Cause::DeadlineExceeded),
            pauses: 50,
        },
        Case {
            name: "an abort",
            script: |pause, abort, heart| {
                heart.store(pause as u32);
                abort.store(u32::from(pause >= 9));
            },
            value_after: u64::MAX,
            want: Err(Cause::Aborted),
            pauses: 9,
        },
        Case {
            name: "a heart that stops",
            script: |pause, _, heart| heart.store(pause.min(10) as u32),
            value_after: u64::MAX,
            want: Err(Cause::EngineNotRunning),
            pauses: 18,
        },
        Case {
            name: "a value in time",
            script: |pause, _, heart| heart.store(pause as u32),
            value_after: 49,
            want: Ok(49),
            pauses: 49,
        },
    ];
    for case in cases {
        abort.store(0);
        heart.store(0);
        let desk = Desk::with(|pause| (case.script)(pause, abort, heart));
        let simt = Scalar::new(&desk);
        let wait = Wait::until(simt.now_ns() + 50 * PAUSE_NS)
            .abort_on(abort)
            .while_beating(Heartbeat {
                word: heart,
                stale_ns: 8 * PAUSE_NS,
            });
        let pauses = || desk.pauses();
        let got = wait_until(&simt, &wait, || (pauses() >= case.value_after).then(pauses));
        assert_eq!((got, pauses()), (case.want, case.pauses), "{}", case.name);
    }
}

#[test]
fn a_deadline_that_has_passed_still_looks_once() {
    let desk = Desk::new();
    let simt = Scalar::new(&desk);
    assert_eq!(wait_until(&simt, &Wait::until(0), || Some(5)), Ok(5));
    let late = wait_until(&simt, &Wait::until(0), || None::<u32>);
    assert_eq!(late, Err(Cause::DeadlineExceeded));
    assert_eq!(desk.pauses(), 0);
}
