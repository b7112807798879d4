//! Benchmarks, end-to-end tests, simulation and fuzzing: what they share.
//!
//! Invariant: kernels run on memory that this crate owns, and launches name all of it.
//! Invariant: what a comparison finds is a sentence with the seed that repeats it, never a panic.
//! Invariant: what is counted on a virtual GPU says so, and is never called a measurement.

pub mod counts;
mod ends;
mod machine;
pub mod parity;
mod stage;

#[path = "../fuzz/src/queues/ground.rs"]
mod ground;
#[path = "../../gpu-rx-tx/device/tests/queues/wires/mod.rs"]
#[expect(dead_code, reason = "the device crate's own tests use more of it")]
mod wires;
