//! TCP as what carries streams: an engine over one pair of rings of a NIC, and the slow path beside
//! it.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that all tables are live"
)]

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use warpwire_engine::streams::tables::{
    BUSY, CONNECT, Command, LISTEN, NO_CHUNK, NO_PLACE, UNLISTEN,
};
use warpwire_engine::tables::Path;
use warpwire_gpu::executor::Clock;
use warpwire_gpu::{Arena, Service};
use warpwire_nic::Nic;
use warpwire_ring::Cause;

use super::carriage::{self, Carriage};
use super::commands::{Answered, Commands};
use super::control::Control;
use super::driver::{self, Driver};
use super::endpoint::{full, lock};
use super::error::Error;
use super::places::Places;
use super::settings::StreamConfig;
use super::slow::SlowCounters;
use super::table::{Table, address_words};
use crate::messaging::Idle;
use crate::runtime::format_word;

/// An engine of TCP.
pub(super) struct Tcp {
    /// Goes before the memory that it works on.
    seat: Mutex<Seat>,
    control: Mutex<Control>,
    commands: Mutex<Commands>,
    /// Listeners that are in use.
    listeners: Mutex<Vec<bool>>,
    clock: Clock,
    idle: Idle,
    /// Handshakes of a listener.
    backlog: u32,
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

impl Tcp {
    /// Takes the first pair of rings of a NIC. Also the places of its streams.
    pub(super) fn start(
        clock: Clock,
        idle: Idle,
        nic: &dyn Nic,
        services: Vec<Box<dyn Service>>,
        config: &StreamConfig,
    ) -> Result<(Self, Places), Error> {
        config.check()?;
        let rings = nic.queues().first().ok_or(Error::Setting {
            field: "nic",
            value: 0,
            must: "one with queues",
        })?;
        let table = Table::lay_out(rings, nic.caps(), config)?;
        let control = Control::new(config, nic.mac(), &table, clock.now_ns())?;
        let mut memory = vec![
            Arc::clone(&table.places.arena),
            Arc::clone(&table.places.chunks),
        ];
        memory.extend(rings.memory.iter().cloned());
        let format = format_word(&rings.receive).unwrap_or("unknown");
        // SAFETY: the table holds the block and all that it points to, and the endpoint keeps the
        // memory; the rings are the NIC's first, driven by this engine alone.
        let driver = unsafe { driver::attach(format, table.block, &clock) };
        let driver = driver.map_err(|cause| Error::Ended { cause })?;
        let tcp = Self {
            seat: Mutex::new(Seat {
                driver: Some(driver),
                ended: None,
                services,
                rounds: 0,
            }),
            control: Mutex::new(control),
            commands: Mutex::new(Commands::new(&table)),
            listeners: Mutex::new(vec![false; config.listeners as usize]),
            clock,
            idle,
            backlog: table.backlog,
            _memory: memory,
        };
        Ok((tcp, table.places))
    }

    /// Steps until `look` finds something.
    fn wait<T>(
        &self,
        what: &'static str,
        patience: Duration,
        look: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        carriage::wait(self, &self.idle, (what, patience), look)
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
}

impl Carriage for Tcp {
    fn step(&self) -> bool {
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

    fn ended(&self) -> Option<Cause> {
        // Whoever is at it will see.
        self.seat.try_lock().ok()?.ended
    }

    fn connect(&self, to: SocketAddr, patience: Duration) -> Result<(u32, u32), Error> {
        let started = Instant::now();
        let left = || patience.saturating_sub(started.elapsed());
        let path = self.path(to.ip(), patience)?;
        let is_on_link = lock(&self.control).is_on_link(to.ip());
        for _ in 0..MOST_PORTS {
            let port = self.port(to)?;
            let command = Command {
                kind: CONNECT,
                config: u32::from(to.is_ipv6()),
                port: u32::from(to.port()),
                path: Path {
                    source_port: port,
                    ..path
                },
                is_on_link: u32::from(is_on_link),
                ..Command::default()
            };
            let answer = self.command(&command, left())?;
            match answer.outcome {
                BUSY => {}
                NO_PLACE => return Err(full("a connection", "connections")),
                NO_CHUNK => return Err(full("the bytes of a connection", "open")),
                _ if answer.is_done() => return Ok((answer.place, answer.generation)),
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

    fn listen(&self, at: SocketAddr, patience: Duration) -> Result<(u32, SocketAddr), Error> {
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
            backlog: self.backlog,
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
                Ok((index, at))
            }
            outcome => Err(Error::Refused {
                what: "listen",
                outcome,
            }),
        }
    }

    fn unlisten(&self, listener: u32) -> bool {
        let command = Command {
            kind: UNLISTEN,
            listener,
            ..Command::default()
        };
        self.command(&command, LAST_PATIENCE).is_ok()
    }

    fn leave(&self, listener: u32) {
        if let Some(taken) = lock(&self.listeners).get_mut(listener as usize) {
            *taken = false;
        }
    }

    fn slow_counters(&self) -> SlowCounters {
        lock(&self.control).counters()
    }
}

/// Work of the NIC's services in a round.
const SERVICE_BUDGET: u32 = 256;
/// Rounds with work after which the slow path is looked at.
const CONTROL_PERIOD: u32 = 16;
/// Ports that are tried for a connection.
const MOST_PORTS: u32 = 256;
/// How long the engine may take for what is dropped.
const LAST_PATIENCE: Duration = Duration::from_secs(1);
