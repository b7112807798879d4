//! What a bystander knows of a connection, and holds everything that is done against.

use warpwire_protocols::tcp::{Connection, Delivery, Events, Outgoing, Place, Segment, State};
use warpwire_protocols::wire::tcp::{TcpFlags, TcpSequence};

use super::{MOST_SEGMENTS, Run};

impl Run {
    /// The peer's first number is known once SYN-SENT is left for another state.
    pub(super) fn learn(&mut self, before: &Connection, segment: &Segment) {
        let opened = before.state() == State::SynSent
            && !matches!(self.connection.state(), State::SynSent | State::Closed);
        if opened {
            assert!(segment.flags.contains(TcpFlags::SYN), "opened without SYN");
            self.theirs = Some(segment.sequence);
            self.their_scale = segment.options.window_scale;
            let edge = self.ours.wrapping_add(1 + u32::from(segment.window));
            self.allowed = Some(edge);
        }
    }

    /// What a segment allows, if it is one that can be believed at all.
    pub(super) fn hear(&mut self, segment: &Segment) {
        if self.theirs.is_none() || !segment.flags.contains(TcpFlags::ACK) {
            return;
        }
        let near = segment.sequence.diff(self.expected()).unsigned_abs();
        let most = 2 * self.config.receive_bytes + segment.length + 70_000;
        let sent = self.ours.wrapping_add(2).wrapping_add(self.sent);
        if near > most || sent.is_before(segment.acknowledgement) {
            return;
        }
        let shift = match (segment.flags.contains(TcpFlags::SYN), self.our_scale) {
            (false, Some(_)) => self.their_scale.map_or(0, |scale| scale.min(14)),
            _ => 0,
        };
        let window = u32::from(segment.window) << shift;
        let edge = segment.acknowledgement.wrapping_add(window);
        if self.allowed.is_none_or(|allowed| allowed.is_before(edge)) {
            self.allowed = Some(edge);
        }
    }

    pub(super) fn carry_out(
        &mut self,
        before: &Connection,
        segment: &Segment,
        delivery: &Delivery,
    ) {
        if let Some(place) = &delivery.place {
            self.place(place, segment);
        }
        let readable = before.readable() + delivery.readable;
        assert_eq!(self.connection.readable(), readable);
        for index in 0..delivery.readable {
            let at = self.ordered.wrapping_add(index);
            assert!(self.held[self.ring(at)], "readable, and not there");
        }
        self.ordered = self.ordered.wrapping_add(delivery.readable);
        let under_way = self.written.wrapping_sub(self.freed);
        assert!(
            delivery.freed <= under_way,
            "more is freed than was written"
        );
        self.freed = self.freed.wrapping_add(delivery.freed);
        if self.sent.wrapping_sub(self.freed) > 1 << 31 {
            panic!("something is freed that was not sent");
        }
        self.tell(delivery.events);
    }

    fn place(&mut self, place: &Place, segment: &Segment) {
        assert!(place.length > 0);
        let end = place.from.checked_add(place.length);
        assert!(end.is_some_and(|end| end <= segment.length), "{place:?}");
        let theirs = self.theirs.expect("SYN came");
        let syn = u32::from(segment.flags.contains(TcpFlags::SYN));
        let first = segment.sequence.wrapping_add(syn).wrapping_add(place.from);
        assert_eq!(place.at, first.diff(theirs.wrapping_add(1)) as u32);
        let most = theirs.wrapping_add(1 + self.config.receive_bytes.min(0xffff));
        let told = self.told.unwrap_or(most);
        let last = first.wrapping_add(place.length);
        assert!(!told.is_before(last), "{place:?} is outside the window");
        let ahead = place.at.wrapping_sub(self.consumed);
        let end = ahead.saturating_add(place.length);
        assert!(
            end <= self.config.receive_bytes,
            "{place:?} is outside the ring"
        );
        for index in 0..place.length {
            let at = self.ring(place.at.wrapping_add(index));
            assert!(!self.held[at], "{place:?} is placed twice");
            self.held[at] = true;
        }
    }

    pub(super) fn ring(&self, position: u32) -> usize {
        position as usize & (self.held.len() - 1)
    }

    pub(super) fn tell(&mut self, events: Events) {
        let again = self.events & events;
        assert!(again.is_empty(), "{again:?} is told twice");
        self.events |= events;
    }

    pub(super) fn poll(&mut self) {
        for _ in 0..MOST_SEGMENTS {
            let polled = self
                .connection
                .poll(self.now_ns, &self.config, self.offload);
            let Some(train) = polled else {
                return;
            };
            assert!(train.segment_bytes > 0);
            for index in 0..train.segments() {
                let piece = train.piece(index).expect("is counted");
                self.look_at(&piece);
            }
        }
        panic!("sends without end");
    }

    fn look_at(&mut self, out: &Outgoing) {
        assert!(!self.is_reset, "something follows a reset");
        let options = out.options.length() as u32;
        let most = u32::from(self.config.maximum_segment_size);
        let length = out.payload.length;
        assert!(options <= 40 && (length == 0 || length + options <= most));
        if let Some(stamps) = out.options.timestamps {
            self.stamp = stamps.value;
        }
        if out.flags.contains(TcpFlags::RST) {
            assert_eq!(length, 0);
            self.is_reset = self.connection.state() == State::Closed;
            return;
        }
        if out.flags.contains(TcpFlags::SYN) {
            assert_eq!((out.sequence, length), (self.ours, 0));
            self.our_scale = out.options.window_scale;
        }
        if out.flags.contains(TcpFlags::ACK) {
            self.look_at_window(out);
        }
        if length > 0 {
            self.look_at_payload(out);
        }
    }

    pub(super) fn edge(&self, out: &Outgoing) -> TcpSequence {
        let shift = match (out.flags.contains(TcpFlags::SYN), self.their_scale) {
            (false, Some(_)) => self.our_scale.unwrap_or(0),
            _ => 0,
        };
        let window = u32::from(out.window) << shift;
        out.acknowledgement.wrapping_add(window)
    }

    fn look_at_window(&mut self, out: &Outgoing) {
        let edge = self.edge(out);
        if out.flags.contains(TcpFlags::SYN) && self.told.is_some() {
            // The field of a SYN cannot say what a scaled one did.
            return;
        }
        let told = self.told.unwrap_or(edge);
        // Of a scaled window the field cannot say less than a unit (RFC 7323 section 2.4).
        let unit = 1 << self.our_scale.unwrap_or(0);
        assert!(told.diff(edge) < unit, "the right edge moves left");
        if self.told.is_none_or(|told| told.is_before(edge)) {
            self.told = Some(edge);
        }
        let theirs = self.theirs.expect("what is acknowledged came");
        let acknowledged = out.acknowledgement.diff(theirs.wrapping_add(1)) as u32;
        let ahead = acknowledged.wrapping_sub(self.ordered);
        assert!(
            ahead <= 1,
            "{ahead} bytes are acknowledged that are not there"
        );
    }

    fn look_at_payload(&mut self, out: &Outgoing) {
        let first = self.ours.wrapping_add(1);
        let at = out.payload.at;
        assert_eq!(out.sequence.diff(first) as u32, at);
        let from = at.wrapping_sub(self.freed);
        let to = self.written.wrapping_sub(self.freed);
        let end = from.saturating_add(out.payload.length);
        assert!(from <= to && end <= to, "not in the send ring");
        let last = out.sequence.wrapping_add(out.payload.length);
        let allowed = self.allowed.expect("a window was told");
        assert!(
            out.payload.length == 1 || !allowed.is_before(last),
            "beyond the peer's window"
        );
        let sent = at.wrapping_add(out.payload.length);
        if sent.wrapping_sub(self.freed) > self.sent.wrapping_sub(self.freed) {
            self.sent = sent;
        }
    }

    /// What must hold once all was sent that may be.
    pub(super) fn look(&self) {
        let connection = &self.connection;
        let state = connection.state();
        let timer = connection.timeout_ns();
        assert_eq!(connection.cause().is_some(), state == State::Closed);
        assert_eq!(connection.write_position(), self.written);
        assert_eq!(
            connection.unacknowledged(),
            self.written.wrapping_sub(self.freed)
        );
        assert!(connection.readable() <= self.config.receive_bytes);
        let is_waiting = match state {
            State::Closed => {
                assert_eq!(timer, None, "a closed connection waits for something");
                return;
            }
            State::SynSent | State::SynReceived | State::TimeWait => true,
            State::FinWait1 | State::Closing | State::LastAck => true,
            State::Established | State::CloseWait => self.written != self.freed,
            State::FinWait2 => false,
        };
        assert!(
            !is_waiting || timer.is_some(),
            "{state:?}: something is under way, and no timer runs"
        );
        assert!(
            timer.is_none_or(|at_ns| at_ns > self.now_ns) || self.is_moved(),
            "{state:?}: a timer that is due changes nothing"
        );
    }

    /// Whether a timer that is due, and what is sent then, leaves another that is not.
    fn is_moved(&self) -> bool {
        let mut copy = self.connection;
        for _ in 0..4 {
            copy.on_timer(self.now_ns, &self.config);
            for _ in 0..MOST_SEGMENTS {
                if copy.poll(self.now_ns, &self.config, self.offload).is_none() {
                    break;
                }
            }
            if copy.timeout_ns().is_none_or(|at_ns| at_ns > self.now_ns) {
                return true;
            }
        }
        false
    }
}
