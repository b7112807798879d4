//! `warpwire-bench`: comparisons and counts that take a while.

mod kernel_table;
mod soft_roce;
mod virtual_gpu;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Comparisons and counts that take a while.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Compare every kernel of the PTX on a virtual GPU with the CPU; exit 1 on a difference.
    Virtual(virtual_gpu::Options),
    SoftRoce(soft_roce::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Virtual(options) => virtual_gpu::main(&options),
        Task::SoftRoce(options) => soft_roce::main(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
