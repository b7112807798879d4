//! A thread and its tasks: warps and services in turn.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::executor::Backend;
use crate::executor::hosted::Hosted;
use crate::executor::idle::{Idle, IdlePolicy};
use crate::executor::lockstep::LockstepWarp;
use crate::executor::machine::MachineWarp;
use crate::executor::run::Ending;
use crate::executor::scalar::ScalarWarp;
use crate::executor::shared::{Command, Port, Shared, WarpOrder, key};

/// How a task's turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Nothing to do.
    Idle,
    /// Work was done.
    Busy,
    /// The task is over.
    Ended,
}

/// Whether a kernel is alone on its thread, and how often it stayed on although it paused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Company(Rc<Seats>);

#[derive(Debug, Default)]
struct Seats {
    alone: Cell<bool>,
    stays: Cell<u32>,
    /// Whether the kernel did work since its last return to the thread.
    busy: Cell<bool>,
}

impl Company {
    /// Whether the kernel at its pause may stay on the thread: alone on it, it goes back now and
    /// then only.
    #[inline]
    pub(crate) fn may_stay(&self) -> bool {
        let stays = self.0.stays.get().wrapping_add(1);
        self.0.stays.set(stays);
        self.0.alone.get() && !stays.is_multiple_of(PAUSES_A_SWITCH)
    }

    /// The kernel that runs now did work.
    #[inline]
    pub(crate) fn set_busy(&self) {
        self.0.busy.set(true);
    }

    /// How the turn of a kernel that gave its thread back counts.
    #[inline]
    pub(crate) fn turn(&self) -> Turn {
        match self.0.busy.take() {
            true => Turn::Busy,
            false => Turn::Idle,
        }
    }

    fn set_alone(&self, alone: bool) {
        self.0.alone.set(alone);
    }
}

/// A thread's tasks, and what it needs to make them.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) port: Arc<Port>,
    pub(crate) tasks: Vec<Task>,
    company: Company,
}

/// One warp or service.
pub(crate) struct Task {
    pub(crate) key: u64,
    pub(crate) body: Body,
}

pub(crate) enum Body {
    Scalar(Box<ScalarWarp>),
    Lockstep(Box<LockstepWarp>),
    Machine(Box<MachineWarp>),
    Service(Box<Hosted>),
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, port: Arc<Port>) -> Self {
        Self {
            shared,
            port,
            tasks: Vec::new(),
            company: Company::default(),
        }
    }

    /// Runs in real time until told to quit.
    pub(crate) fn run(mut self, policy: IdlePolicy) {
        self.port.attach();
        let mut idle = Idle::new(policy);
        loop {
            if self.port.pending() {
                if self.take_commands() {
                    break;
                }
                match self.tasks.is_empty() {
                    true => idle.end(),
                    false => idle.start(),
                }
            }
            if self.tasks.is_empty() {
                idle.end();
                std::thread::park();
            } else if self.round() {
                idle.reset();
            } else {
                idle.wait();
            }
        }
        self.unwind_all();
    }

    /// Gives each task a turn; whether any of them had work.
    fn round(&mut self) -> bool {
        let mut busy = false;
        let mut at = 0;
        while at < self.tasks.len() {
            match self.turn(at) {
                Turn::Idle => at += 1,
                Turn::Busy => {
                    busy = true;
                    at += 1;
                }
                Turn::Ended => self.remove(at),
            }
        }
        self.port.current.store(0, Ordering::Relaxed);
        busy
    }

    /// Gives the task at position `at` a turn.
    #[inline]
    pub(crate) fn turn(&mut self, at: usize) -> Turn {
        let Some(task) = self.tasks.get_mut(at) else {
            return Turn::Ended;
        };
        // The watchdog reads both; turns has one writer.
        self.port.current.store(task.key, Ordering::Relaxed);
        let turns = self.port.turns.load(Ordering::Relaxed);
        self.port
            .turns
            .store(turns.wrapping_add(1), Ordering::Relaxed);
        match &mut task.body {
            Body::Scalar(warp) => warp.turn(),
            Body::Lockstep(warp) => warp.turn(),
            Body::Machine(warp) => warp.turn(),
            Body::Service(service) => service.turn(),
        }
    }

    /// Removes the task at position `at`, which has ended.
    pub(crate) fn remove(&mut self, at: usize) {
        let task = self.tasks.remove(at);
        self.port.load.fetch_sub(1, Ordering::Relaxed);
        match task.body {
            Body::Scalar(warp) => self.tell(&warp.into_ending()),
            Body::Lockstep(warp) => self.tell(&warp.into_ending()),
            Body::Machine(warp) => self.tell(&warp.into_ending()),
            Body::Service(service) => {
                self.shared.strike(service.state.id);
                service.end();
            }
        }
        self.count_company();
    }

    fn tell(&self, ending: &Ending) {
        if let Some(launch) = ending.tell(self.shared.clock.now_ns()) {
            self.shared.strike(launch);
        }
    }

    /// Does what the thread was told; whether it was told to quit. Driving is left to
    /// [`Worker::drive`].
    fn take_commands(&mut self) -> bool {
        let mut quit = false;
        for command in self.port.take() {
            match command {
                Command::Warp(order) => self.add_warp(order),
                Command::Service(service) => self.add_service(service),
                Command::Sweep => self.sweep(),
                Command::Drive { .. } => {}
                Command::Quit => quit = true,
            }
        }
        quit
    }

    pub(crate) fn add_warp(&mut self, order: WarpOrder) {
        let WarpOrder {
            run,
            index,
            mut stacks,
            machine,
            lease,
        } = order;
        let clock = self.shared.clock.clone();
        let key = key(run.id, index);
        let body = match run.backend {
            Backend::Scalar => {
                let Some(stack) = stacks.pop() else { return };
                let company = self.company.clone();
                let warp = ScalarWarp::new(run, index, stack, lease, clock, company);
                Body::Scalar(Box::new(warp))
            }
            Backend::Lockstep { seed } => {
                let warp = LockstepWarp::new(run, index, stacks, lease, seed, clock);
                Body::Lockstep(Box::new(warp))
            }
            Backend::Virtual { .. } => {
                let Some(machine) = machine else { return };
                Body::Machine(Box::new(MachineWarp::new(machine, run, index, lease)))
            }
        };
        self.tasks.push(Task { key, body });
        self.count_company();
    }

    pub(crate) fn add_service(&mut self, service: Hosted) {
        self.tasks.push(Task {
            key: key(service.state.id, 0),
            body: Body::Service(Box::new(service)),
        });
        self.count_company();
    }

    /// Ends what was stopped or cancelled, and lets nothing else run.
    pub(crate) fn sweep(&mut self) {
        let mut at = 0;
        while let Some(task) = self.tasks.get_mut(at) {
            let ended = match &mut task.body {
                Body::Scalar(warp) => warp.end_if_cancelled(),
                Body::Lockstep(warp) => warp.end_if_cancelled(),
                Body::Machine(warp) => warp.end_if_cancelled(),
                Body::Service(service) => service.is_stopped(),
            };
            if ended {
                self.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Unwinds and drops everything: the thread ends.
    pub(crate) fn unwind_all(&mut self) {
        while let Some(task) = self.tasks.last_mut() {
            match &mut task.body {
                Body::Scalar(warp) => warp.unwind(),
                Body::Lockstep(warp) => warp.unwind(),
                Body::Machine(warp) => warp.unwind(),
                Body::Service(_) => Turn::Ended,
            };
            self.remove(self.tasks.len() - 1);
        }
        self.port.close();
    }

    /// In virtual time nobody is ever alone: each pause lets time move.
    fn count_company(&self) {
        let alone = self.tasks.len() == 1 && !self.shared.clock.is_virtual();
        self.company.set_alone(alone);
    }
}

/// How many pauses a kernel that is alone on its thread makes for each return to the thread.
const PAUSES_A_SWITCH: u32 = 32;
