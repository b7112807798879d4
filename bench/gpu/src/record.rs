//! The record: what was found, as JSON and as a table; and the deadline of the whole.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use crate::machine::{Machine, date};
use crate::options::Options;
use crate::part::{Limit, Outcome, Part};
use crate::setting::{Ground, OnDevice, OnPtx};

/// Everything, as it is written.
#[derive(Clone, Debug, Serialize)]
struct Record {
    program: &'static str,
    date: String,
    commit: &'static str,
    quick: bool,
    device: OnDevice,
    ptx: OnPtx,
    host: Machine,
    /// All parts ended, and well.
    passed: bool,
    seconds: f64,
    parts: Vec<Row>,
}

/// A part.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: &'static str,
    measured: &'static str,
    on_hardware: bool,
    passed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    seconds: f64,
    values: Value,
    #[serde(skip)]
    lines: Vec<(String, String)>,
}

/// A check that runs.
pub(crate) struct Session {
    state: Arc<Mutex<State>>,
    end: Instant,
}

struct State {
    record: Record,
    begun: Instant,
    /// The part that runs, and since when.
    running: Option<(Part, Instant)>,
    output: PathBuf,
    is_over: bool,
}

impl Session {
    /// Starts the clock. Whatever still runs at the deadline is given up: the record is written
    /// without it, and the process ends.
    pub(crate) fn begin(options: &Options, ground: &Ground) -> Self {
        let begun = Instant::now();
        let record = Record {
            program: "warpwire-gpu-check",
            date: date(),
            commit: COMMIT,
            quick: options.quick,
            device: ground.device.clone(),
            ptx: ground.ptx.clone(),
            host: Machine::here(),
            passed: false,
            seconds: 0.0,
            parts: Vec::new(),
        };
        let state = State {
            record,
            begun,
            running: None,
            output: options.output.clone(),
            is_over: false,
        };
        let session = Self {
            state: Arc::new(Mutex::new(state)),
            end: begun + Duration::from_secs(options.seconds),
        };
        let (state, end) = (Arc::clone(&session.state), session.end);
        thread::spawn(move || watch(&state, end));
        session
    }

    /// Runs a part, within its budget and what is left.
    pub(crate) fn part(&self, part: &Part, run: impl FnOnce(Limit) -> Outcome) {
        let begun = Instant::now();
        eprintln!("{} ...", part.name);
        lock(&self.state).running = Some((*part, begun));
        let limit = Limit((begun + part.budget).min(self.end));
        let outcome = catch_unwind(AssertUnwindSafe(|| run(limit)));
        let outcome = outcome.unwrap_or_else(|payload| {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
            Err(text.unwrap_or("a panic without words").to_owned())
        });
        let mut state = lock(&self.state);
        state.running = None;
        state.close(part, begun, outcome);
    }

    /// Writes the record and prints the table. Whether all is right.
    pub(crate) fn end(self) -> bool {
        lock(&self.state).finish()
    }
}

impl State {
    fn close(&mut self, part: &Part, begun: Instant, outcome: Outcome) {
        let (found, failure) = match outcome {
            Ok(found) => {
                let failure = found.failure.clone();
                (found, failure)
            }
            Err(why) => (Default::default(), Some(why)),
        };
        self.record.parts.push(Row {
            name: part.name,
            measured: part.measured,
            on_hardware: self.record.device.on_hardware,
            passed: failure.is_none(),
            failure,
            seconds: seconds(begun.elapsed()),
            values: found.values,
            lines: found.lines,
        });
    }

    fn finish(&mut self) -> bool {
        self.is_over = true;
        self.record.passed = self.record.parts.iter().all(|row| row.passed);
        self.record.seconds = seconds(self.begun.elapsed());
        println!("{}", table(&self.record));
        match write(&self.output, &self.record) {
            Ok(()) => println!("record: {}", self.output.display()),
            Err(error) => {
                println!(
                    "the record is not written: {}: {error}",
                    self.output.display()
                );
                return false;
            }
        }
        self.record.passed
    }
}

/// Ends the process at the deadline.
fn watch(state: &Mutex<State>, end: Instant) {
    thread::sleep(end.saturating_duration_since(Instant::now()));
    let mut state = lock(state);
    if state.is_over {
        return;
    }
    if let Some((part, begun)) = state.running.take() {
        let why = "it did not end before the deadline of the whole check".to_owned();
        state.close(&part, begun, Err(why));
    }
    state.finish();
    process::exit(1);
}

fn write(path: &Path, record: &Record) -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(record)?;
    std::fs::write(path, text + "\n")
}

fn table(record: &Record) -> String {
    let device = &record.device;
    let (major, minor) = device.compute_capability;
    let mut text = format!(
        "{}, compute capability {major}.{minor}, CUDA {}, driver {}; commit {}; {}\n",
        device.name,
        device.cuda,
        device.driver.as_deref().unwrap_or("unknown"),
        record.commit,
        record.date,
    );
    if !device.on_hardware {
        text += "NOT HARDWARE: a stand-in ran the kernels; its times say nothing about a GPU.\n";
    }
    let of_parts = record.parts.iter().map(|row| row.name.len());
    let name = of_parts.max().unwrap_or(0);
    let lines = record.parts.iter().flat_map(|row| &row.lines);
    let what = lines.map(|line| line.0.chars().count()).max().unwrap_or(0);
    for row in &record.parts {
        let outcome = match &row.failure {
            None => "passed".to_owned(),
            Some(why) => format!("FAILED: {why}"),
        };
        let place = match row.on_hardware {
            true => "",
            false => ", on a stand-in",
        };
        text += &format!(
            "{:name$}  {outcome} ({:.1} s{place})\n",
            row.name, row.seconds
        );
        for (left, right) in &row.lines {
            text += &format!("{:name$}  {left:what$}  {right}\n", "");
        }
    }
    text
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What this program was built from; whoever builds it says so.
const COMMIT: &str = match option_env!("WARPWIRE_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};
