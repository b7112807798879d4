//! Kernels: what is an entry point on a GPU and a row of the CPU executor's table elsewhere.
#![expect(
    unsafe_code,
    reason = "a kernel reads its parameter block by the address that it is given"
)]

use warpwire_device::{SharedWord, Simt, VERDICT_OFFSET};
use warpwire_ring::{Cause, DeviceAddress};

use crate::block::{Header, Parameters, Steering};

/// A kernel: one source for every width.
pub trait Kernel {
    /// Its parameter block.
    type Parameters: Parameters;

    /// *Collective.* Runs one warp until the stop word is set or its turns are used up.
    ///
    /// # Errors
    /// Why it had to end before that.
    ///
    /// # Safety
    /// *The kernel's promise*, see [`warpwire_device::KernelRow`], for the block and all that it
    /// points to.
    unsafe fn run<S: Simt>(simt: &S, parameters: &Self::Parameters) -> Result<(), Cause>;
}

/// *Collective.* Checks the parameter block at `address` and runs a kernel with it. Returns 0, or
/// the number of the [`Cause`] that ended it: the body of every entry point.
///
/// # Safety
/// *The kernel's promise*: at `address` lies a parameter block, or at least a [`Header`].
#[inline(always)]
pub unsafe fn enter<K: Kernel, S: Simt>(simt: &S, address: DeviceAddress) -> u32 {
    if address.is_null() || !address.is_aligned(align_of::<K::Parameters>() as u64) {
        return Cause::LayoutMismatch as u32;
    }
    // SAFETY: a header lies there by the caller's promise, and any bits are one.
    let header = unsafe { *(address.value() as *const Header) };
    if header != K::Parameters::HEADER {
        return Cause::LayoutMismatch as u32;
    }
    // SAFETY: the header says that it is such a block; nobody writes it while the kernel runs.
    let parameters = unsafe { &*(address.value() as *const K::Parameters) };
    // SAFETY: passed on.
    match unsafe { K::run(simt, parameters) } {
        Ok(()) => 0,
        Err(cause) => {
            // SAFETY: passed on.
            unsafe { conclude(simt, parameters.steering(), cause) };
            cause as u32
        }
    }
}

/// *Collective.* Tells the host of a GPU what ended a block.
///
/// # Safety
/// *The word's promise* for the heartbeats, if there are any.
unsafe fn conclude<S: Simt>(simt: &S, steering: &Steering, cause: Cause) {
    if steering.heartbeats.is_null() || !simt.is_leader() {
        return;
    }
    let offset = u64::from(simt.block()) * HEARTBEAT_STRIDE + VERDICT_OFFSET;
    // SAFETY: the block's own word, beside its heartbeat.
    let word = unsafe { SharedWord::attach(steering.heartbeats.offset(offset)) };
    word.store(cause as u32);
}

/// The row of a kernel in the CPU executor's table.
#[cfg(not(target_arch = "nvptx64"))]
pub const fn row<K: Kernel>(name: &'static str) -> warpwire_device::KernelRow {
    warpwire_device::KernelRow {
        name,
        layout: K::Parameters::LAYOUT,
        scalar: scalar::<K>,
        lockstep: lockstep::<K>,
    }
}

#[cfg(not(target_arch = "nvptx64"))]
unsafe fn scalar<K: Kernel>(simt: &warpwire_device::Scalar<'_>, block: DeviceAddress) -> u32 {
    // SAFETY: passed on.
    unsafe { enter::<K, _>(simt, block) }
}

#[cfg(not(target_arch = "nvptx64"))]
unsafe fn lockstep<K: Kernel>(simt: &warpwire_device::Lockstep<'_>, block: DeviceAddress) -> u32 {
    // SAFETY: passed on.
    unsafe { enter::<K, _>(simt, block) }
}

/// Makes entry points: on a GPU a function each that a driver can launch, elsewhere a function
/// that gives the rows of the CPU executor's table.
///
/// ```text
/// kernel! {
///     /// The kernels of this module.
///     pub fn rows:
///     /// What this one does.
///     mac_swap_xdp = MacSwap<Xdp>,
/// }
/// ```
/// The crate that names it has `#![cfg_attr(target_arch = "nvptx64", feature(abi_gpu_kernel))]`.
#[macro_export]
macro_rules! kernel {
    (
        $(#[$meta:meta])* $visibility:vis fn $rows:ident:
        $($(#[$doc:meta])* $name:ident = $kernel:ty),+ $(,)?
    ) => {
        $(#[$meta])*
        #[cfg(not(target_arch = "nvptx64"))]
        $visibility const fn $rows() -> &'static [$crate::KernelRow] {
            const ROWS: &[$crate::KernelRow] =
                &[$($crate::kernel::row::<$kernel>(stringify!($name))),+];
            ROWS
        }

        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// *The kernel's promise*, see `warpwire_device::KernelRow`.
            #[cfg(target_arch = "nvptx64")]
            #[unsafe(no_mangle)]
            pub unsafe extern "gpu-kernel" fn $name(
                parameters: *const u64,
            ) {
                let address = $crate::DeviceAddress::new(parameters as u64);
                // SAFETY: passed on.
                unsafe { $crate::kernel::enter::<$kernel, _>(&$crate::Ptx, address) };
            }
        )+
    };
}

/// What a running warp obeys: stop word, turns, heartbeat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    stop: Option<SharedWord>,
    heartbeat: Option<SharedWord>,
    turns: u64,
    done: u64,
}

impl Course {
    /// # Safety
    /// *The word's promise* for the words that are named.
    pub(crate) unsafe fn attach(steering: &Steering, block: u32) -> Self {
        let word = |address: DeviceAddress| {
            // SAFETY: passed on.
            (!address.is_null()).then(|| unsafe { SharedWord::attach(address) })
        };
        let beats = steering.heartbeats;
        let beat = match beats.is_null() {
            true => beats,
            false => beats.offset(u64::from(block) * HEARTBEAT_STRIDE),
        };
        Self {
            stop: word(steering.stop),
            heartbeat: word(beat),
            turns: steering.turns,
            done: 0,
        }
    }

    /// *Collective.* Whether another turn may begin. Beats the heart.
    #[inline(always)]
    pub(crate) fn goes_on<S: Simt>(&mut self, simt: &S) -> bool {
        if self.turns != 0 && self.done >= self.turns {
            return false;
        }
        let mut stopped = false;
        if simt.is_leader() {
            stopped = self.stop.is_some_and(|word| word.load() != 0);
            if let Some(heart) = self.heartbeat {
                heart.store(self.done as u32);
            }
        }
        self.done = self.done.wrapping_add(1);
        !simt.any(stopped)
    }
}

/// Bytes from one heartbeat to the next.
pub const HEARTBEAT_STRIDE: u64 = 128;

/// Makes the pipeline kernels of a [`StageSet`](crate::stage::StageSet): one for each ring format
/// and, on CPUs, one for each pair of formats: `pipeline_kernels! { pub fn same, mixed: MyStages
/// }`.
///
/// On a GPU the queues of one kernel are of one format: pairs would double the code for what a
/// machine with a GPU does not do, send from a NIC's queues to shared memory of the host.
#[macro_export]
macro_rules! pipeline_kernels {
    ($visibility:vis fn $same:ident, $mixed:ident: $set:ty) => {
        $crate::kernel! {
            /// The pipeline kernels over queues of one format.
            $visibility fn $same:
            /// Runs stages over mlx5 queues.
            pipeline_mlx5 = $crate::kernels::Pipeline<
                $set, $crate::format::Mlx5, $crate::format::Mlx5>,
            /// Runs stages over AF_XDP rings.
            pipeline_xdp = $crate::kernels::Pipeline<
                $set, $crate::format::Xdp, $crate::format::Xdp>,
            /// Runs stages over memif rings of ours.
            pipeline_memif_client = $crate::kernels::Pipeline<
                $set, $crate::format::MemifClient, $crate::format::MemifClient>,
            /// Runs stages over memif rings of the peer.
            pipeline_memif_server = $crate::kernels::Pipeline<
                $set, $crate::format::MemifServer, $crate::format::MemifServer>,
        }

        /// The pipeline kernels between queues of two formats.
        #[cfg(not(target_arch = "nvptx64"))]
        $visibility const fn $mixed() -> &'static [$crate::KernelRow] {
            use $crate::format::{MemifClient, MemifServer, Mlx5, Xdp};
            use $crate::kernel::row;
            use $crate::kernels::Pipeline;
            const ROWS: &[$crate::KernelRow] = &[
                row::<Pipeline<$set, Mlx5, Xdp>>("pipeline_mlx5_xdp"),
                row::<Pipeline<$set, Mlx5, MemifClient>>("pipeline_mlx5_memif_client"),
                row::<Pipeline<$set, Mlx5, MemifServer>>("pipeline_mlx5_memif_server"),
                row::<Pipeline<$set, Xdp, MemifClient>>("pipeline_xdp_memif_client"),
                row::<Pipeline<$set, Xdp, MemifServer>>("pipeline_xdp_memif_server"),
                row::<Pipeline<$set, MemifClient, MemifServer>>(
                    "pipeline_memif_client_memif_server",
                ),
            ];
            ROWS
        }
    };
}
