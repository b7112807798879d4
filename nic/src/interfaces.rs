//! The interfaces of this machine: what each can be used for, and why not.

use std::io;
use std::net::IpAddr;

use crate::netlink::{Netlink, attribute, find, u16_at, u32_at, u64_at};

/// What a driver's native XDP can do, as the kernel tells it (Linux 6.3 and later).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NativeXdp {
    /// Programs run in the driver and may redirect to sockets.
    pub redirect: bool,
    /// Sockets share memory with the driver.
    pub zero_copy: bool,
    /// Frames of several pieces are received.
    pub receive_segments: bool,
    /// Sockets that share memory can ask for checksums.
    pub transmit_checksum: bool,
}

/// One interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its Ethernet address; zero where it has none.
    pub mac: [u8; 6],
    /// Bytes of the largest packet, Ethernet header not counted.
    pub mtu: u32,
    /// Whether it carries Ethernet frames.
    pub ethernet: bool,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// Its kind (`veth`, `tun`), or its driver's name.
    pub driver: String,
    /// Receive queues in use.
    pub receive_queues: u32,
    /// Transmit queues in use.
    pub transmit_queues: u32,
    /// Whether the default route (IPv4 or IPv6) leads here.
    pub default_route: bool,
    /// The number of the XDP program that is attached, if one is.
    pub program: Option<u32>,
    /// What native XDP can do; none if the kernel does not tell.
    pub native: Option<NativeXdp>,
}

impl Interface {
    /// Why the `xdp` NIC cannot use the interface, with the cure. Nothing if it can.
    pub fn obstacles(&self) -> Vec<String> {
        let mut obstacles = Vec::new();
        let name = &self.name;
        if !self.ethernet {
            obstacles.push("carries no Ethernet frames; choose another interface".to_owned());
        }
        if !self.up {
            obstacles.push(format!("is down; run `ip link set {name} up`"));
        }
        if let Some(program) = self.program {
            obstacles.push(format!(
                "has XDP program {program} attached; run `ip link set {name} xdp off` or stop its \
                 owner"
            ));
        }
        if self.default_route {
            obstacles.push(
                "carries the default route; add `exclusive` if the machine may lose it".to_owned(),
            );
        }
        obstacles
    }

    /// How XDP would run here, in one word.
    pub fn xdp_mode(&self) -> &'static str {
        match self.native {
            Some(native) if native.redirect && native.zero_copy => "native, zero copy",
            Some(native) if native.redirect => "native",
            Some(_) => "generic",
            None => "unknown: the kernel does not tell",
        }
    }

    /// What to know about checksums before traffic from this machine is trusted.
    pub fn checksum_hint(&self) -> Option<String> {
        (self.driver == "veth").then(|| {
            "packets from a local peer carry only the pseudo-header sum, which pipelines complete \
             when they send them on; in generic mode some are super-frames, which no interface \
             takes: run `ethtool -K PEER tx off` on the peer"
                .to_owned()
        })
    }
}

/// All interfaces of the network namespace that the calling thread is in.
///
/// # Errors
/// What the kernel said.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut route = Netlink::open(libc::NETLINK_ROUTE)?;
    let answer = route.ask(libc::RTM_GETLINK, true, &[0; LINK_HEADER])?;
    let mut list: Vec<Interface> = answer.iter().filter_map(|m| link(&m.body)).collect();
    let with_default = default_routes(&mut route)?;
    let native = native_features().unwrap_or_default();
    let channels = crate::ethtool::Ethtool::open()?;
    for interface in &mut list {
        interface.default_route = with_default.contains(&interface.index);
        let known = native.iter().find(|(index, _)| *index == interface.index);
        interface.native = known.map(|&(_, native)| native);
        if let Some((receive, transmit)) = channels.queues(&interface.name) {
            interface.receive_queues = receive;
            interface.transmit_queues = transmit;
        }
        if interface.driver.is_empty() {
            interface.driver = channels.driver(&interface.name).unwrap_or_default();
        }
    }
    Ok(list)
}

/// Reads a link message: `struct ifinfomsg`, then attributes.
fn link(body: &[u8]) -> Option<Interface> {
    const IFLA_INFO_KIND: u16 = 1;
    const IFLA_XDP_PROG_ID: u16 = 4;
    let kind = u16_at(body, 2)?;
    let index = u32_at(body, 4)?;
    let flags = u32_at(body, 8)?;
    let rest = body.get(LINK_HEADER..)?;
    let number = |kind| find(rest, kind).and_then(|value| u32_at(value, 0));
    let mac = find(rest, libc::IFLA_ADDRESS).and_then(|value| value.try_into().ok());
    let detail = find(rest, libc::IFLA_LINKINFO).and_then(|value| find(value, IFLA_INFO_KIND));
    let program = find(rest, libc::IFLA_XDP)
        .and_then(|value| find(value, IFLA_XDP_PROG_ID))
        .and_then(|value| u32_at(value, 0));
    Some(Interface {
        name: text(find(rest, libc::IFLA_IFNAME)?),
        index,
        mac: mac.unwrap_or([0; 6]),
        mtu: number(libc::IFLA_MTU).unwrap_or(0),
        ethernet: matches!(kind, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK),
        up: flags & libc::IFF_UP as u32 != 0,
        carrier: flags & libc::IFF_RUNNING as u32 != 0,
        driver: detail.map(text).unwrap_or_default(),
        receive_queues: number(libc::IFLA_NUM_RX_QUEUES).unwrap_or(1),
        transmit_queues: number(libc::IFLA_NUM_TX_QUEUES).unwrap_or(1),
        default_route: false,
        program: program.filter(|&number| number != 0),
        native: None,
    })
}

/// An IP address of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnAddress {
    /// The index of its interface.
    pub interface: u32,
    /// The address.
    pub address: IpAddr,
}

/// The addresses of this namespace's interfaces that reach beyond their link, in the order in which
/// the kernel has them.
///
/// # Errors
/// What the kernel said.
pub fn addresses() -> io::Result<Vec<OwnAddress>> {
    let mut route = Netlink::open(libc::NETLINK_ROUTE)?;
    let answer = route.ask(libc::RTM_GETADDR, true, &[0; ADDRESS_HEADER])?;
    Ok(answer.iter().filter_map(|m| own_address(&m.body)).collect())
}

/// Reads an address message: `struct ifaddrmsg`, then attributes.
fn own_address(body: &[u8]) -> Option<OwnAddress> {
    let scope = body.get(3)?;
    let interface = u32_at(body, 4)?;
    let rest = body.get(ADDRESS_HEADER..)?;
    // Where the two differ, the other one is the peer's.
    let value = find(rest, libc::IFA_LOCAL).or_else(|| find(rest, libc::IFA_ADDRESS))?;
    let four = <[u8; 4]>::try_from(value).map(IpAddr::from);
    let address = four.or_else(|_| <[u8; 16]>::try_from(value).map(IpAddr::from));
    let is_global = *scope == libc::RT_SCOPE_UNIVERSE;
    address
        .ok()
        .filter(|_| is_global)
        .map(|address| OwnAddress { interface, address })
}

/// The interfaces that a default route leads to.
fn default_routes(route: &mut Netlink) -> io::Result<Vec<u32>> {
    const ROUTE_HEADER: usize = 12;
    const UNICAST: u8 = 1;
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut question = [0_u8; ROUTE_HEADER];
        if let Some(first) = question.first_mut() {
            *first = family as u8;
        }
        for message in route.ask(libc::RTM_GETROUTE, true, &question)? {
            let body = &message.body;
            let (length, kind) = (body.get(1), body.get(7));
            let Some(rest) = body.get(ROUTE_HEADER..) else {
                continue;
            };
            if length != Some(&0) || kind != Some(&UNICAST) {
                continue;
            }
            let direct = find(rest, libc::RTA_OIF).and_then(|value| u32_at(value, 0));
            found.extend(direct);
            found.extend(find(rest, libc::RTA_MULTIPATH).into_iter().flat_map(hops));
        }
    }
    Ok(found)
}

/// The interfaces of a route with several next hops (`struct rtnexthop`).
fn hops(value: &[u8]) -> Vec<u32> {
    let (mut rest, mut found) = (value, Vec::new());
    while let (Some(length), Some(index)) = (u16_at(rest, 0), u32_at(rest, 4)) {
        found.push(index);
        let step = usize::from(length).next_multiple_of(4).max(8);
        rest = rest.get(step..).unwrap_or(&[]);
    }
    found
}

/// What each interface's driver says about XDP (generic netlink family `netdev`).
fn native_features() -> io::Result<Vec<(u32, NativeXdp)>> {
    const FAMILY_ID: u16 = 1;
    const FAMILY_NAME: u16 = 2;
    const DEVICE_GET: u8 = 1;
    const INDEX: u16 = 1;
    const XDP_FEATURES: u16 = 3;
    const SOCKET_FEATURES: u16 = 6;
    let mut generic = Netlink::open(libc::NETLINK_GENERIC)?;
    let mut question = vec![libc::CTRL_CMD_GETFAMILY as u8, 1, 0, 0];
    question.extend(attribute(FAMILY_NAME, b"netdev\0"));
    let answer = generic.ask(libc::GENL_ID_CTRL as u16, false, &question)?;
    let family = answer
        .first()
        .and_then(|message| find(message.body.get(GENERIC_HEADER..)?, FAMILY_ID))
        .and_then(|value| u16_at(value, 0))
        .ok_or(io::ErrorKind::NotFound)?;
    let answer = generic.ask(family, true, &[DEVICE_GET, 1, 0, 0])?;
    let features = answer.iter().filter_map(|message| {
        let rest = message.body.get(GENERIC_HEADER..)?;
        let index = u32_at(find(rest, INDEX)?, 0)?;
        let xdp = u64_at(find(rest, XDP_FEATURES)?, 0)?;
        let socket = find(rest, SOCKET_FEATURES).and_then(|value| u64_at(value, 0));
        Some((index, features(xdp, socket.unwrap_or(0))))
    });
    Ok(features.collect())
}

fn features(xdp: u64, socket: u64) -> NativeXdp {
    const BASIC_AND_REDIRECT: u64 = 1 | 2;
    const ZERO_COPY: u64 = 8;
    const RECEIVE_SEGMENTS: u64 = 32;
    const TRANSMIT_CHECKSUM: u64 = 2;
    NativeXdp {
        redirect: xdp & BASIC_AND_REDIRECT == BASIC_AND_REDIRECT,
        zero_copy: xdp & ZERO_COPY != 0,
        receive_segments: xdp & RECEIVE_SEGMENTS != 0,
        transmit_checksum: socket & TRANSMIT_CHECKSUM != 0,
    }
}

/// A string up to its zero byte.
fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0);
    let value = end.and_then(|end| value.get(..end)).unwrap_or(value);
    String::from_utf8_lossy(value).into_owned()
}

const LINK_HEADER: usize = 16;
/// Bytes of `struct ifaddrmsg`.
const ADDRESS_HEADER: usize = 8;
const GENERIC_HEADER: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there_and_up_to_date() {
        let list = interfaces().expect("the kernel answers");
        let lo = list.iter().find(|interface| interface.name == "lo");
        let lo = lo.expect("every machine has one");
        assert!(lo.index == 1 && lo.mtu >= 1500 && lo.ethernet && !lo.default_route);
        assert_eq!(lo.mac, [0; 6]);
    }

    #[test]
    fn own_addresses_are_read() {
        let check = |scope: u8, kind: u16, value: &[u8], text: Option<&str>| {
            let mut body = vec![0, 24, 0, scope, 7, 0, 0, 0];
            body.extend(attribute(kind, value));
            let read = own_address(&body).map(|own| own.address.to_string());
            assert_eq!(read.as_deref(), text);
            for cut in 0..body.len() {
                assert_eq!(own_address(&body[..cut]), None);
            }
        };
        check(0, libc::IFA_LOCAL, &[10, 0, 0, 7], Some("10.0.0.7"));
        check(0, libc::IFA_ADDRESS, &[10, 0, 0, 7], Some("10.0.0.7"));
        let six = [0xfd, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        check(0, libc::IFA_ADDRESS, &six, Some("fd07::2"));
        // Of the link, of the host; of no family; something else.
        check(253, libc::IFA_LOCAL, &[169, 254, 0, 7], None);
        check(254, libc::IFA_LOCAL, &[127, 0, 0, 1], None);
        check(0, libc::IFA_LOCAL, &[10, 0, 0], None);
        check(0, libc::IFA_LABEL, &[10, 0, 0, 7], None);
        assert!(addresses().is_ok());
    }

    #[test]
    fn obstacles_name_their_cure() {
        let good = Interface {
            name: "v1".to_owned(),
            index: 7,
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            ethernet: true,
            up: true,
            carrier: true,
            driver: "veth".to_owned(),
            receive_queues: 1,
            transmit_queues: 1,
            default_route: false,
            program: None,
            native: Some(features(0x67, 0)),
        };
        assert!(good.obstacles().is_empty());
        assert_eq!(good.xdp_mode(), "native");
        assert!(
            good.checksum_hint()
                .is_some_and(|hint| hint.contains("tx off"))
        );
        let bad = Interface {
            up: false,
            ethernet: false,
            program: Some(9),
            default_route: true,
            ..good
        };
        let obstacles = bad.obstacles().join("\n");
        for word in ["Ethernet", "set v1 up", "xdp off", "exclusive"] {
            assert!(obstacles.contains(word), "{word}: {obstacles}");
        }
    }

    #[test]
    fn next_hops_are_read_whole() {
        let hop = |index: u32| {
            let mut bytes = vec![8, 0, 0, 0];
            bytes.extend(index.to_ne_bytes());
            bytes
        };
        let value = [hop(3), hop(9)].concat();
        assert_eq!(hops(&value), [3, 9]);
        assert_eq!(hops(value.get(..7).unwrap_or(&[])), Vec::<u32>::new());
    }
}
