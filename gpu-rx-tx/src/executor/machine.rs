//! A warp of a program: a task that another crate executes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::executor::error::{Error, panic_message};
use crate::executor::launch::Exit;
use crate::executor::program::{ProgramFault, Progress, WarpMachine};
use crate::executor::run::{Ending, Run};
use crate::executor::shared::StackLease;
use crate::executor::worker::Turn;

pub(crate) struct MachineWarp {
    machine: Box<dyn WarpMachine>,
    run: Arc<Run>,
    /// Gives its share of the budget back when the warp is gone.
    _lease: StackLease,
    index: u32,
    barrier: Option<u32>,
    exit: Exit,
    slices: u64,
    pauses: u64,
    beats: u32,
}

impl MachineWarp {
    pub(crate) fn new(
        machine: Box<dyn WarpMachine>,
        run: Arc<Run>,
        index: u32,
        lease: StackLease,
    ) -> Self {
        Self {
            machine,
            run,
            _lease: lease,
            index,
            barrier: None,
            exit: Exit::Running,
            slices: 0,
            pauses: 0,
            beats: 0,
        }
    }

    /// Lets the warp run a bit further.
    pub(crate) fn turn(&mut self) -> Turn {
        if self.run.cancelled() {
            return self.unwind();
        }
        let block = self.run.place(self.index).block;
        if let Some(generation) = self.barrier {
            if !self.run.barrier(block).passed(generation) {
                return Turn::Idle;
            }
            self.barrier = None;
        }
        self.slices += 1;
        let turn = catch_unwind(AssertUnwindSafe(|| self.machine.turn()));
        match turn {
            Ok(Progress::Paused) => {
                self.pauses += 1;
                self.beat();
                Turn::Idle
            }
            Ok(Progress::Busy) => {
                self.beat();
                Turn::Busy
            }
            Ok(Progress::Interrupted) => Turn::Idle,
            Ok(Progress::Barrier) => {
                self.barrier = self.run.barrier(block).arrive();
                Turn::Busy
            }
            Ok(Progress::Ended(code)) => self.end(Exit::Returned(code)),
            Ok(Progress::Fault(fault)) => {
                self.fault(fault);
                self.end(Exit::Faulted)
            }
            Err(payload) => {
                self.run
                    .panicked(self.index, None, panic_message(&*payload));
                self.end(Exit::Panicked)
            }
        }
    }

    /// Ends the warp if its launch was cancelled; whether it was.
    pub(crate) fn end_if_cancelled(&mut self) -> bool {
        let cancelled = self.run.cancelled();
        if cancelled {
            self.unwind();
        }
        cancelled
    }

    /// Ends the warp where it stands.
    pub(crate) fn unwind(&mut self) -> Turn {
        self.run.unwound(self.index, self.machine.stand());
        self.end(Exit::Unwound)
    }

    fn beat(&mut self) {
        self.beats = self.beats.wrapping_add(1);
        if let Some(word) = self.run.control.heartbeat_word(self.index) {
            word.store(self.beats, Ordering::Relaxed);
        }
    }

    fn fault(&self, ProgramFault { lane, reason }: ProgramFault) {
        let place = self.run.place(self.index);
        self.run.fail(Error::Fault {
            kernel: self.run.kernel.name,
            block: place.block,
            warp: place.warp,
            lane,
            reason,
        });
    }

    fn end(&mut self, exit: Exit) -> Turn {
        self.exit = exit;
        Turn::Ended
    }

    /// What is left to tell when the warp is gone.
    pub(crate) fn into_ending(self) -> Ending {
        Ending {
            index: self.index,
            slices: self.slices,
            pauses: self.pauses,
            exit: self.exit,
            run: self.run,
        }
    }
}
