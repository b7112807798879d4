//! What bytes mean: headers, checksums and parsers, without I/O, clock or allocation.
//!
//! Invariant: `no_std`, no allocation, no unsafe code; the same source is host, device and DPU
//! code.
//! Invariant: nothing here reads a clock, a random number, a file or a socket: all comes as
//! arguments.
//! Invariant: no input makes a function panic; malformed bytes give a [`DropReason`].
//! Invariant: knows nothing of rings, devices or NICs; depends on no other crate of the workspace.
//!
//! - [`wire`]: one header a file, with its bit table, a view (any bits) and a `Repr` (legal
//!   values).
//! - [`parse`]: a whole frame at once, from the first 64 bytes held in registers.

#![cfg_attr(not(test), no_std)]

mod drop_reason;
pub mod parse;
pub mod wire;

pub use drop_reason::DropReason;
