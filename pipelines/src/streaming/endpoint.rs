//! Endpoints of streams: an engine over one pair of rings of a NIC, and the slow path beside it.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that all tables are live"
)]

use std::mem::offset_of;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use warpwire_engine::streams::tables::{
    BUSY, CONNECT, Command, LISTEN, NO_CHUNK, NO_PLACE, StreamCounters, UNLISTEN,
};
use warpwire_engine::tables::Path;
use warpwire_gpu::executor::{Clock, Placement, ServiceHandle};
use warpwire_gpu::{Arena, CpuExecutor, Service};
use warpwire_nic::Nic;
use warpwire_ring::Cause;

use super::commands::{Answered, Commands};
use super::control::Control;
use super::driver::{self, Driver};
use super::error::Error;
use super::listener::Listener;
use super::settings::StreamConfig;
use super::slow::SlowCounters;
use super::stream::Stream;
use super::table::{Table, address_words};
use crate::messaging::Idle;
use crate::runtime::format_word;

/// An engine of streams that runs. It ends when the endpoint, its listeners and its streams are
/// dropped.
pub struct StreamEndpoint {
    /// The thread that steps it, if that is not whoever waits.
    _service: Option<ServiceHandle>,
    shared: Arc<Shared>,
}

/// What an endpoint, its listeners and its streams share.
pub(super) struct Shared {
    /// Goes before the memory that it works on.
    seat: Mutex<Seat>,
    control: Mutex<Control>,
    commands: Mutex<Commands>,
    /// Listeners that are in use.
    listeners: Mutex<Vec<bool>>,
    news: AtomicBool,
    clock: Clock,
    idle: Idle,
    pub(super) table: Table,
    _memory: Vec<Arc<Arena>>,
}

struct Seat {
    /// None after its end.
    driver: Option<Box<dyn Driver>>,
    ended: Option<Cause>,
    /// The host's part of the NIC, where the engine's thread has it as well.
    services: Vec<Box<dyn Service>>,
    /// Rounds, to look after the rest from time to time.
    rounds: u32,
}

/// Who has news: streams and listeners of which the engine did something. There is one for an
/// endpoint.
pub struct News(Arc<Shared>);

impl StreamEndpoint {
    /// An endpoint over the first pair of rings of a NIC, that whoever waits for something of it
    /// steps; it stands still at other times, so who serves peers calls [`StreamEndpoint::step`].
    /// `services` are the NIC's, if no executor has them: they are run as the engine is.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Slow`], memory that cannot be had; [`Error::Ended`] if the
    /// rings cannot be used.
    pub fn start_fused(
        clock: Clock,
        nic: &dyn Nic,
        services: Vec<Box<dyn Service>>,
        config: &StreamConfig,
    ) -> Result<Self, Error> {
        config.check()?;
        let rings = nic.queues().first().ok_or(Error::Setting {
            field: "nic",
            value: 0,
            must: "one with queues",
        })?;
        let table = Table::lay_out(rings, nic.caps(), config)?;
        let control = Control::new(config, nic.mac(), &table, clock.now_ns())?;
        let mut memory = vec![Arc::clone(&table.arena), Arc::clone(&table.chunks)];
        memory.extend(rings.memory.iter().cloned());
        let format = format_word(&rings.receive).unwrap_or("unknown");
        // SAFETY: the table holds the block and all that it points to, and the endpoint keeps the
        // memory; the rings are the NIC's first, driven by this engine alone.
        let driver = unsafe { driver::attach(format, table.block, &clock) };
        let driver = driver.map_err(|cause| Error::Ended { cause })?;
        let shared = Shared {
            seat: Mutex::new(Seat {
                driver: Some(driver),
                ended: None,
                services,
                rounds: 0,
            }),
            control: Mutex::new(control),
            commands: Mutex::new(Commands::new(&table)),
            listeners: Mutex::new(vec![false; config.listeners as usize]),
            news: AtomicBool::new(false),
            clock,
            idle: Arc::new(std::thread::yield_now),
            table,
            _memory: memory,
        };
        Ok(Self {
            _service: None,
            shared: Arc::new(shared),
        })
    }

    /// An endpoint that a thread of the executor steps; whoever waits does so too.
    ///
    /// # Errors
    /// As [`StreamEndpoint::start_fused`]; an executor that refuses.
    pub fn start_in_service(
        executor: &CpuExecutor,
        nic: &dyn Nic,
        config: &StreamConfig,
        placement: Placement,
    ) -> Result<Self, Error> {
        let mut endpoint = Self::start_fused(executor.clock(), nic, Vec::new(), config)?;
        let stepper = Stepper(Arc::clone(&endpoint.shared));
        endpoint._service = Some(executor.add_service(Box::new(stepper), placement)?);
        Ok(endpoint)
    }

    /// One step. Says whether there was work; no if another thread is at it.
    pub fn step(&self) -> bool {
        self.shared.step()
    }

    /// Listens at a port of an own address, or of all of a version.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Taken`], [`Error::Deadline`] if the engine does not answer.
    pub fn listen(&self, at: SocketAddr, patience: Duration) -> Result<Listener, Error> {
        Listener::new(&self.shared, at, patience)
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// [`Error::NoWay`], [`Error::Over`] if the peer refuses, [`Error::Deadline`],
    /// [`Error::Full`].
    pub fn connect(&self, to: SocketAddr, patience: Duration) -> Result<Stream, Error> {
        let started = Instant::now();
        let left = || patience.saturating_sub(started.elapsed());
        let path = self.shared.path(to.ip(), patience)?;
        for _ in 0..MOST_PORTS {
            let port = self.shared.port(to)?;
            let command = Command {
                kind: CONNECT,
                config: u32::from(to.is_ipv6()),
                port: u32::from(to.port()),
                path: Path {
                    source_port: port,
                    ..path
                },
                ..Command::default()
            };
            let answer = self.shared.command(&command, left())?;
            match answer.outcome {
                BUSY => {}
                NO_PLACE => return Err(full("a connection", "connections")),
                NO_CHUNK => return Err(full("the bytes of a connection", "open")),
                _ if answer.is_done() => {
                    let (place, generation) = (answer.place, answer.generation);
                    let mut stream = Stream::new(&self.shared, place, generation)?;
                    stream.wait_connected(left())?;
                    return Ok(stream);
                }
                outcome => {
                    let what = "open a connection";
                    return Err(Error::Refused { what, outcome });
                }
            }
        }
        Err(Error::Taken {
            what: "every port tried towards",
            address: to,
        })
    }

    /// Who has news, once.
    pub fn news(&self) -> Option<News> {
        let is_taken = self.shared.news.swap(true, Ordering::AcqRel);
        (!is_taken).then(|| News(Arc::clone(&self.shared)))
    }

    /// What the engine counted so far.
    pub fn counters(&self) -> StreamCounters {
        self.shared.counters()
    }

    /// What the slow path counted so far.
    pub fn slow_counters(&self) -> SlowCounters {
        lock(&self.shared.control).counters()
    }

    /// Whether the engine still runs.
    pub fn is_running(&self) -> bool {
        lock(&self.shared.seat).ended.is_none()
    }
}

impl News {
    /// Calls `each` with the number of every stream, as [`Stream::number`] says, and listener, as
    /// [`Listener::number`] says, of which the engine did something since the last time. Says
    /// whether there was any.
    pub fn drain(&self, mut each: impl FnMut(u32)) -> bool {
        let mut any = false;
        self.0.table.told.drain(|number| {
            any = true;
            each(number);
        });
        any
    }
}

impl Shared {
    /// One step. Says whether there was work; no if another thread is at it.
    pub(super) fn step(&self) -> bool {
        let mut seat = match self.seat.try_lock() {
            Ok(seat) => seat,
            Err(TryLockError::Poisoned(seat)) => seat.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let Some(driver) = &mut seat.driver else {
            return false;
        };
        let mut busy = match driver.step() {
            Ok(busy) => busy,
            Err(cause) => {
                seat.ended = Some(cause);
                seat.driver = None;
                return false;
            }
        };
        for service in &mut seat.services {
            busy |= service.run(SERVICE_BUDGET) > 0;
        }
        seat.rounds = seat.rounds.wrapping_add(1);
        if !busy || seat.rounds.is_multiple_of(CONTROL_PERIOD) {
            let mut commands = lock(&self.commands);
            let run = lock(&self.control).run(self.clock.now_ns(), &mut commands);
            busy |= run.unwrap_or(false);
        }
        busy
    }

    /// Steps until `look` finds something.
    pub(super) fn wait<T>(
        &self,
        what: &'static str,
        patience: Duration,
        mut look: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let started = Instant::now();
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            if self.step() {
                continue;
            }
            if let Ok(seat) = self.seat.try_lock()
                && let Some(cause) = seat.ended
            {
                return Err(Error::Ended { cause });
            }
            if started.elapsed() >= patience {
                return Err(Error::Deadline {
                    what,
                    waited: patience,
                });
            }
            (self.idle)();
        }
    }

    /// Gives a command and waits for the answer.
    fn command(&self, command: &Command, patience: Duration) -> Result<Answered, Error> {
        let what = "the engine did not answer";
        let number = self.wait(what, patience, || {
            Ok(lock(&self.commands).give(command, true)?)
        })?;
        let answer = self.wait(what, patience, || Ok(lock(&self.commands).answer(number)?));
        if answer.is_err() {
            lock(&self.commands).forget(number);
        }
        answer
    }

    /// The way to an address, but for the port here.
    fn path(&self, to: IpAddr, patience: Duration) -> Result<Path, Error> {
        self.wait("the next hop did not answer", patience, || {
            Ok(lock(&self.control).path(self.clock.now_ns(), to)?)
        })
    }

    /// The next port towards a peer.
    fn port(&self, to: SocketAddr) -> Result<u16, Error> {
        let mut control = lock(&self.control);
        let local = control.source(to.ip())?;
        let port = control.port(local, to.ip(), to.port());
        port.ok_or(Error::Taken {
            what: "every port towards",
            address: to,
        })
    }

    /// Takes a listener and makes the engine listen.
    pub(super) fn begin_to_listen(&self, at: SocketAddr, patience: Duration) -> Result<u32, Error> {
        let mut address = address_words(at.ip());
        if at.ip().is_unspecified() {
            address.words = [0; 4];
        }
        let mut listeners = lock(&self.listeners);
        let free = listeners.iter_mut().zip(0..).find(|(taken, _)| !**taken);
        let (taken, index) = free.ok_or_else(|| full("a listener", "listeners"))?;
        let command = Command {
            kind: LISTEN,
            listener: index,
            config: u32::from(at.is_ipv6()),
            backlog: self.table.backlog,
            port: u32::from(at.port()),
            path: Path {
                local: address.words,
                ip_version: address.ip_version as u8,
                ..Path::default()
            },
            ..Command::default()
        };
        let answer = self.command(&command, patience)?;
        match answer.outcome {
            BUSY => Err(Error::Taken {
                what: "port",
                address: at,
            }),
            _ if answer.is_done() => {
                *taken = true;
                Ok(index)
            }
            outcome => Err(Error::Refused {
                what: "listen",
                outcome,
            }),
        }
    }

    /// Listens no more. Who waited to be accepted is sent away, once the engine has heard.
    pub(super) fn end_to_listen(self: &Arc<Self>, index: u32) {
        let command = Command {
            kind: UNLISTEN,
            listener: index,
            ..Command::default()
        };
        if self.command(&command, LAST_PATIENCE).is_err() {
            // Then it may listen still: nobody else gets this one.
            return;
        }
        while let Ok(Some((place, generation))) = self.table.accept(index as usize) {
            // Dropping it unread aborts it.
            let stream = Stream::new(self, place, generation);
            drop(stream.map(Stream::abort));
        }
        if let Some(taken) = lock(&self.listeners).get_mut(index as usize) {
            *taken = false;
        }
    }

    fn counters(&self) -> StreamCounters {
        let at = |offset: usize| self.table.counter(offset);
        let mut counters = StreamCounters::default();
        macro_rules! read {
            ($($field:ident)*) => {
                $(counters.$field = at(offset_of!(StreamCounters, $field));)*
            };
        }
        read!(turns idle_turns received sent placed_bytes sent_bytes slow slow_lost injected);
        read!(inject_refused connected closed failed resets resets_held cookies accept_full);
        read!(no_place no_chunk answers_lost);
        for (index, drop) in counters.drops.iter_mut().enumerate() {
            *drop = at(offset_of!(StreamCounters, drops) + index * 8);
        }
        for (index, note) in counters.notes.iter_mut().enumerate() {
            *note = at(offset_of!(StreamCounters, notes) + index * 8);
        }
        counters
    }
}

/// Steps an endpoint on a thread of an executor.
struct Stepper(Arc<Shared>);

impl Service for Stepper {
    fn name(&self) -> &str {
        "streams"
    }

    fn run(&mut self, _budget: u32) -> u32 {
        u32::from(self.0.step())
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const fn full(what: &'static str, setting: &'static str) -> Error {
    Error::Full { what, setting }
}

/// Work of the NIC's services in a round.
const SERVICE_BUDGET: u32 = 256;
/// Rounds with work after which the slow path is looked at.
const CONTROL_PERIOD: u32 = 16;
/// Ports that are tried for a connection.
const MOST_PORTS: u32 = 256;
/// How long the engine may take for what is dropped.
const LAST_PATIENCE: Duration = Duration::from_secs(1);
