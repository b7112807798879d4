//! Device functions on their own, so that their machine instructions can be counted; an empty shell
//! on other targets.
//!
//! Invariant: nothing but `cargo xtask ptx` builds this for a GPU, and nothing ships it.
//! Invariant: a probe adds loads and stores to the function that it measures, and no more.
#![cfg_attr(
    target_arch = "nvptx64",
    no_std,
    feature(abi_gpu_kernel, stdarch_nvptx)
)]

#[cfg(target_arch = "nvptx64")]
mod probes;
