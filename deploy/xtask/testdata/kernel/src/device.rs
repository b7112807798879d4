//! Sums of words, a lane at a time.
#![expect(unsafe_code, reason = "entry points take a raw pointer to their parameters")]

use core::arch::nvptx;

/// What the host passes: one pointer to this block.
#[repr(C)]
pub struct Parameters {
    input: *const [u32; 4],
    output: *mut u32,
    total: *mut u64,
    count: u32,
    reserved: u32,
}

/// Adds the four words of each row, and all of them to the total.
///
/// # Safety
/// The block and what it points to are live device memory; `input` and `output` have `count` rows.
#[unsafe(no_mangle)]
pub unsafe extern "gpu-kernel" fn fixture_sums(parameters: *const Parameters) {
    // SAFETY: the caller's promise.
    let parameters = unsafe { &*parameters };
    let lane = lane();
    if lane >= parameters.count {
        return;
    }
    // SAFETY: the row is below `count`.
    let row = unsafe { parameters.input.add(lane as usize) };
    // SAFETY: as above; nobody writes the input while the kernel runs.
    let sum = sum_of_row(unsafe { &*row });
    // SAFETY: the row is below `count`.
    let place = unsafe { parameters.output.add(lane as usize) };
    // SAFETY: as above; each lane has a row of its own.
    unsafe { place.write(sum) };
    // SAFETY: the total is one aligned word for all lanes.
    unsafe { add_to_total(parameters.total, u64::from(sum)) };
}

/// Indexes without a check that the optimiser could prove.
///
/// # Safety
/// As for [`fixture_sums`].
#[cfg(feature = "faulty")]
#[unsafe(no_mangle)]
pub unsafe extern "gpu-kernel" fn fixture_faulty(parameters: *const Parameters) {
    // SAFETY: the caller's promise.
    let parameters = unsafe { &*parameters };
    let count = parameters.count as usize;
    // SAFETY: the input has `count` rows.
    let rows = unsafe { core::slice::from_raw_parts(parameters.input, count) };
    let sum = rows[parameters.reserved as usize][0];
    // SAFETY: the total is one aligned word for all lanes.
    let total = unsafe { core::sync::atomic::AtomicU64::from_ptr(parameters.total) };
    total.fetch_add(u64::from(sum), core::sync::atomic::Ordering::AcqRel);
}

#[inline(never)]
fn sum_of_row(row: &[u32; 4]) -> u32 {
    row.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

fn lane() -> u32 {
    // SAFETY: reads a register.
    unsafe { nvptx::_thread_idx_x() }
}

/// The compiler drops order and scope of the portable read-modify-write.
unsafe fn add_to_total(total: *mut u64, sum: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        core::arch::asm!(
            "red.relaxed.gpu.global.add.u64 [{total}], {sum};",
            total = in(reg64) total,
            sum = in(reg64) sum,
            options(nostack, preserves_flags),
        );
    }
}

#[panic_handler]
fn on_panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        // SAFETY: ends the kernel.
        unsafe { nvptx::trap() }
    }
}
