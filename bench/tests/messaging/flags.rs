//! What a request may say besides its operation, as it looks on the wire and to the application:
//! fences, solicited events, silence; no bytes, bytes in the queue, bytes in many odd pieces.

use warpwire::pipelines::messaging::{Completed, Gather, Order, Pair, Payload, Work};
use warpwire_nic::soft::Impairments;
use warpwire_protocols::rdma::{Attributes, Mtu};
use warpwire_protocols::wire::opcode as wire_opcode;
use warpwire_ring::Cause;
use warpwire_ring::mlx5::layout::Opcode;

use crate::ends::{Mode, Plan, SOURCE, Side, Stage, TARGET, WRITTEN, over_ipv6, sent, wait};
use crate::wire::{Frame, Wire};

fn to(opcode: Opcode, side: &Side, at: u64) -> Order {
    Order {
        address: side.region.address + at,
        key: side.region.key,
        ..Order::new(opcode)
    }
}

fn post(pair: &mut Pair, order: Order, pieces: &[Gather]) -> u64 {
    let payload = Payload::Pieces(pieces);
    pair.post(&[Work { order, payload }]).expect("room")
}

fn place(frames: &[Frame], opcode: wire_opcode::Opcode) -> Vec<usize> {
    let of = |(place, frame): (usize, &Frame)| (frame.opcode() == opcode.value()).then_some(place);
    frames.iter().enumerate().filter_map(of).collect()
}

#[test]
fn a_fenced_request_begins_behind_all_reads_and_atomics() {
    for mode in Mode::ALL {
        for is_fenced in [true, false] {
            let plan = Plan {
                link: Impairments {
                    // Long enough that a request could be sent before an answer is there.
                    delay_ns: 50_000,
                    ..Impairments::default()
                },
                ..Plan::timeless(mode)
            };
            let stage = Stage::new(&plan);
            let [mut one, mut other] = stage.pairs();
            let [own, peer] = &stage.sides;
            let wire = Wire::between(&stage);
            peer.fill(SOURCE, 3000, 6);
            own.fill(TARGET, 3000, 7);
            other.receive(&[peer.gather(TARGET, 4096)]).expect("room");
            let quiet = |order| Order {
                signal: false,
                ..order
            };
            post(
                &mut one,
                quiet(to(Opcode::FETCH_ADD, peer, WRITTEN)),
                &[own.gather(WRITTEN, 8)],
            );
            post(
                &mut one,
                quiet(to(Opcode::READ, peer, SOURCE)),
                &[own.gather(TARGET, 3000)],
            );
            let order = Order {
                fence: is_fenced,
                ..Order::new(Opcode::SEND)
            };
            post(&mut one, order, &[own.gather(TARGET, 3000)]);
            sent(&mut one);
            assert!(matches!(wait(&mut other), Completed::Received(_)));
            let frames = wire.take();
            let last = place(&frames, wire_opcode::Opcode::READ_RESPONSE_LAST);
            let first = place(&frames, wire_opcode::Opcode::SEND_FIRST);
            assert_eq!((last.len(), first.len()), (1, 1), "{mode:?}");
            assert_eq!(first > last, is_fenced, "{mode:?}");
            let is_fresh = peer.bytes(TARGET, 3000) == peer.bytes(SOURCE, 3000);
            assert_eq!(is_fresh, is_fenced, "{mode:?}");
            drop((one, other));
            stage.stop();
        }
    }
}

#[test]
fn the_last_packet_of_a_solicited_message_says_so() {
    for mode in Mode::ALL {
        let stage = Stage::new(&Plan::timeless(mode));
        let [mut one, mut other] = stage.pairs();
        let [own, peer] = &stage.sides;
        let wire = Wire::between(&stage);
        for (opcode, length) in [
            (Opcode::SEND, 0),
            (Opcode::SEND, 5),
            (Opcode::SEND_IMM, 3000),
            (Opcode::WRITE_IMM, 2048),
        ] {
            for solicited in [true, false] {
                other.receive(&[peer.gather(TARGET, 4096)]).expect("room");
                let order = Order {
                    solicited,
                    ..to(opcode, peer, WRITTEN)
                };
                let pieces = [own.gather(SOURCE, length)];
                let pieces = &pieces[usize::from(length == 0)..];
                post(&mut one, order, pieces);
                sent(&mut one);
                assert!(matches!(wait(&mut other), Completed::Received(_)));
                let mut frames = wire.take();
                frames.retain(|frame| frame.from == 0);
                assert_eq!(frames.len(), length.div_ceil(1024).max(1) as usize);
                let flags: Vec<bool> = frames.iter().map(Frame::is_solicited).collect();
                let (last, before) = flags.split_last().expect("some");
                assert_eq!(*last, solicited, "{mode:?} {opcode:?} {length}");
                assert!(!before.contains(&true), "{mode:?} {opcode:?} {length}");
            }
        }
        drop((one, other));
        stage.stop();
    }
}

#[test]
fn requests_that_nobody_asked_about_are_told_of_if_they_fail() {
    for mode in Mode::ALL {
        let stage = Stage::new(&Plan::timeless(mode));
        let [mut one, other] = stage.pairs();
        let [own, peer] = &stage.sides;
        let piece = own.gather(SOURCE, 64);
        let quiet = |order| Order {
            signal: false,
            ..order
        };
        let good = quiet(to(Opcode::WRITE, peer, WRITTEN));
        for _ in 0..3 {
            post(&mut one, good, &[piece]);
        }
        let told = post(&mut one, to(Opcode::WRITE, peer, WRITTEN), &[piece]);
        assert_eq!(wait(&mut one), Completed::Sent { index: told });
        assert_eq!(one.free_sends(), one.send_slots(), "one for all before it");
        post(&mut one, good, &[piece]);
        let bad = Order {
            key: good.key ^ 0x55,
            ..good
        };
        let first = post(&mut one, bad, &[piece]);
        let second = post(&mut one, good, &[piece]);
        let failed = |index, cause| Completed::SendFailed { index, cause };
        assert_eq!(wait(&mut one), failed(first, Cause::RemoteAccess));
        assert_eq!(wait(&mut one), failed(second, Cause::Flushed));
        assert_eq!(one.poll(), None);
        drop((one, other));
        stage.stop();
    }
}

#[test]
fn messages_without_bytes_do_what_others_do() {
    for mode in Mode::ALL {
        let stage = Stage::new(&Plan::timeless(mode));
        let [mut one, mut other] = stage.pairs();
        let [own, peer] = &stage.sides;
        let at = peer.memory.whole().address.offset(WRITTEN);
        let region = peer
            .endpoint
            .register(at, 64, warpwire_protocols::rdma::Access::ALL, 9)
            .expect("fits");
        peer.endpoint
            .let_peers_invalidate(&region)
            .expect("is there");
        // Where nothing is moved, no key is asked for.
        let nowhere = |opcode| Order {
            key: 0,
            address: 0,
            immediate: 0xfeed,
            ..Order::new(opcode)
        };
        let takes_away = Order {
            immediate: region.key,
            ..Order::new(Opcode::SEND_INVALIDATE)
        };
        let cases = [
            (nowhere(Opcode::SEND), true),
            (nowhere(Opcode::SEND_IMM), true),
            (takes_away, true),
            (nowhere(Opcode::WRITE), false),
            (nowhere(Opcode::WRITE_IMM), true),
            (nowhere(Opcode::READ), false),
        ];
        for (order, is_told) in cases {
            for payload in [Payload::Pieces(&[]), Payload::Inline(&[])] {
                let opcode = order.opcode;
                if opcode == Opcode::READ && matches!(payload, Payload::Inline(_)) {
                    continue;
                }
                let is_gone = !peer.endpoint.has_key(&region).expect("is there");
                if opcode == Opcode::SEND_INVALIDATE && is_gone {
                    continue;
                }
                if is_told {
                    // A receive without room holds nothing as well.
                    other.receive(&[]).expect("room");
                }
                one.post(&[Work { order, payload }]).expect("room");
                sent(&mut one);
                if !is_told {
                    assert_eq!(other.poll(), None, "{opcode:?}");
                    continue;
                }
                let Completed::Received(message) = wait(&mut other) else {
                    panic!("{opcode:?}: not a message");
                };
                let with = |one| [Opcode::SEND_IMM, Opcode::WRITE_IMM].contains(&one);
                assert_eq!(message.length, 0);
                assert_eq!(message.immediate, with(opcode).then_some(0xfeed));
                assert_eq!(message.is_write, opcode == Opcode::WRITE_IMM);
                let taken = (opcode == Opcode::SEND_INVALIDATE).then_some(region.key);
                assert_eq!(message.invalidate, taken);
            }
        }
        assert_eq!(peer.endpoint.has_key(&region).ok(), Some(false));
        drop((one, other));
        own.endpoint.step();
        stage.stop();
    }
}

#[test]
fn bytes_in_the_queue_go_with_every_operation_that_sends() {
    for mode in Mode::ALL {
        let stage = Stage::new(&Plan::timeless(mode));
        let [mut one, mut other] = stage.pairs();
        let [_, peer] = &stage.sides;
        let bytes: Vec<u8> = (0..900u32).map(|number| (number * 7 + 3) as u8).collect();
        // Up to what a request has room for.
        for length in [1, 3, 12, 13, 44, 60, 61, 255, 256, 257, 900] {
            let bytes = &bytes[..length];
            for opcode in [
                Opcode::SEND,
                Opcode::SEND_IMM,
                Opcode::WRITE,
                Opcode::WRITE_IMM,
            ] {
                for at in [TARGET, WRITTEN] {
                    peer.fill(at, 1024, opcode.0);
                }
                let before = peer.bytes(TARGET, 1024);
                let is_write = [Opcode::WRITE, Opcode::WRITE_IMM].contains(&opcode);
                if opcode != Opcode::WRITE {
                    other.receive(&[peer.gather(TARGET, 1024)]).expect("room");
                }
                let order = to(opcode, peer, WRITTEN);
                let payload = Payload::Inline(bytes);
                one.post(&[Work { order, payload }]).expect("room");
                sent(&mut one);
                let at = if is_write { WRITTEN } else { TARGET };
                assert_eq!(peer.bytes(at, length as u32), bytes, "{mode:?} {opcode:?}");
                let behind = peer.bytes(at, 1024).split_off(length);
                assert_eq!(behind, before[length..], "and none behind");
                if opcode != Opcode::WRITE {
                    assert!(matches!(wait(&mut other), Completed::Received(_)));
                }
            }
        }
        drop((one, other));
        stage.stop();
    }
}

/// Pieces of these lengths one behind the other, with a hole behind each.
fn scattered(side: &Side, at: u64, lengths: &[u32]) -> Vec<Gather> {
    let mut at = at;
    let mut piece = |length: &u32| {
        let piece = side.gather(at, *length);
        at += u64::from(*length) + 5;
        piece
    };
    lengths.iter().map(&mut piece).collect()
}

/// What lies in them, and whether the holes are as they were.
fn gathered(side: &Side, at: u64, lengths: &[u32]) -> Vec<u8> {
    let mut at = at;
    let mut bytes = Vec::new();
    for length in lengths {
        bytes.extend(side.bytes(at, *length));
        at += u64::from(*length);
        assert_eq!(side.bytes(at, 5), [0xee; 5], "a hole");
        at += 5;
    }
    bytes
}

#[test]
fn pieces_of_odd_lengths_on_both_sides() {
    let total = 13_001u32;
    let cut = |cuts: [u32; 3]| {
        let last = total - cuts.iter().sum::<u32>();
        [cuts[0], cuts[1], cuts[2], last]
    };
    let cuttings = [
        cut([1, 2, 3]),
        cut([1023, 1, 1025]),
        cut([4095, 4097, 7]),
        cut([3333, 3333, 3333]),
        cut([1, 12_990, 1]),
    ];
    let small = "mtu=9000,slot=9280,segments=5";
    for (number, mode) in Mode::ALL.into_iter().enumerate() {
        for (mtu, options) in [(Mtu::M256, crate::ends::LARGE), (Mtu::M4096, small)] {
            let plan = Plan {
                options,
                attributes: Attributes {
                    mtu,
                    ..Attributes::default()
                },
                route: if number == 1 { over_ipv6 } else { |_| {} },
                ..Plan::new(mode)
            };
            let stage = Stage::new(&plan);
            let [mut one, mut other] = stage.pairs();
            let [own, peer] = &stage.sides;
            let holes = vec![0xee; 1 << 15];
            let mut seed = 0;
            for from in &cuttings {
                for into in &cuttings {
                    seed += 1;
                    own.fill(SOURCE, 1 << 15, seed);
                    let source = scattered(own, SOURCE, from);
                    let mut sent_bytes = Vec::new();
                    for piece in &source {
                        let at = piece.address - own.region.address;
                        sent_bytes.extend(own.bytes(at, piece.length));
                    }
                    let at = peer.memory.whole().address.offset(TARGET);
                    peer.memory.write(at, &holes).expect("inside");
                    other.receive(&scattered(peer, TARGET, into)).expect("room");
                    post(&mut one, Order::new(Opcode::SEND), &source);
                    sent(&mut one);
                    assert!(matches!(wait(&mut other), Completed::Received(_)));
                    assert!(
                        gathered(peer, TARGET, into) == sent_bytes,
                        "{mode:?} {mtu:?}"
                    );
                    // Written in one piece there, and read back into as many here.
                    post(&mut one, to(Opcode::WRITE, peer, WRITTEN), &source);
                    sent(&mut one);
                    assert!(peer.bytes(WRITTEN, total) == sent_bytes, "{mode:?} {mtu:?}");
                    let at = own.memory.whole().address.offset(TARGET);
                    own.memory.write(at, &holes).expect("inside");
                    let back = scattered(own, TARGET, into);
                    post(&mut one, to(Opcode::READ, peer, WRITTEN), &back);
                    sent(&mut one);
                    assert!(
                        gathered(own, TARGET, into) == sent_bytes,
                        "{mode:?} {mtu:?}"
                    );
                }
            }
            drop((one, other));
            stage.stop();
        }
    }
}
