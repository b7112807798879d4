//! The verbs of the host, one after the other: what each does, what it waits for, what it refuses.

use std::time::Duration;

use warpwire::pipelines::messaging::{Gather, Goal, Pair, Payload, Request, Signal, Update};
use warpwire_ring::Cause;

use crate::ends::{Mode, Plan, SIGNALS, SOON, SOURCE, Stage, TARGET, WRITTEN};

fn over_modes(test: impl Fn(&Stage, [Pair; 2])) {
    for mode in Mode::ALL {
        println!("{mode:?}");
        let stage = Stage::new(&Plan::new(mode));
        let pairs = stage.pairs();
        test(&stage, pairs);
        stage.stop();
    }
}

#[test]
fn puts_gets_and_tickets() {
    over_modes(|stage, [mut one, _other]| {
        let [own, peer] = &stage.sides;
        own.fill(SOURCE, 5000, 3);
        let first = one
            .put(own.gather(SOURCE, 5000), peer.remote(WRITTEN))
            .expect("posts");
        let second = one
            .put_inline(b"inline", peer.remote(WRITTEN + 8192))
            .expect("posts");
        assert!(second.first >= first.end);
        // The second is told of; the first is complete with it.
        one.wait_for(second, SOON).expect("completes");
        one.wait_for(first, SOON).expect("is complete");
        assert_eq!(peer.bytes(WRITTEN, 5000), own.bytes(SOURCE, 5000));
        assert_eq!(peer.bytes(WRITTEN + 8192, 6), b"inline");
        let get = one
            .get(peer.remote(WRITTEN), own.gather(TARGET, 5000))
            .expect("posts");
        one.wait_for(get, SOON).expect("completes");
        assert_eq!(own.bytes(TARGET, 5000), own.bytes(SOURCE, 5000));
        // Nothing is a put, too.
        one.put(own.gather(SOURCE, 0), peer.remote(WRITTEN))
            .expect("posts");
        one.quiet(SOON).expect("completes");
        one.quiet(Duration::ZERO).expect("nothing is under way");
    });
}

#[test]
fn atomics_and_fences() {
    over_modes(|stage, [mut one, _other]| {
        let [own, peer] = &stage.sides;
        let word = peer.remote(SIGNALS);
        for added in 0..5 {
            let add = one
                .fetch_add(word, 7, own.gather(TARGET, 8))
                .expect("posts");
            one.wait_for(add, SOON).expect("completes");
            assert_eq!(own.word(TARGET), 7 * added);
        }
        let swaps = [(1, 35, 35), (35, 99, 35), (99, 1, 99)];
        for (compare, value, found) in swaps {
            let swap = one
                .compare_swap(word, (compare, value), own.gather(TARGET, 8))
                .expect("posts");
            one.wait_for(swap, SOON).expect("completes");
            assert_eq!(own.word(TARGET), found);
        }
        assert_eq!(peer.word(SIGNALS), 1);
        // What a get brings is sent on behind a fence.
        peer.fill(SOURCE, 3000, 9);
        one.get(peer.remote(SOURCE), own.gather(TARGET, 3000))
            .expect("posts");
        one.fence();
        one.put(own.gather(TARGET, 3000), peer.remote(WRITTEN))
            .expect("posts");
        one.quiet(SOON).expect("completes");
        assert_eq!(peer.bytes(WRITTEN, 3000), peer.bytes(SOURCE, 3000));
    });
}

#[test]
fn signals_follow_their_puts() {
    over_modes(|stage, [mut one, mut other]| {
        let [own, peer] = &stage.sides;
        let at = |number: u64| peer.region.remote(SIGNALS + number * 64);
        let first = peer.memory.whole().address.offset(SIGNALS);
        let row = other.signals(first, 3, 64).expect("inside");
        let goals = [Goal::All, Goal::Any, Goal::Some];
        for goal in goals {
            let error = other.wait_signals(&row, goal, 1, Duration::from_millis(1));
            let cause = error.expect_err("none is there").cause();
            assert_eq!(cause, Some(Cause::DeadlineExceeded));
        }
        own.fill(SOURCE, 40_000, 5);
        let update = Update::Add(1);
        let signal = Signal { at: at(1), update };
        one.put_signal(own.gather(SOURCE, 40_000), peer.remote(WRITTEN), signal)
            .expect("posts");
        let any = other.wait_signals(&row, Goal::Any, 1, SOON);
        assert_eq!(any.expect("comes"), 0b010);
        assert_eq!(peer.bytes(WRITTEN, 40_000), own.bytes(SOURCE, 40_000));
        let update = Update::Set(u64::MAX);
        one.signal(Signal { at: at(0), update }).expect("posts");
        let update = Update::Set(1);
        one.signal(Signal { at: at(2), update }).expect("posts");
        one.quiet(SOON).expect("completes");
        // 2^64 - 1 is behind 1.
        let some = other.wait_signals(&row, Goal::Some, 1, SOON);
        assert_eq!(some.expect("is there"), 0b110);
        let some = row.without(0b010);
        let some = other.wait_signals(&some, Goal::Some, 1, SOON);
        assert_eq!(some.expect("is there"), 0b100);
        let update = Update::Add(2);
        one.signal(Signal { at: at(0), update }).expect("posts");
        let all = other.wait_signals(&row, Goal::All, 1, SOON);
        assert_eq!(all.expect("comes"), 0b111);
        assert_eq!([row.value(0), row.value(1), row.value(2)], [1, 1, 1]);
    });
}

#[test]
fn messages_come_with_their_words() {
    over_modes(|stage, [mut one, mut other]| {
        let [own, peer] = &stage.sides;
        own.fill(SOURCE, 2000, 8);
        for number in 0..3 {
            let at = TARGET + number * 4096;
            other.receive(&[peer.gather(at, 4096)]).expect("posts");
        }
        one.send(own.gather(SOURCE, 2000), None).expect("posts");
        one.send(own.gather(SOURCE, 0), Some(77)).expect("posts");
        one.send(own.gather(SOURCE, 9), Some(78)).expect("posts");
        let wanted = [(2000, None), (0, Some(77)), (9, Some(78))];
        for (index, (length, immediate)) in wanted.into_iter().enumerate() {
            let message = other.wait_message(SOON).expect("comes");
            assert_eq!(message.index, index as u64);
            assert_eq!(message.pair, other.number());
            assert_eq!((message.length, message.immediate), (length, immediate));
        }
        assert_eq!(peer.bytes(TARGET, 2000), own.bytes(SOURCE, 2000));
        one.quiet(SOON).expect("completes");
    });
}

#[test]
fn what_cannot_be_is_refused() {
    over_modes(|stage, [mut one, mut other]| {
        let [own, peer] = &stage.sides;
        let cause = |error: Option<_>| {
            error.and_then(|error: warpwire::pipelines::messaging::Error| error.cause())
        };
        let long = [0; 1200];
        let outcome = one.put_inline(&long, peer.remote(WRITTEN));
        assert_eq!(cause(outcome.err()), Some(Cause::LocalLength));
        let hole = [Gather::default()];
        let request = Request::put(Payload::Pieces(&hole), peer.remote(WRITTEN));
        let outcome = one.post_waiting(&request, SOON);
        assert_eq!(cause(outcome.err()), Some(Cause::LocalLength));
        let first = own.memory.whole().address;
        assert!(one.signals(first.offset(4), 1, 8).is_err(), "alignment");
        assert!(one.signals(first.offset(1 << 40), 1, 8).is_err(), "bounds");
        let past = own.memory.whole().length as u32;
        assert!(one.signals(first, 2, past).is_err(), "bounds of the row");
        // A wrong key: the peer says no, and everything behind fails with it.
        let wrong = warpwire::pipelines::messaging::Remote {
            key: peer.region.key ^ 0x55,
            ..peer.remote(WRITTEN)
        };
        let bad = one.put(own.gather(SOURCE, 64), wrong).expect("posts");
        let behind = one
            .put(own.gather(SOURCE, 64), peer.remote(WRITTEN))
            .expect("posts");
        let outcome = one.wait_for(bad, SOON);
        assert_eq!(cause(outcome.err()), Some(Cause::RemoteAccess));
        let outcome = one.wait_for(behind, SOON);
        assert_eq!(cause(outcome.err()), Some(Cause::RemoteAccess));
        let outcome = one.put(own.gather(SOURCE, 64), peer.remote(WRITTEN));
        assert_eq!(cause(outcome.err()), Some(Cause::RemoteAccess));
        // The numbers that users of verbs know.
        assert_eq!(Cause::RemoteAccess.wc_status(), 10);
        assert_eq!(Cause::RemoteAccess.syndrome(), Some(0x13));
        // The peer's queue pair has failed as well: who waits there hears of it.
        other.receive(&[peer.gather(TARGET, 64)]).expect("posts");
        let outcome = other.wait_message(SOON);
        assert_eq!(cause(outcome.err()), Some(Cause::Flushed));
    });
}

#[test]
fn tags_find_their_receives() {
    over_modes(|stage, [mut one, other]| {
        use warpwire::pipelines::messaging::Expected;
        let [own, peer] = &stage.sides;
        // Four slots of 512 bytes; two receives may wait.
        let mut other = other
            .tagged(peer.gather(TARGET, 4 * 512), 512, 2)
            .expect("fits");
        let into = |number: u64| peer.gather(WRITTEN + number * 1024, 1024);
        let tags = [0x10, 0x20, 0x11, 0x30];
        for (number, tag) in tags.into_iter().enumerate() {
            own.fill(SOURCE + number as u64 * 512, 512, tag as u8);
            let bytes = own.gather(SOURCE + number as u64 * 512, 100 + number as u32);
            one.send(bytes, Some(tag)).expect("posts");
        }
        one.quiet(SOON).expect("all find a slot");
        // One that waits before any message was looked at; then the first of a class; then one that
        // was passed over.
        let Expected::Waiting(receive) = other.expect(0x30, u32::MAX, into(0)).expect("room")
        else {
            panic!("nothing was polled");
        };
        let matched = other.wait(SOON).expect("comes");
        assert_eq!(
            (matched.receive, matched.tag, matched.length),
            (receive, 0x30, 103)
        );
        let Expected::Matched(matched) = other.expect(0x10, 0xf0, into(1)).expect("is there")
        else {
            panic!("0x10 came");
        };
        assert_eq!((matched.tag, matched.length), (0x10, 100));
        assert_eq!(peer.bytes(WRITTEN + 1024, 100), own.bytes(SOURCE, 100));
        let Expected::Matched(matched) = other.expect(0x11, u32::MAX, into(2)).expect("is there")
        else {
            panic!("0x11 came");
        };
        assert_eq!((matched.tag, matched.length), (0x11, 102));
        assert_eq!(
            peer.bytes(WRITTEN + 2048, 102),
            own.bytes(SOURCE + 1024, 102)
        );
        // Bounds: a third receive that waits; a message longer than its receive.
        other.expect(1, u32::MAX, into(3)).expect("room");
        other
            .expect(2, u32::MAX, peer.gather(WRITTEN + 4096, 3))
            .expect("room");
        let outcome = other.expect(3, u32::MAX, into(4));
        let cause = outcome.err().and_then(|error| error.cause());
        assert_eq!(cause, Some(Cause::NoResource));
        one.send(own.gather(SOURCE, 4), Some(2)).expect("posts");
        let matched = other.wait(SOON).expect("comes");
        assert_eq!(matched.failed, Some(Cause::LocalLength));
        assert_eq!(other.poll().expect("works"), None);
        // Messages that nobody expects keep their slots: 0x20 has one, three more fill them, and
        // the next ones come when receives make room.
        for number in 0..6 {
            one.send(own.gather(SOURCE, 8), Some(0x50 + number))
                .expect("posts");
        }
        for number in 0..6 {
            let outcome = other
                .expect(0x50 + number, u32::MAX, into(5))
                .expect("room");
            let matched = match outcome {
                Expected::Matched(matched) => matched,
                Expected::Waiting(_) => other.wait(SOON).expect("comes"),
            };
            assert_eq!(matched.tag, 0x50 + number);
        }
        one.quiet(SOON).expect("completes");
    });
}

#[test]
fn shared_receives_name_the_queue_pair() {
    for mode in Mode::ALL {
        let stage = Stage::new(&Plan::new(mode));
        let [own, peer] = &stage.sides;
        let mut shared = peer.endpoint.shared_receives().expect("is one");
        assert!(
            peer.endpoint.shared_receives().is_err(),
            "one was asked for"
        );
        let config = warpwire::pipelines::messaging::PairConfig::default();
        let mut connections: Vec<[Pair; 2]> = (0..4)
            .map(|number| {
                let there = peer.endpoint.pair_on(&shared, config).expect("is free");
                let mut pairs = [own.pair(), there];
                stage.connect(&mut pairs, 0xc200 + number);
                pairs
            })
            .collect();
        let there = &mut connections[0][1];
        let outcome = there.receive(&[peer.gather(TARGET, 64)]);
        let cause = outcome.err().and_then(|error| error.cause());
        assert_eq!(cause, Some(Cause::LocalQpOperation), "receives are shared");
        for number in 0..8 {
            let at = TARGET + number * 4096;
            let index = shared.receive(&[peer.gather(at, 4096)]).expect("posts");
            assert_eq!(index, number);
        }
        shared.arm(6);
        assert!(!shared.is_low());
        // A long message begins before short ones that end earlier.
        own.fill(SOURCE, 4096, 1);
        for (number, [here, _]) in connections.iter_mut().enumerate() {
            let length = if number == 0 {
                4096
            } else {
                10 + number as u32
            };
            here.send(own.gather(SOURCE, length), Some(number as u32))
                .expect("posts");
        }
        let mut seen = [false; 4];
        for _ in 0..4 {
            let message = shared.wait(SOON).expect("comes");
            let number = message.immediate.expect("was sent") as usize;
            assert_eq!(message.pair, connections[number][1].number());
            let at = TARGET + message.index * 4096;
            let sent = own.bytes(SOURCE, message.length);
            assert_eq!(peer.bytes(at, message.length), sent);
            assert!(!std::mem::replace(&mut seen[number], true), "once");
        }
        assert_eq!(shared.posted(), 4);
        assert!(shared.is_low() && !shared.is_low(), "told once");
        assert_eq!(shared.free(), 1024 - 4);
        // A queue pair that fails leaves the others' receives alone.
        let [here, there] = connections.remove(0);
        drop((here, there));
        let [here, _] = &mut connections[0];
        here.send(own.gather(SOURCE, 5), None).expect("posts");
        let message = shared.wait(SOON).expect("comes");
        assert_eq!(
            (message.length, message.pair),
            (5, connections[0][1].number())
        );
        drop(connections);
        stage.stop();
    }
}
