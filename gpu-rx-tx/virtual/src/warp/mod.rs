//! A warp: 32 lanes with a program counter and a call stack each, as GPUs have had since sm_70.
//!
//! Lanes that stand at the same instruction of the same call path form a group; one group runs at a
//! time, so that lanes which parted meet again: the deepest call first, then the lowest
//! instruction. Now and then the seed lets another one run, so that nothing can depend on that.

mod access;
mod calls;
mod compute;
mod meeting;
mod run;
mod schedule;

use std::sync::Arc;

use warpwire_device::Place;
use warpwire_gpu::executor::Random;

use crate::column::{Column, LANES};
use crate::count::{Counters, Sectors};
use crate::fault::{Fault, Reason};
use crate::memory::{Memory, Regions, Shared};
use crate::module::Module;
use crate::observer::Observer;

/// What warps of a launch share.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) module: Arc<Module>,
    /// The entry point, by its number.
    pub(crate) entry: usize,
    /// Its one parameter.
    pub(crate) parameter: u64,
    pub(crate) regions: Arc<Regions>,
    pub(crate) dynamic_shared_bytes: u64,
    pub(crate) now_ns: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub(crate) seed: u64,
}

/// One warp and all that it needs to go on.
pub(crate) struct Warp<O> {
    setting: Setting,
    place: Place,
    nodes: Vec<Node>,
    groups: Vec<Group>,
    /// Lanes that have not exited.
    live: u32,
    memory: Memory,
    /// The carry of each lane.
    carry: u32,
    random: Random,
    pub(crate) counters: Counters,
    sectors: Sectors,
    observer: O,
    /// Instructions so far.
    cycles: u64,
    /// Whether the last turn ended at the barrier of the block.
    arrived: bool,
    /// Whether the group that runs next is drawn: the last one ran long enough.
    unfair: bool,
}

/// A call path: a function, called from a certain place, and the registers of the lanes in it.
/// Lanes that come by the same path share it, whenever they come.
#[derive(Debug)]
struct Node {
    function: usize,
    parent: Option<usize>,
    /// The call, in the parent's function.
    site: usize,
    depth: u64,
    /// Where its frame starts and ends in the stacks of its lanes.
    base: u64,
    top: u64,
    registers: Vec<Column>,
    /// A bit a lane.
    predicates: Vec<u32>,
    /// Calls that were made from here so far.
    children: Vec<(usize, usize)>,
}

/// Lanes that stand at the same instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Group {
    mask: u32,
    node: usize,
    pc: usize,
    state: State,
}

/// What lanes wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Nothing.
    Ready,
    /// Their warp's next turn.
    Paused,
    /// All lanes of this mask, at the same instruction.
    Meeting(u32),
    /// All lanes of the warp, and then of the block.
    Barrier { aligned: bool },
}

/// What one lane, or some, did wrong.
struct Wrong {
    lane: usize,
    reason: Reason,
}

/// How a warp's turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    Paused,
    Busy,
    Interrupted,
    Barrier,
    Ended,
}

impl<O: Observer> Warp<O> {
    pub(crate) fn new(
        setting: &Setting,
        place: Place,
        shared: Arc<Shared>,
        observer: O,
    ) -> Result<Self, Reason> {
        let module = &setting.module;
        let number = u64::from(place.block * place.warps + place.warp);
        let mut seeds = Random::new(setting.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut warp = Self {
            setting: setting.clone(),
            place,
            nodes: Vec::new(),
            groups: Vec::new(),
            live: u32::MAX,
            memory: Memory::new(Arc::clone(&setting.regions), shared),
            carry: 0,
            random: Random::new(seeds.bits()),
            counters: Counters::new(module.functions.len()),
            sectors: Sectors::new(),
            observer,
            cycles: 0,
            arrived: false,
            unfair: false,
        };
        let root = warp.node(None, 0, setting.entry)?;
        let parameters = module.functions.get(setting.entry);
        let parameters = parameters.map_or(&[][..], |function| &function.parameters);
        if let [span, ..] = parameters {
            let bytes = span.bytes.min(8);
            for lane in 0..LANES {
                let stack = &mut warp.memory.stack;
                stack.store(lane, span.offset, bytes, setting.parameter)?;
            }
        }
        warp.groups.push(Group {
            mask: u32::MAX,
            node: root,
            pc: 0,
            state: State::Ready,
        });
        Ok(warp)
    }

    /// Where lanes stand, in words.
    pub(crate) fn stand(&self) -> String {
        let mut words = String::new();
        for group in &self.groups {
            if !words.is_empty() {
                words.push_str("; ");
            }
            words.push_str(&self.stand_of(group));
        }
        words
    }

    fn stand_of(&self, group: &Group) -> String {
        let (function, line, name) = self.at(group);
        let what = match group.state {
            State::Ready => "at",
            State::Paused => "pausing before",
            State::Meeting(_) | State::Barrier { .. } => "waiting at",
        };
        let lanes = Lanes(group.mask);
        let mut words = format!("{lanes} {what} `{name}` in `{function}`, line {line}");
        if let State::Meeting(mask) = group.state {
            let missing = Lanes(mask & self.live & !group.mask);
            words.push_str(&format!(", for {missing}"));
        }
        words
    }

    /// The function, the line and the instruction where a group stands.
    fn at(&self, group: &Group) -> (&str, u32, &str) {
        let node = self.nodes.get(group.node);
        let function = node.and_then(|node| self.setting.module.functions.get(node.function));
        let Some(function) = function else {
            return ("", 0, "");
        };
        match function.code.get(group.pc).or(function.code.last()) {
            Some(instruction) => (&function.name, instruction.line, &instruction.name),
            None => (&function.name, 0, ""),
        }
    }

    fn fault(&self, group: &Group, lane: usize, reason: Reason) -> Fault {
        let (function, line, instruction) = self.at(group);
        Fault {
            function: function.to_owned(),
            line,
            instruction: instruction.to_owned(),
            lane: lane as u32,
            reason,
        }
    }
}

/// Lanes in words: `lanes 0-3,7`.
struct Lanes(u32);

impl std::fmt::Display for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = match self.0.count_ones() {
            0 => return f.write_str("no lane"),
            1 => "lane",
            _ => "lanes",
        };
        write!(f, "{word} ")?;
        let mut rest = self.0;
        while rest != 0 {
            let first = rest.trailing_zeros();
            let length = (rest >> first).trailing_ones();
            let last = first + length - 1;
            if rest != self.0 {
                f.write_str(",")?;
            }
            match length {
                1 => write!(f, "{first}")?,
                _ => write!(f, "{first}-{last}")?,
            }
            rest &= !(u64::from(u32::MAX) >> (31 - last)) as u32;
        }
        Ok(())
    }
}

/// The lowest lane of a mask; 0 if there is none.
fn lowest(mask: u32) -> usize {
    mask.trailing_zeros() as usize % LANES
}
