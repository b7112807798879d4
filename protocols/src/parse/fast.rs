//! The fast path: constant offsets into words that lie in registers.
//!
//! Offsets in this mould, in bytes from the start of the frame:
//! ```text
//!          Ethernet   IP         UDP/TCP/ICMP   BTH
//! IPv4     0          14 (20)    34             42
//! IPv6     0          14 (40)    54             62 to 74: needs the tail
//! ARP      0          14 (28)
//! ```
//! Whatever does not hold exactly is [`Fast::Slow`]: the slow path alone names reasons.

use super::headers::{Extent, Fragment, Headers, Kind};
use super::window::{Tail, Window};
use crate::wire::{EtherType, IpProtocol, Psn, Qpn, TcpFlags, bth, vxlan};

/// What the fast path found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fast {
    /// The frame fits the mould and is well-formed.
    Parsed(Headers),
    /// Not this mould, or malformed: the slow path decides.
    Slow,
}

/// Parses what 64 bytes can hold. IPv6 with TCP or RoCEv2 reaches to byte 74 and is slow here: use
/// [`parse_fast_with`] where such traffic is expected.
#[inline(always)]
pub fn parse_fast(window: &Window, extent: Extent) -> Fast {
    parse_fast_with(window, extent, || None)
}

/// [`parse_fast`], with bytes 64 to 79 fetched by `tail` for the frames that need them. `tail` is
/// called only if the frame is IPv6 with TCP or RoCEv2 and has at least 74 bytes at hand.
#[inline(always)]
pub fn parse_fast_with(
    window: &Window,
    extent: Extent,
    tail: impl FnOnce() -> Option<Tail>,
) -> Fast {
    // Bytes 12 to 15: the type, version and header length, type of service.
    let word = window.word::<3>();
    if word & 0x00ff_ffff == IPV4_WITHOUT_OPTIONS {
        ipv4(window, extent)
    } else if word & 0x00f0_ffff == IPV6 {
        ipv6(window, extent, tail)
    } else if word & 0xffff == ARP {
        arp(window, extent)
    } else {
        Fast::Slow
    }
}

/// Whether [`parse_fast_with`] looks at bytes 48 to 63 of a frame that starts with these words, as
/// in [`Window`]: IPv6, and UDP to the port of RoCEv2. Who loads them only then passes zeros else.
#[inline(always)]
pub const fn reaches_last_quarter(start: &[u32; 12]) -> bool {
    let is_ipv6 = start[3] & 0xffff == IPV6 & 0xffff;
    // Bytes 36 and 37, of IPv4 without options.
    is_ipv6 || (start[9] as u16).swap_bytes() == bth::UDP_PORT
}

#[inline(always)]
fn ipv4(window: &Window, extent: Extent) -> Fast {
    let end = L3 + u32::from(window.ipv4_total_length());
    // Bytes 20 and 21: more-fragments and the offset; don't-fragment and the reserved bit are free.
    let whole = window.word::<5>() & 0x0000_ff3f == 0;
    if !whole || end > extent.length {
        return Fast::Slow;
    }
    let headers = Headers {
        ether_type: EtherType::IPV4,
        l3: L3 as u16,
        l4: IPV4_L4 as u16,
        ip_version: 4,
        protocol: window.ipv4_protocol(),
        fragment: Fragment::None,
        traffic_class: window.ipv4_traffic_class(),
        ttl: window.ipv4_ttl(),
        l4_start: window.be32::<34>(),
        ..Headers::default()
    };
    let bounds = Bounds {
        l4: IPV4_L4,
        end,
        available: extent.available,
    };
    match headers.protocol {
        IpProtocol::UDP => udp(headers, bounds, window.be16::<38>(), || {
            Some((
                window.be32::<42>(),
                window.be32::<46>(),
                window.be32::<50>(),
            ))
        }),
        IpProtocol::TCP => tcp(headers, bounds, || Some(window.be16::<46>())),
        IpProtocol::ICMPV4 => fixed(headers, bounds, Kind::Icmpv4, 8),
        _ => Fast::Slow,
    }
}

#[inline(always)]
fn ipv6(window: &Window, extent: Extent, tail: impl FnOnce() -> Option<Tail>) -> Fast {
    let end = IPV6_L4 + u32::from(window.ipv6_payload_length());
    if end > extent.length {
        return Fast::Slow;
    }
    let headers = Headers {
        ether_type: EtherType::IPV6,
        l3: L3 as u16,
        l4: IPV6_L4 as u16,
        ip_version: 6,
        protocol: window.ipv6_next_header(),
        fragment: Fragment::None,
        traffic_class: window.ipv6_traffic_class(),
        ttl: window.ipv6_hop_limit(),
        l4_start: window.be32::<54>(),
        ..Headers::default()
    };
    let bounds = Bounds {
        l4: IPV6_L4,
        end,
        available: extent.available,
    };
    match headers.protocol {
        IpProtocol::UDP => udp(headers, bounds, window.be16::<58>(), || {
            let tail = tail()?;
            let start = u32::from(window.be16::<62>()) << 16 | u32::from(tail.be16::<64>());
            Some((start, tail.be32::<66>(), tail.be32::<70>()))
        }),
        IpProtocol::TCP => tcp(headers, bounds, || Some(tail()?.be16::<66>())),
        IpProtocol::ICMPV6 => fixed(headers, bounds, Kind::Icmpv6, 4),
        _ => Fast::Slow,
    }
}

#[inline(always)]
fn arp(window: &Window, extent: Extent) -> Fast {
    // Bytes 14 to 19: hardware type 1, protocol type 0x0800, address lengths 6 and 4.
    let format = window.word::<3>() >> 16 == 0x0100 && window.word::<4>() == 0x0406_0008;
    if !format || extent.length.min(extent.available) < ARP_END {
        return Fast::Slow;
    }
    Fast::Parsed(Headers {
        kind: Kind::Arp,
        ether_type: EtherType::ARP,
        l3: L3 as u16,
        payload: ARP_END as u16,
        ..Headers::default()
    })
}

/// Where the transport header starts, where the datagram ends, and how far bytes are at hand.
#[derive(Clone, Copy)]
struct Bounds {
    l4: u32,
    end: u32,
    available: u32,
}

#[inline(always)]
fn udp(
    headers: Headers,
    bounds: Bounds,
    length: u16,
    bth_words: impl FnOnce() -> Option<(u32, u32, u32)>,
) -> Fast {
    let length = u32::from(length);
    let payload = bounds.l4 + 8;
    let fits = length >= 8 && bounds.l4 + length <= bounds.end && payload <= bounds.available;
    if !fits || headers.destination_port() == vxlan::UDP_PORT {
        return Fast::Slow;
    }
    if headers.destination_port() != bth::UDP_PORT {
        let payload_length = length - 8;
        return Fast::Parsed(Headers {
            kind: Kind::Udp,
            payload: payload as u16,
            payload_length,
            ..headers
        });
    }
    let payload = payload + BTH;
    if length < 8 + BTH + ICRC || payload > bounds.available {
        return Fast::Slow;
    }
    let Some((start, queue, sequence)) = bth_words() else {
        return Fast::Slow;
    };
    let flags = (start >> 16) as u8;
    if flags & bth::VERSION_MASK != 0 {
        return Fast::Slow;
    }
    Fast::Parsed(Headers {
        kind: Kind::RoceV2,
        payload: payload as u16,
        payload_length: length - 8 - BTH,
        bth_opcode: (start >> 24) as u8,
        bth_flags: flags,
        destination_qp: Qpn::new(queue),
        psn: Psn::new(sequence),
        ..headers
    })
}

#[inline(always)]
fn tcp(headers: Headers, bounds: Bounds, control: impl FnOnce() -> Option<u16>) -> Fast {
    let limit = bounds.end.min(bounds.available);
    if bounds.l4 + 20 > limit {
        return Fast::Slow;
    }
    // Bytes 12 and 13 of the header: data offset in words, reserved bits, flags.
    let Some(control) = control() else {
        return Fast::Slow;
    };
    let length = u32::from(control >> 12) * 4;
    let payload = bounds.l4 + length;
    if length < 20 || payload > limit {
        return Fast::Slow;
    }
    Fast::Parsed(Headers {
        kind: Kind::Tcp,
        payload: payload as u16,
        payload_length: bounds.end - payload,
        tcp_flags: TcpFlags::from_bits_truncate(control),
        ..headers
    })
}

/// A transport header of fixed length.
#[inline(always)]
fn fixed(headers: Headers, bounds: Bounds, kind: Kind, length: u32) -> Fast {
    let payload = bounds.l4 + length;
    if payload > bounds.end.min(bounds.available) {
        return Fast::Slow;
    }
    Fast::Parsed(Headers {
        kind,
        payload: payload as u16,
        payload_length: bounds.end - payload,
        ..headers
    })
}

/// Offset of the network header behind an untagged Ethernet header.
const L3: u32 = 14;
const IPV4_L4: u32 = L3 + 20;
const IPV6_L4: u32 = L3 + 40;
const ARP_END: u32 = L3 + 28;
const BTH: u32 = bth::Header::LENGTH as u32;
const ICRC: u32 = bth::ICRC_LENGTH as u32;

/// Bytes 12 to 14 as a little-endian word: type 0x0800, version 4, header length 5.
const IPV4_WITHOUT_OPTIONS: u32 = 0x0045_0008;
/// Bytes 12 to 14 under a mask of 0xf0ffff: type 0x86dd, version 6.
const IPV6: u32 = 0x0060_dd86;
/// Bytes 12 and 13: type 0x0806.
const ARP: u32 = 0x0608;
