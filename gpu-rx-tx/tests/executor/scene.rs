//! Kernels for the tests, and the memory that they run on.
#![expect(
    unsafe_code,
    reason = "kernels get an address and promise to know what is there"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warpwire_device::{KernelRow, Lockstep, Scalar, SharedCounter, SharedWord, Simt};
use warpwire_gpu::Arena;
use warpwire_gpu::executor::{Builder, Control, CpuExecutor, Grid, IdlePolicy, Parameters};
use warpwire_ring::{Cause, DeviceAddress, Location, layout_hash};

/// What every test kernel gets.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Block {
    pub(crate) stop: DeviceAddress,
    /// Counters of 64 bits, [`WORDS`] of them.
    pub(crate) words: DeviceAddress,
    pub(crate) rounds: u64,
}

pub(crate) const WORDS: u64 = 512;
pub(crate) const LAYOUT: u64 = layout_hash!(Block {
    stop,
    words,
    rounds
});

/// What a test kernel sees of its block.
#[derive(Clone, Copy)]
pub(crate) struct View {
    block: Block,
}

impl View {
    pub(crate) fn stopped(&self) -> bool {
        // SAFETY: the scene placed the word and keeps its memory.
        unsafe { SharedWord::attach(self.block.stop) }.load() != 0
    }

    pub(crate) fn add<S: Simt>(&self, simt: &S, word: u64, value: u64) {
        assert!(word < WORDS, "the kernel stays within its words");
        // SAFETY: within the words that the scene placed.
        let counter = unsafe { SharedCounter::attach(self.block.words.offset(word * 8)) };
        simt.add(counter, value);
    }

    pub(crate) fn word(&self, word: u64) -> u64 {
        assert!(word < WORDS, "the kernel stays within its words");
        // SAFETY: within the words that the scene placed.
        unsafe { SharedCounter::attach(self.block.words.offset(word * 8)) }.value()
    }

    pub(crate) fn rounds(&self) -> u64 {
        self.block.rounds
    }
}

/// # Safety
/// `block` is the address of a [`Block`].
unsafe fn view(block: DeviceAddress) -> View {
    // SAFETY: the caller's promise.
    let block = unsafe { *(block.value() as *const Block) };
    View { block }
}

/// A test kernel, for both backends.
pub(crate) trait Kernel {
    const NAME: &'static str;
    fn run<S: Simt>(simt: &S, view: View) -> u32;
}

pub(crate) fn row_of<K: Kernel>() -> KernelRow {
    KernelRow {
        name: K::NAME,
        layout: LAYOUT,
        scalar: scalar::<K>,
        lockstep: lockstep::<K>,
    }
}

/// # Safety
/// As [`view`].
unsafe fn scalar<K: Kernel>(simt: &Scalar<'_>, block: DeviceAddress) -> u32 {
    // SAFETY: the caller's promise.
    K::run(simt, unsafe { view(block) })
}

/// # Safety
/// As [`view`].
unsafe fn lockstep<K: Kernel>(simt: &Lockstep<'_>, block: DeviceAddress) -> u32 {
    // SAFETY: the caller's promise.
    K::run(simt, unsafe { view(block) })
}

/// Makes the row of a kernel `fn name<S: Simt>(simt: &S, view: View) -> u32`.
macro_rules! row {
    ($name:ident) => {{
        struct Row;
        impl crate::scene::Kernel for Row {
            const NAME: &'static str = stringify!($name);
            fn run<S: warpwire_device::Simt>(simt: &S, view: crate::scene::View) -> u32 {
                $name(simt, view)
            }
        }
        crate::scene::row_of::<Row>()
    }};
}
pub(crate) use row;

/// Memory with a block, words and control in it.
pub(crate) struct Scene {
    pub(crate) arena: Arc<Arena>,
    pub(crate) control: Control,
    words: DeviceAddress,
    block: DeviceAddress,
}

impl Scene {
    pub(crate) fn new(grid: Grid, rounds: u64) -> Self {
        let bytes = (1 << 16) + Control::bytes(grid.total()) as usize;
        let arena = Arc::new(Arena::new(bytes, Location::Device).expect("maps"));
        let control = Control::allocate(&arena, grid.total()).expect("fits");
        let words = arena.allocate(WORDS * 8, 128).expect("fits").address;
        let block = Block {
            stop: control.stop_address(),
            words,
            rounds,
        };
        let block = arena.place(block).expect("fits").address;
        Self {
            arena,
            control,
            words,
            block,
        }
    }

    pub(crate) fn parameters(&self) -> Parameters {
        self.parameters_of_layout(LAYOUT)
    }

    pub(crate) fn parameters_of_layout(&self, layout: u64) -> Parameters {
        let memory = vec![Arc::clone(&self.arena)];
        // SAFETY: the block is of that layout (or the launch is refused), its addresses lie in the
        // arena.
        let parameters = unsafe { Parameters::new(self.block, layout, memory) };
        parameters.control(self.control.clone())
    }

    pub(crate) fn word_address(&self, word: u64) -> DeviceAddress {
        self.words.offset(word * 8)
    }

    pub(crate) fn word(&self, word: u64) -> u64 {
        let word = self.arena.word(self.word_address(word)).expect("inside");
        word.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, word: u64, value: u64) {
        let word = self.arena.word(self.word_address(word)).expect("inside");
        word.store(value, Ordering::Relaxed);
    }
}

/// An executor that is polite to the other tests of this machine.
pub(crate) fn polite() -> Builder {
    CpuExecutor::builder().idle(IdlePolicy::POLITE)
}

/// Long enough for anything that ends at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const ABORTED: u32 = Cause::Aborted as u32;
