//! What the network says about connections: ICMP errors that quote a TCP segment of ours.

use std::net::IpAddr;

use warpwire_protocols::checksum::{Sum, pseudo_ipv6};
use warpwire_protocols::parse::{Headers, Kind};
use warpwire_protocols::wire::{IpProtocol, TcpSequence, icmpv4, icmpv6, ipv4, ipv6};

use super::addresses::Addresses;

/// An ICMP error about a segment that seems to be ours. Anybody can write one: believe it only if
/// the segment is under way (RFC 5927).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IcmpReport {
    /// What it says.
    pub what: Reported,
    /// The own address and port of the segment.
    pub local: (IpAddr, u16),
    /// The peer's.
    pub remote: (IpAddr, u16),
    /// The segment's sequence number.
    pub sequence: TcpSequence,
}

/// What an ICMP error says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reported {
    /// The segment found no way.
    Unreachable {
        /// Why, in the words of ICMP or ICMPv6.
        code: u8,
    },
    /// The packet was longer than a link takes.
    TooBig {
        /// Bytes of the largest IP packet that the link takes.
        mtu: u16,
    },
}

/// Reads a report; `None` if the frame is another one, or not about a segment of ours.
pub(super) fn read(frame: &[u8], headers: &Headers, addresses: &Addresses) -> Option<IcmpReport> {
    let message = message(frame, headers)?;
    let (what, quoted) = match headers.kind {
        Kind::Icmpv4 => read_v4(message)?,
        _ => read_v6(message)?,
    };
    let Quoted {
        local,
        remote,
        transport,
        bytes,
    } = quoted;
    let what = match what {
        // A router of before RFC 1191 does not say how much.
        Reported::TooBig { mtu: 0 } => Reported::TooBig {
            mtu: plateau(bytes),
        },
        what => what,
    };
    let is_ours = |address| addresses.is_own(address);
    let fours = transport.as_chunks::<4>().0;
    let (Some([a, b, c, d]), Some(sequence)) = (fours.first(), fours.get(1)) else {
        return None;
    };
    let report = IcmpReport {
        what,
        local: (local, u16::from_be_bytes([*a, *b])),
        remote: (remote, u16::from_be_bytes([*c, *d])),
        sequence: TcpSequence(u32::from_be_bytes(*sequence)),
    };
    is_ours(local).then_some(report)
}

/// The message of an ICMP or ICMPv6 packet, if its checksums hold.
pub(super) fn message<'a>(frame: &'a [u8], headers: &Headers) -> Option<&'a [u8]> {
    let start = usize::from(headers.l4);
    let message = frame.get(start..usize::try_from(headers.end()).ok()?)?;
    let pseudo = match headers.kind {
        Kind::Icmpv4 => {
            let header = frame.get(usize::from(headers.l3)..start)?;
            ipv4::checksum_holds(header).then_some(Sum::ZERO)?
        }
        Kind::Icmpv6 => {
            let (source, destination) = headers.ipv6_addresses(frame)?;
            let length = u32::try_from(message.len()).ok()?;
            pseudo_ipv6(source, destination, IpProtocol::ICMPV6, length)
        }
        _ => return None,
    };
    Sum::of(message).plus(pseudo).holds().then_some(message)
}

/// The start of a packet that an error quotes.
struct Quoted<'a> {
    local: IpAddr,
    remote: IpAddr,
    /// From the TCP header on.
    transport: &'a [u8],
    /// Bytes of the whole packet.
    bytes: u16,
}

fn read_v4(message: &[u8]) -> Option<(Reported, Quoted<'_>)> {
    let (header, quoted) = icmpv4::Header::split(message).ok()?;
    let what = match icmpv4::Repr::parse(header)? {
        icmpv4::Repr::DestinationUnreachable {
            code: 4,
            next_hop_mtu,
        } => Reported::TooBig { mtu: next_hop_mtu },
        icmpv4::Repr::DestinationUnreachable { code, .. } => Reported::Unreachable { code },
        _ => return None,
    };
    // Routers changed the quoted header; it is cut short as well. So only its fields are read.
    let (ip, _) = ipv4::Header::split(quoted).ok()?;
    let is_tcp =
        ip.version() == 4 && ip.protocol == IpProtocol::TCP.0 && ip.fragment.get() & 0x1fff == 0;
    let quoted = Quoted {
        local: std::net::Ipv4Addr::from(ip.source).into(),
        remote: std::net::Ipv4Addr::from(ip.destination).into(),
        transport: quoted.get(ip.header_length()..)?,
        bytes: ip.total_length.get(),
    };
    is_tcp.then_some((what, quoted))
}

fn read_v6(message: &[u8]) -> Option<(Reported, Quoted<'_>)> {
    let (header, quoted) = icmpv6::Header::split(message).ok()?;
    let what = match icmpv6::Repr::parse(header)? {
        icmpv6::Repr::PacketTooBig { mtu } => Reported::TooBig {
            mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
        },
        icmpv6::Repr::DestinationUnreachable { code } => Reported::Unreachable { code },
        _ => return None,
    };
    let (ip, transport) = ipv6::Header::split(quoted).ok()?;
    let quoted = Quoted {
        local: std::net::Ipv6Addr::from(ip.source).into(),
        remote: std::net::Ipv6Addr::from(ip.destination).into(),
        transport,
        bytes: ip.payload_length.get().saturating_add(40),
    };
    let is_tcp = ip.version() == 6 && ip.next_header == IpProtocol::TCP.0;
    is_tcp.then_some((what, quoted))
}

/// The largest MTU in use below a packet that did not fit. RFC 1191 section 7.1.
fn plateau(bytes: u16) -> u16 {
    let below = PLATEAUS.iter().find(|mtu| **mtu < bytes);
    below.copied().unwrap_or(LEAST)
}

const PLATEAUS: [u16; 9] = [32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296];
const LEAST: u16 = 68;
