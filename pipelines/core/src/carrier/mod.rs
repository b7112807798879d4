//! The carrier of streams over messages: what an engine of TCP is for its connections, this is for
//! streams over reliable connections of RDMA. The application's side is the same on both: the
//! [`StreamWords`](warpwire_engine::streams::tables::StreamWords) of a place and its two rings.
//!
//! A *seat* is what a place has here: the queue pair, its keys, what both ends agreed on, and where
//! the stream stands ([`tables`]). The host gives a queue pair that sends and receives, with
//! receives posted; [`StreamCarrier::step`] does the rest: bytes go from the send ring straight to
//! their place in the peer's receive ring by writes, each end tells the other how far it came by
//! immediates, and says so to the application by its words
//! ([`warpwire_protocols::stream::credits`]). A lane serves a stream: 32 of them at a time.
//!
//! Invariant: nothing is written beyond what the peer granted, and beyond the two rings whose keys
//! the seat has; and nothing is sent that the peer has no receive for.
//! Invariant: a round costs what applications asked for, what is under way, and a look at a bounded
//! number of the others.
//! Invariant: it knows queue pairs in memory, and no ring of a NIC: one entry point serves all.
//!
//! A peer that has a key to a ring can write there whenever it likes, as with all memory that is
//! registered for peers: one that breaks the rules can change bytes of its own stream while they
//! are read. Who checks bytes before using them checks a copy.

mod count;
mod seat;
mod step;
mod stream;
pub mod tables;

pub use step::StreamCarrier;
