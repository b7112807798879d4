//! A virtual GPU: runs the PTX that ships, lane by lane, on the host's executor.
//!
//! Invariant: what is not understood is an error when a module is read, with the line and what
//! stands there; what a lane does wrong ends the launch, with kernel, line, lane and reason.
//! Invariant: no access leaves the memory that the launch was given.
//! Invariant: nothing here stands for the speed of a GPU: instructions and sectors are counted,
//! time is the executor's.
//!
//! ```text
//! let gpu = Arc::new(VirtualGpu::new(Module::parse(&text)?));
//! let executor = CpuExecutor::builder()
//!     .backend(Backend::Virtual { seed })
//!     .program(gpu.clone())
//!     .build()?;
//! executor.launch(row, grid, parameters)?.join(deadline)?;   // the row gives the kernel's name
//! let counts = &gpu.counts()["receive_count_mlx5"];
//! ```

mod alu;
mod column;
mod count;
mod decode;
mod fault;
mod memory;
mod module;
mod observer;
mod parse;
mod program;
mod stack;
#[cfg(test)]
mod tests;
mod warp;

pub use column::LANES;
pub use count::{Class, Count, Direction, KernelCounts, LineCount, Traffic};
pub use fault::{Fault, Reason};
pub use memory::{Order, Scope};
pub use module::{Module, Space};
pub use observer::{AccessEvent, AccessKind, Observer, Unwatched, Watch};
pub use parse::{ParseError, Problem};
pub use program::VirtualGpu;
