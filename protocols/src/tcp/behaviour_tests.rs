//! One end alone, against segments by hand, in virtual time.

mod anything_tests;

use super::*;
use crate::wire::tcp::{TcpFlags, TcpSequence};
use crate::wire::tcp_option::{Options, SackBlock, SackBlocks, Timestamps};
use std::vec::Vec;

const MS: u64 = 1_000_000;
const START: u64 = 1000 * MS;
const ISS: u32 = 0xffff_fff0;
const PEER: u32 = 0x7fff_fff0;
const MSS: u32 = 1460;
const WINDOW: u16 = 60_000;

/// A config without options but MSS, so that numbers are plain.
fn plain() -> Config {
    Config {
        sack: false,
        timestamps: false,
        window_scaling: false,
        receive_bytes: 1 << 15,
        ..Config::default()
    }
}

fn with_sack() -> Config {
    Config {
        sack: true,
        ..plain()
    }
}

/// A connection, and a peer that is a test. Numbers count from the first byte of each side.
struct Script {
    connection: Connection,
    config: Config,
    now_ns: u64,
    events: Events,
}

impl Script {
    fn connecting(config: Config) -> Self {
        let initial = Initial {
            sequence: TcpSequence(ISS),
            timestamp: 77,
        };
        let mut script = Self {
            connection: Connection::connect(&config, initial, START),
            config,
            now_ns: START,
            events: Events::empty(),
        };
        let syn = script.poll().unwrap();
        assert!(syn.flags.contains(TcpFlags::SYN) && syn.sequence.0 == ISS);
        script
    }

    /// Established, 10 ms after SYN.
    fn new(config: Config) -> Self {
        let mut script = Self::connecting(config);
        script.now_ns += 10 * MS;
        let delivery = script.give(Segment {
            sequence: TcpSequence(PEER),
            acknowledgement: TcpSequence(ISS.wrapping_add(1)),
            flags: TcpFlags::SYN | TcpFlags::ACK,
            window: WINDOW,
            options: Options {
                maximum_segment_size: Some(MSS as u16),
                sack_permitted: config.sack,
                ..Options::default()
            },
            ..Segment::default()
        });
        assert_eq!(delivery.events, Events::CONNECTED);
        assert_eq!(script.answer(), Some((0, 0)));
        script
    }

    fn poll(&mut self) -> Option<Outgoing> {
        self.connection.poll(self.now_ns, &self.config, 0)
    }

    /// A bare acknowledgement: its own number and what it acknowledges.
    fn answer(&mut self) -> Option<(u32, u32)> {
        let out = self.poll()?;
        assert_eq!((out.flags, out.payload.length), (TcpFlags::ACK, 0));
        Some((ours(out.sequence), theirs(out.acknowledgement)))
    }

    /// Everything that is to be sent: number and length.
    fn sent(&mut self) -> Vec<(u32, u32)> {
        let mut all = Vec::new();
        while let Some(out) = self.poll() {
            assert!(all.len() < 1000);
            all.push((ours(out.sequence), out.payload.length));
        }
        all
    }

    fn give(&mut self, segment: Segment) -> Delivery {
        let delivery = self
            .connection
            .on_segment(self.now_ns, &segment, &self.config);
        self.events |= delivery.events;
        delivery
    }

    /// Data of the peer.
    fn data(&mut self, at: u32, length: u32) -> Delivery {
        self.give(segment(at, 0, length))
    }

    fn acknowledge(&mut self, to: u32) -> Delivery {
        self.give(segment(0, to, 0))
    }

    fn sack(&mut self, to: u32, blocks: &[(u32, u32)]) -> Delivery {
        let mut acknowledgement = segment(0, to, 0);
        acknowledgement.options.sack = sack(blocks);
        self.give(acknowledgement)
    }

    /// Lets time pass, to the timer; says how long that was, in ms.
    fn wait(&mut self) -> u64 {
        let due = self.connection.timeout_ns().expect("a timer");
        let waited = due - self.now_ns;
        self.now_ns = due;
        self.events |= self.connection.on_timer(due, &self.config);
        waited / MS
    }

    fn pass(&mut self, ms: u64) {
        self.now_ns += ms * MS;
        self.events |= self.connection.on_timer(self.now_ns, &self.config);
    }
}

fn ours(number: TcpSequence) -> u32 {
    number.0.wrapping_sub(ISS).wrapping_sub(1)
}

fn theirs(number: TcpSequence) -> u32 {
    number.0.wrapping_sub(PEER).wrapping_sub(1)
}

fn sack(blocks: &[(u32, u32)]) -> SackBlocks {
    let mut all = SackBlocks::default();
    for (left, right) in blocks {
        let number = |at: u32| TcpSequence(ISS.wrapping_add(1).wrapping_add(at));
        all.push(SackBlock {
            left: number(*left),
            right: number(*right),
        });
    }
    all
}

fn segment(at: u32, acknowledges: u32, length: u32) -> Segment {
    Segment {
        sequence: TcpSequence(PEER.wrapping_add(1).wrapping_add(at)),
        acknowledgement: TcpSequence(ISS.wrapping_add(1).wrapping_add(acknowledges)),
        flags: TcpFlags::ACK,
        window: WINDOW,
        length,
        ..Segment::default()
    }
}

fn place(at: u32, from: u32, length: u32) -> Option<Place> {
    Some(Place { at, from, length })
}

#[test]
fn the_first_copy_of_a_byte_counts() {
    let mut script = Script::new(with_sack());
    assert_eq!(script.data(100, 100).place, place(100, 0, 100));
    // Over both edges of what is held: the first gap only, up to what is held.
    let delivery = script.data(50, 200);
    assert_eq!((delivery.place, delivery.readable), (place(50, 0, 50), 0));
    assert_eq!(script.data(120, 50).place, None);
    let delivery = script.data(0, 80);
    assert_eq!((delivery.place, delivery.readable), (place(0, 0, 50), 200));
    let delivery = script.data(150, 100);
    assert_eq!(
        (delivery.place, delivery.readable),
        (place(200, 50, 50), 50)
    );
    assert_eq!(script.data(0, 250).note, Some(Note::Duplicate));
    assert_eq!(script.connection.readable(), 250);
}

#[test]
fn sack_tells_the_newest_first_and_what_came_twice() {
    let mut script = Script::new(with_sack());
    let blocks = |script: &mut Script| {
        let out = script.poll().unwrap();
        let numbers = |block: &SackBlock| (theirs(block.left), theirs(block.right));
        out.options
            .sack
            .as_slice()
            .iter()
            .map(numbers)
            .collect::<Vec<_>>()
    };
    for (at, want) in [
        (100, &[(100, 200)][..]),
        (500, &[(500, 600), (100, 200)]),
        (300, &[(300, 400), (500, 600), (100, 200)]),
        (200, &[(100, 400), (500, 600)]),
        (500, &[(500, 600), (100, 400), (500, 600)]),
    ] {
        script.data(at, 100);
        assert_eq!(blocks(&mut script), want, "at {at}");
    }
    script.data(0, 100);
    assert_eq!(blocks(&mut script), [(500, 600)]);
}

#[test]
fn every_second_segment_is_acknowledged_and_the_last_in_40_ms() {
    let mut script = Script::new(plain());
    script.data(0, 1000);
    assert_eq!(script.poll(), None);
    script.data(1000, 1000);
    assert_eq!(script.answer(), Some((0, 2000)));
    script.data(2000, 10);
    assert_eq!(script.poll(), None);
    assert_eq!(script.wait(), 40);
    assert_eq!(script.answer(), Some((0, 2010)));
    script.data(2020, 10);
    assert_eq!(script.answer(), Some((0, 2010)), "after a gap at once");
    script.data(2010, 10);
    assert_eq!(
        script.answer(),
        Some((0, 2030)),
        "a gap that was filled, at once"
    );
    script.data(2030, 3000);
    assert_eq!(script.answer(), Some((0, 5030)), "several joined");
}

#[test]
fn the_window_closes_and_opens_by_whole_segments() {
    let mut script = Script::new(plain());
    let edge = |script: &mut Script| {
        let out = script.poll().unwrap();
        theirs(out.acknowledgement) + u32::from(out.window)
    };
    for at in (0..32_768).step_by(2048) {
        script.data(at, 2048);
        assert_eq!(edge(&mut script), 32_768);
    }
    let delivery = script.data(32_768, 1);
    assert_eq!((delivery.place, delivery.note), (None, Some(Note::NoRoom)));
    assert_eq!(edge(&mut script), 32_768);
    script.connection.consume(1000);
    assert_eq!(script.poll(), None, "not for so little");
    script.connection.consume(500);
    assert_eq!(edge(&mut script), 34_268);
    script.connection.consume(100);
    script.data(32_768, 100);
    assert_eq!(script.wait(), 40);
    assert_eq!(edge(&mut script), 34_268, "stays for a small step");
}

#[test]
fn nagle_holds_small_segments_back() {
    let mut script = Script::new(plain());
    script.connection.write(100);
    assert_eq!(script.sent(), [(0, 100)]);
    script.connection.write(100);
    assert_eq!(script.sent(), []);
    script.connection.write(MSS);
    assert_eq!(script.sent(), [(100, MSS)]);
    let freed = script.acknowledge(100 + MSS).freed;
    assert_eq!(freed, 100 + MSS);
    assert_eq!(script.sent(), [(100 + MSS, 100)]);
    script.connection.write(5);
    assert_eq!(script.sent(), []);
    script.connection.close();
    assert_eq!(script.sent(), [(200 + MSS, 5)], "with FIN");
    let mut eager = Script::new(Config {
        no_delay: true,
        ..plain()
    });
    eager.connection.write(100);
    assert_eq!(eager.sent(), [(0, 100)]);
    eager.connection.write(100);
    assert_eq!(eager.sent(), [(100, 100)]);
}

#[test]
fn repetitions_double_their_time_and_the_peer_is_given_up() {
    let mut script = Script::new(plain());
    script.connection.write(100);
    script.sent();
    // 10 ms and half of it: 30 ms, and 200 at least.
    for want in [
        200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000,
    ] {
        assert_eq!(script.wait(), want);
        assert_eq!(script.sent(), [(0, 100)]);
    }
    while !script.events.contains(Events::CLOSED) {
        script.wait();
        script.sent();
    }
    assert_eq!(
        script.now_ns - START,
        10 * MS + script.config.user_timeout_ns
    );
    assert_eq!(script.connection.cause(), Some(Cause::TimedOut));
    assert_eq!(script.connection.timeout_ns(), None);
}

#[test]
fn three_duplicates_repeat_without_sack() {
    let mut script = Script::new(plain());
    script.connection.write(10 * MSS);
    assert_eq!(script.sent().len(), 10);
    for _ in 0..2 {
        script.acknowledge(0);
        assert_eq!(script.sent(), []);
    }
    script.acknowledge(0);
    assert_eq!(script.sent(), [(0, MSS)]);
    // Two were lost: the acknowledgement of the first repetition asks for the next.
    script.acknowledge(4 * MSS);
    assert_eq!(script.sent(), [(4 * MSS, MSS)]);
    let statistics = script.connection.statistics();
    assert_eq!((statistics.recoveries, statistics.retransmits), (1, 2));
    assert_eq!(statistics.ssthresh, 7 * MSS);
    script.acknowledge(10 * MSS);
    assert_eq!(script.connection.timeout_ns(), None);
}

#[test]
fn sack_repeats_what_is_missing_and_again_what_is_lost_again() {
    let mut script = Script::new(with_sack());
    script.connection.write(12 * MSS);
    assert_eq!(script.sent().len(), 10);
    // 1 and 3 were lost.
    script.sack(MSS, &[(2 * MSS, 3 * MSS)]);
    script.sack(MSS, &[(4 * MSS, 6 * MSS), (2 * MSS, 3 * MSS)]);
    let sent = script.sent();
    assert!(sent.contains(&(MSS, MSS)), "{sent:?}");
    script.sack(MSS, &[(4 * MSS, 10 * MSS), (2 * MSS, 3 * MSS)]);
    let sent = script.sent();
    assert!(sent.contains(&(3 * MSS, MSS)), "{sent:?}");
    // The repetition of 1 is lost: what was sent after it comes.
    script.connection.write(10 * MSS);
    let next = script.sent();
    assert!(next.iter().all(|piece| piece.0 >= 10 * MSS), "{next:?}");
    let end = next.last().map(|piece| piece.0 + piece.1).unwrap();
    script.sack(MSS, &[(2 * MSS, end)]);
    let sent = script.sent();
    assert_eq!(sent.first(), Some(&(MSS, MSS)));
    assert_eq!(script.connection.statistics().lost_repetitions, 1);
    assert_eq!(script.connection.statistics().timeouts, 0);
    script.acknowledge(end);
    assert_eq!(script.connection.statistics().recoveries, 1);
}

#[test]
fn a_lost_tail_is_probed_long_before_the_timeout() {
    let mut script = Script::new(with_sack());
    script.connection.write(3 * MSS);
    assert_eq!(script.sent().len(), 3);
    assert_eq!(script.wait(), 22, "two round trips, and a little");
    assert_eq!(script.sent(), [(2 * MSS, MSS)]);
    // All of them were lost: the probe shows it.
    script.now_ns += 10 * MS;
    script.sack(0, &[(2 * MSS, 3 * MSS)]);
    assert_eq!(script.sent(), [(0, MSS), (MSS, MSS)]);
    script.acknowledge(3 * MSS);
    let statistics = script.connection.statistics();
    assert_eq!((statistics.timeouts, statistics.tail_probes), (0, 1));
}

#[test]
fn a_closed_window_is_probed_as_long_as_the_peer_answers() {
    let mut script = Script::new(plain());
    let closed = |to: u32| Segment {
        window: 0,
        ..segment(0, to, 0)
    };
    script.give(closed(0));
    script.connection.write(5000);
    assert_eq!(script.sent(), []);
    let mut waited = Vec::new();
    for _ in 0..20 {
        waited.push(script.wait());
        assert_eq!(script.sent(), [(0, 1)]);
        script.give(closed(0));
        assert_eq!(script.sent(), []);
    }
    assert_eq!(
        waited[..9],
        [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200]
    );
    assert!(waited[9..].iter().all(|ms| *ms == 60_000));
    assert_eq!(script.events, Events::CONNECTED);
    script.acknowledge(0);
    let sent = script.sent();
    assert_eq!(sent.first(), Some(&(0, 1)), "the byte that was dropped");
    assert_eq!(
        sent.last().map(|piece| piece.0 + piece.1),
        Some(1 + 3 * MSS)
    );
    script.give(closed(5000));
    script.connection.write(10);
    script.sent();
    while !script.events.contains(Events::CLOSED) {
        script.wait();
        script.sent();
    }
    assert_eq!(
        script.connection.cause(),
        Some(Cause::TimedOut),
        "nobody answers"
    );
}

#[test]
fn both_may_open_at_once() {
    let mut script = Script::connecting(plain());
    let syn = Segment {
        flags: TcpFlags::SYN,
        ..segment(u32::MAX, 0, 0)
    };
    script.give(syn);
    assert_eq!(script.connection.state(), State::SynReceived);
    let out = script.poll().unwrap();
    assert_eq!(out.flags, TcpFlags::SYN | TcpFlags::ACK);
    assert_eq!((out.sequence.0, theirs(out.acknowledgement)), (ISS, 0));
    let answer = Segment {
        flags: TcpFlags::SYN | TcpFlags::ACK,
        ..segment(u32::MAX, 0, 0)
    };
    assert_eq!(script.give(answer).events, Events::CONNECTED);
    assert_eq!(script.connection.state(), State::Established);
    script.connection.write(10);
    assert_eq!(script.sent(), [(0, 10)]);
}

#[test]
fn both_may_close_at_once_and_linger() {
    let mut script = Script::new(plain());
    script.connection.close();
    let fin = script.poll().unwrap();
    assert_eq!(
        (ours(fin.sequence), fin.flags),
        (0, TcpFlags::FIN | TcpFlags::ACK)
    );
    let theirs = Segment {
        flags: TcpFlags::FIN | TcpFlags::ACK,
        ..segment(0, 0, 0)
    };
    assert_eq!(script.give(theirs).events, Events::PEER_CLOSED);
    assert_eq!(script.connection.state(), State::Closing);
    assert_eq!(script.answer(), Some((1, 1)));
    script.give(segment(1, 1, 0));
    assert_eq!(script.connection.state(), State::TimeWait);
    assert_eq!(script.wait(), 60_000);
    assert_eq!(script.connection.cause(), Some(Cause::Finished));
}

#[test]
fn a_half_that_is_closed_still_receives() {
    let mut script = Script::new(plain());
    script.connection.write(10);
    script.connection.close();
    assert_eq!(script.connection.writable(), 0);
    let last = script.poll().unwrap();
    assert_eq!(
        (last.payload.length, last.flags.contains(TcpFlags::FIN)),
        (10, true)
    );
    script.give(segment(0, 11, 0));
    assert_eq!(script.connection.state(), State::FinWait2);
    assert_eq!(script.give(segment(0, 11, 500)).readable, 500);
    let fin = Segment {
        flags: TcpFlags::FIN | TcpFlags::ACK,
        ..segment(600, 11, 0)
    };
    assert_eq!(script.give(fin).events, Events::empty(), "before its turn");
    let delivery = script.give(segment(500, 11, 100));
    assert_eq!(
        (delivery.readable, delivery.events),
        (100, Events::PEER_CLOSED)
    );
    assert_eq!(script.connection.readable(), 600);
    assert_eq!(script.connection.state(), State::TimeWait);
    assert_eq!(script.answer(), Some((11, 601)));
}

#[test]
fn time_wait_gives_way_to_a_new_connection_only() {
    let mut script = Script::new(plain());
    script.connection.close();
    script.sent();
    let fin = Segment {
        flags: TcpFlags::FIN | TcpFlags::ACK,
        ..segment(0, 1, 0)
    };
    script.give(fin);
    assert_eq!(script.answer(), Some((1, 1)));
    script.pass(50_000);
    script.give(fin);
    assert_eq!(script.answer(), Some((1, 1)));
    let old = Segment {
        flags: TcpFlags::SYN,
        ..segment(0, 0, 0)
    };
    assert_ne!(script.give(old).note, Some(Note::NewIncarnation));
    assert_eq!(script.wait(), 60_000, "from the last FIN on");
    assert_eq!(script.connection.state(), State::Closed);

    let mut script = Script::new(plain());
    script.connection.close();
    script.sent();
    script.give(fin);
    let new = Segment {
        flags: TcpFlags::SYN,
        ..segment(100_000, 0, 0)
    };
    let delivery = script.give(new);
    assert_eq!(delivery.note, Some(Note::NewIncarnation));
    assert_eq!(delivery.events, Events::CLOSED);
}

#[test]
fn blind_attackers_are_challenged() {
    let mut script = Script::new(plain());
    let reset = |at| Segment {
        flags: TcpFlags::RST,
        ..segment(at, 0, 0)
    };
    assert_eq!(script.give(reset(1000)).note, Some(Note::Challenged));
    assert_eq!(script.answer(), Some((0, 0)));
    assert_eq!(script.give(reset(50_000)).note, Some(Note::OutsideWindow));
    assert_eq!(script.poll(), None);
    let syn = Segment {
        flags: TcpFlags::SYN,
        ..segment(1000, 0, 0)
    };
    assert_eq!(script.give(syn).note, Some(Note::Challenged));
    assert_eq!(script.answer(), Some((0, 0)));
    let ahead = segment(0, 1, 10);
    assert_eq!(script.give(ahead).note, Some(Note::BadAcknowledgement));
    assert_eq!(script.answer(), Some((0, 0)));
    for _ in 0..100 {
        script.give(reset(1000));
        script.poll();
    }
    assert_eq!(script.connection.statistics().challenges, 10);
    assert_eq!(script.give(reset(0)).events, Events::CLOSED);
    assert_eq!(script.connection.cause(), Some(Cause::Reset));
}

#[test]
fn a_refusal_must_name_our_syn() {
    let mut script = Script::connecting(plain());
    let reset = |to| Segment {
        flags: TcpFlags::RST | TcpFlags::ACK,
        ..segment(0, to, 0)
    };
    assert_eq!(script.give(reset(5)).events, Events::empty());
    assert_eq!(script.give(reset(0)).events, Events::CLOSED);
    assert_eq!(script.connection.cause(), Some(Cause::Refused));
    let mut script = Script::connecting(plain());
    let stray = segment(0, 5, 0);
    script.give(stray);
    let out = script.poll().unwrap();
    assert_eq!((out.flags, ours(out.sequence)), (TcpFlags::RST, 5));
    assert_eq!(script.connection.state(), State::SynSent);
    assert_eq!(
        script.connection.on_unreachable(TcpSequence(5)),
        Events::empty()
    );
    assert_eq!(
        script.connection.on_unreachable(TcpSequence(ISS)),
        Events::CLOSED
    );
    assert_eq!(script.connection.cause(), Some(Cause::Unreachable));
}

#[test]
fn timestamps_keep_old_segments_out() {
    let config = Config {
        timestamps: true,
        ..plain()
    };
    let mut script = Script::connecting(config);
    let stamped = |mut segment: Segment, value, echo| {
        segment.options.timestamps = Some(Timestamps { value, echo });
        segment
    };
    let answer = Segment {
        flags: TcpFlags::SYN | TcpFlags::ACK,
        ..segment(u32::MAX, 0, 0)
    };
    script.now_ns += 10 * MS;
    script.give(stamped(answer, 500, 1077));
    let out = script.poll().unwrap();
    assert_eq!(
        out.options.timestamps,
        Some(Timestamps {
            value: 1087,
            echo: 500
        })
    );
    assert_eq!(script.give(stamped(segment(0, 0, 10), 501, 0)).readable, 10);
    let old = script.give(stamped(segment(10, 0, 10), 500, 0));
    assert_eq!(old.note, Some(Note::OldTimestamp));
    assert!(script.poll().is_some());
    assert_eq!(script.data(10, 10).note, Some(Note::NoTimestamp));
    script.now_ns += 25 * 24 * 3600 * 1000 * MS;
    assert_eq!(
        script.give(stamped(segment(10, 0, 10), 400, 0)).readable,
        10
    );
    // What comes after a gap is not echoed: RFC 7323 section 4.3.
    script.poll();
    script.give(stamped(segment(30, 0, 10), 900, 0));
    let out = script.poll().unwrap();
    assert_eq!(
        out.options.timestamps.map(|timestamps| timestamps.echo),
        Some(400)
    );
}

#[test]
fn marks_are_echoed_and_obeyed_once_a_window() {
    let config = Config {
        ecn: true,
        ..with_sack()
    };
    let initial = Initial {
        sequence: TcpSequence(ISS),
        timestamp: 0,
    };
    let syn = Segment {
        flags: TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR,
        options: Options {
            maximum_segment_size: Some(MSS as u16),
            ..Options::default()
        },
        ..segment(u32::MAX, 0, 0)
    };
    let mut script = Script {
        connection: Connection::answer(&config, initial, &syn, START),
        config,
        now_ns: START,
        events: Events::empty(),
    };
    let answer = script.poll().unwrap();
    assert_eq!(answer.flags, TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE);
    assert!(!answer.is_capable);
    script.give(Segment {
        is_marked: true,
        ..segment(0, 0, 100)
    });
    script.pass(40);
    assert!(script.poll().unwrap().flags.contains(TcpFlags::ECE));
    script.data(100, 100);
    script.pass(40);
    assert!(
        script.poll().unwrap().flags.contains(TcpFlags::ECE),
        "until CWR"
    );
    let mut reduced = segment(200, 0, 100);
    reduced.flags.insert(TcpFlags::CWR);
    script.give(reduced);
    script.pass(40);
    assert!(!script.poll().unwrap().flags.contains(TcpFlags::ECE));

    script.connection.write(12 * MSS);
    let before = script.connection.statistics().cwnd;
    let first = script.poll().unwrap();
    assert!(first.is_capable && !first.flags.contains(TcpFlags::CWR));
    script.sent();
    let mut echo = segment(300, MSS, 0);
    echo.flags.insert(TcpFlags::ECE);
    script.give(echo);
    echo.acknowledgement = echo.acknowledgement.wrapping_add(MSS);
    script.give(echo);
    let statistics = script.connection.statistics();
    assert_eq!(statistics.marks, 1);
    assert!(statistics.cwnd < before);
    script.give(segment(300, 10 * MSS, 0));
    let out = script.poll().unwrap();
    assert!(out.flags.contains(TcpFlags::CWR) && out.is_capable);
    assert!(!script.poll().unwrap().flags.contains(TcpFlags::CWR));
}

#[test]
fn a_smaller_mtu_cuts_anew_what_is_under_way() {
    let mut script = Script::new(plain());
    script.connection.write(4 * MSS);
    assert_eq!(script.sent().len(), 4);
    let before = script.connection.statistics();
    let config = script.config;
    let number = |at: u32| TcpSequence(ISS.wrapping_add(1 + at));
    script.connection.on_too_big(number(4 * MSS), 1000, &config);
    assert_eq!(script.sent(), [], "not under way");
    script.connection.on_too_big(number(MSS), 1000, &config);
    let sent = script.sent();
    assert_eq!(sent[0], (0, 960));
    assert_eq!(sent.iter().map(|piece| piece.1).sum::<u32>(), 4 * MSS);
    assert_eq!(script.connection.statistics().cwnd, before.cwnd);
    script.connection.on_too_big(number(0), 40, &config);
    assert_eq!(script.connection.statistics().segment_bytes, 28);
}

#[test]
fn idle_peers_are_probed_and_dead_ones_given_up() {
    let keep_alive = KeepAlive {
        idle_ns: 10_000 * MS,
        interval_ns: 1000 * MS,
        probes: 3,
    };
    let mut script = Script::new(Config {
        keep_alive: Some(keep_alive),
        ..plain()
    });
    for _ in 0..5 {
        assert_eq!(script.wait(), 10_000);
        assert_eq!(script.sent(), [(u32::MAX, 0)]);
        script.acknowledge(0);
    }
    assert_eq!(script.wait(), 10_000);
    assert_eq!(script.sent().len(), 1);
    for _ in 0..2 {
        assert_eq!(script.wait(), 1000);
        assert_eq!(script.sent().len(), 1);
    }
    assert_eq!(script.wait(), 1000);
    assert_eq!(script.connection.cause(), Some(Cause::TimedOut));
    assert_eq!(
        script.poll().map(|out| out.flags),
        Some(TcpFlags::RST | TcpFlags::ACK)
    );
}

#[test]
fn an_abort_tells_the_peer_once() {
    let mut script = Script::new(plain());
    script.connection.write(10);
    script.connection.abort();
    let reset = script.poll().unwrap();
    assert_eq!(
        (reset.flags, ours(reset.sequence)),
        (TcpFlags::RST | TcpFlags::ACK, 0)
    );
    assert_eq!(script.poll(), None);
    assert_eq!(script.connection.state(), State::Closed);
    assert_eq!(script.connection.cause(), Some(Cause::Aborted));
}
