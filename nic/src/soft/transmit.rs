//! How an adapter takes frames from its send queues.

use warpwire_ring::mlx5::device::{Cursor, Fault, SendQueue, Wqe};
use warpwire_ring::mlx5::layout::{self, Cqe, CqeOpcode, ErrorCqe, Opcode};
use warpwire_ring::{Cause, DeviceMemory};

use super::adapter::Adapter;
use super::dice::Dice;
use super::drops::Drop;
use super::fault::syndrome;
use super::packet::locate;

/// What one look at a send queue gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Nothing is pending.
    Idle,
    /// A WQE was consumed, and no frame came of it.
    Consumed,
    /// A frame of so many bytes lies in the scratch buffer.
    Frame(usize),
}

/// Shortest frame on the wire, checksum sequence not counted; hardware pads up to it.
pub(super) const MIN_FRAME: usize = 60;
const ETHERNET_HEADER: usize = 14;

impl Adapter {
    /// Looks at the doorbell of a send queue.
    #[inline]
    pub(super) fn listen<M: DeviceMemory>(
        &mut self,
        memory: &M,
        queue: usize,
        now_ns: u64,
        dice: &mut Dice,
    ) {
        let Some(side) = self.send.get_mut(queue) else {
            return;
        };
        let doorbell = match side.queue.rung(memory) {
            Ok(None) => return,
            Ok(Some(doorbell)) => doorbell,
            Err(_) => return self.break_send(queue),
        };
        let event = side.doorbells;
        side.doorbells += 1;
        self.counts.doorbells += 1;
        if self.faults.stall.happens(event, dice) {
            side.stalled_until_ns = now_ns.saturating_add(self.faults.stall_ns);
            self.counts.stalls += 1;
        }
        if self.faults.doorbell_lost.happens(event, dice) {
            self.counts.doorbells_lost += 1;
            return;
        }
        if side.queue.accept(memory, doorbell).is_err() {
            self.counts.doorbells_refused += 1;
        }
    }

    /// Executes the next WQE of a send queue, if one is pending; a frame goes to `scratch`.
    #[inline]
    pub(super) fn step<M: DeviceMemory>(
        &mut self,
        memory: &M,
        queue: usize,
        scratch: &mut [u8],
        now_ns: u64,
        dice: &mut Dice,
    ) -> Step {
        let Some(side) = self.send.get_mut(queue) else {
            return Step::Idle;
        };
        if side.queue.pending() == 0 || side.broken || now_ns < side.stalled_until_ns {
            return Step::Idle;
        }
        let wqe = match side.queue.fetch(memory) {
            Ok(wqe) => wqe,
            Err(fault) => return self.skip(memory, queue, fault),
        };
        if wqe.opcode == Opcode::SEND {
            return self.send(memory, queue, &wqe, scratch, now_ns, dice);
        }
        let flushed = side.flush > 0;
        side.flush = side.flush.saturating_sub(1);
        if wqe.opcode == Opcode::NOP && !flushed {
            self.complete(memory, queue, &wqe, now_ns);
        } else {
            let cause = if flushed {
                Cause::Flushed
            } else {
                Cause::LocalQpOperation
            };
            if !flushed {
                self.drops.count(Drop::MalformedSend);
            }
            self.fail(memory, queue, &wqe, cause);
        }
        Step::Consumed
    }

    #[inline(always)]
    fn send<M: DeviceMemory>(
        &mut self,
        memory: &M,
        queue: usize,
        wqe: &Wqe,
        scratch: &mut [u8],
        now_ns: u64,
        dice: &mut Dice,
    ) -> Step {
        if !self.faults.none() && self.fail_send(memory, queue, wqe, dice) {
            return Step::Consumed;
        }
        let Some(side) = self.send.get_mut(queue) else {
            return Step::Idle;
        };
        side.sends += 1;
        let limit = self.config.max_frame_bytes as usize;
        match gather(&side.queue, memory, wqe, scratch, limit) {
            Ok(length) => {
                self.complete(memory, queue, wqe, now_ns);
                self.emit(wqe, scratch, length)
            }
            Err(fault) => {
                let malformed = matches!(fault, Fault::Wqe);
                let reason = if malformed {
                    Drop::MalformedSend
                } else {
                    Drop::SendDenied
                };
                self.drops.count(reason);
                self.fail(memory, queue, wqe, fault.cause());
                Step::Consumed
            }
        }
    }

    /// Length checks, padding and checksums.
    #[inline(always)]
    fn emit(&mut self, wqe: &Wqe, scratch: &mut [u8], length: Option<usize>) -> Step {
        let Some(length) = length else {
            self.drops.count(Drop::TooLongForPort);
            return Step::Consumed;
        };
        if length < ETHERNET_HEADER {
            self.drops.count(Drop::Runt);
            return Step::Consumed;
        }
        let padded = length.max(MIN_FRAME);
        if length < padded
            && let Some(padding) = scratch.get_mut(length..padded)
        {
            padding.fill(0);
        }
        if wqe.checksum_flags != 0
            && let Some(frame) = scratch.get_mut(..padded)
        {
            fill_checksums(frame, wqe.checksum_flags);
        }
        self.counts.tx_frames += 1;
        self.counts.tx_bytes += padded as u64;
        self.counts.payload_bytes_copied += length as u64;
        Step::Frame(padded)
    }

    /// Moves on behind a WQE, and completes it if it asks for that.
    #[inline(always)]
    fn complete<M: DeviceMemory>(&mut self, memory: &M, queue: usize, wqe: &Wqe, now_ns: u64) {
        let Some(side) = self.send.get_mut(queue) else {
            return;
        };
        side.queue.advance(wqe);
        if wqe.signal {
            self.signal(memory, queue, wqe.index, wqe.opcode, now_ns);
        }
    }

    /// Writes the completion of a WQE.
    #[inline]
    pub(super) fn signal<M: DeviceMemory>(
        &mut self,
        memory: &M,
        queue: usize,
        index: u64,
        opcode: Opcode,
        now_ns: u64,
    ) {
        let Some(side) = self.send.get_mut(queue) else {
            return;
        };
        let mut cqe = Cqe::new(CqeOpcode::REQUEST, index);
        cqe.timestamp = now_ns.into();
        let word = u32::from(opcode.0) << 24 | side.queue.number();
        cqe.sop_drop_qpn = word.into();
        if side.completions.write(memory, &cqe).is_err() {
            self.break_send(queue);
        }
    }

    /// Moves on behind a WQE, and completes it with an error.
    fn fail<M: DeviceMemory>(&mut self, memory: &M, queue: usize, wqe: &Wqe, cause: Cause) {
        if let Some(side) = self.send.get_mut(queue) {
            side.queue.advance(wqe);
        }
        self.report(memory, queue, wqe.index, wqe.opcode, cause);
    }

    pub(super) fn report<M: DeviceMemory>(
        &mut self,
        memory: &M,
        queue: usize,
        index: u64,
        opcode: Opcode,
        cause: Cause,
    ) {
        let Some(side) = self.send.get_mut(queue) else {
            return;
        };
        let mut error = ErrorCqe::new(CqeOpcode::REQUEST_ERROR, index, syndrome(cause));
        let word = u32::from(opcode.0) << 24 | side.queue.number();
        error.s_wqe_opcode_qpn = word.into();
        self.counts.error_completions += 1;
        if side.completions.write(memory, &error.as_cqe()).is_err() {
            self.break_send(queue);
        }
    }

    /// Moves on behind a WQE whose head makes no sense.
    #[cold]
    fn skip<M: DeviceMemory>(&mut self, memory: &M, queue: usize, fault: Fault) -> Step {
        let Some(side) = self.send.get_mut(queue) else {
            return Step::Idle;
        };
        if matches!(fault, Fault::Denied(_)) {
            self.break_send(queue);
            return Step::Idle;
        }
        let index = side.queue.next();
        side.queue.skip();
        self.drops.count(Drop::MalformedSend);
        self.report(memory, queue, index, Opcode::NOP, fault.cause());
        Step::Consumed
    }

    /// Lets a scheduled fault happen; returns whether it took the frame.
    #[cold]
    fn fail_send<M: DeviceMemory>(
        &mut self,
        memory: &M,
        queue: usize,
        wqe: &Wqe,
        dice: &mut Dice,
    ) -> bool {
        let error = self.faults.send_error;
        let Some(side) = self.send.get_mut(queue) else {
            return false;
        };
        let (cause, reason) = if side.flush > 0 {
            side.flush -= 1;
            (Cause::Flushed, Drop::Flushed)
        } else if error.when.happens(side.sends, dice) {
            side.flush = error.flush;
            (error.cause, Drop::SendFault)
        } else {
            return false;
        };
        side.sends += 1;
        self.drops.count(reason);
        self.fail(memory, queue, wqe, cause);
        true
    }

    fn break_send(&mut self, queue: usize) {
        if let Some(side) = self.send.get_mut(queue)
            && !side.broken
        {
            side.broken = true;
            self.counts.queues_broken += 1;
        }
    }
}

pub(super) fn fill_checksums(frame: &mut [u8], flags: u8) {
    let Some(layers) = locate(frame) else {
        return;
    };
    if flags & layout::CHECKSUM_L3 != 0 {
        layers.fill_network(frame);
    }
    if flags & layout::CHECKSUM_L4 != 0 {
        layers.fill_transport(frame);
    }
}

/// Copies a send's pieces together; nothing if they are longer than `limit`.
#[inline(always)]
fn gather<M: DeviceMemory>(
    queue: &SendQueue,
    memory: &M,
    wqe: &Wqe,
    scratch: &mut [u8],
    limit: usize,
) -> Result<Option<usize>, Fault> {
    let limit = limit.min(scratch.len());
    if let Some(piece) = wqe.only_piece() {
        let length = piece.length as usize;
        let Some(into) = scratch.get_mut(..length).filter(|_| length <= limit) else {
            return Ok(None);
        };
        memory.read(piece.place, into)?;
        return Ok(Some(length));
    }
    let (mut length, mut cursor) = (0usize, Cursor::default());
    while let Some(piece) = queue.piece(memory, wqe, &mut cursor)? {
        let end = length.saturating_add(piece.length as usize);
        if end > limit {
            return Ok(None);
        }
        memory.read(
            piece.place,
            scratch.get_mut(length..end).unwrap_or_default(),
        )?;
        length = end;
    }
    Ok(Some(length))
}
