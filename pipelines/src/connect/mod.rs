//! How two hosts tell each other over TCP what their queue pairs need.
//!
//! Three languages: perftest's ([`perftest`]), that of `ibv_rc_pingpong` and its kin
//! ([`pingpong`]), and our own ([`own`]), which negotiates. Each has two ends, a client that dials
//! and a server that listens, and every step has a deadline. Connections by RDMA-CM need no TCP
//! ([`cm`]); perftest's language can go over one of them.
//!
//! Invariant: no step waits longer than the deadline of its [`Conversation`].
//! Invariant: whatever a peer sends is a value or an [`Error`] that names peer, step and field.

pub mod cm;
mod conversation;
mod error;
pub mod own;
pub mod perftest;
pub mod pingpong;
mod settled;

pub use conversation::{Channel, Conversation, Listener, Meanwhile};
pub use error::Error;

#[cfg(test)]
mod tests;
