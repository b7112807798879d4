//! Endpoints of streams: what carries them, and what they have in common.

use std::mem::offset_of;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warpwire_engine::streams::tables::StreamCounters;
use warpwire_gpu::executor::{Clock, Placement, ServiceHandle};
use warpwire_gpu::{Arena, CpuExecutor, Service};
use warpwire_nic::Nic;
use warpwire_ring::DeviceAddress;

use super::carriage::{self, Carriage};
use super::error::Error;
use super::listener::Listener;
use super::places::{Places, Tables};
use super::settings::StreamConfig;
use super::slow::SlowCounters;
use super::stream::Stream;
use super::tcp::Tcp;
use crate::messaging::Idle;

/// An engine of streams that runs. It ends when the endpoint, its listeners and its streams are
/// dropped.
pub struct StreamEndpoint {
    /// The thread that steps it, if that is not whoever waits.
    _service: Option<ServiceHandle>,
    pub(super) shared: Arc<Shared>,
}

/// What an endpoint, its listeners and its streams share.
pub(super) struct Shared {
    /// Goes before the memory that it works on.
    pub(super) carriage: Box<dyn Carriage>,
    news: AtomicBool,
    idle: Idle,
    pub(super) table: Tables,
}

/// Who has news: streams and listeners of which the engine did something. There is one for an
/// endpoint.
pub struct News(Arc<Shared>);

impl StreamEndpoint {
    /// An endpoint over all pairs of rings of a NIC, that whoever waits for something of it
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
        let idle: Idle = Arc::new(std::thread::yield_now);
        let (tcp, tables) = Tcp::start(clock, Arc::clone(&idle), nic, services, config, None)?;
        Ok(Self::over_all(Box::new(tcp), tables, idle))
    }

    /// An endpoint whose engines are the blocks of a kernel of their own on an executor, one for
    /// each pair of rings of a NIC. `placement` is that of their warps. Who serves peers still
    /// calls [`StreamEndpoint::step`] from time to time, or waits for something: the host answers
    /// what is not TCP.
    ///
    /// # Errors
    /// As [`StreamEndpoint::start_fused`]; a format without a kernel, an executor that refuses.
    pub fn start(
        executor: &CpuExecutor,
        nic: &dyn Nic,
        config: &StreamConfig,
        placement: Placement,
    ) -> Result<Self, Error> {
        let idle: Idle = Arc::new(std::thread::yield_now);
        let (clock, kernel) = (executor.clock(), Some((executor, placement)));
        let started = Tcp::start(clock, Arc::clone(&idle), nic, Vec::new(), config, kernel);
        let (tcp, tables) = started?;
        Ok(Self::over_all(Box::new(tcp), tables, idle))
    }

    /// An endpoint over what carries streams, of one block.
    pub(super) fn over(carriage: Box<dyn Carriage>, table: Places, idle: Idle) -> Self {
        Self::over_all(carriage, Tables::new(table, Vec::new()), idle)
    }

    fn over_all(carriage: Box<dyn Carriage>, table: Tables, idle: Idle) -> Self {
        Self {
            _service: None,
            shared: Arc::new(Shared {
                carriage,
                news: AtomicBool::new(false),
                idle,
                table,
            }),
        }
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
        let endpoint = Self::start_fused(executor.clock(), nic, Vec::new(), config)?;
        endpoint.in_service(executor, placement)
    }

    /// The same endpoint, stepped by a thread of the executor as well.
    ///
    /// # Errors
    /// An executor that refuses.
    pub fn in_service(
        mut self,
        executor: &CpuExecutor,
        placement: Placement,
    ) -> Result<Self, Error> {
        let stepper = Stepper(Arc::clone(&self.shared));
        self._service = Some(executor.add_service(Box::new(stepper), placement)?);
        Ok(self)
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
        let (place, generation) = self.shared.carriage.connect(to, patience)?;
        let mut stream = Stream::new(&self.shared, place, generation)?;
        stream.wait_connected(patience.saturating_sub(started.elapsed()))?;
        Ok(stream)
    }

    /// Who has news, once.
    pub fn news(&self) -> Option<News> {
        let is_taken = self.shared.news.swap(true, Ordering::AcqRel);
        (!is_taken).then(|| News(Arc::clone(&self.shared)))
    }

    /// For device code that uses the streams of a block of this endpoint, the first or the only
    /// one being 0: where a [`TableBlock`](warpwire_core::streaming::TableBlock) lies, and the
    /// memory of that and of all that it names. Streams and rings of accepted ones are used by
    /// device code or by the host, not by both; so is the news. `None` if there are not as many.
    /// [`Serving`](super::serving::Serving) has applications that need no more than a launch.
    pub fn table(&self, block: usize) -> Option<(DeviceAddress, [Arc<Arena>; 2])> {
        let places = self.shared.table.block(block)?;
        let memory = [&places.arena, &places.chunks].map(Arc::clone);
        Some((places.table, memory))
    }

    /// A stream that device code accepted and has no more: its place and its generation.
    pub(crate) fn take_over(&self, place: u32, generation: u32) -> Result<Stream, Error> {
        Stream::new(&self.shared, place, generation)
    }

    /// What the engine counted so far.
    pub fn counters(&self) -> StreamCounters {
        self.shared.counters()
    }

    /// What the slow path counted so far.
    pub fn slow_counters(&self) -> SlowCounters {
        self.shared.carriage.slow_counters()
    }

    /// Whether the engine still runs.
    pub fn is_running(&self) -> bool {
        self.shared.carriage.ended().is_none()
    }
}

impl AsRef<Self> for StreamEndpoint {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl News {
    /// Calls `each` with the number of every stream, as [`Stream::number`] says, and listener, as
    /// [`Listener::number`] says, of which the engine did something since the last time. Says
    /// whether there was any.
    pub fn drain(&self, mut each: impl FnMut(u32)) -> bool {
        let mut any = false;
        self.0.table.drain_told(|number| {
            any = true;
            each(number);
        });
        any
    }
}

impl Shared {
    /// One step. Says whether there was work; no if another thread is at it.
    pub(super) fn step(&self) -> bool {
        self.carriage.step()
    }

    /// Nothing more comes of an engine that ended.
    #[cfg(feature = "tokio")]
    pub(super) fn check_running(&self) -> Result<(), Error> {
        carriage::check_running(&*self.carriage)
    }

    /// Steps until `look` finds something.
    pub(super) fn wait<T>(
        &self,
        what: &'static str,
        patience: Duration,
        look: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        carriage::wait(&*self.carriage, &self.idle, (what, patience), look)
    }

    /// Begins to listen: the listener's number, and where that is.
    pub(super) fn begin_to_listen(
        &self,
        at: SocketAddr,
        patience: Duration,
    ) -> Result<(u32, SocketAddr), Error> {
        self.carriage.listen(at, patience)
    }

    /// Listens no more. Who waited to be accepted is sent away, once the engine has heard.
    pub(super) fn end_to_listen(self: &Arc<Self>, index: u32) {
        if !self.carriage.unlisten(index) {
            // Then it may listen still: nobody else gets this one.
            return;
        }
        while let Ok(Some((place, generation))) = self.table.accept(index as usize) {
            // Dropping it unread aborts it.
            let stream = Stream::new(self, place, generation);
            drop(stream.map(Stream::abort));
        }
        self.carriage.leave(index);
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
        read!(no_place no_chunk answers_lost displaced moved handed taken);
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

pub(super) const fn full(what: &'static str, setting: &'static str) -> Error {
    Error::Full { what, setting }
}
