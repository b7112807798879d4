//! `cargo xtask gpu`: the check for a machine with a GPU, packed into a folder to be copied there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::{self, Show};
use crate::ptx::{COMMITTED, sources};
use crate::{Error, cargo, repository};

/// Arguments of `cargo xtask gpu`.
///
/// Builds the program of bench/gpu in release and packs it with its script, the committed PTX and
/// the programs that pipelines are compared with. The folder needs neither network nor Rust: copy
/// it to a machine with a GPU, of the same architecture and with a glibc as new as this one's, and
/// run `check` in it.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// The folder to pack into. Without a word: `gpu-check` in the folder for build products.
    #[arg(long)]
    output: Option<PathBuf>,
}

/// `cargo xtask gpu`.
///
/// # Errors
/// A build that fails, stale PTX, files that cannot be written.
pub fn main(options: &Options) -> Result<bool, Error> {
    let root = repository::root();
    let ptx = root.join(COMMITTED);
    let text = repository::text(&ptx)?;
    if sources::carried(&text) != Some(&sources::hash(&root)?) {
        return Err(Error::content(
            ptx,
            "is stale: run `cargo xtask ptx` before it is packed",
        ));
    }
    let target = repository::target(&root);
    let mut build = Command::new(cargo());
    build
        .current_dir(&root)
        .args(["build", "--release", "--package", PROGRAM])
        .env("WARPWIRE_COMMIT", commit(&root));
    process::run_well(&mut build, LONGEST_BUILD, Show::Errors)?;
    let folder = options.output.clone();
    let folder = folder.unwrap_or_else(|| target.join("gpu-check"));
    fs::create_dir_all(&folder).map_err(|source| Error::file(&folder, source))?;
    let mut files = vec![
        (root.join("bench/gpu/check"), PathBuf::from("check")),
        (target.join("release").join(PROGRAM), PROGRAM.into()),
        (ptx, "warpwire.ptx".into()),
    ];
    let programs = root.join(PROGRAMS);
    for name in repository::files(&programs)? {
        files.push((programs.join(&name), Path::new("corpus").join(&name)));
    }
    for (from, name) in files {
        process::copy(&from, &folder.join(name))?;
    }
    println!(
        "packed: {}; copy it and run `check` in it",
        folder.display()
    );
    Ok(true)
}

/// What is built from.
fn commit(root: &Path) -> String {
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(root).args(words);
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

/// What pipelines are compared with.
const PROGRAMS: &str = "bench/fuzz/corpus/stages";
const PROGRAM: &str = "warpwire-gpu-check";
const LONGEST_BUILD: Duration = Duration::from_secs(1200);
const SHORT: Duration = Duration::from_secs(20);
