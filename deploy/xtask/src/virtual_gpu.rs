//! `cargo xtask virtual`: every kernel of the PTX on a virtual GPU, compared with the CPU, or
//! counted.

use crate::process::{self, Show};
use crate::{Error, cargo, ptx, repository};
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

/// Arguments of `cargo xtask virtual`: those of `warpwire-bench virtual`, which does the work.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Options {
    /// See `cargo xtask virtual --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// `cargo xtask virtual`.
///
/// # Errors
/// When it cannot be started, or does not end.
pub fn main(options: &Options) -> Result<bool, Error> {
    let mut command = command();
    command.args(&options.words).args(lines(&options.words)?);
    let outcome = process::run(&mut command, LIMIT, Show::All)?;
    if let process::End::Deadline = outcome.end {
        println!("{}", outcome.end_in_words());
    }
    Ok(outcome.is_success())
}

/// A table tells the lines of the source: their PTX is built here, where there is a compiler for it
/// and nobody names one.
fn lines(words: &[String]) -> Result<Vec<OsString>, Error> {
    let names = |name: &str| words.iter().any(|word| word.starts_with(name));
    if !names("--table") || names("--lines") || names("--help") {
        return Ok(Vec::new());
    }
    if let Err(lack) = ptx::toolchain::Toolchain::find() {
        println!("the table will not tell lines of the source: {lack}");
        return Ok(Vec::new());
    }
    let build = ptx::Build {
        line_tables: true,
        ..ptx::of_kernels(&repository::root())?
    };
    println!("building the PTX with line tables");
    let path = build.ptx(ptx::Target::ALL[0])?;
    Ok(vec!["--lines".into(), path.into_os_string()])
}

/// Built as the tests are, so that a run of all tests builds it once.
fn command() -> Command {
    let mut command = Command::new(cargo());
    command.current_dir(repository::root());
    command.args([
        "run",
        "--quiet",
        "--profile=test",
        "--package=warpwire-bench",
        "--",
    ]);
    command.arg("virtual");
    command
}

const LIMIT: Duration = Duration::from_secs(1800);
