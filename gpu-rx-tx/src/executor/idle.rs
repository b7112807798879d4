//! What a thread does when nothing on it has work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How a thread waits while all of its kernels pause and all of its services are idle: it spins,
/// then gives up its turn, then sleeps, longer each time up to a bound. Work sets it back to the
/// start.
///
/// A round over all tasks of the thread is the unit. No more threads than the machine has
/// processors spin at one time, over all executors of the process; the others start with giving up
/// their turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdlePolicy {
    /// Idle rounds with nothing but a hint to the processor.
    pub spins: u32,
    /// Idle rounds after that with a `sched_yield` each.
    pub yields: u32,
    /// The longest sleep. Zero: never sleeps.
    pub longest_sleep: Duration,
    /// Spins even where more threads spin than there are processors.
    pub insist: bool,
}

impl IdlePolicy {
    /// Spins for ever: lowest latency, a whole processor. What measurements use.
    pub const SPIN: Self = Self {
        spins: u32::MAX,
        yields: 0,
        longest_sleep: Duration::ZERO,
        insist: true,
    };
    /// Never spins: for tests and for machines that have other things to do.
    pub const POLITE: Self = Self {
        spins: 0,
        yields: 16,
        longest_sleep: Duration::from_micros(100),
        insist: false,
    };
}

impl Default for IdlePolicy {
    /// Spins for 1000 rounds, yields for 200, then sleeps for at most 50 microseconds at a time.
    fn default() -> Self {
        Self {
            spins: 1000,
            yields: 200,
            longest_sleep: Duration::from_micros(50),
            insist: false,
        }
    }
}

/// How a thread stands with its [`IdlePolicy`].
#[derive(Debug)]
pub(crate) struct Idle {
    policy: IdlePolicy,
    rounds: u32,
    sleep: Duration,
    /// Held while the thread has tasks, if it may spin.
    permit: Option<SpinPermit>,
}

impl Idle {
    pub(crate) fn new(policy: IdlePolicy) -> Self {
        Self {
            policy,
            rounds: 0,
            sleep: SHORTEST_SLEEP,
            permit: None,
        }
    }

    /// The thread got its first task.
    pub(crate) fn start(&mut self) {
        if self.permit.is_none() && self.policy.spins > 0 {
            self.permit = SpinPermit::take(self.policy.insist);
        }
        self.reset();
    }

    /// The thread lost its last task.
    pub(crate) fn end(&mut self) {
        self.permit = None;
    }

    /// There was work.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.rounds = 0;
        self.sleep = SHORTEST_SLEEP;
    }

    /// There was none: waits a little.
    #[inline]
    pub(crate) fn wait(&mut self) {
        let spins = match self.permit {
            Some(_) => self.policy.spins,
            None => 0,
        };
        if self.rounds < spins {
            // A policy that spins for ever never counts.
            self.rounds += u32::from(spins != u32::MAX);
            std::hint::spin_loop();
        } else if self.rounds - spins < self.policy.yields || self.policy.longest_sleep.is_zero() {
            self.rounds = self.rounds.saturating_add(1);
            thread::yield_now();
        } else {
            thread::park_timeout(self.sleep);
            self.sleep = (self.sleep * 2).min(self.policy.longest_sleep);
        }
    }
}

/// Leave to spin; given back when dropped.
#[derive(Debug)]
struct SpinPermit;

impl SpinPermit {
    fn take(insist: bool) -> Option<Self> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let most = if insist { usize::MAX } else { processors };
        let one_more = |now: usize| (now < most).then_some(now + 1);
        let taken = SPINNERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.ok().map(|_| Self)
    }
}

impl Drop for SpinPermit {
    fn drop(&mut self) {
        SPINNERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Threads of this process that may spin now.
static SPINNERS: AtomicUsize = AtomicUsize::new(0);

const SHORTEST_SLEEP: Duration = Duration::from_micros(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_threads_spin_than_there_are_processors() {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let mut permits: Vec<SpinPermit> = (0..processors + 3)
            .filter_map(|_| SpinPermit::take(false))
            .collect();
        // Other tests of this process may hold some.
        assert!(permits.len() <= processors);
        assert!(SpinPermit::take(true).is_some(), "who insists gets one");
        permits.clear();
    }
}
