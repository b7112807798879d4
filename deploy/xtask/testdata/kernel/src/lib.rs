//! A small kernel that proves the way from Rust to PTX; an empty shell on other targets.
//!
//! Invariant: with the feature `faulty` off, no lint finds anything.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_gpu_kernel, stdarch_nvptx, asm_experimental_arch))]

#[cfg(target_arch = "nvptx64")]
mod device;
