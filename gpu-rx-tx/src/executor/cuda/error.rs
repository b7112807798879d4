//! Why there is no GPU to run on, or what went wrong on one, split by blame.

use std::time::Duration;

use warpwire_ring::DeviceAddress;

use crate::arena::ArenaError;
use crate::executor::cuda::code::{CallError, Code};
use crate::executor::error as executor;

/// What can go wrong with the CUDA executor. Each is one sentence with a cure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // The environment.
    /// No driver.
    #[error(
        "executor cuda: libcuda.so.1 cannot be loaded ({why}); install NVIDIA's driver r545 or \
         newer, and start containers with their GPUs (`--gpus all`)"
    )]
    NoDriver {
        /// What the dynamic loader said.
        why: String,
    },
    /// The library lacks a call.
    #[error("executor cuda: libcuda.so.1 has no `{call}`; install NVIDIA's driver r545 or newer")]
    NoCall {
        /// The call.
        call: &'static str,
    },
    /// The driver does not know the PTX.
    #[error(
        "executor cuda: the driver knows CUDA {}, and the kernels (PTX ISA 8.3) need CUDA {}; \
         install NVIDIA's driver r545 or newer",
        dotted(*found), dotted(*need)
    )]
    DriverTooOld {
        /// As the driver counts: 12020 is 12.2.
        found: u32,
        /// The same.
        need: u32,
    },
    /// No device nodes.
    #[error(
        "executor cuda: the driver's library is here but /dev/nvidiactl is not ({source}); load \
         the kernel module (`modprobe nvidia`), or start the container with its GPUs \
         (`--gpus all`)"
    )]
    NoNodes {
        /// What the driver said.
        source: CallError,
    },
    /// Device nodes that may not be opened.
    #[error(
        "executor cuda: {path} may not be opened for reading and writing ({source}); run as a \
         user who may, mend its owner or mode, or start the container with its GPUs (`--gpus all`)"
    )]
    Permission {
        /// The node.
        path: String,
        /// What the driver said.
        source: CallError,
    },
    /// No device.
    #[error(
        "executor cuda: the driver finds no GPU; see what `nvidia-smi -L` lists and what \
         CUDA_VISIBLE_DEVICES hides"
    )]
    NoDevice,
    /// A device that is not there.
    #[error(
        "executor cuda: there is no device {ordinal}; name one from 0 to {}",
        count.saturating_sub(1)
    )]
    Ordinal {
        /// The device that was named.
        ordinal: u32,
        /// Devices that there are, at least one.
        count: u32,
    },
    /// A device of a generation that the kernels are not made for.
    #[error(
        "executor cuda: {device} has compute capability {major}.{minor}, and the kernels need 8.0 \
         (Ampere); choose a newer GPU"
    )]
    Capability {
        /// Its name.
        device: String,
        /// The first number.
        major: u32,
        /// The second.
        minor: u32,
    },
    /// A device that cannot do what rings in host memory need.
    #[error("executor cuda: {device} cannot {cannot}; choose another GPU or platform")]
    Unfit {
        /// Its name.
        device: String,
        /// What it cannot do.
        cannot: &'static str,
    },
    /// No memory.
    #[error(
        "executor cuda: {bytes} bytes of {what} cannot be had ({source}); ask for less, end what \
         else uses it, or raise `ulimit -l` if it is host memory"
    )]
    OutOfMemory {
        /// Bytes that were asked for.
        bytes: u64,
        /// What memory.
        what: &'static str,
        /// What the driver said.
        source: CallError,
    },
    /// Memory that the device cannot reach under the host's addresses.
    #[error(
        "executor cuda: host memory at {host:?} is {device:?} on the device, and rings hold the \
         host's addresses; allocate it with `CudaExecutor::pinned`"
    )]
    Elsewhere {
        /// Where the host sees it.
        host: DeviceAddress,
        /// Where the device sees it.
        device: DeviceAddress,
    },
    /// Host memory that the driver does not register.
    #[error(
        "executor cuda: {bytes} bytes of host memory at {address:?} cannot be mapped into the \
         device ({source}); allocate them with `CudaExecutor::pinned`, or use a NIC whose rings \
         lie in ordinary memory"
    )]
    Register {
        /// Where.
        address: DeviceAddress,
        /// How much.
        bytes: u64,
        /// What the driver said.
        source: CallError,
    },
    /// The driver refused something else.
    #[error("executor cuda: {0}")]
    Call(#[from] CallError),
    /// No thread to relaunch slices.
    #[error("kernel `{kernel}`: cannot start a thread: {source}; raise the limit of processes")]
    Thread {
        /// The kernel.
        kernel: &'static str,
        /// What the operating system said.
        source: std::io::Error,
    },

    // The PTX.
    /// The PTX holds a zero byte.
    #[error("the PTX is not text: it holds a zero byte; build it with `cargo xtask ptx`")]
    NotText,
    /// The PTX does not compile.
    #[error("the PTX cannot be loaded: {source}{}", Log(log))]
    Load {
        /// What the driver said.
        source: CallError,
        /// What its compiler said.
        log: String,
    },
    /// The PTX lacks a kernel of the host.
    #[error(
        "kernel `{kernel}`: is not in the PTX that was loaded; build host and PTX from the same \
         source (`cargo xtask ptx`)"
    )]
    NoKernel {
        /// The kernel.
        kernel: String,
    },

    // The caller.
    /// Not all blocks could run at the same time: those that run might wait for those that do not,
    /// for ever.
    #[error(
        "kernel `{kernel}`: {blocks} blocks of {threads} threads cannot all be resident on the \
         device: it holds {most}, of which other launches take {taken}; launch fewer blocks"
    )]
    NotResident {
        /// The kernel.
        kernel: &'static str,
        /// Blocks of the grid.
        blocks: u32,
        /// Threads of a block.
        threads: u32,
        /// Blocks of this kernel that the empty device holds.
        most: u64,
        /// What other launches take, as blocks of this kernel.
        taken: u64,
    },
    /// The word with the turns is out of the host's reach.
    #[error(
        "kernel `{kernel}`: the word `turns` at {address:?} does not lie in host memory of the \
         launch; place the parameter block in an arena that the parameters name"
    )]
    Turns {
        /// The kernel.
        kernel: &'static str,
        /// Where it was said to be.
        address: DeviceAddress,
    },
    /// Grid, layout or control words do not fit the kernel.
    #[error(transparent)]
    Launch(#[from] executor::Error),
    /// An arena could not be had or cannot give more.
    #[error(transparent)]
    Arena(#[from] ArenaError),

    // The kernel.
    /// The driver refused something about a kernel, or the kernel failed.
    #[error("kernel `{kernel}`: {source}")]
    Kernel {
        /// The kernel.
        kernel: &'static str,
        /// What the driver said.
        source: CallError,
    },
    /// A block returned before its first turn and without a cause.
    #[error(
        "kernel `{kernel}`: block {block} returned before its first turn: it does not take its \
         parameter block; build host and PTX from the same source (`cargo xtask ptx`)"
    )]
    Refused {
        /// The kernel.
        kernel: &'static str,
        /// The block.
        block: u32,
    },
    /// A slice did not end although it was told to. Its memory stays until it does.
    #[error(
        "kernel `{kernel}` did not end within {waited:?}: slice {slice} still runs; does it look \
         at its stop word and its turns?"
    )]
    Deadline {
        /// The kernel.
        kernel: &'static str,
        /// The deadline.
        waited: Duration,
        /// Slices that were launched.
        slice: u64,
    },
}

impl Error {
    /// A call about `bytes` bytes of memory that failed.
    pub(super) fn memory(bytes: u64, what: &'static str, source: CallError) -> Self {
        match source.code {
            Code::OUT_OF_MEMORY => Self::OutOfMemory {
                bytes,
                what,
                source,
            },
            _ => Self::Call(source),
        }
    }
}

/// A version as people write it.
fn dotted(version: u32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// What a compiler said, on lines of its own.
struct Log<'a>(&'a str);

impl std::fmt::Display for Log<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.trim() {
            "" => write!(f, "; renew it with `cargo xtask ptx`"),
            log => write!(f, "; its compiler says:\n{log}"),
        }
    }
}
