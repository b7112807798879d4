//! Services on the executor's threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::executor::error::{Error, Stall, panic_message};
use crate::executor::shared::{Shared, after, lock};
use crate::executor::worker::Turn;
use crate::service::Service;

/// A service as its thread has it.
pub(crate) struct Hosted {
    pub(crate) state: Arc<HostedState>,
    service: Box<dyn Service>,
    budget: u32,
}

impl std::fmt::Debug for Hosted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hosted({})", self.state.name)
    }
}

/// Shared by the handle and the thread.
#[derive(Debug)]
pub(crate) struct HostedState {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) thread: usize,
    stop: AtomicBool,
    turns: AtomicU64,
    work: AtomicU64,
    end: Mutex<End>,
    ended: Condvar,
}

enum End {
    Running,
    Ended(Result<Box<dyn Service>, Error>),
    Taken,
}

impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Running => "Running",
            Self::Ended(Ok(_)) => "Ended",
            Self::Ended(Err(_)) => "Failed",
            Self::Taken => "Taken",
        })
    }
}

impl Hosted {
    pub(crate) fn new(service: Box<dyn Service>, budget: u32, id: u32, thread: usize) -> Self {
        let state = Arc::new(HostedState {
            id,
            name: service.name().to_owned(),
            thread,
            stop: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            work: AtomicU64::new(0),
            end: Mutex::new(End::Running),
            ended: Condvar::new(),
        });
        Self {
            state,
            service,
            budget,
        }
    }

    /// Lets the service run once; the outcome if that ended it.
    #[inline]
    pub(crate) fn turn(&mut self) -> Turn {
        if self.is_stopped() {
            return Turn::Ended;
        }
        // One writer: this thread.
        add(&self.state.turns, 1);
        match catch_unwind(AssertUnwindSafe(|| self.service.run(self.budget))) {
            Ok(0) => Turn::Idle,
            Ok(work) => {
                add(&self.state.work, u64::from(work));
                Turn::Busy
            }
            Err(payload) => {
                *lock(&self.state.end) = End::Ended(Err(Error::ServicePanicked {
                    service: self.state.name.clone(),
                    message: panic_message(&*payload),
                }));
                Turn::Ended
            }
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state.stop.load(Ordering::Relaxed)
    }

    /// When the service wants its next turn at the latest, in virtual time.
    pub(crate) fn next_event_ns(&self) -> Option<u64> {
        self.service.next_event_ns()
    }

    /// Hands the service back to who waits for it.
    pub(crate) fn end(self) {
        let mut end = lock(&self.state.end);
        if matches!(*end, End::Running) {
            *end = End::Ended(Ok(self.service));
        }
        drop(end);
        self.state.ended.notify_all();
    }
}

fn add(counter: &AtomicU64, value: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(value),
        Ordering::Relaxed,
    );
}

/// A service that was added. Dropping the handle lets it run on until the executor ends.
#[derive(Debug)]
pub struct ServiceHandle {
    state: Arc<HostedState>,
    shared: Arc<Shared>,
}

impl ServiceHandle {
    pub(crate) fn new(state: Arc<HostedState>, shared: Arc<Shared>) -> Self {
        Self { state, shared }
    }

    /// What the service calls itself.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Times that it was run.
    pub fn turns(&self) -> u64 {
        self.state.turns.load(Ordering::Relaxed)
    }

    /// Units of work that it did, by its own count.
    pub fn work(&self) -> u64 {
        self.state.work.load(Ordering::Relaxed)
    }

    /// Whether it still runs: it ends when it is stopped, and when it panics.
    pub fn is_running(&self) -> bool {
        matches!(*lock(&self.state.end), End::Running)
    }

    /// Takes the service off its thread and returns it, within `deadline` of real time.
    ///
    /// # Errors
    /// [`Error::ServicePanicked`] if it did, [`Error::Stuck`] if its thread does not come back.
    pub fn stop(self, deadline: Duration) -> Result<Box<dyn Service>, Error> {
        self.state.stop.store(true, Ordering::Relaxed);
        self.shared.sweep();
        let until = after(deadline);
        let mut end = lock(&self.state.end);
        while matches!(*end, End::Running) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Stuck(
                    self.shared.holder(&self.state.name, &[self.state.thread]),
                ));
            }
            end = self
                .state
                .ended
                .wait_timeout(end, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        match std::mem::replace(&mut *end, End::Taken) {
            End::Ended(result) => result,
            End::Running | End::Taken => Err(Error::Stuck(Stall {
                name: self.state.name.clone(),
                place: None,
                thread: self.state.thread,
                silent: Duration::ZERO,
            })),
        }
    }
}
