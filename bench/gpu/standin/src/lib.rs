//! A stand-in for CUDA's driver: a `libcuda.so.1` whose device is the virtual GPU.
//!
//! A program that finds this library first (`LD_LIBRARY_PATH`) opens it as it opens the driver, and
//! its kernels run from the PTX that it loads, lane by lane, every access checked against what was
//! allocated or registered.
//!
//! Invariant: its only device is called a stand-in; nothing that it runs says how fast a GPU is.
//! Invariant: only tests use it.
//! Invariant: a handle, an address or a flag that the driver would refuse is refused.

mod calls;
mod machine;
#[cfg(test)]
mod tests;

/// The name of the device.
pub const NAME: &str = "stand-in (virtual GPU on this machine's processor)";
