//! Launches: what the host says to start a kernel, and what it hears when the kernel is over.
#![expect(unsafe_code, reason = "parameters carry the kernel's promise")]

use std::sync::Arc;
use std::time::Duration;

use warpwire_device::Place;
use warpwire_ring::{Cause, DeviceAddress};

use crate::arena::Arena;
use crate::executor::Backend;
use crate::executor::control::Control;
use crate::executor::error::Error;
use crate::executor::run::Run;
use crate::executor::shared::Shared;

/// How many warps a launch has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    /// Blocks; a block has one receive and one transmit queue.
    pub blocks: u32,
    /// Warps in a block, at most [`Grid::MOST_WARPS`].
    pub warps: u32,
}

impl Grid {
    /// Warps that fit into a block: 1024 lanes, as on a GPU.
    pub const MOST_WARPS: u32 = 32;
    /// Blocks that fit into a launch.
    pub const MOST_BLOCKS: u32 = 65_535;

    /// One block of one warp.
    pub const ONE: Self = Self {
        blocks: 1,
        warps: 1,
    };

    /// Warps over all blocks.
    pub const fn total(&self) -> u32 {
        self.blocks * self.warps
    }

    /// Where warp `index`, counted over all blocks, stands.
    pub(crate) fn place(&self, index: u32) -> Place {
        Place {
            warp: index % self.warps,
            warps: self.warps,
            block: index / self.warps,
            blocks: self.blocks,
        }
    }

    pub(crate) fn check(&self, kernel: &'static str) -> Result<(), Error> {
        let fields = [
            ("blocks", self.blocks, Self::MOST_BLOCKS),
            ("warps", self.warps, Self::MOST_WARPS),
        ];
        for (field, value, most) in fields {
            if value == 0 || value > most {
                return Err(Error::Grid {
                    kernel,
                    field,
                    value,
                    most,
                });
            }
        }
        Ok(())
    }
}

/// The one argument of a kernel, and the memory that must outlive it.
#[derive(Clone, Debug)]
pub struct Parameters {
    pub(crate) block: DeviceAddress,
    pub(crate) layout: u64,
    pub(crate) memory: Vec<Arc<Arena>>,
    pub(crate) control: Option<Control>,
}

impl Parameters {
    /// Names a parameter block at `block` whose layout hashes to `layout`, in memory that `memory`
    /// keeps.
    ///
    /// # Safety
    /// *The kernel's promise*, see `warpwire_device::KernelRow`: a block of that layout is there,
    /// every address in it lies in one of the arenas in `memory` (or is null where the kernel
    /// allows it), and the promises of the queues, words and counters in it hold while the arenas
    /// live.
    pub unsafe fn new(block: DeviceAddress, layout: u64, memory: Vec<Arc<Arena>>) -> Self {
        Self {
            block,
            layout,
            memory,
            control: None,
        }
    }

    /// Uses this stop word and these heartbeats, whose addresses may stand in the parameter block.
    /// Without it the launch makes its own.
    #[must_use]
    pub fn control(self, control: Control) -> Self {
        Self {
            control: Some(control),
            ..self
        }
    }
}

/// Which thread of the executor gets a warp or a service. In virtual time there is one thread, and
/// every placement means it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// The executor chooses: whole blocks and services go to the thread with the fewest tasks.
    #[default]
    Any,
    /// This thread, from 0.
    Thread(usize),
    /// The warps of a block go round all threads; a service as with `Any`.
    Scattered,
    /// A thread of its own, made for it and not pinned. It stays, asleep, until the executor ends.
    Own,
}

/// How a warp ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Not yet.
    Running,
    /// The kernel returned: 0, or the number of a [`Cause`].
    Returned(u32),
    /// It panicked.
    Panicked,
    /// Its lanes disagreed.
    Diverged,
    /// A lane did something wrong, on a virtual GPU.
    Faulted,
    /// It was still running at the deadline and was unwound.
    Unwound,
}

impl Exit {
    /// The cause that the kernel returned, if it returned one that we know.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::Returned(code) => Cause::from_number(*code),
            _ => None,
        }
    }
}

/// What one warp did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WarpReport {
    /// Its block.
    pub block: u32,
    /// Its number within the block.
    pub warp: u32,
    /// Times that a thread let it run.
    pub slices: u64,
    /// Times that it said it had nothing to do; of all its lanes.
    pub pauses: u64,
    /// How it ended. Lanes that returned different codes: the first that is not 0.
    pub exit: Exit,
}

/// What a launch did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The kernel.
    pub kernel: &'static str,
    /// Its grid.
    pub grid: Grid,
    /// What ran it. Never a GPU: memory locations of a CPU executor are emulated.
    pub backend: Backend,
    /// Whether any memory of the launch only stands for its location, as device memory does on a
    /// CPU.
    pub emulated: bool,
    /// From launch to the end of the last warp, by the executor's clock.
    pub elapsed: Duration,
    /// Each warp, block by block.
    pub warps: Vec<WarpReport>,
}

impl Report {
    /// The first cause that a warp returned other than [`Cause::Aborted`], which is what a stop
    /// looks like.
    pub fn cause(&self) -> Option<Cause> {
        self.warps
            .iter()
            .filter_map(|warp| warp.exit.cause())
            .find(|&cause| cause != Cause::Aborted)
    }

    /// Pauses of all warps.
    pub fn pauses(&self) -> u64 {
        self.warps.iter().map(|warp| warp.pauses).sum()
    }

    /// Slices of all warps.
    pub fn slices(&self) -> u64 {
        self.warps.iter().map(|warp| warp.slices).sum()
    }
}

/// A kernel that was started. Dropping the handle asks it to stop and unwinds it at its next pause,
/// without waiting; its memory stays until the last warp is gone.
#[derive(Debug)]
pub struct Launch {
    run: Arc<Run>,
    shared: Arc<Shared>,
}

impl Launch {
    pub(crate) fn new(run: Arc<Run>, shared: Arc<Shared>) -> Self {
        Self { run, shared }
    }

    /// Sets the stop word: waits in the kernel end with [`Cause::Aborted`].
    pub fn stop(&self) {
        self.run.control.stop();
    }

    /// The stop word and the heartbeats.
    pub fn control(&self) -> &Control {
        &self.run.control
    }

    /// Whether all warps ended.
    pub fn is_finished(&self) -> bool {
        self.run.running() == 0
    }

    /// What was counted so far: complete for warps that ended.
    pub fn report(&self) -> Report {
        self.run.report(self.shared.clock.now_ns())
    }

    /// Waits at most `longest` until all warps ended, and says whether they did. Stops nothing. In
    /// virtual time this drives the executor for up to `longest` of it.
    ///
    /// # Errors
    /// [`Error::Stuck`] in virtual time, if something does not pause.
    pub fn wait(&self, longest: Duration) -> Result<bool, Error> {
        if self.shared.clock.is_virtual() {
            self.shared.drive(Some(&self.run), longest)?;
            Ok(self.is_finished())
        } else {
            Ok(self.run.wait(longest))
        }
    }

    /// Waits at most `deadline` until all warps ended, and reports. A kernel that has not ended by
    /// then is stopped and unwound at its next pause.
    ///
    /// # Errors
    /// [`Error::Panicked`], [`Error::Diverged`] and [`Error::Fault`] for what went wrong in a warp,
    /// [`Error::Deadline`] if it had to be unwound, [`Error::Stuck`] if that was not possible
    /// either.
    pub fn join(self, deadline: Duration) -> Result<Report, Error> {
        let mut late = None;
        if !self.wait(deadline)? {
            let running = self.run.running();
            self.run.cancel();
            self.shared.sweep();
            if !self.run.wait(self.shared.watch.limit().max(LEAST_GRACE)) {
                let (name, threads) = (self.run.kernel.name, &self.run.threads);
                return Err(Error::Stuck(self.shared.holder(name, threads)));
            }
            late = self.late(running, deadline);
        }
        match self.run.take_failure().or(late) {
            Some(error) => Err(error),
            None => Ok(self.report()),
        }
    }

    /// The error for warps that had to be unwound; none if all of them returned after all.
    fn late(&self, running: u32, waited: Duration) -> Option<Error> {
        let (index, stand) = self.run.first_unwound()?;
        let place = self.run.place(index);
        Some(Error::Deadline {
            kernel: self.run.kernel.name,
            waited,
            running,
            block: place.block,
            warp: place.warp,
            stand,
        })
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        if !self.is_finished() {
            self.run.cancel();
            self.shared.sweep();
        }
    }
}

/// A warp that is to be unwound may take as long to come to its next pause as the watchdog allows,
/// and at least this long.
const LEAST_GRACE: Duration = Duration::from_millis(200);
