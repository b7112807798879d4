//! Messages from the host: an engine on an executor, its queue pairs, regions and completions.
//!
//! The same memory and the same verbs as device code has: requests are written into work queues,
//! completions polled from memory. The engine is a kernel that runs beside, on whatever the
//! executor is.

mod application;
mod capture;
mod completed;
mod device;
mod endpoint;
mod error;
mod fused;
mod host;
mod pair;
mod performance;
mod place;
mod regions;
mod shared;
pub mod table;
mod vacancy;
mod verbs;

pub use application::{Application, Lent};
pub use capture::CaptureReport;
pub use completed::{Completed, Message};
pub use device::{Device, DeviceConfig, gid};
pub(crate) use device::{MANAGEMENT_BYTES, route, words};
pub(crate) use endpoint::left_mib;
pub use endpoint::{Endpoint, EndpointConfig, Idle, MOST_WARPS};
pub use error::Error;
pub use fused::FusedEngine;
pub use pair::{Pair, PairConfig, SendRate, Work, connect_all};
pub use performance::Performance;
pub(crate) use place::Place;
pub use place::{check, own_address};
pub use regions::MemoryRegion;
pub use shared::SharedReceives;
pub use verbs::{SignalRow, Tagged};
pub use warpwire_core::messaging::{
    DONE, Expected, Goal, Matched, Remote, Request, Signal, Step, Ticket, Update, Verb,
};
pub use warpwire_engine::tables::Path;
pub use warpwire_ring::mlx5::post::{Gather, Order, Payload};
