//! The clock that kernels and services read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::system;

/// Which time an executor lives in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Time {
    /// The machine's monotonic clock, and real threads.
    #[default]
    Real,
    /// A clock of its own that moves only while the executor is driven, one thread, and an order of
    /// turns that the seed decides. The same seed gives the same run.
    Virtual {
        /// Decides who is next, every time.
        seed: u64,
    },
}

/// A handle to an executor's clock, for services and for whoever computes deadlines.
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Real,
    Virtual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock, which every executor in real time has.
    pub const fn machine() -> Self {
        Self(Kind::Real)
    }

    pub(crate) fn new(time: Time) -> Self {
        match time {
            Time::Real => Self(Kind::Real),
            Time::Virtual { .. } => Self(Kind::Virtual(Arc::new(AtomicU64::new(0)))),
        }
    }

    /// Nanoseconds: of `CLOCK_MONOTONIC` in real time, since the executor was built in virtual
    /// time.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match &self.0 {
            Kind::Real => system::monotonic_ns(),
            Kind::Virtual(now) => now.load(Ordering::Relaxed),
        }
    }

    /// Whether time moves only while the executor is driven.
    pub fn is_virtual(&self) -> bool {
        matches!(self.0, Kind::Virtual(_))
    }

    /// Moves a virtual clock on; a real one goes by itself.
    pub(crate) fn advance_to(&self, ns: u64) {
        if let Kind::Virtual(now) = &self.0 {
            now.fetch_max(ns, Ordering::Relaxed);
        }
    }
}
