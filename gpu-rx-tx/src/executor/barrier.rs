//! The barrier of a block: its warps meet, whichever threads they run on.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the warps that arrived and those that have not returned; a generation says how often all
/// met.
///
/// One word holds all three, so that an arrival and a return can never miss each other.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct BlockBarrier(AtomicU64);

#[derive(Clone, Copy)]
struct State {
    generation: u32,
    arrived: u16,
    /// Warps that have not returned from the kernel.
    live: u16,
}

impl BlockBarrier {
    pub(crate) fn new(warps: u16) -> Self {
        let state = State {
            generation: 0,
            arrived: 0,
            live: warps,
        };
        Self(AtomicU64::new(state.pack()))
    }

    /// A warp arrives. `None` if it was the last one; else the generation to wait for with
    /// [`BlockBarrier::passed`].
    pub(crate) fn arrive(&self) -> Option<u32> {
        let (before, after) = self.change(|state| State {
            arrived: state.arrived + 1,
            ..state
        });
        (after.generation == before.generation).then_some(before.generation)
    }

    /// A warp has returned from the kernel: nobody waits for it any more.
    pub(crate) fn leave(&self) {
        self.change(|state| State {
            live: state.live.saturating_sub(1),
            ..state
        });
    }

    /// Whether all met since `arrive` returned `generation`.
    pub(crate) fn passed(&self, generation: u32) -> bool {
        // pairs with: the release half of `change` by the last to arrive.
        State::unpack(self.0.load(Ordering::Acquire)).generation != generation
    }

    fn change(&self, step: impl Fn(State) -> State) -> (State, State) {
        let mut before = self.0.load(Ordering::Relaxed);
        loop {
            let old = State::unpack(before);
            let new = step(old).met();
            match self.0.compare_exchange_weak(
                before,
                new.pack(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return (old, new),
                Err(now) => before = now,
            }
        }
    }
}

impl State {
    fn met(self) -> Self {
        if self.arrived > 0 && self.arrived >= self.live {
            Self {
                generation: self.generation.wrapping_add(1),
                arrived: 0,
                ..self
            }
        } else {
            self
        }
    }

    fn pack(self) -> u64 {
        u64::from(self.generation) | u64::from(self.arrived) << 32 | u64::from(self.live) << 48
    }

    fn unpack(word: u64) -> Self {
        Self {
            generation: word as u32,
            arrived: (word >> 32) as u16,
            live: (word >> 48) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_to_arrive_opens_it() {
        let barrier = BlockBarrier::new(3);
        for lap in 0..5 {
            assert_eq!(barrier.arrive(), Some(lap));
            assert_eq!(barrier.arrive(), Some(lap));
            assert!(!barrier.passed(lap));
            assert_eq!(barrier.arrive(), None);
            assert!(barrier.passed(lap));
        }
    }

    #[test]
    fn a_warp_that_returned_is_not_waited_for() {
        let barrier = BlockBarrier::new(3);
        barrier.leave();
        let waits = barrier.arrive().expect("one more to come");
        barrier.leave();
        assert!(barrier.passed(waits), "the return opened it");
        assert_eq!(barrier.arrive(), None, "alone in the block");
    }
}
