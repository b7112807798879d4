//! Two ends and a network between them, in virtual time, from one seed.

use super::*;
use crate::wire::tcp::{TcpFlags, TcpSequence};
use std::collections::BTreeMap;
use std::vec::Vec;

const MS: u64 = 1_000_000;

/// Numbers from a seed (SplitMix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn hits(&mut self, per_mille: u64) -> bool {
        self.next() % 1000 < per_mille
    }
}

/// What the network does to segments, in thousandths.
#[derive(Clone, Copy, Default)]
struct Harm {
    loss: u64,
    reorder: u64,
    duplicate: u64,
    mark: u64,
}

/// One end: a connection, its rings, and an application that sends and checks a pattern.
struct End {
    connection: Connection,
    config: Config,
    send_ring: Vec<u8>,
    receive_ring: Vec<u8>,
    /// Bytes to be written in all, written, and read.
    to_write: u64,
    written: u64,
    read: u64,
    closes: bool,
    reads: bool,
    salt: u8,
    events: Events,
}

fn pattern(salt: u8, at: u64) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8 ^ salt
}

impl End {
    fn new(connection: Connection, config: Config, salt: u8) -> Self {
        Self {
            connection,
            config,
            send_ring: vec![0; config.send_bytes as usize],
            receive_ring: vec![0; config.receive_bytes as usize],
            to_write: 0,
            written: 0,
            read: 0,
            closes: false,
            reads: true,
            salt,
            events: Events::empty(),
        }
    }

    fn run_application(&mut self) {
        let left = (self.to_write - self.written).min(u64::from(u32::MAX)) as u32;
        let room = self.connection.writable().min(left);
        let start = self.connection.write_position();
        for index in 0..room {
            let slot = (start.wrapping_add(index) & (self.config.send_bytes - 1)) as usize;
            self.send_ring[slot] = pattern(self.salt, self.written + u64::from(index));
        }
        assert_eq!(self.connection.write(room), room);
        self.written += u64::from(room);
        if self.reads {
            let start = self.connection.read_position();
            let readable = self.connection.readable();
            for index in 0..readable {
                let slot = (start.wrapping_add(index) & (self.config.receive_bytes - 1)) as usize;
                let want = pattern(!self.salt, self.read + u64::from(index));
                assert_eq!(
                    self.receive_ring[slot],
                    want,
                    "byte {}",
                    self.read + u64::from(index)
                );
            }
            self.connection.consume(readable);
            self.read += u64::from(readable);
        }
        if self.closes && self.written == self.to_write {
            self.connection.close();
        }
    }

    fn take(&mut self, now_ns: u64, segment: &Segment, payload: &[u8]) {
        let before = self.connection.readable();
        let kept = self.connection.unacknowledged();
        let delivery = self.connection.on_segment(now_ns, segment, &self.config);
        if let Some(place) = delivery.place {
            for index in 0..place.length {
                let slot = place.at.wrapping_add(index) & (self.config.receive_bytes - 1);
                self.receive_ring[slot as usize] = payload[(place.from + index) as usize];
            }
        }
        assert_eq!(self.connection.readable(), before + delivery.readable);
        assert_eq!(self.connection.unacknowledged(), kept - delivery.freed);
        self.events |= delivery.events;
    }
}

/// Two ends, and what is on the way: by time, then order.
struct World {
    now_ns: u64,
    ends: [End; 2],
    wire: BTreeMap<(u64, u64), (usize, Segment, Vec<u8>)>,
    count: u64,
    chance: Chance,
    harm: Harm,
    delay_ns: u64,
    most_bytes: u32,
    /// Time that a byte takes, in ns, and when the link of each end is free.
    byte_ns: u64,
    free_ns: [u64; 2],
    sent: [u64; 2],
    /// Loses a segment by its index, of the first end's segments with payload.
    kills: Vec<u64>,
    data_count: u64,
}

impl World {
    fn new(config: Config, seed: u64) -> Self {
        let initial = |sequence| Initial {
            sequence: TcpSequence(sequence),
            timestamp: sequence,
        };
        let now_ns = 1000 * MS;
        let client = Connection::connect(&config, initial(u32::MAX - 5000), now_ns);
        // Is replaced when SYN comes.
        let server = Connection::connect(&config, initial(7), now_ns);
        Self {
            now_ns,
            ends: [End::new(client, config, 0), End::new(server, config, !0)],
            wire: BTreeMap::new(),
            count: 0,
            chance: Chance(seed),
            harm: Harm::default(),
            delay_ns: 5 * MS,
            most_bytes: 0,
            byte_ns: 0,
            free_ns: [0; 2],
            sent: [0; 2],
            kills: Vec::new(),
            data_count: 0,
        }
    }

    fn send(&mut self, from: usize, out: &Outgoing) {
        for index in 0..out.segments() {
            let piece = out.piece(index).unwrap();
            let repr = piece.repr(1, 2);
            assert!(repr.length() <= 60);
            let end = &self.ends[from];
            let mss = usize::from(end.config.maximum_segment_size);
            assert!(piece.payload.length as usize + repr.length() <= mss + 20);
            let payload: Vec<u8> = (0..piece.payload.length)
                .map(|index| {
                    let at = piece.payload.at.wrapping_add(index) & (end.config.send_bytes - 1);
                    end.send_ring[at as usize]
                })
                .collect();
            self.sent[from] += payload.len() as u64;
            let is_data = from == 0 && !payload.is_empty();
            self.data_count += u64::from(is_data);
            if is_data && self.kills.contains(&self.data_count) {
                continue;
            }
            if self.chance.hits(self.harm.loss) {
                continue;
            }
            let copies = 1 + u64::from(self.chance.hits(self.harm.duplicate));
            for _ in 0..copies {
                let is_marked = piece.is_capable && self.chance.hits(self.harm.mark);
                let late = match self.chance.hits(self.harm.reorder) {
                    true => self.chance.next() % (4 * self.delay_ns),
                    false => 0,
                };
                let free_ns = &mut self.free_ns[from];
                *free_ns = (*free_ns).max(self.now_ns) + self.byte_ns * (payload.len() as u64 + 60);
                let at = *free_ns + self.delay_ns + late;
                let segment = Segment::new(&repr, payload.len() as u32, is_marked);
                self.count += 1;
                self.wire
                    .insert((at, self.count), (1 - from, segment, payload.clone()));
            }
        }
    }

    fn flush(&mut self) {
        for from in 0..2 {
            self.ends[from].run_application();
            let mut polls = 0;
            for _ in 0..100_000 {
                let (now_ns, most) = (self.now_ns, self.most_bytes);
                let end = &mut self.ends[from];
                let Some(out) = end.connection.poll(now_ns, &end.config, most) else {
                    break;
                };
                polls += 1;
                assert!(polls < 5000, "{:?} {:#?}", out, end.connection);
                self.send(from, &out);
            }
        }
    }

    /// One step of time. `false` when nothing will ever happen again.
    fn step(&mut self) -> bool {
        let arrival = self.wire.keys().next().map(|key| key.0);
        let timers = self
            .ends
            .iter()
            .filter_map(|end| end.connection.timeout_ns());
        let Some(next) = timers.chain(arrival).min() else {
            return false;
        };
        assert!(next < self.now_ns + 200_000 * MS);
        self.now_ns = next.max(self.now_ns);
        while let Some(entry) = self.wire.first_entry()
            && entry.key().0 <= self.now_ns
        {
            let (to, segment, payload) = entry.remove();
            self.arrive(to, &segment, &payload);
            self.flush();
        }
        for end in &mut self.ends {
            end.events |= end.connection.on_timer(self.now_ns, &end.config);
        }
        self.flush();
        for end in &self.ends {
            let due = end.connection.timeout_ns();
            assert!(
                due.is_none_or(|due| due > self.now_ns),
                "a timer that stays due"
            );
        }
        true
    }

    fn arrive(&mut self, to: usize, segment: &Segment, payload: &[u8]) {
        let is_first = to == 1 && self.ends[1].connection.state() == State::SynSent;
        if is_first && segment.flags & (TcpFlags::SYN | TcpFlags::ACK) == TcpFlags::SYN {
            let initial = Initial {
                sequence: TcpSequence(u32::MAX - 70_000),
                timestamp: 3,
            };
            let config = self.ends[1].config;
            self.ends[1].connection = Connection::answer(&config, initial, segment, self.now_ns);
            return;
        }
        if is_first {
            return;
        }
        self.ends[to].take(self.now_ns, segment, payload);
    }

    /// Until both ends are done, or the limit.
    fn run(&mut self, limit_ns: u64) {
        // The server's place is empty until SYN comes.
        let end = self.now_ns + limit_ns;
        let client = &mut self.ends[0];
        client.run_application();
        let syn = client
            .connection
            .poll(self.now_ns, &client.config, 0)
            .unwrap();
        self.send(0, &syn);
        while self.ends[1].connection.state() == State::SynSent {
            let next = self.wire.keys().next().map(|key| key.0);
            let timer = self.ends[0].connection.timeout_ns();
            self.now_ns = next.into_iter().chain(timer).min().unwrap();
            while let Some(entry) = self.wire.first_entry()
                && entry.key().0 <= self.now_ns
            {
                let (to, segment, payload) = entry.remove();
                self.arrive(to, &segment, &payload);
            }
            let end = &mut self.ends[0];
            end.connection.on_timer(self.now_ns, &end.config);
            if let Some(syn) = end.connection.poll(self.now_ns, &end.config, 0) {
                self.send(0, &syn);
            }
        }
        self.flush();
        while self.now_ns < end && !self.is_done() && self.step() {}
    }

    fn is_done(&self) -> bool {
        let is_done = |one: usize| {
            let (end, other) = (&self.ends[one], &self.ends[1 - one]);
            end.read == other.to_write
                && (!end.closes
                    || matches!(end.connection.state(), State::Closed | State::TimeWait))
        };
        is_done(0) && is_done(1)
    }
}

fn transfer(config: Config, harm: Harm, seed: u64, bytes: u64, most_bytes: u32) -> World {
    let mut world = World::new(config, seed);
    world.harm = harm;
    world.most_bytes = most_bytes;
    world.byte_ns = 80;
    for end in &mut world.ends {
        end.to_write = bytes;
        end.closes = true;
    }
    world.run(3_000_000 * MS);
    for end in &world.ends {
        assert_eq!(end.read, bytes, "seed {seed}: {:?}", end.connection);
        assert!(
            end.events.contains(Events::CONNECTED | Events::PEER_CLOSED),
            "seed {seed}"
        );
    }
    world
}

#[test]
fn bytes_arrive_over_a_good_network() {
    for most_bytes in [0, 65_536] {
        let world = transfer(Config::default(), Harm::default(), 1, 3_000_000, most_bytes);
        for end in &world.ends {
            let statistics = end.connection.statistics();
            assert_eq!(statistics.retransmits, 0, "{statistics:?}");
        }
        let seconds = (world.now_ns / MS) as f64 / 1e3 - 1.0;
        std::println!("{most_bytes}: {seconds} s");
        assert!(seconds < 1.5);
    }
}

#[test]
fn bytes_arrive_over_bad_networks() {
    let harms = [
        Harm {
            loss: 10,
            ..Harm::default()
        },
        Harm {
            loss: 50,
            ..Harm::default()
        },
        Harm {
            reorder: 100,
            ..Harm::default()
        },
        Harm {
            duplicate: 100,
            ..Harm::default()
        },
        Harm {
            mark: 50,
            loss: 5,
            ..Harm::default()
        },
        Harm {
            loss: 50,
            reorder: 50,
            duplicate: 50,
            mark: 50,
        },
        Harm {
            loss: 250,
            reorder: 100,
            duplicate: 50,
            mark: 0,
        },
    ];
    let plain = Config {
        sack: false,
        timestamps: false,
        window_scaling: false,
        ..Config::default()
    };
    let small = Config {
        receive_bytes: 4096,
        send_bytes: 2048,
        ..Config::default()
    };
    let big = Config {
        ecn: true,
        receive_bytes: 1 << 20,
        no_delay: true,
        ..Config::default()
    };
    for (number, config) in [Config::default(), plain, small, big]
        .into_iter()
        .enumerate()
    {
        for (index, harm) in harms.into_iter().enumerate() {
            for seed in 0..4 {
                let most_bytes = if seed % 2 == 0 { 0 } else { 20_000 };
                let bytes = if harm.loss > 100 { 60_000 } else { 300_000 };
                let world = transfer(config, harm, seed, bytes, most_bytes);
                let statistics = world.ends[0].connection.statistics();
                let s = (world.now_ns / MS) as f64 / 1e3 - 1.0;
                std::println!(
                    "config {number} harm {index} seed {seed}: {s} s, {} repeated, {} timeouts, \
                     {} recoveries, {} lost again, {} probes, {} reordered",
                    statistics.retransmits,
                    statistics.timeouts,
                    statistics.recoveries,
                    statistics.lost_repetitions,
                    statistics.tail_probes,
                    statistics.reordered
                );
            }
        }
    }
}

/// A lossy link of 100 Mbit/s and 10 ms: repetitions, not timeouts, mend it.
#[test]
fn loss_is_mended_without_timeouts() {
    for (loss, most_timeouts, most_ms) in [(1, 0, 3000), (10, 2, 8000), (50, 12, 20_000)] {
        for seed in 0..3 {
            let harm = Harm {
                loss,
                ..Harm::default()
            };
            let mut world = World::new(Config::default(), seed);
            world.harm = harm;
            world.byte_ns = 80;
            world.ends[0].to_write = 5_000_000;
            world.run(3_000_000 * MS);
            let statistics = world.ends[0].connection.statistics();
            let ms = world.now_ns / MS - 1000;
            std::println!("{loss} {seed}: {ms} ms {statistics:?}");
            assert_eq!(world.ends[1].read, 5_000_000);
            assert!(
                statistics.timeouts <= most_timeouts,
                "{loss} {seed}: {statistics:?}"
            );
            assert!(ms <= most_ms, "{loss} {seed}: {ms} ms");
        }
    }
}

#[test]
fn a_fixed_rate_is_kept_whatever_is_lost() {
    let control = Controller::FixedRate {
        bytes_per_s: 1_000_000.try_into().unwrap(),
    };
    for (loss, most_bytes) in [(0, 0), (0, 65_536), (20, 0)] {
        let mut world = World::new(
            Config {
                control,
                ..Config::default()
            },
            3,
        );
        world.harm.loss = loss;
        world.most_bytes = most_bytes;
        world.ends[0].to_write = 3_000_000;
        world.run(100_000 * MS);
        let ms = world.now_ns / MS - 1000;
        let sent = world.sent[0] / 1000;
        assert_eq!(world.ends[1].read, 3_000_000);
        assert!(ms + 20 >= sent, "{sent} kB in {ms} ms");
        assert!(ms < sent * 11 / 10 + 300, "{sent} kB in {ms} ms");
    }
}

/// Through a listener that keeps nothing.
#[test]
fn a_cookie_becomes_a_connection() {
    let config = Config::default();
    let tuple = Tuple {
        local_port: 80,
        remote_port: 5000,
        ..Tuple::default()
    };
    let mut listener = Listener::new(Secret([5, 6]), 0);
    let initial = Initial {
        sequence: TcpSequence(900),
        timestamp: 17,
    };
    let mut now_ns = 1000 * MS;
    let mut client = Connection::connect(&config, initial, now_ns);
    let as_segment = |out: &Outgoing| Segment::new(&out.repr(1, 2), out.payload.length, false);
    let syn = client.poll(now_ns, &config, 0).unwrap();
    let Answer::Cookie(answer) = listener.on_segment(now_ns, &tuple, &as_segment(&syn), &config)
    else {
        panic!("a cookie");
    };
    now_ns += 10 * MS;
    assert_eq!(
        client
            .on_segment(now_ns, &as_segment(&answer), &config)
            .events,
        Events::CONNECTED
    );
    client.write(1000);
    let data = client.poll(now_ns, &config, 0).unwrap();
    let data = as_segment(&data);
    now_ns += 10 * MS;
    let Answer::Established(handshake) = listener.on_segment(now_ns, &tuple, &data, &config) else {
        panic!("established");
    };
    let mut server = Connection::established(&config, &handshake, now_ns);
    let delivery = server.on_segment(now_ns, &data, &config);
    assert_eq!(
        (delivery.events, delivery.readable),
        (Events::CONNECTED, 1000)
    );
    server.write(3000);
    let out = server.poll(now_ns, &config, 65_536).unwrap();
    assert_eq!(
        out.payload.length, 2896,
        "whole segments, of what the client takes"
    );
    now_ns += 10 * MS;
    let delivery = client.on_segment(now_ns, &as_segment(&out), &config);
    assert_eq!((delivery.freed, delivery.readable), (1000, 2896));
    assert_eq!(listener.embryonic(), 0);
}
