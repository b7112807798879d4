//! Streams of bytes from device code: bytes are read and written where they lie, in the two rings
//! of the stream.
//!
//! A [`Table`] is the streams of one carrier, a [`Stream`] is one of them. A warp holds them, each
//! lane a copy, all copies equal; what is *collective* is called by all lanes. At thread scope the
//! same functions are given a [`Solo`](warpwire_device::Solo) instead of the warp. A stream is used
//! by one warp at a time; who is done with a turn may drop the handle and take the stream again by
//! its [`Name`], because where it stands lies in its words.
//!
//! What carries the bytes is not seen here: TCP that an engine terminates, or messages over a queue
//! pair. All it has to do is to keep [`warpwire_engine::streams::tables::StreamWords`] and the two
//! bitmaps.
//!
//! # A turn
//! 1. [`Stream::peek`] gives bytes that came, in order, in one piece or two; nobody's NIC slot is
//!    held by them. [`Stream::consume`] gives bytes back.
//! 2. [`Stream::write`] copies into the send ring, by the whole warp; who makes bytes itself puts
//!    them into [`Stream::room`] and says [`Stream::commit`].
//! 3. [`Stream::ring`] tells the carrier of all of that at once. Waits, [`Stream::flush`],
//!    [`Stream::close`], [`Stream::abort`] and [`Stream::release`] do so by themselves.
//!
//! Records of fixed size or behind their length are given whole, see [`Stream::record`].
//!
//! # Who has news
//! [`Table::next_news`] names streams and listeners of which the carrier did something, without
//! looking at the others; streams that were accepted come by [`Table::accept`].
//!
//! # What ends a wait
//! What it is for, how the stream ended, the deadline, the abort word, or a carrier whose heartbeat
//! stands still. The end of the peer's bytes is no error: who waits for bytes gets none.

mod block;
mod ended;
mod extent;
mod progress;
mod record;
mod stream;
mod table;
mod words;

#[cfg(test)]
mod tests;

pub use block::TableBlock;
pub use ended::Ended;
pub use extent::Extent;
pub use progress::Stepping;
pub use stream::Stream;
pub use table::{Name, News, Table, Told};
pub use words::Accepts;
