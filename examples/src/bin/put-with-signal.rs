//! A kernel puts blocks into the memory of a peer and signals each; the peer waits for the signals
//! and finds the blocks whole.

use warpwire::pipelines::messaging::{DONE, Error, Goal, Step, Verb};
use warpwire_examples::{Network, PATIENCE};
use warpwire_gpu::executor::Placement;

const BLOCKS: u32 = 64;
const BYTES: u32 = 10_000;
/// From one block to the next.
const STRIDE: u64 = 10_240;
/// Behind the blocks: the signal.
const SIGNAL: u64 = BLOCKS as u64 * STRIDE;

fn main() -> Result<(), Error> {
    let network = Network::new(2, SIGNAL as usize + 4096)?;
    let [sender, mut receiver] = network.connect(0, 1)?;
    let [here, there] = [&network.nodes[0], &network.nodes[1]];
    for block in 0..BLOCKS {
        here.write(u64::from(block) * STRIDE, &content(block))?;
    }
    // The sender is a kernel: device code that posts, beside the engine that builds the packets.
    let put = Step {
        times: BLOCKS,
        stride: STRIDE,
        local: here.region.gather(0, BYTES),
        remote: there.region.remote(0),
        signal: there.region.remote(SIGNAL),
        value: 1,
        ..Step::new(Verb::PutAdd)
    };
    let steps = [put, Step::new(Verb::Quiet)];
    let kernel = here
        .endpoint
        .perform(network.executor(), sender, &steps, Placement::Any)?;
    // The signal counts blocks: who sees it at n finds the first n of them, and needs no lock.
    let row = receiver.signals(there.at(SIGNAL), 1, 8)?;
    let mut seen = 0;
    while seen < BLOCKS {
        receiver.wait_signals(&row, Goal::All, u64::from(seen) + 1, PATIENCE)?;
        let count = row.value(0) as u32;
        for block in seen..count {
            let mut bytes = vec![0; BYTES as usize];
            there.read(u64::from(block) * STRIDE, &mut bytes)?;
            assert!(
                bytes == content(block),
                "block {block} of {count} is not whole"
            );
        }
        seen = count;
    }
    let (sender, steps) = kernel.finish(PATIENCE)?;
    assert!(steps.iter().all(|step| step.outcome == DONE), "{steps:?}");
    drop((sender, receiver));
    let packets = network.stop()?;
    println!(
        "put-with-signal: a kernel put {BLOCKS} blocks of {BYTES} bytes, each was whole when its \
         signal came; {packets} packets"
    );
    Ok(())
}

fn content(block: u32) -> Vec<u8> {
    (0..BYTES).map(|i| (i * 31 + block * 7 + 1) as u8).collect()
}
