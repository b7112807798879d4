//! Own addresses and routes: who is on the link, who is behind whom, and which address is used.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warpwire_nic::xdp::Prefix;

use super::{SlowConfig, SlowError, SlowPath};

/// An own address, and the network that it is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceAddress {
    /// The address.
    pub address: IpAddr,
    /// Bits of it that the network's addresses share.
    pub prefix: u8,
}

impl InterfaceAddress {
    /// The network.
    pub fn network(&self) -> Prefix {
        let (length, address) = (self.prefix, self.address);
        let address = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32)));
                Ipv4Addr::from(u32::from(address) & mask.unwrap_or(0)).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128)));
                Ipv6Addr::from(u128::from(address) & mask.unwrap_or(0)).into()
            }
        };
        Prefix { address, length }
    }

    /// Whether this is the broadcast address of the network, or the network itself.
    fn is_outermost(&self, of: IpAddr) -> bool {
        let (IpAddr::V4(first), IpAddr::V4(of)) = (self.network().address, of) else {
            return false;
        };
        let hosts = u32::MAX.checked_shr(u32::from(self.prefix)).unwrap_or(0);
        self.prefix < 31 && (of == first || u32::from(of) == u32::from(first) | hosts)
    }
}

impl std::str::FromStr for InterfaceAddress {
    type Err = String;

    /// Reads `ADDRESS/LENGTH`.
    fn from_str(words: &str) -> Result<Self, String> {
        let cure = "write an address and the length of its network, as in 192.0.2.1/24";
        let (address, length) = words
            .split_once('/')
            .ok_or_else(|| format!("`{words}` has no length; {cure}"))?;
        let address: IpAddr = address
            .parse()
            .map_err(|_| format!("`{address}` is no IP address; {cure}"))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        match length.parse() {
            Ok(prefix) if prefix <= most => Ok(Self { address, prefix }),
            _ => Err(format!("`/{length}` is not 0 to {most}; {cure}")),
        }
    }
}

impl std::fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// The way to a network that is not on the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The network; length 0 stands for all others.
    pub to: Prefix,
    /// The router that takes packets on, an address on the link.
    pub via: IpAddr,
}

/// Why packets cannot be sent to an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoWay {
    /// It is in no network that is known.
    #[error("no route to {to}: it is in no own network; give a route to it, or an address there")]
    NoRoute {
        /// The address.
        to: IpAddr,
    },
    /// It is nobody's, everybody's, or our own.
    #[error("{to} is not the address of one other host; give one that is")]
    NotAHost {
        /// The address.
        to: IpAddr,
    },
    /// Who should take packets on does not answer.
    #[error("nobody on the link answers for {via}; see that it is up and in the same network")]
    Silent {
        /// Who was asked for.
        via: IpAddr,
    },
    /// Too many next hops are being asked for.
    #[error("{most} next hops are asked for already; try again when some have answered")]
    Busy {
        /// How many are remembered at most.
        most: usize,
    },
}

/// The own addresses and routes, checked.
#[derive(Debug)]
pub(super) struct Addresses {
    mac: [u8; 6],
    own: Vec<InterfaceAddress>,
    routes: Vec<Route>,
}

impl Addresses {
    pub(super) fn new(config: &SlowConfig) -> Result<Self, SlowError> {
        let SlowConfig {
            mac,
            mtu,
            addresses,
            routes,
        } = config;
        count("addresses", addresses.len(), 1, SlowPath::MOST_ADDRESSES)?;
        count("routes", routes.len(), 0, SlowPath::MOST_ROUTES)?;
        if mac[0] & 1 == 1 || *mac == [0; 6] {
            return Err(SlowError::Mac);
        }
        for own in addresses {
            let address = own.address;
            if !is_host(address) || address.is_loopback() || own.is_outermost(address) {
                return Err(SlowError::Address { address });
            }
            let least = if address.is_ipv4() { 576 } else { 1280 };
            if *mtu < least {
                return Err(SlowError::Mtu { mtu: *mtu, least });
            }
        }
        let mut routes = routes.clone();
        // The longest prefix that fits comes first.
        routes.sort_by_key(|route| std::cmp::Reverse(route.to.length));
        let checked = Self {
            mac: *mac,
            own: addresses.clone(),
            routes,
        };
        for Route { via, to } in &checked.routes {
            let fits = via.is_ipv4() == to.address.is_ipv4();
            if !fits || !is_host(*via) || !checked.is_on_link(*via) || checked.is_own(*via) {
                return Err(SlowError::Gateway { via: *via });
            }
        }
        Ok(checked)
    }

    pub(super) const fn mac(&self) -> [u8; 6] {
        self.mac
    }

    pub(super) fn own(&self) -> &[InterfaceAddress] {
        &self.own
    }

    pub(super) fn routes(&self) -> &[Route] {
        &self.routes
    }

    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        self.own.iter().any(|own| own.address == address)
    }

    /// Whether the address is reached without a router.
    pub(super) fn is_on_link(&self, address: IpAddr) -> bool {
        self.own.iter().any(|own| own.network().contains(address))
    }

    /// Whether other networks are reached by this address.
    pub(super) fn is_gateway(&self, address: IpAddr) -> bool {
        self.routes.iter().any(|route| route.via == address)
    }

    /// Who takes packets on to `to`: itself, or a router.
    pub(super) fn via(&self, to: IpAddr) -> Result<IpAddr, NoWay> {
        let is_outermost = self.own.iter().any(|own| own.is_outermost(to));
        if !is_host(to) || to.is_loopback() || is_outermost || self.is_own(to) {
            return Err(NoWay::NotAHost { to });
        }
        if self.is_on_link(to) {
            return Ok(to);
        }
        let route = self.routes.iter().find(|route| route.to.contains(to));
        route.map(|route| route.via).ok_or(NoWay::NoRoute { to })
    }

    /// The own address that packets to `to` leave with: one in the network of who takes them on.
    pub(super) fn source(&self, to: IpAddr) -> Result<IpAddr, NoWay> {
        let via = self.via(to)?;
        let mut near = self.own.iter().filter(|own| own.network().contains(via));
        // Only who is on the link can answer to a link-local address.
        let own = near
            .clone()
            .find(|own| is_link_local(own.address) == is_link_local(to));
        let own = own.or_else(|| {
            let mut family = self
                .own
                .iter()
                .filter(|own| own.address.is_ipv4() == to.is_ipv4());
            family.find(|own| !is_link_local(own.address))
        });
        let own = own.or_else(|| near.next());
        own.map(|own| own.address).ok_or(NoWay::NoRoute { to })
    }
}

/// The link-local address that is made of an Ethernet address (RFC 4291 appendix A).
pub fn link_local(mac: [u8; 6]) -> InterfaceAddress {
    let [a, b, c, d, e, f] = mac.map(u16::from);
    let address = Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        (a ^ 2) << 8 | b,
        c << 8 | 0xff,
        0xfe00 | d,
        e << 8 | f,
    );
    InterfaceAddress {
        address: address.into(),
        prefix: 64,
    }
}

fn count(field: &'static str, count: usize, least: usize, most: usize) -> Result<(), SlowError> {
    match (least..=most).contains(&count) {
        true => Ok(()),
        false => Err(SlowError::Count {
            field,
            count,
            least,
            most,
        }),
    }
}

/// Whether it can be the address of one host.
fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, ..] = address.octets();
            (1..224).contains(&first)
        }
        IpAddr::V6(address) => {
            !address.is_multicast()
                && !address.is_unspecified()
                && address.to_ipv4_mapped().is_none()
        }
    }
}

const fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(addresses: &[&str], routes: &[(&str, &str)]) -> SlowConfig {
        let read = |words: &&str| words.parse().expect(words);
        let route = |(to, via): &(&str, &str)| {
            let to: InterfaceAddress = to.parse().expect(to);
            Route {
                to: to.network(),
                via: via.parse().expect(via),
            }
        };
        SlowConfig {
            mac: [2, 0, 0, 0, 0, 2],
            mtu: 1500,
            addresses: addresses.iter().map(read).collect(),
            routes: routes.iter().map(route).collect(),
        }
    }

    fn sample() -> Addresses {
        let own = ["10.1.0.2/24", "10.2.0.2/16", "fd00::2/64", "fe80::2/64"];
        let routes = [
            ("0.0.0.0/0", "10.1.0.1"),
            ("192.168.0.0/16", "10.2.0.1"),
            ("192.168.7.0/24", "10.1.0.7"),
            ("::/0", "fe80::1"),
        ];
        Addresses::new(&config(&own, &routes)).expect("is right")
    }

    #[test]
    fn ways_and_sources_of_a_host_with_two_networks() {
        let addresses = sample();
        for (to, via, source) in [
            ("10.1.0.9", "10.1.0.9", "10.1.0.2"),
            ("10.2.9.9", "10.2.9.9", "10.2.0.2"),
            ("8.8.8.8", "10.1.0.1", "10.1.0.2"),
            ("192.168.1.1", "10.2.0.1", "10.2.0.2"),
            ("192.168.7.1", "10.1.0.7", "10.1.0.2"),
            ("fd00::9", "fd00::9", "fd00::2"),
            ("fe80::9", "fe80::9", "fe80::2"),
            ("2001:db8::1", "fe80::1", "fd00::2"),
        ] {
            let to = to.parse().expect(to);
            let found = addresses.via(to).map(|via| via.to_string());
            assert_eq!(found.as_deref(), Ok(via), "{to}");
            let found = addresses.source(to).map(|source| source.to_string());
            assert_eq!(found.as_deref(), Ok(source), "{to}");
        }
        for to in [
            "10.1.0.2",
            "10.1.0.255",
            "10.1.0.0",
            "224.0.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "127.0.0.1",
            "ff02::1",
            "::",
            "::1",
            "fd00::2",
        ] {
            let to = to.parse().expect(to);
            assert_eq!(addresses.via(to), Err(NoWay::NotAHost { to }));
        }
        let alone = Addresses::new(&config(&["10.1.0.2/24"], &[])).expect("is right");
        for to in ["10.1.1.1", "fd00::1"] {
            let to = to.parse().expect(to);
            assert_eq!(alone.source(to), Err(NoWay::NoRoute { to }));
        }
    }

    #[test]
    fn wrong_settings_are_named() {
        let nine = ["10.0.0.2/24"; 9];
        for (config, words) in [
            (config(&[], &[]), "`addresses` has 0"),
            (config(&nine, &[]), "`addresses` has 9"),
            (config(&["10.0.0.255/24"], &[]), "10.0.0.255"),
            (config(&["224.0.0.1/24"], &[]), "224.0.0.1"),
            (config(&["::/64"], &[]), "::"),
            (
                config(&["10.0.0.2/24"], &[("0.0.0.0/0", "10.0.1.1")]),
                "10.0.1.1",
            ),
            (
                config(&["10.0.0.2/24"], &[("0.0.0.0/0", "10.0.0.2")]),
                "10.0.0.2",
            ),
            (
                config(&["10.0.0.2/24"], &[("::/0", "10.0.0.1")]),
                "10.0.0.1",
            ),
            (
                SlowConfig {
                    mac: [1, 0, 0, 0, 0, 1],
                    ..config(&["10.0.0.2/24"], &[])
                },
                "no Ethernet address",
            ),
            (
                SlowConfig {
                    mtu: 1279,
                    ..config(&["fd00::2/64"], &[])
                },
                "1280",
            ),
        ] {
            let said = Addresses::new(&config).expect_err(words).to_string();
            assert!(said.contains(words), "{said}");
        }
        for words in ["10.0.0.2", "10.0.0.2/33", "x/8", "fd00::1/129", "10.0.0.2/"] {
            assert!(words.parse::<InterfaceAddress>().is_err(), "{words}");
        }
        assert_eq!(
            link_local([2, 0, 0, 0, 0, 2]).to_string(),
            "fe80::ff:fe00:2/64"
        );
    }
}
