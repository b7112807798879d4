//! The virtual GPU as the executor's program.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use warpwire_device::Place;
use warpwire_gpu::executor::{Assignment, Loaded, Program, ProgramFault, Progress, WarpMachine};

use crate::column::LANES;
use crate::count::KernelCounts;
use crate::memory::{Regions, Shared};
use crate::module::Module;
use crate::observer::{Unwatched, Watch};
use crate::warp::{Setting, Turn, Warp};

/// A virtual GPU with one module loaded: a program for an executor with `Backend::Virtual`.
///
/// Kernels are found by their names. Each launch has a fresh copy of the module's variables.
pub struct VirtualGpu<W: Watch = Unwatched> {
    module: Arc<Module>,
    watch: Arc<W>,
    dynamic_shared_bytes: u64,
    counts: Arc<Counts>,
}

/// By kernel.
type Counts = Mutex<BTreeMap<&'static str, KernelCounts>>;

impl VirtualGpu {
    /// Nobody watches.
    pub fn new(module: Module) -> Self {
        Self::watched(module, Unwatched)
    }
}

impl<W: Watch> VirtualGpu<W> {
    /// Every access is told to an observer that `watch` makes for each warp.
    pub fn watched(module: Module, watch: W) -> Self {
        Self {
            module: Arc::new(module),
            watch: Arc::new(watch),
            dynamic_shared_bytes: 0,
            counts: Arc::default(),
        }
    }

    /// Bytes of shared memory that each block has behind its static variables. Without a word: 0.
    #[must_use]
    pub fn dynamic_shared_bytes(self, bytes: u32) -> Self {
        Self {
            dynamic_shared_bytes: u64::from(bytes),
            ..self
        }
    }

    /// What was loaded.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// What watches.
    pub fn watch(&self) -> &W {
        &self.watch
    }

    /// What the warps did that ended so far, by kernel.
    pub fn counts(&self) -> BTreeMap<&'static str, KernelCounts> {
        self.counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn entry(&self, assignment: &Assignment<'_>) -> Result<usize, String> {
        let name = assignment.kernel;
        let Some(&entry) = self.module.entries.get(name) else {
            return Err(format!("the PTX has no entry point `{name}`"));
        };
        let function = self.module.functions.get(entry);
        let threads = u64::from(assignment.grid.warps) * LANES as u64;
        if let Some(most) = function.and_then(|function| function.most_threads)
            && threads > most
        {
            return Err(format!(
                "a block has {threads} threads and the PTX allows {most}; launch fewer warps"
            ));
        }
        let parameters = function.map_or(&[][..], |function| &function.parameters);
        if parameters.len() > 1 || parameters.iter().any(|span| span.bytes != 8) {
            return Err("it takes more than one pointer".to_owned());
        }
        Ok(entry)
    }
}

impl<W: Watch> fmt::Debug for VirtualGpu<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.module.entries.len();
        write!(f, "VirtualGpu({entries} kernels, {:?})", self.watch)
    }
}

impl<W: Watch> Program for VirtualGpu<W> {
    fn load(&self, assignment: &Assignment<'_>) -> Result<Box<dyn Loaded>, String> {
        let entry = self.entry(assignment)?;
        let words = |error: warpwire_gpu::arena::ArenaError| error.to_string();
        let regions = Regions::new(assignment.memory, &self.module.tables).map_err(words)?;
        let bytes = self.module.shared_bytes + self.dynamic_shared_bytes;
        // Blocks without shared memory share that they have none.
        let count = match bytes {
            0 => 1,
            _ => assignment.grid.blocks,
        };
        let shared: Result<Vec<_>, _> = (0..count)
            .map(|_| Shared::new(bytes).map(Arc::new))
            .collect();
        let clock = assignment.clock.clone();
        let setting = Setting {
            module: Arc::clone(&self.module),
            entry,
            parameter: assignment.block.value(),
            regions: Arc::new(regions),
            dynamic_shared_bytes: self.dynamic_shared_bytes,
            now_ns: Arc::new(move || clock.now_ns()),
            seed: assignment.seed,
        };
        let shared = shared.map_err(words)?;
        Ok(Box::new(Launched::<W> {
            kernel: assignment.kernel,
            setting,
            shared,
            watch: Arc::clone(&self.watch),
            counts: Arc::clone(&self.counts),
        }))
    }
}

/// A launch.
struct Launched<W: Watch> {
    kernel: &'static str,
    setting: Setting,
    shared: Vec<Arc<Shared>>,
    watch: Arc<W>,
    counts: Arc<Counts>,
}

impl<W: Watch> Loaded for Launched<W> {
    fn warp(&self, place: Place) -> Result<Box<dyn WarpMachine>, String> {
        let observer = self.watch.observer(self.kernel, place);
        let block = place.block as usize % self.shared.len().max(1);
        let Some(shared) = self.shared.get(block) else {
            return Err("the block has no shared memory".to_owned());
        };
        let warp = Warp::new(&self.setting, place, Arc::clone(shared), observer);
        Ok(Box::new(Machine::<W> {
            kernel: self.kernel,
            warp: warp.map_err(|reason| reason.to_string())?,
            module: Arc::clone(&self.setting.module),
            counts: Arc::clone(&self.counts),
        }))
    }
}

/// A warp that counts when it is over.
struct Machine<W: Watch> {
    kernel: &'static str,
    warp: Warp<W::Observer>,
    module: Arc<Module>,
    counts: Arc<Counts>,
}

impl<W: Watch> WarpMachine for Machine<W> {
    fn turn(&mut self) -> Progress {
        match self.warp.turn() {
            Ok(Turn::Paused) => Progress::Paused,
            Ok(Turn::Busy) => Progress::Busy,
            Ok(Turn::Interrupted) => Progress::Interrupted,
            Ok(Turn::Barrier) => Progress::Barrier,
            // Entry points return nothing on a GPU.
            Ok(Turn::Ended) => Progress::Ended(0),
            Err(fault) => Progress::Fault(ProgramFault {
                lane: fault.lane,
                reason: fault.to_string(),
            }),
        }
    }

    fn stand(&self) -> String {
        self.warp.stand()
    }
}

impl<W: Watch> Drop for Machine<W> {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = counts.entry(self.kernel).or_default();
        counts.add(&self.module, &self.warp.counters);
    }
}
