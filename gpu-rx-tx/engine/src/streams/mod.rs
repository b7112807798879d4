//! Streams of bytes: TCP connections over the rings of one block.
//!
//! One warp drives the rings and the connections, or a [`Crew`](crate::Crew) does: one warp has the
//! rings, the others have engines of their own, among which the segments of a ring are spread.
//! All state lies in memory ([`tables`]), so that an engine can run a slice at a time; applications
//! use streams by words and rings that lie there too, and say so in [`Bits`].

mod arrive;
mod bits;
mod book;
mod command;
mod count;
mod crew;
mod decide;
mod depart;
mod engine;
mod flow;
mod job;
mod send;
mod sum;
pub mod tables;
mod turns;
mod words;

pub use bits::Bits;
pub use crew::{Board, owner_of};
pub use engine::StreamEngine;
pub use words::{Wanted, Words};
