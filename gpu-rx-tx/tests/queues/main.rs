//! Queues of every format, driven by warps of one lane and of 32: both do the same.
//!
//! `wires` are the ports of the device crate's own tests; `kernels` drive them at any width;
//! `twins` runs a kernel at both widths against the same NIC and compares everything; `live` lets
//! frames arrive between the looks of two lanes.

#[path = "../../device/tests/queues/ground.rs"]
mod ground;
mod kernels;
mod live;
mod stage;
mod twins;
#[path = "../../device/tests/queues/wires/mod.rs"]
#[expect(dead_code, reason = "the device crate's own tests use more of it")]
mod wires;
