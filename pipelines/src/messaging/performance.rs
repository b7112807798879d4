//! Scripts of messages in kernels.
#![expect(
    unsafe_code,
    reason = "a launch carries the promise that its parameters are laid out right"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::kernels::ScriptParameters;
use warpwire_core::messaging::{FAILED, Step, Verb};
use warpwire_gpu::executor::Placement;
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_ring::DeviceAddress;

use super::application::Application;
use super::endpoint::Endpoint;
use super::pair::Pair;
use super::regions::reach;
use crate::messaging::Error;
use crate::runtime::Kit;

/// A kernel that carries out a script over a queue pair.
pub struct Performance<'a> {
    application: Application<'a>,
    arena: Arc<Arena>,
    steps: DeviceAddress,
    count: usize,
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
        pair: Pair,
        steps: &[Step],
        placement: Placement,
    ) -> Result<Performance<'_>, Error> {
        steps.iter().try_for_each(|step| self.allows(step))?;
        let name = match self.fused() {
            None => "perform".to_owned(),
            Some(_) => format!("perform_{}", self.format),
        };
        let row = Kit::application(&name)?;
        let mut script = DeviceAddress::NULL;
        let bytes = size_of_val(steps);
        let on = (executor, placement);
        // SAFETY: the block is of the kernel's layout; its channel, its engine and its steps are
        // there, and the words that it waits for lie in the endpoint's memory. The kernel saves.
        let launched = unsafe {
            self.launch(on, row, pair, bytes, |arena, lent| {
                script = arena.place_all(steps)?.address;
                Ok(ScriptParameters {
                    header: ScriptParameters::HEADER,
                    steering: Steering {
                        stop: lent.stop,
                        heartbeats: DeviceAddress::NULL,
                        turns: 0,
                    },
                    channel: lent.channel,
                    steps: script,
                    engine: lent.engine,
                    step_count: steps.len() as u32,
                    reserved: 0,
                })
            })
        };
        let (application, arena) = launched?;
        Ok(Performance {
            application,
            arena,
            steps: script,
            count: steps.len(),
        })
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
        let is_row = step.stride.is_multiple_of(8) && step.stride <= u64::from(u32::MAX);
        if !first.is_aligned(8) || !is_row {
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
        let mut last = 0;
        for place in 0..self.count {
            last = self.outcome(place);
            if last & FAILED != 0 {
                break;
            }
        }
        last != 0 || self.count == 0 || self.application.is_finished()
    }

    /// Asks the kernel to end: a wait that it is in ends with
    /// [`Cause::Aborted`](warpwire_ring::Cause::Aborted).
    pub fn stop(&self) {
        self.application.stop();
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
    pub fn finish(self, longest: Duration) -> Result<(Pair, Vec<Step>), Error> {
        let application = &self.application;
        application.wait_until(|| self.is_over(), longest)?;
        let (pair, report) = self.application.finish()?;
        let steps = (0..self.count).map(|place| {
            let at = self.steps.offset((place * size_of::<Step>()) as u64);
            // SAFETY: a step of the arena; the kernel ended.
            unsafe { (at.value() as *const Step).read_volatile() }
        });
        let steps = steps.collect();
        match report.cause() {
            Some(cause) => Err(Error::Ended { cause }),
            None => Ok((pair, steps)),
        }
    }
}
