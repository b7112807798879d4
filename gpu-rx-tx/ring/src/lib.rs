//! Queue formats behind common verbs, and the shared vocabulary of the house.
//!
//! Invariant: `no_std`, no allocation, no panic on data from a peer; knows nothing of protocols.
//! Invariant: only `memory` turns an address into an access, and only after `attach` got the
//! queue's promise.
//! Invariant: indices are 64 bits wide outside this crate; formats narrow them here and nowhere
//! else.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch))]

#[cfg(test)]
extern crate std;

pub mod address;
pub mod barrier;
pub mod block;
pub mod cause;
pub mod device_memory;
pub mod frame;
pub mod layout;
pub mod memif;
pub mod memory;
pub mod mlx5;
pub mod provenance;
pub mod region;
pub mod verbs;
pub mod xdp;

pub use address::DeviceAddress;
pub use barrier::Scope;
pub use block::{Direction, Format, QueueBlock, RxCursor, TxCursor};
pub use cause::Cause;
pub use device_memory::{Denied, DeviceMemory, Grant, KeyTable, Place};
pub use frame::{Buffer, Meta, MetaFlags, Post, PostFlags, Segment, SegmentFlags};
pub use provenance::{Counter, Provenance, Trigger};
pub use region::{Location, Region};
pub use verbs::{Completion, Phase, Receive, Transmit};
