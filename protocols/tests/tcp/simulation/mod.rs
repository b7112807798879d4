//! Streams between two ends, ours or another's, over a fabric in virtual time. One seed decides a
//! run.

mod clean;
mod fabric;
mod flood;
mod foreign;
mod hostile;
mod long;
mod ours;

use fabric::{Dice, Fabric, Weather};
use warpwire_protocols::tcp::Statistics;

/// A TCP segment on its way, without IP header.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    /// It can be marked instead of dropped.
    pub(crate) is_capable: bool,
    pub(crate) is_marked: bool,
}

/// An end of a stream, whoever made it.
pub(crate) trait Side {
    /// The next segment that it sends now.
    fn poll(&mut self, now_ns: u64) -> Option<Packet>;
    /// A segment arrives.
    fn take(&mut self, now_ns: u64, packet: &Packet);
    /// Nothing more arrives at this time.
    fn settle(&mut self, _now_ns: u64) {}
    /// When it wants to look at the clock.
    fn timeout_ns(&mut self, now_ns: u64) -> Option<u64>;
    fn on_timer(&mut self, now_ns: u64);
    /// Whether the connection began, so that it can be used.
    fn has_begun(&self) -> bool;
    /// Writes as far as it fits.
    fn write(&mut self, bytes: &[u8]) -> usize;
    /// Reads up to so many bytes.
    fn read(&mut self, most: usize) -> Vec<u8>;
    fn close(&mut self);
    fn abort(&mut self);
    /// The network says that a segment of this number was too big for a link of this MTU.
    fn too_big(&mut self, sequence: u32, mtu: u16);
    /// Whether the peer's stream ended, and all of it was read.
    fn is_at_end(&self) -> bool;
    /// Whether nothing more happens; why, if that is an error.
    fn is_over(&self) -> Option<Result<(), String>>;
    /// Its figures, if it is one of ours.
    fn figures(&self) -> Option<Statistics> {
        None
    }
    /// What is known of it, for a message.
    fn tell(&self) -> String;
}

/// What the application at an end does.
pub(crate) struct User {
    /// What it writes.
    written: Vec<u8>,
    sent: usize,
    pub(crate) read: Vec<u8>,
    is_closed: bool,
    dice: Dice,
    /// Pauses between reads and writes, in ns at most; 0: it waits for nothing.
    pause_ns: u64,
    next_ns: u64,
    /// Once it read so much, it reads nothing for so long.
    sleep: Option<(usize, u64)>,
    /// Once it read so much, it gives up.
    gives_up: Option<usize>,
    /// When the last byte came.
    pub(crate) last_ns: u64,
}

impl User {
    pub(crate) fn new(seed: u64, bytes: usize, pause_ns: u64) -> Self {
        let mut dice = Dice::new(seed);
        let written = (0..bytes).map(|_| dice.next() as u8).collect();
        Self {
            written,
            sent: 0,
            read: Vec::new(),
            is_closed: false,
            dice,
            pause_ns,
            next_ns: 0,
            sleep: None,
            gives_up: None,
            last_ns: 0,
        }
    }

    fn act(&mut self, now_ns: u64, side: &mut dyn Side) {
        if now_ns < self.next_ns || !side.has_begun() {
            return;
        }
        let (mut most_read, mut most_written) = (usize::MAX, usize::MAX);
        if self.pause_ns > 0 {
            self.next_ns = now_ns + 1 + self.dice.below(self.pause_ns);
            most_read = 1 + self.dice.below(20_000) as usize;
            most_written = 1 + self.dice.below(20_000) as usize;
        }
        let rest = &self.written[self.sent..];
        self.sent += side.write(&rest[..most_written.min(rest.len())]);
        if self.sent == self.written.len() && !self.is_closed {
            side.close();
            self.is_closed = true;
        }
        if self.gives_up.is_some_and(|after| self.read.len() >= after) {
            self.gives_up = None;
            return side.abort();
        }
        if let Some((after, for_ns)) = self.sleep
            && self.read.len() >= after
        {
            self.next_ns = now_ns + for_ns;
            self.sleep = None;
            return;
        }
        let bytes = side.read(most_read);
        if !bytes.is_empty() {
            self.last_ns = now_ns;
        }
        self.read.extend(bytes);
    }

    /// Whether it wants to do something at a time that is known.
    fn wakes_ns(&self, now_ns: u64) -> Option<u64> {
        (self.next_ns > now_ns).then_some(self.next_ns)
    }
}

/// Two ends, their users, and what is between.
pub(crate) struct World {
    pub(crate) sides: [Box<dyn Side>; 2],
    pub(crate) users: [User; 2],
    pub(crate) fabric: Fabric,
}

impl World {
    /// Runs until both ends are over, or for so many steps; says how each ended.
    pub(crate) fn run(&mut self, most_steps: u64) -> [Result<(), String>; 2] {
        for _ in 0..most_steps {
            if let [Some(first), Some(second)] = [0, 1].map(|at| self.sides[at].is_over()) {
                return [first, second];
            }
            if !self.step() {
                break;
            }
        }
        let tell = |at: usize| {
            format!(
                "{}, read {}",
                self.sides[at].tell(),
                self.users[at].read.len()
            )
        };
        panic!(
            "no end after {:?}:\n  {}\n  {}",
            std::time::Duration::from_nanos(self.fabric.now_ns),
            tell(0),
            tell(1)
        );
    }

    fn step(&mut self) -> bool {
        let now_ns = self.fabric.now_ns;
        for (at, (side, user)) in self.sides.iter_mut().zip(&mut self.users).enumerate() {
            user.act(now_ns, side.as_mut());
            for _ in 0..4000 {
                let Some(packet) = side.poll(now_ns) else {
                    break;
                };
                if let Some((sequence, mtu)) = self.fabric.send(1 - at, packet) {
                    side.too_big(sequence, mtu);
                }
            }
            assert!(side.poll(now_ns).is_none(), "an end sends without end");
        }
        let mut wakes = [None; 4];
        for (at, (side, user)) in self.sides.iter_mut().zip(&self.users).enumerate() {
            wakes[2 * at] = side.timeout_ns(now_ns);
            wakes[2 * at + 1] = match side.is_over() {
                None => user.wakes_ns(now_ns),
                Some(_) => None,
            };
        }
        let wake = wakes.into_iter().flatten().min();
        match (self.fabric.next_ns(), wake) {
            (Some(at_ns), wake) if wake.is_none_or(|wake| at_ns <= wake) => {
                let (to, packets) = self.fabric.arrive().expect("is on its way");
                let now_ns = self.fabric.now_ns;
                for packet in packets {
                    self.sides[to].take(now_ns, &packet);
                }
                self.sides[to].settle(now_ns);
                true
            }
            (_, Some(wake)) => {
                // A timer that is due and changes nothing must not stop the clock.
                self.fabric.now_ns = wake.max(now_ns + 1);
                for side in &mut self.sides {
                    side.on_timer(self.fabric.now_ns);
                }
                true
            }
            (_, None) => false,
        }
    }

    /// Each end read what the other wrote, or a part of it that is its beginning.
    pub(crate) fn is_exact(&self) -> [bool; 2] {
        [0, 1].map(|at| {
            let (read, written) = (&self.users[at].read, &self.users[1 - at].written);
            assert!(
                written.starts_with(read),
                "side {at} read {} bytes that nobody wrote so",
                read.len()
            );
            read.len() == written.len() && self.sides[at].is_at_end()
        })
    }
}

/// Runs every seed, or the one that is asked for; a failure says how it is repeated.
pub(crate) fn every_seed(test: &str, run: impl Fn(u64)) {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let only = std::env::var("WARPWIRE_TCP_SEED").ok();
    let only = only.map(|seed| seed.parse::<u64>().expect("WARPWIRE_TCP_SEED is a number"));
    let seeds = (0..SEEDS).filter(|seed| only.is_none_or(|only| only == *seed));
    let fails = |seed: &u64| catch_unwind(AssertUnwindSafe(|| run(*seed))).is_err();
    let failed: Vec<u64> = seeds.filter(fails).collect();
    let commands = failed.iter().map(|seed| {
        format!("\n  WARPWIRE_TCP_SEED={seed} cargo test -p warpwire-protocols --test tcp {test}")
    });
    assert!(
        failed.is_empty(),
        "seeds fail, told above; to repeat:{}",
        commands.collect::<String>()
    );
}

const SEEDS: u64 = 64;
