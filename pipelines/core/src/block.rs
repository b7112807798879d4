//! What the host hands to a kernel: parameter blocks, ports, counters, as plain data.
//!
//! The host writes all of it before the launch and afterwards only reads counters; the kernel
//! writes nothing but counters, cursors, samples and the heartbeat.

use warpwire_ring::{DeviceAddress, QueueBlock};

use crate::program::{MAX_NICS, Program};
use crate::reason::Reason;
use crate::spec::Span;

/// The first words of every parameter block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Header {
    /// [`ABI`].
    pub abi: u32,
    /// Bytes of the whole block.
    pub bytes: u32,
    /// Hash of the block's layout, see [`Parameters::LAYOUT`].
    pub layout: u64,
}

/// The version of parameter blocks.
pub const ABI: u32 = 1;

/// A kernel's parameter block.
///
/// # Safety
/// The type is `repr(C)`, starts with a [`Header`], and any bits are a value of it.
#[expect(
    unsafe_code,
    reason = "the promise lets an address be read as the type"
)]
pub unsafe trait Parameters: Copy {
    /// Hash of the layout: of this block and of all blocks that it points to.
    const LAYOUT: u64;

    /// The header that a block of this type has.
    const HEADER: Header = Header {
        abi: ABI,
        bytes: size_of::<Self>() as u32,
        layout: Self::LAYOUT,
    };

    /// What a kernel with this block obeys.
    fn steering(&self) -> &Steering;
}

/// What every kernel obeys while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Steering {
    /// The stop word: 0 while the kernel may run.
    pub stop: DeviceAddress,
    /// Words of 32 bits, 128 bytes apart, one a block: each changes as long as its block runs; and
    /// [`warpwire_device::VERDICT_OFFSET`] bytes on, a word for the cause that ended it. Or null.
    pub heartbeats: DeviceAddress,
    /// Turns until the kernel returns by itself, so that it can run in slices; 0 for no end.
    pub turns: u64,
}

/// A queue pair of a block, and what is done with the frames that it receives.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Port {
    /// The receive queue.
    pub receive: QueueBlock,
    /// The transmit queue.
    pub transmit: QueueBlock,
    /// The stages; a port without operations is not received from.
    pub program: Program,
    /// The port's [`PortCounters`].
    pub counters: DeviceAddress,
    /// The Ethernet address to answer with.
    pub mac: [u8; 6],
    /// [`PARTIAL_CHECKSUMS`] or 0.
    pub flags: u16,
    /// The NIC, by its place in the file.
    pub nic: u32,
    /// The queue pair of the NIC.
    pub queue: u32,
}

/// A flag of a [`Port`]: its peers may hand over frames whose transport checksum holds the
/// pseudo-header sum alone; they are completed before they are sent on.
pub const PARTIAL_CHECKSUMS: u16 = 1;

/// One block of a pipeline kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct Block {
    /// [`Port`]s: those of the kernel's near format, then those of its far format.
    pub ports: DeviceAddress,
    /// The block's [`BlockCounters`].
    pub counters: DeviceAddress,
    /// Ports of the near format; at most [`crate::program::MAX_PORTS`].
    pub near: u32,
    /// Ports of the far format; at most [`crate::program::MAX_PORTS`].
    pub far: u32,
    /// Which ports belong to each NIC, by its place in the file.
    pub outputs: [Span; MAX_NICS],
}

/// The parameters of a pipeline kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct PipelineParameters {
    /// The header.
    pub header: Header,
    /// What the kernel obeys.
    pub steering: Steering,
    /// [`crate::stage::StageSet::LAYOUT`] of the stages that the host knows.
    pub stages: u64,
    /// [`Block`]s.
    pub blocks: DeviceAddress,
    /// How many.
    pub block_count: u32,
    /// Written as zero.
    pub reserved: u32,
}

/// What a block counted. Each word has one writer, the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(128))]
pub struct BlockCounters {
    /// Rounds over the ports.
    pub turns: u64,
    /// Rounds in which nothing was found.
    pub idle_turns: u64,
}

/// What became of the frames that a port received. Each word has one writer, the block. Frames
/// received and sent, and frames that could not be read, are counted in the cursors of the queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(128))]
pub struct PortCounters {
    /// Frames whose way ended without being sent, by [`Reason`].
    pub drops: [u64; Reason::COUNT],
    /// Transport checksums that a local peer had left to a NIC and that were completed here.
    pub checksums_completed: u64,
    /// The number of the [`warpwire_ring::Cause`] that made the receive queue unusable, or 0.
    pub receive_cause: u64,
    /// The number of the [`warpwire_ring::Cause`] that made the transmit queue unusable, or 0.
    pub transmit_cause: u64,
}

impl PortCounters {
    /// Counters in the block, as a row of 64-bit words.
    pub const ENTRIES: u32 = (size_of::<Self>() / 8) as u32;
}

impl BlockCounters {
    /// Counters in the block, as a row of 64-bit words.
    pub const ENTRIES: u32 = (size_of::<Self>() / 8) as u32;
}

impl Default for PortCounters {
    fn default() -> Self {
        Self {
            drops: [0; Reason::COUNT],
            checksums_completed: 0,
            receive_cause: 0,
            transmit_cause: 0,
        }
    }
}
