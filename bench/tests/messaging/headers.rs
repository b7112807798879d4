//! Headers on the wire are those that were agreed on, on every packet of both directions.

use warpwire::pipelines::messaging::{Completed, Order, Pair, Path, Payload, Work};
use warpwire_engine::tables::EngineCounters;
use warpwire_protocols::parse::{Kind, parse_slow};
use warpwire_protocols::rdma::{Attributes, Note};
use warpwire_protocols::wire::bth::PKey;
use warpwire_ring::Cause;
use warpwire_ring::mlx5::layout::Opcode;

use crate::ends::{Mode, Plan, SIGNALS, SOON, SOURCE, Stage, TARGET, WRITTEN, over_ipv6, wait};
use crate::wire::{Frame, Wire};

/// What a way has that is not usual.
#[derive(Clone, Copy, Debug)]
struct Case {
    is_ipv6: bool,
    /// Priority above the number, of each end.
    tags: [Option<u16>; 2],
    traffic_class: u8,
    hop_limit: u8,
    pkeys: [u16; 2],
}

const PLAIN: Case = Case {
    is_ipv6: false,
    tags: [None; 2],
    traffic_class: 2,
    hop_limit: 64,
    pkeys: [0xffff; 2],
};

impl Case {
    fn pairs(&self, stage: &Stage) -> [Pair; 2] {
        stage.pairs_by(|place, attributes, path| self.change(place, attributes, path))
    }

    fn change(&self, place: usize, attributes: &mut Attributes, path: &mut Path) {
        if self.is_ipv6 {
            over_ipv6(path);
        }
        path.has_tag = self.tags[place].is_some();
        path.tag = self.tags[place].unwrap_or(0);
        path.traffic_class = self.traffic_class;
        path.hop_limit = self.hop_limit;
        attributes.pkey = PKey(self.pkeys[place]);
    }

    /// Looks at a frame, of whose way nothing was left out or changed.
    fn check(&self, stage: &Stage, frame: &Frame) {
        let (own, peer) = (&stage.sides[frame.from], &stage.sides[1 - frame.from]);
        let (tag, bytes) = (self.tags[frame.from], &frame.bytes);
        assert_eq!(bytes[..6], peer.mac);
        assert_eq!(bytes[6..12], own.mac);
        assert_eq!(frame.tag(), tag, "{self:?}");
        let at = frame.network();
        let [local, remote] = [own, peer].map(|side| side.address.to_be_bytes());
        if self.is_ipv6 {
            assert_eq!(frame.half(at - 2), 0x86dd);
            let first = u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
            let want = 6 << 28 | u32::from(self.traffic_class) << 20 | 0xa_bcde;
            assert_eq!(first, want, "{self:?}");
            assert_eq!(bytes[at + 7], self.hop_limit);
            assert_eq!(bytes[at + 8..][..4], [0xfd, 0x77, 0, 0]);
            assert_eq!(bytes[at + 20..][..4], local);
            assert_eq!(bytes[at + 36..][..4], remote);
        } else {
            assert_eq!(frame.half(at - 2), 0x0800);
            assert_eq!(bytes[at..at + 2], [0x45, self.traffic_class], "{self:?}");
            assert_eq!(bytes[at + 8], self.hop_limit);
            assert_eq!(bytes[at + 12..][..4], local);
            assert_eq!(bytes[at + 16..][..4], remote);
        }
        assert_eq!(frame.pkey(), self.pkeys[frame.from]);
        assert_eq!(frame.source_port(), 0xc123);
        // Who dissects it finds the same.
        let Ok(headers) = parse_slow(bytes, bytes.len() as u32) else {
            panic!("{self:?}: dropped");
        };
        assert_eq!(headers.kind, Kind::RoceV2);
        assert_eq!(headers.tags, u8::from(tag.is_some()));
        assert_eq!(headers.outer_tag.0, tag.unwrap_or(0));
        assert_eq!(headers.traffic_class.0, self.traffic_class);
        assert_eq!(headers.ttl, self.hop_limit);
    }
}

/// Requests and answers of every kind, each way.
fn traffic(stage: &Stage, pairs: &mut [Pair; 2]) {
    for place in [0, 1] {
        let (own, peer) = (&stage.sides[place], &stage.sides[1 - place]);
        own.fill(SOURCE, 5000, 3 + place as u8);
        pairs[1 - place]
            .receive(&[peer.gather(TARGET, 4096)])
            .expect("room");
        let pair = &mut pairs[place];
        pair.put(own.gather(SOURCE, 5000), peer.remote(WRITTEN))
            .expect("posts");
        pair.send(own.gather(SOURCE, 1500), Some(7)).expect("posts");
        pair.fetch_add(peer.remote(SIGNALS), 1, own.gather(SIGNALS + 64, 8))
            .expect("posts");
        let back = own.gather(TARGET + 8192, 3001);
        pair.get(peer.remote(WRITTEN), back).expect("posts");
        pair.quiet(SOON).expect("completes");
        let message = pairs[1 - place].wait_message(SOON).expect("comes");
        assert_eq!((message.length, message.immediate), (1500, Some(7)));
        assert_eq!(peer.bytes(WRITTEN, 5000), own.bytes(SOURCE, 5000));
        assert_eq!(own.bytes(TARGET + 8192, 3001), own.bytes(SOURCE, 3001));
        assert_eq!(peer.word(SIGNALS), 1);
    }
}

fn on_the_wire(cases: &[Case]) {
    for mode in Mode::ALL {
        for case in cases {
            let stage = Stage::new(&Plan::new(mode));
            let wire = Wire::between(&stage);
            let mut pairs = case.pairs(&stage);
            traffic(&stage, &mut pairs);
            let frames = wire.take();
            assert!(frames.len() >= 2 * 12, "{mode:?} {case:?}");
            for from in [0, 1] {
                let acknowledges = |frame: &&Frame| frame.from == from && frame.opcode() == 0x11;
                assert!(frames.iter().any(|frame| acknowledges(&frame)));
            }
            frames.iter().for_each(|frame| case.check(&stage, frame));
            drop(pairs);
            stage.stop();
        }
    }
}

#[test]
fn every_packet_has_the_tag_of_its_way() {
    let tagged = |is_ipv6, tags| Case {
        is_ipv6,
        tags,
        ..PLAIN
    };
    // Priority 3 and drop eligible, VLAN 0x123; priority 7, the last VLAN; priority alone.
    on_the_wire(&[
        tagged(false, [Some(0x7123); 2]),
        tagged(true, [Some(0x7123); 2]),
        tagged(false, [Some(0xeffe), Some(0xa000)]),
        // What VLANs a frame may come from is the NIC's business: engines look at addresses.
        tagged(true, [Some(0x0005), None]),
    ]);
}

#[test]
fn every_packet_has_the_class_hop_limit_and_partition_of_its_way() {
    let cases = [false, true].map(|is_ipv6| {
        [
            Case {
                is_ipv6,
                traffic_class: 46 << 2 | 2,
                hop_limit: 1,
                pkeys: [0x8123; 2],
                ..PLAIN
            },
            Case {
                is_ipv6,
                traffic_class: 0,
                hop_limit: 255,
                // A limited member and a full one.
                pkeys: [0x0123, 0x8123],
                ..PLAIN
            },
            Case {
                is_ipv6,
                tags: [Some(0x6064); 2],
                traffic_class: 0xfd,
                hop_limit: 2,
                pkeys: [0x8001; 2],
            },
        ]
    });
    on_the_wire(cases.as_flattened());
}

fn foreign(counters: &EngineCounters) -> u64 {
    counters.notes[Note::PartitionKey as usize]
}

#[test]
fn another_partition_is_counted_and_nothing_of_it_arrives() {
    for mode in Mode::ALL {
        for (is_ipv6, pkeys) in [
            (false, [0x8001, 0x8002]),
            (true, [0x8001, 0x8002]),
            // Limited members do not talk to each other.
            (false, [0x0003, 0x0003]),
        ] {
            let plan = Plan {
                attributes: Attributes {
                    timeout: 8,
                    retries: 2,
                    ..Attributes::default()
                },
                ..Plan::timeless(mode)
            };
            let stage = Stage::new(&plan);
            let wire = Wire::between(&stage);
            let case = Case {
                is_ipv6,
                pkeys,
                ..PLAIN
            };
            let [mut one, other] = case.pairs(&stage);
            let [own, peer] = &stage.sides;
            own.fill(SOURCE, 64, 9);
            let before = peer.bytes(WRITTEN, 64);
            let order = Order {
                address: peer.region.address + WRITTEN,
                key: peer.region.key,
                ..Order::new(Opcode::WRITE)
            };
            let pieces = [own.gather(SOURCE, 64)];
            let payload = Payload::Pieces(&pieces);
            let index = one.post(&[Work { order, payload }]).expect("room");
            let cause = Cause::RetryExceeded;
            let failed = Completed::SendFailed { index, cause };
            assert_eq!(wait(&mut one), failed, "{mode:?} {case:?}");
            assert_eq!(peer.bytes(WRITTEN, 64), before);
            let frames = wire.take();
            assert_eq!(frames.len(), 3, "once and twice again, and no answer");
            assert!(frames.iter().all(|frame| frame.from == 0));
            assert_eq!(foreign(&peer.endpoint.counters()), 3);
            drop((one, other));
            stage.stop();
        }
    }
}

/// As the operations of the suite do not know it, they run over a tag as over none.
#[test]
fn every_operation_passes_over_a_tag_and_ipv6() {
    for (mode, selective) in [
        (Mode::Sliced, false),
        (Mode::Fused, true),
        (Mode::Nic, false),
    ] {
        let plan = Plan {
            attributes: Attributes {
                selective,
                ..Attributes::default()
            },
            route: |path| {
                over_ipv6(path);
                (path.has_tag, path.tag) = (true, 0x2064);
            },
            ..Plan::new(mode)
        };
        crate::suite::run(&plan, &[0, 1, 3, 1023, 1024, 1025, 4 * 1024 + 5, 65536]);
    }
}
