//! Two ends with a network between them.

use std::collections::VecDeque;

use crate::ends::{Clock, End, Plan};
use crate::wires::Wire;

/// What the network does to frames, in 1/1000 of all.
#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) loss: u64,
    pub(crate) doubles: u64,
    pub(crate) reorders: u64,
    pub(crate) corrupts: u64,
}

impl Faults {
    pub(crate) const NONE: Self = Self {
        loss: 0,
        doubles: 0,
        reorders: 0,
        corrupts: 0,
    };
}

/// Two ends and the frames between them.
pub(crate) struct Net<W> {
    pub(crate) ends: [End<W>; 2],
    pub(crate) clock: Clock,
    pub(crate) faults: Faults,
    /// Frames that are to be delivered to an end.
    pub(crate) lanes: [VecDeque<Vec<u8>>; 2],
    /// Every frame, with the end that sent it.
    pub(crate) log: Vec<(usize, Vec<u8>)>,
    seed: u64,
}

/// How far the clock moves in a turn.
pub(crate) const TURN_NS: u64 = 20_000;

impl<W: Wire> Net<W> {
    pub(crate) fn new(plan: &Plan, seed: u64, is_ipv6: bool) -> Self {
        Self::of(&[*plan, *plan], seed, is_ipv6)
    }

    /// Ends of different make.
    pub(crate) fn of(plans: &[Plan; 2], seed: u64, is_ipv6: bool) -> Self {
        let clock = Clock::default();
        clock.0.set(7_000_000_000);
        Self {
            ends: [0, 1].map(|end| End::new(&plans[end], end as u8 + 1, is_ipv6)),
            clock,
            faults: Faults::default(),
            lanes: Default::default(),
            log: Vec::new(),
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    pub(crate) fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 16) % below
    }

    /// Both engines run, frames move, time goes on.
    pub(crate) fn turn(&mut self) {
        for place in 0..2 {
            self.ends[place].run(&self.clock, 2);
            while let Some(frame) = self.ends[place].wire.take() {
                self.ends[place].wire.complete();
                self.log.push((place, frame.clone()));
                self.carry(1 - place, frame);
            }
        }
        for place in 0..2 {
            while let Some(frame) = self.lanes[place].front() {
                if !self.ends[place].wire.deliver(frame) {
                    break;
                }
                self.lanes[place].pop_front();
            }
        }
        self.clock.0.set(self.clock.0.get() + TURN_NS);
    }

    fn carry(&mut self, to: usize, frame: Vec<u8>) {
        let faults = self.faults;
        if self.random(1000) < faults.loss {
            return;
        }
        let mut frame = frame;
        if self.random(1000) < faults.corrupts {
            let at = self.random(frame.len() as u64) as usize;
            frame[at] ^= 1 << self.random(8);
        }
        if self.random(1000) < faults.doubles {
            self.lanes[to].push_back(frame.clone());
        }
        let places = self.lanes[to].len();
        if self.random(1000) < faults.reorders && places > 0 {
            let at = self.random(places as u64) as usize;
            self.lanes[to].insert(at, frame);
        } else {
            self.lanes[to].push_back(frame);
        }
    }

    /// Turns until `done`, which may act at both ends. Panics after so many seconds of the clock.
    pub(crate) fn until(&mut self, seconds: u64, mut done: impl FnMut(&mut [End<W>; 2]) -> bool) {
        let end_ns = self.clock.0.get() + seconds * 1_000_000_000;
        while !done(&mut self.ends) {
            assert!(
                self.clock.0.get() < end_ns,
                "nothing comes of it: {:?} {:?}",
                self.ends[0].counters(),
                self.ends[1].counters()
            );
            self.turn();
            let is_quiet = self.lanes.iter().all(VecDeque::is_empty);
            if is_quiet {
                // Nothing moves but clocks.
                self.clock.0.set(self.clock.0.get() + 50 * TURN_NS);
            }
        }
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, seconds: u64) {
        let end_ns = self.clock.0.get() + seconds * 1_000_000_000;
        while self.clock.0.get() < end_ns {
            self.turn();
            self.clock.0.set(self.clock.0.get() + 50 * TURN_NS);
        }
    }

    /// A connection: its places at both ends. End 0 opens, end 1 listens at port 80.
    pub(crate) fn connected(&mut self, local_port: u16) -> [u32; 2] {
        let path = self.ends[0].path_to(&self.ends[1], local_port);
        let answer = self.ends[0].connect(&self.clock, path, 80);
        assert_eq!(answer.outcome, 0);
        let mut accepted = None;
        self.until(30, |ends| {
            accepted = accepted.or_else(|| ends[1].accept(0));
            accepted.is_some() && ends[0].flags(answer.place) & 1 != 0
        });
        [answer.place, accepted.expect("accepted")]
    }

    /// Both engines give back what they have, in time.
    pub(crate) fn check_ends(&mut self, plan: &Plan) {
        self.check_all(&[*plan, *plan]);
    }

    pub(crate) fn check_all(&mut self, plans: &[Plan; 2]) {
        self.faults = Faults::default();
        let each = |ends: &mut [End<W>; 2]| {
            let mut both = ends.iter().zip(plans);
            both.all(|(end, plan)| end.is_empty(plan))
        };
        self.until(300, each);
        let both = self.ends.iter().zip(plans);
        both.for_each(|(end, plan)| end.check_is_empty(plan));
    }
}
