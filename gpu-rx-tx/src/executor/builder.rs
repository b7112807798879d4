//! What an executor is made of.

use std::sync::Arc;
use std::time::Duration;

use crate::executor::clock::Time;
use crate::executor::cpu::CpuExecutor;
use crate::executor::error::{Error, Stall};
use crate::executor::idle::IdlePolicy;
use crate::executor::program::Program;
use crate::executor::watch::OnStall;

/// How wide a warp is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// One lane a warp: for work.
    #[default]
    Scalar,
    /// 32 lanes a warp, a coroutine each, in an order that the seed decides: for tests. Lanes that
    /// break the collective contract are found and named.
    Lockstep {
        /// Decides which lane is next, every time.
        seed: u64,
    },
    /// 32 lanes a warp, run by the [`Program`] that [`Builder::program`] names: a virtual GPU that
    /// executes the machine code of a kernel instead of its row.
    Virtual {
        /// Decides the order of what has none.
        seed: u64,
    },
}

/// Settings of a [`CpuExecutor`].
pub struct Builder {
    pub(crate) threads: usize,
    pub(crate) cpus: Vec<usize>,
    pub(crate) time: Time,
    pub(crate) backend: Backend,
    pub(crate) program: Option<Arc<dyn Program>>,
    pub(crate) idle: IdlePolicy,
    pub(crate) stack_bytes: usize,
    pub(crate) stacks: usize,
    pub(crate) service_budget: u32,
    pub(crate) stuck_after: Duration,
    pub(crate) on_stall: Option<OnStall>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("threads", &self.threads)
            .field("cpus", &self.cpus)
            .field("time", &self.time)
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            threads: 1,
            cpus: Vec::new(),
            time: Time::Real,
            backend: Backend::Scalar,
            program: None,
            idle: IdlePolicy::default(),
            stack_bytes: 256 << 10,
            stacks: 8192,
            service_budget: 64,
            stuck_after: Duration::from_secs(2),
            on_stall: None,
        }
    }
}

impl Builder {
    /// Threads, from 1. Without a word: 1. Virtual time has one thread and ignores this.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Pins thread 0 to the first of these processors, thread 1 to the second, and so on, from the
    /// start again when they run out. Without a word: threads float.
    #[must_use]
    pub fn pin(self, cpus: impl Into<Vec<usize>>) -> Self {
        let cpus = cpus.into();
        Self { cpus, ..self }
    }

    /// Real or virtual time. Without a word: real.
    #[must_use]
    pub fn clock(self, time: Time) -> Self {
        Self { time, ..self }
    }

    /// The width of warps. Without a word: [`Backend::Scalar`].
    #[must_use]
    pub fn backend(self, backend: Backend) -> Self {
        Self { backend, ..self }
    }

    /// What runs kernels with [`Backend::Virtual`]; the other backends do not use it.
    #[must_use]
    pub fn program(self, program: Arc<dyn Program>) -> Self {
        Self {
            program: Some(program),
            ..self
        }
    }

    /// What threads do when nothing has work.
    #[must_use]
    pub fn idle(self, idle: IdlePolicy) -> Self {
        Self { idle, ..self }
    }

    /// Bytes of a coroutine's stack, from 16 KiB. Without a word: 256 KiB. Only what is touched
    /// takes memory; an overflow hits a guard page.
    #[must_use]
    pub fn stack_bytes(self, stack_bytes: usize) -> Self {
        Self {
            stack_bytes,
            ..self
        }
    }

    /// Stacks that may be in use at one time: launches that need more are refused. Without a word:
    /// 8192.
    #[must_use]
    pub fn stacks(self, stacks: usize) -> Self {
        Self { stacks, ..self }
    }

    /// Units of work that a service may do in one turn. Without a word: 64.
    #[must_use]
    pub fn service_budget(self, service_budget: u32) -> Self {
        Self {
            service_budget,
            ..self
        }
    }

    /// How long a task may run without a pause before the watchdog names it, from 1 ms. Without a
    /// word: 2 s.
    #[must_use]
    pub fn stuck_after(self, stuck_after: Duration) -> Self {
        Self {
            stuck_after,
            ..self
        }
    }

    /// Called from the watchdog's thread when it finds a task stuck, once a stall.
    #[must_use]
    pub fn on_stall(self, on_stall: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        let on_stall: OnStall = Box::new(on_stall);
        Self {
            on_stall: Some(on_stall),
            ..self
        }
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// [`Error::Setting`] for a value out of range, [`Error::NoProgram`] for a virtual GPU without
    /// one, [`Error::Thread`] and [`Error::Pin`] for what
    /// the system refuses.
    pub fn build(self) -> Result<CpuExecutor, Error> {
        let at_least = |field, value: u64, least: u64, must| {
            if value < least {
                return Err(Error::Setting { field, value, must });
            }
            Ok(())
        };
        at_least("threads", self.threads as u64, 1, "at least 1")?;
        at_least(
            "stack_bytes",
            self.stack_bytes as u64,
            16 << 10,
            "at least 16384",
        )?;
        at_least(
            "service_budget",
            u64::from(self.service_budget),
            1,
            "at least 1",
        )?;
        let stuck_after_ms = self.stuck_after.as_millis() as u64;
        at_least("stuck_after", stuck_after_ms, 1, "at least 1 ms")?;
        if matches!(self.backend, Backend::Virtual { .. }) && self.program.is_none() {
            return Err(Error::NoProgram);
        }
        CpuExecutor::start(self)
    }
}
