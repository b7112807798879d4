//! Streams of bytes from the host. Two things carry them, and to who reads and writes they are the
//! same: TCP that an engine terminates, and RDMA, by messages of a queue pair each.
//!
//! Bytes lie in the rings of a stream, which whoever carries them fills and empties; the host reads
//! and writes them there, and says so by words. What comes besides TCP goes to the [`slow`] path.

#[cfg(feature = "tokio")]
mod asynchronous;
#[cfg(feature = "bytes")]
mod buffers;
mod carriage;
mod commands;
mod control;
mod device;
mod driver;
mod endpoint;
mod error;
#[cfg(test)]
mod lent_tests;
mod listener;
mod opening;
mod places;
mod rdma;
#[cfg(test)]
pub(crate) mod scene;
pub mod serving;
mod settings;
#[cfg(test)]
mod several;
pub mod slow;
mod stream;
#[cfg(test)]
mod suite;
mod table;
mod tcp;
#[cfg(test)]
mod tests;

#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncListener, AsyncStream, Reactor};
pub use device::StreamDevice;
pub(crate) use device::{refuse_owned, suited};
pub use endpoint::{News, StreamEndpoint};
pub use error::Error;
pub use listener::Listener;
pub use rdma::{Ground, RdmaConfig, RingMemory};
pub use settings::StreamConfig;
pub use slow::{InterfaceAddress, Route};
pub use stream::Stream;
pub use warpwire_engine::streams::tables::{Figures, StreamCounters};
pub use warpwire_protocols::tcp::{Cause, Config as TcpConfig, Controller, KeepAlive, State};
