//! Which queue of a NIC the packets of a flow come to.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// What a NIC says of where packets of UDP and TCP come to.
#[derive(Clone)]
pub struct Steering(Arc<dyn Fn(SocketAddr, SocketAddr) -> u32 + Send + Sync>);

impl Steering {
    /// A NIC that hands packets from an end to another one to the queue that `queue` says.
    pub fn new(queue: impl Fn(SocketAddr, SocketAddr) -> u32 + Send + Sync + 'static) -> Self {
        Self(Arc::new(queue))
    }

    /// The queue that packets come to which are sent `from` there `to` here.
    pub fn queue(&self, from: SocketAddr, to: SocketAddr) -> u32 {
        (self.0)(from, to)
    }
}

impl fmt::Debug for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Steering")
    }
}
