//! `warpwire` without a word: the embedded default, run for some seconds.

use std::fs::DirBuilder;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

use warpwire_pipelines::{Kit, PipelineFile};

use super::run::{self, Options};
use super::table::Detail;
use super::{Failure, table};

pub(super) fn run(kit: &Kit, options: &Options) -> Result<(), Failure> {
    let mut file = PipelineFile::parse("demonstration.toml", DEFAULT, kit.catalogue())?;
    file.place_files_in(&own_folder()?);
    if !options.json && io::stdout().is_terminal() {
        writeln!(io::stdout(), "{INTRODUCTION}")?;
    }
    let options = Options {
        duration: options.duration.or(Some(LENGTH)),
        ..options.clone()
    };
    let outcome = run::run_file(file, kit, &options)?;
    let mut shown = run::show(&outcome.report, &options, Detail::Short);
    if !options.json {
        shown = shown.and_then(|()| table::way(&mut io::stdout().lock(), &outcome.report));
    }
    run::conclude(outcome, shown)
}

/// A folder of this run's own: a demonstration leaves nothing behind where it was run, and follows
/// no link that somebody laid into a folder that all may write.
fn own_folder() -> io::Result<PathBuf> {
    let parent = std::env::temp_dir();
    let mut taken = None;
    for attempt in 0..ATTEMPTS {
        let folder = parent.join(format!("warpwire-{}-{attempt}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(taken.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
}

/// Names that are tried for the folder.
const ATTEMPTS: u32 = 100;

/// The pipeline file that is shown.
const DEFAULT: &str = include_str!("../../examples/pipelines/demonstration.toml");

/// How long it runs unless told.
const LENGTH: Duration = Duration::from_secs(8);

const INTRODUCTION: &str = "\
A kernel makes mixed traffic, a kernel runs a pipeline over it, a kernel counts what comes out. The
NICs are device models that speak ConnectX queues; the kernels run on the CPU executor, and the same
source is compiled for GPUs. The cable between generator and pipeline loses frames and flips bits.
The pipeline file: examples/pipelines/demonstration.toml
";
