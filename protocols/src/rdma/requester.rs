//! The requester: turns send requests into packets, follows the answers, repeats what was lost.
//!
//! It keeps no list of what is under way. Three places say it all, each a request and a packet
//! within it: the *oldest* packet that is not acknowledged, the *current* one to be sent again, and
//! the *fresh* one that was never sent. To go back is to set the current place to the oldest;
//! requests are read again from their queue, payload again from its memory.
//!
//! ```text
//!   completed     repeated       under way        to be sent       not posted
//!  ───────────┬──────────────┬────────────────┬─────────────────┬─────────────
//!           oldest        current           fresh          head of queue
//! ```
//!
//! Where nothing is repeated and repetition is not selective, the current place is the fresh one.

use super::arrived::Arrived;
use super::attributes::{Attributes, Service, State};
use super::forms::{comes_in_turn, legal, packet};
use super::packet::Outgoing;
use super::request::{Request, Requests};
use super::status::{Note, Status};
use crate::wire::bth::Psn;

/// Sends the requests of one queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Requester {
    /// The first request that is not completed.
    pub(super) oldest: u64,
    /// When to repeat, or when to go on after a peer without receives; 0 for never.
    pub(super) deadline_ns: u64,
    /// First sequence number of the oldest request.
    pub(super) oldest_psn: Psn,
    /// Its packets that were acknowledged or, of a read, received.
    pub(super) oldest_done: u32,
    /// What is sent again next.
    pub(super) current: Place,
    /// What was never sent.
    pub(super) fresh: Place,
    /// Selective: what the peer has beyond the oldest packet.
    pub(super) arrived: Arrived,
    /// Selective: everything before that the peer does not have is lost.
    pub(super) limit: Psn,
    /// While what was lost is repeated: the first packet that was sent after the oldest one was
    /// sent again. Else the packet whose answer tells how long the way is.
    pub(super) mark: Psn,
    /// When that packet was sent, as far as 32 bits tell; 0 for none.
    pub(super) marked_ns: u32,
    /// Selective: how long the way to the peer and back is; 0 if that is not known.
    pub(super) trip_ns: u32,
    /// Reads and atomics from the oldest request to the current place; selective: to the fresh one.
    pub(super) reads: u8,
    /// Repetitions since the last progress.
    pub(super) retries: u8,
    /// The same, because the peer had no receive.
    pub(super) rnr_retries: u8,
    /// Selective: probes since the timer was set.
    pub(super) probes: u8,
    /// Waits for the time that a peer without receives asked for.
    pub(super) waits: bool,
    /// What was lost is being repeated: signs of the same loss say nothing new.
    pub(super) recovers: bool,
    /// Why the oldest request failed, and with it the queue pair.
    pub(super) fault: Status,
}

/// A packet of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct Place {
    /// The lower half of the request's number; the upper one is the oldest request's or the next.
    pub(super) request: u32,
    /// First sequence number of the request.
    pub(super) psn: Psn,
    /// Its packets before this one.
    pub(super) done: u32,
}

impl Place {
    /// The sequence number of the packet.
    pub(super) const fn next(&self) -> Psn {
        self.psn.wrapping_add(self.done)
    }

    /// The place `count` packets on within the request, or the first of the one behind.
    pub(super) const fn advanced(self, request: &Request, total: u32, count: u32) -> Self {
        let done = self.done + count;
        if done < total {
            return Self { done, ..self };
        }
        Self {
            request: self.request.wrapping_add(1 + request.more_slots),
            psn: self.psn.wrapping_add(total),
            done: 0,
        }
    }
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
    pub(super) fn note(note: Note) -> Self {
        Self {
            fetched: None,
            note: Some(note),
        }
    }
}

impl Requester {
    /// One that has sent nothing; its first packet will have this sequence number, its first
    /// request this index.
    pub const fn new(psn: Psn, first: u64) -> Self {
        let place = Place {
            request: first as u32,
            psn,
            done: 0,
        };
        Self {
            oldest: first,
            deadline_ns: 0,
            oldest_psn: psn,
            oldest_done: 0,
            current: place,
            fresh: place,
            arrived: Arrived::NONE,
            limit: psn,
            mark: psn,
            marked_ns: 0,
            trip_ns: 0,
            reads: 0,
            retries: 0,
            rnr_retries: 0,
            probes: 0,
            waits: false,
            recovers: false,
            fault: Status::Success,
        }
    }

    /// Sends again after a failure, from request `first` on: those before it were flushed. Sequence
    /// numbers go on.
    pub const fn resume(&mut self, first: u64) {
        *self = Self::new(self.fresh.next(), first);
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
    pub const fn is_idle(&self) -> bool {
        self.fresh.request == self.oldest as u32 && self.fresh.done == 0
    }

    /// The place of the oldest packet.
    pub(super) const fn oldest_place(&self) -> Place {
        Place {
            request: self.oldest as u32,
            psn: self.oldest_psn,
            done: self.oldest_done,
        }
    }

    /// The number of a place's request.
    pub(super) const fn number(&self, place: &Place) -> u64 {
        self.oldest + place.request.wrapping_sub(self.oldest as u32) as u64
    }

    /// The next packet, if one may be sent now.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
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
        let again = match attributes.is_selective() {
            true => self.find_lost(attributes, requests),
            false => self.current.next().is_before(self.fresh.next()),
        };
        let place = if again { self.current } else { self.fresh };
        if state == State::Draining && !again && place.done == 0 {
            return None;
        }
        let number = self.number(&place);
        let checked = match requests.request(number)? {
            Ok(request) => legal(&request, attributes).map(|()| request),
            Err(status) => Err(status),
        };
        let request = match checked {
            Ok(request) => request,
            Err(status) => {
                // Those before it end first.
                if self.oldest == number {
                    self.fail(status);
                }
                return None;
            }
        };
        let total = request.packets(attributes.mtu);
        if !self.may_send(&request, &place, again, total, attributes) {
            return None;
        }
        let mut packet = packet(&request, number, &place, total, attributes)?;
        self.sent(&request, &place, again, total, attributes);
        if attributes.service == Service::Rc {
            self.follow(now_ns, &mut packet, again, attributes);
        } else {
            self.acknowledge_all_sent();
        }
        Some(packet)
    }

    /// Whether a peer without receives asked to wait, and the time is not over.
    pub(super) fn must_wait(&mut self, now_ns: u64) -> bool {
        if self.waits && now_ns >= self.deadline_ns {
            self.waits = false;
            self.deadline_ns = 0;
        }
        self.waits
    }

    /// Sequence numbers from the oldest place to this one.
    fn used(&self, place: &Place) -> u32 {
        place.next().diff(self.oldest_place().next()).max(0) as u32
    }

    /// Whether fence, window, and the number of reads let the packet at a place go.
    fn may_send(
        &self,
        request: &Request,
        place: &Place,
        again: bool,
        total: u32,
        attributes: &Attributes,
    ) -> bool {
        // What is repeated selectively was let go when it was new, and still counts.
        if attributes.service != Service::Rc || (again && attributes.is_selective()) {
            return true;
        }
        let used = self.used(place);
        if used >= attributes.most_under_way() {
            return false;
        }
        if place.done == 0 && request.fence && self.reads > 0 {
            return false;
        }
        if request.operation.is_fetch() {
            // Responses take numbers as well; old and new ones must be told apart.
            return self.reads < attributes.reads && used + total <= MOST_UNDER_WAY;
        }
        true
    }

    /// Moves the places behind the packet that was just made.
    fn sent(
        &mut self,
        request: &Request,
        place: &Place,
        again: bool,
        total: u32,
        attributes: &Attributes,
    ) {
        let selective = attributes.is_selective();
        let is_fetch = request.operation.is_fetch();
        if is_fetch && !(again && selective) {
            self.reads += 1;
        }
        let count = if is_fetch { total } else { 1 };
        let following = place.advanced(request, total, count);
        if !again {
            self.fresh = following;
        }
        if again || !selective {
            self.current = following;
        }
    }

    /// Sees to it that a packet is answered.
    fn follow(&mut self, now_ns: u64, packet: &mut Outgoing, again: bool, attributes: &Attributes) {
        let selective = attributes.is_selective();
        let most = attributes.most_under_way();
        let place = if again { &self.current } else { &self.fresh };
        let interval = (most / 4).max(1);
        packet.acknowledge |= self.used(place) >= most
            || packet.psn.value().is_multiple_of(interval)
            || (again && selective);
        if self.deadline_ns == 0 {
            self.arm(now_ns, attributes);
        }
        if selective && packet.acknowledge && !self.recovers && self.marked_ns == 0 {
            self.mark = packet.psn;
            self.marked_ns = now_ns as u32 | 1;
        }
    }

    /// Nobody answers: what was sent whole is done.
    fn acknowledge_all_sent(&mut self) {
        self.oldest = self.number(&self.fresh);
        self.oldest_psn = self.fresh.psn;
    }

    pub(super) fn arm(&mut self, now_ns: u64, attributes: &Attributes) {
        self.probes = 0;
        self.deadline_ns = match attributes.timeout_ns() {
            Some(timeout) => now_ns.saturating_add(timeout).max(1),
            None => 0,
        };
    }

    /// Selective: whether something is to be sent again; the current place is then what.
    fn find_lost(&mut self, attributes: &Attributes, requests: &impl Requests) -> bool {
        if !self.recovers {
            return false;
        }
        // A run a round, and a request at least: there are no more than packets under way.
        for _ in 0..=attributes.most_under_way() {
            let psn = self.current.next();
            if !psn.is_before(self.fresh.next()) {
                return false;
            }
            let run = self.arrived.run(psn);
            let is_lost = run == 0 && psn.is_before(self.limit);
            if is_lost {
                return true;
            }
            if run == 0 && !psn.is_before(self.mark) {
                return false;
            }
            let Some(Ok(request)) = requests.request(self.number(&self.current)) else {
                return false;
            };
            let total = request.packets(attributes.mtu);
            if run == 0 {
                // Sent while something before it was missing: what comes in turn was not taken.
                return comes_in_turn(&request, self.current.done, total, attributes.mtu);
            }
            let count = run.min(total.saturating_sub(self.current.done)).max(1);
            self.current = self.current.advanced(&request, total, count);
        }
        false
    }
}

/// Sequence numbers that may be under way: less than half of all.
const MOST_UNDER_WAY: u32 = (1 << 23) - 1;
