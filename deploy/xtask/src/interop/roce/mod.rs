//! `cargo xtask interop roce`: Linux's Soft-RoCE in small virtual machines, and what it is asked.
//!
//! Two guests and a host stand on one bridge, see [`Rack`]. A [`Case`] is a row of
//! [`scripts::all`]: a server and a client, each at one of the three places, and what they must
//! say. Guest to guest, the peers judge themselves; with a command of ours at the host, they judge
//! us.

pub mod peer;
pub mod rack;
pub mod scripts;

use super::product;
use crate::process::{self, SKIPPED};
use crate::table::Table;
use crate::{Error, repository};
use peer::Image;
use rack::Rack;
use scripts::Case;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Arguments of `cargo xtask interop roce`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Only cases whose names contain one of these.
    only: Vec<String>,
    /// Only list the cases.
    #[arg(long)]
    list: bool,
}

/// The profile that the command is built with: the tests have built it already.
const PROFILE: &str = "dev";

/// A row of the table.
#[derive(Debug)]
struct Verdict {
    name: String,
    took: Duration,
    /// What failed, with the output.
    fault: Option<String>,
}

/// `cargo xtask interop roce`.
///
/// # Errors
/// When the peers cannot be built or started, or on an interruption.
pub fn main(options: &Options) -> Result<bool, Error> {
    let is_wanted = |case: &&Case| {
        options.only.is_empty() || options.only.iter().any(|part| case.name.contains(part))
    };
    let cases: Vec<&Case> = scripts::all().filter(is_wanted).collect();
    if options.list {
        cases.iter().for_each(|case| println!("{case}"));
        return Ok(!cases.is_empty());
    }
    if !process::is_root() {
        eprintln!("{SKIPPED}interop roce: virtual machines on taps in namespaces need root");
        return Ok(true);
    }
    let stop = heed_signals()?;
    let root = repository::root();
    Image::of(&root).build()?;
    let program = product::build(&root, PROFILE)?;
    product::build_beside(&root, PROFILE, &["warpwire-bench", "warpwire-examples"])?;
    let verdicts = judge(&root, &program, &cases, &stop)?;
    Ok(conclude(&verdicts))
}

/// Boots, and tries every case.
fn judge(
    root: &Path,
    program: &Path,
    cases: &[&Case],
    stop: &AtomicBool,
) -> Result<Vec<Verdict>, Error> {
    let start = Instant::now();
    let rack = Rack::set_up(root, program)?;
    let mut verdicts: Vec<Verdict> = rack
        .boots()
        .map(|(name, took)| Verdict {
            name: format!("boot {name}"),
            took,
            fault: None,
        })
        .collect();
    for case in cases {
        let start = Instant::now();
        let fault = rack.play(case).err().map(|error| error.to_string());
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Environment("interrupted".to_owned()));
        }
        let took = start.elapsed();
        if let Some(fault) = &fault {
            println!("{case}:\n{fault}\n");
        }
        verdicts.push(Verdict {
            name: case.name.to_owned(),
            took,
            fault,
        });
    }
    let consoles = rack.complaints();
    if !consoles.is_empty() {
        println!("kernels complain:\n{consoles}");
    }
    println!("all of it took {} s", start.elapsed().as_secs());
    Ok(verdicts)
}

/// Prints the table and the closing line; whether every case passed.
fn conclude(verdicts: &[Verdict]) -> bool {
    let mut table = Table::new(&["case", "seconds", "verdict"]);
    for verdict in verdicts {
        let word = if verdict.fault.is_none() {
            "passed"
        } else {
            "FAILED"
        };
        let seconds = format!("{:.1}", verdict.took.as_secs_f64());
        table.row([verdict.name.as_str(), &seconds, word]);
    }
    let failed = verdicts.iter().filter(|one| one.fault.is_some()).count();
    let passed = verdicts.len() - failed;
    println!("{table}{passed} passed, {failed} failed");
    failed == 0 && passed > 0
}

/// A flag that is raised by the first signal that asks for an end; the second ends us at once.
pub(super) fn heed_signals() -> Result<Arc<AtomicBool>, Error> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let code = 128 + signal;
        let late = Arc::clone(&stop);
        signal_hook::flag::register_conditional_shutdown(signal, code, late)
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|source| Error::file("signals", source))?;
    }
    process::heed(Arc::clone(&stop));
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_fails_the_run_and_so_does_nothing_at_all() {
        let verdict = |fault: Option<&str>| Verdict {
            name: "case".into(),
            took: Duration::from_secs(1),
            fault: fault.map(str::to_owned),
        };
        assert!(conclude(&[verdict(None)]));
        assert!(!conclude(&[verdict(None), verdict(Some("no answer"))]));
        assert!(!conclude(&[]));
    }
}
