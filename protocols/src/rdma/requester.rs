//! The requester: turns send requests into packets, follows the answers, repeats what was lost.
//!
//! It keeps no list of what is under way. Three positions say it all, each a request and a packet
//! within it: the *oldest* packet that is not acknowledged, the *current* one to be sent next, and
//! the first sequence number that was never sent. To go back is to set the current position to the
//! oldest; requests are read again from their queue, payload again from its memory.
//!
//! ```text
//!   completed     under way        to be sent           not posted
//!  ───────────┬─────────────────┬─────────────────────┬───────────
//!           oldest           current                head of queue
//! ```

use super::attributes::{Attributes, Service, State};
use super::forms::{code, legal, status_of};
use super::packet::{Extended, Incoming, Outgoing, Payload};
use super::request::{Operation, Request, Requests};
use super::status::{Note, Status};
use crate::wire::aeth::{Nak, RnrTimer, Syndrome};
use crate::wire::bth::Psn;
use crate::wire::opcode::Opcode;

/// Sends the requests of one queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Requester {
    /// The first request that is not completed.
    oldest: u64,
    /// The request whose packets are sent next.
    current: u64,
    /// The first request of which nothing was ever sent.
    begun: u64,
    /// When to repeat, or when to go on after a peer without receives; 0 for never.
    deadline_ns: u64,
    /// First sequence number of the oldest request.
    oldest_psn: Psn,
    /// Its packets that were acknowledged or, of a read, received.
    oldest_done: u32,
    /// First sequence number of the current request.
    current_psn: Psn,
    /// Its packets that were sent.
    current_done: u32,
    /// The first sequence number that was never sent.
    high_psn: Psn,
    /// Reads and atomics from the oldest request to the current one.
    reads: u8,
    /// Repetitions since the last progress.
    retries: u8,
    /// The same, because the peer had no receive.
    rnr_retries: u8,
    /// Waits for the time that a peer without receives asked for.
    waits: bool,
    /// What was lost is being repeated: signs of the same loss say nothing new.
    recovers: bool,
    /// Why the oldest request failed, and with it the queue pair.
    fault: Status,
}

/// Where the data of a response goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetched {
    /// Payload of the packet, into the pieces of a read.
    Payload {
        /// The request.
        index: u64,
        /// First byte of the request's pieces.
        offset: u32,
        /// Bytes.
        length: u32,
    },
    /// What an atomic found.
    Value {
        /// The request.
        index: u64,
        /// The value.
        value: u64,
    },
}

/// What came of a response. Data is placed before completions are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Response {
    /// Data to be placed.
    pub fetched: Option<Fetched>,
    /// What is to be counted.
    pub note: Option<Note>,
}

impl Response {
    fn note(note: Note) -> Self {
        Self {
            fetched: None,
            note: Some(note),
        }
    }
}

/// How far an acknowledgement went.
struct Progress {
    /// Something was acknowledged that was not before.
    moved: bool,
    /// It passed over a read or an atomic whose data did not come.
    lost: bool,
}

impl Requester {
    /// One that has sent nothing; its first packet will have this sequence number, its first
    /// request this index.
    pub const fn new(psn: Psn, first: u64) -> Self {
        Self {
            oldest: first,
            current: first,
            begun: first,
            deadline_ns: 0,
            oldest_psn: psn,
            oldest_done: 0,
            current_psn: psn,
            current_done: 0,
            high_psn: psn,
            reads: 0,
            retries: 0,
            rnr_retries: 0,
            waits: false,
            recovers: false,
            fault: Status::Success,
        }
    }

    /// Every request before this one is completed with success.
    pub const fn completed(&self) -> u64 {
        self.oldest
    }

    /// Why request [`completed`](Self::completed) failed, if it did; those behind it are flushed.
    pub const fn fault(&self) -> Option<Status> {
        match self.fault {
            Status::Success => None,
            status => Some(status),
        }
    }

    /// Makes the oldest request fail, for a reason that others found: its data could not be placed
    /// or fetched.
    pub fn fail(&mut self, status: Status) {
        if self.fault == Status::Success {
            self.fault = status;
        }
        self.deadline_ns = 0;
    }

    /// Whether nothing that was begun is unanswered.
    pub fn is_idle(&self) -> bool {
        self.oldest == self.begun
    }

    /// When [`on_timer`](Self::on_timer) wants to be called.
    pub const fn timeout_ns(&self) -> Option<u64> {
        match self.deadline_ns {
            0 => None,
            at => Some(at),
        }
    }

    /// The next packet, if one may be sent now.
    #[inline(never)]
    pub fn poll(
        &mut self,
        now_ns: u64,
        state: State,
        attributes: &Attributes,
        requests: &impl Requests,
    ) -> Option<Outgoing> {
        if !state.sends() || self.fault != Status::Success || self.must_wait(now_ns) {
            return None;
        }
        if state == State::Draining && self.current == self.begun {
            return None;
        }
        let checked = match requests.request(self.current)? {
            Ok(request) => legal(&request, attributes).map(|()| request),
            Err(status) => Err(status),
        };
        let request = match checked {
            Ok(request) => request,
            Err(status) => {
                // Those before it end first.
                if self.oldest == self.current {
                    self.fail(status);
                }
                return None;
            }
        };
        let total = request.packets(attributes.mtu);
        if !self.may_send(&request, total, attributes) {
            return None;
        }
        let mut packet = self.packet(&request, total, attributes)?;
        self.sent(&request, total);
        if attributes.service == Service::Rc {
            let used = self.used();
            let interval = u32::from(attributes.window / 4).max(1);
            packet.acknowledge |=
                used >= u32::from(attributes.window) || packet.psn.value().is_multiple_of(interval);
            if self.deadline_ns == 0 {
                self.arm(now_ns, attributes);
            }
        } else {
            self.acknowledge_all_sent();
        }
        Some(packet)
    }

    /// Whether a peer without receives asked to wait, and the time is not over.
    fn must_wait(&mut self, now_ns: u64) -> bool {
        if self.waits && now_ns >= self.deadline_ns {
            self.waits = false;
            self.deadline_ns = 0;
        }
        self.waits
    }

    /// Sequence numbers from the oldest position to the current one.
    fn used(&self) -> u32 {
        let current = self.current_psn.wrapping_add(self.current_done);
        let oldest = self.oldest_psn.wrapping_add(self.oldest_done);
        current.diff(oldest).max(0) as u32
    }

    /// Whether fence, window, and the number of reads let the current request go on.
    fn may_send(&self, request: &Request, total: u32, attributes: &Attributes) -> bool {
        if attributes.service != Service::Rc {
            return true;
        }
        let used = self.used();
        if used >= u32::from(attributes.window) {
            return false;
        }
        if self.current_done == 0 && request.fence && self.reads > 0 {
            return false;
        }
        if request.operation.is_fetch() {
            // Responses take numbers as well; old and new ones must be told apart.
            return self.reads < attributes.reads && used + total <= MOST_UNDER_WAY;
        }
        true
    }

    /// The packet at the current position.
    fn packet(&self, request: &Request, total: u32, attributes: &Attributes) -> Option<Outgoing> {
        let done = self.current_done;
        let offset = done * attributes.mtu.bytes();
        let is_last = done + 1 == total || request.operation.is_fetch();
        let code = code(request.operation, done == 0, is_last);
        let opcode = Opcode::new(attributes.service.opcode_base() | code)?;
        let mut packet = Outgoing::new(opcode, self.current_psn.wrapping_add(done));
        packet.acknowledge = is_last && attributes.service == Service::Rc;
        packet.solicited = is_last && request.solicited;
        packet.request = self.current;
        packet.extended = Extended {
            address: request.address,
            key: request.key,
            length: request.length,
            value: request.value,
            compare: request.compare,
            aeth: 0,
            immediate: request.immediate,
            qkey: request.qkey,
            source_qp: attributes.local_qp.value(),
        };
        let left = request.length - offset;
        if request.operation == Operation::Read {
            packet.extended.address = request.address.wrapping_add(u64::from(offset));
            packet.extended.length = left;
        } else if request.operation.carries_payload() && left > 0 {
            packet.payload = Payload::Request {
                index: self.current,
                offset,
                length: left.min(attributes.mtu.bytes()),
            };
        }
        Some(packet)
    }

    /// Moves the current position behind the packet that was just made.
    fn sent(&mut self, request: &Request, total: u32) {
        let following = self.current + 1 + u64::from(request.more_slots);
        if self.current == self.begun {
            self.begun = following;
        }
        if request.operation.is_fetch() {
            self.reads += 1;
            self.current_done = total;
        } else {
            self.current_done += 1;
        }
        if self.current_done >= total {
            self.current = following;
            self.current_psn = self.current_psn.wrapping_add(total);
            self.current_done = 0;
        }
        let next = self.current_psn.wrapping_add(self.current_done);
        if self.high_psn.is_before(next) {
            self.high_psn = next;
        }
    }

    /// Nobody answers: what was sent whole is done.
    fn acknowledge_all_sent(&mut self) {
        self.oldest = self.current;
        self.oldest_psn = self.current_psn;
    }

    fn arm(&mut self, now_ns: u64, attributes: &Attributes) {
        self.deadline_ns = match attributes.timeout_ns() {
            Some(timeout) => now_ns.saturating_add(timeout).max(1),
            None => 0,
        };
    }

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
        if !packet.psn.is_before(self.high_psn) {
            return Response::note(Note::Unasked);
        }
        if packet
            .psn
            .is_before(self.oldest_psn.wrapping_add(self.oldest_done))
        {
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
            self.progressed(now_ns, attributes);
        }
        if progress.lost {
            return self.lost();
        }
        match syndrome {
            Syndrome::Ack(_) if progress.moved => Response::default(),
            Syndrome::Ack(_) => Response::note(Note::StaleResponse),
            Syndrome::ReceiverNotReady(timer) => self.not_ready(now_ns, attributes, timer),
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
        while self.oldest != self.begun {
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
            self.complete(&request, total);
        }
        progress
    }

    /// The oldest request is done.
    fn complete(&mut self, request: &Request, total: u32) {
        if request.operation.is_fetch() && self.oldest < self.current {
            self.reads = self.reads.saturating_sub(1);
        }
        self.oldest += 1 + u64::from(request.more_slots);
        self.oldest_psn = self.oldest_psn.wrapping_add(total);
        self.oldest_done = 0;
        self.catch_up();
    }

    /// What is acknowledged need not be sent: after going back, answers to the first time come.
    fn catch_up(&mut self) {
        if self.current < self.oldest {
            self.current = self.oldest;
            self.current_psn = self.oldest_psn;
            self.current_done = self.oldest_done;
        } else if self.current == self.oldest && self.current_done < self.oldest_done {
            self.current_done = self.oldest_done;
        }
    }

    /// Something was acknowledged: patience begins anew.
    fn progressed(&mut self, now_ns: u64, attributes: &Attributes) {
        self.retries = 0;
        self.rnr_retries = 0;
        self.waits = false;
        self.recovers = false;
        let oldest = self.oldest_psn.wrapping_add(self.oldest_done);
        if oldest.is_before(self.high_psn) {
            self.arm(now_ns, attributes);
        } else {
            self.deadline_ns = 0;
        }
    }

    /// Data that should have come before did not: asks for it again, once.
    fn lost(&mut self) -> Response {
        if !self.recovers {
            self.recovers = true;
            self.go_back();
        }
        Response::note(Note::LostResponse)
    }

    fn go_back(&mut self) {
        self.current = self.oldest;
        self.current_psn = self.oldest_psn;
        self.current_done = self.oldest_done;
        self.reads = 0;
    }

    /// Goes back, unless that was done too often.
    fn repeat(&mut self, now_ns: u64, attributes: &Attributes) {
        if self.retries >= attributes.retries {
            self.fail(Status::RetryExceeded);
            return;
        }
        self.retries += 1;
        self.go_back();
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
        self.go_back();
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
            return self.lost();
        }
        let Some(Ok(request)) = requests.request(self.oldest) else {
            return Response::note(Note::Unasked);
        };
        let total = request.packets(attributes.mtu);
        let done = self.oldest_done;
        let offset = done * attributes.mtu.bytes();
        let index = self.oldest;
        let fetched = match (request.operation, packet.opcode) {
            (Operation::Read, Opcode::ATOMIC_ACKNOWLEDGE) => None,
            (Operation::Read, opcode) => {
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
        };
        let Some(fetched) = fetched else {
            self.fail(Status::BadResponse);
            return Response::note(Note::BadResponse);
        };
        self.oldest_done += 1;
        if self.oldest_done == total {
            self.complete(&request, total);
        } else {
            self.catch_up();
        }
        self.progressed(now_ns, attributes);
        Response {
            fetched: Some(fetched),
            note: None,
        }
    }

    /// Looks at the clock: repeats what nobody answered.
    pub fn on_timer(&mut self, now_ns: u64, attributes: &Attributes) {
        if self.deadline_ns == 0 || now_ns < self.deadline_ns {
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

/// This many repetitions for want of a receive are no limit.
const FOR_EVER: u8 = 7;

/// Sequence numbers that may be under way: less than half of all.
const MOST_UNDER_WAY: u32 = (1 << 23) - 1;
