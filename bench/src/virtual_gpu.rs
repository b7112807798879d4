//! `warpwire-bench virtual`: every kernel of the PTX on a virtual GPU, compared with the CPU.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use crate::kernel_table;
use warpwire_bench::parity::{self, Machine, Verdict};
use warpwire_virtual::{Module, VirtualGpu};

/// Arguments of `warpwire-bench virtual`.
#[derive(clap::Args, Debug)]
pub(super) struct Options {
    /// Compare only this entry point or pipeline file.
    #[arg(long)]
    only: Option<String>,
    /// Compare for this seed alone, from 0.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds.
    #[arg(long, default_value_t = 16, conflicts_with = "seed")]
    seeds: u64,
    /// The PTX. Without a word: the committed one.
    #[arg(long)]
    ptx: Option<PathBuf>,
    /// Compare nothing: count instructions and sectors a packet, and write them to this file as
    /// JSON and beside it as text.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "seed"])]
    table: Option<PathBuf>,
    /// The same PTX, built with line tables: the table tells which lines of source do what.
    #[arg(long, value_name = "PTX", requires = "table")]
    lines: Option<PathBuf>,
}

pub(super) fn main(options: &Options) -> Result<bool, String> {
    let start = Instant::now();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pipelines/kernels/warpwire.ptx");
    let path = options.ptx.clone().unwrap_or(own);
    let text = read(&path)?;
    if let Some(table) = &options.table {
        let lines = options.lines.as_deref().map(read).transpose()?;
        kernel_table::write(table, &text, lines.as_deref())?;
        return Ok(true);
    }
    let module = Module::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut cases = parity::kernels(module.entries(), &parity::corpus());
    cases.extend(parity::files());
    if let Some(only) = &options.only {
        cases.retain(|case| case.subject == *only);
        if cases.is_empty() {
            return Err(format!("no kernel and no file is called `{only}`"));
        }
    }
    let seeds = match options.seed {
        Some(seed) => seed..seed + 1,
        None => 0..options.seeds,
    };
    let gpu = VirtualGpu::new(module);
    let machine = Machine::on(Arc::new(gpu));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let verdicts = parity::run_all(&cases, &machine, seeds, threads, tell);
    println!("{}", table(&verdicts));
    let failed = verdicts.iter().filter(|one| one.failure.is_some()).count();
    println!(
        "{} passed, {failed} failed, {} frames, {:.0} s",
        verdicts.len() - failed,
        verdicts.iter().map(|one| one.frames).sum::<u64>(),
        start.elapsed().as_secs_f64(),
    );
    Ok(failed == 0)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Says at once what failed.
fn tell(verdict: &Verdict) {
    let Some(failure) = &verdict.failure else {
        return;
    };
    let Verdict { subject, over, .. } = verdict;
    let (place, again) = match failure.seed {
        Some(seed) => (format!(", seed {seed}"), format!(" --seed {seed}")),
        None => Default::default(),
    };
    println!("{subject} over {over}{place}: {}", failure.what);
    println!("    again: cargo xtask virtual --only '{subject}'{again}");
}

fn table(verdicts: &[Verdict]) -> String {
    let mut rows = vec![HEADING.map(str::to_owned)];
    rows.extend(verdicts.iter().map(|verdict| {
        let word = match verdict.failure {
            None => "same",
            Some(_) => "FAILED",
        };
        [
            verdict.subject.clone(),
            verdict.over.to_owned(),
            verdict.seeds.to_string(),
            verdict.frames.to_string(),
            word.to_owned(),
            format!("{:.1}", verdict.took.as_secs_f64()),
        ]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; 6] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let line = |row: &[String; 6]| {
        let [kernel, over, seeds, frames, verdict, seconds] = row;
        let [a, b, c, d, e, f] = widths;
        format!("{kernel:a$}  {over:b$}  {seeds:>c$}  {frames:>d$}  {verdict:e$}  {seconds:>f$}\n")
    };
    rows.iter().map(line).collect()
}

const HEADING: [&str; 6] = ["kernel", "over", "seeds", "frames", "verdict", "seconds"];
