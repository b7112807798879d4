//! Devices: an interface with an engine on it.
//!
//! AF_XDP: the operating system serves the interface beside us, answers for its addresses and
//! carries whatever connects the two ends; RoCEv2 is ours. memif: nobody but the peer is there, and
//! addresses are link-local ones, made of Ethernet addresses.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use warpwire_gpu::executor::{IdlePolicy, Placement, ServiceHandle};
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_nic::neighbor::{self, Route};
use warpwire_nic::{Nic, NicKind};
use warpwire_protocols::rdma::{Access, Mtu};
use warpwire_protocols::wire::Gid;
use warpwire_ring::{DeviceAddress, Location};

use super::capture::CaptureReport;
use super::endpoint::{Endpoint, EndpointConfig};
use super::place::{self, Place};
use super::regions::MemoryRegion;
use crate::messaging::{Error, Path};

/// How a device is opened.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// The NIC: `xdp:INTERFACE`; `soft,uplink=xdp:INTERFACE`, which carries messages out itself; or
    /// `memif:SOCKET` to another process. Without one, AF_XDP on the interface that leads to the
    /// peer.
    pub nic: Option<String>,
    /// Whether the engine has no thread of its own, see [`Endpoint::start_fused`].
    pub fused: bool,
    /// Bytes of registered memory.
    pub bytes: usize,
    /// More memory in which regions may be registered.
    pub memory: Vec<Arc<Arena>>,
    /// The engine.
    pub endpoint: EndpointConfig,
    /// How long to wait for the next hop to answer.
    pub patience: Duration,
    /// Decides keys.
    pub chance: u64,
    /// A pcapng file for what is sent, each packet with its operation in words.
    pub capture: Option<PathBuf>,
}

/// An open device, with memory that peers may use.
pub struct Device {
    // In the order in which they must go.
    endpoint: Endpoint,
    capture: Option<Recording>,
    _executor: CpuExecutor,
    nic: Box<dyn Nic>,
    memory: Arc<Arena>,
    region: MemoryRegion,
    /// Memory of queue pair 1, which no peer may use.
    management: Option<MemoryRegion>,
    place: Place,
    /// The peer that it was opened for, and who takes packets on to it.
    peer: Option<(IpAddr, [u8; 6])>,
    mac: [u8; 6],
    patience: Duration,
    words: String,
}

/// A capture under way.
struct Recording {
    path: PathBuf,
    service: ServiceHandle,
    report: Arc<Mutex<CaptureReport>>,
}

impl Device {
    /// Opens the device that leads to `peer`.
    ///
    /// # Errors
    /// No way to the peer, nobody who answers there, an interface that cannot be used, memory.
    pub fn open(peer: IpAddr, config: &DeviceConfig) -> Result<Self, Error> {
        if let Some(words) = config.nic.as_deref().filter(|nic| place::is_memif(nic)) {
            let (nic, place) = place::open_memif(words, config.patience)?;
            return Self::start(nic, words.to_owned(), place, config);
        }
        let route = neighbor::route(peer)?;
        let next_hop = neighbor::resolve(&route, config.patience)?;
        let place = Place::of_route(&route)?;
        let (nic, words) = place::open(config.nic.as_deref(), &place)?;
        let mut device = Self::start(nic, words, place, config)?;
        device.peer = Some((peer, next_hop));
        Ok(device)
    }

    /// Opens the device that has `own` as its address, where peers are waited for. An unspecified
    /// address stands for any of its family; without one, it is IPv4's if there is one. There must
    /// be one only, unless the NIC says which interface is meant.
    ///
    /// # Errors
    /// [`Error::Address`], an interface that cannot be used, memory.
    pub fn at(own: Option<IpAddr>, config: &DeviceConfig) -> Result<Self, Error> {
        let place = Place::of_own(own, config.nic.as_deref())?;
        let (nic, words) = place::open(config.nic.as_deref(), &place)?;
        Self::start(nic, words, place, config)
    }

    fn start(
        mut nic: Box<dyn Nic>,
        words: String,
        place: Place,
        config: &DeviceConfig,
    ) -> Result<Self, Error> {
        let builder = CpuExecutor::builder().idle(IdlePolicy::POLITE);
        let executor = builder.build()?;
        for service in nic.take_services() {
            executor.add_service(service, Placement::Any)?;
        }
        let bytes = config.bytes + MANAGEMENT_BYTES as usize + 4096;
        let memory = Arc::new(Arena::new(bytes, Location::Device)?);
        let whole = memory.allocate(config.bytes as u64, 4096)?;
        let mut arenas = vec![Arc::clone(&memory)];
        arenas.extend(config.memory.iter().cloned());
        let endpoint = EndpointConfig {
            is_captured: config.capture.is_some(),
            ..config.endpoint
        };
        let place_any = Placement::Any;
        let endpoint = match nic.spec().kind {
            _ if config.fused => Endpoint::start_fused(executor.clock(), &*nic, &arenas, endpoint)?,
            NicKind::Soft => {
                Endpoint::start_in_nic(&executor, &*nic, &arenas, endpoint, place_any)?
            }
            _ => Endpoint::start(&executor, &*nic, &arenas, endpoint, place_any)?,
        };
        let recording = |path: &PathBuf| {
            let capture = endpoint.capture(path)?;
            let report = capture.report();
            Ok::<_, Error>(Recording {
                path: path.clone(),
                service: executor.add_service(Box::new(capture), Placement::Any)?,
                report,
            })
        };
        let capture = config.capture.as_ref().map(recording).transpose()?;
        let (address, length) = (whole.address, whole.length);
        let region = endpoint.register(address, length, Access::ALL, config.chance)?;
        let mut management = None;
        if config.endpoint.management {
            let piece = memory.allocate(MANAGEMENT_BYTES, 64)?;
            let chance = config.chance.rotate_left(8);
            let access = Access::LOCAL_WRITE;
            management = Some(endpoint.register(piece.address, piece.length, access, chance)?);
        }
        Ok(Self {
            endpoint,
            capture,
            _executor: executor,
            nic,
            memory,
            region,
            management,
            mac: place.mac,
            place,
            peer: None,
            patience: config.patience,
            words,
        })
    }

    /// Ends the capture: everything that was sent so far is in the file.
    ///
    /// # Errors
    /// [`Error::File`] if not all of it could be written, [`Error::Executor`].
    pub fn end_capture(&mut self) -> Result<Option<CaptureReport>, Error> {
        let Some(capture) = self.capture.take() else {
            return Ok(None);
        };
        drop(capture.service.stop(self.patience)?);
        let report = capture.report.lock();
        let report = report.unwrap_or_else(PoisonError::into_inner).clone();
        match report.failure {
            Some(problem) => Err(Error::File {
                path: capture.path,
                problem,
            }),
            None => Ok(Some(report)),
        }
    }

    /// Memory of queue pair 1, and the arena that it lies in.
    pub(crate) fn management(&self) -> Option<(Arc<Arena>, MemoryRegion)> {
        Some((Arc::clone(&self.memory), self.management?))
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

    /// Looks whether the interface is still there, with the own address. memif has no such thing.
    ///
    /// # Errors
    /// [`Error::Interface`] with what is not as it was; [`Error::Address`].
    pub fn look(&self) -> Result<(), Error> {
        self.place.look()
    }

    /// The own address.
    pub const fn address(&self) -> IpAddr {
        self.place.address
    }

    /// The own Ethernet address.
    pub const fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// The own address as a GID: IPv4 is mapped into IPv6.
    pub fn gid(&self) -> [u8; 16] {
        gid(self.place.address)
    }

    /// The largest MTU whose packets fit the link.
    pub fn mtu(&self) -> Option<Mtu> {
        Mtu::of_link(self.place.mtu)
    }

    /// Writes into the registered memory, from byte `at` on.
    ///
    /// # Errors
    /// [`Error::Memory`] outside of it.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.memory.write(self.byte(at), bytes)?)
    }

    /// Reads from the registered memory.
    ///
    /// # Errors
    /// [`Error::Memory`] outside of it.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Error> {
        Ok(self.memory.read(self.byte(at), into)?)
    }

    fn byte(&self, at: u64) -> DeviceAddress {
        DeviceAddress::new(self.region.address).offset(at)
    }

    /// The way to a queue pair of a peer, whose GID is `to`. Packets of both directions use the
    /// same UDP source port, which the two numbers decide.
    ///
    /// # Errors
    /// [`Error::Gid`] for an address that cannot be a peer's; no way there, or nobody who answers.
    pub fn path(
        &self,
        to: &[u8; 16],
        own_qp: u32,
        peer_qp: u32,
        traffic_class: u8,
    ) -> Result<Path, Error> {
        let next_hop = self.next_hop(Gid(*to))?;
        let (remote, ip_version) = words(to);
        let (local, _) = words(&self.gid());
        Ok(Path {
            local,
            remote,
            flow_label: 0,
            next_hop,
            mac: self.mac,
            source_port: source_port(own_qp, peer_qp),
            tag: 0,
            has_tag: false,
            ip_version,
            traffic_class,
            hop_limit: 64,
        })
    }

    /// The Ethernet address of who takes packets on to a peer.
    fn next_hop(&self, to: Gid) -> Result<[u8; 6], Error> {
        if self.place.index.is_none() {
            return place::mac_in(to.address()).ok_or(Error::Gid {
                gid: to.address(),
                problem: "is not that of a memif peer, which is made of its Ethernet address",
            });
        }
        let route = self.route(to)?;
        match self.peer {
            Some((peer, next_hop)) if peer == to.address() => Ok(next_hop),
            _ => Ok(neighbor::resolve(&route, self.patience)?),
        }
    }

    /// The kernel's route to a peer, which must begin here.
    pub(crate) fn route(&self, to: Gid) -> Result<Route, Error> {
        route(&self.place, to)
    }

    /// What its NIC counted so far.
    pub fn nic_counters(&self) -> warpwire_nic::Counters {
        self.nic.counters()
    }

    /// Where it stands.
    pub(crate) const fn place(&self) -> &Place {
        &self.place
    }
}

/// The kernel's route to a peer, which must begin at a place.
pub(crate) fn route(place: &Place, to: Gid) -> Result<Route, Error> {
    let refused = |problem| Error::Gid {
        gid: to.address(),
        problem,
    };
    let address = to.address();
    if !to.is_unicast() || address.is_loopback() {
        return Err(refused("is that of no single peer"));
    }
    if address.is_ipv4() != place.address.is_ipv4() {
        return Err(refused("is of another family than ours"));
    }
    if address == place.address {
        return Err(refused("is our own"));
    }
    let route = neighbor::route(address)?;
    match place.index == Some(route.interface) {
        true => Ok(route),
        false => Err(refused("is reached by another interface")),
    }
}

/// An address as a GID.
pub fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// A GID as words of an address, and the IP version.
pub(crate) fn words(gid: &[u8; 16]) -> ([u32; 4], u8) {
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

/// Bytes that queue pair 1 receives into.
pub(crate) const MANAGEMENT_BYTES: u64 = 64 * 320;

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
    fn source_ports_spread_connections() {
        // Queue pairs with numbers in a row at both ends, as connections are made at once. Linux's
        // formula, which both ends must share, leaves a few of them together.
        for (one, other) in [
            (0x11, 0x11),
            (0x1000, 0x2000),
            (0x4000, 0x8_0000),
            (0xff_fe00, 0x10),
        ] {
            let ports = (0..256).map(|number| source_port(one + number, other + number));
            let ports: std::collections::BTreeSet<u16> = ports.collect();
            assert!(ports.len() >= 224, "{one:#x}, {other:#x}: {}", ports.len());
            assert!(ports.iter().all(|port| *port >= 0xc000));
        }
    }

    #[test]
    fn gids_are_addresses() {
        let four: IpAddr = "10.77.0.3".parse().expect("is one");
        assert_eq!(words(&gid(four)), ([0x0a4d_0003, 0, 0, 0], 4));
        let six: IpAddr = "fd77::2".parse().expect("is one");
        assert_eq!(words(&gid(six)), ([0xfd77_0000, 0, 0, 2], 6));
    }
}
