//! Where an engine of streams lives: a NIC, and addresses of its own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use warpwire_nic::xdp::Prefix;
use warpwire_pipelines::streaming::{InterfaceAddress, Route, StreamConfig, StreamDevice};

use super::Failure;

/// Words that say where.
#[derive(clap::Args)]
pub(super) struct Station {
    /// The NIC, such as xdp:eth0
    #[arg(long, value_name = "NIC")]
    nic: String,
    /// An own address and the length of its network, such as 192.0.2.1/24; the operating system
    /// must not have it. Several times for several
    #[arg(long = "addr", value_name = "ADDRESS/LENGTH", required = true)]
    pub(super) addresses: Vec<InterfaceAddress>,
    /// A router for all other networks, one for each IP version
    #[arg(long = "gateway", value_name = "ADDRESS")]
    gateways: Vec<IpAddr>,
    /// Bytes of each of the two rings of a connection, a power of two
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 18)]
    ring: u32,
    /// Bytes of the largest IP packet; less where the NIC passes less
    #[arg(long, default_value_t = 9000, value_parser = clap::value_parser!(u16).range(576..))]
    mtu: u16,
}

impl Station {
    /// Opens the NIC, with an engine for so many connections at a time.
    pub(super) fn open(
        &self,
        connections: u32,
        patience: Duration,
    ) -> Result<StreamDevice, Failure> {
        let everywhere = |via: &IpAddr| Route {
            to: match via {
                IpAddr::V4(_) => Prefix {
                    address: Ipv4Addr::UNSPECIFIED.into(),
                    length: 0,
                },
                IpAddr::V6(_) => Prefix {
                    address: Ipv6Addr::UNSPECIFIED.into(),
                    length: 0,
                },
            },
            via: *via,
        };
        let config = StreamConfig {
            routes: self.gateways.iter().map(everywhere).collect(),
            mtu: self.mtu,
            // Those that linger after their end have no memory for bytes.
            connections: connections * 2,
            open: connections,
            ring_bytes: self.ring,
            ..StreamConfig::new(self.addresses.clone())
        };
        Ok(StreamDevice::open(&self.nic, &config, patience)?)
    }
}
