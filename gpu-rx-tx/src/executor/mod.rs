//! The CPU executor: blocks of warps as stackful coroutines over pinned threads.
//!
//! A kernel runs until it pauses, gives way, waits for its block or returns; then the next task of
//! its thread has a turn. Tasks are the warps of all launches and the host's services (NIC device
//! models, kick proxies); they share a thread or have one each, as [`Placement`] says.
//!
//! In real time ([`Time::Real`]) threads run freely. In virtual time ([`Time::Virtual`]) one thread
//! gives turns in an order that a seed decides and moves the clock itself, only while it is driven:
//! the same seed gives the same run.
//!
//! With [`Backend::Virtual`] a warp is what a [`Program`] makes of a kernel's name: a virtual GPU.
//!
//! Nothing runs for ever by accident: launches end at the deadline of their join, a watchdog names
//! what does not pause, a panic ends its launch and not the process.

mod barrier;
mod builder;
mod clock;
mod control;
mod cpu;
pub mod cuda;
mod error;
mod hosted;
mod idle;
mod lanes;
mod launch;
mod lockstep;
mod machine;
mod program;
mod random;
mod run;
mod scalar;
mod shared;
mod watch;
mod worker;
mod world;

pub use builder::{Backend, Builder};
pub use clock::{Clock, Time};
pub use control::Control;
pub use cpu::CpuExecutor;
pub use error::{Error, Stall};
pub use hosted::ServiceHandle;
pub use idle::IdlePolicy;
pub use lanes::{Collective, Divergence, LaneSet};
pub use launch::{Exit, Grid, Launch, Parameters, Placement, Report, WarpReport};
pub use program::{Assignment, Loaded, Program, ProgramFault, Progress, WarpMachine};
pub use random::Random;
pub use world::Trace;
