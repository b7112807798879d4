//! Datagrams to a service that RDMA-CM finds, with Linux's `udaddy` (of librdmacm) at the other
//! end, or with this program itself:
//!
//! ```text
//! rdma-datagram                   waits for a client, takes its datagrams and answers as many
//! rdma-datagram HOST [PORT]       sends datagrams to a server, and hears its answers
//! ```
//! As root: packets go by AF_XDP through the interface that leads to the peer.

use std::net::ToSocketAddrs;
use std::process::ExitCode;
use std::time::Duration;

use warpwire::pipelines::connect::cm::{Inquiry, Manager, Service, take_datagrams};
use warpwire::pipelines::messaging::{Completed, Device, Message, Pair, PairConfig, Work};
use warpwire_examples::{Outcome, found_by_peers, two_ends};
use warpwire_protocols::rdma::ROUTE_HEADER_BYTES;
use warpwire_protocols::wire::cm::DATAGRAM_QKEY;
use warpwire_protocols::wire::{Gid, Qpn};
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Order, Payload};

fn main() -> ExitCode {
    two_ends("rdma-datagram", PORT, serve, ask)
}

fn ask(host: &str, port: u16) -> Outcome<()> {
    let server = (host, port).to_socket_addrs()?.next().ok_or("no address")?;
    let device = Device::open(server.ip(), &found_by_peers(8192, PATIENCE))?;
    let manager = Manager::start(&device)?;
    let found = manager.resolve(&device, server, &Inquiry::default(), PATIENCE)?;
    println!(
        "{host} has queue pair {} with key {:#010x}",
        found.qp, found.qkey
    );
    let mut end = End::new(&device, found.gid)?;
    end.send(found.gid, found.qp, found.qkey)?;
    end.hear()?;
    println!("{COUNT} datagrams were answered");
    Ok(())
}

fn serve(port: u16) -> Outcome<()> {
    let device = Device::at(None, &found_by_peers(8192, PATIENCE))?;
    let manager = Manager::start(&device)?;
    let listener = manager.listen_datagrams(port)?;
    println!("waiting at {}, port {port}", device.address());
    let call = listener.accept(Duration::from_secs(3600))?;
    let peer = call.asked().ok_or("nothing is asked for")?.there;
    let mut end = End::new(&device, peer)?;
    call.accept(&Service {
        qp: Qpn::new(end.pair.number()),
        qkey: DATAGRAM_QKEY,
        private: Vec::new(),
    })?;
    let last = end.hear()?;
    println!("{} sent {COUNT} datagrams", peer.address());
    // The queue pair that they came from has the key of all such services.
    end.send(peer, Qpn::new(last.source_qp), DATAGRAM_QKEY)?;
    println!("{COUNT} answers are sent");
    Ok(())
}

/// A queue pair that takes datagrams.
struct End<'a> {
    device: &'a Device,
    pair: Pair,
    received: u32,
    last: Option<Message>,
}

impl<'a> End<'a> {
    /// With all receives posted: the other end may send before we look.
    fn new(device: &'a Device, peer: Gid) -> Outcome<Self> {
        let mut pair = device.endpoint().pair(PairConfig::default())?;
        let room = ROUTE_HEADER_BYTES + LENGTH;
        for _ in 0..COUNT {
            pair.receive(&[device.region().gather(0, room)])?;
        }
        take_datagrams(device, &mut pair, peer, DATAGRAM_QKEY)?;
        Ok(Self {
            device,
            pair,
            received: 0,
            last: None,
        })
    }

    /// Sends as many datagrams as the other end waits for; each says where an answer is to go.
    fn send(&mut self, peer: Gid, qp: Qpn, qkey: u32) -> Outcome<()> {
        let (own, other) = (self.pair.number(), qp.value());
        let path = self.device.path(&peer.0, own, other, 0)?;
        let order = Order {
            immediate: own,
            datagram: Some(path.datagram(other, qkey, peer.0)),
            ..Order::new(Opcode::SEND_IMM)
        };
        let bytes = [self.device.region().gather(4096, LENGTH)];
        let payload = Payload::Pieces(&bytes);
        for _ in 0..COUNT {
            self.pair.post(&[Work { order, payload }])?;
            while !self.step()? {}
        }
        Ok(())
    }

    /// Waits for as many datagrams; the last of them.
    fn hear(&mut self) -> Outcome<Message> {
        while self.received < COUNT {
            self.step()?;
        }
        self.last.ok_or_else(|| "nothing came".into())
    }

    /// Waits for whatever is next; whether it is that a datagram was sent.
    fn step(&mut self) -> Outcome<bool> {
        match self.pair.wait(PATIENCE)? {
            Completed::Sent { .. } => Ok(true),
            Completed::Received(message) => {
                if message.immediate != Some(message.source_qp) {
                    return Err(
                        format!("a datagram tells of another queue pair: {message:?}").into(),
                    );
                }
                self.received += 1;
                self.last = Some(message);
                Ok(false)
            }
            other => Err(format!("a datagram failed: {other:?}").into()),
        }
    }
}

/// The port of `udaddy`.
const PORT: u16 = 7174;
/// How many datagrams it sends, and their bytes.
const COUNT: u32 = 10;
const LENGTH: u32 = 100;
const PATIENCE: Duration = Duration::from_secs(30);
