//! What hardware does for the driver: checksums, spreading, tags, rules, time of arrival.

use std::collections::BTreeMap;

use warpwire_ring::{MetaFlags, PostFlags};

use super::frames::{Build, packet};
use super::rig::Rig;
use crate::host_port::SendOptions;
use crate::soft::{AdapterConfig, FlowRule, Offloads};

fn shapes() -> Vec<Build> {
    let mut shapes = Vec::new();
    for v6 in [false, true] {
        for tcp in [false, true] {
            for tags in [0, 1, 2] {
                for payload in [0, 1, 26, 1001] {
                    shapes.push(Build {
                        v6,
                        tcp,
                        tags,
                        payload,
                        ..Build::default()
                    });
                }
            }
        }
    }
    shapes
}

#[test]
fn checksums_are_filled_in_as_the_book_says() {
    let mut rig = Rig::pair(
        "checksums_are_filled_in_as_the_book_says",
        1,
        &AdapterConfig::default(),
    );
    for build in shapes() {
        let right = packet(build);
        let mut blank = right.bytes.clone();
        let holes = [
            (right.checksum_at, true),
            (right.network_at + 10, !build.v6),
        ];
        for (at, there) in holes {
            if there {
                blank[at..at + 2].copy_from_slice(&[0x12, 0x34]);
            }
        }
        let offloads = PostFlags::OFFLOAD_L3 | PostFlags::OFFLOAD_L4;
        let options = SendOptions {
            offloads,
            parts: 3,
            ..SendOptions::default()
        };
        rig.send_with(0, &blank, options).expect("sends");
        rig.run();
        let (got, meta) = rig.take(1, 0).expect("arrives");
        assert_eq!(got[..right.bytes.len()], right.bytes, "{build:?}");
        let fine = MetaFlags::L3_OK | MetaFlags::L4_OK;
        assert!(meta.present.contains(fine), "{build:?}");
    }
}

#[test]
fn checksums_are_checked_and_a_flipped_bit_is_seen() {
    let mut rig = Rig::pair(
        "checksums_are_checked_and_a_flipped_bit_is_seen",
        1,
        &AdapterConfig::default(),
    );
    for build in shapes() {
        let right = packet(build);
        let spoiled_at = [
            ("nothing", None, true, true),
            ("network", Some(right.network_at + 8), build.v6, true),
            ("transport", Some(right.transport_at + 1), true, false),
            ("sum", Some(right.checksum_at), true, false),
        ];
        for (name, at, network, transport) in spoiled_at {
            if name == "network" && build.v6 {
                continue;
            }
            let mut frame = right.bytes.clone();
            if let Some(at) = at {
                frame[at] ^= 0x10;
            }
            rig.send(0, &frame).expect("sends");
            rig.run();
            let (_, meta) = rig.take(1, 0).expect("arrives");
            assert!(
                meta.present
                    .contains(MetaFlags::L3_CHECKED | MetaFlags::L4_CHECKED)
            );
            assert_eq!(
                meta.present.contains(MetaFlags::L3_OK),
                network,
                "{build:?} {name}"
            );
            assert_eq!(
                meta.present.contains(MetaFlags::L4_OK),
                transport,
                "{build:?} {name}"
            );
        }
    }
}

#[test]
fn what_has_no_transport_checksum_is_not_checked() {
    let mut rig = Rig::pair(
        "what_has_no_transport_checksum_is_not_checked",
        1,
        &AdapterConfig::default(),
    );
    let fragment = packet(Build {
        fragment: true,
        ..Build::default()
    })
    .bytes;
    let mut left_out = packet(Build::default());
    left_out.bytes[left_out.checksum_at..left_out.checksum_at + 2].fill(0);
    let arp = super::frames::plain([0xff; 6], [2; 6], &[0; 46]);
    let network = MetaFlags::L3_CHECKED | MetaFlags::L3_OK;
    let transport = MetaFlags::L4_CHECKED | MetaFlags::L4_OK;
    let cases = [
        ("fragment", fragment, network),
        ("UDP without", left_out.bytes, network | transport),
        ("no IP", arp, MetaFlags::empty()),
    ];
    for (name, frame, want) in cases {
        rig.send(0, &frame).expect("sends");
        rig.run();
        let (_, meta) = rig.take(1, 0).expect("arrives");
        let checks = meta.present & (network | transport);
        assert_eq!(checks, want, "{name}");
    }
}

#[test]
fn flows_are_spread_and_keep_their_queue() {
    let config = AdapterConfig {
        queues: 4,
        ..AdapterConfig::default()
    };
    let mut rig = Rig::pair("flows_are_spread_and_keep_their_queue", 1, &config);
    let mut homes: BTreeMap<u16, (usize, u32)> = BTreeMap::new();
    let mut used = [0; 4];
    for round in 0..2 {
        for port in 0..200u16 {
            let frame = packet(Build {
                ports: (port, 80),
                ..Build::default()
            })
            .bytes;
            rig.send(0, &frame).expect("sends");
            rig.run();
            let (queue, meta) = (0..4)
                .find_map(|queue| rig.take(1, queue).map(|(_, meta)| (queue, meta)))
                .expect("arrives");
            assert!(meta.present.contains(MetaFlags::HASH));
            used[queue] += 1;
            let home = *homes.entry(port).or_insert((queue, meta.hash));
            assert_eq!(home, (queue, meta.hash), "round {round} port {port}");
        }
    }
    assert!(used.iter().all(|&count| count > 40), "{used:?}");
}

#[test]
fn tags_are_taken_off_and_reported() {
    let offloads = Offloads {
        vlan_strip: true,
        ..Offloads::default()
    };
    let config = AdapterConfig {
        offloads,
        ..AdapterConfig::default()
    };
    let mut rig = Rig::pair("tags_are_taken_off_and_reported", 1, &config);
    for tags in 0..3 {
        let tagged = packet(Build {
            tags,
            ..Build::default()
        })
        .bytes;
        rig.send(0, &tagged).expect("sends");
        rig.run();
        let (got, meta) = rig.take(1, 0).expect("arrives");
        let mut want = tagged.clone();
        if tags > 0 {
            want.drain(12..16);
            assert_eq!(meta.vlan_tci, 0x2007);
        }
        assert_eq!(got, want, "{tags} tags");
        assert_eq!(meta.present.contains(MetaFlags::VLAN_STRIPPED), tags > 0);
        assert!(
            meta.present.contains(MetaFlags::L4_OK),
            "checked behind the tag"
        );
    }
}

#[test]
fn one_receiver_that_strips_tags_leaves_them_to_others() {
    let offloads = Offloads {
        vlan_strip: true,
        ..Offloads::default()
    };
    let strips = AdapterConfig {
        offloads,
        ..AdapterConfig::default()
    };
    let plain = AdapterConfig::default();
    let mut rig = Rig::new(
        "one_receiver_that_strips_tags_leaves_them_to_others",
        1,
        &[plain.clone(), strips, plain],
    );
    let mut tagged = packet(Build {
        tags: 1,
        ..Build::default()
    })
    .bytes;
    tagged[..6].fill(0xff);
    rig.send(0, &tagged).expect("sends");
    rig.run();
    assert_eq!(rig.take(1, 0).expect("arrives").0.len(), tagged.len() - 4);
    assert_eq!(rig.take(2, 0).expect("arrives").0, tagged);
}

#[test]
fn rules_tag_and_steer() {
    let rules = vec![
        FlowRule {
            target_port: Some(4791),
            tag: 7,
            queue: Some(3),
            ..FlowRule::default()
        },
        FlowRule {
            ether_type: Some(0x86dd),
            tag: 9,
            ..FlowRule::default()
        },
    ];
    let config = AdapterConfig {
        queues: 4,
        rules,
        ..AdapterConfig::default()
    };
    let mut rig = Rig::pair("rules_tag_and_steer", 1, &config);
    let cases = [
        (
            Build {
                ports: (1, 4791),
                ..Build::default()
            },
            Some(7),
            Some(3),
        ),
        (
            Build {
                v6: true,
                ports: (1, 2),
                ..Build::default()
            },
            Some(9),
            None,
        ),
        (
            Build {
                ports: (1, 2),
                ..Build::default()
            },
            None,
            None,
        ),
    ];
    for (build, tag, queue) in cases {
        rig.send(0, &packet(build).bytes).expect("sends");
        rig.run();
        let (found, meta) = (0..4)
            .find_map(|queue| rig.take(1, queue).map(|(_, meta)| (queue, meta)))
            .expect("arrives");
        let tagged = meta.present.contains(MetaFlags::FLOW_TAG);
        assert_eq!(tagged.then_some(meta.flow_tag), tag, "{build:?}");
        assert!(queue.is_none_or(|queue| queue == found), "{build:?}");
    }
}

#[test]
fn frames_carry_their_time_of_arrival() {
    let mut rig = Rig::pair(
        "frames_carry_their_time_of_arrival",
        1,
        &AdapterConfig::default(),
    );
    for time_ns in [0, 1, 5_000_000_000] {
        rig.turn_to(time_ns);
        rig.send(0, &[1; 60]).expect("sends");
        rig.run();
        let (_, meta) = rig.take(1, 0).expect("arrives");
        assert_eq!(meta.timestamp_ns, time_ns);
    }
}
