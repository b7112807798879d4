//! At the bounds of queues: full, overfull, around often, many at once.

use std::collections::BTreeSet;
use std::time::Duration;

use warpwire::pipelines::messaging::{EndpointConfig, Pair, Payload, Request, Signal, Update};
use warpwire_nic::soft::Impairments;
use warpwire_ring::Cause;

use crate::ends::{Mode, Plan, SIGNALS, SOON, SOURCE, Stage, TARGET, WRITTEN};
use crate::wire::Wire;

fn small(mode: Mode) -> Plan {
    Plan {
        config: EndpointConfig {
            log_send: 4,
            log_receive: 4,
            ..EndpointConfig::default()
        },
        ..Plan::new(mode)
    }
}

#[test]
fn exactly_depth_one_more_and_twice_as_many() {
    // Nobody steps these engines while requests are posted.
    let stage = Stage::new(&small(Mode::Fused));
    let [mut one, mut other] = stage.pairs();
    let [own, peer] = &stage.sides;
    let depth = u64::from(one.send_slots());
    let add = Signal {
        at: peer.remote(SIGNALS),
        update: Update::Add(1),
    };
    for round in 1..=3 {
        for _ in 0..depth {
            one.signal(add).expect("there is room");
        }
        assert_eq!(one.free_sends(), 0);
        let cause = one.signal(add).err().and_then(|error| error.cause());
        assert_eq!(cause, Some(Cause::NoResource), "one more");
        one.quiet(SOON).expect("completes");
        assert_eq!(one.free_sends(), depth as u32);
        assert_eq!(
            peer.word(SIGNALS),
            round * depth,
            "no more than were posted"
        );
    }
    // Twice as many, by who waits for room.
    let requests = 2 * depth;
    for number in 0..requests {
        let bytes = number.to_le_bytes();
        let at = peer.remote(WRITTEN + number * 8);
        let request = Request::put(Payload::Inline(&bytes), at);
        one.post_waiting(&request, SOON).expect("room comes");
    }
    one.quiet(SOON).expect("completes");
    for number in 0..requests {
        assert_eq!(peer.word(WRITTEN + number * 8), number);
    }
    // Requests of several slots, at every place of the ring.
    let long = [0xa5; 150];
    for number in 0..2 * depth {
        let request = Request::put(Payload::Inline(&long), peer.remote(WRITTEN)).then(add);
        one.post_waiting(&request, SOON).expect("room comes");
        one.put_inline(&[number as u8], peer.remote(WRITTEN + 200))
            .or_else(|_| {
                one.quiet(SOON)?;
                one.put_inline(&[number as u8], peer.remote(WRITTEN + 200))
            })
            .expect("room comes");
    }
    one.quiet(SOON).expect("completes");
    assert_eq!(peer.word(SIGNALS), 5 * depth);
    assert_eq!(peer.bytes(WRITTEN, 150), long);
    // Receives.
    for _ in 0..depth {
        other.receive(&[peer.gather(TARGET, 64)]).expect("room");
    }
    let outcome = other.receive(&[peer.gather(TARGET, 64)]);
    let cause = outcome.err().and_then(|error| error.cause());
    assert_eq!(cause, Some(Cause::NoResource));
    for number in 0..2 * depth {
        one.send(own.gather(SOURCE, 8), Some(number as u32))
            .expect("room");
        let message = other.wait_message(SOON).expect("comes");
        assert_eq!(message.immediate, Some(number as u32));
        assert_eq!(message.index, number);
        other.receive(&[peer.gather(TARGET, 64)]).expect("room");
        one.quiet(SOON).expect("completes");
    }
    drop((one, other));
    stage.stop();
}

#[test]
fn twice_hundred_thousand_messages_on_one_queue_pair() {
    const MESSAGES: u32 = 200_000;
    for mode in Mode::ALL {
        let stage = Stage::new(&Plan::new(mode));
        let [mut one, mut other] = stage.pairs();
        let [own, peer] = &stage.sides;
        let started = std::time::Instant::now();
        for _ in 0..other.free_receives() {
            other.receive(&[peer.gather(TARGET, 64)]).expect("room");
        }
        let piece = [own.gather(SOURCE, 8)];
        let (mut sent, mut received) = (0, 0);
        while received < MESSAGES {
            // As many as fit; then what came.
            while sent < MESSAGES && sent - received < 200 {
                let request = Request::send(Payload::Pieces(&piece), Some(sent));
                one.post_waiting(&request, SOON).expect("room comes");
                sent += 1;
            }
            let message = other.wait_message(SOON).expect("comes");
            assert_eq!(message.immediate, Some(received), "once and in order");
            other.receive(&[peer.gather(TARGET, 64)]).expect("room");
            received += 1;
        }
        one.quiet(SOON).expect("completes");
        println!("{mode:?}: {:?}", started.elapsed());
        drop((one, other));
        stage.stop();
    }
}

#[test]
fn queue_pairs_at_once_with_source_ports_of_their_own() {
    const PAIRS: usize = 256;
    let plan = Plan {
        config: EndpointConfig {
            pairs: PAIRS as u32,
            log_send: 4,
            log_receive: 2,
            ..EndpointConfig::default()
        },
        ..Plan::new(Mode::Sliced)
    };
    let stage = Stage::new(&plan);
    let wire = Wire::between(&stage);
    let mut connections: Vec<[Pair; 2]> = (0..PAIRS)
        .map(|number| {
            let mut pairs = [stage.sides[0].pair(), stage.sides[1].pair()];
            stage.connect(&mut pairs, 0xc000 + number as u16);
            pairs
        })
        .collect();
    assert!(stage.sides[0].endpoint.pair(Default::default()).is_err());
    let [own, peer] = &stage.sides;
    own.fill(SOURCE, 4096, 4);
    for (number, [here, _]) in connections.iter_mut().enumerate() {
        let at = peer.remote(WRITTEN + number as u64 * 3000);
        let signal = Signal {
            at: peer.remote(SIGNALS),
            update: Update::Add(1),
        };
        let bytes = own.gather(SOURCE + number as u64, 2900);
        here.put_signal(bytes, at, signal).expect("posts");
    }
    for [here, _] in &mut connections {
        here.quiet(SOON).expect("completes");
    }
    assert_eq!(peer.word(SIGNALS), PAIRS as u64);
    for number in 0..PAIRS as u64 {
        let sent = own.bytes(SOURCE + number, 2900);
        assert_eq!(peer.bytes(WRITTEN + number * 3000, 2900), sent, "{number}");
    }
    let wanted: BTreeSet<u16> = (0..PAIRS as u16).map(|number| 0xc000 + number).collect();
    let ports: BTreeSet<u16> = wire
        .take()
        .iter()
        .map(|frame| frame.source_port())
        .collect();
    assert_eq!(ports, wanted);
    drop(connections);
    stage.stop();
}

#[test]
fn signals_come_after_their_data_whatever_the_link_does() {
    use warpwire_gpu::executor::Time;
    use warpwire_nic::soft::Dice;
    use warpwire_protocols::rdma::{Attributes, Mtu};
    const BLOCKS: u64 = 24;
    const BLOCK: u64 = 6000;
    // By turns going back to what was lost, and repeating it alone.
    for seed in 0..12 {
        let plan = Plan {
            time: Time::Virtual { seed },
            seed,
            attributes: Attributes {
                mtu: Mtu::M256,
                timeout: 6,
                selective: seed % 2 == 1,
                ..Attributes::default()
            },
            link: Impairments {
                delay_ns: 3000,
                loss_ppm: 20_000,
                duplicate_ppm: 20_000,
                reorder_ppm: 50_000,
                reorder_ns: 40_000,
                corrupt_ppm: 5000,
                ..Impairments::default()
            },
            ..Plan::new(Mode::Sliced)
        };
        let stage = Stage::new(&plan);
        let [mut one, other] = stage.pairs();
        let [own, peer] = &stage.sides;
        let mut dice = Dice::new(seed);
        own.fill(SOURCE, (BLOCKS * BLOCK) as u32, seed as u8 | 1);
        let mut blocks = Vec::new();
        for number in 0..BLOCKS {
            let length = 1 + dice.below(BLOCK - 1) as u32;
            // Sets and additions by turns, on words of their own.
            let (word, update) = match number % 2 {
                0 => (0, Update::Add(1)),
                _ => (8, Update::Set(number.div_ceil(2))),
            };
            let at = number * BLOCK;
            let bytes = own.gather(SOURCE + at, length);
            let signal = Signal {
                at: peer.remote(SIGNALS + word),
                update,
            };
            one.put_signal(bytes, peer.remote(WRITTEN + at), signal)
                .expect("room");
            blocks.push((at, length));
        }
        let mut seen = 0;
        for _ in 0..20_000 {
            let (added, set) = (peer.word(SIGNALS), peer.word(SIGNALS + 8));
            assert!(added == set || added == set + 1, "in order: {added} {set}");
            let now = added + set;
            assert!(now >= seen, "no signal is undone");
            for &(at, length) in &blocks[seen as usize..now as usize] {
                let sent = own.bytes(SOURCE + at, length);
                assert!(peer.bytes(WRITTEN + at, length) == sent, "seed {seed}");
            }
            seen = now;
            if seen == BLOCKS {
                break;
            }
            let step = Duration::from_micros(5);
            stage.executor.advance(step).expect("goes on");
        }
        assert_eq!(seen, BLOCKS, "seed {seed}");
        one.quiet(SOON).expect("completes");
        assert_eq!(peer.word(SIGNALS), BLOCKS / 2, "once each");
        drop((one, other));
        stage.stop();
    }
}
