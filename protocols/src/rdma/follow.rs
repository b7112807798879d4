//! What a requester makes of answers and of time: what arrived, what was lost, what is complete.

use super::arrived::Report;
use super::attributes::Attributes;
use super::forms::status_of;
use super::packet::Incoming;
use super::request::{Operation, Request, Requests};
use super::requester::{Fetched, Place, Requester, Response};
use super::status::{Note, Status};
use crate::wire::aeth::{Nak, RnrTimer, Syndrome};
use crate::wire::bth::Psn;
use crate::wire::opcode::Opcode;

/// How far an acknowledgement went.
struct Progress {
    /// Something was acknowledged that was not before.
    moved: bool,
    /// It passed over a read or an atomic whose data did not come.
    lost: bool,
}

impl Requester {
    /// Takes an acknowledgement, a negative one, or a response with data.
    #[inline(never)]
    pub fn on_response(
        &mut self,
        now_ns: u64,
        attributes: &Attributes,
        packet: &Incoming,
        requests: &impl Requests,
    ) -> Response {
        if self.fault != Status::Success {
            return Response::note(Note::WrongState);
        }
        if !packet.psn.is_before(self.fresh.next()) {
            return Response::note(Note::Unasked);
        }
        if packet.psn.is_before(self.oldest_place().next()) {
            return Response::note(Note::StaleResponse);
        }
        match packet.opcode {
            Opcode::ACKNOWLEDGE => self.on_acknowledge(now_ns, attributes, packet, requests),
            _ => self.on_data(now_ns, attributes, packet, requests),
        }
    }

    fn on_acknowledge(
        &mut self,
        now_ns: u64,
        attributes: &Attributes,
        packet: &Incoming,
        requests: &impl Requests,
    ) -> Response {
        let Ok(syndrome) = packet.syndrome() else {
            return Response::note(Note::BadResponse);
        };
        let limit = match syndrome {
            Syndrome::Ack(_) => packet.psn.wrapping_add(1),
            Syndrome::ReceiverNotReady(_) | Syndrome::Nak(_) => packet.psn,
        };
        let progress = self.acknowledge_before(limit, attributes, requests);
        if progress.moved {
            self.pass_arrived(attributes, requests);
            self.progressed(now_ns, attributes);
        }
        if progress.lost {
            return self.lost(attributes);
        }
        match syndrome {
            Syndrome::Ack(_) if progress.moved => Response::default(),
            Syndrome::Ack(_) => Response::note(Note::StaleResponse),
            Syndrome::ReceiverNotReady(timer) => self.not_ready(now_ns, attributes, timer),
            Syndrome::Nak(Nak::Sequence) if attributes.is_selective() => self.on_report(packet),
            Syndrome::Nak(Nak::Sequence) => {
                // A peer without receives may tell of the gap that it made itself.
                if self.recovers || self.waits {
                    return Response::note(Note::StaleResponse);
                }
                self.recovers = true;
                self.repeat(now_ns, attributes);
                Response::default()
            }
            Syndrome::Nak(nak) => {
                self.fail(status_of(nak));
                Response::default()
            }
        }
    }

    /// Selective: the oldest packet is missing, others came.
    fn on_report(&mut self, packet: &Incoming) -> Response {
        let missing = packet.psn;
        let report = Report::of(packet.extended.aeth);
        let last = report.last(missing);
        if !last.is_before(self.fresh.next()) {
            return Response::note(Note::Unasked);
        }
        report.add_to(&mut self.arrived);
        self.raise_limit(last);
        self.raise_limit(missing.wrapping_add(1));
        if self.waits {
            return Response::note(Note::StaleResponse);
        }
        if !self.recovers {
            self.recover();
        } else if !last.is_before(self.mark) {
            // What was sent later than the repetition came before it: that was lost as well.
            self.current = self.oldest_place();
            self.recover();
        }
        Response::default()
    }

    /// Selective: everything before that the peer does not have is lost.
    fn raise_limit(&mut self, limit: Psn) {
        if self.limit.is_before(limit) {
            self.limit = limit;
        }
    }

    /// Selective: from here on what was lost is repeated.
    fn recover(&mut self) {
        self.recovers = true;
        self.mark = self.fresh.next();
        self.marked_ns = 0;
    }

    /// Everything before `limit` arrived.
    fn acknowledge_before(
        &mut self,
        limit: Psn,
        attributes: &Attributes,
        requests: &impl Requests,
    ) -> Progress {
        let mut progress = Progress {
            moved: false,
            lost: false,
        };
        let before = self.oldest_place().next();
        while !self.is_idle() {
            let covered = limit.diff(self.oldest_psn);
            if covered <= 0 || covered as u32 <= self.oldest_done {
                break;
            }
            let Some(Ok(request)) = requests.request(self.oldest) else {
                break;
            };
            if request.operation.is_fetch() {
                progress.lost = true;
                break;
            }
            progress.moved = true;
            let total = request.packets(attributes.mtu);
            if (covered as u32) < total {
                self.oldest_done = covered as u32;
                self.catch_up();
                break;
            }
            self.complete(&request, total, attributes);
        }
        if progress.moved && attributes.is_selective() {
            let count = self.oldest_place().next().diff(before).max(0);
            self.arrived.clear(before, count as u32);
        }
        progress
    }

    /// Selective: what follows and is known to have arrived is done, whether that was told or not.
    fn pass_arrived(&mut self, attributes: &Attributes, requests: &impl Requests) {
        let oldest = self.oldest_place().next();
        let sent = self.fresh.next().diff(oldest).max(0) as u32;
        let run = self.arrived.run(oldest).min(sent);
        if attributes.is_selective() && run > 0 {
            self.acknowledge_before(oldest.wrapping_add(run), attributes, requests);
        }
    }

    /// The oldest request is done.
    fn complete(&mut self, request: &Request, total: u32, attributes: &Attributes) {
        let was_counted = attributes.is_selective() || self.current.request != self.oldest as u32;
        if request.operation.is_fetch() && was_counted {
            self.reads = self.reads.saturating_sub(1);
        }
        self.oldest += 1 + u64::from(request.more_slots);
        self.oldest_psn = self.oldest_psn.wrapping_add(total);
        self.oldest_done = 0;
        self.catch_up();
    }

    /// What is acknowledged need not be sent: after going back, answers to the first time come.
    fn catch_up(&mut self) {
        let oldest = self.oldest_place();
        let is_behind = |place: &Place| {
            let ahead = place.request.wrapping_sub(oldest.request) as i32;
            ahead < 0 || (ahead == 0 && place.done < oldest.done)
        };
        if is_behind(&self.current) {
            self.current = oldest;
        }
        if is_behind(&self.fresh) {
            self.fresh = oldest;
        }
    }

    /// Something was acknowledged: patience begins anew.
    fn progressed(&mut self, now_ns: u64, attributes: &Attributes) {
        self.retries = 0;
        self.rnr_retries = 0;
        self.waits = false;
        let is_open = self.oldest_place().next().is_before(self.fresh.next());
        if attributes.is_selective() {
            self.recovers = self.still_recovers(now_ns) && is_open;
            if self.recovers {
                self.recover();
            }
        } else {
            self.recovers = false;
        }
        if is_open {
            self.arm(now_ns, attributes);
        } else {
            self.deadline_ns = 0;
        }
    }

    /// Selective: whether more is lost, now that the oldest place moved on.
    fn still_recovers(&mut self, now_ns: u64) -> bool {
        let oldest = self.oldest_place().next();
        if self.marked_ns != 0 && self.mark.is_before(oldest) {
            let sample = (now_ns as u32).wrapping_sub(self.marked_ns);
            self.trip_ns = match self.trip_ns {
                0 => sample.max(1),
                known => known - known / 8 + sample / 8,
            };
            self.marked_ns = 0;
        }
        if self.probes > 0 && oldest.is_before(self.mark) {
            // What answers a probe has everything that was sent before it, or never will.
            self.raise_limit(self.mark);
            self.current = self.oldest_place();
        }
        self.raise_limit(oldest);
        oldest.is_before(self.limit) || oldest.is_before(self.current.next())
    }

    /// Data that should have come before did not: asks for it again, once.
    fn lost(&mut self, attributes: &Attributes) -> Response {
        if !self.recovers {
            self.go_back(attributes);
            self.recovers = true;
        }
        Response::note(Note::LostResponse)
    }

    fn go_back(&mut self, attributes: &Attributes) {
        self.current = self.oldest_place();
        if attributes.is_selective() {
            self.limit = self.fresh.next();
            self.recover();
        } else {
            self.reads = 0;
        }
    }

    /// Goes back, unless that was done too often.
    fn repeat(&mut self, now_ns: u64, attributes: &Attributes) {
        if self.retries >= attributes.retries {
            self.fail(Status::RetryExceeded);
            return;
        }
        self.retries += 1;
        self.go_back(attributes);
        self.arm(now_ns, attributes);
    }

    fn not_ready(&mut self, now_ns: u64, attributes: &Attributes, timer: RnrTimer) -> Response {
        if self.waits {
            return Response::note(Note::StaleResponse);
        }
        if attributes.rnr_retries < FOR_EVER {
            if self.rnr_retries >= attributes.rnr_retries {
                self.fail(Status::RnrRetryExceeded);
                return Response::default();
            }
            self.rnr_retries += 1;
        }
        self.go_back(attributes);
        self.waits = true;
        let wait_ns = u64::from(timer.microseconds()) * 1000;
        self.deadline_ns = now_ns.saturating_add(wait_ns).max(1);
        Response::default()
    }

    /// A packet of a read's response, or an atomic's.
    fn on_data(
        &mut self,
        now_ns: u64,
        attributes: &Attributes,
        packet: &Incoming,
        requests: &impl Requests,
    ) -> Response {
        let progress = self.acknowledge_before(packet.psn, attributes, requests);
        if progress.moved {
            self.progressed(now_ns, attributes);
        }
        if progress.lost {
            return self.lost(attributes);
        }
        let Some(Ok(request)) = requests.request(self.oldest) else {
            return Response::note(Note::Unasked);
        };
        let total = request.packets(attributes.mtu);
        let done = self.oldest_done;
        let fetched = fetched(self.oldest, &request, done, total, attributes, packet);
        let Some(fetched) = fetched else {
            self.fail(Status::BadResponse);
            return Response::note(Note::BadResponse);
        };
        self.oldest_done += 1;
        let is_whole = self.oldest_done == total;
        if is_whole {
            self.complete(&request, total, attributes);
            self.pass_arrived(attributes, requests);
        } else {
            self.catch_up();
        }
        self.progressed(now_ns, attributes);
        // A gap in what follows is another one.
        self.recovers &= is_whole;
        Response {
            fetched: Some(fetched),
            note: None,
        }
    }

    /// When [`on_timer`](Self::on_timer) wants to be called.
    pub fn timeout_ns(&self, attributes: &Attributes) -> Option<u64> {
        match (self.deadline_ns, self.probe_ns(attributes)) {
            (0, _) => None,
            (at, None) => Some(at),
            (at, Some(probe)) => Some(at.min(probe)),
        }
    }

    /// Selective: when the oldest packet is sent again to learn what became of the others. That is
    /// no repetition that is counted, and comes long before one.
    fn probe_ns(&self, attributes: &Attributes) -> Option<u64> {
        if !attributes.is_selective() || self.waits {
            return None;
        }
        let timeout = attributes.timeout_ns()?;
        let armed = self.deadline_ns.checked_sub(timeout)?;
        let wait = match self.trip_ns {
            0 => timeout / UNKNOWN_TRIP,
            trip => u64::from(trip) * PROBE_TRIPS + PROBE_SLACK_NS,
        };
        let later = wait.checked_shl(u32::from(self.probes))?;
        (later < timeout).then(|| armed.saturating_add(later))
    }

    /// Looks at the clock: repeats what nobody answered.
    pub fn on_timer(&mut self, now_ns: u64, attributes: &Attributes) {
        if self.deadline_ns == 0 {
            return;
        }
        if now_ns < self.deadline_ns {
            if self.probe_ns(attributes).is_some_and(|at| now_ns >= at) {
                self.probes = self.probes.saturating_add(1);
                self.current = self.oldest_place();
                self.raise_limit(self.current.next().wrapping_add(1));
                self.recover();
            }
            return;
        }
        if self.must_wait(now_ns) {
            return;
        }
        if self.deadline_ns != 0 {
            self.recovers = false;
            self.repeat(now_ns, attributes);
        }
    }
}

/// What a response brings, `done` packets of the oldest request after its first; `None` if it does
/// not fit the request.
fn fetched(
    index: u64,
    request: &Request,
    done: u32,
    total: u32,
    attributes: &Attributes,
    packet: &Incoming,
) -> Option<Fetched> {
    match (request.operation, packet.opcode) {
        (Operation::Read, Opcode::ATOMIC_ACKNOWLEDGE) => None,
        (Operation::Read, opcode) => {
            let offset = done * attributes.mtu.bytes();
            let is_final = done + 1 == total;
            let length = match is_final {
                true => request.length - offset,
                false => attributes.mtu.bytes(),
            };
            let fits = opcode.ends_message() == is_final && packet.payload == length;
            fits.then_some(Fetched::Payload {
                index,
                offset,
                length,
            })
        }
        (operation, Opcode::ATOMIC_ACKNOWLEDGE) if operation.is_atomic() => {
            let value = packet.extended.value;
            Some(Fetched::Value { index, value })
        }
        _ => None,
    }
}

/// This many repetitions for want of a receive are no limit.
const FOR_EVER: u8 = 7;
/// A probe leaves after so many times the way there and back ...
const PROBE_TRIPS: u64 = 4;
/// ... and this, as ends do not answer at once.
const PROBE_SLACK_NS: u64 = 10_000;
/// As long as the way is not known: this part of the timeout.
const UNKNOWN_TRIP: u64 = 16;
