//! The executor itself: threads, and what is put on them.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use corosensei::stack::DefaultStack;
use warpwire_device::KernelRow;
use warpwire_ring::Location;

use crate::arena::Arena;
use crate::executor::builder::{Backend, Builder};
use crate::executor::clock::{Clock, Time};
use crate::executor::control::Control;
use crate::executor::error::{Error, Stall};
use crate::executor::hosted::{Hosted, ServiceHandle};
use crate::executor::launch::{Grid, Launch, Parameters, Placement};
use crate::executor::program::{Assignment, WarpMachine};
use crate::executor::run::Run;
use crate::executor::shared::{Command, Port, Shared, StackLease, WarpOrder, after, lock};
use crate::executor::watch::Watch;
use crate::executor::worker::Worker;
use crate::executor::world::{Trace, World};
use crate::service::Service;
use crate::system;

/// Runs kernels on the CPU. See the module's text.
///
/// Dropping it unwinds all kernels, drops all services and ends the threads; see
/// [`CpuExecutor::shutdown`].
#[derive(Debug)]
pub struct CpuExecutor {
    shared: Arc<Shared>,
    builder: Builder,
    threads: Mutex<Vec<JoinHandle<()>>>,
    watchdog: Option<JoinHandle<()>>,
}

impl CpuExecutor {
    /// The settings to start from.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn start(mut builder: Builder) -> Result<Self, Error> {
        if let Time::Virtual { .. } = builder.time {
            builder.threads = 1;
        }
        let watch = Watch::new(builder.stuck_after, builder.on_stall.take());
        let shared = Arc::new(Shared::new(Clock::new(builder.time), watch, builder.stacks));
        let mut executor = Self {
            shared,
            builder,
            threads: Mutex::default(),
            watchdog: None,
        };
        for thread in 0..executor.builder.threads {
            let cpus = &executor.builder.cpus;
            let cpu = cpus.get(thread % cpus.len().max(1)).copied();
            executor.spawn(cpu)?;
        }
        executor.watchdog = Some(executor.spawn_watchdog()?);
        Ok(executor)
    }

    /// Starts `kernel` on all warps of `grid`, wherever the executor likes.
    ///
    /// # Errors
    /// See [`CpuExecutor::launch_on`].
    pub fn launch(
        &self,
        kernel: &KernelRow,
        grid: Grid,
        parameters: Parameters,
    ) -> Result<Launch, Error> {
        self.launch_on(kernel, grid, parameters, Placement::Any)
    }

    /// Starts `kernel` on all warps of `grid`.
    ///
    /// # Errors
    /// [`Error::Grid`], [`Error::Layout`], [`Error::Control`] and [`Error::Placement`] for what
    /// does not fit together; [`Error::Program`] for a kernel that a virtual GPU cannot run;
    /// [`Error::NotResident`] if not all warps can run at the same time; [`Error::Stack`],
    /// [`Error::Thread`] and [`Error::Arena`] for what the system refuses.
    pub fn launch_on(
        &self,
        kernel: &KernelRow,
        grid: Grid,
        mut parameters: Parameters,
        placement: Placement,
    ) -> Result<Launch, Error> {
        grid.check(kernel.name)?;
        if parameters.layout != kernel.layout {
            return Err(Error::Layout {
                kernel: kernel.name,
                given: parameters.layout,
                expected: kernel.layout,
            });
        }
        let control = match parameters.control.take() {
            Some(control) if control.warps() < grid.total() => {
                return Err(Error::Control {
                    kernel: kernel.name,
                    have: control.warps(),
                    need: grid.total(),
                });
            }
            Some(control) => control,
            None => own_control(grid)?,
        };
        let mut residence = self.stacks(kernel.name, grid)?;
        residence.machines = self.machines(kernel.name, grid, &parameters, &control)?;
        let seats = self.seats(grid, placement)?;
        let id = self.shared.enlist(kernel.name, Some(grid.warps));
        let mut threads = seats.clone();
        threads.sort_unstable();
        threads.dedup();
        let run = Arc::new(Run::new(
            id,
            *kernel,
            grid,
            parameters,
            control,
            self.builder.backend,
            threads,
            self.shared.clock.now_ns(),
        ));
        self.hand_out(&run, seats, residence);
        Ok(Launch::new(run, Arc::clone(&self.shared)))
    }

    /// Puts a service on a thread.
    ///
    /// # Errors
    /// [`Error::Placement`] for a thread that is not there, [`Error::Thread`] if one of its own
    /// cannot be had.
    pub fn add_service(
        &self,
        service: Box<dyn Service>,
        placement: Placement,
    ) -> Result<ServiceHandle, Error> {
        let thread = self.seat(placement)?;
        let id = self.shared.enlist(service.name(), None);
        let hosted = Hosted::new(service, self.builder.service_budget, id, thread);
        let state = Arc::clone(&hosted.state);
        if let Some(port) = self.shared.port(thread) {
            port.send(Command::Service(hosted));
        }
        Ok(ServiceHandle::new(state, Arc::clone(&self.shared)))
    }

    /// The clock that kernels read.
    pub fn clock(&self) -> Clock {
        self.shared.clock.clone()
    }

    /// The width of warps.
    pub fn backend(&self) -> Backend {
        self.builder.backend
    }

    /// Threads that tasks can be placed on by number. Threads that [`Placement::Own`] made do not
    /// count.
    pub fn threads(&self) -> usize {
        self.builder.threads
    }

    /// Lets virtual time go on by `time`.
    ///
    /// # Errors
    /// [`Error::RealTime`] if time is real, [`Error::Stuck`] if a task does not pause.
    pub fn advance(&self, time: Duration) -> Result<(), Error> {
        self.shared.drive(None, time)
    }

    /// What happened in virtual time up to the end of the last drive; `None` in real time.
    pub fn trace(&self) -> Option<Trace> {
        self.shared.trace()
    }

    /// What the watchdog holds for stuck now.
    pub fn stalls(&self) -> Vec<Stall> {
        self.shared.watch.stalls()
    }

    /// Unwinds all kernels at their next pause, drops all services and ends the threads, within
    /// `deadline` of real time.
    ///
    /// # Errors
    /// [`Error::Stuck`] with what holds a thread. That thread and its memory stay behind.
    pub fn shutdown(mut self, deadline: Duration) -> Result<(), Error> {
        self.end(deadline)
    }

    fn end(&mut self, deadline: Duration) -> Result<(), Error> {
        for port in lock(&self.shared.ports).iter() {
            port.send(Command::Quit);
        }
        let until = after(deadline);
        let mut stuck = Ok(());
        for (number, thread) in std::mem::take(&mut *lock(&self.threads))
            .into_iter()
            .enumerate()
        {
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_micros(200));
            }
            if thread.is_finished() {
                // A thread's own panic would be a defect of the executor; there is nobody to tell.
                let _ = thread.join();
            } else if stuck.is_ok() {
                stuck = Err(Error::Stuck(self.shared.holder("executor", &[number])));
            }
        }
        self.shared.watch.quit();
        if let Some(watchdog) = self.watchdog.take() {
            let _ = watchdog.join();
        }
        stuck
    }

    /// Stacks for all warps of a grid, or a refusal: a launch is resident as a whole or not at all.
    fn stacks(&self, kernel: &'static str, grid: Grid) -> Result<Residence, Error> {
        let need = grid.total() as usize * self.share_of_a_warp();
        let stacks = &self.shared.stacks;
        let lease = stacks.lease(need).map_err(|free| Error::NotResident {
            kernel,
            blocks: grid.blocks,
            warps: grid.warps,
            need: need as u64,
            free: free as u64,
            limit: stacks.limit() as u64,
        })?;
        let bytes = self.builder.stack_bytes;
        let mapped = match self.builder.backend {
            Backend::Virtual { .. } => 0,
            _ => need,
        };
        let stacks: Result<Vec<_>, _> = (0..mapped).map(|_| DefaultStack::new(bytes)).collect();
        let stacks = stacks.map_err(|source| Error::Stack { bytes, source })?;
        Ok(Residence {
            lease,
            stacks,
            machines: Vec::new(),
        })
    }

    /// What a warp takes of the budget of stacks. One of a program has no stack and counts as one.
    fn share_of_a_warp(&self) -> usize {
        match self.builder.backend {
            Backend::Scalar | Backend::Virtual { .. } => 1,
            Backend::Lockstep { .. } => 32,
        }
    }

    /// The warps of a program, the last one first; none with other backends.
    fn machines(
        &self,
        kernel: &'static str,
        grid: Grid,
        parameters: &Parameters,
        control: &Control,
    ) -> Result<Vec<Box<dyn WarpMachine>>, Error> {
        let (Backend::Virtual { seed }, Some(program)) =
            (self.builder.backend, &self.builder.program)
        else {
            return Ok(Vec::new());
        };
        let mut memory = parameters.memory.clone();
        memory.push(Arc::clone(control.memory()));
        let assignment = Assignment {
            kernel,
            grid,
            block: parameters.block,
            memory: &memory,
            clock: self.clock(),
            seed,
        };
        let refused = |reason| Error::Program { kernel, reason };
        let loaded = program.load(&assignment).map_err(refused)?;
        let places = (0..grid.total()).rev().map(|index| grid.place(index));
        places
            .map(|place| loaded.warp(place).map_err(refused))
            .collect()
    }

    /// The thread of each warp.
    fn seats(&self, grid: Grid, placement: Placement) -> Result<Vec<usize>, Error> {
        let (total, pool) = (grid.total() as usize, self.builder.threads);
        let a_block = grid.warps as usize;
        match placement {
            Placement::Any => {
                let first = self.shared.least_loaded(pool);
                Ok((0..total)
                    .map(|warp| (first + warp / a_block) % pool)
                    .collect())
            }
            Placement::Scattered => {
                let first = self.shared.least_loaded(pool);
                Ok((0..total).map(|warp| (first + warp) % pool).collect())
            }
            Placement::Thread(_) | Placement::Own => {
                let thread = self.seat(placement)?;
                Ok(vec![thread; total])
            }
        }
    }

    /// The thread of one task.
    fn seat(&self, placement: Placement) -> Result<usize, Error> {
        if self.shared.clock.is_virtual() {
            return Ok(0);
        }
        let threads = self.builder.threads;
        match placement {
            Placement::Any | Placement::Scattered => Ok(self.shared.least_loaded(threads)),
            Placement::Thread(thread) if thread < threads => Ok(thread),
            Placement::Thread(thread) => Err(Error::Placement { thread, threads }),
            Placement::Own => self.spawn(None),
        }
    }

    fn hand_out(&self, run: &Arc<Run>, seats: Vec<usize>, residence: Residence) {
        let Residence {
            mut lease,
            mut stacks,
            mut machines,
        } = residence;
        let a_warp = self.share_of_a_warp();
        for (index, thread) in (0..).zip(seats) {
            let order = WarpOrder {
                run: Arc::clone(run),
                index,
                stacks: stacks.split_off(stacks.len().saturating_sub(a_warp)),
                machine: machines.pop(),
                lease: lease.split(a_warp),
            };
            if let Some(port) = self.shared.port(thread) {
                port.send(Command::Warp(order));
            }
        }
    }

    /// Starts a thread and returns its number.
    fn spawn(&self, cpu: Option<usize>) -> Result<usize, Error> {
        let mut threads = lock(&self.threads);
        let thread = threads.len();
        let port = Arc::new(Port::new());
        let worker_port = Arc::clone(&port);
        let shared = Arc::clone(&self.shared);
        let (time, idle) = (self.builder.time, self.builder.idle);
        let (ready, started) = mpsc::channel();
        let body = move || {
            let pinned = cpu.map_or(Ok(()), system::pin_to);
            let go = pinned.is_ok();
            // The one who waits is `spawn` itself.
            let _ = ready.send(pinned);
            if !go {
                return;
            }
            system::sharpen_sleeps();
            let worker = Worker::new(shared, worker_port);
            match time {
                Time::Real => worker.run(idle),
                Time::Virtual { seed } => World::new(worker, seed).run(),
            }
        };
        let handle = thread::Builder::new()
            .name(format!("warpwire-{thread}"))
            .spawn(body)
            .map_err(|source| Error::Thread { thread, source })?;
        if let (Ok(Err(source)), Some(cpu)) = (started.recv(), cpu) {
            return Err(Error::Pin {
                thread,
                cpu,
                source,
            });
        }
        threads.push(handle);
        lock(&self.shared.ports).push(port);
        Ok(thread)
    }

    fn spawn_watchdog(&self) -> Result<JoinHandle<()>, Error> {
        let shared = Arc::clone(&self.shared);
        thread::Builder::new()
            .name("warpwire-watch".to_owned())
            .spawn(move || shared.watch.run(&shared))
            .map_err(|source| Error::Thread {
                thread: self.builder.threads,
                source,
            })
    }
}

impl Drop for CpuExecutor {
    fn drop(&mut self) {
        // Whoever wants to know calls `shutdown`.
        let _ = self.end(DROP_DEADLINE);
    }
}

/// What makes a launch resident.
struct Residence {
    lease: StackLease,
    stacks: Vec<DefaultStack>,
    machines: Vec<Box<dyn WarpMachine>>,
}

/// Control words in memory of their own.
fn own_control(grid: Grid) -> Result<Control, Error> {
    let bytes = Control::bytes(grid.total()) as usize;
    let arena = Arc::new(Arena::new(bytes, Location::PinnedHost)?);
    Ok(Control::allocate(&arena, grid.total())?)
}

/// How long dropping an executor waits for its threads.
const DROP_DEADLINE: Duration = Duration::from_secs(2);
