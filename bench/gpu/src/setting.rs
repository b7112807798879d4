//! What the parts work with: the PTX, the device, the executor.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use warpwire_core::kernels::entries;
use warpwire_device::KernelRow;
use warpwire_gpu::executor::cuda::{self, CudaExecutor, Device};
use warpwire_pipelines::Kit;

use crate::figures::short;
use crate::machine;
use crate::options::Options;
use crate::part::Found;

/// Why nothing can be checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// There is no GPU to run on.
    #[error("{0}")]
    NoGpu(cuda::Error),
    /// A device that is not there.
    #[error("--device {ordinal}: there is no such GPU; name one from 0 to {}", count - 1)]
    Ordinal { ordinal: u32, count: usize },
    /// The PTX cannot be read.
    #[error("{path}: {source}; name the PTX with --ptx", path = path.display())]
    Ptx {
        path: PathBuf,
        source: std::io::Error,
    },
    /// The programs for comparisons cannot be read.
    #[error("{path}: {source}; name the folder with --corpus", path = path.display())]
    Corpus {
        path: PathBuf,
        source: std::io::Error,
    },
}

impl Refusal {
    /// The status to exit with.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::NoGpu(_) => 3,
            Self::Ordinal { .. } | Self::Ptx { .. } | Self::Corpus { .. } => 2,
        }
    }
}

/// The device, in the record.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OnDevice {
    pub(crate) name: String,
    /// Whether it is a GPU, and not a stand-in for one.
    pub(crate) on_hardware: bool,
    pub(crate) pci: String,
    pub(crate) compute_capability: (u32, u32),
    pub(crate) multiprocessors: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) integrated: bool,
    /// The CUDA version that the driver knows.
    pub(crate) cuda: String,
    /// The version of the kernel module.
    pub(crate) driver: Option<String>,
}

/// The PTX, in the record.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OnPtx {
    /// Of the whole text.
    pub(crate) sha256: String,
    /// The hash of its sources that it carries.
    pub(crate) sources: Option<String>,
}

/// What is there before anything is loaded.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    pub(crate) device: OnDevice,
    pub(crate) ptx: OnPtx,
    pub(crate) text: String,
    /// The folder of programs for comparisons.
    pub(crate) corpus: PathBuf,
    pub(crate) ordinal: u32,
    pub(crate) quick: bool,
}

impl Ground {
    /// Reads the PTX and looks for the device.
    pub(crate) fn find(options: &Options) -> Result<Self, Refusal> {
        let path = options
            .ptx
            .clone()
            .unwrap_or_else(|| beside("warpwire.ptx"));
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|source| Refusal::Ptx { path, source })?;
        let corpus = options.corpus.clone().unwrap_or_else(|| beside("corpus"));
        if let Err(source) = std::fs::read_dir(&corpus) {
            return Err(Refusal::Corpus {
                path: corpus,
                source,
            });
        }
        let devices = cuda::devices().map_err(Refusal::NoGpu)?;
        let ordinal = options.device;
        let device = devices.get(ordinal as usize);
        let device = device.ok_or(Refusal::Ordinal {
            ordinal,
            count: devices.len(),
        })?;
        device.check().map_err(Refusal::NoGpu)?;
        let version = cuda::driver_version().map_err(Refusal::NoGpu)?;
        Ok(Self {
            device: on_device(device, version),
            ptx: on_ptx(&text),
            text,
            corpus,
            ordinal,
            quick: options.quick,
        })
    }
}

fn on_device(device: &Device, version: u32) -> OnDevice {
    let on_hardware = !device.name.to_lowercase().contains(STAND_IN);
    OnDevice {
        name: device.name.clone(),
        on_hardware,
        pci: device.pci.clone(),
        compute_capability: device.capability,
        multiprocessors: device.multiprocessors,
        memory_bytes: device.memory_bytes,
        integrated: device.integrated,
        cuda: format!("{}.{}", version / 1000, version % 1000 / 10),
        // A machine with a GPU may run the stand-in all the same.
        driver: machine::driver().filter(|_| on_hardware),
    }
}

fn on_ptx(text: &str) -> OnPtx {
    let digest = Sha256::digest(text.as_bytes());
    let sources = text.lines().take(10);
    let mut sources = sources.filter_map(|line| line.strip_prefix("// sources: sha256:"));
    OnPtx {
        sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        sources: sources.next().map(|hash| hash.trim().to_owned()),
    }
}

/// What lies beside this program.
fn beside(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name(name)
}

/// A device with all kernels on it.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) cuda: Arc<CudaExecutor>,
    pub(crate) quick: bool,
    pub(crate) on_hardware: bool,
}

impl Setting {
    /// Loads every kernel.
    pub(crate) fn open(ground: &Ground) -> Result<(Self, Found), String> {
        let mut names = Kit::built_in().device_kernels();
        let more = [
            entries::gauges(),
            entries::transports(),
            entries::streams(),
            entries::gatherers(),
            entries::servers(),
            entries::applications(),
        ];
        names.extend(more.into_iter().flatten().map(|row| row.name));
        let began = Instant::now();
        let builder = CudaExecutor::builder().device(ground.ordinal);
        let opened = builder.open(&ground.text, &names);
        let cuda = opened.map_err(|error| error.to_string())?;
        let seconds = short(began.elapsed().as_secs_f64());
        let kernels: Vec<_> = cuda
            .kernels()
            .iter()
            .map(|kernel| {
                json!({
                    "name": kernel.name,
                    "registers": kernel.registers,
                    "local_bytes": kernel.local_bytes,
                    "most_blocks": cuda.most_blocks(kernel.name, 1).ok(),
                })
            })
            .collect();
        let found = Found {
            lines: vec![(
                "kernels".to_owned(),
                format!("{} in {seconds} s", kernels.len()),
            )],
            values: json!({ "seconds": seconds, "kernels": kernels }),
            failure: None,
        };
        let setting = Self {
            cuda: Arc::new(cuda),
            quick: ground.quick,
            on_hardware: ground.device.on_hardware,
        };
        Ok((setting, found))
    }

    /// One number for a GPU, another for the quick way.
    pub(crate) fn size<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// A kernel's row.
pub(crate) fn row(name: &str) -> Result<&'static KernelRow, String> {
    let gauges = entries::gauges().iter();
    let mut rows = gauges.chain(entries::measuring());
    let row = rows.find(|row| row.name == name);
    row.ok_or_else(|| format!("there is no kernel `{name}`"))
}

/// What the name of a device has that is none.
const STAND_IN: &str = "stand-in";
