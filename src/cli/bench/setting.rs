//! How figures are taken: cores, times, priorities, and what both sides share.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::IdlePolicy;
use warpwire_pipelines::file::{FrameEntry, GenerateEntry};
use warpwire_pipelines::traffic::Recipe;

use super::error::Error;
use super::machine;
use super::row::{Beside, Sample};
use super::xdp::Veth;

/// The processor of the generator or sink.
pub(super) const NEAR: usize = 0;
/// The processor of the measured side.
pub(super) const FAR: usize = 1;
/// Bytes of every frame, without its check sequence.
pub(super) const FRAME_BYTES: u32 = 64;
/// How long a kernel may take to end.
pub(super) const JOIN: Duration = Duration::from_secs(5);

/// What both sides share. Dropping it removes its folder and its namespaces.
pub(super) struct Setting {
    /// How long a figure is taken.
    pub(super) seconds: f64,
    /// Measured threads go before all others of the machine.
    pub(super) urgent: bool,
    pub(super) stop: Arc<AtomicBool>,
    folder: PathBuf,
    sockets: AtomicU32,
    versions: Mutex<Vec<String>>,
    veth: OnceLock<Veth>,
}

impl Setting {
    /// Makes a folder for sockets.
    pub(super) fn new(seconds: f64, urgent: bool, stop: Arc<AtomicBool>) -> Result<Self, Error> {
        let folder = std::env::temp_dir().join(format!("warpwire-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|source| Error::System {
            action: format!("making the folder {}", folder.display()),
            source,
            cure: "set TMPDIR to a folder that can be written",
        })?;
        Ok(Self {
            seconds,
            urgent,
            stop,
            folder,
            sockets: AtomicU32::new(0),
            versions: Mutex::default(),
            veth: OnceLock::new(),
        })
    }

    pub(super) fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// Keeps what another program calls itself.
    pub(super) fn note_version(&self, version: String) {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        if !versions.contains(&version) {
            versions.push(version);
        }
    }

    /// What the others that ran call themselves.
    pub(super) fn versions(&self) -> Vec<String> {
        let versions = self.versions.lock();
        versions.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The veth pair of all rows over AF_XDP, made for the first of them.
    pub(super) fn veth(&self) -> Result<&Veth, Error> {
        if let Some(veth) = self.veth.get() {
            return Ok(veth);
        }
        let veth = Veth::new()?;
        Ok(self.veth.get_or_init(|| veth))
    }

    /// A socket that nobody had before.
    pub(super) fn socket(&self) -> PathBuf {
        let number = self.sockets.fetch_add(1, Ordering::Relaxed);
        self.folder.join(format!("{number}.sock"))
    }

    /// An executor with a spinning thread on each of these processors.
    pub(super) fn executor(&self, cores: &[usize]) -> Result<CpuExecutor, Error> {
        let builder = CpuExecutor::builder().threads(cores.len()).pin(cores);
        Ok(builder.idle(IdlePolicy::SPIN).build()?)
    }

    /// Lets time pass.
    pub(super) fn pause(&self, time: Duration) -> Result<(), Error> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(GLANCE));
        }
    }

    /// An error once somebody asked for the end.
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    /// Millions a second of a counter of ours, after a while of warming up; counts for longer if
    /// nothing has come, as on a machine where nobody had a turn yet. Puts the threads of this
    /// process and of `peers` before others meanwhile, if that was asked for.
    pub(super) fn rate(&self, peers: &[u32], count: impl Fn() -> u64) -> Result<f64, Error> {
        let _first = self.first(peers)?;
        self.pause(WARM_UP)?;
        let (start, before) = (Instant::now(), count());
        let mut frames = 0;
        for _ in 0..PATIENT_COUNTS {
            self.pause(Duration::from_secs_f64(self.seconds))?;
            frames = count().saturating_sub(before);
            if frames > 0 {
                break;
            }
        }
        Ok(frames as f64 / start.elapsed().as_secs_f64() / 1e6)
    }

    /// Waits until a counter of ours stands still, for a second or two at most.
    pub(super) fn settle(&self, count: impl Fn() -> u64) -> Result<(), Error> {
        let mut before = count();
        for _ in 0..SETTLES {
            self.pause(SETTLE)?;
            let now = count();
            if now == before {
                break;
            }
            before = now;
        }
        Ok(())
    }

    /// A command that will run on one processor, and go before others if that was asked for.
    pub(super) fn on(&self, core: usize) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string()]);
        if self.urgent {
            command.args(["chrt", "--rr", "1"]);
        }
        command
    }

    /// Puts the threads of this process and of `peers` before others, if that was asked for.
    pub(super) fn first(&self, peers: &[u32]) -> Result<Option<machine::First>, Error> {
        self.check()?;
        let mut processes = vec![std::process::id()];
        processes.extend(peers);
        self.urgent
            .then(|| machine::First::put(processes))
            .transpose()
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        // Nobody is there to be told.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A figure, unless nothing arrived.
pub(super) fn sample(
    setting: &Setting,
    what: &'static str,
    value: f64,
    offered: u64,
    dropped: u64,
) -> Result<Sample, Error> {
    let seconds = setting.seconds;
    match value > 0.0 {
        true => Ok(Sample {
            value,
            dropped,
            offered,
            beside: Beside::default(),
        }),
        false => Err(Error::Silent { what, seconds }),
    }
}

/// As many frames of 64 bytes as there are slots for.
pub(super) fn traffic(source_mac: [u8; 6], destination_mac: [u8; 6]) -> GenerateEntry {
    let recipe = Recipe {
        source_mac,
        destination_mac,
        length: FRAME_BYTES,
        ..Recipe::default()
    };
    let frame = FrameEntry {
        name: "udp".to_owned(),
        weight: 1,
        flows: 1,
        frame: recipe.build(),
    };
    GenerateEntry {
        nic: 0,
        line: 0,
        rate: 0,
        count: 0,
        frames: vec![frame],
    }
}

/// Before a figure is taken.
pub(super) const WARM_UP: Duration = Duration::from_millis(200);
/// How long a counter stands still when all has arrived.
pub(super) const SETTLE: Duration = Duration::from_millis(60);
/// Looks at a counter until it is taken as it is.
pub(super) const SETTLES: u32 = 30;
/// How many times the usual time something may take to arrive.
pub(super) const PATIENT_COUNTS: u32 = 10;
/// How often the wish to end is looked at.
const GLANCE: Duration = Duration::from_millis(20);
