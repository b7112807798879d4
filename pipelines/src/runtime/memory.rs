//! Memory for a launch: tables for the kernel to read, counters for the host to read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpwire_gpu::arena::ArenaError;
use warpwire_gpu::executor::Control;
use warpwire_gpu::executor::cuda::DeviceArena;
use warpwire_gpu::{Arena, CudaExecutor};
use warpwire_ring::{DeviceAddress, Location};

use crate::runtime::Error;

/// Arenas that a launch keeps, made as it is laid out.
#[derive(Debug, Default)]
pub(super) struct Memory {
    arenas: Vec<Arc<Arena>>,
    /// The GPU that tables go to, if kernels run on one.
    gpu: Option<Arc<CudaExecutor>>,
    tables: Vec<Arc<DeviceArena>>,
}

/// What a launch keeps.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    pub(super) arenas: Vec<Arc<Arena>>,
    /// Tables in the memory of a GPU.
    pub(super) tables: Vec<Arc<DeviceArena>>,
}

/// A row of counters that a kernel adds to.
#[derive(Clone, Debug)]
pub(super) struct Row {
    arena: Arc<Arena>,
    pub(super) address: DeviceAddress,
    pub(super) entries: u32,
}

impl Memory {
    /// For kernels that run on `gpu`, or on the CPU.
    pub(super) fn of(gpu: Option<&Arc<CudaExecutor>>) -> Self {
        Self {
            gpu: gpu.cloned(),
            ..Self::default()
        }
    }

    /// Places a table that the kernel reads and nobody changes, in device memory.
    pub(super) fn table<T: Copy>(&mut self, values: &[T]) -> Result<DeviceAddress, Error> {
        if values.is_empty() {
            return Ok(DeviceAddress::NULL);
        }
        let bytes = size_of_val(values);
        let arena = Arena::new(bytes + align_of::<T>(), Location::Device)?;
        let region = arena.place_all(values)?;
        let Some(gpu) = &self.gpu else {
            self.arenas.push(Arc::new(arena));
            return Ok(region.address);
        };
        let mut image = vec![0; bytes];
        arena.read(region.address, &mut image)?;
        let table = gpu.device_memory(bytes as u64)?;
        let address = table.whole().address;
        table.write(address, &image)?;
        self.tables.push(table);
        Ok(address)
    }

    /// Places one block that the kernel writes and the host reads, in pinned memory.
    pub(super) fn shared<T: Copy>(
        &mut self,
        value: T,
    ) -> Result<(Arc<Arena>, DeviceAddress), ArenaError> {
        let arena = self.arena(size_of::<T>() + align_of::<T>(), Location::PinnedHost)?;
        let address = arena.place(value)?.address;
        Ok((arena, address))
    }

    /// What a kernel shall beat: on the CPU the executor does so for its warps.
    pub(super) fn heartbeats(&self, control: &Control) -> DeviceAddress {
        let first = self.gpu.as_ref().and(control.heartbeat_address(0));
        first.unwrap_or(DeviceAddress::NULL)
    }

    /// Counters that start at zero, in pinned memory.
    pub(super) fn counters(&mut self, entries: u32) -> Result<Row, ArenaError> {
        let bytes = u64::from(entries) * 8;
        let arena = self.arena(bytes as usize + 128, Location::PinnedHost)?;
        let address = arena.allocate(bytes, 128)?.address;
        Ok(Row {
            arena,
            address,
            entries,
        })
    }

    /// Zeroed bytes that the kernel writes and the host reads.
    pub(super) fn zeroed(&mut self, bytes: u64) -> Result<(Arc<Arena>, DeviceAddress), ArenaError> {
        let arena = self.arena(bytes as usize + 4096, Location::PinnedHost)?;
        let address = arena.allocate(bytes, 4096)?.address;
        Ok((arena, address))
    }

    /// Keeps memory that somebody else made.
    pub(super) fn keep(&mut self, arenas: &[Arc<Arena>]) {
        self.arenas.extend(arenas.iter().cloned());
    }

    /// An arena of its own.
    pub(super) fn arena(
        &mut self,
        bytes: usize,
        location: Location,
    ) -> Result<Arc<Arena>, ArenaError> {
        let arena = Arc::new(Arena::new(bytes, location)?);
        self.arenas.push(Arc::clone(&arena));
        Ok(arena)
    }

    /// Everything, for the launch to hold.
    pub(super) fn keep_all(self) -> Kept {
        Kept {
            arenas: self.arenas,
            tables: self.tables,
        }
    }
}

impl Row {
    /// Entry `index` now; 0 if there is none.
    pub(super) fn value(&self, index: u32) -> u64 {
        if index >= self.entries {
            return 0;
        }
        word(&self.arena, self.address.offset(u64::from(index) * 8))
    }

    /// `count` entries from `first` on.
    pub(super) fn values(&self, first: u32, count: u32) -> impl Iterator<Item = u64> {
        (first..first.saturating_add(count)).map(|index| self.value(index))
    }
}

/// A 64-bit word of an arena; 0 if it lies elsewhere.
pub(super) fn word(arena: &Arena, address: DeviceAddress) -> u64 {
    let word = arena.word(address);
    word.map_or(0, |word| word.load(Ordering::Relaxed))
}

/// A 64-bit word that lies in one of some arenas; 0 if in none.
pub(super) fn word_among(arenas: &[Arc<Arena>], address: DeviceAddress) -> u64 {
    let found = arenas.iter().find_map(|arena| arena.word(address).ok());
    found.map_or(0, |word| word.load(Ordering::Relaxed))
}
