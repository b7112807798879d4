//! The CUDA executor: kernels of the PTX, in slices, on a GPU.
//!
//! The driver is loaded when an executor is opened and not before; without one, or with one that
//! does not fit, opening is refused with a sentence that names the cause and the cure.
//!
//! All memory that a launch names is mapped into the device at the host's addresses: what the
//! driver allocated ([`CudaExecutor::pinned`]) is there already, arenas and foreign memory are
//! registered where they lie, and unregistered after the last launch that uses them. Device memory
//! ([`CudaExecutor::device_memory`]) is reached by copies.
//!
//! A kernel runs a *slice* at a time: it returns after the turns that its parameter block says, and
//! the host launches it again, on a stream of the highest priority, until its stop word is set or
//! a block ends by itself. Everything of the PTX is on the device before the first launch; launches
//! whose blocks could not all run at one time are refused.

mod code;
mod device;
#[cfg(test)]
mod double;
mod driver;
mod error;
mod file;
mod launch;
mod library;
mod memory;
mod modules;
mod session;
mod slices;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use warpwire_device::KernelRow;
use warpwire_ring::Location;

use crate::arena::Arena;
use crate::executor::Control;
use crate::executor::error as executor;
use crate::executor::launch::{Grid, Parameters};

pub use code::{CallError, Code};
pub use device::Device;
pub use error::Error;
pub use launch::{BlockExit, Foreign, Launch, Report, Slices};
pub use memory::DeviceArena;
pub use session::KernelInfo;

use driver::{Driver, Kind, Shape};
use launch::Progress;
use library::Library;
use session::{Lane, Program, Registered, Session};
use slices::{Budget, Course, Held, Share};

/// Every GPU that the driver shows, at least one.
///
/// # Errors
/// Why there is none: [`Error::NoDriver`], [`Error::DriverTooOld`], [`Error::NoNodes`],
/// [`Error::Permission`], [`Error::NoDevice`].
pub fn devices() -> Result<Vec<Device>, Error> {
    let driver: Arc<dyn Driver> = Arc::new(Library::open()?);
    device::list(&driver)
}

/// The CUDA version that the driver knows: 12030 is 12.3.
///
/// # Errors
/// [`Error::NoDriver`], or what the driver refuses.
pub fn driver_version() -> Result<u32, Error> {
    Ok(Library::open()?.version()?)
}

/// Settings of a [`CudaExecutor`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Builder {
    ordinal: u32,
    slice: Duration,
    first_turns: u64,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            ordinal: 0,
            slice: Duration::from_millis(4),
            first_turns: 256,
        }
    }
}

impl Builder {
    /// Which device, from 0. Without a word: 0.
    #[must_use]
    pub fn device(self, ordinal: u32) -> Self {
        Self { ordinal, ..self }
    }

    /// How long a slice shall take; the turns of the next one are chosen by what the last one took.
    /// Without a word: 4 ms.
    #[must_use]
    pub fn slice(self, slice: Duration) -> Self {
        Self { slice, ..self }
    }

    /// Turns of the first slice, from 2 to 2^31. Without a word: 256.
    #[must_use]
    pub fn first_turns(self, first_turns: u64) -> Self {
        Self {
            first_turns: slices::bounded(first_turns),
            ..self
        }
    }

    /// Opens the device and loads every kernel of `names` from PTX.
    ///
    /// The driver compiles them, and keeps what it compiled for later runs. Of the product's, an
    /// engine (`transport_*`, `streams_*`, `perform_*`) takes it some 10 to 28 seconds, as its
    /// assembler says on the command line; each has a thread, as far as there are processors.
    ///
    /// # Errors
    /// Why there is no such device, or why it cannot run the PTX.
    pub fn open(self, ptx: &str, names: &[&'static str]) -> Result<CudaExecutor, Error> {
        self.open_with(Arc::new(Library::open()?), ptx, names)
    }

    fn open_with(
        self,
        driver: Arc<dyn Driver>,
        ptx: &str,
        names: &[&'static str],
    ) -> Result<CudaExecutor, Error> {
        let count = device::start(&driver)?;
        if self.ordinal >= count {
            return Err(Error::Ordinal {
                ordinal: self.ordinal,
                count,
            });
        }
        let (device, handle) = Device::ask(driver.as_ref(), self.ordinal)?;
        device.check()?;
        let session = Session::open(driver, handle)?;
        let program = Arc::new(Program::load(&session, ptx, names)?);
        Ok(CudaExecutor {
            program,
            session,
            device,
            builder: self,
            taken: Arc::default(),
        })
    }
}

/// Runs kernels on a GPU. See the module's text.
///
/// Dropping it ends nothing: launches hold what they need until they are over. Its calls leave the
/// primary context of the device current on the calling thread, as CUDA's own runtime does.
#[derive(Debug)]
pub struct CudaExecutor {
    program: Arc<Program>,
    session: Arc<Session>,
    device: Device,
    builder: Builder,
    /// What launches take of the device.
    taken: Arc<Mutex<u64>>,
}

impl CudaExecutor {
    /// The settings to start from.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The kernels that were loaded.
    pub fn kernels(&self) -> &[KernelInfo] {
        self.program.kernels()
    }

    /// Zeroed host memory that the driver allocates and locks, which kernels reach at the same
    /// addresses.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Elsewhere`], or what the driver refuses.
    pub fn pinned(&self, bytes: usize) -> Result<Arc<Arena>, Error> {
        memory::pinned(&self.session, bytes).map(Arc::new)
    }

    /// Zeroed memory of the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what the driver refuses.
    pub fn device_memory(&self, bytes: u64) -> Result<Arc<DeviceArena>, Error> {
        DeviceArena::new(&self.session, bytes).map(Arc::new)
    }

    /// Blocks of a kernel that the empty device can run at one time.
    ///
    /// # Errors
    /// [`Error::NoKernel`], or what the driver refuses.
    pub fn most_blocks(&self, kernel: &str, warps: u32) -> Result<u64, Error> {
        let info = self.info(kernel)?;
        let driver = self.session.driver()?;
        let a_multiprocessor = driver.blocks_a_multiprocessor(info.function, warps * LANES);
        let most = a_multiprocessor.map_err(|source| Error::Kernel {
            kernel: info.name,
            source,
        })?;
        Ok(u64::from(most) * u64::from(self.device.multiprocessors))
    }

    /// Starts `kernel` on all blocks of `grid` and launches it again and again.
    ///
    /// The parameter block names the stop word of the parameters' control, and heartbeats from that
    /// of warp 0 on, a block each.
    ///
    /// # Errors
    /// [`Error::Launch`] and [`Error::Turns`] for what does not fit together, [`Error::NoKernel`]
    /// for a kernel that was not loaded, [`Error::NotResident`] if not all blocks can run at the
    /// same time, [`Error::Register`], [`Error::Elsewhere`] and [`Error::OutOfMemory`] for memory
    /// that the device cannot reach, [`Error::Kernel`] for what the driver refuses otherwise.
    pub fn launch(
        &self,
        kernel: &KernelRow,
        grid: Grid,
        parameters: Parameters,
        slices: Slices,
    ) -> Result<Launch, Error> {
        let name = kernel.name;
        let control = match slices.turns {
            Some(_) => fitting(kernel, grid, &parameters)?,
            None => alone(kernel, grid, &parameters)?,
        };
        let function = self.info(name)?.function;
        let share = self.share(name, grid)?;
        let mut memory = parameters.memory;
        if parameters.control.is_some() {
            memory.push(Arc::clone(control.memory()));
        }
        let turns = match slices.turns {
            Some(address) => Some(slices::arena_of(&memory, address).ok_or(Error::Turns {
                kernel: name,
                address,
            })?),
            None => None,
        };
        let registered = self.reach(&memory, &slices)?;
        let slice = slices.slice.unwrap_or(self.builder.slice);
        let first_turns = slices.first_turns.unwrap_or(self.builder.first_turns);
        let progress = Arc::new(Progress::new(self.blank(name, grid, &memory)));
        let lane = Lane::open(&self.session).map_err(|source| Error::Kernel {
            kernel: name,
            source,
        })?;
        let course = Course {
            kernel: name,
            function,
            shape: Shape {
                blocks: grid.blocks,
                threads: grid.warps * LANES,
            },
            parameter: parameters.block.value(),
            control: control.clone(),
            turns,
            budget: Budget::new(first_turns, slice),
            progress: Arc::clone(&progress),
            lane,
            held: Held {
                _registered: registered,
                _memory: memory,
                slices,
                _program: Arc::clone(&self.program),
                _share: share,
            },
        };
        let thread = thread::Builder::new().name(format!("cuda-{name}"));
        let started = thread.spawn(move || course.run());
        started.map_err(|source| Error::Thread {
            kernel: name,
            source,
        })?;
        Ok(Launch {
            control,
            progress,
            slice,
        })
    }

    /// The part of the device that a grid takes, if it is free.
    fn share(&self, kernel: &'static str, grid: Grid) -> Result<Share, Error> {
        let most = self.most_blocks(kernel, grid.warps)?;
        Share::take(&self.taken, grid.blocks, most).map_err(|taken| Error::NotResident {
            kernel,
            blocks: grid.blocks,
            threads: grid.warps * LANES,
            most,
            taken,
        })
    }

    /// The report of a launch that has not begun.
    fn blank(&self, kernel: &'static str, grid: Grid, memory: &[Arc<Arena>]) -> Report {
        let stands_in =
            |arena: &Arc<Arena>| arena.emulated() && arena.location() == Location::Device;
        Report {
            kernel,
            grid,
            device: self.device.name.clone(),
            emulated: memory.iter().any(stands_in),
            elapsed: Duration::ZERO,
            slices: 0,
            longest_slice: Duration::ZERO,
            turns: 0,
            blocks: vec![BlockExit::Running; grid.blocks as usize],
        }
    }

    /// Maps all memory of a launch into the device.
    fn reach(&self, memory: &[Arc<Arena>], slices: &Slices) -> Result<Vec<Registered>, Error> {
        let arenas = memory.iter().filter(|arena| !arena.is_in_reach());
        let arenas = arenas.map(|arena| (arena.whole(), Kind::Memory));
        let foreign = slices.foreign.iter();
        let foreign = foreign.map(|one| (one.region(), Kind::Io));
        arenas
            .chain(foreign)
            .map(|(region, kind)| {
                let first = region.address.value();
                self.session.register(first, region.length, kind)
            })
            .collect()
    }

    fn info(&self, kernel: &str) -> Result<&KernelInfo, Error> {
        self.program.kernel(kernel).ok_or_else(|| Error::NoKernel {
            kernel: kernel.to_owned(),
        })
    }
}

/// Whether grid and layout are the kernel's.
fn check(kernel: &KernelRow, grid: Grid, parameters: &Parameters) -> Result<(), Error> {
    grid.check(kernel.name)?;
    match parameters.layout == kernel.layout {
        true => Ok(()),
        false => Err(Error::Launch(executor::Error::Layout {
            kernel: kernel.name,
            given: parameters.layout,
            expected: kernel.layout,
        })),
    }
}

/// The control of a launch of one slice: the kernel's, or one that it knows nothing of.
fn alone(kernel: &KernelRow, grid: Grid, parameters: &Parameters) -> Result<Control, Error> {
    if parameters.control.is_some() {
        return fitting(kernel, grid, parameters);
    }
    check(kernel, grid, parameters)?;
    let bytes = Control::bytes(grid.total()) as usize + PAGE;
    let arena = Arc::new(Arena::new(bytes, Location::PageableHost)?);
    Ok(Control::allocate(&arena, grid.total())?)
}

/// The control of a launch whose parts fit together.
fn fitting(kernel: &KernelRow, grid: Grid, parameters: &Parameters) -> Result<Control, Error> {
    let name = kernel.name;
    check(kernel, grid, parameters)?;
    let have = parameters.control.as_ref().map_or(0, |one| one.warps());
    match &parameters.control {
        Some(control) if have >= grid.total() => Ok(control.clone()),
        _ => Err(Error::Launch(executor::Error::Control {
            kernel: name,
            have,
            need: grid.total(),
        })),
    }
}

/// Room to begin at a line.
const PAGE: usize = 4096;

/// Lanes of a warp.
const LANES: u32 = 32;
