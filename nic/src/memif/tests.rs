//! Our client against our server, and each against peers that break the protocol, die or lie.
#![expect(unsafe_code, reason = "tests drive the queues that they opened")]

mod refusals;

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use warpwire_ring::memif::{ClientRx, ClientTx, FIRST, RegionPlan, ServerRx, ServerTx};
use warpwire_ring::{Cause, Post, Receive, RxCursor, Transmit, memory};

use super::*;
use crate::memif::channel::Channel;
use crate::memif::client::Introduction;
use crate::memif::message::{AddRing, Hello, Init, MODE_ETHERNET, Message, Text, VERSION};
use crate::memif::server::admit;
use crate::memif::system::{Socket, eventfd};

/// A socket's name that no other test or process uses.
fn socket(test: &str) -> String {
    format!("@wwmemif-{}-{test}", std::process::id())
}

fn spec(words: &str) -> NicSpec {
    words.parse().expect("words of a test")
}

fn config(options: &str) -> Config {
    Config::new(&spec(&format!("memif:/test{options}"))).expect("options of a test")
}

/// Both ends of an interface.
fn both(test: &str, options: &str) -> (Memif, Memif) {
    let client = spec(&format!("memif:{}{options}", socket(test)));
    let server = spec(&format!("memif:{}{options},role=server", socket(test)));
    std::thread::scope(|scope| {
        let server = scope.spawn(move || Memif::open(&server));
        let client = Memif::open(&client).expect("client opens");
        let server = server.join().expect("no panic").expect("server opens");
        (client, server)
    })
}

/// Sends one frame on a fresh transmit queue's slot `index`.
fn send<T: Transmit>(queue: &T, index: u64, bytes: &[u8]) -> Trigger {
    let buffer = queue.buffer(index);
    assert!(
        bytes.len() <= buffer.capacity as usize,
        "no buffer at {index}"
    );
    // SAFETY: the buffer of a free slot, long enough.
    unsafe { memory::copy_in(bytes, buffer.address) };
    let post = Post {
        address: buffer.address,
        length: bytes.len() as u32,
        parts: 1,
        ..Post::default()
    };
    queue.write(index, &post).expect("its own buffer");
    queue.publish(index + 1);
    queue.ring(index + 1)
}

/// Takes the frame in slot `index`, which must be the only one ready.
fn take<R: Receive>(queue: &R, index: u64) -> Vec<u8> {
    assert_eq!(queue.produced(index), index + 1);
    let segment = queue.segment(index, 0);
    assert!(!segment.fault() && !segment.more());
    let mut bytes = vec![0; segment.length as usize];
    // SAFETY: a checked piece of a ready slot.
    unsafe { memory::copy_out(segment.address, &mut bytes) };
    queue.refill(index);
    queue.release(index + 1);
    bytes
}

/// The halves of a pair, attached.
fn halves<R: Receive, T: Transmit>(pair: &QueuePair) -> (R, T) {
    // SAFETY: the pair is held by the caller, and only this test drives it.
    let receive = unsafe { R::attach(&pair.receive) }.expect("attaches");
    // SAFETY: as above.
    let transmit = unsafe { T::attach(&pair.transmit) }.expect("attaches");
    (receive, transmit)
}

#[test]
fn every_queue_carries_frames_both_ways() {
    let (client, server) = both("queues", ",queues=3,depth=8,buffer=256,id=7");
    assert_eq!((client.caps().queues, server.caps().queues), (3, 3));
    assert_eq!(server.caps().rx_depth, 8);
    assert!(client.caps().features.contains(Features::ZERO_COPY_FORWARD));
    assert!(!server.caps().features.contains(Features::ZERO_COPY_FORWARD));
    for (number, (ours, theirs)) in client.queues().iter().zip(server.queues()).enumerate() {
        let (client_rx, client_tx) = halves::<ClientRx, ClientTx>(ours);
        let (server_rx, server_tx) = halves::<ServerRx, ServerTx>(theirs);
        for lap in 0..20 {
            let up = [number as u8, lap as u8, 1];
            assert_eq!(send(&client_tx, lap, &up), Trigger::PolledIndex);
            assert_eq!(take(&server_rx, FIRST + lap), up);
            let down = [number as u8, lap as u8, 2];
            assert_eq!(send(&server_tx, FIRST + lap, &down), Trigger::PolledIndex);
            assert_eq!(take(&client_rx, lap), down);
        }
    }
    let said = client.choices().join("\n");
    assert!(
        said.contains("client") && said.contains("warpwire"),
        "{said}"
    );
    assert!(client.is_connected() && server.is_connected());
}

#[test]
fn a_peer_that_goes_away_is_noticed_counted_and_can_come_back() {
    let (mut client, server) = both("death", ",depth=4");
    let mut services = client.take_services();
    assert_eq!((services.len(), client.take_services().len()), (1, 0));
    let (client_rx, client_tx) = halves::<ClientRx, ClientTx>(&client.queues()[0]);
    let (_, server_tx) = halves::<ServerRx, ServerTx>(&server.queues()[0]);
    send(&server_tx, FIRST, b"last words");
    send(&client_tx, 0, b"never taken");
    send(&client_tx, 1, b"nor this");
    let link = client.queues.private.clone();
    let word = |nic: &Memif| {
        let word = link.word(nic.link_word()).expect("in our memory");
        word.load(std::sync::atomic::Ordering::Acquire)
    };
    assert_eq!(word(&client), 0);
    let other = |counters: &Counters, name| earlier(counters, name);
    assert_eq!(other(&client.counters(), "in flight"), 2);
    drop(server);
    // The service alone notices.
    std::thread::sleep(Duration::from_millis(2));
    for service in &mut services {
        service.run(1);
    }
    assert_eq!(word(&client), Cause::Disconnected as u64);
    assert!(client.disconnect_cause().expect("gone").contains("closed"));
    let counters = client.counters();
    assert_eq!(counters.drops, [("peer gone", 2)]);
    assert_eq!(other(&counters, "disconnects"), 1);
    assert_eq!(other(&counters, "in flight"), 0);
    // What arrived stays readable.
    assert_eq!(take(&client_rx, 0), b"last words");

    let words = spec(&format!("memif:{},depth=4,role=server", socket("death")));
    std::thread::scope(|scope| {
        let again = scope.spawn(|| Memif::open(&words));
        client.reconnect().expect("reconnects");
        let server = again.join().expect("no panic").expect("opens");
        assert!(client.is_connected());
        let (client_rx, _) = halves::<ClientRx, ClientTx>(&client.queues()[0]);
        let (_, server_tx) = halves::<ServerRx, ServerTx>(&server.queues()[0]);
        send(&server_tx, FIRST, b"back");
        assert_eq!(take(&client_rx, 0), b"back");
    });
    assert_eq!(client.counters().drops, [("peer gone", 2)]);
}

#[test]
fn a_server_outlives_its_client_and_takes_the_next() {
    let (client, mut server) = both("next", ",depth=4");
    let (_, client_tx) = halves::<ClientRx, ClientTx>(&client.queues()[0]);
    let (server_rx, server_tx) = halves::<ServerRx, ServerTx>(&server.queues()[0]);
    send(&client_tx, 0, b"before");
    drop(client);
    assert!(!server.is_connected());
    // The memory of the dead client is still mapped: both rings can be used without harm.
    assert_eq!(take(&server_rx, FIRST), b"before");
    send(&server_tx, FIRST, b"nobody");
    let words = spec(&format!("memif:{},depth=16", socket("next")));
    std::thread::scope(|scope| {
        let next = scope.spawn(|| Memif::open(&words));
        server.reconnect().expect("takes the next");
        let client = next.join().expect("no panic").expect("opens");
        assert_eq!(server.caps().rx_depth, 16);
        let (_, client_tx) = halves::<ClientRx, ClientTx>(&client.queues()[0]);
        let (server_rx, _) = halves::<ServerRx, ServerTx>(&server.queues()[0]);
        send(&client_tx, 0, b"after");
        assert_eq!(take(&server_rx, FIRST), b"after");
    });
}

#[test]
fn a_second_client_is_sent_away_with_the_reason() {
    let (client, server) = both("second", "");
    let words = spec(&format!("memif:{},wait_ms=100", socket("second")));
    let error = std::thread::scope(|scope| {
        let second = scope.spawn(|| Memif::open(&words));
        while !second.is_finished() {
            assert!(server.is_connected());
            std::thread::sleep(Duration::from_millis(1));
        }
        second.join().expect("no panic").expect_err("refused")
    });
    assert!(
        error.to_string().contains("has a client already"),
        "{error}"
    );
    assert_eq!(earlier(&server.counters(), "refused clients"), 1);
    assert!(client.is_connected());
}

#[test]
fn a_peer_that_asks_is_interrupted_by_the_service() {
    let (channel, fake) = Socket::pair().expect("pair");
    let plan = RegionPlan {
        to_server: 1,
        to_client: 1,
        depth: 4,
        slot_bytes: 64,
    };
    let region = Arena::shared(plan.bytes() as usize, Location::PageableHost).expect("maps");
    let region = Arc::new(region);
    let queues = Queues::client(&plan, &region).expect("builds");
    let link = Link::new("memif:test");
    let event = eventfd().expect("eventfd");
    let mut peer = event.try_clone().expect("clones");
    link.connected(Channel::new(channel, "memif:test"), &queues, vec![event]);
    let mut service = Watchman(link.clone());
    let mut interrupts = || {
        let mut count = [0; 8];
        peer.read_exact(&mut count)
            .map_or(0, |()| u64::from_ne_bytes(count))
    };
    let (_, transmit) = halves::<ClientRx, ClientTx>(&queues.pairs[0]);
    // The ring starts unmasked: the peer wants interrupts.
    assert_eq!(send(&transmit, 0, b"one"), Trigger::SystemCall);
    assert_eq!(interrupts(), 0, "not by the kernel");
    assert_eq!(service.run(8), 1);
    assert_eq!(interrupts(), 1);
    assert_eq!(service.run(8), 0);
    // The peer masks, and unmasks just after the kernel looked: found at the next look.
    let ring = region
        .whole()
        .address
        .offset(plan.ring_offset(warpwire_ring::memif::RingKind::ClientToServer, 0));
    // SAFETY: the flags of a ring of the test.
    let flags = |value| unsafe { memory::store_release_u16(ring.offset(4), value) };
    flags(1);
    assert_eq!(send(&transmit, 1, b"two"), Trigger::PolledIndex);
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(service.run(8), 0);
    flags(0);
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(service.run(8), 1);
    assert_eq!(interrupts(), 1);
    assert_eq!(link.counts().kicks, 2);
    drop(fake);
}

#[test]
fn waits_end_and_say_what_was_missing() {
    let words = format!("memif:{},wait_ms=30", socket("nobody"));
    let cases = [
        (words.clone(), "start the server"),
        (format!("{words},role=server"), "start the client"),
    ];
    for (words, cure) in cases {
        let error = Memif::open(&spec(&words)).expect_err("nobody there");
        assert!(
            matches!(error, Error::Deadline { limit_ms: 30, .. }),
            "{error}"
        );
        assert!(error.to_string().contains(cure), "{error}");
    }
    // A server that accepts and then says nothing.
    let silent = crate::memif::system::Listener::bind(&socket("silent")).expect("binds");
    let error =
        Memif::open(&spec(&format!("memif:{},wait_ms=30", socket("silent")))).expect_err("silent");
    assert!(error.to_string().contains("waiting for hello"), "{error}");
    drop(silent);
}

#[test]
fn a_wrong_secret_id_or_count_is_refused_by_name_on_both_sides() {
    let cases = [
        (",secret=alpha", ",secret=beta", "secret"),
        ("", ",secret=beta", "secret"),
        (",id=1", ",id=2", "wants interface 1, this is 2"),
        (",queues=2", "", "takes 1 queues at most; write queues=1"),
        ("", ",queues=2", "brought 1 rings"),
    ];
    // Long enough for a machine that has other things to do.
    let case = |number: usize, (client, server, reason): (&str, &str, &str)| {
        let name = socket(&format!("refused{number}"));
        let client = spec(&format!("memif:{name},wait_ms=3000{client}"));
        let server = spec(&format!("memif:{name},role=server,wait_ms=3000{server}"));
        std::thread::scope(|scope| {
            let server = scope.spawn(move || Memif::open(&server));
            let error = Memif::open(&client).expect_err("refused").to_string();
            assert!(error.contains(reason), "{error}");
            let error = server.join().expect("no panic").expect_err("nobody else");
            assert!(matches!(error, Error::Deadline { .. }), "{error}");
        });
    };
    std::thread::scope(|scope| {
        for (number, row) in cases.into_iter().enumerate() {
            scope.spawn(move || case(number, row));
        }
    });
    // A server without a secret takes any.
    let name = socket("any");
    let (client, server) = (
        spec(&format!("memif:{name},secret=alpha")),
        spec(&format!("memif:{name},role=server")),
    );
    std::thread::scope(|scope| {
        let server = scope.spawn(move || Memif::open(&server));
        Memif::open(&client).expect("taken");
        server.join().expect("no panic").expect("takes");
    });
}

#[test]
fn a_server_starts_at_the_indices_that_it_finds() {
    // A client that offered its buffers before the server looked.
    let (client, server) = both("indices", ",depth=4");
    let cursor: RxCursor = warpwire_ring::memif::server_rx_cursor(0);
    assert_eq!(cursor.head, FIRST);
    let (client_rx, _) = halves::<ClientRx, ClientTx>(&client.queues()[0]);
    let (_, server_tx) = halves::<ServerRx, ServerTx>(&server.queues()[0]);
    assert_eq!(server_tx.completions(FIRST - 4), FIRST);
    for lap in 0..6 {
        send(&server_tx, FIRST + lap, &[lap as u8]);
        assert_eq!(take(&client_rx, lap), [lap as u8]);
    }
}

#[test]
fn whoever_opens_can_give_up_before_the_peer_comes() {
    use std::sync::atomic::AtomicBool;
    for role in ["client", "server"] {
        for by_flag in [true, false] {
            let words = format!(
                "memif:@warpwire-patience-{},role={role}",
                std::process::id()
            );
            let spec: NicSpec = format!("{words},wait_ms=20000").parse().expect("words");
            let stop = AtomicBool::new(false);
            let soon = Duration::from_millis(100);
            let began = Instant::now();
            let opened = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(soon);
                    stop.store(by_flag, std::sync::atomic::Ordering::Relaxed);
                });
                let patience = Patience {
                    stop: Some(&stop),
                    until: (!by_flag).then(|| began + soon),
                };
                Memif::open_within(&spec, patience)
            });
            let error = opened.expect_err("nobody is there");
            assert!(matches!(error, Error::Stopped { .. }), "{role}: {error}");
            let took = began.elapsed();
            assert!(took >= soon && took < Duration::from_secs(5), "{took:?}");
        }
    }
}
