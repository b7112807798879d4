//! `warpwire pingpong`: messages back and forth, as `ibv_rc_pingpong` and its siblings do, with any
//! of them at the other end.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use warpwire_pipelines::messaging::{
    Completed, Device, DeviceConfig, EndpointConfig, Pair, PairConfig, Work,
};
use warpwire_protocols::rdma::{Attributes, Mtu, Service, Start};
use warpwire_protocols::wire::aeth::RnrTimer;
use warpwire_protocols::wire::bth::{Psn, Qpn};
use warpwire_ring::Cause;
use warpwire_ring::mlx5::layout::{DATAGRAM_EXTENDED, DatagramSegment, Opcode};
use warpwire_ring::mlx5::post::{Gather, Order, Payload};

use super::Failure;
use super::perftest::{LONGEST_MESSAGE, LONGEST_PATIENCE};

/// Send messages back and forth with ibv_rc_pingpong, ibv_uc_pingpong or ibv_ud_pingpong
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The server to go to; without it, wait for a client
    host: Option<String>,
    /// TCP port of the exchange
    #[arg(short, long, default_value_t = 18515)]
    port: u16,
    /// The NIC, such as xdp:eth0; without it, AF_XDP on the interface that leads to the peer
    #[arg(short = 'd', long = "nic", value_name = "NIC")]
    nic: Option<String>,
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
    #[arg(long, value_enum, default_value_t = Connection::Rc)]
    connection: Connection,
    /// Compare the bytes of the last message
    #[arg(short = 'c', long = "chk")]
    check: bool,
    /// Longest time without progress, in seconds
    #[arg(
        long, default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(1..=LONGEST_PATIENCE)
    )]
    patience: u64,
}

/// A service.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Connection {
    /// Reliable connection
    Rc,
    /// Unreliable connection
    Uc,
    /// Unreliable datagrams
    Ud,
}

/// What the ends tell each other: LID, queue pair, sequence number, GID.
struct Words {
    qpn: u32,
    psn: u32,
    gid: [u8; 16],
}

impl Words {
    fn write(&self, stream: &mut TcpStream) -> Result<(), Failure> {
        let gid: String = self.gid.iter().map(|byte| format!("{byte:02x}")).collect();
        // At one piece: the peer reads once.
        let words = format!("0000:{:06x}:{:06x}:{gid}\0", self.qpn, self.psn);
        stream
            .write_all(words.as_bytes())
            .map_err(|error| lost(&error))
    }

    fn read(stream: &mut TcpStream) -> Result<Self, Failure> {
        let mut bytes = [0; 52];
        stream
            .read_exact(&mut bytes)
            .map_err(|error| lost(&error))?;
        let text = String::from_utf8_lossy(&bytes);
        let mut fields = text.trim_end_matches('\0').split(':').skip(1);
        let mut number = |field: &str| {
            let word = fields.next().unwrap_or("");
            u32::from_str_radix(word, 16).map_err(|_| wrong(field, word))
        };
        let (qpn, psn) = (number("QPN")?, number("PSN")?);
        let word = fields.next().unwrap_or("");
        let mut gid = [0; 16];
        for (place, byte) in gid.iter_mut().enumerate() {
            let two = word.get(place * 2..place * 2 + 2).unwrap_or("");
            *byte = u8::from_str_radix(two, 16).map_err(|_| wrong("GID", word))?;
        }
        Ok(Self { qpn, psn, gid })
    }
}

/// What went wrong between the two ends' exchanges.
fn lost(error: &std::io::Error) -> Failure {
    use std::io::ErrorKind;
    Failure::Bench(match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            "the exchange: the peer said nothing within --patience; is it ibv_rc_pingpong?"
                .to_owned()
        }
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "the exchange: the peer has closed the connection; its own output says why".to_owned()
        }
        _ => format!("the exchange: {error}"),
    })
}

fn ended(what: &str, cause: Cause) -> Failure {
    Failure::Bench(format!(
        "a {what} failed: {cause}; does the peer still run, with the same --size, --mtu and \
         --connection?"
    ))
}

fn wrong(field: &str, word: &str) -> Failure {
    Failure::Bench(format!(
        "the peer's {field} `{word}` is no number; is it ibv_rc_pingpong?"
    ))
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let patience = Duration::from_secs(arguments.patience);
    let (mut stream, is_client) = match &arguments.host {
        Some(host) => (connect(host, arguments.port, patience)?, true),
        None => (accept(arguments.port)?, false),
    };
    stream
        .set_read_timeout(Some(patience))
        .and_then(|()| stream.set_write_timeout(Some(patience)))
        .map_err(|error| lost(&error))?;
    let mtu = Mtu::ALL
        .into_iter()
        .find(|mtu| mtu.bytes() == arguments.mtu);
    let mtu =
        mtu.ok_or_else(|| Failure::Bench("--mtu: write 256, 512, 1024, 2048 or 4096".to_owned()))?;
    let size = arguments.size.unwrap_or(match arguments.connection {
        Connection::Ud => mtu.bytes().min(1024),
        _ => 4096,
    });
    let device = Device::open(
        stream
            .peer_addr()
            .map_err(|error| lost(&error))?
            .ip()
            .to_canonical(),
        &DeviceConfig {
            fused: false,
            nic: arguments.nic.clone(),
            bytes: size as usize + 4096,
            endpoint: EndpointConfig {
                pairs: 1,
                log_receive: 10,
                log_send: 4,
                first_number: 0x0200,
                ..EndpointConfig::default()
            },
            patience,
            chance: u64::from(std::process::id()),
        },
    )?;
    let mut run = Run::new(&device, arguments, size)?;
    let psn =
        (Instant::now().elapsed().subsec_nanos() ^ std::process::id().rotate_left(9)) & 0xff_ffff;
    let own = Words {
        qpn: run.pair.number(),
        psn,
        gid: device.gid(),
    };
    tell("local", &own);
    let peer = if is_client {
        own.write(&mut stream)?;
        let peer = Words::read(&mut stream)?;
        run.become_ready(&device, &own, &peer, mtu)?;
        stream.write_all(b"done\0").map_err(|error| lost(&error))?;
        peer
    } else {
        let peer = Words::read(&mut stream)?;
        run.become_ready(&device, &own, &peer, mtu)?;
        own.write(&mut stream)?;
        let mut done = [0; 5];
        stream.read_exact(&mut done).map_err(|error| lost(&error))?;
        peer
    };
    tell("remote", &peer);
    run.play(&device, &peer, is_client)?;
    Ok(())
}

fn tell(which: &str, words: &Words) {
    let gid = std::net::Ipv6Addr::from(words.gid);
    let (qpn, psn) = (words.qpn, words.psn);
    println!("  {which} address:  LID 0x0000, QPN 0x{qpn:06x}, PSN 0x{psn:06x}, GID {gid}");
}

fn connect(host: &str, port: u16, patience: Duration) -> Result<TcpStream, Failure> {
    let unreached = |error: std::io::Error| {
        Failure::Bench(format!(
            "{host}:{port}: {error}; start the server there first, with the same --port"
        ))
    };
    let mut addresses = (host, port).to_socket_addrs().map_err(unreached)?;
    let address: SocketAddr = addresses
        .next()
        .ok_or_else(|| Failure::Bench(format!("{host}: has no address")))?;
    TcpStream::connect_timeout(&address, patience).map_err(unreached)
}

fn accept(port: u16) -> Result<TcpStream, Failure> {
    let any: IpAddr = std::net::Ipv6Addr::UNSPECIFIED.into();
    TcpListener::bind((any, port))
        .and_then(|listener| listener.accept())
        .map(|(stream, _)| stream)
        .map_err(|error| Failure::Bench(format!("--port {port}: {error}; choose another port")))
}

struct Run<'a> {
    arguments: &'a Arguments,
    pair: Pair,
    size: u32,
    posted: u32,
}

const GRH: u64 = 40;
const KEY: u32 = 0x1111_1111;

impl<'a> Run<'a> {
    fn new(device: &Device, arguments: &'a Arguments, size: u32) -> Result<Self, Failure> {
        let pair = device.endpoint().pair(PairConfig::default())?;
        // The server's first bytes; each page of a message begins with 0.
        let mut bytes = vec![0x7b; size as usize];
        bytes.iter_mut().step_by(4096).for_each(|byte| *byte = 0);
        device.write(GRH, &bytes)?;
        Ok(Self {
            arguments,
            pair,
            size,
            posted: 0,
        })
    }

    fn header(&self) -> u64 {
        match self.arguments.connection {
            Connection::Ud => GRH,
            _ => 0,
        }
    }

    fn become_ready(
        &mut self,
        device: &Device,
        own: &Words,
        peer: &Words,
        mtu: Mtu,
    ) -> Result<(), Failure> {
        let attributes = Attributes {
            service: match self.arguments.connection {
                Connection::Rc => Service::Rc,
                Connection::Uc => Service::Uc,
                Connection::Ud => Service::Ud,
            },
            mtu,
            timeout: 14,
            retries: 7,
            rnr_retries: 7,
            rnr_timer: RnrTimer::new(12).unwrap_or(RnrTimer::SHORTEST),
            reads: 1,
            remote_qp: Qpn::new(peer.qpn),
            qkey: KEY,
            ..Attributes::default()
        };
        let start = Start {
            send: Psn::new(own.psn),
            receive: Psn::new(peer.psn),
        };
        let path = device.path(&peer.gid, own.qpn, peer.qpn, 0)?;
        self.pair.connect(attributes, start, path)?;
        self.fill(device)
    }

    /// Posts receives up to the depth.
    fn fill(&mut self, device: &Device) -> Result<(), Failure> {
        let region = device.region();
        let piece = Gather {
            address: region.address + GRH - self.header(),
            length: self.size + self.header() as u32,
            key: region.key,
        };
        while self.posted < self.arguments.depth {
            self.pair.receive(&[piece])?;
            self.posted += 1;
        }
        Ok(())
    }

    fn send(&mut self, device: &Device, peer: &Words) -> Result<(), Failure> {
        let region = device.region();
        let piece = [Gather {
            address: region.address + GRH,
            length: self.size,
            key: region.key,
        }];
        let mut order = Order::new(Opcode::SEND);
        if self.arguments.connection == Connection::Ud {
            let path = device.path(&peer.gid, self.pair.number(), peer.qpn, 0)?;
            order.datagram = Some(DatagramSegment {
                qkey: KEY.into(),
                reserved: 0.into(),
                dqp_dct: (peer.qpn | DATAGRAM_EXTENDED).into(),
                stat_rate_sl: 0,
                fl_mlid: 0,
                rlid: path.source_port.into(),
                reserved0: [0; 4],
                rmac: path.next_hop,
                tclass: 0,
                hop_limit: path.hop_limit,
                grh_gid_fl: 0.into(),
                rgid: peer.gid,
            });
        }
        let payload = Payload::Pieces(&piece);
        self.pair.post(&[Work { order, payload }])?;
        Ok(())
    }

    fn play(&mut self, device: &Device, peer: &Words, is_client: bool) -> Result<(), Failure> {
        let iterations = self.arguments.iterations;
        let patience = Duration::from_secs(self.arguments.patience);
        let (mut sent, mut received, mut completed) = (0, 0, 0);
        let started = Instant::now();
        if is_client {
            self.send(device, peer)?;
            sent += 1;
        }
        while received < iterations || completed < iterations {
            match self.pair.wait(patience)? {
                Completed::Sent { .. } => completed += 1,
                Completed::Received(_) => {
                    received += 1;
                    self.posted -= 1;
                    if self.posted <= 1 {
                        self.fill(device)?;
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
                self.send(device, peer)?;
                sent += 1;
            }
        }
        self.tell(device, started.elapsed())
    }

    fn tell(&self, device: &Device, elapsed: Duration) -> Result<(), Failure> {
        let iterations = f64::from(self.arguments.iterations);
        let bytes = f64::from(self.size) * iterations * 2.0;
        let seconds = elapsed.as_secs_f64();
        println!(
            "{bytes:.0} bytes in {seconds:.2} seconds = {:.2} Mbit/sec",
            bytes * 8.0 / seconds / 1e6
        );
        println!(
            "{} iters in {seconds:.2} seconds = {:.2} usec/iter",
            self.arguments.iterations,
            seconds * 1e6 / iterations
        );
        if self.arguments.check {
            let mut bytes = vec![0; self.size as usize];
            device.read(GRH, &mut bytes)?;
            let first = bytes.iter().step_by(4096).position(|byte| *byte != 0);
            if let Some(page) = first {
                return Err(Failure::Bench(format!("invalid data in page {page}")));
            }
        }
        Ok(())
    }
}
