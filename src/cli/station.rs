//! Where an engine of streams lives: a NIC, and addresses of its own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU64;
use std::time::Duration;

use warpwire_nic::xdp::Prefix;
use warpwire_pipelines::streaming::slow::{NoWay, SlowError};
use warpwire_pipelines::streaming::{
    Controller, Error, InterfaceAddress, Route, StreamConfig, StreamDevice, TcpConfig,
};

use super::Failure;
use super::words::number;

/// Words that say where.
#[derive(clap::Args)]
pub(super) struct Station {
    /// The NIC, such as xdp:eth0. It is opened with all receive queues of the interface; with
    /// fewer, as in xdp:eth0,queues=1, frames that arrive on the others pass to the host: run
    /// `ethtool -L eth0 combined 1` before
    #[arg(long, value_name = "NIC")]
    pub(super) nic: String,
    /// An own address and the length of its network, such as 192.0.2.1/24; the operating system
    /// must not have it. Several times for several
    #[arg(long = "addr", value_name = "ADDRESS/LENGTH", required = true)]
    pub(super) addresses: Vec<InterfaceAddress>,
    /// A router for all other networks, one for each IP version
    #[arg(long = "gateway", value_name = "ADDRESS")]
    gateways: Vec<IpAddr>,
    /// Bytes of each of the two rings of a connection, a power of two
    #[arg(
        long, value_name = "BYTES", default_value_t = 1 << 18, allow_negative_numbers = true,
        value_parser = ring
    )]
    pub(super) ring: u32,
    /// Bytes of the largest IP packet; less where the NIC passes less
    #[arg(
        long, default_value_t = 9000, allow_negative_numbers = true,
        value_parser = number(576, u16::MAX)
    )]
    mtu: u16,
    /// Congestion control: `cubic`, or `fixed:MBIT`, which sends at so many Mbit/s of payload a
    /// connection, whatever is lost; for networks of which you know what they carry
    #[arg(long, value_name = "CONTROL", default_value = "cubic", value_parser = controller)]
    congestion: Controller,
    /// Warps that serve each pair of queues together, 1 to 32, 1 if absent: with several, one has
    /// the queues, and each other one has connections, as many at a time as one alone
    #[arg(long, allow_negative_numbers = true, value_parser = number(1u32, 32))]
    pub(super) warps: Option<u32>,
}

fn controller(word: &str) -> Result<Controller, String> {
    let rate = match word.split_once(':') {
        None if word == "cubic" => return Ok(Controller::Cubic),
        Some(("fixed", rate)) => rate
            .parse()
            .ok()
            .filter(|rate| (1..=MOST_MBIT).contains(rate)),
        _ => return Err("write cubic, or fixed:MBIT, such as fixed:2500".to_owned()),
    };
    let bytes_per_s = rate.and_then(|rate: u64| NonZeroU64::new(rate * BYTES_OF_MBIT));
    bytes_per_s
        .map(|bytes_per_s| Controller::FixedRate { bytes_per_s })
        .ok_or_else(|| format!("the rate is 1 to {MOST_MBIT} Mbit/s, such as fixed:2500"))
}

/// What no connection gets beyond, in Mbit/s.
const MOST_MBIT: u64 = 1_000_000;
const BYTES_OF_MBIT: u64 = 1_000_000 / 8;

impl Station {
    /// Opens the NIC, with an engine for as many connections at a time as `--connections` says.
    pub(super) fn open(
        &self,
        connections: u32,
        patience: Duration,
    ) -> Result<StreamDevice, Failure> {
        self.open_for(connections, patience, "--ring, --connections")
    }

    /// Opens the NIC, with an engine for so many connections at a time. `decided_by` names the
    /// options that say how much memory they have.
    pub(super) fn open_for(
        &self,
        connections: u32,
        patience: Duration,
        decided_by: &str,
    ) -> Result<StreamDevice, Failure> {
        self.check()?;
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
            warps: self.warps.unwrap_or(1),
            tcp: TcpConfig {
                control: self.congestion,
                ..TcpConfig::default()
            },
            ..StreamConfig::new(self.addresses.clone())
        };
        StreamDevice::open(&self.nic, &config, patience).map_err(|error| match error {
            Error::TooMuch { need, have } => Failure::Words(format!(
                "{decided_by}: rings of {} bytes, two for each of {connections} connections of \
                 an engine (one a pair of queues, or with --warps one a warp that owns \
                 connections), want {need} MiB of memory in all, and the machine has {have} MiB \
                 left; write less, also of --warps or of the queues",
                self.ring
            )),
            Error::Slow(error) => match in_words(&error) {
                Some(words) => Failure::Words(words),
                None => Error::Slow(error).into(),
            },
            error => error.into(),
        })
    }

    /// Words that say the same twice.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let mut own = self.addresses.iter().map(|own| own.address);
        while let Some(address) = own.next() {
            if own.clone().any(|other| other == address) {
                let words = format!("--addr: {address} is said twice; say each address once");
                return Err(Failure::Words(words));
            }
        }
        let [four, six] = [IpAddr::is_ipv4, IpAddr::is_ipv6]
            .map(|version| self.gateways.iter().filter(|via| version(via)).count());
        match four.max(six) {
            0 | 1 => Ok(()),
            _ => Err(Failure::Words(
                "--gateway: two routers of one IP version; say one for each version".to_owned(),
            )),
        }
    }
}

/// What is wrong with addresses and gateways, by the options that said them.
fn in_words(error: &SlowError) -> Option<String> {
    Some(match error {
        SlowError::Count {
            field,
            count,
            least,
            most,
        } => {
            let option = match *field {
                "addresses" => "--addr",
                _ => "--gateway",
            };
            format!("{option}: {count} are given; give {least} to {most}")
        }
        SlowError::Address { address } => {
            format!("--addr: {address} is no address of one host; give another")
        }
        SlowError::Gateway { via } => {
            format!("--gateway: {via} is no other host in a network of --addr; give one that is")
        }
        SlowError::Mtu { mtu, least } => format!("--mtu: {mtu} bytes; give {least} or more"),
        SlowError::Mac => return None,
    })
}

/// Why there is no way to an address, by the options that help.
pub(super) fn no_way(error: &NoWay) -> String {
    match error {
        NoWay::NoRoute { to } => format!(
            "no route to {to}: it is in no own network; name a router by --gateway, or an address \
             there by --addr"
        ),
        error => error.to_string(),
    }
}

/// Bytes of a ring as they are written.
fn ring(words: &str) -> Result<u32, String> {
    let bytes = words.parse().ok();
    let bytes =
        bytes.filter(|bytes: &u32| bytes.is_power_of_two() && (1 << 10..=1 << 30).contains(bytes));
    bytes.ok_or_else(|| "write a power of two from 1024 to 1073741824".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_controls_are_named() {
        let fixed = |bytes| {
            let bytes_per_s = NonZeroU64::new(bytes).expect("is more than 0");
            Ok(Controller::FixedRate { bytes_per_s })
        };
        let cases = [
            ("cubic", Ok(Controller::Cubic)),
            ("fixed:1", fixed(125_000)),
            ("fixed:1000000", fixed(125_000_000_000)),
            ("fixed:0", Err("1 to 1000000")),
            ("fixed:1000001", Err("1 to 1000000")),
            ("fixed:", Err("1 to 1000000")),
            ("fixed:-3", Err("1 to 1000000")),
            ("fixed", Err("write cubic")),
            ("cubic:5", Err("write cubic")),
            ("bbr", Err("write cubic")),
        ];
        for (word, want) in cases {
            match (controller(word), want) {
                (Ok(have), Ok(want)) => assert_eq!(have, want, "{word}"),
                (Err(text), Err(part)) => assert!(text.contains(part), "{word}: {text}"),
                (have, want) => panic!("{word}: {have:?}, wanted {want:?}"),
            }
        }
    }
}
