//! Where a device stands: a link, an own address there, and the NIC that takes its packets.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

use warpwire_nic::interfaces::{Interface, OwnAddress, addresses, interfaces};
use warpwire_nic::memif::{self, Memif};
use warpwire_nic::neighbor::{self, Route};
use warpwire_nic::{Nic, NicKind, NicSpec, Patience, soft, xdp};
use warpwire_protocols::wire::bth::UDP_PORT;

use super::Error;

/// A link and an own address there.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(super) name: String,
    /// The kernel's number of the interface; `None` where nobody but the peer is on the link.
    pub(super) index: Option<u32>,
    pub(super) mac: [u8; 6],
    /// Bytes of the largest IP packet.
    pub(super) mtu: u32,
    pub(super) address: IpAddr,
}

impl Place {
    /// Where a route leaves.
    pub(super) fn of_route(route: &Route) -> Result<Self, Error> {
        let list = all_interfaces()?;
        let found = list.into_iter().find(|one| one.index == route.interface);
        let interface = found.ok_or_else(|| Error::Interface {
            interface: route.interface.to_string(),
            problem: "is not there any more".to_owned(),
        })?;
        Ok(Self::on(&interface, route.source))
    }

    fn on(interface: &Interface, address: IpAddr) -> Self {
        Self {
            name: interface.name.clone(),
            index: Some(interface.index),
            mac: interface.mac,
            mtu: interface.mtu,
            address,
        }
    }

    /// Whether it is still as it was.
    pub(super) fn look(&self) -> Result<(), Error> {
        let Some(index) = self.index else {
            return Ok(());
        };
        let wrong = |problem: String| Error::Interface {
            interface: self.name.clone(),
            problem,
        };
        let list = all_interfaces()?;
        let Some(interface) = list.iter().find(|one| one.index == index) else {
            return Err(wrong("is gone".to_owned()));
        };
        let name = &interface.name;
        if !interface.up {
            return Err(wrong(format!("is down; run `ip link set {name} up`")));
        }
        match UdpSocket::bind((self.address, 0)) {
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
                Err(wrong(format!("does not have {} any more", self.address)))
            }
            _ => Ok(()),
        }
    }

    /// Where peers are waited for: at an address of ours, or at the interface of a NIC, or at the
    /// only one that there is. An unspecified address stands for any of its family.
    pub(super) fn of_own(wish: Option<IpAddr>, nic: Option<&str>) -> Result<Self, Error> {
        let name = nic.map(Words::read).transpose()?.map(|words| words.name);
        let list = all_interfaces()?;
        let own = own_addresses()?;
        let at = |own: &OwnAddress| list.iter().find(|one| one.index == own.interface);
        let places: Vec<Self> = own
            .iter()
            .filter(|own| wish.is_none_or(|wish| is_wished(wish, own.address)))
            .filter_map(|own| Some((at(own)?, own.address)))
            .filter(|(interface, _)| match &name {
                Some(name) => interface.name == *name,
                None => interface.up && interface.mac != [0; 6],
            })
            .map(|(interface, address)| Self::on(interface, address))
            .collect();
        choose(places, wish, nic.is_some())
    }
}

/// The own address with a number: on the interface of a NIC, or on that which leads to `peer`,
/// those that reach beyond their link are counted from 1, as Linux counts its GIDs behind the
/// link-local one.
///
/// # Errors
/// [`Error::Address`] with the numbers that there are; no way to the peer.
pub fn own_address(peer: IpAddr, nic: Option<&str>, number: u32) -> Result<IpAddr, Error> {
    let list = all_interfaces()?;
    let name = nic.map(Words::read).transpose()?.map(|words| words.name);
    let index = match name {
        Some(name) => list
            .iter()
            .find(|one| one.name == name)
            .map(|one| one.index),
        None => Some(neighbor::route(peer)?.interface),
    };
    let own = own_addresses()?.into_iter();
    let own: Vec<IpAddr> = own
        .filter(|own| Some(own.interface) == index)
        .map(|own| own.address)
        .collect();
    let found = (number as usize)
        .checked_sub(1)
        .and_then(|place| own.get(place));
    found.copied().ok_or_else(|| {
        let known = own.iter().enumerate();
        let known = known.map(|(place, address)| format!("{} for {address}", place + 1));
        Error::Address {
            problem: format!("the interface has no address with number {number}"),
            cure: match own.is_empty() {
                true => "give it one".to_owned(),
                false => format!("write {}", known.collect::<Vec<_>>().join(", ")),
            },
        }
    })
}

fn own_addresses() -> Result<Vec<OwnAddress>, Error> {
    addresses().map_err(|source| Error::Address {
        problem: format!("the kernel does not list its addresses: {source}"),
        cure: "allow netlink sockets".to_owned(),
    })
}

/// The one place that is meant, if that can be said.
fn choose(places: Vec<Place>, wish: Option<IpAddr>, is_named: bool) -> Result<Place, Error> {
    let is_exact = wish.is_some_and(|wish| !wish.is_unspecified());
    // As the tools do: IPv4 unless it is said otherwise.
    let fours: Vec<&Place> = places.iter().filter(|one| one.address.is_ipv4()).collect();
    let choice: Vec<&Place> = match (wish, fours.is_empty()) {
        (None, false) => fours,
        _ => places.iter().collect(),
    };
    match choice.as_slice() {
        [] => {
            let address = wish.map_or("any address".to_owned(), |wish| wish.to_string());
            Err(Error::Address {
                problem: format!("no interface that is up has {address}"),
                cure: "see `ip address`; give an interface that carries Ethernet one".to_owned(),
            })
        }
        [one] => Ok((*one).clone()),
        [first, ..] if is_named || is_exact => Ok((*first).clone()),
        several => {
            let list = several.iter().map(|one| one.address.to_string());
            Err(Error::Address {
                problem: "this machine has several addresses".to_owned(),
                cure: format!("write one of {}", list.collect::<Vec<_>>().join(", ")),
            })
        }
    }
}

/// Whether an address is the one that is asked for, or any of its family.
fn is_wished(wish: IpAddr, address: IpAddr) -> bool {
    let is_any = wish.is_unspecified() && wish.is_ipv4() == address.is_ipv4();
    is_any || wish == address
}

fn all_interfaces() -> Result<Vec<Interface>, Error> {
    interfaces().map_err(|source| Error::Address {
        problem: format!("the kernel does not list its interfaces: {source}"),
        cure: "allow netlink sockets".to_owned(),
    })
}

/// The words of a NIC that takes the transport's packets from an interface which the kernel serves.
struct Words {
    spec: NicSpec,
    /// The part about the interface, and its name.
    interface: NicSpec,
    name: String,
}

impl Words {
    fn read(words: &str) -> Result<Self, Error> {
        let spec: NicSpec = words.parse()?;
        let uplink = spec.option("uplink").map(|words| words.replace('+', ","));
        let uplink = uplink.filter(|_| spec.kind == NicKind::Soft);
        let interface = match uplink {
            Some(uplink) => uplink.parse::<NicSpec>().ok(),
            None => Some(spec.clone()),
        };
        let interface = interface.filter(|interface| interface.kind == NicKind::Xdp);
        let interface = interface.ok_or_else(|| Error::Kind {
            nic: words.to_owned(),
        })?;
        Ok(Self {
            name: interface.address.clone(),
            interface,
            spec,
        })
    }

    /// With the flow of the transport, unless the words say what is taken.
    fn with_flow(mut self, address: IpAddr) -> NicSpec {
        let takes = |key: &str| matches!(key, "flow" | "address" | "prefix" | "all" | "exclusive");
        let flow = format!("udp/{UDP_PORT}@{address}");
        match self.spec.kind {
            NicKind::Soft => {
                let uplink = |option: &&mut (String, String)| option.0 == "uplink";
                if let Some((_, words)) = self.spec.options.iter_mut().find(uplink)
                    && !words
                        .split('+')
                        .any(|part| takes(part.split('=').next().unwrap_or("")))
                {
                    words.push_str(&format!("+flow={flow}"));
                }
            }
            _ if self.spec.options.iter().any(|(key, _)| takes(key)) => {}
            _ => self.spec.options.push(("flow".to_owned(), flow)),
        }
        self.spec
    }
}

/// Checks what can be checked before there is a peer: rights, the words of the NIC, and that its
/// interface can be used. Nothing is opened.
///
/// # Errors
/// [`Error::Kind`], [`Error::Nic`].
pub fn check(nic: Option<&str>) -> Result<(), Error> {
    let Some(nic) = nic else {
        return Ok(xdp::check_rights("xdp")?);
    };
    if is_memif(nic) {
        return Ok(memif::check(&nic.parse()?)?);
    }
    let spec = Words::read(nic)?.with_flow(IpAddr::from([127, 0, 0, 1]));
    let interface = Words::read(&spec.to_string())?.interface;
    let checked = warpwire_nic::check(&spec).and_then(|()| xdp::look(&interface));
    // In the words of the user, who said nothing of flows.
    checked.map_err(|error| error.named(nic).into())
}

/// Opens the NIC of a place: that of the words, or AF_XDP on its interface. Also the words.
pub(super) fn open(nic: Option<&str>, place: &Place) -> Result<(Box<dyn Nic>, String), Error> {
    let own = format!("xdp:{}", place.name);
    let nic = nic.unwrap_or(&own);
    let words = Words::read(nic)?;
    if words.name != place.name {
        return Err(Error::Interface {
            interface: words.name,
            problem: format!("is not where {} is; write {own}", place.address),
        });
    }
    let spec = words.with_flow(place.address);
    let opened: Result<Box<dyn Nic>, _> = match spec.kind {
        NicKind::Soft => soft::open(&spec).map(|nic| Box::new(nic) as Box<dyn Nic>),
        _ => xdp::open(&spec).map(|nic| Box::new(nic) as Box<dyn Nic>),
    };
    let opened = opened.map_err(|error| error.named(nic))?;
    Ok((opened, nic.to_owned()))
}

/// Whether words name a memif interface.
pub(super) fn is_memif(nic: &str) -> bool {
    nic.starts_with("memif:")
}

/// Opens a memif interface: nobody but the peer is there, and addresses are link-local ones, made
/// of Ethernet addresses.
pub(super) fn open_memif(words: &str, patience: Duration) -> Result<(Box<dyn Nic>, Place), Error> {
    let until = Instant::now().checked_add(patience);
    let nic = Memif::open_within(&words.parse()?, Patience { stop: None, until })?;
    let place = Place {
        name: words.to_owned(),
        index: None,
        mac: nic.mac(),
        mtu: nic.caps().max_frame_bytes.saturating_sub(ETHERNET_BYTES),
        address: link_local(nic.mac()).into(),
    };
    Ok((Box::new(nic), place))
}

/// The link-local address of an Ethernet address (RFC 4291, appendix A).
fn link_local(mac: [u8; 6]) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    let address = [
        0xfe,
        0x80,
        0,
        0,
        0,
        0,
        0,
        0,
        a ^ UNIVERSAL,
        b,
        c,
        0xff,
        0xfe,
        d,
        e,
        f,
    ];
    address.into()
}

/// The Ethernet address in a link-local address, if it is one.
pub(super) fn mac_in(address: IpAddr) -> Option<[u8; 6]> {
    let IpAddr::V6(address) = address else {
        return None;
    };
    match address.octets() {
        [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, 0xff, 0xfe, d, e, f] => {
            Some([a ^ UNIVERSAL, b, c, d, e, f])
        }
        _ => None,
    }
}

/// In an Ethernet address: whether it is made by hand; inverted in a link-local one.
const UNIVERSAL: u8 = 2;
const ETHERNET_BYTES: u32 = 14;

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str, address: &str) -> Place {
        Place {
            name: name.to_owned(),
            index: Some(1),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            address: address.parse().expect("is one"),
        }
    }

    #[test]
    fn link_local_addresses_tell_ethernet_addresses() {
        let mac = [0x02, 0x12, 0x34, 0x56, 0x78, 0x9a];
        let address = link_local(mac);
        assert_eq!(address.to_string(), "fe80::12:34ff:fe56:789a");
        assert_eq!(mac_in(address.into()), Some(mac));
        for other in ["10.0.0.1", "fe80::1", "fd00::12:34ff:fe56:789a"] {
            assert_eq!(mac_in(other.parse().expect("is one")), None, "{other}");
        }
    }

    #[test]
    fn the_place_that_is_meant_is_chosen() {
        let check = |places: &[(&str, &str)], wish: Option<&str>, is_named, want: &str| {
            let wish = wish.map(|wish| wish.parse().expect("is one"));
            let places: Vec<Place> = places.iter().map(|(name, at)| place(name, at)).collect();
            match choose(places, wish, is_named) {
                Ok(place) => assert_eq!(place.address.to_string(), want),
                Err(error) => assert!(error.to_string().contains(want), "{error}"),
            }
        };
        let (four, six) = (("a", "10.0.0.1"), ("a", "fd00::1"));
        check(&[four, six], None, false, "10.0.0.1");
        check(&[six], None, false, "fd00::1");
        check(&[six], Some("::"), false, "fd00::1");
        check(&[four, ("b", "10.1.0.1")], None, false, "several addresses");
        check(&[four, ("a", "10.1.0.1")], None, true, "10.0.0.1");
        check(&[], Some("10.9.9.9"), false, "has 10.9.9.9");
        check(&[], None, false, "has any address");
    }

    #[test]
    fn flows_are_added_where_none_are_given() {
        let check = |words: &str, want: &str| {
            let read = Words::read(words).map(|words| {
                let name = words.name.clone();
                let spec = words.with_flow("10.0.0.1".parse().expect("is one"));
                format!("{name} {spec}")
            });
            let text = read.unwrap_or_else(|error| error.to_string());
            assert!(text.contains(want), "{words}: {text}");
        };
        check("xdp:v1", "v1 xdp:v1,flow=udp/4791@10.0.0.1");
        check("xdp:v1,all", "v1 xdp:v1,all");
        check(
            "soft,uplink=xdp:v1+queues=1,loss_ppm=5",
            "v1 soft,uplink=xdp:v1+queues=1+flow=udp/4791@10.0.0.1,loss_ppm=5",
        );
        check("soft,uplink=xdp:v1+all", "v1 soft,uplink=xdp:v1+all");
        check("soft", "write xdp:INTERFACE");
        check("soft,uplink=tap:t", "write xdp:INTERFACE");
        check("memif:/tmp/a", "write xdp:INTERFACE");
        check("nonsense", "unknown");
        check("xdp:", "address");
    }

    #[test]
    fn words_are_checked_before_anything_is_opened() {
        if !xdp::missing_capabilities().is_empty() {
            let error = check(None).expect_err("there are no rights").to_string();
            assert!(error.contains("run as root"), "{error}");
            return;
        }
        for (words, want) in [
            (
                "xdp:no-such",
                "NIC `xdp:no-such`: there is no interface no-such",
            ),
            ("xdp:lo,depth=3", "NIC `xdp:lo,depth=3`: depth"),
            (
                "soft,uplink=xdp:lo,loss_ppm=x",
                "`soft,uplink=xdp:lo,loss_ppm=x`: loss_ppm",
            ),
        ] {
            let error = check(Some(words)).expect_err(words).to_string();
            assert!(error.contains(want), "{words}: {error}");
        }
        assert!(check(None).is_ok());
    }
}
