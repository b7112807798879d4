//! Next hops by the operating system's own tables: the way to an address, and who answers for it on
//! the link. For interfaces that the kernel serves beside us: it resolves, expires and answers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::netlink::{Netlink, attribute, find, u16_at, u32_at};

/// The way to an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The interface that it leaves by.
    pub interface: u32,
    /// The own address that it leaves with.
    pub source: IpAddr,
    /// Who takes it on: the address itself, or a router.
    pub via: IpAddr,
}

/// Why there is no next hop.
#[derive(Debug, thiserror::Error)]
pub enum NeighborError {
    /// The kernel knows no way.
    #[error("no route to {to}: {source}; give an interface an address in its network")]
    NoRoute {
        /// The address.
        to: IpAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// Nobody answered.
    #[error(
        "nobody on interface {interface} answered for {via} within {waited:?}; see that the peer \
         is up and in the same network"
    )]
    Silence {
        /// The interface's index.
        interface: u32,
        /// Whom it was asked for.
        via: IpAddr,
        /// How long.
        waited: Duration,
    },
    /// The kernel could not be asked.
    #[error("the kernel's tables cannot be read: {source}; is this Linux with netlink?")]
    Tables {
        /// What it said.
        source: io::Error,
    },
}

/// The way to `to` from the network namespace of this thread.
///
/// # Errors
/// [`NeighborError::NoRoute`], [`NeighborError::Tables`].
pub fn route(to: IpAddr) -> Result<Route, NeighborError> {
    let refused = |source| NeighborError::NoRoute { to, source };
    let mut netlink = open()?;
    let octets = octets(to);
    let mut question = vec![0; ROUTE_HEADER];
    let head = [family(to), (octets.len() * 8) as u8];
    for (slot, byte) in question.iter_mut().zip(head) {
        *slot = byte;
    }
    question.extend(attribute(libc::RTA_DST, &octets));
    let answer = netlink.ask(libc::RTM_GETROUTE, false, &question);
    let answer = answer.map_err(refused)?;
    let told = answer
        .iter()
        .find_map(|message| read_route(&message.body, to));
    told.ok_or_else(|| refused(io::ErrorKind::InvalidData.into()))
}

fn read_route(body: &[u8], to: IpAddr) -> Option<Route> {
    let rest = body.get(ROUTE_HEADER..)?;
    let address = |kind| find(rest, kind).and_then(read_address);
    Some(Route {
        interface: find(rest, libc::RTA_OIF).and_then(|value| u32_at(value, 0))?,
        source: address(libc::RTA_PREFSRC)?,
        via: address(libc::RTA_GATEWAY).unwrap_or(to),
    })
}

/// The Ethernet address of the next hop of a route; the kernel is made to ask for it if it does not
/// know.
///
/// # Errors
/// [`NeighborError::Silence`] after `patience`, [`NeighborError::Tables`].
pub fn resolve(route: &Route, patience: Duration) -> Result<[u8; 6], NeighborError> {
    let started = Instant::now();
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(mac) = known(route)? {
            return Ok(mac);
        }
        if started.elapsed() >= patience {
            return Err(NeighborError::Silence {
                interface: route.interface,
                via: route.via,
                waited: patience,
            });
        }
        if asked.is_none_or(|asked| asked.elapsed() >= ASK_PERIOD) {
            ask(route)?;
            asked = Some(Instant::now());
        }
        thread::sleep(LOOK_PERIOD);
    }
}

/// The Ethernet address of the next hop of a route, if the kernel knows it now.
///
/// # Errors
/// [`NeighborError::Tables`].
pub fn known(route: &Route) -> Result<Option<[u8; 6]>, NeighborError> {
    let mut netlink = open()?;
    let mut question = [0; NEIGHBOR_HEADER];
    if let Some(first) = question.first_mut() {
        *first = family(route.via);
    }
    let answer = netlink.ask(libc::RTM_GETNEIGH, true, &question);
    let answer = answer.map_err(|source| NeighborError::Tables { source })?;
    Ok(answer
        .iter()
        .find_map(|message| read_neighbor(&message.body, route)))
}

/// Makes the kernel ask who answers for the next hop of a route; [`known`] tells it once somebody
/// has.
///
/// # Errors
/// [`NeighborError::Tables`].
pub fn ask(route: &Route) -> Result<(), NeighborError> {
    // A datagram to the discard port; what becomes of it does not matter.
    let socket = UdpSocket::bind((route.source, 0));
    let socket = socket.map_err(|source| NeighborError::Tables { source })?;
    let _ = socket.send_to(&[0], (route.via, DISCARD));
    Ok(())
}

fn read_neighbor(body: &[u8], route: &Route) -> Option<[u8; 6]> {
    let (interface, state) = (u32_at(body, 4)?, u16_at(body, 8)?);
    let rest = body.get(NEIGHBOR_HEADER..)?;
    let address = find(rest, NDA_DST).and_then(read_address)?;
    let fits = interface == route.interface && address == route.via && state & USABLE != 0;
    let mac = find(rest, NDA_LLADDR)?;
    if fits { mac.try_into().ok() } else { None }
}

fn open() -> Result<Netlink, NeighborError> {
    Netlink::open(libc::NETLINK_ROUTE).map_err(|source| NeighborError::Tables { source })
}

const fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn read_address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(four).into());
    }
    let sixteen = <[u8; 16]>::try_from(bytes).ok()?;
    Some(Ipv6Addr::from(sixteen).into())
}

/// Bytes of `struct rtmsg`.
const ROUTE_HEADER: usize = 12;
/// Bytes of `struct ndmsg`.
const NEIGHBOR_HEADER: usize = 12;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// `NUD_REACHABLE`, `NUD_STALE`, `NUD_DELAY`, `NUD_PROBE`, `NUD_NOARP`, `NUD_PERMANENT`.
const USABLE: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
const DISCARD: u16 = 9;
/// How often the kernel is made to ask.
pub const ASK_PERIOD: Duration = Duration::from_millis(500);
/// How often its table is looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_oneself_is_known_and_to_nowhere_is_not() {
        let own = route(Ipv4Addr::LOCALHOST.into()).expect("loopback is there");
        assert_eq!(own.source, IpAddr::from(Ipv4Addr::LOCALHOST));
        assert_eq!(own.via, IpAddr::from(Ipv4Addr::LOCALHOST));
        // A network for documentation, of a family that loopback alone does not reach.
        let nowhere = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        if let Err(error) = route(nowhere.into()) {
            assert!(
                error.to_string().contains("no route to 2001:db8::1"),
                "{error}"
            );
        }
    }

    #[test]
    fn neighbors_are_read() {
        let via: IpAddr = Ipv4Addr::new(10, 0, 0, 2).into();
        let route = Route {
            interface: 7,
            source: Ipv4Addr::new(10, 0, 0, 1).into(),
            via,
        };
        let message = |interface: u32, state: u16, address: [u8; 4]| {
            let mut body = vec![libc::AF_INET as u8, 0, 0, 0];
            body.extend_from_slice(&interface.to_ne_bytes());
            body.extend_from_slice(&state.to_ne_bytes());
            body.extend_from_slice(&[0, 1]);
            body.extend(attribute(NDA_DST, &address));
            body.extend(attribute(NDA_LLADDR, &[2, 0, 0, 0, 0, 9]));
            body
        };
        let cases = [
            (message(7, 2, [10, 0, 0, 2]), true),
            (message(7, 0x80, [10, 0, 0, 2]), true),
            (message(7, 1, [10, 0, 0, 2]), false),
            (message(8, 2, [10, 0, 0, 2]), false),
            (message(7, 2, [10, 0, 0, 3]), false),
            (vec![0; 5], false),
        ];
        for (body, known) in cases {
            let mac = read_neighbor(&body, &route);
            assert_eq!(mac, known.then_some([2, 0, 0, 0, 0, 9]), "{body:?}");
        }
    }
}
