//! The ring of samples: a block copies frames in, the host drains them into a capture file.
//!
//! One writer, one reader. A full ring loses the new sample and counts it.

use warpwire_ring::DeviceAddress;

/// Bytes of a frame that a sample can hold.
pub const SNAP_BYTES: usize = 2048 - 64;

/// The two ends of a ring, each in a line of its own.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(128))]
pub struct Ring {
    /// Samples written so far; the block's.
    pub written: u64,
    /// The [`Sample`]s.
    pub slots: DeviceAddress,
    /// How many; a power of two.
    pub depth: u32,
    /// Written as zero.
    pub reserved: [u32; 27],
    /// Samples read so far; the host's.
    pub read: u64,
    /// Written as zero.
    pub reserved_read: [u64; 15],
}

const _: () = assert!(size_of::<Ring>() == 256);
const _: () = assert!(core::mem::offset_of!(Ring, read) == 128);

/// One sample.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Sample {
    /// When the stage saw the frame, in nanoseconds of the kernel's clock.
    pub time_ns: u64,
    /// The frame's place among those that the block received.
    pub sequence: u64,
    /// Bytes of the frame.
    pub length: u32,
    /// Bytes that were kept.
    pub kept: u32,
    /// Written as zero.
    pub reserved: [u64; 5],
    /// The first bytes of the frame.
    pub bytes: [u8; SNAP_BYTES],
}

const _: () = assert!(size_of::<Sample>() == 2048);
