//! `warpwire gpus`: the GPUs that kernels can run on, or why there is none.

use std::io::{self, Write};

use warpwire_gpu::executor::cuda;
use warpwire_pipelines::runtime::Error as RunError;

use super::Failure;

/// List the GPUs of this machine, or say why there is none to use
#[derive(clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(_arguments: &Arguments) -> Result<(), Failure> {
    let devices = cuda::devices().map_err(RunError::Cuda)?;
    let mut out = io::stdout().lock();
    for device in devices {
        match device.check() {
            Ok(()) => writeln!(out, "{device}")?,
            Err(refused) => writeln!(out, "{device}: {refused}")?,
        }
    }
    Ok(())
}
