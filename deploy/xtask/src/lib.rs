//! The project's own tasks: set-up, tests in tiers, PTX, interoperability.
//!
//! Invariant: no product crate depends on this one, and it holds no product code.
//! Invariant: every program it starts has a deadline, and is named when it fails.
//! Invariant: what it could not run, it says; a skipped check is never counted as passed.

pub mod fuzz;
pub mod gpu;
pub mod interop;
pub mod ptx;
pub mod repository;
pub mod setup;
pub mod table;
pub mod threads;
pub mod tiers;
pub mod virtual_gpu;

pub use warpwire_ptx::{Error, process};

/// The cargo that started us, else the one on `PATH`.
#[must_use]
pub fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
