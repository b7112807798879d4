//! A key-value table that clients read by READ, without the server: it only writes its own memory.
//! A sum over each bucket tells a reader that it met a writer.

use std::sync::atomic::{AtomicBool, Ordering};

use warpwire::pipelines::messaging::{Error, Pair};
use warpwire_examples::{Network, Node, PATIENCE};

const BUCKETS: u64 = 1024;
const KEYS: u64 = 700;
/// A bucket: key, version, five words of value, sum.
const BUCKET_BYTES: u64 = 64;
const VALUE_WORDS: usize = 5;
const GETS: u64 = 4000;

fn main() -> Result<(), Error> {
    let network = Network::new(2, (BUCKETS * BUCKET_BYTES) as usize)?;
    let [mut client, server] = network.connect(0, 1)?;
    let [here, there] = [&network.nodes[0], &network.nodes[1]];
    let places: Vec<u64> = (1..=KEYS)
        .map(|key| insert(there, key))
        .collect::<Result<_, _>>()?;
    let is_over = AtomicBool::new(false);
    let (found, probes, updates) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<u64, Error> {
            let mut updates = 0;
            while !is_over.load(Ordering::Relaxed) {
                let key = updates * 37 % KEYS + 1;
                let version = updates / KEYS + 2;
                update(there, places[key as usize - 1], key, version)?;
                updates += 1;
                std::thread::yield_now();
            }
            Ok(updates)
        });
        let gets = gets(&mut client, here, there);
        is_over.store(true, Ordering::Relaxed);
        let updates = writer.join().expect("the writer does not panic")?;
        gets.map(|(found, probes)| (found, probes, updates))
    })?;
    drop((client, server));
    let packets = network.stop()?;
    println!(
        "key-value-get: {GETS} gets by {probes} reads of 64 bytes, {found} found and right while \
         the server made {updates} updates; {packets} packets, none by the server's program"
    );
    Ok(())
}

/// Gets keys that are there and keys that are not. Returns how many were found, and reads.
fn gets(client: &mut Pair, here: &Node, there: &Node) -> Result<(u64, u64), Error> {
    let (mut found, mut probes) = (0, 0);
    for number in 0..GETS {
        let key = number * 13 % (KEYS + 100) + 1;
        let value = get(client, (here, there), key, &mut probes)?;
        assert_eq!(value.is_some(), key <= KEYS, "key {key}");
        if let Some((version, words)) = value {
            assert_eq!(words, content(key, version), "key {key}");
            found += 1;
        }
    }
    Ok((found, probes))
}

/// Reads buckets from where the key may stand, until it is found or an empty one.
fn get(
    client: &mut Pair,
    (here, there): (&Node, &Node),
    key: u64,
    probes: &mut u64,
) -> Result<Option<(u64, [u64; VALUE_WORDS])>, Error> {
    let mut bucket = home(key);
    loop {
        let at = bucket * BUCKET_BYTES;
        let local = here.region.gather(0, BUCKET_BYTES as u32);
        let ticket = client.get(there.region.remote(at), local)?;
        client.wait_for(ticket, PATIENCE)?;
        *probes += 1;
        let words = load(here, 0)?;
        let [stored, version, value @ .., told] = words;
        match stored {
            0 => return Ok(None),
            // Written to meanwhile: once more. The server is slower than that.
            _ if told != sum(&words) => assert!(*probes < 100 * GETS, "always torn"),
            _ if stored == key => return Ok(Some((version, value))),
            _ => bucket = (bucket + 1) % BUCKETS,
        }
    }
}

/// Where a key stands if nobody was there before.
const fn home(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54
}

/// Puts a key into the first empty bucket from its home on. Returns its place.
fn insert(server: &Node, key: u64) -> Result<u64, Error> {
    let mut bucket = home(key);
    while load(server, bucket * BUCKET_BYTES)?[0] != 0 {
        bucket = (bucket + 1) % BUCKETS;
    }
    let at = bucket * BUCKET_BYTES;
    update(server, at, key, 1)?;
    Ok(at)
}

/// Writes a value, word by word: whoever reads meanwhile sees old and new ones.
fn update(server: &Node, at: u64, key: u64, version: u64) -> Result<(), Error> {
    let mut words = [0; 8];
    words[0] = key;
    words[1] = version;
    words[2..7].copy_from_slice(&content(key, version));
    words[7] = sum(&words);
    // The key last: a bucket without one is empty.
    (0..8).rev().try_for_each(|place: u64| {
        server.write(at + place * 8, &words[place as usize].to_le_bytes())
    })
}

/// The sum of a bucket, over all words but its own.
fn sum(words: &[u64; 8]) -> u64 {
    let mix = |sum: u64, word: &u64| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    words[..7].iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

fn load(node: &Node, at: u64) -> Result<[u64; 8], Error> {
    let mut bytes = [0; BUCKET_BYTES as usize];
    node.read(at, &mut bytes)?;
    let (words, _) = bytes.as_chunks::<8>();
    let mut values = [0; 8];
    for (value, word) in values.iter_mut().zip(words) {
        *value = u64::from_le_bytes(*word);
    }
    Ok(values)
}

/// What a key's value is at a version.
fn content(key: u64, version: u64) -> [u64; VALUE_WORDS] {
    std::array::from_fn(|place| key * 1_000_003 + version * 101 + place as u64)
}
