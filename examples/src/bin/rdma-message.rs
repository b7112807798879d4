//! A message over a connection by RDMA-CM, with Linux's `rdma_server` or `rdma_client` (of
//! librdmacm) at the other end, or with this program itself:
//!
//! ```text
//! rdma-message                    waits for a client, takes its message and answers
//! rdma-message HOST [PORT]        says something to a server, and hears its answer
//! ```
//! As root: packets go by AF_XDP through the interface that leads to the peer.

use std::net::ToSocketAddrs;
use std::process::ExitCode;
use std::time::Duration;

use warpwire::pipelines::connect::cm::{Manager, Offer};
use warpwire::pipelines::messaging::{Completed, Device, Pair, PairConfig, Work};
use warpwire_examples::{Outcome, found_by_peers, two_ends};
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Gather, Order, Payload};

fn main() -> ExitCode {
    two_ends("rdma-message", PORT, serve, ask)
}

fn ask(host: &str, port: u16) -> Outcome<()> {
    let server = (host, port).to_socket_addrs()?.next().ok_or("no address")?;
    let device = Device::open(server.ip(), &found_by_peers(4096, PATIENCE))?;
    let manager = Manager::start(&device)?;
    let mut pair = device.endpoint().pair(PairConfig::default())?;
    // Before the server may answer.
    pair.receive(&[answer(&device)])?;
    let offer = Offer::default();
    let connection = manager.connect(&device, &mut pair, server, &offer, PATIENCE)?;
    send(&mut pair, &device, b"hello from ours")?;
    let bytes = receive(&mut pair, &device)?;
    println!("the answer has {} bytes", bytes.len());
    connection.disconnect(PATIENCE)?;
    Ok(())
}

fn serve(port: u16) -> Outcome<()> {
    let device = Device::at(None, &found_by_peers(4096, PATIENCE))?;
    let manager = Manager::start(&device)?;
    let listener = manager.listen(port)?;
    println!("waiting at {}, port {port}", device.address());
    let call = listener.accept(Duration::from_secs(3600))?;
    let mut pair = device.endpoint().pair(PairConfig::default())?;
    pair.receive(&[answer(&device)])?;
    let offer = Offer::default();
    let mut connection = call.accept(&device, &mut pair, &offer, PATIENCE)?;
    let bytes = receive(&mut pair, &device)?;
    println!("{} sent {} bytes", connection.peer(), bytes.len());
    send(&mut pair, &device, b"the same to you")?;
    // Whoever asked has heard everything, and leaves.
    connection.wait_end(PATIENCE)?;
    Ok(())
}

/// Where the other end's message goes.
fn answer(device: &Device) -> Gather {
    device.region().gather(0, LENGTH)
}

/// Sends a message, padded with zeros, and waits until it was taken.
fn send(pair: &mut Pair, device: &Device, text: &[u8]) -> Outcome<()> {
    let place = u64::from(LENGTH);
    let mut bytes = text.to_vec();
    bytes.resize(LENGTH as usize, 0);
    device.write(place, &bytes)?;
    let piece = [device.region().gather(place, LENGTH)];
    let order = Order::new(Opcode::SEND);
    let payload = Payload::Pieces(&piece);
    pair.post(&[Work { order, payload }])?;
    match pair.wait(PATIENCE)? {
        Completed::Sent { .. } => Ok(()),
        other => Err(format!("the message was not sent: {other:?}").into()),
    }
}

/// Waits for the other end's message.
fn receive(pair: &mut Pair, device: &Device) -> Outcome<Vec<u8>> {
    match pair.wait(PATIENCE)? {
        Completed::Received(message) => {
            let mut bytes = vec![0; message.length as usize];
            device.read(0, &mut bytes)?;
            Ok(bytes)
        }
        other => Err(format!("no message came: {other:?}").into()),
    }
}

/// The port of `rdma_server`.
const PORT: u16 = 7471;
/// Bytes of its messages.
const LENGTH: u32 = 16;
const PATIENCE: Duration = Duration::from_secs(30);
