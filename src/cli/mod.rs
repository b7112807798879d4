//! The `warpwire` command, a file each subcommand.
//!
//! Exit codes: 0 all went well; 1 something failed while it ran; 2 the words on the command line or
//! a pipeline file are wrong.

mod check;
mod stages;

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use warpwire_pipelines::{Catalogue, Problems};

/// A network stack that lives on the GPU.
#[derive(Parser)]
#[command(name = "warpwire", version, about, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::Arguments),
    Stages(stages::Arguments),
}

/// Why a subcommand ended early.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The pipeline file is wrong.
    #[error(transparent)]
    File(#[from] Problems),
    /// No stage has this name.
    #[error("stage: no stage is called `{name}`; write one of {known}")]
    Stage {
        /// The word that was given.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// Standard output is gone.
    #[error("cannot write to standard output: {0}; give it a reader or a file")]
    Output(#[from] std::io::Error),
}

impl Failure {
    fn code(&self) -> ExitCode {
        match self {
            Self::File(_) | Self::Stage { .. } => ExitCode::from(2),
            Self::Output(_) => ExitCode::from(1),
        }
    }
}

/// Runs the command with the words of the process; returns its exit code.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let catalogue = Catalogue::of::<warpwire_core::stages::BuiltIn>();
    let outcome = match &arguments.command {
        Command::Check(arguments) => check::run(arguments, &catalogue),
        Command::Stages(arguments) => stages::run(arguments, &catalogue),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.code()
        }
    }
}

const EXIT_CODES: &str = "Exit codes:
  0  all went well
  1  something failed while it ran
  2  the words on the command line, or a pipeline file, are wrong";
