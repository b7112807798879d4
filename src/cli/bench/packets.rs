//! `warpwire bench packets --against testpmd`: how fast 64-byte frames pass, us and others.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use super::error::Error;
use super::machine::{self, Machine};
use super::record::{Configuration, Record, RowRecord, Unmeasured};
use super::rounds::{self, Others, Round};
use super::row::{self, Row};
use super::setting::{FAR, FRAME_BYTES, NEAR, Setting};
use crate::cli::{Failure, signals};

/// Measure how fast 64-byte frames pass through kernels and NICs, against others in the same run
///
/// Sides take turns, round by round; figures are medians. Headers are parsed. At most two threads
/// spin.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    /// Whom NICs are measured against
    #[arg(long)]
    against: Against,
    /// Rows to measure, all if absent: some of memif, xdp, soft, parse and icrc, or single ones
    /// such as memif-transmit
    #[arg(long, value_delimiter = ',', value_name = "ROW", value_parser = known_row)]
    rows: Vec<String>,
    /// Rounds of each row that must count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// How long each side of a round counts frames
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

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Against {
    /// DPDK's testpmd, for NICs; rows without a NIC have a peer of their own
    Testpmd,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let failed = |error: Error| Failure::Bench(error.to_string());
    let Against::Testpmd = arguments.against;
    let chosen = row::choose(&arguments.rows).map_err(Failure::Bench)?;
    let stop = signals::heed()?;
    let urgent = arguments.others == Others::Outrank;
    if urgent && !warpwire_ptx::process::is_root() {
        return Err(failed(Error::Missing {
            what: "root for --others outrank",
            cure: "run it as root, or write --others repeat",
        }));
    }
    let setting = Setting::new(arguments.seconds, urgent, stop).map_err(failed)?;
    let mut record = begin(arguments);
    for row in chosen {
        match measure(&setting, row, arguments) {
            Ok(rounds) => record.rows.push(RowRecord::new(row, rounds)),
            Err(Error::Interrupted) => return Err(failed(Error::Interrupted)),
            Err(error) => record.unmeasured.push(Unmeasured {
                row: row.name,
                why: error.to_string(),
            }),
        }
    }
    record.testpmd = setting.testpmd();
    drop(setting);
    show(&record, arguments)?;
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

fn begin(arguments: &Arguments) -> Record {
    Record {
        bench: "packets",
        against: "testpmd".to_owned(),
        testpmd: None,
        commit: machine::commit(),
        date: machine::date(),
        machine: Machine::here(),
        configuration: Configuration {
            rounds: usize::from(arguments.rounds),
            seconds: arguments.seconds,
            frame_bytes: FRAME_BYTES,
            spinning_on: [NEAR, FAR],
            others: arguments.others,
            executor: "CPU, 1 lane a warp",
            memory: "host memory that stands for device memory",
        },
        rows: Vec::new(),
        unmeasured: Vec::new(),
    }
}

fn measure(setting: &Setting, row: &Row, arguments: &Arguments) -> Result<Vec<Round>, Error> {
    for need in row.needs {
        need.check()?;
    }
    let progress = io::stderr().is_terminal();
    let rounds = usize::from(arguments.rounds);
    rounds::run(setting, row, rounds, arguments.others, |round| {
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

fn show(record: &Record, arguments: &Arguments) -> Result<(), Failure> {
    let (json, table) = (record.to_json(), record.to_table());
    if let Some(path) = &arguments.output {
        write(path, &format!("{json}\n"))?;
        write(&path.with_extension("txt"), &table)?;
    }
    let mut out = io::stdout().lock();
    match arguments.json {
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

fn known_row(word: &str) -> Result<String, String> {
    let words = [word.to_owned()];
    row::choose(&words).map(|_| word.to_owned())
}

fn seconds(words: &str) -> Result<f64, String> {
    let number = words.parse().ok();
    let fits = number.filter(|seconds| (0.05..=60.0).contains(seconds));
    fits.ok_or_else(|| "write seconds from 0.05 to 60".to_owned())
}

const AFTER_HELP: &str = "Exit codes:
  0  all chosen rows were measured, whether or not they reach their targets
  1  some could not be measured; each is named with what it needs
  2  the words on the command line are wrong";
