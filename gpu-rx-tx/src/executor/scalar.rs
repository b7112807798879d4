//! A warp at width 1: one coroutine.
#![expect(unsafe_code, reason = "calls kernels through their table rows")]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use warpwire_device::{Place, Scalar, ScalarHost};

use crate::executor::clock::Clock;
use crate::executor::error::panic_message;
use crate::executor::launch::Exit;
use crate::executor::run::{Ending, Run};
use crate::executor::shared::StackLease;
use crate::executor::worker::{Company, Turn};

/// Why a warp gave its thread back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    /// Somebody else's turn.
    Turn,
    /// At the barrier of its block, until this generation is over.
    Barrier(u32),
}

pub(crate) struct ScalarWarp {
    fiber: Coroutine<(), Rest, u32, DefaultStack>,
    run: Arc<Run>,
    /// Gives the stack back to the budget when the warp is gone.
    _lease: StackLease,
    index: u32,
    block: u32,
    barrier: Option<u32>,
    exit: Exit,
    company: Company,
    slices: u64,
    pauses: Rc<Cell<u64>>,
}

impl ScalarWarp {
    pub(crate) fn new(
        run: Arc<Run>,
        index: u32,
        stack: DefaultStack,
        lease: StackLease,
        clock: Clock,
        company: Company,
    ) -> Self {
        let pauses = Rc::new(Cell::new(0));
        let place = run.place(index);
        let (kernel, body_run, body_pauses) = (run.kernel, Arc::clone(&run), Rc::clone(&pauses));
        let body_company = company.clone();
        let fiber = Coroutine::with_stack(stack, move |yielder, ()| {
            let spare = AtomicU32::new(0);
            let seat = Seat {
                yielder,
                place,
                run: &body_run,
                clock: &clock,
                company: &body_company,
                pauses: &body_pauses,
                beats: Cell::new(0),
                heartbeat: body_run.control.heartbeat_word(index).unwrap_or(&spare),
            };
            // SAFETY: the kernel's promise, given with the parameters; `body_run` keeps their
            // memory until this coroutine has returned or was unwound, and the layouts were
            // compared.
            unsafe { (kernel.scalar)(&Scalar::new(&seat), body_run.parameters.block) }
        });
        Self {
            fiber,
            run,
            _lease: lease,
            index,
            block: place.block,
            barrier: None,
            exit: Exit::Running,
            company,
            slices: 0,
            pauses,
        }
    }

    /// Lets the kernel run until its next pause.
    #[inline]
    pub(crate) fn turn(&mut self) -> Turn {
        if self.run.cancelled() {
            return self.unwind();
        }
        if let Some(generation) = self.barrier {
            if !self.run.barrier(self.block).passed(generation) {
                return Turn::Idle;
            }
            self.barrier = None;
        }
        self.slices += 1;
        match catch_unwind(AssertUnwindSafe(|| self.fiber.resume(()))) {
            Ok(CoroutineResult::Yield(Rest::Turn)) => self.company.turn(),
            Ok(CoroutineResult::Yield(Rest::Barrier(generation))) => {
                self.barrier = Some(generation);
                self.company.turn()
            }
            Ok(CoroutineResult::Return(code)) => self.end(Exit::Returned(code)),
            Err(payload) => {
                self.run
                    .panicked(self.index, None, panic_message(&*payload));
                self.end(Exit::Panicked)
            }
        }
    }

    /// Unwinds the kernel if its launch was cancelled; whether it was.
    pub(crate) fn end_if_cancelled(&mut self) -> bool {
        let cancelled = self.run.cancelled();
        if cancelled {
            self.unwind();
        }
        cancelled
    }

    /// Unwinds the kernel from where it stands.
    pub(crate) fn unwind(&mut self) -> Turn {
        let stand = match self.barrier {
            Some(_) => "waiting at sync_block",
            None => "pausing",
        };
        self.run.unwound(self.index, stand.to_owned());
        let unwound = catch_unwind(AssertUnwindSafe(|| self.fiber.force_unwind()));
        if let Err(payload) = unwound {
            self.run
                .panicked(self.index, None, panic_message(&*payload));
        }
        self.end(Exit::Unwound)
    }

    fn end(&mut self, exit: Exit) -> Turn {
        self.exit = exit;
        Turn::Ended
    }

    /// What is left to tell when the stack is gone.
    pub(crate) fn into_ending(self) -> Ending {
        Ending {
            index: self.index,
            slices: self.slices,
            pauses: self.pauses.get(),
            exit: self.exit,
            run: self.run,
        }
    }
}

/// The kernel's side of the coroutine.
struct Seat<'a> {
    yielder: &'a Yielder<(), Rest>,
    place: Place,
    run: &'a Run,
    clock: &'a Clock,
    company: &'a Company,
    pauses: &'a Cell<u64>,
    beats: Cell<u32>,
    heartbeat: &'a AtomicU32,
}

impl Seat<'_> {
    #[inline]
    fn beat(&self) {
        let beats = self.beats.get().wrapping_add(1);
        self.beats.set(beats);
        self.heartbeat.store(beats, Ordering::Relaxed);
    }
}

impl ScalarHost for Seat<'_> {
    fn place(&self) -> Place {
        self.place
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn pause(&self) {
        self.pauses.set(self.pauses.get() + 1);
        self.beat();
        if !self.company.may_stay() {
            self.yielder.suspend(Rest::Turn);
        }
    }

    fn give_way(&self) {
        self.beat();
        self.company.set_busy();
        if !self.company.may_stay() {
            self.yielder.suspend(Rest::Turn);
        }
    }

    fn sync_block(&self) {
        let barrier = self.run.barrier(self.place.block);
        let Some(generation) = barrier.arrive() else {
            return;
        };
        while !barrier.passed(generation) {
            self.yielder.suspend(Rest::Barrier(generation));
        }
    }
}
