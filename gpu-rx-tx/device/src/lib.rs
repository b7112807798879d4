//! Receive leases, transmit credits, waits and warps for code that runs on a GPU or a CPU.
//!
//! Invariant: `no_std`, no allocation, no panic path; knows queues through ring's verbs and nothing
//! of protocols.
//! Invariant: everything is generic over [`Simt`] and monomorphised; one source is a GPU kernel, a
//! CPU loop at width 1, and 32 scheduled lanes in tests.
//! Invariant: every wait ends with a value, a [`warpwire_ring::Cause`], or at its deadline.
#![no_std]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(
        abi_unadjusted,
        asm_experimental_arch,
        link_llvm_intrinsics,
        stdarch_nvptx
    ),
    expect(
        internal_features,
        reason = "only intrinsics of the compiler stay out of divergent branches"
    )
)]

pub mod area;
pub mod batch;
mod completion;
pub mod copies;
mod forward;
mod gather;
pub mod kernel;
pub mod lockstep;
pub mod piece;
#[cfg(target_arch = "nvptx64")]
pub mod ptx;
mod queue;
pub mod reader;
pub mod receive;
pub mod scalar;
pub mod shared;
pub mod simt;
pub mod solo;
pub mod transmit;
pub mod wait;

pub use area::Area;
pub use batch::{Batch, MAX_BATCH};
pub use copies::{COPY_AT, Copied, Copies, CopyBlock, CopyHead, CopyReader};
pub use gather::copy_across;
pub use kernel::{KernelRow, VERDICT_OFFSET};
pub use lockstep::{Lockstep, WarpHost};
pub use piece::{Piece, Words};
#[cfg(target_arch = "nvptx64")]
pub use ptx::Ptx;
pub use reader::{Frame, Lease, Lent, Reader};
pub use receive::Receiver;
pub use scalar::{Scalar, ScalarHost};
pub use shared::{SharedCounter, SharedCounters, SharedSignal, SharedWord};
pub use simt::{Place, Simt};
pub use solo::Solo;
pub use transmit::{Claim, Sender};
pub use wait::{Heartbeat, Wait, wait_until};
