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
    signal: bool,
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
        burst.count = 0;
        burst.checksums = false;
        let longest = (self.config.max_frame_bytes as usize).min(SMALL);
        let Some(side) = self.send.get_mut(queue) else {
            return;
        };
        if side.broken || side.flush > 0 || now_ns < side.stalled_until_ns {
            return;
        }
        burst.first = side.queue.next();
        side.queue.prefetch(memory, limit as u32);
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
            (entry.checksum_flags, entry.signal) = (wqe.checksum_flags, wqe.signal);
            (entry.denied, entry.queue) = (false, 0);
            (entry.ticket, entry.target) = (Ticket::NONE, None);
            burst.checksums |= wqe.checksum_flags != 0;
            side.queue.advance(&wqe);
            burst.count += 1;
        }
        side.sends += burst.count as u64;
    }

    /// Receives a burst.
    #[inline(always)]
    pub(super) fn take<M: DeviceMemory>(&mut self, memory: &M, burst: &mut Burst, now_ns: u64) {
        let mut blank = Cqe::new(CqeOpcode::RESPONSE_SEND, 0);
        blank.timestamp = now_ns.into();
        let inspects = self.inspects();
        let looks = inspects || burst.checksums;
        for (entry, frame, _) in burst.all() {
            let bytes = frame.get_mut(..entry.length as usize).unwrap_or_default();
            entry.denied = memory.read(entry.place, bytes).is_err();
            if !looks {
                self.assign(memory, entry, bytes);
            }
        }
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
        let mut index = burst.first;
        for (entry, ..) in burst.all() {
            if entry.denied {
                self.drops.count(Drop::SendDenied);
                self.report(memory, queue, index, Opcode::SEND, Cause::LocalProtection);
            } else {
                self.counts.tx_frames += 1;
                self.counts.tx_bytes += u64::from(entry.length);
                if entry.signal {
                    self.signal(memory, queue, index, Opcode::SEND, now_ns);
                }
            }
            index = index.wrapping_add(1);
        }
    }
}
