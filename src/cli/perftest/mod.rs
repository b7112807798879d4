//! `warpwire bench send-bw` and its siblings: the figures of perftest, with perftest or another
//! warpwire at the other end.

mod datagrams;
mod ends;
mod options;
mod record;
mod table;
mod traffic;

use warpwire_pipelines::connect::perftest::{Destination, Direction, Hello, Role, Session, Tool};
use warpwire_pipelines::connect::{self, Channel};
use warpwire_pipelines::messaging::{self, Device, Pair, PairConfig};
use warpwire_protocols::rdma::{Mtu, Service};
use warpwire_protocols::wire::Gid;
use warpwire_protocols::wire::bth::{Psn, Qpn};

use super::{Failure, capture, say};
use options::Options;
pub(super) use options::{Connection, LONGEST_MESSAGE, LONGEST_PATIENCE};
use record::Record;
use table::Table;
use traffic::Traffic;

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
    /// Rate of writes of 8 bytes, as ib_write_bw -s 8
    Msgrate(Options),
}

impl Measure {
    const fn parts(&self) -> (Tool, &Options, Option<u32>) {
        match self {
            Self::SendBw(options) => (Tool::SendBandwidth, options, None),
            Self::WriteBw(options) => (Tool::WriteBandwidth, options, None),
            Self::ReadBw(options) => (Tool::ReadBandwidth, options, None),
            Self::SendLat(options) => (Tool::SendLatency, options, None),
            Self::WriteLat(options) => (Tool::WriteLatency, options, None),
            Self::ReadLat(options) => (Tool::ReadLatency, options, None),
            Self::AtomicLat(options) => (Tool::AtomicLatency, options, None),
            Self::Msgrate(options) => (Tool::WriteBandwidth, options, Some(8)),
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

/// What is to be done, checked before anybody waits for us.
struct Plan<'a> {
    tool: Tool,
    options: &'a Options,
    role: Role,
    direction: Direction,
    /// Sizes of messages, one after the other.
    sizes: Vec<u32>,
    service: Service,
    /// The path MTU that was asked for.
    mtu: Option<Mtu>,
}

pub(super) fn run(measure: &Measure) -> Result<(), Failure> {
    let (tool, options, size) = measure.parts();
    let plan = Plan::new(tool, options, size)?;
    messaging::check(options.nic.as_deref())?;
    capture::check(options.capture.as_deref())?;
    let json = options.json_file().map(Record::open).transpose()?;
    let outcome = match options.by_cm {
        true => plan.over_cm(json),
        false => plan.over_tcp(json),
    };
    outcome.map_err(|failure| plan.explain(failure))
}

/// Where results go as JSON.
type Json = Option<Record>;

impl<'a> Plan<'a> {
    fn new(tool: Tool, options: &'a Options, size: Option<u32>) -> Result<Self, Failure> {
        let wrong = |words: &str| Err(Failure::Words(words.to_owned()));
        let service = options.connection.service();
        // What a datagram of an ordinary link has room for.
        let datagram = options.mtu.unwrap_or(1024);
        let sizes = match (tool, options.size.or(size)) {
            (Tool::AtomicLatency, Some(size)) if size != 8 => {
                return wrong("-s: an atomic is of 8 bytes; leave it out");
            }
            (Tool::AtomicLatency, _) => vec![8],
            (_, _) if options.all_sizes => {
                let most = match service {
                    Service::Ud => datagram,
                    Service::Rc | Service::Uc => 1 << 23,
                };
                (1..=23)
                    .map(|log| 1 << log)
                    .filter(|size| *size <= most)
                    .collect()
            }
            (_, Some(size)) => vec![size],
            (_, None) if is_latency(tool) => vec![2],
            (_, None) if service == Service::Ud => vec![datagram],
            (_, None) => vec![65536],
        };
        let is_send = matches!(tool, Tool::SendBandwidth | Tool::SendLatency);
        let is_fetch = matches!(tool, Tool::ReadBandwidth | Tool::ReadLatency);
        if options.is_both && is_latency(tool) {
            return wrong("-b: a latency goes to and fro already; leave it out");
        }
        if options.pairs > 1 && is_latency(tool) {
            return wrong("-q: a latency is that of one queue pair; leave it out");
        }
        if service == Service::Ud && !is_send {
            return wrong("-c UD: datagrams are sent; write -c RC");
        }
        if service == Service::Uc && (is_fetch || tool == Tool::AtomicLatency) {
            return wrong("-c UC: such a connection has no reads and atomics; write -c RC");
        }
        if options.by_cm && options.is_over_memif() {
            return wrong("-R: RDMA-CM is for links with addresses, not memif; leave it out");
        }
        if tool == Tool::WriteLatency && sizes.contains(&0) {
            return wrong("-s 0: nobody sees such a write come; write -s 1 or more");
        }
        if options.capture.is_some() && options.capture == options.json_file() {
            return wrong("--capture: is the file of --out_json_file; write another");
        }
        if options.list > options.tx_depth {
            return wrong("-l: no more requests are posted together than -t has under way");
        }
        if options.by_cm && options.fused {
            return wrong("--fused: with -R several threads use the engine; leave one of them out");
        }
        let mtu = options.mtu.map(|bytes| {
            let known = Mtu::ALL.into_iter().find(|mtu| mtu.bytes() == bytes);
            known.ok_or_else(|| {
                Failure::Words(format!("-m {bytes}: write 256, 512, 1024, 2048 or 4096"))
            })
        });
        let plan = Self {
            tool,
            options,
            role: match options.host {
                Some(_) => Role::Client,
                None => Role::Server,
            },
            direction: match options.is_both {
                true => Direction::Both,
                false => Direction::One,
            },
            sizes,
            service,
            mtu: mtu.transpose()?,
        };
        let (depth, slots) = (options.tx_depth, plan.slots());
        match depth * slots > MOST_SLOTS {
            true => Err(Failure::Words(format!(
                "-t {depth}: requests take up to {slots} slots each, and a queue has {MOST_SLOTS}; \
                 write -t {} or less, or -I 0",
                MOST_SLOTS / slots,
            ))),
            false => Ok(plan),
        }
    }

    /// Bytes of the longest message that is copied into its request.
    fn inline(&self) -> u32 {
        match self.options.inline {
            _ if matches!(
                self.tool,
                Tool::ReadBandwidth | Tool::ReadLatency | Tool::AtomicLatency
            ) =>
            {
                0
            }
            Some(bytes) => bytes,
            None if is_latency(self.tool) => INLINE_LATENCY,
            None => 0,
        }
    }

    /// Slots of a send queue that a request takes at most.
    fn slots(&self) -> u32 {
        // A datagram says where it goes.
        let head = match self.service {
            Service::Ud => 16 + 48,
            _ => 16 + 16,
        };
        let longest = self.longest().min(self.inline());
        (head + (longest + 4).next_multiple_of(16)).div_ceil(64)
    }

    /// The size of the longest message.
    fn longest(&self) -> u32 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// Where a queue pair's messages arrive, and what its requests send lies one part before.
    fn target(&self, place: u64) -> u64 {
        (2 * place + 1) * u64::from(part(self.longest()))
    }

    fn source(&self, place: u64) -> u64 {
        2 * place * u64::from(part(self.longest()))
    }

    /// Words about two ends that do not fit together.
    fn explain(&self, failure: Failure) -> Failure {
        let is_odd = matches!(
            failure,
            Failure::Connect(
                connect::Error::Field { .. }
                    | connect::Error::Broken { .. }
                    | connect::Error::Late { .. }
            ) | Failure::Traffic(_)
        );
        let words = failure.to_string();
        // The same word stands before every failure of a measurement.
        let words = words.strip_prefix("bench: ").unwrap_or(&words);
        match is_odd {
            true => Failure::Bench(format!(
                "{words}; does the other end run {} or its like, with the same -s, -n, -q, -c, \
                 -a, -b and -R?",
                name(self.tool)
            )),
            false => failure,
        }
    }
}

/// Everything that a measurement runs on.
struct Bench<'a> {
    plan: &'a Plan<'a>,
    device: &'a Device,
    pairs: Vec<Pair>,
    mtu: Mtu,
    /// Of datagrams: the key of the peer's queue pair that each of ours sends to.
    qkeys: Vec<u32>,
}

impl<'a> Bench<'a> {
    fn new(plan: &'a Plan<'a>, device: &'a Device) -> Result<Self, Failure> {
        let pairs = (0..plan.options.pairs)
            .map(|_| device.endpoint().pair(PairConfig::default()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            mtu: plan.mtu_on(device)?,
            qkeys: vec![plan.qkey(); pairs.len()],
            plan,
            device,
            pairs,
        })
    }

    fn hello(&self) -> Hello {
        Hello::new(self.mtu as u8)
    }

    /// What the peer is told of each queue pair, whose first packets have these sequence numbers.
    fn destinations(&self, psns: impl IntoIterator<Item = Psn>) -> Vec<Destination> {
        let region = self.device.region();
        let reads = match self.plan.tool {
            Tool::ReadBandwidth | Tool::ReadLatency | Tool::AtomicLatency => READS,
            _ => 1,
        };
        let pairs = self.pairs.iter().zip(psns).zip(0u64..);
        let told = pairs.map(|((pair, psn), place)| Destination {
            lid: 0,
            reads,
            qp: Qpn::new(pair.number()),
            psn,
            rkey: region.key,
            address: region.address + self.plan.target(place),
            gid: Gid(self.device.gid()),
            srq: 0,
            // Told with -R alone: ours has one.
            gid_index: 0,
        });
        told.collect()
    }

    /// The queue pairs are ready: the table, and what it is about.
    fn measure<C: Channel>(
        &mut self,
        session: &mut Session<C>,
        own: &[Destination],
        theirs: &[Destination],
        json: Json,
    ) -> Result<(), Failure> {
        let patience = self.plan.options.patience();
        let mut table = Table::new(self, own, theirs, json);
        table.head()?;
        let plan = self.plan;
        let mut traffic = Traffic::new(self, theirs)?;
        session.begin()?;
        let mut results = None;
        for (place, size) in plan.sizes.iter().enumerate() {
            if place > 0 {
                session.channel().extend(patience);
                session.between()?;
            }
            let told = traffic.play(*size)?;
            if let Some(told) = told {
                results = Some(told.results());
                // What both ends measured is one row, which comes later.
                if plan.direction == Direction::One {
                    table.row(told, None)?;
                }
            }
        }
        session.channel().extend(patience);
        if plan.sizes.len() > 1 {
            session.after_sizes()?;
        }
        let heard = session.end(&results.unwrap_or_default())?;
        if let (Direction::Both, Some(told)) = (plan.direction, traffic.last()) {
            table.row(told, heard.as_ref())?;
        }
        table.end()
    }
}

/// Bytes that a message gets: whole pages, and room before it for what precedes a datagram.
const fn part(size: u32) -> u32 {
    let size = if size < 4096 { 4096 } else { size };
    size.next_multiple_of(4096) + 4096
}

/// The program of perftest that does the same.
const fn name(tool: Tool) -> &'static str {
    match tool {
        Tool::SendBandwidth => "ib_send_bw",
        Tool::WriteBandwidth => "ib_write_bw",
        Tool::ReadBandwidth => "ib_read_bw",
        Tool::AtomicBandwidth => "ib_atomic_bw",
        Tool::SendLatency => "ib_send_lat",
        Tool::WriteLatency => "ib_write_lat",
        Tool::ReadLatency => "ib_read_lat",
        Tool::AtomicLatency => "ib_atomic_lat",
    }
}

/// Slots of the largest send queue.
const MOST_SLOTS: u32 = 1 << 15;
/// Bytes of the longest message of a latency that is copied into its request, as with perftest.
const INLINE_LATENCY: u32 = 236;

/// Reads and atomics that a queue pair answers at once.
const READS: u16 = 16;
