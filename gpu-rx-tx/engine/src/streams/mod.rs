//! Streams of bytes: TCP connections over the rings of one block.
//!
//! All state lies in memory ([`tables`]), so that an engine can run a slice at a time; applications
//! use streams by words and rings that lie there too, and say so in [`Bits`].

mod bits;
pub mod tables;

pub use bits::Bits;
