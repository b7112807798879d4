//! A received frame as stages see it: what the parser found, and its bytes in place.

use warpwire_device::{Frame, Piece, Reader};
use warpwire_protocols::DropReason;
use warpwire_protocols::parse::{
    Dropped, Extent, Fast, HEADER_BYTES, Headers, Kind, Tail, Window, parse_fast_with, parse_slow,
    reaches_last_quarter,
};
use warpwire_ring::memory::Quad;
use warpwire_ring::{memif, mlx5, xdp};

use crate::rule::Subject;

/// Where the pieces of a frame behind its first one come from.
///
/// Only frames of several pieces ask, so that one match over the ring formats stands here,
/// outlined, and the stages are compiled once for all formats.
#[derive(Clone, Copy)]
pub enum Rest<'a> {
    /// There are none.
    None,
    /// mlx5 queues.
    Mlx5(&'a Reader<mlx5::Rx>, Frame<'a>),
    /// AF_XDP rings.
    Xdp(&'a Reader<xdp::RxQueue>, Frame<'a>),
    /// memif rings of ours.
    MemifClient(&'a Reader<memif::ClientRx>, Frame<'a>),
    /// memif rings of the peer.
    MemifServer(&'a Reader<memif::ServerRx>, Frame<'a>),
}

impl<'a> Rest<'a> {
    /// Piece `index` of the frame, from 1.
    #[cold]
    #[inline(never)]
    fn piece(&self, index: u32) -> Option<Piece<'a>> {
        match self {
            Self::None => None,
            Self::Mlx5(reader, frame) => reader.piece(frame, index),
            Self::Xdp(reader, frame) => reader.piece(frame, index),
            Self::MemifClient(reader, frame) => reader.piece(frame, index),
            Self::MemifServer(reader, frame) => reader.piece(frame, index),
        }
    }
}

/// A frame on its way through a pipeline.
///
/// Offsets count bytes from the start of the frame. Reads and writes reach the frame's first piece,
/// which holds all headers unless a peer sends very small pieces.
#[derive(Clone, Copy)]
pub struct Packet<'a> {
    head: Piece<'a>,
    rest: Rest<'a>,
    headers: Headers,
    fault: Option<DropReason>,
    length: u32,
    edits: u32,
    sequence: u64,
}

impl<'a> Packet<'a> {
    /// Parses a frame of `length` bytes that starts with the piece `head`; `sequence` is its place
    /// among the frames that the queue received.
    #[inline(always)]
    pub fn parse(head: Piece<'a>, rest: Rest<'a>, length: u32, sequence: u64) -> Self {
        let (headers, fault) = parse(head, &rest, length);
        Self {
            head,
            rest,
            headers,
            fault,
            length,
            edits: 0,
            sequence,
        }
    }

    /// What the parser found; of a malformed frame, what could be read.
    #[inline(always)]
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Why the parser refused the frame, if it did.
    #[inline(always)]
    pub fn fault(&self) -> Option<DropReason> {
        self.fault
    }

    /// Bytes of the frame as it will be sent.
    #[inline(always)]
    pub fn length(&self) -> u32 {
        self.length
    }

    /// The frame's place among those that its queue received.
    #[inline(always)]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Times that a stage changed the frame's headers.
    #[inline(always)]
    pub fn edits(&self) -> u32 {
        self.edits
    }

    /// Counts a change of the headers, after a stage made one.
    #[inline(always)]
    pub fn edited(&mut self) {
        self.edits = self.edits.wrapping_add(1);
    }

    /// The frame's first piece, to read and write in place.
    #[inline(always)]
    pub fn bytes(&self) -> Piece<'a> {
        self.head
    }

    /// Piece `index` of the frame, if it has that many; piece 0 is [`Packet::bytes`].
    #[inline(always)]
    pub fn piece(&self, index: u32) -> Option<Piece<'a>> {
        if index == 0 {
            Some(self.head)
        } else if self.head.length() == self.length {
            None
        } else {
            self.rest.piece(index)
        }
    }

    /// Makes the frame `length` bytes long: shorter, or up to [`SMALLEST_SLOT`]. Says no, and
    /// changes nothing, if it lies in several pieces or its slot has no room.
    #[inline(always)]
    pub fn resize(&mut self, length: u32) -> bool {
        let fits = length <= self.length || length <= SMALLEST_SLOT;
        match self.head.resized(length) {
            Some(head) if fits && self.head.length() == self.length => {
                self.head = head;
                self.length = length;
                true
            }
            _ => false,
        }
    }

    /// Offset of the transport checksum, of packets that have one. The packet may be UDP without
    /// checksum, whose field holds zero.
    #[inline(always)]
    pub fn transport_checksum(&self) -> Option<u32> {
        let l4 = u32::from(self.headers.l4);
        match self.headers.kind {
            Kind::Tcp => Some(l4 + 16),
            Kind::Udp | Kind::Vxlan | Kind::RoceV2 => Some(l4 + 6),
            Kind::Icmpv4 | Kind::Icmpv6 => Some(l4 + 2),
            _ => None,
        }
    }

    /// Whether the transport is UDP, whose checksum may be absent.
    #[inline(always)]
    pub fn is_udp(&self) -> bool {
        matches!(self.headers.kind, Kind::Udp | Kind::Vxlan | Kind::RoceV2)
    }

    /// The IP addresses, source and destination, as big-endian numbers, IPv4 in the first; zeros
    /// if the frame has none.
    #[inline]
    pub fn ip_addresses(&self) -> ([u32; 4], [u32; 4]) {
        let l3 = u32::from(self.headers.l3);
        match self.headers.ip_version {
            4 => (
                [self.number(l3 + 12), 0, 0, 0],
                [self.number(l3 + 16), 0, 0, 0],
            ),
            6 => (self.numbers(l3 + 8), self.numbers(l3 + 24)),
            _ => ([0; 4], [0; 4]),
        }
    }

    /// Exchanges the Ethernet addresses.
    #[inline(always)]
    pub fn swap_macs(&mut self) -> bool {
        self.edited();
        swap_macs(&self.head)
    }

    /// The Ethernet address at `offset`.
    #[inline(always)]
    pub fn mac(&self, offset: u32) -> Option<[u8; 6]> {
        let high = self.bytes().be16(offset)?;
        let low = self.bytes().be32(offset + 2)?;
        let [a, b] = high.to_be_bytes();
        let [c, d, e, f] = low.to_be_bytes();
        Some([a, b, c, d, e, f])
    }

    /// Writes an Ethernet address at `offset`.
    #[inline(always)]
    pub fn set_mac(&self, offset: u32, mac: [u8; 6]) -> bool {
        let [a, b, c, d, e, f] = mac;
        self.bytes().set_be16(offset, u16::from_be_bytes([a, b]))
            && self
                .bytes()
                .set_be32(offset + 2, u32::from_be_bytes([c, d, e, f]))
    }

    #[inline(always)]
    fn number(&self, offset: u32) -> u32 {
        self.bytes().be32(offset).unwrap_or(0)
    }

    #[inline(always)]
    fn numbers(&self, offset: u32) -> [u32; 4] {
        [0, 4, 8, 12].map(|at| self.number(offset + at))
    }
}

impl Subject for Packet<'_> {
    #[inline(always)]
    fn headers(&self) -> &Headers {
        &self.headers
    }

    #[inline(always)]
    fn malformed(&self) -> bool {
        self.fault.is_some()
    }

    #[inline(always)]
    fn addresses(&self) -> ([u32; 4], [u32; 4]) {
        self.ip_addresses()
    }
}

/// Bytes that every receive slot has.
pub const SMALLEST_SLOT: u32 = 128;

/// The fast path where it fits, else the slow one.
#[inline(always)]
fn parse(head: Piece<'_>, rest: &Rest<'_>, length: u32) -> (Headers, Option<DropReason>) {
    match parse_head(head, length) {
        Fast::Parsed(headers) => (headers, None),
        Fast::Slow => parse_slowly(head, rest, length),
    }
}

/// The fast path, over the first bytes of a frame of `length` bytes.
#[inline(always)]
pub(crate) fn parse_head(head: Piece<'_>, length: u32) -> Fast {
    let extent = Extent {
        length,
        available: head.length(),
    };
    let tail = || head.quad(4).map(|Quad(words)| Tail(words));
    match head.window_with(reaches_last_quarter) {
        Some(words) => parse_fast_with(&Window(words), extent, tail),
        None => Fast::Slow,
    }
}

/// Exchanges the Ethernet addresses at the start of a frame. Says no, and changes nothing, if they
/// are not there.
#[inline(always)]
pub(crate) fn swap_macs(bytes: &Piece<'_>) -> bool {
    let (Some(a), Some(b), Some(c)) = (bytes.be32(0), bytes.be32(4), bytes.be32(8)) else {
        return false;
    };
    // Bytes 0 to 5 are the destination, 6 to 11 the source: a and the upper half of b, the lower
    // half of b and c.
    bytes.set_be32(0, b << 16 | c >> 16)
        && bytes.set_be32(4, c << 16 | a >> 16)
        && bytes.set_be32(8, a << 16 | b >> 16)
}

/// Outlined, so that the copy of the header bytes does not belong to the fast path's frame.
#[cold]
#[inline(never)]
pub(crate) fn parse_slowly(
    head: Piece<'_>,
    rest: &Rest<'_>,
    length: u32,
) -> (Headers, Option<DropReason>) {
    let mut copy = [0; HEADER_BYTES];
    let mut at = head.copy_out(0, &mut copy);
    let mut index = 1;
    while at < HEADER_BYTES
        && let Some(piece) = rest.piece(index)
        && let Some(space) = copy.get_mut(at..)
    {
        at += piece.copy_out(0, space);
        index += 1;
    }
    match parse_slow(copy.get(..at).unwrap_or(&[]), length) {
        Ok(headers) => (headers, None),
        Err(Dropped { reason, headers }) => (headers, Some(reason)),
    }
}
