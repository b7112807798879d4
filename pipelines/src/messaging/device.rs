//! Devices: an interface that the operating system serves beside us, with an engine on it. The
//! kernel answers for addresses and carries whatever connects the two ends; RoCEv2 is ours.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use warpwire_gpu::executor::{IdlePolicy, Placement};
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_nic::interfaces::{Interface, interfaces};
use warpwire_nic::neighbor::{self, Route};
use warpwire_nic::{Nic, NicSpec, xdp};
use warpwire_protocols::rdma::{Access, Mtu};
use warpwire_protocols::wire::bth::UDP_PORT;
use warpwire_ring::{DeviceAddress, Location};

use super::endpoint::{Endpoint, EndpointConfig, MemoryRegion};
use crate::messaging::{Error, Path};

/// How a device is opened.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// The NIC, such as `xdp:eth0`; without one, AF_XDP on the interface that leads to the peer.
    pub nic: Option<String>,
    /// Bytes of registered memory.
    pub bytes: usize,
    /// The engine.
    pub endpoint: EndpointConfig,
    /// How long to wait for the next hop to answer.
    pub patience: Duration,
    /// Decides keys.
    pub chance: u64,
}

/// An open device, with memory that peers may use.
pub struct Device {
    // In the order in which they must go.
    endpoint: Endpoint,
    _executor: CpuExecutor,
    _nic: Box<dyn Nic>,
    memory: Arc<Arena>,
    region: MemoryRegion,
    route: Route,
    next_hop: [u8; 6],
    mac: [u8; 6],
    link_mtu: u32,
    words: String,
}

impl Device {
    /// Opens the device that leads to `peer`.
    ///
    /// # Errors
    /// No way to the peer, nobody who answers there, an interface that cannot be used, memory.
    pub fn open(peer: IpAddr, config: &DeviceConfig) -> Result<Self, Error> {
        let route = neighbor::route(peer)?;
        let next_hop = neighbor::resolve(&route, config.patience)?;
        let interface = interface(&route)?;
        let words = match &config.nic {
            Some(words) => words.clone(),
            None => format!("xdp:{}", interface.name),
        };
        let flow = match words.contains(",flow=") || words.contains(",address=") {
            true => String::new(),
            false => format!(",flow=udp/{UDP_PORT}@{}", route.source),
        };
        let spec: NicSpec = format!("{words}{flow}").parse()?;
        let mut nic = xdp::open(&spec)?;
        let builder = CpuExecutor::builder().idle(IdlePolicy::POLITE);
        let executor = builder.build()?;
        for service in nic.take_services() {
            executor.add_service(service, Placement::Any)?;
        }
        let memory = Arc::new(Arena::new(config.bytes, Location::Device)?);
        let arenas = [Arc::clone(&memory)];
        let endpoint = Endpoint::start(&executor, &nic, &arenas, config.endpoint, Placement::Any)?;
        let whole = memory.whole();
        let (address, length) = (whole.address, whole.length);
        let region = endpoint.register(address, length, Access::ALL, config.chance)?;
        Ok(Self {
            endpoint,
            _executor: executor,
            mac: nic.mac(),
            _nic: Box::new(nic),
            memory,
            region,
            route,
            next_hop,
            link_mtu: interface.mtu,
            words,
        })
    }

    /// The engine.
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The registered memory, all of the device's.
    pub const fn region(&self) -> &MemoryRegion {
        &self.region
    }

    /// The words of the NIC.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// The own address.
    pub const fn address(&self) -> IpAddr {
        self.route.source
    }

    /// The own address as a GID: IPv4 is mapped into IPv6.
    pub fn gid(&self) -> [u8; 16] {
        gid(self.route.source)
    }

    /// The largest MTU whose packets fit the link.
    pub fn mtu(&self) -> Option<Mtu> {
        Mtu::of_link(self.link_mtu)
    }

    /// Writes into the registered memory, from byte `at` on.
    ///
    /// # Errors
    /// [`Error::Memory`] outside of it.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.memory.write(self.at(at), bytes)?)
    }

    /// Reads from the registered memory.
    ///
    /// # Errors
    /// [`Error::Memory`] outside of it.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Error> {
        Ok(self.memory.read(self.at(at), into)?)
    }

    fn at(&self, at: u64) -> DeviceAddress {
        self.memory.whole().address.offset(at)
    }

    /// The way to a queue pair of the peer, whose GID is `to`. Packets of both directions use the
    /// same UDP source port, which the two numbers decide.
    pub fn path(&self, to: &[u8; 16], own_qp: u32, peer_qp: u32, traffic_class: u8) -> Path {
        let (remote, ip_version) = words(to);
        let (local, _) = words(&self.gid());
        Path {
            local,
            remote,
            flow_label: 0,
            next_hop: self.next_hop,
            mac: self.mac,
            source_port: source_port(own_qp, peer_qp),
            tag: 0,
            has_tag: false,
            ip_version,
            traffic_class,
            hop_limit: 64,
        }
    }
}

/// The interface of a route.
fn interface(route: &Route) -> Result<Interface, Error> {
    let missing = |problem: String| Error::Interface {
        interface: route.interface,
        problem,
    };
    let list = interfaces().map_err(|error| missing(error.to_string()))?;
    let found = list.into_iter().find(|one| one.index == route.interface);
    found.ok_or_else(|| missing("is not there any more".to_owned()))
}

/// An address as a GID.
pub fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// A GID as words of an address, and the IP version.
fn words(gid: &[u8; 16]) -> ([u32; 4], u8) {
    let (fours, _) = gid.as_chunks::<4>();
    let mut words = [0; 4];
    for (word, four) in words.iter_mut().zip(fours) {
        *word = u32::from_be_bytes(*four);
    }
    match words {
        [0, 0, 0xffff, address] => ([address, 0, 0, 0], 4),
        _ => (words, 6),
    }
}

/// The UDP source port of a connection without a flow label: spread over paths by both numbers.
const fn source_port(one: u32, other: u32) -> u16 {
    let mut value = one as u64 * other as u64;
    value ^= value >> 20;
    value ^= value >> 40;
    let label = (value & 0xf_ffff) as u32;
    0xc000 | ((label & 0x3fff) ^ (label >> 14)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_ports_are_those_of_linux() {
        // Queue pairs 11h and 11h, 13h and 13h, 27h and 27h in captures of rxe.
        let cases = [(0x11, 49441), (0x13, 49513), (0x27, 50673)];
        for (number, port) in cases {
            assert_eq!(source_port(number, number), port);
        }
        assert_eq!(source_port(5, 77), source_port(77, 5));
    }

    #[test]
    fn gids_are_addresses() {
        let four: IpAddr = "10.77.0.3".parse().expect("is one");
        assert_eq!(words(&gid(four)), ([0x0a4d_0003, 0, 0, 0], 4));
        let six: IpAddr = "fd77::2".parse().expect("is one");
        assert_eq!(words(&gid(six)), ([0xfd77_0000, 0, 0, 2], 6));
    }
}
