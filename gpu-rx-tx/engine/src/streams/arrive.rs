//! What a frame is: looked at by a lane each, before any connection sees it.

use warpwire_device::{Frame, Piece, Reader, Simt};
use warpwire_protocols::DropReason;
use warpwire_protocols::checksum::{Policy, Sum, judge};
use warpwire_protocols::parse::{Fast, Fragment, Headers, Kind};
use warpwire_protocols::tcp::{Secret, Segment};
use warpwire_protocols::wire::tcp::{Repr, TcpFlags, TcpSequence};
use warpwire_protocols::wire::tcp_option::{Options, Timestamps};
use warpwire_ring::{MetaFlags, Receive};

use super::sum;
use super::tables::{Address, StreamBlock, TRUST_META};
use crate::arrive::{fast, slow};
use crate::tables::Path;

/// A segment, whole and right, and where it came from: as words, so that lanes can hand it to each
/// other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrival {
    /// Header and options, in the order of the host.
    words: [u32; HEADER_WORDS],
    /// Bytes of payload.
    pub(super) length: u32,
    /// Offset of the payload in the frame; IP version above 16 bits; whether it met congestion
    /// above 24.
    place: u32,
    /// The VLAN tag, and above it whether there is one.
    tag: u32,
    /// Where its connection is looked for.
    pub(super) hash: u32,
    /// The ports that are in the hash. Of a lane's own arrival alone.
    ports: u32,
    /// Who sent it, IPv4 in the first word.
    pub(super) source: [u32; 4],
    /// To whom.
    pub(super) destination: [u32; 4],
}

/// What a lane found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    /// No frame, or one that cannot be read; the queue counts those.
    Nothing,
    /// For the host.
    Foreign,
    /// Malformed.
    Dropped(DropReason),
    /// A segment for an own address.
    Segment,
}

/// The bytes of a frame.
pub(super) trait Bytes {
    /// Of the whole frame.
    fn length(&self) -> u32;

    /// A piece, if there are so many.
    fn piece(&self, index: u32) -> Option<Piece<'_>>;

    /// The first piece.
    fn head(&self) -> Piece<'_>;

    /// Whether the NIC says that the transport's checksum holds.
    fn is_verified(&self) -> bool;
}

/// A frame in slots of a receive queue.
pub(super) struct Slots<'a, R> {
    pub(super) reader: &'a Reader<R>,
    pub(super) frame: &'a Frame<'a>,
}

impl<R: Receive> Bytes for Slots<'_, R> {
    #[inline(always)]
    fn length(&self) -> u32 {
        self.frame.length()
    }

    #[inline(always)]
    fn piece(&self, index: u32) -> Option<Piece<'_>> {
        self.reader.piece(self.frame, index)
    }

    #[inline(always)]
    fn head(&self) -> Piece<'_> {
        self.frame.head()
    }

    #[inline(always)]
    fn is_verified(&self) -> bool {
        let meta = self.reader.meta(self.frame);
        meta.present.contains(MetaFlags::L4_OK)
    }
}

/// A frame that lies in one piece.
impl Bytes for Piece<'_> {
    fn length(&self) -> u32 {
        Piece::length(self)
    }

    fn piece(&self, index: u32) -> Option<Piece<'_>> {
        (index == 0).then_some(*self)
    }

    fn head(&self) -> Piece<'_> {
        *self
    }

    fn is_verified(&self) -> bool {
        false
    }
}

/// Looks at a frame that lies in one piece.
#[cold]
#[inline(never)]
pub(super) fn look_at(frame: &Piece<'_>, block: &StreamBlock, arrival: &mut Arrival) -> Seen {
    look(frame, block, arrival)
}

/// Looks at a frame: headers, lengths, checksums; a segment is then in `arrival`.
#[inline(always)]
pub(super) fn look<B: Bytes>(frame: &B, block: &StreamBlock, arrival: &mut Arrival) -> Seen {
    let headers = match fast(&frame.head(), frame.length()) {
        Fast::Parsed(headers) => headers,
        Fast::Slow => match slow(frame.length(), |index| frame.piece(index)) {
            Ok(headers) => headers,
            Err(reason) => return Seen::Dropped(reason),
        },
    };
    if headers.kind != Kind::Tcp || headers.fragment != Fragment::None || headers.tags > 1 {
        return Seen::Foreign;
    }
    let mut network = [0; NETWORK_WORDS];
    let l3 = u32::from(headers.l3);
    load(frame, l3, network_words(&headers), &mut network);
    let count = usize::from(headers.payload - headers.l4) / 4;
    load(frame, u32::from(headers.l4), count, &mut arrival.words);
    if !arrival.name(&headers, &network, block) {
        return Seen::Foreign;
    }
    if headers.ip_version == 4 && !sum_words(&network).holds() {
        return Seen::Dropped(DropReason::Ipv4Checksum);
    }
    if block.policy & 0xff == Policy::Trust as u32
        || block.policy & TRUST_META != 0 && frame.is_verified()
    {
        return Seen::Segment;
    }
    let payload = sum::frame(frame, u32::from(headers.payload), arrival.length);
    let state = judge(
        arrival.checksum(),
        arrival.pseudo(&headers),
        sum_words(&arrival.words).plus(payload),
    );
    match policy(block.policy).accepts(state) {
        true => Seen::Segment,
        false => Seen::Dropped(DropReason::L4Checksum),
    }
}

/// Loads header words from byte `offset` of a frame on; those behind `count` become zeros.
#[inline(always)]
fn load<B: Bytes>(frame: &B, offset: u32, count: usize, into: &mut [u32]) {
    let count = count.min(into.len());
    let (words, rest) = into.split_at_mut_checked(count).unwrap_or_default();
    rest.fill(0);
    if !frame.head().be_words(offset, words) {
        pieces(frame, offset, words);
    }
}

/// Header words that lie in several pieces.
#[cold]
#[inline(never)]
fn pieces<B: Bytes>(frame: &B, offset: u32, words: &mut [u32]) {
    for (word, at) in words.iter_mut().zip((offset..).step_by(4)) {
        let mut bytes = [0; 4];
        let (mut skip, mut done, mut index) = (at, 0, 0);
        while let Some(piece) = frame.piece(index)
            && let Some(rest) = bytes.get_mut(done..)
            && !rest.is_empty()
        {
            done += piece.copy_out(skip, rest);
            skip = skip.saturating_sub(piece.length());
            index += 1;
        }
        *word = u32::from_be_bytes(bytes);
    }
}

/// Words of the IP header that are looked at: all of IPv4's, with options, or IPv6's without
/// extension headers.
fn network_words(headers: &Headers) -> usize {
    match headers.ip_version {
        4 => usize::from(headers.l4 - headers.l3) / 4,
        _ => IPV6_WORDS,
    }
}

#[inline]
fn sum_words(words: &[u32]) -> Sum {
    words
        .iter()
        .fold(Sum::ZERO, |sum, word| sum.add_field32(*word))
}

const fn policy(number: u32) -> Policy {
    match number & 0xff {
        0 => Policy::Verify,
        1 => Policy::AcceptPartial,
        _ => Policy::Trust,
    }
}

impl Arrival {
    /// Fills in everything but the header; says whether it is for an own address.
    #[inline(always)]
    fn name(&mut self, headers: &Headers, network: &[u32], block: &StreamBlock) -> bool {
        let [_, _, a, b, c, d, e, f, g, h, ..] = *network else {
            return false;
        };
        // IPv4's addresses stand in words 3 and 4 of its header.
        let (source, destination) = match headers.ip_version {
            4 => ([b, 0, 0, 0], [c, 0, 0, 0]),
            _ => ([a, b, c, d], [e, f, g, h]),
        };
        let is_marked = headers.traffic_class.0 & ECN == ECN;
        let version = u32::from(headers.ip_version);
        let [ports, ..] = self.words;
        // Segments come in trains: that of the one before is known.
        let is_next = self.ports == ports
            && self.source == source
            && self.destination == destination
            && u32::from(self.ip_version()) == version;
        if !is_next {
            let secret = Secret(block.secret);
            let ports = ports.rotate_left(16);
            self.hash = hash(&secret, version, &destination, &source, ports);
        }
        (self.source, self.destination) = (source, destination);
        self.ports = ports;
        self.length = headers.payload_length;
        self.place = u32::from(headers.payload) | version << 16 | u32::from(is_marked) << 24;
        self.tag = match headers.tags {
            0 => 0,
            _ => u32::from(headers.outer_tag.0) | 1 << 16,
        };
        let own = Address {
            words: self.destination,
            ip_version: version,
        };
        is_own(block, &own)
    }

    fn checksum(&self) -> u16 {
        let [_, _, _, _, word, ..] = self.words;
        (word >> 16) as u16
    }

    fn pseudo(&self, headers: &Headers) -> Sum {
        let ends = sum_words(&self.source).plus(sum_words(&self.destination));
        let length = self.length + u32::from(headers.payload - headers.l4);
        ends.add_field32(length).add_field(TCP)
    }

    /// *Collective.* The arrival of lane `from`, in every lane.
    pub(super) fn of_lane<S: Simt>(&self, simt: &S, from: u32) -> Self {
        let shuffle = |word: u32| simt.shuffle(word, from);
        Self {
            words: self.words.map(shuffle),
            length: shuffle(self.length),
            place: shuffle(self.place),
            tag: shuffle(self.tag),
            hash: shuffle(self.hash),
            ports: self.ports,
            source: self.source.map(shuffle),
            destination: self.destination.map(shuffle),
        }
    }

    /// Offset of the payload in the frame.
    pub(super) const fn payload_at(&self) -> u32 {
        self.place & 0xffff
    }

    /// 4 or 6.
    pub(super) const fn ip_version(&self) -> u8 {
        (self.place >> 16) as u8
    }

    /// The port that it is for.
    pub(super) const fn local_port(&self) -> u16 {
        self.words[0] as u16
    }

    /// The port that it came from.
    pub(super) const fn remote_port(&self) -> u16 {
        (self.words[0] >> 16) as u16
    }

    /// The segment as connections see it.
    ///
    /// # Errors
    /// [`DropReason::TcpOption`].
    #[inline]
    pub(super) fn segment(&self) -> Result<Segment, DropReason> {
        let [
            _,
            sequence,
            acknowledgement,
            control,
            _,
            first,
            value,
            echo,
            ..,
        ] = self.words;
        let options = match control >> 28 {
            5 => Options::default(),
            8 if first == TIMESTAMPS => Options {
                timestamps: Some(Timestamps { value, echo }),
                ..Options::default()
            },
            words => self.options(words as usize)?,
        };
        let header = Repr {
            source_port: self.remote_port(),
            destination_port: self.local_port(),
            sequence: TcpSequence(sequence),
            acknowledgement: TcpSequence(acknowledgement),
            flags: TcpFlags::from_bits_truncate((control >> 16) as u16),
            window: control as u16,
            urgent: 0,
            options,
        };
        Ok(Segment::new(&header, self.length, self.place >> 24 != 0))
    }

    #[cold]
    #[inline(never)]
    fn options(&self, words: usize) -> Result<Options, DropReason> {
        let mut bytes = [0; HEADER_WORDS * 4];
        let (chunks, _) = bytes.as_chunks_mut::<4>();
        for (chunk, word) in chunks.iter_mut().zip(&self.words) {
            *chunk = word.to_be_bytes();
        }
        Options::parse(bytes.get(FIXED_BYTES..words * 4).unwrap_or(&[]))
    }

    /// The way back to who sent it, by the Ethernet header of its frame. `None` if it came to no
    /// single station, or from none.
    pub(super) fn way_back(&self, head: &Piece<'_>) -> Option<Path> {
        let (mut mac, mut next_hop) = ([0; 6], [0; 6]);
        head.copy_out(0, &mut mac);
        head.copy_out(6, &mut next_hop);
        let ([to, ..], [from, ..]) = (mac, next_hop);
        if (to | from) & 1 != 0 {
            return None;
        }
        Some(Path {
            local: self.destination,
            remote: self.source,
            flow_label: self.hash & 0x000f_ffff,
            next_hop,
            mac,
            source_port: self.local_port(),
            tag: self.tag as u16,
            has_tag: self.tag >> 16 != 0,
            ip_version: self.ip_version(),
            traffic_class: 0,
            hop_limit: HOPS,
        })
    }
}

/// Where the connection between these ends is looked for.
pub(super) fn hash(
    secret: &Secret,
    ip_version: u32,
    local: &[u32; 4],
    remote: &[u32; 4],
    ports: u32,
) -> u32 {
    let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    let [a, b, c, d] = *local;
    let [e, f, g, h] = *remote;
    let hash = match ip_version {
        4 => secret.bucket(&[pair(a, e), u64::from(ports)]),
        _ => {
            let words = [pair(a, b), pair(c, d), pair(e, f), pair(g, h)];
            let [local, more, remote, rest] = words;
            secret.bucket(&[local, more, remote, rest, u64::from(ports)])
        }
    };
    hash as u32
}

/// As [`hash`], of a connection by its way and the port there.
pub(super) fn hash_of(secret: &Secret, path: &Path, remote_port: u16) -> u32 {
    let ports = u32::from(path.source_port) << 16 | u32::from(remote_port);
    let version = u32::from(path.ip_version);
    hash(secret, version, &path.local, &path.remote, ports)
}

/// Whether an address is one of the block's.
pub(super) fn is_own(block: &StreamBlock, address: &Address) -> bool {
    let count = (block.address_count as usize).min(block.addresses.len());
    block.addresses.iter().take(count).any(|own| own == address)
}

/// Words of a TCP header with all options there may be.
pub(super) const HEADER_WORDS: usize = 15;
/// Words of an IP header: IPv4's with all options there may be.
const NETWORK_WORDS: usize = 15;
const IPV6_WORDS: usize = 10;
const FIXED_BYTES: usize = 20;
/// Two no-operations, and the head of a timestamps option.
pub(super) const TIMESTAMPS: u32 = 0x0101_080a;
const TCP: u16 = 6;
/// Both bits of the ECN field: congestion was met.
const ECN: u8 = 3;
const HOPS: u8 = 64;
