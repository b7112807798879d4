//! Completions: what the application is told, in the words of its queues.
#![expect(
    unsafe_code,
    reason = "writes completion queues by the addresses that the host gave"
)]

use warpwire_protocols::rdma::{Received, Service, State, Status};
use warpwire_ring::DeviceAddress;
use warpwire_ring::mlx5::layout::{COMPLETE_ALWAYS, Cqe, CqeOpcode, ErrorCqe, Opcode};
use warpwire_ring::mlx5::serve::CompletionQueue;

use crate::care::mail_state;
use crate::tables::{PairBlock, ReceiveBlock};

/// Tells what became of send requests, as far as there is room.
#[inline(never)]
pub(crate) fn tell_sends(block: &mut PairBlock) {
    let is_datagram = block.pair.attributes().service == Service::Ud;
    // Behind a failure that was told nothing completes: what is told is ahead of what is completed.
    while !block.failed && block.told != block.pair.completed() {
        let posted = block.head.wrapping_sub(block.told);
        // SAFETY: live by the engine's promise; what is completed was posted.
        let entry = unsafe { block.send.entry(block.told, posted, is_datagram) };
        let Ok(entry) = entry else {
            // The application changed what was under way.
            block.told = block.pair.completed();
            return;
        };
        if entry.modes & COMPLETE_ALWAYS != 0 {
            let mut cqe = Cqe::new(CqeOpcode::REQUEST, block.told);
            cqe.sop_drop_qpn = origin(entry.opcode, block.number);
            if !write(block.send_completions, cqe) {
                return;
            }
        }
        block.told = block.told.wrapping_add(u64::from(entry.slots));
    }
    if let Some(status) = block.pair.fault() {
        // Who hears of the failure may look at the state next.
        mail_state(block);
        flush_sends(block, status, is_datagram);
    }
}

/// Tells that the oldest request failed, and all behind it with it.
fn flush_sends(block: &mut PairBlock, status: Status, is_datagram: bool) {
    // SAFETY: live by the engine's promise.
    block.head = unsafe { block.send.head(block.head) };
    while block.told != block.head {
        let posted = block.head.wrapping_sub(block.told);
        // SAFETY: as above; the slot is posted.
        let entry = unsafe { block.send.entry(block.told, posted, is_datagram) };
        let (opcode, slots) = match entry {
            Ok(entry) => (entry.opcode, entry.slots),
            Err(_) => (Opcode::NOP, 1),
        };
        let status = if block.failed {
            Status::Flushed
        } else {
            status
        };
        let mut cqe = error(CqeOpcode::REQUEST_ERROR, block.told, status);
        cqe.s_wqe_opcode_qpn = origin(opcode, block.number);
        if !write(block.send_completions, cqe.as_cqe()) {
            return;
        }
        block.failed = true;
        block.told = block.told.wrapping_add(u64::from(slots));
    }
}

/// Tells that a receive is complete. There is room: see [`has_room`].
#[inline(never)]
pub(crate) fn tell_receive(block: &PairBlock, received: &Received) {
    let number = block.number;
    if received.status != Status::Success {
        let mut cqe = error(CqeOpcode::RESPONSE_ERROR, received.index, received.status);
        cqe.s_wqe_opcode_qpn = origin(Opcode::NOP, number);
        write(block.receive_completions, cqe.as_cqe());
        return;
    }
    let opcode = match (received.is_write, received.immediate, received.invalidate) {
        (true, _, _) => CqeOpcode::RESPONSE_WRITE_IMM,
        (false, Some(_), _) => CqeOpcode::RESPONSE_SEND_IMM,
        (false, None, Some(_)) => CqeOpcode::RESPONSE_SEND_INVALIDATE,
        (false, None, None) => CqeOpcode::RESPONSE_SEND,
    };
    let mut cqe = Cqe::new(opcode, received.index);
    cqe.byte_cnt = received.length.into();
    let word = received.immediate.or(received.invalidate);
    cqe.imm_inval_pkey = word.unwrap_or(0).into();
    cqe.sop_drop_qpn = origin(Opcode::NOP, number);
    cqe.flags_rqpn = received.source_qp.into();
    write(block.receive_completions, cqe);
}

/// Whether a completion of a receive can be written now.
pub(crate) fn has_room(block: &PairBlock) -> bool {
    with(block.receive_completions, |queue| {
        // SAFETY: live by the engine's promise.
        unsafe { queue.has_room() }
    })
}

/// Tells that receives of a queue pair that failed come back, as far as there is room: the one that
/// a message had begun to fill, and its own. Receives that others share stay for them.
#[inline(never)]
pub(crate) fn flush_receives(block: &mut PairBlock) {
    if block.pair.state() != State::Error || !flush_held(block) {
        return;
    }
    let at = block.receives.value() as *mut ReceiveBlock;
    if at.is_null() {
        return;
    }
    // SAFETY: a receive block by the engine's promise, driven by this block alone.
    let receives = unsafe { &mut *at };
    if receives.queue.number != block.number {
        return;
    }
    // SAFETY: live by the engine's promise.
    receives.head = unsafe { receives.queue.head(receives.head) };
    while receives.next != receives.head {
        if !flush_receive(block, receives.next) {
            return;
        }
        receives.next = receives.next.wrapping_add(1);
    }
}

/// Gives back the receive that a message had begun to fill. Says whether there is none any more.
pub(crate) fn flush_held(block: &mut PairBlock) -> bool {
    let Some(held) = block.pair.held_receive() else {
        return true;
    };
    let is_told = flush_receive(block, held.index);
    if is_told {
        block.pair.give_receive_back();
    }
    is_told
}

fn flush_receive(block: &PairBlock, index: u64) -> bool {
    let mut cqe = error(CqeOpcode::RESPONSE_ERROR, index, Status::Flushed);
    cqe.s_wqe_opcode_qpn = origin(Opcode::NOP, block.number);
    write(block.receive_completions, cqe.as_cqe())
}

fn error(opcode: CqeOpcode, index: u64, status: Status) -> ErrorCqe {
    ErrorCqe::new(opcode, index, syndrome(status))
}

/// Opcode of the request above the number of the queue pair.
fn origin(opcode: Opcode, number: u32) -> zerocopy::byteorder::big_endian::U32 {
    (u32::from(opcode.0) << 24 | number & 0x00ff_ffff).into()
}

fn write(queue: DeviceAddress, cqe: Cqe) -> bool {
    with(queue, |queue| {
        // SAFETY: live by the engine's promise.
        if !unsafe { queue.has_room() } {
            return false;
        }
        // SAFETY: as above; there is room.
        unsafe { queue.write(cqe) };
        true
    })
}

fn with(queue: DeviceAddress, work: impl FnOnce(&mut CompletionQueue) -> bool) -> bool {
    let at = queue.value() as *mut CompletionQueue;
    if at.is_null() {
        return false;
    }
    // SAFETY: a completion queue by the engine's promise, written by this block alone.
    work(unsafe { &mut *at })
}

/// The number of an error completion that says the same.
const fn syndrome(status: Status) -> u8 {
    match status {
        Status::Success => 0,
        Status::LocalLength => 0x01,
        Status::LocalQpOperation => 0x02,
        Status::LocalProtection => 0x04,
        Status::Flushed => 0x05,
        Status::BadResponse => 0x10,
        Status::LocalAccess => 0x11,
        Status::RemoteInvalidRequest => 0x12,
        Status::RemoteAccess => 0x13,
        Status::RemoteOperation => 0x14,
        Status::RetryExceeded => 0x15,
        Status::RnrRetryExceeded => 0x16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpwire_ring::Cause;

    #[test]
    fn syndromes_say_what_statuses_say() {
        for status in Status::ALL {
            let cause = Cause::from_syndrome(syndrome(status));
            if status != Status::Success {
                assert_eq!(cause.wc_status(), status as u32, "{status:?}");
            }
        }
    }
}
