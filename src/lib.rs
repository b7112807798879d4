//! warpwire: a network stack that lives on the GPU.

pub use warpwire_pipelines as pipelines;
