//! The states that the owner moves a queue pair to, and those it comes to by itself: what goes on,
//! what waits, what comes back, and how it is used again.

use std::time::Duration;

use warpwire::pipelines::messaging::{
    Completed, Gather, Order, Pair, Payload, Remote, Signal, Update, Work,
};
use warpwire_nic::soft::Impairments;
use warpwire_protocols::rdma::{Access, Attributes, Service, State};
use warpwire_ring::Cause;
use warpwire_ring::mlx5::layout::Opcode;

use crate::ends::wait;
use crate::ends::{Mode, Plan, SIGNALS, SOON, SOURCE, Side, Stage, TARGET, WRITTEN, sent};
use crate::wire::Wire;

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

fn post(pair: &mut Pair, order: Order, pieces: &[Gather]) -> u64 {
    let payload = Payload::Pieces(pieces);
    pair.post(&[Work { order, payload }]).expect("room")
}

fn write(to: Remote) -> Order {
    Order {
        address: to.address,
        key: to.key,
        ..Order::new(Opcode::WRITE)
    }
}

const LONG: u32 = 1 << 20;

#[test]
fn draining_ends_what_is_under_way_and_the_rest_waits() {
    for mode in Mode::ALL {
        let stage = Stage::new(&slow(mode));
        let [mut one, mut other] = stage.pairs();
        let [own, peer] = &stage.sides;
        own.fill(SOURCE, LONG, 3);
        peer.fill(SOURCE, 3000, 4);
        let first = post(
            &mut one,
            write(peer.remote(WRITTEN)),
            &[own.gather(SOURCE, LONG)],
        );
        // Posted before, and not begun: the window is shorter than the first.
        let second = post(
            &mut one,
            write(peer.remote(SIGNALS)),
            &[own.gather(SOURCE, 8)],
        );
        stage.run_for(Duration::from_millis(1));
        assert_eq!(peer.bytes(WRITTEN, 64), own.bytes(SOURCE, 64), "under way");
        one.become_state(State::Draining).expect("may");
        assert_eq!(one.state(), State::Draining);
        let third = post(
            &mut one,
            Order {
                opcode: Opcode::READ,
                ..write(peer.remote(SOURCE))
            },
            &[own.gather(TARGET, 3000)],
        );
        assert_eq!(wait(&mut one), Completed::Sent { index: first });
        assert_eq!(peer.bytes(WRITTEN, LONG), own.bytes(SOURCE, LONG));
        let wire = Wire::between(&stage);
        stage.run_for(Duration::from_millis(200));
        assert_eq!(one.poll(), None, "{mode:?}: what was not begun waits");
        assert!(wire.take().is_empty(), "and nothing asks for it");
        assert_eq!(peer.word(SIGNALS), 0);
        // Meanwhile it receives, and answers.
        one.receive(&[own.gather(TARGET + 8192, 64)]).expect("room");
        other.send(peer.gather(SOURCE, 64), None).expect("room");
        assert!(matches!(wait(&mut one), Completed::Received(message) if message.length == 64));
        other
            .fetch_add(own.remote(SIGNALS), 5, peer.gather(TARGET, 8))
            .expect("room");
        other.quiet(SOON).expect("completes");
        assert_eq!(own.word(SIGNALS), 5);
        assert_eq!(one.state(), State::Draining);
        one.become_state(State::ReadyToSend).expect("may");
        assert_eq!(wait(&mut one), Completed::Sent { index: second });
        assert_eq!(wait(&mut one), Completed::Sent { index: third });
        assert_eq!(peer.bytes(SIGNALS, 8), own.bytes(SOURCE, 8));
        assert_eq!(own.bytes(TARGET, 3000), peer.bytes(SOURCE, 3000));
        drop((one, other));
        stage.stop();
    }
}

#[test]
fn draining_and_back_over_and_over_loses_nothing() {
    const ROUNDS: u64 = 60;
    for mode in Mode::ALL {
        for selective in [false, true] {
            let plan = Plan {
                attributes: Attributes {
                    timeout: 8,
                    selective,
                    ..Attributes::default()
                },
                link: Impairments {
                    loss_ppm: 20_000,
                    ..slow(mode).link
                },
                ..slow(mode)
            };
            let stage = Stage::new(&plan);
            let [mut one, other] = stage.pairs();
            let [own, peer] = &stage.sides;
            own.fill(SOURCE, 8192, 3);
            let add = Signal {
                at: peer.remote(SIGNALS),
                update: Update::Add(1),
            };
            for round in 0..ROUNDS {
                let length = 137 * round as u32;
                let at = peer.remote(WRITTEN + round * 8192);
                one.put_signal(own.gather(SOURCE, length), at, add)
                    .expect("room");
                stage.run_for(Duration::from_micros(7 * round % 50));
                one.become_state(State::Draining).expect("may");
                stage.run_for(Duration::from_micros(5 * round % 70));
                assert!(peer.word(SIGNALS) <= round + 1);
                one.become_state(State::ReadyToSend).expect("may");
            }
            one.quiet(SOON).expect("completes");
            assert_eq!(peer.word(SIGNALS), ROUNDS, "{mode:?}, {selective}");
            for round in 0..ROUNDS {
                let length = 137 * round as u32;
                let there = peer.bytes(WRITTEN + round * 8192, length);
                assert!(there == own.bytes(SOURCE, length), "{mode:?} {round}");
            }
            drop((one, other));
            stage.stop();
        }
    }
}

/// A send request to the peer, by a service that is not reliable.
fn message(service: Service, pairs: &[Pair; 2], side: &Side) -> Order {
    let order = Order::new(Opcode::SEND);
    if service == Service::Uc {
        return order;
    }
    let mut gid = [0; 16];
    gid[10..12].copy_from_slice(&[0xff; 2]);
    gid[12..].copy_from_slice(&side.address.to_be_bytes());
    let path = warpwire::pipelines::messaging::Path {
        next_hop: side.mac,
        hop_limit: 64,
        ..Default::default()
    };
    Order {
        datagram: Some(path.datagram(pairs[1].number(), QKEY, gid)),
        ..order
    }
}

const QKEY: u32 = 0x1111_1111;

fn failed(index: u64, cause: Cause) -> Completed {
    Completed::SendFailed { index, cause }
}

#[test]
fn unreliable_services_stop_sending_at_an_error_and_can_go_on() {
    for mode in Mode::ALL {
        for service in [Service::Uc, Service::Ud] {
            println!("{mode:?} {service:?}");
            let plan = Plan {
                attributes: Attributes {
                    service,
                    qkey: QKEY,
                    ..Attributes::default()
                },
                ..Plan::timeless(mode)
            };
            let stage = Stage::new(&plan);
            let mut pairs = stage.pairs();
            let [own, peer] = &stage.sides;
            own.fill(SOURCE, 64, 5);
            let order = message(service, &pairs, peer);
            let head = if service == Service::Ud { 40 } else { 0 };
            let good = own.gather(SOURCE, 64);
            let bad = Gather {
                key: good.key ^ 0x55,
                ..good
            };
            for number in 0..4 {
                let at = TARGET + number * 4096;
                pairs[1].receive(&[peer.gather(at, 4096)]).expect("room");
            }
            for round in 0..2u64 {
                let first = post(&mut pairs[0], order, &[good]);
                let second = post(&mut pairs[0], order, &[bad]);
                // Nobody asked to hear of it.
                let quiet = Order {
                    signal: false,
                    ..order
                };
                let third = post(&mut pairs[0], quiet, &[good]);
                stage.run_for(Duration::from_millis(1));
                assert_eq!(pairs[0].state(), State::SendError);
                // What comes now is flushed as well.
                let fourth = post(&mut pairs[0], order, &[good]);
                stage.run_for(Duration::from_millis(1));
                let told = [
                    Completed::Sent { index: first },
                    failed(second, Cause::LocalProtection),
                    failed(third, Cause::Flushed),
                    failed(fourth, Cause::Flushed),
                ];
                // In the second round some are asked for after the move only.
                let early = if round == 0 { 4 } else { 2 };
                for told in &told[..early] {
                    assert_eq!(pairs[0].poll(), Some(*told));
                }
                let payload = Payload::Inline(b"more");
                let refused = pairs[0].post(&[Work { order, payload }]);
                let cause = refused.err().and_then(|error| error.cause());
                assert_eq!(cause, Some(Cause::LocalProtection), "who knows is refused");
                assert!(matches!(wait(&mut pairs[1]), Completed::Received(_)));
                assert_eq!(pairs[1].poll(), None, "the first alone was sent");
                // It still receives: a write of the peer, or a datagram.
                pairs[0].receive(&[own.gather(TARGET, 4096)]).expect("room");
                pairs.reverse();
                let answer = message(service, &pairs, own);
                pairs.reverse();
                post(&mut pairs[1], answer, &[peer.gather(SOURCE, 32)]);
                sent(&mut pairs[1]);
                stage.run_for(Duration::from_millis(1));
                let arrived = |completed: Completed| match completed {
                    Completed::Received(message) => message.length == head + 32,
                    _ => false,
                };
                if round == 0 {
                    assert!(pairs[0].poll().is_some_and(arrived));
                }
                // Where it stands it cannot drain, and goes on when its owner says so.
                assert!(pairs[0].become_state(State::Draining).is_err());
                pairs[0].become_state(State::ReadyToSend).expect("may");
                for told in &told[early..] {
                    assert_eq!(pairs[0].poll(), Some(*told));
                }
                if round == 1 {
                    assert!(pairs[0].poll().is_some_and(arrived));
                }
                assert_eq!(pairs[0].poll(), None);
                assert_eq!(pairs[0].state(), State::ReadyToSend);
                assert_eq!(pairs[0].fault(), None);
                let fifth = post(&mut pairs[0], order, &[good]);
                assert_eq!(wait(&mut pairs[0]), Completed::Sent { index: fifth });
                let got = wait(&mut pairs[1]);
                let Completed::Received(message) = got else {
                    panic!("{got:?}");
                };
                assert_eq!((message.index, message.length), (2 * round + 1, head + 64));
                let at = TARGET + message.index * 4096 + u64::from(head);
                assert_eq!(peer.bytes(at, 64), own.bytes(SOURCE, 64));
                assert_eq!(pairs[0].free_sends(), pairs[0].send_slots());
                // Tickets go on too.
                pairs[0].quiet(SOON).expect("nothing is under way");
            }
            drop(pairs);
            stage.stop();
        }
    }
}

#[test]
fn an_error_flushes_sends_and_receives_and_a_reset_makes_it_new() {
    for mode in Mode::ALL {
        let stage = Stage::new(&slow(mode));
        let mut pairs = stage.pairs();
        let [own, peer] = &stage.sides;
        own.fill(SOURCE, LONG, 3);
        let order = write(peer.remote(WRITTEN));
        let quiet = Order {
            signal: false,
            ..order
        };
        pairs[0].receive(&[own.gather(TARGET, 64)]).expect("room");
        pairs[0].receive(&[own.gather(TARGET, 64)]).expect("room");
        let first = post(&mut pairs[0], quiet, &[own.gather(SOURCE, LONG)]);
        let second = post(&mut pairs[0], order, &[own.gather(SOURCE, 8)]);
        stage.run_for(Duration::from_millis(1));
        assert_eq!(peer.bytes(WRITTEN, 64), own.bytes(SOURCE, 64), "under way");
        pairs[0].become_state(State::Error).expect("may");
        assert_eq!(wait(&mut pairs[0]), failed(first, Cause::Flushed));
        assert_eq!(wait(&mut pairs[0]), failed(second, Cause::Flushed));
        for index in 0..2 {
            let flushed = Completed::ReceiveFailed {
                index,
                cause: Cause::Flushed,
            };
            assert_eq!(wait(&mut pairs[0]), flushed);
        }
        // What is posted later comes back as well: receives do; sends are refused by the channel.
        pairs[0].receive(&[own.gather(TARGET, 64)]).expect("room");
        let flushed = Completed::ReceiveFailed {
            index: 2,
            cause: Cause::Flushed,
        };
        assert_eq!(wait(&mut pairs[0]), flushed);
        for state in [State::ReadyToSend, State::Draining, State::Init] {
            assert!(pairs[0].become_state(state).is_err(), "{state:?}");
        }
        // Nothing of it arrives any more, once what was under way did.
        stage.run_for(Duration::from_millis(10));
        let wire = Wire::between(&stage);
        stage.run_for(Duration::from_millis(200));
        assert!(wire.take().is_empty(), "{mode:?}");
        for pair in &mut pairs {
            pair.reset().expect("may");
            assert_eq!((pair.state(), pair.fault()), (State::Reset, None));
        }
        stage.connect(&mut pairs, 0xc124);
        let third = post(&mut pairs[0], order, &[own.gather(SOURCE, LONG)]);
        assert_eq!(wait(&mut pairs[0]), Completed::Sent { index: third });
        assert_eq!(peer.bytes(WRITTEN, LONG), own.bytes(SOURCE, LONG));
        pairs[0].receive(&[own.gather(TARGET, 64)]).expect("room");
        pairs[1].send(peer.gather(SOURCE, 64), None).expect("room");
        assert!(matches!(wait(&mut pairs[0]), Completed::Received(_)));
        drop(pairs);
        stage.stop();
    }
}

/// Requests and receives may be posted before a queue pair is connected; they begin with it.
#[test]
fn what_is_posted_before_the_connection_begins_with_it() {
    for mode in Mode::ALL {
        let stage = Stage::new(&Plan::timeless(mode));
        let [own, peer] = &stage.sides;
        let mut pairs = [own.pair(), peer.pair()];
        own.fill(SOURCE, 64, 8);
        pairs[1].receive(&[peer.gather(TARGET, 64)]).expect("room");
        let early = post(
            &mut pairs[0],
            Order::new(Opcode::SEND),
            &[own.gather(SOURCE, 64)],
        );
        stage.run_for(Duration::from_millis(1));
        stage.connect(&mut pairs, 0xc124);
        assert_eq!(wait(&mut pairs[0]), Completed::Sent { index: early });
        assert!(matches!(wait(&mut pairs[1]), Completed::Received(_)));
        assert_eq!(peer.bytes(TARGET, 64), own.bytes(SOURCE, 64));
        drop(pairs);
        stage.stop();
    }
    // What a peer may do at all is the queue pair's, not the region's alone.
    let stage = Stage::new(&Plan::timeless(Mode::Fused));
    let [mut one, other] = stage.pairs_by(|_, attributes, _| attributes.access = Access::NONE);
    let [own, peer] = &stage.sides;
    let put = one.put(own.gather(SOURCE, 8), peer.remote(WRITTEN));
    let outcome = one.wait_for(put.expect("room"), SOON);
    let cause = outcome.err().and_then(|error| error.cause());
    assert_eq!(cause, Some(Cause::RemoteInvalidRequest));
    drop((one, other));
    stage.stop();
}
