//! Virtual time: one thread, a clock that it moves itself, and a seed that decides who is next.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

use crate::executor::random::{Random, mix};
use crate::executor::run::Run;
use crate::executor::shared::{Command, lock};
use crate::executor::worker::{Body, Turn, Worker};

/// What happened in virtual time, as a number to compare: who had a turn when, and whether it had
/// work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    /// Turns given.
    pub turns: u64,
    /// Hash over all of them.
    pub hash: u64,
}

/// The thread of an executor in virtual time.
pub(crate) struct World {
    worker: Worker,
    random: Random,
    trace: Trace,
    /// Turns without work in a row.
    idle: u64,
    tick_ns: u64,
}

impl World {
    pub(crate) fn new(worker: Worker, seed: u64) -> Self {
        Self {
            worker,
            random: Random::new(seed),
            trace: Trace::default(),
            idle: 0,
            tick_ns: TICK_NS,
        }
    }

    /// Does what the thread is told, and nothing between.
    pub(crate) fn run(mut self) {
        self.worker.port.attach();
        let mut quit = false;
        while !quit {
            if !self.worker.port.pending() {
                std::thread::park();
            }
            for command in self.worker.port.take() {
                match command {
                    Command::Warp(order) => self.worker.add_warp(order),
                    Command::Service(service) => self.worker.add_service(service),
                    Command::Sweep => self.worker.sweep(),
                    Command::Drive {
                        run,
                        until_ns,
                        reply,
                    } => self.drive(run.as_ref(), until_ns, &reply),
                    Command::Quit => quit = true,
                }
            }
        }
        self.worker.unwind_all();
    }

    fn drive(&mut self, run: Option<&Arc<Run>>, until_ns: u64, reply: &mpsc::Sender<()>) {
        let clock = self.worker.shared.clock.clone();
        loop {
            let now_ns = clock.now_ns();
            if now_ns >= until_ns || run.is_some_and(|run| run.running() == 0) {
                break;
            }
            if self.worker.tasks.is_empty() {
                clock.advance_to(until_ns);
                break;
            }
            let tick_ns = self.step(now_ns);
            clock.advance_to(now_ns.saturating_add(tick_ns).min(until_ns));
        }
        self.worker.port.current.store(0, Ordering::Relaxed);
        *lock(&self.worker.port.trace) = self.trace;
        // Whoever asked may have given up waiting.
        let _ = reply.send(());
    }

    /// Gives a task a turn; how far time goes then.
    fn step(&mut self, now_ns: u64) -> u64 {
        let at = self.random.below(self.worker.tasks.len());
        let key = self.worker.tasks.get(at).map_or(0, |task| task.key);
        let turn = self.worker.turn(at);
        self.trace.turns += 1;
        for part in [key, now_ns, turn as u64] {
            self.trace.hash = mix(self.trace.hash ^ part).wrapping_add(part);
        }
        match turn {
            Turn::Idle => self.idle += 1,
            Turn::Busy => self.idle = 0,
            Turn::Ended => {
                self.idle = 0;
                self.worker.remove(at);
            }
        }
        self.tick(now_ns)
    }

    /// A turn takes the same time always, unless nobody has had work for a while: then time
    /// hurries, up to the next event that a service knows of.
    fn tick(&mut self, now_ns: u64) -> u64 {
        let patience = 4 * self.worker.tasks.len() as u64;
        if self.idle <= patience {
            self.tick_ns = TICK_NS;
        } else if self.idle % patience == 1 {
            self.tick_ns = (self.tick_ns * 2).min(LONGEST_TICK_NS);
        }
        if self.tick_ns == TICK_NS {
            return TICK_NS;
        }
        let events = self
            .worker
            .tasks
            .iter()
            .filter_map(|task| match &task.body {
                Body::Service(service) => service.next_event_ns(),
                Body::Scalar(_) | Body::Lockstep(_) | Body::Machine(_) => None,
            });
        let next_ns = events.filter(|&event_ns| event_ns > now_ns).min();
        next_ns.map_or(self.tick_ns, |event_ns| {
            self.tick_ns.min(event_ns - now_ns).max(1)
        })
    }
}

/// How long a turn takes in virtual time.
const TICK_NS: u64 = 100;

/// How long a turn takes when nothing has happened for long. Deadlines are met to this.
const LONGEST_TICK_NS: u64 = 10_000;
