//! The probes: a frame a thread, 64 bytes loaded by four aligned 16-byte loads.
#![expect(
    unsafe_code,
    reason = "entry points take a raw pointer to their parameters"
)]

use core::arch::nvptx;
use warpwire_protocols::checksum::{Crc32, Shift, icrc};
use warpwire_protocols::parse::{Extent, Fast, Headers, Tail, Window, parse_fast_with};

/// What the host passes: one pointer to this block. Each array has an element for each thread.
#[repr(C)]
pub(crate) struct Parameters {
    windows: *const Window,
    tails: *const Tail,
    extents: *const Extent,
    headers: *mut Headers,
    words: *mut u32,
}

/// A thread's elements.
struct Row {
    window: Window,
    parameters: &'static Parameters,
    index: usize,
}

impl Row {
    /// # Safety
    /// The promise of every probe: the block and its arrays are live device memory, aligned, and
    /// have an element for each thread.
    #[inline(always)]
    unsafe fn load(parameters: *const Parameters) -> Self {
        // SAFETY: reads a register.
        let index = unsafe { nvptx::_thread_idx_x() } as usize;
        // SAFETY: the caller's promise.
        let parameters = unsafe { &*parameters };
        // SAFETY: the caller's promise.
        let window = unsafe { parameters.windows.add(index).read() };
        Self {
            window,
            parameters,
            index,
        }
    }

    #[inline(always)]
    fn store(&self, word: u32) {
        // SAFETY: the promise that this row was loaded under.
        unsafe { self.parameters.words.add(self.index).write(word) };
    }
}

/// Loads 64 bytes and stores a word that depends on each: what every probe does besides.
///
/// # Safety
/// The block and its arrays are live device memory with an element for each thread.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "gpu-kernel" fn probe_load(parameters: *const Parameters) {
    // SAFETY: passed on.
    let row = unsafe { Row::load(parameters) };
    row.store(row.window.0.iter().fold(0, |all, word| all ^ word));
}

/// The fast path of the parser, all moulds, and the stores of what it found.
///
/// # Safety
/// As for [`probe_load`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "gpu-kernel" fn probe_parse(parameters: *const Parameters) {
    // SAFETY: passed on.
    let row = unsafe { Row::load(parameters) };
    // SAFETY: the promise that the row was loaded under.
    let extent = unsafe { row.parameters.extents.add(row.index).read() };
    let tail = || {
        // SAFETY: the promise that the row was loaded under.
        Some(unsafe { row.parameters.tails.add(row.index).read() })
    };
    if let Fast::Parsed(headers) = parse_fast_with(&row.window, extent, tail) {
        // SAFETY: the promise that the row was loaded under.
        unsafe { row.parameters.headers.add(row.index).write(headers) };
    } else {
        row.store(1);
    }
}

/// The invariant CRC's part that the headers of a RoCEv2 packet over IPv4 make.
///
/// # Safety
/// As for [`probe_load`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "gpu-kernel" fn probe_icrc_headers(parameters: *const Parameters) {
    // SAFETY: passed on.
    let row = unsafe { Row::load(parameters) };
    row.store(icrc::begin_ipv4(&row.window).state());
}

/// A lane's part of the invariant CRC: 64 bytes of payload, moved to their place in a packet of
/// 2048 bytes.
///
/// # Safety
/// As for [`probe_load`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "gpu-kernel" fn probe_icrc_lane(parameters: *const Parameters) {
    const BEHIND: Shift = Shift::bytes(1984);
    // SAFETY: passed on.
    let row = unsafe { Row::load(parameters) };
    // SAFETY: the promise that the row was loaded under.
    let words = unsafe { row.parameters.windows.add(row.index) }.cast::<u32>();
    let load = |index: usize| {
        // SAFETY: `update_words` asks for indices below the count, and a window has 16 words.
        unsafe { words.add(index).read() }
    };
    let part = Crc32::partial().update_words(Window::LENGTH / 4, load);
    row.store(part.shifted(BEHIND).state());
}

#[panic_handler]
fn on_panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        // SAFETY: ends the kernel; touches nothing.
        unsafe { nvptx::trap() }
    }
}
