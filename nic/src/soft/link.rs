//! A link that holds frames: rate, delay, loss, duplication, reordering, corruption, congestion
//! marks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::config::Impairments;
use super::dice::Dice;
use super::drops::Drop;

/// Preamble, checksum sequence and gap of every frame on the wire.
const WIRE_OVERHEAD: u64 = 24;
const DEFAULT_QUEUE_BYTES: u64 = 1 << 20;
const ETHERNET_HEADER: usize = 14;

/// What becomes of a frame offered to a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Verdict {
    /// When it arrives.
    pub(super) due_ns: u64,
    /// It arrives once more.
    pub(super) twice: bool,
    /// One of its bits flips.
    pub(super) corrupt: bool,
    /// It is marked as having met congestion.
    pub(super) mark: bool,
}

/// What a link counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkCounts {
    /// Frames that arrived twice.
    pub duplicated: u64,
    /// Frames that were held back.
    pub reordered: u64,
    /// Frames with a flipped bit.
    pub corrupted: u64,
    /// Frames marked as having met congestion.
    pub marked: u64,
}

impl std::ops::Add for LinkCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            duplicated: self.duplicated + other.duplicated,
            reordered: self.reordered + other.reordered,
            corrupted: self.corrupted + other.corrupted,
            marked: self.marked + other.marked,
        }
    }
}

/// The state of one link.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    pub(super) impairments: Impairments,
    pub(super) counts: LinkCounts,
    /// Frames under way.
    pub(super) flights: u32,
    busy_until_ns: u64,
    last_due_ns: u64,
}

impl Link {
    pub(super) fn new(impairments: Impairments) -> Self {
        Self {
            impairments,
            ..Self::default()
        }
    }

    /// Whether a frame passes at once and unharmed.
    #[inline(always)]
    pub(super) fn clear(&self) -> bool {
        self.flights == 0 && self.impairments.none()
    }

    /// Decides about a frame of `length` bytes.
    pub(super) fn offer(
        &mut self,
        now_ns: u64,
        length: usize,
        dice: &mut Dice,
    ) -> Result<Verdict, Drop> {
        let impairments = self.impairments;
        if dice.chance(impairments.loss_ppm) {
            return Err(Drop::Lost);
        }
        let mut mark = dice.chance(impairments.ecn_ppm);
        let mut sent_ns = now_ns;
        if impairments.rate_bps > 0 {
            let start_ns = self.busy_until_ns.max(now_ns);
            let waiting = bytes_in(start_ns - now_ns, impairments.rate_bps);
            let room = match impairments.queue_bytes {
                0 => DEFAULT_QUEUE_BYTES,
                bytes => bytes,
            };
            if waiting + length as u64 > room {
                return Err(Drop::LinkFull);
            }
            let threshold = impairments.ecn_queue_bytes;
            mark |= threshold > 0 && waiting >= threshold;
            let bytes = length as u64 + WIRE_OVERHEAD;
            sent_ns = start_ns.saturating_add(time_of(bytes, impairments.rate_bps));
            self.busy_until_ns = sent_ns;
        }
        let jitter_ns = dice.below(impairments.jitter_ns);
        let under_way_ns = impairments.delay_ns.saturating_add(jitter_ns);
        let mut due_ns = sent_ns.saturating_add(under_way_ns).max(self.last_due_ns);
        if dice.chance(impairments.reorder_ppm) {
            due_ns = due_ns.saturating_add(impairments.reorder_ns);
            self.counts.reordered += 1;
        } else {
            self.last_due_ns = due_ns;
        }
        let twice = dice.chance(impairments.duplicate_ppm);
        let corrupt = length > ETHERNET_HEADER && dice.chance(impairments.corrupt_ppm);
        Ok(Verdict {
            due_ns,
            twice,
            corrupt,
            mark,
        })
    }
}

/// Bytes that a link passes in a time.
fn bytes_in(time_ns: u64, rate_bps: u64) -> u64 {
    (u128::from(time_ns) * u128::from(rate_bps) / 8_000_000_000) as u64
}

/// The time that bytes take on a link.
fn time_of(bytes: u64, rate_bps: u64) -> u64 {
    (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(rate_bps)) as u64
}

/// Flips one bit behind the Ethernet header: past the check that links make, within what ends
/// check.
pub(super) fn corrupt(frame: &mut [u8], dice: &mut Dice) {
    let bits = frame.len().saturating_sub(ETHERNET_HEADER) * 8;
    let bit = dice.below(bits as u64) as usize;
    if let Some(byte) = frame.get_mut(ETHERNET_HEADER + bit / 8) {
        *byte ^= 1 << (bit % 8);
    }
}

/// A frame under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Flight {
    pub(super) due_ns: u64,
    /// Frames due at the same time arrive in the order in which they were sent.
    order: u64,
    pub(super) port: u32,
    slot: u32,
    length: u32,
}

/// The frames under way on all links: a fixed number of buffers.
#[derive(Debug)]
pub(super) struct Flights {
    bytes: Box<[u8]>,
    stride: usize,
    free: Vec<u32>,
    waiting: BinaryHeap<Reverse<Flight>>,
    sent: u64,
}

impl Flights {
    pub(super) fn new(frames: u32, max_frame_bytes: u32) -> Self {
        let stride = max_frame_bytes as usize;
        Self {
            bytes: vec![0; frames as usize * stride].into_boxed_slice(),
            stride,
            free: (0..frames).rev().collect(),
            waiting: BinaryHeap::with_capacity(frames as usize),
            sent: 0,
        }
    }

    /// Sends a copy of a frame on its way, and lends the copy for changes. Nothing if all buffers
    /// are under way.
    pub(super) fn launch(&mut self, port: u32, due_ns: u64, frame: &[u8]) -> Option<&mut [u8]> {
        if frame.len() > self.stride {
            return None;
        }
        let slot = self.free.pop()?;
        let start = slot as usize * self.stride;
        let copy = self.bytes.get_mut(start..start + frame.len())?;
        copy.copy_from_slice(frame);
        let (order, length) = (self.sent, frame.len() as u32);
        self.sent += 1;
        self.waiting.push(Reverse(Flight {
            due_ns,
            order,
            port,
            slot,
            length,
        }));
        Some(copy)
    }

    /// The next frame that is due.
    pub(super) fn land(&mut self, now_ns: u64) -> Option<Flight> {
        if self.waiting.peek()?.0.due_ns > now_ns {
            return None;
        }
        self.waiting.pop().map(|Reverse(flight)| flight)
    }

    /// The bytes of a frame that landed, and the end of its flight: the next launch may reuse them.
    pub(super) fn take(&mut self, flight: &Flight) -> &mut [u8] {
        self.free.push(flight.slot);
        let start = flight.slot as usize * self.stride;
        self.bytes
            .get_mut(start..start + flight.length as usize)
            .unwrap_or_default()
    }

    /// When the next frame is due.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.waiting.peek().map(|Reverse(flight)| flight.due_ns)
    }

    /// Frames that can still be launched.
    pub(super) fn room(&self) -> usize {
        self.free.len()
    }

    /// Frames under way.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
