//! `cargo xtask virtual`: every kernel of the PTX on a virtual GPU, compared with the CPU.

use crate::process::{self, Show};
use crate::{Error, cargo, repository};
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
    let outcome = process::run(command.args(&options.words), LIMIT, Show::All)?;
    if let process::End::Deadline = outcome.end {
        println!("{}", outcome.end_in_words());
    }
    Ok(outcome.is_success())
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
