//! The software NIC: a device model that consumes ConnectX queues, on a virtual switch.
//!
//! ```text
//! send queue --> adapter --> cable or switch --> link --> adapter -- receive queue
//!                                            |      rate, delay, loss, ...
//!                                            '----------> link --> uplink: capture, tap, other NIC
//! ```
//! A [`Fabric`] holds adapters, uplinks and the switch, and runs as one [`warpwire_gpu::Service`],
//! beside the kernels on their thread or on one of its own. Frames over a plain wire go from queue
//! to queue in one step; a link that does something to frames holds copies of them.
//!
//! All memory is touched through [`warpwire_ring::DeviceMemory`]: by key, bounds checked.
//! All chance comes from the fabric's seed; all time from its [`Clock`].

mod adapter;
mod burst;
mod clock;
mod config;
mod dice;
mod drops;
mod fabric;
mod fault;
mod foreign;
mod link;
mod memory;
mod nic;
mod packet;
mod receive;
mod rings;
mod spread;
mod switch;
mod tap;
mod transmit;
mod transport;
mod uplink;

pub use clock::Clock;
pub use config::{AdapterConfig, FabricConfig, FlowRule, Impairments, Offloads};
pub use dice::Dice;
pub use drops::Drop;
pub use fabric::{Fabric, FabricService, PortCounts, PortId};
pub use fault::{ErrorCompletion, Faults, Schedule};
pub use foreign::NicUplink;
pub use link::LinkCounts;
pub use nic::{SoftNic, check, open};
pub use tap::Tap;
pub use transport::{Transport, TransportState};
pub use uplink::Uplink;

#[cfg(test)]
mod tests;
