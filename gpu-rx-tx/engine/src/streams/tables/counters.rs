//! What a block of streams counts.

use core::mem::offset_of;

use warpwire_protocols::DropReason;

/// What a block counted; each word has one writer, the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(128))]
pub struct StreamCounters {
    /// Rounds.
    pub turns: u64,
    /// Rounds without work.
    pub idle_turns: u64,
    /// Segments of TCP for an own address, whole and right.
    pub received: u64,
    /// Segments that were sent.
    pub sent: u64,
    /// Payload bytes that were placed in receive rings.
    pub placed_bytes: u64,
    /// Payload bytes that were sent, repetitions included.
    pub sent_bytes: u64,
    /// Frames for the host.
    pub slow: u64,
    /// Frames for the host that its ring had no room for.
    pub slow_lost: u64,
    /// Frames of the host that were sent.
    pub injected: u64,
    /// Frames of the host that do not fit a transmit slot.
    pub inject_refused: u64,
    /// Connections that were established.
    pub connected: u64,
    /// Connections that are over.
    pub closed: u64,
    /// Of these, those that did not end by both ends closing.
    pub failed: u64,
    /// Resets to nobody's segments.
    pub resets: u64,
    /// Resets that were due and not sent: too many in a second.
    pub resets_held: u64,
    /// SYNs that were answered by a cookie.
    pub cookies: u64,
    /// SYNs and cookies that were not answered: the accept ring is full.
    pub accept_full: u64,
    /// SYNs and cookies that were not answered: all places are taken.
    pub no_place: u64,
    /// Connections that were refused: there is no memory for rings.
    pub no_chunk: u64,
    /// Answers that were due to nobody's segments and had no slot to leave by.
    pub answers_lost: u64,
    /// Connections whose TIME-WAIT ended early: their place was needed.
    pub displaced: u64,
    /// Connections whose next hop got another Ethernet address.
    pub moved: u64,
    /// Segments for connections of other blocks, that the host was given to hand them over.
    pub handed: u64,
    /// Segments that came to queues of other blocks.
    pub taken: u64,
    /// Written as zero.
    pub reserved: [u64; 8],
    /// Frames that were dropped, by [`DropReason`].
    pub drops: [u64; DROPS],
    /// What was special about segments, by [`warpwire_protocols::tcp::Note`].
    pub notes: [u64; NOTES],
}

/// Drop reasons that there is room for.
pub const DROPS: usize = 48;
/// Notes that there is room for.
pub const NOTES: usize = 32;

impl Default for StreamCounters {
    fn default() -> Self {
        Self {
            turns: 0,
            idle_turns: 0,
            received: 0,
            sent: 0,
            placed_bytes: 0,
            sent_bytes: 0,
            slow: 0,
            slow_lost: 0,
            injected: 0,
            inject_refused: 0,
            connected: 0,
            closed: 0,
            failed: 0,
            resets: 0,
            resets_held: 0,
            cookies: 0,
            accept_full: 0,
            no_place: 0,
            no_chunk: 0,
            answers_lost: 0,
            displaced: 0,
            moved: 0,
            handed: 0,
            taken: 0,
            reserved: [0; 8],
            drops: [0; DROPS],
            notes: [0; NOTES],
        }
    }
}

const _: () = assert!(offset_of!(StreamCounters, drops) == 256);
const _: () = assert!(DropReason::COUNT <= DROPS);
