//! `cargo xtask fuzz`: the oracles of bench/fuzz under libFuzzer, and a table at the end.

mod build;
mod corpus;
mod outcome;

use crate::process::{self, Show};
use crate::table::Table;
use crate::{Error, repository};
use outcome::Statistics;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Arguments of `cargo xtask fuzz`.
///
/// Builds bench/fuzz/libfuzzer with coverage counters (and with AddressSanitizer, where the
/// compiler brings its run time), then runs each target over its corpus for a while. What is new is
/// gathered in target/fuzz/corpus; a finding is kept in target/fuzz/findings and named with the
/// command that repeats it. Needs a C++ compiler, which `cargo xtask setup` brings.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Targets to run: folders of bench/fuzz/corpus; all of them when none is named.
    targets: Vec<String>,
    /// How long each target runs.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=86400))]
    seconds: u32,
    /// Run one file through the one target that is named, and show what comes of it.
    #[arg(long, value_name = "FILE", conflicts_with = "minimise")]
    repeat: Option<PathBuf>,
    /// Then replace the committed corpora by the smallest ones that reach as much code.
    #[arg(long)]
    minimise: bool,
    /// A folder with more inputs to start from.
    #[arg(long, value_name = "FOLDER")]
    seeds: Option<PathBuf>,
}

/// `cargo xtask fuzz`.
pub fn main(options: &Options) -> Result<bool, Error> {
    let root = repository::root();
    let targets = chosen(&root, &options.targets)?;
    let harness = build::build(&root)?;
    if let Some(file) = &options.repeat {
        return repeat(&harness, &targets, file);
    }
    let mut table = Table::new(&["target", "executions", "corpus", "coverage", "findings"]);
    let mut findings = Vec::new();
    for target in &targets {
        let folders = Folders::of(&root, target, options.seeds.as_deref());
        println!("{target}: {} s", options.seconds);
        let statistics = run(&harness, &folders, options)?;
        println!("{target}: {statistics}");
        table.row([
            target.clone(),
            statistics.executions.to_string(),
            statistics.corpus.to_string(),
            statistics.edges.to_string(),
            statistics.findings.len().to_string(),
        ]);
        findings.extend(statistics.findings.into_iter().map(|file| (target, file)));
    }
    println!("\n{table}");
    for (target, file) in &findings {
        println!("{target}: repeat with `cargo xtask fuzz {target} --repeat {file}`");
    }
    if options.minimise {
        for target in &targets {
            let folders = Folders::of(&root, target, options.seeds.as_deref());
            corpus::minimise(&harness, &folders)?;
        }
    }
    Ok(findings.is_empty())
}

/// The targets that were named, or all.
fn chosen(root: &Path, named: &[String]) -> Result<Vec<String>, Error> {
    let all = corpus::targets(root)?;
    if named.is_empty() {
        return Ok(all);
    }
    match named.iter().find(|name| !all.contains(name)) {
        None => Ok(named.to_vec()),
        Some(stranger) => Err(Error::Environment(format!(
            "no fuzz target is called `{stranger}`; there are {}",
            all.join(", ")
        ))),
    }
}

/// The folders and files of a target.
struct Folders {
    target: String,
    /// What is committed.
    committed: PathBuf,
    /// What earlier runs gathered.
    gathered: PathBuf,
    /// Where findings go.
    findings: PathBuf,
    /// Other files that are good inputs.
    others: Vec<PathBuf>,
    /// Words of the target's language.
    dictionary: PathBuf,
}

impl Folders {
    fn of(root: &Path, target: &str, seeds: Option<&Path>) -> Self {
        let own = root.join(build::OWN);
        let built = build::folder(root);
        let others = OTHERS.iter().filter(|(name, _)| *name == target);
        let others = others.map(|(_, folder)| root.join(folder));
        Self {
            target: target.to_owned(),
            committed: corpus::folder(root).join(target),
            gathered: built.join("corpus").join(target),
            findings: built.join("findings").join(target),
            others: others.chain(seeds.map(Path::to_path_buf)).collect(),
            dictionary: own.join(format!("{target}.dict")),
        }
    }

    /// All that inputs come from; what is new goes to the first.
    fn inputs(&self) -> Vec<&Path> {
        let own = [self.gathered.as_path(), self.committed.as_path()];
        let others = self.others.iter().map(PathBuf::as_path);
        own.into_iter().chain(others).collect()
    }
}

fn run(harness: &Path, folders: &Folders, options: &Options) -> Result<Statistics, Error> {
    for folder in [&folders.gathered, &folders.findings] {
        std::fs::create_dir_all(folder).map_err(|source| Error::file(folder, source))?;
    }
    let mut command = harness_for(harness, &folders.target);
    command.arg(format!("-max_total_time={}", options.seconds));
    command.arg(format!("-artifact_prefix={}/", folders.findings.display()));
    command
        .args(["-print_final_stats=1", MAX_LENGTH])
        .args(LIMITS);
    if folders.dictionary.is_file() {
        command.arg(format!("-dict={}", folders.dictionary.display()));
    }
    command.args(folders.inputs());
    // A unit may take its whole limit when the time is up.
    let limit = Duration::from_secs(u64::from(options.seconds) + 120);
    let outcome = process::run(&mut command, limit, Show::Nothing)?;
    let statistics = Statistics::parse(&outcome.stderr);
    if outcome.is_success() || !statistics.findings.is_empty() {
        if !outcome.is_success() {
            println!("{}", outcome::essence(&outcome.stderr));
        }
        return Ok(statistics);
    }
    Err(Error::Failed {
        program: process::in_words(&command),
        status: outcome.end_in_words(),
        output: outcome.stderr,
    })
}

fn repeat(harness: &Path, targets: &[String], file: &Path) -> Result<bool, Error> {
    let [target] = targets else {
        let cure = "name the one target that shall take the file";
        return Err(Error::Environment(cure.to_owned()));
    };
    let mut command = harness_for(harness, target);
    command.args(LIMITS).arg(file);
    let outcome = process::run(&mut command, Duration::from_secs(120), Show::All)?;
    Ok(outcome.is_success())
}

fn harness_for(harness: &Path, target: &str) -> Command {
    let mut command = Command::new(harness);
    command.env("WARPWIRE_FUZZ_TARGET", target);
    command
}

/// Longer inputs are slow and show nothing that these do not.
const MAX_LENGTH: &str = "-max_len=4096";

/// An input that takes longer than this many seconds, or this much memory in MiB, is a finding.
const LIMITS: [&str; 2] = ["-timeout=10", "-rss_limit_mb=2048"];

/// Inputs outside bench/fuzz, by target.
const OTHERS: [(&str, &str); 2] = [
    ("capture", "bench/testdata/captures"),
    ("pipeline", "examples/pipelines"),
];
