//! What must hold whatever a peer says on the control socket: a fuzz target.
//!
//! The bytes are a script of packets, which all lie in the socket before we read the first. Each is
//! a byte for the descriptor that comes with it, a length, and so many bytes.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use warpwire_gpu::Arena;
use warpwire_ring::memif::{COOKIE, ring_bytes};
use warpwire_ring::{Location, Region};

use crate::error::Error;
use crate::memif::channel::{Channel, Deadline};
use crate::memif::client::{Introduction, announce, introduce};
use crate::memif::config::Config;
use crate::memif::message::Message;
use crate::memif::queues::Queues;
use crate::memif::server::{Admitted, admit};
use crate::memif::system::{Socket, eventfd};
use crate::patience::Patience;

/// Plays a script to our server, or to our client if the first byte is odd.
///
/// # Panics
/// On a finding.
pub fn check(data: &[u8]) {
    let Some((first, script)) = data.split_first() else {
        return;
    };
    messages_come_back(script);
    let (ours, theirs) = Socket::pair().expect("a pair of sockets");
    let kept = play(&ours, script);
    let channel = Channel::new(theirs, "memif:oracle");
    // The script ends with a packet that says goodbye, so nobody waits that long.
    let deadline = Deadline::after(Duration::from_secs(5), Patience::default());
    let error = match first & 1 {
        0 => serve(channel, deadline),
        _ => join(channel, deadline),
    };
    if let Some(error) = error {
        let words = error.to_string();
        assert!(!matches!(error, Error::Deadline { .. }), "{words}");
        // A peer's words reach a terminal.
        let printable = !words.is_empty() && !words.contains(char::is_control);
        assert!(printable, "{words:?}");
    }
    drop(kept);
}

/// A message that is read is written as bytes that are read the same.
fn messages_come_back(bytes: &[u8]) {
    match Message::parse(bytes) {
        Ok(message) => assert_eq!(Message::parse(&message.emit()), Ok(message)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn serve(channel: Channel, deadline: Deadline<'_>) -> Option<Error> {
    let config = config("memif:/oracle,role=server,queues=2,buffer=256");
    let admitted = match admit(channel, &config, deadline) {
        Ok(admitted) => admitted,
        Err(error) => return Some(error),
    };
    rings_lie_in_regions(&admitted, &config);
    let (up, down) = (&admitted.to_server, &admitted.to_client);
    // The client's indices may be impossible; then the queues are refused.
    let _ = Queues::server(&admitted.regions, up, down, config.slot_bytes);
    None
}

fn rings_lie_in_regions(admitted: &Admitted, config: &Config) {
    assert_eq!(admitted.to_server.len(), config.queues as usize);
    assert_eq!(admitted.to_client.len(), config.queues as usize);
    for region in &admitted.regions {
        assert!((1..=region.arena.whole().length).contains(&region.bytes));
    }
    for ring in admitted.to_server.iter().chain(&admitted.to_client) {
        let mut homes = admitted.regions.iter().map(|region| Region {
            length: region.bytes,
            ..region.arena.whole()
        });
        let bytes = ring_bytes(ring.depth);
        let is_inside = homes.any(|home| home.contains(ring.address, bytes));
        assert!(is_inside && ring.address.is_aligned(16), "{ring:?}");
    }
}

fn join(channel: Channel, deadline: Deadline<'_>) -> Option<Error> {
    let config = config("memif:/oracle,queues=2,depth=4,buffer=64");
    let plan = config.plan();
    let region = memory(plan.bytes() as usize);
    let file = region.file().expect("shared memory has a file");
    match introduce(&channel, &config, deadline) {
        Ok(Introduction::Welcome(hello)) => {
            announce(channel, &config, &hello, &plan, file, deadline).err()
        }
        Ok(Introduction::Refused(error)) | Err(error) => Some(error),
    }
}

/// Sends the script. What it returns has to live until the script was read.
fn play(socket: &Socket, script: &[u8]) -> Vec<Arena> {
    let mut arenas = Vec::new();
    let mut rest = script;
    for _ in 0..MOST_PACKETS {
        let Some(([kind, length], tail)) = rest.split_first_chunk() else {
            break;
        };
        let (packet, tail) = tail.split_at(tail.len().min(usize::from(*length)));
        rest = tail;
        let event: OwnedFd = match kind & 3 {
            3 => File::open("/dev/null").expect("is there").into(),
            _ => eventfd().expect("an eventfd").into(),
        };
        let file = match kind & 3 {
            0 => None,
            1 => {
                arenas.push(memory((usize::from(kind >> 2) + 1) * 64));
                arenas.last().and_then(Arena::file)
            }
            _ => Some(event.as_fd()),
        };
        if packet.is_empty() || socket.send(packet, file).is_err() {
            break;
        }
    }
    // An empty packet is how a closed socket looks.
    let _ = socket.send(&[], None);
    arenas
}

/// Memory of a peer that could hold a ring anywhere: the word that marks one is everywhere.
fn memory(bytes: usize) -> Arena {
    let arena = Arena::shared(bytes, Location::PageableHost).expect("memory");
    let marks = [&COOKIE.to_le_bytes()[..], &[0; 12]].concat();
    let whole = arena.whole();
    let image = marks.repeat(whole.length as usize / marks.len());
    arena.write(whole.address, &image).expect("its own bytes");
    arena
}

fn config(words: &str) -> Config {
    let spec = words.parse().expect("the oracle's own words");
    Config::new(&spec).expect("the oracle's own words")
}

/// More than a whole handshake has.
const MOST_PACKETS: usize = 24;
