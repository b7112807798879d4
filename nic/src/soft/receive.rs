//! What an adapter does with a frame that reaches it.

use warpwire_ring::mlx5::device::{Fault, ReceiveQueue};
use warpwire_ring::mlx5::layout::{self, Cqe, CqeOpcode, ErrorCqe};
use warpwire_ring::{Cause, Denied, DeviceMemory, Place};

use super::adapter::{Adapter, LatePayload};
use super::config::FlowRule;
use super::dice::Dice;
use super::drops::Drop;
use super::fault::syndrome;
use super::packet::{Layers, Network, Transport, locate};

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
        let Some(side) = self.receive.get_mut(queue as usize) else {
            return self.drops.count(Drop::ReceiveQueueBroken);
        };
        if side.broken {
            return self.drops.count(Drop::ReceiveQueueBroken);
        }
        match side.queue.posted(memory) {
            Ok(0) => return self.drops.count(Drop::NoReceiveSlot),
            Ok(_) => {}
            Err(_) => return self.break_receive(queue),
        }
        if !self.faults.none() && self.fail_receive(memory, queue, now_ns, dice, frame, &cqe) {
            return;
        }
        let Some(side) = self.receive.get_mut(queue as usize) else {
            return;
        };
        match scatter(&side.queue, memory, frame, |place, bytes| {
            memory.write(place, bytes)
        }) {
            Ok(true) => self.complete_receive(memory, queue, cqe),
            Ok(false) => self.drops.count(Drop::TooLongForSlot),
            Err(_) => self.refuse(memory, queue, Cause::LocalProtection, Drop::ReceiveDenied),
        }
    }

    #[inline]
    fn complete_receive<M: DeviceMemory>(&mut self, memory: &M, queue: u32, mut cqe: Cqe) {
        let Some(side) = self.receive.get_mut(queue as usize) else {
            return;
        };
        cqe.wqe_counter = (side.queue.next() as u16).into();
        if side.completions.write(memory, &cqe).is_err() {
            return self.break_receive(queue);
        }
        side.queue.advance();
        side.frames += 1;
        self.counts.rx_frames += 1;
        self.counts.rx_bytes += u64::from(cqe.byte_cnt.get());
        self.counts.payload_bytes_copied += u64::from(cqe.byte_cnt.get());
    }

    /// Completes a receive WQE with an error; the frame is lost.
    fn refuse<M: DeviceMemory>(&mut self, memory: &M, queue: u32, cause: Cause, reason: Drop) {
        let Some(side) = self.receive.get_mut(queue as usize) else {
            return;
        };
        let error = ErrorCqe::new(
            CqeOpcode::RESPONSE_ERROR,
            side.queue.next(),
            syndrome(cause),
        );
        if side.completions.write(memory, &error.as_cqe()).is_err() {
            return self.break_receive(queue);
        }
        side.queue.advance();
        side.frames += 1;
        self.counts.error_completions += 1;
        self.drops.count(reason);
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
        let faults = self.faults;
        let Some(side) = self.receive.get_mut(queue as usize) else {
            return false;
        };
        if side.flush > 0 {
            side.flush -= 1;
            self.refuse(memory, queue, Cause::Flushed, Drop::Flushed);
            return true;
        }
        let event = side.frames;
        if faults.receive_error.when.happens(event, dice) {
            side.flush = faults.receive_error.flush;
            self.refuse(
                memory,
                queue,
                faults.receive_error.cause,
                Drop::ReceiveFault,
            );
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
        let Some(side) = self.receive.get(queue as usize) else {
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
        self.counts.payloads_late += 1;
        self.complete_receive(memory, queue, *cqe);
        self.late.extend(late);
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

    /// Looks at the headers as far as something depends on it; returns the queue.
    #[inline(always)]
    fn inspect(&self, frame: &[u8], cqe: &mut Cqe) -> u32 {
        let offloads = self.config.offloads;
        let several = self.config.queues > 1;
        if !offloads.checksum && !offloads.hash && !several && self.config.rules.is_empty() {
            return 0;
        }
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
