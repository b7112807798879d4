//! A queue as one block of plain data: what the host hands to a kernel.

use crate::address::DeviceAddress;
use crate::barrier::Scope;
use crate::cause::Cause;
use crate::region::Location;

/// The queue formats. The number is that of [`QueueBlock::format`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u32)]
pub enum Format {
    /// ConnectX and BlueField work queues with 64-byte completions.
    Mlx5 = 1,
    /// The four rings of a Linux AF_XDP socket.
    Xdp = 2,
    /// memif 2.0 shared-memory rings.
    Memif = 3,
}

/// Which way a queue's frames go, seen from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Direction {
    /// The kernel receives.
    Receive = 1,
    /// The kernel transmits.
    Transmit = 2,
}

/// The version of [`QueueBlock`] itself.
pub const ABI: u32 = 1;

/// A queue as plain data: 256 bytes that a kernel copies and attaches to.
///
/// The body belongs to the format; see `mlx5::RxBody`, `xdp::RxBody` and their `Tx` partners, and
/// [`crate::memif::ClientBody`] and [`crate::memif::ServerBody`], which are at most 192 bytes each.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct QueueBlock {
    /// [`ABI`].
    pub abi: u32,
    /// A [`Format`].
    pub format: u32,
    /// A [`Direction`].
    pub direction: u32,
    /// A [`Scope`]: who is at the other end.
    pub scope: u32,
    /// Hash of the body's layout, compared at attach.
    pub layout: u64,
    /// Slots; a power of two.
    pub depth: u32,
    /// Bytes of a slot's buffer.
    pub slot_bytes: u32,
    /// Where the cursor lies between kernel runs: an [`RxCursor`] or [`TxCursor`].
    pub cursor: DeviceAddress,
    /// The queue's [`crate::provenance::Provenance`].
    pub provenance: DeviceAddress,
    /// Receive: the done bitmap, one bit a slot in 32-bit words. Transmit: null.
    pub done: DeviceAddress,
    /// A [`Location`]: where the frame buffers lie.
    pub location: u32,
    /// Written as zero.
    pub reserved: u32,
    /// The format's own part.
    pub body: [u64; 24],
}

const _: () = assert!(size_of::<QueueBlock>() == 256);

impl QueueBlock {
    /// Checks everything but the body: version, format, direction, layout hash and depth.
    pub fn check(&self, format: Format, direction: Direction, layout: u64) -> Result<(), Cause> {
        let matches = self.abi == ABI
            && self.format == format as u32
            && self.direction == direction as u32
            && self.layout == layout
            && self.depth.is_power_of_two();
        if matches {
            Ok(())
        } else {
            Err(Cause::LayoutMismatch)
        }
    }

    /// The scope of the queue's barriers.
    #[inline(always)]
    pub fn scope(&self) -> Scope {
        if self.scope == Scope::Gpu as u32 {
            Scope::Gpu
        } else {
            Scope::System
        }
    }

    /// Where the frame buffers lie. A number that names no location counts as ordinary host memory.
    #[inline(always)]
    pub fn location(&self) -> Location {
        Location::from_number(self.location).unwrap_or_default()
    }
}

/// Where a receive queue's consumer stands; kept in memory between kernel runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(128))]
pub struct RxCursor {
    /// Next slot that `peek` looks at.
    pub head: u64,
    /// Every slot before this one was handed back.
    pub released: u64,
    /// Frames that were consumed.
    pub frames: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Slots that could not be read (error completion, descriptor out of bounds).
    pub faults: u64,
    /// Frames given up because they spanned more slots than a batch may.
    pub too_long: u64,
    /// The last [`Cause`] of a fault, or 0.
    pub last_cause: u32,
    /// 1 while the rest of a frame that is too long is being thrown away, else 0.
    pub skipping: u32,
}

/// Where a transmit queue's producer stands; kept in memory between kernel runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(128))]
pub struct TxCursor {
    /// Next slot that `reserve` gives out.
    pub reserved: u64,
    /// Every slot before this one was published.
    pub published: u64,
    /// Every slot before this one is free again.
    pub completed: u64,
    /// Completion entries that were consumed.
    pub completions: u64,
    /// Frames that were posted.
    pub frames: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Times that `reserve` found too few free slots.
    pub no_resource: u64,
    /// Error completions.
    pub faults: u64,
    /// The last [`Cause`] of a fault, or 0.
    pub last_cause: u32,
    /// Written as zero.
    pub reserved_word: u32,
}

const _: () = assert!(size_of::<RxCursor>() == 128);
const _: () = assert!(size_of::<TxCursor>() == 128);
