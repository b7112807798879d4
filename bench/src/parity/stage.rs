//! Memory of a launch besides the queues.
#![expect(
    unsafe_code,
    reason = "launches carry the promise of the queues that the stage owns"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpwire_core::block;
use warpwire_device::{KernelRow, VERDICT_OFFSET};
use warpwire_fuzz::job::Job;
use warpwire_gpu::Arena;
use warpwire_gpu::executor::Parameters;
use warpwire_ring::{DeviceAddress, Location};

use super::wires::Wire;

/// An arena for parameter blocks, tables and counters, beside the one of a wire.
pub(super) struct Stage {
    arena: Arc<Arena>,
    wire: Arc<Arena>,
    /// The heartbeat, with the word for the cause behind it.
    pub(super) heartbeat: DeviceAddress,
}

impl Stage {
    pub(super) fn new(wire: &impl Wire) -> Self {
        let arena = Arena::new(BYTES, Location::PageableHost).expect("memory can be had");
        let heartbeat = arena.allocate(128, 128).expect("fits").address;
        Self {
            heartbeat,
            arena: Arc::new(arena),
            wire: Arc::clone(&wire.pages().ground.0),
        }
    }

    /// Zeroed words.
    pub(super) fn cut(&self, bytes: usize) -> DeviceAddress {
        self.arena
            .allocate(bytes as u64, 128)
            .expect("fits")
            .address
    }

    pub(super) fn place<T: Copy>(&self, value: T) -> DeviceAddress {
        self.arena.place(value).expect("fits").address
    }

    /// A launch of a kernel with a parameter block that lies in this stage, or with a wrong address
    /// that it must refuse.
    pub(super) fn job<'a, P: block::Parameters>(
        &self,
        row: &'a KernelRow,
        block: DeviceAddress,
    ) -> Job<'a> {
        let memory = vec![Arc::clone(&self.arena), Arc::clone(&self.wire)];
        // SAFETY: the block, and all that it points to, lies in these arenas: the stage's, and the
        // wire's, whose queues nobody else drives meanwhile. The type of the block is the kernel's.
        let parameters = unsafe { Parameters::new(block, P::LAYOUT, memory) };
        Job {
            row,
            block,
            parameters,
        }
    }

    /// What ended the kernel that ran last, 0 if nothing did.
    pub(super) fn take_cause(&self) -> u32 {
        let word = self.arena.half_word(self.heartbeat.offset(VERDICT_OFFSET));
        word.expect("inside").swap(0, Ordering::Relaxed)
    }

    pub(super) fn words(&self, first: DeviceAddress, bytes: usize) -> Vec<u64> {
        let mut found = vec![0; bytes];
        self.arena.read(first, &mut found).expect("inside");
        let words = found.as_chunks::<8>().0.iter();
        words.map(|word| u64::from_ne_bytes(*word)).collect()
    }

    /// All bytes that a kernel could change.
    pub(super) fn image(&self) -> Vec<u8> {
        let mut image = Vec::new();
        for arena in [&self.arena, &self.wire] {
            let whole = arena.whole();
            let start = image.len();
            image.resize(start + whole.length as usize, 0);
            let read = arena.read(whole.address, &mut image[start..]);
            read.expect("inside");
        }
        image
    }
}

const BYTES: usize = 256 << 10;
