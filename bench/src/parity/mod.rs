//! Comparisons: each kernel on some machine gives what it gives on the CPU, one lane wide.
//!
//! The subject of a comparison is an entry point, found by its name, over queues of its format with
//! the format's other half as the NIC; or a pipeline file over soft NICs or memif, with all the
//! kernels that it takes. A seed decides traffic, parameters and the order of what has none.
//!
//! What is compared: frames that leave, cursors, every counter, and what kernels return where they
//! return something. Before that, each kernel is given wrong parameter blocks: it ends at once and
//! touches nothing.

mod blocks;
mod carry;
mod files;
mod gathering;
mod gauges;
mod messages;
mod plain;
mod programs;
mod scripts;
mod seen;
mod serving;
mod streams;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use warpwire_core::kernels::entries;
use warpwire_device::KernelRow;

pub use crate::machine::Machine;

/// A comparison.
pub struct Case {
    /// The entry point, or the pipeline file.
    pub subject: String,
    /// What it runs over.
    pub over: &'static str,
    check: Box<Check>,
}

/// Compares a machine with the CPU for one seed; frames that passed on the CPU.
type Check = dyn Fn(&Machine, u64) -> Result<u64, String> + Send + Sync;

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Case({} over {})", self.subject, self.over)
    }
}

impl Case {
    fn new<S: Into<String>>(
        subject: S,
        over: &'static str,
        check: impl Fn(&Machine, u64) -> Result<u64, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            subject: subject.into(),
            over,
            check: Box::new(check),
        }
    }

    /// Compares for one seed; frames that passed on the CPU.
    ///
    /// # Errors
    /// What differs, or what went wrong.
    pub fn check(&self, machine: &Machine, seed: u64) -> Result<u64, String> {
        let checked = catch_unwind(AssertUnwindSafe(|| (self.check)(machine, seed)));
        checked.unwrap_or_else(|payload| {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
            Err(text.unwrap_or("a panic without words").to_owned())
        })
    }

    /// Compares for some seeds.
    pub fn run(&self, machine: &Machine, seeds: impl Iterator<Item = u64>) -> Verdict {
        let start = Instant::now();
        let mut verdict = Verdict {
            subject: self.subject.clone(),
            over: self.over,
            ..Verdict::default()
        };
        for seed in seeds {
            match self.check(machine, seed) {
                Ok(frames) => verdict.frames += frames,
                Err(what) => {
                    verdict.failure = Some(Failure {
                        seed: Some(seed),
                        what,
                    });
                    break;
                }
            }
            verdict.seeds += 1;
        }
        verdict.took = start.elapsed();
        let idle = verdict.seeds > 0 && verdict.frames < LEAST_FRAMES * verdict.seeds;
        if idle && verdict.failure.is_none() {
            let what = format!("nothing was compared: {} frames", verdict.frames);
            verdict.failure = Some(Failure { seed: None, what });
        }
        verdict
    }
}

/// What came of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The entry point, or the pipeline file.
    pub subject: String,
    /// What it ran over.
    pub over: &'static str,
    /// Seeds without a difference.
    pub seeds: u64,
    /// Frames that passed.
    pub frames: u64,
    /// How long it took.
    pub took: Duration,
    /// What differs.
    pub failure: Option<Failure>,
}

/// Why a comparison failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed that repeats it; every seed does if there is none.
    pub seed: Option<u64>,
    /// What is wrong.
    pub what: String,
}

/// Every comparison of kernels: for the entry points of a module, and for the kernels that it must
/// have. One without a comparison, and one that the module lacks, is a case that fails.
/// `corpus` is the folder of the programs of pipelines.
pub fn kernels<'a>(entries: impl Iterator<Item = &'a str>, corpus: &Path) -> Vec<Case> {
    let entries: BTreeSet<&str> = entries.collect();
    let must: BTreeSet<&str> = rows().map(|row| row.name).collect();
    let mut cases = Vec::new();
    for &name in &entries {
        let of_kinds = [
            plain::cases(name),
            programs::cases(name, corpus),
            gauges::cases(name),
            gathering::cases(name),
            messages::cases(name),
            streams::cases(name),
            serving::cases(name),
            carry::cases(name),
            scripts::cases(name),
        ];
        let before = cases.len();
        cases.extend(of_kinds.into_iter().flatten());
        if cases.len() == before {
            cases.push(refusal(name, NO_COMPARISON));
        }
    }
    let absent = must.difference(&entries);
    cases.extend(absent.map(|name| refusal(name, NOT_THERE)));
    cases
}

/// The kernels that the PTX must have.
pub fn rows() -> impl Iterator<Item = &'static KernelRow> {
    let kinds = [
        entries::pipelines(),
        entries::measuring(),
        entries::gauges(),
        entries::transports(),
        entries::streams(),
        entries::gatherers(),
        entries::servers(),
        entries::applications(),
    ];
    kinds.into_iter().flatten()
}

/// Where the programs of pipelines lie in the repository that this was built from.
pub fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/stages")
}

/// Every comparison of pipeline files.
pub fn files() -> Vec<Case> {
    files::cases()
}

fn refusal(name: &str, why: &'static str) -> Case {
    Case::new(name, "nothing", move |_, _| Err(why.to_owned()))
}

/// Runs cases on `threads` threads, and tells of each verdict as it comes. In the order of the
/// cases.
pub fn run_all(
    cases: &[Case],
    machine: &Machine,
    seeds: std::ops::Range<u64>,
    threads: usize,
    tell: impl Fn(&Verdict) + Sync,
) -> Vec<Verdict> {
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(vec![Verdict::default(); cases.len()]);
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(place) else {
                        break;
                    };
                    let verdict = case.run(machine, seeds.clone());
                    tell(&verdict);
                    let mut all = verdicts.lock().unwrap_or_else(|error| error.into_inner());
                    all[place] = verdict;
                }
            });
        }
    });
    verdicts
        .into_inner()
        .unwrap_or_else(|error| error.into_inner())
}

const NO_COMPARISON: &str = "no comparison knows this entry point; write one in bench/src/parity";
const NOT_THERE: &str = "the PTX has no such entry point; renew it with `cargo xtask ptx`";
/// Frames of a seed, on average, below which a comparison says nothing.
const LEAST_FRAMES: u64 = 20;
