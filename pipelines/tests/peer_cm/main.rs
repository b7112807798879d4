//! Connections and datagram services by RDMA-CM between two devices of ours, over a veth pair
//! between two namespaces. Needs root. Against Linux's rdma_cm: `cargo xtask interop roce`.

mod datagrams;
mod ends;

use std::time::Duration;

use ends::{Ends, hear, resident_bytes, say};
use warpwire_pipelines::connect::Error;
use warpwire_pipelines::connect::cm::{Manager, Offer};
use warpwire_pipelines::messaging::{self, Device, Pair, PairConfig};
use warpwire_protocols::cm::Cause;
use warpwire_protocols::rdma::Service;
use warpwire_protocols::wire::cm::rej::Reason;

const PORT: u16 = 7471;
const LIMIT: Duration = Duration::from_secs(20);

fn pair(device: &Device) -> Pair {
    let config = PairConfig::default();
    device
        .endpoint()
        .pair(config)
        .expect("a queue pair is free")
}

/// Private data of a request and of its answer, as long as they may be.
fn offer(byte: u8, length: usize) -> Offer {
    Offer {
        private: vec![byte; length],
        ..Offer::default()
    }
}

#[test]
fn connections_come_and_go() {
    let Some(ends) = Ends::set_up("go") else {
        return;
    };
    const COUNT: u32 = 500;
    for (client, server) in [("10.78.0.1", "10.78.0.2"), ("fd78::1", "fd78::2")] {
        ends.run(
            (client, |device: &Device| {
                let manager = Manager::start(device).expect("starts");
                let mut before = 0;
                for number in 0..COUNT {
                    let mut pair = pair(device);
                    let to = (server.parse::<std::net::IpAddr>().expect("is one"), PORT).into();
                    let offer = offer(number as u8, 56);
                    let connection = manager.connect(device, &mut pair, to, &offer, LIMIT);
                    let connection = connection.unwrap_or_else(|error| panic!("{number}: {error}"));
                    assert_eq!(connection.private().first(), Some(&(number as u8 ^ 0xff)));
                    say(&mut pair, device, number);
                    let cause = connection.disconnect(LIMIT).expect("ends");
                    assert_eq!(cause, Cause::Left { is_heard: true }, "{number}");
                    pair.close().expect("is given back");
                    if number == COUNT / 4 {
                        before = resident_bytes();
                    }
                }
                let grown = resident_bytes().saturating_sub(before);
                assert!(
                    grown < 4 << 20,
                    "{grown} bytes more after {COUNT} connections"
                );
            }),
            (server, |device: &Device| {
                let manager = Manager::start(device).expect("starts");
                let listener = manager.listen(PORT).expect("listens");
                ends.is_listening();
                for number in 0..COUNT {
                    let call = listener.accept(LIMIT).expect("somebody asks");
                    assert_eq!(call.private(), [number as u8; 56]);
                    let mut pair = pair(device);
                    ends::post(&mut pair, device);
                    let offer = offer(number as u8 ^ 0xff, 196);
                    let connection = call.accept(device, &mut pair, &offer, LIMIT);
                    let mut connection = connection.expect("is agreed");
                    assert_eq!(hear(&mut pair, device), number);
                    let cause = connection.wait_end(LIMIT).expect("ends");
                    assert_eq!(cause, Cause::PeerLeft);
                    drop(pair);
                }
                ends.is_over();
            }),
        );
    }
}

#[test]
fn who_says_something_and_leaves_is_heard_although_words_are_lost() {
    let Some(ends) = Ends::set_up("loss") else {
        return;
    };
    const COUNT: u32 = 40;
    let ends = ends.over("soft,uplink=xdp:ww,seed=5,loss_ppm=50000,duplicate_ppm=50000");
    ends.run(
        ("10.78.0.1", |device: &Device| {
            let manager = Manager::start(device).expect("starts");
            for number in 0..COUNT {
                let mut pair = pair(device);
                let to = (
                    "10.78.0.2".parse::<std::net::IpAddr>().expect("is one"),
                    PORT,
                )
                    .into();
                let connection = manager.connect(device, &mut pair, to, &offer(1, 4), LIMIT);
                let connection = connection.unwrap_or_else(|error| panic!("{number}: {error}"));
                say(&mut pair, device, number);
                // At once: the server may not know yet that the client was ready.
                let cause = connection.disconnect(LIMIT).expect("ends");
                assert!(matches!(cause, Cause::Left { .. }), "{number}: {cause}");
            }
        }),
        ("10.78.0.2", |device: &Device| {
            let manager = Manager::start(device).expect("starts");
            let listener = manager.listen(PORT).expect("listens");
            ends.is_listening();
            for number in 0..COUNT {
                let call = listener.accept(LIMIT).expect("somebody asks");
                let mut pair = pair(device);
                ends::post(&mut pair, device);
                let connection = call.accept(device, &mut pair, &offer(2, 4), LIMIT);
                let mut connection = connection.unwrap_or_else(|error| panic!("{number}: {error}"));
                assert_eq!(hear(&mut pair, device), number);
                let cause = connection.wait_end(LIMIT).expect("ends");
                assert_eq!(cause, Cause::PeerLeft, "{number}");
            }
            ends.is_over();
        }),
    );
}

/// How a refused request ended: the peer's reason and its first bytes.
fn rejected(outcome: Result<(), Error>) -> (Reason, [u8; 4]) {
    let error = outcome.expect_err("is refused");
    let text = error.to_string();
    let Error::Ended { cause, .. } = error else {
        panic!("{text}");
    };
    let Cause::Rejected { reason, private } = *cause else {
        panic!("{text}");
    };
    (reason, private[..4].try_into().expect("four bytes"))
}

#[test]
fn refusals_say_why() {
    let Some(ends) = Ends::set_up("no") else {
        return;
    };
    ends.run(
        ("10.78.0.1", |device: &Device| {
            let manager = Manager::start(device).expect("starts");
            assert!(matches!(
                Manager::start(device),
                Err(Error::Messaging(messaging::Error::Management))
            ));
            let mut pair = pair(device);
            let mut ask = |port: u16, service: Service| {
                let to = (std::net::Ipv4Addr::new(10, 78, 0, 2), port).into();
                let offer = Offer {
                    service,
                    ..Offer::default()
                };
                let asked = manager.connect(device, &mut pair, to, &offer, LIMIT);
                rejected(asked.map(drop))
            };
            let none = [0; 4];
            assert_eq!(
                ask(PORT + 1, Service::Rc),
                (Reason::INVALID_SERVICE_ID, none)
            );
            assert_eq!(ask(PORT, Service::Rc), (Reason::CONSUMER, *b"busy"));
            // Dropped, offered otherwise, and nobody there any more.
            assert_eq!(ask(PORT, Service::Rc), (Reason::CONSUMER, none));
            assert_eq!(ask(PORT, Service::Uc), (Reason::INVALID_TRANSPORT, none));
            assert_eq!(ask(PORT, Service::Rc), (Reason::CONSUMER, none));
            assert_eq!(ask(PORT, Service::Rc), (Reason::INVALID_SERVICE_ID, none));
        }),
        ("10.78.0.2", |device: &Device| {
            let manager = Manager::start(device).expect("starts");
            let listener = manager.listen(PORT).expect("listens");
            assert!(matches!(
                manager.listen(PORT),
                Err(Error::PortTaken { port: PORT })
            ));
            let waited = listener.accept(Duration::from_millis(1));
            assert!(matches!(waited.map(drop), Err(Error::NoCall { .. })));
            ends.is_listening();
            let next = || listener.accept(LIMIT).expect("somebody asks");
            next().reject(Reason::CONSUMER, b"busy").expect("is said");
            drop(next());
            let mut pair = pair(device);
            let accepted = next().accept(device, &mut pair, &Offer::default(), LIMIT);
            let text = accepted
                .map(drop)
                .expect_err("is another service")
                .to_string();
            assert!(text.contains("service"), "{text}");
            // One waits while the listener goes.
            std::thread::sleep(Duration::from_millis(300));
            drop(listener);
            ends.is_over();
        }),
    );
}
