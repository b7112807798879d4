//! What the stand-in keeps: memory, modules, streams, events, and what runs.
#![expect(
    unsafe_code,
    reason = "memory and parameters carry the promises of the program that called"
)]

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use warpwire_device::{KernelRow, Lockstep, Scalar};
use warpwire_gpu::executor::{Backend, Error, Grid, IdlePolicy, Launch, Parameters};
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_ring::{Cause, DeviceAddress, Location};
use warpwire_virtual::{Module, VirtualGpu};

/// What a call answers: nothing, or the number of a `CUresult`.
pub(crate) type Answer<T = ()> = Result<T, u32>;

/// The numbers of `cuda.h` that the stand-in knows.
pub(crate) mod code {
    pub(crate) const INVALID_VALUE: u32 = 1;
    pub(crate) const OUT_OF_MEMORY: u32 = 2;
    pub(crate) const INVALID_DEVICE: u32 = 101;
    pub(crate) const INVALID_CONTEXT: u32 = 201;
    pub(crate) const INVALID_PTX: u32 = 218;
    pub(crate) const INVALID_HANDLE: u32 = 400;
    pub(crate) const NOT_FOUND: u32 = 500;
    pub(crate) const NOT_READY: u32 = 600;
    pub(crate) const ILLEGAL_ADDRESS: u32 = 700;
    pub(crate) const ALREADY_REGISTERED: u32 = 712;
    pub(crate) const NOT_REGISTERED: u32 = 713;
    pub(crate) const LAUNCH_FAILED: u32 = 719;
}

/// How memory came to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Device,
    Host,
    Registered,
}

/// Everything.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    next: u64,
    /// By its first byte.
    memory: BTreeMap<u64, (Origin, Arc<Arena>)>,
    modules: BTreeMap<u64, Arc<Loaded>>,
    functions: BTreeMap<u64, (Arc<Loaded>, &'static str)>,
    /// What was launched on a stream and has not been seen to end.
    streams: BTreeMap<u64, Vec<Running>>,
    /// What an event waits for.
    events: BTreeMap<u64, Vec<Running>>,
    /// What a kernel did wrong: every later call about kernels answers so, as the driver's do.
    broken: Option<u32>,
}

/// A kernel that runs, for all who ask about it.
type Running = Arc<Mutex<Option<Launch>>>;

/// A module, and what runs it.
#[derive(Debug)]
pub(crate) struct Loaded {
    executor: CpuExecutor,
    names: Vec<&'static str>,
}

impl Loaded {
    /// Reads PTX; what is wrong with it, as a sentence.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let module = Module::parse(text).map_err(|error| error.to_string())?;
        // A row's name lives for ever, as rows of tables do; a program loads few modules.
        let names = module.entries();
        let names = names
            .map(|name| &*Box::leak(name.to_owned().into_boxed_str()))
            .collect();
        let executor = CpuExecutor::builder()
            .backend(Backend::Virtual { seed: SEED })
            .program(Arc::new(VirtualGpu::new(module)))
            .idle(IdlePolicy::POLITE)
            .threads(1)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { executor, names })
    }
}

impl Machine {
    fn handle(&mut self) -> u64 {
        self.next += 16;
        self.next
    }

    pub(crate) fn allocate(&mut self, origin: Origin, bytes: usize) -> Answer<u64> {
        let location = match origin {
            Origin::Device => Location::Device,
            Origin::Host | Origin::Registered => Location::PinnedHost,
        };
        let arena = Arena::new(bytes, location).map_err(|_| code::OUT_OF_MEMORY)?;
        let address = arena.whole().address.value();
        self.memory.insert(address, (origin, Arc::new(arena)));
        Ok(address)
    }

    /// Knows the program's own memory as the device's, where it lies.
    pub(crate) fn register(&mut self, address: u64, bytes: usize) -> Answer {
        let base = NonNull::new(address as *mut u8).filter(|_| bytes > 0);
        let base = base.ok_or(code::INVALID_VALUE)?;
        if self.find(address, 1).is_ok() {
            return Err(code::ALREADY_REGISTERED);
        }
        // SAFETY: whoever registers memory keeps it mapped until it is unregistered, and says so
        // by the call.
        let arena = unsafe { Arena::foreign(base, bytes, Box::new(())) };
        let known = (Origin::Registered, Arc::new(arena));
        self.memory.insert(address, known);
        Ok(())
    }

    pub(crate) fn forget(&mut self, origin: Origin, address: u64) -> Answer {
        let otherwise = match origin {
            Origin::Registered => code::NOT_REGISTERED,
            Origin::Device | Origin::Host => code::INVALID_VALUE,
        };
        match self.memory.get(&address) {
            Some((known, _)) if *known == origin => {
                self.memory.remove(&address);
                Ok(())
            }
            _ => Err(otherwise),
        }
    }

    /// The memory that holds so many bytes from an address on.
    pub(crate) fn find(&self, address: u64, bytes: u64) -> Answer<Arc<Arena>> {
        let before = self.memory.range(..=address).next_back();
        let (_, (_, arena)) = before.ok_or(code::INVALID_VALUE)?;
        let inside = arena.whole().contains(DeviceAddress::new(address), bytes);
        inside.then(|| Arc::clone(arena)).ok_or(code::INVALID_VALUE)
    }

    pub(crate) fn copy(&self, from: u64, to: u64, bytes: usize) -> Answer {
        let mut between = vec![0; bytes];
        let source = self.find(from, bytes as u64)?;
        let target = self.find(to, bytes as u64)?;
        let read = source.read(DeviceAddress::new(from), &mut between);
        read.map_err(|_| code::INVALID_VALUE)?;
        let written = target.write(DeviceAddress::new(to), &between);
        written.map_err(|_| code::INVALID_VALUE)
    }

    pub(crate) fn load(&mut self, module: Loaded) -> u64 {
        let handle = self.handle();
        self.modules.insert(handle, Arc::new(module));
        handle
    }

    pub(crate) fn unload(&mut self, module: u64) -> Answer<Arc<Loaded>> {
        let gone = self.modules.remove(&module).ok_or(code::INVALID_HANDLE)?;
        self.functions.retain(|_, (of, _)| !Arc::ptr_eq(of, &gone));
        Ok(gone)
    }

    pub(crate) fn function(&mut self, module: u64, name: &str) -> Answer<u64> {
        let module = self.modules.get(&module).ok_or(code::INVALID_HANDLE)?;
        let module = Arc::clone(module);
        let mut names = module.names.iter();
        let name = *names.find(|known| **known == name).ok_or(code::NOT_FOUND)?;
        let handle = self.handle();
        self.functions.insert(handle, (module, name));
        Ok(handle)
    }

    pub(crate) fn is_function(&self, function: u64) -> Answer {
        let known = self.functions.contains_key(&function);
        known.then_some(()).ok_or(code::INVALID_HANDLE)
    }

    pub(crate) fn create_stream(&mut self) -> u64 {
        let handle = self.handle();
        self.streams.insert(handle, Vec::new());
        handle
    }

    pub(crate) fn destroy_stream(&mut self, stream: u64) -> Answer {
        let gone = self.streams.remove(&stream);
        gone.map(drop).ok_or(code::INVALID_HANDLE)
    }

    pub(crate) fn create_event(&mut self) -> u64 {
        let handle = self.handle();
        self.events.insert(handle, Vec::new());
        handle
    }

    pub(crate) fn destroy_event(&mut self, event: u64) -> Answer {
        let gone = self.events.remove(&event);
        gone.map(drop).ok_or(code::INVALID_HANDLE)
    }

    /// Waits for what the stream has to do now.
    pub(crate) fn record(&mut self, event: u64, stream: u64) -> Answer {
        let running = self.streams.get(&stream).ok_or(code::INVALID_HANDLE)?;
        let running = running.clone();
        let waits = self.events.get_mut(&event).ok_or(code::INVALID_HANDLE)?;
        *waits = running;
        Ok(())
    }

    pub(crate) fn query(&mut self, event: u64) -> Answer {
        let waits = self.events.get(&event).ok_or(code::INVALID_HANDLE)?;
        let waits = waits.clone();
        self.all_ended(&waits)
    }

    /// Whether the stream has nothing to do.
    pub(crate) fn is_idle(&mut self, stream: u64) -> Answer {
        let waits = self.streams.get(&stream).ok_or(code::INVALID_HANDLE)?;
        let waits = waits.clone();
        self.all_ended(&waits)
    }

    fn all_ended(&mut self, waits: &[Running]) -> Answer {
        if let Some(code) = self.broken {
            return Err(code);
        }
        for running in waits {
            let ended = end(running);
            if let Err(code) = ended
                && code != code::NOT_READY
            {
                self.broken = Some(code);
            }
            ended?;
        }
        for stream in self.streams.values_mut() {
            stream.retain(|running| !waits.iter().any(|one| Arc::ptr_eq(one, running)));
        }
        Ok(())
    }

    /// Starts a kernel; all memory that is known now is its own.
    pub(crate) fn launch(
        &mut self,
        function: u64,
        grid: Grid,
        stream: u64,
        parameter: u64,
    ) -> Answer {
        if let Some(code) = self.broken {
            return Err(code);
        }
        // A stream does one thing after the other; who launches here waits in between.
        self.is_idle(stream)?;
        let found = self.functions.get(&function).ok_or(code::INVALID_HANDLE)?;
        let (module, name) = found.clone();
        let memory = self.memory.values().map(|(_, arena)| Arc::clone(arena));
        let block = DeviceAddress::new(parameter);
        // SAFETY: whoever launches a kernel promises that its parameters are right; every access
        // is checked besides.
        let parameters = unsafe { Parameters::new(block, LAYOUT, memory.collect()) };
        let launch = module.executor.launch(&row(name), grid, parameters);
        let launch = launch.map_err(|error| told(&error, code::INVALID_VALUE))?;
        let running = self.streams.get_mut(&stream);
        let running = running.ok_or(code::INVALID_HANDLE)?;
        running.push(Arc::new(Mutex::new(Some(launch))));
        Ok(())
    }
}

/// Whether a kernel ended, and well.
fn end(running: &Running) -> Answer {
    let mut running = lock(running);
    let Some(launch) = running.take_if(|launch| launch.is_finished()) else {
        return match running.is_some() {
            true => Err(code::NOT_READY),
            false => Ok(()),
        };
    };
    match launch.join(Duration::ZERO) {
        Ok(_) => Ok(()),
        Err(error @ Error::Fault { .. }) => Err(told(&error, code::ILLEGAL_ADDRESS)),
        Err(error) => Err(told(&error, code::LAUNCH_FAILED)),
    }
}

/// Numbers say little: the sentence goes where the program's own words go.
fn told(error: &Error, code: u32) -> u32 {
    eprintln!("stand-in for CUDA's driver: {error}");
    code
}

/// The virtual GPU finds a kernel by its name; what a row has for processors is never called.
fn row(name: &'static str) -> KernelRow {
    fn scalar(_: &Scalar<'_>, _: DeviceAddress) -> u32 {
        Cause::LayoutMismatch as u32
    }
    fn lockstep(_: &Lockstep<'_>, _: DeviceAddress) -> u32 {
        Cause::LayoutMismatch as u32
    }
    KernelRow {
        name,
        layout: LAYOUT,
        scalar,
        lockstep,
    }
}

/// The machine of this process.
pub(crate) fn machine() -> MutexGuard<'static, Machine> {
    static MACHINE: LazyLock<Mutex<Machine>> = LazyLock::new(Mutex::default);
    lock(&MACHINE)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the parameters of all kernels hash to: the stand-in does not look at them.
const LAYOUT: u64 = 0;

/// Decides the order of what has none.
const SEED: u64 = 1;
