//! The RoCEv2 transport between ends in memory: over a fabric that loses, doubles, reorders and
//! delays, by seeds; and packet by packet.

#[path = "../judges/captures.rs"]
#[expect(dead_code, reason = "the judges read more of it")]
mod captures;
#[path = "../judges/dice.rs"]
#[expect(dead_code, reason = "others choose among values")]
mod dice;
mod end;
mod fabric;
mod goodput;
mod hostile;
mod limits;
mod replay;
mod scripted;
mod selective;
mod storm;
