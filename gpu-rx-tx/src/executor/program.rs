//! Kernels that are not rows of a table but programs that another crate executes: the place of a
//! virtual GPU. Launches, stop words, heartbeats, time, services and reports are the executor's all
//! the same.

use std::fmt;
use std::sync::Arc;

use warpwire_device::Place;
use warpwire_ring::DeviceAddress;

use crate::arena::Arena;
use crate::executor::clock::Clock;
use crate::executor::launch::Grid;

/// What an executor with [`Backend::Virtual`](crate::executor::Backend) runs kernels with: finds
/// them by the names of their rows.
pub trait Program: fmt::Debug + Send + Sync {
    /// Makes a launch ready.
    ///
    /// # Errors
    /// Why the kernel cannot run, as a sentence.
    fn load(&self, assignment: &Assignment<'_>) -> Result<Box<dyn Loaded>, String>;
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Assignment<'a> {
    /// The entry point.
    pub kernel: &'static str,
    /// How many warps of 32 lanes.
    pub grid: Grid,
    /// The one parameter of the entry point.
    pub block: DeviceAddress,
    /// All memory that the launch may access. Whoever accesses it holds it.
    pub memory: &'a [Arc<Arena>],
    /// The clock of the launch.
    pub clock: Clock,
    /// Decides the order of what has none.
    pub seed: u64,
}

/// A launch that is ready.
pub trait Loaded: Send {
    /// Makes the warp at `place`; called once for each of them.
    ///
    /// # Errors
    /// What the warp lacks, as a sentence.
    fn warp(&self, place: Place) -> Result<Box<dyn WarpMachine>, String>;
}

/// A warp that keeps its own state, and runs a bit further each time it is told to.
pub trait WarpMachine: Send {
    /// Runs until there is a reason to stop, and for a bounded time. After [`Progress::Barrier`] it
    /// is called again when all warps of the block have arrived.
    fn turn(&mut self) -> Progress;

    /// Where it stands, for the report of a warp that did not end.
    fn stand(&self) -> String;
}

/// Why a warp stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// All lanes that could go on said that they have nothing to do.
    Paused,
    /// It ran as long as a turn may take, and could go on at once.
    Busy,
    /// It stopped early, between two instructions, so that the rest of the world moves. Says
    /// nothing about whether there is work.
    Interrupted,
    /// It waits for the other warps of its block.
    Barrier,
    /// All lanes returned. The code is 0, or the number of a [`warpwire_ring::Cause`].
    Ended(u32),
    /// It did something wrong and is over.
    Fault(ProgramFault),
}

/// What a warp did wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramFault {
    /// The lane, or the lowest of those that did the same.
    pub lane: u32,
    /// What, and where in the program.
    pub reason: String,
}
