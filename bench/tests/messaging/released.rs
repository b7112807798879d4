//! Memory that is released, or whose key a peer takes away, while packets are under way: the engine
//! does not touch it any more, whatever was agreed before.

use std::time::Duration;

use warpwire::pipelines::messaging::{
    Completed, MemoryRegion, Order, Pair, PairConfig, Payload, Work,
};
use warpwire_nic::soft::Impairments;
use warpwire_protocols::rdma::{Access, Attributes, Service};
use warpwire_ring::Cause;
use warpwire_ring::mlx5::layout::Opcode;

use crate::ends::{Mode, Plan, SOON, SOURCE, Side, Stage, TARGET, WRITTEN, wait};

const LONG: u32 = 1 << 20;

/// A link of a Gbit/s: a megabyte is under way for eight milliseconds.
fn plan(mode: Mode) -> Plan {
    Plan {
        link: Impairments {
            rate_bps: 1_000_000_000,
            ..Impairments::default()
        },
        attributes: Attributes {
            timeout: 9,
            retries: 2,
            ..Attributes::default()
        },
        ..Plan::timeless(mode)
    }
}

fn region(side: &Side, at: u64) -> MemoryRegion {
    let whole = side.memory.whole().address;
    let region = side
        .endpoint
        .register(whole.offset(at), u64::from(LONG), Access::ALL, 0x77);
    region.expect("fits")
}

/// Runs until the first bytes of `from` have arrived, and not all of them.
fn until_under_way(stage: &Stage, (from, source): (&Side, u64), (to, target): (&Side, u64)) {
    let first = from.bytes(source, 64);
    let clock = stage.executor.clock();
    while to.bytes(target, 64) != first {
        stage.run_for(Duration::from_micros(10));
        assert!(clock.now_ns() < 1_000_000_000, "nothing arrives");
    }
    assert!(
        to.bytes(target, LONG) != from.bytes(source, LONG),
        "all is there"
    );
}

/// Nothing of it changes from now on.
fn stays(stage: &Stage, side: &Side, at: u64) {
    let before = side.bytes(at, LONG);
    stage.run_for(Duration::from_millis(20));
    assert!(side.bytes(at, LONG) == before, "it was written to");
}

fn receive_failed(index: u64) -> Completed {
    Completed::ReceiveFailed {
        index,
        cause: Cause::LocalProtection,
    }
}

fn send(pair: &mut Pair, side: &Side) -> u64 {
    let order = Order::new(Opcode::SEND);
    let pieces = [side.gather(SOURCE, LONG)];
    let payload = Payload::Pieces(&pieces);
    pair.post(&[Work { order, payload }]).expect("room")
}

#[test]
fn a_receive_whose_memory_goes_is_not_filled_any_more() {
    for mode in Mode::ALL {
        for service in [Service::Rc, Service::Uc] {
            let mut plan = plan(mode);
            plan.attributes.service = service;
            let stage = Stage::new(&plan);
            let [mut one, mut other] = stage.pairs();
            let [own, peer] = &stage.sides;
            own.fill(SOURCE, LONG, 1);
            let target = region(peer, TARGET);
            let index = other.receive(&[target.gather(0, LONG)]).expect("room");
            let request = send(&mut one, own);
            until_under_way(&stage, (own, SOURCE), (peer, TARGET));
            peer.endpoint.release(&target, SOON).expect("was ours");
            stays(&stage, peer, TARGET);
            assert_eq!(
                wait(&mut other),
                receive_failed(index),
                "{mode:?} {service:?}"
            );
            let told = match service {
                Service::Rc => Completed::SendFailed {
                    index: request,
                    cause: Cause::RemoteOperation,
                },
                _ => Completed::Sent { index: request },
            };
            assert_eq!(wait(&mut one), told, "{mode:?} {service:?}");
            drop((one, other));
            stage.stop();
        }
    }
}

#[test]
fn a_receive_that_is_shared_is_not_filled_any_more_either() {
    for mode in Mode::ALL {
        let stage = Stage::new(&plan(mode));
        let [own, peer] = &stage.sides;
        let mut shared = peer.endpoint.shared_receives().expect("is one");
        let there = peer.endpoint.pair_on(&shared, PairConfig::default());
        let mut pairs = [own.pair(), there.expect("is free")];
        stage.connect(&mut pairs, 0xc200);
        own.fill(SOURCE, LONG, 1);
        let target = region(peer, TARGET);
        let index = shared.receive(&[target.gather(0, LONG)]).expect("room");
        send(&mut pairs[0], own);
        until_under_way(&stage, (own, SOURCE), (peer, TARGET));
        peer.endpoint.release(&target, SOON).expect("was ours");
        stays(&stage, peer, TARGET);
        assert_eq!(shared.poll(), Some(receive_failed(index)), "{mode:?}");
        drop(pairs);
        stage.stop();
    }
}

#[test]
fn the_target_of_a_read_that_goes_is_not_filled_any_more() {
    for mode in Mode::ALL {
        let stage = Stage::new(&plan(mode));
        let [mut one, other] = stage.pairs();
        let [own, peer] = &stage.sides;
        peer.fill(SOURCE, LONG, 1);
        let target = region(own, TARGET);
        let get = one.get(peer.remote(SOURCE), target.gather(0, LONG));
        let get = get.expect("room");
        until_under_way(&stage, (peer, SOURCE), (own, TARGET));
        own.endpoint.release(&target, SOON).expect("was ours");
        stays(&stage, own, TARGET);
        let cause = one
            .wait_for(get, SOON)
            .err()
            .and_then(|error| error.cause());
        assert_eq!(cause, Some(Cause::LocalProtection), "{mode:?}");
        drop((one, other));
        stage.stop();
    }
}

/// Bytes that are written to a source after its release are the owner's secret.
#[test]
fn the_source_of_a_write_that_goes_is_not_read_any_more() {
    for mode in Mode::ALL {
        let stage = Stage::new(&plan(mode));
        let [mut one, other] = stage.pairs();
        let [own, peer] = &stage.sides;
        own.fill(SOURCE, LONG, 1);
        let source = region(own, SOURCE);
        let put = one.put(source.gather(0, LONG), peer.remote(WRITTEN));
        let put = put.expect("room");
        until_under_way(&stage, (own, SOURCE), (peer, WRITTEN));
        own.endpoint.release(&source, SOON).expect("was ours");
        let whole = own.memory.whole().address;
        let secret = vec![0xcc; LONG as usize];
        own.memory
            .write(whole.offset(SOURCE), &secret)
            .expect("inside");
        let cause = one
            .wait_for(put, SOON)
            .err()
            .and_then(|error| error.cause());
        assert_eq!(cause, Some(Cause::LocalProtection), "{mode:?}");
        stage.run_for(Duration::from_millis(20));
        let there = peer.bytes(WRITTEN, LONG);
        let secrets = there.windows(64).any(|bytes| bytes == &secret[..64]);
        assert!(!secrets, "{mode:?}");
        drop((one, other));
        stage.stop();
    }
}

/// The same, for what a peer reads: the rest of its answer is a refusal.
#[test]
fn the_source_of_a_read_that_goes_is_not_read_any_more() {
    for mode in Mode::ALL {
        let stage = Stage::new(&plan(mode));
        let [mut one, other] = stage.pairs();
        let [own, peer] = &stage.sides;
        peer.fill(SOURCE, LONG, 1);
        let source = region(peer, SOURCE);
        let get = one.get(source.remote(0), own.gather(TARGET, LONG));
        let get = get.expect("room");
        until_under_way(&stage, (peer, SOURCE), (own, TARGET));
        peer.endpoint.release(&source, SOON).expect("was ours");
        let whole = peer.memory.whole().address;
        let secret = vec![0xcc; LONG as usize];
        peer.memory
            .write(whole.offset(SOURCE), &secret)
            .expect("inside");
        let cause = one
            .wait_for(get, SOON)
            .err()
            .and_then(|error| error.cause());
        assert_eq!(cause, Some(Cause::RemoteAccess), "{mode:?}");
        let there = own.bytes(TARGET, LONG);
        let secrets = there.windows(64).any(|bytes| bytes == &secret[..64]);
        assert!(!secrets, "{mode:?}");
        drop((one, other));
        stage.stop();
    }
}

/// Another connection takes the key away of what a write is filling.
#[test]
fn a_key_that_a_peer_takes_away_under_way_ends_the_write() {
    for mode in Mode::ALL {
        let stage = Stage::new(&plan(mode));
        let [own, peer] = &stage.sides;
        let [mut one, other] = stage.pairs();
        let mut beside = [own.pair(), peer.pair()];
        stage.connect(&mut beside, 0xc124);
        own.fill(SOURCE, LONG, 1);
        let target = region(peer, WRITTEN);
        peer.endpoint
            .let_peers_invalidate(&target)
            .expect("is there");
        let put = one.put(own.gather(SOURCE, LONG), target.remote(0));
        let put = put.expect("room");
        until_under_way(&stage, (own, SOURCE), (peer, WRITTEN));
        beside[1].receive(&[]).expect("room");
        let order = Order {
            immediate: target.key,
            ..Order::new(Opcode::SEND_INVALIDATE)
        };
        let payload = Payload::Pieces(&[]);
        beside[0].post(&[Work { order, payload }]).expect("room");
        let got = wait(&mut beside[1]);
        let key = Some(target.key);
        assert!(matches!(got, Completed::Received(message) if message.invalidate == key));
        assert!(peer.bytes(WRITTEN, LONG) != own.bytes(SOURCE, LONG));
        stays(&stage, peer, WRITTEN);
        let cause = one
            .wait_for(put, SOON)
            .err()
            .and_then(|error| error.cause());
        assert_eq!(cause, Some(Cause::RemoteAccess), "{mode:?}");
        drop((one, other, beside));
        stage.stop();
    }
}
