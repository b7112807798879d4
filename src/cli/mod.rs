//! The `warpwire` command, a file each subcommand.
//!
//! Exit codes: 0 all went well; 1 something failed while it ran; 2 the words on the command line or
//! a pipeline file are wrong.

mod bench;
mod capture;
mod chance;
mod check;
mod demonstration;
mod gpus;
mod interfaces;
mod kernel;
mod live;
mod meet;
mod perftest;
mod pingpong;
mod rest;
mod rping;
mod run;
mod serve;
mod signals;
mod stages;
mod station;
mod stream;
mod table;
mod troubles;
mod words;

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use warpwire_pipelines::messaging;
use warpwire_pipelines::runtime::Error as RunError;
use warpwire_pipelines::sensor;
use warpwire_pipelines::streaming;
use warpwire_pipelines::{Kit, Problems};

/// A network stack that lives on the GPU. Without a command: a demonstration, which the options
/// below apply to.
#[derive(Parser)]
#[command(name = "warpwire", version, about, after_help = EXIT_CODES)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: run::Options,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Check(check::Arguments),
    Stages(stages::Arguments),
    Interfaces(interfaces::Arguments),
    Gpus(gpus::Arguments),
    Bench(bench::Arguments),
    Pingpong(pingpong::Arguments),
    Rping(rping::Arguments),
    Serve(Box<serve::Arguments>),
    Stream(stream::Arguments),
    /// Work on kernels with stages of your own
    Kernel(kernel::Arguments),
}

/// Why a subcommand ended early.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The pipeline file is wrong.
    #[error(transparent)]
    Pipeline(#[from] Problems),
    /// The pipeline could not run, or did not run to its end.
    #[error(transparent)]
    Run(#[from] RunError),
    /// No stage has this name.
    #[error("stage: no stage is called `{name}`; write one of {known}")]
    Stage {
        /// The word that was given.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// A crate with stages is not as it must be.
    #[error("{}: {problem}; {cure}", manifest.display())]
    Crate {
        /// Its manifest.
        manifest: PathBuf,
        /// What is wrong.
        problem: String,
        /// What to write.
        cure: String,
    },
    /// The PTX that ships is not what the virtual GPU reads.
    #[error("executor virtual: {0}; build the command from an unchanged source")]
    Ptx(String),
    /// Something could not be built.
    #[error(transparent)]
    Build(warpwire_ptx::Error),
    /// A file cannot be read or written.
    #[error("{}: {source}; name a file or folder that can be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The machine's interfaces cannot be listed.
    #[error("interfaces: the kernel does not list them: {0}; allow netlink sockets")]
    Interfaces(std::io::Error),
    /// Some figures could not be taken.
    #[error("bench: {count} of the chosen rows could not be measured: {rows}")]
    Unmeasured {
        /// How many.
        count: usize,
        /// Their names.
        rows: String,
    },
    /// Words of a measurement that do not fit together, or not what they are for.
    #[error("{0}")]
    Words(String),
    /// A signal came before anybody else did.
    #[error("interrupted before a client came")]
    Interrupted,
    /// A measurement could not begin.
    #[error("bench: {0}")]
    Bench(String),
    /// A message did not get through while it was measured.
    #[error("bench: {0}")]
    Traffic(String),
    /// The ping-pong broke.
    #[error("pingpong: {0}")]
    Pingpong(String),
    /// The dialogue of rping broke, or was interrupted.
    #[error("rping: {0}")]
    Rping(String),
    /// The ends could not tell each other where they are.
    #[error(transparent)]
    Connect(#[from] warpwire_pipelines::connect::Error),
    /// Messages could not be exchanged.
    #[error(transparent)]
    Messaging(#[from] messaging::Error),
    /// Streams could not be served.
    #[error(transparent)]
    Streaming(#[from] streaming::Error),
    /// Records could not be gathered, or not be written.
    #[error(transparent)]
    Sensor(#[from] sensor::Error),
    /// What serves streams ended.
    #[error("serve: {0}")]
    Serve(String),
    /// A file did not get through.
    #[error("stream: {0}")]
    Stream(String),
    /// Frames went astray that nothing counted.
    #[error("counts: {0}; this is a defect of warpwire: report it with the pipeline file")]
    Astray(String),
    /// Standard output is gone, or signals cannot be caught.
    #[error("output: {0}; give standard output a reader or a file")]
    Output(#[from] std::io::Error),
}

impl Failure {
    fn code(&self) -> ExitCode {
        match self {
            Self::Pipeline(_) | Self::Stage { .. } | Self::Crate { .. } | Self::Words(_) => {
                ExitCode::from(2)
            }
            Self::Run(RunError::Files(_)) => ExitCode::from(2),
            Self::Run(RunError::Sensor(error))
                if matches!(**error, sensor::Error::Setting { .. }) =>
            {
                ExitCode::from(2)
            }
            Self::Sensor(sensor::Error::Setting { .. } | sensor::Error::Pipeline(_)) => {
                ExitCode::from(2)
            }
            Self::Run(RunError::Nic(warpwire_nic::Error::Spec { .. }))
            | Self::Messaging(messaging::Error::Nic(warpwire_nic::Error::Spec { .. }))
            | Self::Streaming(streaming::Error::Nic(warpwire_nic::Error::Spec { .. }))
            | Self::Sensor(sensor::Error::Streaming(
                streaming::Error::Owned { .. }
                | streaming::Error::Nic(warpwire_nic::Error::Spec { .. }),
            ))
            | Self::Streaming(
                streaming::Error::Setting { .. }
                | streaming::Error::Slow(_)
                | streaming::Error::Owned { .. }
                | streaming::Error::NoWay(
                    streaming::slow::NoWay::NotAHost { .. }
                    | streaming::slow::NoWay::NoRoute { .. },
                ),
            ) => ExitCode::from(2),
            _ => ExitCode::from(1),
        }
    }
}

/// Runs the command with the words of the process and the built-in stages; returns its exit code.
pub fn main() -> ExitCode {
    main_with(&Kit::built_in())
}

/// Runs the command with the stages of a kit.
pub fn main_with(kit: &Kit) -> ExitCode {
    // rustc knows its linker by a name only, so the environment says that we are it.
    if let Some(linked) = warpwire_ptx::linker::main() {
        return end(linked.map_err(Failure::Build));
    }
    let arguments = Arguments::parse();
    let outcome = match &arguments.command {
        None => demonstration::run(kit, &arguments.options),
        Some(Command::Run(arguments)) => run::run(arguments, kit),
        Some(Command::Check(arguments)) => check::run(arguments, kit.catalogue()),
        Some(Command::Stages(arguments)) => stages::run(arguments, kit.catalogue()),
        Some(Command::Interfaces(arguments)) => interfaces::run(arguments),
        Some(Command::Gpus(arguments)) => gpus::run(arguments),
        Some(Command::Bench(arguments)) => bench::run(arguments),
        Some(Command::Pingpong(arguments)) => pingpong::run(arguments),
        Some(Command::Rping(arguments)) => rping::run(arguments),
        Some(Command::Serve(arguments)) => serve::run(arguments),
        Some(Command::Stream(arguments)) => stream::run(arguments),
        Some(Command::Kernel(arguments)) => kernel::run(arguments),
    };
    end(outcome)
}

fn end(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure);
            failure.code()
        }
    }
}

/// Writes a line to standard output.
fn say(line: impl std::fmt::Display) -> Result<(), Failure> {
    Ok(writeln!(std::io::stdout().lock(), "{line}")?)
}

/// Writes a line to standard error. Nobody is left to tell if that cannot be written.
fn complain(words: &impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

const EXIT_CODES: &str = "Exit codes:
  0  all went well
  1  something failed while it ran
  2  the words on the command line, or a pipeline file, are wrong";
