//! What an adapter does with a frame that reaches it.

use warpwire_ring::mlx5::device::{Fault, ReceiveQueue};
use warpwire_ring::mlx5::layout::{self, Cqe, CqeOpcode, CqeWords, ErrorCqe};
use warpwire_ring::{Cause, Denied, DeviceMemory, Place};

use super::adapter::{Adapter, LatePayload};
use super::config::FlowRule;
use super::dice::Dice;
use super::drops::Drop;
use super::fault::syndrome;
use super::packet::{Layers, Network, Transport, locate};

/// A receive WQE that was taken, and whose completion is due: its index, and whether the frame is
/// there. One word, so that a burst's pass over receive buffers stores little besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Ticket(u64);

impl Ticket {
    /// No WQE was taken.
    pub(super) const NONE: Self = Self(0);

    #[inline(always)]
    fn filled(index: u64) -> Self {
        Self(index << 2 | 1)
    }

    #[inline(always)]
    fn refused(index: u64) -> Self {
        Self(index << 2 | 2)
    }

    /// The same WQE, whose memory refused the frame.
    #[cold]
    pub(super) fn refuse(self) -> Self {
        Self::refused(self.0 >> 2)
    }

    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// Most data segments of a receive WQE.
const MAX_PARTS: u32 = 16;

impl Adapter {
    /// Puts a frame into a receive queue, or counts why not.
    #[inline]
    pub(super) fn deliver<M: DeviceMemory>(
        &mut self,
        memory: &M,
        frame: &mut [u8],
        now_ns: u64,
        dice: &mut Dice,
    ) {
        let mut cqe = Cqe::new(CqeOpcode::RESPONSE_SEND, 0);
        cqe.timestamp = now_ns.into();
        if !self.config.offloads.vlan_strip {
            return self.deliver_frame(memory, frame, cqe, now_ns, dice);
        }
        // Others may get the same frame: put back what taking the tag off shifts.
        let saved = frame.first_chunk::<16>().copied();
        let stripped = strip(frame, &mut cqe);
        self.deliver_frame(memory, stripped, cqe, now_ns, dice);
        if let (Some(saved), Some(head)) = (saved, frame.first_chunk_mut::<16>()) {
            *head = saved;
        }
    }

    #[inline(always)]
    fn deliver_frame<M: DeviceMemory>(
        &mut self,
        memory: &M,
        frame: &[u8],
        mut cqe: Cqe,
        now_ns: u64,
        dice: &mut Dice,
    ) {
        let queue = self.inspect(frame, &mut cqe);
        cqe.byte_cnt = (frame.len() as u32).into();
        if !self.faults.none() && self.fail_receive(memory, queue, now_ns, dice, frame, &cqe) {
            return;
        }
        let ticket = self.place(memory, queue, frame);
        self.settle(memory, queue, ticket, (cqe.to_words(), frame.len() as u32));
    }

    /// Whether a receive queue has a WQE to fill; counts why not.
    #[inline(always)]
    fn open<M: DeviceMemory>(&mut self, memory: &M, queue: u32) -> bool {
        let side = self.receive.get_mut(queue as usize);
        let Some(side) = side.filter(|side| !side.broken) else {
            self.drops.count(Drop::ReceiveQueueBroken);
            return false;
        };
        match side.queue.posted(memory) {
            Ok(0) => {
                self.drops.count(Drop::NoReceiveSlot);
                false
            }
            Ok(_) => true,
            Err(_) => {
                self.break_receive(queue);
                false
            }
        }
    }

    /// Takes the next WQE for a frame that fits into its first piece, and says where the frame
    /// goes. Nothing in all other cases: `place` knows what to do.
    #[inline(always)]
    pub(super) fn reserve<M: DeviceMemory>(
        &mut self,
        memory: &M,
        queue: u32,
        length: u32,
    ) -> Option<(Ticket, Place)> {
        let side = self.receive.get_mut(queue as usize)?;
        if side.broken || side.queue.posted(memory).ok()? == 0 {
            return None;
        }
        let piece = side.queue.piece(memory, 0).ok()??;
        if length > piece.length {
            return None;
        }
        memory.prefetch_write(piece.place);
        let index = side.consume();
        side.completions.prefetch(memory, index);
        Some((Ticket::filled(index), piece.place))
    }

    /// Puts a frame into the next WQE's buffers, or counts why not. What comes back is to be
    /// settled, in order.
    #[inline(always)]
    pub(super) fn place<M: DeviceMemory>(
        &mut self,
        memory: &M,
        queue: u32,
        frame: &[u8],
    ) -> Ticket {
        if !self.open(memory, queue) {
            return Ticket::NONE;
        }
        let Some(side) = self.receive.get_mut(queue as usize) else {
            return Ticket::NONE;
        };
        match scatter(&side.queue, memory, frame, |place, bytes| {
            memory.write(place, bytes)
        }) {
            Ok(true) => Ticket::filled(side.consume()),
            Ok(false) => {
                self.drops.count(Drop::TooLongForSlot);
                Ticket::NONE
            }
            Err(_) => Ticket::refused(side.consume()),
        }
    }

    /// Stages the completion of a WQE that `place` took for a frame.
    #[inline(always)]
    pub(super) fn settle<M: DeviceMemory>(
        &mut self,
        memory: &M,
        queue: u32,
        ticket: Ticket,
        (cqe, bytes): (CqeWords, u32),
    ) {
        let index = ticket.0 >> 2;
        match ticket.0 & 3 {
            1 => self.stage(memory, queue, index, (cqe, bytes)),
            2 => self.refuse(
                memory,
                queue,
                index,
                Cause::LocalProtection,
                Drop::ReceiveDenied,
            ),
            _ => {}
        }
    }

    /// Stages an error completion; the frame is lost.
    #[cold]
    fn refuse<M: DeviceMemory>(
        &mut self,
        memory: &M,
        queue: u32,
        index: u64,
        cause: Cause,
        reason: Drop,
    ) {
        let error = ErrorCqe::new(CqeOpcode::RESPONSE_ERROR, 0, syndrome(cause));
        self.counts.error_completions += 1;
        self.drops.count(reason);
        self.stage(memory, queue, index, (error.as_cqe().to_words(), 0));
    }

    /// Stages the completion of WQE `index`: of a frame of so many bytes, or of an error with 0.
    #[inline(always)]
    fn stage<M: DeviceMemory>(
        &mut self,
        memory: &M,
        queue: u32,
        index: u64,
        (cqe, bytes): (CqeWords, u32),
    ) {
        let Some(side) = self.receive.get_mut(queue as usize) else {
            return;
        };
        let [a, b, c, d, e, f, g, last] = cqe;
        let last = layout::with_counter(last, index);
        if side.staged.push([a, b, c, d, e, f, g, last], bytes) {
            self.flush_queue(memory, queue);
        }
    }

    /// Writes the completions that wait for the end of the burst.
    #[inline]
    pub(super) fn flush<M: DeviceMemory>(&mut self, memory: &M) {
        for queue in 0..self.receive.len() as u32 {
            self.flush_queue(memory, queue);
        }
    }

    fn flush_queue<M: DeviceMemory>(&mut self, memory: &M, queue: u32) {
        let Some(side) = self.receive.get_mut(queue as usize) else {
            return;
        };
        if side.staged.count() == 0 {
            return;
        }
        let (cqes, frames, bytes) = side.staged.take();
        if side.completions.write_all(memory, cqes).is_err() {
            // The frame that breaks the queue is counted there.
            (1..frames).for_each(|_| self.drops.count(Drop::ReceiveQueueBroken));
            return self.break_receive(queue);
        }
        self.counts.rx_frames += frames;
        self.counts.rx_bytes += bytes;
        self.counts.payload_bytes_copied += bytes;
    }

    fn break_receive(&mut self, queue: u32) {
        if let Some(side) = self.receive.get_mut(queue as usize) {
            side.broken = true;
        }
        self.counts.queues_broken += 1;
        self.drops.count(Drop::ReceiveQueueBroken);
    }

    /// Lets a scheduled fault happen; returns whether it took the frame.
    #[cold]
    fn fail_receive<M: DeviceMemory>(
        &mut self,
        memory: &M,
        queue: u32,
        now_ns: u64,
        dice: &mut Dice,
        frame: &[u8],
        cqe: &Cqe,
    ) -> bool {
        if !self.open(memory, queue) {
            return true;
        }
        let faults = self.faults;
        let Some(side) = self.receive.get_mut(queue as usize) else {
            return true;
        };
        let event = side.frames;
        let error = if side.flush > 0 {
            side.flush -= 1;
            Some((Cause::Flushed, Drop::Flushed))
        } else if faults.receive_error.when.happens(event, dice) {
            side.flush = faults.receive_error.flush;
            Some((faults.receive_error.cause, Drop::ReceiveFault))
        } else {
            None
        };
        if let Some((cause, reason)) = error {
            let index = side.consume();
            self.refuse(memory, queue, index, cause, reason);
            return true;
        }
        if !faults.payload_late.happens(event, dice) {
            self.catch_up(memory, queue);
            return false;
        }
        self.deliver_late(memory, queue, now_ns, frame, cqe)
    }

    /// Completes a receive WQE whose payload follows later. Returns whether it did.
    fn deliver_late<M: DeviceMemory>(
        &mut self,
        memory: &M,
        queue: u32,
        now_ns: u64,
        frame: &[u8],
        cqe: &Cqe,
    ) -> bool {
        let due_ns = now_ns.saturating_add(self.faults.payload_late_ns);
        let Some(side) = self.receive.get_mut(queue as usize) else {
            return false;
        };
        let mut late = Vec::new();
        let fits = scatter(&side.queue, memory, frame, |place, bytes| {
            late.push(LatePayload {
                due_ns,
                place,
                bytes: bytes.to_vec(),
            });
            Ok(())
        });
        if fits != Ok(true) {
            return false;
        }
        let index = side.consume();
        self.counts.payloads_late += 1;
        self.late.extend(late);
        self.stage(memory, queue, index, (cqe.to_words(), frame.len() as u32));
        true
    }

    /// A buffer that is used again has had its old payload: writes to one place keep their order.
    fn catch_up<M: DeviceMemory>(&mut self, memory: &M, queue: u32) {
        let first = self
            .receive
            .get(queue as usize)
            .map(|side| side.queue.piece(memory, 0));
        if let Some(Ok(Some(piece))) = first
            && self.late.iter().any(|late| late.place == piece.place)
        {
            self.write_late(memory, u64::MAX);
        }
    }

    /// Writes the late payloads that are due; returns how many.
    pub(super) fn write_late<M: DeviceMemory>(&mut self, memory: &M, now_ns: u64) -> u32 {
        let mut written = 0;
        while self.late.front().is_some_and(|late| late.due_ns <= now_ns) {
            if let Some(late) = self.late.pop_front() {
                // Memory that was given back meanwhile refuses: the payload is lost, as on a real
                // bus.
                let _ = memory.write(late.place, &late.bytes);
                written += 1;
            }
        }
        written
    }

    /// Whether every receive queue could take a frame.
    pub(super) fn ready<M: DeviceMemory>(&mut self, memory: &M) -> bool {
        self.receive
            .iter_mut()
            .all(|side| side.broken || side.queue.posted(memory) != Ok(0))
    }

    /// Whether anything depends on what is in a frame.
    #[inline(always)]
    pub(super) fn inspects(&self) -> bool {
        let offloads = self.config.offloads;
        let spread = offloads.hash || self.config.queues > 1;
        offloads.checksum || spread || !self.config.rules.is_empty()
    }

    /// Looks at the headers as far as something depends on it; returns the queue.
    #[inline(always)]
    pub(super) fn inspect(&self, frame: &[u8], cqe: &mut Cqe) -> u32 {
        if !self.inspects() {
            return 0;
        }
        let offloads = self.config.offloads;
        let several = self.config.queues > 1;
        let layers = locate(frame);
        let mut queue = 0;
        if let Some(layers) = &layers {
            if offloads.checksum {
                report_checksums(frame, layers, cqe);
            }
            if (offloads.hash || several)
                && let Some((hash, kind)) = self.spread.of(frame, layers)
            {
                cqe.rx_hash_res = hash.into();
                cqe.rx_hash_type = kind;
                queue = self.spread.queue(hash);
            }
        }
        let mut rules = self.config.rules.iter();
        if let Some(rule) = rules.find(|rule| matches(rule, frame, layers.as_ref())) {
            cqe.sop_drop_qpn = (rule.tag & 0x00ff_ffff).into();
            queue = rule.queue.unwrap_or(queue);
        }
        queue
    }
}

/// Takes the outer VLAN tag off.
fn strip<'a>(frame: &'a mut [u8], cqe: &mut Cqe) -> &'a [u8] {
    let Some(&[.., high, low, tag_high, tag_low]) = frame.first_chunk::<16>() else {
        return frame;
    };
    if ![0x8100, 0x88a8].contains(&u16::from_be_bytes([high, low])) {
        return frame;
    }
    cqe.vlan_info = u16::from_be_bytes([tag_high, tag_low]).into();
    cqe.l4_hdr_type_etc |= layout::CQE_VLAN_STRIPPED;
    frame.copy_within(..12, 4);
    frame.get(4..).unwrap_or_default()
}

fn matches(rule: &FlowRule, frame: &[u8], layers: Option<&Layers>) -> bool {
    let at = |offset: usize| {
        let bytes: Option<&[u8; 2]> = frame.get(offset..)?.first_chunk();
        bytes.map(|bytes| u16::from_be_bytes(*bytes))
    };
    let ether_type = layers.map_or(12, |layers| layers.network_at - 2);
    let port = layers
        .filter(|layers| layers.transport.is_some())
        .and_then(|layers| at(layers.transport_at + 2));
    rule.ether_type
        .is_none_or(|want| at(ether_type) == Some(want))
        && rule.target_port.is_none_or(|want| port == Some(want))
}

#[inline(always)]
fn report_checksums(frame: &[u8], layers: &Layers, cqe: &mut Cqe) {
    cqe.l4_hdr_type_etc |= match layers.network {
        Network::V4 => layout::CQE_L3_IPV4,
        Network::V6 => layout::CQE_L3_IPV6,
    };
    if layers.network_ok(frame) {
        cqe.hds_ip_ext |= layout::CQE_L3_OK;
    }
    let Some(transport) = layers.transport else {
        return;
    };
    cqe.l4_hdr_type_etc |= match transport {
        Transport::Udp => layout::CQE_L4_UDP,
        Transport::Tcp {
            acknowledges: false,
            ..
        } => layout::CQE_L4_TCP,
        Transport::Tcp { data: false, .. } => layout::CQE_L4_TCP_ACK,
        Transport::Tcp { .. } => layout::CQE_L4_TCP_ACK_DATA,
    };
    if layers.transport_ok(frame) {
        cqe.hds_ip_ext |= layout::CQE_L4_OK;
    }
}

/// Splits a frame over the data segments of the next WQE; false, and nothing written, if it does
/// not fit.
#[inline(always)]
fn scatter<M: DeviceMemory>(
    queue: &ReceiveQueue,
    memory: &M,
    frame: &[u8],
    mut write: impl FnMut(Place, &[u8]) -> Result<(), Denied>,
) -> Result<bool, Fault> {
    let Some(first) = queue.piece(memory, 0)? else {
        return Ok(false);
    };
    if frame.len() <= first.length as usize {
        write(first.place, frame)?;
        return Ok(true);
    }
    let mut room = 0;
    for part in 0..MAX_PARTS {
        match queue.piece(memory, part)? {
            Some(piece) => room += piece.length as usize,
            None => break,
        }
    }
    if frame.len() > room {
        return Ok(false);
    }
    let mut rest = frame;
    for part in 0..MAX_PARTS {
        let Some(piece) = queue.piece(memory, part)? else {
            break;
        };
        let (here, after) = rest.split_at(rest.len().min(piece.length as usize));
        write(piece.place, here)?;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    Ok(true)
}
