//! The slow path against frames that etherparse made, and against anything at all.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{
    ArpEthIpv4Packet, ArpHardwareId, ArpOperation, ArpPacket, EtherType, Icmpv6Header, Icmpv6Type,
    IpFragOffset, IpNumber, Ipv4Header, NetSlice, PacketBuilder, SlicedPacket, TransportSlice,
};
use proptest::prelude::*;
use warpwire_protocols::wire::TcpSequence;

use super::*;

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 2];
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OUR_4: [u8; 4] = [10, 0, 0, 2];
const PEER_4: [u8; 4] = [10, 0, 0, 1];
const OUR_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const PEER_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const SECOND: u64 = 1_000_000_000;

fn slow() -> SlowPath {
    SlowPath::new(&config(), 0).expect("is right")
}

fn config() -> SlowConfig {
    SlowConfig {
        mac: OURS,
        mtu: 1500,
        addresses: vec![
            InterfaceAddress {
                address: OUR_4.into(),
                prefix: 24,
            },
            InterfaceAddress {
                address: OUR_6.into(),
                prefix: 64,
            },
            link_local(OURS),
        ],
        routes: vec![Route {
            to: warpwire_nic::xdp::Prefix {
                address: Ipv4Addr::UNSPECIFIED.into(),
                length: 0,
            },
            via: PEER_4.into(),
        }],
    }
}

fn arp_frame(operation: ArpOperation, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let packet = ArpPacket::new(
        ArpHardwareId::ETHERNET,
        EtherType::IPV4,
        operation,
        &PEER,
        &sender,
        &OURS,
        &target,
    );
    let to = match operation {
        ArpOperation::REQUEST => [0xff; 6],
        _ => OURS,
    };
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(PEER, to).arp(packet.expect("is right"));
    builder.write(&mut frame).expect("is written");
    frame
}

/// A neighbour solicitation or advertisement with its options.
fn discovery(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> Vec<u8> {
    let mut bytes = message.to_vec();
    let header = Icmpv6Header::from_slice(&bytes).expect("is a header").0;
    let options = bytes.split_off(header.header_len());
    let kind = header.icmp_type;
    let mut frame = Vec::new();
    let (source, destination) = (source.octets(), destination.octets());
    let group = [
        0x33,
        0x33,
        destination[12],
        destination[13],
        destination[14],
        destination[15],
    ];
    let to = if destination[0] == 0xff { group } else { OURS };
    PacketBuilder::ethernet2(PEER, to)
        .ipv6(source, destination, 255)
        .icmpv6(kind)
        .write(&mut frame, &options)
        .expect("is written");
    frame
}

fn solicitation(source: Ipv6Addr, target: Ipv6Addr, with_link: bool) -> Vec<u8> {
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    if with_link {
        message.extend([1, 1]);
        message.extend(PEER);
    }
    let [.., high, low] = target.segments();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (high & 0xff), low);
    discovery(source, group, &message)
}

fn advertisement(target: Ipv6Addr, flags: u8, mac: [u8; 6]) -> Vec<u8> {
    let mut message = vec![136, 0, 0, 0, flags, 0, 0, 0];
    message.extend(target.octets());
    message.extend([2, 1]);
    message.extend(mac);
    discovery(target, OUR_6, &message)
}

fn ping_4(to: [u8; 4]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(PEER, OURS)
        .ipv4(PEER_4, to, 64)
        .icmpv4_echo_request(7, 9)
        .write(&mut frame, b"how are you")
        .expect("is written");
    frame
}

fn ping_6(to: Ipv6Addr) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(PEER, OURS)
        .ipv6(PEER_6.octets(), to.octets(), 64)
        .icmpv6_echo_request(7, 9)
        .write(&mut frame, b"how are you")
        .expect("is written");
    frame
}

fn udp_4() -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(PEER, OURS)
        .ipv4(PEER_4, OUR_4, 64)
        .udp(1000, 2000)
        .write(&mut frame, b"nobody wants this")
        .expect("is written");
    frame
}

/// A segment from us to the peer, without Ethernet header.
fn our_segment(is_ipv6: bool, payload: usize) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(OURS, PEER);
    let builder = match is_ipv6 {
        false => builder.ipv4(OUR_4, PEER_4, 64),
        true => builder.ipv6(OUR_6.octets(), PEER_6.octets(), 64),
    };
    let mut frame = Vec::new();
    let builder = builder.tcp(4000, 5000, 0x1234_5678, 1000);
    builder
        .write(&mut frame, &vec![1; payload])
        .expect("is written");
    frame.split_off(14)
}

fn error_4(code: u8, mtu: u16, quoted: &[u8]) -> Vec<u8> {
    let [high, low] = mtu.to_be_bytes();
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(PEER, OURS)
        .ipv4([10, 9, 9, 9], OUR_4, 60)
        .icmpv4_raw(3, code, [0, 0, high, low])
        .write(&mut frame, quoted)
        .expect("is written");
    frame
}

fn error_6(kind: Icmpv6Type, quoted: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(PEER, OURS)
        .ipv6(PEER_6.octets(), OUR_6.octets(), 60)
        .icmpv6(kind)
        .write(&mut frame, quoted)
        .expect("is written");
    frame
}

/// All frames that wait to be sent.
fn sent(slow: &mut SlowPath) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| slow.take_frame()).collect()
}

/// What a frame says, as etherparse reads it, with the Ethernet address that it goes to.
fn in_words(frame: &[u8]) -> String {
    let to = &frame[..6];
    assert_eq!(&frame[6..12], OURS, "is from us");
    let packet = SlicedPacket::from_ethernet(frame).expect("is a packet");
    let said = match (&packet.net, &packet.transport) {
        (Some(NetSlice::Arp(arp)), _) => {
            let arp: ArpEthIpv4Packet = arp.to_packet().try_into().expect("is Ethernet's");
            let (sender, target) = (arp.sender_ipv4_addr(), arp.target_ipv4_addr());
            assert_eq!(arp.sender_mac, OURS);
            match arp.operation {
                ArpOperation::REQUEST => format!("who has {target}, tell {sender}"),
                _ => format!("{sender} is ours, {target}"),
            }
        }
        (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Icmpv4(icmp))) => {
            let header = ip.header();
            let sum = icmp.icmp_type().calc_checksum(icmp.payload());
            assert_eq!(sum, icmp.checksum());
            let kind = icmp.icmp_type();
            let (from, to) = (header.source_addr(), header.destination_addr());
            format!("{from} to {to}: {kind:?}, {} bytes", icmp.payload().len())
        }
        (Some(NetSlice::Ipv6(ip)), Some(TransportSlice::Icmpv6(icmp))) => {
            let header = ip.header();
            let (from, to) = (header.source_addr(), header.destination_addr());
            let sum = icmp.header().icmp_type.calc_checksum(
                header.source(),
                header.destination(),
                icmp.payload(),
            );
            assert_eq!(sum.expect("is short enough"), icmp.checksum());
            format!(
                "{from} to {to}: {:?}, {} bytes",
                icmp.icmp_type(),
                icmp.payload().len()
            )
        }
        other => panic!("{other:?}"),
    };
    format!("{said} -> {:02x?}", to)
}

#[track_caller]
fn answers(slow: &mut SlowPath, frame: &[u8], want: &[&str]) {
    assert_eq!(slow.on_frame(SECOND, frame), None);
    let said: Vec<String> = sent(slow).iter().map(|frame| in_words(frame)).collect();
    assert_eq!(said.len(), want.len(), "{said:#?}");
    for (said, want) in said.iter().zip(want) {
        assert!(
            want.split("...").all(|part| said.contains(part)),
            "{said} instead of {want}"
        );
    }
}

#[test]
fn own_addresses_are_answered_for() {
    let mut slow = slow();
    let to_peer = "-> [02, 00, 00, 00, 00, 01]";
    let request = arp_frame(ArpOperation::REQUEST, PEER_4, OUR_4);
    answers(
        &mut slow,
        &request,
        &[&format!("10.0.0.2 is ours, 10.0.0.1 {to_peer}")],
    );
    answers(
        &mut slow,
        &ping_4(OUR_4),
        &[&format!(
            "10.0.0.2 to 10.0.0.1: EchoReply(...id: 7...seq: 9...11 bytes {to_peer}"
        )],
    );
    answers(
        &mut slow,
        &udp_4(),
        &[&format!("10.0.0.2 to 10.0.0.1: ...Port...{to_peer}")],
    );
    // As a kernel on the same machine sends it: the sum of the pseudo header alone.
    let mut partial = udp_4();
    partial[40..42].copy_from_slice(&[1, 2]);
    answers(
        &mut slow,
        &partial,
        &[&format!("10.0.0.2 to 10.0.0.1: ...Port...{to_peer}")],
    );
    answers(
        &mut slow,
        &solicitation(PEER_6, OUR_6, true),
        &[&format!(
            "fd00::2 to fd00::1: NeighborAdvertisement...solicited: true...24 bytes {to_peer}"
        )],
    );
    answers(
        &mut slow,
        &ping_6(OUR_6),
        &[&format!(
            "fd00::2 to fd00::1: EchoReply(...id: 7...seq: 9...11 bytes {to_peer}"
        )],
    );
    let counters = slow.counters();
    assert_eq!(
        (counters.frames, counters.answered, counters.unanswered),
        (6, 6, 0)
    );
}

#[test]
fn who_wants_to_take_an_address_of_ours_is_told() {
    let mut slow = slow();
    let probe = arp_frame(ArpOperation::REQUEST, [0; 4], OUR_4);
    answers(&mut slow, &probe, &["10.0.0.2 is ours, 0.0.0.0"]);
    let probe = solicitation(Ipv6Addr::UNSPECIFIED, OUR_6, false);
    answers(
        &mut slow,
        &probe,
        &["fd00::2 to ff02::1: NeighborAdvertisement...override: true...-> [33, 33, 00, 00, 00"],
    );
    for other in [
        arp_frame(ArpOperation::REQUEST, [0; 4], [10, 0, 0, 3]),
        solicitation(Ipv6Addr::UNSPECIFIED, PEER_6, false),
    ] {
        answers(&mut slow, &other, &[]);
    }
}

#[test]
fn what_concerns_us_not_is_counted_and_not_answered() {
    let mut slow = slow();
    answers(
        &mut slow,
        &arp_frame(ArpOperation::REQUEST, PEER_4, OUR_4),
        &["10.0.0.2 is ours"],
    );
    let mut elsewhere = ping_4(OUR_4);
    elsewhere[5] = 3;
    let mut own = ping_4(OUR_4);
    own[6..12].copy_from_slice(&OURS);
    let mut from_group = ping_4(OUR_4);
    from_group[6] = 3;
    let mut damaged = ping_4(OUR_4);
    damaged[40] ^= 1;
    let mut tagged = ping_4(OUR_4);
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let mut fragment = Vec::new();
    let mut header = Ipv4Header::new(16, 64, IpNumber::ICMP, PEER_4, OUR_4).expect("is right");
    header.more_fragments = true;
    header.fragment_offset = IpFragOffset::ZERO;
    let builder = PacketBuilder::ethernet2(PEER, OURS).ip(etherparse::IpHeaders::Ipv4(
        header,
        etherparse::Ipv4Extensions::default(),
    ));
    builder
        .icmpv4_echo_request(1, 2)
        .write(&mut fragment, &[0; 8])
        .expect("is written");
    let mut segment = [PEER, OURS].concat();
    segment.rotate_left(6);
    segment.extend([8, 0]);
    segment.extend(our_segment(false, 10));
    let foreign = [
        ("another station", elsewhere),
        ("our own", own),
        ("from a group", from_group),
        ("damaged", damaged),
        ("tagged", tagged),
        ("a fragment", fragment),
        ("TCP", segment),
        ("another address", ping_4([10, 0, 0, 3])),
        (
            "another's ARP",
            arp_frame(ArpOperation::REQUEST, PEER_4, [10, 0, 0, 3]),
        ),
        ("another's neighbour", solicitation(PEER_6, PEER_6, true)),
        ("nothing", Vec::new()),
        ("zeros", vec![0; 60]),
    ];
    let count = foreign.len() as u64;
    for (name, frame) in foreign {
        slow.on_frame(SECOND, &frame);
        assert!(sent(&mut slow).is_empty(), "{name}");
    }
    assert_eq!(slow.counters().unanswered, count);
}

#[test]
fn errors_are_limited_and_waiting_frames_bounded() {
    let mut slow = slow();
    slow.on_frame(SECOND, &arp_frame(ArpOperation::REQUEST, PEER_4, OUR_4));
    let mut answered = sent(&mut slow).len();
    for _ in 0..200 {
        slow.on_frame(SECOND, &udp_4());
        answered += sent(&mut slow).len();
    }
    assert_eq!(answered, 101);
    assert_eq!(slow.counters().limited, 100);
    answers(&mut slow, &ping_4(OUR_4), &["EchoReply"]);
    slow.on_frame(2 * SECOND, &udp_4());
    assert_eq!(sent(&mut slow).len(), 1, "a second later");
    for _ in 0..1000 {
        slow.on_frame(2 * SECOND, &ping_4(OUR_4));
    }
    assert_eq!(sent(&mut slow).len(), SlowPath::MOST_FRAMES);
    assert_eq!(slow.counters().lost, 1000 - SlowPath::MOST_FRAMES as u64);
}

#[test]
fn next_hops_are_asked_for_and_heard() {
    let mut slow = slow();
    let four = IpAddr::from(PEER_4);
    assert_eq!(slow.next_hop(0, four), Ok(Hop::Asked));
    let question = sent(&mut slow);
    let words = "who has 10.0.0.1, tell 10.0.0.2 -> [ff, ff, ff, ff, ff, ff]";
    assert_eq!(
        question
            .iter()
            .map(|frame| in_words(frame))
            .collect::<Vec<_>>(),
        [words]
    );
    assert_eq!(slow.next_hop(1, four), Ok(Hop::Asked));
    assert!(sent(&mut slow).is_empty(), "it was asked just now");
    slow.on_frame(2, &arp_frame(ArpOperation::REPLY, PEER_4, OUR_4));
    assert_eq!(slow.next_hop(3, four), Ok(Hop::Known(PEER)));
    // Behind the router.
    assert_eq!(slow.next_hop(4, [8, 8, 8, 8].into()), Ok(Hop::Known(PEER)));

    assert_eq!(slow.next_hop(5, PEER_6.into()), Ok(Hop::Asked));
    let question = in_words(&sent(&mut slow)[0]);
    let words = "fd00::2 to ff02::1:ff00:1: NeighborSolicitation";
    assert!(question.starts_with(words), "{question}");
    assert!(
        question.ends_with("24 bytes -> [33, 33, ff, 00, 00, 01]"),
        "{question}"
    );
    slow.on_frame(6, &advertisement(PEER_6, 0x40, PEER));
    assert_eq!(slow.next_hop(7, PEER_6.into()), Ok(Hop::Known(PEER)));
    // Another address is believed only with the override flag.
    let other = [2, 0, 0, 0, 0, 9];
    slow.on_frame(8, &advertisement(PEER_6, 0x40, other));
    assert_eq!(slow.next_hop(9, PEER_6.into()), Ok(Hop::Known(PEER)));
    slow.on_frame(10, &advertisement(PEER_6, 0x60, other));
    assert_eq!(slow.next_hop(11, PEER_6.into()), Ok(Hop::Known(other)));
    assert_eq!(slow.counters().heard, 3);
}

#[test]
fn silence_is_told_and_then_tried_again() {
    let mut slow = slow();
    let to = IpAddr::from([10, 0, 0, 9]);
    let mut asked = 0;
    let mut silent_at = None;
    for tick in 0..80u64 {
        let now_ns = tick * SECOND / 10;
        slow.on_timer(now_ns);
        match slow.next_hop(now_ns, to) {
            Ok(hop) => assert_eq!(hop, Hop::Asked),
            Err(no) => {
                assert_eq!(no, NoWay::Silent { via: to });
                silent_at.get_or_insert(tick);
            }
        }
        asked += sent(&mut slow).len();
    }
    assert_eq!(silent_at, Some(30), "three questions, a second each");
    assert_eq!(asked, 3 + 2, "it is asked again at 6 and 7 seconds");
    assert!(slow.timeout_ns().is_some());
}

#[test]
fn answers_grow_old() {
    let config = SlowConfig {
        routes: Vec::new(),
        ..config()
    };
    let mut slow = SlowPath::new(&config, 0).expect("is right");
    let four = IpAddr::from(PEER_4);
    let reply = arp_frame(ArpOperation::REPLY, PEER_4, OUR_4);
    // Nobody asked: nothing is remembered.
    slow.on_frame(0, &reply);
    assert_eq!(slow.next_hop(0, four), Ok(Hop::Asked));
    slow.on_frame(0, &reply);
    sent(&mut slow);
    // Used, it is asked for again at 30 seconds, and known until then and after.
    assert_eq!(slow.next_hop(20 * SECOND, four), Ok(Hop::Known(PEER)));
    assert_eq!(slow.timeout_ns(), Some(30 * SECOND));
    slow.on_timer(30 * SECOND);
    assert_eq!(sent(&mut slow).len(), 1);
    assert_eq!(slow.next_hop(31 * SECOND, four), Ok(Hop::Known(PEER)));
    slow.on_frame(32 * SECOND, &reply);
    // Unused, it is forgotten.
    slow.on_timer(62 * SECOND);
    assert!(sent(&mut slow).is_empty());
    assert_eq!(slow.timeout_ns(), None);
    // Used and without an answer, it is known for a minute.
    assert_eq!(slow.next_hop(70 * SECOND, four), Ok(Hop::Asked));
    slow.on_frame(70 * SECOND, &reply);
    for second in 71..130 {
        assert_eq!(slow.next_hop(second * SECOND, four), Ok(Hop::Known(PEER)));
    }
    assert_eq!(slow.next_hop(130 * SECOND, four), Ok(Hop::Asked));
}

#[test]
fn who_moves_is_told_once_and_gateways_are_kept_in_sight() {
    let mut slow = slow();
    let router = IpAddr::from(PEER_4);
    let reply = arp_frame(ArpOperation::REPLY, PEER_4, OUR_4);
    let other = [2, 0, 0, 0, 0, 9];
    let mut moved = reply.clone();
    moved[6..12].copy_from_slice(&other);
    moved[22..28].copy_from_slice(&other);
    let far = IpAddr::from([8, 8, 8, 8]);
    assert!(slow.is_gateway(router) && slow.is_on_link(router) && !slow.is_on_link(far));
    assert_eq!(slow.next_hop(0, far), Ok(Hop::Asked));
    slow.on_frame(0, &reply);
    assert_eq!(slow.take_moved(), None);
    sent(&mut slow);
    // Nobody uses it meanwhile, but it is asked for.
    for second in 1..100u64 {
        slow.on_timer(second * SECOND);
        if !sent(&mut slow).is_empty() {
            let frame = if second < 50 { &reply } else { &moved };
            slow.on_frame(second * SECOND, frame);
        }
    }
    let told = Moved {
        address: router,
        from: PEER,
        to: other,
    };
    assert_eq!(slow.take_moved(), Some(told));
    assert_eq!(slow.take_moved(), None);
    assert_eq!(slow.next_hop(100 * SECOND, far), Ok(Hop::Known(other)));
    // It was silent for long before it came back as another.
    for second in 100..300u64 {
        slow.on_timer(second * SECOND);
        sent(&mut slow);
    }
    slow.on_frame(300 * SECOND, &reply);
    let back = Moved {
        from: other,
        to: PEER,
        ..told
    };
    assert_eq!(slow.take_moved(), Some(back));
}

#[test]
fn the_table_of_next_hops_is_bounded() {
    let config = SlowConfig {
        mac: OURS,
        mtu: 1500,
        addresses: vec![InterfaceAddress {
            address: OUR_4.into(),
            prefix: 8,
        }],
        routes: Vec::new(),
    };
    let mut slow = SlowPath::new(&config, 0).expect("is right");
    let mut told = Vec::new();
    for number in 0..300u16 {
        let [high, low] = number.to_be_bytes();
        told.push(slow.next_hop(0, [10, 1, high, low].into()));
        sent(&mut slow);
    }
    assert_eq!(told.iter().filter(|told| told.is_ok()).count(), 256);
    assert_eq!(told.last(), Some(&Err(NoWay::Busy { most: 256 })));
    // One answers: he may be forgotten for another.
    slow.on_frame(1, &arp_frame(ArpOperation::REPLY, [10, 1, 0, 5], OUR_4));
    assert_eq!(slow.next_hop(2, [10, 2, 0, 0].into()), Ok(Hop::Asked));
    assert_eq!(
        slow.next_hop(3, [10, 2, 0, 1].into()),
        Err(NoWay::Busy { most: 256 })
    );
}

#[test]
fn errors_about_segments_are_reported() {
    let tcp = our_segment(false, 1000);
    let report = |what| IcmpReport {
        what,
        local: (OUR_4.into(), 4000),
        remote: (PEER_4.into(), 5000),
        sequence: TcpSequence(0x1234_5678),
    };
    let six = |what| IcmpReport {
        local: (OUR_6.into(), 4000),
        remote: (PEER_6.into(), 5000),
        ..report(what)
    };
    let tcp_6 = our_segment(true, 1000);
    let too_big = Icmpv6Type::PacketTooBig { mtu: 1280 };
    let unreachable =
        Icmpv6Type::DestinationUnreachable(etherparse::icmpv6::DestUnreachableCode::Address);
    let mut of_another = tcp.clone();
    of_another[15] = 9;
    let mut later = tcp.clone();
    later[7] = 1;
    let mut udp = tcp.clone();
    udp[9] = 17;
    let mut damaged = error_4(1, 0, &tcp);
    damaged[60] ^= 4;
    let cases = [
        (
            "unreachable",
            error_4(1, 0, &tcp[..28]),
            Some(report(Reported::Unreachable { code: 1 })),
        ),
        (
            "too big",
            error_4(4, 1400, &tcp),
            Some(report(Reported::TooBig { mtu: 1400 })),
        ),
        (
            "without a size",
            error_4(4, 0, &tcp),
            Some(report(Reported::TooBig { mtu: 1006 })),
        ),
        ("cut short", error_4(1, 0, &tcp[..27]), None),
        ("not our segment", error_4(1, 0, &of_another), None),
        ("a later fragment", error_4(1, 0, &later), None),
        ("UDP", error_4(1, 0, &udp), None),
        ("damaged", damaged, None),
        (
            "IPv6 too big",
            error_6(too_big, &tcp_6),
            Some(six(Reported::TooBig { mtu: 1280 })),
        ),
        (
            "IPv6 unreachable",
            error_6(unreachable, &tcp_6[..60]),
            Some(six(Reported::Unreachable { code: 3 })),
        ),
        ("IPv6 cut short", error_6(unreachable, &tcp_6[..47]), None),
    ];
    for (name, frame, want) in cases {
        let mut slow = slow();
        assert_eq!(slow.on_frame(0, &frame), want, "{name}");
        assert!(
            sent(&mut slow).is_empty(),
            "{name}: no error answers an error"
        );
        let counters = slow.counters();
        assert_eq!(counters.heard, u64::from(want.is_some()), "{name}");
        assert_eq!(counters.unanswered, u64::from(want.is_none()), "{name}");
    }
}

fn samples() -> Vec<Vec<u8>> {
    let tcp = our_segment(false, 40);
    vec![
        arp_frame(ArpOperation::REQUEST, PEER_4, OUR_4),
        arp_frame(ArpOperation::REPLY, PEER_4, OUR_4),
        solicitation(PEER_6, OUR_6, true),
        solicitation(Ipv6Addr::UNSPECIFIED, OUR_6, false),
        advertisement(PEER_6, 0x60, PEER),
        ping_4(OUR_4),
        ping_6(OUR_6),
        udp_4(),
        error_4(4, 0, &tcp),
        error_6(Icmpv6Type::PacketTooBig { mtu: 0 }, &our_segment(true, 40)),
    ]
}

/// Makes the checksums of an IP packet with ICMP right again, so that damage gets past them.
fn mended(mut frame: Vec<u8>) -> Vec<u8> {
    let sum = |bytes: &[u8]| warpwire_protocols::checksum::Sum::of(bytes);
    if frame.get(12..14) == Some(&[8, 0]) && frame.len() >= 38 {
        frame[24..26].fill(0);
        let field = sum(&frame[14..34]).checksum().to_be_bytes();
        frame[24..26].copy_from_slice(&field);
        frame[36..38].fill(0);
        let field = sum(&frame[34..]).checksum().to_be_bytes();
        frame[36..38].copy_from_slice(&field);
    } else if frame.get(12..14) == Some(&[0x86, 0xdd]) && frame.len() >= 58 {
        frame[56..58].fill(0);
        let length = (frame.len() - 54) as u32;
        let pseudo = sum(&frame[22..54]).add_field32(length).add_field(58);
        let field = sum(&frame[54..]).plus(pseudo).checksum().to_be_bytes();
        frame[56..58].copy_from_slice(&field);
    }
    frame
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn no_frame_brings_it_down(
        sample in 0usize..10,
        damage in proptest::collection::vec((12usize..120, any::<u8>()), 0..6),
        cut in 0usize..200,
        more in proptest::collection::vec(any::<u8>(), 0..40),
        mends: bool,
    ) {
        let mut slow = slow();
        slow.next_hop(0, PEER_4.into()).expect("is on the link");
        slow.next_hop(0, PEER_6.into()).expect("is on the link");
        let mut frame = samples().swap_remove(sample);
        frame.extend(more);
        for (at, byte) in damage {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        if cut < 100 {
            frame.truncate(cut);
        }
        let frame = if mends { mended(frame) } else { frame };
        // Who asked first is known, so that answers go out.
        slow.on_frame(1, &arp_frame(ArpOperation::REQUEST, PEER_4, OUR_4));
        slow.on_frame(1, &solicitation(PEER_6, OUR_6, true));
        for now in 2..4 {
            slow.on_frame(now, &frame);
        }
        let out = sent(&mut slow);
        prop_assert!(out.len() <= 8, "{out:?}");
        for frame in out {
            prop_assert_eq!(&frame[6..12], &OURS);
            prop_assert!(SlicedPacket::from_ethernet(&frame).is_ok());
        }
    }

    #[test]
    fn noise_brings_it_down_no_more(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut slow = slow();
        let mut frame = bytes;
        slow.on_frame(0, &frame);
        frame.splice(0..frame.len().min(6), OURS);
        slow.on_frame(1, &frame);
    }
}
