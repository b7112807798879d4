//! What the engine takes a packet on one thread: the two ends of a memif step by step, and a clock
//! around each step.

use std::time::{Duration, Instant};

use warpwire_pipelines::messaging::{Device, DeviceConfig, EndpointConfig, Pair, PairConfig, Work};
use warpwire_protocols::checksum::{Crc32, Engine as _, Host};
use warpwire_protocols::rdma::{Attributes, Mtu, Start};
use warpwire_protocols::wire::bth::{Psn, Qpn};
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Order, Payload};

use super::error::Error;
use super::machine::pin;
use super::setting::{FAR, Setting};

/// Nanoseconds a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Of the end that sends: reading the request, making the packet, posting it.
    pub(super) send: f64,
    /// Of the end that receives: checking the packet, placing its bytes, making what answers it.
    pub(super) receive: f64,
    pub(super) packets: u64,
}

/// Takes the times of WRITEs of so many bytes, a packet each.
pub(super) fn times(setting: &Setting, bytes: u32) -> Result<Times, Error> {
    on_one_processor(|| {
        let mut ends = Ends::open(setting, bytes)?;
        let limit = Instant::now() + Duration::from_secs_f64(setting.seconds);
        let (mut send, mut receive, mut packets) = (Duration::ZERO, Duration::ZERO, 0);
        while Instant::now() < limit {
            setting.check()?;
            let [sending, receiving] = ends.batch(bytes)?;
            send += sending;
            receive += receiving;
            packets += u64::from(BATCH);
        }
        let each = |time: Duration| time.as_nanos() as f64 / packets as f64;
        Ok(Times {
            send: each(send),
            receive: each(receive),
            packets,
        })
    })
}

/// What cannot be done without: copying the bytes of a packet and summing them, with the headers.
pub(super) fn floor(setting: &Setting, bytes: u32) -> Result<(f64, u64), Error> {
    on_one_processor(|| {
        let from = vec![7u8; (HEADERS + bytes) as usize * BATCH as usize];
        let mut to = from.clone();
        let limit = Instant::now() + Duration::from_secs_f64(setting.seconds);
        let (mut time, mut packets) = (Duration::ZERO, 0);
        let mut sum = Crc32::new();
        while Instant::now() < limit {
            setting.check()?;
            let started = Instant::now();
            let size = (HEADERS + bytes) as usize;
            for (from, to) in from.chunks(size).zip(to.chunks_mut(size)) {
                to.copy_from_slice(from);
                sum = Host::update(sum, std::hint::black_box(to));
            }
            time += started.elapsed();
            packets += u64::from(BATCH);
        }
        std::hint::black_box(sum.finish());
        Ok((time.as_nanos() as f64 / packets as f64, packets))
    })
}

/// Does work on a thread of its own, on the far processor.
pub(super) fn on_one_processor<T: Send>(
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            pin(FAR)?;
            work()
        });
        let outcome = worker.join();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The two ends, each with a queue pair.
struct Ends {
    devices: [Device; 2],
    pairs: [Pair; 2],
}

impl Ends {
    fn open(setting: &Setting, bytes: u32) -> Result<Self, Error> {
        let socket = setting.socket();
        let config = |role: &str| DeviceConfig {
            nic: Some(format!(
                "memif:{},role={role},buffer=8192,depth=1024",
                socket.display()
            )),
            fused: true,
            bytes: bytes.max(4096) as usize,
            memory: Vec::new(),
            endpoint: EndpointConfig {
                pairs: 1,
                log_send: 10,
                first_number: 0x1000,
                ..EndpointConfig::default()
            },
            patience: PATIENCE,
            chance: 1,
            capture: None,
        };
        // Each waits for the other.
        let nobody = std::net::Ipv4Addr::LOCALHOST.into();
        let devices = std::thread::scope(|scope| {
            let server = scope.spawn(|| Device::open(nobody, &config("server")));
            let client = Device::open(nobody, &config("client"));
            let server = server.join();
            let server = server.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok::<_, Error>([client?, server?])
        })?;
        let [one, other] = &devices;
        let pair = |device: &Device| device.endpoint().pair(PairConfig::default());
        let mut pairs = [pair(one)?, pair(other)?];
        let numbers = [0, 1].map(|place: usize| pairs[place].number());
        for (place, pair) in pairs.iter_mut().enumerate() {
            let (own, peer) = (&devices[place], &devices[1 - place]);
            let (number, other) = (numbers[place], numbers[1 - place]);
            let attributes = Attributes {
                mtu: Mtu::M4096,
                remote_qp: Qpn::new(other),
                ..Attributes::default()
            };
            let start = Start {
                send: Psn::new(1),
                receive: Psn::new(1),
            };
            let path = own.path(&peer.gid(), number, other, 0)?;
            pair.connect(attributes, start, path)?;
        }
        Ok(Self { devices, pairs })
    }

    /// Posts a batch, sends it, receives it, and waits for its acknowledgement; how long the second
    /// and third took.
    fn batch(&mut self, bytes: u32) -> Result<[Duration; 2], Error> {
        let ([sender, receiver], [pair, _]) = (&self.devices, &mut self.pairs);
        let (source, target) = (sender.region(), receiver.region());
        let pieces = [source.gather(0, bytes)];
        let inline = [7; INLINE as usize];
        let payload = match inline.get(..bytes as usize) {
            Some(bytes) => Payload::Inline(bytes),
            None => Payload::Pieces(&pieces),
        };
        pair.post_all((1..=BATCH).map(|number| Work {
            order: Order {
                address: target.address,
                key: target.key,
                signal: number == BATCH,
                ..Order::new(Opcode::WRITE)
            },
            payload,
        }))?;
        let started = Instant::now();
        sender.endpoint().step();
        let sent = Instant::now();
        receiver.endpoint().step();
        let received = Instant::now();
        while pair.poll().is_none() {
            if received.elapsed() > PATIENCE {
                return Err(Error::Silent {
                    what: "the engine",
                    seconds: PATIENCE.as_secs_f64(),
                });
            }
            sender.endpoint().step();
            receiver.endpoint().step();
        }
        Ok([sent - started, received - sent])
    }
}

/// Packets of a batch: fewer than an engine takes in a round.
const BATCH: u32 = 32;
/// Bytes of the longest message that stands in its request.
const INLINE: u32 = 64;
/// Bytes of the headers of a WRITE and its CRC, behind Ethernet's.
const HEADERS: u32 = 40 + 8 + 12 + 16 + 4;
const PATIENCE: Duration = Duration::from_secs(10);
