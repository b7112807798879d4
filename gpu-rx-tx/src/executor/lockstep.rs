//! A warp of 32 lanes: a coroutine each, under a seeded schedule.
#![expect(unsafe_code, reason = "calls kernels through their table rows")]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use warpwire_device::{Lockstep, Place, WarpHost};

use crate::executor::clock::Clock;
use crate::executor::error::{Error, panic_message};
use crate::executor::lanes::{Collective, Lanes, Next};
use crate::executor::launch::Exit;
use crate::executor::random::{Random, mix};
use crate::executor::run::{Ending, Run};
use crate::executor::shared::StackLease;
use crate::executor::worker::Turn;

type LaneFiber = Coroutine<(), (), u32, DefaultStack>;

pub(crate) struct LockstepWarp {
    warp: Rc<Warp>,
    fibers: Vec<LaneFiber>,
    /// Gives the stacks back to the budget when the warp is gone.
    _lease: StackLease,
    index: u32,
    random: Random,
    barrier: Option<u32>,
    exit: Exit,
    slices: u64,
    /// The first code other than 0 that a lane returned.
    code: u32,
}

/// What the lanes of one warp share.
struct Warp {
    run: Arc<Run>,
    place: Place,
    clock: Clock,
    lanes: Lanes,
    index: u32,
    pauses: Cell<u64>,
    beats: Cell<u32>,
    /// Whether a lane did work since the last pause of the whole warp.
    busy: Cell<bool>,
}

impl LockstepWarp {
    pub(crate) fn new(
        run: Arc<Run>,
        index: u32,
        stacks: Vec<DefaultStack>,
        lease: StackLease,
        seed: u64,
        clock: Clock,
    ) -> Self {
        let warp = Rc::new(Warp {
            place: run.place(index),
            run,
            clock,
            lanes: Lanes::new(),
            index,
            pauses: Cell::new(0),
            beats: Cell::new(0),
            busy: Cell::new(false),
        });
        let fibers = (0..)
            .zip(stacks)
            .map(|(lane, stack)| fiber(&warp, lane, stack))
            .collect();
        Self {
            warp,
            fibers,
            _lease: lease,
            index,
            random: Random::new(mix(seed) ^ u64::from(index)),
            barrier: None,
            exit: Exit::Running,
            slices: 0,
            code: 0,
        }
    }

    /// Lets lanes run in an order that the seed decides, until all of them pause or wait; now and
    /// then stops earlier, so that the rest of the world moves between two lanes.
    pub(crate) fn turn(&mut self) -> Turn {
        if self.warp.run.cancelled() {
            return self.unwind();
        }
        if let Some(generation) = self.barrier {
            if !self
                .warp
                .run
                .barrier(self.warp.place.block)
                .passed(generation)
            {
                return Turn::Idle;
            }
            self.barrier = None;
            self.warp.lanes.meet();
        }
        self.slices += 1;
        for _ in 0..MOST_STEPS {
            match self.warp.lanes.next() {
                Next::Run(ready) => {
                    if let Some(turn) = self.run_one(ready) {
                        return turn;
                    }
                    if self.random.below(EARLY_END) == 0 {
                        return Turn::Idle;
                    }
                }
                Next::Meet => self.warp.lanes.meet(),
                Next::Block => match self.warp.run.barrier(self.warp.place.block).arrive() {
                    Some(generation) => {
                        self.barrier = Some(generation);
                        return Turn::Idle;
                    }
                    None => self.warp.lanes.meet(),
                },
                Next::Paused => {
                    self.warp.lanes.wake();
                    return match self.warp.busy.take() {
                        true => Turn::Busy,
                        false => Turn::Idle,
                    };
                }
                Next::Ended => return self.end(Exit::Returned(self.code)),
            }
            if let Some(divergence) = self.warp.lanes.divergence() {
                let place = self.warp.place;
                self.warp.run.fail(Error::Diverged {
                    kernel: self.warp.run.kernel.name,
                    block: place.block,
                    warp: place.warp,
                    divergence,
                });
                self.drop_lanes();
                return self.end(Exit::Diverged);
            }
        }
        Turn::Busy
    }

    /// Lets one of the `ready` lanes run; the turn to return if that ended the warp.
    fn run_one(&mut self, ready: u32) -> Option<Turn> {
        let lane = self.random.bit(ready)?;
        let fiber = self.fibers.get_mut(lane as usize)?;
        match catch_unwind(AssertUnwindSafe(|| fiber.resume(()))) {
            Ok(CoroutineResult::Yield(())) => None,
            Ok(CoroutineResult::Return(code)) => {
                self.warp.lanes.leave(lane);
                if self.code == 0 {
                    self.code = code;
                }
                None
            }
            Err(payload) => {
                self.warp
                    .run
                    .panicked(self.index, Some(lane), panic_message(&*payload));
                self.drop_lanes();
                Some(self.end(Exit::Panicked))
            }
        }
    }

    /// Unwinds the kernel if its launch was cancelled; whether it was.
    pub(crate) fn end_if_cancelled(&mut self) -> bool {
        let cancelled = self.warp.run.cancelled();
        if cancelled {
            self.unwind();
        }
        cancelled
    }

    /// Unwinds the kernel from where its lanes stand.
    pub(crate) fn unwind(&mut self) -> Turn {
        self.warp.run.unwound(self.index, self.warp.lanes.stand());
        self.drop_lanes();
        self.end(Exit::Unwound)
    }

    fn drop_lanes(&mut self) {
        for (lane, mut fiber) in (0..).zip(std::mem::take(&mut self.fibers)) {
            let unwound = catch_unwind(AssertUnwindSafe(|| fiber.force_unwind()));
            if let Err(payload) = unwound {
                self.warp
                    .run
                    .panicked(self.index, Some(lane), panic_message(&*payload));
            }
        }
    }

    fn end(&mut self, exit: Exit) -> Turn {
        self.exit = exit;
        Turn::Ended
    }

    /// What is left to tell when the stacks are gone.
    pub(crate) fn into_ending(self) -> Ending {
        Ending {
            index: self.index,
            slices: self.slices,
            pauses: self.warp.pauses.get(),
            exit: self.exit,
            run: Arc::clone(&self.warp.run),
        }
    }
}

fn fiber(warp: &Rc<Warp>, lane: u32, stack: DefaultStack) -> LaneFiber {
    let warp = Rc::clone(warp);
    Coroutine::with_stack(stack, move |yielder, ()| {
        let seat = Seat {
            yielder,
            warp: &warp,
        };
        let (kernel, block) = (warp.run.kernel, warp.run.parameters.block);
        // SAFETY: the kernel's promise, given with the parameters; `warp.run` keeps their memory
        // until this coroutine has returned or was unwound, and the layouts were compared.
        unsafe { (kernel.lockstep)(&Lockstep::new(&seat, lane), block) }
    })
}

/// A lane's side of its coroutine.
struct Seat<'a> {
    yielder: &'a Yielder<(), ()>,
    warp: &'a Warp,
}

impl Seat<'_> {
    fn meet(&self, lane: u32, call: Collective, value: u64, source: u32) -> u64 {
        self.warp.lanes.arrive(lane, call, value, source);
        self.yielder.suspend(());
        self.warp.lanes.result(lane)
    }

    fn rest(&self, lane: u32) {
        let beats = self.warp.beats.get().wrapping_add(1);
        self.warp.beats.set(beats);
        if let Some(word) = self.warp.run.control.heartbeat_word(self.warp.index) {
            word.store(beats, Ordering::Relaxed);
        }
        self.warp.lanes.pause(lane);
        self.yielder.suspend(());
    }
}

impl WarpHost for Seat<'_> {
    fn place(&self) -> Place {
        self.warp.place
    }

    fn now_ns(&self, _lane: u32) -> u64 {
        self.warp.clock.now_ns()
    }

    fn pause(&self, lane: u32) {
        self.warp.pauses.set(self.warp.pauses.get() + 1);
        self.rest(lane);
    }

    fn give_way(&self, lane: u32) {
        self.warp.busy.set(true);
        self.rest(lane);
    }

    fn ballot(&self, lane: u32, vote: bool) -> u32 {
        self.meet(lane, Collective::Ballot, u64::from(vote), lane) as u32
    }

    fn shuffle(&self, lane: u32, value: u64, source: u32) -> u64 {
        self.meet(lane, Collective::Shuffle, value, source)
    }

    fn sync_warp(&self, lane: u32) {
        self.meet(lane, Collective::SyncWarp, 0, lane);
    }

    fn sync_block(&self, lane: u32) {
        self.meet(lane, Collective::SyncBlock, 0, lane);
    }
}

/// One in this many times the rest of the world moves between two lanes.
const EARLY_END: usize = 16;

/// Lane runs and meetings in one turn at most: lanes that meet for ever and never pause share their
/// thread all the same.
const MOST_STEPS: u32 = 4096;
