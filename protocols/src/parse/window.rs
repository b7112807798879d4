//! The first bytes of a frame as words in registers, read at constant offsets.

use crate::wire::{EtherType, IpProtocol, MacAddress, TrafficClass};
use core::net::{Ipv4Addr, Ipv6Addr};

/// The first 64 bytes of a frame: word `i` is the little-endian value of bytes `4i` to `4i + 3`,
/// which is what four aligned 16-byte loads give on every machine this runs on.
///
/// Bytes past the end of the frame may hold anything; who reads a field has checked the length.
/// Accessors are named by the mould in which the offset holds: untagged Ethernet, IPv4 without
/// options, IPv6 without extension headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(16))]
pub struct Window(pub [u32; 16]);

/// Bytes 64 to 79 of a frame, in the form of [`Window`]: IPv6 with TCP or RoCEv2 reaches there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(16))]
pub struct Tail(pub [u32; 4]);

impl Window {
    /// Bytes that the window holds.
    pub const LENGTH: usize = 64;

    /// From the start of a frame; missing bytes are zero.
    pub fn from_bytes(frame: &[u8]) -> Self {
        Self(words(frame))
    }

    /// Word `INDEX`, as loaded.
    #[inline(always)]
    pub const fn word<const INDEX: usize>(&self) -> u32 {
        const { assert!(INDEX < 16) };
        self.0[INDEX]
    }

    /// The byte at `OFFSET`.
    #[inline(always)]
    pub const fn byte<const OFFSET: usize>(&self) -> u8 {
        const { assert!(OFFSET < 64) };
        (self.0[OFFSET / 4] >> (8 * (OFFSET % 4))) as u8
    }

    /// The big-endian number in the two bytes at `OFFSET`, which is even.
    #[inline(always)]
    pub const fn be16<const OFFSET: usize>(&self) -> u16 {
        const { assert!(OFFSET < 64 && OFFSET.is_multiple_of(2)) };
        ((self.0[OFFSET / 4] >> (8 * (OFFSET % 4))) as u16).swap_bytes()
    }

    /// The big-endian number in the four bytes at `OFFSET`, which is even.
    #[inline(always)]
    pub const fn be32<const OFFSET: usize>(&self) -> u32 {
        const { assert!(OFFSET <= 60 && OFFSET.is_multiple_of(2)) };
        if OFFSET.is_multiple_of(4) {
            self.0[OFFSET / 4].swap_bytes()
        } else {
            (self.0[OFFSET / 4] >> 16 | self.0[OFFSET / 4 + 1] << 16).swap_bytes()
        }
    }

    /// The big-endian number in the sixteen bytes at `OFFSET`, which is even.
    #[inline(always)]
    const fn be128<const A: usize, const B: usize, const C: usize, const D: usize>(&self) -> u128 {
        (self.be32::<A>() as u128) << 96
            | (self.be32::<B>() as u128) << 64
            | (self.be32::<C>() as u128) << 32
            | self.be32::<D>() as u128
    }

    /// Ethernet destination.
    #[inline(always)]
    pub const fn destination(&self) -> MacAddress {
        MacAddress::from_bits((self.be32::<0>() as u64) << 16 | self.be16::<4>() as u64)
    }

    /// Ethernet source.
    #[inline(always)]
    pub const fn source(&self) -> MacAddress {
        MacAddress::from_bits((self.be16::<6>() as u64) << 32 | self.be32::<8>() as u64)
    }

    /// The field after the Ethernet addresses.
    #[inline(always)]
    pub const fn ether_type(&self) -> EtherType {
        EtherType(self.be16::<12>())
    }

    /// IPv4 total length.
    #[inline(always)]
    pub const fn ipv4_total_length(&self) -> u16 {
        self.be16::<16>()
    }

    /// IPv4 type of service.
    #[inline(always)]
    pub const fn ipv4_traffic_class(&self) -> TrafficClass {
        TrafficClass(self.byte::<15>())
    }

    /// IPv4 time to live.
    #[inline(always)]
    pub const fn ipv4_ttl(&self) -> u8 {
        self.byte::<22>()
    }

    /// IPv4 protocol.
    #[inline(always)]
    pub const fn ipv4_protocol(&self) -> IpProtocol {
        IpProtocol(self.byte::<23>())
    }

    /// IPv4 source address.
    #[inline(always)]
    pub const fn ipv4_source(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.be32::<26>())
    }

    /// IPv4 destination address.
    #[inline(always)]
    pub const fn ipv4_destination(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.be32::<30>())
    }

    /// Whether the checksum of the 20-byte IPv4 header holds.
    #[inline(always)]
    pub const fn ipv4_checksum_holds(&self) -> bool {
        // A one's complement sum is the same in either byte order, and 32-bit words fold to it.
        let sum = (self.0[3] >> 16) as u64
            + self.0[4] as u64
            + self.0[5] as u64
            + self.0[6] as u64
            + self.0[7] as u64
            + (self.0[8] & 0xffff) as u64;
        let sum = (sum & 0xffff_ffff) + (sum >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        sum == 0xffff
    }

    /// IPv6 payload length.
    #[inline(always)]
    pub const fn ipv6_payload_length(&self) -> u16 {
        self.be16::<18>()
    }

    /// IPv6 traffic class.
    #[inline(always)]
    pub const fn ipv6_traffic_class(&self) -> TrafficClass {
        TrafficClass((self.be16::<14>() >> 4) as u8)
    }

    /// IPv6 next header.
    #[inline(always)]
    pub const fn ipv6_next_header(&self) -> IpProtocol {
        IpProtocol(self.byte::<20>())
    }

    /// IPv6 hop limit.
    #[inline(always)]
    pub const fn ipv6_hop_limit(&self) -> u8 {
        self.byte::<21>()
    }

    /// IPv6 source address.
    #[inline(always)]
    pub const fn ipv6_source(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.be128::<22, 26, 30, 34>())
    }

    /// IPv6 destination address.
    #[inline(always)]
    pub const fn ipv6_destination(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.be128::<38, 42, 46, 50>())
    }

    /// ARP operation: 1 asks, 2 answers.
    #[inline(always)]
    pub const fn arp_operation(&self) -> u16 {
        self.be16::<20>()
    }

    /// ARP sender's Ethernet address.
    #[inline(always)]
    pub const fn arp_sender_hardware(&self) -> MacAddress {
        MacAddress::from_bits((self.be32::<22>() as u64) << 16 | self.be16::<26>() as u64)
    }

    /// ARP sender's IPv4 address.
    #[inline(always)]
    pub const fn arp_sender(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.be32::<28>())
    }

    /// ARP target's IPv4 address.
    #[inline(always)]
    pub const fn arp_target(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.be32::<38>())
    }
}

impl Tail {
    /// From a whole frame, of which bytes 64 to 79 are taken; missing bytes are zero.
    pub fn from_bytes(frame: &[u8]) -> Self {
        Self(words(frame.get(Window::LENGTH..).unwrap_or(&[])))
    }

    /// The big-endian number in the two bytes at `OFFSET` of the frame: even, 64 to 78.
    #[inline(always)]
    pub const fn be16<const OFFSET: usize>(&self) -> u16 {
        const { assert!(OFFSET >= 64 && OFFSET < 80 && OFFSET.is_multiple_of(2)) };
        ((self.0[OFFSET / 4 - 16] >> (8 * (OFFSET % 4))) as u16).swap_bytes()
    }

    /// The big-endian number in the four bytes at `OFFSET` of the frame: even, 64 to 76.
    #[inline(always)]
    pub const fn be32<const OFFSET: usize>(&self) -> u32 {
        const { assert!(OFFSET >= 64 && OFFSET <= 76 && OFFSET.is_multiple_of(2)) };
        if OFFSET.is_multiple_of(4) {
            self.0[OFFSET / 4 - 16].swap_bytes()
        } else {
            (self.0[OFFSET / 4 - 16] >> 16 | self.0[OFFSET / 4 - 15] << 16).swap_bytes()
        }
    }
}

/// Little-endian words of the start of `bytes`; missing bytes are zero.
fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut words = [0; N];
    for (word, piece) in words.iter_mut().zip(bytes.chunks(4)) {
        let mut padded = [0; 4];
        for (to, from) in padded.iter_mut().zip(piece) {
            *to = *from;
        }
        *word = u32::from_le_bytes(padded);
    }
    words
}
