//! Receives: posting them by lanes together, and what their completions say.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use warpwire_device::Simt;
use warpwire_ring::mlx5::layout::{Cqe, CqeOpcode};
use warpwire_ring::mlx5::post::{Completions, Gather, ReceiveQueue};
use warpwire_ring::{Cause, DeviceAddress};

use super::block::{ChannelBlock, CompletionRing, scope};
use super::channel::Channel;

/// A receive that came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its number; `u64::MAX` if no such receive is posted.
    pub index: u64,
    /// The queue pair that a message came to, by its number: of a queue that is shared, which.
    pub pair: u32,
    /// Bytes of the message.
    pub length: u32,
    /// Its immediate.
    pub immediate: Option<u32>,
    /// A key of ours that the peer took away.
    pub invalidate: Option<u32>,
    /// Whether the bytes were written to memory that the peer named, not to the receive.
    pub is_write: bool,
    /// Of a datagram: who sent it.
    pub source_qp: u32,
    /// Why there is no message in it.
    pub failed: Option<Cause>,
}

/// A completion queue, of which all lanes hold an equal copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring(Completions);

impl Ring {
    /// # Safety
    /// *The queue's promise*, see [`Completions::attach`].
    pub(super) unsafe fn attach(ring: &CompletionRing, at: u64) -> Self {
        // SAFETY: passed on.
        Self(unsafe {
            Completions::attach(
                ring.ring,
                ring.record,
                ring.log_depth,
                scope(ring.scope),
                at,
            )
        })
    }

    pub(super) const fn next(&self) -> u64 {
        self.0.next()
    }

    /// Whether the next completion is there.
    pub(super) fn is_there(&self) -> bool {
        self.0.is_there()
    }

    /// *Collective.* The next completion: the leader looks, and tells what counts.
    #[inline(always)]
    pub(super) fn poll<S: Simt>(&mut self, simt: &S) -> Option<Told> {
        let mut words = [0; 3];
        if simt.is_leader()
            && let Some(cqe) = self.0.poll()
        {
            words = Told::words(&cqe);
        }
        let [first, second, third] = words;
        let first = simt.shuffle_u64(first, 0);
        if first & PRESENT == 0 {
            return None;
        }
        if !simt.is_leader() {
            self.0.skip();
        }
        Some(Told {
            first,
            second: simt.shuffle_u64(second, 0),
            third: simt.shuffle_u64(third, 0),
        })
    }
}

impl Channel {
    /// Whether there are completions that who had the channel last did not poll; no if there is no
    /// block. Costs less than attaching.
    ///
    /// # Safety
    /// As [`Channel::attach`].
    #[inline(always)]
    pub unsafe fn has_news(block: DeviceAddress) -> bool {
        if block.is_null() || !block.is_aligned(align_of::<ChannelBlock>() as u64) {
            return false;
        }
        // SAFETY: a header lies there by the promise, and any bits are one.
        let header = unsafe { *(block.value() as *const crate::block::Header) };
        if header != ChannelBlock::HEADER {
            return false;
        }
        // SAFETY: the header says that it is such a block.
        let own = unsafe { &*(block.value() as *const ChannelBlock) };
        // SAFETY: passed on.
        let sent = unsafe { Ring::attach(&own.sent, own.cursor.sent_next) };
        // SAFETY: passed on.
        let arrived = unsafe { Ring::attach(&own.arrived, own.cursor.arrived_next) };
        sent.is_there() || arrived.is_there()
    }
}

/// What counts of a completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// Counter, opcode, syndrome, [`PRESENT`].
    first: u64,
    /// Immediate, and bytes above it.
    second: u64,
    /// Number of the other queue pair, and the own one above it.
    third: u64,
}

impl Told {
    fn words(cqe: &Cqe) -> [u64; 3] {
        let opcode = cqe.opcode();
        let syndrome = match opcode.is_error() {
            true => cqe.as_error().syndrome,
            false => 0,
        };
        let first = u64::from(cqe.wqe_counter.get())
            | u64::from(opcode.0) << 16
            | u64::from(syndrome) << 24
            | PRESENT;
        let second = u64::from(cqe.byte_cnt.get()) << 32 | u64::from(cqe.imm_inval_pkey.get());
        let numbers = [cqe.sop_drop_qpn, cqe.flags_rqpn].map(|word| word.get() & NUMBER);
        let [own, other] = numbers;
        [first, second, u64::from(own) << 32 | u64::from(other)]
    }

    pub(super) const fn counter(&self) -> u16 {
        self.first as u16
    }

    const fn opcode(&self) -> CqeOpcode {
        CqeOpcode((self.first >> 16) as u8)
    }

    /// Why the request or receive failed, if it did.
    pub(super) const fn failed(&self) -> Option<Cause> {
        if self.opcode().is_error() {
            Some(Cause::from_syndrome((self.first >> 24) as u8))
        } else {
            None
        }
    }

    /// What it says of receive `index`.
    pub(super) fn arrival(&self, index: Option<u64>) -> Arrival {
        let opcode = self.opcode();
        let word = self.second as u32;
        let is_write = opcode == CqeOpcode::RESPONSE_WRITE_IMM;
        let has_immediate = is_write || opcode == CqeOpcode::RESPONSE_SEND_IMM;
        let invalidates = opcode == CqeOpcode::RESPONSE_SEND_INVALIDATE;
        Arrival {
            index: index.unwrap_or(u64::MAX),
            pair: (self.third >> 32) as u32,
            length: (self.second >> 32) as u32,
            immediate: has_immediate.then_some(word),
            invalidate: invalidates.then_some(word),
            is_write,
            source_qp: self.third as u32,
            failed: self.failed(),
        }
    }
}

/// *Collective.* Posts a receive for each lane that has one, as far as there is room. Returns the
/// number of the lane's own.
///
/// # Errors
/// For the lane's own: [`Cause::NoResource`], or what [`ReceiveQueue::check`] says.
#[inline(always)]
pub(super) fn post<S: Simt>(
    simt: &S,
    queue: &mut ReceiveQueue,
    pieces: Option<&[Gather]>,
) -> Result<Option<u64>, Cause> {
    let sound = pieces.map(|pieces| queue.check(pieces));
    let wants = matches!(sound, Some(Ok(())));
    let posting = simt.ballot(wants);
    let before = (posting & ((1 << simt.lane()) - 1)).count_ones();
    let free = queue.free();
    let fits = wants && before < free;
    let index = queue.next().wrapping_add(u64::from(before));
    let mut written = Ok(());
    if fits && let Some(pieces) = pieces {
        written = queue.write_at(index, pieces);
    }
    let count = posting.count_ones().min(free);
    queue.advance(count);
    simt.sync_warp();
    if simt.is_leader() && count > 0 {
        queue.publish();
    }
    match sound.map(|sound| sound.and(written)) {
        None => Ok(None),
        Some(Err(cause)) => Err(cause),
        Some(Ok(())) if fits => Ok(Some(index)),
        Some(Ok(())) => Err(Cause::NoResource),
    }
}

const PRESENT: u64 = 1 << 63;
const NUMBER: u32 = 0x00ff_ffff;
