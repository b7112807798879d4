//! Both ends of every language against what the programs said, each other, and nonsense.

mod deadlines;
mod own_ends;
mod perftest_ends;
mod pingpong_ends;

use super::own::{self, Agreement, Feature, Offer, Service, Wish};
use super::perftest::{Direction, Hello, Results, Role, Session, Tool};
use super::{Channel, Conversation, Error, Listener, perftest, pingpong};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use warpwire_protocols::wire::{Gid, PKey, Psn, Qpn};

const LIMIT: Duration = Duration::from_secs(20);

/// What one end of a capture said, and how it goes on.
struct Said {
    is_client: bool,
    bytes: Vec<u8>,
}

/// The bytes of a capture's TCP connection, by segment, in order.
fn capture(file: &str) -> Vec<Said> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut all: Vec<Said> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut at = 24;
    while at + 16 <= bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        let frame = &bytes[at + 16..at + 16 + length];
        at += 16 + length;
        if frame[12..14] != [8, 0] || frame[23] != 6 {
            continue;
        }
        let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let segment = &frame[34..14 + total];
        let payload = &segment[usize::from(segment[12] >> 4) * 4..];
        let is_client = u16::from_be_bytes([segment[2], segment[3]]) == perftest::PORT;
        let sequence: [u8; 4] = segment[4..8].try_into().unwrap();
        if !payload.is_empty() && seen.insert((is_client, sequence)) {
            let bytes = payload.to_vec();
            all.push(Said { is_client, bytes });
        }
    }
    assert!(all.len() > 2, "{file} is too short");
    all
}

/// Plays one end of a capture on a socket, and checks that the other says what the capture has.
fn play(mut stream: TcpStream, capture: &[Said], plays_client: bool) {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    for (index, said) in capture.iter().enumerate() {
        if said.is_client == plays_client {
            stream.write_all(&said.bytes).unwrap();
        } else {
            let mut heard = vec![0; said.bytes.len()];
            stream.read_exact(&mut heard).unwrap();
            let texts = [&heard, &said.bytes].map(|bytes| String::from_utf8_lossy(bytes));
            assert_eq!(texts[0], texts[1], "message {index}");
        }
    }
    let mut rest = Vec::new();
    assert_eq!(
        stream.read_to_end(&mut rest).unwrap_or(0),
        0,
        "more than that: {rest:?}"
    );
}

/// Runs our end against a recorded one.
fn against<T>(file: &str, role: Role, end: impl FnOnce(Conversation) -> T) -> T {
    let capture = capture(file);
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().to_string();
    std::thread::scope(|scope| match role {
        Role::Server => {
            let peer = scope.spawn(|| play(TcpStream::connect(&address).unwrap(), &capture, true));
            let outcome = end(listener.accept(LIMIT, LIMIT).unwrap());
            peer.join().unwrap();
            outcome
        }
        Role::Client => {
            let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = socket.local_addr().unwrap().to_string();
            let capture = &capture;
            let peer = scope.spawn(move || play(socket.accept().unwrap().0, capture, false));
            let outcome = end(Conversation::dial(&address, LIMIT).unwrap());
            peer.join().unwrap();
            outcome
        }
    })
}

/// What an end of a capture says in messages of a length.
fn said(file: &str, role: Role, length: usize) -> Vec<Vec<u8>> {
    let own = |said: &Said| said.is_client == (role == Role::Client) && said.bytes.len() == length;
    let all = capture(file).into_iter().filter(own);
    all.map(|said| said.bytes).collect()
}

/// The hexadecimal number in a field of a text.
fn field(bytes: &[u8], index: usize) -> u128 {
    let text = String::from_utf8_lossy(bytes);
    let field = text
        .trim_end_matches('\0')
        .split(':')
        .nth(index)
        .unwrap()
        .to_owned();
    u128::from_str_radix(&field, 16).unwrap()
}

/// Both ends of a conversation of ours, each on a thread.
fn pair<C: Send, S: Send>(
    client: impl FnOnce(Conversation) -> C + Send,
    server: impl FnOnce(Conversation) -> S + Send,
) -> (C, S) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().to_string();
    std::thread::scope(|scope| {
        let client = scope.spawn(move || client(Conversation::dial(&address, LIMIT).unwrap()));
        let served = server(listener.accept(LIMIT, LIMIT).unwrap());
        (client.join().unwrap(), served)
    })
}

/// A server that says bytes and goes, or stays silent.
fn with_peer<T>(bytes: &[u8], stays: bool, client: impl FnOnce(Conversation) -> T) -> T {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = socket.accept().unwrap();
            // The client may have heard enough before it is all said.
            let _ = stream.write_all(bytes);
            if !stays {
                let _ = stream.shutdown(std::net::Shutdown::Write);
            }
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        client(Conversation::dial(&address, LIMIT).unwrap())
    })
}
