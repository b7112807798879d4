//! warpwire: a network stack that lives on the GPU.
//!
//! Invariant: this crate only re-exports; it holds no logic of its own.
//! Invariant: the feature `cli` adds the command and changes nothing else.

pub use warpwire_pipelines as pipelines;
