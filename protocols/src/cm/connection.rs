//! One connection: a slot of a table.

use super::event::{Cause, Transmit};
use super::table::Settings;
use super::terms::Terms;
use crate::wire::cm::rej::{self, Reason};
use crate::wire::cm::req::Transport;
use crate::wire::cm::{Bits, CommId, Datagram, Message, ServiceId, drep, dreq, sidr_rep};
use crate::wire::{FlowLabel, Gid, Guid, PKey, Psn, Qpn, TrafficClass};

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Nobody has the slot.
    Free,
    /// We asked.
    Asked,
    /// The peer agreed; our user is not ready yet.
    Agreed,
    /// The peer asked; our user has not answered yet.
    Pending,
    /// We agreed; the peer is not ready yet.
    Granted,
    /// It stands. Who asked repeats that it is ready as often as the agreement comes again.
    Established,
    /// We asked for the end.
    Leaving,
    /// It is over; what comes late is answered.
    Lingering,
    /// We asked for the queue pair of a datagram service.
    DatagramAsked,
    /// The peer asked for the queue pair of a datagram service; our user has not answered yet.
    DatagramPending,
    /// We told the queue pair of a datagram service; the answer is repeated when asked again.
    DatagramTold,
}

/// A slot of a [`Table`](super::Table). The caller makes as many as there may be connections.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    pub(super) state: State,
    pub(super) generation: u16,
    /// We asked.
    pub(super) is_active: bool,
    /// The message is to be sent.
    pub(super) is_due: bool,
    /// Repetitions that are left.
    pub(super) repeats: u8,
    pub(super) remote_id: CommId,
    pub(super) local_qp: Qpn,
    pub(super) service: ServiceId,
    pub(super) remote_adapter: Guid,
    /// What messages are called that we begin, and those that answer the peer.
    pub(super) own_transaction: u64,
    pub(super) peer_transaction: u64,
    /// How long the peer may take to answer.
    pub(super) peer_timeout: Bits<5>,
    /// When something is to be done unless it happens before.
    pub(super) deadline_ns: Option<u64>,
    pub(super) terms: Terms,
    /// What was sent last, and is repeated.
    pub(super) last: Datagram,
}

impl Connection {
    /// A slot that nobody has.
    pub const FREE: Self = Self {
        state: State::Free,
        generation: 0,
        is_active: false,
        is_due: false,
        repeats: 0,
        remote_id: CommId(0),
        local_qp: Qpn::new(0),
        service: ServiceId(0),
        remote_adapter: Guid(0),
        own_transaction: 0,
        peer_transaction: 0,
        peer_timeout: Bits::MAX,
        deadline_ns: None,
        terms: Terms {
            transport: Transport::Reliable,
            here: Gid([0; 16]),
            there: Gid([0; 16]),
            remote_qp: Qpn::new(0),
            send_psn: Psn::new(0),
            receive_psn: Psn::new(0),
            mtu: Bits::MAX,
            ack_timeout: Bits::MAX,
            retries: Bits::MAX,
            rnr_retries: Bits::MAX,
            reads: 0,
            reads_served: 0,
            pkey: PKey::DEFAULT,
            traffic_class: TrafficClass(0),
            hop_limit: 0,
            flow_label: FlowLabel::ZERO,
        },
        last: Datagram {
            transaction: 0,
            message: Message::Drep(drep::Repr {
                local_id: CommId(0),
                remote_id: CommId(0),
                private: [0; drep::PRIVATE],
            }),
        },
    };

    /// Keeps a message, to be sent now and repeated until it is answered.
    pub(super) fn say(&mut self, now_ns: u64, transaction: u64, message: Message) {
        self.say_once(transaction, message);
        self.deadline_ns = Some(now_ns.saturating_add(duration_ns(self.peer_timeout)));
    }

    /// Keeps a message, to be sent now.
    pub(super) fn say_once(&mut self, transaction: u64, message: Message) {
        self.last = Datagram {
            transaction,
            message,
        };
        self.is_due = true;
    }

    /// Moves on, to a state that ends by itself at `deadline_ns`, if at all.
    pub(super) fn become_state(&mut self, state: State, deadline_ns: Option<u64>) {
        self.state = state;
        self.deadline_ns = deadline_ns;
    }

    /// Whether the queue pair at the other end is taken up by this connection.
    pub(super) fn holds(&self, there: Gid, adapter: Guid, qp: Qpn) -> bool {
        matches!(
            self.state,
            State::Granted | State::Agreed | State::Established | State::Leaving
        ) && self.terms.there == there
            && self.remote_adapter == adapter
            && self.terms.remote_qp == qp
    }

    /// Time is up: what is repeated, or why it ends.
    pub(super) fn expire(
        &mut self,
        now_ns: u64,
        local_id: CommId,
        settings: &Settings,
    ) -> Option<Cause> {
        let linger_ns = Some(now_ns.saturating_add(settings.linger_ns));
        let cause = match self.state {
            State::Free | State::Established => {
                self.deadline_ns = None;
                return None;
            }
            State::Lingering | State::DatagramTold => {
                self.become_state(State::Free, None);
                self.is_due = false;
                return None;
            }
            State::Asked | State::Granted | State::Leaving | State::DatagramAsked
                if self.repeats > 0 =>
            {
                self.repeats -= 1;
                self.is_due = true;
                self.deadline_ns = Some(now_ns.saturating_add(duration_ns(self.peer_timeout)));
                return None;
            }
            State::Leaving => Cause::Left { is_heard: false },
            State::DatagramAsked => {
                // Nothing that comes late is answered.
                self.become_state(State::Free, None);
                return Some(Cause::NoAnswer);
            }
            State::DatagramPending => {
                self.tell(sidr_rep::Status::REJECTED);
                self.become_state(State::DatagramTold, linger_ns);
                return Some(Cause::Patience);
            }
            State::Asked | State::Granted => {
                self.refuse(local_id, Reason::TIMEOUT, [0; rej::PRIVATE]);
                Cause::NoAnswer
            }
            State::Pending | State::Agreed => {
                self.refuse(local_id, Reason::TIMEOUT, [0; rej::PRIVATE]);
                Cause::Patience
            }
        };
        self.become_state(State::Lingering, linger_ns);
        Some(cause)
    }

    /// Says no to what the peer said last, or takes back what it did not answer.
    pub(super) fn refuse(&mut self, local_id: CommId, reason: Reason, private: [u8; rej::PRIVATE]) {
        let (local_id, message, transaction) = match self.state {
            State::Pending => (CommId(0), REQUEST, self.peer_transaction),
            State::Agreed => (local_id, REPLY, self.own_transaction),
            State::Asked => (local_id, NONE, self.own_transaction),
            _ => (local_id, NONE, self.peer_transaction),
        };
        let message = Message::Rej(rej::Repr {
            local_id,
            remote_id: self.remote_id,
            message,
            information_length: Bits::default(),
            reason,
            information: [0; 72],
            private,
        });
        self.say_once(transaction, message);
    }

    /// Says that there is no queue pair for who asked for that of a datagram service.
    fn tell(&mut self, status: sidr_rep::Status) {
        let answer = sidr_rep::Repr::none(self.remote_id, self.service, status);
        self.say_once(self.peer_transaction, Message::SidrRep(answer));
    }

    /// The message that asks for the end.
    pub(super) fn leave(&self, local_id: CommId, private: [u8; dreq::PRIVATE]) -> Message {
        Message::Dreq(dreq::Repr {
            local_id,
            remote_id: self.remote_id,
            remote_qp: self.terms.remote_qp,
            private,
        })
    }

    /// A datagram on the connection's path.
    pub(super) fn transmit(&self, datagram: Datagram) -> Transmit {
        Transmit {
            here: self.terms.here,
            there: self.terms.there,
            traffic_class: self.terms.traffic_class,
            hop_limit: self.terms.hop_limit,
            flow_label: self.terms.flow_label,
            datagram,
        }
    }
}

/// 4.096 us times 2 to a code.
pub(super) const fn duration_ns(code: Bits<5>) -> u64 {
    4096 << code.value()
}

/// What a refusal is about.
pub(super) const REQUEST: Bits<2> = Bits::saturating(0);
pub(super) const REPLY: Bits<2> = Bits::saturating(1);
const NONE: Bits<2> = Bits::saturating(2);
