//! What the driver made, as values that give it back when they go.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{iter, panic, thread};

use warpwire_ring::DeviceAddress;

use crate::executor::cuda::code::Code;
use crate::executor::cuda::driver::{
    Answer, Context, DeviceHandle, Driver, Event, Function, FunctionAttribute, Kind, Module,
    Registration, Stream,
};
use crate::executor::cuda::error::Error;
use crate::executor::cuda::modules::{self, Part};

/// The primary context of a device. Everything that was made in it holds it.
#[derive(Debug)]
pub(super) struct Session {
    driver: Arc<dyn Driver>,
    device: DeviceHandle,
    context: Option<Context>,
    /// Host memory that is registered now, by its first byte.
    registered: Mutex<BTreeMap<u64, Mapped>>,
}

impl Session {
    pub(super) fn open(driver: Arc<dyn Driver>, device: DeviceHandle) -> Answer<Arc<Self>> {
        let context = driver.retain_context(device)?;
        Ok(Arc::new(Self {
            driver,
            device,
            context: Some(context),
            registered: Mutex::default(),
        }))
    }

    /// The driver, with the context current on this thread.
    pub(super) fn driver(&self) -> Answer<&dyn Driver> {
        if let Some(context) = &self.context {
            self.driver.set_current(context)?;
        }
        Ok(self.driver.as_ref())
    }

    /// Gives something back. A refusal has nobody to hear it: the context is lost then, and all
    /// that it held with it.
    pub(super) fn give_back(&self, back: impl FnOnce(&dyn Driver) -> Answer<()>) {
        if let Ok(driver) = self.driver() {
            let _ = back(driver);
        } else {
            let _ = back(self.driver.as_ref());
        }
    }

    /// Maps memory into the device, or shares the mapping that another launch made.
    pub(super) fn register(
        self: &Arc<Self>,
        address: u64,
        bytes: u64,
        kind: Kind,
    ) -> Result<Registered, Error> {
        let mut registered = lock(&self.registered);
        if let Some(found) = registered.get_mut(&address) {
            found.holders += 1;
        } else {
            let registration = self.map(address, bytes, kind)?;
            registered.insert(
                address,
                Mapped {
                    registration,
                    holders: 1,
                },
            );
        }
        Ok(Registered {
            session: Arc::clone(self),
            address,
        })
    }

    fn map(&self, address: u64, bytes: u64, kind: Kind) -> Result<Registration, Error> {
        let driver = self.driver()?;
        let made = driver.register(address, bytes, kind);
        let registration = made.map_err(|source| match source.code {
            Code::OUT_OF_MEMORY => Error::memory(bytes, "host memory to lock", source),
            _ => Error::Register {
                address: DeviceAddress::new(address),
                bytes,
                source,
            },
        })?;
        let refused = match driver.device_pointer(address) {
            Ok(seen) if seen == address => return Ok(registration),
            Ok(seen) => Error::Elsewhere {
                host: DeviceAddress::new(address),
                device: DeviceAddress::new(seen),
            },
            Err(source) => Error::Call(source),
        };
        self.give_back(|driver| driver.unregister(registration));
        Err(refused)
    }

    /// Another holder is gone; the last one takes the mapping along.
    fn let_go(&self, address: u64) {
        let mut registered = lock(&self.registered);
        let Some(found) = registered.get_mut(&address) else {
            return;
        };
        found.holders -= 1;
        if found.holders == 0
            && let Some(gone) = registered.remove(&address)
        {
            self.give_back(|driver| driver.unregister(gone.registration));
        }
    }
}

/// A mapping of host memory, and for how many it is kept.
#[derive(Debug)]
struct Mapped {
    registration: Registration,
    holders: u32,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(context) = self.context.take() {
            // As in `give_back`.
            let _ = self.driver.release_context(self.device, context);
        }
    }
}

/// Host memory that the device reaches, for as long as somebody holds this.
#[derive(Debug)]
pub(super) struct Registered {
    session: Arc<Session>,
    address: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.session.let_go(self.address);
    }
}

/// A kernel that was found in a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelInfo {
    /// The entry point.
    pub name: &'static str,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: spills and arrays.
    pub local_bytes: u32,
    /// Bytes of static shared memory of a block.
    pub shared_bytes: u32,
    /// Threads that a block may have.
    pub most_threads: u32,
    pub(super) function: Function,
}

/// Modules, with all their kernels on the device.
#[derive(Debug)]
pub(super) struct Program {
    session: Arc<Session>,
    modules: Vec<Module>,
    kernels: Vec<KernelInfo>,
}

impl Program {
    /// Loads PTX and every kernel in `names` at once: what is loaded later would wait for kernels
    /// that run.
    pub(super) fn load(
        session: &Arc<Session>,
        ptx: &str,
        names: &[&'static str],
    ) -> Result<Self, Error> {
        let mut program = Self {
            session: Arc::clone(session),
            modules: Vec::new(),
            kernels: Vec::new(),
        };
        let parts = modules::cut(ptx, names);
        let mut homes = BTreeMap::new();
        let mut failure = None;
        for (part, loaded) in parts.iter().zip(compile(session, &parts)) {
            match loaded {
                Ok(module) => {
                    let home = program.modules.len();
                    homes.extend(part.kernels.iter().map(|name| (*name, home)));
                    program.modules.push(module);
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        // Those that did load go with the program.
        if let Some(failure) = failure {
            return Err(failure);
        }
        let driver = session.driver()?;
        for &name in names {
            let module = homes.get(name).and_then(|home| program.modules.get(*home));
            let kernel = find(driver, module, name)?;
            program.kernels.push(kernel);
        }
        Ok(program)
    }

    pub(super) fn kernels(&self) -> &[KernelInfo] {
        &self.kernels
    }

    pub(super) fn kernel(&self, name: &str) -> Option<&KernelInfo> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}

/// Loads parts, as many at a time as there are processors. In the order of the parts.
fn compile(session: &Session, parts: &[Part<'_>]) -> Vec<Result<Module, Error>> {
    let load = |part: &Part<'_>| {
        let text = CString::new(part.ptx.as_str()).map_err(|_| Error::NotText)?;
        let loaded = session.driver()?.load_module(&text);
        loaded.map_err(|refused| Error::Load {
            source: refused.error,
            log: refused.log,
        })
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let mut loaded: Vec<(usize, Result<Module, Error>)> = thread::scope(|scope| {
        let work = || {
            let turns = iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
            let parts = turns.map_while(|turn| Some((turn, parts.get(turn)?)));
            parts.map(|(turn, part)| (turn, load(part))).collect()
        };
        let others = (1..threads.min(parts.len())).map(|_| scope.spawn(work));
        let others: Vec<_> = others.collect();
        let mut loaded: Vec<_> = work();
        for other in others {
            loaded.extend(other.join().unwrap_or_else(|why| panic::resume_unwind(why)));
        }
        loaded
    });
    loaded.sort_unstable_by_key(|(turn, _)| *turn);
    loaded.into_iter().map(|(_, module)| module).collect()
}

fn find(
    driver: &dyn Driver,
    module: Option<&Module>,
    name: &'static str,
) -> Result<KernelInfo, Error> {
    let absent = || Error::NoKernel {
        kernel: name.to_owned(),
    };
    let symbol = CString::new(name).map_err(|_| absent())?;
    let module = module.ok_or_else(absent)?;
    let refused = |source| Error::Kernel {
        kernel: name,
        source,
    };
    let function = match driver.function(module, &symbol) {
        Err(error) if error.code == Code::NOT_FOUND => return Err(absent()),
        answer => answer.map_err(refused)?,
    };
    driver.finish_loading(function).map_err(refused)?;
    let of = |attribute| driver.function_attribute(function, attribute);
    let of = |attribute| of(attribute).map_err(refused);
    Ok(KernelInfo {
        name,
        registers: of(FunctionAttribute::Registers)?,
        local_bytes: of(FunctionAttribute::LocalBytes)?,
        shared_bytes: of(FunctionAttribute::SharedBytes)?,
        most_threads: of(FunctionAttribute::MaxThreads)?,
        function,
    })
}

impl Drop for Program {
    fn drop(&mut self) {
        for module in self.modules.drain(..) {
            self.session
                .give_back(|driver| driver.unload_module(module));
        }
    }
}

/// A stream of the highest priority, and the event behind its last slice.
#[derive(Debug)]
pub(super) struct Lane {
    session: Arc<Session>,
    stream: Option<Stream>,
    event: Option<Event>,
}

impl Lane {
    pub(super) fn open(session: &Arc<Session>) -> Answer<Self> {
        let driver = session.driver()?;
        let stream = driver.create_stream(driver.highest_priority()?)?;
        let mut lane = Self {
            session: Arc::clone(session),
            stream: Some(stream),
            event: None,
        };
        lane.event = Some(driver.create_event()?);
        Ok(lane)
    }

    /// Does something with both.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&dyn Driver, &Stream, &Event) -> Answer<T>,
    ) -> Answer<Option<T>> {
        let driver = self.session.driver()?;
        match (&self.stream, &self.event) {
            (Some(stream), Some(event)) => work(driver, stream, event).map(Some),
            _ => Ok(None),
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(event) = self.event.take() {
            self.session.give_back(|driver| driver.destroy_event(event));
        }
        if let Some(stream) = self.stream.take() {
            self.session
                .give_back(|driver| driver.destroy_stream(stream));
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
