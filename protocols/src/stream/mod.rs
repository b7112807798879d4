//! What lies above a stream of bytes, whatever carries it, sans I/O.
//!
//! - [`credits`]: a stream over messages that write into the peer's memory.
//! - [`framing`]: whole records out of a stream, of fixed size or behind their length.
//! - [`http`]: requests for files, and heads of answers.
//! - [`samples`]: records of a sensor by their numbers, and what their samples stand for.
//!
//! All of them look at bytes through [`Bytes`], so that a ring in memory, which others write, is
//! read where it lies; none keeps more than itself.

mod bytes;
pub mod credits;
pub mod framing;
pub mod http;
pub mod samples;

pub use bytes::{ByteOrder, Bytes, Pieces};
