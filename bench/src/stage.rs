//! Memory of a launch besides the queues.
#![expect(
    unsafe_code,
    reason = "launches carry the promise of the queues that the stage owns"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpwire_core::block;
use warpwire_device::{KernelRow, VERDICT_OFFSET};
use warpwire_engine::streams::Bits;
use warpwire_fuzz::job::Job;
use warpwire_gpu::Arena;
use warpwire_gpu::executor::Parameters;
use warpwire_ring::{DeviceAddress, Location};

use crate::wires::Wire;

/// An arena for parameter blocks, tables and counters, and what other memory there is.
pub(crate) struct Stage {
    pub(crate) arena: Arc<Arena>,
    others: Vec<Arc<Arena>>,
    /// The heartbeat, with the word for the cause behind it.
    pub(crate) heartbeat: DeviceAddress,
}

impl Stage {
    /// Beside the memory of a wire.
    pub(crate) fn beside(wire: &impl Wire) -> Self {
        Self::new(vec![Arc::clone(&wire.pages().ground.0)])
    }

    pub(crate) fn new(others: Vec<Arc<Arena>>) -> Self {
        Self::of(BYTES, others)
    }

    /// With room for so many bytes.
    pub(crate) fn of(bytes: usize, others: Vec<Arc<Arena>>) -> Self {
        let arena = Arena::new(bytes, Location::PageableHost).expect("memory can be had");
        let heartbeat = arena.allocate(128, 128).expect("fits").address;
        Self {
            heartbeat,
            arena: Arc::new(arena),
            others,
        }
    }

    /// Zeroed words.
    pub(crate) fn cut(&self, bytes: usize) -> DeviceAddress {
        self.arena
            .allocate(bytes as u64, 128)
            .expect("fits")
            .address
    }

    pub(crate) fn place<T: Copy>(&self, value: T) -> DeviceAddress {
        self.arena.place(value).expect("fits").address
    }

    pub(crate) fn place_all<T: Copy>(&self, values: &[T]) -> DeviceAddress {
        self.arena.place_all(values).expect("fits").address
    }

    pub(crate) fn write(&self, address: DeviceAddress, bytes: &[u8]) {
        self.arena.write(address, bytes).expect("inside");
    }

    /// Writes a value where nobody else does meanwhile.
    pub(crate) fn write_value<T: Copy>(&self, address: DeviceAddress, value: T) {
        assert!(self.arena.whole().contains(address, size_of::<T>() as u64));
        // SAFETY: inside, and no kernel runs.
        unsafe { (address.value() as *mut T).write(value) };
    }

    /// A value of a type of which any bits are one, or that was written as such.
    pub(crate) fn read_value<T: Copy>(&self, address: DeviceAddress) -> T {
        assert!(self.arena.whole().contains(address, size_of::<T>() as u64));
        // SAFETY: inside, and no kernel runs.
        unsafe { (address.value() as *const T).read() }
    }

    /// A bitmap of so many bits.
    pub(crate) fn bits(&self, address: DeviceAddress, count: u32) -> Bits {
        assert!(self.arena.whole().contains(address, Bits::bytes(count)));
        // SAFETY: inside memory that was cut for it.
        unsafe { Bits::attach(address, count) }
    }

    pub(crate) fn half_word(&self, address: DeviceAddress) -> u32 {
        let word = self.arena.half_word(address).expect("inside");
        word.load(Ordering::Relaxed)
    }

    fn arenas(&self) -> impl Iterator<Item = &Arc<Arena>> {
        std::iter::once(&self.arena).chain(&self.others)
    }

    /// A launch of a kernel with a parameter block that lies in this stage, or with a wrong address
    /// that it must refuse.
    pub(crate) fn job<'a, P: block::Parameters>(
        &self,
        row: &'a KernelRow,
        block: DeviceAddress,
    ) -> Job<'a> {
        let memory = self.arenas().cloned().collect();
        // SAFETY: the block, and all that it points to, lies in these arenas; those besides the
        // stage's are a wire's, whose queues nobody else drives meanwhile. The type of the block is
        // the kernel's.
        let parameters = unsafe { Parameters::new(block, P::LAYOUT, memory) };
        Job {
            row,
            block,
            parameters,
        }
    }

    /// What ended the kernel that ran last, 0 if nothing did.
    pub(crate) fn take_cause(&self) -> u32 {
        let word = self.arena.half_word(self.heartbeat.offset(VERDICT_OFFSET));
        word.expect("inside").swap(0, Ordering::Relaxed)
    }

    pub(crate) fn words(&self, first: DeviceAddress, bytes: usize) -> Vec<u64> {
        let mut found = vec![0; bytes];
        self.arena.read(first, &mut found).expect("inside");
        let words = found.as_chunks::<8>().0.iter();
        words.map(|word| u64::from_ne_bytes(*word)).collect()
    }

    /// All bytes that a kernel could change.
    pub(crate) fn image(&self) -> Vec<u8> {
        let mut image = Vec::new();
        for arena in self.arenas() {
            let whole = arena.whole();
            let start = image.len();
            image.resize(start + whole.length as usize, 0);
            let read = arena.read(whole.address, &mut image[start..]);
            read.expect("inside");
        }
        image
    }
}

const BYTES: usize = 512 << 10;
