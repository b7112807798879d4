//! Many connections, too many, and shares.

use std::mem::offset_of;

use warpwire_engine::streams::tables::{
    ABORT, BUSY, CLOSE, CLOSED, CONNECTED, Command, Figures, LISTEN, NO_CHUNK, NO_PLACE,
    PEER_CLOSED, RELEASE, StreamWords, UNKNOWN, UNLISTEN, UNREACHABLE, WRONG,
};
use warpwire_engine::tables::Path;
use warpwire_protocols::tcp::{Cause, Config};

use crate::ends::{End, Plan};
use crate::exact::{Talk, bytes};
use crate::net::Net;
use crate::wires::{Client, Memif, Wire};

type Memory = Memif<Client>;

fn plan(places: u32, chunks: u32) -> Plan {
    let config = Config {
        receive_bytes: 4096,
        send_bytes: 4096,
        ..Plan::default().config
    };
    Plan {
        places,
        chunks,
        chunk_bytes: 4096,
        accepts: places.next_power_of_two(),
        config,
        ..Plan::default()
    }
}

/// Opens connections until there are so many, without waiting for each.
fn open(net: &mut Net<Memory>, count: u32) -> [Vec<u32>; 2] {
    let mut places = [Vec::new(), Vec::new()];
    for number in 0..count {
        let path = net.ends[0].path_to(&net.ends[1], 10_000 + number as u16);
        let answer = net.ends[0].connect(&net.clock, path, 80);
        assert_eq!(answer.outcome, 0);
        places[0].push(answer.place);
        net.turn();
    }
    let accepted = &mut places[1];
    net.until(60, |ends| {
        accepted.extend(std::iter::from_fn(|| ends[1].accept(0)));
        accepted.len() == count as usize
    });
    places
}

#[test]
fn figures_tell_of_silence_and_what_is_asked_for() {
    let mut net = Net::<Memory>::new(&plan(4, 8), 1, false);
    net.ends[1].listen(&net.clock, 0, 80, 4);
    let [places, _] = open(&mut net, 1);
    let place = places[0];
    let figure = |ends: &[End<Memory>; 2], offset| {
        ends[0].word(place, offset_of!(StreamWords, figures) + offset)
    };
    // All is acknowledged at once, sooner than figures are told again for news alone.
    net.ends[0].write(place, b"a word");
    net.until(1, |ends| {
        ends[0].word(place, offset_of!(StreamWords, freed)) == 6
    });
    (0..100).for_each(|_| net.turn());
    net.ends[0].wish(place, 0);
    net.turn();
    assert_eq!(figure(&net.ends, offset_of!(Figures, in_flight)), 0);
    assert!(figure(&net.ends, offset_of!(Figures, srtt_us)) > 0);
    // Nobody answers and nobody asks.
    net.faults.loss = 1000;
    net.ends[0].write(place, b"another");
    net.until(5, |ends| {
        figure(ends, offset_of!(Figures, timeouts)) > 1
            && figure(ends, offset_of!(Figures, retransmits)) > 1
    });
    assert_eq!(figure(&net.ends, offset_of!(Figures, in_flight)), 7);
}

#[test]
fn a_thousand_at_once() {
    let plan = plan(1000, 2000);
    thousand(plan);
}

#[test]
fn a_thousand_at_once_of_several_warps() {
    // Each engine has places for all, as how many come to it is chance.
    let plan = Plan {
        warps: 4,
        ..plan(1000, 2000)
    };
    thousand(plan);
}

fn thousand(plan: Plan) {
    let mut net = Net::<Memory>::new(&plan, 1, false);
    net.ends[1].listen(&net.clock, 0, 80, 1000);
    let places = open(&mut net, 1000);
    if plan.warps == 1 {
        let path = net.ends[0].path_to(&net.ends[1], 9_999);
        assert_eq!(net.ends[0].connect(&net.clock, path, 80).outcome, NO_CHUNK);
    }
    let mut talks = [0, 1].map(|end| {
        let talk = |place: &u32| Talk::new(*place, bytes(*place * 2 + end as u32, 10_000));
        places[end].iter().map(talk).collect::<Vec<_>>()
    });
    net.until(600, |ends| {
        let mut done = true;
        for (end, talks) in ends.iter_mut().zip(&mut talks) {
            end.news();
            for talk in talks {
                done &= talk.step(end, 2000);
            }
        }
        done
    });
    let [ones, others] = &talks;
    for one in ones {
        let mine = others.iter().filter(|other| other.read == one.to_write);
        assert_eq!(mine.count(), 1, "each is somebody's");
    }
    for (end, places) in net.ends.iter_mut().zip(&places) {
        places.iter().for_each(|place| end.wish(*place, RELEASE));
    }
    net.check_ends(&plan);
    assert_eq!(net.ends[1].counters().failed, 0);
}

#[test]
fn places_and_ends_are_refused_by_name() {
    let plan = plan(3, 8);
    let mut net = Net::<Memory>::new(&plan, 1, false);
    let path = |net: &Net<Memory>, port| net.ends[0].path_to(&net.ends[1], port);
    let clock = &net.clock;
    let (one, port) = (path(&net, 1000), 80);
    let foreign = Path {
        local: [1, 0, 0, 0],
        ..one
    };
    let nowhere = Path {
        source_port: 0,
        ..one
    };
    for (path, port, want) in [
        (one, port, 0),
        (one, port, BUSY),
        (one, 0, WRONG),
        (one, 65_536, WRONG),
        (foreign, port, WRONG),
        (nowhere, port, WRONG),
        (one, 81, 0),
        (one, 82, 0),
        (one, 83, NO_PLACE),
    ] {
        let found = net.ends[0].connect(clock, path, port).outcome;
        assert_eq!(found, want, "{path:?} {port}");
    }
    let command = |kind, listener, port, config| Command {
        kind,
        listener,
        port,
        config,
        path: one,
        ..Command::default()
    };
    for (command, want) in [
        (command(LISTEN, 0, 80, 0), 0),
        (command(LISTEN, 0, 80, 0), 0),
        (command(LISTEN, 1, 80, 0), BUSY),
        (command(LISTEN, 1, 81, 1), WRONG),
        (command(LISTEN, 2, 81, 0), WRONG),
        (command(LISTEN, 1, 0, 0), WRONG),
        (command(UNLISTEN, 2, 0, 0), WRONG),
        (command(UNLISTEN, 0, 0, 0), 0),
        (command(UNREACHABLE, 0, 99, 0), UNKNOWN),
        (command(99, 0, 0, 0), WRONG),
    ] {
        assert_eq!(
            net.ends[0].command(clock, command).outcome,
            want,
            "{command:?}"
        );
    }
    net.ends[0].check_untouched();
}

/// What a second connection meets where everything is for one.
fn crowded(plan: Plan, backlog: u32) -> Net<Memory> {
    let mut net = Net::<Memory>::new(&plan, 1, false);
    net.ends[1].listen(&net.clock, 0, 80, backlog);
    let mut places = Vec::new();
    for number in 0..2 {
        let path = net.ends[0].path_to(&net.ends[1], 1000 + number);
        places.push(net.ends[0].connect(&net.clock, path, 80).place);
        net.pass(1);
    }
    assert_ne!(net.ends[0].flags(places[0]) & CONNECTED, 0);
    assert_eq!(net.ends[0].flags(places[1]) & CONNECTED, 0);
    // As soon as there is room, the peer's repetition finds it.
    let first = net.ends[1].accept(0).expect("there is one");
    net.ends[1].wish(first, ABORT | RELEASE);
    net.until(30, |ends| ends[0].flags(places[1]) & CONNECTED != 0);
    net.until(30, |ends| ends[1].accept(0).is_some());
    net
}

#[test]
fn a_full_ring_of_accepted_ones() {
    let net = crowded(
        Plan {
            accepts: 1,
            ..plan(8, 16)
        },
        4,
    );
    assert!(net.ends[1].counters().accept_full > 0);
}

#[test]
fn all_places_taken() {
    // The first end has as few places, and needs two.
    let mut few = Plan {
        accepts: 4,
        ..plan(2, 16)
    };
    few.chunks = 3;
    let mut net = Net::<Memory>::new(&Plan { chunks: 8, ..few }, 1, false);
    net.ends[1] = End::new(&few, 2, false);
    net.ends[1].listen(&net.clock, 0, 80, 4);
    let places = [1000, 1001].map(|port| {
        let path = net.ends[0].path_to(&net.ends[1], port);
        let place = net.ends[0].connect(&net.clock, path, 80).place;
        net.pass(1);
        place
    });
    assert_eq!(net.ends[0].flags(places[1]) & CONNECTED, 0);
    assert!(net.ends[1].counters().no_chunk > 0);
    let first = net.ends[1].accept(0).expect("there is one");
    net.ends[1].wish(first, CLOSE | RELEASE);
    net.until(5, |ends| ends[0].flags(places[0]) & PEER_CLOSED != 0);
    net.ends[0].wish(places[0], CLOSE | RELEASE);
    // TIME-WAIT of the first holds no memory, but a place.
    net.until(30, |ends| ends[0].flags(places[1]) & CONNECTED != 0);
    net.ends[1].check_untouched();
}

/// Whoever closes first lingers in TIME-WAIT, and gives way if places are needed.
#[test]
fn who_lingers_gives_way() {
    let mut plan = plan(3, 8);
    plan.config.time_wait_ns = 1_000_000_000_000;
    let mut net = Net::<Memory>::new(&plan, 1, false);
    net.ends[1].listen(&net.clock, 0, 80, 4);
    let held = net.connected(999);
    for number in 0..10 {
        let places = net.connected(1000 + number);
        net.ends[0].wish(places[0], CLOSE | RELEASE);
        net.until(5, |ends| ends[1].flags(places[1]) & PEER_CLOSED != 0);
        net.ends[1].wish(places[1], CLOSE | RELEASE);
        net.until(5, |ends| ends[1].free().0 == plan.places - 1);
    }
    assert_eq!(net.ends[0].counters().displaced, 8);
    assert_eq!(net.ends[0].free().1, plan.chunks - 2);
    // One that is held does not go.
    net.ends[0].write(held[0], b"still");
    net.until(5, |ends| ends[1].read(held[1], 100) == b"still");
    net.ends.iter().for_each(|end| end.check_untouched());
}

/// A SYN from the same end as a connection that lingers begins another one.
#[test]
fn the_same_end_comes_again() {
    for is_held in [false, true] {
        let plan = Plan::default();
        let mut net = Net::<Memory>::new(&plan, 1, false);
        net.ends[1].listen(&net.clock, 0, 80, 4);
        let places = net.connected(1000);
        net.ends[1].wish(places[1], CLOSE);
        if !is_held {
            net.ends[1].wish(places[1], RELEASE);
        }
        net.until(5, |ends| ends[0].flags(places[0]) & PEER_CLOSED != 0);
        net.ends[0].wish(places[0], CLOSE | RELEASE);
        net.until(5, |ends| ends[0].free().0 == plan.places);
        assert_eq!(net.ends[1].free().0, plan.places - 1);
        let again = net.connected(1000);
        assert_eq!(again[1] == places[1], !is_held);
        net.ends[0].write(again[0], b"again");
        net.until(5, |ends| ends[1].read(again[1], 100) == b"again");
        if is_held {
            assert_eq!(net.ends[1].cause(places[1]), Cause::Finished as u32 + 1);
            net.ends[1].wish(places[1], RELEASE);
        }
        (0..2).for_each(|end| net.ends[end].wish(again[end], CLOSE | RELEASE));
        net.check_ends(&plan);
    }
}

/// What ICMP says is believed of segments that are under way.
#[test]
fn the_network_has_its_say() {
    let plan = Plan::default();
    let mut net = Net::<Memory>::new(&plan, 1, false);
    let path = net.ends[0].path_to(&net.ends[1], 1000);
    let place = net.ends[0].connect(&net.clock, path, 80).place;
    net.ends[0].run(&net.clock, 1);
    let syn = net.ends[0].wire.take().expect("was sent");
    let sequence = u32::from_be_bytes(syn[38..42].try_into().expect("four"));
    let said = |kind, sequence| Command {
        kind,
        sequence,
        port: 80,
        path,
        mtu: 700,
        ..Command::default()
    };
    let clock = &net.clock;
    for (command, closes) in [
        (said(UNREACHABLE, sequence.wrapping_add(7)), false),
        (said(UNREACHABLE, sequence), true),
    ] {
        assert_eq!(net.ends[0].command(clock, command).outcome, 0);
        net.ends[0].run(clock, 1);
        let is_closed = net.ends[0].flags(place) & CLOSED != 0;
        assert_eq!(is_closed, closes);
    }
    assert_eq!(net.ends[0].cause(place), Cause::Unreachable as u32 + 1);
    net.ends[0].wish(place, RELEASE);
    net.check_ends(&plan);
}

#[test]
fn a_full_backlog_bakes_cookies() {
    for backlog in [0, 1] {
        let plan = plan(8, 16);
        let mut net = Net::<Memory>::new(&plan, 1, false);
        net.ends[1].listen(&net.clock, 0, 80, backlog);
        // A handshake that nobody ends takes the backlog.
        let nobody = Path {
            mac: [2, 9, 9, 9, 9, 9],
            ..net.ends[0].path_to(&net.ends[1], 999)
        };
        net.ends[0].connect(&net.clock, nobody, 80);
        net.turn();
        net.lanes[0].clear();
        let places = open(&mut net, 3);
        net.pass(3);
        let cookies = net.ends[1].counters().cookies;
        assert!(cookies >= u64::from(3 - backlog.min(1)), "{cookies}");
        let from = places[0][2];
        let accepted = places[1].iter().copied();
        let more = std::iter::from_fn(|| net.ends[1].accept(0));
        let all: Vec<u32> = accepted.chain(more).collect();
        let end = &net.ends[1];
        let to = all
            .into_iter()
            .find(|place| end.remote_port(*place) == 10_002);
        let to = to.expect("is there");
        net.ends[0].write(from, b"hello");
        net.until(5, |ends| ends[1].read(to, 100) == b"hello");
    }
}

/// Cookies of two come back when one may wait to be accepted: the other's data bring it again.
#[test]
fn a_cookie_that_finds_no_room_is_not_refused() {
    let plan = Plan {
        accepts: 1,
        ..plan(8, 16)
    };
    let mut net = Net::<Memory>::new(&plan, 1, false);
    net.ends[1].listen(&net.clock, 0, 80, 0);
    let places = [1000, 1001].map(|port| {
        let path = net.ends[0].path_to(&net.ends[1], port);
        net.ends[0].connect(&net.clock, path, 80).place
    });
    net.until(5, |ends| {
        places
            .iter()
            .all(|place| ends[0].flags(*place) & CONNECTED != 0)
    });
    for place in places {
        net.ends[0].write(place, b"hello");
    }
    net.pass(3);
    assert_eq!(net.ends[1].counters().cookies, 2);
    assert!(net.ends[1].counters().accept_full > 0);
    for _ in places {
        let mut accepted = None;
        net.until(30, |ends| {
            accepted = ends[1].accept(0);
            accepted.is_some()
        });
        let accepted = accepted.expect("waits");
        let mut read = Vec::new();
        net.until(30, |ends| {
            read.extend(ends[1].read(accepted, 100));
            read == b"hello"
        });
    }
    for place in places {
        assert_eq!(net.ends[0].flags(place), CONNECTED, "nobody was reset");
    }
    assert_eq!(net.ends[1].counters().resets, 0);
}

#[test]
fn shares_are_equal() {
    let plan = Plan {
        share: 2,
        ..plan(8, 16)
    };
    let mut net = Net::<Memory>::new(&plan, 1, false);
    net.ends[1].listen(&net.clock, 0, 80, 8);
    let places = open(&mut net, 3);
    let mut read = [0usize; 3];
    for _ in 0..400 {
        net.turn();
        let [from, to] = &mut net.ends;
        for (i, count) in read.iter_mut().enumerate() {
            from.write(places[0][i], &[7; 4096]);
            *count += to.read(places[1][i], 4096).len();
        }
    }
    let (least, most) = (read.iter().min(), read.iter().max());
    let (least, most) = (*least.expect("three"), *most.expect("three"));
    assert!(least > 400_000 && most - least <= 2 * 4096, "{read:?}");
}

/// Ends that part without closing.
#[test]
fn who_is_left_hears_why() {
    for (wishes, cause) in [
        (ABORT, Cause::Reset),
        (RELEASE, Cause::Reset),
        (ABORT | RELEASE, Cause::Reset),
    ] {
        let plan = Plan::default();
        let mut net = Net::<Memory>::new(&plan, 1, false);
        net.ends[1].listen(&net.clock, 0, 80, 4);
        let places = net.connected(40_000);
        net.ends[1].write(places[1], b"unread");
        net.until(5, |ends| ends[0].flags(places[0]) & CONNECTED != 0);
        net.turn();
        net.ends[0].wish(places[0], wishes);
        net.until(5, |ends| ends[1].flags(places[1]) & CLOSED != 0);
        assert_eq!(net.ends[1].cause(places[1]), cause as u32 + 1);
        assert!(net.ends[1].news().contains(&places[1]));
        net.ends[1].wish(places[1], RELEASE);
        if wishes & RELEASE == 0 {
            assert_eq!(net.ends[0].cause(places[0]), Cause::Aborted as u32 + 1);
            net.ends[0].wish(places[0], RELEASE);
        }
        net.check_ends(&plan);
        // The place is another connection's now.
        let again = net.connected(40_001);
        assert_eq!(again[0], places[0]);
        assert_eq!(net.ends[0].generation(again[0]), 2);
        assert_eq!(net.ends[0].flags(again[0]), CONNECTED);
    }
}

#[test]
fn who_closed_and_left_does_not_wait_for_ever() {
    let plan = Plan::default();
    let mut net = Net::<Memory>::new(&plan, 1, false);
    net.ends[1].listen(&net.clock, 0, 80, 4);
    let places = net.connected(40_000);
    net.ends[0].write(places[0], b"the last");
    net.ends[0].wish(places[0], CLOSE | RELEASE);
    net.until(30, |ends| ends[0].free().0 == plan.places);
    assert_eq!(net.ends[1].read(places[1], 100), b"the last");
    assert_ne!(net.ends[1].flags(places[1]) & PEER_CLOSED, 0);
}

#[test]
fn a_listener_that_ends_takes_handshakes_along() {
    let plan = Plan::default();
    let mut net = Net::<Memory>::new(&plan, 1, false);
    net.ends[1].listen(&net.clock, 0, 80, 4);
    let path = net.ends[0].path_to(&net.ends[1], 1000);
    let place = net.ends[0].connect(&net.clock, path, 80).place;
    net.turn();
    net.ends[1].run(&net.clock, 1);
    assert_eq!(net.ends[1].free().0, plan.places - 1);
    let command = Command {
        kind: UNLISTEN,
        ..Command::default()
    };
    assert_eq!(net.ends[1].command(&net.clock, command).outcome, 0);
    net.until(5, |ends| ends[0].flags(place) & CLOSED != 0);
    net.ends[0].wish(place, RELEASE);
    net.check_ends(&plan);
}

/// The engine's own memory does not grow, and ends are told within bounds.
#[test]
fn words_of_a_wild_application_harm_its_stream_alone() {
    let plan = Plan::default();
    let mut net = Net::<Memory>::new(&plan, 1, false);
    net.ends[1].listen(&net.clock, 0, 80, 4);
    let wild = net.connected(40_000);
    let tame = net.connected(40_001);
    for value in [1u32 << 31, u32::MAX, 12_345] {
        net.ends[0].go_wild(wild[0], value);
        net.pass(1);
    }
    let words = bytes(1, 5000);
    net.ends[0].write(tame[0], &words);
    let mut read = Vec::new();
    net.until(30, |ends| {
        read.extend(ends[1].read(tame[1], 1000));
        read.len() == words.len()
    });
    assert_eq!(read, words);
    net.ends.iter().for_each(|end| end.check_untouched());
}
