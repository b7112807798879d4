//! Streams of bytes from the host: TCP that an engine terminates, and what the host does beside.
//!
//! Bytes lie in the rings of a stream, which the engine fills and empties; the host reads and
//! writes them there, and says so by words. What is not TCP goes to the [`slow`] path.

#[cfg(feature = "tokio")]
mod asynchronous;
mod commands;
mod control;
mod device;
mod driver;
mod endpoint;
mod error;
mod listener;
mod settings;
pub mod slow;
mod stream;
mod table;
#[cfg(test)]
mod tests;

#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncListener, AsyncStream, Reactor};
pub use device::StreamDevice;
pub use endpoint::{News, StreamEndpoint};
pub use error::Error;
pub use listener::Listener;
pub use settings::StreamConfig;
pub use slow::{InterfaceAddress, Route};
pub use stream::Stream;
pub use warpwire_engine::streams::tables::{Figures, StreamCounters};
pub use warpwire_protocols::tcp::{Cause, Config as TcpConfig, Controller, KeepAlive, State};
