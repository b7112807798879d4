//! Streams of bytes from the host: TCP that kernels terminate, and what the host does beside.

pub mod slow;
