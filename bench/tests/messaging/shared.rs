//! Receives that queue pairs share: who takes them, and who gives which back.

use std::time::Instant;

use warpwire::pipelines::messaging::{Completed, Message, Pair, PairConfig, SharedReceives};
use warpwire_nic::soft::Impairments;
use warpwire_protocols::rdma::{Attributes, State};
use warpwire_ring::Cause;

use crate::ends::{Mode, Plan, SOON, SOURCE, Stage, TARGET};

const PAIRS: usize = 8;

fn connections(stage: &Stage, shared: &SharedReceives) -> Vec<[Pair; 2]> {
    let [own, peer] = &stage.sides;
    let connect = |number| {
        let there = peer.endpoint.pair_on(shared, PairConfig::default());
        let mut pairs = [own.pair(), there.expect("is free")];
        stage.connect(&mut pairs, 0xc200 + number);
        pairs
    };
    (0..PAIRS as u16).map(connect).collect()
}

#[test]
fn many_queue_pairs_take_from_one_queue_whatever_is_lost() {
    const ROUNDS: u32 = 20;
    for selective in [false, true] {
        let plan = Plan {
            attributes: Attributes {
                timeout: 11,
                selective,
                ..Attributes::default()
            },
            link: Impairments {
                loss_ppm: 10_000,
                duplicate_ppm: 10_000,
                reorder_ppm: 10_000,
                reorder_ns: 50_000,
                ..Impairments::default()
            },
            ..Plan::new(Mode::Fused)
        };
        let stage = Stage::new(&plan);
        let [own, peer] = &stage.sides;
        let mut shared = peer.endpoint.shared_receives().expect("is one");
        let mut connections = connections(&stage, &shared);
        own.fill(SOURCE, 8192, 3);
        // Fewer receives than messages at once: who finds none is asked to come again.
        let place = |index: u64| TARGET + index % 4 * 8192;
        let receive = |shared: &mut SharedReceives, index| {
            let posted = shared.receive(&[peer.gather(place(index), 8192)]);
            assert_eq!(posted.expect("room"), index);
        };
        (0..4).for_each(|index| receive(&mut shared, index));
        let length = |pair: usize, round: u32| 500 * pair as u32 + 17 * round;
        for round in 0..ROUNDS {
            for (number, [here, _]) in connections.iter_mut().enumerate() {
                let piece = own.gather(SOURCE, length(number, round));
                here.send(piece, Some(round)).expect("posts");
            }
        }
        let mut rounds = [0; PAIRS];
        for next in 4..4 + u64::from(ROUNDS) * PAIRS as u64 {
            let message: Message = shared.wait(SOON).expect("comes");
            let of = |pairs: &[Pair; 2]| pairs[1].number() == message.pair;
            let number = connections.iter().position(of).expect("is one of ours");
            let round = rounds[number];
            assert_eq!(message.immediate, Some(round), "in order on each");
            assert_eq!(message.length, length(number, round), "{number}, {round}");
            let sent = own.bytes(SOURCE, message.length);
            assert_eq!(peer.bytes(place(message.index), message.length), sent);
            rounds[number] += 1;
            receive(&mut shared, next);
        }
        assert_eq!((rounds, shared.posted()), ([ROUNDS; PAIRS], 4));
        for [here, _] in &mut connections {
            here.quiet(SOON).expect("completes");
        }
        drop(connections);
        stage.stop();
    }
}

#[test]
fn a_queue_pair_that_fails_gives_back_what_it_had_taken_and_no_more() {
    for mode in Mode::ALL {
        let plan = Plan {
            link: Impairments {
                // A megabyte is under way for eight milliseconds.
                rate_bps: 1_000_000_000,
                ..Impairments::default()
            },
            ..Plan::timeless(mode)
        };
        let stage = Stage::new(&plan);
        let [own, peer] = &stage.sides;
        let mut shared = peer.endpoint.shared_receives().expect("is one");
        let mut connections = connections(&stage, &shared);
        for _ in 0..4 {
            let whole = peer.gather(TARGET, 1 << 20);
            shared.receive(&[whole]).expect("room");
        }
        own.fill(SOURCE, 1 << 20, 7);
        let [here, _] = &mut connections[0];
        here.send(own.gather(SOURCE, 1 << 20), None).expect("posts");
        let started = Instant::now();
        while peer.bytes(TARGET, 64) != own.bytes(SOURCE, 64) {
            (own.endpoint.idle())();
            assert!(started.elapsed() < SOON, "nothing arrives");
        }
        let [_, there] = &mut connections[0];
        there.become_state(State::Error).expect("may");
        let back = loop {
            if let Some(completed) = shared.poll() {
                break completed;
            }
            (own.endpoint.idle())();
            assert!(started.elapsed() < SOON, "nothing comes back");
        };
        let flushed = Completed::ReceiveFailed {
            index: 0,
            cause: Cause::Flushed,
        };
        assert_eq!(back, flushed);
        assert_eq!(shared.posted(), 3, "those of the others stay");
        let [here, _] = &mut connections[1];
        here.send(own.gather(SOURCE, 100), None).expect("posts");
        let message = shared.wait(SOON).expect("comes");
        assert_eq!((message.index, message.length), (1, 100));
        assert_eq!(message.pair, connections[1][1].number());
        drop(connections);
        stage.stop();
    }
}
