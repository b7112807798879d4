//! Four endpoints sum a tensor of f32 in a ring: each puts a part to its neighbour and signals, in
//! three steps of adding and three of handing on; afterwards all have the whole sum.

use warpwire::pipelines::messaging::{Error, Goal, Pair, Signal, Update};
use warpwire_examples::{Network, Node, PATIENCE};

const NODES: usize = 4;
/// Numbers of the tensor, and of a part.
const LENGTH: usize = 64 * 1024;
const PART: usize = LENGTH / NODES;
const PART_BYTES: u64 = PART as u64 * 4;
/// In each memory: the tensor; a place for the part of each adding step; the signals of both
/// phases.
const TENSOR: u64 = 0;
const INBOX: u64 = LENGTH as u64 * 4;
const ADDED: u64 = INBOX + (NODES as u64 - 1) * PART_BYTES;
const HANDED: u64 = ADDED + 8;

fn main() -> Result<(), Error> {
    let network = Network::new(NODES as u32, HANDED as usize + 4096)?;
    // One connection to the next, and one from the one before.
    let (mut next, mut before) = (Vec::new(), Vec::new());
    for node in 0..NODES {
        let [own, theirs] = network.connect(node, (node + 1) % NODES)?;
        next.push(own);
        before.push(theirs);
    }
    // The last one comes before the first.
    before.rotate_right(1);
    for (place, node) in network.nodes.iter().enumerate() {
        node.write_floats(TENSOR, &tensor(place))?;
    }
    let started = std::time::Instant::now();
    std::thread::scope(|scope| {
        let pairs = next.into_iter().zip(before).enumerate();
        let threads: Vec<_> = pairs
            .map(|(place, (mut next, mut before))| {
                let (own, peer) = (&network.nodes[place], &network.nodes[(place + 1) % NODES]);
                scope.spawn(move || reduce(place, (own, peer), &mut next, &mut before))
            })
            .collect();
        let mut ends = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        ends.try_for_each(|end| end)
    })?;
    let took = started.elapsed();
    let mut sum = vec![0.0; LENGTH];
    for place in 0..NODES {
        let values = tensor(place);
        sum.iter_mut()
            .zip(values)
            .for_each(|(sum, value)| *sum += value);
    }
    for (place, node) in network.nodes.iter().enumerate() {
        // Small whole numbers: sums are exact in any order.
        assert!(
            node.read_floats(TENSOR, LENGTH)? == sum,
            "node {place} has another sum"
        );
    }
    let packets = network.stop()?;
    println!(
        "ring-all-reduce: {NODES} endpoints summed {LENGTH} numbers each in {took:?}, all have the \
         same exact sum; {packets} packets"
    );
    Ok(())
}

/// One endpoint's part: it puts to `peer` over `next`, and waits for what comes over `before`.
fn reduce(
    place: usize,
    (own, peer): (&Node, &Node),
    next: &mut Pair,
    before: &mut Pair,
) -> Result<(), Error> {
    let added = before.signals(own.at(ADDED), 1, 8)?;
    let handed = before.signals(own.at(HANDED), 1, 8)?;
    let part = |step: usize| ((place + 2 * NODES - step) % NODES) as u64 * PART_BYTES;
    let signal = |at: u64| Signal {
        at: peer.region.remote(at),
        update: Update::Add(1),
    };
    // Adding: after step s the part that came has the values of s + 2 endpoints.
    for step in 0..NODES - 1 {
        let from = own.region.gather(TENSOR + part(step), PART_BYTES as u32);
        let inbox = INBOX + step as u64 * PART_BYTES;
        next.put_signal(from, peer.region.remote(inbox), signal(ADDED))?;
        before.wait_signals(&added, Goal::All, step as u64 + 1, PATIENCE)?;
        let at = TENSOR + part(step + 1);
        let mut values = own.read_floats(at, PART)?;
        let came = own.read_floats(inbox, PART)?;
        values
            .iter_mut()
            .zip(came)
            .for_each(|(value, one)| *value += one);
        own.write_floats(at, &values)?;
    }
    // Handing on: the part that is whole goes around, to its final place.
    for step in 0..NODES - 1 {
        let at = TENSOR + part(step + NODES - 1);
        let from = own.region.gather(at, PART_BYTES as u32);
        // The peer sent this part on in an adding step, and is done with it: it was added to since.
        next.put_signal(from, peer.region.remote(at), signal(HANDED))?;
        before.wait_signals(&handed, Goal::All, step as u64 + 1, PATIENCE)?;
    }
    next.quiet(PATIENCE)
}

/// The tensor of an endpoint: small whole numbers.
fn tensor(place: usize) -> Vec<f32> {
    let value = |i: usize| ((i * (place + 3) + place) % 1000) as f32;
    (0..LENGTH).map(value).collect()
}
