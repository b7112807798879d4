//! `cargo xtask`: the project's own tasks.

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use xtask::{Error, fuzz, gpu, interop, ptx, setup, tiers, virtual_gpu};

/// The project's own tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, about)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what the tests need (Debian 12, as root); quick when all is there.
    Setup(setup::Options),
    /// Run every test, in tiers with a time budget each.
    Test(tiers::Options),
    /// Build, lint, assemble and measure the kernels as PTX.
    Ptx(ptx::Options),
    /// Compare every kernel of the PTX on a virtual GPU with the CPU; fail on a difference.
    Virtual(virtual_gpu::Options),
    /// Pack the check for a machine with a GPU into a folder.
    Gpu(gpu::Options),
    /// Run the fuzz targets, each for a while; fail on a finding.
    Fuzz(fuzz::Options),
    /// Compare our answers with those of outside judges; fail on a difference without a reason.
    #[command(subcommand)]
    Interop(interop::Subject),
}

fn main() -> ExitCode {
    // rustc knows its linker by a path only, so the environment says which of the two we are.
    if let Some(outcome) = ptx::linker::main() {
        return report(outcome.map(|()| true));
    }
    let outcome = match Arguments::parse().task {
        Task::Setup(options) => setup::main(&options),
        Task::Test(options) => tiers::main(&options),
        Task::Ptx(options) => ptx::main(&options),
        Task::Virtual(options) => virtual_gpu::main(&options),
        Task::Gpu(options) => gpu::main(&options),
        Task::Fuzz(options) => fuzz::main(&options),
        Task::Interop(subject) => interop::main(&subject),
    };
    report(outcome)
}

/// True is success, false a failure that has already been told.
fn report(outcome: Result<bool, Error>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
