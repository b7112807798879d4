//! The whole-frame parser: both paths agree on any bytes, and what they find lies in the frame.

use warpwire_protocols::checksum::{Arithmetic, Host, icrc, transport_state};
use warpwire_protocols::parse::{
    Extent, Fast, Fragment, Headers, Kind, RoceLayout, Tail, Window, parse_bytes, parse_fast,
    parse_fast_with, parse_slow,
};
use warpwire_protocols::wire::ipv6_extension::Extensions;
use warpwire_protocols::wire::{ipv6, vxlan};

use crate::headers;

/// `data` is a frame, whole and cut at every place that the fast path looks at.
pub fn check(data: &[u8]) {
    let Ok(length) = u32::try_from(data.len()) else {
        return;
    };
    paths_agree(data, Extent::whole(length));
    for available in 0..length.min(DEEPEST) {
        paths_agree(data, Extent { length, available });
    }
    // A capture that kept the start of a longer frame; a length that says less than there is.
    for other in [length + 1, 2 * length, u32::MAX, length / 2] {
        let available = length;
        let length = other;
        paths_agree(data, Extent { length, available });
    }
    let parsed = parse_bytes(data, length);
    let headers = parsed.unwrap_or_else(|dropped| {
        let _ = dropped.to_string();
        dropped.headers
    });
    parts_lie_inside(data, &headers);
    for part in [headers.l3, headers.l4, headers.payload] {
        headers::check(data.get(usize::from(part)..).unwrap_or(&[]));
    }
    if parsed.is_ok() {
        extensions_agree(data, &headers);
        roce_divides(data, &headers);
    }
    let _ = transport_state(data, &headers);
}

fn paths_agree(data: &[u8], extent: Extent) {
    // What lies behind the bytes at hand is there to be loaded, and must not count.
    let window = Window::from_bytes(data);
    let slow = parse_slow(
        data.get(..extent.available as usize).unwrap_or(data),
        extent.length,
    );
    match parse_fast_with(&window, extent, || Some(Tail::from_bytes(data))) {
        Fast::Parsed(headers) => assert_eq!(slow, Ok(headers), "{extent:?}"),
        Fast::Slow => {
            let missed = slow.ok().filter(is_in_mould);
            assert_eq!(missed, None, "the fast path should take this: {extent:?}");
        }
    }
    // Without a tail the fast path may give up, and may not say anything else.
    if let Fast::Parsed(headers) = parse_fast(&window, extent) {
        assert_eq!(slow, Ok(headers), "without a tail, {extent:?}");
    }
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

fn parts_lie_inside(data: &[u8], headers: &Headers) {
    let inside = headers.end() as usize <= data.len() || headers.payload_length == 0;
    assert!(inside, "{headers:?} in {} bytes", data.len());
    if headers.l4 != 0 {
        let ordered = headers.l3 < headers.l4 && headers.l4 <= headers.payload;
        assert!(ordered, "{headers:?}");
    }
    let reaches = |bytes: usize| data.len() >= usize::from(headers.l3) + bytes;
    let has_ipv4 = headers.ipv4_addresses(data).is_some();
    assert_eq!(
        has_ipv4,
        headers.ip_version == 4 && reaches(20),
        "{headers:?}"
    );
    let has_ipv6 = headers.ipv6_addresses(data).is_some();
    assert_eq!(
        has_ipv6,
        headers.ip_version == 6 && reaches(40),
        "{headers:?}"
    );
}

/// The walk over extension headers finds the protocol and the place that the parser found.
fn extensions_agree(data: &[u8], headers: &Headers) {
    let Some(datagram) = data.get(usize::from(headers.l3)..) else {
        return;
    };
    if headers.ip_version != 6 {
        return;
    }
    let (repr, payload) = ipv6::Repr::parse(datagram).expect("the parser took it");
    let mut chain = Extensions::new(repr.next_header, payload);
    let legal = chain.by_ref().all(|step| step.is_ok());
    assert!(legal, "the parser took a chain that is illegal");
    assert_eq!(chain.next_header(), headers.protocol);
    let walked = payload.len() - chain.rest().len();
    assert_eq!(
        usize::from(headers.l3) + 40 + walked,
        usize::from(headers.l4)
    );
}

fn roce_divides(data: &[u8], headers: &Headers) {
    if headers.kind != Kind::RoceV2 {
        return;
    }
    if let Ok(layout) = RoceLayout::new(headers) {
        let parts = layout.extended_length + layout.payload_length + layout.pad + 4;
        assert_eq!(parts, headers.payload_length);
    }
    let datagram = usize::from(headers.l3)..headers.end() as usize;
    let datagram = data.get(datagram).expect("inside the frame");
    let verdict = icrc::verify::<Host>(datagram);
    assert_eq!(icrc::verify::<Arithmetic>(datagram), verdict);
}

/// Bytes of a frame that the fast path and its tail look at.
const DEEPEST: u32 = 80;
