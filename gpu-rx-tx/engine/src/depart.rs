//! Packets that leave: headers, payload and invariant CRC, written into transmit slots by one lane.

use warpwire_device::{Claim, Piece, Sender};
use warpwire_protocols::checksum::{Crc32, Engine as Sum, icrc};
use warpwire_protocols::wire::{IpProtocol, bth};
use warpwire_ring::{Cause, Transmit};

use crate::tables::Path;

/// Bytes of the longest headers: Ethernet with a tag, IPv6, UDP, base and extended headers.
const MOST_HEADERS: usize = 18 + 40 + 8 + 40;

/// The slots of a frame, one behind the other as far as its bytes are concerned.
#[derive(Clone, Copy)]
pub(crate) struct Slots<'a, T> {
    pub(crate) sender: &'a Sender<T>,
    pub(crate) claim: &'a Claim,
    /// Bytes of each slot.
    pub(crate) capacity: u32,
}

impl<'a, T: Transmit> Slots<'a, T> {
    /// The bytes from `at` on that lie in one slot, at most `most`.
    fn piece(&self, at: u32, most: u32) -> Option<Piece<'a>> {
        let slot = self.sender.slot(self.claim, at / self.capacity)?;
        let offset = at % self.capacity;
        let there = slot.length().saturating_sub(offset);
        slot.part(offset, there.min(most))
    }

    fn write(&self, at: u32, bytes: &[u8]) -> Result<(), Cause> {
        let (mut at, mut rest) = (at, bytes);
        while !rest.is_empty() {
            let to = self.piece(at, rest.len() as u32);
            let to = to.filter(|to| !to.is_empty()).ok_or(Cause::FrameTooLong)?;
            let (now, later) = rest
                .split_at_checked(to.length() as usize)
                .unwrap_or((rest, &[]));
            to.copy_in(0, now);
            at += to.length();
            rest = later;
        }
        Ok(())
    }
}

/// A frame under construction.
pub(crate) struct Departure<'a, T> {
    slots: Slots<'a, T>,
    crc: Crc32,
    at: u32,
}

/// Bytes of a frame.
pub(crate) fn frame_bytes(path: &Path, words: usize, payload: u32) -> u32 {
    let tag = if path.has_tag { 4 } else { 0 };
    let network = if path.ip_version == 4 {
        IPV4_BYTES
    } else {
        IPV6_BYTES
    };
    let headers = ETHERNET_BYTES + tag + network + UDP_BYTES + words as u32 * 4;
    headers + payload.next_multiple_of(4) + bth::ICRC_LENGTH as u32
}

impl<'a, T: Transmit> Departure<'a, T> {
    /// Writes the headers: the way of `path`, then the transport's `words`; `payload` bytes will
    /// follow, and their pad.
    ///
    /// # Errors
    /// [`Cause::FrameTooLong`] if the slots have no room for it.
    #[inline(never)]
    pub(crate) fn begin<E: Sum>(
        slots: Slots<'a, T>,
        path: &Path,
        words: &[u32],
        payload: u32,
    ) -> Result<Self, Cause> {
        let mut bytes = [0; MOST_HEADERS];
        let mut out = Writer {
            bytes: &mut bytes,
            at: 0,
        };
        let padded = payload.next_multiple_of(4);
        let transport = words.len() as u32 * 4 + padded + bth::ICRC_LENGTH as u32;
        let l3 = ethernet(&mut out, path);
        match path.ip_version {
            4 => ipv4(&mut out, path, transport + UDP_BYTES),
            _ => ipv6(&mut out, path, transport + UDP_BYTES),
        }
        out.be16(path.source_port);
        out.be16(bth::UDP_PORT);
        out.be16((transport + UDP_BYTES) as u16);
        // No checksum: the invariant CRC is better.
        out.be16(0);
        words.iter().for_each(|word| out.be32(*word));
        let end = out.at;
        let headers = bytes.get(..end).unwrap_or(&[]);
        let datagram = headers.get(l3..).unwrap_or(&[]);
        let begun = icrc::begin::<E>(datagram);
        let (crc, taken) = begun.map_err(|_| Cause::LocalQpOperation)?;
        let crc = E::update(crc, datagram.get(taken..).unwrap_or(&[]));
        slots.write(0, headers)?;
        Ok(Self {
            slots,
            crc,
            at: end as u32,
        })
    }

    /// Appends payload that lies in memory; the lengths of all of it together are those that were
    /// said at the beginning.
    ///
    /// # Errors
    /// [`Cause::FrameTooLong`].
    #[inline(never)]
    pub(crate) fn payload<E: Sum>(&mut self, from: &Piece<'_>) -> Result<(), Cause> {
        let mut done = 0;
        while done < from.length() {
            let to = self.slots.piece(self.at, from.length() - done);
            let to = to.filter(|to| !to.is_empty()).ok_or(Cause::FrameTooLong)?;
            let part = from.part(done, to.length()).ok_or(Cause::FrameTooLong)?;
            part.copy_to(&to);
            // Summed as it stands in the slot: the source may change meanwhile.
            self.sum::<E>(&to);
            done += to.length();
            self.at += to.length();
        }
        Ok(())
    }

    #[inline(never)]
    fn sum<E: Sum>(&mut self, piece: &Piece<'_>) {
        let mut chunk = [0; CHUNK];
        let mut done = 0;
        while done < piece.length() {
            let count = piece.copy_out(done, &mut chunk);
            if count == 0 {
                break;
            }
            self.crc = E::update(self.crc, chunk.get(..count).unwrap_or(&[]));
            done += count as u32;
        }
    }

    /// Appends pad and invariant CRC. Returns the bytes of the frame.
    ///
    /// # Errors
    /// [`Cause::FrameTooLong`].
    pub(crate) fn end<E: Sum>(mut self, payload: u32) -> Result<u32, Cause> {
        let pad = bth::Pad::of(payload).value();
        let zeros = [0; 4];
        let zeros = zeros.get(..usize::from(pad)).unwrap_or(&[]);
        self.crc = E::update(self.crc, zeros);
        self.slots.write(self.at, zeros)?;
        self.at += u32::from(pad);
        self.slots.write(self.at, &icrc::field(self.crc))?;
        Ok(self.at + bth::ICRC_LENGTH as u32)
    }
}

/// The Ethernet header; where the IP header begins.
#[inline(never)]
fn ethernet(out: &mut Writer<'_>, path: &Path) -> usize {
    out.put(&path.next_hop);
    out.put(&path.mac);
    if path.has_tag {
        out.be16(TAG);
        out.be16(path.tag);
    }
    out.be16(if path.ip_version == 4 { IPV4 } else { IPV6 });
    out.at
}

#[inline(never)]
fn ipv4(out: &mut Writer<'_>, path: &Path, behind: u32) {
    let [local, ..] = path.local;
    let [remote, ..] = path.remote;
    let length = (IPV4_BYTES + behind) & 0xffff;
    let first = 0x4500_0000 | u32::from(path.traffic_class) << 16 | length;
    let third = u32::from(path.hop_limit) << 24 | u32::from(IpProtocol::UDP.0) << 16;
    let words = [first, DONT_FRAGMENT, third, local, remote];
    let halves = words.iter().map(|word| (word >> 16) + (word & 0xffff));
    let mut sum: u32 = halves.sum();
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    out.be32(first);
    out.be32(DONT_FRAGMENT);
    out.be32(third | (!sum & 0xffff));
    out.be32(local);
    out.be32(remote);
}

#[inline(never)]
fn ipv6(out: &mut Writer<'_>, path: &Path, behind: u32) {
    let flow = path.flow_label & 0x000f_ffff;
    out.be32(0x6000_0000 | u32::from(path.traffic_class) << 20 | flow);
    let second = behind << 16 | u32::from(IpProtocol::UDP.0) << 8 | u32::from(path.hop_limit);
    out.be32(second);
    path.local.iter().for_each(|word| out.be32(*word));
    path.remote.iter().for_each(|word| out.be32(*word));
}

/// Bytes written one behind the other; what does not fit is left out.
struct Writer<'a> {
    bytes: &'a mut [u8; MOST_HEADERS],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let room = self.bytes.get_mut(self.at..).unwrap_or(&mut []);
        for (to, from) in room.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.at += bytes.len();
    }

    fn be16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    fn be32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
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
/// Bytes that are summed at once.
const CHUNK: usize = 256;
