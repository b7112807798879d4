//! How an endpoint of streams is made.

use std::hash::{BuildHasher, RandomState};

use warpwire_engine::Crew;
use warpwire_protocols::tcp::Config as TcpConfig;

use super::error::Error;
use super::slow::{InterfaceAddress, Route, SlowPath};

/// How an endpoint of streams is made. What there can be of connections is for each engine: there
/// is one for each pair of queues of the NIC, or for each warp that owns connections.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamConfig {
    /// The own addresses; what comes for others is not ours.
    pub addresses: Vec<InterfaceAddress>,
    /// Ways to other networks; none.
    pub routes: Vec<Route>,
    /// Bytes of the largest IP packet of the link; 1500. The command `warpwire` says 9000 instead.
    pub mtu: u16,
    /// Connections at a time, those that linger after their end included; 1024.
    pub connections: u32,
    /// Of these, those that can have memory for bytes at a time; 512. It is at most
    /// `connections`: who makes those fewer makes this smaller too.
    pub open: u32,
    /// Bytes of each of the two rings of a connection; a power of two, 262144.
    pub ring_bytes: u32,
    /// Ports that can be listened at; 8.
    pub listeners: u32,
    /// Handshakes of a port that can be under way; a power of two, 256. More are answered by
    /// cookies.
    /// Twice as many connections can wait to be accepted.
    pub backlog: u32,
    /// Segments that a connection sends before the next one may; 16.
    pub share: u32,
    /// Resets in a second to segments that belong to no connection; 100.
    pub resets_a_second: u32,
    /// Warps that serve each pair of queues together: one that does everything, or one that has the
    /// queues, and each other one owns those connections whose segments a keyed hash gives to it.
    /// One is usual.
    pub warps: u32,
    /// How connections behave. Sizes of segments and rings are set by the fields above.
    pub tcp: TcpConfig,
    /// Hides first numbers and ports from those who would guess them; random.
    pub secret: [u64; 2],
}

impl StreamConfig {
    /// The usual values for these addresses: those that each field names.
    pub fn new(addresses: Vec<InterfaceAddress>) -> Self {
        // Hashes whose keys the system's random numbers made.
        let chance = |number: u64| RandomState::new().hash_one(number);
        Self {
            addresses,
            routes: Vec::new(),
            mtu: 1500,
            connections: 1024,
            open: 512,
            ring_bytes: 1 << 18,
            listeners: 8,
            backlog: 256,
            share: 16,
            resets_a_second: 100,
            warps: 1,
            tcp: TcpConfig::default(),
            secret: [chance(0), chance(1)],
        }
    }

    /// The configuration of connections of an IP version.
    pub(super) fn of_version(&self, is_ipv6: bool) -> TcpConfig {
        let usual = TcpConfig::of_mtu(self.mtu, is_ipv6);
        TcpConfig {
            maximum_segment_size: usual.maximum_segment_size,
            ip_header_bytes: usual.ip_header_bytes,
            receive_bytes: self.ring_bytes,
            send_bytes: self.ring_bytes,
            ..self.tcp
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let settings = [
            ("connections", self.connections, 1, 1 << 19, false),
            ("open", self.open, 1, self.connections, false),
            ("ring_bytes", self.ring_bytes, 1 << 10, 1 << 30, true),
            ("listeners", self.listeners, 0, 1 << 10, false),
            ("backlog", self.backlog, 1, 1 << 16, true),
            ("share", self.share, 1, 1 << 16, false),
            ("warps", self.warps, 1, Crew::MOST, false),
        ];
        for (field, value, least, most, is_power) in settings {
            if !(least..=most).contains(&value) || is_power && !value.is_power_of_two() {
                return Err(Error::Setting {
                    field,
                    value: u64::from(value),
                    must: match field {
                        "connections" => "1 to 524288",
                        "open" => "1 to `connections`",
                        "ring_bytes" => "a power of two, 1024 to 2^30",
                        "listeners" => "at most 1024",
                        "backlog" => "a power of two up to 65536",
                        "warps" => "1 to 32",
                        _ => "1 to 65536",
                    },
                });
            }
        }
        Ok(())
    }
}

// Every address that is answered for is one that the engine knows.
const _: () = assert!(SlowPath::MOST_ADDRESSES <= warpwire_engine::streams::tables::ADDRESSES);
