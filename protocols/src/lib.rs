//! What bytes mean: headers, checksums and parsers, without I/O, clock or allocation.
//!
//! Invariant: `no_std`, no allocation, no unsafe code; one source for host, device and DPU.
//! Invariant: nothing here reads a clock, a random number, a file or a socket: they are arguments.
//! Invariant: no input makes a function panic; malformed bytes give a [`DropReason`].
//! Invariant: knows nothing of rings, devices or NICs; uses no other crate of the workspace.
//!
//! - [`wire`]: one header a file: bit table, view (any bits), `Repr` (legal values).
//! - [`cm`]: connections: who asks, who agrees, and how they part, sans I/O.
//! - [`checksum`]: the internet checksum, full and incremental, and the CRCs.
//! - [`parse`]: a whole frame at once, from the first 64 bytes held in registers.
//! - [`rdma`]: the transport of RoCEv2, sans I/O.
//! - [`stream`]: what lies above a stream of bytes: records, HTTP, credits, samples.
//! - [`tcp`]: connections, listeners, congestion control, sans I/O.

#![cfg_attr(not(test), no_std)]

pub mod checksum;
pub mod cm;
mod drop_reason;
pub mod parse;
pub mod rdma;
pub mod stream;
pub mod tcp;
pub mod wire;

pub use drop_reason::DropReason;
