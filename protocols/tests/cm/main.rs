//! Connection management between ends in memory, message by message, over a fabric that loses and
//! doubles, against broken messages, and against what Linux's rdma_rxe sent.

#[path = "../judges/captures.rs"]
#[expect(dead_code, reason = "the judges read more of it")]
mod captures;
mod datagrams;
mod end;
mod hostile;
mod replay;
mod scripted;
mod storm;
