//! Memory arenas and the executors that run kernels.
//!
//! Invariant: memory outlives what runs on it: kernels and services hold [`arena::Arena`]s by
//! `Arc`.
//! Invariant: a launch ends: by itself, at its stop word, unwound at its deadline, or named as
//! stuck.
//! Invariant: what only stands for a location says so, and every report repeats it.
//! Invariant: the host never touches a packet on a kernel's way; services are the NIC's side of a
//! ring.

pub mod arena;
pub mod executor;
pub mod service;
mod system;

pub use arena::Arena;
pub use executor::CpuExecutor;
pub use executor::cuda::CudaExecutor;
pub use service::Service;
