//! Packet stages and the kernels made of them.
//!
//! Invariant: `no_std`, no allocation, no panic path: the same source is a GPU kernel and a CPU
//! thread.
//! Invariant: a stage is one file: what it says about itself ([`spec::Spec`]), its arguments, its
//! code.
//! Invariant: what the host writes for a kernel is repr(C) and compared by a layout hash at launch.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod program;
pub mod rule;
pub mod sample;
pub mod spec;
pub mod stages;
