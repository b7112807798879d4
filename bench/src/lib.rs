//! Benchmarks, end-to-end tests, simulation and fuzzing: what they share.
//!
//! Invariant: kernels run on memory that this crate owns, and launches name all of it.
//! Invariant: what a comparison finds is a sentence with the seed that repeats it, never a panic.

pub mod parity;
