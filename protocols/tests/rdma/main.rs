//! The RoCEv2 transport between ends in memory: over a fabric that loses, doubles, reorders and
//! delays, by seeds; and packet by packet.

mod end;
mod fabric;
mod hostile;
mod scripted;
mod storm;
