//! Messages from device code, and from the host with the same source: put, get, signals, atomics,
//! send and receive, over work queues in memory.
//!
//! A [`Channel`] is one queue pair as the code has it that posts and polls. A warp holds one, each
//! lane a copy, all copies equal; every function is *collective*. At warp scope each lane posts a
//! request of its own or none: lanes divide the free slots among themselves by what they want, and
//! no lock is taken. At thread scope the same functions are given a [`Solo`](warpwire_device::Solo)
//! instead of the warp. The host is a warp of one lane.
//!
//! Who carries the requests out is not seen here: an engine that runs elsewhere ([`Elsewhere`]), or
//! one that the waiting warp steps itself ([`Stepping`]): a [`Progress`] that every wait is given.
//!
//! # What a signal says
//! A signal is a word of 64 bits in registered memory, which a peer sets or adds to. It is done
//! exactly once, however often its packets arrive, by a single access that nobody sees half done.
//!
//! - *On one queue pair*: who sees a signal sees all bytes of every put that was posted on the same
//!   queue pair before it, and the effect of every atomic and signal before it; also where packets
//!   are lost, doubled or overtake each other, and where both ends retransmit selectively: an
//!   addition is an atomic, which a responder carries out once all before it is carried out, and a
//!   set is a write of eight bytes, which is never placed before its turn.
//! - *Across queue pairs*: nothing. Who needs an order between two of them waits until the puts on
//!   one are complete ([`Channel::wait`], [`Channel::quiet`]: placed at the peer, not merely sent),
//!   and signals on the other then.
//! - *Gets*: one that is posted behind puts on the same queue pair reads what they put, or what
//!   came after. Its own bytes arrive later: what is posted behind it and sends them on, or signals
//!   that they were read, is posted behind [`Channel::fence`].
//! - *Puts to the same bytes*: the one that was posted last stays; but where both ends retransmit
//!   selectively, an earlier one of more than eight bytes that was lost on its way may be placed
//!   after it. Who overwrites what a put on its way writes waits until that is complete: no signal
//!   between them will do.
//! - *Set and add together*: each is single; a word that one peer sets and another adds to holds
//!   what the last of them made of it. Words that are waited for by epoch are added to, or set by
//!   one peer in ascending order.
//!
//! # Epochs
//! A wait names the value that a word must have *reached*: `value - epoch`, as a signed number of
//! 64 bits, is not negative ([`reached`]). So a word may wrap around, as long as it is never 2^63
//! or more ahead of who waits for it.
//!
//! # What ends a wait
//! Its value, a [`Cause`](warpwire_ring::Cause) of the queue pair, the deadline, the abort word, or
//! an engine whose heartbeat stands still. Causes have the numbers of `enum ibv_wc_status` and of
//! mlx5 error completions.

mod arrival;
mod block;
mod channel;
mod progress;
mod request;
mod script;
mod shared;
mod signal;
mod tag;
mod verbs;

#[cfg(test)]
mod tests;

pub use arrival::Arrival;
pub use block::{ChannelBlock, CompletionRing, Cursor, SharedBlock};
pub use channel::{Channel, Counter, Sent, Ticket};
pub use progress::{Elsewhere, Progress, Stepping, keep_on};
pub use request::{Remote, Request, Signal, Update};
pub use script::{DONE, FAILED, Step, Verb, perform};
pub use shared::SharedReceives;
pub use signal::{Goal, Signals, reached};
pub use tag::{Expected, Matched, TagBlock, TagSlot, Tags};
