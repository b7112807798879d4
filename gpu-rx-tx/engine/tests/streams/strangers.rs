//! Frames that belong to no connection.

use std::mem::offset_of;

use warpwire_device::{COPY_AT, CopyBlock, CopyHead};
use warpwire_engine::streams::tables::{CLOSED, CONNECTED};
use warpwire_protocols::DropReason;
use warpwire_protocols::checksum::Policy;
use warpwire_protocols::tcp::Cause;
use warpwire_ring::DeviceAddress;

use crate::ends::{HOST_SLOTS, Plan, load, put, store};
use crate::net::Net;
use crate::wires::{Client, Memif, Wire, bytes_at};

type Memory = Memif<Client>;

/// By one warp and by several.
fn crews(check: impl Fn(Plan)) {
    for warps in [1, 2, 4] {
        check(Plan {
            warps,
            ..Plan::default()
        });
    }
}

/// The frame that opens a connection, and the net that it was on.
fn syn(plan: &Plan, port: u32) -> (Net<Memory>, u32, Vec<u8>) {
    let mut net = Net::<Memory>::new(plan, 1, false);
    let path = net.ends[0].path_to(&net.ends[1], 1000);
    let place = net.ends[0].connect(&net.clock, path, port).place;
    net.ends[0].run(&net.clock, 1);
    let frame = net.ends[0].wire.take().expect("was sent");
    net.ends[0].wire.complete();
    (net, place, frame)
}

/// What an end answers a frame with.
fn answers(net: &mut Net<Memory>, frame: &[u8]) -> Vec<Vec<u8>> {
    assert!(net.ends[1].wire.deliver(frame));
    net.ends[1].run(&net.clock, 1);
    let mut answers = Vec::new();
    while let Some(frame) = net.ends[1].wire.take() {
        net.ends[1].wire.complete();
        answers.push(frame);
    }
    answers
}

#[test]
fn nobody_refuses() {
    crews(|plan| {
        let (mut net, place, frame) = syn(&plan, 80);
        let answers = answers(&mut net, &frame);
        assert_eq!(answers.len(), 1);
        assert_eq!(
            answers[0][..12],
            [&net.ends[0].mac[..], &net.ends[1].mac].concat()
        );
        net.ends[0].wire.deliver(&answers[0]);
        net.ends[0].run(&net.clock, 1);
        assert_eq!(net.ends[0].flags(place) & (CONNECTED | CLOSED), CLOSED);
        assert_eq!(net.ends[0].cause(place), Cause::Refused as u32 + 1);
    });
}

#[test]
fn so_many_resets_in_a_second() {
    crews(|plan| {
        let (mut net, _, frame) = syn(&plan, 80);
        let count =
            |net: &mut Net<Memory>| (0..9).map(|_| answers(net, &frame).len()).sum::<usize>();
        assert_eq!(count(&mut net), 5);
        assert_eq!(count(&mut net), 0);
        net.clock.0.set(net.clock.0.get() + 1_000_000_000);
        assert_eq!(count(&mut net), 5);
        assert_eq!(net.ends[1].counters().resets_held, 17);
        assert_eq!(net.ends[1].counters().resets, 10);
    });
}

#[test]
fn checksums_are_looked_at() {
    crews(|plan| {
        let (_, _, whole) = syn(&plan, 80);
        let tcp_at = 34;
        let partial = |frame: &[u8]| {
            let mut frame = frame.to_vec();
            let length = (frame.len() - tcp_at) as u32;
            let words = frame[26..34].chunks(2);
            let halves = words.map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
            let sum = halves.sum::<u32>() + 6 + length;
            let sum = ((sum & 0xffff) + (sum >> 16)) as u16;
            frame[tcp_at + 16..tcp_at + 18].copy_from_slice(&sum.to_be_bytes());
            frame
        };
        let spoilt = |at: usize| {
            let mut frame = whole.clone();
            frame[at] ^= 0x40;
            frame
        };
        let (l4, ip) = (DropReason::L4Checksum, DropReason::Ipv4Checksum);
        for (frame, policy, want) in [
            (whole.clone(), Policy::Verify, None),
            (partial(&whole), Policy::Verify, Some(l4)),
            (partial(&whole), Policy::AcceptPartial, None),
            (spoilt(40), Policy::AcceptPartial, Some(l4)),
            (spoilt(40), Policy::Trust, None),
            (spoilt(18), Policy::Verify, Some(ip)),
        ] {
            let plan = Plan {
                policy: policy as u32,
                ..plan
            };
            let mut net = Net::<Memory>::new(&plan, 1, false);
            let count = answers(&mut net, &frame).len();
            assert_eq!(count, usize::from(want.is_none()), "{policy:?} {want:?}");
            let drops = net.ends[1].counters().drops;
            for (reason, found) in drops.iter().enumerate() {
                let is_wanted = want.is_some_and(|want| want.index() == reason);
                assert_eq!(*found, u64::from(is_wanted), "{reason}");
            }
        }
    });
}

fn arp() -> Vec<u8> {
    let mut frame = vec![0xff; 12];
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.resize(60, 0);
    frame
}

/// The bytes in a slot of a ring between engine and host.
fn slot(ring: DeviceAddress, index: u32) -> (CopyHead, Vec<u8>) {
    let at = slot_at(ring, index);
    let length = load(at, offset_of!(CopyHead, length));
    let kept = load(at, offset_of!(CopyHead, kept));
    let head = CopyHead {
        length,
        kept,
        ..CopyHead::default()
    };
    (head, bytes_at(at.offset(u64::from(COPY_AT)), kept))
}

fn slot_at(ring: DeviceAddress, index: u32) -> DeviceAddress {
    let at = bytes_at(ring.offset(offset_of!(CopyBlock, slots) as u64), 8);
    let at = u64::from_ne_bytes(at.try_into().expect("eight"));
    DeviceAddress::new(at + u64::from(index % HOST_SLOTS) * 2048)
}

#[test]
fn the_host_has_the_rest() {
    crews(|plan| {
        let (mut net, _, frame) = syn(&plan, 80);
        let mut elsewhere = frame.clone();
        // To another address; its checksum is the host's to look at.
        elsewhere[33] ^= 1;
        for frame in [arp(), elsewhere.clone()] {
            assert_eq!(answers(&mut net, &frame).len(), 0);
        }
        let slow = net.ends[1].slow;
        assert_eq!(load(slow, offset_of!(CopyBlock, written)), 2);
        assert_eq!(slot(slow, 0).1, arp());
        assert_eq!(slot(slow, 1).1, elsewhere);
        for _ in 0..HOST_SLOTS {
            answers(&mut net, &arp());
        }
        let counters = net.ends[1].counters();
        assert_eq!(
            (counters.slow, counters.slow_lost),
            (u64::from(HOST_SLOTS), 2)
        );
        store(slow, offset_of!(CopyBlock, read), 3);
        answers(&mut net, &arp());
        assert_eq!(net.ends[1].counters().slow, u64::from(HOST_SLOTS) + 1);
    });
}

#[test]
fn frames_of_the_host_leave_in_order() {
    crews(|plan| {
        let mut net = Net::<Memory>::new(&plan, 1, false);
        let inject = net.ends[1].inject;
        let mut sent = Vec::new();
        for round in 0..3u32 {
            for index in 0..HOST_SLOTS {
                let number = round * HOST_SLOTS + index;
                let frame: Vec<u8> = (0..60 + number * 50).map(|i| (i + number) as u8).collect();
                let at = slot_at(inject, number);
                let (length, kept) = (frame.len() as u32, frame.len() as u32);
                put(
                    at,
                    &[CopyHead {
                        length,
                        kept,
                        ..CopyHead::default()
                    }],
                );
                put(at.offset(u64::from(COPY_AT)), &frame);
                sent.push(frame);
            }
            store(
                inject,
                offset_of!(CopyBlock, written),
                (round + 1) * HOST_SLOTS,
            );
            net.ends[1].run(&net.clock, HOST_SLOTS);
            assert_eq!(
                load(inject, offset_of!(CopyBlock, read)),
                (round + 1) * HOST_SLOTS
            );
        }
        for frame in sent {
            assert_eq!(net.ends[1].wire.take(), Some(frame));
            net.ends[1].wire.complete();
        }
        assert_eq!(net.ends[1].counters().injected, u64::from(3 * HOST_SLOTS));
        // A length that no slot has is refused, and those behind it go on.
        put(
            slot_at(inject, 0),
            &[CopyHead {
                kept: 5000,
                ..CopyHead::default()
            }],
        );
        put(
            slot_at(inject, 1),
            &[CopyHead {
                kept: 60,
                ..CopyHead::default()
            }],
        );
        store(inject, offset_of!(CopyBlock, written), 3 * HOST_SLOTS + 2);
        net.ends[1].run(&net.clock, 2);
        assert_eq!(net.ends[1].counters().inject_refused, 1);
        assert_eq!(net.ends[1].wire.take().map(|frame| frame.len()), Some(60));
    });
}
