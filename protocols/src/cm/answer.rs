//! What a table does with the datagrams of its peers.

use super::connection::{Connection, REPLY, REQUEST, State, duration_ns};
use super::event::{
    Agreed, Asked, AskedDatagram, Cause, Event, Note, Reaction, Resolved, Transmit,
};
use super::table::{Handle, Table, is_connected};
use super::terms::{self, Terms};
use crate::wire::cm::rej::Reason;
use crate::wire::cm::{
    Bits, CommId, Datagram, Message, PortSpace, apr, drep, dreq, lap, mra, rej, rep, req, rtu,
    sidr_rep, sidr_req,
};
use crate::wire::{FlowLabel, Gid, TrafficClass};

/// How a datagram came.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    now_ns: u64,
    /// The peer's address.
    there: Gid,
    /// Our address.
    here: Gid,
    transaction: u64,
}

impl Arrival {
    /// An answer that belongs to no connection of ours.
    fn answer(&self, message: Message) -> Transmit {
        Transmit {
            here: self.here,
            there: self.there,
            traffic_class: TrafficClass(0),
            hop_limit: HOP_LIMIT,
            flow_label: FlowLabel::ZERO,
            datagram: Datagram {
                transaction: self.transaction,
                message,
            },
        }
    }

    /// A refusal of a message, whose sender calls its connection `remote_id`.
    fn refuse(&self, remote_id: CommId, message: Bits<2>, reason: Reason) -> Reaction {
        let refusal = rej::Repr {
            local_id: CommId(0),
            remote_id,
            message,
            information_length: Bits::default(),
            reason,
            information: [0; 72],
            private: [0; rej::PRIVATE],
        };
        Reaction::note(Note::Refused(reason)).answer(self.answer(Message::Rej(refusal)))
    }
}

impl Table<'_> {
    /// Takes the payload of a datagram for queue pair 1, that `there` sent to `here`; its checksum
    /// and its key were found right.
    pub fn on_datagram(&mut self, now_ns: u64, there: Gid, here: Gid, bytes: &[u8]) -> Reaction {
        let Datagram {
            transaction,
            message,
        } = match Datagram::parse(bytes) {
            Ok(datagram) => datagram,
            Err(reason) => return Reaction::note(Note::Malformed(reason)),
        };
        let arrival = Arrival {
            now_ns,
            there,
            here,
            transaction,
        };
        let reaction = match &message {
            Message::Req(request) => Ok(self.on_request(&arrival, request)),
            Message::Mra(wait) => self.on_wait(&arrival, wait),
            Message::Rej(refusal) => self.on_refusal(&arrival, refusal),
            Message::Rep(reply) => self.on_reply(&arrival, reply),
            Message::Rtu(ready) => self.on_ready(&arrival, ready),
            Message::Dreq(leave) => Ok(self.on_leave(&arrival, leave)),
            Message::Drep(left) => self.on_left(&arrival, left),
            Message::SidrReq(question) => Ok(self.on_question(&arrival, question)),
            Message::SidrRep(answer) => self.on_answer(&arrival, answer),
            Message::Lap(proposal) => self.on_proposal(&arrival, proposal),
            Message::Apr(_) => Err(Note::Unexpected),
        };
        reaction.unwrap_or_else(Reaction::note)
    }

    /// The connection that a message names, if it comes from its peer, who calls it `remote_id`.
    fn addressed(
        &mut self,
        arrival: &Arrival,
        id: CommId,
        remote_id: Option<CommId>,
    ) -> Result<(Handle, CommId, &mut Connection), Note> {
        let handle = self.named(id).ok_or(Note::Unknown)?;
        let local_id = self.id(handle);
        let slot = self.slots.get_mut(usize::from(handle.index));
        let slot = slot.filter(|slot| slot.state != State::Free);
        let slot = slot.ok_or(Note::Unknown)?;
        let is_peer = slot.terms.there == arrival.there && slot.terms.here == arrival.here;
        if !is_peer || remote_id.is_some_and(|id| id != slot.remote_id) {
            return Err(Note::WrongPeer);
        }
        Ok((handle, local_id, slot))
    }

    fn linger(&self, arrival: &Arrival) -> Option<u64> {
        Some(arrival.now_ns.saturating_add(self.settings.linger_ns))
    }

    fn on_request(&mut self, arrival: &Arrival, request: &req::Repr) -> Reaction {
        if let Some(index) = self.asked_by(arrival.there, request.local_id, false) {
            return self.on_request_again(arrival, request, index);
        }
        if let Err(reason) = self.examine(arrival, request) {
            return arrival.refuse(request.local_id, REQUEST, reason);
        }
        let holds =
            |slot: &Connection| slot.holds(arrival.there, request.adapter, request.local_qp);
        if let Some(index) = self.slots.iter().position(holds) {
            let refusal = arrival.refuse(request.local_id, REQUEST, Reason::STALE_CONNECTION);
            return Reaction {
                event: self.forget(arrival, index),
                ..refusal
            };
        }
        let deadline_ns = arrival.now_ns.saturating_add(self.settings.patience_ns);
        if self.waiting() >= self.settings.backlog {
            return arrival.refuse(request.local_id, REQUEST, Reason::NO_RESOURCES);
        }
        let Some((handle, _, slot)) = self.take(arrival.now_ns) else {
            return arrival.refuse(request.local_id, REQUEST, Reason::NO_RESOURCES);
        };
        let terms = Terms::offered(request);
        slot.remote_id = request.local_id;
        slot.remote_adapter = request.adapter;
        slot.service = request.service;
        slot.peer_transaction = arrival.transaction;
        slot.peer_timeout = request.local_timeout;
        slot.repeats = request.max_cm_retries.value();
        slot.terms = terms;
        slot.become_state(State::Pending, Some(deadline_ns));
        let asked = Asked {
            service: request.service,
            addresses: terms::addresses(request.service, PortSpace::Tcp, &request.private),
            terms,
            private: request.private,
        };
        Reaction::event(handle, Event::Asked(asked))
    }

    /// A request that came before: its answer is sent again, if there is one.
    fn on_request_again(
        &mut self,
        arrival: &Arrival,
        request: &req::Repr,
        index: usize,
    ) -> Reaction {
        let Some(slot) = self.slots.get_mut(index) else {
            return Reaction::note(Note::Unknown);
        };
        match slot.state {
            State::Pending => slot.is_due = matches!(slot.last.message, Message::Mra(_)),
            State::Granted => slot.is_due = true,
            // What was refused is refused again; what is over is not begun again.
            State::Lingering => match slot.last.message {
                Message::Rej(_) => slot.is_due = true,
                _ => return arrival.refuse(request.local_id, REQUEST, Reason::STALE_CONNECTION),
            },
            _ => {}
        }
        Reaction::note(Note::Duplicate)
    }

    /// What is wrong with a request, if anything.
    fn examine(&self, arrival: &Arrival, request: &req::Repr) -> Result<(), Reason> {
        let path = &request.primary;
        let rules = [
            (
                self.offers(request.service, PortSpace::Udp),
                Reason::INVALID_SERVICE_ID,
            ),
            (is_connected(request.transport), Reason::INVALID_TRANSPORT),
            (path.remote_gid == arrival.here, Reason::INVALID_GID),
            // An answer goes to who asked, and to nobody else.
            (path.local_gid == arrival.there, Reason::UNSUPPORTED_REQUEST),
            (path.hop_limit != 0, Reason::INVALID_HOP_LIMIT),
            (
                (1..=self.settings.mtu.value()).contains(&request.mtu.value()),
                Reason::INVALID_MTU,
            ),
            (
                self.settings.pkey.matches(request.pkey),
                Reason::UNSUPPORTED_REQUEST,
            ),
            (request.local_qp.value() > 1, Reason::UNSUPPORTED_REQUEST),
        ];
        match rules.into_iter().find(|(is_met, _)| !is_met) {
            Some((_, reason)) => Err(reason),
            None => Ok(()),
        }
    }

    /// Ends a connection that the peer has forgotten.
    fn forget(&mut self, arrival: &Arrival, index: usize) -> Option<(Handle, Event)> {
        let linger = self.linger(arrival);
        let handle = self.handle(index)?;
        let local_id = self.id(handle);
        let slot = self.slots.get_mut(index)?;
        let message = slot.leave(local_id, [0; dreq::PRIVATE]);
        slot.say_once(slot.own_transaction, message);
        slot.become_state(State::Lingering, linger);
        Some((handle, Event::Ended(Cause::Stale)))
    }

    /// The peer takes longer to answer.
    fn on_wait(&mut self, arrival: &Arrival, wait: &mra::Repr) -> Result<Reaction, Note> {
        let (_, _, slot) = self.addressed(arrival, wait.remote_id, None)?;
        let is_about = match slot.state {
            State::Asked => REQUEST,
            State::Granted if wait.local_id == slot.remote_id => REPLY,
            _ => return Err(Note::Unexpected),
        };
        if wait.message != is_about {
            return Err(Note::Unexpected);
        }
        let patience_ns = duration_ns(wait.timeout).saturating_add(duration_ns(slot.peer_timeout));
        slot.deadline_ns = Some(arrival.now_ns.saturating_add(patience_ns));
        slot.is_due = false;
        Ok(Reaction::default())
    }

    fn on_refusal(&mut self, arrival: &Arrival, refusal: &rej::Repr) -> Result<Reaction, Note> {
        let linger = self.linger(arrival);
        // Who gave up asking does not know our name for it.
        let asked = self.asked_by(arrival.there, refusal.local_id, false);
        let id = match asked.and_then(|index| self.handle(index)) {
            Some(handle) if refusal.remote_id == CommId(0) => self.id(handle),
            _ => refusal.remote_id,
        };
        let (handle, _, slot) = self.addressed(arrival, id, None)?;
        let is_named = slot.remote_id == refusal.local_id;
        let is_heard = match slot.state {
            // The peer may have no name for what it refuses.
            State::Asked => refusal.message != REPLY,
            State::Agreed | State::Pending | State::Established => is_named,
            State::Granted => is_named || refusal.message == REPLY,
            State::Leaving => {
                slot.become_state(State::Lingering, linger);
                slot.is_due = false;
                let cause = Cause::Left { is_heard: true };
                return Ok(Reaction::event(handle, Event::Ended(cause)));
            }
            _ => return Err(Note::Duplicate),
        };
        if !is_heard {
            return Err(Note::Unexpected);
        }
        slot.become_state(State::Lingering, linger);
        slot.is_due = false;
        let cause = Cause::Rejected {
            reason: refusal.reason,
            private: refusal.private,
        };
        Ok(Reaction::event(handle, Event::Ended(cause)))
    }

    fn on_reply(&mut self, arrival: &Arrival, reply: &rep::Repr) -> Result<Reaction, Note> {
        let deadline_ns = arrival.now_ns.saturating_add(self.settings.patience_ns);
        let holder = self.slots.iter().position(|slot| {
            slot.holds(arrival.there, reply.adapter, reply.local_qp)
                && slot.remote_id != reply.local_id
        });
        let (handle, local_id, slot) = match self.addressed(arrival, reply.remote_id, None) {
            Ok(found) => found,
            // Tells the peer not to ask again.
            Err(note) => {
                let refusal = arrival.refuse(reply.local_id, REPLY, Reason::INVALID_COMM_ID);
                return Ok(Reaction {
                    note: Some(note),
                    ..refusal
                });
            }
        };
        let is_known = slot.is_active && slot.remote_id == reply.local_id;
        match slot.state {
            State::Asked if holder.is_none() => {}
            State::Asked => {
                slot.remote_id = reply.local_id;
                slot.state = State::Agreed;
                slot.refuse(local_id, Reason::STALE_CONNECTION, [0; rej::PRIVATE]);
                slot.become_state(State::Lingering, Some(deadline_ns));
                return Ok(Reaction::event(handle, Event::Ended(Cause::Stale)));
            }
            // The message that we are ready was lost; or we said that it takes time.
            State::Established | State::Agreed if is_known => {
                slot.is_due |= matches!(slot.last.message, Message::Rtu(_) | Message::Mra(_));
                return Err(Note::Duplicate);
            }
            State::Lingering if is_known && matches!(slot.last.message, Message::Rej(_)) => {
                slot.is_due = true;
                return Err(Note::Duplicate);
            }
            _ => return Err(Note::Unexpected),
        }
        slot.remote_id = reply.local_id;
        slot.remote_adapter = reply.adapter;
        slot.peer_transaction = arrival.transaction;
        slot.terms = slot.terms.agreed(reply);
        slot.is_due = false;
        slot.become_state(State::Agreed, Some(deadline_ns));
        let agreed = Agreed {
            terms: slot.terms,
            private: reply.private,
        };
        Ok(Reaction::event(handle, Event::Agreed(agreed)))
    }

    fn on_ready(&mut self, arrival: &Arrival, ready: &rtu::Repr) -> Result<Reaction, Note> {
        let (handle, _, slot) = self.addressed(arrival, ready.remote_id, Some(ready.local_id))?;
        match slot.state {
            State::Granted => {
                slot.is_due = false;
                slot.become_state(State::Established, None);
                Ok(Reaction::event(handle, Event::Established(ready.private)))
            }
            State::Established if !slot.is_active => Err(Note::Duplicate),
            _ => Err(Note::Unexpected),
        }
    }

    /// The peer ends the connection. It is told that we do too, also when we know of none: then our
    /// answer was lost.
    fn on_leave(&mut self, arrival: &Arrival, leave: &dreq::Repr) -> Reaction {
        let linger = self.linger(arrival);
        let answer = arrival.answer(Message::Drep(drep::Repr {
            local_id: leave.remote_id,
            remote_id: leave.local_id,
            private: [0; drep::PRIVATE],
        }));
        let found = self.addressed(arrival, leave.remote_id, Some(leave.local_id));
        let (handle, _, slot) = match found {
            Ok(found) => found,
            Err(Note::Unknown) => return Reaction::note(Note::Unknown).answer(answer),
            Err(note) => return Reaction::note(note),
        };
        if leave.remote_qp != slot.local_qp {
            return Reaction::note(Note::WrongPeer);
        }
        let cause = match slot.state {
            State::Leaving => Cause::Left { is_heard: true },
            State::Established | State::Granted | State::Agreed => Cause::PeerLeft,
            State::Lingering => return Reaction::note(Note::Duplicate).answer(answer),
            _ => return Reaction::note(Note::Unexpected),
        };
        slot.become_state(State::Lingering, linger);
        slot.is_due = false;
        let answer = slot.transmit(answer.datagram);
        Reaction::event(handle, Event::Ended(cause)).answer(answer)
    }

    fn on_left(&mut self, arrival: &Arrival, left: &drep::Repr) -> Result<Reaction, Note> {
        let linger = self.linger(arrival);
        let (handle, _, slot) = self.addressed(arrival, left.remote_id, Some(left.local_id))?;
        match slot.state {
            State::Leaving => {
                slot.become_state(State::Lingering, linger);
                slot.is_due = false;
                let cause = Cause::Left { is_heard: true };
                Ok(Reaction::event(handle, Event::Ended(cause)))
            }
            State::Lingering => Err(Note::Duplicate),
            _ => Err(Note::Unexpected),
        }
    }

    fn on_question(&mut self, arrival: &Arrival, question: &sidr_req::Repr) -> Reaction {
        let asked = self.asked_by(arrival.there, question.request, true);
        if let Some(slot) = asked.and_then(|index| self.slots.get_mut(index)) {
            let is_same = slot.service == question.service
                && slot.peer_transaction == arrival.transaction
                && slot.terms.here == arrival.here;
            match slot.state {
                State::DatagramTold if is_same => slot.is_due = true,
                // Who has begun anew uses its names again, and the old answer is nobody's.
                State::DatagramTold => {
                    slot.become_state(State::Free, None);
                    slot.is_due = false;
                    return self.on_new_question(arrival, question);
                }
                _ if !is_same => return Reaction::note(Note::Unexpected),
                _ => {}
            }
            return Reaction::note(Note::Duplicate);
        }
        self.on_new_question(arrival, question)
    }

    fn on_new_question(&mut self, arrival: &Arrival, question: &sidr_req::Repr) -> Reaction {
        let deadline_ns = arrival.now_ns.saturating_add(self.settings.patience_ns);
        let is_offered = self.offers(question.service, PortSpace::Tcp)
            && self.settings.pkey.matches(question.pkey);
        if !is_offered {
            let status = sidr_rep::Status::UNSUPPORTED_SERVICE;
            return arrival.turn_away(question, status, Reason::INVALID_SERVICE_ID);
        }
        let addresses = terms::addresses(question.service, PortSpace::Udp, &question.private);
        if addresses.is_none() && question.service.port().is_some() {
            let status = sidr_rep::Status::REJECTED;
            return arrival.turn_away(question, status, Reason::UNSUPPORTED_REQUEST);
        }
        let is_full = self.waiting() >= self.settings.backlog;
        let slot = if is_full {
            None
        } else {
            self.take(arrival.now_ns)
        };
        let Some((handle, _, slot)) = slot else {
            let status = sidr_rep::Status::NO_QUEUE_PAIR;
            return arrival.turn_away(question, status, Reason::NO_RESOURCES);
        };
        slot.remote_id = question.request;
        slot.service = question.service;
        slot.peer_transaction = arrival.transaction;
        slot.terms.here = arrival.here;
        slot.terms.there = arrival.there;
        slot.terms.hop_limit = HOP_LIMIT;
        slot.become_state(State::DatagramPending, Some(deadline_ns));
        let asked = AskedDatagram {
            service: question.service,
            here: arrival.here,
            there: arrival.there,
            addresses,
            private: question.private,
        };
        Reaction::event(handle, Event::AskedDatagram(asked))
    }

    fn on_answer(&mut self, arrival: &Arrival, answer: &sidr_rep::Repr) -> Result<Reaction, Note> {
        let (handle, _, slot) = self.addressed(arrival, answer.request, None)?;
        match slot.state {
            // Queue pairs 0 and 1 carry no service's datagrams.
            State::DatagramAsked
                if answer.service == slot.service
                    && (answer.status != sidr_rep::Status::SUCCESS || answer.qp.value() > 1) => {}
            State::DatagramAsked => return Err(Note::Unexpected),
            _ => return Err(Note::Duplicate),
        }
        slot.become_state(State::Free, None);
        slot.is_due = false;
        let event = match answer.status {
            sidr_rep::Status::SUCCESS => Event::Resolved(Resolved {
                qp: answer.qp,
                qkey: answer.qkey,
                private: answer.private,
            }),
            status => Event::Ended(Cause::Refused(status)),
        };
        Ok(Reaction::event(handle, event))
    }

    /// Nobody here takes another path.
    fn on_proposal(&mut self, arrival: &Arrival, proposal: &lap::Repr) -> Result<Reaction, Note> {
        let (_, local_id, slot) =
            self.addressed(arrival, proposal.remote_id, Some(proposal.local_id))?;
        let answer = apr::Repr {
            local_id,
            remote_id: slot.remote_id,
            information_length: 0,
            status: apr::NOT_SUPPORTED,
            information: [0; 72],
            private: [0; apr::PRIVATE],
        };
        let datagram = Datagram {
            transaction: arrival.transaction,
            message: Message::Apr(answer),
        };
        Ok(Reaction::note(Note::Unexpected).answer(slot.transmit(datagram)))
    }
}

impl Arrival {
    /// An answer that there is no queue pair for a datagram service.
    fn turn_away(
        &self,
        question: &sidr_req::Repr,
        status: sidr_rep::Status,
        reason: Reason,
    ) -> Reaction {
        let answer = sidr_rep::Repr::none(question.request, question.service, status);
        Reaction::note(Note::Refused(reason)).answer(self.answer(Message::SidrRep(answer)))
    }
}

/// The hop limit of answers that belong to no connection.
const HOP_LIMIT: u8 = 64;
