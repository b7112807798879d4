//! Next hops that get another Ethernet address while connections are open.

use warpwire_engine::streams::tables::{Command, MOVED};
use warpwire_engine::tables::Path;

use crate::ends::Plan;
use crate::net::Net;
use crate::wires::{Client, Memif, Wire};

const OTHER: [u8; 6] = [2, 7, 7, 7, 7, 7];

fn connected(is_on_link: u32) -> (Net<Memif<Client>>, [u32; 2]) {
    let mut net = Net::new(&Plan::default(), 1, false);
    net.ends[0].is_on_link = is_on_link;
    net.ends[1].listen(&net.clock, 0, 80, 4);
    let places = net.connected(1000);
    net.pass(1);
    (net, places)
}

/// Whom an end addresses when it sends something new.
fn addressee(net: &mut Net<Memif<Client>>, end: usize, place: u32) -> Vec<u8> {
    net.pass(1);
    net.log.clear();
    net.ends[end].write(place, b"news");
    net.turn();
    let mut sent = net.log.iter().filter(|(from, _)| *from == end);
    let (_, frame) = sent.next().expect("is sent at once");
    frame[..6].to_vec()
}

#[test]
fn the_host_says_where_a_next_hop_is_now() {
    let (mut net, places) = connected(0);
    let (before, peer) = (net.ends[1].mac, net.ends[1].address.words);
    let moved = |mac, remote, ip_version| Command {
        kind: MOVED,
        path: Path {
            next_hop: OTHER,
            mac,
            remote,
            ip_version,
            ..Path::default()
        },
        ..Command::default()
    };
    for (command, want) in [
        (moved(OTHER, [0; 4], 4), before),
        (moved(before, [9, 0, 0, 0], 4), before),
        (moved(before, [0; 4], 6), before),
        (moved(before, peer, 4), OTHER),
    ] {
        assert_eq!(net.ends[0].command(&net.clock, command).outcome, 0);
        assert_eq!(addressee(&mut net, 0, places[0]), want, "{command:?}");
    }
    assert_eq!(net.ends[0].counters().moved, 1);
}

#[test]
fn who_is_on_the_link_is_followed() {
    // (the opener takes its peer to be on the link, the end that hears, whether it follows)
    for (is_on_link, end, follows) in [(0, 1, true), (0, 0, false), (1, 0, true)] {
        let (mut net, places) = connected(is_on_link);
        let before = net.ends[1 - end].mac;
        assert_eq!(
            addressee(&mut net, 1 - end, places[1 - end]),
            net.ends[end].mac
        );
        net.pass(1);
        // A segment that is not in the window changes nothing.
        let (_, frame) = net
            .log
            .iter()
            .find(|(from, _)| *from == 1 - end)
            .expect("sent");
        let mut frame = frame.clone();
        frame[6..12].copy_from_slice(&OTHER);
        assert!(net.ends[end].wire.deliver(&frame));
        net.turn();
        assert_eq!(addressee(&mut net, end, places[end]), before);
        // The next one is.
        net.pass(1);
        net.ends[1 - end].write(places[1 - end], b"more");
        net.ends[1 - end].run(&net.clock, 1);
        let mut frame = net.ends[1 - end].wire.take().expect("is sent");
        net.ends[1 - end].wire.complete();
        frame[6..12].copy_from_slice(&OTHER);
        assert!(net.ends[end].wire.deliver(&frame));
        net.turn();
        let want = if follows { OTHER } else { before };
        assert_eq!(addressee(&mut net, end, places[end]), want);
        assert_eq!(net.ends[end].counters().moved, u64::from(follows));
    }
}
