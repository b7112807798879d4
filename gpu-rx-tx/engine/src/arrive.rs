//! What a frame is: looked at by a lane each, before any queue pair sees it.

use warpwire_device::{Frame, Piece, Reader, Simt};
use warpwire_protocols::DropReason;
use warpwire_protocols::checksum::{Crc32, Engine as Sum, MOST_HEADER_WORDS, icrc};
use warpwire_protocols::parse::{
    Dropped, Extent, Fast, Headers, Kind, RoceLayout, Tail, Window, parse_fast_with, parse_slow,
};
use warpwire_protocols::rdma::{HEADER_WORDS, Incoming};
use warpwire_protocols::wire::bth;
use warpwire_protocols::wire::opcode::Opcode;
use warpwire_ring::Receive;
use warpwire_ring::memory::Quad;

use crate::sum::sum;

/// A packet of the transport, whole and right, and where it came from: as words, so that lanes can
/// hand it to each other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrival {
    /// Base header and the words behind it.
    words: [u32; HEADER_WORDS],
    /// Bytes from the end of the base header to the invariant CRC.
    length: u32,
    /// Offset of the end of the base header in the frame.
    behind: u32,
    /// Offset of the IP header in the frame; IP version and whether it met congestion above.
    l3: u32,
    /// Who sent it, IPv4 in the first word.
    pub(crate) source: [u32; 4],
    /// To whom.
    pub(crate) destination: [u32; 4],
}

/// What a lane found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen {
    /// No frame, or one that cannot be read; the queue counts those.
    Nothing,
    /// Not the transport's.
    Foreign,
    /// Malformed.
    Dropped(DropReason),
    /// A packet.
    Packet,
}

/// Looks at a frame: headers, lengths, the invariant CRC; a packet is then in `arrival`.
/// What does not depend on the ring's format stands in functions of its own: one copy for all.
#[inline(always)]
pub(crate) fn look<R: Receive, E: Sum>(
    reader: &Reader<R>,
    frame: &Frame<'_>,
    arrival: &mut Arrival,
) -> Seen {
    let headers = match fast(&frame.head(), frame.length()) {
        Fast::Parsed(headers) => headers,
        Fast::Slow => match slow(frame.length(), |index| reader.piece(frame, index)) {
            Ok(headers) => headers,
            Err(reason) => return Seen::Dropped(reason),
        },
    };
    if headers.kind != Kind::RoceV2 {
        return Seen::Foreign;
    }
    let mut sight = match Sight::new(&headers) {
        Ok(sight) => sight,
        Err(reason) => return Seen::Dropped(reason),
    };
    let (mut piece, mut index) = (Some(frame.head()), 0);
    while let Some(bytes) = piece {
        sight.feed::<E>(&bytes);
        if sight.is_whole() {
            break;
        }
        index += 1;
        piece = reader.piece(frame, index);
    }
    match sight.end(arrival) {
        Ok(()) => Seen::Packet,
        Err(reason) => Seen::Dropped(reason),
    }
}

/// The usual headers, in the first bytes of a frame of `length` bytes.
#[cfg_attr(target_arch = "nvptx64", inline(never))]
#[cfg_attr(not(target_arch = "nvptx64"), inline)]
pub(crate) fn fast(head: &Piece<'_>, length: u32) -> Fast {
    let extent = Extent {
        length,
        available: head.length(),
    };
    let tail = || head.quad(4).map(|Quad(words)| Tail(words));
    match head.window() {
        Some(words) => parse_fast_with(&Window(words), extent, tail),
        None => Fast::Slow,
    }
}

/// All other headers.
#[cold]
#[inline(never)]
pub(crate) fn slow<'a>(
    length: u32,
    piece: impl Fn(u32) -> Option<Piece<'a>>,
) -> Result<Headers, DropReason> {
    let mut bytes = [0; MOST_HEADERS];
    let (mut count, mut index) = (0, 0);
    while count < MOST_HEADERS
        && let Some(piece) = piece(index)
    {
        count += copy(&piece, bytes.get_mut(count..).unwrap_or(&mut []));
        index += 1;
    }
    walk(bytes.get(..count).unwrap_or(&[]), length)
}

#[inline(never)]
fn copy(piece: &Piece<'_>, into: &mut [u8]) -> usize {
    piece.copy_out(0, into)
}

#[inline(never)]
fn walk(bytes: &[u8], length: u32) -> Result<Headers, DropReason> {
    parse_slow(bytes, length).map_err(|Dropped { reason, .. }| reason)
}

/// A packet of the transport while its pieces are gone through: headers are kept, the rest is
/// summed. From the IP header to the invariant CRC all of it is words of 32 bits.
struct Sight {
    /// Headers from the IP header on, in the order of the host.
    words: [u32; MOST_HEADER_WORDS],
    /// How many there are, and how many came.
    wanted: usize,
    came: usize,
    /// Words of the IP header.
    network: usize,
    crc: Crc32,
    /// A word of which only some bytes came yet, and how many.
    partial: u32,
    partial_bytes: u32,
    /// Offset in the frame of the next piece, and of the next byte that is looked at.
    start: u32,
    at: u32,
    /// Offset of the invariant CRC.
    end: u32,
    /// The invariant CRC as it came.
    found: u32,
    length: u32,
    behind: u32,
    l3: u32,
}

impl Sight {
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    fn new(headers: &Headers) -> Result<Self, DropReason> {
        RoceLayout::new(headers)?;
        let l3 = u32::from(headers.l3);
        let behind = u32::from(headers.payload);
        let network = behind - l3 - BEHIND_NETWORK;
        if headers.ip_version == 6 && network != IPV6_BYTES {
            // The invariant CRC over extension headers is not defined.
            return Err(DropReason::ExtensionCount);
        }
        let length = headers.payload_length - bth::ICRC_LENGTH as u32;
        let is_marked = headers.traffic_class.0 & ECN == ECN;
        let end = behind + length;
        Ok(Self {
            words: [0; MOST_HEADER_WORDS],
            wanted: ((end - l3) as usize / 4).min(MOST_HEADER_WORDS),
            came: 0,
            network: network as usize / 4,
            crc: Crc32::new(),
            partial: 0,
            partial_bytes: 0,
            start: 0,
            at: l3,
            end,
            found: 0,
            length,
            behind,
            l3: l3 | u32::from(headers.ip_version) << 16 | u32::from(is_marked) << 24,
        })
    }

    /// Whether everything was looked at.
    const fn is_whole(&self) -> bool {
        self.at >= self.end + bth::ICRC_LENGTH as u32
    }

    /// Looks at the next piece of the frame.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    fn feed<E: Sum>(&mut self, piece: &Piece<'_>) {
        let behind = self.start + piece.length();
        while self.at < behind && !self.is_whole() {
            let offset = self.at - self.start;
            let there = behind - self.at;
            if self.came < self.wanted {
                self.headers::<E>(piece, offset);
            } else if self.at < self.end {
                let count = there.min(self.end - self.at);
                if let Some(part) = piece.part(offset, count) {
                    self.crc = sum::<E>(self.crc, &part);
                }
                self.at += count;
            } else if let Some(word) = self.word(piece, offset) {
                self.found = word;
            }
        }
        self.start = behind;
    }

    /// Takes headers from byte `offset` of a piece on.
    fn headers<E: Sum>(&mut self, piece: &Piece<'_>, offset: u32) {
        if self.partial_bytes == 0 {
            let there = ((piece.length() - offset) / 4) as usize;
            let upto = self.wanted.min(self.came + there);
            let room = self.words.get_mut(self.came..upto).unwrap_or(&mut []);
            piece.be_words(offset, room);
            self.at += (upto - self.came) as u32 * 4;
            self.came = upto;
        }
        if self.came < self.wanted {
            let offset = self.at - self.start;
            if let Some(word) = self.word(piece, offset) {
                if let Some(place) = self.words.get_mut(self.came) {
                    *place = word;
                }
                self.came += 1;
            }
        }
        if self.came == self.wanted {
            let words = self.words.get(..self.wanted).unwrap_or(&[]);
            self.crc = icrc::begin_words::<E>(words, self.network);
        }
    }

    /// The word from byte `offset` of a piece on, if it ends there; its bytes may lie in several
    /// pieces.
    fn word(&mut self, piece: &Piece<'_>, offset: u32) -> Option<u32> {
        let mut offset = offset;
        while let Some(byte) = piece.byte(offset) {
            self.partial = self.partial << 8 | u32::from(byte);
            self.partial_bytes += 1;
            self.at += 1;
            offset += 1;
            if self.partial_bytes == 4 {
                self.partial_bytes = 0;
                return Some(self.partial);
            }
        }
        None
    }

    /// What was seen, if it is whole and right.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    fn end(&self, arrival: &mut Arrival) -> Result<(), DropReason> {
        if !self.is_whole() {
            return Err(DropReason::BthLength);
        }
        if self.found.to_be_bytes() != icrc::field(self.crc) {
            return Err(DropReason::Icrc);
        }
        let transport = self.network + UDP_WORDS;
        let came = self.words.get(transport..self.wanted).unwrap_or(&[]);
        arrival.words = [0; HEADER_WORDS];
        for (word, came) in arrival.words.iter_mut().zip(came) {
            *word = *came;
        }
        let [_, _, a, b, c, d, e, f, g, h, ..] = self.words;
        (arrival.source, arrival.destination) = match self.l3 >> 16 & 0xf {
            4 => ([b, 0, 0, 0], [c, 0, 0, 0]),
            _ => ([a, b, c, d], [e, f, g, h]),
        };
        arrival.length = self.length;
        arrival.behind = self.behind;
        arrival.l3 = self.l3;
        Ok(())
    }
}

impl Arrival {
    /// *Collective.* The arrival of lane `from`, in every lane.
    pub(crate) fn of_lane<S: Simt>(&self, simt: &S, from: u32) -> Self {
        let shuffle = |word: u32| simt.shuffle(word, from);
        Self {
            words: self.words.map(shuffle),
            length: shuffle(self.length),
            behind: shuffle(self.behind),
            l3: shuffle(self.l3),
            source: self.source.map(shuffle),
            destination: self.destination.map(shuffle),
        }
    }

    /// The queue pair that it is for.
    pub(crate) const fn number(&self) -> u32 {
        let [_, second, ..] = self.words;
        second & 0x00ff_ffff
    }

    /// The base header.
    ///
    /// # Errors
    /// [`DropReason::BthVersion`], [`DropReason::BthOpcode`].
    pub(crate) fn bth(&self) -> Result<bth::Repr, DropReason> {
        let [first, second, third, ..] = self.words;
        let header = bth::Header {
            opcode: (first >> 24) as u8,
            flags: (first >> 16) as u8,
            pkey: (first as u16).into(),
            destination_qp: second.into(),
            psn: third.into(),
        };
        bth::Repr::parse(&header)
    }

    /// The packet as the transport sees it.
    ///
    /// # Errors
    /// [`DropReason::BthLength`].
    pub(crate) fn incoming(&self, bth: &bth::Repr) -> Result<Incoming, DropReason> {
        let [_, _, _, words @ ..] = self.words;
        Incoming::new(bth, &words, self.length)
    }

    /// Offset of the payload in the frame.
    pub(crate) fn payload_at(&self) -> u32 {
        let [first, ..] = self.words;
        let headers = Opcode::new((first >> 24) as u8).map_or(0, |one| one.headers().length());
        self.behind + headers as u32
    }

    /// Offset of the IP header in the frame.
    pub(crate) const fn l3(&self) -> u32 {
        self.l3 & 0xffff
    }

    /// 4 or 6.
    pub(crate) const fn ip_version(&self) -> u8 {
        (self.l3 >> 16) as u8
    }

    /// Whether it met congestion.
    pub(crate) const fn is_marked(&self) -> bool {
        self.l3 >> 24 != 0
    }
}

/// *Collective.* The lanes that have a packet, as a set of bits.
pub(crate) fn packets<S: Simt>(simt: &S, seen: &Seen) -> u32 {
    simt.ballot(matches!(seen, Seen::Packet))
}

/// Bytes of the headers that the slow path looks at.
const MOST_HEADERS: usize = 128;
/// Bytes of UDP's header and the base transport header.
const BEHIND_NETWORK: u32 = 8 + bth::Header::LENGTH as u32;
const IPV6_BYTES: u32 = 40;
const UDP_WORDS: usize = 2;
/// Both bits of the ECN field: congestion was met.
const ECN: u8 = 3;
