//! Matchers: what `when`, `allow` and `deny` say about a frame, as fixed-size records.

use bitflags::bitflags;
use warpwire_protocols::parse::{Headers, Kind};

bitflags! {
    /// What a [`Rule`] looks at; all that is set must hold.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[repr(transparent)]
    pub struct Looks: u32 {
        /// The kind of the deepest header understood.
        const KIND = 1;
        /// The Ethernet type behind all tags.
        const ETHER_TYPE = 1 << 1;
        /// The outer VLAN id; only tagged frames match.
        const VLAN = 1 << 2;
        /// The IP protocol.
        const PROTOCOL = 1 << 3;
        /// The source port of TCP or UDP.
        const SOURCE_PORT = 1 << 4;
        /// The destination port of TCP or UDP.
        const DESTINATION_PORT = 1 << 5;
        /// Either port of TCP or UDP.
        const PORT = 1 << 6;
        /// The BTH opcode; only RoCEv2 matches.
        const OPCODE = 1 << 7;
        /// The destination queue pair; only RoCEv2 matches.
        const QP = 1 << 8;
        /// The source address.
        const SOURCE = 1 << 9;
        /// The destination address.
        const DESTINATION = 1 << 10;
        /// Whether the frame is malformed ([`Rule::malformed`] says which way).
        const MALFORMED = 1 << 11;
        /// Whether the frame is a fragment ([`Rule::fragment`] says which way).
        const FRAGMENT = 1 << 12;
    }
}

/// Values from `low` to `high`, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Within {
    /// Least value.
    pub low: u32,
    /// Largest value.
    pub high: u32,
}

impl Within {
    /// Whether `value` lies within.
    #[inline(always)]
    pub const fn has(self, value: u32) -> bool {
        value.wrapping_sub(self.low) <= self.high.wrapping_sub(self.low)
    }
}

/// An address under a mask, as big-endian numbers; IPv4 in the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Prefix {
    /// The address, with the bits outside the mask zero.
    pub words: [u32; 4],
    /// The mask.
    pub mask: [u32; 4],
}

impl Prefix {
    /// Whether `address` lies within.
    #[inline(always)]
    pub fn has(&self, address: [u32; 4]) -> bool {
        let [a, b, c, d] = address;
        let [p, q, r, s] = self.words;
        let [i, j, k, l] = self.mask;
        ((a & i) ^ p) | ((b & j) ^ q) | ((c & k) ^ r) | ((d & l) ^ s) == 0
    }
}

/// One matcher: 160 bytes in the program's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(16))]
pub struct Rule {
    /// What it looks at.
    pub looks: Looks,
    /// Bits of the [`Kind`]s that match.
    pub kinds: u32,
    /// Ethernet types that match.
    pub ether_type: Within,
    /// Outer VLAN ids that match.
    pub vlan: Within,
    /// IP protocols that match.
    pub protocol: Within,
    /// Source ports that match.
    pub source_port: Within,
    /// Destination ports that match.
    pub destination_port: Within,
    /// Ports that match as source or destination.
    pub port: Within,
    /// BTH opcodes that match.
    pub opcode: Within,
    /// Queue pair numbers that match.
    pub qp: Within,
    /// 4 or 6 if the rule looks at an address, else 0.
    pub version: u32,
    /// What `MALFORMED` wants: 1 malformed, 0 well-formed.
    pub malformed: u16,
    /// What `FRAGMENT` wants: 1 fragments, 0 whole packets.
    pub fragment: u16,
    /// Source addresses that match.
    pub source: Prefix,
    /// Destination addresses that match.
    pub destination: Prefix,
}

const _: () = assert!(size_of::<Rule>() == 144);

/// What a rule sees of a frame.
pub trait Subject {
    /// What the parser found.
    fn headers(&self) -> &Headers;
    /// Whether the parser refused the frame.
    fn malformed(&self) -> bool;
    /// Source and destination address as big-endian numbers, IPv4 in the first. Asked for only if
    /// the rule looks at one and the IP version is the rule's.
    fn addresses(&self) -> ([u32; 4], [u32; 4]);
}

impl Rule {
    /// Whether the frame matches.
    #[inline]
    pub fn matches(&self, frame: &impl Subject) -> bool {
        let headers = frame.headers();
        let looks = self.looks;
        let unless = |look: Looks, holds: bool| !looks.contains(look) || holds;
        let roce = headers.kind == Kind::RoceV2;
        let (source, destination) = (
            u32::from(headers.source_port()),
            u32::from(headers.destination_port()),
        );
        let ports = headers.has_ports();
        let either = self.port.has(source) || self.port.has(destination);
        let fragment = headers.fragment as u8 != 0;
        let vlan = u32::from(headers.outer_tag.id().value());
        unless(Looks::KIND, self.kinds >> headers.kind.index() & 1 != 0)
            && unless(
                Looks::ETHER_TYPE,
                self.ether_type.has(u32::from(headers.ether_type.0)),
            )
            && unless(Looks::VLAN, headers.tags > 0 && self.vlan.has(vlan))
            && unless(
                Looks::PROTOCOL,
                headers.ip_version != 0 && self.protocol.has(u32::from(headers.protocol.0)),
            )
            && unless(Looks::SOURCE_PORT, ports && self.source_port.has(source))
            && unless(
                Looks::DESTINATION_PORT,
                ports && self.destination_port.has(destination),
            )
            && unless(Looks::PORT, ports && either)
            && unless(
                Looks::OPCODE,
                roce && self.opcode.has(u32::from(headers.bth_opcode)),
            )
            && unless(
                Looks::QP,
                roce && self.qp.has(headers.destination_qp.value()),
            )
            && unless(Looks::MALFORMED, frame.malformed() == (self.malformed != 0))
            && unless(Looks::FRAGMENT, fragment == (self.fragment != 0))
            && self.addresses_match(frame)
    }

    #[inline]
    fn addresses_match(&self, frame: &impl Subject) -> bool {
        if !self
            .looks
            .intersects(Looks::SOURCE.union(Looks::DESTINATION))
        {
            return true;
        }
        if u32::from(frame.headers().ip_version) != self.version {
            return false;
        }
        let (source, destination) = frame.addresses();
        (!self.looks.contains(Looks::SOURCE) || self.source.has(source))
            && (!self.looks.contains(Looks::DESTINATION) || self.destination.has(destination))
    }
}
