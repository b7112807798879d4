//! A queue pair: requester, responder and rate of one end of a connection, or of all datagrams.

use super::attributes::{Attributes, Service, Start, State};
use super::packet::{Incoming, Outgoing};
use super::rate::{Notifier, Rate, Tuning};
use super::regions::Regions;
use super::request::{Receives, Requests};
use super::requester::{Fetched, Requester};
use super::responder::{Fetches, Landing, Received, Responder};
use super::status::{Note, Status};
use crate::wire::bth::Psn;
use crate::wire::opcode::{Class, Opcode};

/// Everything that a queue pair asks of whoever runs it.
pub trait Surroundings: Requests + Regions + Receives + Fetches {}

impl<S: Requests + Regions + Receives + Fetches> Surroundings for S {}

/// The state of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(128))]
pub struct QueuePair {
    attributes: Attributes,
    requester: Requester,
    responder: Responder,
    rate: Rate,
    notifier: Notifier,
    state: State,
    /// Answers were sent last: requests are next, if there are both.
    answered: bool,
}

const _: () = assert!(size_of::<QueuePair>() <= 256);

/// What came of a packet, in the order in which it is to be done: memory first, then completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivery {
    /// Memory that the peer's request changes.
    pub landing: Option<Landing>,
    /// Data of a response to a request of ours.
    pub fetched: Option<Fetched>,
    /// A receive that is complete.
    pub received: Option<Received>,
    /// What is to be counted.
    pub note: Option<Note>,
}

impl Delivery {
    fn note(note: Note) -> Self {
        Self {
            note: Some(note),
            ..Self::default()
        }
    }
}

/// A move that the specification does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IllegalMove {
    /// Where the queue pair stands.
    pub from: State,
    /// Where it was to go.
    pub to: State,
}

impl QueuePair {
    /// A queue pair that does nothing yet.
    pub fn new() -> Self {
        let attributes = Attributes::default();
        Self {
            attributes,
            requester: Requester::new(Psn::new(0), 0),
            responder: Responder::new(Psn::new(0)),
            rate: Rate::new(&Tuning::OFF),
            notifier: Notifier::default(),
            state: State::Reset,
            answered: false,
        }
    }

    /// Where it stands.
    pub const fn state(&self) -> State {
        self.state
    }

    /// What was agreed.
    pub const fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Its rate.
    pub const fn rate(&self) -> &Rate {
        &self.rate
    }

    /// The owner moves it to `to`; in [`State::Error`] everything posted comes back flushed.
    ///
    /// # Errors
    /// [`IllegalMove`].
    pub fn become_state(&mut self, to: State) -> Result<(), IllegalMove> {
        if !self.state.may_become(to) {
            let from = self.state;
            return Err(IllegalMove { from, to });
        }
        self.state = to;
        if to == State::Error {
            // What is under way comes back flushed.
            self.requester.fail(Status::Flushed);
        }
        Ok(())
    }

    /// After a send failed, the queue pair sends again, from request `first` on; those before it
    /// were flushed. [`QueuePair::become_state`] alone leaves the failure where it is.
    ///
    /// # Errors
    /// [`IllegalMove`] from any other state than [`State::SendError`].
    pub fn resume(&mut self, first: u64) -> Result<(), IllegalMove> {
        let (from, to) = (self.state, State::ReadyToSend);
        if from != State::SendError {
            return Err(IllegalMove { from, to });
        }
        self.requester.resume(first);
        self.state = to;
        Ok(())
    }

    /// Says what was agreed, before the queue pair receives: what is sent begins with this sequence
    /// number, and with this request.
    pub fn connect(&mut self, attributes: Attributes, start: Start, first_request: u64) {
        self.attributes = attributes;
        self.requester = Requester::new(start.send, first_request);
        self.responder = Responder::new(start.receive);
    }

    /// Sets the rate back to the link's.
    pub fn tune(&mut self, tuning: &Tuning) {
        self.rate = Rate::new(tuning);
    }

    /// Every request before this one is completed with success.
    pub const fn completed(&self) -> u64 {
        self.requester.completed()
    }

    /// How request [`completed`](Self::completed) failed, if it did. All behind it are flushed: the
    /// queue pair is in [`State::Error`], or [`State::SendError`].
    pub const fn fault(&self) -> Option<Status> {
        self.requester.fault()
    }

    /// The sequence number of the peer's next request.
    pub const fn expected(&self) -> Psn {
        self.responder.expected()
    }

    /// A receive that was taken and not completed; in [`State::Error`] it is flushed first, and
    /// then [given back](Self::give_receive_back).
    pub const fn held_receive(&self) -> Option<super::request::PostedReceive> {
        self.responder.held_receive()
    }

    /// The receive that was taken and not completed was told to be flushed.
    pub const fn give_receive_back(&mut self) {
        self.responder.give_receive_back();
    }

    /// Whether everything that was begun is answered: a draining queue pair is drained.
    pub fn is_idle(&self) -> bool {
        self.requester.is_idle() && !self.responder.has_answer()
    }

    /// Fails: the request [`completed`](Self::completed) with `status`, all others flushed.
    pub fn fail(&mut self, status: Status) {
        self.requester.fail(status);
        self.settle();
    }

    /// The peer's last request could not be carried out here: it is told so, and the queue pair
    /// fails.
    pub fn cannot(&mut self) {
        self.responder.cannot();
    }

    /// Takes a packet for this queue pair, whose checksum, partition and addresses were found
    /// right; `is_marked` if it met congestion on its way.
    ///
    /// Not inlined, as [`QueuePair::poll`]: kernels of all ring formats share one copy.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    pub fn on_packet(
        &mut self,
        now_ns: u64,
        packet: &Incoming,
        is_marked: bool,
        tuning: &Tuning,
        around: &mut impl Surroundings,
    ) -> Delivery {
        if !self.state.receives() {
            return Delivery::note(Note::WrongState);
        }
        if packet.opcode == Opcode::CNP {
            self.rate.on_congestion(now_ns, tuning);
            return Delivery::note(Note::Congestion);
        }
        let service = match packet.opcode.class() {
            Class::Rc => Service::Rc,
            Class::Uc => Service::Uc,
            Class::Ud => Service::Ud,
            Class::Rd | Class::Cnp | Class::Xrc => return Delivery::note(Note::WrongClass),
        };
        if service != self.attributes.service {
            return Delivery::note(Note::WrongClass);
        }
        if is_marked && tuning.is_on {
            self.notifier.on_mark(now_ns);
        }
        if packet.opcode.is_response() {
            if !self.state.sends() {
                return Delivery::note(Note::WrongState);
            }
            let attributes = &self.attributes;
            let response = self
                .requester
                .on_response(now_ns, attributes, packet, around);
            self.settle();
            return Delivery {
                fetched: response.fetched,
                note: response.note,
                ..Delivery::default()
            };
        }
        let taken = match service {
            Service::Ud => self.responder.on_datagram(&self.attributes, packet, around),
            Service::Rc | Service::Uc => {
                self.responder.on_request(&self.attributes, packet, around)
            }
        };
        Delivery {
            landing: taken.landing,
            fetched: None,
            received: taken.received,
            note: taken.note,
        }
    }

    /// Tells what an atomic found, once it is done; see [`Landing::Atomic`].
    pub fn found(&mut self, around: &mut impl Fetches, slot: u32, value: u64) {
        self.responder.found(around, slot, value);
    }

    /// The next packet, if one may be sent now. Answers and requests take turns.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    pub fn poll(
        &mut self,
        now_ns: u64,
        tuning: &Tuning,
        around: &mut impl Surroundings,
    ) -> Option<Outgoing> {
        if self.notifier.take() {
            return Some(Outgoing::new(Opcode::CNP, Psn::new(0)));
        }
        self.rate.advance(now_ns, tuning);
        if self.rate.wait_until_ns(now_ns).is_some() {
            return None;
        }
        let answered = core::mem::take(&mut self.answered);
        let packet = match answered {
            true => self.request(now_ns, around).or_else(|| self.answer(around)),
            false => self.answer(around).or_else(|| self.request(now_ns, around)),
        }?;
        let bytes = packet.payload.length() + HEADER_BYTES;
        self.rate.on_sent(now_ns, bytes, tuning);
        Some(packet)
    }

    fn answer(&mut self, around: &mut impl Surroundings) -> Option<Outgoing> {
        if !self.state.receives() {
            return None;
        }
        let packet = self.responder.poll(&self.attributes, around);
        self.answered = packet.is_some();
        if self.responder.is_over() && !self.responder.has_answer() {
            self.requester.fail(Status::Flushed);
            self.state = State::Error;
        }
        packet
    }

    fn request(&mut self, now_ns: u64, around: &mut impl Surroundings) -> Option<Outgoing> {
        let (state, attributes) = (self.state, &self.attributes);
        let packet = self.requester.poll(now_ns, state, attributes, around);
        self.settle();
        packet
    }

    /// A request that failed fails the queue pair.
    fn settle(&mut self) {
        if self.requester.fault().is_none() || self.state == State::Reset {
            return;
        }
        self.state = match self.attributes.service {
            Service::Rc => State::Error,
            Service::Uc | Service::Ud => State::SendError,
        };
    }

    /// Looks at the clock.
    pub fn on_timer(&mut self, now_ns: u64) {
        if self.state.sends() {
            self.requester.on_timer(now_ns, &self.attributes);
            self.settle();
        }
    }

    /// When [`on_timer`](Self::on_timer) or [`poll`](Self::poll) wants to be called at the latest.
    pub fn timeout_ns(&self, now_ns: u64) -> Option<u64> {
        if !self.state.sends() {
            return None;
        }
        let timer = self.requester.timeout_ns(&self.attributes);
        match (timer, self.rate.wait_until_ns(now_ns)) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }
}

impl Default for QueuePair {
    fn default() -> Self {
        Self::new()
    }
}

/// What a packet has around its payload, as far as the rate is concerned.
const HEADER_BYTES: u32 = 62;
