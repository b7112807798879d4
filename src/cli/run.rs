//! `warpwire run FILE`: runs a pipeline until its time is over, its sources end, a signal asks for
//! an end, or something fails.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use std::sync::Arc;
use warpwire_gpu::CudaExecutor;
use warpwire_gpu::executor::Backend;
use warpwire_nic::Patience;
use warpwire_pipelines::files::{self, FileUse};
use warpwire_pipelines::runtime::{Error as RunError, Outcome, Settings};
use warpwire_pipelines::{Ended, Kit, PipelineFile, Report, Runtime};
use warpwire_virtual::{Module, VirtualGpu};

use super::table::Detail;
use super::{Failure, complain, signals, table};

/// Run a pipeline file
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The pipeline file
    file: PathBuf,
    #[command(flatten)]
    options: Options,
}

/// How to run, and what to show.
#[derive(clap::Args, Clone, Default)]
pub(super) struct Options {
    /// Print what was counted as JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
    /// Stop after this time, such as 10s, 500ms or 2m; instead of the file's own duration
    #[arg(long, value_parser = duration, value_name = "TIME", allow_hyphen_values = true)]
    pub(super) duration: Option<Duration>,
    /// Also write every received frame to this pcapng file, as far as the host keeps up
    #[arg(long, value_name = "FILE")]
    pub(super) capture: Option<PathBuf>,
    /// Threads of the executor; one for each kernel and NIC, as far as there are processors, if
    /// absent
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(super) threads: Option<u8>,
    /// What runs the kernels
    #[arg(long, value_enum, default_value_t)]
    pub(super) executor: Executor,
}

/// What kernels run on.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Executor {
    /// The processor, from the same source
    #[default]
    Cpu,
    /// The PTX that ships, on a virtual GPU: slow, and checks every access
    Virtual,
    /// The PTX that ships, on the first GPU; NICs that are software stay on the processor
    Cuda,
}

impl Executor {
    fn settings(self, kit: &Kit) -> Result<Settings, Failure> {
        match self {
            Self::Cpu => Ok(Settings::default()),
            Self::Virtual => {
                let module = Module::parse(PTX).map_err(|error| Failure::Ptx(error.to_string()))?;
                Ok(Settings {
                    backend: Backend::Virtual { seed: 0 },
                    program: Some(Arc::new(VirtualGpu::new(module))),
                    ..Settings::default()
                })
            }
            Self::Cuda => {
                let opened = CudaExecutor::builder().open(PTX, &kit.device_kernels());
                Ok(Settings {
                    cuda: Some(Arc::new(opened.map_err(RunError::Cuda)?)),
                    ..Settings::default()
                })
            }
        }
    }
}

pub(super) fn run(arguments: &Arguments, kit: &Kit) -> Result<(), Failure> {
    let Arguments {
        file: path,
        options,
    } = arguments;
    let file = PipelineFile::load(path, kit.catalogue())?;
    let mut others = vec![FileUse::of_pipeline(path)];
    others.extend(options.capture.as_ref().map(|path| FileUse {
        field: "--capture".to_owned(),
        path: path.clone(),
        is_written: true,
        line: 1,
    }));
    files::check(&path.display().to_string(), &file, &others)?;
    let outcome = run_file(file, kit, options)?;
    let shown = show(&outcome.report, options, Detail::Full);
    conclude(outcome, shown)
}

/// Says what went wrong in a run whose counts were shown.
pub(super) fn conclude(outcome: Outcome, shown: io::Result<()>) -> Result<(), Failure> {
    let mut failures = outcome.failures;
    let Some(last) = failures.pop() else {
        shown?;
        return match outcome.report.astray().as_slice() {
            [] => Ok(()),
            ways => Err(Failure::Astray(ways.join("; "))),
        };
    };
    for failure in &failures {
        complain(failure);
    }
    Err(last.into())
}

/// Runs a file that was read; shows a progress line on a terminal.
pub(super) fn run_file(
    mut file: PipelineFile,
    kit: &Kit,
    options: &Options,
) -> Result<Outcome, Failure> {
    if let Some(path) = &options.capture {
        file.capture_all(path, kit.catalogue());
    }
    if let Some(threads) = options.threads {
        file.threads = Some(usize::from(threads));
    }
    let stop = signals::heed()?;
    let limit = options.duration.or(file.duration);
    let patience = Patience {
        stop: Some(&stop),
        until: limit.and_then(|limit| Instant::now().checked_add(limit)),
    };
    let settings = options.executor.settings(kit)?;
    let mut runtime = Runtime::start_within(&file, kit, settings, patience)?;
    let mut progress = Progress::new(io::stderr().is_terminal());
    let ended = runtime.run(limit, &stop, |runtime| progress.tick(runtime));
    progress.clear();
    if ended == Ended::Stopped && io::stderr().is_terminal() {
        complain(&"stopping");
    }
    Ok(runtime.finish())
}

/// Prints what was counted.
pub(super) fn show(report: &Report, options: &Options, detail: Detail) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if options.json {
        writeln!(out, "{}", report.to_json())
    } else {
        table::write(&mut out, report, detail)
    }
}

/// A line of live counters, on a terminal.
struct Progress {
    on: bool,
    shown: Instant,
    last: (u64, u64),
    /// Warnings that were told.
    told: usize,
}

impl Progress {
    fn new(on: bool) -> Self {
        Self {
            on,
            shown: Instant::now(),
            last: (0, 0),
            told: 0,
        }
    }

    fn tick(&mut self, runtime: &Runtime<'_>) {
        for warning in runtime.warnings().iter().skip(self.told) {
            self.clear();
            complain(&format!("warning: {warning}"));
            self.told += 1;
        }
        let since = self.shown.elapsed();
        if !self.on || since < PERIOD {
            return;
        }
        let (received, sent) = runtime.totals();
        let a_second =
            |now: u64, before: u64| now.saturating_sub(before) as f64 / since.as_secs_f64();
        let (received_before, sent_before) = self.last;
        let line = format!(
            "{:6.1} s   received {} ({}/s)   sent {} ({}/s)",
            runtime.elapsed().as_secs_f64(),
            table::count(received),
            table::short(a_second(received, received_before)),
            table::count(sent),
            table::short(a_second(sent, sent_before)),
        );
        // Losing a progress line is not worth an error.
        let _ = write!(io::stderr(), "\r\x1b[2K{line}");
        let _ = io::stderr().flush();
        self.shown = Instant::now();
        self.last = (received, sent);
    }

    fn clear(&self) {
        if self.on {
            // As above.
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

/// A time as it is written.
pub(super) fn duration(words: &str) -> Result<Duration, String> {
    warpwire_pipelines::file::duration(words)
        .ok_or_else(|| format!("write {}", warpwire_pipelines::file::DURATIONS))
}

/// The kernels for GPUs.
const PTX: &str = include_str!("../../pipelines/kernels/warpwire.ptx");

/// How often the line changes.
const PERIOD: Duration = Duration::from_millis(250);
