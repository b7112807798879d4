//! Which lanes run next, and when a turn is over.

use super::{Group, Lanes, State, Turn, Warp, lowest};
use crate::fault::{Fault, Reason};
use crate::observer::Observer;

impl<O: Observer> Warp<O> {
    /// Lets lanes run until all of them pause, wait for the block or exit, or until enough was
    /// done. Called again after [`Turn::Barrier`], the block has met.
    pub(crate) fn turn(&mut self) -> Result<Turn, Fault> {
        self.wake();
        let (mut budget, over) = match self.random.below(EARLY_END) {
            // The rest of the world moves between any two instructions.
            0 => (
                1 + self.random.below(EARLY_INSTRUCTIONS) as u32,
                Turn::Interrupted,
            ),
            _ => (TURN_INSTRUCTIONS, Turn::Busy),
        };
        loop {
            if self.live == 0 {
                return Ok(Turn::Ended);
            }
            match self.pick() {
                Some(at) => self.run(at, &mut budget)?,
                None => return self.rest(),
            }
            if budget == 0 {
                return Ok(over);
            }
        }
    }

    /// A new turn: whoever paused goes on, and whoever waited for the block.
    fn wake(&mut self) {
        let passed = std::mem::take(&mut self.arrived);
        if passed && O::WATCHES {
            self.observer.passed();
        }
        for group in &mut self.groups {
            match group.state {
                State::Paused => group.state = State::Ready,
                State::Barrier { .. } if passed => {
                    group.state = State::Ready;
                    group.pc += 1;
                }
                _ => {}
            }
        }
    }

    /// The group that runs next, after those that stand at the same place were joined.
    fn pick(&mut self) -> Option<usize> {
        if let [only] = self.groups.as_slice() {
            return (only.state == State::Ready).then_some(0);
        }
        self.join();
        let ready = |group: &Group| group.state == State::Ready;
        let count = self.groups.iter().filter(|group| ready(group)).count();
        let draws = std::mem::take(&mut self.unfair) || self.random.below(DRAWS) == 0;
        if draws && count > 1 {
            let nth = self.random.below(count);
            let mut places = (0..).zip(&self.groups).filter(|(_, group)| ready(group));
            return places.nth(nth).map(|(at, _)| at);
        }
        let places = (0..).zip(&self.groups).filter(|(_, group)| ready(group));
        let first = places.min_by_key(|(_, group)| {
            let depth = self.nodes.get(group.node).map_or(0, |node| node.depth);
            (u64::MAX - depth, group.pc)
        });
        first.map(|(at, _)| at)
    }

    fn join(&mut self) {
        let mut at = 0;
        while let Some(&group) = self.groups.get(at) {
            let mut rest = self.groups.iter_mut().skip(at + 1);
            let same = rest.find(|other| {
                Group {
                    mask: group.mask,
                    ..**other
                } == group
            });
            match same {
                Some(other) => {
                    other.mask |= group.mask;
                    self.groups.swap_remove(at);
                }
                None => at += 1,
            }
        }
    }

    /// Nobody can run: the warp pauses, waits for its block, or is stuck.
    fn rest(&mut self) -> Result<Turn, Fault> {
        let state = |wanted: fn(&State) -> bool| {
            let groups = self.groups.iter();
            groups
                .filter(|group| wanted(&group.state))
                .fold(0, |mask, group| mask | group.mask)
        };
        if state(|state| *state == State::Paused) != 0 {
            return Ok(Turn::Paused);
        }
        let at_barrier = state(|state| matches!(state, State::Barrier { .. }));
        let Some(&first) = self.groups.iter().min_by_key(|group| lowest(group.mask)) else {
            return Ok(Turn::Ended);
        };
        if at_barrier == 0 {
            let words = Reason::Deadlock(self.stand());
            return Err(self.fault(&first, lowest(first.mask), words));
        }
        self.arrive(first, at_barrier)?;
        self.arrived = true;
        if O::WATCHES {
            let (_, line, _) = self.at(&first);
            self.observer.arrived(line);
        }
        Ok(Turn::Barrier)
    }

    /// Checks that the lanes `at_barrier` are those that must come to the barrier together.
    fn arrive(&self, first: Group, at_barrier: u32) -> Result<(), Fault> {
        let mut barriers = self
            .groups
            .iter()
            .filter(|group| matches!(group.state, State::Barrier { .. }));
        let aligned = barriers
            .clone()
            .find(|group| group.state == State::Barrier { aligned: true });
        let Some(blamed) = aligned.or_else(|| barriers.next()) else {
            return Ok(());
        };
        if at_barrier != self.live {
            let reason = Reason::Divergence(self.stand());
            return Err(self.fault(blamed, lowest(blamed.mask), reason));
        }
        if aligned.is_none() {
            return Ok(());
        }
        let together = self.groups.iter().all(|group| {
            let function = |group: &Group| self.nodes.get(group.node).map(|node| node.function);
            group.pc == first.pc && function(group) == function(&first)
        });
        let exited = !self.live;
        let words = match (together, exited) {
            (true, 0) => return Ok(()),
            (true, _) => format!("{}; {} exited", self.stand(), Lanes(exited)),
            (false, _) => self.stand(),
        };
        Err(self.fault(blamed, lowest(blamed.mask), Reason::Divergence(words)))
    }
}

/// Instructions of a turn: as many as keep a thread from being held for long.
const TURN_INSTRUCTIONS: u32 = 4096;
/// One in this many turns ends early,
const EARLY_END: usize = 8;
/// after at most this many instructions.
const EARLY_INSTRUCTIONS: usize = 512;
/// One in this many times the group that runs next is drawn.
const DRAWS: usize = 64;
