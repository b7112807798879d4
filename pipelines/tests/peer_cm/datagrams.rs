//! Datagram services: the queue pair is asked for, and takes what is sent there.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::ends::Ends;
use crate::{LIMIT, PORT, pair};
use warpwire_pipelines::connect::Error;
use warpwire_pipelines::connect::cm::{
    DatagramCall, DatagramListener, Inquiry, Manager, Service, take_datagrams,
};
use warpwire_pipelines::messaging::{Completed, Device, Pair, Work};
use warpwire_protocols::cm::{Cause, Misuse};
use warpwire_protocols::rdma::ROUTE_HEADER_BYTES;
use warpwire_protocols::wire::cm::DATAGRAM_QKEY;
use warpwire_protocols::wire::cm::sidr_rep::Status;
use warpwire_protocols::wire::{Gid, Qpn};
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Order, Payload};

/// A queue pair that takes datagrams with a key.
fn datagrams(device: &Device, peer: &str, qkey: u32) -> Pair {
    let mut pair = pair(device);
    let peer = Gid::of(peer.parse().expect("is one"));
    take_datagrams(device, &mut pair, peer, qkey).expect("is ready");
    pair
}

fn next(listener: &DatagramListener) -> DatagramCall {
    listener.accept(LIMIT).expect("somebody asks")
}

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse::<IpAddr>().expect("is one"), port)
}

fn service(pair: &Pair, qkey: u32, private: &[u8]) -> Service {
    Service {
        qp: Qpn::new(pair.number()),
        qkey,
        private: private.to_vec(),
    }
}

/// Asks, and sends a number to whom was found.
fn call(device: &Device, manager: &Manager, own: &mut Pair, to: SocketAddr, number: u32) {
    let inquiry = Inquiry {
        private: vec![number as u8; 180],
        ..Inquiry::default()
    };
    let found = manager.resolve(device, to, &inquiry, LIMIT);
    let found = found.unwrap_or_else(|error| panic!("{number}: {error}"));
    assert_eq!(found.private, [number as u8 ^ 0xff; 136]);
    assert_eq!((found.gid, found.qkey), (Gid::of(to.ip()), QKEY ^ number));
    let (own_qp, qp) = (own.number(), found.qp.value());
    let path = device.path(&found.gid.0, own_qp, qp, 0).expect("a way");
    let order = Order {
        immediate: number,
        datagram: Some(path.datagram(qp, found.qkey, found.gid.0)),
        ..Order::new(Opcode::SEND_IMM)
    };
    let payload = Payload::Inline(b"datagram");
    own.post(&[Work { order, payload }]).expect("is posted");
    let completed = own.wait(LIMIT).expect("completes");
    assert!(matches!(completed, Completed::Sent { .. }), "{completed:?}");
}

#[test]
fn a_service_is_found_and_taken_to() {
    let Some(ends) = Ends::set_up("ud") else {
        return;
    };
    const COUNT: u32 = 100;
    for (client, server) in [("10.78.0.1", "10.78.0.2"), ("fd78::1", "fd78::2")] {
        ends.run(
            (client, |device: &Device| {
                let manager = Manager::start(device).expect("starts");
                let mut own = datagrams(device, server, DATAGRAM_QKEY);
                for number in 0..COUNT {
                    call(device, &manager, &mut own, at(server, PORT), number);
                }
            }),
            (server, |device: &Device| {
                let manager = Manager::start(device).expect("starts");
                let listener = manager.listen_datagrams(PORT).expect("listens");
                // Connections have ports of their own.
                let other = manager.listen(PORT).expect("listens");
                ends.is_listening();
                for number in 0..COUNT {
                    let call = next(&listener);
                    assert_eq!(call.peer(), client.parse().ok());
                    assert_eq!(call.private(), [number as u8; 180]);
                    let mut pair = datagrams(device, client, QKEY ^ number);
                    let room = ROUTE_HEADER_BYTES + 8;
                    pair.receive(&[device.region().gather(0, room)])
                        .expect("is posted");
                    let service = service(&pair, QKEY ^ number, &[number as u8 ^ 0xff; 136]);
                    call.accept(&service).expect("is said");
                    match pair.wait(LIMIT).expect("completes") {
                        Completed::Received(message) => {
                            assert_eq!(message.immediate, Some(number));
                            assert_eq!(message.length, room);
                        }
                        other => panic!("{number}: {other:?}"),
                    }
                }
                drop(other);
                ends.is_over();
            }),
        );
    }
}

/// How a question was refused.
fn refused<T>(outcome: Result<T, Error>) -> Status {
    let error = outcome.err().expect("is refused");
    let text = error.to_string();
    let Error::Ended { cause, .. } = error else {
        panic!("{text}");
    };
    let Cause::Refused(status) = *cause else {
        panic!("{text}");
    };
    status
}

#[test]
fn refusals_and_silence_have_names() {
    let Some(ends) = Ends::set_up("udno") else {
        return;
    };
    ends.run(
        ("10.78.0.1", |device: &Device| {
            let manager = Manager::start(device).expect("starts");
            let ask = |port: u16, limit: Duration| {
                let to = at("10.78.0.2", port);
                manager.resolve(device, to, &Inquiry::default(), limit)
            };
            let nobody = ask(PORT + 1, LIMIT).expect_err("is refused");
            assert!(nobody.is_unheard(), "{nobody}");
            assert!(nobody.to_string().contains("start the server"), "{nobody}");
            assert_eq!(refused(ask(PORT, LIMIT)), Status::NO_QUEUE_PAIR);
            // Dropped; an answer that could not be said.
            assert_eq!(refused(ask(PORT, LIMIT)), Status::REJECTED);
            assert_eq!(refused(ask(PORT, LIMIT)), Status::REJECTED);
            // The server takes its time, and we have none.
            let started = Instant::now();
            let late = ask(PORT, Duration::from_millis(300)).err();
            assert!(matches!(late, Some(Error::Late { .. })), "{late:?}");
            assert!(started.elapsed() < Duration::from_secs(5));
            assert_eq!(refused(ask(PORT, LIMIT)), Status::UNSUPPORTED_VERSION);
            // The listener goes while we wait.
            assert_eq!(refused(ask(PORT, LIMIT)), Status::REJECTED);
            assert_eq!(refused(ask(PORT, LIMIT)), Status::UNSUPPORTED_SERVICE);
            let long = Inquiry {
                private: vec![0; 181],
                ..Inquiry::default()
            };
            let outcome = manager.resolve(device, at("10.78.0.2", PORT), &long, LIMIT);
            assert!(matches!(outcome, Err(Error::Misuse(Misuse::PrivateData))));
        }),
        ("10.78.0.2", |device: &Device| {
            let manager = Manager::start(device).expect("starts");
            let listener = manager.listen_datagrams(PORT).expect("listens");
            let taken = manager.listen_datagrams(PORT).err();
            assert!(matches!(taken, Some(Error::PortTaken { port: PORT })));
            let waited = listener.accept(Duration::from_millis(1)).err();
            assert!(matches!(waited, Some(Error::NoQuestion { .. })));
            ends.is_listening();
            let call = next(&listener);
            call.reject(Status::NO_QUEUE_PAIR, b"later")
                .expect("is said");
            drop(next(&listener));
            let pair = pair(device);
            let misuse = next(&listener).accept(&service(&pair, QKEY, &[0; 137]));
            assert!(matches!(misuse, Err(Error::Misuse(Misuse::PrivateData))));
            let slow = next(&listener);
            let call = next(&listener);
            slow.accept(&service(&pair, QKEY, &[]))
                .expect("is said, to nobody");
            call.reject(Status::UNSUPPORTED_VERSION, &[])
                .expect("is said");
            // One waits while the listener goes.
            std::thread::sleep(Duration::from_millis(300));
            drop(listener);
            ends.is_over();
        }),
    );
}

#[test]
fn a_service_is_found_although_datagrams_are_lost_and_doubled() {
    let Some(ends) = Ends::set_up("udloss") else {
        return;
    };
    const COUNT: u32 = 8;
    let nic = "soft,uplink=xdp:ww,seed=11,loss_ppm=200000,duplicate_ppm=300000";
    let ends = ends.over(nic);
    ends.run(
        ("10.78.0.1", |device: &Device| {
            let manager = Manager::start(device).expect("starts");
            for number in 0..COUNT {
                let to = at("10.78.0.2", PORT);
                let found = manager.resolve(device, to, &Inquiry::default(), LIMIT);
                let found = found.unwrap_or_else(|error| panic!("{number}: {error}"));
                assert_eq!(found.qkey, number);
            }
            let counters = device.nic_counters();
            let all = counters.drops.iter().chain(&counters.other);
            let lost = all.filter(|(name, _)| *name == "lost on the link");
            assert!(
                lost.map(|(_, count)| count).sum::<u64>() > 0,
                "{counters:?}"
            );
        }),
        ("10.78.0.2", |device: &Device| {
            let manager = Manager::start(device).expect("starts");
            let listener = manager.listen_datagrams(PORT).expect("listens");
            ends.is_listening();
            let pair = pair(device);
            for number in 0..COUNT {
                // Each is told once, however often it came.
                let service = service(&pair, number, &[]);
                next(&listener).accept(&service).expect("is said");
            }
            ends.is_over();
            let more = listener.accept(Duration::ZERO).err();
            assert!(matches!(more, Some(Error::NoQuestion { .. })));
        }),
    );
}

const QKEY: u32 = 0x1234_0000;
