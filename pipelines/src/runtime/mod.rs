//! Running a pipeline: NICs are opened, kernels launched, counters watched, samples drained. No
//! frame passes through here.
#![expect(
    unsafe_code,
    reason = "a launch carries the promise that its parameters are laid out right"
)]

mod error;
mod gathers;
mod generator;
mod gpu;
mod kit;
mod layout;
mod log;
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

use warpwire_gpu::executor::{Backend, Builder, Parameters, Placement, Program, Time};
use warpwire_gpu::{Arena, CpuExecutor, CudaExecutor};
use warpwire_nic::Patience;
use warpwire_nic::soft::Clock;
use warpwire_ring::DeviceAddress;

use crate::file::PipelineFile;
use crate::files;
use crate::report::{GatherReport, Report};

pub use error::Error;
pub use kit::{Kit, format_word};
pub use measure::{Generation, Measurement, Plain};

use gathers::Gathers;
use gpu::{Launcher, Running};
use log::{Log, Place};
use memory::Memory;
use open::OpenNics;
use samples::Samples;

/// A pipeline that runs.
pub struct Runtime<'f> {
    file: &'f PipelineFile,
    launcher: Launcher,
    open: OpenNics,
    pipelines: Vec<Pipeline>,
    generators: Vec<Generator>,
    samples: Samples,
    gathers: Gathers,
    threads: usize,
    started_ns: u64,
    log: Log,
    /// When NICs and queues were looked at last.
    looked: Option<Duration>,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What was counted, whatever went wrong. Names the failures as well.
    pub report: Report,
    /// What went wrong; empty if all went well.
    pub failures: Vec<Error>,
}

impl Outcome {
    /// The report of a run in which all went well.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn whole(self) -> Result<Report, Error> {
        match self.failures.into_iter().next() {
            Some(first) => Err(first),
            None => Ok(self.report),
        }
    }
}

/// What kernels run on.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The width of warps.
    pub backend: Backend,
    /// What runs kernels with `Backend::Virtual`, and is not used otherwise.
    pub program: Option<Arc<dyn Program>>,
    /// A GPU that runs the kernels; NICs that are software stay on the CPU.
    pub cuda: Option<Arc<CudaExecutor>>,
    /// Real time, or virtual time for runs that a seed repeats.
    pub time: Time,
    /// Rows that are gathered by each stage that does; then the run is over. All if none.
    pub rows: Option<u64>,
}

impl Settings {
    /// An executor to be built with these settings.
    pub fn executor(&self) -> Builder {
        let builder = CpuExecutor::builder()
            .backend(self.backend)
            .clock(self.time);
        match &self.program {
            Some(program) => builder.program(Arc::clone(program)),
            None => builder,
        }
    }
}

/// A pipeline kernel and where it counts.
struct Pipeline {
    launch: Running,
    layout: layout::Layout,
}

/// A generator and where it counts.
struct Generator {
    launch: Running,
    layout: generator::Layout,
}

/// Why [`Runtime::run`] came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The time was over.
    Duration,
    /// Somebody asked for it.
    Stopped,
    /// All sources ended: captures were played, generators had sent all their frames; or as many
    /// rows were gathered as there shall be.
    Exhausted,
    /// Something went wrong that makes going on useless; [`Runtime::finish`] says what.
    Failed,
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
        Self::start_within(file, kit, settings, Patience::default())
    }

    /// [`Runtime::start_with`], for as long as `patience` lasts: NICs may wait for their peers.
    ///
    /// # Errors
    /// What could not be had: a NIC, memory, a thread, a file; and
    /// [`warpwire_nic::Error::Stopped`].
    pub fn start_within(
        file: &'f PipelineFile,
        kit: &Kit,
        settings: Settings,
        patience: Patience<'_>,
    ) -> Result<Self, Error> {
        files::check(&file.name, file, &[])?;
        let cuda = settings.cuda.as_ref();
        Launcher::check(cuda, settings.time)?;
        let mut open = open::open(file, patience)?;
        let services: Vec<_> = open
            .nics
            .iter_mut()
            .flat_map(|nic| nic.take_services())
            .collect();
        let mut layouts = Vec::new();
        for group in file.groups() {
            let receives = file.receives.iter();
            if receives.clone().any(|one| group.contains(&one.nic)) {
                layouts.push(layout::lay_out(
                    file,
                    kit,
                    &open.nics,
                    &group,
                    Memory::of(cuda),
                )?);
            }
        }
        let mut generators = Vec::new();
        for entry in &file.generators {
            if let Some(nic) = open.nics.get(entry.nic) {
                generators.push(generator::lay_out(entry, nic.as_ref(), Memory::of(cuda))?);
            }
        }
        let blocks: u32 = layouts.iter().map(|layout| layout.blocks).sum();
        let senders: u32 = generators.iter().map(|layout| layout.blocks).sum();
        let kernels = if cuda.is_some() { 0 } else { blocks + senders };
        let tasks = kernels as usize + services.len();
        let threads = file
            .threads
            .unwrap_or_else(|| tasks.min(processors()))
            .max(1);
        let executor = settings.executor().threads(threads).build()?;
        if let Some(fabric) = &open.fabric {
            fabric.follow(Clock::Executor(executor.clock()));
        }
        let records = layouts
            .iter_mut()
            .flat_map(|layout| std::mem::take(&mut layout.samples))
            .collect();
        let samples = Samples::create(file, records, executor.clock().now_ns())?;
        let tensors = layouts
            .iter_mut()
            .flat_map(|layout| std::mem::take(&mut layout.gathers))
            .collect();
        let gathers = Gathers::create(file, &open.nics, tensors, settings.rows)?;
        for service in services {
            executor.add_service(service, Placement::Any)?;
        }
        let started_ns = executor.clock().now_ns();
        let mut runtime = Self {
            file,
            launcher: Launcher {
                cpu: executor,
                cuda: settings.cuda,
            },
            open,
            pipelines: Vec::new(),
            generators: Vec::new(),
            samples,
            gathers,
            threads,
            started_ns,
            log: Log::default(),
            looked: None,
        };
        for layout in layouts {
            let (row, promise) = (kit.kernel(&layout.kernel)?, layout.promise());
            let (blocks, steering) = (layout.blocks, layout.steering());
            let launcher = &runtime.launcher;
            let launch = launcher.launch(row, blocks, promise, steering, &layout.memory)?;
            runtime.pipelines.push(Pipeline { launch, layout });
        }
        for layout in generators {
            let (row, promise) = (kit.kernel(&layout.kernel)?, layout.promise());
            let (blocks, steering) = (layout.blocks, layout.steering());
            let launcher = &runtime.launcher;
            let launch = launcher.launch(row, blocks, promise, steering, &layout.memory)?;
            runtime.generators.push(Generator { launch, layout });
        }
        Ok(runtime)
    }

    /// Watches until the time is over, the sources end, `stop` is set, or something fails that
    /// makes going on useless; calls `tick` now and then.
    pub fn run(
        &mut self,
        limit: Option<Duration>,
        stop: &AtomicBool,
        mut tick: impl FnMut(&Self),
    ) -> Ended {
        let limit = limit.or(self.file.duration);
        let mut quiet = self.quiet();
        loop {
            if let Err(error) = self.pass(WATCH_PERIOD) {
                self.log.fail(error);
                return Ended::Failed;
            }
            self.samples.drain();
            let is_over = self.gathers.drain() | self.watch();
            tick(self);
            if is_over {
                return Ended::Failed;
            }
            if stop.load(Ordering::Relaxed) {
                return Ended::Stopped;
            }
            if limit.is_some_and(|limit| self.elapsed() >= limit) {
                return Ended::Duration;
            }
            if self.gathers.are_full() {
                return Ended::Exhausted;
            }
            if self.sources_ended() && self.is_quiet(&mut quiet) {
                return Ended::Exhausted;
            }
        }
    }

    /// What went wrong so far while the run went on, in the order in which it was seen.
    pub fn warnings(&self) -> &[String] {
        &self.log.warnings
    }

    /// Stops the generators, lets what is under way arrive, stops the pipelines, closes the NICs
    /// and says what was counted, and what went wrong.
    pub fn finish(mut self) -> Outcome {
        let elapsed = self.elapsed();
        for generator in &self.generators {
            generator.launch.stop();
        }
        if !self.generators.is_empty() {
            self.settle();
        }
        let Self {
            file,
            launcher,
            open,
            pipelines,
            generators,
            samples,
            gathers,
            threads,
            mut log,
            ..
        } = self;
        let layouts = generators.into_iter().map(|generator| {
            let Generator { launch, layout } = generator;
            join(launch, &mut log, |block| {
                generator_place(file, &layout, block)
            });
            layout
        });
        let layouts: Vec<_> = layouts.collect();
        for pipeline in &pipelines {
            pipeline.launch.stop();
        }
        let mut have_ended = true;
        let pipelines = pipelines.into_iter().map(|pipeline| {
            let Pipeline { launch, layout } = pipeline;
            have_ended &= join(launch, &mut log, |block| {
                pipeline_place(file, &layout, block)
            });
            log.look(file, &layout);
            layout
        });
        let pipelines: Vec<_> = pipelines.collect();
        let mut report = snapshot::report(file, &open, &pipelines, &layouts);
        report.elapsed_s = elapsed.as_secs_f64();
        report.threads = threads;
        (report.executor, report.memory) = launcher.words();
        report.samples = samples.finish(&mut log);
        report.gathered = gathers.finish(have_ended, &mut log);
        if let Err(error) = launcher.cpu.shutdown(JOIN_LIMIT) {
            log.fail(error.into());
        }
        log.ask(&open);
        open.close(&mut log);
        let failures = log.tell(&mut report);
        Outcome { report, failures }
    }

    /// Since the start, by the clock of the executor.
    pub fn elapsed(&self) -> Duration {
        let now_ns = self.launcher.cpu.clock().now_ns();
        Duration::from_nanos(now_ns.saturating_sub(self.started_ns))
    }

    /// Frames that all pipelines received so far, and frames that all NICs sent.
    pub fn totals(&self) -> (u64, u64) {
        snapshot::totals(self.file, &self.open)
    }

    /// What NICs chose among several ways when they were opened, and why.
    pub fn choices(&self) -> Vec<String> {
        self.open
            .nics
            .iter()
            .flat_map(|nic| nic.choices())
            .collect()
    }

    /// What stages gathered so far.
    pub fn gathered(&self) -> Vec<GatherReport> {
        self.gathers.reports()
    }

    /// Looks at kernels, and now and then at queues and NICs. Says whether going on is useless.
    fn watch(&mut self) -> bool {
        let (file, log) = (self.file, &mut self.log);
        let mut is_over = false;
        for Generator { launch, layout } in &self.generators {
            is_over |= log.check(launch.ended(), |block| generator_place(file, layout, block));
        }
        for Pipeline { launch, layout } in &self.pipelines {
            is_over |= log.check(launch.ended(), |block| pipeline_place(file, layout, block));
        }
        let now = self.launcher.cpu.clock().now_ns();
        let now = Duration::from_nanos(now.saturating_sub(self.started_ns));
        let since = self.looked.map(|looked| now.saturating_sub(looked));
        if is_over || since.is_none_or(|since| since >= LOOK_PERIOD) {
            self.looked = Some(now);
            for pipeline in &self.pipelines {
                is_over |= log.look(file, &pipeline.layout);
            }
            is_over |= log.ask(&self.open);
        }
        is_over
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
    fn settle(&mut self) {
        let mut quiet = self.quiet();
        let deadline = self.elapsed() + SETTLE_LIMIT;
        while !self.is_quiet(&mut quiet) && self.elapsed() < deadline {
            if let Err(error) = self.pass(WATCH_PERIOD) {
                return self.log.fail(error);
            }
            self.samples.drain();
            self.gathers.drain();
        }
    }

    /// Lets time pass: real time by itself, virtual time by driving the executor.
    fn pass(&self, time: Duration) -> Result<(), Error> {
        let executor = &self.launcher.cpu;
        if executor.clock().is_virtual() {
            executor.advance(time)?;
        } else {
            thread::sleep(time);
        }
        Ok(())
    }

    /// Whether counters have stood still for long enough: far longer as long as frames wait that no
    /// kernel has taken.
    fn is_quiet(&self, quiet: &mut Quiet) -> bool {
        let least = match snapshot::waiting(self.file, &self.open) {
            true => quiet.least * SLOWEST,
            false => quiet.least,
        };
        quiet.lasts(least, self.frames(), self.elapsed())
    }

    /// How long counters must stand still for the rest to have arrived: longer than a batch takes.
    fn quiet(&self) -> Quiet {
        let executor = &self.launcher.cpu;
        let is_slow = matches!(executor.backend(), Backend::Virtual { .. });
        let least = match is_slow && !executor.clock().is_virtual() {
            true => QUIET_INTERPRETED,
            false => QUIET,
        };
        Quiet { least, last: None }
    }

    /// Frames that passed any queue so far.
    fn frames(&self) -> u64 {
        let (received, sent) = snapshot::all_totals(&self.open);
        received.wrapping_add(sent)
    }
}

/// Whether a count stands still for a while.
struct Quiet {
    least: Duration,
    last: Option<(u64, Duration)>,
}

impl Quiet {
    fn lasts(&mut self, least: Duration, count: u64, now: Duration) -> bool {
        match self.last {
            Some((last, since)) if last == count => now.saturating_sub(since) >= least,
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

/// Waits for a kernel that was asked to stop, or ended. Says whether it did.
fn join(launch: Running, log: &mut Log, place: impl Fn(u32) -> Place) -> bool {
    let ended = launch.join(JOIN_LIMIT);
    let has_ended = ended.is_ok();
    log.check(ended, place);
    has_ended
}

/// What a block of a generator drives.
fn generator_place(file: &PipelineFile, layout: &generator::Layout, block: u32) -> Place {
    let name = log::name(file, layout.nic);
    Place {
        nic: Some(layout.nic),
        words: format!("nic.{name}: transmit queue {block}"),
    }
}

/// What a block of a pipeline kernel drives.
fn pipeline_place(file: &PipelineFile, layout: &layout::Layout, block: u32) -> Place {
    let ports = layout.ports.iter().filter(|port| {
        let blocks = layout.blocks.max(1);
        port.queue % blocks == block
    });
    let ports: Vec<_> = ports.collect();
    let words: Vec<String> = ports
        .iter()
        .map(|port| format!("nic.{} queue {}", log::name(file, port.nic), port.queue))
        .collect();
    let nic = match ports.as_slice() {
        [port] => Some(port.nic),
        _ => None,
    };
    let words = words.join(", ");
    Place { nic, words }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// How often NICs and queues are asked what is wrong.
const LOOK_PERIOD: Duration = Duration::from_millis(250);
/// How often counters are looked at and samples drained.
const WATCH_PERIOD: Duration = Duration::from_millis(5);
/// See [`Runtime::quiet`].
const QUIET: Duration = Duration::from_millis(60);
/// So many times as long if frames wait that no kernel has taken: a machine may be busy.
const SLOWEST: u32 = 20;
/// The same where PTX is interpreted in real time.
const QUIET_INTERPRETED: Duration = Duration::from_secs(1);
/// How long the rest may take.
const SETTLE_LIMIT: Duration = Duration::from_secs(2);
/// How long a kernel may take to end.
const JOIN_LIMIT: Duration = Duration::from_secs(5);
