//! `cargo xtask test`: every test, in tiers with a time budget each, and a table at the end.

mod binaries;
mod counts;

use crate::process::{self, Outcome, SKIPPED, Show};
use crate::table::Table;
use crate::{Error, cargo, ptx, repository, setup, threads};
use binaries::Binary;
use clap::ValueEnum;
use counts::Counts;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Arguments of `cargo xtask test`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Tiers to run; all of them when none is named.
    #[arg(value_enum)]
    tiers: Vec<Tier>,
    /// Multiply every time budget, for machines slower than two idle cores.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    budget_scale: u32,
}

/// A group of checks with a time budget of its own. The order is that of running: cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Tier {
    /// rustfmt and clippy.
    Lint,
    /// Compiles every test binary; the tiers below run them.
    Build,
    /// The shape of the house: arrows, unsafe code, sizes, documents.
    Structure,
    /// Unit, property and model tests.
    Unit,
    /// Examples in documentation.
    Docs,
    /// Kernels as PTX: built, linted, assembled, measured, and the committed one fresh.
    Ptx,
    /// The PTX on a virtual GPU against the kernels on the CPU.
    Virtual,
    /// Tests against other programs over a network, in namespaces of their own.
    Peers,
    /// The command against outside judges.
    Interop,
}

impl Tier {
    fn name(self) -> &'static str {
        match self {
            Self::Lint => "lint",
            Self::Build => "build",
            Self::Structure => "structure",
            Self::Unit => "unit",
            Self::Docs => "docs",
            Self::Ptx => "ptx",
            Self::Virtual => "virtual",
            Self::Peers => "peers",
            Self::Interop => "interop",
        }
    }

    /// On two cores from an empty target folder, with room to spare.
    fn budget(self) -> Duration {
        Duration::from_secs(match self {
            Self::Lint => 70,
            Self::Build => 420,
            Self::Structure => 15,
            Self::Unit => 455,
            Self::Docs => 15,
            Self::Ptx => 410,
            Self::Virtual => 370,
            Self::Peers => 205,
            Self::Interop => 740,
        })
    }

    /// Which tier runs a test binary: the name of its target says so.
    fn of(binary: &Binary) -> Self {
        match binary.target.as_str() {
            "structure" => Self::Structure,
            "ptx" | "kernel_build" => Self::Ptx,
            target if target.starts_with("peer_") => Self::Peers,
            target if target.starts_with("virtual_") => Self::Virtual,
            _ => Self::Unit,
        }
    }
}

/// `cargo xtask test`.
pub fn main(options: &Options) -> Result<bool, Error> {
    let root = repository::root();
    prepare(&root)?;
    let mut chosen = if options.tiers.is_empty() {
        Tier::value_variants().to_vec()
    } else {
        options.tiers.clone()
    };
    if chosen.iter().any(|tier| {
        matches!(
            tier,
            Tier::Structure | Tier::Unit | Tier::Ptx | Tier::Virtual | Tier::Peers
        )
    }) {
        chosen.push(Tier::Build);
    }
    chosen.sort();
    chosen.dedup();

    let mut run = Run {
        root,
        scale: options.budget_scale,
        binaries: Vec::new(),
    };
    let mut table = Table::new(&["tier", "passed", "failed", "skipped", "seconds", "budget"]);
    let mut all = Counts::default();
    for tier in chosen {
        println!("== {}", tier.name());
        let (counts, took) = run.tier(tier)?;
        table.row([
            tier.name().to_owned(),
            counts.passed.to_string(),
            counts.failed.to_string(),
            counts.skipped.to_string(),
            took.as_secs().to_string(),
            run.budget(tier).as_secs().to_string(),
        ]);
        all += counts;
    }
    println!("\n{table}");
    if all.skipped > 0 {
        println!("{} skipped, each with its reason above", all.skipped);
    }
    println!("{} passed, {} failed", all.passed, all.failed);
    Ok(all.failed == 0)
}

/// Installs what is missing where that is possible, and says what will be skipped where not.
fn prepare(root: &std::path::Path) -> Result<(), Error> {
    let missing = setup::Missing::find(root)?;
    if missing.is_empty() {
        return Ok(());
    }
    if process::is_root() {
        return missing.install(root);
    }
    println!(
        "not root, and these are missing, so tests that need them will be skipped: {}",
        missing.in_words()
    );
    Ok(())
}

struct Run {
    root: PathBuf,
    scale: u32,
    binaries: Vec<Binary>,
}

impl Run {
    fn budget(&self, tier: Tier) -> Duration {
        tier.budget() * self.scale
    }

    fn tier(&mut self, tier: Tier) -> Result<(Counts, Duration), Error> {
        let start = Instant::now();
        let deadline = start + self.budget(tier);
        let counts = match tier {
            Tier::Lint => self.lint(deadline)?,
            Tier::Build => self.build(deadline)?,
            Tier::Docs => self.docs(deadline)?,
            Tier::Structure | Tier::Unit | Tier::Peers => self.tests(tier, deadline)?,
            Tier::Ptx => self.ptx(deadline)?,
            Tier::Virtual => {
                let mut counts = self.tests(tier, deadline)?;
                counts += Counts::of_cases(&self.run_own(&["virtual"], deadline)?.1);
                counts
            }
            Tier::Interop => {
                let packets = ["interop", "packets", "--quick"];
                let mut counts = Counts::of_cases(&self.run_own(&packets, deadline)?.1);
                for words in [&["interop", "roce"][..], &["interop", "tcp", "--quick"]] {
                    counts += Counts::of_cases(&self.run_own(words, deadline)?.1);
                }
                counts
            }
        };
        Ok((counts, start.elapsed()))
    }

    fn cargo(&self, words: &[&str]) -> Command {
        let mut command = Command::new(cargo());
        command.current_dir(&self.root).args(words);
        command
    }

    fn lint(&self, deadline: Instant) -> Result<Counts, Error> {
        let mut counts = Counts::default();
        let checks: [&[&str]; 2] = [
            &["fmt", "--all", "--check"],
            &[
                "clippy",
                "--quiet",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ],
        ];
        for words in checks {
            let mut command = self.cargo(words);
            let outcome = process::run(&mut command, left(deadline), Show::All)?;
            counts += Counts::of_check(&command, &outcome);
        }
        Ok(counts)
    }

    fn build(&mut self, deadline: Instant) -> Result<Counts, Error> {
        let words = [
            "test",
            "--workspace",
            "--no-run",
            "--message-format=json-render-diagnostics",
        ];
        let mut command = self.cargo(&words);
        let outcome = process::run(&mut command, left(deadline), Show::Errors)?;
        self.binaries = binaries::parse(&outcome.stdout)?;
        self.binaries.sort();
        Ok(Counts::of_check(&command, &outcome))
    }

    fn docs(&self, deadline: Instant) -> Result<Counts, Error> {
        let mut command = self.cargo(&["test", "--quiet", "--workspace", "--doc"]);
        let outcome = process::run(&mut command, left(deadline), Show::Skips)?;
        Ok(told("doc tests", &outcome))
    }

    /// The way from Rust to PTX on a fixture, then the product's kernels.
    fn ptx(&self, deadline: Instant) -> Result<Counts, Error> {
        let mut counts = self.tests(Tier::Ptx, deadline)?;
        counts += self.own(&["ptx", "--check"], deadline)?;
        if let Err(lack) = ptx::toolchain::Toolchain::find() {
            // As root, set-up has run: then there is no excuse.
            if process::is_root() {
                return Err(lack);
            }
            println!("{SKIPPED}ptx: {lack}");
            counts.skipped += 1;
            return Ok(counts);
        }
        counts += self.own(&["ptx", "--no-write", "--outermost"], deadline)?;
        Ok(counts)
    }

    /// Another task of this program, as a check.
    fn own(&self, words: &[&str], deadline: Instant) -> Result<Counts, Error> {
        let (command, outcome) = self.run_own(words, deadline)?;
        Ok(Counts::of_check(&command, &outcome))
    }

    fn run_own(&self, words: &[&str], deadline: Instant) -> Result<(Command, Outcome), Error> {
        // The build of the tests has replaced our own file.
        let copy = repository::target(&self.root).join("xtask-copy");
        process::copy(process::own(), &copy)?;
        let mut command = Command::new(copy);
        command.current_dir(&self.root).args(words);
        let outcome = process::run(&mut command, left(deadline), Show::All)?;
        Ok((command, outcome))
    }

    fn tests(&self, tier: Tier, deadline: Instant) -> Result<Counts, Error> {
        let mut counts = Counts::default();
        let own = self.binaries.iter();
        let own = own.filter(|binary| Tier::of(binary) == tier);
        let run = |binary: &Binary| {
            let mut command = binary.command(&cargo());
            if tier == Tier::Peers {
                // They share the machine's two cores with their peers.
                command.arg("--test-threads=1");
            }
            process::run(&mut command, left(deadline), Show::Skips)
        };
        if tier == Tier::Ptx {
            // Each waits for one compiler after the other.
            let ended = threads::each(own, |binary| (binary, run(binary)));
            for (binary, outcome) in ended {
                counts += told(&binary.in_words(&self.root), &outcome?);
            }
            return Ok(counts);
        }
        for binary in own {
            counts += told(&binary.in_words(&self.root), &run(binary)?);
        }
        Ok(counts)
    }
}

/// Counts a test program's tests, and shows its output when it failed.
fn told(name: &str, outcome: &Outcome) -> Counts {
    let counts = Counts::of_tests(outcome);
    let seconds = outcome.took.as_secs_f64();
    println!(
        "{name}: {} passed, {} failed, {seconds:.1} s",
        counts.passed, counts.failed
    );
    if counts.failed > 0 {
        println!(
            "{}\n{}\n{name}: {}",
            outcome.stdout,
            outcome.stderr,
            outcome.end_in_words()
        );
    }
    counts
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_run_fits_its_time() {
        let all: Duration = Tier::value_variants()
            .iter()
            .map(|tier| tier.budget())
            .sum();
        assert!(all <= Duration::from_secs(45 * 60), "{all:?}");
    }

    #[test]
    fn the_order_is_that_of_the_table() {
        assert!(Tier::value_variants().is_sorted());
    }
}
