//! Running a pipeline: NICs are opened, kernels launched, counters watched, samples drained. No
//! frame passes through here.
#![expect(
    unsafe_code,
    reason = "a launch carries the promise that its parameters are laid out right"
)]

mod error;
mod generator;
mod kit;
mod layout;
mod measure;
mod memory;
mod open;
mod samples;
mod snapshot;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use warpwire_core::block::{Parameters as _, PipelineParameters};
use warpwire_core::kernels::TransmitParameters;
use warpwire_gpu::executor::{Backend, Grid, Launch, Parameters, Placement, Time};
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_nic::soft::Clock;
use warpwire_ring::{Cause, DeviceAddress};

use crate::file::PipelineFile;
use crate::report::{Report, SampleReport};

pub use error::Error;
pub use kit::{Kit, format_word};
pub use measure::{Generation, Measurement, Plain};

use open::OpenNics;
use samples::Samples;

/// A pipeline that runs.
pub struct Runtime<'f> {
    file: &'f PipelineFile,
    executor: CpuExecutor,
    open: OpenNics,
    pipelines: Vec<Pipeline>,
    generators: Vec<Generator>,
    samples: Samples,
    threads: usize,
    started_ns: u64,
}

/// What kernels run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// The width of warps.
    pub backend: Backend,
    /// Real time, or virtual time for runs that a seed repeats.
    pub time: Time,
}

/// A pipeline kernel and where it counts.
struct Pipeline {
    launch: Launch,
    layout: layout::Layout,
}

/// A generator and where it counts.
struct Generator {
    launch: Launch,
    layout: generator::Layout,
}

/// Why [`Runtime::run`] came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The time was over.
    Duration,
    /// Somebody asked for it.
    Stopped,
    /// All sources ended: captures were played, generators had sent all their frames.
    Exhausted,
}

impl<'f> Runtime<'f> {
    /// Opens the NICs and starts all kernels of a file.
    ///
    /// # Errors
    /// What could not be had: a NIC, memory, a thread, a file.
    pub fn start(file: &'f PipelineFile, kit: &Kit) -> Result<Self, Error> {
        Self::start_with(file, kit, Settings::default())
    }

    /// [`Runtime::start`] on an executor with these settings.
    ///
    /// # Errors
    /// What could not be had: a NIC, memory, a thread, a file.
    pub fn start_with(
        file: &'f PipelineFile,
        kit: &Kit,
        settings: Settings,
    ) -> Result<Self, Error> {
        let mut open = open::open(file)?;
        let services: Vec<_> = open
            .nics
            .iter_mut()
            .flat_map(|nic| nic.take_services())
            .collect();
        let mut layouts = Vec::new();
        for group in file.groups() {
            let receives = file.receives.iter();
            if receives.clone().any(|one| group.contains(&one.nic)) {
                layouts.push(layout::lay_out(file, kit, &open.nics, &group)?);
            }
        }
        let mut generators = Vec::new();
        for entry in &file.generators {
            if let Some(nic) = open.nics.get(entry.nic) {
                generators.push(generator::lay_out(entry, nic.as_ref())?);
            }
        }
        let blocks: u32 = layouts.iter().map(|layout| layout.blocks).sum();
        let senders: u32 = generators.iter().map(|layout| layout.blocks).sum();
        let tasks = (blocks + senders) as usize + services.len();
        let threads = file
            .threads
            .unwrap_or_else(|| tasks.min(processors()))
            .max(1);
        let executor = CpuExecutor::builder()
            .threads(threads)
            .backend(settings.backend)
            .clock(settings.time)
            .build()?;
        if let Some(fabric) = &open.fabric {
            fabric.follow(Clock::Executor(executor.clock()));
        }
        let records = layouts
            .iter_mut()
            .flat_map(|layout| std::mem::take(&mut layout.samples))
            .collect();
        let samples = Samples::create(file, records, executor.clock().now_ns())?;
        for service in services {
            executor.add_service(service, Placement::Any)?;
        }
        let started_ns = executor.clock().now_ns();
        let mut runtime = Self {
            file,
            executor,
            open,
            pipelines: Vec::new(),
            generators: Vec::new(),
            samples,
            threads,
            started_ns,
        };
        for layout in layouts {
            let launch = runtime.launch_pipeline(kit, &layout)?;
            runtime.pipelines.push(Pipeline { launch, layout });
        }
        for layout in generators {
            let launch = runtime.launch_generator(kit, &layout)?;
            runtime.generators.push(Generator { launch, layout });
        }
        Ok(runtime)
    }

    /// Watches until the time is over, the sources end, or `stop` is set; calls `tick` now and
    /// then.
    ///
    /// # Errors
    /// [`Error::Ended`] if a kernel ends by itself.
    pub fn run(
        &mut self,
        limit: Option<Duration>,
        stop: &AtomicBool,
        mut tick: impl FnMut(&Self),
    ) -> Result<Ended, Error> {
        let limit = limit.or(self.file.duration);
        let mut quiet = Quiet::default();
        loop {
            self.pass(WATCH_PERIOD)?;
            self.samples.drain();
            self.check_kernels()?;
            tick(self);
            if stop.load(Ordering::Relaxed) {
                return Ok(Ended::Stopped);
            }
            if limit.is_some_and(|limit| self.elapsed() >= limit) {
                return Ok(Ended::Duration);
            }
            if self.sources_ended() && quiet.lasts(self.frames(), self.elapsed()) {
                return Ok(Ended::Exhausted);
            }
        }
    }

    /// Stops the generators, lets what is under way arrive, stops the pipelines, closes the NICs
    /// and says what was counted.
    ///
    /// # Errors
    /// What could not be ended, written or given back.
    pub fn finish(mut self) -> Result<Report, Error> {
        let elapsed = self.elapsed();
        for generator in &self.generators {
            generator.launch.stop();
        }
        if !self.generators.is_empty() {
            self.settle()?;
        }
        let mut layouts = Vec::new();
        for generator in std::mem::take(&mut self.generators) {
            let report = generator.launch.join(JOIN_LIMIT)?;
            check(report.kernel, report.cause())?;
            layouts.push(generator.layout);
        }
        for pipeline in &self.pipelines {
            pipeline.launch.stop();
        }
        let mut pipelines = Vec::new();
        for pipeline in std::mem::take(&mut self.pipelines) {
            let report = pipeline.launch.join(JOIN_LIMIT)?;
            check(report.kernel, report.cause())?;
            pipelines.push(pipeline.layout);
        }
        let mut report = snapshot::report(self.file, &self.open, &pipelines, &layouts);
        report.elapsed_s = elapsed.as_secs_f64();
        report.threads = self.threads;
        report.samples = self
            .samples
            .finish()?
            .into_iter()
            .map(|file| SampleReport {
                file: file.path,
                frames: file.frames,
            })
            .collect();
        self.executor.shutdown(JOIN_LIMIT)?;
        for nic in self.open.nics {
            nic.close()?;
        }
        Ok(report)
    }

    /// Since the start, by the clock of the executor.
    pub fn elapsed(&self) -> Duration {
        let now_ns = self.executor.clock().now_ns();
        Duration::from_nanos(now_ns.saturating_sub(self.started_ns))
    }

    /// Frames that all pipelines received so far, and frames that all NICs sent.
    pub fn totals(&self) -> (u64, u64) {
        snapshot::totals(self.file, &self.open)
    }

    fn launch_pipeline(&self, kit: &Kit, layout: &layout::Layout) -> Result<Launch, Error> {
        let row = kit.kernel(&layout.kernel)?;
        let grid = Grid {
            blocks: layout.blocks,
            warps: 1,
        };
        let hash = PipelineParameters::LAYOUT;
        let parameters = promise(layout.parameters, hash, &layout.memory);
        let parameters = parameters.control(layout.control.clone());
        Ok(self.executor.launch(row, grid, parameters)?)
    }

    fn launch_generator(&self, kit: &Kit, layout: &generator::Layout) -> Result<Launch, Error> {
        let row = kit.kernel(&layout.kernel)?;
        let grid = Grid {
            blocks: layout.blocks,
            warps: 1,
        };
        let hash = TransmitParameters::LAYOUT;
        let parameters = promise(layout.parameters, hash, &layout.memory);
        let parameters = parameters.control(layout.control.clone());
        Ok(self.executor.launch(row, grid, parameters)?)
    }

    /// A pipeline kernel runs until it is stopped.
    fn check_kernels(&self) -> Result<(), Error> {
        for pipeline in &self.pipelines {
            if pipeline.launch.is_finished() {
                let report = pipeline.launch.report();
                check(report.kernel, report.cause())?;
            }
        }
        Ok(())
    }

    /// Whether nothing more can arrive but what is under way: all sources are ours and have ended.
    fn sources_ended(&self) -> bool {
        let ours = self.file.nics.iter().all(|nic| {
            use warpwire_nic::NicKind::{Pcap, Soft};
            matches!(nic.spec.kind, Soft | Pcap)
        });
        let played = self.open.plays.iter().all(|play| {
            let fabric = self.open.fabric.as_ref();
            fabric.is_none_or(|fabric| snapshot::played(fabric, play) >= play.frames)
        });
        let sent = self.generators.iter();
        let sent = sent.clone().all(|generator| generator.launch.is_finished());
        let some = !self.open.plays.is_empty() || !self.generators.is_empty();
        ours && some && played && sent
    }

    /// Waits, for a bounded time, until no more frames come.
    fn settle(&mut self) -> Result<(), Error> {
        let mut quiet = Quiet::default();
        let deadline = self.elapsed() + SETTLE_LIMIT;
        while !quiet.lasts(self.frames(), self.elapsed()) && self.elapsed() < deadline {
            self.pass(WATCH_PERIOD)?;
            self.samples.drain();
        }
        Ok(())
    }

    /// Lets time pass: real time by itself, virtual time by driving the executor.
    fn pass(&self, time: Duration) -> Result<(), Error> {
        if self.executor.clock().is_virtual() {
            self.executor.advance(time)?;
        } else {
            thread::sleep(time);
        }
        Ok(())
    }

    /// Frames that passed any queue so far.
    fn frames(&self) -> u64 {
        let (received, sent) = snapshot::all_totals(&self.open);
        received.wrapping_add(sent)
    }
}

/// Whether a count stands still for a while.
#[derive(Default)]
struct Quiet {
    last: Option<(u64, Duration)>,
}

impl Quiet {
    fn lasts(&mut self, count: u64, now: Duration) -> bool {
        match self.last {
            Some((last, since)) if last == count => now.saturating_sub(since) >= QUIET,
            _ => {
                self.last = Some((count, now));
                false
            }
        }
    }
}

/// A parameter block that the layout modules made, with the memory that it points to.
fn promise(block: DeviceAddress, layout: u64, memory: &[Arc<Arena>]) -> Parameters {
    // SAFETY: the layout modules placed a block of this layout, and everything that it points to,
    // in these arenas; queues are named once each, so nobody else drives them.
    unsafe { Parameters::new(block, layout, memory.to_vec()) }
}

fn check(kernel: &'static str, cause: Option<Cause>) -> Result<(), Error> {
    match cause {
        Some(cause) => Err(Error::Ended { kernel, cause }),
        None => Ok(()),
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// How often counters are looked at and samples drained.
const WATCH_PERIOD: Duration = Duration::from_millis(5);
/// How long counters must stand still for the rest to have arrived.
const QUIET: Duration = Duration::from_millis(60);
/// How long the rest may take.
const SETTLE_LIMIT: Duration = Duration::from_secs(2);
/// How long a kernel may take to end.
const JOIN_LIMIT: Duration = Duration::from_secs(5);
