//! A launch as the threads see it: what runs, on what memory, how far it got.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warpwire_device::{KernelRow, Place};

use crate::executor::Backend;
use crate::executor::barrier::BlockBarrier;
use crate::executor::control::Control;
use crate::executor::error::Error;
use crate::executor::launch::{Exit, Grid, Parameters, Report, WarpReport};
use crate::executor::shared::after;

/// Shared by the handle and by each warp. Whoever holds it holds the memory of the launch.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: u32,
    pub(crate) kernel: KernelRow,
    pub(crate) grid: Grid,
    pub(crate) parameters: Parameters,
    pub(crate) control: Control,
    pub(crate) backend: Backend,
    /// The threads that its warps are on.
    pub(crate) threads: Vec<usize>,
    pub(crate) started_ns: u64,
    barriers: Vec<BlockBarrier>,
    cancelled: AtomicBool,
    progress: Mutex<Progress>,
    ended: Condvar,
}

/// What is left of a warp that is over.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) run: Arc<Run>,
    pub(crate) index: u32,
    pub(crate) slices: u64,
    pub(crate) pauses: u64,
    pub(crate) exit: Exit,
}

impl Ending {
    /// Tells the launch; its number if this was its last warp.
    pub(crate) fn tell(&self, now_ns: u64) -> Option<u32> {
        self.run.finish(self, now_ns).then_some(self.run.id)
    }
}

#[derive(Debug)]
struct Progress {
    running: u32,
    warps: Vec<WarpReport>,
    failure: Option<Error>,
    /// The first warp that was unwound, and where it stood.
    unwound: Option<(u32, String)>,
    ended_ns: u64,
}

impl Run {
    #[expect(
        clippy::too_many_arguments,
        reason = "made in one place, from parts that have no home yet"
    )]
    pub(crate) fn new(
        id: u32,
        kernel: KernelRow,
        grid: Grid,
        parameters: Parameters,
        control: Control,
        backend: Backend,
        threads: Vec<usize>,
        started_ns: u64,
    ) -> Self {
        let warps = (0..grid.total())
            .map(|index| WarpReport {
                block: index / grid.warps,
                warp: index % grid.warps,
                slices: 0,
                pauses: 0,
                exit: Exit::Running,
            })
            .collect();
        Self {
            id,
            kernel,
            grid,
            parameters,
            control,
            backend,
            threads,
            started_ns,
            barriers: (0..grid.blocks)
                .map(|_| BlockBarrier::new(grid.warps as u16))
                .collect(),
            cancelled: AtomicBool::new(false),
            progress: Mutex::new(Progress {
                running: grid.total(),
                warps,
                failure: None,
                unwound: None,
                ended_ns: started_ns,
            }),
            ended: Condvar::new(),
        }
    }

    /// Where warp `index`, counted over all blocks, stands.
    pub(crate) fn place(&self, index: u32) -> Place {
        self.grid.place(index)
    }

    /// The barrier of a block of this launch.
    pub(crate) fn barrier(&self, block: u32) -> &BlockBarrier {
        &self.barriers[block as usize]
    }

    /// Unwinds every warp at its next pause.
    pub(crate) fn cancel(&self) {
        self.control.stop();
        self.cancelled.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Something went wrong in a warp: the rest of the launch is asked to stop.
    pub(crate) fn fail(&self, error: Error) {
        self.progress().failure.get_or_insert(error);
        self.control.stop();
    }

    /// A warp panicked, in a lane of it if that is known.
    pub(crate) fn panicked(&self, index: u32, lane: Option<u32>, message: String) {
        let place = self.place(index);
        self.fail(Error::Panicked {
            kernel: self.kernel.name,
            block: place.block,
            warp: place.warp,
            lane,
            message,
        });
    }

    /// A warp is over, its stacks are gone, its block no longer waits for it. Whether it was the
    /// last.
    fn finish(&self, ending: &Ending, now_ns: u64) -> bool {
        let Ending {
            index,
            slices,
            pauses,
            exit,
            ..
        } = *ending;
        self.barrier(index / self.grid.warps).leave();
        let mut progress = self.progress();
        if let Some(warp) = progress.warps.get_mut(index as usize) {
            *warp = WarpReport {
                slices,
                pauses,
                exit,
                ..*warp
            };
        }
        progress.running -= 1;
        let last = progress.running == 0;
        if last {
            progress.ended_ns = now_ns;
            drop(progress);
            self.ended.notify_all();
        }
        last
    }

    /// Warp `index` is being unwound from where it stands.
    pub(crate) fn unwound(&self, index: u32, stand: String) {
        let mut progress = self.progress();
        if progress
            .unwound
            .as_ref()
            .is_none_or(|first| index < first.0)
        {
            progress.unwound = Some((index, stand));
        }
    }

    /// The first of the warps that were unwound, and where it stood.
    pub(crate) fn first_unwound(&self) -> Option<(u32, String)> {
        self.progress().unwound.clone()
    }

    pub(crate) fn running(&self) -> u32 {
        self.progress().running
    }

    /// Waits in real time until all warps ended, and says whether they did.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        let deadline = after(longest);
        let mut progress = self.progress();
        while progress.running > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            progress = self
                .ended
                .wait_timeout(progress, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.progress().failure.take()
    }

    pub(crate) fn report(&self, now_ns: u64) -> Report {
        let progress = self.progress();
        let until = if progress.running == 0 {
            progress.ended_ns
        } else {
            now_ns
        };
        Report {
            kernel: self.kernel.name,
            grid: self.grid,
            backend: self.backend,
            emulated: self.parameters.memory.iter().any(|arena| arena.emulated()),
            elapsed: Duration::from_nanos(until.saturating_sub(self.started_ns)),
            warps: progress.warps.clone(),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
