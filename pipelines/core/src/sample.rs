//! The ring of samples: a block copies frames in, the host drains them into a capture file.
//!
//! One writer, a warp, and one reader, the host. A full ring loses the new sample and counts it.

use warpwire_device::{Area, SharedCounter, SharedWord, Simt};
use warpwire_ring::DeviceAddress;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::packet::Packet;

/// The two ends of a ring, each in a line of its own. Indices wrap at 2^32.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(128))]
pub struct RingBlock {
    /// Samples written so far; the kernel's.
    pub written: u32,
    /// How many [`Sample`]s there is room for; a power of two.
    pub depth: u32,
    /// Frames that the stage saw; the kernel's.
    pub seen: u64,
    /// The [`Sample`]s.
    pub slots: DeviceAddress,
    /// Written as zero.
    pub reserved: [u64; 13],
    /// Samples read so far; the host's.
    pub read: u32,
    /// Written as zero.
    pub reserved_read: [u32; 31],
}

const _: () = assert!(size_of::<RingBlock>() == 256);
const _: () = assert!(core::mem::offset_of!(RingBlock, read) == 128);

/// What stands before the bytes of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Sample {
    /// When the stage saw the frame, in nanoseconds of the kernel's clock.
    pub time_ns: u64,
    /// The frame's place among those that its queue received.
    pub sequence: u64,
    /// Bytes of the frame.
    pub length: u32,
    /// Bytes of it that follow.
    pub kept: u32,
}

const _: () = assert!(size_of::<Sample>() == 24);

/// Bytes of a slot of the ring.
pub const SLOT_BYTES: u32 = 2048;

/// Where in its slot a sample's bytes start.
pub const BYTES_AT: u32 = 64;

/// Bytes of a frame that a sample can hold.
pub const SNAP_BYTES: u32 = SLOT_BYTES - BYTES_AT;

/// The writing end of a ring.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    pub(crate) written: SharedWord,
    pub(crate) read: SharedWord,
    pub(crate) seen: SharedCounter,
    pub(crate) slots: Area,
    pub(crate) depth: u32,
}

/// What became of a lane's frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It was not its turn, or there is none.
    No,
    /// It lies in the ring.
    Yes,
    /// The ring is full.
    Lost,
}

impl Ring {
    /// *Collective.* Offers a frame a lane; every `every`th of all that were ever offered is
    /// copied, its first `snap` bytes at most.
    #[inline]
    pub fn offer<S: Simt>(
        &self,
        simt: &S,
        packet: Option<&Packet<'_>>,
        every: u32,
        snap: u32,
    ) -> Taken {
        let lanes = simt.ballot(packet.is_some());
        if lanes == 0 {
            return Taken::No;
        }
        let below = (1u32 << simt.lane()) - 1;
        let seen = simt.shuffle_u64(self.seen.value(), 0);
        let place = seen + u64::from((lanes & below).count_ones());
        let wanted = packet.is_some() && place.is_multiple_of(u64::from(every.max(1)));
        let takers = simt.ballot(wanted);
        let written = simt.shuffle(self.written.load(), 0);
        // pairs with: the host's release of what it has read.
        let read = simt.shuffle(self.read.load(), 0);
        let room = self.depth - written.wrapping_sub(read).min(self.depth);
        let number = (takers & below).count_ones();
        let taken = match packet {
            Some(packet) if wanted && number < room => {
                let slot = written.wrapping_add(number) & (self.depth - 1);
                self.write(simt, slot, packet, snap)
            }
            _ if wanted => Taken::Lost,
            _ => Taken::No,
        };
        simt.sync_warp();
        if simt.is_leader() {
            self.seen.add_alone(u64::from(lanes.count_ones()));
            let count = takers.count_ones().min(room);
            // pairs with: the host's acquire before it reads samples.
            self.written.store(written.wrapping_add(count));
        }
        simt.sync_warp();
        taken
    }

    fn write<S: Simt>(&self, simt: &S, slot: u32, packet: &Packet<'_>, snap: u32) -> Taken {
        let offset = u64::from(slot) * u64::from(SLOT_BYTES);
        let Some(to) = self.slots.piece(offset, SLOT_BYTES) else {
            return Taken::Lost;
        };
        let snap = snap.min(SNAP_BYTES);
        let mut kept = 0;
        let mut index = 0;
        while kept < snap
            && let Some(piece) = packet.piece(index)
        {
            let count = piece.length().min(snap - kept);
            if let (Some(from), Some(to)) = (piece.part(0, count), to.part(BYTES_AT + kept, count))
            {
                kept += from.copy_to(&to);
            }
            index += 1;
        }
        let sample = Sample {
            time_ns: simt.now_ns(),
            sequence: packet.sequence(),
            length: packet.length(),
            kept,
        };
        to.copy_in(0, sample.as_bytes());
        Taken::Yes
    }
}
