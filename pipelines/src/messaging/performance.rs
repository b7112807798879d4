//! Scripts of messages in kernels: an application on the executor, beside its engine or in one warp
//! with it.
#![expect(
    unsafe_code,
    reason = "a launch carries the promise that its parameters are laid out right"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::kernels::ScriptParameters;
use warpwire_core::messaging::{FAILED, Step, Verb};
use warpwire_gpu::executor::{Control, Grid, Launch, Parameters, Placement};
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_ring::{DeviceAddress, Location};

use super::endpoint::Endpoint;
use super::pair::Pair;
use super::regions::reach;
use crate::messaging::Error;
use crate::runtime::Kit;

/// A kernel that carries out a script over a queue pair. Dropped, it is stopped, and the queue pair
/// with it.
pub struct Performance<'a> {
    endpoint: &'a Endpoint,
    launch: Launch,
    arena: Arc<Arena>,
    steps: DeviceAddress,
    count: usize,
    pair: Pair,
    /// The kernel has the endpoint's engine.
    has_engine: bool,
}

impl Endpoint {
    /// Gives a queue pair to a kernel that carries out `steps`. If the endpoint's engine has no
    /// kernel of its own, it runs in this one, which then serves peers until
    /// [`Performance::finish`].
    ///
    /// # Errors
    /// [`Error::OutOfReach`] for signals outside of the endpoint's memory, memory that cannot be
    /// had, an executor that refuses.
    pub fn perform(
        &self,
        executor: &CpuExecutor,
        mut pair: Pair,
        steps: &[Step],
        placement: Placement,
    ) -> Result<Performance<'_>, Error> {
        steps.iter().try_for_each(|step| self.allows(step))?;
        let bytes = size_of_val(steps) + size_of::<ScriptParameters>() + 8192;
        let arena = Arc::new(Arena::new(bytes, Location::PinnedHost)?);
        let control = Control::allocate(&arena, 1)?;
        let script = arena.place_all(steps)?.address;
        let fused = self.fused();
        let name = match fused {
            None => "perform".to_owned(),
            Some(_) => format!("perform_{}", self.format),
        };
        let row = Kit::application(&name)?;
        let parameters = ScriptParameters {
            header: ScriptParameters::HEADER,
            steering: Steering {
                stop: control.stop_address(),
                heartbeats: DeviceAddress::NULL,
                turns: 0,
            },
            channel: pair.lend()?,
            steps: script,
            engine: fused.map_or(DeviceAddress::NULL, |_| self.table.block),
            step_count: steps.len() as u32,
            reserved: 0,
        };
        let parameters = arena.place(parameters)?.address;
        let mut arenas = self.arenas.clone();
        arenas.push(Arc::clone(&arena));
        let layout = ScriptParameters::LAYOUT;
        // SAFETY: a block of this layout lies there; its channel, its engine and its steps lie in
        // these arenas, and nobody else uses them before the kernel ended.
        let parameters = unsafe { Parameters::new(parameters, layout, arenas) };
        let parameters = parameters.control(control);
        let has_engine = fused.is_some_and(|fused| fused.leave());
        match executor.launch_on(row, Grid::ONE, parameters, placement) {
            Ok(launch) => Ok(Performance {
                endpoint: self,
                launch,
                arena,
                steps: script,
                count: steps.len(),
                pair,
                has_engine,
            }),
            Err(error) => {
                pair.take_back();
                self.take_back(has_engine)?;
                Err(error.into())
            }
        }
    }

    /// Takes the engine back from a kernel that ended, if it had it.
    fn take_back(&self, has_engine: bool) -> Result<(), Error> {
        let (true, Some(fused)) = (has_engine, self.fused()) else {
            return Ok(());
        };
        let (clock, block) = (&self.host.clock, self.table.block);
        // SAFETY: as when it was first taken; the kernel that had it ended.
        let taken = unsafe { fused.take_back(self.format, block, clock) };
        taken.map_err(|cause| Error::Ended { cause })
    }

    /// Whether the words that a step waits for are the endpoint's.
    fn allows(&self, step: &Step) -> Result<(), Error> {
        let waits = [Verb::All as u32, Verb::Any as u32, Verb::Some as u32];
        if !waits.contains(&step.verb) {
            return Ok(());
        }
        let first = DeviceAddress::new(step.local.address);
        let more = u64::from(step.times.saturating_sub(1));
        let length = more.saturating_mul(step.stride).saturating_add(8);
        if !first.is_aligned(8)
            || !step.stride.is_multiple_of(8)
            || step.stride > u64::from(u32::MAX)
        {
            return Err(Error::OutOfReach {
                address: first.value(),
                length,
            });
        }
        reach(&self.memory, first, length)
    }
}

impl Performance<'_> {
    /// Whether the script is at its end, or failed.
    pub fn is_over(&self) -> bool {
        let outcomes = (0..self.count).map(|place| self.outcome(place));
        let mut last = 0;
        for outcome in outcomes {
            last = outcome;
            if outcome & FAILED != 0 {
                break;
            }
        }
        last != 0 || self.count == 0 || self.launch.is_finished()
    }

    /// Asks the kernel to end: a wait that it is in ends with
    /// [`Cause::Aborted`](warpwire_ring::Cause::Aborted).
    pub fn stop(&self) {
        self.launch.stop();
    }

    fn outcome(&self, place: usize) -> u32 {
        let offset = place * size_of::<Step>() + std::mem::offset_of!(Step, word);
        let word = self.arena.word(self.steps.offset(offset as u64));
        // pairs with: the kernel's release store of the outcome.
        word.map_or(0, |word| (word.load(Ordering::Acquire) >> 32) as u32)
    }

    /// Waits for the end of the script, ends the kernel, and takes queue pair and engine back.
    /// Returns the steps with what came of them.
    ///
    /// # Errors
    /// [`Error::Deadline`] if the script takes longer than `longest`; [`Error::Ended`] if the
    /// kernel ended by a cause of its own.
    pub fn finish(mut self, longest: Duration) -> Result<(Pair, Vec<Step>), Error> {
        let started = Instant::now();
        while !self.is_over() {
            if started.elapsed() >= longest {
                return Err(Error::Deadline {
                    number: self.pair.number(),
                    what: "the script did not end",
                    waited: longest,
                });
            }
            (self.endpoint.host.idle)();
        }
        self.launch.stop();
        let report = self.launch.join(END)?;
        let steps = (0..self.count).map(|place| {
            let at = self.steps.offset((place * size_of::<Step>()) as u64);
            // SAFETY: a step of the arena; the kernel ended.
            unsafe { (at.value() as *const Step).read_volatile() }
        });
        let steps = steps.collect();
        self.pair.take_back();
        self.endpoint.take_back(self.has_engine)?;
        match report.cause() {
            Some(cause) => Err(Error::Ended { cause }),
            None => Ok((self.pair, steps)),
        }
    }
}

/// How long a kernel may take to end that was asked to.
const END: Duration = Duration::from_secs(5);
