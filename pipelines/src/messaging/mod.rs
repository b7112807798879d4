//! Messages from the host: an engine on an executor, its queue pairs, regions and completions.
//!
//! The same memory and the same verbs as device code has: requests are written into work queues,
//! completions polled from memory. The engine is a kernel that runs beside, on whatever the
//! executor is.

mod device;
mod endpoint;
mod error;
mod pair;
mod place;
pub mod table;

pub use device::{Device, DeviceConfig, gid};
pub(crate) use device::{MANAGEMENT_BYTES, route, words};
pub use endpoint::{Endpoint, EndpointConfig, Idle, MemoryRegion};
pub use error::Error;
pub use pair::{Completed, Message, Pair, PairConfig, Work, connect_all};
pub(crate) use place::Place;
pub use place::check;
pub use warpwire_engine::tables::Path;
