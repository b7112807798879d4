//! The slow path: what an interface owes the link besides TCP. It answers for its addresses (ARP,
//! neighbour discovery, echoes, what no program wants), asks for next hops, and reads what the
//! network says about connections.
//!
//! A value: frames and the time go in, frames and reports come out. Answers are smoltcp's; which
//! next hop to believe, and what an ICMP error means for TCP, is decided here.
//!
//! Invariant: it holds a bounded number of frames and neighbours, whatever comes.
//! Invariant: it sends nothing about TCP: segments are the engine's.

mod addresses;
mod device;
mod frames;
mod icmp;
mod neighbors;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};
use warpwire_protocols::parse::{Fragment, Kind, parse_slow};

pub use addresses::{InterfaceAddress, NoWay, Route, link_local};
pub use icmp::{IcmpReport, Reported};
pub use neighbors::{Hop, Moved};

use addresses::Addresses;
use device::Port;
use neighbors::Neighbors;

/// What the slow path answers for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlowConfig {
    /// The Ethernet address.
    pub mac: [u8; 6],
    /// Bytes of the largest IP packet of the link.
    pub mtu: u16,
    /// The own addresses, [`SlowPath::MOST_ADDRESSES`] at most.
    pub addresses: Vec<InterfaceAddress>,
    /// Ways to other networks, [`SlowPath::MOST_ROUTES`] at most.
    pub routes: Vec<Route>,
}

/// Why there can be no such slow path.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SlowError {
    /// Too few or too many.
    #[error("`{field}` has {count} entries; give {least} to {most}")]
    Count {
        /// Of what.
        field: &'static str,
        /// How many there are.
        count: usize,
        /// The fewest.
        least: usize,
        /// The most.
        most: usize,
    },
    /// An address that no interface can have.
    #[error("`addresses` has {address}, which is no address of one host; give another")]
    Address {
        /// Which one.
        address: IpAddr,
    },
    /// A gateway that is not on the link.
    #[error("`routes` lead by {via}, which is no other host in a network of `addresses`; give one")]
    Gateway {
        /// Which one.
        via: IpAddr,
    },
    /// A MAC address of a group, or none.
    #[error("the NIC has no Ethernet address of one station; use another NIC")]
    Mac,
    /// A link that is too narrow.
    #[error("`mtu` is {mtu} bytes; give {least} or more")]
    Mtu {
        /// What it is.
        mtu: u16,
        /// The least that such addresses need.
        least: u16,
    },
}

/// What became of frames. Each that came in was heard only, unanswered, or limited, or else
/// answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlowCounters {
    /// Frames that came in.
    pub frames: u64,
    /// Answers that went out, questions of smoltcp's own included.
    pub answered: u64,
    /// Frames that told us something: a neighbour, or a report.
    pub heard: u64,
    /// Of these, those to which nothing was to be said.
    pub heard_only: u64,
    /// Frames that nobody answers: no concern of ours, malformed, or not understood.
    pub unanswered: u64,
    /// Frames that would have been answered by an error, above the limit of a second.
    pub limited: u64,
    /// Frames that could not go out, because too many wait already.
    pub lost: u64,
}

/// The slow path of an interface.
pub struct SlowPath {
    interface: Interface,
    sockets: SocketSet<'static>,
    port: Port,
    addresses: Addresses,
    neighbors: Neighbors,
    counters: SlowCounters,
    /// A second, and the errors that may still go out in it.
    errors: (u64, u32),
}

impl SlowPath {
    /// Addresses that it can have.
    pub const MOST_ADDRESSES: usize = smoltcp::config::IFACE_MAX_ADDR_COUNT;
    /// Ways to other networks that it can have.
    pub const MOST_ROUTES: usize = smoltcp::config::IFACE_MAX_ROUTE_COUNT;
    /// Frames that wait to be sent at most.
    pub const MOST_FRAMES: usize = device::MOST_FRAMES;

    /// The slow path of an interface.
    ///
    /// # Errors
    /// [`SlowError`] names the field.
    pub fn new(config: &SlowConfig, now_ns: u64) -> Result<Self, SlowError> {
        let addresses = Addresses::new(config)?;
        let mut port = Port::new(config.mtu);
        let hardware = HardwareAddress::Ethernet(EthernetAddress(config.mac));
        let mut interface = Interface::new(Config::new(hardware), &mut port, instant(now_ns));
        interface.update_ip_addrs(|list| {
            for own in addresses.own() {
                // There are no more than fit.
                let _ = list.push(IpCidr::new(own.address.into(), own.prefix));
            }
        });
        interface.routes_mut().update(|list| {
            for route in addresses.routes() {
                let _ = list.push(smoltcp::iface::Route {
                    cidr: IpCidr::new(route.to.address.into(), route.to.length),
                    via_router: route.via.into(),
                    preferred_until: None,
                    expires_at: None,
                });
            }
        });
        Ok(Self {
            interface,
            sockets: SocketSet::new(Vec::new()),
            port,
            neighbors: Neighbors::new(config.mac),
            addresses,
            counters: SlowCounters::default(),
            errors: (0, ERRORS_A_SECOND),
        })
    }

    /// Takes a frame. Returns what the network says about a connection, if it is such a frame.
    pub fn on_frame(&mut self, now_ns: u64, frame: &[u8]) -> Option<IcmpReport> {
        self.counters.frames += 1;
        let is_ours = self.is_for_us(frame);
        let headers = u32::try_from(frame.len())
            .ok()
            .and_then(|length| parse_slow(frame, length).ok());
        let Some(headers) = headers.filter(|headers| is_ours && headers.tags == 0) else {
            self.counters.unanswered += 1;
            return None;
        };
        if headers.fragment != Fragment::None || !is_for_smoltcp(headers.kind) {
            self.counters.unanswered += 1;
            return None;
        }
        let told = self
            .neighbors
            .hear(now_ns, frame, &headers, &self.addresses);
        let report = icmp::read(frame, &headers, &self.addresses);
        if told || report.is_some() {
            self.counters.heard += 1;
        }
        if report.is_some() {
            self.counters.heard_only += 1;
            return report;
        }
        if would_be_refused(headers.kind) && !self.may_refuse(now_ns) {
            self.counters.limited += 1;
            return None;
        }
        if let Some(defence) = frames::defence(frame, &headers, &self.addresses) {
            self.port.send(defence);
            self.counters.answered += 1;
        } else if !self.answer(now_ns, frame) {
            match told {
                true => self.counters.heard_only += 1,
                false => self.counters.unanswered += 1,
            }
        }
        None
    }

    /// The Ethernet address towards `to`, or that it was asked for.
    ///
    /// # Errors
    /// [`NoWay`].
    pub fn next_hop(&mut self, now_ns: u64, to: IpAddr) -> Result<Hop, NoWay> {
        let via = self.addresses.via(to)?;
        self.neighbors
            .find(now_ns, via, &self.addresses, &mut self.port)
    }

    /// The own address that packets to `to` leave with.
    ///
    /// # Errors
    /// [`NoWay`].
    pub fn source(&self, to: IpAddr) -> Result<IpAddr, NoWay> {
        self.addresses.source(to)
    }

    /// Whether packets to `to` go to it on the link, and not by a gateway.
    pub fn is_on_link(&self, to: IpAddr) -> bool {
        self.addresses.via(to) == Ok(to)
    }

    /// Whether other networks are reached by this address.
    pub fn is_gateway(&self, address: IpAddr) -> bool {
        self.addresses.is_gateway(address)
    }

    /// A next hop that has another Ethernet address than was said before: each once.
    pub fn take_moved(&mut self) -> Option<Moved> {
        self.neighbors.take_moved()
    }

    /// Looks at the clock: asks again, and forgets.
    pub fn on_timer(&mut self, now_ns: u64) {
        self.neighbors
            .on_timer(now_ns, &self.addresses, &mut self.port);
    }

    /// When [`SlowPath::on_timer`] wants to be called at the latest.
    pub fn timeout_ns(&self) -> Option<u64> {
        self.neighbors.timeout_ns()
    }

    /// The next frame to be sent, without checksum sequence.
    pub fn take_frame(&mut self) -> Option<Vec<u8>> {
        self.port.take()
    }

    /// What became of frames so far.
    pub fn counters(&self) -> SlowCounters {
        SlowCounters {
            lost: self.port.lost(),
            ..self.counters
        }
    }

    /// Hands a frame to smoltcp. Whether it said anything.
    fn answer(&mut self, now_ns: u64, frame: &[u8]) -> bool {
        let before = self.port.offered();
        self.port.receive_next(frame);
        let now = instant(now_ns);
        // Nothing here comes from sockets: their state does not matter.
        let _ = self
            .interface
            .poll_ingress_single(now, &mut self.port, &mut self.sockets);
        let said = self.port.offered().wrapping_sub(before);
        self.counters.answered += said;
        said > 0
    }

    /// Whether the Ethernet address is ours or a group's, and the sender is one station.
    fn is_for_us(&self, frame: &[u8]) -> bool {
        let ours = self.addresses.mac();
        let sender = frame.get(6..12);
        let is_station = sender
            .and_then(<[u8]>::first)
            .is_some_and(|first| first & 1 == 0);
        let to = frame.get(..6).unwrap_or_default();
        let is_group = to.first().is_some_and(|first| first & 1 == 1);
        is_station && sender != Some(&ours[..]) && (is_group || to == ours)
    }

    fn may_refuse(&mut self, now_ns: u64) -> bool {
        let second = now_ns / 1_000_000_000;
        let (of, left) = self.errors;
        let left = if of == second { left } else { ERRORS_A_SECOND };
        self.errors = (second, left.saturating_sub(1));
        left > 0
    }
}

/// Whether smoltcp can have something to say about a frame of this kind.
const fn is_for_smoltcp(kind: Kind) -> bool {
    matches!(kind, Kind::Arp | Kind::Icmpv4 | Kind::Icmpv6) || would_be_refused(kind)
}

/// Whether a frame of this kind is answered by an error, if at all.
const fn would_be_refused(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Udp | Kind::Vxlan | Kind::RoceV2 | Kind::Ipv4 | Kind::Ipv6 | Kind::Gre
    )
}

fn instant(now_ns: u64) -> Instant {
    Instant::from_micros(i64::try_from(now_ns / 1000).unwrap_or(i64::MAX))
}

/// Errors that go out in a second at most.
const ERRORS_A_SECOND: u32 = 100;
