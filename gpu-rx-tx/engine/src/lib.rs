//! Work queues in, packets out: protocol engines driven over rings.
//!
//! Invariant: `no_std`, no allocation, no panic path: the same source is device and host code.
//! Invariant: knows rings and protocols, and no NIC, host or clock.
//!
//! A block has a pair of rings and the queue pairs whose packets come through them. Frames are
//! looked at by a lane each; a leader asks the queue pairs, one packet after the other; a warp
//! places payload together; packets that leave are written by a lane each. One warp does all of
//! this, or a [`Crew`]: one has the rings, the others have the queue pairs among themselves. All
//! state lies in memory ([`tables`]), so that an engine can run a slice at a time.
#![no_std]

#[cfg(test)]
extern crate std;

mod around;
mod arrive;
mod care;
mod count;
mod crew;
mod depart;
mod engine;
mod job;
mod pairs;
mod payload;
mod send;
mod sheet;
pub mod streams;
mod sum;
pub mod tables;
mod tell;

pub use crew::{Board, Crew};
pub use engine::{Engine, LARGEST_FRAME};
