//! `warpwire pingpong`: messages back and forth, as `ibv_rc_pingpong` and its siblings do, with any
//! of them at the other end; or with a warpwire, and terms that both negotiate.

use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use warpwire_pipelines::connect::own::{self, Agreement, Feature, Offer, Wish};
use warpwire_pipelines::connect::perftest::Role;
use warpwire_pipelines::connect::pingpong::{self, Destination};
use warpwire_pipelines::connect::{self, Conversation};
use warpwire_pipelines::messaging::{
    self, Completed, Device, DeviceConfig, EndpointConfig, Pair, PairConfig, Path, Work,
};
use warpwire_protocols::rdma::{Attributes, Mtu, Start};
use warpwire_protocols::wire::Gid;
use warpwire_protocols::wire::aeth::RnrTimer;
use warpwire_protocols::wire::bth::{PKey, Psn, Qpn};
use warpwire_ring::Cause;
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Order, Payload};

use super::chance::chance;
use super::meet::meet;
use super::perftest::{Connection, LONGEST_MESSAGE, LONGEST_PATIENCE};
use super::{Failure, capture, say};

/// Send messages back and forth with ibv_rc_pingpong, ibv_uc_pingpong or ibv_ud_pingpong
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The server to go to; without it, wait for a client
    host: Option<String>,
    /// TCP port of the exchange
    #[arg(
        short, long, default_value_t = 18515, value_parser = clap::value_parser!(u16).range(1..)
    )]
    port: u16,
    /// The NIC, such as xdp:eth0; without it, AF_XDP on the interface that leads to the peer
    #[arg(short = 'd', long = "nic", value_name = "NIC")]
    nic: Option<String>,
    /// The own address that messages go from; that which leads to the peer if absent
    #[arg(short, long, value_name = "ADDRESS")]
    gid: Option<IpAddr>,
    /// Bytes of a message; 1024 for datagrams if absent
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..=LONGEST_MESSAGE))]
    size: Option<u32>,
    /// Path MTU
    #[arg(short, long, default_value_t = 1024)]
    mtu: u32,
    /// Messages each way
    #[arg(
        short = 'n', long = "iters", default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    iterations: u32,
    /// Receives posted at a time
    #[arg(
        short = 'r', long = "rx-depth", default_value_t = 500,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    depth: u32,
    /// The service
    #[arg(long, value_enum, default_value_t = Connection::Rc, ignore_case = true)]
    connection: Connection,
    /// Compare the bytes of the last message
    #[arg(short = 'c', long = "chk")]
    check: bool,
    /// With a warpwire at the other end: agree on what both can, and print it
    #[arg(long)]
    negotiate: bool,
    #[command(flatten)]
    terms: Terms,
    /// Write all that is sent to this pcapng file, each packet with its operation in words
    #[arg(long, value_name = "FILE")]
    capture: Option<std::path::PathBuf>,
    /// Longest time without progress, in seconds
    #[arg(
        long, default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(1..=LONGEST_PATIENCE)
    )]
    patience: u64,
}

/// What is negotiated about, besides service and MTU.
#[derive(clap::Args)]
struct Terms {
    /// Traffic class, DSCP and ECN; what the other end wishes, or 0, if absent
    #[arg(long, value_name = "NUMBER", requires = "negotiate")]
    traffic_class: Option<u8>,
    /// Hop limit; what the other end wishes, or 64, if absent
    #[arg(
        long, value_name = "NUMBER", requires = "negotiate",
        value_parser = clap::value_parser!(u8).range(1..)
    )]
    hop_limit: Option<u8>,
    /// Partition key, in hexadecimal digits
    #[arg(
        long, value_name = "KEY", requires = "negotiate", default_value = "ffff",
        value_parser = partition
    )]
    pkey: PKey,
    /// Send again only what was lost, if the other end can as well
    #[arg(long, requires = "negotiate")]
    selective: bool,
}

impl Terms {
    fn offer(&self, arguments: &Arguments, device: &Device, mtu: Mtu, own: &Destination) -> Offer {
        let wish = |value: Option<u8>| value.map_or(Wish::Any, Wish::Just);
        let region = device.region();
        Offer {
            service: match arguments.connection {
                Connection::Rc => own::Service::Rc,
                Connection::Uc => own::Service::Uc,
                Connection::Ud => own::Service::Ud,
            },
            gid: own.gid,
            // At most 4096.
            mtu: mtu.bytes() as u16,
            traffic_class: wish(self.traffic_class),
            hop_limit: wish(self.hop_limit),
            pkey: self.pkey,
            reads: 1,
            reads_served: 1,
            max_message: LONGEST_MESSAGE as u32,
            features: match self.selective {
                true => vec![Feature::Selective],
                false => Vec::new(),
            },
            queue_pairs: vec![own::Destination {
                qp: own.qp,
                psn: own.psn,
                rkey: region.key,
                address: region.address,
                length: region.length,
            }],
        }
    }
}

fn partition(digits: &str) -> Result<PKey, String> {
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    let key = u16::from_str_radix(digits, 16).ok();
    let key = key.filter(|key| key & 0x7fff != 0);
    key.map(PKey)
        .ok_or_else(|| "write hexadecimal digits such as 8001; 0 and 8000 are no keys".to_owned())
}

fn ended(what: &str, cause: Cause) -> Failure {
    Failure::Pingpong(format!(
        "a {what} failed: {cause}; does the peer still run, with the same --size, --mtu, --iters \
         and --connection?"
    ))
}

/// The exchange broke: the peer may be another program, or one that gave up.
fn broken(error: connect::Error) -> Failure {
    match error {
        connect::Error::Field { .. } | connect::Error::Broken { .. } => Failure::Pingpong(format!(
            "{error}; is it ibv_rc_pingpong or its like? Its own output says more. A warpwire with \
             --negotiate wants it at both ends"
        )),
        error => error.into(),
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let patience = Duration::from_secs(arguments.patience);
    let mtu = Mtu::ALL
        .into_iter()
        .find(|mtu| mtu.bytes() == arguments.mtu);
    let mtu =
        mtu.ok_or_else(|| Failure::Words("--mtu: write 256, 512, 1024, 2048 or 4096".to_owned()))?;
    let size = arguments.size.unwrap_or(match arguments.connection {
        Connection::Ud => mtu.bytes().min(1024),
        _ => 4096,
    });
    if arguments.connection == Connection::Ud && size > mtu.bytes() {
        return Err(Failure::Words(format!(
            "--size {size}: a datagram has at most --mtu bytes, {}",
            mtu.bytes()
        )));
    }
    messaging::check(arguments.nic.as_deref())?;
    capture::check(arguments.capture.as_deref())?;
    let (mut conversation, role) = meet(arguments.host.as_deref(), arguments.port, patience)?;
    let config = arguments.config(size);
    let mut device = match arguments.gid {
        Some(own) => Device::at(Some(own), &config)?,
        None => Device::open(conversation.peer_address(), &config)?,
    };
    let outcome = play(arguments, &device, &mut conversation, role, (mtu, size));
    capture::end(&mut device, outcome)
}

fn play(
    arguments: &Arguments,
    device: &Device,
    conversation: &mut Conversation,
    role: Role,
    (mtu, size): (Mtu, u32),
) -> Result<(), Failure> {
    let most = device.mtu().map_or(0, Mtu::bytes);
    if mtu.bytes() > most {
        return Err(Failure::Pingpong(format!(
            "--mtu {}: the link of {} has room for {most}",
            mtu.bytes(),
            device.address()
        )));
    }
    let mut run = Run::new(device, arguments, size)?;
    let own = Destination {
        lid: 0,
        qp: Qpn::new(run.pair.number()),
        psn: Psn::new(chance() as u32),
        gid: Gid(device.gid()),
    };
    let nobody = || Failure::Pingpong("the peer has no queue pair".to_owned());
    if arguments.negotiate {
        let offer = arguments.terms.offer(arguments, device, mtu, &own);
        let agreement = own::negotiate(conversation, role, &offer)?;
        write!(std::io::stdout().lock(), "{agreement}")?;
        run.settle(&agreement)?.ok_or_else(nobody)?;
        own::ready(conversation)?;
        run.play(role == Role::Client)?;
        return Ok(own::part(conversation)?);
    }
    say(format_args!("  local address:  {own}"))?;
    let peer = run.exchange(conversation, role, &own, mtu)?;
    say(format_args!(
        "  remote address: {}",
        peer.ok_or_else(nobody)?
    ))?;
    run.play(role == Role::Client)
}

impl Arguments {
    fn config(&self, size: u32) -> DeviceConfig {
        DeviceConfig {
            nic: self.nic.clone(),
            bytes: size as usize + 4096,
            memory: Vec::new(),
            endpoint: EndpointConfig {
                pairs: 1,
                log_receive: 10,
                log_send: 4,
                // A peer may remember numbers of who was here before.
                first_number: 0x0200 | chance() as u32 & 0x00ff_fc00,
                ..EndpointConfig::default()
            },
            patience: Duration::from_secs(self.patience),
            chance: chance(),
            fused: false,
            capture: self.capture.clone(),
        }
    }
}

struct Run<'a> {
    arguments: &'a Arguments,
    device: &'a Device,
    pair: Pair,
    size: u32,
    posted: u32,
    /// What every message says besides its bytes.
    order: Order,
}

const GRH: u64 = 40;
const KEY: u32 = 0x1111_1111;
/// Hops that a packet may make unless something else was agreed on.
const HOPS: u8 = 64;

impl<'a> Run<'a> {
    fn new(device: &'a Device, arguments: &'a Arguments, size: u32) -> Result<Self, Failure> {
        let pair = device.endpoint().pair(PairConfig::default())?;
        // The server's first bytes; each page of a message begins with 0.
        let mut bytes = vec![0x7b; size as usize];
        bytes.iter_mut().step_by(4096).for_each(|byte| *byte = 0);
        device.write(GRH, &bytes)?;
        Ok(Self {
            arguments,
            device,
            pair,
            size,
            posted: 0,
            order: Order::new(Opcode::SEND),
        })
    }

    /// Both tell each other where they are, and make their queue pairs ready.
    fn exchange(
        &mut self,
        conversation: &mut Conversation,
        role: Role,
        own: &Destination,
        mtu: Mtu,
    ) -> Result<Option<Destination>, Failure> {
        let own_words = std::slice::from_ref(own);
        let theirs = match role {
            Role::Client => pingpong::ask(conversation, own_words),
            Role::Server => pingpong::hear(conversation, own_words.len()),
        };
        let peer = theirs.map_err(broken)?.first().copied();
        if let Some(peer) = &peer {
            self.become_ready(own, peer, mtu)?;
        }
        let said = match role {
            Role::Client => pingpong::ready(conversation),
            Role::Server => pingpong::answer(conversation, own_words),
        };
        said.map_err(broken)?;
        Ok(peer)
    }

    fn header(&self) -> u64 {
        match self.arguments.connection {
            Connection::Ud => GRH,
            _ => 0,
        }
    }

    /// Makes the queue pair ready by what was negotiated; nothing if the peer offered none.
    fn settle(&mut self, agreement: &Agreement) -> Result<Option<()>, Failure> {
        let Some((attributes, start)) = agreement.attributes(0) else {
            return Ok(None);
        };
        let number = |wish, other| match wish {
            Wish::Just(number) => number,
            Wish::Any => other,
        };
        let Offer {
            traffic_class,
            hop_limit,
            ..
        } = agreement.agreed;
        let peer = &agreement.theirs.gid;
        let (traffic_class, hop_limit) = (number(traffic_class, 0), number(hop_limit, HOPS));
        self.connect(attributes, start, peer, traffic_class, hop_limit)?;
        Ok(Some(()))
    }

    fn become_ready(
        &mut self,
        own: &Destination,
        peer: &Destination,
        mtu: Mtu,
    ) -> Result<(), Failure> {
        let attributes = Attributes {
            service: self.arguments.connection.service(),
            mtu,
            reads: 1,
            local_qp: own.qp,
            remote_qp: peer.qp,
            ..Attributes::default()
        };
        let start = Start {
            send: own.psn,
            receive: peer.psn,
        };
        self.connect(attributes, start, &peer.gid, 0, HOPS)
    }

    fn connect(
        &mut self,
        attributes: Attributes,
        start: Start,
        peer: &Gid,
        traffic_class: u8,
        hop_limit: u8,
    ) -> Result<(), Failure> {
        let attributes = Attributes {
            timeout: 14,
            retries: 7,
            rnr_retries: 7,
            rnr_timer: RnrTimer::new(12).unwrap_or(RnrTimer::SHORTEST),
            qkey: KEY,
            ..attributes
        };
        let other = attributes.remote_qp.value();
        let number = self.pair.number();
        let path = self.device.path(&peer.0, number, other, traffic_class)?;
        let path = Path { hop_limit, ..path };
        self.pair.connect(attributes, start, path)?;
        if self.arguments.connection == Connection::Ud {
            self.order.datagram = Some(path.datagram(other, KEY, peer.0));
        }
        self.fill()
    }

    /// Posts receives up to the depth.
    fn fill(&mut self) -> Result<(), Failure> {
        let (at, length) = (GRH - self.header(), self.size + self.header() as u32);
        let piece = self.device.region().gather(at, length);
        while self.posted < self.arguments.depth {
            self.pair.receive(&[piece])?;
            self.posted += 1;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), Failure> {
        let piece = [self.device.region().gather(GRH, self.size)];
        let (order, payload) = (self.order, Payload::Pieces(&piece));
        self.pair.post(&[Work { order, payload }])?;
        Ok(())
    }

    fn play(&mut self, is_client: bool) -> Result<(), Failure> {
        let iterations = self.arguments.iterations;
        let patience = Duration::from_secs(self.arguments.patience);
        let (mut sent, mut received, mut completed) = (0, 0, 0);
        let started = Instant::now();
        if is_client {
            self.send()?;
            sent += 1;
        }
        while received < iterations || completed < iterations {
            match self.pair.wait(patience)? {
                Completed::Sent { .. } => completed += 1,
                Completed::Received(_) => {
                    received += 1;
                    self.posted -= 1;
                    if self.posted <= 1 {
                        self.fill()?;
                    }
                }
                Completed::SendFailed { cause, .. } => return Err(ended("send", cause)),
                Completed::ReceiveFailed { cause, .. } => return Err(ended("receive", cause)),
            }
            // The next one when the last is done with on both sides.
            let answers = if is_client {
                received
            } else {
                received.saturating_sub(1)
            };
            let may = if is_client {
                received
            } else {
                answers + u32::from(received > 0)
            };
            if sent < iterations && completed == sent && sent < may + u32::from(is_client) {
                self.send()?;
                sent += 1;
            }
        }
        self.tell(started.elapsed())
    }

    fn tell(&self, elapsed: Duration) -> Result<(), Failure> {
        let iterations = f64::from(self.arguments.iterations);
        let bytes = f64::from(self.size) * iterations * 2.0;
        let seconds = elapsed.as_secs_f64();
        say(format_args!(
            "{bytes:.0} bytes in {seconds:.2} seconds = {:.2} Mbit/sec",
            bytes * 8.0 / seconds / 1e6
        ))?;
        say(format_args!(
            "{} iters in {seconds:.2} seconds = {:.2} usec/iter",
            self.arguments.iterations,
            seconds * 1e6 / iterations
        ))?;
        if self.arguments.check {
            let mut bytes = vec![0; self.size as usize];
            self.device.read(GRH, &mut bytes)?;
            let first = bytes.iter().step_by(4096).position(|byte| *byte != 0);
            if let Some(page) = first {
                return Err(Failure::Pingpong(format!("invalid data in page {page}")));
            }
        }
        Ok(())
    }
}
