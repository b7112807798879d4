//! The receiver: where data goes, when it is acknowledged, and the window.

use super::arrive::end_of;
use super::config::Config;
use super::connection::{Connection, after};
use super::hot::Flags;
use super::segment::{Delivery, Place, Segment};
use super::state::{Events, Note, State};
use crate::wire::tcp::{TcpFlags, TcpSequence};
use crate::wire::tcp_option::SackBlock;

impl Connection {
    /// Payload and FIN of a segment of which a part lies in the window.
    pub(super) fn on_data(
        &mut self,
        now_ns: u64,
        segment: &Segment,
        config: &Config,
        delivery: &mut Delivery,
    ) {
        let first = segment
            .sequence
            .wrapping_add(u32::from(segment.has(TcpFlags::SYN)));
        let end = first.wrapping_add(segment.length);
        self.take_marks(segment);
        if segment.has(TcpFlags::FIN) {
            self.note_fin(end);
        }
        let most = self.limit();
        let left = later(first, self.hot.rcv_nxt);
        let right = if most.is_before(end) { most } else { end };
        let had_gap = !self.cold.reassembly.is_empty();
        if left.is_before(right) {
            self.place(first, left, right, delivery);
        } else if segment.length > 0 {
            let is_old = !self.hot.rcv_nxt.is_before(end);
            delivery.note = Some(if is_old {
                Note::Duplicate
            } else {
                Note::NoRoom
            });
        }
        if first.is_before(left) {
            self.note_twice(first, end);
        }
        if delivery.readable > 0 && !had_gap && delivery.note.is_none() {
            self.delay_acknowledgement(now_ns, segment, config);
        } else {
            self.hot.flags.insert(Flags::ACK_DUE);
        }
        if self.hot.flags.contains(Flags::FIN_KNOWN) && self.cold.fin == self.hot.rcv_nxt {
            delivery.events |= self.on_fin(now_ns, config);
        }
    }

    /// The first number that may not be placed: beyond the window, the ring, or FIN.
    fn limit(&self) -> TcpSequence {
        let hot = &self.hot;
        let ring = hot.consumed.wrapping_add(self.receive_bytes());
        let mut limit = earlier(ring, hot.edge);
        if hot.flags.contains(Flags::FIN_KNOWN) {
            limit = earlier(limit, self.cold.fin);
        }
        limit
    }

    /// Finds the part of `[left, right)` that is new; `first` is the number of the payload's first
    /// byte.
    fn place(
        &mut self,
        first: TcpSequence,
        left: TcpSequence,
        right: TcpSequence,
        delivery: &mut Delivery,
    ) {
        let Some(part) = self.cold.reassembly.missing(left, right) else {
            self.note_twice(left, right);
            delivery.note = Some(Note::Duplicate);
            return;
        };
        let next = self.hot.rcv_nxt;
        if part.left == next {
            let end = self.cold.reassembly.advance(part.right);
            self.hot.rcv_nxt = end;
            delivery.readable = end.diff(next) as u32;
        } else if self.cold.reassembly.insert(part.left, part.right) {
            self.cold.counts.out_of_order = self.cold.counts.out_of_order.wrapping_add(1);
            delivery.note = Some(Note::OutOfOrder);
        } else {
            delivery.note = Some(Note::NoRoom);
            return;
        }
        delivery.place = Some(Place {
            at: part.left.0.wrapping_sub(self.hot.irs.0).wrapping_sub(1),
            from: part.left.diff(first) as u32,
            length: part.right.diff(part.left) as u32,
        });
    }

    /// RFC 3168 section 6.1.3.
    fn take_marks(&mut self, segment: &Segment) {
        if !self.hot.flags.contains(Flags::ECN) {
            return;
        }
        if segment.has(TcpFlags::CWR) {
            self.hot.flags.remove(Flags::ECHO_MARKS);
        }
        if segment.is_marked {
            self.hot.flags.insert(Flags::ECHO_MARKS);
        }
    }

    /// A FIN that lies in the window is remembered; data beyond it is a contradiction, and what
    /// came first counts.
    fn note_fin(&mut self, number: TcpSequence) {
        let hot = &mut self.hot;
        let is_beyond = self
            .cold
            .reassembly
            .end()
            .is_some_and(|end| number.is_before(end));
        let is_outside = number.is_before(hot.rcv_nxt) || hot.edge.is_before(number);
        if !is_beyond && !is_outside && !hot.flags.contains(Flags::FIN_KNOWN) {
            hot.flags.insert(Flags::FIN_KNOWN);
            self.cold.fin = number;
        }
    }

    /// FIN is next. RFC 9293 section 3.10.7.4, eighth.
    fn on_fin(&mut self, now_ns: u64, config: &Config) -> Events {
        let hot = &mut self.hot;
        hot.rcv_nxt = hot.rcv_nxt.wrapping_add(1);
        hot.flags.remove(Flags::FIN_KNOWN);
        hot.flags.insert(Flags::PEER_CLOSED | Flags::ACK_DUE);
        match hot.state {
            State::Established => hot.state = State::CloseWait,
            State::FinWait1 => hot.state = State::Closing,
            State::FinWait2 => self.linger(now_ns, config),
            _ => {}
        }
        Events::PEER_CLOSED
    }

    /// TIME-WAIT begins.
    pub(super) fn linger(&mut self, now_ns: u64, config: &Config) {
        let hot = &mut self.hot;
        hot.state = State::TimeWait;
        hot.timer_ns = 0;
        hot.probe_ns = 0;
        hot.give_up_ns = 0;
        hot.slow_ns = after(now_ns, config.time_wait_ns);
    }

    /// Bytes in `[left, right)` came twice; those at the peer's choice are told. RFC 2883.
    pub(super) fn note_twice(&mut self, left: TcpSequence, right: TcpSequence) {
        let is_held = !self.hot.rcv_nxt.is_before(left);
        let right = if is_held {
            earlier(right, self.hot.rcv_nxt)
        } else {
            right
        };
        if self.hot.flags.contains(Flags::SACK) && left.is_before(right) {
            self.cold.twice = SackBlock { left, right };
            self.hot.flags.insert(Flags::TWICE_DUE);
        }
    }

    /// RFC 9293 section 3.8.6.3: every second segment is acknowledged at once.
    fn delay_acknowledgement(&mut self, now_ns: u64, segment: &Segment, config: &Config) {
        let hot = &mut self.hot;
        let is_joined = segment.length > u32::from(config.maximum_segment_size);
        hot.pending = hot.pending.saturating_add(if is_joined { 2 } else { 1 });
        if hot.pending >= 2 || config.delayed_ack_ns == 0 {
            hot.flags.insert(Flags::ACK_DUE);
        } else if hot.ack_ns == 0 {
            hot.ack_ns = after(now_ns, config.delayed_ack_ns);
        }
    }

    /// The right edge that the ring allows.
    fn ring_edge(&self) -> TcpSequence {
        self.hot.consumed.wrapping_add(self.receive_bytes())
    }

    /// The furthest right edge that can be told.
    fn furthest_edge(&self) -> TcpSequence {
        let field = u32::from(u16::MAX) << (u32::from(self.hot.our_shift) % 32);
        earlier(self.ring_edge(), self.hot.rcv_nxt.wrapping_add(field))
    }

    /// The smallest step of the right edge. RFC 9293 section 3.8.6.2.2.
    fn least_step(&self) -> i32 {
        (self.receive_bytes() / 2).min(u32::from(self.hot.segment_bytes)) as i32
    }

    /// Tells the peer of room that it needs: when its window is nearly used up, or much is new.
    pub(super) fn offer_window(&mut self) {
        if !self.hot.state.receives() {
            return;
        }
        let room = self.furthest_edge().diff(self.hot.edge);
        let known = self.hot.edge.diff(self.hot.rcv_nxt);
        let is_much = room >= (self.receive_bytes() / 4) as i32;
        let is_needed = known < 2 * i32::from(self.hot.segment_bytes);
        if room >= self.least_step() && (is_much || is_needed) {
            self.hot.flags.insert(Flags::ACK_DUE);
        }
    }

    /// The window field of a segment that is sent now. The edge never moves back, but for the part
    /// of a unit that the shift cuts off.
    pub(super) fn advertise(&mut self, is_scaled: bool) -> u16 {
        let ring = self.ring_edge();
        let may_move = ring.diff(self.hot.edge) >= self.least_step();
        let hot = &mut self.hot;
        let edge = if may_move { ring } else { hot.edge };
        let open = edge.diff(hot.rcv_nxt).max(0) as u32;
        let shift = if is_scaled {
            u32::from(hot.our_shift) % 32
        } else {
            0
        };
        let unit = 1u32 << shift;
        let up = open.saturating_add(unit - 1) >> shift;
        let exceeds = ring.is_before(hot.rcv_nxt.wrapping_add(up << shift));
        let field = if exceeds { open >> shift } else { up };
        let field = field.min(u32::from(u16::MAX));
        hot.edge = later(hot.edge, hot.rcv_nxt.wrapping_add(field << shift));
        field as u16
    }

    /// Whether all of a segment came before.
    pub(super) fn is_old(&self, segment: &Segment) -> bool {
        !self.hot.rcv_nxt.is_before(end_of(segment))
    }
}

fn later(one: TcpSequence, other: TcpSequence) -> TcpSequence {
    if one.is_before(other) { other } else { one }
}

fn earlier(one: TcpSequence, other: TcpSequence) -> TcpSequence {
    if one.is_before(other) { one } else { other }
}
