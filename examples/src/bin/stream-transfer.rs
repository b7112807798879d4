//! A stream over a bad link: bytes go to a peer that sends them back, whole and in order, whatever
//! the link loses, repeats, reorders or corrupts.

use std::time::{Duration, Instant};

use warpwire::pipelines::streaming::{Listener, StreamConfig, StreamEndpoint};
use warpwire_examples::Outcome;
use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::{IdlePolicy, Placement};
use warpwire_nic::Nic;
use warpwire_nic::soft::{AdapterConfig, Clock, Fabric, FabricConfig, Impairments};

const BYTES: usize = 8 << 20;

fn main() -> Outcome<()> {
    let executor = CpuExecutor::builder().idle(IdlePolicy::POLITE).build()?;
    // Two NICs in software with a cable between them; xdp:IFACE instead is a NIC of this machine.
    let fabric = Fabric::new(FabricConfig::default(), Clock::Executor(executor.clock()));
    let link = Impairments {
        loss_ppm: 2_000,
        duplicate_ppm: 1_000,
        reorder_ppm: 2_000,
        reorder_ns: 50_000,
        corrupt_ppm: 1_000,
        ..Impairments::default()
    };
    let plug = || fabric.plug("soft".parse()?, AdapterConfig::default(), link);
    let nics = [plug()?, plug()?];
    fabric.cable(nics[0].port(), nics[1].port());
    executor.add_service(Box::new(fabric.service()), Placement::Any)?;
    let start = |number: usize| -> Outcome<StreamEndpoint> {
        let own = format!("10.9.0.{}/24", number + 1).parse()?;
        let nic: &dyn Nic = &nics[number];
        let config = StreamConfig::new(vec![own]);
        // A kernel runs the engine. The thread of a service answers what is not TCP.
        let endpoint = StreamEndpoint::start(&executor, nic, &config, Placement::Any)?;
        Ok(endpoint.in_service(&executor, Placement::Any)?)
    };
    let ends = [start(0)?, start(1)?];
    let listener = ends[1].listen("10.9.0.2:7".parse()?, PATIENCE)?;
    let (took, again) = std::thread::scope(|scope| {
        let peer = scope.spawn(move || reflect(&listener).map_err(|error| error.to_string()));
        let outcome = exchange(&ends[0]);
        peer.join().expect("the peer does not panic")?;
        outcome
    })?;
    println!(
        "stream-transfer: {} MiB each way over a bad link, every byte right, in {took:?}; {again} \
         segments of this end were sent again",
        BYTES >> 20
    );
    Ok(())
}

/// Sends bytes and compares what comes back: how long it took, and what had to be sent again.
fn exchange(end: &StreamEndpoint) -> Outcome<(Duration, u64)> {
    let started = Instant::now();
    let mut stream = end.connect("10.9.0.2:7".parse()?, PATIENCE)?;
    let sent: Vec<u8> = (0..BYTES).map(|at| (at * 7 + at / 251) as u8).collect();
    let (mut written, mut came) = (0, Vec::new());
    let mut buffer = vec![0; 1 << 16];
    while came.len() < BYTES {
        if written < BYTES {
            // As much as there is room for: it does not wait, so that answers are read meanwhile.
            written += stream.write(&sent[written..])?;
            if written == BYTES {
                stream.close()?;
            }
        }
        let count = stream.read(&mut buffer, PATIENCE)?;
        assert!(count > 0, "the peer ends after {} bytes", came.len());
        came.extend_from_slice(&buffer[..count]);
    }
    assert!(came == sent, "other bytes came back");
    assert_eq!(stream.read(&mut buffer, PATIENCE)?, 0, "more came");
    let again = stream.figures()?.retransmits;
    Ok((started.elapsed(), again.into()))
}

/// Sends back what comes, up to the end of it. No byte is copied to the program: it goes from ring
/// to ring.
fn reflect(listener: &Listener) -> Outcome<()> {
    let mut stream = listener.accept(PATIENCE)?;
    let until = Instant::now() + PATIENCE;
    while !stream.is_at_end()? {
        if stream.reflect()? == 0 {
            assert!(Instant::now() < until, "nothing comes");
            std::thread::yield_now();
        }
    }
    Ok(stream.finish(PATIENCE)?)
}

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);
