//! What can go wrong with an executor and what runs on it, split by blame.

use std::fmt;
use std::time::Duration;

use crate::arena::ArenaError;
use crate::executor::lanes::Divergence;

/// Why an executor, a launch or a service could not be had, or how it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // The caller.
    /// A setting of the builder is out of range.
    #[error("executor setting `{field}` is {value}; it must be {must}")]
    Setting {
        /// The builder's method.
        field: &'static str,
        /// What it was called with.
        value: u64,
        /// What it accepts.
        must: &'static str,
    },
    /// The grid has no warps, or more than a block can hold.
    #[error("kernel `{kernel}`: grid.{field} is {value}; it must be from 1 to {most}")]
    Grid {
        /// The kernel.
        kernel: &'static str,
        /// `blocks` or `warps`.
        field: &'static str,
        /// What the grid says.
        value: u32,
        /// The largest value.
        most: u32,
    },
    /// Not all warps could run at the same time: those that run might wait for those that do not,
    /// for ever.
    #[error(
        "kernel `{kernel}`: {blocks} blocks of {warps} warps cannot all be resident: they need \
         {need} stacks, {free} of {limit} are free; launch less, or raise `stacks` in the builder"
    )]
    NotResident {
        /// The kernel.
        kernel: &'static str,
        /// Blocks of the grid.
        blocks: u32,
        /// Warps a block.
        warps: u32,
        /// Stacks that the launch needs: one a warp, or one a lane with `Backend::Lockstep`; a warp
        /// of a virtual GPU counts as one.
        need: u64,
        /// Stacks that nobody uses now.
        free: u64,
        /// Stacks that the executor may have.
        limit: u64,
    },
    /// Host and kernel were built from different sources.
    #[error(
        "kernel `{kernel}`: the parameter block has layout {given:#018x}, the kernel expects \
         {expected:#018x}; build host and kernel from the same source"
    )]
    Layout {
        /// The kernel.
        kernel: &'static str,
        /// Hash that came with the parameters.
        given: u64,
        /// Hash in the kernel's row.
        expected: u64,
    },
    /// The control words that came with the parameters are for fewer warps.
    #[error(
        "kernel `{kernel}`: `control` has {have} heartbeats, the grid {need} warps; \
         allocate it for the grid"
    )]
    Control {
        /// The kernel.
        kernel: &'static str,
        /// Heartbeats that there are.
        have: u32,
        /// Warps of the grid.
        need: u32,
    },
    /// A placement names a thread that the executor does not have.
    #[error("placement names thread {thread}, the executor has {threads}; raise `threads`")]
    Placement {
        /// The thread that was named, from 0.
        thread: usize,
        /// Threads that there are.
        threads: usize,
    },
    /// Only virtual time can be driven.
    #[error("the executor's time is real and moves by itself; build it with `Time::Virtual`")]
    RealTime,

    /// A virtual GPU has nothing to run.
    #[error("the executor's backend is virtual and it has no program; name one with `program`")]
    NoProgram,
    /// The program cannot run the kernel.
    #[error("kernel `{kernel}` cannot run on the virtual GPU: {reason}")]
    Program {
        /// The kernel.
        kernel: &'static str,
        /// Why.
        reason: String,
    },

    // The kernel or service.
    /// A lane of a virtual GPU did something wrong. The launch was asked to stop.
    #[error("kernel `{kernel}`, block {block} warp {warp} lane {lane}: {reason}")]
    Fault {
        /// The kernel.
        kernel: &'static str,
        /// Block of the warp.
        block: u32,
        /// The warp, within its block.
        warp: u32,
        /// The lane.
        lane: u32,
        /// What, and where in the program.
        reason: String,
    },
    /// A kernel panicked. The launch was asked to stop; the process goes on.
    #[error("kernel `{kernel}` panicked in block {block} warp {warp}{}: {message}", OnLane(*lane))]
    Panicked {
        /// The kernel.
        kernel: &'static str,
        /// Block of the warp.
        block: u32,
        /// The warp, within its block.
        warp: u32,
        /// The lane, with `Backend::Lockstep`.
        lane: Option<u32>,
        /// What the panic said.
        message: String,
    },
    /// The lanes of a warp did not make the same collective calls.
    #[error("kernel `{kernel}`, block {block} warp {warp}: {divergence}")]
    Diverged {
        /// The kernel.
        kernel: &'static str,
        /// Block of the warp.
        block: u32,
        /// The warp, within its block.
        warp: u32,
        /// Who stood where.
        divergence: Divergence,
    },
    /// The kernel had not ended at the deadline; it was unwound at its next pause.
    #[error(
        "kernel `{kernel}` did not end within {waited:?}: {running} warps still ran, first block \
         {block} warp {warp} ({stand}); does it look at its stop word?"
    )]
    Deadline {
        /// The kernel.
        kernel: &'static str,
        /// The deadline.
        waited: Duration,
        /// Warps that had not returned.
        running: u32,
        /// Block of the first of them.
        block: u32,
        /// Its number within the block.
        warp: u32,
        /// Where it stood when it was unwound.
        stand: String,
    },
    /// Something holds a thread and does not pause. The memory that it uses stays mapped.
    #[error("{0}")]
    Stuck(Stall),
    /// A service panicked. It is gone; everything else goes on.
    #[error("service `{service}` panicked: {message}")]
    ServicePanicked {
        /// The service.
        service: String,
        /// What the panic said.
        message: String,
    },

    // The environment.
    /// No memory for a coroutine's stack.
    #[error(
        "cannot map a stack of {bytes} bytes: {source}; launch less, or raise vm.max_map_count"
    )]
    Stack {
        /// Bytes of one stack.
        bytes: usize,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// No thread.
    #[error(
        "cannot start thread {thread}: {source}; raise the limit of processes or ask for fewer"
    )]
    Thread {
        /// The thread, from 0.
        thread: usize,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A thread cannot be pinned where it was meant to be.
    #[error(
        "cannot pin thread {thread} to processor {cpu}: {source}; name one that `nproc` counts"
    )]
    Pin {
        /// The thread, from 0.
        thread: usize,
        /// The processor.
        cpu: usize,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// No memory for stop word and heartbeats.
    #[error(transparent)]
    Arena(#[from] ArenaError),
}

/// Something that holds a thread and has not paused for longer than the watchdog allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stall {
    /// The kernel or service.
    pub name: String,
    /// Block and warp of a kernel; nothing for a service.
    pub place: Option<(u32, u32)>,
    /// The thread that it holds.
    pub thread: usize,
    /// How long since its last pause, to the watchdog's period.
    pub silent: Duration,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            place,
            thread,
            silent,
        } = self;
        match place {
            Some((block, warp)) => {
                write!(f, "kernel `{name}`, block {block} warp {warp}, is stuck")?
            }
            None => write!(f, "service `{name}` is stuck")?,
        }
        write!(
            f,
            ": it holds thread {thread} and has not paused for {silent:?}"
        )
    }
}

struct OnLane(Option<u32>);

impl fmt::Display for OnLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(lane) => write!(f, " lane {lane}"),
            None => Ok(()),
        }
    }
}

/// The words of a panic.
pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without words".to_owned()
    }
}
