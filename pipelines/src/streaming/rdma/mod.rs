//! Streams over messages: RDMA as what carries them, by reliable connections of an endpoint of
//! [`crate::messaging`], whoever carries out its work queues.
//!
//! Two ends find each other as queue pairs do ([`crate::connect::own`]): by a TCP connection of the
//! operating system's, at the address that is listened at. From then on it is not needed; bytes go
//! from the one's send ring into the other's receive ring, for which it was given a key
//! ([`warpwire_core::carrier`]).

mod carriage;
mod meet;
mod seats;
mod settings;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use warpwire_gpu::{Arena, Service};
use warpwire_protocols::rdma::Mtu;
use warpwire_ring::Location;

use super::endpoint::StreamEndpoint;
use super::error::Error;
use crate::connect::cm::chance;
use crate::messaging::{self, Device, DeviceConfig, Endpoint, Path};

pub use settings::RdmaConfig;

/// What streams over messages stand on: an endpoint of messages, and the ways from there.
pub trait Ground: Send {
    /// The endpoint. Its memory has the [`RingMemory`], and it has a queue pair and two regions for
    /// each stream.
    fn endpoint(&self) -> &Endpoint;

    /// The own address as a GID.
    fn gid(&self) -> [u8; 16];

    /// The largest MTU whose packets fit the link.
    fn mtu(&self) -> Mtu;

    /// The way from a queue pair of ours to one of a peer, whose GID is `to`.
    ///
    /// # Errors
    /// There is none.
    fn path(&self, to: &[u8; 16], own_qp: u32, peer_qp: u32) -> Result<Path, messaging::Error>;
}

impl Ground for Device {
    fn endpoint(&self) -> &Endpoint {
        Self::endpoint(self)
    }

    fn gid(&self) -> [u8; 16] {
        Self::gid(self)
    }

    fn mtu(&self) -> Mtu {
        Self::mtu(self).unwrap_or_default()
    }

    fn path(&self, to: &[u8; 16], own_qp: u32, peer_qp: u32) -> Result<Path, messaging::Error> {
        Self::path(self, to, own_qp, peer_qp, 0)
    }
}

/// What the rings of streams lie in: made first, as the endpoint of messages has to have it.
#[derive(Clone)]
pub struct RingMemory(Arc<Arena>);

impl RingMemory {
    /// Memory for the streams of an endpoint.
    ///
    /// # Errors
    /// [`Error::Setting`]; memory that cannot be had.
    pub fn new(config: &RdmaConfig) -> Result<Self, Error> {
        config.check()?;
        let bytes = u64::from(config.connections) * 2 * u64::from(config.ring_bytes);
        let arena = Arena::new(bytes as usize + 4096, Location::Device)?;
        Ok(Self(Arc::new(arena)))
    }

    /// What the endpoint of messages is given.
    pub const fn arena(&self) -> &Arc<Arena> {
        &self.0
    }
}

impl StreamEndpoint {
    /// Opens the NIC of these words, as [`Device`] does, and starts an endpoint over messages there
    /// that whoever waits steps. `own` is an address that the operating system has, where the
    /// endpoint's peers find it; over memif it is of no account.
    ///
    /// # Errors
    /// [`Error::Messaging`] for a NIC that cannot be used; as
    /// [`StreamEndpoint::start_over_messages`].
    pub fn open_over_messages(
        nic: &str,
        own: IpAddr,
        config: &RdmaConfig,
        patience: Duration,
    ) -> Result<Self, Error> {
        let memory = RingMemory::new(config)?;
        let device = DeviceConfig {
            nic: Some(nic.to_owned()),
            // A soft NIC carries messages out itself.
            fused: !nic.starts_with("soft"),
            bytes: LEAST_BYTES,
            memory: vec![Arc::clone(memory.arena())],
            endpoint: config.endpoint(chance() as u32),
            patience,
            chance: chance(),
            capture: None,
        };
        let device = match nic.starts_with("memif:") {
            true => Device::open(own, &device)?,
            false => Device::at(Some(own), &device)?,
        };
        Self::start_over_messages(Box::new(device), &memory, Vec::new(), config)
    }

    /// An endpoint over messages, that whoever waits for something of it steps; it stands still at
    /// other times, so who serves peers calls [`StreamEndpoint::step`]. An engine of messages
    /// without a kernel of its own is stepped with it, and so are `services`.
    ///
    /// # Errors
    /// [`Error::Setting`]; [`Error::Messaging`] if there are not as many regions; memory that
    /// cannot be had.
    pub fn start_over_messages(
        ground: Box<dyn Ground>,
        memory: &RingMemory,
        services: Vec<Box<dyn Service>>,
        config: &RdmaConfig,
    ) -> Result<Self, Error> {
        config.check()?;
        let idle = ground.endpoint().idle();
        let rdma = carriage::Rdma::start(ground, memory, services, config)?;
        let places = rdma.places().clone();
        Ok(Self::over(Box::new(rdma), places, idle))
    }
}

/// Bytes of memory that the device has besides the rings: no peer hears of its key.
const LEAST_BYTES: usize = 4096;
