//! What a NIC takes from its interface; everything else passes to the host's stack.

use std::net::IpAddr;

use crate::error::Error;
use crate::spec::NicSpec;

/// Which destination addresses of Ethernet frames are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MacPolicy {
    /// The interface's own, and group addresses.
    Own,
    /// All; the interface becomes promiscuous.
    Any,
    /// This one, and group addresses; it is added to the interface's filter.
    Address([u8; 6]),
}

/// The upper bits of an IP address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// The address; bits below the prefix are 0.
    pub address: IpAddr,
    /// Bits that count.
    pub length: u8,
}

impl Prefix {
    /// Whether the address lies in the prefix.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(prefix), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.length));
                (u32::from(address) & mask.unwrap_or(0)) == u32::from(prefix)
            }
            (IpAddr::V6(prefix), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.length));
                (u128::from(address) & mask.unwrap_or(0)) == u128::from(prefix)
            }
            _ => false,
        }
    }

    fn host(address: IpAddr) -> Self {
        let length = if address.is_ipv4() { 32 } else { 128 };
        Self { address, length }
    }

    /// Reads `ADDRESS[/LENGTH]`.
    fn parse(words: &str) -> Result<Self, String> {
        let (address, length) = words.split_once('/').unwrap_or((words, ""));
        let address: IpAddr = address
            .parse()
            .map_err(|_| format!("`{address}` is no IP address"))?;
        let whole = Self::host(address);
        if length.is_empty() {
            return Ok(whole);
        }
        match length.parse::<u8>() {
            Ok(bits) if bits <= whole.length => {}
            _ => return Err(format!("`/{length}` is not 0 to {}", whole.length)),
        }
        let length = length.parse().unwrap_or(whole.length);
        let prefix = Self { address, length };
        if prefix.contains(address) {
            Ok(prefix)
        } else {
            Err(format!("`{words}` has bits behind the prefix"))
        }
    }
}

/// Frames that are taken: all fields that are given must agree.
///
/// Of a fragmented packet only the first fragment shows its ports. The later ones are taken by
/// protocol and prefix; without a prefix they pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// The IP protocol.
    pub protocol: Option<u8>,
    /// The destination port; only with a protocol that has ports.
    pub port: Option<u16>,
    /// Where the destination address lies.
    pub prefix: Option<Prefix>,
}

impl Flow {
    /// Reads `PROTOCOL[/PORT][@PREFIX]`.
    fn parse(words: &str) -> Result<Self, String> {
        let (what, place) = words.split_once('@').unwrap_or((words, ""));
        let (protocol, port) = what.split_once('/').unwrap_or((what, ""));
        let protocol = match protocol {
            "tcp" => 6,
            "udp" => 17,
            "icmp" => 1,
            "icmpv6" => 58,
            number => number.parse().map_err(|_| {
                format!("`{number}` is neither tcp, udp, icmp, icmpv6 nor a number")
            })?,
        };
        let port = match port {
            "" => None,
            _ if !PORT_PROTOCOLS.contains(&protocol) => {
                return Err(format!("protocol {protocol} has no ports"));
            }
            number => match number.parse::<u16>() {
                Ok(port) if port != 0 => Some(port),
                _ => return Err(format!("`{number}` is not a port from 1 to 65535")),
            },
        };
        let prefix = match place {
            "" => None,
            place => Some(Prefix::parse(place)?),
        };
        Ok(Self {
            protocol: Some(protocol),
            port,
            prefix,
        })
    }
}

/// Protocols whose header begins with two ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
pub const PORT_PROTOCOLS: [u8; 5] = [6, 17, 33, 132, 136];

/// Addresses and flows together.
pub const MAX_RULES: usize = 64;

/// What is taken from an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Which frames are looked at.
    pub mac: MacPolicy,
    /// Every frame that is looked at is taken.
    pub everything: bool,
    /// Addresses that are ours: frames to them, and the ARP and neighbour discovery about them.
    pub addresses: Vec<IpAddr>,
    /// Other flows.
    pub flows: Vec<Flow>,
}

impl Rules {
    /// The options that this reads.
    pub const OPTIONS: &[&str] = &["address", "prefix", "flow", "mac", "all", "exclusive"];

    /// Reads the options of a NIC: `address=A`, `prefix=A/L`, `flow=PROTOCOL[/PORT][@A/L]`, each
    /// any number of times; `mac=own|any|ADDRESS`; `all`, or `exclusive` alone, for everything.
    ///
    /// # Errors
    /// [`Error::Spec`] naming option and cure.
    pub fn of(spec: &NicSpec) -> Result<Self, Error> {
        let mut rules = Self {
            mac: MacPolicy::Own,
            everything: spec.flag("all")?,
            addresses: Vec::new(),
            flows: Vec::new(),
        };
        for (name, value) in &spec.options {
            rules
                .add(name, value)
                .map_err(|(problem, cure)| spec.wrong(name, problem, cure))?;
        }
        let count = rules.addresses.len() + rules.flows.len();
        if count > MAX_RULES {
            return Err(spec.wrong(
                "address, prefix, flow",
                format!("{count} rules, at most {MAX_RULES}"),
                "join addresses into prefixes".to_owned(),
            ));
        }
        rules.everything |= count == 0 && spec.flag("exclusive")?;
        if count == 0 && !rules.everything {
            return Err(spec.wrong(
                "address",
                "nothing is declared that the NIC shall take".to_owned(),
                "write address=A for an address that is to be ours, flow=udp/4791 for a flow, or \
                 all"
                .to_owned(),
            ));
        }
        if rules.everything && spec.option("mac").is_none() {
            rules.mac = MacPolicy::Any;
        }
        Ok(rules)
    }

    fn add(&mut self, name: &str, value: &str) -> Result<(), (String, String)> {
        match name {
            "address" => {
                let address = value.parse().map_err(|_| {
                    let cure = "write address=192.0.2.1 or address=2001:db8::1";
                    (format!("`{value}` is no IP address"), cure.to_owned())
                })?;
                self.addresses.push(address);
            }
            "prefix" => {
                let prefix = Prefix::parse(value)
                    .map_err(|problem| (problem, "write prefix=192.0.2.0/24".to_owned()))?;
                self.flows.push(Flow {
                    protocol: None,
                    port: None,
                    prefix: Some(prefix),
                });
            }
            "flow" => {
                let flow = Flow::parse(value)
                    .map_err(|problem| (problem, "write flow=udp/4791@192.0.2.0/24".to_owned()))?;
                self.flows.push(flow);
            }
            "mac" => {
                self.mac = match value {
                    "own" => MacPolicy::Own,
                    "any" => MacPolicy::Any,
                    address => MacPolicy::Address(parse_mac(address).ok_or_else(|| {
                        let problem = format!("`{address}` is neither own, any nor an address");
                        (problem, "write mac=02:00:00:00:00:01".to_owned())
                    })?),
                };
            }
            _ => {}
        }
        Ok(())
    }

    /// Addresses and flows in one list.
    pub fn all_flows(&self) -> impl Iterator<Item = Flow> {
        let of_addresses = self.addresses.iter().map(|&address| Flow {
            protocol: None,
            port: None,
            prefix: Some(Prefix::host(address)),
        });
        of_addresses.chain(self.flows.iter().copied())
    }
}

/// Reads a unicast Ethernet address in colons.
fn parse_mac(words: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = words.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    let [first, ..] = mac;
    (parts.next().is_none() && first & 1 == 0 && mac != [0; 6]).then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(words: &str) -> Result<Rules, String> {
        let spec: NicSpec = words.parse().map_err(|error: Error| error.to_string())?;
        Rules::of(&spec).map_err(|error| error.to_string())
    }

    #[test]
    fn declarations_are_read() {
        let got = rules(
            "xdp:v1,address=10.0.0.2,address=fd00::2,prefix=10.1.0.0/16,\
             flow=udp/4791,flow=tcp@fd01::/64,flow=icmp,mac=any",
        )
        .expect("reads");
        assert_eq!(got.mac, MacPolicy::Any);
        assert!(!got.everything);
        assert_eq!(got.addresses.len(), 2);
        assert_eq!(got.all_flows().count(), 6);
        assert_eq!(
            got.flows.first().and_then(|f| f.prefix).map(|p| p.length),
            Some(16)
        );
        let mac = rules("xdp:v1,all,mac=02:00:00:00:0a:01")
            .expect("reads")
            .mac;
        assert_eq!(mac, MacPolicy::Address([2, 0, 0, 0, 10, 1]));
        for words in ["xdp:v1,all", "xdp:v1,exclusive"] {
            let got = rules(words).expect("reads");
            assert!(got.everything && got.mac == MacPolicy::Any, "{words}");
        }
        assert!(
            !rules("xdp:v1,exclusive,address=10.0.0.2")
                .expect("reads")
                .everything
        );
    }

    #[test]
    fn wrong_declarations_name_option_and_cure() {
        let cases = [
            ("xdp:v1", "address", "flow=udp/4791"),
            ("xdp:v1,address=10.0.0", "address", "192.0.2.1"),
            ("xdp:v1,address=10.0.0.0/8", "address", "192.0.2.1"),
            ("xdp:v1,prefix=10.0.0.1/8", "bits behind", "192.0.2.0/24"),
            ("xdp:v1,prefix=10.0.0.0/33", "0 to 32", "192.0.2.0/24"),
            ("xdp:v1,prefix=fd00::/129", "0 to 128", "192.0.2.0/24"),
            ("xdp:v1,flow=gre", "`gre`", "flow=udp/4791"),
            ("xdp:v1,flow=udp/0", "port from 1", "flow=udp/4791"),
            ("xdp:v1,flow=icmp/7", "no ports", "flow=udp/4791"),
            ("xdp:v1,all,mac=01:00:00:00:00:01", "mac", "02:00"),
            ("xdp:v1,all,mac=02:00:00:00:00", "mac", "02:00"),
        ];
        for (words, field, cure) in cases {
            let error = rules(words).expect_err(words);
            assert!(
                error.contains(field) && error.contains(cure),
                "{words}: {error}"
            );
        }
        let many = (0..65).fold("xdp:v1".to_owned(), |words, n| {
            format!("{words},address=10.0.0.{n}")
        });
        assert!(rules(&many).expect_err("too many").contains("at most 64"));
    }

    #[test]
    fn prefixes_contain_at_their_edges() {
        let cases = [
            ("0.0.0.0/0", "255.0.0.1", true),
            ("10.0.0.0/8", "10.255.255.255", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.7/32", "10.0.0.7", true),
            ("10.0.0.7/32", "10.0.0.6", false),
            ("::/0", "fd00::1", true),
            ("::/0", "10.0.0.1", false),
            ("fd00:0:0:1::/64", "fd00:0:0:1:ffff::", true),
            ("fd00:0:0:1::/64", "fd00:0:0:2::", false),
        ];
        for (prefix, address, want) in cases {
            let prefix = Prefix::parse(prefix).expect(prefix);
            let got = prefix.contains(address.parse().expect(address));
            assert_eq!(got, want, "{prefix:?} {address}");
        }
    }
}
