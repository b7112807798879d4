//! What dies under way: the peer, the engine, the memory.

use std::time::{Duration, Instant};

use warpwire::pipelines::messaging::{
    Completed, Endpoint, EndpointConfig, Error, Goal, Order, Payload, Signal, Update, Work,
};
use warpwire_gpu::executor::Time;
use warpwire_nic::soft::Impairments;
use warpwire_protocols::rdma::{Access, Attributes, State};
use warpwire_ring::Cause;
use warpwire_ring::mlx5::layout::Opcode;

use crate::ends::{Mode, Plan, SIGNALS, SOON, SOURCE, Side, Stage, TARGET, WRITTEN, sent, wait};

fn cause<T>(outcome: Result<T, Error>) -> Option<Cause> {
    outcome.err().and_then(|error| error.cause())
}

/// A link of a Gbit/s: a megabyte is under way for eight milliseconds.
fn slow(mode: Mode) -> Plan {
    Plan {
        link: Impairments {
            rate_bps: 1_000_000_000,
            ..Impairments::default()
        },
        ..Plan::timeless(mode)
    }
}

#[test]
fn a_peer_that_dies_is_a_cause_in_time() {
    for mode in Mode::ALL {
        let plan = Plan {
            time: Time::Real,
            attributes: Attributes {
                // 4 ms, three times.
                timeout: 10,
                retries: 3,
                ..Attributes::default()
            },
            ..slow(mode)
        };
        let stage = Stage::new(&plan);
        let [mut one, other] = stage.pairs();
        let [own, peer] = stage.sides;
        let row = one.signals(own.memory.whole().address.offset(SIGNALS), 1, 8);
        let row = row.expect("inside");
        let large = one.put(own.gather(SOURCE, 1 << 20), peer.remote(WRITTEN));
        let large = large.expect("posts");
        let small = one.put(own.gather(SOURCE, 8), peer.remote(WRITTEN));
        let small = small.expect("posts");
        let started = Instant::now();
        while peer.bytes(WRITTEN, 64) != own.bytes(SOURCE, 64) || started.elapsed() < FIRST {
            own.fill(SOURCE, 64, 7);
            own.endpoint.step();
            peer.endpoint.step();
            std::thread::yield_now();
            assert!(started.elapsed() < SOON, "nothing arrives");
        }
        let Side { endpoint, .. } = peer;
        endpoint.stop(Duration::from_secs(5)).expect("stops");
        let killed = Instant::now();
        assert_eq!(cause(one.wait_for(large, SOON)), Some(Cause::RetryExceeded));
        assert_eq!(cause(one.wait_for(small, SOON)), Some(Cause::RetryExceeded));
        // Who waits for a signal hears of it too.
        let outcome = one.wait_signals(&row, Goal::All, 1, SOON);
        assert_eq!(cause(outcome), Some(Cause::RetryExceeded));
        assert!(killed.elapsed() < Duration::from_secs(5), "in time");
        assert_eq!(one.state(), State::Error);
        drop((one, other));
        own.endpoint.stop(Duration::from_secs(5)).expect("stops");
    }
}

/// Some of a large message is under way by then.
const FIRST: Duration = Duration::from_millis(2);

#[test]
fn a_wait_on_an_engine_that_stands_still_ends() {
    let plan = Plan {
        config: EndpointConfig {
            stale: Duration::from_millis(150),
            ..EndpointConfig::default()
        },
        ..Plan::new(Mode::Sliced)
    };
    let stage = Stage::new(&plan);
    let [mut one, other] = stage.pairs();
    let [own, peer] = stage.sides;
    let put = one.put(own.gather(SOURCE, 100), peer.remote(WRITTEN));
    one.wait_for(put.expect("posts"), SOON).expect("completes");
    let row = one.signals(own.memory.whole().address.offset(SIGNALS), 1, 8);
    let row = row.expect("inside");
    own.endpoint.stop(Duration::from_secs(5)).expect("stops");
    let put = one.put(own.region.gather(SOURCE, 100), peer.remote(WRITTEN));
    let put = put.expect("there is room");
    let started = Instant::now();
    assert_eq!(
        cause(one.wait_for(put, SOON)),
        Some(Cause::EngineNotRunning)
    );
    assert_eq!(cause(one.quiet(SOON)), Some(Cause::EngineNotRunning));
    let outcome = one.wait_signals(&row, Goal::All, 1, SOON);
    assert_eq!(cause(outcome), Some(Cause::EngineNotRunning));
    assert_eq!(cause(one.wait_message(SOON)), Some(Cause::EngineNotRunning));
    assert!(started.elapsed() < Duration::from_secs(5), "in time");
    drop((one, other));
    peer.endpoint.stop(Duration::from_secs(5)).expect("stops");
}

#[test]
fn a_region_that_goes_under_way_is_not_written_any_more() {
    for mode in Mode::ALL {
        let stage = Stage::new(&slow(mode));
        let [mut one, other] = stage.pairs();
        let [own, peer] = &stage.sides;
        let length = 1u64 << 20;
        let whole = peer.memory.whole().address;
        let target = peer
            .endpoint
            .register(whole.offset(WRITTEN), length, Access::ALL, 0x77)
            .expect("fits");
        own.fill(SOURCE, length as u32, 1);
        let put = one.put(own.gather(SOURCE, length as u32), target.remote(0));
        let put = put.expect("posts");
        let started = Instant::now();
        while peer.bytes(WRITTEN, 64) != own.bytes(SOURCE, 64) {
            (own.endpoint.idle())();
            assert!(started.elapsed() < SOON, "nothing arrives");
        }
        peer.endpoint.release(&target, SOON).expect("is released");
        let after = peer.bytes(WRITTEN, length as u32);
        assert!(
            after != own.bytes(SOURCE, length as u32),
            "it was under way"
        );
        assert_eq!(cause(one.wait_for(put, SOON)), Some(Cause::RemoteAccess));
        assert!(
            peer.bytes(WRITTEN, length as u32) == after,
            "nothing came after"
        );
        assert!(peer.endpoint.release(&target, SOON).is_err(), "once");
        // The place is given again, with another key: the old one stays dead.
        let again = peer
            .endpoint
            .register(whole.offset(WRITTEN), length, Access::ALL, 0x77)
            .expect("fits");
        assert!(again.key != target.key && again.key >> 8 == target.key >> 8);
        drop((one, other));
        stage.stop();
    }
}

#[test]
fn an_own_region_that_goes_fails_the_request() {
    let stage = Stage::new(&slow(Mode::Fused));
    let [mut one, other] = stage.pairs();
    let [own, peer] = &stage.sides;
    let whole = own.memory.whole().address;
    let source = own
        .endpoint
        .register(whole, 1 << 20, Access::LOCAL_WRITE, 0x33)
        .expect("fits");
    own.endpoint.release(&source, SOON).expect("is released");
    let put = one.put(source.gather(0, 1 << 20), peer.remote(WRITTEN));
    let outcome = one.wait_for(put.expect("posts"), SOON);
    assert_eq!(cause(outcome), Some(Cause::LocalProtection));
    drop((one, other));
    stage.stop();
}

#[test]
fn a_receive_that_a_message_had_begun_comes_back() {
    for mode in Mode::ALL {
        let stage = Stage::new(&slow(mode));
        let [mut one, mut other] = stage.pairs();
        let [own, peer] = &stage.sides;
        own.fill(SOURCE, 1 << 20, 1);
        for _ in 0..2 {
            other
                .receive(&[peer.gather(TARGET, 1 << 20)])
                .expect("room");
        }
        one.send(own.gather(SOURCE, 1 << 20), None).expect("posts");
        let started = Instant::now();
        while peer.bytes(TARGET, 64) != own.bytes(SOURCE, 64) {
            (own.endpoint.idle())();
            assert!(started.elapsed() < SOON, "nothing arrives");
        }
        other.become_state(State::Error).expect("may");
        for index in 0..2 {
            let flushed = Completed::ReceiveFailed {
                index,
                cause: Cause::Flushed,
            };
            assert_eq!(wait(&mut other), flushed);
        }
        assert_eq!(other.free_receives(), 256);
        drop((one, other));
        stage.stop();
    }
}

#[test]
fn who_ends_at_the_last_message_leaves_its_answer() {
    for mode in Mode::ALL {
        // Nothing is lost, and nothing repeated: the peer would not hear of the message otherwise.
        let plan = Plan {
            attributes: Attributes {
                timeout: 0,
                ..Attributes::default()
            },
            ..Plan::new(mode)
        };
        let stage = Stage::new(&plan);
        let [own, peer] = &stage.sides;
        for _ in 0..50 {
            let [mut one, mut other] = stage.pairs();
            other.receive(&[peer.gather(TARGET, 64)]).expect("room");
            let bytes = [own.gather(SOURCE, 8)];
            let order = Order::new(Opcode::SEND);
            let payload = Payload::Pieces(&bytes);
            one.post(&[Work { order, payload }]).expect("room");
            other.wait_message(SOON).expect("comes");
            drop(other);
            sent(&mut one);
        }
        stage.stop();
    }
}

#[test]
fn a_queue_pair_is_used_again_after_a_reset() {
    for mode in Mode::ALL {
        let stage = Stage::new(&Plan::new(mode));
        let [_, peer] = &stage.sides;
        let add = Signal {
            at: peer.remote(SIGNALS),
            update: Update::Add(1),
        };
        // Requests and receives that are under way when their queue pairs go; more rounds than
        // there are places.
        for round in 0..40u64 {
            let [mut one, mut other] = stage.pairs();
            other.receive(&[peer.gather(TARGET, 64)]).expect("room");
            one.signal(add).expect("room");
            one.quiet(SOON).expect("completes");
            assert_eq!(peer.word(SIGNALS), round + 1);
            let order = Order {
                signal: false,
                ..Order::new(Opcode::SEND)
            };
            let payload = Payload::Inline(b"left behind");
            one.post(&[Work { order, payload }]).expect("room");
            match round % 2 {
                0 => {
                    one.close().expect("closes");
                    other.close().expect("closes");
                }
                _ => drop((one, other)),
            }
        }
        stage.stop();
    }
}

#[test]
fn endpoints_can_be_sent_to_threads() {
    fn is_send<T: Send>() {}
    is_send::<Endpoint>();
    is_send::<warpwire::pipelines::messaging::Pair>();
}
