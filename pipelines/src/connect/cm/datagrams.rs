//! Datagram services: which queue pair has one, and its key (SIDR: service identifier resolution).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use warpwire_protocols::cm::{AskedDatagram, DatagramAnswer, DatagramAsk, Event, Handle, Misuse};
use warpwire_protocols::rdma::{self, Attributes, Start};
use warpwire_protocols::wire::cm::sidr_rep::Status;
use warpwire_protocols::wire::cm::{PortSpace, ServiceId, ip};
use warpwire_protocols::wire::{Gid, Psn, Qpn, TrafficClass};

use super::agent::Core;
use super::chance;
use super::manager::{Agent, Manager};
use crate::connect::Error;
use crate::messaging::{Device, Pair};

/// What a datagram service is asked for with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inquiry {
    /// Traffic class of the path.
    pub traffic_class: u8,
    /// Bytes for the user at the other end: at most 180.
    pub private: Vec<u8>,
}

/// The queue pair of a datagram service, at another host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// Its address.
    pub gid: Gid,
    /// Its number.
    pub qp: Qpn,
    /// Its key: datagrams with another are not taken.
    pub qkey: u32,
    /// Private data of the answer: 136 bytes, zeros behind what its user said.
    pub private: Vec<u8>,
}

/// The queue pair of a datagram service, of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// Its number.
    pub qp: Qpn,
    /// Its key; [`warpwire_protocols::wire::cm::DATAGRAM_QKEY`] is what Linux uses.
    pub qkey: u32,
    /// Bytes for the user at the other end: at most 136.
    pub private: Vec<u8>,
}

/// A question that was received, on its way to whoever listens.
pub(super) struct Question {
    handle: Handle,
    asked: Box<AskedDatagram>,
}

/// Makes a queue pair in its first state take datagrams with a key, from anybody, and send them on
/// the link that leads to `peer`. The sequence number of its first packet.
///
/// # Errors
/// What [`Device::path`] and [`Pair::connect`] refuse.
pub fn take_datagrams(
    device: &Device,
    pair: &mut Pair,
    peer: Gid,
    qkey: u32,
) -> Result<Psn, Error> {
    let attributes = Attributes {
        service: rdma::Service::Ud,
        mtu: device.mtu().unwrap_or_default(),
        qkey,
        ..Attributes::default()
    };
    let start = Start {
        send: Psn::new(chance() as u32),
        receive: Psn::new(0),
    };
    let number = pair.number();
    let path = device.path(&peer.0, number, number, 0)?;
    pair.connect(attributes, start, path)?;
    Ok(start.send)
}

impl Manager {
    /// Asks for the queue pair of the datagram service at a port.
    ///
    /// # Errors
    /// [`Error::Ended`] if the peer refuses or does not answer, [`Error::Late`], [`Error::Misuse`];
    /// what [`Device::path`] refuses.
    pub fn resolve(
        &self,
        device: &Device,
        to: SocketAddr,
        inquiry: &Inquiry,
        limit: Duration,
    ) -> Result<Resolved, Error> {
        let deadline = Instant::now() + limit;
        let there = Gid::of(to.ip().to_canonical());
        // Before anything is sent: is there a way?
        device.path(&there.0, 1, 1, inquiry.traffic_class)?;
        let (user, events) = channel();
        let (here, port, inquiry) = (Gid(device.gid()), to.port(), inquiry.clone());
        let asked = self.agent.with(move |core| {
            let ask = DatagramAsk {
                service: ServiceId::of_port(PortSpace::Udp, port),
                // Out of the range that systems give to who does not care.
                source_port: Some(0x8000 | chance() as u16),
                here,
                there,
                traffic_class: TrafficClass(inquiry.traffic_class),
                hop_limit: 64,
                transaction: chance(),
                private: &inquiry.private,
            };
            let handle = core.table.resolve(core.now_ns(), &ask)?;
            core.users.insert(handle, user);
            Ok::<Handle, Misuse>(handle)
        })?;
        let handle = asked?;
        let left = deadline.saturating_duration_since(Instant::now());
        let peer = to.to_string();
        match events.recv_timeout(left) {
            Ok(Event::Resolved(found)) => Ok(Resolved {
                gid: there,
                qp: found.qp,
                qkey: found.qkey,
                private: found.private.to_vec(),
            }),
            Ok(Event::Ended(cause)) => Err(Error::Ended {
                peer,
                cause: Box::new(cause),
            }),
            Ok(_) | Err(RecvTimeoutError::Disconnected) => Err(Error::Agent),
            Err(RecvTimeoutError::Timeout) => {
                self.agent.with(move |core| {
                    core.users.remove(&handle);
                    // The answer may have come meanwhile; then there is nothing to stop.
                    let _ = core.table.stop_asking(handle);
                })?;
                Err(Error::Late {
                    peer,
                    step: "the queue pair of a datagram service",
                    waited: limit,
                })
            }
        }
    }

    /// Takes questions for the queue pair of the datagram service at a port from now on.
    ///
    /// # Errors
    /// [`Error::Misuse`], [`Error::PortTaken`].
    pub fn listen_datagrams(&self, port: u16) -> Result<DatagramListener, Error> {
        let service = ServiceId::of_port(PortSpace::Udp, port);
        let (listener, questions) = channel();
        let is_free = self.agent.with(move |core| {
            let ServiceId(number) = service;
            if core.services.contains_key(&number) {
                return Ok(false);
            }
            core.table.listen(service)?;
            core.services.insert(number, listener);
            Ok::<bool, Misuse>(true)
        })?;
        match is_free? {
            true => Ok(DatagramListener {
                agent: Arc::clone(&self.agent),
                service,
                questions,
                port,
            }),
            false => Err(Error::PortTaken { port }),
        }
    }
}

impl Core<'_> {
    /// Hands a question to whoever listens.
    pub(super) fn ring_datagram(&mut self, handle: Handle, asked: AskedDatagram) {
        let ServiceId(number) = asked.service;
        let question = Question {
            handle,
            asked: Box::new(asked),
        };
        let listener: Option<&Sender<Question>> = self.services.get(&number);
        if listener.is_some_and(|listener| listener.send(question).is_ok()) {
            return;
        }
        // If its clock ended it meanwhile, it is refused already.
        let none = refusal(Status::UNSUPPORTED_SERVICE, &[]);
        let _ = self.table.tell(self.now_ns(), handle, &none);
    }
}

/// Hears questions for the queue pair of a datagram service.
pub struct DatagramListener {
    agent: Arc<Agent>,
    service: ServiceId,
    questions: Receiver<Question>,
    port: u16,
}

impl DatagramListener {
    /// Waits for a question.
    ///
    /// # Errors
    /// [`Error::NoQuestion`], [`Error::Agent`].
    pub fn accept(&self, wait: Duration) -> Result<DatagramCall, Error> {
        match self.questions.recv_timeout(wait) {
            Ok(question) => Ok(DatagramCall {
                agent: Arc::clone(&self.agent),
                question: Some(question),
            }),
            Err(RecvTimeoutError::Timeout) => Err(Error::NoQuestion {
                port: self.port,
                waited: wait,
            }),
            Err(RecvTimeoutError::Disconnected) => Err(Error::Agent),
        }
    }
}

impl Drop for DatagramListener {
    fn drop(&mut self) {
        let service = self.service;
        let closed = self.agent.with(move |core| {
            let ServiceId(number) = service;
            core.table.close(service);
            core.services.remove(&number);
        });
        // Those who wait are told that nobody answers.
        while closed.is_ok()
            && let Ok(question) = self.questions.try_recv()
        {
            drop(DatagramCall {
                agent: Arc::clone(&self.agent),
                question: Some(question),
            });
        }
    }
}

/// A question for the queue pair of a datagram service, to be answered or rejected; it is rejected
/// when it is dropped.
pub struct DatagramCall {
    agent: Arc<Agent>,
    question: Option<Question>,
}

impl DatagramCall {
    /// What is asked for.
    pub fn asked(&self) -> Option<&AskedDatagram> {
        self.question.as_ref().map(|question| &*question.asked)
    }

    /// Who asks.
    pub fn peer(&self) -> Option<IpAddr> {
        self.asked().map(|asked| asked.there.address())
    }

    /// Private data of the question, behind the IP addresses: 180 bytes, zeros behind what its user
    /// said.
    pub fn private(&self) -> &[u8] {
        let Some(asked) = self.asked() else {
            return &[];
        };
        let skip = asked.addresses.map_or(0, |_| ip::Header::LENGTH);
        asked.private.get(skip..).unwrap_or(&[])
    }

    /// Says which queue pair has the service. It receives already: the peer may send at once.
    ///
    /// # Errors
    /// [`Error::Misuse`] if it took too long, or the peer could make nothing of the answer;
    /// [`Error::Agent`].
    pub fn accept(mut self, service: &Service) -> Result<(), Error> {
        self.answer(&DatagramAnswer {
            status: Status::SUCCESS,
            qp: service.qp,
            qkey: service.qkey,
            private: &service.private,
        })
    }

    /// Says why there is no queue pair, with at most 136 bytes for the peer.
    ///
    /// # Errors
    /// [`Error::Misuse`], [`Error::Agent`].
    pub fn reject(mut self, status: Status, private: &[u8]) -> Result<(), Error> {
        if status == Status::SUCCESS {
            return Err(Misuse::Field("status").into());
        }
        self.answer(&refusal(status, private))
    }

    fn answer(&mut self, answer: &DatagramAnswer<'_>) -> Result<(), Error> {
        let Some(question) = &self.question else {
            return Ok(());
        };
        let (handle, private) = (question.handle, answer.private.to_vec());
        let (status, qp, qkey) = (answer.status, answer.qp, answer.qkey);
        let said = self.agent.with(move |core| {
            let answer = DatagramAnswer {
                status,
                qp,
                qkey,
                private: &private,
            };
            core.table.tell(core.now_ns(), handle, &answer)
        })?;
        // What was not said is left to the drop.
        said?;
        self.question = None;
        Ok(())
    }
}

impl Drop for DatagramCall {
    fn drop(&mut self) {
        // If the thread is gone, the peer's clocks end it; if it took too long, it is refused.
        let _ = self.answer(&refusal(Status::REJECTED, &[]));
    }
}

/// An answer that names no queue pair.
const fn refusal(status: Status, private: &[u8]) -> DatagramAnswer<'_> {
    DatagramAnswer {
        status,
        qp: Qpn::new(0),
        qkey: 0,
        private,
    }
}
