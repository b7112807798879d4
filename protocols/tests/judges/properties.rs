//! What holds for any bytes: nothing panics, both parse paths agree, what is emitted is read back.

use proptest::prelude::*;
use warpwire_protocols::checksum::{Arithmetic, Fill, Sum, icrc, transport_state};
use warpwire_protocols::parse::{
    Extent, Fast, Fragment, Headers, Kind, RoceLayout, Tail, Window, parse_bytes, parse_fast_with,
    parse_slow, reaches_last_quarter,
};
use warpwire_protocols::wire::ipv6_extension::Extensions;
use warpwire_protocols::wire::{
    EtherType, FlowLabel, IpProtocol, MacAddress, TcpFlags, TcpSequence, TrafficClass, arp, bth,
    ethernet, icmpv4, icmpv6, ipv4, ipv6, ndp_neighbor, ndp_option, ndp_redirect, ndp_router, tcp,
    tcp_option, udp, vlan, vxlan,
};

/// What follows an IP header: protocol, header bytes.
fn transports() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let udp = |port: u16, rest: Vec<u8>| {
        let repr = udp::Repr {
            source_port: 0xc000,
            destination_port: port,
            payload_length: rest.len() as u16,
        };
        let mut bytes = vec![0; 8];
        repr.emit(&mut bytes, Sum::ZERO, Fill::Absent).unwrap();
        bytes.extend(rest);
        (17, bytes)
    };
    let rest = || prop::collection::vec(any::<u8>(), 0..60);
    let tcp = (any::<[u8; 12]>(), 0..16_u16, 0..0x200_u16, rest()).prop_map(
        |(start, offset, flags, rest)| {
            let control = (offset << 12 | flags).to_be_bytes();
            (6, [&start[..], &control, &[1; 6], &rest].concat())
        },
    );
    // A transport version of 0 is rare among random bytes, and is what RoCE packets have.
    let roce = (rest(), any::<u8>()).prop_map(move |(mut rest, flags)| {
        if let Some(byte) = rest.get_mut(1) {
            *byte = flags & 0xf0;
        }
        udp(4791, rest)
    });
    prop_oneof![
        roce,
        (prop_oneof![Just(53), Just(4789), any::<u16>()], rest())
            .prop_map(move |(port, rest)| udp(port, rest)),
        tcp,
        rest().prop_map(|rest| (1, rest)),
        rest().prop_map(|rest| (58, rest)),
        (any::<u8>(), rest()),
        (prop::sample::select(vec![0, 43, 44, 60]), rest()),
    ]
}

/// A frame near the mould of the fast path; then some bytes are set at random, and some padding.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let built = (transports(), any::<bool>(), 0..6_u8).prop_map(|(transport, is_ipv4, tags)| {
        let (protocol, payload) = transport;
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        for _ in 3..tags {
            frame.extend([0x81, 0, 0, 7]);
        }
        let (ether_type, header) = match is_ipv4 {
            true => (EtherType::IPV4, ipv4_header(protocol, payload.len() as u16)),
            false => (EtherType::IPV6, ipv6_header(protocol, payload.len() as u16)),
        };
        frame.extend(ether_type.0.to_be_bytes());
        frame.extend(header);
        frame.extend(payload);
        frame
    });
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    (built, edits, 0..20_usize).prop_map(|(mut frame, edits, padding)| {
        for (at, byte) in edits {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        frame.resize(frame.len() + padding, 0);
        frame
    })
}

fn ipv4_header(protocol: u8, payload_length: u16) -> Vec<u8> {
    let repr = ipv4::Repr {
        traffic_class: TrafficClass(2),
        identification: 1,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: ipv4::FragmentOffset::default(),
        ttl: 64,
        protocol: IpProtocol(protocol),
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
        payload_length,
        options: ipv4::Options::default(),
    };
    let mut bytes = vec![0; 20];
    repr.emit(&mut bytes).unwrap();
    bytes
}

fn ipv6_header(next_header: u8, payload_length: u16) -> Vec<u8> {
    let repr = ipv6::Repr {
        traffic_class: TrafficClass(2),
        flow_label: FlowLabel::new(7).unwrap(),
        payload_length,
        next_header: IpProtocol(next_header),
        hop_limit: 64,
        source: "fd77::1".parse().unwrap(),
        destination: "fd77::2".parse().unwrap(),
    };
    let mut bytes = vec![0; 40];
    repr.emit(&mut bytes).unwrap();
    bytes
}

/// Whether a legal frame is one that the fast path is for.
fn is_in_mould(headers: &Headers) -> bool {
    let is_plain_ip = match headers.ip_version {
        4 => headers.l4 == 34,
        6 => headers.l4 == 54,
        _ => false,
    };
    let is_followed = match headers.kind {
        Kind::Udp => headers.destination_port() != vxlan::UDP_PORT,
        Kind::Tcp | Kind::RoceV2 | Kind::Icmpv4 | Kind::Icmpv6 => true,
        _ => false,
    };
    let is_ip = is_plain_ip && is_followed && headers.fragment == Fragment::None;
    headers.tags == 0 && (is_ip || headers.kind == Kind::Arp)
}

fn paths_agree(frame: &[u8], extent: Extent) -> Result<(), TestCaseError> {
    let at_hand = &frame[..extent.available as usize];
    // What lies behind the bytes at hand is there to be loaded, and must not count.
    let window = Window::from_bytes(frame);
    let tail = || Some(Tail::from_bytes(frame));
    let fast = parse_fast_with(&window, extent, tail);
    let Window([start @ .., _, _, _, _]) = window;
    if !reaches_last_quarter(&start) {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = start;
        let cut = Window([a, b, c, d, e, f, g, h, i, j, k, l, 0, 0, 0, 0]);
        prop_assert_eq!(
            parse_fast_with(&cut, extent, tail),
            fast,
            "bytes from 48 on were read"
        );
    }
    let slow = parse_slow(at_hand, extent.length);
    match fast {
        Fast::Parsed(headers) => prop_assert_eq!(slow, Ok(headers)),
        Fast::Slow => {
            let legal = slow.ok().filter(is_in_mould);
            prop_assert_eq!(legal, None, "the fast path should take this");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn fast_is_slow(frame in frames(), cut in any::<prop::sample::Index>()) {
        let length = frame.len() as u32;
        paths_agree(&frame, Extent::whole(length))?;
        let available = cut.index(frame.len() + 1) as u32;
        paths_agree(&frame, Extent { length, available })?;
        paths_agree(&frame, Extent::whole(available))?;
    }

    #[test]
    fn parts_lie_inside_the_frame(frame in frames()) {
        let headers = match parse_bytes(&frame, frame.len() as u32) {
            Ok(headers) => headers,
            Err(dropped) => dropped.headers,
        };
        prop_assert!(headers.end() as usize <= frame.len() || headers.payload_length == 0);
        if headers.l4 != 0 {
            prop_assert!(headers.l3 < headers.l4 && headers.l4 <= headers.payload);
        }
        let _ = transport_state(&frame, &headers);
        if let Ok(layout) = RoceLayout::new(&headers) {
            let parts = layout.extended_length + layout.payload_length + layout.pad + 4;
            prop_assert_eq!(parts, headers.payload_length);
        }
    }

    #[test]
    fn the_chain_of_extension_headers_is_the_same(frame in frames()) {
        let parsed = parse_slow(&frame, frame.len() as u32);
        let Ok(headers) = parsed else { return Ok(()) };
        if headers.ip_version == 6 {
            let (repr, payload) = ipv6::Repr::parse(&frame[usize::from(headers.l3)..]).unwrap();
            let mut chain = Extensions::new(repr.next_header, payload);
            prop_assert!(chain.by_ref().all(|step| step.is_ok()));
            prop_assert_eq!(chain.next_header(), headers.protocol);
            let walked = payload.len() - chain.rest().len();
            prop_assert_eq!(usize::from(headers.l3) + 40 + walked, usize::from(headers.l4));
        }
    }

    #[test]
    fn no_bytes_make_anything_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        length in any::<u32>(),
    ) {
        let _ = parse_bytes(&bytes, length);
        let _ = parse_bytes(&bytes, bytes.len() as u32);
        let _ = ipv4::Repr::parse(&bytes).map(|(repr, _)| repr.options.count());
        let _ = ipv6::Repr::parse(&bytes);
        for next_header in [0, 43, 44, 60] {
            let _ = Extensions::new(IpProtocol(next_header), &bytes).count();
        }
        let _ = tcp::Repr::parse(&bytes);
        let _ = tcp_option::TcpOptions::new(&bytes).count();
        let _ = ndp_option::NdOptions::new(&bytes).count();
        let _ = ndp_neighbor::Repr::parse(&bytes, 255);
        let _ = ndp_router::Advertisement::parse(&bytes, 255);
        let _ = ndp_redirect::Repr::parse(&bytes, 255);
        let _ = icrc::verify::<Arithmetic>(&bytes);
    }

    #[test]
    fn views_lose_nothing(bytes in any::<[u8; 64]>()) {
        fn check<T>(bytes: &[u8]) -> Result<(), TestCaseError>
        where
            T: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable
                + zerocopy::KnownLayout + zerocopy::Unaligned,
        {
            let (view, _) = T::ref_from_prefix(bytes).unwrap();
            prop_assert_eq!(view.as_bytes(), &bytes[..size_of::<T>()]);
            Ok(())
        }
        check::<ethernet::Header>(&bytes)?;
        check::<vlan::Header>(&bytes)?;
        check::<arp::Header>(&bytes)?;
        check::<ipv4::Header>(&bytes)?;
        check::<ipv6::Header>(&bytes)?;
        check::<icmpv4::Header>(&bytes)?;
        check::<icmpv6::Header>(&bytes)?;
        check::<udp::Header>(&bytes)?;
        check::<tcp::Header>(&bytes)?;
        check::<bth::Header>(&bytes)?;
        // What a view holds that is legal comes back as the same bytes, but for reserved bits.
        let (header, _) = bth::Header::split(&bytes).unwrap();
        if let Ok(repr) = bth::Repr::parse(header) {
            let again = bth::Repr::parse(&repr.header());
            prop_assert_eq!(again, Ok(repr));
        }
    }

    #[test]
    fn tcp_segments_come_back(
        numbers in any::<(u16, u16, u32, u32, u16, u16)>(),
        flags in 0..0x200_u16,
        options in (any::<Option<u16>>(), prop::option::of(0..15_u8), any::<bool>(), any::<bool>()),
        blocks in prop::collection::vec(any::<(u32, u32)>(), 0..5),
        data in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let (source_port, destination_port, sequence, acknowledgement, window, urgent) = numbers;
        let (maximum_segment_size, window_scale, sack_permitted, has_timestamps) = options;
        let mut sack = tcp_option::SackBlocks::default();
        for (left, right) in blocks {
            let (left, right) = (TcpSequence(left), TcpSequence(right));
            sack.push(tcp_option::SackBlock { left, right });
        }
        let timestamps = tcp_option::Timestamps { value: sequence, echo: acknowledgement };
        let repr = tcp::Repr {
            source_port,
            destination_port,
            sequence: TcpSequence(sequence),
            acknowledgement: TcpSequence(acknowledgement),
            flags: TcpFlags::from_bits_truncate(flags),
            window,
            urgent,
            options: tcp_option::Options {
                maximum_segment_size,
                window_scale,
                sack_permitted,
                sack,
                timestamps: has_timestamps.then_some(timestamps),
            },
        };
        let mut segment = vec![0xa5; repr.length()];
        prop_assert!(segment.len() <= 60 && segment.len().is_multiple_of(4));
        let fill = Fill::Compute { payload: Sum::of(&data) };
        repr.emit(&mut segment, Sum::ZERO, fill).unwrap();
        segment.extend(&data);
        prop_assert!(Sum::of(&segment).holds());
        let (back, rest) = tcp::Repr::parse(&segment).unwrap();
        prop_assert_eq!(rest, &data[..]);
        // Blocks that did not fit are left out; all else is the same.
        let kept = back.options.sack.as_slice();
        prop_assert_eq!(kept, &repr.options.sack.as_slice()[..kept.len()]);
        let same = tcp_option::Options { sack: repr.options.sack, ..back.options };
        prop_assert_eq!(tcp::Repr { options: same, ..back }, repr);
    }

    #[test]
    fn ethernet_and_tags_come_back(addresses in any::<([u8; 6], [u8; 6])>(), kind in 0x600_u16..) {
        let repr = ethernet::Repr {
            destination: MacAddress(addresses.0),
            source: MacAddress(addresses.1),
            ether_type: EtherType(kind),
        };
        prop_assert_eq!(ethernet::Repr::parse(&repr.header()), Some(repr));
        let (header, _) = vlan::Header::split(&addresses.0).unwrap();
        prop_assert_eq!(vlan::Repr::parse(header).header(), *header);
    }
}
