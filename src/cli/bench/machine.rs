//! The machine: what it is, who else uses it, and how threads are put before others.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use warpwire_ptx::process::{self, Show};

use super::error::Error;
use super::setting::{FAR, NEAR};

/// What figures were taken on.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub(super) struct Machine {
    /// The processor's name.
    pub(super) processor: String,
    /// Processors that this process may use.
    pub(super) processors: usize,
    /// The kernel's release.
    pub(super) kernel: String,
}

impl Machine {
    pub(super) fn here() -> Self {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpus.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(':'));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            processor: model.map_or("unknown", |(_, name)| name.trim()).to_owned(),
            processors: processors(),
            kernel: kernel.trim().to_owned(),
        }
    }
}

pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Whether `PATH` holds a file of this name.
pub(super) fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// The commit that this program was built from, if its sources are still there.
pub(super) fn commit() -> String {
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-C", env!("CARGO_MANIFEST_DIR")]).args(words);
        let outcome = process::run_well(&mut command, SHORT, Show::Nothing).ok()?;
        Some(outcome.stdout.trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit}, modified"),
    }
}

/// The time in words, UTC.
pub(super) fn date() -> String {
    let mut command = Command::new("date");
    command.args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]);
    let outcome = process::run_well(&mut command, SHORT, Show::Nothing);
    outcome.map_or_else(
        |_| "unknown".to_owned(),
        |outcome| outcome.stdout.trim().to_owned(),
    )
}

/// Keeps the calling thread on one processor.
pub(super) fn pin(core: usize) -> Result<(), Error> {
    let link = fs::read_link("/proc/thread-self").map_err(|source| Error::System {
        action: "finding the number of a thread".to_owned(),
        source,
        cure: "mount /proc",
    })?;
    let number = link.file_name().unwrap_or_default().to_owned();
    let mut command = Command::new("taskset");
    command.args(["-c", "-p", &core.to_string()]).arg(number);
    process::run_well(&mut command, SHORT, Show::Nothing)?;
    Ok(())
}

/// Threads that go before all others of the machine, until this is dropped.
pub(super) struct First {
    processes: Vec<u32>,
}

impl First {
    /// Puts all threads that some processes have now before others. The first thread of each, which
    /// only asks now and then, goes before the rest, so that it asks in time.
    pub(super) fn put(processes: Vec<u32>) -> Result<Self, Error> {
        let first = Self { processes };
        for process in &first.processes {
            for thread in threads(*process) {
                let priority = if thread == *process { "2" } else { "1" };
                change(&["--rr", "-p", priority], thread)?;
            }
        }
        Ok(first)
    }
}

impl Drop for First {
    fn drop(&mut self) {
        for thread in self.processes.iter().flat_map(|process| threads(*process)) {
            // One that has ended needs no place.
            let _ = change(&["--other", "-p", "0"], thread);
        }
    }
}

fn change(words: &[&str], thread: u32) -> Result<(), Error> {
    let mut command = Command::new("chrt");
    command.args(words).arg(thread.to_string());
    process::run_well(&mut command, SHORT, Show::Nothing)?;
    Ok(())
}

fn threads(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter();
    let numbers = entries.flatten().flatten().map(|entry| entry.file_name());
    numbers
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

/// Who uses the machine while something runs.
pub(super) struct Usage {
    start: Instant,
    machine: f64,
    own: f64,
}

impl Usage {
    pub(super) fn start() -> Self {
        Self {
            start: Instant::now(),
            machine: machine_seconds(),
            own: own_seconds(),
        }
    }

    /// Processors that others used since the start: neither this process nor those that it started
    /// and that have ended.
    pub(super) fn of_others(&self) -> f64 {
        let others = (machine_seconds() - self.machine) - (own_seconds() - self.own);
        others.max(0.0) / self.start.elapsed().as_secs_f64()
    }
}

/// Processor seconds that the whole machine has used outside of interrupts.
fn machine_seconds() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = text.split_whitespace().skip(1).take(3);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / TICKS
}

/// Processor seconds of this process and its children that ended.
fn own_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is a name in parentheses and may hold spaces.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields = rest.split_whitespace().skip(11).take(4);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / TICKS
}

/// How long a line of memory takes to the other processor and back, in nanoseconds. It varies with
/// where a host puts its virtual processors, and every figure between two of them with it.
/// Infinite if the other processor had no time at all.
pub(super) fn ping_pong() -> Result<f64, Error> {
    #[repr(align(128))]
    struct Ball(AtomicU64);
    let (ball, over) = (Ball(AtomicU64::new(0)), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| -> Result<(), Error> {
            pin(FAR)?;
            while !over.load(Ordering::Relaxed) {
                let seen = ball.0.load(Ordering::Acquire);
                if seen % 2 == 1 {
                    ball.0.store(seen + 1, Ordering::Release);
                }
            }
            Ok(())
        });
        let player = scope.spawn(|| -> Result<f64, Error> {
            pin(NEAR)?;
            let limit = Instant::now() + PLAY;
            let (mut turns, mut least) = (0, f64::INFINITY);
            while Instant::now() < limit {
                let start = Instant::now();
                for _ in 0..A_BATCH {
                    ball.0.store(2 * turns + 1, Ordering::Release);
                    let mut spins = 0u32;
                    while ball.0.load(Ordering::Acquire) == 2 * turns + 1 {
                        spins = spins.wrapping_add(1);
                        if spins.is_multiple_of(1 << 16) && Instant::now() >= limit {
                            return Ok(least);
                        }
                    }
                    turns += 1;
                }
                least = least.min(start.elapsed().as_nanos() as f64 / A_BATCH as f64);
            }
            Ok(least)
        });
        let result = player.join();
        over.store(true, Ordering::Relaxed);
        let other = other.join();
        other.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Of a second, in /proc: the same on all machines that Linux runs on.
const TICKS: f64 = 100.0;
const SHORT: Duration = Duration::from_secs(10);
/// How long the ball is played.
const PLAY: Duration = Duration::from_millis(30);
/// Turns between two looks at the clock. Of all batches the fastest counts: others interrupt some.
const A_BATCH: u64 = 100;
