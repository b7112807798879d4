//! The words of the command line.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use warpwire_pipelines::connect::perftest::PORT;
use warpwire_protocols::rdma::Service;

/// Bytes of the longest message that a region of one measurement holds.
pub(in crate::cli) const LONGEST_MESSAGE: i64 = 1 << 30;

/// Bytes of the longest message that a request holds itself.
pub(super) const LONGEST_INLINE: u32 = 912;

/// Seconds: an hour without progress is no measurement.
pub(in crate::cli) const LONGEST_PATIENCE: u64 = 3600;

/// Warps of an engine.
const MOST_WARPS: u32 = warpwire_pipelines::messaging::MOST_WARPS;

/// The options of perftest, as far as they mean something here.
#[derive(clap::Args)]
pub(in crate::cli) struct Options {
    /// The server to go to; without it, wait for a client
    pub(super) host: Option<String>,
    /// Port of the exchange: of TCP, or of RDMA-CM
    #[arg(
        short, long, default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub(super) port: u16,
    /// The NIC, such as xdp:eth0, or memif:/run/socket at one end and
    /// memif:/run/socket,role=server at the other; without it, AF_XDP on the interface that leads
    /// to the peer
    #[arg(short = 'd', long = "nic", value_name = "NIC")]
    pub(super) nic: Option<String>,
    /// Connect by RDMA-CM, and exchange by messages
    #[arg(short = 'R', long = "rdma_cm")]
    pub(super) by_cm: bool,
    /// The own address that messages go from; that which leads to the peer if absent
    #[arg(long = "bind_source_ip", value_name = "ADDRESS")]
    pub(super) own_address: Option<IpAddr>,
    /// The service: RC, UC, or UD
    #[arg(
        short, long, value_enum, default_value_t = Connection::Rc, ignore_case = true
    )]
    pub(super) connection: Connection,
    /// Bytes of a message; 65536 for bandwidths and 2 for latencies if absent
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(..=LONGEST_MESSAGE))]
    pub(super) size: Option<u32>,
    /// Run sizes from 2 to 2^23
    #[arg(short, long = "all", conflicts_with_all = ["size", "is_both"])]
    pub(super) all_sizes: bool,
    /// Measure both ways at once
    #[arg(short = 'b', long = "bidirectional")]
    pub(super) is_both: bool,
    /// Messages
    #[arg(
        short = 'n', long = "iters", default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(super) iterations: u32,
    /// Path MTU; that of the link if absent
    #[arg(short, long)]
    pub(super) mtu: Option<u32>,
    /// Requests under way at most
    #[arg(
        short = 't', long = "tx-depth", default_value_t = 128,
        value_parser = clap::value_parser!(u32).range(1..=16384)
    )]
    pub(super) tx_depth: u32,
    /// Requests under way for each that completes
    #[arg(
        short = 'Q', long = "cq-mod", default_value_t = 100, value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..=16384)
    )]
    pub(super) moderation: u32,
    /// Requests that are posted together
    #[arg(
        short = 'l', long = "post_list", default_value_t = 1, value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..=16384)
    )]
    pub(super) list: u32,
    /// Bytes of the longest message that is copied into its request; 0 for bandwidths and 236 for
    /// latencies if absent
    #[arg(
        short = 'I', long = "inline_size", value_name = "BYTES",
        value_parser = clap::value_parser!(u32).range(..=i64::from(LONGEST_INLINE))
    )]
    pub(super) inline: Option<u32>,
    /// Receives posted at most
    #[arg(
        short = 'r', long = "rx-depth", default_value_t = 512,
        value_parser = clap::value_parser!(u32).range(1..=32768)
    )]
    pub(super) rx_depth: u32,
    /// Queue pairs
    #[arg(
        short = 'q', long = "qp", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=4096)
    )]
    pub(super) pairs: u32,
    /// Acknowledgement timeout, coded
    #[arg(
        short = 'u', long = "qp-timeout", default_value_t = 14,
        value_parser = clap::value_parser!(u8).range(..=31)
    )]
    pub(super) timeout: u8,
    /// Report Gb/sec instead of MiB/sec
    #[arg(long = "report_gbits")]
    pub(super) gbits: bool,
    /// Also write the results as JSON, to perftest_out.json if no other file is named
    #[arg(long = "out_json")]
    pub(super) as_json: bool,
    /// Also write the results to this file as JSON
    #[arg(long = "out_json_file", value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write all that is sent to this pcapng file, each packet with its operation in words
    #[arg(long, value_name = "FILE")]
    pub(super) capture: Option<PathBuf>,
    /// Let the measuring thread drive the engine instead of one of its own: lowest latency
    #[arg(long, conflicts_with = "warps")]
    pub(super) fused: bool,
    /// Warps of the engine: of several, one has the rings and the others the queue pairs
    #[arg(
        long, default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_WARPS))
    )]
    pub(super) warps: u32,
    /// Longest time without progress, in seconds
    #[arg(
        long, default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=LONGEST_PATIENCE)
    )]
    patience: u64,
    /// Of no effect here: perftest's users write it
    #[arg(short = 'F', hide = true)]
    no_frequency_warning: bool,
    /// The own address by its number on the interface, from 1 on; that which leads to the peer if
    /// absent
    #[arg(
        short = 'x', long = "gid-index", value_name = "NUMBER",
        conflicts_with_all = ["by_cm", "own_address"]
    )]
    pub(super) gid_index: Option<u32>,
}

impl Options {
    pub(super) const fn patience(&self) -> Duration {
        Duration::from_secs(self.patience)
    }

    /// Whether the NIC is shared memory, with no kernel between the ends.
    pub(super) fn is_over_memif(&self) -> bool {
        let nic = self.nic.as_ref();
        nic.is_some_and(|nic| nic.starts_with("memif:"))
    }

    /// The file that results are to be written to.
    pub(super) fn json_file(&self) -> Option<PathBuf> {
        let default = self.as_json.then(|| PathBuf::from("perftest_out.json"));
        self.json.clone().or(default)
    }
}

/// A service.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) enum Connection {
    /// Reliable connection
    Rc,
    /// Unreliable connection
    Uc,
    /// Unreliable datagrams
    Ud,
}

impl Connection {
    pub(in crate::cli) const fn service(self) -> Service {
        match self {
            Self::Rc => Service::Rc,
            Self::Uc => Service::Uc,
            Self::Ud => Service::Ud,
        }
    }
}
