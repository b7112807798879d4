use super::*;
use crate::DropReason;
use crate::wire::testing::hex;
use crate::wire::{EtherType, IpProtocol, Psn, Qpn, TcpFlags};

const ETHERNET: &str = "020000000002 020000000001";
const SEND: &str = "0470ffff 80000011 80123456";

fn ethernet(rest: &str) -> Vec<u8> {
    hex(&format!("{ETHERNET} {rest}"))
}

/// An IPv4 packet behind an Ethernet header: first byte, fragment field, protocol, what follows.
fn ipv4(first: u8, fragment: u16, protocol: u8, rest: &str) -> Vec<u8> {
    let length = 20 + hex(rest).len();
    ethernet(&format!(
        "0800 {first:02x}00{length:04x} 0001{fragment:04x} 40{protocol:02x}0000
         0a000001 0a000002 {rest}"
    ))
}

fn ipv6(next_header: u8, rest: &str) -> Vec<u8> {
    let length = hex(rest).len();
    ethernet(&format!(
        "86dd 6b812345 {length:04x}{next_header:02x}40
         fd770000000000000000000000000001 fd770000000000000000000000000002 {rest}"
    ))
}

fn udp(port: u16, rest: &str) -> String {
    let length = 8 + hex(rest).len();
    format!("c000{port:04x} {length:04x}0000 {rest}")
}

fn whole(frame: &[u8]) -> Result<Headers, Dropped> {
    parse_bytes(frame, frame.len() as u32)
}

fn is_fast(frame: &[u8]) -> bool {
    let extent = Extent::whole(frame.len() as u32);
    let tail = || Some(Tail::from_bytes(frame));
    let fast = parse_fast_with(&Window::from_bytes(frame), extent, tail);
    matches!(fast, Fast::Parsed(_))
}

/// Parses a legal frame; both paths agree where both can tell.
fn legal(frame: &[u8], expect_fast: bool) -> Headers {
    let headers = whole(frame).unwrap_or_else(|dropped| panic!("{dropped}: {frame:02x?}"));
    assert_eq!(is_fast(frame), expect_fast, "{frame:02x?}");
    assert_eq!(parse_slow(frame, frame.len() as u32), Ok(headers));
    headers
}

fn refused(frame: &[u8], reason: DropReason, kind: Kind) -> Headers {
    let dropped = whole(frame).expect_err("a reason");
    assert_eq!(
        (dropped.reason, dropped.headers.kind),
        (reason, kind),
        "{frame:02x?}"
    );
    dropped.headers
}

#[test]
fn roce_over_ipv4() {
    let frame = ethernet(
        "0800 4502004400004000401126a50a0000010a000002 c00012b700300000
         0a70ffff0000001180123456 00000000000010000000123400000005 68656c6c6f000000 cb0ee381",
    );
    let headers = legal(&frame, true);
    assert_eq!(headers.kind, Kind::RoceV2);
    assert_eq!((headers.bth_opcode, headers.bth_flags), (0x0a, 0x70));
    assert_eq!(headers.destination_qp, Qpn::new(0x11));
    assert_eq!(headers.psn, Psn::new(0x123456));
    assert_eq!((headers.payload, headers.payload_length), (54, 16 + 8 + 4));
    assert_eq!((headers.traffic_class.0, headers.ttl), (2, 64));
    assert_eq!(
        (headers.source_port(), headers.destination_port()),
        (0xc000, 4791)
    );
    assert_eq!(RoceLayout::new(&headers).unwrap().payload_length, 5);
    assert_eq!(headers.end() as usize, frame.len());
}

#[test]
fn roce_over_ipv6_needs_the_tail() {
    let frame = ipv6(17, &udp(4791, &format!("{SEND} 11111111 22222222")));
    let headers = legal(&frame, true);
    assert_eq!(headers.kind, Kind::RoceV2);
    assert_eq!((headers.bth_opcode, headers.psn), (4, Psn::new(0x123456)));
    assert_eq!((headers.payload, headers.payload_length), (74, 8));
    assert_eq!((headers.traffic_class.0, headers.ttl), (0xb8, 0x40));
    let window = Window::from_bytes(&frame);
    assert_eq!(
        parse_fast(&window, Extent::whole(frame.len() as u32)),
        Fast::Slow
    );
}

#[test]
fn the_tail_is_fetched_only_when_needed() {
    let never = || -> Option<Tail> { panic!("not needed") };
    for frame in [
        ipv6(17, &udp(53, "aabb")),
        ipv6(58, "8000 0000 0001 0002"),
        ipv6(17, &udp(4791, "04")),
        ipv4(0x45, 0, 17, &udp(4791, &format!("{SEND} 11111111"))),
    ] {
        let extent = Extent::whole(frame.len() as u32);
        let _ = parse_fast_with(&Window::from_bytes(&frame), extent, never);
    }
}

#[test]
fn plain_frames() {
    let headers = legal(&ipv4(0x45, 0x4000, 17, &udp(53, "aabb")), true);
    assert_eq!(
        (headers.kind, headers.protocol),
        (Kind::Udp, IpProtocol::UDP)
    );
    assert_eq!((headers.l3, headers.l4, headers.payload), (14, 34, 42));
    assert_eq!((headers.ip_version, headers.payload_length), (4, 2));
    assert!(headers.has_ports());

    let headers = legal(&ipv6(17, &udp(53, "aabb")), true);
    assert_eq!(
        (headers.l4, headers.payload, headers.payload_length),
        (54, 62, 2)
    );

    let segment = "9c400050 00000001 00000002 60121000 00000000 020405b4 6869";
    for (frame, l4) in [(ipv4(0x45, 0, 6, segment), 34), (ipv6(6, segment), 54)] {
        let headers = legal(&frame, true);
        assert_eq!((headers.kind, headers.l4), (Kind::Tcp, l4));
        assert_eq!((headers.payload, headers.payload_length), (l4 + 24, 2));
        assert_eq!(headers.tcp_flags, TcpFlags::SYN | TcpFlags::ACK);
        assert_eq!(
            (headers.source_port(), headers.destination_port()),
            (40000, 80)
        );
    }

    let headers = legal(&ipv4(0x45, 0, 1, "0301 0000 00000000 aa"), true);
    assert_eq!((headers.kind, headers.payload_length), (Kind::Icmpv4, 1));
    assert_eq!((headers.icmp_type(), headers.icmp_code()), (3, 1));
    let headers = legal(&ipv6(58, "8701 0000"), true);
    assert_eq!((headers.kind, headers.payload_length), (Kind::Icmpv6, 0));
    assert_eq!((headers.icmp_type(), headers.icmp_code()), (0x87, 1));

    let arp = ethernet("0806 0001080006040001 020000000001 0a000001 000000000000 0a000002");
    let headers = legal(&arp, true);
    assert_eq!((headers.kind, headers.ip_version), (Kind::Arp, 0));
    assert_eq!((headers.payload, headers.payload_length), (42, 0));
}

#[test]
fn the_window_reads_what_the_headers_hold() {
    let frame = ipv4(0x45, 0x4000, 17, &udp(53, "aabb"));
    let window = Window::from_bytes(&frame);
    assert_eq!(window.destination().to_string(), "02:00:00:00:00:02");
    assert_eq!(window.source().to_string(), "02:00:00:00:00:01");
    assert_eq!(window.ether_type(), EtherType::IPV4);
    assert_eq!(window.ipv4_source().to_string(), "10.0.0.1");
    assert_eq!(window.ipv4_destination().to_string(), "10.0.0.2");
    assert_eq!((window.ipv4_total_length(), window.ipv4_ttl()), (30, 64));

    let window = Window::from_bytes(&ipv6(58, "8000 0000 0001 0002"));
    assert_eq!(window.ipv6_source().to_string(), "fd77::1");
    assert_eq!(window.ipv6_destination().to_string(), "fd77::2");
    assert_eq!(
        (window.ipv6_payload_length(), window.ipv6_hop_limit()),
        (8, 64)
    );
    assert_eq!(window.ipv6_next_header(), IpProtocol::ICMPV6);
    assert_eq!(window.ipv6_traffic_class().0, 0xb8);

    let arp = ethernet("0806 0001080006040002 020000000001 0a000001 020000000003 0a000002");
    let window = Window::from_bytes(&arp);
    assert_eq!(window.arp_operation(), 2);
    assert_eq!(
        window.arp_sender_hardware().to_string(),
        "02:00:00:00:00:01"
    );
    assert_eq!(window.arp_sender().to_string(), "10.0.0.1");
    assert_eq!(window.arp_target().to_string(), "10.0.0.2");
}

#[test]
fn the_header_checksum_is_judged_in_registers() {
    let good = ethernet("0800 4502004400004000401126a50a0000010a000002");
    assert!(Window::from_bytes(&good).ipv4_checksum_holds());
    for bit in 14 * 8..34 * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(!Window::from_bytes(&bad).ipv4_checksum_holds(), "bit {bit}");
    }
}

#[test]
fn padding_is_cut() {
    let mut frame = ipv4(0x45, 0, 17, &udp(53, "aabb"));
    frame.resize(60, 0xee);
    assert_eq!(legal(&frame, true).payload_length, 2);
    // The UDP length may be shorter than the IP payload.
    let frame = ipv4(0x45, 0, 17, "c000 0035 0009 0000 aabbcc");
    assert_eq!(legal(&frame, true).payload_length, 1);
}

#[test]
fn tags() {
    let inner = "0800 4500001c00010000401100000a0000010a000002 c000003500080000";
    let headers = legal(&ethernet(&format!("8100 a064 {inner}")), false);
    assert_eq!(
        (headers.tags, headers.l3, headers.l4, headers.payload),
        (1, 18, 38, 46)
    );
    assert_eq!(
        (headers.outer_tag.id().value(), headers.outer_tag.priority()),
        (100, 5)
    );
    assert_eq!(
        (headers.kind, headers.ether_type),
        (Kind::Udp, EtherType::IPV4)
    );

    let headers = legal(&ethernet(&format!("88a8 00c8 8100 0064 {inner}")), false);
    assert_eq!((headers.tags, headers.l3), (2, 22));
    let ids = (
        headers.outer_tag.id().value(),
        headers.inner_tag.id().value(),
    );
    assert_eq!(ids, (200, 100));

    let headers = legal(
        &ethernet(&format!("{} {inner}", "9100 0001".repeat(4))),
        false,
    );
    assert_eq!((headers.tags, headers.l3), (4, 30));
    let five = ethernet(&format!("{} {inner}", "8100 0001".repeat(5)));
    assert_eq!(refused(&five, DropReason::TooManyTags, Kind::Other).tags, 4);
    let cut = ethernet("8100 0001");
    assert_eq!(refused(&cut, DropReason::TruncatedL2, Kind::Other).tags, 0);
}

#[test]
fn addresses_of_the_slow_path() {
    let inner = "0800 4500001c00010000401100000a0000010a000002 c000003500080000";
    let frame = ethernet(&format!("8100 a064 {inner}"));
    let headers = legal(&frame, false);
    let addresses = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    assert_eq!(headers.ipv4_addresses(&frame), Some(addresses));
    assert_eq!(headers.ipv6_addresses(&frame), None);
    assert_eq!(headers.ipv4_addresses(&frame[..30]), None);

    let frame = ipv6(17, &udp(53, "aabb"));
    let headers = legal(&frame, true);
    let addresses = ("fd77::1".parse().unwrap(), "fd77::2".parse().unwrap());
    assert_eq!(headers.ipv6_addresses(&frame), Some(addresses));
    assert_eq!(headers.ipv4_addresses(&frame), None);
}

#[test]
fn what_is_not_followed_is_named() {
    for (rest, kind, payload_length) in [
        ("88cc 0000", Kind::Other, 2),
        ("8847 00010140", Kind::Mpls, 4),
        ("8848 00010140", Kind::Mpls, 4),
        ("8915 6000", Kind::RoceV1, 2),
        ("0003 424203 eeee", Kind::Llc, 3),
        ("0009 424203", Kind::Llc, 3),
        ("05ff 424203", Kind::Other, 3),
    ] {
        let headers = legal(&ethernet(rest), false);
        assert_eq!(
            (headers.kind, headers.payload_length),
            (kind, payload_length),
            "{rest}"
        );
        assert_eq!((headers.l3, headers.payload), (14, 14));
    }
    let headers = legal(&ipv4(0x45, 0, 47, "00000800"), false);
    assert_eq!(
        (headers.kind, headers.payload, headers.payload_length),
        (Kind::Gre, 34, 4)
    );
    let headers = legal(&ipv4(0x45, 0, 89, "0201"), false);
    assert_eq!((headers.kind, headers.payload_length), (Kind::Ipv4, 2));
    let headers = legal(&ipv6(59, ""), false);
    assert_eq!(
        (headers.kind, headers.protocol),
        (Kind::Ipv6, IpProtocol::NO_NEXT_HEADER)
    );
}

#[test]
fn ipv4_options_and_fragments() {
    let headers = legal(
        &ipv4(0x46, 0, 17, &format!("94040000 {}", udp(53, "aa"))),
        false,
    );
    assert_eq!(
        (headers.l4, headers.payload, headers.payload_length),
        (38, 46, 1)
    );

    // A first fragment's UDP length counts the datagram, which is longer; its port is no promise.
    let headers = legal(
        &ipv4(0x45, 0x2000, 17, "c00012b7 10000000 aabbccddaabbccdd"),
        false,
    );
    assert_eq!(
        (headers.kind, headers.fragment),
        (Kind::Udp, Fragment::First)
    );
    assert_eq!(
        (headers.destination_port(), headers.payload_length),
        (4791, 8)
    );

    let headers = legal(&ipv4(0x45, 0x00b9, 17, "c00012b7"), false);
    assert_eq!(
        (headers.kind, headers.fragment),
        (Kind::Ipv4, Fragment::Later)
    );
    assert_eq!(
        (headers.payload, headers.payload_length, headers.l4_start),
        (34, 4, 0)
    );

    refused(
        &ipv4(0x45, 0x1fff, 17, "00"),
        DropReason::FragmentRange,
        Kind::Ipv4,
    );
}

#[test]
fn ipv6_extensions() {
    let chain = format!("3c00 0502 0000 0100 1100 0104 00000000 {}", udp(53, "aa"));
    let headers = legal(&ipv6(0, &chain), false);
    assert_eq!(
        (headers.kind, headers.protocol),
        (Kind::Udp, IpProtocol::UDP)
    );
    assert_eq!(
        (headers.l4, headers.payload, headers.payload_length),
        (70, 78, 1)
    );

    let headers = legal(
        &ipv6(44, &format!("1100 0001 99887766 {}", udp(53, "aa"))),
        false,
    );
    assert_eq!(
        (headers.kind, headers.fragment),
        (Kind::Udp, Fragment::First)
    );
    let headers = legal(&ipv6(44, "1100 0009 99887766 aabb"), false);
    assert_eq!(
        (headers.kind, headers.fragment),
        (Kind::Ipv6, Fragment::Later)
    );
    assert_eq!(
        (headers.protocol, headers.payload, headers.payload_length),
        (IpProtocol::UDP, 62, 2)
    );
    // A fragment header on a whole datagram (RFC 6946).
    let headers = legal(
        &ipv6(44, &format!("1100 0000 99887766 {}", udp(53, "aa"))),
        false,
    );
    assert_eq!(
        (headers.kind, headers.fragment),
        (Kind::Udp, Fragment::None)
    );

    let options = "3c00 0104 00000000";
    let eight = format!("{} 1100 0104 00000000 {}", options.repeat(7), udp(53, "aa"));
    assert_eq!(legal(&ipv6(60, &eight), false).l4, 54 + 64);
    let nine = format!("{} 1100 0104 00000000 {}", options.repeat(8), udp(53, "aa"));
    refused(&ipv6(60, &nine), DropReason::ExtensionCount, Kind::Ipv6);
    let order = "0000 0104 00000000 1100 0104 00000000";
    refused(&ipv6(60, order), DropReason::ExtensionOrder, Kind::Ipv6);
    refused(
        &ipv6(60, "1101 0104 00000000"),
        DropReason::TruncatedL3,
        Kind::Ipv6,
    );
    refused(&ipv6(60, "11"), DropReason::TruncatedL3, Kind::Ipv6);
    let long = format!("111e {} {}", "00".repeat(246), udp(53, "aa"));
    let headers = refused(&ipv6(43, &long), DropReason::HeadersTooLong, Kind::Ipv6);
    assert_eq!(headers.protocol, IpProtocol::UDP);
    refused(
        &ipv6(44, "1100 fff9 99887766 aabbccddaabbccdd"),
        DropReason::FragmentRange,
        Kind::Ipv6,
    );
}

#[test]
fn vxlan() {
    let inner = "020000000003 020000000004 88cc 0000";
    let headers = legal(
        &ipv4(
            0x45,
            0,
            17,
            &udp(4789, &format!("08000000 00004d00 {inner}")),
        ),
        false,
    );
    assert_eq!(
        (headers.kind, headers.payload, headers.payload_length),
        (Kind::Vxlan, 50, 16)
    );
    // Without the flag, or too short, it is some other use of the port.
    let headers = legal(&ipv4(0x45, 0, 17, &udp(4789, "00000000 00004d00")), false);
    assert_eq!((headers.kind, headers.payload), (Kind::Udp, 42));
    legal(&ipv4(0x45, 0, 17, &udp(4789, "08000000")), false);
}

#[test]
fn malformed_network_headers() {
    use DropReason::*;
    refused(&hex(ETHERNET), TruncatedL2, Kind::Other);
    refused(&[], TruncatedL2, Kind::Other);
    let good = ipv4(0x45, 0, 17, &udp(53, "aabb"));
    let edit = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        frame
    };
    refused(&edit(14, 0x55), IpVersion, Kind::Other);
    refused(&edit(14, 0x44), Ipv4HeaderLength, Kind::Ipv4);
    refused(&edit(17, 19), IpLengthBelowHeader, Kind::Ipv4);
    // What is said too long, and what a kernel sends before it cuts, is read on.
    assert_eq!(
        refused(&edit(17, 31), IpLengthOverFrame, Kind::Udp).destination_port(),
        53
    );
    assert_eq!(
        refused(&edit(17, 0), IpLengthBelowHeader, Kind::Udp).payload_length,
        2
    );
    assert_eq!(
        refused(&good[..30], TruncatedL3, Kind::Ipv4).protocol,
        IpProtocol::UDP
    );
    refused(&good[..20], TruncatedL3, Kind::Other);

    let good = ipv6(17, &udp(53, "aabb"));
    let edit = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        frame
    };
    refused(&edit(14, 0x4b), IpVersion, Kind::Other);
    assert_eq!(
        refused(&edit(19, 11), IpLengthOverFrame, Kind::Udp).destination_port(),
        53
    );
    assert_eq!(
        refused(&good[..40], TruncatedL3, Kind::Ipv6).protocol,
        IpProtocol::UDP
    );
    let mut jumbo = ipv6(0, &format!("1100 c204 00010000 {}", udp(53, "aa")));
    jumbo[19] = 0;
    assert_eq!(refused(&jumbo, Jumbogram, Kind::Udp).destination_port(), 53);

    let arp = "0806 0001080006040001 020000000001 0a000001 000000000000 0a0000";
    refused(&ethernet(arp), TruncatedL3, Kind::Arp);
    refused(&ethernet("0806 00060800"), TruncatedL3, Kind::Arp);
    refused(&ethernet("0806 0006080006040001"), ArpFormat, Kind::Arp);
}

#[test]
fn malformed_transport_headers() {
    use DropReason::*;
    refused(&ipv4(0x45, 0, 17, "c000 00"), TruncatedL4, Kind::Ipv4);
    refused(&ipv4(0x45, 0, 17, "c000 0035 00"), TruncatedL4, Kind::Udp);
    refused(
        &ipv4(0x45, 0, 17, "c000 0035 0007 0000"),
        UdpLength,
        Kind::Udp,
    );
    refused(
        &ipv4(0x45, 0, 17, "c000 0035 0009 0000"),
        UdpLength,
        Kind::Udp,
    );
    refused(&ipv6(17, "c000 0035 0000 0000"), UdpLength, Kind::Udp);

    let segment = |offset: u8| format!("9c400050 00000001 00000002 {offset:x}0121000 00000000");
    refused(&ipv4(0x45, 0, 6, &segment(4)), TcpDataOffset, Kind::Tcp);
    let headers = refused(&ipv6(6, &segment(6)), TcpDataOffset, Kind::Tcp);
    assert_eq!(headers.tcp_flags, TcpFlags::SYN | TcpFlags::ACK);
    refused(&ipv4(0x45, 0, 6, "9c400050 0000"), TruncatedL4, Kind::Tcp);
    refused(&ipv4(0x45, 0, 6, &segment(5)[..40]), TruncatedL4, Kind::Tcp);

    refused(
        &ipv4(0x45, 0, 1, "0800 0000 0000"),
        TruncatedL4,
        Kind::Icmpv4,
    );
    refused(&ipv6(58, "8000"), TruncatedL4, Kind::Ipv6);

    refused(&ipv4(0x45, 0, 17, &udp(4791, SEND)), BthLength, Kind::Udp);
    let version = "0471ffff 80000011 80123456 11111111";
    let headers = refused(
        &ipv4(0x45, 0, 17, &udp(4791, version)),
        BthVersion,
        Kind::RoceV2,
    );
    assert_eq!(headers.bth_opcode, 4);
    let headers = refused(&ipv6(17, &udp(4791, version)), BthVersion, Kind::RoceV2);
    assert_eq!(headers.psn, Psn::new(0x123456));
}

#[test]
fn bytes_that_are_not_at_hand() {
    let frame = ipv4(
        0x45,
        0,
        17,
        &udp(4791, &format!("{SEND} 11111111 22222222")),
    );
    let length = frame.len() as u32;
    for (available, kind) in [
        (13, Kind::Other),
        (14, Kind::Other),
        (24, Kind::Ipv4),
        (33, Kind::Ipv4),
        (34, Kind::Ipv4),
        (38, Kind::Udp),
        (41, Kind::Udp),
        (42, Kind::Udp),
        (53, Kind::Udp),
    ] {
        let dropped = parse_bytes(&frame[..available], length).expect_err("a reason");
        let expected = (DropReason::NotAtHand, kind);
        assert_eq!(
            (dropped.reason, dropped.headers.kind),
            expected,
            "{available} bytes"
        );
    }
    // The payload need not be at hand.
    assert_eq!(parse_bytes(&frame[..54], length), whole(&frame));
}

#[test]
fn kinds_are_counter_indices() {
    for (index, kind) in Kind::ALL.into_iter().enumerate() {
        assert_eq!(kind.index(), index);
        assert_eq!(kind.to_string(), kind.name());
    }
    assert_eq!(Kind::default(), Kind::Other);
}
