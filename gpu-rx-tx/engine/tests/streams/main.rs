//! Engines of streams over the rings of every format: two ends on one thread with a
//! network between them whose faults a seed decides, and applications that use words alone.

mod crews;
mod ends;
mod exact;
#[path = "../../../device/tests/queues/ground.rs"]
mod ground;
mod limits;
mod moves;
mod net;
mod strangers;
mod widths;
#[path = "../../../device/tests/queues/wires/mod.rs"]
#[expect(dead_code, reason = "the device crate's own tests use more of it")]
mod wires;
