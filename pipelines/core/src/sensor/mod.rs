//! Records of a sensor, gathered into tensors: put back into the order of their numbers, headers
//! split from payload, payload converted to floating point, gaps told.
//!
//! # A record
//! ```text
//!  0         4         8             16
//! +---------+---------+-------------+----------+----------+-- --+
//! | number, big-endian| for the user | sample 0 | sample 1 | ... |
//! +---------+---------+-------------+----------+----------+-- --+
//!  header: 16 bytes, kept as it is    samples: int16, big-endian, as many in every record
//! ```
//! That is the usual layout; where the number stands, how wide it is, how long the header is and
//! which byte of a number comes first is said by [`SensorBlock::format`] and
//! [`SensorBlock::conversion`]. A stream of TCP holds records one behind the other, or each behind
//! its length ([`warpwire_protocols::stream::framing`]); a datagram of UDP holds one record.
//!
//! # Tensors
//! Two, in memory that the host gives, each a ring of [`SensorBlock::rows`] rows, a power of two:
//! - headers: `[rows][header bytes]` of `u8`;
//! - values: `[rows][samples]` of `f32`.
//!
//! Row `p % rows` of both holds position `p`; positions count the rows from 0 on, for ever. All
//! rows before [`SensorWords::whole`] are written and stay so until the host gives them back by
//! [`SensorWords::consumed`]. A record that did not come has its row too: zeros for a header, NaN
//! for every sample.
//!
//! # What becomes of a record
//! Its number says its row. One that came before, that comes after its row was settled, that is too
//! far ahead, or that has another length, is dropped and counted ([`Why`]). A gap is settled when a
//! record comes that the window has no room for, or when all that was missing has been overtaken
//! for [`SensorBlock::patience_ns`]; it is told in a ring of [`Gap`]s. What would need a row that
//! the host did not give back, or a gap that it did not read, waits: a stream is not read on, and a
//! datagram is dropped.
//!
//! Several records in a row that are too far ahead, or late, say that the sensor counts anew: the
//! gatherer goes on from there, and tells a gap without rows.

mod block;
mod gatherer;
mod intake;
mod parts;
mod state;

#[cfg(test)]
mod tests;

pub use block::{
    Gap, SPAN, SensorBlock, SensorCounters, SensorState, SensorWords, Tensors, WINDOW_WORDS, Why,
};
pub use gatherer::{Became, Gatherer};
pub use intake::{Intake, IntakeBlock, IntakeCounters};
pub use parts::{MOST_PARTS, Parts};
