//! The connections of an adapter, and what their users do.

use super::connection::{Connection, State, duration_ns};
use super::event::{Event, Transmit};
use super::terms::{self, Ask, DatagramAnswer, DatagramAsk, Grant, Terms};
use crate::wire::cm::rej::Reason;
use crate::wire::cm::{
    Bits, CommId, Message, PortSpace, ServiceId, mra, rep, req, rtu, sidr_rep, sidr_req,
};
use crate::wire::{Gid, Guid, PKey};
use core::fmt;

/// What all connections of a table have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Our adapter.
    pub adapter: Guid,
    /// Hides the order of names that peers see. Random.
    pub secret: u32,
    /// Partition.
    pub pkey: PKey,
    /// The largest path MTU that is agreed to, coded: 1 to 5.
    pub mtu: Bits<4>,
    /// How long either end may take to answer a message: 4.096 us times 2 to it.
    pub response_timeout: Bits<5>,
    /// How often a message is repeated that nobody answers.
    pub repeats: Bits<4>,
    /// How long our user may take to answer: then the peer is told that nobody does.
    pub patience_ns: u64,
    /// How long a connection that is over keeps its slot, unless the slot is needed.
    pub linger_ns: u64,
    /// Requests that may wait for our user's answer at once.
    pub backlog: usize,
}

impl Settings {
    /// The values that Linux uses, for an adapter; `secret` is random.
    pub const fn new(adapter: Guid, secret: u32) -> Self {
        Self {
            adapter,
            secret,
            pkey: PKey::DEFAULT,
            mtu: Bits::saturating(5),
            response_timeout: Bits::saturating(20),
            repeats: Bits::MAX,
            patience_ns: 60_000_000_000,
            linger_ns: 10_000_000_000,
            backlog: 128,
        }
    }
}

/// Names a connection for its user.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Handle {
    pub(super) index: u16,
    pub(super) generation: u16,
}

/// A wish that cannot be met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misuse {
    /// Every slot is taken.
    Full,
    /// There is no such connection any more.
    Gone,
    /// The connection is not where this can be done.
    WrongState,
    /// Private data is too long, or addresses are of different families.
    PrivateData,
    /// A field that peers would refuse; its name.
    Field(&'static str),
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("every slot of the table is taken"),
            Self::Gone => f.write_str("there is no such connection any more"),
            Self::WrongState => f.write_str("the connection is not where this can be done"),
            Self::PrivateData => {
                f.write_str("the private data is too long, or the addresses are of two families")
            }
            Self::Field(name) => write!(f, "peers would refuse the {name}"),
        }
    }
}

impl core::error::Error for Misuse {}

/// The connections of an adapter.
#[derive(Debug)]
pub struct Table<'a> {
    pub(super) settings: Settings,
    /// At most 65,536 are used.
    pub(super) slots: &'a mut [Connection],
    services: &'a mut [Option<ServiceId>],
    /// Where `poll` goes on looking, and how many slots have something to send.
    cursor: usize,
}

impl<'a> Table<'a> {
    /// An empty table over slots for connections and for services.
    pub fn new(
        settings: Settings,
        slots: &'a mut [Connection],
        services: &'a mut [Option<ServiceId>],
    ) -> Self {
        slots.fill(Connection::FREE);
        services.fill(None);
        let count = slots.len().min(1 << 16);
        Self {
            settings,
            slots: slots.get_mut(..count).unwrap_or_default(),
            services,
            cursor: 0,
        }
    }

    /// Takes requests for a service from now on.
    ///
    /// # Errors
    /// [`Misuse::Full`].
    pub fn listen(&mut self, service: ServiceId) -> Result<(), Misuse> {
        if self.listens(service) {
            return Ok(());
        }
        let free = self.services.iter_mut().find(|slot| slot.is_none());
        *free.ok_or(Misuse::Full)? = Some(service);
        Ok(())
    }

    /// Takes no more requests for a service. Those that wait may still be answered.
    pub fn close(&mut self, service: ServiceId) {
        for slot in self
            .services
            .iter_mut()
            .filter(|slot| **slot == Some(service))
        {
            *slot = None;
        }
    }

    pub(super) fn listens(&self, service: ServiceId) -> bool {
        self.services.contains(&Some(service))
    }

    /// Whether a service is listened for, and none at a port of the `other` kind.
    pub(super) fn offers(&self, service: ServiceId, other: PortSpace) -> bool {
        let is_other = matches!(service.port(), Some((space, _)) if space == other);
        self.listens(service) && !is_other
    }

    /// Asks for a connection: [`Event::Agreed`] or [`Event::Ended`] will come.
    ///
    /// # Errors
    /// [`Misuse::Full`], [`Misuse::PrivateData`], [`Misuse::Field`].
    pub fn connect(&mut self, now_ns: u64, ask: &Ask<'_>) -> Result<Handle, Misuse> {
        let legal = [
            (matches!(ask.mtu.value(), 1..=5), "path MTU"),
            (ask.hop_limit != 0, "hop limit"),
            (ask.local_qp.value() > 1, "queue pair"),
            (ask.here.is_unicast(), "own address"),
            (ask.there.is_unicast(), "peer's address"),
            (is_connected(ask.transport), "service"),
        ];
        if let Some((_, name)) = legal.into_iter().find(|(is_legal, _)| !is_legal) {
            return Err(Misuse::Field(name));
        }
        let private = terms::private(ask.private, ask.source_port, ask.here, ask.there);
        let private = private.ok_or(Misuse::PrivateData)?;
        let settings = self.settings;
        let terms = Terms::asked(ask, settings.pkey);
        let (handle, local_id, slot) = self.take(now_ns).ok_or(Misuse::Full)?;
        slot.is_active = true;
        slot.local_qp = ask.local_qp;
        slot.service = ask.service;
        slot.own_transaction = ask.transaction;
        slot.terms = terms;
        slot.state = State::Asked;
        let request = req::Repr {
            local_id,
            service: ask.service,
            adapter: settings.adapter,
            qkey: 0,
            local_qp: ask.local_qp,
            responder_resources: ask.responder_resources,
            initiator_depth: ask.initiator_depth,
            remote_timeout: settings.response_timeout,
            transport: ask.transport,
            has_flow_control: false,
            starting_psn: ask.receive_psn,
            local_timeout: settings.response_timeout,
            retries: ask.retries,
            pkey: settings.pkey,
            mtu: ask.mtu,
            rnr_retries: ask.rnr_retries,
            max_cm_retries: settings.repeats,
            has_shared_receives: ask.has_shared_receives,
            extended_transport: Bits::default(),
            primary: terms.path(),
            alternate: crate::wire::cm::path::Repr::default(),
            private,
        };
        slot.say(now_ns, ask.transaction, Message::Req(request));
        Ok(handle)
    }

    /// Agrees to a request, [`Event::Asked`]; the queue pair receives already. What the connection
    /// agreed on; [`Event::Established`] or [`Event::Ended`] will come.
    ///
    /// # Errors
    /// [`Misuse::Gone`], [`Misuse::WrongState`], [`Misuse::PrivateData`], [`Misuse::Field`].
    pub fn accept(
        &mut self,
        now_ns: u64,
        handle: Handle,
        grant: &Grant<'_>,
    ) -> Result<Terms, Misuse> {
        let settings = self.settings;
        let local_id = self.id(handle);
        let slot = self.of(handle, &[State::Pending])?;
        if grant.local_qp.value() < 2 {
            return Err(Misuse::Field("queue pair"));
        }
        let terms = slot.terms.granted(grant);
        let private = terms::private(grant.private, None, terms.here, terms.there);
        let reply = rep::Repr {
            local_id,
            remote_id: slot.remote_id,
            qkey: 0,
            local_qp: grant.local_qp,
            starting_psn: grant.receive_psn,
            responder_resources: terms.reads_served,
            initiator_depth: terms.reads,
            ack_delay: grant.ack_delay,
            failover: Bits::default(),
            has_flow_control: false,
            rnr_retries: grant.rnr_retries,
            has_shared_receives: grant.has_shared_receives,
            adapter: settings.adapter,
            private: private.ok_or(Misuse::PrivateData)?,
        };
        slot.terms = terms;
        slot.local_qp = grant.local_qp;
        slot.own_transaction = grant.transaction;
        slot.state = State::Granted;
        slot.repeats = slot.repeats.min(settings.repeats.value());
        slot.say(now_ns, slot.peer_transaction, Message::Rep(reply));
        Ok(terms)
    }

    /// Refuses a request, [`Event::Asked`], or an agreement, [`Event::Agreed`]. No event follows.
    ///
    /// # Errors
    /// [`Misuse::Gone`], [`Misuse::WrongState`], [`Misuse::PrivateData`].
    pub fn reject(
        &mut self,
        now_ns: u64,
        handle: Handle,
        reason: Reason,
        private: &[u8],
    ) -> Result<(), Misuse> {
        let linger_ns = self.settings.linger_ns;
        let local_id = self.id(handle);
        let slot = self.of(handle, &[State::Pending, State::Agreed])?;
        let private = terms::private(private, None, slot.terms.here, slot.terms.there);
        let private = private.ok_or(Misuse::PrivateData)?;
        slot.refuse(local_id, reason, private);
        slot.become_state(State::Lingering, Some(now_ns.saturating_add(linger_ns)));
        Ok(())
    }

    /// Tells the peer that the answer to its request or agreement will take up to 4.096 us times 2
    /// to `timeout`, and gives our user as long.
    ///
    /// # Errors
    /// [`Misuse::Gone`], [`Misuse::WrongState`].
    pub fn delay(&mut self, now_ns: u64, handle: Handle, timeout: Bits<5>) -> Result<(), Misuse> {
        let local_id = self.id(handle);
        let slot = self.of(handle, &[State::Pending, State::Agreed])?;
        let message = Message::Mra(mra::Repr {
            local_id,
            remote_id: slot.remote_id,
            message: Bits::saturating(u8::from(slot.is_active)),
            timeout,
            private: [0; mra::PRIVATE],
        });
        slot.say_once(slot.peer_transaction, message);
        slot.deadline_ns = Some(now_ns.saturating_add(duration_ns(timeout)));
        Ok(())
    }

    /// Says after [`Event::Agreed`] that the queue pair is ready to send: the connection stands.
    ///
    /// # Errors
    /// [`Misuse::Gone`], [`Misuse::WrongState`], [`Misuse::PrivateData`].
    pub fn ready(&mut self, handle: Handle, private: &[u8]) -> Result<(), Misuse> {
        let local_id = self.id(handle);
        let slot = self.of(handle, &[State::Agreed])?;
        let private = terms::private(private, None, slot.terms.here, slot.terms.there);
        let message = Message::Rtu(rtu::Repr {
            local_id,
            remote_id: slot.remote_id,
            private: private.ok_or(Misuse::PrivateData)?,
        });
        slot.say_once(slot.own_transaction, message);
        slot.become_state(State::Established, None);
        Ok(())
    }

    /// Data came on the queue pair of a connection whose peer has not said yet that it is ready: it
    /// is, and its message was lost. No event follows.
    ///
    /// # Errors
    /// [`Misuse::Gone`], [`Misuse::WrongState`].
    pub fn heard(&mut self, handle: Handle) -> Result<(), Misuse> {
        let slot = self.of(handle, &[State::Granted, State::Established])?;
        if slot.state == State::Granted {
            slot.is_due = false;
            slot.become_state(State::Established, None);
        }
        Ok(())
    }

    /// Asks for the end of a connection: [`Event::Ended`] will come.
    ///
    /// # Errors
    /// [`Misuse::Gone`], [`Misuse::WrongState`], [`Misuse::PrivateData`].
    pub fn disconnect(
        &mut self,
        now_ns: u64,
        handle: Handle,
        private: &[u8],
    ) -> Result<(), Misuse> {
        let repeats = self.settings.repeats.value();
        let local_id = self.id(handle);
        let slot = self.of(handle, &[State::Established, State::Granted])?;
        let private = terms::private(private, None, slot.terms.here, slot.terms.there);
        let message = slot.leave(local_id, private.ok_or(Misuse::PrivateData)?);
        slot.state = State::Leaving;
        slot.repeats = repeats;
        slot.say(now_ns, slot.own_transaction, message);
        Ok(())
    }

    /// Asks for the queue pair of a datagram service: [`Event::Resolved`] or [`Event::Ended`] will
    /// come.
    ///
    /// # Errors
    /// [`Misuse::Full`], [`Misuse::PrivateData`], [`Misuse::Field`].
    pub fn resolve(&mut self, now_ns: u64, ask: &DatagramAsk<'_>) -> Result<Handle, Misuse> {
        let legal = [
            (ask.hop_limit != 0, "hop limit"),
            (ask.here.is_unicast(), "own address"),
            (ask.there.is_unicast(), "peer's address"),
        ];
        if let Some((_, name)) = legal.into_iter().find(|(is_legal, _)| !is_legal) {
            return Err(Misuse::Field(name));
        }
        let private = terms::private(ask.private, ask.source_port, ask.here, ask.there);
        let private = private.ok_or(Misuse::PrivateData)?;
        let pkey = self.settings.pkey;
        let (handle, request, slot) = self.take(now_ns).ok_or(Misuse::Full)?;
        slot.is_active = true;
        slot.service = ask.service;
        slot.terms.here = ask.here;
        slot.terms.there = ask.there;
        slot.terms.traffic_class = ask.traffic_class;
        slot.terms.hop_limit = ask.hop_limit;
        slot.state = State::DatagramAsked;
        let message = Message::SidrReq(sidr_req::Repr {
            request,
            pkey,
            service: ask.service,
            private,
        });
        slot.say(now_ns, ask.transaction, message);
        Ok(handle)
    }

    /// Stops asking for the queue pair of a datagram service. No event follows.
    ///
    /// # Errors
    /// [`Misuse::Gone`], [`Misuse::WrongState`].
    pub fn stop_asking(&mut self, handle: Handle) -> Result<(), Misuse> {
        let slot = self.of(handle, &[State::DatagramAsked])?;
        slot.is_due = false;
        slot.become_state(State::Free, None);
        Ok(())
    }

    /// Answers [`Event::AskedDatagram`]. The handle means nothing any more.
    ///
    /// # Errors
    /// [`Misuse::Gone`], [`Misuse::WrongState`], [`Misuse::PrivateData`], [`Misuse::Field`].
    pub fn tell(
        &mut self,
        now_ns: u64,
        handle: Handle,
        answer: &DatagramAnswer<'_>,
    ) -> Result<(), Misuse> {
        let linger_ns = self.settings.linger_ns;
        let slot = self.of(handle, &[State::DatagramPending])?;
        if answer.status == sidr_rep::Status::SUCCESS && answer.qp.value() < 2 {
            return Err(Misuse::Field("queue pair"));
        }
        let private = terms::private(answer.private, None, slot.terms.here, slot.terms.there);
        let message = Message::SidrRep(sidr_rep::Repr {
            request: slot.remote_id,
            status: answer.status,
            information_length: 0,
            qp: answer.qp,
            service: slot.service,
            qkey: answer.qkey,
            information: [0; 72],
            private: private.ok_or(Misuse::PrivateData)?,
        });
        slot.say_once(slot.peer_transaction, message);
        slot.become_state(State::DatagramTold, Some(now_ns.saturating_add(linger_ns)));
        Ok(())
    }

    /// What is to be sent next, if anything.
    pub fn poll(&mut self) -> Option<Transmit> {
        let count = self.slots.len();
        for step in 0..count {
            let index = (self.cursor + step) % count;
            let slot = self.slots.get_mut(index)?;
            if slot.is_due {
                slot.is_due = false;
                self.cursor = index + 1;
                return Some(slot.transmit(slot.last));
            }
        }
        None
    }

    /// When [`Table::on_timer`] is to be called, if nothing happens before.
    pub fn timeout_ns(&self) -> Option<u64> {
        self.slots.iter().filter_map(|slot| slot.deadline_ns).min()
    }

    /// Repeats messages whose answer is late, and gives connections up. To be called until it gives
    /// nothing.
    pub fn on_timer(&mut self, now_ns: u64) -> Option<(Handle, Event)> {
        let settings = self.settings;
        for index in 0..self.slots.len() {
            let handle = self.handle(index)?;
            let local_id = self.id(handle);
            let slot = self.slots.get_mut(index)?;
            if slot
                .deadline_ns
                .is_none_or(|deadline_ns| deadline_ns > now_ns)
            {
                continue;
            }
            if let Some(cause) = slot.expire(now_ns, local_id, &settings) {
                return Some((handle, Event::Ended(cause)));
            }
        }
        None
    }

    /// Connections that have a slot, those that linger included.
    pub fn count(&self) -> usize {
        let is_taken = |slot: &&Connection| slot.state != State::Free;
        self.slots.iter().filter(is_taken).count()
    }

    /// Requests that wait for our user.
    pub(super) fn waiting(&self) -> usize {
        let waits =
            |slot: &&Connection| matches!(slot.state, State::Pending | State::DatagramPending);
        self.slots.iter().filter(waits).count()
    }

    /// Takes a slot: a free one, or that of the connection which has been over for longest.
    pub(super) fn take(&mut self, now_ns: u64) -> Option<(Handle, CommId, &mut Connection)> {
        let is_free = |slot: &Connection| slot.state == State::Free;
        let index = self.slots.iter().position(is_free).or_else(|| {
            let over = self.slots.iter().enumerate().filter(|(_, slot)| {
                matches!(slot.state, State::Lingering | State::DatagramTold) && !slot.is_due
            });
            let oldest = over.min_by_key(|(_, slot)| slot.deadline_ns.unwrap_or(now_ns));
            oldest.map(|(index, _)| index)
        })?;
        let (secret, repeats) = (self.settings.secret, self.settings.repeats.value());
        let timeout = self.settings.response_timeout;
        let slot = self.slots.get_mut(index)?;
        let mut handle = Handle {
            index: index as u16,
            generation: slot.generation.wrapping_add(1),
        };
        // The name 0 stands for none.
        if name(handle, secret) == CommId(0) {
            handle.generation = handle.generation.wrapping_add(1);
        }
        *slot = Connection {
            generation: handle.generation,
            repeats,
            peer_timeout: timeout,
            ..Connection::FREE
        };
        Some((handle, name(handle, secret), slot))
    }

    /// What peers call a connection.
    pub(super) fn id(&self, handle: Handle) -> CommId {
        name(handle, self.settings.secret)
    }

    /// The connection that a peer names so.
    pub(super) fn named(&self, id: CommId) -> Option<Handle> {
        let bits = id.0 ^ self.settings.secret;
        let handle = self.handle((bits & 0xffff) as usize)?;
        (u32::from(handle.generation) == bits >> 16).then_some(handle)
    }

    /// The connection in a slot, if anybody has it.
    pub(super) fn handle(&self, index: usize) -> Option<Handle> {
        let generation = self.slots.get(index)?.generation;
        Some(Handle {
            index: index as u16,
            generation,
        })
    }

    /// A connection that its user names.
    pub(super) fn of(
        &mut self,
        handle: Handle,
        states: &[State],
    ) -> Result<&mut Connection, Misuse> {
        let slot = self.slots.get_mut(usize::from(handle.index));
        let slot = slot.filter(|slot| slot.generation == handle.generation);
        let is_over = |state| matches!(state, State::Free | State::Lingering | State::DatagramTold);
        match slot {
            Some(slot) if states.contains(&slot.state) => Ok(slot),
            Some(slot) if !is_over(slot.state) => Err(Misuse::WrongState),
            _ => Err(Misuse::Gone),
        }
    }

    /// The connection that a peer asked for under this name.
    pub(super) fn asked_by(&self, there: Gid, id: CommId, is_datagram: bool) -> Option<usize> {
        self.slots.iter().position(|slot| {
            let is_such = match slot.state {
                State::Free => false,
                State::DatagramPending | State::DatagramTold => is_datagram,
                _ => !is_datagram,
            };
            is_such && !slot.is_active && slot.terms.there == there && slot.remote_id == id
        })
    }
}

/// Whether it is a service of connected queue pairs that we have.
pub(super) fn is_connected(transport: req::Transport) -> bool {
    matches!(
        transport,
        req::Transport::Reliable | req::Transport::Unreliable
    )
}

fn name(handle: Handle, secret: u32) -> CommId {
    let bits = u32::from(handle.generation) << 16 | u32::from(handle.index);
    CommId(bits ^ secret)
}
