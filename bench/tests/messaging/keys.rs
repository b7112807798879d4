//! Keys that peers take away: by a send that names them, if they may, once and for everybody.

use warpwire::pipelines::messaging::{Completed, Order, Pair, Payload, Work};
use warpwire_nic::soft::Impairments;
use warpwire_protocols::rdma::{Access, Attributes};
use warpwire_ring::Cause;
use warpwire_ring::mlx5::layout::Opcode;

use crate::ends::{Mode, Plan, SOON, SOURCE, Side, Stage, TARGET, WRITTEN, sent, wait};

/// Sends a message that takes `key` away, and what becomes of it at both ends.
fn take_away(pairs: &mut [Pair; 2], sides: &[Side; 2], key: u32) -> (Completed, Completed) {
    let [one, other] = pairs;
    let [own, peer] = sides;
    other.receive(&[peer.gather(TARGET, 4096)]).expect("room");
    let order = Order {
        immediate: key,
        ..Order::new(Opcode::SEND_INVALIDATE)
    };
    let piece = [own.gather(SOURCE, 3000)];
    let payload = Payload::Pieces(&piece);
    one.post(&[Work { order, payload }]).expect("posts");
    (wait(one), wait(other))
}

fn modes() -> [Plan; 3] {
    let lossy = Plan {
        attributes: Attributes {
            timeout: 8,
            selective: true,
            ..Attributes::default()
        },
        link: Impairments {
            loss_ppm: 50_000,
            duplicate_ppm: 50_000,
            ..Impairments::default()
        },
        ..Plan::timeless(Mode::Fused)
    };
    [Plan::new(Mode::Sliced), Plan::new(Mode::Fused), lossy]
}

#[test]
fn a_key_goes_with_the_message_that_names_it() {
    for plan in modes() {
        let stage = Stage::new(&plan);
        let mut pairs = stage.pairs();
        let [own, peer] = &stage.sides;
        own.fill(SOURCE, 3000, 5);
        let at = peer.memory.whole().address.offset(WRITTEN);
        let region = peer
            .endpoint
            .register(at, 4096, Access::ALL, 9)
            .expect("fits");
        let before = region;
        peer.endpoint
            .let_peers_invalidate(&region)
            .expect("is there");
        let put = pairs[0]
            .put(own.gather(SOURCE, 64), region.remote(0))
            .expect("posts");
        pairs[0].wait_for(put, SOON).expect("may be written");
        assert_eq!(peer.endpoint.has_key(&region).ok(), Some(true));
        let (at_home, abroad) = take_away(&mut pairs, &stage.sides, region.key);
        assert!(matches!(at_home, Completed::Sent { .. }), "{at_home:?}");
        let Completed::Received(message) = abroad else {
            panic!("{abroad:?}");
        };
        assert_eq!(
            (message.invalidate, message.length),
            (Some(region.key), 3000)
        );
        assert_eq!(peer.bytes(TARGET, 3000), own.bytes(SOURCE, 3000));
        assert_eq!(peer.endpoint.has_key(&region).ok(), Some(false));
        // Its owner cannot use it either, and the other end learns no more than that it may not.
        let order = Order::new(Opcode::SEND);
        let piece = [region.gather(0, 8)];
        let payload = Payload::Pieces(&piece);
        pairs[1].post(&[Work { order, payload }]).expect("posts");
        let refused = wait(&mut pairs[1]);
        let local = |completed: &Completed| {
            matches!(
                completed,
                Completed::SendFailed {
                    cause: Cause::LocalProtection,
                    ..
                }
            )
        };
        assert!(local(&refused), "{refused:?}");
        let mut fresh = stage.pairs();
        let put = fresh[0]
            .put(own.gather(SOURCE, 64), region.remote(0))
            .expect("posts");
        let outcome = fresh[0].wait_for(put, SOON);
        let cause = outcome.err().and_then(|error| error.cause());
        assert_eq!(cause, Some(Cause::RemoteAccess));
        // Released, its place is free for another with a key of its own.
        peer.endpoint.release(&region, SOON).expect("was ours");
        assert!(peer.endpoint.release(&before, SOON).is_err(), "once");
        let at = peer.memory.whole().address.offset(WRITTEN);
        let next = peer
            .endpoint
            .register(at, 4096, Access::ALL, 9)
            .expect("fits");
        assert_ne!(next.key, region.key);
        drop((pairs, fresh));
        stage.stop();
    }
}

#[test]
fn keys_that_may_not_be_taken_away_stay() {
    for mode in Mode::ALL {
        let stage = Stage::new(&Plan::new(mode));
        let [own, peer] = &stage.sides;
        let at = peer.memory.whole().address.offset(WRITTEN);
        let kept = peer
            .endpoint
            .register(at, 4096, Access::ALL, 0x9abc_de09)
            .expect("fits");
        // All that names no place of the table is chance.
        assert_eq!(kept.key & 0xfffe_00ff, 0x9abc_de09 & 0xfffe_00ff);
        let gone = peer
            .endpoint
            .register(at, 4096, Access::ALL, 9)
            .expect("fits");
        peer.endpoint.let_peers_invalidate(&gone).expect("is there");
        peer.endpoint.release(&gone, SOON).expect("was ours");
        let others = [1, 1 << 17, 1 << 31].map(|bit| kept.key ^ bit);
        let keys = [kept.key, gone.key, 0, u32::MAX];
        for key in keys.into_iter().chain(others) {
            let mut pairs = stage.pairs();
            let (at_home, abroad) = take_away(&mut pairs, &stage.sides, key);
            let refused = |completed: &Completed| {
                matches!(
                    completed,
                    Completed::SendFailed {
                        cause: Cause::RemoteAccess,
                        ..
                    }
                )
            };
            assert!(refused(&at_home), "{key:#x}: {at_home:?}");
            let flushed = |completed: &Completed| {
                matches!(
                    completed,
                    Completed::ReceiveFailed {
                        cause: Cause::Flushed,
                        ..
                    }
                )
            };
            assert!(flushed(&abroad), "{key:#x}: {abroad:?}");
        }
        assert_eq!(peer.endpoint.has_key(&kept).ok(), Some(true));
        let [mut one, other] = stage.pairs();
        let put = one
            .put(own.gather(SOURCE, 64), kept.remote(0))
            .expect("posts");
        one.wait_for(put, SOON).expect("still has its key");
        let last = own.gather(SOURCE, 1);
        let order = Order::new(Opcode::SEND);
        let piece = [last];
        let payload = Payload::Pieces(&piece);
        let mut other = other;
        other.receive(&[peer.gather(TARGET, 64)]).expect("room");
        one.post(&[Work { order, payload }]).expect("posts");
        sent(&mut one);
        drop((one, other));
        stage.stop();
    }
}
