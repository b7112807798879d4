//! TCP, one connection at a time. RFC 9293; RFC 5681, 6298, 6675, 9438 (congestion), 7323 (large
//! windows), 2018 and 2883 (SACK), 3168 (ECN), 5961 (blind attacks), 6528 (first numbers).
//!
//! A [`Connection`] is a value. It is given segments, the time, and what the application did, and
//! says where bytes go and what to send; it never touches payload, clocks or randomness. Whoever
//! runs it does these things in this order:
//!
//! 1. checks a segment's checksum, reads it ([`Segment::new`]), and finds its connection; what
//!    belongs to none goes to a [`Listener`], or is answered by [`answer_unknown`];
//! 2. hands it to [`Connection::on_segment`], and copies its bytes where the [`Delivery`] says;
//! 3. sends what [`Connection::poll`] gives, until it gives nothing;
//! 4. calls [`Connection::on_timer`] at [`Connection::timeout_ns`], and then polls again;
//! 5. polls again after the application wrote, consumed, closed or aborted.
//!
//! Two rings of bytes belong to a connection, one a direction, both a power of two long. A position
//! counts the bytes of the stream from 0, modulo 2^32; its place in the ring is the position modulo
//! the ring's length. Payload is read from the send ring when a segment is sent, again when it is
//! repeated: bytes stay there until they are freed.
//!
//! Segmentation offload is a number: [`Connection::poll`] makes trains of up to so many bytes,
//! which the NIC cuts, or [`Outgoing::piece`]. Segments that were joined on arrival are one.
//!
//! # What is done about loss
//!
//! - What three segments overtook is lost (RFC 6675); more than three where another order was seen.
//! - A repetition is lost if what was sent for the first time after it overtook it, or if it is
//!   older than two round trips and four variations; it is repeated again.
//! - A lost tail is probed after two round trips (RFC 8985 section 7). If the probe arrives before
//!   what was sent earlier, that is lost.
//! - All else waits for the timer (RFC 6298). Without SACK there is NewReno (RFC 6582).
//!
//! Urgent data is data: it stays in line. Data that comes with a SYN is left to the peer to repeat.
//!
//! Invariant: a byte of the receive ring is named by one [`Place`] only until it is consumed: of
//! bytes that come twice the first copy counts.
//! Invariant: nothing is placed beyond the window that was advertised, nor beyond the ring.
//! Invariant: what is kept of a connection has a fixed size, whatever the peer sends.

mod acknowledge;
mod arrive;
mod config;
mod connection;
mod control;
mod cookie;
mod hot;
mod initial;
mod listener;
mod path;
mod ports;
mod reassembly;
mod receive;
mod recovery;
mod round_trip;
mod scoreboard;
mod segment;
mod send;
mod siphash;
mod state;
mod statistics;
mod timers;

pub use config::{Config, Controller, KeepAlive};
pub use connection::Connection;
pub use control::{Congestion, Cubic, FixedRate, Progress};
pub use cookie::Established;
pub use initial::{Initial, Secret, Tuple};
pub use listener::{Answer, Listener, answer_unknown};
pub use ports::EphemeralPorts;
pub use segment::{Delivery, Outgoing, Payload, Place, Segment};
pub use state::{Cause, Events, Note, State};
pub use statistics::Statistics;

#[cfg(test)]
mod behaviour_tests;
#[cfg(test)]
mod tests;
