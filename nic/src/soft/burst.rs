//! The short way: small frames from a send queue over a plain cable to another adapter, a burst at
//! a time and in passes.
//!
//! The lines that pass between cores are what costs. Each pass touches one kind of them for the
//! whole burst (WQEs, payload, receive buffers, completions), with little work in between, so that
//! the processor has many of them under way. Frame by frame it would wait for each.

use warpwire_ring::mlx5::layout::{Cqe, CqeOpcode, CqeWords, Opcode};
use warpwire_ring::{Cause, DeviceMemory, Place};

use super::adapter::Adapter;
use super::drops::Drop;
use super::receive::Ticket;
use super::transmit::{MIN_FRAME, fill_checksums};

/// Frames of a burst.
pub(super) const BURST: usize = 64;
/// Longest frame that goes this way.
const SMALL: usize = 256;

/// Frames that were collected from a send queue, and their bytes where somebody has to look at
/// them.
pub(super) struct Burst {
    entries: [Entry; BURST],
    /// Index of the first one in its send queue.
    first: u64,
    count: usize,
    /// Bytes of all of them.
    bytes: u64,
    /// A bit for each whose sender gets a completion: it asks for one, or is refused.
    told: u64,
    /// Whether a frame asks for checksums to be filled in.
    checksums: bool,
    frames: Box<[[u8; SMALL]; BURST]>,
    cqes: Box<[CqeWords; BURST]>,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    place: Place,
    length: u32,
    checksum_flags: u8,
    /// The model may not read the frame.
    denied: bool,
    /// The receive queue, once the frame was inspected.
    queue: u32,
    /// The receive WQE that the frame took.
    ticket: Ticket,
    /// Where the frame goes, if it is not there yet.
    target: Option<Place>,
}

impl Burst {
    pub(super) fn new() -> Self {
        Self {
            entries: [Entry::default(); BURST],
            first: 0,
            count: 0,
            bytes: 0,
            told: 0,
            checksums: false,
            frames: Box::new([[0; SMALL]; BURST]),
            cqes: Box::new([[0; 8]; BURST]),
        }
    }

    /// Frames collected.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Each entry with its frame's bytes and its completion.
    #[inline(always)]
    fn all(&mut self) -> impl Iterator<Item = (&mut Entry, &mut [u8; SMALL], &mut CqeWords)> {
        let entries = self.entries.iter_mut().take(self.count);
        let parts = self.frames.iter_mut().zip(self.cqes.iter_mut());
        entries
            .zip(parts)
            .map(|(entry, (frame, cqe))| (entry, frame, cqe))
    }
}

impl Adapter {
    /// Whether nothing but good sends and bad WQEs can happen on the sending side.
    #[inline(always)]
    pub(super) fn sends_plainly(&self) -> bool {
        self.faults.none()
    }

    /// Whether frames are received without faults and unchanged.
    #[inline(always)]
    pub(super) fn receives_plainly(&self) -> bool {
        self.faults.none() && self.late.is_empty() && !self.config.offloads.vlan_strip
    }

    /// Takes sends of one small piece from the head of a queue, up to the first WQE that is
    /// something else. Their completions come with [`Adapter::finish`].
    #[inline(always)]
    pub(super) fn collect<M: DeviceMemory>(
        &mut self,
        memory: &M,
        queue: usize,
        (now_ns, limit): (u64, usize),
        burst: &mut Burst,
    ) {
        (burst.count, burst.bytes, burst.told, burst.checksums) = (0, 0, 0, false);
        let longest = (self.config.max_frame_bytes as usize).min(SMALL);
        let Some(side) = self.send.get_mut(queue) else {
            return;
        };
        if side.broken || side.flush > 0 || now_ns < side.stalled_until_ns {
            return;
        }
        burst.first = side.queue.next();
        side.queue.prefetch(memory, limit as u32);
        let (mut count, mut bytes, mut told, mut checksums) = (0, 0, 0, false);
        for entry in burst.entries.iter_mut().take(limit) {
            if side.queue.pending() == 0 {
                break;
            }
            let Ok(wqe) = side.queue.fetch(memory) else {
                break;
            };
            let Some(piece) = wqe.only_piece().filter(|_| wqe.opcode == Opcode::SEND) else {
                break;
            };
            if !(MIN_FRAME..=longest).contains(&(piece.length as usize)) {
                break;
            }
            memory.prefetch(piece.place);
            (entry.place, entry.length) = (piece.place, piece.length);
            (entry.checksum_flags, entry.queue) = (wqe.checksum_flags, 0);
            entry.denied = false;
            checksums |= wqe.checksum_flags != 0;
            told |= u64::from(wqe.signal) << count;
            bytes += u64::from(piece.length);
            side.queue.advance(&wqe);
            count += 1;
        }
        side.sends += count as u64;
        (burst.count, burst.bytes, burst.told, burst.checksums) = (count, bytes, told, checksums);
    }

    /// Receives a burst.
    #[inline(always)]
    pub(super) fn take<M: DeviceMemory>(&mut self, memory: &M, burst: &mut Burst, now_ns: u64) {
        let mut blank = Cqe::new(CqeOpcode::RESPONSE_SEND, 0);
        blank.timestamp = now_ns.into();
        let inspects = self.inspects();
        let looks = inspects || burst.checksums;
        let (mut denied, mut place) = (0u64, 0);
        for (entry, frame, _) in burst.all() {
            let bytes = frame.get_mut(..entry.length as usize).unwrap_or_default();
            entry.denied = memory.read(entry.place, bytes).is_err();
            denied |= u64::from(entry.denied) << place;
            place += 1;
            if !looks {
                self.assign(memory, entry, bytes);
            }
        }
        burst.told |= denied;
        if looks {
            for (entry, frame, cqe) in burst.all() {
                let bytes = frame.get_mut(..entry.length as usize).unwrap_or_default();
                if entry.checksum_flags != 0 {
                    fill_checksums(bytes, entry.checksum_flags);
                }
                let mut found = blank;
                found.byte_cnt = entry.length.into();
                entry.queue = self.inspect(bytes, &mut found);
                *cqe = found.to_words();
            }
            for (entry, frame, _) in burst.all() {
                let bytes = frame.get(..entry.length as usize).unwrap_or_default();
                self.assign(memory, entry, bytes);
            }
        }
        // As few stores as possible besides those to the driver's lines: they wait in one queue.
        for (entry, frame, _) in burst.all() {
            if let Some(target) = entry.target
                && let Some(bytes) = frame.get(..entry.length as usize)
                && memory.write(target, bytes).is_err()
            {
                entry.ticket = entry.ticket.refuse();
            }
        }
        for (entry, _, cqe) in burst.all() {
            if entry.ticket.is_none() {
                continue;
            }
            let words = if inspects {
                *cqe
            } else {
                let byte_cnt = entry.length.into();
                Cqe { byte_cnt, ..blank }.to_words()
            };
            self.settle(memory, entry.queue, entry.ticket, (words, entry.length));
        }
    }

    /// Takes a receive WQE for a frame of a burst.
    #[inline(always)]
    fn assign<M: DeviceMemory>(&mut self, memory: &M, entry: &mut Entry, bytes: &[u8]) {
        (entry.ticket, entry.target) = (Ticket::NONE, None);
        if entry.denied {
            return;
        }
        (entry.ticket, entry.target) = match self.reserve(memory, entry.queue, entry.length) {
            Some((ticket, target)) => (ticket, Some(target)),
            None => (self.place(memory, entry.queue, bytes), None),
        };
    }

    /// Completes the sends of a burst, now that their frames were read.
    #[inline(always)]
    pub(super) fn finish<M: DeviceMemory>(
        &mut self,
        memory: &M,
        queue: usize,
        burst: &mut Burst,
        now_ns: u64,
    ) {
        self.counts.tx_frames += burst.count as u64;
        self.counts.tx_bytes += burst.bytes;
        // Few frames ask for a completion, and hardly any is refused.
        let mut left = burst.told;
        while left != 0 {
            let place = left.trailing_zeros();
            left &= left - 1;
            let index = burst.first.wrapping_add(u64::from(place));
            let Some(entry) = burst.entries.get(place as usize) else {
                break;
            };
            if entry.denied {
                self.counts.tx_frames -= 1;
                self.counts.tx_bytes -= u64::from(entry.length);
                self.drops.count(Drop::SendDenied);
                self.report(memory, queue, index, Opcode::SEND, Cause::LocalProtection);
            } else {
                self.signal(memory, queue, index, Opcode::SEND, now_ns);
            }
        }
    }
}
