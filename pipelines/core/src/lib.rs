//! Packet stages and the kernels made of them.
//!
//! Invariant: `no_std`, no allocation, no panic path: one source is a GPU kernel and a CPU thread.
//! Invariant: a stage is one file: what it says of itself ([`spec::Spec`]), its arguments, its
//! code; [`stage`] tells how to write one.
//! Invariant: what the host writes for a kernel is repr(C) and compared by a layout hash at launch.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_gpu_kernel))]

#[cfg(test)]
extern crate std;

pub mod block;
pub mod carrier;
pub mod context;
pub mod format;
pub mod kernel;
pub mod kernels;
pub mod messaging;
pub mod packet;
pub mod program;
pub mod reason;
pub mod repair;
pub mod rule;
pub mod sample;
pub mod sensor;
pub mod serving;
pub mod spec;
pub mod stage;
pub mod stages;
pub mod streaming;
#[cfg(test)]
mod testing;

#[cfg(target_arch = "nvptx64")]
pub use warpwire_device::Ptx;
pub use warpwire_device::{KernelRow, Simt};
pub use warpwire_ring::DeviceAddress;
