//! A connection, and what an end offers for it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use warpwire_protocols::cm::{Ask, Cause, Event, Grant, Handle, Misuse, Terms};
use warpwire_protocols::rdma::{Attributes, Mtu, Service, Start};
use warpwire_protocols::wire::cm::rej::Reason;
use warpwire_protocols::wire::cm::req::Transport;
use warpwire_protocols::wire::cm::{Bits, PortSpace, ServiceId};
use warpwire_protocols::wire::{FlowLabel, Gid, Psn, Qpn, TrafficClass};

use super::chance;
use super::manager::{Agent, refuse};
use crate::connect::Error;
use crate::messaging::{Device, Pair};

/// What an end offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The service, of connected queue pairs.
    pub service: Service,
    /// Reads and atomics that we may have under way.
    pub reads: u8,
    /// Reads and atomics that we answer at once.
    pub reads_served: u8,
    /// The path MTU that is asked for; without one, the largest of the link.
    pub mtu: Option<Mtu>,
    /// After 4.096 us times 2 to it, what nobody acknowledged is repeated; for who asks.
    pub ack_timeout: u8,
    /// How often; for who asks.
    pub retries: u8,
    /// How often the peer repeats a packet that finds no receive here; 7 for ever.
    pub rnr_retries: u8,
    /// Traffic class of the path; for who asks.
    pub traffic_class: u8,
    /// Bytes for the user at the other end: 56 with a request, 196 with an answer.
    pub private: Vec<u8>,
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            service: Service::Rc,
            reads: MOST_READS,
            reads_served: MOST_READS,
            mtu: None,
            ack_timeout: 14,
            retries: 7,
            rnr_retries: 7,
            traffic_class: 0,
            private: Vec::new(),
        }
    }
}

/// An [`Ask`] with bytes of its own.
pub(super) struct Wish {
    ask: Ask<'static>,
    private: Vec<u8>,
}

impl Wish {
    pub(super) fn ask(&self) -> Ask<'_> {
        Ask {
            private: &self.private,
            ..self.ask
        }
    }
}

/// A [`Grant`] with bytes of its own.
pub(super) struct Granted {
    grant: Grant<'static>,
    private: Vec<u8>,
}

impl Granted {
    pub(super) fn as_grant(&self) -> Grant<'_> {
        Grant {
            private: &self.private,
            ..self.grant
        }
    }

    /// What holds once this is granted to who asked for `terms`.
    pub(super) fn terms(&self, terms: Terms) -> Terms {
        Terms {
            receive_psn: self.grant.receive_psn,
            reads: terms.reads.min(self.grant.initiator_depth),
            reads_served: terms.reads_served.min(self.grant.responder_resources),
            ..terms
        }
    }
}

impl Offer {
    /// What the peer is asked for.
    pub(super) fn wish(
        &self,
        device: &Device,
        there: Gid,
        number: u32,
        receive_psn: Psn,
        port: u16,
    ) -> Wish {
        let mtu = self.mtu.or(device.mtu()).unwrap_or_default();
        let ask = Ask {
            service: ServiceId::of_port(PortSpace::Tcp, port),
            // Out of the range that systems give to who does not care.
            source_port: Some(0x8000 | chance() as u16),
            transport: match self.service {
                Service::Uc => Transport::Unreliable,
                _ => Transport::Reliable,
            },
            here: Gid(device.gid()),
            there,
            local_qp: Qpn::new(number),
            receive_psn,
            responder_resources: self.reads_served,
            initiator_depth: self.reads,
            mtu: Bits::saturating(mtu as u8),
            ack_timeout: Bits::saturating(self.ack_timeout),
            retries: Bits::saturating(self.retries),
            rnr_retries: Bits::saturating(self.rnr_retries),
            has_shared_receives: false,
            traffic_class: TrafficClass(self.traffic_class),
            hop_limit: 64,
            flow_label: FlowLabel::ZERO,
            transaction: chance(),
            private: &[],
        };
        Wish {
            ask,
            private: self.private.clone(),
        }
    }

    /// Whether this is the service that is asked for.
    pub(super) fn serves(&self, transport: Transport) -> bool {
        let service = match transport {
            Transport::Unreliable => Service::Uc,
            _ => Service::Rc,
        };
        self.service == service
    }

    /// What the peer is granted.
    pub(super) fn grant(&self, terms: &Terms, number: u32, receive_psn: Psn) -> Granted {
        let grant = Grant {
            local_qp: Qpn::new(number),
            receive_psn,
            responder_resources: self.reads_served.min(terms.reads_served),
            initiator_depth: self.reads.min(terms.reads),
            ack_delay: Bits::saturating(0),
            rnr_retries: Bits::saturating(self.rnr_retries),
            has_shared_receives: false,
            transaction: chance(),
            private: &[],
        };
        Granted {
            grant,
            private: self.private.clone(),
        }
    }

    /// Makes a queue pair send and receive, on what was agreed.
    pub(super) fn prepare(
        &self,
        device: &Device,
        pair: &mut Pair,
        terms: &Terms,
    ) -> Result<(), Error> {
        let mtu = Mtu::from_code(terms.mtu.value()).unwrap_or_default();
        let attributes = Attributes {
            service: self.service,
            mtu,
            timeout: terms.ack_timeout.value(),
            retries: terms.retries.value(),
            rnr_retries: terms.rnr_retries.value(),
            reads: terms.reads.min(MOST_READS),
            reads_served: terms.reads_served.min(MOST_READS),
            pkey: terms.pkey,
            remote_qp: terms.remote_qp,
            ..Attributes::default()
        };
        let start = Start {
            send: terms.send_psn,
            receive: terms.receive_psn,
        };
        let (own, other) = (pair.number(), terms.remote_qp.value());
        let mut path = device.path(&terms.there.0, own, other, terms.traffic_class.0)?;
        path.hop_limit = terms.hop_limit;
        if terms.flow_label != FlowLabel::ZERO {
            // Both ends fold the label in the same way, and use one port.
            let label = terms.flow_label.value();
            path.source_port = 0xc000 | ((label & 0x3fff) ^ (label >> 14)) as u16;
        }
        Ok(pair.connect(attributes, start, path)?)
    }
}

/// A connection. It is ended when it is dropped.
pub struct Connection {
    agent: Arc<Agent>,
    handle: Handle,
    events: Receiver<Event>,
    peer: String,
    terms: Option<Terms>,
    private: Vec<u8>,
    ended: Option<Cause>,
}

impl Connection {
    pub(super) fn new(
        agent: &Arc<Agent>,
        handle: Handle,
        events: Receiver<Event>,
        peer: String,
    ) -> Self {
        Self {
            agent: Arc::clone(agent),
            handle,
            events,
            peer,
            terms: None,
            private: Vec::new(),
            ended: None,
        }
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle
    }

    pub(super) fn agree(&mut self, terms: Terms, private: Vec<u8>) {
        self.terms = Some(terms);
        self.private = private;
    }

    /// What was agreed.
    pub fn terms(&self) -> Option<&Terms> {
        self.terms.as_ref()
    }

    /// The private data of the peer's request or answer, IP addresses included.
    pub fn private(&self) -> &[u8] {
        &self.private
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Why it is over, if it is.
    pub fn ended(&mut self) -> Option<Cause> {
        while let Ok(event) = self.events.try_recv() {
            self.note(&event);
        }
        self.ended
    }

    /// Waits until it is over.
    ///
    /// # Errors
    /// [`Error::Late`], [`Error::Agent`].
    pub fn wait_end(&mut self, limit: Duration) -> Result<Cause, Error> {
        let deadline = Instant::now() + limit;
        while self.ended.is_none() {
            self.next(deadline, "the end of the connection")?;
        }
        self.ended.ok_or(Error::Agent)
    }

    /// Ends it, and waits until the peer agrees or is given up.
    ///
    /// # Errors
    /// [`Error::Late`], [`Error::Agent`].
    pub fn disconnect(mut self, limit: Duration) -> Result<Cause, Error> {
        if let Some(cause) = self.ended() {
            return Ok(cause);
        }
        let handle = self.handle;
        let said = self
            .agent
            .with(move |core| core.table.disconnect(core.now_ns(), handle, &[]))?;
        match said {
            Ok(()) | Err(Misuse::Gone) => self.wait_end(limit),
            Err(misuse) => Err(misuse.into()),
        }
    }

    fn note(&mut self, event: &Event) {
        if let Event::Ended(cause) = event {
            self.ended = Some(*cause);
        }
    }

    /// The next event.
    pub(super) fn next(&mut self, deadline: Instant, step: &'static str) -> Result<Event, Error> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.events.recv_timeout(left) {
            Ok(event) => {
                self.note(&event);
                Ok(event)
            }
            Err(RecvTimeoutError::Timeout) => Err(Error::Late {
                peer: self.peer.clone(),
                step,
                waited: left,
            }),
            Err(RecvTimeoutError::Disconnected) => Err(Error::Agent),
        }
    }

    /// Says no to a request or an agreement.
    pub(super) fn refuse(&mut self, reason: Reason, private: &[u8]) {
        // If the thread is gone, the peer's clocks end it.
        let _ = refuse(&self.agent, self.handle, reason, private);
        self.ended = Some(Cause::Left { is_heard: false });
    }

    pub(super) fn over(&self, cause: Cause) -> Error {
        Error::Ended {
            peer: self.peer.clone(),
            cause: Box::new(cause),
        }
    }

    pub(super) fn wrong(&self, field: &'static str, problem: &str) -> Error {
        Error::Field {
            peer: self.peer.clone(),
            field,
            problem: problem.to_owned(),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.ended().is_some() {
            return;
        }
        let handle = self.handle;
        // Nobody waits for the outcome; the table's clocks bound it.
        let _ = self.agent.with(move |core| core.abandon(handle));
    }
}

/// Reads and atomics that a queue pair keeps for its peer.
const MOST_READS: u8 = 16;
