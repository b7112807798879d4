//! `warpwire bench send-bw` and its siblings: the figures of perftest, with perftest or another
//! warpwire at the other end.

mod table;
mod traffic;

use std::time::Duration;

use warpwire_pipelines::connect::perftest::{
    Destination, Direction, Hello, PORT, Results, Role, Session, Tool,
};
use warpwire_pipelines::connect::{Conversation, Listener};
use warpwire_pipelines::messaging::{Device, DeviceConfig, EndpointConfig, Pair, PairConfig};
use warpwire_protocols::rdma::{Attributes, Mtu, Start};
use warpwire_protocols::wire::Gid;
use warpwire_protocols::wire::bth::{Psn, Qpn};

use super::Failure;
use table::Table;
use traffic::Traffic;

/// Bytes of the longest message that a region of one measurement holds.
pub(super) const LONGEST_MESSAGE: i64 = 1 << 30;

/// Seconds: an hour without progress is no measurement.
pub(super) const LONGEST_PATIENCE: u64 = 3600;

/// What is measured.
#[derive(clap::Subcommand)]
pub(super) enum Measure {
    /// Bandwidth of sends, as ib_send_bw
    SendBw(Options),
    /// Bandwidth of writes, as ib_write_bw
    WriteBw(Options),
    /// Bandwidth of reads, as ib_read_bw
    ReadBw(Options),
    /// Latency of sends, as ib_send_lat
    SendLat(Options),
    /// Latency of writes, as ib_write_lat
    WriteLat(Options),
    /// Latency of reads, as ib_read_lat
    ReadLat(Options),
    /// Latency of atomics, as ib_atomic_lat
    AtomicLat(Options),
}

/// The options of perftest, as far as they mean something here.
#[derive(clap::Args)]
pub(super) struct Options {
    /// The server to go to; without it, wait for a client
    host: Option<String>,
    /// TCP port of the exchange
    #[arg(short, long, default_value_t = PORT)]
    port: u16,
    /// The NIC, such as xdp:eth0; without it, AF_XDP on the interface that leads to the peer
    #[arg(short = 'd', long = "nic", value_name = "NIC")]
    nic: Option<String>,
    /// Bytes of a message; 65536 for bandwidths and 2 for latencies if absent
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(..=LONGEST_MESSAGE))]
    size: Option<u32>,
    /// Messages
    #[arg(
        short = 'n', long = "iters", default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    iterations: u32,
    /// Path MTU; that of the link if absent
    #[arg(short, long)]
    mtu: Option<u32>,
    /// Requests under way at most
    #[arg(
        short = 't', long = "tx-depth", default_value_t = 128,
        value_parser = clap::value_parser!(u32).range(1..=32768)
    )]
    tx_depth: u32,
    /// Receives posted at most
    #[arg(
        short = 'r', long = "rx-depth", default_value_t = 512,
        value_parser = clap::value_parser!(u32).range(1..=32768)
    )]
    rx_depth: u32,
    /// Queue pairs
    #[arg(
        short = 'q', long = "qp", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=16384)
    )]
    pairs: u32,
    /// Acknowledgement timeout, coded
    #[arg(
        short = 'u', long = "qp-timeout", default_value_t = 14,
        value_parser = clap::value_parser!(u8).range(..=31)
    )]
    timeout: u8,
    /// Report Gb/sec instead of MiB/sec
    #[arg(long = "report_gbits")]
    gbits: bool,
    /// Also write the results to this file as JSON
    #[arg(long = "out_json_file", value_name = "FILE")]
    json: Option<std::path::PathBuf>,
    /// Longest time without progress, in seconds
    #[arg(
        long, default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=LONGEST_PATIENCE)
    )]
    patience: u64,
    /// Of no effect here: perftest's users write it
    #[arg(short = 'F', hide = true)]
    no_frequency_warning: bool,
}

impl Measure {
    const fn parts(&self) -> (Tool, &Options) {
        match self {
            Self::SendBw(options) => (Tool::SendBandwidth, options),
            Self::WriteBw(options) => (Tool::WriteBandwidth, options),
            Self::ReadBw(options) => (Tool::ReadBandwidth, options),
            Self::SendLat(options) => (Tool::SendLatency, options),
            Self::WriteLat(options) => (Tool::WriteLatency, options),
            Self::ReadLat(options) => (Tool::ReadLatency, options),
            Self::AtomicLat(options) => (Tool::AtomicLatency, options),
        }
    }
}

/// Whether a tool tells latencies.
const fn is_latency(tool: Tool) -> bool {
    matches!(
        tool,
        Tool::SendLatency | Tool::WriteLatency | Tool::ReadLatency | Tool::AtomicLatency
    )
}

/// Everything that a measurement runs on.
struct Bench<'a> {
    tool: Tool,
    options: &'a Options,
    device: Device,
    pairs: Vec<Pair>,
    role: Role,
    size: u32,
    mtu: Mtu,
}

pub(super) fn run(measure: &Measure) -> Result<(), Failure> {
    let (tool, options) = measure.parts();
    let patience = Duration::from_secs(options.patience);
    let (conversation, role) = meet(options, patience)?;
    let mut bench = Bench::open(tool, options, &conversation, role, patience)?;
    let rounds = tool.rounds(Direction::One);
    let hello = Hello::new(bench.mtu as u8);
    let mut session = Session::greet(conversation, role, rounds, &hello)?;
    let own = bench.destinations();
    let theirs = session.exchange(&own)?.to_vec();
    let agreed = Mtu::from_code(session.mtu()).unwrap_or(bench.mtu);
    bench.connect(&own, &theirs, agreed)?;
    let table = Table::new(&bench, &own, &theirs, agreed);
    table.head();
    let mut traffic = Traffic::new(&mut bench, &theirs)?;
    session.begin()?;
    session.channel().extend(patience);
    let told = traffic.play()?;
    session.channel().extend(patience);
    let results = told
        .as_ref()
        .map_or(Results::default(), |told| told.results());
    session.end(&results)?;
    if let Some(told) = told {
        table.row(&told, options)?;
    }
    table.foot();
    Ok(())
}

/// Dials the server, or waits for a client.
fn meet(options: &Options, patience: Duration) -> Result<(Conversation, Role), Failure> {
    match &options.host {
        Some(host) => {
            let address = format!("{host}:{}", options.port);
            Ok((Conversation::dial(&address, patience)?, Role::Client))
        }
        None => {
            let listener = Listener::bind(&format!("[::]:{}", options.port))?;
            Ok((listener.accept(patience, patience)?, Role::Server))
        }
    }
}

impl<'a> Bench<'a> {
    fn open(
        tool: Tool,
        options: &'a Options,
        conversation: &Conversation,
        role: Role,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let size = match (tool, options.size) {
            (Tool::AtomicLatency, _) => 8,
            (_, Some(size)) => size,
            (_, None) if is_latency(tool) => 2,
            (_, None) => 65536,
        };
        let log = |depth: u32| 32 - depth.max(2).next_power_of_two().leading_zeros();
        let endpoint = EndpointConfig {
            pairs: options.pairs.next_power_of_two(),
            log_send: log(options.tx_depth).min(15),
            log_receive: log(options.rx_depth).min(15),
            first_number: 0x0400 * (1 + u32::from(role == Role::Server)),
            ..EndpointConfig::default()
        };
        let device = Device::open(
            conversation.peer_address(),
            &DeviceConfig {
                nic: options.nic.clone(),
                bytes: 2 * part(size) as usize * options.pairs as usize,
                endpoint,
                patience,
                chance: u64::from(std::process::id()),
            },
        )?;
        let link = device.mtu().unwrap_or(Mtu::M256);
        let mtu = match options.mtu {
            None => link,
            Some(bytes) => Mtu::ALL
                .into_iter()
                .find(|mtu| mtu.bytes() == bytes && *mtu <= link)
                .ok_or_else(|| {
                    let most = link.bytes();
                    Failure::Bench(format!(
                        "-m {bytes}: write 256, 512, 1024, 2048 or 4096; the link has room for \
                         {most}"
                    ))
                })?,
        };
        let pairs = (0..options.pairs)
            .map(|_| device.endpoint().pair(PairConfig::default()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            tool,
            options,
            device,
            pairs,
            role,
            size,
            mtu,
        })
    }

    /// What the peer is told of each queue pair.
    fn destinations(&self) -> Vec<Destination> {
        let region = self.device.region();
        let reads = match self.tool {
            Tool::ReadBandwidth | Tool::ReadLatency | Tool::AtomicLatency => 16,
            _ => 1,
        };
        let pairs = self.pairs.iter().zip(0u64..);
        let told = pairs.map(|(pair, place)| Destination {
            lid: 0,
            reads,
            qp: Qpn::new(pair.number()),
            psn: Psn::new(chance(place)),
            rkey: region.key,
            address: region.address + self.target(place),
            gid: Gid(self.device.gid()),
            srq: 0,
            // Not told over TCP.
            gid_index: 0,
        });
        told.collect()
    }

    /// Where a queue pair's messages arrive, and what its requests send lies one part before.
    fn target(&self, place: u64) -> u64 {
        (2 * place + 1) * u64::from(part(self.size))
    }

    fn source(&self, place: u64) -> u64 {
        2 * place * u64::from(part(self.size))
    }

    fn connect(
        &mut self,
        own: &[Destination],
        theirs: &[Destination],
        mtu: Mtu,
    ) -> Result<(), Failure> {
        for (pair, (own, peer)) in self.pairs.iter_mut().zip(own.iter().zip(theirs)) {
            let attributes = Attributes {
                mtu,
                timeout: self.options.timeout,
                reads: peer.reads.clamp(1, 16) as u8,
                remote_qp: peer.qp,
                ..Attributes::default()
            };
            let start = Start {
                send: own.psn,
                receive: peer.psn,
            };
            let path = self
                .device
                .path(&peer.gid.0, own.qp.value(), peer.qp.value(), 0);
            pair.connect(attributes, start, path)?;
        }
        Ok(())
    }
}

/// Bytes that a message gets: whole pages.
const fn part(size: u32) -> u32 {
    let size = if size < 4096 { 4096 } else { size };
    size.next_multiple_of(4096)
}

/// A sequence number to start from.
fn chance(place: u64) -> u32 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(place) as u32 & 0x00ff_ffff
}
