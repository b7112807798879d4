//! What the handles, the threads and the watchdog of one executor share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::Thread;
use std::time::{Duration, Instant};

use corosensei::stack::DefaultStack;

use crate::executor::clock::Clock;
use crate::executor::error::{Error, Stall};
use crate::executor::hosted::Hosted;
use crate::executor::program::WarpMachine;
use crate::executor::run::Run;
use crate::executor::watch::Watch;
use crate::executor::world::Trace;

/// One executor's common state.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) ports: Mutex<Vec<Arc<Port>>>,
    pub(crate) watch: Watch,
    pub(crate) stacks: Arc<Stacks>,
    names: Mutex<HashMap<u32, Name>>,
    next_id: AtomicU32,
}

/// What a task key stands for.
#[derive(Clone, Debug)]
struct Name {
    name: String,
    /// Warps a block; nothing for a service.
    warps: Option<u32>,
}

impl Shared {
    pub(crate) fn new(clock: Clock, watch: Watch, stack_limit: usize) -> Self {
        Self {
            clock,
            ports: Mutex::new(Vec::new()),
            watch,
            stacks: Arc::new(Stacks {
                used: AtomicUsize::new(0),
                limit: stack_limit,
            }),
            names: Mutex::new(HashMap::new()),
            next_id: AtomicU32::new(1),
        }
    }

    /// A number for a launch or a service, under which the watchdog knows it.
    pub(crate) fn enlist(&self, name: &str, warps: Option<u32>) -> u32 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let name = Name {
            name: name.to_owned(),
            warps,
        };
        lock(&self.names).insert(id, name);
        id
    }

    /// The launch or service is over.
    pub(crate) fn strike(&self, id: u32) {
        lock(&self.names).remove(&id);
    }

    pub(crate) fn port(&self, thread: usize) -> Option<Arc<Port>> {
        lock(&self.ports).get(thread).cloned()
    }

    /// The thread with the fewest tasks, among the first `pool`.
    pub(crate) fn least_loaded(&self, pool: usize) -> usize {
        let ports = lock(&self.ports);
        let load = |port: &Arc<Port>| port.load.load(Ordering::Relaxed);
        let least = ports
            .iter()
            .take(pool)
            .enumerate()
            .min_by_key(|(_, port)| load(port));
        least.map_or(0, |(thread, _)| thread)
    }

    /// Tells all threads to look at who was stopped or cancelled.
    pub(crate) fn sweep(&self) {
        for port in lock(&self.ports).iter() {
            port.send(Command::Sweep);
        }
    }

    /// Drives virtual time on by `longest`, or until `run` ended.
    pub(crate) fn drive(&self, run: Option<&Arc<Run>>, longest: Duration) -> Result<(), Error> {
        let Some(port) = self.port(0).filter(|_| self.clock.is_virtual()) else {
            return Err(Error::RealTime);
        };
        let longest = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        let (reply, done) = mpsc::channel();
        port.send(Command::Drive {
            run: run.map(Arc::clone),
            until_ns: self.clock.now_ns().saturating_add(longest),
            reply,
        });
        loop {
            match done.recv_timeout(LOOK) {
                Ok(()) => return Ok(()),
                // The thread is gone: nothing moves any more.
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    if let Some(stall) = self.watch.stalls().into_iter().next() {
                        return Err(Error::Stuck(stall));
                    }
                }
            }
        }
    }

    /// The virtual thread's trace.
    pub(crate) fn trace(&self) -> Option<Trace> {
        let port = self.port(0).filter(|_| self.clock.is_virtual())?;
        let trace = *lock(&port.trace);
        Some(trace)
    }

    /// Who holds one of `threads` and so keeps `name` from ending: itself or another task.
    pub(crate) fn holder(&self, name: &str, threads: &[usize]) -> Stall {
        let held = threads.iter().filter_map(|&thread| {
            let port = self.port(thread)?;
            Some((thread, port.current.load(Ordering::Relaxed), port.silent()))
        });
        // The one that is silent longest: all others come to a pause and are over.
        match held.filter(|held| held.1 != 0).max_by_key(|held| held.2) {
            Some((thread, key, silent)) => self.stall(thread, key, silent),
            None => Stall {
                name: name.to_owned(),
                place: None,
                thread: threads.first().copied().unwrap_or(0),
                silent: Duration::ZERO,
            },
        }
    }

    pub(crate) fn stall(&self, thread: usize, key: u64, silent: Duration) -> Stall {
        let (id, index) = ((key >> 32) as u32, key as u32);
        let name = lock(&self.names).get(&id).cloned();
        let place = name
            .as_ref()
            .and_then(|name| name.warps)
            .map(|warps| (index / warps, index % warps));
        Stall {
            name: name.map_or_else(|| format!("task {id}"), |name| name.name),
            place,
            thread,
            silent,
        }
    }
}

/// The key of a task: of its launch or service, and of the warp in it.
pub(crate) fn key(id: u32, index: u32) -> u64 {
    u64::from(id) << 32 | u64::from(index)
}

/// One thread, seen from outside: what it shall do, and what it is doing.
#[derive(Debug)]
pub(crate) struct Port {
    /// Key of the task that runs now, 0 for none. Written by the thread, read by the watchdog.
    pub(crate) current: AtomicU64,
    /// Turns given so far. Written by the thread, read by the watchdog.
    pub(crate) turns: AtomicU64,
    /// Tasks that the thread has or will get.
    pub(crate) load: AtomicUsize,
    /// Whether there are commands. Read by the thread once a round.
    pending: AtomicBool,
    mail: Mutex<Mail>,
    pub(crate) trace: Mutex<Trace>,
    /// What the watchdog saw last, and since when.
    seen: Mutex<(u64, Instant)>,
}

#[derive(Debug, Default)]
struct Mail {
    commands: Vec<Command>,
    thread: Option<Thread>,
    /// The thread has ended: whatever comes is dropped.
    closed: bool,
}

/// What a thread is told.
#[derive(Debug)]
pub(crate) enum Command {
    /// Take over a warp.
    Warp(WarpOrder),
    /// Take over a service.
    Service(Hosted),
    /// Look at who was stopped or cancelled, although nothing moves.
    Sweep,
    /// Virtual time: run until then, or until the launch ended; then reply.
    Drive {
        run: Option<Arc<Run>>,
        until_ns: u64,
        reply: mpsc::Sender<()>,
    },
    /// Unwind everything and end.
    Quit,
}

/// A warp on its way to the thread that will run it.
pub(crate) struct WarpOrder {
    pub(crate) run: Arc<Run>,
    pub(crate) index: u32,
    pub(crate) stacks: Vec<DefaultStack>,
    /// What runs the warp in place of its row.
    pub(crate) machine: Option<Box<dyn WarpMachine>>,
    pub(crate) lease: StackLease,
}

impl std::fmt::Debug for WarpOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WarpOrder({} {})", self.run.kernel.name, self.index)
    }
}

impl Port {
    pub(crate) fn new() -> Self {
        Self {
            current: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            load: AtomicUsize::new(0),
            pending: AtomicBool::new(false),
            mail: Mutex::default(),
            trace: Mutex::default(),
            seen: Mutex::new((0, Instant::now())),
        }
    }

    pub(crate) fn send(&self, command: Command) {
        let mut mail = lock(&self.mail);
        if mail.closed {
            return;
        }
        if matches!(command, Command::Warp(_) | Command::Service(_)) {
            self.load.fetch_add(1, Ordering::Relaxed);
        }
        mail.commands.push(command);
        // pairs with: the acquire load in `pending`.
        self.pending.store(true, Ordering::Release);
        let thread = mail.thread.clone();
        drop(mail);
        if let Some(thread) = thread {
            thread.unpark();
        }
    }

    /// The thread introduces itself, so that commands can wake it.
    pub(crate) fn attach(&self) {
        lock(&self.mail).thread = Some(std::thread::current());
    }

    /// The thread ends: commands that it has not taken are dropped, and so are later ones.
    pub(crate) fn close(&self) {
        let mut mail = lock(&self.mail);
        mail.closed = true;
        mail.commands.clear();
    }

    #[inline]
    pub(crate) fn pending(&self) -> bool {
        // pairs with: the release store in `send`.
        self.pending.load(Ordering::Acquire)
    }

    pub(crate) fn take(&self) -> Vec<Command> {
        let mut mail = lock(&self.mail);
        self.pending.store(false, Ordering::Relaxed);
        std::mem::take(&mut mail.commands)
    }

    /// How long the thread has been in the same turn, to the period of the watchdog's looks.
    pub(crate) fn silent(&self) -> Duration {
        let mut seen = lock(&self.seen);
        let turns = self.turns.load(Ordering::Relaxed);
        if seen.0 != turns || self.current.load(Ordering::Relaxed) == 0 {
            *seen = (turns, Instant::now());
        }
        seen.1.elapsed()
    }
}

/// How many coroutine stacks there are and may be.
#[derive(Debug)]
pub(crate) struct Stacks {
    used: AtomicUsize,
    limit: usize,
}

impl Stacks {
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Takes `need` stacks out of the budget, or says how many are free.
    pub(crate) fn lease(self: &Arc<Self>, need: usize) -> Result<StackLease, usize> {
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                (used.checked_add(need)? <= self.limit).then(|| used + need)
            });
        match taken {
            Ok(_) => Ok(StackLease {
                stacks: Arc::clone(self),
                count: need,
            }),
            Err(used) => Err(self.limit.saturating_sub(used)),
        }
    }
}

/// Stacks in use; given back when dropped.
#[derive(Debug)]
pub(crate) struct StackLease {
    stacks: Arc<Stacks>,
    count: usize,
}

impl StackLease {
    /// Cuts `count` off, for one warp.
    pub(crate) fn split(&mut self, count: usize) -> Self {
        let count = count.min(self.count);
        self.count -= count;
        Self {
            stacks: Arc::clone(&self.stacks),
            count,
        }
    }
}

impl Drop for StackLease {
    fn drop(&mut self) {
        self.stacks.used.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// Locks, also after a panic elsewhere: every critical section here leaves its data whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The instant `longest` from now; a year where that is beyond reckoning.
pub(crate) fn after(longest: Duration) -> Instant {
    let now = Instant::now();
    let year = Duration::from_secs(31_557_600);
    now + longest.min(year)
}

/// How often a driver of virtual time looks whether something is stuck.
const LOOK: Duration = Duration::from_millis(50);
