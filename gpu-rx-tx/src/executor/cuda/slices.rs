//! The sliced launch: a kernel runs for a few milliseconds at a time and is launched again, until
//! it is stopped or ends by itself. Between slices the application's own calls come through.
#![expect(unsafe_code, reason = "launches carry the kernel's promise")]

use std::hint;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use warpwire_ring::{Cause, DeviceAddress};

use crate::arena::Arena;
use crate::executor::control::Control;
use crate::executor::cuda::code::CallError;
use crate::executor::cuda::driver::{Function, Shape};
use crate::executor::cuda::error::Error;
use crate::executor::cuda::launch::{BlockExit, Progress, Slices};
use crate::executor::cuda::session::{Lane, Program, Registered, lock};

/// A launch, as its thread has it.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) kernel: &'static str,
    pub(super) function: Function,
    pub(super) shape: Shape,
    pub(super) parameter: u64,
    pub(super) control: Control,
    /// The arena with the word that `slices.turns` names, if it names one.
    pub(super) turns: Option<Arc<Arena>>,
    pub(super) budget: Budget,
    pub(super) progress: Arc<Progress>,
    pub(super) lane: Lane,
    pub(super) held: Held,
}

/// What a launch holds until its last slice ended; given back in this order.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) _registered: Vec<Registered>,
    pub(super) _memory: Vec<Arc<Arena>>,
    pub(super) slices: Slices,
    pub(super) _program: Arc<Program>,
    pub(super) _share: Share,
}

impl Course {
    /// Runs slices to the end of the launch.
    pub(super) fn run(mut self) {
        let outcome = self.slices();
        let progress = Arc::clone(&self.progress);
        drop(self);
        progress.end(outcome);
    }

    fn slices(&mut self) -> Result<Vec<BlockExit>, Error> {
        while !self.control.stopped() {
            let turns = self.budget.turns;
            let began = Instant::now();
            self.launch(turns)?;
            self.wait()?;
            let took = began.elapsed();
            {
                let report = &mut self.progress.lock().report;
                report.slices += 1;
                report.turns += turns;
                report.longest_slice = report.longest_slice.max(took);
            }
            if self.turns.is_none() {
                return Ok(self.verdicts());
            }
            if let Some(exits) = self.judge(turns)? {
                return Ok(exits);
            }
            self.budget.learn(took);
        }
        Ok(vec![BlockExit::Stopped; self.shape.blocks as usize])
    }

    fn launch(&self, turns: u64) -> Result<(), Error> {
        if let (Some(address), Some(arena)) = (self.held.slices.turns, &self.turns) {
            arena.word(address)?.store(turns, Ordering::Release);
        }
        for block in 0..self.shape.blocks {
            self.control.expect_beat(block, NEVER);
        }
        let (function, shape, parameter) = (self.function, self.shape, self.parameter);
        let launched = self.lane.with(|driver, stream, event| {
            // SAFETY: whoever made the parameters promised; all memory is held and mapped.
            unsafe { driver.launch(function, shape, stream, parameter) }?;
            driver.record(event, stream)
        });
        launched.map(drop).map_err(|source| self.failed(source))
    }

    /// Polls until the slice ended. What bounds this is the kernel's turns; whoever joins the
    /// launch has a deadline, and leaves this to go on.
    fn wait(&self) -> Result<(), Error> {
        let mut pause = self.held.slices.pause;
        loop {
            let done = self.lane.with(|driver, _, event| driver.is_done(event));
            if done.map_err(|source| self.failed(source))? != Some(false) {
                return Ok(());
            }
            if pause.is_zero() {
                hint::spin_loop();
            } else {
                thread::sleep(pause);
            }
            if self.control.stopped() {
                pause = (pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            }
        }
    }

    /// How the blocks of the only slice ended, as far as they say it.
    fn verdicts(&self) -> Vec<BlockExit> {
        let blocks = (0..self.shape.blocks).map(|block| {
            let cause = self.control.verdict(block).and_then(Cause::from_number);
            BlockExit::Returned(cause)
        });
        blocks.collect()
    }

    /// How the blocks ended, if the launch is over. `turns` is what they had.
    fn judge(&self, turns: u64) -> Result<Option<Vec<BlockExit>>, Error> {
        let stopped = self.control.stopped();
        let mut over = stopped;
        let mut exits = Vec::new();
        for block in 0..self.shape.blocks {
            let cause = self.control.verdict(block).and_then(Cause::from_number);
            let beat = self.control.heartbeat(block).unwrap_or(NEVER);
            let used_up = u64::from(beat) + 1 == turns;
            let exit = match cause {
                Some(cause) => BlockExit::Returned(Some(cause)),
                None if beat == NEVER && !stopped => {
                    return Err(Error::Refused {
                        kernel: self.kernel,
                        block,
                    });
                }
                None if used_up || stopped => BlockExit::Stopped,
                None => BlockExit::Returned(None),
            };
            over |= cause.is_some();
            exits.push(exit);
        }
        // Those that have done all come back at once until the last one has.
        over |= exits.iter().all(|exit| *exit == BlockExit::Returned(None));
        if over {
            self.control.stop();
        }
        Ok(over.then_some(exits))
    }

    fn failed(&self, source: CallError) -> Error {
        Error::Kernel {
            kernel: self.kernel,
            source,
        }
    }
}

/// How many turns a slice gets, so that it takes about as long as it shall.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) turns: u64,
    target: Duration,
}

impl Budget {
    pub(super) fn new(first: u64, target: Duration) -> Self {
        Self {
            turns: first,
            target,
        }
    }

    /// A slice took so long. Turns with work take far longer than idle ones, so the next slice has
    /// at most twice as many turns, and as few as two: of one, nobody could say whether a block
    /// that came back had done all.
    fn learn(&mut self, took: Duration) {
        let took_ns = took.as_nanos().max(1);
        let fitting = u128::from(self.turns) * self.target.as_nanos() / took_ns;
        let most = u128::from(self.turns.saturating_mul(2).min(MOST_TURNS));
        self.turns = u64::try_from(fitting.min(most))
            .unwrap_or(MOST_TURNS)
            .max(LEAST_TURNS);
    }
}

/// The part of a device that a launch takes, as long as it runs.
#[derive(Debug)]
pub(super) struct Share {
    taken: Arc<Mutex<u64>>,
    amount: u64,
}

impl Share {
    /// Takes `blocks` of the `most` that an empty device holds.
    pub(super) fn take(taken: &Arc<Mutex<u64>>, blocks: u32, most: u64) -> Result<Self, u64> {
        let mut sum = lock(taken);
        // Rounded down, and far finer than a block: launches that fit exactly do.
        let amount = u64::from(blocks) * WHOLE / most.max(1);
        if most == 0 || *sum + amount > WHOLE {
            let taken = u128::from(*sum) * u128::from(most);
            return Err(taken.div_ceil(u128::from(WHOLE)) as u64);
        }
        *sum += amount;
        Ok(Self {
            taken: Arc::clone(taken),
            amount,
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *lock(&self.taken) -= self.amount;
    }
}

/// A number of turns that a slice can have.
pub(super) fn bounded(turns: u64) -> u64 {
    turns.clamp(LEAST_TURNS, MOST_TURNS)
}

/// The arena that a 64-bit word lies in.
pub(super) fn arena_of(memory: &[Arc<Arena>], word: DeviceAddress) -> Option<Arc<Arena>> {
    memory
        .iter()
        .find(|arena| arena.word(word).is_ok())
        .cloned()
}

/// What a heartbeat holds before the first turn of a slice.
const NEVER: u32 = u32::MAX;

/// See [`Budget::learn`].
const LEAST_TURNS: u64 = 2;

/// Turns of a slice fit a heartbeat.
const MOST_TURNS: u64 = 1 << 31;

/// How often the end of a slice is looked for. Shorter sleeps cost more than they win: the system
/// adds as much.
pub(super) const SHORTEST_PAUSE: Duration = Duration::from_micros(50);

/// How often it is looked for when the kernel does not stop.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// A whole device, in the parts that shares are counted in.
const WHOLE: u64 = 1 << 46;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_grow_slowly_and_shrink_at_once() {
        let target = Duration::from_millis(4);
        let cases = [
            (100, 1, 200),
            (100, 4_000, 100),
            (100, 8_000, 50),
            (100, 4_000_000, 2),
            (2, 1_000_000_000, 2),
            (MOST_TURNS, 1, MOST_TURNS),
        ];
        for (turns, took_us, next) in cases {
            let mut budget = Budget::new(turns, target);
            budget.learn(Duration::from_micros(took_us));
            assert_eq!(budget.turns, next, "{turns} turns took {took_us} us");
        }
    }

    #[test]
    fn a_device_is_given_out_once() {
        let taken = Arc::new(Mutex::new(0));
        let half = Share::take(&taken, 5, 10).expect("fits");
        assert_eq!(Share::take(&taken, 6, 10).expect_err("too much"), 5);
        let rest = Share::take(&taken, 50, 100).expect("fits");
        assert!(Share::take(&taken, 1, 1_000_000).is_err());
        drop((half, rest));
        assert_eq!(*lock(&taken), 0);
        let seven = Share::take(&taken, 7, 21).expect("fits");
        let most = Share::take(&taken, 8, 12).expect("fits exactly");
        assert_eq!(Share::take(&taken, 1, 21).expect_err("is full"), 21);
        drop((seven, most));
        assert!(
            Share::take(&taken, 1, 0).is_err(),
            "a block that never fits"
        );
    }
}
