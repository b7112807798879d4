//! Changing fields of a packet in place and keeping its checksums right.
//!
//! Checksums and the ICRC of RoCE are patched by what changed (RFC 1624), never summed anew: a
//! packet that came with a wrong checksum leaves with a wrong one. A transport checksum that holds
//! the pseudo-header sum alone, as a local Linux peer hands over, is kept in that form.

use warpwire_protocols::checksum::{Arithmetic, Crc32, Shift, Sum, icrc, patch32};
use warpwire_protocols::parse::{Fragment, HEADER_BYTES, Kind};
use warpwire_protocols::wire::bth;

use crate::packet::Packet;

/// One of a pair of addresses or ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Where the packet comes from.
    Source,
    /// Where it goes to.
    Destination,
}

/// What a packet's transport checksum holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transport {
    /// There is none that the field's change would touch.
    None,
    /// The whole checksum, at this offset; whether it is UDP's.
    Full(u32, bool),
    /// The folded pseudo-header sum, at this offset.
    Partial(u32),
}

impl Packet<'_> {
    /// Completes a transport checksum that holds the pseudo-header sum alone. Says whether it did:
    /// frames with a whole checksum, or none, are left as they are.
    #[inline]
    pub fn complete_checksum(&self) -> bool {
        let Transport::Partial(at) = self.transport() else {
            return false;
        };
        // The field, which is summed with the rest, holds what the pseudo header would add.
        let headers = self.headers();
        let total = sum(self, u32::from(headers.l4), headers.end());
        let checksum = match total.checksum() {
            0 if self.is_udp() => 0xffff,
            checksum => checksum,
        };
        self.bytes().set_be16(at, checksum)
    }

    /// Writes an IP address, of the packet's own version, as big-endian numbers. Says no, and
    /// changes nothing, if the packet is not IP or its headers are not in one piece.
    #[inline]
    pub fn set_ip_address(&mut self, end: End, words: [u32; 4]) -> bool {
        let l3 = u32::from(self.headers().l3);
        let (at, count) = match (self.headers().ip_version, end) {
            (4, End::Source) => (l3 + 12, 1),
            (4, End::Destination) => (l3 + 16, 1),
            (6, End::Source) => (l3 + 8, 4),
            (6, End::Destination) => (l3 + 24, 4),
            _ => return false,
        };
        if !self.in_reach() {
            return false;
        }
        let transport = self.transport();
        for (word, at) in words.into_iter().take(count).zip((at..).step_by(4)) {
            let Some(old) = self.bytes().be32(at) else {
                return false;
            };
            self.bytes().set_be32(at, word);
            self.patch_header(old, word);
            self.patch_transport(transport, old, word);
            self.patch_icrc(at, old, word);
        }
        self.edited();
        true
    }

    /// Writes a port of TCP or UDP. Says no, and changes nothing, if there is none.
    #[inline]
    pub fn set_port(&mut self, end: End, port: u16) -> bool {
        let at = u32::from(self.headers().l4) + if end == End::Source { 0 } else { 2 };
        if !self.headers().has_ports() || !self.in_reach() {
            return false;
        }
        let l4 = u32::from(self.headers().l4);
        let (Some(old), Some(both)) = (self.bytes().be16(at), self.bytes().be32(l4)) else {
            return false;
        };
        // Ports are not in the pseudo header: a partial checksum does not know them.
        if let Transport::Full(..) = self.transport() {
            self.patch_transport(self.transport(), u32::from(old), u32::from(port));
        }
        self.bytes().set_be16(at, port);
        self.patch_icrc(l4, both, self.bytes().be32(l4).unwrap_or(both));
        self.edited();
        true
    }

    /// Writes the time to live or hop limit. Says no, and changes nothing, if the packet is not IP.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) -> bool {
        let l3 = u32::from(self.headers().l3);
        let at = match self.headers().ip_version {
            4 => l3 + 8,
            6 => l3 + 7,
            _ => return false,
        };
        self.set_header_byte(at, ttl)
    }

    /// Writes the differentiated services code point. Says no, and changes nothing, if the packet
    /// is not IP.
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) -> bool {
        let l3 = u32::from(self.headers().l3);
        match self.headers().ip_version {
            4 => {
                let ecn = self.bytes().byte(l3 + 1).unwrap_or(0) & 3;
                self.set_header_byte(l3 + 1, dscp << 2 | ecn)
            }
            6 => {
                // version (4 bits), DSCP (6), ECN (2), flow label (20)
                let Some(word) = self.bytes().be32(l3) else {
                    return false;
                };
                let word = word & !(0x3f << 22) | u32::from(dscp & 0x3f) << 22;
                self.edited();
                self.bytes().set_be32(l3, word)
            }
            _ => false,
        }
    }

    /// Writes the VLAN id of the outer tag. Says no, and changes nothing, if the frame has no tag.
    #[inline]
    pub fn set_vlan(&mut self, id: u16) -> bool {
        if self.headers().tags == 0 {
            return false;
        }
        let control = self.headers().outer_tag.0 & 0xf000 | id & 0x0fff;
        self.edited();
        self.bytes().set_be16(14, control)
    }

    /// Whether all headers up to the transport's, and the ICRC of RoCE, lie in the first piece.
    #[inline(always)]
    fn in_reach(&self) -> bool {
        let end = match self.headers().kind {
            Kind::RoceV2 => self.headers().end(),
            _ => u32::from(self.headers().payload),
        };
        end <= self.bytes().length()
    }

    /// The ICRC of RoCEv2 after the four bytes at `at` changed: a CRC is linear, so what it
    /// changes by is the CRC of the difference.
    #[inline]
    fn patch_icrc(&self, at: u32, old: u32, new: u32) {
        let icrc = self.headers().end().wrapping_sub(bth::ICRC_LENGTH as u32);
        if self.headers().kind != Kind::RoceV2 || old == new {
            return;
        }
        let behind = icrc.saturating_sub(at + 4);
        let change = Crc32::partial()
            .update_word((old ^ new).swap_bytes())
            .shifted(Shift::bytes(u64::from(behind)));
        if let Some(field) = self.bytes().be32(icrc) {
            // The field is in little-endian order.
            self.bytes()
                .set_be32(icrc, field ^ change.state().swap_bytes());
        }
    }

    /// Writes a byte of the IP header; an IPv4 header's checksum follows.
    #[inline(always)]
    fn set_header_byte(&mut self, at: u32, value: u8) -> bool {
        let even = at & !1;
        let Some(old) = self.bytes().be16(even) else {
            return false;
        };
        let new = match at == even {
            true => old & 0x00ff | u16::from(value) << 8,
            false => old & 0xff00 | u16::from(value),
        };
        self.bytes().set_be16(even, new);
        self.patch_header(u32::from(old), u32::from(new));
        self.edited();
        true
    }

    /// The IPv4 header checksum after a field changed.
    #[inline(always)]
    fn patch_header(&self, old: u32, new: u32) {
        if self.headers().ip_version != 4 {
            return;
        }
        let at = u32::from(self.headers().l3) + 10;
        if let Some(checksum) = self.bytes().be16(at) {
            self.bytes().set_be16(at, patch32(checksum, old, new));
        }
    }

    /// The transport checksum after a field changed that it covers.
    #[inline(always)]
    fn patch_transport(&self, transport: Transport, old: u32, new: u32) {
        match transport {
            Transport::None => {}
            Transport::Full(at, is_udp) => {
                let checksum = self.bytes().be16(at).unwrap_or(0);
                let patched = match patch32(checksum, old, new) {
                    0 if is_udp => 0xffff,
                    patched => patched,
                };
                self.bytes().set_be16(at, patched);
            }
            Transport::Partial(at) => {
                // The field is the sum and not its complement: patch the complement's complement.
                let sum = self.bytes().be16(at).unwrap_or(0);
                self.bytes().set_be16(at, !patch32(!sum, old, new));
            }
        }
    }

    /// What the transport checksum holds; [`Transport::None`] where no pseudo header is covered.
    #[inline]
    fn transport(&self) -> Transport {
        let headers = self.headers();
        if headers.kind == Kind::Icmpv4 {
            return Transport::None;
        }
        let Some(at) = self.transport_checksum() else {
            return Transport::None;
        };
        let Some(field) = self.bytes().be16(at) else {
            return Transport::None;
        };
        if self.is_udp() && field == 0 {
            return Transport::None;
        }
        let whole = headers.fragment == Fragment::None;
        if whole && field == self.pseudo().fold() {
            Transport::Partial(at)
        } else {
            Transport::Full(at, self.is_udp())
        }
    }

    /// The sum over the pseudo header.
    #[inline]
    pub fn pseudo(&self) -> Sum {
        let headers = self.headers();
        let (source, destination) = self.ip_addresses();
        let length = headers.end().saturating_sub(u32::from(headers.l4));
        let addresses = source.into_iter().chain(destination);
        addresses
            .fold(Sum::ZERO, |sum, word| sum.add_field32(word))
            .add_field32(length)
            .add_field(u16::from(headers.protocol.0))
    }
}

/// The internet checksum over part of a frame, whatever pieces it lies in: bytes `from` to `to`.
#[inline(never)]
pub fn sum(packet: &Packet<'_>, from: u32, to: u32) -> Sum {
    let mut total = Sum::ZERO;
    let mut start = 0;
    let mut index = 0;
    while start < to
        && let Some(piece) = packet.piece(index)
    {
        let end = start + piece.length();
        let (first, last) = (from.max(start), to.min(end));
        if first < last
            && let Some(part) = piece.part(first - start, last - first)
        {
            let sum = sum_piece(&part);
            let odd = (first - from) % 2 == 1;
            total = total.plus(if odd { sum.at_odd_offset() } else { sum });
        }
        start = end;
        index += 1;
    }
    total
}

#[inline(always)]
fn sum_piece(part: &warpwire_device::Piece<'_>) -> Sum {
    let mut total = Sum::ZERO;
    let mut at = 0;
    while let Some(word) = part.be32(at) {
        total = total.add_field32(word);
        at += 4;
    }
    if let Some(half) = part.be16(at) {
        total = total.add_field(half);
        at += 2;
    }
    match part.byte(at) {
        Some(byte) => total.add_field(u16::from(byte) << 8),
        None => total,
    }
}

/// Whether the ICRC of a RoCEv2 packet is right.
#[inline(never)]
pub fn icrc_holds(packet: &Packet<'_>) -> bool {
    let headers = packet.headers();
    let (l3, payload) = (u32::from(headers.l3), u32::from(headers.payload));
    let end = headers.end().saturating_sub(bth::ICRC_LENGTH as u32);
    let mut copy = [0; HEADER_BYTES];
    let network = payload.saturating_sub(l3) as usize;
    let Some(header) = copy.get_mut(..network) else {
        return false;
    };
    if packet.bytes().copy_out(l3, header) < network {
        return false;
    }
    let Ok((crc, _)) = icrc::begin::<Arithmetic>(header) else {
        return false;
    };
    let crc = crc_over(packet, crc, payload, end);
    let mut found = [0; bth::ICRC_LENGTH];
    for (byte, at) in found.iter_mut().zip(end..) {
        *byte = byte_at(packet, at).unwrap_or(0);
    }
    end >= payload && found == icrc::field(crc)
}

/// A CRC after part of a frame too, whatever pieces it lies in: bytes `from` to `to`.
fn crc_over(packet: &Packet<'_>, crc: Crc32, from: u32, to: u32) -> Crc32 {
    let mut crc = crc;
    let mut start = 0;
    let mut index = 0;
    while start < to
        && let Some(piece) = packet.piece(index)
    {
        let end = start + piece.length();
        let (first, last) = (from.max(start), to.min(end));
        if first < last
            && let Some(part) = piece.part(first - start, last - first)
        {
            let words = part.length() / 4;
            let word = |index: usize| part.be32(index as u32 * 4).unwrap_or(0).swap_bytes();
            crc = crc.update_words(words as usize, word);
            for at in words * 4..part.length() {
                crc = crc.update_byte(part.byte(at).unwrap_or(0));
            }
        }
        start = end;
        index += 1;
    }
    crc
}

/// One byte of a frame, whatever piece it lies in.
fn byte_at(packet: &Packet<'_>, at: u32) -> Option<u8> {
    let mut start = 0;
    let mut index = 0;
    loop {
        let piece = packet.piece(index)?;
        if let Some(byte) = piece.byte(at.wrapping_sub(start)) {
            return Some(byte);
        }
        start += piece.length();
        index += 1;
    }
}
