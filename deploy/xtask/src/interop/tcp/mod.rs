//! `cargo xtask interop tcp`: commands of ours over TCP, and what Linux's programs make of them.
//!
//! A namespace with Linux's own stack and one with `warpwire serve` or `warpwire stream` on AF_XDP
//! have a cable between them, see [`Scene`]. A [`Case`] is a row of [`cases::all`]: our words, what
//! the link does to frames, and a peer's words.

pub mod cases;
pub mod scene;

use super::product::{self, Product};
use super::{namespaces, roce};
use crate::process::{self, SKIPPED};
use crate::table::Table;
use crate::{Error, repository};
use cases::Case;
use scene::{Scene, Setting};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Arguments of `cargo xtask interop tcp`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Only cases whose names contain one of these.
    only: Vec<String>,
    /// Only list the cases.
    #[arg(long)]
    list: bool,
    /// Shorter: loads of 3 seconds and measurements of 2 instead of 20, 64 MiB instead of 1 GiB by
    /// socat, 16 MiB instead of 64 over the worst links, windows closed for 5 seconds instead of
    /// 30, 4 KiB instead of 100 a connection of 10,000, and a flood of 200,000 segments instead of
    /// 1,000,000.
    #[arg(long)]
    quick: bool,
    /// The profile that the command is built with.
    #[arg(long, default_value = "test")]
    profile: String,
    /// Judge this program instead of building one.
    #[arg(long, conflicts_with = "profile")]
    program: Option<std::path::PathBuf>,
}

/// A row of the table.
#[derive(Debug)]
struct Verdict {
    name: &'static str,
    took: Duration,
    /// What the peer measured, or what failed.
    outcome: Result<String, Error>,
}

/// `cargo xtask interop tcp`.
///
/// # Errors
/// When the command cannot be built, the namespaces cannot be made, or on an interruption.
pub fn main(options: &Options) -> Result<bool, Error> {
    let is_wanted = |case: &&Case| {
        options.only.is_empty() || options.only.iter().any(|part| case.name.contains(part))
    };
    let cases: Vec<&Case> = cases::all().filter(is_wanted).collect();
    if options.list {
        cases.iter().for_each(|case| println!("{case}"));
        return Ok(!cases.is_empty());
    }
    if !process::is_root() {
        eprintln!("{SKIPPED}interop tcp: network namespaces and AF_XDP need root");
        return Ok(true);
    }
    let stop = roce::heed_signals()?;
    let root = repository::root();
    let program = match &options.program {
        Some(program) => program.clone(),
        None => product::build(&root, &options.profile)?,
    };
    namespaces::sweep()?;
    let folder = repository::target(&root).join("interop-tcp");
    let product = Product::set_up(&program, &folder)?;
    let setting = match options.quick {
        true => Setting::QUICK,
        false => Setting::WHOLE,
    };
    let scene = Scene::set_up(&root, &product, setting)?;
    let verdicts = judge(&scene, &cases, &stop)?;
    Ok(conclude(&verdicts))
}

/// Tries every case.
fn judge(scene: &Scene, cases: &[&Case], stop: &AtomicBool) -> Result<Vec<Verdict>, Error> {
    let start = Instant::now();
    let mut verdicts = Vec::new();
    for case in cases {
        let start = Instant::now();
        let outcome = scene.play(case);
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Environment("interrupted".to_owned()));
        }
        if let Err(fault) = &outcome {
            println!("{case}:\n{fault}\n");
        }
        verdicts.push(Verdict {
            name: case.name,
            took: start.elapsed(),
            outcome,
        });
    }
    println!("all of it took {} s", start.elapsed().as_secs());
    Ok(verdicts)
}

/// Prints the table and the closing line; whether every case passed.
fn conclude(verdicts: &[Verdict]) -> bool {
    let mut table = Table::new(&["case", "seconds", "verdict", "told by the peer"]);
    for verdict in verdicts {
        let (word, told) = match &verdict.outcome {
            Ok(told) => ("passed", told.as_str()),
            Err(_) => ("FAILED", "see above"),
        };
        let seconds = format!("{:.1}", verdict.took.as_secs_f64());
        table.row([verdict.name, &seconds, word, told]);
    }
    let failed = verdicts.iter().filter(|one| one.outcome.is_err()).count();
    let passed = verdicts.len() - failed;
    println!("{table}{passed} passed, {failed} failed");
    failed == 0 && passed > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_fails_the_run_and_so_does_nothing_at_all() {
        let verdict = |fault: Option<&str>| Verdict {
            name: "case",
            took: Duration::from_secs(1),
            outcome: match fault {
                None => Ok("1 MiB".to_owned()),
                Some(text) => Err(Error::Environment(text.to_owned())),
            },
        };
        assert!(conclude(&[verdict(None)]));
        assert!(!conclude(&[verdict(None), verdict(Some("no answer"))]));
        assert!(!conclude(&[]));
    }
}
