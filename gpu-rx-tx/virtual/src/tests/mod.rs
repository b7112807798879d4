//! Tests: pieces of PTX, run by the interpreter alone.

mod faults;
mod instructions;
mod lanes;
mod observers;
mod properties;
mod speed;
mod texts;
mod warps;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpwire_device::Place;
use warpwire_gpu::Arena;
use warpwire_ring::Location;

use crate::count::KernelCounts;
use crate::fault::Fault;
use crate::memory::{Regions, Shared};
use crate::module::Module;
use crate::observer::{Observer, Unwatched, Watch};
use crate::warp::{Setting, Turn, Warp};

/// A block of a kernel, and memory for its results.
pub(crate) struct Bench {
    module: Arc<Module>,
    memory: Arc<Arena>,
    pub(crate) warps: u32,
    pub(crate) seed: u64,
    /// Turns after which the run is over, whatever warps do.
    pub(crate) most_turns: u64,
}

/// What a run left behind.
pub(crate) struct Outcome {
    /// Words of 64 bits from the start of the memory.
    pub(crate) words: Vec<u64>,
    pub(crate) counts: KernelCounts,
    pub(crate) turns: u64,
}

impl Bench {
    /// A module whose first entry point takes the address of zeroed memory, of two pages.
    pub(crate) fn new(text: &str) -> Self {
        let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        Self {
            module: Arc::new(module),
            memory: Arc::new(Arena::new(8192, Location::Device).expect("maps")),
            warps: 1,
            seed: 1,
            most_turns: MOST_TURNS,
        }
    }

    /// A module of one entry point with this body. It has registers `%p`, `%rs`, `%r`, `%rd` from 0
    /// to 31, its memory in `%rd31` and its thread in `%r31`.
    pub(crate) fn body(body: &str) -> Self {
        Self::new(&format!(
            "{HEAD}.visible .entry k(.param .u64 memory)\n{{\n{REGISTERS}{body}\nret;\n}}\n"
        ))
    }

    pub(crate) fn address(&self) -> u64 {
        self.memory.whole().address.value()
    }

    /// Runs all warps to their ends.
    pub(crate) fn run(&self) -> Result<Outcome, Fault> {
        self.run_watched(&Unwatched)
    }

    /// Runs all warps to their ends, with observers.
    pub(crate) fn run_watched<W: Watch>(&self, watch: &W) -> Result<Outcome, Fault> {
        let regions = Regions::new(&[Arc::clone(&self.memory)], &self.module.tables);
        let time = AtomicU64::new(0);
        let setting = Setting {
            module: Arc::clone(&self.module),
            entry: *self.module.entries.values().next().expect("an entry"),
            parameter: self.address(),
            regions: Arc::new(regions.expect("maps")),
            dynamic_shared_bytes: 0,
            now_ns: Arc::new(move || time.fetch_add(100, Ordering::Relaxed)),
            seed: self.seed,
        };
        let shared = Arc::new(Shared::new(self.module.shared_bytes).expect("maps"));
        let mut warps: Vec<_> = (0..self.warps)
            .map(|warp| {
                let place = Place {
                    warp,
                    warps: self.warps,
                    block: 0,
                    blocks: 1,
                };
                let observer = watch.observer("k", place);
                let warp = Warp::new(&setting, place, Arc::clone(&shared), observer);
                (warp.expect("fits"), None)
            })
            .collect();
        let turns = drive(&mut warps, self.most_turns)?;
        let mut counts = KernelCounts::default();
        for (warp, _) in &warps {
            counts.add(&self.module, &warp.counters);
        }
        let mut bytes = vec![0; 8192];
        let whole = self.memory.whole().address;
        self.memory.read(whole, &mut bytes).expect("inside");
        let words = bytes.chunks_exact(8);
        Ok(Outcome {
            words: words
                .map(|word| u64::from_le_bytes(word.try_into().expect("eight")))
                .collect(),
            counts,
            turns,
        })
    }

    /// Runs, and says what went wrong.
    pub(crate) fn fault(&self) -> String {
        match self.run() {
            Ok(_) => panic!("nothing went wrong"),
            Err(fault) => format!("lane {}: {fault}", fault.lane),
        }
    }
}

/// Gives warps turns until all ended; a barrier opens when all that did not end have come to it.
fn drive<O: Observer>(
    warps: &mut [(Warp<O>, Option<Turn>)],
    most_turns: u64,
) -> Result<u64, Fault> {
    for turn in 0..most_turns {
        let mut waiting = true;
        for (warp, state) in warps.iter_mut() {
            if !matches!(state, Some(Turn::Ended | Turn::Barrier)) {
                *state = Some(warp.turn()?);
                waiting &= matches!(state, Some(Turn::Ended | Turn::Barrier));
            }
        }
        if warps.iter().all(|(_, state)| *state == Some(Turn::Ended)) {
            return Ok(turn);
        }
        for (_, state) in warps.iter_mut().filter(|_| waiting) {
            if *state == Some(Turn::Barrier) {
                *state = None;
            }
        }
    }
    assert!(
        most_turns < MOST_TURNS,
        "not at an end after {MOST_TURNS} turns"
    );
    Ok(most_turns)
}

pub(crate) const HEAD: &str = ".version 8.3\n.target sm_80\n.address_size 64\n";

const REGISTERS: &str = "\
.reg .pred %p<32>;
.reg .b16 %rs<32>;
.reg .b32 %r<32>;
.reg .b64 %rd<32>;
ld.param.u64 %rd31, [memory];
mov.u32 %r31, %tid.x;
";

const MOST_TURNS: u64 = 1_000_000;
