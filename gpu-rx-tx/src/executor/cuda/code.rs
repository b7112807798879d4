//! What the CUDA driver answers, in words.

use std::fmt;

/// An answer of the driver other than success: its `CUresult`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code(pub u32);

impl Code {
    /// A pointer, size or flag that the call does not take.
    pub const INVALID_VALUE: Self = Self(1);
    /// No memory left, on the device or to be locked.
    pub const OUT_OF_MEMORY: Self = Self(2);
    /// The library that was loaded is the linker's stub.
    pub const STUB_LIBRARY: Self = Self(34);
    /// No device that may be used.
    pub const NO_DEVICE: Self = Self(100);
    /// The PTX does not compile.
    pub const INVALID_PTX: Self = Self(218);
    /// The PTX is of a later version than the driver knows.
    pub const UNSUPPORTED_PTX_VERSION: Self = Self(222);
    /// A call of the operating system failed.
    pub const OPERATING_SYSTEM: Self = Self(304);
    /// The name is not in the module.
    pub const NOT_FOUND: Self = Self(500);
    /// Not yet.
    pub const NOT_READY: Self = Self(600);
    /// The kernel accessed memory that is not there.
    pub const ILLEGAL_ADDRESS: Self = Self(700);
    /// The call needs rights, or memory of another kind.
    pub const NOT_PERMITTED: Self = Self(800);
    /// The device cannot do that.
    pub const NOT_SUPPORTED: Self = Self(801);
    /// The driver does not know either.
    pub const UNKNOWN: Self = Self(999);

    /// The name in `cuda.h`, and what it means.
    fn words(self) -> Option<(&'static str, &'static str)> {
        let place = WORDS.binary_search_by_key(&self.0, |row| row.0).ok()?;
        WORDS.get(place).map(|row| (row.1, row.2))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0;
        match self.words() {
            Some((name, meaning)) => write!(f, "error {number}, {name}: {meaning}"),
            None => write!(f, "error {number}, which cuda.h explains"),
        }
    }
}

/// A call that the driver refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{call} failed with {code}")]
pub struct CallError {
    /// The function of the driver.
    pub call: &'static str,
    /// What it answered.
    pub code: Code,
}

/// By number.
const WORDS: &[(u32, &str, &str)] = &[
    (1, "CUDA_ERROR_INVALID_VALUE", "an argument is out of range"),
    (2, "CUDA_ERROR_OUT_OF_MEMORY", "no memory left"),
    (
        3,
        "CUDA_ERROR_NOT_INITIALIZED",
        "the driver was not initialised",
    ),
    (4, "CUDA_ERROR_DEINITIALIZED", "the driver is shutting down"),
    (
        34,
        "CUDA_ERROR_STUB_LIBRARY",
        "libcuda.so.1 is the stub for linking, not a driver",
    ),
    (
        46,
        "CUDA_ERROR_DEVICE_UNAVAILABLE",
        "another process has the device for itself",
    ),
    (100, "CUDA_ERROR_NO_DEVICE", "no device that may be used"),
    (101, "CUDA_ERROR_INVALID_DEVICE", "no such device"),
    (200, "CUDA_ERROR_INVALID_IMAGE", "the module is not PTX"),
    (201, "CUDA_ERROR_INVALID_CONTEXT", "the context is gone"),
    (
        209,
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        "the module has no code for this device",
    ),
    (
        214,
        "CUDA_ERROR_ECC_UNCORRECTABLE",
        "memory of the device lost bits",
    ),
    (218, "CUDA_ERROR_INVALID_PTX", "the PTX does not compile"),
    (
        221,
        "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
        "libnvidia-ptxjitcompiler.so.1 is not installed",
    ),
    (
        222,
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        "the driver is older than the PTX",
    ),
    (
        304,
        "CUDA_ERROR_OPERATING_SYSTEM",
        "a call of the operating system failed",
    ),
    (400, "CUDA_ERROR_INVALID_HANDLE", "a handle is gone"),
    (500, "CUDA_ERROR_NOT_FOUND", "the name is not in the module"),
    (600, "CUDA_ERROR_NOT_READY", "work is still under way"),
    (
        700,
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "a kernel accessed memory that is not there",
    ),
    (
        701,
        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        "a block needs more registers than there are",
    ),
    (
        702,
        "CUDA_ERROR_LAUNCH_TIMEOUT",
        "a display's watchdog ended the kernel",
    ),
    (
        709,
        "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        "the context was destroyed",
    ),
    (710, "CUDA_ERROR_ASSERT", "a kernel stopped itself"),
    (
        712,
        "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        "somebody registered the memory before",
    ),
    (
        713,
        "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        "the memory is not registered",
    ),
    (
        714,
        "CUDA_ERROR_HARDWARE_STACK_ERROR",
        "a kernel broke its call stack",
    ),
    (
        715,
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "a kernel trapped or ran into what is no code",
    ),
    (
        716,
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "a kernel accessed memory off its alignment",
    ),
    (
        717,
        "CUDA_ERROR_INVALID_ADDRESS_SPACE",
        "a kernel used an address of another space",
    ),
    (
        718,
        "CUDA_ERROR_INVALID_PC",
        "a kernel jumped out of its code",
    ),
    (
        719,
        "CUDA_ERROR_LAUNCH_FAILED",
        "a kernel failed; the context is lost",
    ),
    (
        720,
        "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
        "the grid cannot be resident",
    ),
    (
        800,
        "CUDA_ERROR_NOT_PERMITTED",
        "the call is not permitted for this memory or user",
    ),
    (
        801,
        "CUDA_ERROR_NOT_SUPPORTED",
        "the device or system cannot do that",
    ),
    (
        802,
        "CUDA_ERROR_SYSTEM_NOT_READY",
        "the fabric manager or the system is not ready",
    ),
    (
        803,
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        "libcuda.so.1 and the kernel module differ",
    ),
    (
        804,
        "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        "the compatibility library cannot run here",
    ),
    (
        999,
        "CUDA_ERROR_UNKNOWN",
        "the driver does not know why; `dmesg` may",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_and_told() {
        assert!(WORDS.is_sorted_by_key(|row| row.0));
        let error = CallError {
            call: "cuLaunchKernel",
            code: Code::ILLEGAL_ADDRESS,
        };
        assert_eq!(
            error.to_string(),
            "cuLaunchKernel failed with error 700, CUDA_ERROR_ILLEGAL_ADDRESS: a kernel accessed \
             memory that is not there"
        );
        assert_eq!(
            Code(12345).to_string(),
            "error 12345, which cuda.h explains"
        );
    }
}
