//! The watchdog: looks at every thread now and then, and names what does not pause.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::executor::error::Stall;
use crate::executor::shared::{Shared, lock};

/// What is told about a stall, once for each.
pub(crate) type OnStall = Box<dyn Fn(&Stall) + Send + Sync>;

/// The watchdog's settings and findings.
pub(crate) struct Watch {
    limit: Duration,
    on_stall: Option<OnStall>,
    /// Current stalls by thread.
    stalls: Mutex<HashMap<usize, Stall>>,
    quit: Mutex<bool>,
    rung: Condvar,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({:?})", self.limit)
    }
}

impl Watch {
    pub(crate) fn new(limit: Duration, on_stall: Option<OnStall>) -> Self {
        Self {
            limit,
            on_stall,
            stalls: Mutex::default(),
            quit: Mutex::new(false),
            rung: Condvar::new(),
        }
    }

    /// How long a task may run without a pause.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// What is stuck now.
    pub(crate) fn stalls(&self) -> Vec<Stall> {
        let mut stalls: Vec<Stall> = lock(&self.stalls).values().cloned().collect();
        stalls.sort_by_key(|stall| stall.thread);
        stalls
    }

    /// Looks until told to quit: the body of the watchdog's thread.
    pub(crate) fn run(&self, shared: &Arc<Shared>) {
        let period = (self.limit / 4).clamp(Duration::from_millis(1), Duration::from_millis(100));
        while !self.rest(period) {
            self.look(shared);
        }
    }

    /// Waits a period; whether it is time to quit.
    fn rest(&self, period: Duration) -> bool {
        let quit = lock(&self.quit);
        let (quit, _) = self
            .rung
            .wait_timeout_while(quit, period, |quit| !*quit)
            .unwrap_or_else(PoisonError::into_inner);
        *quit
    }

    pub(crate) fn quit(&self) {
        *lock(&self.quit) = true;
        self.rung.notify_all();
    }

    fn look(&self, shared: &Arc<Shared>) {
        let ports = lock(&shared.ports).clone();
        for (thread, port) in ports.iter().enumerate() {
            let key = port.current.load(Ordering::Relaxed);
            let silent = port.silent();
            if key == 0 || silent < self.limit {
                lock(&self.stalls).remove(&thread);
                continue;
            }
            let stall = shared.stall(thread, key, silent);
            let known = lock(&self.stalls).insert(thread, stall.clone());
            if known.is_none()
                && let Some(on_stall) = &self.on_stall
            {
                on_stall(&stall);
            }
        }
    }
}
