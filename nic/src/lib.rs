//! Network interfaces behind one trait: software NIC, AF_XDP, memif.
//!
//! Invariant: a queue leaves this crate as one block of plain data ([`QueuePair`]); kernels drive
//! it alone.
//! Invariant: nothing falls back silently; what was chosen and why is in [`Nic::choices`].

pub mod caps;
mod check;
pub mod counters;
pub mod error;
mod ethtool;
pub mod files;
pub mod host_port;
pub mod interfaces;
pub mod memif;
pub mod namespace;
pub mod neighbor;
mod netlink;
pub mod patience;
pub mod pcap;
pub mod soft;
pub mod spec;
pub mod steering;
pub mod trouble;
pub mod xdp;

pub use caps::{Caps, Features};
pub use check::check;
pub use counters::Counters;
pub use error::Error;
pub use files::{NicFile, files};
pub use patience::Patience;
pub use spec::{NicKind, NicSpec};
pub use steering::Steering;
pub use trouble::{Severity, Trouble};

use std::sync::Arc;

use warpwire_gpu::{Arena, Service};
use warpwire_ring::QueueBlock;

/// One receive queue and one transmit queue of a NIC, as a kernel gets them.
#[derive(Clone, Debug)]
pub struct QueuePair {
    /// Which pair of the NIC this is, from 0.
    pub index: u32,
    /// The receive queue.
    pub receive: QueueBlock,
    /// The transmit queue.
    pub transmit: QueueBlock,
    /// The memory that both live in: hold it for as long as a kernel uses the blocks.
    pub memory: Vec<Arc<Arena>>,
}

/// An open network interface.
pub trait Nic: Send {
    /// The words that it was opened with.
    fn spec(&self) -> &NicSpec;

    /// What it can do.
    fn caps(&self) -> &Caps;

    /// Its Ethernet address.
    fn mac(&self) -> [u8; 6];

    /// Its queues; the blocks stay valid until the NIC is dropped.
    fn queues(&self) -> &[QueuePair];

    /// Which queue packets of a flow come to, if the NIC knows.
    fn steering(&self) -> Option<Steering> {
        None
    }

    /// The host's part (device model, kick proxy, control socket), to be polled while kernels run.
    /// Given out once; later calls return nothing.
    fn take_services(&mut self) -> Vec<Box<dyn Service>>;

    /// What was counted so far.
    fn counters(&self) -> Counters;

    /// What was chosen among several ways, and why, as lines for the record.
    fn choices(&self) -> Vec<String>;

    /// What has gone wrong with it since it was opened, as far as can be told now. Costs a system
    /// call or two: not for every frame.
    fn troubles(&self) -> Vec<Trouble> {
        Vec::new()
    }

    /// Detaches and gives back what the system lent. Dropping does the same without a report.
    ///
    /// # Errors
    /// What could not be given back.
    fn close(self: Box<Self>) -> Result<(), Error>;
}
