//! A flood of SYNs from everywhere: what is kept does not grow, streams go on, and whoever means it
//! still gets in.

use std::net::{IpAddr, Ipv4Addr};

use warpwire_protocols::tcp::{
    Answer, Config, Connection, Initial, Listener, Secret, Segment, State, Tuple,
};
use warpwire_protocols::wire::tcp::{TcpFlags, TcpSequence};
use warpwire_protocols::wire::tcp_option::{Options, Timestamps};

use super::Dice;
use crate::end::End;

const FLOOD: u32 = 1_000_000;
const BACKLOG: u32 = 64;
const SECRET: Secret = Secret([11, 13]);

fn tuple(dice: &mut Dice) -> Tuple {
    let here = IpAddr::V4(Ipv4Addr::new(10, 7, 0, 2));
    let there = IpAddr::V4(Ipv4Addr::from(dice.next() as u32));
    Tuple::new(here, 80, there, dice.next() as u16)
}

fn syn(dice: &mut Dice) -> Segment {
    let timestamps = dice.happens(5000).then(|| Timestamps {
        value: dice.next() as u32,
        echo: 0,
    });
    Segment {
        sequence: TcpSequence(dice.next() as u32),
        flags: TcpFlags::SYN,
        window: 65_535,
        options: Options {
            maximum_segment_size: Some(1460),
            sack_permitted: true,
            timestamps,
            ..Options::default()
        },
        ..Segment::default()
    }
}

/// The acknowledgement that ends a handshake, with some data.
fn data(syn: &Segment, ours: TcpSequence, stamp: Option<u32>, length: u32) -> Segment {
    Segment {
        sequence: syn.sequence.wrapping_add(1),
        acknowledgement: ours.wrapping_add(1),
        flags: TcpFlags::ACK,
        window: 65_535,
        options: Options {
            timestamps: syn.options.timestamps.map(|stamps| Timestamps {
                value: stamps.value,
                echo: stamp.unwrap_or(0),
            }),
            ..Options::default()
        },
        length,
        ..Segment::default()
    }
}

#[test]
fn a_million_syns_cost_a_backlog_and_nobody_else() {
    let config = Config::of_mtu(1500, false);
    let mut dice = Dice::new(17);
    let mut now_ns = 1_000_000_000;
    // A connection from before the flood.
    let (peer, plain) = (
        tuple(&mut dice),
        Segment {
            options: Options::default(),
            ..syn(&mut dice)
        },
    );
    let initial = Initial::new(&SECRET, &peer, now_ns);
    let mut end = End::new(Connection::answer(&config, initial, &plain, now_ns), config);
    end.hear(&plain);
    while end.poll(now_ns, 0).is_some() {}
    let mut next = data(&plain, initial.sequence, None, 1000);
    let mut listener = Listener::new(SECRET, BACKLOG);
    let (mut kept, mut let_in) = (0, 0);
    for number in 0..FLOOD {
        // A million a second.
        now_ns += 1000;
        let (stranger, syn) = (tuple(&mut dice), syn(&mut dice));
        match listener.on_segment(now_ns, &stranger, &syn, &config) {
            Answer::Connection(_) => kept += 1,
            Answer::Cookie(out) if number % 1000 == 0 => {
                let stamp = out.options.timestamps.map(|stamps| stamps.value);
                let ack = data(&syn, out.sequence, stamp, 100);
                let answer = listener.on_segment(now_ns + 1, &stranger, &ack, &config);
                let Answer::Established(known) = answer else {
                    panic!("{answer:?} to a cookie that came back");
                };
                let mut connection = Connection::established(&config, &known, now_ns);
                let delivery = connection.on_segment(now_ns, &ack, &config);
                assert_eq!(connection.state(), State::Established);
                assert_eq!(delivery.readable, 100);
                let_in += 1;
            }
            Answer::Cookie(_) => {}
            answer => panic!("{answer:?} to a SYN"),
        }
        if number % 1000 == 0 {
            let delivery = end.take(now_ns, &next, &[b'x'; 1000]);
            assert_eq!(delivery.readable, 1000);
            next.sequence = next.sequence.wrapping_add(1000);
            end.read(1000);
            while end.poll(now_ns, 0).is_some() {}
        }
        assert!(listener.embryonic() <= BACKLOG);
    }
    assert_eq!((kept, listener.embryonic()), (BACKLOG, BACKLOG));
    assert!(let_in > 900, "{let_in} got in");
    assert_eq!(end.connection.state(), State::Established);
}
