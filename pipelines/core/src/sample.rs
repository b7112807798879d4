//! Samples: every Nth frame that a port receives, copied for a capture file.

use warpwire_device::{COPY_AT, Copied, Copies, CopyHead, Simt};

use crate::packet::Packet;

/// Bytes of a slot of a ring of samples.
pub const SLOT_BYTES: u32 = 2048;

/// Bytes of a frame that a sample can hold.
pub const SNAP_BYTES: u32 = SLOT_BYTES - COPY_AT;

/// *Collective.* Offers a frame a lane; every `every`th of all that were ever offered is copied,
/// its first `snap` bytes at most.
#[inline]
pub(crate) fn offer<S: Simt>(
    copies: &Copies,
    simt: &S,
    packet: Option<&Packet<'_>>,
    every: u32,
    snap: u32,
) -> Copied {
    let head = packet.map_or(CopyHead::default(), |packet| CopyHead {
        time_ns: simt.now_ns(),
        sequence: packet.sequence(),
        length: packet.length(),
        kept: snap.min(packet.length()),
    });
    let every = u64::from(every.max(1));
    copies.offer(
        simt,
        packet.is_some(),
        &head,
        |place| place.is_multiple_of(every),
        |index| packet?.piece(index),
    )
}
