//! Kernels that run, on the CPU or on a GPU.

use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;

use warpwire_core::block::Steering;
use warpwire_device::KernelRow;
use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::cuda::{self, BlockExit, CudaExecutor};
use warpwire_gpu::executor::{self, Backend, Exit, Grid, Launch, Parameters, Time};
use warpwire_ring::{Cause, DeviceAddress};

use super::memory::Kept;
use crate::runtime::Error;

/// A kernel that runs, somewhere.
pub(super) enum Running {
    Cpu(Launch),
    Cuda(cuda::Launch),
}

/// A block of a kernel that ended otherwise than by having done all, or by being stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ended {
    pub(super) kernel: &'static str,
    pub(super) block: u32,
    /// Why, by its own words. Without them the launch knows, and says so when it is joined.
    pub(super) cause: Option<Cause>,
}

impl Running {
    pub(super) fn stop(&self) {
        match self {
            Self::Cpu(launch) => launch.stop(),
            Self::Cuda(launch) => launch.stop(),
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        match self {
            Self::Cpu(launch) => launch.is_finished(),
            Self::Cuda(launch) => launch.is_finished(),
        }
    }

    /// The blocks that ended so far.
    pub(super) fn ended(&self) -> Result<Vec<Ended>, Error> {
        match self {
            Self::Cpu(launch) => Ok(on_cpu(&launch.report())),
            Self::Cuda(launch) if launch.is_finished() => Ok(on_gpu(&launch.outcome()?)),
            Self::Cuda(_) => Ok(Vec::new()),
        }
    }

    /// Waits for the end, at most so long.
    pub(super) fn join(self, longest: Duration) -> Result<Vec<Ended>, Error> {
        match self {
            Self::Cpu(launch) => Ok(on_cpu(&launch.join(longest)?)),
            Self::Cuda(launch) => Ok(on_gpu(&launch.join(longest)?)),
        }
    }
}

fn on_cpu(report: &executor::Report) -> Vec<Ended> {
    let warps = report.warps.iter().filter_map(|warp| {
        let cause = match warp.exit {
            Exit::Running | Exit::Returned(0) => return None,
            Exit::Returned(_) => warp.exit.cause(),
            Exit::Panicked | Exit::Diverged | Exit::Faulted | Exit::Unwound => None,
        };
        (cause != Some(Cause::Aborted)).then_some(Ended {
            kernel: report.kernel,
            block: warp.block,
            cause,
        })
    });
    warps.collect()
}

fn on_gpu(report: &cuda::Report) -> Vec<Ended> {
    let blocks = report.blocks.iter().zip(0..);
    let ended = blocks.filter_map(|(exit, block)| match exit {
        BlockExit::Returned(Some(cause)) if *cause != Cause::Aborted => Some(Ended {
            kernel: report.kernel,
            block,
            cause: Some(*cause),
        }),
        BlockExit::Running | BlockExit::Stopped | BlockExit::Returned(_) => None,
    });
    ended.collect()
}

/// Where kernels are launched.
pub(super) struct Launcher {
    pub(super) cpu: CpuExecutor,
    pub(super) cuda: Option<Arc<CudaExecutor>>,
}

impl Launcher {
    /// A GPU knows no other time than the real one.
    pub(super) fn check(cuda: Option<&Arc<CudaExecutor>>, time: Time) -> Result<(), Error> {
        match cuda {
            Some(_) if time != Time::Real => Err(Error::VirtualTime),
            _ => Ok(()),
        }
    }

    /// What runs kernels, and what stands for device memory there.
    pub(super) fn words(&self) -> (&'static str, &'static str) {
        const HOST: &str = "host memory that stands for device memory";
        const MAPPED: &str = "host memory that is mapped into the device, but for tables";
        match (&self.cuda, self.cpu.backend()) {
            (Some(_), _) => ("cuda", MAPPED),
            (None, Backend::Virtual { .. }) => ("virtual", HOST),
            (None, _) => ("cpu", HOST),
        }
    }

    /// Starts a kernel: on the GPU if there is one, in slices. `steering` is where its parameter
    /// block has what it obeys.
    pub(super) fn launch(
        &self,
        row: &KernelRow,
        blocks: u32,
        parameters: Parameters,
        steering: DeviceAddress,
        kept: &Kept,
    ) -> Result<Running, Error> {
        let grid = Grid { blocks, warps: 1 };
        let Some(cuda) = &self.cuda else {
            return Ok(Running::Cpu(self.cpu.launch(row, grid, parameters)?));
        };
        let turns = steering.offset(offset_of!(Steering, turns) as u64);
        let tables = kept.tables.iter().cloned();
        let slices = tables.fold(cuda::Slices::new(turns), cuda::Slices::device_memory);
        Ok(Running::Cuda(cuda.launch(row, grid, parameters, slices)?))
    }
}
