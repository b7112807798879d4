//! Launches: what the host says to start a kernel on a GPU, and what it hears when it is over.
#![expect(unsafe_code, reason = "foreign memory comes with a promise")]

use std::any::Any;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warpwire_ring::{Cause, DeviceAddress, Region};

use crate::executor::control::Control;
use crate::executor::cuda::error::Error;
use crate::executor::cuda::memory::DeviceArena;
use crate::executor::cuda::slices::{SHORTEST_PAUSE, bounded};
use crate::executor::launch::Grid;

/// What a sliced launch needs beside its parameters.
#[derive(Clone, Debug)]
pub struct Slices {
    /// Nowhere, of a launch of one slice with the turns that its block says.
    pub(super) turns: Option<DeviceAddress>,
    pub(super) device_memory: Vec<Arc<DeviceArena>>,
    pub(super) foreign: Vec<Foreign>,
    pub(super) first_turns: Option<u64>,
    pub(super) slice: Option<Duration>,
    pub(super) pause: Duration,
}

impl Slices {
    /// `turns` is where the kernel's parameter block says after how many turns each block returns:
    /// 64 bits, in one of the arenas of the parameters. The host writes it between slices.
    pub fn new(turns: DeviceAddress) -> Self {
        Self {
            turns: Some(turns),
            ..Self::once()
        }
    }

    /// One slice alone: the parameter block stays as it is, and the launch is over when the kernel
    /// returns. The block may say how many turns that takes; it need not name a stop word or
    /// heartbeats, and without them nobody hears what ended a block.
    pub fn once() -> Self {
        Self {
            turns: None,
            device_memory: Vec::new(),
            foreign: Vec::new(),
            first_turns: None,
            slice: None,
            pause: SHORTEST_PAUSE,
        }
    }

    /// Turns of this launch's first slice, from 2 to 2^31. Without a word: the executor's.
    #[must_use]
    pub fn first_turns(self, first_turns: u64) -> Self {
        Self {
            first_turns: Some(bounded(first_turns)),
            ..self
        }
    }

    /// How long a slice of this launch shall take; of no time at all, it gets the fewest turns.
    /// Without a word: what the executor says.
    #[must_use]
    pub fn slice(self, slice: Duration) -> Self {
        Self {
            slice: Some(slice),
            ..self
        }
    }

    /// How long to sleep between looks at the end of a slice; no time at all keeps a processor busy
    /// until the launch is stopped. Without a word: 50 us.
    #[must_use]
    pub fn pause(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Keeps device memory that the parameters point to.
    #[must_use]
    pub fn device_memory(mut self, arena: Arc<DeviceArena>) -> Self {
        self.device_memory.push(arena);
        self
    }

    /// Maps registers of another device into this one while the launch runs.
    #[must_use]
    pub fn foreign(mut self, memory: Foreign) -> Self {
        self.foreign.push(memory);
        self
    }
}

/// Registers or memory of another device that a kernel reaches where it is mapped, such as a NIC's
/// doorbell page.
#[derive(Clone, Debug)]
pub struct Foreign {
    region: Region,
    _keep: Arc<dyn Any + Send + Sync>,
}

impl Foreign {
    /// Names registers that `keep` keeps.
    ///
    /// # Safety
    /// The region is mapped into the process, at that address, until `keep` is dropped.
    pub unsafe fn io(region: Region, keep: Arc<dyn Any + Send + Sync>) -> Self {
        Self {
            region,
            _keep: keep,
        }
    }

    pub(super) fn region(&self) -> Region {
        self.region
    }
}

/// How a block ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockExit {
    /// Not yet.
    Running,
    /// It was stopped, or stopped because another block ended.
    Stopped,
    /// It ended by itself, before its turns were used up: with nothing more to do, or with a cause.
    Returned(Option<Cause>),
}

/// What a launch did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The kernel.
    pub kernel: &'static str,
    /// Its grid.
    pub grid: Grid,
    /// The GPU's name.
    pub device: String,
    /// Whether host memory stood for device memory in this launch.
    pub emulated: bool,
    /// From the first slice to the end of the last one, or until now.
    pub elapsed: Duration,
    /// Slices that ended.
    pub slices: u64,
    /// The longest of them, as the host saw it.
    pub longest_slice: Duration,
    /// Turns that each block had in all slices together, if all were used; without meaning in a
    /// launch of one slice with turns of its own.
    pub turns: u64,
    /// Each block.
    pub blocks: Vec<BlockExit>,
}

impl Report {
    /// The first cause that a block returned other than [`Cause::Aborted`], which is what a stop
    /// looks like.
    pub fn cause(&self) -> Option<Cause> {
        let causes = self.blocks.iter().filter_map(|block| match block {
            BlockExit::Returned(cause) => *cause,
            BlockExit::Running | BlockExit::Stopped => None,
        });
        causes.into_iter().find(|&cause| cause != Cause::Aborted)
    }
}

/// A kernel that was started on a GPU. Dropping the handle asks it to stop, without waiting; its
/// memory stays until the last slice ended.
#[derive(Debug)]
pub struct Launch {
    pub(super) control: Control,
    pub(super) progress: Arc<Progress>,
    /// How long a slice is meant to take.
    pub(super) slice: Duration,
}

impl Launch {
    /// Sets the stop word: the kernel ends within its turn, and no further slice is launched.
    pub fn stop(&self) {
        self.control.stop();
    }

    /// The stop word and the heartbeats.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Whether the last slice ended and everything that was made for the launch is given back.
    pub fn is_finished(&self) -> bool {
        self.progress.lock().over
    }

    /// What was counted so far.
    pub fn report(&self) -> Report {
        let stand = self.progress.lock();
        let mut report = stand.report.clone();
        if !stand.over {
            report.elapsed = self.progress.started.elapsed();
        }
        report
    }

    /// Waits at most `longest` until the launch is over, and says whether it is. Stops nothing.
    pub fn wait(&self, longest: Duration) -> bool {
        self.progress.wait(longest)
    }

    /// Waits at most `deadline` until the launch is over, and reports. A kernel that has not ended
    /// by then is stopped.
    ///
    /// # Errors
    /// [`Error::Kernel`] if the kernel or a call about it failed, [`Error::Refused`] if it did not
    /// take its parameter block, [`Error::Deadline`] if it did not stop either: then its memory
    /// stays until it does.
    pub fn join(self, deadline: Duration) -> Result<Report, Error> {
        if !self.wait(deadline) {
            self.stop();
            let grace = LEAST_GRACE.max(self.slice * 4);
            if !self.wait(grace) {
                let stand = self.progress.lock();
                return Err(Error::Deadline {
                    kernel: stand.report.kernel,
                    waited: deadline + grace,
                    slice: stand.report.slices + 1,
                });
            }
        }
        self.outcome()
    }

    /// How a launch that is over ended; how it stands, if it is not. What went wrong is told once.
    ///
    /// # Errors
    /// [`Error::Kernel`] and [`Error::Refused`], see [`Launch::join`].
    pub fn outcome(&self) -> Result<Report, Error> {
        let failure = self.progress.lock().failure.take();
        match failure {
            Some(error) => Err(error),
            None => Ok(self.report()),
        }
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        self.control.stop();
    }
}

/// What the thread of a launch tells.
#[derive(Debug)]
pub(super) struct Progress {
    stand: Mutex<Stand>,
    ended: Condvar,
    started: Instant,
}

#[derive(Debug)]
pub(super) struct Stand {
    pub(super) report: Report,
    failure: Option<Error>,
    over: bool,
}

impl Progress {
    pub(super) fn new(report: Report) -> Self {
        Self {
            stand: Mutex::new(Stand {
                report,
                failure: None,
                over: false,
            }),
            ended: Condvar::new(),
            started: Instant::now(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Stand> {
        self.stand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The launch is over, and nothing of it is left.
    pub(super) fn end(&self, outcome: Result<Vec<BlockExit>, Error>) {
        let mut stand = self.lock();
        stand.report.elapsed = self.started.elapsed();
        match outcome {
            Ok(blocks) => stand.report.blocks = blocks,
            Err(error) => stand.failure = Some(error),
        }
        stand.over = true;
        drop(stand);
        self.ended.notify_all();
    }

    fn wait(&self, longest: Duration) -> bool {
        let running = |stand: &mut Stand| !stand.over;
        let waited = self.ended.wait_timeout_while(self.lock(), longest, running);
        waited.unwrap_or_else(PoisonError::into_inner).0.over
    }
}

/// A slice that was told to stop may take so long at least.
const LEAST_GRACE: Duration = Duration::from_millis(500);
