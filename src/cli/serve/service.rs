//! What is served: RFC 862 (echo), 863 (discard), bytes without end in the manner of RFC 864,
//! files, splices, and measurements.

use std::net::SocketAddr;

/// A service.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Service {
    /// What comes goes back (port 7)
    Echo,
    /// What comes is thrown away (port 9)
    Discard,
    /// Bytes that count from 0 to 250, again and again (port 19)
    Source,
    /// Files, over HTTP/1.1 (port 80)
    Http,
    /// Each connection is joined to one with `--to`, byte by byte (its port)
    Splice,
    /// What a stock `iperf3 -c` measures over TCP (port 5201)
    Iperf3,
    /// Records of a sensor go to files of NumPy, over TCP or UDP (port 5310)
    Sensor,
}

impl Service {
    /// The port that it has by right.
    pub(super) fn port(self, to: Option<SocketAddr>) -> u16 {
        match self {
            Self::Echo => 7,
            Self::Discard => 9,
            Self::Source => 19,
            Self::Http => 80,
            Self::Splice => to.map_or(0, |to| to.port()),
            Self::Iperf3 => 5201,
            Self::Sensor => 5310,
        }
    }

    /// Connections that the engine has for one that is served.
    pub(super) const fn each(self) -> u32 {
        match self {
            Self::Splice => 2,
            _ => 1,
        }
    }
}
