//! ConnectX and BlueField queues: send and receive work queues, completion queues with an owner
//! phase, doorbell records and doorbells.
//!
//! [`layout`] holds every byte of the format, for both halves: [`Rx`] and [`Tx`] are the driver's
//! half (verbs for a kernel), [`device`] is what a NIC does with the same memory, [`serve`] what an
//! engine does that reaches the work queues of messages by address, [`setup`] brings fresh memory
//! to its first state. Sources: infiniband/mlx5dv.h of rdma-core; for the receive
//! hash, the metadata word and the header types of a completion, linux/mlx5/device.h of the
//! kernel.
//!
//! A frame of one piece takes one send slot of 64 bytes: control, Ethernet and data segment. A
//! frame of `k` pieces takes `k` slots: one work queue entry of `2 + k` segments, then NOP entries
//! up to slot `k`. So slot numbers are work queue indices, and the last slot of each frame has a
//! control segment of its own, which carries the signal and gives the doorbell its value.

pub mod device;
pub mod layout;
pub mod post;
mod rx;
pub mod serve;
pub mod setup;
mod tx;

use rx::MAX_LOG_STRIDE;
pub use rx::{RX_LAYOUT, Rx, RxBody, TimestampFormat};
pub use tx::{MAX_PARTS, TX_LAYOUT, Tx, TxBody, Window};

/// Deepest queue: indices on the wire have 16 bits, and full must differ from empty.
pub const MAX_DEPTH: u32 = 1 << 15;

/// The 64-bit index nearest above `near` whose low 16 bits are `low`.
#[inline(always)]
pub(crate) const fn widen_u16(near: u64, low: u16) -> u64 {
    near.wrapping_add(low.wrapping_sub(near as u16) as u64)
}

/// The 64-bit index nearest above `near` whose low 24 bits are `low`.
#[inline(always)]
pub(crate) const fn widen_u24(near: u64, low: u32) -> u64 {
    near.wrapping_add((low.wrapping_sub(near as u32) & 0x00ff_ffff) as u64)
}

#[cfg(test)]
mod tests;
