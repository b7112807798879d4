//! The 32 lanes of a warp and their meetings: who waits where, who disagrees.

use std::cell::{Cell, RefCell};
use std::fmt;

/// A set of lanes, one bit each; prints as `0-3, 7`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneSet(pub u32);

impl fmt::Display for LaneSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let mut separator = "";
        while rest != 0 {
            let first = rest.trailing_zeros();
            let length = (rest >> first).trailing_ones();
            write!(f, "{separator}{first}")?;
            if length > 1 {
                write!(f, "-{}", first + length - 1)?;
            }
            let end = first + length;
            rest = rest
                .checked_shr(end)
                .unwrap_or(0)
                .checked_shl(end)
                .unwrap_or(0);
            separator = ", ";
        }
        Ok(())
    }
}

/// A call that all lanes of a warp make together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collective {
    /// `ballot` and what is made of it.
    Ballot,
    /// `shuffle` and what is made of it.
    Shuffle,
    /// `sync_warp`.
    SyncWarp,
    /// `sync_block`.
    SyncBlock,
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ballot => "ballot",
            Self::Shuffle => "shuffle",
            Self::SyncWarp => "sync_warp",
            Self::SyncBlock => "sync_block",
        })
    }
}

/// How the lanes of a warp broke the collective contract of `Simt`. On a GPU each of these is a
/// hang or an undefined value.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Divergence {
    /// Lanes met in different calls.
    Mismatch {
        /// Lanes that wait.
        waiting: LaneSet,
        /// Where they wait.
        at: Collective,
        /// The lane that came to another call.
        lane: u32,
        /// The call it came to.
        called: Collective,
        /// How often the warp met before.
        meeting: u64,
    },
    /// A lane asked for the value of a lane that has returned.
    ReturnedSource {
        /// The lane that asked.
        lane: u32,
        /// The lane that has returned.
        source: u32,
        /// How often the warp met before.
        meeting: u64,
    },
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch {
                waiting,
                at,
                lane,
                called,
                meeting,
            } => write!(
                f,
                "lanes {waiting} wait at {at}, lane {lane} called {called} (meeting {meeting}): \
                 make the same collective calls in all lanes"
            ),
            Self::ReturnedSource {
                lane,
                source,
                meeting,
            } => write!(
                f,
                "lane {lane} shuffles from lane {source}, which has returned (meeting {meeting}): \
                 let the lanes leave the kernel together"
            ),
        }
    }
}

/// Where the lanes of one warp stand. All of it on one thread.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// Lanes that wait in `at`.
    waiting: Cell<u32>,
    at: Cell<Collective>,
    /// Lanes that paused and have not had a turn since.
    paused: Cell<u32>,
    /// Lanes that returned from the kernel.
    returned: Cell<u32>,
    values: [Cell<u64>; LANES],
    sources: [Cell<u32>; LANES],
    results: [Cell<u64>; LANES],
    meetings: Cell<u64>,
    divergence: RefCell<Option<Divergence>>,
}

pub(crate) const LANES: usize = 32;

/// What the scheduler does next with a warp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Let one of these lanes run.
    Run(u32),
    /// All lanes that have not returned wait in a call within the warp: [`Lanes::meet`].
    Meet,
    /// All of them wait at the barrier of the block.
    Block,
    /// All lanes pause or wait for one that does.
    Paused,
    /// All lanes have returned.
    Ended,
}

impl Lanes {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Cell::new(0),
            at: Cell::new(Collective::SyncWarp),
            paused: Cell::new(0),
            returned: Cell::new(0),
            values: std::array::from_fn(|_| Cell::new(0)),
            sources: std::array::from_fn(|_| Cell::new(0)),
            results: std::array::from_fn(|_| Cell::new(0)),
            meetings: Cell::new(0),
            divergence: RefCell::new(None),
        }
    }

    /// A lane comes to a collective call; its coroutine suspends next, and finds the result after.
    pub(crate) fn arrive(&self, lane: u32, call: Collective, value: u64, source: u32) {
        let waiting = self.waiting.get();
        if waiting == 0 {
            self.at.set(call);
        } else if self.at.get() != call {
            self.diverge(Divergence::Mismatch {
                waiting: LaneSet(waiting),
                at: self.at.get(),
                lane,
                called: call,
                meeting: self.meetings.get(),
            });
        }
        self.waiting.set(waiting | 1 << lane);
        slot(&self.values, lane).set(value);
        slot(&self.sources, lane).set(source);
    }

    pub(crate) fn result(&self, lane: u32) -> u64 {
        slot(&self.results, lane).get()
    }

    pub(crate) fn pause(&self, lane: u32) {
        self.paused.set(self.paused.get() | 1 << lane);
    }

    pub(crate) fn leave(&self, lane: u32) {
        self.returned.set(self.returned.get() | 1 << lane);
    }

    /// Everybody who paused may run again.
    pub(crate) fn wake(&self) {
        self.paused.set(0);
    }

    pub(crate) fn next(&self) -> Next {
        let live = !self.returned.get();
        let waiting = self.waiting.get();
        let ready = live & !waiting & !self.paused.get();
        if live == 0 {
            Next::Ended
        } else if ready != 0 {
            Next::Run(ready)
        } else if waiting != live {
            Next::Paused
        } else if self.at.get() == Collective::SyncBlock {
            Next::Block
        } else {
            Next::Meet
        }
    }

    /// All lanes that have not returned are here: each gets its result and may run again.
    pub(crate) fn meet(&self) {
        let here = self.waiting.get();
        let ballot = (0..LANES as u32)
            .filter(|&lane| here & 1 << lane != 0 && slot(&self.values, lane).get() != 0)
            .fold(0u32, |votes, lane| votes | 1 << lane);
        for lane in (0..LANES as u32).filter(|&lane| here & 1 << lane != 0) {
            let result = match self.at.get() {
                Collective::Ballot => u64::from(ballot),
                Collective::Shuffle => self.taken(lane, here),
                Collective::SyncWarp | Collective::SyncBlock => 0,
            };
            slot(&self.results, lane).set(result);
        }
        self.meetings.set(self.meetings.get() + 1);
        self.waiting.set(0);
    }

    /// What a shuffle gives to `lane`.
    fn taken(&self, lane: u32, here: u32) -> u64 {
        let source = slot(&self.sources, lane).get() % LANES as u32;
        if here & 1 << source == 0 {
            self.diverge(Divergence::ReturnedSource {
                lane,
                source,
                meeting: self.meetings.get(),
            });
        }
        slot(&self.values, source).get()
    }

    /// The first divergence is the one that counts; the rest follow from it.
    fn diverge(&self, divergence: Divergence) {
        self.divergence.borrow_mut().get_or_insert(divergence);
    }

    pub(crate) fn divergence(&self) -> Option<Divergence> {
        self.divergence.borrow().clone()
    }

    /// Where the lanes stand, in words.
    pub(crate) fn stand(&self) -> String {
        let (waiting, returned) = (self.waiting.get(), self.returned.get());
        let mut parts = Vec::new();
        if waiting != 0 {
            parts.push(format!(
                "lanes {} wait at {}",
                LaneSet(waiting),
                self.at.get()
            ));
        }
        let pausing = !waiting & !returned;
        if pausing != 0 {
            parts.push(format!("lanes {} pause", LaneSet(pausing)));
        }
        if returned != 0 {
            parts.push(format!("lanes {} have returned", LaneSet(returned)));
        }
        parts.join("; ")
    }
}

/// Lane numbers come from our own coroutines and are below 32; the mask says so to the compiler
/// too.
fn slot<T>(slots: &[Cell<T>; LANES], lane: u32) -> &Cell<T> {
    &slots[lane as usize % LANES]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_lanes_print_as_ranges() {
        let cases = [
            (0, ""),
            (1, "0"),
            (0b1000_1111, "0-3, 7"),
            (u32::MAX, "0-31"),
            (0x8000_0000, "31"),
            (0xc000_0001, "0, 30-31"),
        ];
        for (mask, want) in cases {
            assert_eq!(LaneSet(mask).to_string(), want);
        }
    }

    #[test]
    fn a_ballot_counts_lanes_that_have_returned_as_no() {
        let lanes = Lanes::new();
        for lane in 0..32 {
            if lane % 4 == 3 {
                lanes.leave(lane);
            } else {
                lanes.arrive(lane, Collective::Ballot, 1, 0);
            }
        }
        assert_eq!(lanes.next(), Next::Meet);
        lanes.meet();
        assert_eq!(lanes.result(0), 0x7777_7777);
        assert_eq!(lanes.next(), Next::Run(0x7777_7777));
    }

    #[test]
    fn a_shuffle_from_a_lane_that_has_returned_is_named() {
        let lanes = Lanes::new();
        lanes.leave(9);
        for lane in (0..32).filter(|&lane| lane != 9) {
            lanes.arrive(lane, Collective::Shuffle, u64::from(lane), lane + 1);
        }
        lanes.meet();
        let want = Divergence::ReturnedSource {
            lane: 8,
            source: 9,
            meeting: 0,
        };
        assert_eq!(lanes.divergence(), Some(want));
        assert_eq!(lanes.result(31), 0, "sources wrap at 32");
    }
}
