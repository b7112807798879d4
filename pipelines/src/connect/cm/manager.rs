//! What users do: ask, listen, accept, reject.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warpwire_protocols::cm::{Asked, Cause, Event, Handle, Misuse, Settings};
use warpwire_protocols::wire::cm::rej::Reason;
use warpwire_protocols::wire::cm::{Bits, PortSpace, ServiceId, ip};
use warpwire_protocols::wire::{Gid, Guid, Psn};

use super::agent::{self, Asking, Core, Task};
use super::chance;
use super::connection::{Connection, Offer};
use super::post::Post;
use crate::connect::Error;
use crate::messaging::{Device, Pair};

/// Manages the connections and the datagram services of a device. Its thread ends with the last
/// clone, listener, call and connection.
#[derive(Clone)]
pub struct Manager {
    pub(super) agent: Arc<Agent>,
}

/// The thread.
pub(super) struct Agent {
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Has something done on the thread.
    pub(super) fn with<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&mut Core<'a>) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, heard) = sync_channel(1);
        let task: Task = Box::new(move |core: &mut Core<'_>| {
            // Whoever asked may have stopped waiting.
            let _ = answer.send(work(core));
        });
        let tasks = self.tasks.as_ref().ok_or(Error::Agent)?;
        tasks.send(task).map_err(|_| Error::Agent)?;
        heard.recv_timeout(ANSWER).map_err(|_| Error::Agent)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.tasks.take());
        if let Some(thread) = self.thread.take() {
            // It says goodbye and ends within a bound.
            let _ = thread.join();
        }
    }
}

impl Manager {
    /// Takes queue pair 1 of a device that was opened with one.
    ///
    /// # Errors
    /// [`Error::Messaging`] if there is none, or it is taken; [`Error::Agent`].
    pub fn start(device: &Device) -> Result<Self, Error> {
        let post = Post::open(device, ANSWER)?;
        let place = device.place().clone();
        let settings = Settings {
            mtu: Bits::saturating(device.mtu().unwrap_or_default() as u8),
            response_timeout: RESPONSE_TIMEOUT,
            ..Settings::new(guid(device.mac()), chance() as u32)
        };
        let (tasks, wanted) = channel();
        let thread = std::thread::Builder::new()
            .name("warpwire-cm".to_owned())
            .spawn(move || agent::run(post, place, settings, &wanted))
            .map_err(|_| Error::Agent)?;
        Ok(Self {
            agent: Arc::new(Agent {
                tasks: Some(tasks),
                thread: Some(thread),
            }),
        })
    }

    /// Asks for a connection to a port, with a queue pair in its first state that may have receives
    /// posted. When this returns, the queue pair sends and receives.
    ///
    /// # Errors
    /// [`Cause::Rejected`], [`Error::Ended`], [`Error::Late`]; what [`Device::path`] and
    /// [`Pair::connect`] refuse.
    pub fn connect(
        &self,
        device: &Device,
        pair: &mut Pair,
        to: SocketAddr,
        offer: &Offer,
        limit: Duration,
    ) -> Result<Connection, Error> {
        let deadline = Instant::now() + limit;
        let peer = to.to_string();
        let there = Gid::of(to.ip().to_canonical());
        // Before anything is sent: is there a way?
        device.path(&there.0, pair.number(), 0, offer.traffic_class)?;
        let receive_psn = Psn::new(chance() as u32);
        let wish = offer.wish(device, there, pair.number(), receive_psn, to.port());
        let (user, events) = channel();
        let asked = self.agent.with(move |core| {
            let handle = core.table.connect(core.now_ns(), &wish.ask())?;
            core.users.insert(handle, user);
            Ok::<Handle, Misuse>(handle)
        })?;
        let mut connection = Connection::new(&self.agent, asked?, events, peer);
        match connection.next(deadline, "the answer to a request for a connection")? {
            Event::Agreed(agreed) => {
                connection.agree(agreed.terms, agreed.private.to_vec());
                offer.prepare(device, pair, &agreed.terms)?;
                let handle = connection.handle();
                let said = self.agent.with(move |core| core.table.ready(handle, &[]))?;
                said?;
                Ok(connection)
            }
            Event::Ended(cause) => Err(connection.over(cause)),
            _ => Err(connection.over(Cause::Stale)),
        }
    }

    /// Takes requests for connections to a port from now on.
    ///
    /// # Errors
    /// [`Error::Misuse`], [`Error::PortTaken`].
    pub fn listen(&self, port: u16) -> Result<Listener, Error> {
        let service = ServiceId::of_port(PortSpace::Tcp, port);
        let (listener, calls) = channel();
        let is_free = self.agent.with(move |core| {
            let ServiceId(number) = service;
            if core.listeners.contains_key(&number) {
                return Ok(false);
            }
            core.table.listen(service)?;
            core.listeners.insert(number, listener);
            Ok::<bool, Misuse>(true)
        })?;
        match is_free? {
            true => Ok(Listener {
                agent: Arc::clone(&self.agent),
                service,
                calls,
                port,
            }),
            false => Err(Error::PortTaken { port }),
        }
    }
}

/// Hears requests for connections to a port.
pub struct Listener {
    agent: Arc<Agent>,
    service: ServiceId,
    calls: Receiver<Asking>,
    port: u16,
}

impl Listener {
    /// Waits for a request.
    ///
    /// # Errors
    /// [`Error::NoCall`], [`Error::Agent`].
    pub fn accept(&self, wait: Duration) -> Result<Call, Error> {
        match self.calls.recv_timeout(wait) {
            Ok(asking) => Ok(Call {
                agent: Arc::clone(&self.agent),
                asking: Some(asking),
            }),
            Err(RecvTimeoutError::Timeout) => Err(Error::NoCall {
                port: self.port,
                waited: wait,
            }),
            Err(RecvTimeoutError::Disconnected) => Err(Error::Agent),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let service = self.service;
        let closed = self.agent.with(move |core| {
            let ServiceId(number) = service;
            core.table.close(service);
            core.listeners.remove(&number);
        });
        // Those who wait are told that nobody comes.
        while closed.is_ok()
            && let Ok(asking) = self.calls.try_recv()
        {
            drop(Call {
                agent: Arc::clone(&self.agent),
                asking: Some(asking),
            });
        }
    }
}

/// A request for a connection, to be accepted or rejected; it is rejected when it is dropped.
pub struct Call {
    agent: Arc<Agent>,
    asking: Option<Asking>,
}

impl Call {
    /// What is asked for.
    pub fn asked(&self) -> Option<&Asked> {
        self.asking.as_ref().map(|asking| &*asking.asked)
    }

    /// Who asks.
    pub fn peer(&self) -> Option<IpAddr> {
        self.asked().map(|asked| asked.terms.there.address())
    }

    /// Private data of the request, behind the IP addresses if it has such.
    pub fn private(&self) -> &[u8] {
        let Some(asked) = self.asked() else {
            return &[];
        };
        let skip = asked.addresses.map_or(0, |_| ip::Header::LENGTH);
        asked.private.get(skip..).unwrap_or(&[])
    }

    /// Accepts, with a queue pair in its first state that may have receives posted. When this
    /// returns, the queue pair sends and receives, and the peer has said that its own does.
    ///
    /// # Errors
    /// As [`Manager::connect`].
    pub fn accept(
        mut self,
        device: &Device,
        pair: &mut Pair,
        offer: &Offer,
        limit: Duration,
    ) -> Result<Connection, Error> {
        let deadline = Instant::now() + limit;
        let asking = self.asking.take().ok_or(Error::Agent)?;
        let terms = asking.asked.terms;
        let peer = terms.there.address().to_string();
        let mut connection = Connection::new(&self.agent, asking.handle, asking.events, peer);
        if !offer.serves(terms.transport) {
            connection.refuse(Reason::INVALID_TRANSPORT, &[]);
            return Err(connection.wrong("service", "is not the one that is offered here"));
        }
        let grant = offer.grant(&terms, pair.number(), Psn::new(chance() as u32));
        let granted = grant.terms(terms);
        if let Err(error) = offer.prepare(device, pair, &granted) {
            connection.refuse(Reason::NO_RESOURCES, &[]);
            return Err(error);
        }
        let handle = connection.handle();
        let said = self.agent.with(move |core| {
            core.table
                .accept(core.now_ns(), handle, &grant.as_grant())
                .map(drop)
        })?;
        said?;
        connection.agree(granted, asking.asked.private.to_vec());
        match connection.next(deadline, "the word that the peer is ready")? {
            // Only who was ready leaves: that word was lost, and what came before is here.
            Event::Established(_) | Event::Ended(Cause::PeerLeft) => Ok(connection),
            Event::Ended(cause) => Err(connection.over(cause)),
            _ => Err(connection.over(Cause::Stale)),
        }
    }

    /// Rejects, with at most 148 bytes for the peer.
    ///
    /// # Errors
    /// [`Error::Misuse`], [`Error::Agent`].
    pub fn reject(mut self, reason: Reason, private: &[u8]) -> Result<(), Error> {
        match self.asking.take() {
            Some(asking) => refuse(&self.agent, asking.handle, reason, private),
            None => Ok(()),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(asking) = self.asking.take() {
            // If the thread is gone, the peer's clocks end it.
            let _ = refuse(&self.agent, asking.handle, Reason::CONSUMER, &[]);
        }
    }
}

/// Rejects a request or an agreement.
pub(super) fn refuse(
    agent: &Agent,
    handle: Handle,
    reason: Reason,
    private: &[u8],
) -> Result<(), Error> {
    let private = private.to_vec();
    let said = agent.with(move |core| {
        core.users.remove(&handle);
        core.table.reject(core.now_ns(), handle, reason, &private)
    })?;
    Ok(said?)
}

/// The identifier of an adapter, made of its Ethernet address.
const fn guid(mac: [u8; 6]) -> Guid {
    let [a, b, c, d, e, f] = mac;
    Guid(u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]))
}

/// How long the thread may take.
const ANSWER: Duration = Duration::from_secs(5);
/// Either end may take 4.096 us times 2 to this: a second.
const RESPONSE_TIMEOUT: Bits<5> = Bits::saturating(18);
