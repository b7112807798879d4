//! Segments that leave: headers, payload and checksum, written into transmit slots by one lane.

use warpwire_device::{Area, Piece};
use warpwire_protocols::checksum::Sum;

use super::job::Job;
use super::sum::{copy, join};
use crate::depart::{ethernet, ethernet_bytes, ipv4_words, ipv6_words};
use crate::tables::Path;

/// A frame under construction: payload first, slot by slot, then headers, which hold its checksum.
pub(super) struct Departure<'a> {
    /// The send ring.
    ring: Option<&'a Area>,
    mask: u32,
    /// Stream position of the next byte, and how many are to come.
    at: u32,
    left: u32,
    done: u32,
    sum: Sum,
}

/// Bytes of all headers.
pub(super) fn header_bytes(path: &Path, words: usize) -> u32 {
    ethernet_bytes(path) + network_bytes(path) + words as u32 * 4
}

fn network_bytes(path: &Path) -> u32 {
    match path.ip_version {
        4 => 20,
        _ => 40,
    }
}

impl<'a> Departure<'a> {
    /// A frame with the payload of a job from a ring.
    pub(super) fn new(job: &Job, ring: Option<&'a Area>) -> Self {
        let bytes = ring.map_or(1, Area::length) as u32;
        Self {
            ring,
            mask: bytes.wrapping_sub(1),
            at: job.at,
            left: job.length,
            done: 0,
            sum: Sum::ZERO,
        }
    }

    /// Fills a slot with payload from byte `at` on, as far as there is any. Returns where it ends;
    /// `None` if there is no such payload.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    pub(super) fn fill(&mut self, slot: &Piece<'_>, at: u32) -> Option<u32> {
        let mut at = at;
        while self.left > 0 && at < slot.length() {
            let offset = self.at & self.mask;
            let whole = (self.mask - offset).saturating_add(1);
            let count = self.left.min(slot.length() - at).min(whole);
            let from = self.ring?.piece(u64::from(offset), count)?;
            let to = slot.part(at, count)?;
            self.sum = join(self.sum, copy(&from, &to), self.done);
            self.at = self.at.wrapping_add(count);
            self.left -= count;
            self.done += count;
            at += count;
        }
        Some(at)
    }

    /// Whether all payload was written.
    pub(super) const fn is_whole(&self) -> bool {
        self.left == 0
    }

    /// Writes headers to the start of the first slot, which has room for them. Says no if it has
    /// not.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    pub(super) fn head(&self, slot: &Piece<'_>, path: &Path, job: &Job, offloads: bool) -> bool {
        let header = job.words();
        let length = header.len() as u32 * 4 + self.done;
        let ends = path.local.iter().chain(&path.remote);
        let pseudo = ends.fold(Sum::ZERO, |sum, word| sum.add_field32(*word));
        let pseudo = pseudo.add_field32(length).add_field(u16::from(TCP));
        let checksum = match offloads {
            true => pseudo.fold(),
            false => {
                let words = header
                    .iter()
                    .fold(pseudo, |sum, word| sum.add_field32(*word));
                words.plus(self.sum).checksum()
            }
        };
        let mut at = ethernet(slot, path);
        let ecn = if job.is_capable() { CAPABLE } else { 0 };
        let path = Path {
            traffic_class: path.traffic_class & !3 | ecn,
            ..*path
        };
        let is_written = match path.ip_version {
            4 => slot.set_be_words(at, &ipv4_words(&path, TCP, length)),
            _ => slot.set_be_words(at, &ipv6_words(&path, TCP, length)),
        };
        at += network_bytes(&path);
        is_written && slot.set_be_words(at, header) && slot.set_be16(at + CHECKSUM_AT, checksum)
    }
}

const TCP: u8 = 6;
/// The ECN field ECT(0).
const CAPABLE: u8 = 2;
/// Offset of the checksum in a TCP header.
pub(super) const CHECKSUM_AT: u32 = 16;
