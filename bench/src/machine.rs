//! What kernels run on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use warpwire::pipelines::runtime::Settings;
use warpwire_fuzz::job::Job;
use warpwire_gpu::executor::cuda::{CudaExecutor, Slices};
use warpwire_gpu::executor::{Backend, Exit, Grid, Placement, Program, Time};
use warpwire_gpu::{CpuExecutor, Service};

/// A kind of executor, in virtual time: a seed decides what has no order.
#[derive(Clone, Debug)]
pub struct Machine {
    backend: fn(u64) -> Backend,
    program: Option<Arc<dyn Program>>,
    cuda: Option<Arc<CudaExecutor>>,
}

impl Machine {
    /// The CPU, one lane a warp.
    pub const SCALAR: Self = Self {
        backend: |_| Backend::Scalar,
        program: None,
        cuda: None,
    };

    /// The CPU, 32 lanes a warp.
    pub const LOCKSTEP: Self = Self {
        backend: |seed| Backend::Lockstep { seed },
        program: None,
        cuda: None,
    };

    /// A virtual GPU.
    pub fn on(program: Arc<dyn Program>) -> Self {
        Self {
            backend: |seed| Backend::Virtual { seed },
            program: Some(program),
            cuda: None,
        }
    }

    /// A GPU, in its own time: for comparisons of kernels. A pipeline file is refused there,
    /// because its time is not virtual.
    pub fn gpu(cuda: Arc<CudaExecutor>) -> Self {
        Self {
            cuda: Some(cuda),
            ..Self::SCALAR
        }
    }

    /// Settings of an executor.
    pub(crate) fn settings(&self, seed: u64) -> Settings {
        Settings {
            backend: (self.backend)(seed),
            program: self.program.clone(),
            cuda: self.cuda.clone(),
            time: Time::Virtual { seed },
            ..Settings::default()
        }
    }

    pub(crate) fn ready(&self, seed: u64) -> Result<Ready, String> {
        if let Some(cuda) = &self.cuda {
            return Ok(Ready::Gpu {
                cuda: Arc::clone(cuda),
                services: Mutex::default(),
            });
        }
        let executor = self.settings(seed).executor().build();
        Ok(Ready::Here {
            executor: Box::new(executor.map_err(|error| error.to_string())?),
            returns: self.program.is_none(),
        })
    }
}

/// A machine that runs one kernel after the other.
pub(crate) enum Ready {
    Here {
        executor: Box<CpuExecutor>,
        /// Entry points return nothing on a GPU.
        returns: bool,
    },
    Gpu {
        cuda: Arc<CudaExecutor>,
        services: Mutex<Vec<Served>>,
    },
}

impl Ready {
    /// Lets a service run beside the kernels.
    pub(crate) fn serve(&self, service: Box<dyn Service>) -> Result<(), String> {
        match self {
            Self::Here { executor, .. } => {
                let added = executor.add_service(service, Placement::Any);
                added.map(|_| ()).map_err(|error| error.to_string())
            }
            Self::Gpu { services, .. } => {
                let mut services = services.lock().unwrap_or_else(PoisonError::into_inner);
                services.push(Served::start(service));
                Ok(())
            }
        }
    }

    /// Runs one warp to its end.
    pub(crate) fn run(&self, job: Job<'_>) -> Result<Option<u32>, String> {
        self.run_block(job, 1)
    }

    /// Runs a block of so many warps to its end. What the first returned that returned something,
    /// where entry points do.
    pub(crate) fn run_block(&self, job: Job<'_>, warps: u32) -> Result<Option<u32>, String> {
        let name = job.row.name;
        let grid = Grid { blocks: 1, warps };
        let (executor, returns) = match self {
            Self::Here { executor, returns } => (executor, *returns),
            Self::Gpu { cuda, .. } => return on_gpu(cuda, job, grid),
        };
        let launch = executor.launch(job.row, grid, job.parameters);
        let report = launch.and_then(|launch| launch.join(PATIENCE));
        let report = report.map_err(|error| error.to_string())?;
        let mut first = 0;
        for warp in &report.warps {
            match warp.exit {
                Exit::Returned(code) if first == 0 => first = code,
                Exit::Returned(_) => {}
                other => return Err(format!("{name} ended by {other:?}")),
            }
        }
        Ok(returns.then_some(first))
    }
}

/// One slice, with the turns that the block says.
fn on_gpu(cuda: &CudaExecutor, job: Job<'_>, grid: Grid) -> Result<Option<u32>, String> {
    let slices = Slices::once().pause(Duration::ZERO);
    let launch = cuda.launch(job.row, grid, job.parameters, slices);
    let report = launch.and_then(|launch| launch.join(PATIENCE));
    report.map_err(|error| error.to_string())?;
    Ok(None)
}

/// A service on a thread of its own, until this is dropped.
pub(crate) struct Served {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn start(mut service: Box<dyn Service>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let thread = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                if service.run(BUDGET) == 0 {
                    thread::yield_now();
                }
            }
        });
        Self {
            over,
            thread: Some(thread),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A service that panicked did not serve, which the comparison sees.
            let _ = thread.join();
        }
    }
}

/// What a service may do at a time.
const BUDGET: u32 = 64;

/// Long enough for anything that ends at all; of virtual time.
const PATIENCE: Duration = Duration::from_secs(10);
