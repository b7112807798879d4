//! What all comparisons have in common: options, the way of a run, and what is shown of it.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use super::error::Error;
use super::machine::{self, Machine};
use super::record::{Configuration, Record, RowRecord, Unmeasured};
use super::rounds::{self, Others, Round};
use super::row::Row;
use super::setting::{FAR, NEAR, Setting};
use crate::cli::{Failure, signals};

/// How figures are taken and shown.
#[derive(clap::Args)]
pub(super) struct Options {
    /// Rounds of each row that must count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// How long each side of a round counts
    #[arg(long, default_value = "1", value_parser = seconds)]
    seconds: f64,
    /// What to do about other programs on the machine
    #[arg(long, default_value = "repeat")]
    others: Others,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Also write the JSON to this file, and the table beside it with the ending .txt
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A record without rows.
pub(super) fn begin(bench: &'static str, against: String, options: &Options) -> Record {
    Record {
        bench,
        against,
        versions: Vec::new(),
        commit: machine::commit(),
        date: machine::date(),
        machine: Machine::here(),
        configuration: Configuration {
            rounds: usize::from(options.rounds),
            seconds: options.seconds,
            frame_bytes: None,
            spinning_on: [NEAR, FAR],
            others: options.others,
            executor: "CPU, 1 lane a warp",
            memory: "host memory that stands for device memory",
        },
        rows: Vec::new(),
        unmeasured: Vec::new(),
    }
}

/// Measures rows, one after the other, and shows what was found.
pub(super) fn run(
    mut record: Record,
    rows: Vec<&'static Row>,
    options: &Options,
) -> Result<(), Failure> {
    let failed = |error: Error| Failure::Bench(error.to_string());
    let stop = signals::heed()?;
    let urgent = options.others == Others::Outrank;
    if urgent && !warpwire_ptx::process::is_root() {
        return Err(failed(Error::Missing {
            what: "root for --others outrank",
            cure: "run it as root, or write --others repeat",
        }));
    }
    let setting = Setting::new(options.seconds, urgent, stop).map_err(failed)?;
    for row in rows {
        match measure(&setting, row, options) {
            Ok(rounds) => record.rows.push(RowRecord::new(row, rounds)),
            Err(Error::Interrupted) => return Err(failed(Error::Interrupted)),
            Err(error) => record.unmeasured.push(Unmeasured {
                row: row.name,
                why: error.to_string(),
            }),
        }
    }
    record.versions = setting.versions();
    drop(setting);
    show(&record, options)?;
    match record.unmeasured.as_slice() {
        [] => Ok(()),
        missing => {
            let names: Vec<&str> = missing.iter().map(|missing| missing.row).collect();
            Err(Failure::Unmeasured {
                count: missing.len(),
                rows: names.join(", "),
            })
        }
    }
}

fn measure(setting: &Setting, row: &Row, options: &Options) -> Result<Vec<Round>, Error> {
    for need in row.needs {
        need.check()?;
    }
    let progress = io::stderr().is_terminal();
    let rounds = usize::from(options.rounds);
    rounds::run(setting, row, rounds, options.others, |round| {
        if progress {
            eprintln!(
                "{}: ours {:.2}, peer {:.2} {}{}",
                row.name,
                round.ours.sample.value,
                round.peer.sample.value,
                row.unit.word(),
                if round.counts {
                    ""
                } else {
                    "; repeated, others used the machine"
                },
            );
        }
    })
}

fn show(record: &Record, options: &Options) -> Result<(), Failure> {
    let (json, table) = (record.to_json(), record.to_table());
    if let Some(path) = &options.output {
        write(path, &format!("{json}\n"))?;
        write(&path.with_extension("txt"), &table)?;
    }
    let mut out = io::stdout().lock();
    match options.json {
        true => writeln!(out, "{json}")?,
        false => write!(out, "{table}")?,
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|source| Failure::File {
        path: path.to_owned(),
        source,
    })
}

fn seconds(words: &str) -> Result<f64, String> {
    let number = words.parse().ok();
    let fits = number.filter(|seconds| (0.05..=60.0).contains(seconds));
    fits.ok_or_else(|| "write seconds from 0.05 to 60".to_owned())
}

pub(super) const AFTER_HELP: &str = "Exit codes:
  0  all chosen rows were measured, whether or not they reach their targets
  1  some could not be measured; each is named with what it needs
  2  the words on the command line are wrong";
