//! Endpoints: an engine over one pair of rings of a NIC.
#![expect(
    unsafe_code,
    reason = "a launch carries the promise that its parameters are laid out right"
)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use warpwire_core::block::Parameters as _;
use warpwire_core::kernels::TransportParameters;
use warpwire_engine::Crew;
use warpwire_engine::tables::EngineCounters;
use warpwire_gpu::executor::{Clock, Grid, Launch, Parameters, Placement, ServiceHandle};
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_nic::soft::{Transport, TransportState};
use warpwire_nic::{Nic, NicKind};
use warpwire_protocols::rdma::Tuning;

use super::capture::Capture;
use super::fused::FusedEngine;
use super::host::HostWarp;
use super::pair::{Home, Pair, PairConfig};
use super::regions::Registered;
use super::shared::SharedReceives;
use super::table::{self, SharedPlaces, Table};
use super::vacancy::Vacancies;
use crate::messaging::Error;
use crate::runtime::{Kit, format_word};

/// Warps that an engine can have.
pub const MOST_WARPS: u32 = Crew::MOST;

/// How an endpoint is made.
#[derive(Clone, Copy, Debug)]
pub struct EndpointConfig {
    /// Warps of the engine's kernel, up to [`MOST_WARPS`]. One does everything; of more, the first
    /// has the rings and the others have the queue pairs among themselves.
    pub warps: u32,
    /// Queue pairs; a power of two.
    pub pairs: u32,
    /// One of them is queue pair 1, through which connections are managed; then there are two at
    /// least.
    pub management: bool,
    /// Regions of memory, at most 2^16.
    pub regions: u32,
    /// The upper bits of the numbers of queue pairs.
    pub first_number: u32,
    /// Binary logarithm of the slots of a send queue, 64 bytes each.
    pub log_send: u32,
    /// Binary logarithm of the slots of a receive queue.
    pub log_receive: u32,
    /// Binary logarithm of the pieces that a receive may have.
    pub log_stride: u32,
    /// Packets that a queue pair sends before the next one may.
    pub share: u32,
    /// How senders are slowed by congestion.
    pub tuning: Tuning,
    /// Receive queues that queue pairs may share; see [`Endpoint::shared_receives`].
    pub shared: u32,
    /// Binary logarithm of the slots of each of them.
    pub log_shared: u32,
    /// An engine whose heart stands still for so long is taken for dead by those who wait for it;
    /// zero: nobody looks.
    pub stale: Duration,
    /// Whether what is sent can be captured; see [`super::DeviceConfig::capture`].
    pub is_captured: bool,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            warps: 1,
            pairs: 16,
            management: false,
            regions: 256,
            first_number: 0x0100,
            log_send: 8,
            log_receive: 8,
            log_stride: 2,
            share: 16,
            tuning: Tuning::OFF,
            shared: 1,
            log_shared: 10,
            stale: Duration::from_secs(2),
            is_captured: false,
        }
    }
}

impl EndpointConfig {
    /// For an engine without a kernel of its own: whoever runs it is one warp, and nobody beats its
    /// heart.
    fn of_one_warp(self) -> Result<Self, Error> {
        if self.warps != 1 {
            return Err(Error::Setting {
                field: "warps",
                value: u64::from(self.warps),
                must: "1 where the engine has no kernel of its own",
            });
        }
        Ok(Self {
            stale: Duration::ZERO,
            ..self
        })
    }

    fn check(&self) -> Result<(), Error> {
        let settings = [
            ("warps", self.warps, 1, MOST_WARPS, false),
            (
                "pairs",
                self.pairs,
                1 + u32::from(self.management),
                1 << 14,
                true,
            ),
            ("regions", self.regions, 1, 1 << 16, false),
            // Else lower bits would make numbers of it that are not for messages.
            (
                "first_number",
                self.first_number,
                self.pairs.max(2),
                0x00ff_ffff,
                false,
            ),
            ("log_send", self.log_send, 1, 15, false),
            ("log_receive", self.log_receive, 1, 15, false),
            ("log_stride", self.log_stride, 0, 4, false),
            ("share", self.share, 1, 1 << 16, false),
            ("shared", self.shared, 0, 1 << 10, false),
            ("log_shared", self.log_shared, 1, 15, false),
        ];
        for (field, value, least, most, is_power) in settings {
            let fits = (least..=most).contains(&value);
            if !fits || (is_power && !value.is_power_of_two()) {
                return Err(Error::Setting {
                    field,
                    value: u64::from(value),
                    must: match is_power {
                        true => "a power of two up to 16384, and 2 at least with queue pair 1",
                        false => "within what the queues' formats have",
                    },
                });
            }
        }
        Ok(())
    }
}

/// An engine that runs. Dropping it stops the engine.
pub struct Endpoint {
    runs: Runs,
    pub(super) table: Table,
    pub(super) config: EndpointConfig,
    /// Arenas that regions may lie in.
    pub(super) memory: Vec<Arc<Arena>>,
    /// All arenas that a kernel needs which drives the engine.
    pub(super) arenas: Vec<Arc<Arena>>,
    pub(super) regions: Mutex<Vec<Registered>>,
    vacancies: Vacancies,
    is_managed: AtomicBool,
    shared_taken: Mutex<usize>,
    pub(super) host: HostWarp,
    /// The word for the rings' format in the names of kernels.
    pub(super) format: &'static str,
}

/// MiB of memory that the machine has left, if it says so.
pub(crate) fn left_mib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib >> 10)
}

/// Where an engine runs.
enum Runs {
    /// In a kernel of its own, while there is one.
    Sliced(Option<Launch>),
    /// In whoever waits.
    Fused(FusedEngine),
    /// In the NIC, while it does.
    Nic(Option<ServiceHandle>, TransportState),
}

/// What a thread does that waits for an engine: gives way, or drives virtual time.
pub type Idle = Arc<dyn Fn() + Send + Sync>;

impl Endpoint {
    /// Starts an engine over the first pair of rings of a NIC. Regions may lie in `memory`.
    ///
    /// # Errors
    /// [`Error::Setting`], memory that cannot be had, a format without a kernel, an executor that
    /// refuses.
    pub fn start(
        executor: &CpuExecutor,
        nic: &dyn Nic,
        memory: &[Arc<Arena>],
        config: EndpointConfig,
        placement: Placement,
    ) -> Result<Self, Error> {
        let mut endpoint = Self::new(executor.clock(), nic, memory, config)?;
        let row = Kit::transport(endpoint.format)?;
        let table = &endpoint.table;
        let arenas = endpoint.arenas.clone();
        // SAFETY: the table holds a block of this layout and all that it points to; the rings are
        // the NIC's first, driven by this engine alone.
        let parameters =
            unsafe { Parameters::new(table.parameters, TransportParameters::LAYOUT, arenas) };
        let parameters = parameters.control(table.control.clone());
        let grid = Grid {
            blocks: 1,
            warps: config.warps,
        };
        let launch = executor.launch_on(row, grid, parameters, placement)?;
        endpoint.runs = Runs::Sliced(Some(launch));
        Ok(endpoint)
    }

    /// An engine without a kernel of its own: whoever waits for something of it steps it, and it
    /// stands still at other times. Who serves peers without waiting himself calls
    /// [`Endpoint::step`]. `clock` is that of whoever runs the NIC.
    ///
    /// # Errors
    /// As [`Endpoint::start`]; [`Error::Ended`] if the NIC's rings cannot be used.
    pub fn start_fused(
        clock: Clock,
        nic: &dyn Nic,
        memory: &[Arc<Arena>],
        config: EndpointConfig,
    ) -> Result<Self, Error> {
        let config = config.of_one_warp()?;
        let mut endpoint = Self::new(clock.clone(), nic, memory, config)?;
        let block = endpoint.table.block;
        // SAFETY: the table holds the block and all that it points to, and the endpoint keeps the
        // memory; the rings are the NIC's first, driven by this engine alone.
        let fused =
            unsafe { FusedEngine::attach(endpoint.format, block, &clock, &endpoint.arenas) };
        let fused = fused.map_err(|cause| Error::Ended { cause })?;
        endpoint.runs = Runs::Fused(fused);
        Ok(endpoint.idle_by(Arc::new(std::thread::yield_now)))
    }

    /// An endpoint whose work queues the NIC carries out itself: a soft NIC, on a thread of the
    /// executor. Nothing changes for those who post and poll.
    ///
    /// # Errors
    /// As [`Endpoint::start`]; [`Error::Setting`] for a NIC without such a transport.
    pub fn start_in_nic(
        executor: &CpuExecutor,
        nic: &dyn Nic,
        memory: &[Arc<Arena>],
        config: EndpointConfig,
        placement: Placement,
    ) -> Result<Self, Error> {
        if nic.spec().kind != NicKind::Soft {
            return Err(Error::Setting {
                field: "nic",
                value: 0,
                must: "`soft`: no other NIC here carries out work queues of messages",
            });
        }
        let config = config.of_one_warp()?;
        let clock = executor.clock();
        let mut endpoint = Self::new(clock.clone(), nic, memory, config)?;
        let (block, arenas) = (endpoint.table.block, endpoint.arenas.clone());
        // SAFETY: the table holds the block and all that it points to; the rings are the NIC's
        // first, driven by this transport alone.
        let transport = unsafe { Transport::new(block, arenas, clock) };
        let transport = transport.map_err(|cause| Error::Ended { cause })?;
        let state = transport.state();
        let service = executor.add_service(Box::new(transport), placement)?;
        endpoint.runs = Runs::Nic(Some(service), state);
        Ok(endpoint)
    }

    fn new(
        clock: Clock,
        nic: &dyn Nic,
        memory: &[Arc<Arena>],
        config: EndpointConfig,
    ) -> Result<Self, Error> {
        config.check()?;
        let rings = nic.queues().first().ok_or(Error::Setting {
            field: "nic",
            value: 0,
            must: "one with queues",
        })?;
        let need = (table::bytes(&config) >> 20) as u64;
        match left_mib() {
            Some(have) if need > have / 2 => return Err(Error::TooMuch { need, have }),
            _ => {}
        }
        let table = table::lay_out(rings, &config)?;
        let mut arenas = vec![Arc::clone(&table.arena)];
        arenas.extend(rings.memory.iter().chain(memory).cloned());
        Ok(Self {
            runs: Runs::Sliced(None),
            regions: Mutex::new(vec![Registered::default(); config.regions as usize]),
            vacancies: Vacancies::new(&table.places),
            is_managed: AtomicBool::new(false),
            shared_taken: Mutex::new(0),
            host: HostWarp {
                clock,
                idle: Arc::new(std::thread::yield_now),
            },
            format: format_word(&rings.receive).unwrap_or("unknown"),
            memory: memory.to_vec(),
            arenas,
            table,
            config,
        })
    }

    /// Waits otherwise than by giving way: where time is virtual, somebody has to drive it.
    #[must_use]
    pub fn idle_by(mut self, idle: Idle) -> Self {
        self.host.idle = match &self.runs {
            Runs::Sliced(_) | Runs::Nic(..) => idle,
            Runs::Fused(fused) => {
                let fused = fused.clone();
                Arc::new(move || {
                    if !fused.step() {
                        idle();
                    }
                })
            }
        };
        self
    }

    /// Begins a capture of what is sent, as a service for a thread of an executor. A file that
    /// cannot be written any more is told by the report.
    pub(super) fn capture(&self, path: &Path) -> Result<Capture, Error> {
        let ring = self.table.mirror.clone().ok_or(Error::Setting {
            field: "is_captured",
            value: 0,
            must: "true where a capture is wanted",
        })?;
        let capture = Capture::create(path, ring, &self.host.clock);
        capture.map_err(|source| Error::File {
            path: path.to_owned(),
            problem: source.to_string(),
        })
    }

    /// The clock of whoever runs the engine.
    pub fn clock(&self) -> Clock {
        self.host.clock.clone()
    }

    /// What a thread does that waits here: for who waits for something else meanwhile.
    pub fn idle(&self) -> Idle {
        Arc::clone(&self.host.idle)
    }

    /// One step of an engine that has no kernel of its own. Says whether there was work.
    pub fn step(&self) -> bool {
        match &self.runs {
            Runs::Sliced(_) | Runs::Nic(..) => false,
            Runs::Fused(fused) => fused.step(),
        }
    }

    /// The engine, if it has no kernel of its own: a handle to step it with from elsewhere.
    pub const fn fused(&self) -> Option<&FusedEngine> {
        match &self.runs {
            Runs::Sliced(_) | Runs::Nic(..) => None,
            Runs::Fused(fused) => Some(fused),
        }
    }

    /// Waits until the engine has begun so many rounds more.
    pub(super) fn rounds(&self, more: u64, patience: Duration) -> Result<(), Error> {
        let started = std::time::Instant::now();
        let first = self.counters().turns;
        while self.counters().turns.wrapping_sub(first) < more {
            if started.elapsed() >= patience {
                return Err(Error::Deadline {
                    number: 0,
                    what: "the engine made no round",
                    waited: patience,
                });
            }
            (self.host.idle)();
        }
        Ok(())
    }

    /// A queue pair in its first state. It goes back when it is closed or dropped.
    ///
    /// # Errors
    /// [`Error::Pairs`] if all are taken; [`Error::Deadline`] if one was given back and the engine
    /// does not take it.
    pub fn pair(&self, config: PairConfig) -> Result<Pair, Error> {
        self.pair_with(config, None)
    }

    /// Queue pair 1, in its first state: there is one, if the endpoint was made so.
    ///
    /// # Errors
    /// [`Error::Management`] if there is none, or it is taken.
    pub fn management_pair(&self, config: PairConfig) -> Result<Pair, Error> {
        let places = self.table.management.ok_or(Error::Management)?;
        if self.is_managed.swap(true, Ordering::AcqRel) {
            return Err(Error::Management);
        }
        // Whoever had it leaves it to nobody.
        let only = Vacancies::new(&[places]);
        let vacancy = only.take().ok_or(Error::Management)?;
        Pair::new(self.home(only), vacancy, config, None)
    }

    /// A queue pair that takes its receives from a queue that it shares with others.
    ///
    /// # Errors
    /// As [`Endpoint::pair`].
    pub fn pair_on(&self, shared: &SharedReceives, config: PairConfig) -> Result<Pair, Error> {
        self.pair_with(config, Some(shared.places))
    }

    fn pair_with(&self, config: PairConfig, shared: Option<SharedPlaces>) -> Result<Pair, Error> {
        let vacancy = self.vacancies.take().ok_or(Error::Pairs {
            most: self.table.places.len() as u32,
        })?;
        let home = self.home(self.vacancies.clone());
        Pair::new(home, vacancy, config, shared)
    }

    fn home(&self, vacancies: Vacancies) -> Home {
        Home {
            tables: Arc::clone(&self.table.arena),
            memory: self.memory.clone(),
            host: self.host.clone(),
            vacancies,
        }
    }

    /// The next receive queue for queue pairs to share. It stays as long as the endpoint.
    ///
    /// # Errors
    /// [`Error::Shared`] if all are taken.
    pub fn shared_receives(&self) -> Result<SharedReceives, Error> {
        let taken = self.shared_taken.lock();
        let mut taken = taken.unwrap_or_else(PoisonError::into_inner);
        let places = self.table.shared.get(*taken).copied();
        let places = places.ok_or(Error::Shared {
            most: self.config.shared,
        })?;
        *taken += 1;
        let arena = Arc::clone(&self.table.arena);
        Ok(SharedReceives::new(arena, places, self.host.clone()))
    }

    /// What the engine counted so far.
    pub fn counters(&self) -> EngineCounters {
        let mut counters = EngineCounters::default();
        let at = |index: usize| {
            let word = self.table.counters.offset(index as u64 * 8);
            let word = self.table.arena.word(word);
            word.map_or(0, |word| word.load(Ordering::Relaxed))
        };
        let place = |offset: usize| offset / 8;
        counters.turns = at(place(std::mem::offset_of!(EngineCounters, turns)));
        counters.idle_turns = at(place(std::mem::offset_of!(EngineCounters, idle_turns)));
        counters.received = at(place(std::mem::offset_of!(EngineCounters, received)));
        counters.sent = at(place(std::mem::offset_of!(EngineCounters, sent)));
        counters.foreign = at(place(std::mem::offset_of!(EngineCounters, foreign)));
        let drops = place(std::mem::offset_of!(EngineCounters, drops));
        for (index, drop) in counters.drops.iter_mut().enumerate() {
            *drop = at(drops + index);
        }
        let notes = place(std::mem::offset_of!(EngineCounters, notes));
        for (index, note) in counters.notes.iter_mut().enumerate() {
            *note = at(notes + index);
        }
        counters
    }

    /// Whether the engine still runs.
    pub fn is_running(&self) -> bool {
        match &self.runs {
            Runs::Sliced(launch) => launch.as_ref().is_some_and(|one| !one.is_finished()),
            Runs::Fused(fused) => fused.ended().is_none(),
            Runs::Nic(service, state) => {
                let runs = service.as_ref().is_some_and(ServiceHandle::is_running);
                runs && state.ended().is_none()
            }
        }
    }

    /// Stops the engine and waits for its end.
    ///
    /// # Errors
    /// [`Error::Ended`] if it had ended by itself, [`Error::Executor`] if it does not end in time.
    pub fn stop(mut self, deadline: Duration) -> Result<EngineCounters, Error> {
        let counters = self.counters();
        let ended = match &mut self.runs {
            Runs::Sliced(launch) => match launch.take() {
                Some(launch) => {
                    launch.stop();
                    launch.join(deadline)?.cause()
                }
                None => None,
            },
            Runs::Fused(fused) => {
                fused.leave();
                fused.ended()
            }
            Runs::Nic(service, state) => {
                if let Some(service) = service.take() {
                    service.stop(deadline)?;
                }
                state.ended()
            }
        };
        match ended {
            Some(cause) => Err(Error::Ended { cause }),
            None => Ok(counters),
        }
    }
}
