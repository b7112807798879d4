//! What the host hands to code that posts and polls, as plain data.

use warpwire_ring::layout::fold;
use warpwire_ring::layout_hash;
use warpwire_ring::mlx5::post::Gather;
use warpwire_ring::mlx5::serve::WorkQueue;
use warpwire_ring::{DeviceAddress, Scope};

use crate::block::{ABI, Header};

/// A completion queue, as who polls it needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct CompletionRing {
    /// The ring, 64 bytes an entry.
    pub ring: DeviceAddress,
    /// The word of the doorbell record that has the consumer's index.
    pub record: DeviceAddress,
    /// Binary logarithm of the entries.
    pub log_depth: u32,
    /// A [`Scope`]: who is at the other end.
    pub scope: u32,
}

/// Where a channel stands: what who had it last left for who has it next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Cursor {
    /// The send slot that the next request begins in.
    pub send_next: u64,
    /// Every send slot before this one is free.
    pub send_freed: u64,
    /// Completions will tell of every send slot before this one.
    pub tracked_to: u64,
    /// The next receive.
    pub receive_next: u64,
    /// Every receive before this one came back.
    pub receive_freed: u64,
    /// The next completion of sends.
    pub sent_next: u64,
    /// The next completion of receives.
    pub arrived_next: u64,
    /// The send slot of the request that failed.
    pub fault_at: u64,
    /// Number of the [`warpwire_ring::Cause`] by which it failed, or 0.
    pub fault: u32,
    /// 1 if the next request is to wait for all fetches before it.
    pub fence: u32,
}

/// A queue pair for code that posts and polls. One warp, one thread or the host has it at a time.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct ChannelBlock {
    /// [`ChannelBlock::HEADER`].
    pub header: Header,
    /// Send requests.
    pub send: WorkQueue,
    /// Receives; without a ring if they come from a queue that is shared.
    pub receive: WorkQueue,
    /// Completions of sends.
    pub sent: CompletionRing,
    /// Completions of receives.
    pub arrived: CompletionRing,
    /// Eight registered bytes that may be written: for what atomics find and nobody wants.
    pub scratch: Gather,
    /// A word of 32 bits that changes as long as the engine runs, or null.
    pub heartbeat: DeviceAddress,
    /// How long it may stand still.
    pub stale_ns: u64,
    /// Where the channel stands.
    pub cursor: Cursor,
}

impl ChannelBlock {
    /// Hash of the layout, of this block and its parts.
    pub const LAYOUT: u64 = {
        let block = layout_hash!(ChannelBlock {
            header,
            send,
            receive,
            sent,
            arrived,
            scratch,
            heartbeat,
            stale_ns,
            cursor,
        });
        let cursor = layout_hash!(Cursor {
            send_next,
            send_freed,
            tracked_to,
            receive_next,
            receive_freed,
            sent_next,
            arrived_next,
            fault_at,
            fault,
            fence,
        });
        fold(fold(block, cursor as usize), QUEUES as usize)
    };

    /// The header of such a block.
    pub const HEADER: Header = Header {
        abi: ABI,
        bytes: size_of::<Self>() as u32,
        layout: Self::LAYOUT,
    };
}

/// Receives that several queue pairs share, for code that posts and polls.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct SharedBlock {
    /// [`SharedBlock::HEADER`].
    pub header: Header,
    /// The receives.
    pub receive: WorkQueue,
    /// Their completions.
    pub arrived: CompletionRing,
    /// A bit a receive, in words of 64 bits: it came back before one that was posted earlier.
    pub done: DeviceAddress,
    /// A word of 32 bits that changes as long as the engine runs, or null.
    pub heartbeat: DeviceAddress,
    /// How long it may stand still.
    pub stale_ns: u64,
    /// The next receive.
    pub next: u64,
    /// Every receive before this one came back.
    pub freed: u64,
    /// The next completion.
    pub arrived_next: u64,
    /// Receives that came back.
    pub returned: u64,
}

impl SharedBlock {
    /// Hash of the layout, of this block and its parts.
    pub const LAYOUT: u64 = {
        let block = layout_hash!(SharedBlock {
            header,
            receive,
            arrived,
            done,
            heartbeat,
            stale_ns,
            next,
            freed,
            arrived_next,
            returned,
        });
        fold(block, QUEUES as usize)
    };

    /// The header of such a block.
    pub const HEADER: Header = Header {
        abi: ABI,
        bytes: size_of::<Self>() as u32,
        layout: Self::LAYOUT,
    };
}

/// Hash of the queues that blocks name.
const QUEUES: u64 = {
    let queue = layout_hash!(WorkQueue {
        ring,
        record,
        log_depth,
        log_stride,
        number,
        scope,
    });
    let ring = layout_hash!(CompletionRing {
        ring,
        record,
        log_depth,
        scope,
    });
    fold(queue, ring as usize)
};

/// The scope of a number in a block.
pub(super) const fn scope(number: u32) -> Scope {
    if number == Scope::Gpu as u32 {
        Scope::Gpu
    } else {
        Scope::System
    }
}
