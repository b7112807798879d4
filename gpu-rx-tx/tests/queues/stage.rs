//! Runs a kernel over a port.
#![expect(
    unsafe_code,
    reason = "launches carry the promise of the queues that the test owns"
)]

use std::sync::Arc;
use std::time::Duration;

use warpwire_device::KernelRow;
use warpwire_gpu::Arena;
use warpwire_gpu::executor::{Backend, CpuExecutor, Exit, Grid, IdlePolicy, Parameters};
use warpwire_ring::{Location, QueueBlock, Region};

use crate::kernels::{LAYOUT, SUMS, Work};

/// An executor, and what kernels need besides their queues.
pub(crate) struct Stage {
    executor: CpuExecutor,
    arena: Arc<Arena>,
    sums: Region,
    area: Region,
}

const AREA_BYTES: u64 = 256 << 10;

impl Stage {
    pub(crate) fn new(backend: Backend) -> Self {
        let executor = CpuExecutor::builder()
            .idle(IdlePolicy::POLITE)
            .backend(backend)
            .build()
            .expect("builds");
        let arena = Arc::new(Arena::new(512 << 10, Location::Device).expect("maps"));
        let sums = arena.allocate(u64::from(SUMS) * 8, 128).expect("fits");
        let area = arena.allocate(AREA_BYTES, 4096).expect("fits");
        Self {
            executor,
            arena,
            sums,
            area,
        }
    }

    /// Runs a kernel to its end; what it returned. `blocks` names memory that the caller keeps.
    pub(crate) fn run(
        &self,
        row: &KernelRow,
        blocks: (QueueBlock, QueueBlock),
        (rounds, batch, salt): (u64, u64, u64),
    ) -> u32 {
        let work = Work {
            rx: blocks.0,
            tx: blocks.1,
            area: self.area,
            sums: self.sums.address,
            rounds,
            batch,
            salt,
        };
        let arena = Arc::new(Arena::new(16 << 10, Location::Device).expect("maps"));
        let block = arena.place(work).expect("fits").address;
        let memory = vec![arena, Arc::clone(&self.arena)];
        // SAFETY: the block is there; the queues' memory is the caller's, who waits for the end.
        let parameters = unsafe { Parameters::new(block, LAYOUT, memory) };
        let launch = self
            .executor
            .launch(row, Grid::ONE, parameters)
            .expect("launches");
        let report = launch.join(PATIENCE).expect("ends");
        match report.warps[0].exit {
            Exit::Returned(code) => code,
            other => panic!("the warp ended by {other:?}"),
        }
    }

    pub(crate) fn sums(&self) -> Vec<u64> {
        let mut bytes = [0; SUMS as usize * 8];
        let read = self.arena.read(self.sums.address, &mut bytes);
        read.expect("inside");
        let words = bytes.chunks_exact(8);
        words
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .collect()
    }

    /// The first `length` bytes that kernels gathered.
    pub(crate) fn gathered(&self, length: u64) -> Vec<u8> {
        let mut bytes = vec![0; length as usize];
        let read = self.arena.read(self.area.address, &mut bytes);
        read.expect("inside");
        bytes
    }
}

/// Long enough for anything that ends at all.
const PATIENCE: Duration = Duration::from_secs(60);
