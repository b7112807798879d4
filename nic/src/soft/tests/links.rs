//! Links that hold, harm and lose frames; the same seed does the same.

use super::frames::{Build, packet, plain};
use super::rig::{Rig, lost, other, seeds};
use crate::soft::{AdapterConfig, Dice, Drop, Impairments};

fn numbered(number: u32) -> Vec<u8> {
    let mut payload = vec![0; 80];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    plain([2; 6], [4; 6], &payload)
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes([frame[14], frame[15], frame[16], frame[17]])
}

/// Small buffers: frames here have 94 bytes.
fn config() -> AdapterConfig {
    AdapterConfig {
        depth: 512,
        slot_bytes: 256,
        max_frame_bytes: 256,
        ..AdapterConfig::default()
    }
}

/// Sends `count` frames, one each 100 ns, and returns those that arrive with their times.
fn scene(seed: u64, impairments: Impairments, count: u32) -> (Rig, Vec<(u64, Vec<u8>)>) {
    let mut rig = Rig::pair("links", seed, &config());
    rig.fabric.impair(rig.nics[1].port(), impairments);
    let mut arrived = Vec::new();
    for n in 0..count {
        arrive_until(&mut rig, u64::from(n) * 100, &mut arrived);
        rig.send(0, &numbered(n)).expect("room");
        rig.run();
        take(&mut rig, &mut arrived);
    }
    arrive_until(&mut rig, u64::MAX, &mut arrived);
    assert_eq!(rig.fabric.under_way(), 0);
    (rig, arrived)
}

/// Turns the clock from arrival to arrival, up to a time.
fn arrive_until(rig: &mut Rig, limit_ns: u64, arrived: &mut Vec<(u64, Vec<u8>)>) {
    while let Some(due_ns) = rig
        .fabric
        .next_event_ns()
        .filter(|&due_ns| due_ns <= limit_ns)
    {
        rig.turn_to(due_ns);
        rig.run();
        take(rig, arrived);
    }
    if limit_ns < u64::MAX {
        rig.turn_to(limit_ns);
    }
}

fn take(rig: &mut Rig, arrived: &mut Vec<(u64, Vec<u8>)>) {
    let taken = rig.take_all(1).into_iter();
    arrived.extend(taken.map(|(frame, meta)| (meta.timestamp_ns, frame)));
}

fn any_impairments(dice: &mut Dice) -> Impairments {
    let mut some = |bound: u64| {
        if dice.below(2) == 0 {
            0
        } else {
            dice.below(bound)
        }
    };
    Impairments {
        rate_bps: some(20_000_000_000),
        queue_bytes: 2_000 + some(20_000),
        delay_ns: some(5_000),
        jitter_ns: some(500),
        loss_ppm: some(200_000) as u32,
        duplicate_ppm: some(200_000) as u32,
        reorder_ppm: some(200_000) as u32,
        reorder_ns: some(2_000),
        corrupt_ppm: some(200_000) as u32,
        ecn_ppm: some(200_000) as u32,
        ecn_queue_bytes: some(2_000),
    }
}

#[test]
fn nothing_is_lost_uncounted_and_the_same_seed_does_the_same() {
    let mut differ = 0;
    for seed in seeds(64) {
        let impairments = any_impairments(&mut Dice::new(seed));
        let (rig, arrived) = scene(seed, impairments, 300);
        let counters = rig.counters(1);
        let twice = other(&counters, "duplicated on the link");
        let total = arrived.len() as u64 + counters.dropped();
        assert_eq!(total, 300 + twice, "{impairments:?} {counters:?}");
        let times: Vec<u64> = arrived.iter().map(|(time, _)| *time).collect();
        assert!(times.is_sorted(), "{impairments:?}");
        let (_, again) = scene(seed, impairments, 300);
        assert_eq!(arrived, again, "seed {seed}: {impairments:?}");
        let (_, another) = scene(seed + 1000, impairments, 300);
        differ += u32::from(another != arrived);
    }
    assert!(differ > 0, "the seed decides");
}

#[test]
fn each_impairment_does_what_it_says() {
    let none = Impairments::default();
    let cases: [(&str, Impairments, Option<Drop>, &str); 6] = [
        (
            "loss",
            Impairments {
                loss_ppm: 300_000,
                ..none
            },
            Some(Drop::Lost),
            "",
        ),
        (
            "duplicate",
            Impairments {
                duplicate_ppm: 300_000,
                ..none
            },
            None,
            "duplicated on the link",
        ),
        (
            "reorder",
            Impairments {
                reorder_ppm: 300_000,
                reorder_ns: 1000,
                ..none
            },
            None,
            "reordered on the link",
        ),
        (
            "corrupt",
            Impairments {
                corrupt_ppm: 300_000,
                ..none
            },
            None,
            "corrupted on the link",
        ),
        (
            "jitter",
            Impairments {
                jitter_ns: 5_000,
                ..none
            },
            None,
            "",
        ),
        (
            "delay",
            Impairments {
                delay_ns: 12_345,
                ..none
            },
            None,
            "",
        ),
    ];
    for (name, impairments, reason, counter) in cases {
        let (rig, arrived) = scene(5, impairments, 1000);
        let counters = rig.counters(1);
        let dropped = reason.map_or(0, |reason| lost(&counters, reason));
        assert_eq!(dropped, counters.dropped(), "{name}");
        let event = if counter.is_empty() {
            0
        } else {
            other(&counters, counter)
        };
        let hits = dropped + event;
        let quiet = name == "delay" || name == "jitter";
        assert!(
            quiet || (250..350).contains(&hits),
            "{name}: {hits} of 1000"
        );
        let order: Vec<u32> = arrived.iter().map(|(_, frame)| number(frame)).collect();
        let whole = arrived
            .iter()
            .filter(|(_, frame)| *frame == numbered(number(frame)))
            .count();
        assert_eq!(
            order.is_sorted(),
            name != "reorder" && name != "corrupt",
            "{name}"
        );
        assert_eq!(whole < arrived.len(), name == "corrupt", "{name}");
        if name == "delay" {
            let times = arrived.iter().zip(0u64..);
            assert!(
                times
                    .clone()
                    .all(|((time, _), n)| *time == n * 100 + 12_345)
            );
        }
    }
}

#[test]
fn one_bit_flips_behind_the_ethernet_header() {
    let (_, arrived) = scene(
        3,
        Impairments {
            corrupt_ppm: 1_000_000,
            ..Impairments::default()
        },
        200,
    );
    for ((_, frame), n) in arrived.iter().zip(0..) {
        let flips: u32 = frame
            .iter()
            .zip(&numbered(n))
            .map(|(a, b)| (a ^ b).count_ones())
            .sum();
        assert_eq!((flips, &frame[..14]), (1, &numbered(n)[..14]));
    }
}

#[test]
fn a_limited_link_spaces_frames_and_its_queue_ends() {
    // 94 bytes and 24 of the wire at 1 Gbit/s: 944 ns a frame.
    let rate = Impairments {
        rate_bps: 1_000_000_000,
        queue_bytes: 1 << 20,
        ..Impairments::default()
    };
    let (_, arrived) = scene(1, rate, 100);
    let times: Vec<u64> = arrived.iter().map(|(time, _)| *time).collect();
    let want: Vec<u64> = (1..=100).map(|n| n * 944).collect();
    assert_eq!(times, want);
    let (rig, arrived) = scene(
        1,
        Impairments {
            queue_bytes: 1000,
            ..rate
        },
        100,
    );
    let full = lost(&rig.counters(1), Drop::LinkFull);
    assert_eq!(arrived.len() as u64 + full, 100);
    assert!(
        (60..90).contains(&full),
        "{full} of 100 found the queue full"
    );
}

#[test]
fn congestion_is_marked_where_the_sender_understands() {
    let config = config();
    let cases = [
        (
            "queue",
            Impairments {
                rate_bps: 1_000_000_000,
                ecn_queue_bytes: 1,
                ..Default::default()
            },
        ),
        (
            "always",
            Impairments {
                ecn_ppm: 1_000_000,
                ..Default::default()
            },
        ),
    ];
    for (name, impairments) in cases {
        for (v6, ecn) in [(false, 0), (false, 1), (false, 2), (true, 0), (true, 2)] {
            let mut rig = Rig::pair(
                "congestion_is_marked_where_the_sender_understands",
                1,
                &config,
            );
            rig.fabric.impair(rig.nics[1].port(), impairments);
            let sent = packet(Build {
                v6,
                ecn,
                ..Build::default()
            });
            for _ in 0..2 {
                rig.send(0, &sent.bytes).expect("sends");
            }
            rig.run_out();
            let taken = rig.take_all(1);
            let (got, meta) = &taken[1];
            let class = sent.network_at + 1;
            let bits = if v6 {
                got[class] >> 4 & 3
            } else {
                got[class] & 3
            };
            assert_eq!(
                bits,
                if ecn == 0 { 0 } else { 3 },
                "{name} v6 {v6} ecn {ecn}"
            );
            assert!(
                meta.present.contains(warpwire_ring::MetaFlags::L3_OK),
                "{name}"
            );
            let marked = other(&rig.counters(1), "marked on the link");
            let want = match (name, ecn) {
                (_, 0) => 0,
                ("queue", _) => 1,
                _ => 2,
            };
            assert_eq!(marked, want, "{name} v6 {v6} ecn {ecn}");
        }
    }
}

#[test]
fn a_fabric_out_of_buffers_counts() {
    let (rig, arrived) = scene(
        1,
        Impairments {
            delay_ns: 1_000_000,
            ..Default::default()
        },
        300,
    );
    let full = lost(&rig.counters(1), Drop::FabricFull);
    assert_eq!((arrived.len() as u64, full), (256, 44));
}
