//! Messages between two engines over a cable of soft NICs: every verb, from the host and from
//! kernels, with engines in kernels of their own and in the warps that wait; at the bounds of
//! queues, and when peers die.

mod congestion;
mod depth;
mod ends;
mod failures;
mod kernels;
mod keys;
mod operations;
mod shared;
mod strangers;
mod suite;
mod verbs;
mod warps;
