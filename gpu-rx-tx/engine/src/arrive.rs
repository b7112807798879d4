//! What a frame is: looked at by a lane each, before any queue pair sees it.

use warpwire_device::{Frame, Reader, Simt};
use warpwire_protocols::DropReason;
use warpwire_protocols::checksum::{Engine as Sum, icrc};
use warpwire_protocols::parse::{
    Dropped, Extent, Fast, Headers, Kind, RoceLayout, Tail, Window, parse_fast_with, parse_slow,
};
use warpwire_protocols::rdma::{HEADER_WORDS, Incoming};
use warpwire_protocols::wire::bth;
use warpwire_protocols::wire::opcode::Opcode;
use warpwire_ring::Receive;
use warpwire_ring::memory::Quad;

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
    Packet(Arrival),
}

/// Looks at a frame: headers, lengths, the invariant CRC.
pub(crate) fn look<R: Receive, E: Sum>(reader: &Reader<R>, frame: &Frame<'_>) -> Seen {
    let headers = match parse(reader, frame) {
        Ok(headers) => headers,
        Err(reason) => return Seen::Dropped(reason),
    };
    if headers.kind != Kind::RoceV2 {
        return Seen::Foreign;
    }
    match arrival::<R, E>(reader, frame, &headers) {
        Ok(arrival) => Seen::Packet(arrival),
        Err(reason) => Seen::Dropped(reason),
    }
}

#[inline(never)]
fn parse<R: Receive>(reader: &Reader<R>, frame: &Frame<'_>) -> Result<Headers, DropReason> {
    let head = frame.head();
    let extent = Extent {
        length: frame.length(),
        available: head.length(),
    };
    let tail = || head.quad(4).map(|Quad(words)| Tail(words));
    if let Some(words) = head.window()
        && let Fast::Parsed(headers) = parse_fast_with(&Window(words), extent, tail)
    {
        return Ok(headers);
    }
    let mut bytes = [0; MOST_HEADERS];
    let count = reader.copy_out(frame, 0, &mut bytes);
    let bytes = bytes.get(..count).unwrap_or(&[]);
    parse_slow(bytes, frame.length()).map_err(|Dropped { reason, .. }| reason)
}

#[inline(never)]
fn arrival<R: Receive, E: Sum>(
    reader: &Reader<R>,
    frame: &Frame<'_>,
    headers: &Headers,
) -> Result<Arrival, DropReason> {
    RoceLayout::new(headers)?;
    let l3 = u32::from(headers.l3);
    let behind = u32::from(headers.payload);
    let length = headers.payload_length - bth::ICRC_LENGTH as u32;
    check_crc::<R, E>(reader, frame, l3, behind + length)?;
    let mut transport = [0; HEADER_WORDS * 4];
    reader.copy_out(frame, behind - bth::Header::LENGTH as u32, &mut transport);
    let (fours, _) = transport.as_chunks::<4>();
    let mut words = [0; HEADER_WORDS];
    let there = bth::Header::LENGTH as u32 / 4 + length / 4;
    for ((word, four), place) in words.iter_mut().zip(fours).zip(0..) {
        if place < there {
            *word = u32::from_be_bytes(*four);
        }
    }
    let mut network = [0; 40];
    reader.copy_out(frame, l3, &mut network);
    let (source, destination) = addresses(headers.ip_version, &network);
    let is_marked = headers.traffic_class.0 & ECN == ECN;
    Ok(Arrival {
        words,
        length,
        behind,
        l3: l3 | u32::from(headers.ip_version) << 16 | u32::from(is_marked) << 24,
        source,
        destination,
    })
}

/// The addresses of an IP header.
fn addresses(version: u8, header: &[u8; 40]) -> ([u32; 4], [u32; 4]) {
    let (words, _) = header.as_chunks::<4>();
    let [_, _, a, b, c, d, e, f, g, h] = words else {
        return ([0; 4], [0; 4]);
    };
    let number = |bytes: &[u8; 4]| u32::from_be_bytes(*bytes);
    match version {
        4 => ([number(b), 0, 0, 0], [number(c), 0, 0, 0]),
        _ => ([a, b, c, d].map(number), [e, f, g, h].map(number)),
    }
}

/// Checks the invariant CRC of a packet whose IP header lies at `from` and whose CRC at `to`.
#[inline(never)]
fn check_crc<R: Receive, E: Sum>(
    reader: &Reader<R>,
    frame: &Frame<'_>,
    from: u32,
    to: u32,
) -> Result<(), DropReason> {
    let mut bytes = [0; CHUNK];
    let mut at = from;
    let first = (to - from).min(CHUNK as u32);
    let count = reader.copy_out(
        frame,
        at,
        bytes.get_mut(..first as usize).unwrap_or(&mut []),
    );
    let datagram = bytes.get(..count).unwrap_or(&[]);
    let (mut crc, taken) = icrc::begin::<E>(datagram)?;
    crc = E::update(crc, datagram.get(taken..).unwrap_or(&[]));
    at += first;
    while at < to {
        let next = (to - at).min(CHUNK as u32);
        let room = bytes.get_mut(..next as usize).unwrap_or(&mut []);
        let count = reader.copy_out(frame, at, room);
        if count < next as usize {
            return Err(DropReason::BthLength);
        }
        crc = E::update(crc, bytes.get(..count).unwrap_or(&[]));
        at += next;
    }
    let mut field = [0; bth::ICRC_LENGTH];
    reader.copy_out(frame, to, &mut field);
    match icrc::field(crc) == field {
        true => Ok(()),
        false => Err(DropReason::Icrc),
    }
}

impl Arrival {
    /// *Collective.* The arrival of lane `from`, in every lane.
    pub(crate) fn of_lane<S: Simt>(self, simt: &S, from: u32) -> Self {
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
    simt.ballot(matches!(seen, Seen::Packet(_)))
}

/// Bytes that are summed at once.
const CHUNK: usize = 256;
/// Bytes of the headers that the slow path looks at.
const MOST_HEADERS: usize = 128;
/// Both bits of the ECN field: congestion was met.
const ECN: u8 = 3;
