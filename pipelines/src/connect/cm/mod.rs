//! Connections by RDMA-CM: the datagrams of [`warpwire_protocols::cm`] through queue pair 1.
//!
//! A [`Manager`] is the agent of a device: a thread that takes what comes to queue pair 1, answers,
//! repeats, and keeps the clocks. Who asks: [`Manager::connect`]. Who is asked:
//! [`Manager::listen`], [`Listener::accept`], and then [`Call::accept`] or [`Call::reject`]. Either
//! gives a [`Connection`], whose queue pair sends and receives; it ends by
//! [`Connection::disconnect`], or when the peer says so ([`Connection::ended`]).
//!
//! Datagrams need no connection, but to know a queue pair and its key. Who has a service listens
//! ([`Manager::listen_datagrams`]) and answers ([`DatagramCall::accept`] or
//! [`DatagramCall::reject`]); who wants it asks ([`Manager::resolve`]).
//!
//! Invariant: nothing waits without a limit; the thread waits for nobody but its queue.
//! Invariant: what peers can make the agent keep is bounded: connections, datagrams that wait for
//! a next hop, next hops, questions for datagram services.

mod agent;
mod connection;
mod datagrams;
mod hops;
mod manager;
mod messages;
mod post;

pub use connection::{Connection, Offer};
pub use datagrams::{DatagramCall, DatagramListener, Inquiry, Resolved, Service, take_datagrams};
pub use manager::{Call, Listener, Manager};
pub use messages::Messages;

/// A number that nobody can guess.
pub(crate) fn chance() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::Instant::now())
}
