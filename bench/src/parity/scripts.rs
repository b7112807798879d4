//! Applications that carry out scripts of messages over the queue pairs of an engine whose packets
//! come back to it: in one warp with the engine, or beside it, where it runs between their
//! launches.
//!
//! Clocks of two machines differ: no wait may last, so each looks once, and one in vain ends its
//! script. What was under way then comes back before the next. Nor may a script fill half a send
//! queue without a completion: which request then asks for one depends on the lanes of a warp.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::Arc;

use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::kernels::{ScriptParameters, entries};
use warpwire_core::messaging::{Remote, Step, Verb};
use warpwire_device::KernelRow;
use warpwire_gpu::Arena;
use warpwire_nic::soft::Dice;
use warpwire_protocols::rdma::Service;
use warpwire_ring::mlx5::post::Gather;
use warpwire_ring::{DeviceAddress, Location};

use super::blocks::{Wrong, refuse};
use super::messages::{DEPTH, LARGEST_FRAME, LONGEST, MEMORY, NUMBER, Way, connect, leave};
use super::plain::Outcome;
use super::{Case, Machine};
use crate::ends::{End, KEY};
use crate::machine::Ready;
use crate::wires::{Client, Memif, Mlx5, STARTS, Server, Wire, Xdp};

/// The comparisons of an entry point, if it is one of these kernels.
pub(super) fn cases(name: &str) -> Vec<Case> {
    let Some(row) = entries::applications().iter().find(|row| row.name == name) else {
        return Vec::new();
    };
    match name {
        "perform" => vec![
            over::<Mlx5<1>>(row, "mlx5", "mlx5"),
            over::<Xdp>(row, "xdp", "xdp"),
        ],
        "perform_memif_client" => vec![over::<Memif<Client>>(row, "memif_client", "memif client")],
        "perform_memif_server" => vec![over::<Memif<Server>>(row, "memif_server", "memif server")],
        "perform_xdp" => vec![over::<Xdp>(row, "xdp", "xdp")],
        "perform_mlx5" => vec![
            over::<Mlx5<1>>(row, "mlx5", "mlx5"),
            over::<Mlx5<4>>(row, "mlx5", "mlx5 scattered"),
        ],
        _ => Vec::new(),
    }
}

fn over<W: Wire>(row: &'static KernelRow, format: &str, word: &'static str) -> Case {
    let name = format!("transport_{format}");
    Case::new(row.name, word, move |machine, seed| {
        let engine = entries::transports().iter().find(|row| row.name == name);
        let rows = (engine.ok_or("no such transport")?, row);
        let memory = Arena::new(MEMORY as usize, Location::PageableHost);
        let memory = Arc::new(memory.map_err(|error| error.to_string())?);
        let cpu = Scene::<W>::run(rows, &Machine::SCALAR, seed, &memory);
        let cpu = cpu.map_err(|error| format!("on the CPU: {error}"))?;
        let found = Scene::<W>::run(rows, machine, seed, &memory)?;
        found.seen.compare(&cpu.seen)?;
        Ok(cpu.frames)
    })
}

/// The engine, and the kernel that uses it.
struct Scene<W> {
    end: End<W>,
    row: &'static KernelRow,
    /// The kernel runs the engine as well.
    is_together: bool,
    dice: Dice,
    way: Way,
    /// Receives of each queue pair that no message was sent to.
    awaiting: [u32; PAIRS],
    /// What each step left.
    left: Vec<u64>,
    causes: Vec<u32>,
}

impl<W: Wire> Scene<W> {
    fn run(
        (engine, row): (&'static KernelRow, &'static KernelRow),
        machine: &Machine,
        seed: u64,
        memory: &Arc<Arena>,
    ) -> Result<Outcome, String> {
        let ready = machine.ready(seed)?;
        let mut dice = Dice::new(seed);
        let bytes: Vec<u8> = (0..MEMORY)
            .map(|at| match at < SIGNAL_BYTES {
                true => 0,
                false => dice.below(256) as u8,
            })
            .collect();
        let filled = memory.write(memory.whole().address, &bytes);
        filled.map_err(|error| error.to_string())?;
        let start = STARTS[dice.below(4) as usize];
        let mut wire = W::with_slots(DEPTH, start, 256);
        if wire.slots_for(LARGEST_FRAME) == 0 {
            wire = W::with_slots(DEPTH, start, 512);
        }
        let mut end = End::new(engine, wire, memory, LOG_QUEUE, PAIRS as u32, NUMBER)?;
        connect(&mut end, &ready, &mut dice, &SERVICES)?;
        let mut scene = Self {
            end,
            row,
            is_together: row.name != "perform",
            way: Way::new(dice.below(3) == 0),
            dice,
            awaiting: [0; PAIRS],
            left: Vec::new(),
            causes: Vec::new(),
        };
        scene.refuses(&ready)?;
        for round in 0..ROUNDS {
            let place = round % PAIRS;
            let script = scene.script(place);
            scene.launch(&ready, place, &script)?;
            scene.way.carry(&mut scene.end.wire, &mut scene.dice);
        }
        scene.come_to_rest(&ready)?;
        Ok(scene.end())
    }

    fn refuses(&self, ready: &Ready) -> Result<(), String> {
        let valid = ScriptParameters {
            // What ends a kernel is told beside its heartbeat: here nothing may be written.
            steering: Steering::default(),
            ..self.parameters(0, &[Step::default()], 1)
        };
        let own = match self.is_together {
            true => [WRONG, WITHOUT_ENGINE].concat(),
            false => [WRONG, WITH_ENGINE].concat(),
        };
        let stage = &self.end.stage;
        refuse(
            ready,
            self.row,
            stage,
            valid,
            |block| &mut block.header,
            &own,
        )
    }

    fn parameters(&self, place: usize, script: &[Step], turns: u64) -> ScriptParameters {
        let stage = &self.end.stage;
        ScriptParameters {
            header: ScriptParameters::HEADER,
            steering: Steering {
                heartbeats: stage.heartbeat,
                turns,
                ..Steering::default()
            },
            channel: self.end.pairs[place].places.home,
            steps: stage.place_all(script),
            engine: match self.is_together {
                true => self.end.table.block,
                false => DeviceAddress::NULL,
            },
            step_count: script.len() as u32,
            reserved: 0,
        }
    }

    /// Has a script carried out over a queue pair; then, or meanwhile, the engine has some turns.
    fn launch(&mut self, ready: &Ready, place: usize, script: &[Step]) -> Result<(), String> {
        let turns = 1 + self.dice.below(3);
        let stops = self.dice.below(16) == 0;
        let mut parameters = self.parameters(place, script, turns);
        let stage = &self.end.stage;
        if self.dice.below(2) == 0 || stops {
            parameters.steering.stop = stage.place(u64::from(stops));
        }
        let job = stage.job::<ScriptParameters>(self.row, stage.place(parameters));
        ready.run(job)?;
        self.causes.push(stage.take_cause());
        let words = stage.words(parameters.steps, size_of_val(script));
        // Found, and the word with the outcome: the rest is as it was.
        let found = words.chunks(size_of::<Step>() / 8).map(|step| &step[FOUND]);
        self.left.extend(found.flatten());
        if !self.is_together {
            self.causes.push(self.end.run(ready, turns)?);
        }
        Ok(())
    }

    /// Steps for a queue pair: receives, requests, a wait or two.
    fn script(&mut self, place: usize) -> Vec<Step> {
        let cursor = self.end.cursor(place);
        let mut steps = Vec::new();
        let posted = cursor.receive_next.wrapping_sub(cursor.receive_freed);
        let times = (SLOTS - posted).min(self.dice.below(MOST));
        if times > 0 {
            steps.push(self.step(Verb::Receive, times, place));
            self.awaiting[place] += times as u32;
        }
        let used = cursor.send_next.wrapping_sub(cursor.send_freed);
        let untold = cursor.send_next.wrapping_sub(cursor.tracked_to);
        // Room for what asks for a completion, in the last two waits.
        let budget = (SLOTS - used).min(SLOTS / 2 - untold);
        let mut budget = budget.saturating_sub(3);
        for _ in 0..self.dice.below(5) {
            let verb = VERBS[self.dice.below(VERBS.len() as u64) as usize];
            let slots = match verb {
                Verb::PutSet | Verb::PutAdd => 2,
                Verb::Nothing | Verb::Fence => 0,
                _ => 1,
            };
            let sends = matches!(verb, Verb::Send | Verb::SendImmediate);
            let most = match (slots, sends) {
                (0, _) => 1,
                (slots, false) => budget / slots,
                (_, true) => budget.min(u64::from(self.awaiting[place ^ 1])),
            };
            let times = (1 + self.dice.below(MOST)).min(most);
            if times == 0 {
                continue;
            }
            budget -= times * slots;
            if sends {
                self.awaiting[place ^ 1] -= times as u32;
            }
            steps.push(self.step(verb, times, place));
        }
        if self.dice.below(2) == 0 {
            let waits = [Verb::Arrivals, Verb::All, Verb::Any, Verb::Some];
            let verb = waits[self.dice.below(4) as usize];
            let times = 1 + self.dice.below(3);
            steps.push(self.step(verb, times, place));
        }
        steps.push(self.step(Verb::Quiet, 1, place));
        steps
    }

    fn step(&mut self, verb: Verb, times: u64, place: usize) -> Step {
        let fetches = matches!(verb, Verb::FetchAdd | Verb::CompareSwap);
        let waits = matches!(verb, Verb::All | Verb::Any | Verb::Some);
        let own = place as u64 * SIGNAL_STRIDE;
        let peer = (place ^ 1) as u64 * SIGNAL_STRIDE;
        // Now and then a key that nobody has: the queue pair fails.
        let dice = &mut self.dice;
        let key = KEY ^ u32::from(self.way.is_hostile && dice.below(60) == 0);
        let whole = self.end.memory.whole().address.value();
        let aligned = if fetches { !7 } else { !0 };
        let mut somewhere = || (SIGNAL_BYTES + dice.below(SPAN)) & aligned;
        let (local, remote) = (somewhere(), somewhere());
        let length = match fetches {
            true => 8,
            false if verb == Verb::Receive => LONGEST,
            false => dice.below(u64::from(LONGEST)) as u32,
        };
        Step {
            times: times as u32,
            stride: match waits || fetches {
                true => 8 * (1 + dice.below(2)),
                false => dice.below(MOST_STRIDE),
            },
            local: Gather {
                address: whole + if waits { own } else { local },
                length,
                key: KEY,
            },
            remote: Remote::new(whole + remote, key),
            signal: Remote::new(whole + peer, KEY),
            value: dice.below(3),
            compare: dice.below(3),
            timeout_ns: 0,
            ..Step::new(verb)
        }
    }

    /// Runs the engine until nothing is under way. Where nothing was lost, every request is done
    /// then, and who waits for that is told so.
    fn come_to_rest(&mut self, ready: &Ready) -> Result<(), String> {
        let mut quiet = 0;
        for round in 0..MOST_ROUNDS {
            let place = round % PAIRS;
            let script = [self.step(Verb::Quiet, 1, place)];
            self.launch(ready, place, &script)?;
            let goes_on = self.way.carry(&mut self.end.wire, &mut self.dice);
            quiet = if goes_on { 0 } else { quiet + 1 };
            if quiet > 2 * PAIRS {
                break;
            }
        }
        for place in 0..PAIRS {
            let (block, cursor) = (self.end.block(place), self.end.cursor(place));
            let is_done = [block.told, cursor.send_freed] == [cursor.send_next; 2];
            if !self.way.is_hostile && (!is_done || block.failed) {
                let (told, freed, next) = (block.told, cursor.send_freed, cursor.send_next);
                return Err(format!(
                    "queue pair {place}: {told} of {next} slots done, {freed} free again"
                ));
            }
        }
        Ok(())
    }

    fn end(self) -> Outcome {
        let cursors: Vec<_> = (0..PAIRS).map(|place| self.end.cursor(place)).collect();
        let mut outcome = leave(self.end, self.way.sent, self.causes);
        for (cursor, place) in cursors.iter().zip(0..) {
            outcome.seen.fact(format!("cursor of {place}"), cursor);
        }
        outcome.seen.counts("word of the steps", self.left);
        outcome
    }
}

/// What a script posts.
const VERBS: [Verb; 13] = [
    Verb::Nothing,
    Verb::Put,
    Verb::PutInline,
    Verb::PutSet,
    Verb::PutAdd,
    Verb::Set,
    Verb::Add,
    Verb::Get,
    Verb::FetchAdd,
    Verb::CompareSwap,
    Verb::Send,
    Verb::SendImmediate,
    Verb::Fence,
];
const PAIRS: usize = 4;
const SERVICES: [Service; PAIRS / 2] = [Service::Rc; PAIRS / 2];

const WRONG: &[Wrong<ScriptParameters>] = &[
    ("no steps", |block| block.steps = DeviceAddress::NULL),
    ("steps off their alignment", |block| {
        block.steps = block.steps.offset(8)
    }),
    ("no channel", |block| block.channel = DeviceAddress::NULL),
    ("a channel off its alignment", |block| {
        block.channel = block.channel.offset(8)
    }),
    ("something else for a channel", |block| {
        block.channel = block.channel.offset(64)
    }),
];
const WITHOUT_ENGINE: &[Wrong<ScriptParameters>] = &[
    ("no engine", |block| block.engine = DeviceAddress::NULL),
    ("an engine off its alignment", |block| {
        block.engine = block.engine.offset(8)
    }),
];
const WITH_ENGINE: &[Wrong<ScriptParameters>] = &[("an engine that runs elsewhere", |block| {
    block.engine = block.channel
})];

/// Of a step, the words in which stands what came of it.
const FOUND: Range<usize> = offset_of!(Step, found) / 8..offset_of!(Step, outcome).div_ceil(8);

/// Binary logarithm of the slots of a work queue, and those.
const LOG_QUEUE: u32 = 7;
const SLOTS: u64 = 1 << LOG_QUEUE;
/// Of one verb at a time at most: more than a warp has lanes.
const MOST: u64 = 40;
/// The first bytes of the memory are signals, those of a queue pair together.
const SIGNAL_STRIDE: u64 = 64;
const SIGNAL_BYTES: u64 = SIGNAL_STRIDE * PAIRS as u64;
const MOST_STRIDE: u64 = 200;
/// Bytes in which a verb may begin.
const SPAN: u64 = MEMORY - SIGNAL_BYTES - MOST * MOST_STRIDE - LONGEST as u64;
/// Scripts, and launches until nothing is under way.
const ROUNDS: usize = 10;
const MOST_ROUNDS: usize = 200;
