//! Receivers that are not ready: who sends waits as long as he is told, as often as was agreed.

use std::time::Duration;

use warpwire::pipelines::messaging::{Completed, Order, Payload, Work};
use warpwire_engine::tables::EngineCounters;
use warpwire_protocols::rdma::{Attributes, Note, State};
use warpwire_protocols::wire::aeth::RnrTimer;
use warpwire_ring::Cause;
use warpwire_ring::mlx5::layout::Opcode;

use crate::ends::{Mode, Plan, SOON, SOURCE, Stage, TARGET, sent, wait};
use crate::wire::{Frame, Wire};

fn plan(mode: Mode, timer: u8, rnr_retries: u8) -> Plan {
    Plan {
        attributes: Attributes {
            rnr_timer: RnrTimer::new(timer).expect("is one"),
            rnr_retries,
            ..Attributes::default()
        },
        ..Plan::timeless(mode)
    }
}

fn without_receive(counters: &EngineCounters) -> u64 {
    counters.notes[Note::NoReceive as usize]
}

const SEND: Work<'_> = Work {
    order: Order::new(Opcode::SEND),
    payload: Payload::Inline(b"is anybody there?"),
};

/// When requests and answers left their ends.
fn times(frames: &[Frame], from: usize) -> Vec<u64> {
    let sent = frames.iter().filter(|frame| frame.from == from);
    sent.map(|frame| frame.at_ns).collect()
}

#[test]
fn who_finds_no_receive_waits_as_long_as_he_is_told() {
    // 10 us, 1.28 ms, 10.24 ms, 491.52 ms.
    for (timer, wait_ns) in [
        (1, 10_000),
        (14, 1_280_000),
        (20, 10_240_000),
        (31, 491_520_000),
    ] {
        for mode in Mode::ALL {
            let stage = Stage::new(&plan(mode, timer, 7));
            let [mut one, mut other] = stage.pairs();
            let [_, peer] = &stage.sides;
            let wire = Wire::between(&stage);
            one.post(&[SEND]).expect("room");
            // Three times, and the third wait is not over where it is long.
            let late_ns = match mode {
                // Virtual time goes on while warps wait for each other.
                Mode::Crew => 1_500_000,
                Mode::Sliced | Mode::Fused | Mode::Nic => 100_000,
            };
            stage.run_for(Duration::from_nanos(
                3 * wait_ns + (3 * late_ns).max(wait_ns / 2),
            ));
            let frames = wire.take();
            let asked = times(&frames, 0);
            let told: Vec<&Frame> = frames.iter().filter(|frame| frame.from == 1).collect();
            assert!(told.len() >= 3, "{mode:?} {timer}: {asked:?}");
            for frame in &told {
                assert_eq!((frame.opcode(), frame.syndrome()), (0x11, 0x20 | timer));
            }
            for (again, told) in asked.iter().skip(1).zip(&told) {
                let waited = again - told.at_ns;
                assert!(
                    (wait_ns..wait_ns + late_ns).contains(&waited),
                    "{mode:?}: {waited} ns instead of {wait_ns}"
                );
            }
            let counted = without_receive(&peer.endpoint.counters());
            assert!((told.len()..=asked.len()).contains(&(counted as usize)));
            assert_eq!(one.poll(), None);
            other.receive(&[peer.gather(TARGET, 64)]).expect("room");
            sent(&mut one);
            let got = wait(&mut other);
            assert!(matches!(got, Completed::Received(message) if message.length == 17));
            assert_eq!(&peer.bytes(TARGET, 17), b"is anybody there?");
            let again = times(&wire.take(), 0).len();
            assert!(again == 1 || wait_ns < late_ns, "{mode:?}: {again}");
            drop((one, other));
            stage.stop();
        }
    }
}

#[test]
fn patience_for_receives_ends_after_as_many_times_as_were_agreed() {
    for mode in Mode::ALL {
        for retries in [0, 1, 3, 6] {
            let stage = Stage::new(&plan(mode, 2, retries));
            let [mut one, other] = stage.pairs();
            let [own, peer] = &stage.sides;
            let wire = Wire::between(&stage);
            let first = one.post(&[SEND]).expect("room");
            let quiet = Order {
                signal: false,
                address: peer.region.address,
                key: peer.region.key,
                ..Order::new(Opcode::WRITE)
            };
            let pieces = [own.gather(SOURCE, 64)];
            let behind = Work {
                order: quiet,
                payload: Payload::Pieces(&pieces),
            };
            let second = one.post(&[behind]).expect("room");
            let failed = |index, cause| Completed::SendFailed { index, cause };
            assert_eq!(wait(&mut one), failed(first, Cause::RnrRetryExceeded));
            assert_eq!(Cause::RnrRetryExceeded.wc_status(), 13);
            assert_eq!(wait(&mut one), failed(second, Cause::Flushed));
            assert_eq!(one.state(), State::Error);
            assert_eq!(other.state(), State::ReadyToSend);
            let frames = wire.take();
            let sends = frames.iter().filter(|frame| frame.opcode() == 4);
            assert_eq!(sends.count(), usize::from(retries) + 1, "{mode:?}");
            drop((one, other));
            stage.stop();
        }
    }
}

#[test]
fn seven_times_are_for_ever() {
    for mode in Mode::ALL {
        let stage = Stage::new(&plan(mode, 1, 7));
        let [mut one, mut other] = stage.pairs();
        let [_, peer] = &stage.sides;
        one.post(&[SEND]).expect("room");
        stage.run_for(Duration::from_millis(20));
        let asked = without_receive(&peer.endpoint.counters());
        assert!(asked > 100, "{mode:?}: asked {asked} times");
        assert_eq!((one.poll(), one.state()), (None, State::ReadyToSend));
        other.receive(&[peer.gather(TARGET, 64)]).expect("room");
        sent(&mut one);
        assert!(matches!(wait(&mut other), Completed::Received(_)));
        drop((one, other));
        stage.stop();
    }
}

/// Progress gives the patience back: it is for each request, not for the connection.
#[test]
fn patience_begins_anew_with_every_message() {
    for selective in [false, true] {
        let mut plan = plan(Mode::Fused, 5, 2);
        plan.attributes.selective = selective;
        let stage = Stage::new(&plan);
        let [mut one, mut other] = stage.pairs();
        let [_, peer] = &stage.sides;
        for number in 0..12 {
            let before = without_receive(&peer.endpoint.counters());
            one.post(&[SEND]).expect("room");
            while without_receive(&peer.endpoint.counters()) < before + 2 {
                (peer.endpoint.idle())();
            }
            other.receive(&[peer.gather(TARGET, 64)]).expect("room");
            sent(&mut one);
            let message = other.wait_message(SOON).expect("comes");
            assert_eq!(message.index, number);
        }
        drop((one, other));
        stage.stop();
    }
}
