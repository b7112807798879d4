//! Work queues in, packets out: protocol engines driven over rings.
//!
//! Invariant: `no_std`, no allocation, no panic path: the same source is device and host code.
//! Invariant: knows rings and protocols, and no NIC, host or clock.
//!
//! One warp drives a block: a pair of rings and the queue pairs whose packets come through them.
//! Frames are looked at by a lane each; the leader asks the queue pairs, one packet after the
//! other; the warp places payload together; packets that leave are written by a lane each. All
//! state lies in memory ([`tables`]), so that an engine can run a slice at a time.
#![no_std]

#[cfg(test)]
extern crate std;

mod around;
mod arrive;
mod care;
mod count;
mod depart;
mod engine;
mod job;
mod pairs;
mod payload;
mod send;
mod sum;
pub mod tables;
mod tell;

pub use engine::{Engine, LARGEST_FRAME};
