//! The slow path: tags, options, extension headers, fragments, tunnels, and every reason to drop.
//!
//! It walks a copy of the header bytes and reads on after a fault where that still makes sense, so
//! that a counter can show what a malformed or cut frame was. The first reason met is the answer.

use super::headers::{Dropped, Fragment, Headers, Kind};
use crate::DropReason;
use crate::wire::ipv6_extension::MAX_EXTENSIONS;
use crate::wire::{
    EtherType, IpProtocol, Psn, Qpn, TagControl, TcpFlags, TrafficClass, bth, vxlan,
};

/// Header bytes that the slow path looks at: what a caller copies out of a frame.
pub const HEADER_BYTES: usize = 256;

/// Stacked VLAN tags that are followed.
pub const MAX_TAGS: u8 = 4;

/// Parses any frame. `bytes` are the bytes at hand from its start, of which the first
/// [`HEADER_BYTES`] count; `length` is that of the whole frame.
///
/// # Errors
/// The first reason met, with everything that could be read.
#[inline(always)]
pub fn parse_slow(bytes: &[u8], length: u32) -> Result<Headers, Dropped> {
    let mut headers = Headers::default();
    match walk(bytes, length as usize, &mut headers) {
        None => Ok(headers),
        Some(reason) => Err(Dropped { reason, headers }),
    }
}

/// Outlined, and given where the headers shall be: they are stored one by one, and a processor that
/// copies them in larger pieces soon after waits for those stores.
#[cold]
#[inline(never)]
fn walk(bytes: &[u8], length: usize, headers: &mut Headers) -> Option<DropReason> {
    let limit = HEADER_BYTES.min(length);
    let bytes = bytes.get(..limit).unwrap_or(bytes);
    let mut walk = Walk {
        bytes,
        length,
        headers,
        reason: None,
    };
    if let Err(reason) = walk.ethernet() {
        walk.note(reason);
    }
    walk.reason
}

struct Walk<'a> {
    bytes: &'a [u8],
    /// Of the whole frame.
    length: usize,
    headers: &'a mut Headers,
    reason: Option<DropReason>,
}

impl<'a> Walk<'a> {
    fn ethernet(&mut self) -> Result<(), DropReason> {
        let frame = self.length;
        let mut at = 14;
        let [high, low] = self.read(12, frame, DropReason::TruncatedL2)?;
        self.headers.ether_type = EtherType(u16::from_be_bytes([high, low]));
        while self.headers.ether_type.is_tag() {
            let [a, b, c, d] = self.read(at, frame, DropReason::TruncatedL2)?;
            let control = TagControl(u16::from_be_bytes([a, b]));
            match self.headers.tags {
                0 => self.headers.outer_tag = control,
                1 => self.headers.inner_tag = control,
                MAX_TAGS.. => return Err(DropReason::TooManyTags),
                _ => {}
            }
            self.headers.tags += 1;
            self.headers.ether_type = EtherType(u16::from_be_bytes([c, d]));
            at += 4;
        }
        self.headers.l3 = at as u16;
        self.set_payload(at, frame);
        let (l4, end) = match self.headers.ether_type {
            EtherType::IPV6 => self.ipv6(at)?,
            EtherType::IPV4 => self.ipv4(at)?,
            _ => return self.other(at, frame),
        };
        self.transport(l4, end)
    }

    /// What is behind the Ethernet header if it is not IP.
    fn other(&mut self, at: usize, frame: usize) -> Result<(), DropReason> {
        match self.headers.ether_type {
            EtherType::ARP => self.arp(at),
            EtherType::MPLS | EtherType::MPLS_MULTICAST => self.kind(Kind::Mpls),
            EtherType::ROCE1 => self.kind(Kind::RoceV1),
            EtherType(length) if self.headers.ether_type.is_length() => {
                self.set_payload(at, frame.min(at + usize::from(length)));
                self.kind(Kind::Llc)
            }
            _ => Ok(()),
        }
    }

    fn arp(&mut self, at: usize) -> Result<(), DropReason> {
        self.headers.kind = Kind::Arp;
        let format: [u8; 6] = self.read(at, self.length, DropReason::TruncatedL3)?;
        if format != [0, 1, 0x08, 0x00, 6, 4] {
            return Err(DropReason::ArpFormat);
        }
        let _: [u8; 28] = self.read(at, self.length, DropReason::TruncatedL3)?;
        self.set_payload(at + 28, at + 28);
        Ok(())
    }

    /// Where the transport header starts, and where the datagram ends.
    fn ipv4(&mut self, at: usize) -> Result<(usize, usize), DropReason> {
        let [first, class, t0, t1, _, _, f0, f1, ttl, protocol] =
            self.read(at, self.length, DropReason::TruncatedL3)?;
        if first >> 4 != 4 {
            return Err(DropReason::IpVersion);
        }
        self.headers.kind = Kind::Ipv4;
        self.headers.ip_version = 4;
        self.headers.traffic_class = TrafficClass(class);
        self.headers.ttl = ttl;
        self.headers.protocol = IpProtocol(protocol);
        let header_length = usize::from(first & 0x0f) * 4;
        let total = usize::from(u16::from_be_bytes([t0, t1]));
        let field = u16::from_be_bytes([f0, f1]);
        let offset = usize::from(field & 0x1fff) * 8;
        self.headers.fragment = fragment(offset, field & 0x2000 != 0);
        let _: [u8; 20] = self.read(at, self.length, DropReason::TruncatedL3)?;
        if header_length < 20 {
            return Err(DropReason::Ipv4HeaderLength);
        }
        let end = match total {
            // A kernel's segment before it is cut: refused, but what it is can be told.
            0 => {
                self.note(DropReason::IpLengthBelowHeader);
                self.length
            }
            total if total < header_length => return Err(DropReason::IpLengthBelowHeader),
            total if offset + total > 65535 => return Err(DropReason::FragmentRange),
            total => self.datagram_end(at + total),
        };
        Ok((at + header_length, end))
    }

    /// As [`Walk::ipv4`], behind the extension headers.
    fn ipv6(&mut self, at: usize) -> Result<(usize, usize), DropReason> {
        let whole = self.within::<40>(at);
        let [b0, b1, _, _, l0, l1, next, hop_limit] = match whole {
            Some(&[b0, b1, b2, b3, l0, l1, next, hop_limit, ..]) => {
                [b0, b1, b2, b3, l0, l1, next, hop_limit]
            }
            None => self.read(at, self.length, DropReason::TruncatedL3)?,
        };
        if b0 >> 4 != 6 {
            return Err(DropReason::IpVersion);
        }
        self.headers.kind = Kind::Ipv6;
        self.headers.ip_version = 6;
        self.headers.traffic_class = TrafficClass((u16::from_be_bytes([b0, b1]) >> 4) as u8);
        self.headers.ttl = hop_limit;
        let protocol = IpProtocol(next);
        self.headers.protocol = protocol;
        if whole.is_none() {
            let _: [u8; 40] = self.read(at, self.length, DropReason::TruncatedL3)?;
        }
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let end = if length == 0 && protocol != IpProtocol::NO_NEXT_HEADER {
            self.note(DropReason::Jumbogram);
            self.length
        } else {
            self.datagram_end(at + 40 + length)
        };
        let l4 = self.extensions((at + 40, end), protocol)?;
        Ok((l4, end))
    }

    /// Follows the extension headers from `at`; returns where they end.
    #[inline(always)]
    fn extensions(
        &mut self,
        (at, end): (usize, usize),
        mut protocol: IpProtocol,
    ) -> Result<usize, DropReason> {
        let at_hand = self.bytes.get(..end).unwrap_or(self.bytes);
        let mut rest = at_hand.get(at..).unwrap_or_default();
        let (mut count, mut plain) = (0, FIRST_EXTENSIONS);
        // In registers, as long as whole headers of the plain kind lie there.
        while is_among(protocol, plain) && count < MAX_EXTENSIONS {
            let Some([next, units, ..]) = rest.first_chunk::<8>() else {
                break;
            };
            let Some(behind) = rest.get(extension_length(*units)..) else {
                break;
            };
            (protocol, rest) = (IpProtocol(*next), behind);
            (count, plain) = (count + 1, LATER_EXTENSIONS);
        }
        self.headers.protocol = protocol;
        let at = at_hand.len() - rest.len();
        if !is_among(protocol, FIRST_EXTENSIONS | 1 << IpProtocol::FRAGMENT.0) {
            return Ok(at);
        }
        // Its own walk, so that this one need not be in memory.
        let walk = Walk {
            headers: self.headers,
            ..*self
        };
        walk.odd_extensions((at, end), count)
    }

    /// The extension headers from `at` on, after `count` others: fragments, and what is at fault.
    #[cold]
    #[inline(never)]
    fn odd_extensions(
        mut self,
        (mut at, end): (usize, usize),
        first: u8,
    ) -> Result<usize, DropReason> {
        self.set_payload(at, end);
        for count in first..=MAX_EXTENSIONS {
            let length = match self.headers.protocol {
                IpProtocol::HOP_BY_HOP if count > 0 => return Err(DropReason::ExtensionOrder),
                IpProtocol::HOP_BY_HOP | IpProtocol::ROUTING | IpProtocol::DESTINATION_OPTIONS => {
                    let [_, units] = self.read(at, end, DropReason::TruncatedL3)?;
                    extension_length(units)
                }
                IpProtocol::FRAGMENT => 8,
                _ => break,
            };
            if count == MAX_EXTENSIONS {
                return Err(DropReason::ExtensionCount);
            }
            if at + length > end {
                return Err(DropReason::TruncatedL3);
            }
            let [next, _, o0, o1] = self.read(at, end, DropReason::TruncatedL3)?;
            let is_fragment = self.headers.protocol == IpProtocol::FRAGMENT;
            self.headers.protocol = IpProtocol(next);
            at += length;
            self.set_payload(at, end);
            if is_fragment {
                let field = u16::from_be_bytes([o0, o1]);
                let offset = usize::from(field & 0xfff8);
                self.headers.fragment = fragment(offset, field & 1 != 0);
                if offset + (end - at) > 65535 {
                    return Err(DropReason::FragmentRange);
                }
                if self.headers.fragment == Fragment::Later {
                    break;
                }
            }
        }
        Ok(at)
    }

    /// What follows the network header at `at`; the datagram ends at `end`.
    fn transport(&mut self, at: usize, end: usize) -> Result<(), DropReason> {
        if at > end {
            return Err(DropReason::TruncatedL3);
        }
        self.headers.l4 = at as u16;
        self.set_payload(at, end);
        if self.headers.fragment == Fragment::Later {
            return Ok(());
        }
        match (self.headers.ip_version, self.headers.protocol) {
            (_, IpProtocol::UDP) => self.udp(at, end),
            (_, IpProtocol::TCP) => self.tcp(at, end),
            (4, IpProtocol::ICMPV4) => self.icmp(at, end, Kind::Icmpv4, 8),
            (6, IpProtocol::ICMPV6) => self.icmp(at, end, Kind::Icmpv6, 4),
            (_, IpProtocol::GRE) => self.kind(Kind::Gre),
            _ => Ok(()),
        }
    }

    fn udp(&mut self, at: usize, end: usize) -> Result<(), DropReason> {
        let [.., l0, l1, _, _] = match self.within::<8>(at).filter(|_| at + 8 <= end) {
            Some(header) => {
                let [p0, p1, p2, p3, ..] = *header;
                self.headers.l4_start = u32::from_be_bytes([p0, p1, p2, p3]);
                self.headers.kind = Kind::Udp;
                *header
            }
            None => {
                self.start(at, end, Kind::Udp)?;
                self.read(at, end, DropReason::TruncatedL4)?
            }
        };
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        if length < 8 {
            return Err(DropReason::UdpLength);
        }
        let whole = self.headers.fragment == Fragment::None;
        if whole && at + length > end {
            self.note(DropReason::UdpLength);
        }
        let end = end.min(at + length);
        self.set_payload(at + 8, end);
        match self.headers.destination_port() {
            bth::UDP_PORT if whole => self.roce(at + 8, end),
            vxlan::UDP_PORT if whole => self.vxlan(at + 8, end),
            _ => Ok(()),
        }
    }

    fn roce(&mut self, at: usize, end: usize) -> Result<(), DropReason> {
        if at + bth::Header::LENGTH + bth::ICRC_LENGTH > end {
            return Err(DropReason::BthLength);
        }
        let [opcode, flags, _, _, _, q0, q1, q2, _, p0, p1, p2]: [u8; bth::Header::LENGTH] =
            self.read(at, end, DropReason::BthLength)?;
        self.headers.kind = Kind::RoceV2;
        self.headers.bth_opcode = opcode;
        self.headers.bth_flags = flags;
        self.headers.destination_qp = Qpn::new(u32::from_be_bytes([0, q0, q1, q2]));
        self.headers.psn = Psn::new(u32::from_be_bytes([0, p0, p1, p2]));
        self.set_payload(at + bth::Header::LENGTH, end);
        if flags & bth::VERSION_MASK != 0 {
            return Err(DropReason::BthVersion);
        }
        Ok(())
    }

    /// Traffic on the port that does not look like VXLAN stays UDP.
    fn vxlan(&mut self, at: usize, end: usize) -> Result<(), DropReason> {
        if at + vxlan::Header::LENGTH > end {
            return Ok(());
        }
        let [flags, ..]: [u8; vxlan::Header::LENGTH] =
            self.read(at, end, DropReason::TruncatedL4)?;
        if flags & vxlan::VALID_IDENTIFIER != 0 {
            self.headers.kind = Kind::Vxlan;
            self.set_payload(at + vxlan::Header::LENGTH, end);
        }
        Ok(())
    }

    fn tcp(&mut self, at: usize, end: usize) -> Result<(), DropReason> {
        self.start(at, end, Kind::Tcp)?;
        let [.., c0, c1]: [u8; 14] = self.read(at, end, DropReason::TruncatedL4)?;
        let control = u16::from_be_bytes([c0, c1]);
        self.headers.tcp_flags = TcpFlags::from_bits_truncate(control);
        if at + 20 > end {
            return Err(DropReason::TruncatedL4);
        }
        let length = usize::from(control >> 12) * 4;
        if length < 20 || at + length > end {
            return Err(DropReason::TcpDataOffset);
        }
        self.set_payload(at + length, end);
        self.at_hand(at + length)
    }

    fn icmp(&mut self, at: usize, end: usize, kind: Kind, length: usize) -> Result<(), DropReason> {
        self.start(at, end, kind)?;
        if at + length > end {
            return Err(DropReason::TruncatedL4);
        }
        self.set_payload(at + length, end);
        self.at_hand(at + length)
    }

    /// The first four bytes of a transport header: ports, or type and code.
    fn start(&mut self, at: usize, end: usize, kind: Kind) -> Result<(), DropReason> {
        self.headers.l4_start = u32::from_be_bytes(self.read(at, end, DropReason::TruncatedL4)?);
        self.kind(kind)
    }

    fn kind(&mut self, kind: Kind) -> Result<(), DropReason> {
        self.headers.kind = kind;
        Ok(())
    }

    /// Where a datagram ends that says it ends at `end`.
    fn datagram_end(&mut self, end: usize) -> usize {
        if end > self.length {
            self.note(DropReason::IpLengthOverFrame);
        }
        end.min(self.length)
    }

    fn set_payload(&mut self, at: usize, end: usize) {
        self.headers.payload = at as u16;
        self.headers.payload_length = end.saturating_sub(at) as u32;
    }

    fn note(&mut self, reason: DropReason) {
        self.reason.get_or_insert(reason);
    }

    /// `N` bytes at `at`: `reason` if they go past `end`, else whether they are at hand.
    fn read<const N: usize>(
        &self,
        at: usize,
        end: usize,
        reason: DropReason,
    ) -> Result<[u8; N], DropReason> {
        if at + N > end {
            return Err(reason);
        }
        let bytes = self.bytes.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.copied().ok_or_else(|| self.missing())
    }

    /// `N` bytes at `at`, if they are at hand.
    #[inline(always)]
    fn within<const N: usize>(&self, at: usize) -> Option<&'a [u8; N]> {
        let bytes: &'a [u8] = self.bytes;
        bytes.get(at..)?.first_chunk()
    }

    fn at_hand(&self, end: usize) -> Result<(), DropReason> {
        if end > self.bytes.len() {
            Err(self.missing())
        } else {
            Ok(())
        }
    }

    /// Why bytes inside the frame cannot be looked at.
    fn missing(&self) -> DropReason {
        if self.bytes.len() >= HEADER_BYTES {
            DropReason::HeadersTooLong
        } else {
            DropReason::NotAtHand
        }
    }
}

/// Extension headers that say how long they are, as bits: those that may be first, and later.
const FIRST_EXTENSIONS: u64 = 1 << IpProtocol::HOP_BY_HOP.0 | LATER_EXTENSIONS;
const LATER_EXTENSIONS: u64 = 1 << IpProtocol::ROUTING.0 | 1 << IpProtocol::DESTINATION_OPTIONS.0;

#[inline(always)]
const fn is_among(protocol: IpProtocol, bits: u64) -> bool {
    protocol.0 < 64 && bits >> protocol.0 & 1 != 0
}

/// Bytes of an extension header whose second byte is `units`.
#[inline(always)]
const fn extension_length(units: u8) -> usize {
    (units as usize + 1) * 8
}

const fn fragment(offset: usize, more: bool) -> Fragment {
    match (offset, more) {
        (0, false) => Fragment::None,
        (0, true) => Fragment::First,
        _ => Fragment::Later,
    }
}
