//! TCP as what carries streams: an engine over each pair of rings of a NIC, or several that share
//! it, and the slow path beside them.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that all tables are live"
)]

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use warpwire_core::block::{Parameters as _, Steering as Obeyed};
use warpwire_core::kernels::StreamParameters;
use warpwire_engine::streams::owner_of;
use warpwire_engine::streams::tables::{
    BUSY, CONNECT, Command, DONE, LISTEN, NO_CHUNK, NO_PLACE, StreamBlock, UNLISTEN,
};
use warpwire_engine::tables::Path;
use warpwire_gpu::executor::{Clock, Control as Words, Grid, Launch, Parameters, Placement};
use warpwire_gpu::{Arena, CpuExecutor, Service};
use warpwire_nic::{Nic, Steering};
use warpwire_ring::{Cause, DeviceAddress};

use super::carriage::{self, Attempt, Carriage};
use super::commands::{Answered, Commands};
use super::control::{Control, NO_QUEUES};
use super::driver::{self, Driver};
use super::endpoint::{full, lock};
use super::error::Error;
use super::places::Tables;
use super::settings::StreamConfig;
use super::slow::SlowCounters;
use super::table::{self, Family, Table, address_words};
use crate::messaging::{Idle, left_mib};
use crate::runtime::{Kit, format_word};

/// Engines of TCP: one for each pair of rings, or for each warp that owns connections.
pub(super) struct Tcp {
    /// Goes before the memory that it works on.
    runs: Runs,
    host: Mutex<Host>,
    control: Mutex<Control>,
    /// Of each engine.
    commands: Vec<Mutex<Commands>>,
    /// Listeners that are in use.
    listeners: Mutex<Vec<bool>>,
    /// Where segments come to, if the NIC knows.
    steering: Option<Steering>,
    /// Engines of a pair of rings.
    each: u32,
    secret: [u64; 2],
    /// The engine that opens the next connection.
    turn: AtomicUsize,
    clock: Clock,
    idle: Idle,
    /// Handshakes of a listener.
    backlog: u32,
    /// Places of an engine.
    connections: u32,
    _memory: Vec<Arc<Arena>>,
}

/// Where the engines run.
enum Runs {
    /// In whoever steps them.
    Stepped(Vec<Mutex<Seat>>),
    /// In a kernel of their own.
    Kernel(Launch),
}

struct Seat {
    /// None after its end.
    driver: Option<Box<dyn Driver>>,
    ended: Option<Cause>,
}

/// What else has to be done from time to time.
struct Host {
    /// The host's part of the NIC, where nobody else has it.
    services: Vec<Box<dyn Service>>,
    rounds: u32,
}

impl Tcp {
    /// Takes all pairs of rings of a NIC, for engines that whoever steps them runs, or for a kernel
    /// on an executor. Also the places of the streams.
    pub(super) fn start(
        clock: Clock,
        idle: Idle,
        nic: &dyn Nic,
        services: Vec<Box<dyn Service>>,
        config: &StreamConfig,
        kernel: Option<(&CpuExecutor, Placement)>,
    ) -> Result<(Self, Tables), Error> {
        config.check()?;
        let queues = nic.queues();
        let format = queues.first().map(|rings| format_word(&rings.receive));
        let format = format.ok_or(NO_QUEUES)?.unwrap_or("unknown");
        // Memory is there at once, all of it: who asked for too much would wait, or be killed.
        let engines = queues.len() as u32 * driver::engines(config.warps);
        table::check(config, engines, left_mib())?;
        let family = Family::lay_out(queues.len() as u32, config)?;
        let each = |rings| (0..family.each).map(move |_| rings);
        let rings = queues.iter().flat_map(each).zip(0..);
        let lay_out = |(rings, number)| Table::lay_out(rings, nic.caps(), config, &family, number);
        let tables: Vec<Table> = rings.map(lay_out).collect::<Result<_, _>>()?;
        let control = Control::new(config, nic.mac(), &tables, clock.now_ns())?;
        let mut memory = vec![Arc::clone(&family.arena)];
        for table in &tables {
            memory.extend([&table.places.arena, &table.places.chunks].map(Arc::clone));
        }
        queues
            .iter()
            .for_each(|rings| memory.extend(rings.memory.iter().cloned()));
        let blocks: Vec<StreamBlock> = tables.iter().map(|table| table.block).collect();
        let first = family.arena.place_all(&blocks)?.address;
        let grid = Grid {
            blocks: queues.len() as u32,
            warps: config.warps,
        };
        let runs = match kernel {
            None => stepped(format, first, grid, &clock)?,
            Some((executor, placement)) => {
                let at = (first, blocks.len() as u32, grid);
                launch(format, at, &family.arena, &memory, executor, placement)?
            }
        };
        let tcp = Self {
            runs,
            host: Mutex::new(Host {
                services,
                rounds: 0,
            }),
            control: Mutex::new(control),
            commands: tables.iter().map(Commands::new).map(Mutex::new).collect(),
            listeners: Mutex::new(vec![false; config.listeners as usize]),
            steering: nic.steering(),
            each: family.each,
            secret: config.secret,
            turn: AtomicUsize::new(0),
            clock,
            idle,
            backlog: config.backlog,
            connections: config.connections,
            _memory: memory,
        };
        let mut places = tables.into_iter().map(|table| table.places);
        let first = places.next().ok_or(NO_QUEUES)?;
        Ok((tcp, Tables::new(first, places.collect())))
    }

    /// What has to be done beside the engines. Says whether there was anything.
    fn look_after(&self, busy: bool) -> bool {
        let mut host = match self.host.try_lock() {
            Ok(host) => host,
            Err(TryLockError::Poisoned(host)) => host.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let mut more = false;
        for service in &mut host.services {
            more |= service.run(SERVICE_BUDGET) > 0;
        }
        host.rounds = host.rounds.wrapping_add(1);
        let is_idle = !busy && !more;
        if is_idle || host.rounds.is_multiple_of(CONTROL_PERIOD) {
            let run = lock(&self.control).run(self.clock.now_ns(), &self.commands);
            more |= run.unwrap_or(false);
        }
        more
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

    /// Gives an engine a command and waits for the answer.
    fn command(
        &self,
        engine: usize,
        command: &Command,
        patience: Duration,
    ) -> Result<Answered, Error> {
        let what = "the engine did not answer";
        let commands = self.commands.get(engine).ok_or(NO_QUEUES)?;
        let number = self.wait(what, patience, || Ok(lock(commands).give(command, true)?))?;
        let answer = self.wait(what, patience, || Ok(lock(commands).answer(number)?));
        if answer.is_err() {
            lock(commands).forget(number);
        }
        answer
    }

    /// The command that opens a connection of an engine, from another port every time; `None` while
    /// the next hop is asked for.
    fn opening(&self, engine: usize, to: SocketAddr) -> Result<Option<Command>, Error> {
        let now_ns = self.clock.now_ns();
        let (path, is_on_link) = {
            let mut control = lock(&self.control);
            let Some(path) = control.path(now_ns, to.ip())? else {
                return Ok(None);
            };
            (path, control.is_on_link(to.ip()))
        };
        Ok(Some(Command {
            kind: CONNECT,
            config: u32::from(to.is_ipv6()),
            port: u32::from(to.port()),
            path: Path {
                source_port: self.port(engine, to, &path)?,
                ..path
            },
            is_on_link: u32::from(is_on_link),
            ..Command::default()
        }))
    }

    /// The next port towards a peer, for a connection of an engine: one whose segments come to the
    /// engine's queue, where the NIC knows that, and from there to the engine.
    fn port(&self, engine: usize, to: SocketAddr, path: &Path) -> Result<u16, Error> {
        let mut control = lock(&self.control);
        let local = control.source(to.ip())?;
        let each = self.each.max(1);
        let (queue, owner) = (engine as u32 / each, engine as u32 % each);
        let fits = |port| {
            let path = Path {
                source_port: port,
                ..*path
            };
            owner_of(self.secret, &path, to.port(), each) == owner
                && self.steering.as_ref().is_none_or(|steering| {
                    steering.queue(to, SocketAddr::new(local, port)) == queue
                })
        };
        control.port(local, to, fits).ok_or(Error::Taken {
            what: "every port towards",
            address: to,
        })
    }

    /// Ends what so many engines listen for.
    fn end_to_listen(&self, listener: u32, engines: usize) -> bool {
        let command = Command {
            kind: UNLISTEN,
            listener,
            ..Command::default()
        };
        let end = |engine| self.command(engine, &command, LAST_PATIENCE).is_ok();
        (0..engines).fold(true, |all, engine| all & end(engine))
    }
}

/// Engines that whoever steps them runs: those of a pair of rings together.
fn stepped(format: &str, first: DeviceAddress, grid: Grid, clock: &Clock) -> Result<Runs, Error> {
    let mut seats = Vec::new();
    let bytes = u64::from(driver::engines(grid.warps)) * size_of::<StreamBlock>() as u64;
    for number in 0..u64::from(grid.blocks) {
        // SAFETY: the tables hold the blocks and all that they point to, and the endpoint keeps the
        // memory; the rings are those of one pair of the NIC, driven by these engines alone.
        let driver =
            unsafe { driver::attach(format, first.offset(number * bytes), grid.warps, clock) };
        let driver = driver.map_err(|cause| Error::Ended { cause })?;
        seats.push(Mutex::new(Seat {
            driver: Some(driver),
            ended: None,
        }));
    }
    Ok(Runs::Stepped(seats))
}

/// Engines that are the blocks of a kernel.
fn launch(
    format: &str,
    (blocks, block_count, grid): (DeviceAddress, u32, Grid),
    arena: &Arc<Arena>,
    memory: &[Arc<Arena>],
    executor: &CpuExecutor,
    placement: Placement,
) -> Result<Runs, Error> {
    let row = Kit::streams(format)?;
    let control = Words::allocate(arena, grid.blocks * grid.warps)?;
    let parameters = StreamParameters {
        header: StreamParameters::HEADER,
        steering: Obeyed {
            stop: control.stop_address(),
            heartbeats: DeviceAddress::NULL,
            turns: 0,
        },
        blocks,
        block_count,
        reserved: 0,
    };
    let at = arena.place(parameters)?.address;
    // SAFETY: such parameters lie there; the tables hold the blocks and all that they point to, the
    // rings are the NIC's, and each is driven by one block alone.
    let parameters = unsafe { Parameters::new(at, StreamParameters::LAYOUT, memory.to_vec()) };
    let parameters = parameters.control(control);
    Ok(Runs::Kernel(
        executor.launch_on(row, grid, parameters, placement)?,
    ))
}

impl Seat {
    /// One round. Says whether there was work.
    fn step(&mut self) -> bool {
        match self.driver.as_mut().map(|driver| driver.step()) {
            None => false,
            Some(Ok(busy)) => busy,
            Some(Err(cause)) => {
                self.ended = Some(cause);
                self.driver = None;
                false
            }
        }
    }
}

impl Carriage for Tcp {
    fn step(&self) -> bool {
        let mut busy = false;
        if let Runs::Stepped(seats) = &self.runs {
            for seat in seats {
                busy |= match seat.try_lock() {
                    Ok(mut seat) => seat.step(),
                    Err(TryLockError::Poisoned(seat)) => seat.into_inner().step(),
                    // Another thread is at it.
                    Err(TryLockError::WouldBlock) => false,
                };
            }
        }
        self.look_after(busy) || busy
    }

    fn ended(&self) -> Option<Cause> {
        match &self.runs {
            // Whoever is at one will see.
            Runs::Stepped(seats) => seats.iter().find_map(|seat| seat.try_lock().ok()?.ended),
            Runs::Kernel(launch) if launch.is_finished() => {
                Some(launch.report().cause().unwrap_or(Cause::EngineNotRunning))
            }
            Runs::Kernel(_) => None,
        }
    }

    fn connect(&self, to: SocketAddr, patience: Duration) -> Result<(u32, u32), Error> {
        let mut attempt = Attempt::new(to, None);
        let what = "the next hop did not answer";
        let opened = self.wait(what, patience, || self.open(&mut attempt));
        let unanswered = opened.is_err().then_some(attempt.command).flatten();
        match (unanswered, opened) {
            (Some(number), Err(Error::Deadline { waited, .. })) => {
                let engine = attempt.engine.unwrap_or(0);
                if let Some(commands) = self.commands.get(engine) {
                    lock(commands).forget(number);
                }
                let what = "the engine did not answer";
                Err(Error::Deadline { what, waited })
            }
            (_, opened) => opened,
        }
    }

    fn check_way(&self, to: IpAddr) -> Result<(), Error> {
        lock(&self.control).source(to)?;
        Ok(())
    }

    fn open(&self, attempt: &mut Attempt) -> Result<Option<(u32, u32)>, Error> {
        let choose = || self.turn.fetch_add(1, Ordering::Relaxed) % self.commands.len().max(1);
        let engine = *attempt.engine.get_or_insert_with(choose);
        let commands = self.commands.get(engine).ok_or(NO_QUEUES)?;
        let to = attempt.to;
        let Some(number) = attempt.command else {
            if let Some(command) = self.opening(engine, to)? {
                attempt.command = lock(commands).give(&command, true)?;
            }
            return Ok(None);
        };
        let Some(answer) = lock(commands).answer(number)? else {
            return Ok(None);
        };
        attempt.command = None;
        match answer.outcome {
            BUSY if attempt.tried < MOST_PORTS => {
                attempt.tried += 1;
                Ok(None)
            }
            BUSY => Err(Error::Taken {
                what: "every port tried towards",
                address: to,
            }),
            NO_PLACE => Err(full("a connection", "connections")),
            NO_CHUNK => Err(full("the bytes of a connection", "open")),
            _ if answer.is_done() => {
                let place = engine as u32 * self.connections + answer.place;
                Ok(Some((place, answer.generation)))
            }
            outcome => {
                let what = "open a connection";
                Err(Error::Refused { what, outcome })
            }
        }
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
        for engine in 0..self.commands.len() {
            let answer = self.command(engine, &command, patience);
            let refused = match answer.map(|answer| answer.outcome) {
                Ok(DONE) => continue,
                Ok(BUSY) => Error::Taken {
                    what: "port",
                    address: at,
                },
                Ok(outcome) => Error::Refused {
                    what: "listen",
                    outcome,
                },
                Err(error) => error,
            };
            // Those before it listen already.
            self.end_to_listen(index, engine);
            return Err(refused);
        }
        *taken = true;
        Ok((index, at))
    }

    fn unlisten(&self, listener: u32) -> bool {
        self.end_to_listen(listener, self.commands.len())
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
