//! As much of a frame as NIC hardware understands: where its headers lie, and their checksums.
//!
//! On purpose this shares nothing with the parsers that kernels use: the device model judges them.

/// The network header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Network {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Transport {
    /// TCP; whether the segment acknowledges, and whether it carries data.
    Tcp {
        /// The ACK flag.
        acknowledges: bool,
        /// There are bytes behind the header.
        data: bool,
    },
    /// UDP.
    Udp,
}

/// Where the headers of an IP packet lie, in bytes from the frame's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layers {
    /// Which network header.
    pub(super) network: Network,
    /// Where it starts.
    pub(super) network_at: usize,
    /// Which transport header; nothing for other protocols and for fragments.
    pub(super) transport: Option<Transport>,
    /// Where the transport header, or what stands in its place, starts.
    pub(super) transport_at: usize,
    /// Where the packet ends; padding may follow.
    pub(super) end: usize,
}

const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const TAG_TYPES: [u16; 2] = [0x8100, 0x88a8];
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const MAX_EXTENSIONS: usize = 8;

/// Finds the headers of an IP packet, behind up to two VLAN tags. Nothing if it is not one, or does
/// not hold together.
#[inline]
pub(super) fn locate(frame: &[u8]) -> Option<Layers> {
    let mut at = 12;
    let mut kind = be16(frame, at)?;
    for _ in 0..2 {
        if TAG_TYPES.contains(&kind) {
            at += 4;
            kind = be16(frame, at)?;
        }
    }
    match kind {
        TYPE_IPV4 => locate_v4(frame, at + 2),
        TYPE_IPV6 => locate_v6(frame, at + 2),
        _ => None,
    }
}

#[inline(always)]
fn locate_v4(frame: &[u8], at: usize) -> Option<Layers> {
    let header: &[u8; 20] = frame.get(at..)?.first_chunk()?;
    let [
        version,
        _,
        length_high,
        length_low,
        _,
        _,
        fragment,
        offset,
        _,
        protocol,
        ..,
    ] = *header;
    let header_bytes = usize::from(version & 15) * 4;
    let end = at + usize::from(u16::from_be_bytes([length_high, length_low]));
    let transport_at = at + header_bytes;
    if version >> 4 != 4 || header_bytes < 20 || transport_at > end || end > frame.len() {
        return None;
    }
    let whole = fragment & 0x3f == 0 && offset == 0;
    let packet = frame.get(..end)?;
    Some(Layers {
        network: Network::V4,
        network_at: at,
        transport: if whole {
            transport(packet, transport_at, protocol)
        } else {
            None
        },
        transport_at,
        end,
    })
}

fn locate_v6(frame: &[u8], at: usize) -> Option<Layers> {
    let header: &[u8; 40] = frame.get(at..)?.first_chunk()?;
    let [version, _, _, _, length_high, length_low, mut next, ..] = *header;
    let mut transport_at = at + 40;
    let end = transport_at + usize::from(u16::from_be_bytes([length_high, length_low]));
    let packet = frame.get(..end)?;
    if version >> 4 != 6 {
        return None;
    }
    let mut whole = true;
    for _ in 0..MAX_EXTENSIONS {
        let bytes = match next {
            0 | 43 | 60 => 8 + usize::from(*packet.get(transport_at + 1)?) * 8,
            44 => {
                whole &= be16(packet, transport_at + 2)? & 0xfff9 == 0;
                8
            }
            _ => break,
        };
        next = *packet.get(transport_at)?;
        transport_at += bytes;
    }
    if transport_at > end {
        return None;
    }
    Some(Layers {
        network: Network::V6,
        network_at: at,
        transport: if whole {
            transport(packet, transport_at, next)
        } else {
            None
        },
        transport_at,
        end,
    })
}

fn transport(packet: &[u8], at: usize, protocol: u8) -> Option<Transport> {
    let rest = packet.get(at..)?;
    match protocol {
        PROTOCOL_TCP => {
            let header: &[u8; 20] = rest.first_chunk()?;
            let [.., offset, flags, _, _, _, _, _, _] = *header;
            Some(Transport::Tcp {
                acknowledges: flags & 0x10 != 0,
                data: rest.len() > usize::from(offset >> 4) * 4,
            })
        }
        PROTOCOL_UDP if rest.len() >= 8 => Some(Transport::Udp),
        _ => None,
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes: &[u8; 2] = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes))
}

/// The ones' complement sum of the bytes taken as big-endian words, not folded, not complemented.
/// The bytes start at an even place of what is summed.
#[inline(always)]
fn sum(bytes: &[u8]) -> u64 {
    // Sums of words in any byte order are the same but for a swap at the end.
    let (words, rest) = bytes.as_chunks::<8>();
    let mut total: u64 = words.iter().map(|word| halves(*word)).sum();
    let (word, rest) = match rest.split_first_chunk::<4>() {
        Some((word, rest)) => (*word, rest),
        None => ([0; 4], rest),
    };
    total += u64::from(u32::from_ne_bytes(word));
    let last = match *rest {
        [a, b, c] => [a, b, c, 0],
        [a, b] => [a, b, 0, 0],
        [a] => [a, 0, 0, 0],
        _ => [0; 4],
    };
    total += u64::from(u32::from_ne_bytes(last));
    u64::from(u16::from_be_bytes(fold(total).to_ne_bytes()))
}

#[inline(always)]
fn halves(word: [u8; 8]) -> u64 {
    let word = u64::from_ne_bytes(word);
    (word & 0xffff_ffff) + (word >> 32)
}

#[inline(always)]
fn fold(total: u64) -> u16 {
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff) + ((total >> 16) & 0xffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16);
    ((total & 0xffff) + (total >> 16)) as u16
}

impl Layers {
    /// The sum of addresses, protocol and length that TCP and UDP sum as well.
    #[inline(always)]
    fn pseudo_header(&self, frame: &[u8]) -> Option<u64> {
        let protocol = match self.transport? {
            Transport::Tcp { .. } => PROTOCOL_TCP,
            Transport::Udp => PROTOCOL_UDP,
        };
        let addresses = match self.network {
            Network::V4 => self.network_at + 12..self.network_at + 20,
            Network::V6 => self.network_at + 8..self.network_at + 40,
        };
        let length = (self.end - self.transport_at) as u64;
        Some(sum(frame.get(addresses)?) + u64::from(protocol) + length)
    }

    fn checksum_at(&self) -> Option<usize> {
        match self.transport? {
            Transport::Tcp { .. } => Some(self.transport_at + 16),
            Transport::Udp => Some(self.transport_at + 6),
        }
    }

    /// Whether the IPv4 header's checksum is right. IPv6 has none, and nothing is wrong with it.
    #[inline(always)]
    pub(super) fn network_ok(&self, frame: &[u8]) -> bool {
        match self.network {
            Network::V6 => true,
            Network::V4 => match self.v4_header(frame) {
                // Without options: the length is known, and there is no loop.
                Some(header) if header.len() == 20 => header
                    .first_chunk::<20>()
                    .is_some_and(|header| fold(sum(header)) == 0xffff),
                Some(header) => fold(sum(header)) == 0xffff,
                None => false,
            },
        }
    }

    #[inline(always)]
    fn v4_header<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = usize::from(*frame.get(self.network_at)? & 15) * 4;
        frame.get(self.network_at..self.network_at + bytes)
    }

    /// Whether the TCP or UDP checksum is right; a UDP packet over IPv4 may leave it out.
    #[inline(always)]
    pub(super) fn transport_ok(&self, frame: &[u8]) -> bool {
        let check = || {
            let field = be16(frame, self.checksum_at()?)?;
            if self.transport == Some(Transport::Udp) && field == 0 {
                return Some(self.network == Network::V4);
            }
            let segment = frame.get(self.transport_at..self.end)?;
            Some(fold(self.pseudo_header(frame)? + sum(segment)) == 0xffff)
        };
        check().unwrap_or(false)
    }

    /// Whether the TCP or UDP checksum field holds the sum of the pseudo-header alone, and that is
    /// not right by chance.
    pub(super) fn is_partial(&self, frame: &[u8]) -> bool {
        let check = || {
            let field = be16(frame, self.checksum_at()?)?;
            Some(field == fold(self.pseudo_header(frame)?) && !self.transport_ok(frame))
        };
        check().unwrap_or(false)
    }

    /// Fills in the IPv4 header checksum.
    pub(super) fn fill_network(&self, frame: &mut [u8]) {
        if self.network != Network::V4 {
            return;
        }
        put16(frame, self.network_at + 10, 0);
        if let Some(header) = self.v4_header(frame) {
            let value = !fold(sum(header));
            put16(frame, self.network_at + 10, value);
        }
    }

    /// Fills in the TCP or UDP checksum, whatever stood in its place.
    pub(super) fn fill_transport(&self, frame: &mut [u8]) {
        let Some(at) = self.checksum_at() else {
            return;
        };
        put16(frame, at, 0);
        let value = self.pseudo_header(frame).and_then(|pseudo| {
            let segment = frame.get(self.transport_at..self.end)?;
            Some(!fold(pseudo + sum(segment)))
        });
        let Some(value) = value else {
            return;
        };
        let none_means_zero = self.transport == Some(Transport::Udp) && value == 0;
        put16(frame, at, if none_means_zero { 0xffff } else { value });
    }
}

fn put16(frame: &mut [u8], at: usize, value: u16) {
    if let Some(field) = frame.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

/// Marks an IP packet as having met congestion, if its sender understands that. Returns whether it
/// did.
pub(super) fn mark_congestion(frame: &mut [u8]) -> bool {
    let Some(layers) = locate(frame) else {
        return false;
    };
    // ECN is the low two bits of the traffic class: byte 1 of IPv4, bits 20 and 21 of IPv6.
    let (at, shift) = match layers.network {
        Network::V4 => (layers.network_at + 1, 0),
        Network::V6 => (layers.network_at + 1, 4),
    };
    let Some(byte) = frame.get_mut(at) else {
        return false;
    };
    if *byte >> shift & 3 == 0 {
        return false;
    }
    *byte |= 3 << shift;
    layers.fill_network(frame);
    true
}
