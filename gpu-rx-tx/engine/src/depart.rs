//! Packets that leave: headers, payload and invariant CRC, written into transmit slots by one lane.
//!
//! Nothing here knows the ring's format: whoever does hands over one slot after the other, and one
//! copy of the code serves all formats.

use warpwire_device::Piece;
use warpwire_protocols::checksum::{Crc32, Engine as Sum, MOST_HEADER_WORDS, icrc};
use warpwire_protocols::wire::{IpProtocol, bth};
use warpwire_ring::Cause;

use crate::engine::area;
use crate::payload::Payload;
use crate::sum::copy_and_sum;
use crate::tables::Path;

/// Bytes of a frame.
pub(crate) fn frame_bytes(path: &Path, words: usize, payload: u32) -> u32 {
    let network = if path.ip_version == 4 {
        IPV4_BYTES
    } else {
        IPV6_BYTES
    };
    let headers = ethernet_bytes(path) + network + UDP_BYTES + words as u32 * 4;
    headers + payload.next_multiple_of(4) + bth::ICRC_LENGTH as u32
}

/// A frame under construction.
pub(crate) struct Departure {
    crc: Crc32,
    /// Bytes of payload to come.
    payload: u32,
    /// Pad and invariant CRC, once the payload is there; the first byte is the highest.
    tail: u64,
    /// Bytes of it that were not written yet.
    tail_bytes: u32,
    has_tail: bool,
}

impl Departure {
    /// Writes the headers to the start of the first slot: the way of `path`, then the transport's
    /// `words`; `payload` bytes will follow, and their pad. Returns the bytes that it wrote.
    ///
    /// # Errors
    /// [`Cause::FrameTooLong`] if the slot has no room for them.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    pub(crate) fn begin<E: Sum>(
        slot: &Piece<'_>,
        path: &Path,
        words: &[u32],
        payload: u32,
    ) -> Result<(Self, u32), Cause> {
        let padded = payload.next_multiple_of(4);
        let transport = words.len() as u32 * 4 + padded + bth::ICRC_LENGTH as u32;
        let mut headers = Words {
            words: [0; MOST_HEADER_WORDS],
            count: 0,
        };
        let behind = transport + UDP_BYTES;
        let mut put = |words: &[u32]| words.iter().for_each(|word| headers.put(*word));
        match path.ip_version {
            4 => put(&ipv4_words(path, IpProtocol::UDP.0, behind)),
            _ => put(&ipv6_words(path, IpProtocol::UDP.0, behind)),
        }
        let network = headers.count;
        headers.put(u32::from(path.source_port) << 16 | u32::from(bth::UDP_PORT));
        // No checksum: the invariant CRC is better.
        headers.put((transport + UDP_BYTES) << 16);
        words.iter().for_each(|word| headers.put(*word));
        let words = headers.words.get(..headers.count).unwrap_or(&[]);
        let crc = icrc::begin_words::<E>(words, network);
        let at = ethernet(slot, path);
        if !slot.set_be_words(at, words) {
            return Err(Cause::FrameTooLong);
        }
        let at = at + words.len() as u32 * 4;
        let departure = Self {
            crc,
            payload,
            tail: 0,
            tail_bytes: bth::ICRC_LENGTH as u32 + (padded - payload),
            has_tail: false,
        };
        Ok((departure, at))
    }

    /// Fills a slot from byte `at` on, as far as the frame goes. Returns where it ends.
    ///
    /// # Errors
    /// [`Cause::LocalQpOperation`] if there is less payload than was said.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    pub(crate) fn fill<E: Sum>(
        &mut self,
        from: &mut Payload<'_>,
        slot: &Piece<'_>,
        at: u32,
    ) -> Result<u32, Cause> {
        let mut at = at;
        while self.payload > 0 && at < slot.length() {
            let most = self.payload.min(slot.length() - at);
            let bytes = from.next(most).ok_or(Cause::LocalQpOperation)?;
            let area = area(&bytes);
            let from = area.piece(0, bytes.length);
            let pieces = from.zip(slot.part(at, bytes.length));
            let (from, to) = pieces.ok_or(Cause::LocalQpOperation)?;
            self.crc = copy_and_sum::<E>(self.crc, &from, &to);
            at += to.length();
            self.payload -= to.length();
        }
        if self.payload == 0 && !self.has_tail {
            self.tail();
        }
        while self.has_tail && self.tail_bytes > 0 && slot.set_byte(at, (self.tail >> 56) as u8) {
            self.tail <<= 8;
            self.tail_bytes -= 1;
            at += 1;
        }
        Ok(at)
    }

    /// Whether the frame is whole.
    pub(crate) const fn is_whole(&self) -> bool {
        self.has_tail && self.tail_bytes == 0
    }

    /// Pad and invariant CRC.
    fn tail(&mut self) {
        let pad = self.tail_bytes - bth::ICRC_LENGTH as u32;
        for _ in 0..pad {
            self.crc = self.crc.update_byte(0);
        }
        let field = u32::from_be_bytes(icrc::field(self.crc));
        self.tail = u64::from(field) << 32 >> (pad * 8);
        self.has_tail = true;
    }
}

/// Writes the Ethernet header. Returns where the IP header begins. A slot without room is told by
/// what comes next.
pub(crate) fn ethernet(slot: &Piece<'_>, path: &Path) -> u32 {
    let macs = [path.next_hop, path.mac].into_iter().zip([0, 6]);
    for ([a, b, c, d, e, f], at) in macs {
        slot.set_be16(at, u16::from_be_bytes([a, b]));
        slot.set_be16(at + 2, u16::from_be_bytes([c, d]));
        slot.set_be16(at + 4, u16::from_be_bytes([e, f]));
    }
    if path.has_tag {
        slot.set_be16(12, TAG);
        slot.set_be16(14, path.tag);
    }
    let at = ethernet_bytes(path);
    slot.set_be16(at - 2, if path.ip_version == 4 { IPV4 } else { IPV6 });
    at
}

pub(crate) const fn ethernet_bytes(path: &Path) -> u32 {
    if path.has_tag {
        ETHERNET_BYTES + 4
    } else {
        ETHERNET_BYTES
    }
}

/// The words of an IPv4 header without options, before `behind` bytes of a protocol.
pub(crate) fn ipv4_words(path: &Path, protocol: u8, behind: u32) -> [u32; 5] {
    let [local, ..] = path.local;
    let [remote, ..] = path.remote;
    let length = (IPV4_BYTES + behind) & 0xffff;
    let first = 0x4500_0000 | u32::from(path.traffic_class) << 16 | length;
    let third = u32::from(path.hop_limit) << 24 | u32::from(protocol) << 16;
    let words = [first, DONT_FRAGMENT, third, local, remote];
    let halves = words.iter().map(|word| (word >> 16) + (word & 0xffff));
    let mut sum: u32 = halves.sum();
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    let third = third | (!sum & 0xffff);
    [first, DONT_FRAGMENT, third, local, remote]
}

/// The words of an IPv6 header, before `behind` bytes of a protocol.
pub(crate) fn ipv6_words(path: &Path, protocol: u8, behind: u32) -> [u32; 10] {
    let flow = path.flow_label & 0x000f_ffff;
    let first = 0x6000_0000 | u32::from(path.traffic_class) << 20 | flow;
    let second = behind << 16 | u32::from(protocol) << 8 | u32::from(path.hop_limit);
    let [a, b, c, d] = path.local;
    let [e, f, g, h] = path.remote;
    [first, second, a, b, c, d, e, f, g, h]
}

/// Headers behind Ethernet's, in the order of the host; what does not fit is left out.
struct Words {
    words: [u32; MOST_HEADER_WORDS],
    count: usize,
}

impl Words {
    fn put(&mut self, word: u32) {
        if let Some(place) = self.words.get_mut(self.count) {
            *place = word;
            self.count += 1;
        }
    }
}

const ETHERNET_BYTES: u32 = 14;
const UDP_BYTES: u32 = 8;
const IPV4_BYTES: u32 = 20;
const IPV6_BYTES: u32 = 40;
const TAG: u16 = 0x8100;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Identification 0, don't fragment: such a datagram is never put together again.
const DONT_FRAGMENT: u32 = 0x0000_4000;
