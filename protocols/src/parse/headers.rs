//! What a parse finds: small enough to stay in registers.

use crate::DropReason;
use crate::wire::{
    EtherType, IpProtocol, Psn, Qpn, TagControl, TcpFlags, TrafficClass, ipv4, ipv6,
};
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

/// What the deepest header understood is. The discriminant is the index of its counter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Kind {
    /// An Ethernet type that is not followed.
    #[default]
    Other,
    /// An IEEE 802.3 frame with a length: LLC, not followed.
    Llc,
    /// ARP.
    Arp,
    /// MPLS, not followed.
    Mpls,
    /// RoCE version 1, not followed.
    RoceV1,
    /// IPv4 with a protocol that is not followed, or not the first fragment.
    Ipv4,
    /// IPv6 with a protocol that is not followed, or not the first fragment.
    Ipv6,
    /// GRE, not followed.
    Gre,
    /// ICMP for IPv4.
    Icmpv4,
    /// ICMP for IPv6.
    Icmpv6,
    /// TCP.
    Tcp,
    /// UDP with a port that is not followed.
    Udp,
    /// VXLAN: the payload is an Ethernet frame.
    Vxlan,
    /// RoCE version 2.
    RoceV2,
}

impl Kind {
    /// Every kind, in the order of the counters.
    pub const ALL: [Kind; 14] = [
        Kind::Other,
        Kind::Llc,
        Kind::Arp,
        Kind::Mpls,
        Kind::RoceV1,
        Kind::Ipv4,
        Kind::Ipv6,
        Kind::Gre,
        Kind::Icmpv4,
        Kind::Icmpv6,
        Kind::Tcp,
        Kind::Udp,
        Kind::Vxlan,
        Kind::RoceV2,
    ];

    /// How many kinds there are: the length of a counter array.
    pub const COUNT: usize = Self::ALL.len();

    /// The index of this kind's counter.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name, for tables and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Other => "other",
            Kind::Llc => "llc",
            Kind::Arp => "arp",
            Kind::Mpls => "mpls",
            Kind::RoceV1 => "rocev1",
            Kind::Ipv4 => "ipv4",
            Kind::Ipv6 => "ipv6",
            Kind::Gre => "gre",
            Kind::Icmpv4 => "icmpv4",
            Kind::Icmpv6 => "icmpv6",
            Kind::Tcp => "tcp",
            Kind::Udp => "udp",
            Kind::Vxlan => "vxlan",
            Kind::RoceV2 => "rocev2",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether an IP packet is a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Fragment {
    /// Whole.
    #[default]
    None,
    /// The first of several: has the transport header.
    First,
    /// Not the first: has no transport header.
    Later,
}

/// How long a frame is and how much of it can be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Bytes of the whole frame.
    pub length: u32,
    /// Contiguous bytes at hand from its start: the first segment, or what a capture kept.
    pub available: u32,
}

impl Extent {
    /// A frame that lies in one piece.
    pub const fn whole(length: u32) -> Self {
        Self {
            length,
            available: length,
        }
    }
}

/// What a frame is and where its parts lie. Fields that the frame does not have are zero.
///
/// Offsets count bytes from the start of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Headers {
    /// The deepest header understood.
    pub kind: Kind,
    /// VLAN tags.
    pub tags: u8,
    /// The type after all tags; a length if [`Kind::Llc`].
    pub ether_type: EtherType,
    /// The first tag.
    pub outer_tag: TagControl,
    /// The second tag.
    pub inner_tag: TagControl,
    /// Offset of what follows the Ethernet header and tags.
    pub l3: u16,
    /// Offset of what follows the IP header and its extension headers.
    pub l4: u16,
    /// Offset of what follows the deepest header understood. RoCEv2: after the BTH.
    pub payload: u16,
    /// Bytes from `payload` to the end of the datagram, Ethernet padding cut off. RoCEv2: the
    /// extended headers, the payload, its pad and the ICRC.
    pub payload_length: u32,
    /// 4, 6, or 0.
    pub ip_version: u8,
    /// The protocol behind the IP header and its extension headers.
    pub protocol: IpProtocol,
    /// Whether the packet is a fragment.
    pub fragment: Fragment,
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// The BTH opcode of a RoCEv2 packet.
    pub bth_opcode: u8,
    /// The second byte of the BTH: solicited event, migration, pad count, version.
    pub bth_flags: u8,
    /// Flags of a TCP segment.
    pub tcp_flags: TcpFlags,
    /// The first four bytes of the transport header, as a big-endian number: see
    /// [`Headers::source_port`], [`Headers::icmp_type`].
    pub l4_start: u32,
    /// The queue pair that a RoCEv2 packet is for.
    pub destination_qp: Qpn,
    /// The sequence number of a RoCEv2 packet.
    pub psn: Psn,
}

const _: () = assert!(size_of::<Headers>() <= 48);

impl Headers {
    /// The source port of UDP (VXLAN and RoCEv2 included) and TCP.
    #[inline(always)]
    pub const fn source_port(&self) -> u16 {
        (self.l4_start >> 16) as u16
    }

    /// The destination port of UDP (VXLAN and RoCEv2 included) and TCP.
    #[inline(always)]
    pub const fn destination_port(&self) -> u16 {
        self.l4_start as u16
    }

    /// The type of an ICMPv4 or ICMPv6 message.
    #[inline(always)]
    pub const fn icmp_type(&self) -> u8 {
        (self.l4_start >> 24) as u8
    }

    /// The code of an ICMPv4 or ICMPv6 message.
    #[inline(always)]
    pub const fn icmp_code(&self) -> u8 {
        (self.l4_start >> 16) as u8
    }

    /// Offset of the first byte after the datagram (or after the frame, where there is none).
    #[inline(always)]
    pub const fn end(&self) -> u32 {
        self.payload as u32 + self.payload_length
    }

    /// Source and destination address of an IPv4 packet, from the bytes that were parsed. In the
    /// mould of the fast path [`Window`](super::Window) has them in registers.
    pub fn ipv4_addresses(&self, bytes: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr)> {
        let network = bytes
            .get(usize::from(self.l3)..)
            .filter(|_| self.ip_version == 4)?;
        let (header, _) = ipv4::Header::split(network).ok()?;
        Some((header.source.into(), header.destination.into()))
    }

    /// Source and destination address of an IPv6 packet, from the bytes that were parsed.
    pub fn ipv6_addresses(&self, bytes: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr)> {
        let network = bytes
            .get(usize::from(self.l3)..)
            .filter(|_| self.ip_version == 6)?;
        let (header, _) = ipv6::Header::split(network).ok()?;
        Some((header.source.into(), header.destination.into()))
    }

    /// Whether [`Headers::source_port`] and [`Headers::destination_port`] mean something.
    #[inline(always)]
    pub const fn has_ports(&self) -> bool {
        matches!(
            self.kind,
            Kind::Tcp | Kind::Udp | Kind::Vxlan | Kind::RoceV2
        )
    }
}

/// A refused frame: why, and what was read before the reason was met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// Why.
    pub reason: DropReason,
    /// What was read. `kind` is the deepest header whose fixed fields could be read.
    pub headers: Headers,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.headers.kind)
    }
}

impl core::error::Error for Dropped {}
