//! What kernels run on.

use std::sync::Arc;
use std::time::Duration;

use warpwire::pipelines::runtime::Settings;
use warpwire_fuzz::job::Job;
use warpwire_gpu::executor::{Backend, Exit, Grid, Placement, Program, Time};
use warpwire_gpu::{CpuExecutor, Service};

/// A kind of executor, in virtual time: a seed decides what has no order.
#[derive(Clone, Debug)]
pub struct Machine {
    backend: fn(u64) -> Backend,
    program: Option<Arc<dyn Program>>,
}

impl Machine {
    /// The CPU, one lane a warp.
    pub const SCALAR: Self = Self {
        backend: |_| Backend::Scalar,
        program: None,
    };

    /// The CPU, 32 lanes a warp.
    pub const LOCKSTEP: Self = Self {
        backend: |seed| Backend::Lockstep { seed },
        program: None,
    };

    /// A virtual GPU.
    pub fn on(program: Arc<dyn Program>) -> Self {
        Self {
            backend: |seed| Backend::Virtual { seed },
            program: Some(program),
        }
    }

    /// Settings of an executor.
    pub(super) fn settings(&self, seed: u64) -> Settings {
        Settings {
            backend: (self.backend)(seed),
            program: self.program.clone(),
            time: Time::Virtual { seed },
            ..Settings::default()
        }
    }

    pub(super) fn ready(&self, seed: u64) -> Result<Ready, String> {
        let executor = self.settings(seed).executor().build();
        Ok(Ready {
            executor: executor.map_err(|error| error.to_string())?,
            // Entry points return nothing on a GPU.
            returns: self.program.is_none(),
        })
    }
}

/// A machine that runs one kernel after the other.
pub(super) struct Ready {
    executor: CpuExecutor,
    returns: bool,
}

impl Ready {
    /// Lets a service run beside the kernels.
    pub(super) fn serve(&self, service: Box<dyn Service>) -> Result<(), String> {
        let added = self.executor.add_service(service, Placement::Any);
        added.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Runs one warp to its end.
    pub(super) fn run(&self, job: Job<'_>) -> Result<Option<u32>, String> {
        let name = job.row.name;
        let launch = self.executor.launch(job.row, Grid::ONE, job.parameters);
        let report = launch.and_then(|launch| launch.join(PATIENCE));
        let report = report.map_err(|error| error.to_string())?;
        match report.warps.first().map(|warp| warp.exit) {
            Some(Exit::Returned(code)) => Ok(self.returns.then_some(code)),
            other => Err(format!("{name} ended by {other:?}")),
        }
    }
}

/// Long enough for anything that ends at all; of virtual time.
const PATIENCE: Duration = Duration::from_secs(10);
