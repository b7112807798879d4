//! The fabric's clock: the machine's, or one that a test turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use warpwire_gpu::executor;

/// Nanoseconds since some start.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's monotonic clock, from the moment of creation.
    System(Instant),
    /// A word that somebody else advances.
    Virtual(Arc<AtomicU64>),
    /// The clock of an executor, which kernels read as well.
    Executor(executor::Clock),
}

impl Clock {
    /// The machine's clock, starting now.
    pub fn system() -> Self {
        Self::System(Instant::now())
    }

    /// A clock that stands at 0, and the word that moves it.
    pub fn turned() -> (Self, Arc<AtomicU64>) {
        let word = Arc::new(AtomicU64::new(0));
        (Self::Virtual(Arc::clone(&word)), word)
    }

    /// The time now.
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::System(start) => start.elapsed().as_nanos() as u64,
            Self::Virtual(word) => word.load(Ordering::Acquire),
            Self::Executor(clock) => clock.now_ns(),
        }
    }
}
