//! What an oracle asks of an executor.

use warpwire_device::KernelRow;
use warpwire_gpu::executor::Parameters;
use warpwire_ring::DeviceAddress;

/// A kernel to run as one warp, to its end.
#[derive(Debug)]
pub struct Job<'a> {
    /// The kernel.
    pub row: &'a KernelRow,
    /// Its parameter block.
    pub block: DeviceAddress,
    /// The same as a launch takes it, with all memory that the kernel may touch.
    pub parameters: Parameters,
}

/// Runs a job; the code that the kernel returned, where kernels return one.
///
/// # Errors
/// Why it did not end by itself, as a sentence.
pub type Run<'a> = dyn Fn(Job<'_>) -> Result<Option<u32>, String> + 'a;
