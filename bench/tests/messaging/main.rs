//! Messages between two engines over a cable of soft NICs: every verb, from the host and from
//! kernels, with engines in kernels of their own and in the warps that wait; at the bounds of
//! queues, and when peers die.

mod congestion;
mod depth;
mod ends;
mod failures;
mod flags;
mod headers;
mod kernels;
mod keys;
mod operations;
mod patience;
mod released;
mod script;
mod shared;
mod slots;
mod states;
mod strangers;
mod suite;
mod turns;
mod verbs;
mod warps;
mod wire;
