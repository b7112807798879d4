//! Where a panic would end. The lints of `cargo xtask ptx` refuse PTX that can come here.
#![expect(
    unsafe_code,
    reason = "the instruction that ends a kernel is an intrinsic"
)]

#[panic_handler]
fn on_panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        // SAFETY: ends the kernel with an error that the host sees; touches nothing.
        unsafe { core::arch::nvptx::trap() }
    }
}
