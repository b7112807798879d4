//! Work queues in, packets out: protocol engines driven over rings.
//!
//! Invariant: `no_std`, no allocation, no panic path: the same source is device and host code.
//! Invariant: knows rings and protocols, and no NIC, host or clock.
#![no_std]
