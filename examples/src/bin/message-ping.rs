//! Messages to and fro between two endpoints, and how long they take.

use std::time::{Duration, Instant};

use warpwire::pipelines::messaging::Error;
use warpwire_examples::{Network, PATIENCE};

const ROUNDS: u32 = 2000;
const BYTES: u32 = 64;
/// In each memory: what is sent, and what is received.
const SENT: u64 = 0;
const RECEIVED: u64 = 4096;

fn main() -> Result<(), Error> {
    let network = Network::new(2, 1 << 16)?;
    let [mut ping, mut pong] = network.connect(0, 1)?;
    let [here, there] = [&network.nodes[0], &network.nodes[1]];
    let times = std::thread::scope(|scope| {
        let server = scope.spawn(move || -> Result<(), Error> {
            pong.receive(&[there.region.gather(RECEIVED, BYTES)])?;
            for _ in 0..ROUNDS {
                let message = pong.wait_message(PATIENCE)?;
                let mut bytes = [0; BYTES as usize];
                there.read(RECEIVED, &mut bytes)?;
                // The answer is the question, turned around.
                bytes.reverse();
                there.write(SENT, &bytes)?;
                pong.receive(&[there.region.gather(RECEIVED, BYTES)])?;
                pong.send(there.region.gather(SENT, message.length), message.immediate)?;
            }
            pong.quiet(PATIENCE)
        });
        let mut times = Vec::new();
        for round in 0..ROUNDS {
            let mut bytes = [round as u8; BYTES as usize];
            bytes[..4].copy_from_slice(&round.to_le_bytes());
            here.write(SENT, &bytes)?;
            let started = Instant::now();
            ping.receive(&[here.region.gather(RECEIVED, BYTES)])?;
            ping.send(here.region.gather(SENT, BYTES), Some(round))?;
            let message = ping.wait_message(PATIENCE)?;
            times.push(started.elapsed());
            let mut answer = [0; BYTES as usize];
            here.read(RECEIVED, &mut answer)?;
            answer.reverse();
            assert_eq!(
                (message.immediate, answer),
                (Some(round), bytes),
                "round {round}"
            );
        }
        server.join().expect("the server does not panic")?;
        Ok::<Vec<Duration>, Error>(times)
    })?;
    drop(ping);
    let packets = network.stop()?;
    let mut times = times;
    times.sort_unstable();
    println!(
        "message-ping: {ROUNDS} messages of {BYTES} bytes each way, every answer right; \
         there and back: median {:?}, 99 % within {:?}; {packets} packets",
        times[times.len() / 2],
        times[times.len() * 99 / 100],
    );
    Ok(())
}
