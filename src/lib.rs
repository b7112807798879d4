//! warpwire: a network stack that lives on the GPU.
//!
//! Invariant: this crate only gathers the floors below, and holds the command.
//! Invariant: the feature `cli` adds the command and changes nothing else.

pub use warpwire_pipelines as pipelines;

#[cfg(feature = "cli")]
pub mod cli;
