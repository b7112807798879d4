//! Copies of packets that leave, for the host to look at: a ring that a block fills and the host
//! drains. A full ring loses the copy and counts it; the packet goes on.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that the ring is live"
)]

use warpwire_device::{Area, Piece, SharedCounter, SharedWord, Simt};
use warpwire_ring::{DeviceAddress, Location, Region};

/// The two ends of a ring of copies, each in a line of its own. Indices wrap at 2^32.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(128))]
pub struct MirrorBlock {
    /// Copies written so far; the engine's.
    pub written: u32,
    /// How many slots of [`MIRROR_SLOT_BYTES`] there are; a power of two.
    pub depth: u32,
    /// Packets that found no room; the engine's.
    pub lost: u64,
    /// The slots, aligned to 64: [`MirrorHead`], and the packet's bytes from [`MIRROR_BYTES_AT`]
    /// on.
    pub slots: DeviceAddress,
    /// Written as zero.
    pub reserved: [u64; 13],
    /// Copies read so far; the host's.
    pub read: u32,
    /// Written as zero.
    pub reserved_read: [u32; 31],
}

const _: () = assert!(size_of::<MirrorBlock>() == 256);
const _: () = assert!(core::mem::offset_of!(MirrorBlock, read) == 128);

/// What stands before the bytes of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct MirrorHead {
    /// When the packet was made, in nanoseconds of the engine's clock.
    pub time_ns: u64,
    /// Bytes of the packet, all of which follow.
    pub length: u32,
    /// Written as zero.
    pub reserved: u32,
}

/// Bytes of a slot: room for the largest packet.
pub const MIRROR_SLOT_BYTES: u32 = 4352;
/// Where in its slot a packet begins.
pub const MIRROR_BYTES_AT: u32 = 64;

const _: () = assert!(crate::engine::LARGEST <= MIRROR_SLOT_BYTES - MIRROR_BYTES_AT);

/// The engine's end of a ring of copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mirror {
    written: SharedWord,
    read: SharedWord,
    lost: SharedCounter,
    slots: Area,
    depth: u32,
}

impl Mirror {
    /// Attaches to a ring; `None` if there is none.
    ///
    /// # Safety
    /// At a non-null address lies a [`MirrorBlock`], which is live with its slots for as long as
    /// the value is used, and which nobody else writes.
    pub(crate) unsafe fn attach(at: DeviceAddress) -> Option<Self> {
        if at.is_null() || !at.is_aligned(align_of::<MirrorBlock>() as u64) {
            return None;
        }
        // SAFETY: a block lies there, by the promise.
        let block = unsafe { &*(at.value() as *const MirrorBlock) };
        if !block.depth.is_power_of_two() {
            return None;
        }
        let slots = Region {
            address: block.slots,
            length: u64::from(block.depth) * u64::from(MIRROR_SLOT_BYTES),
            key: 0,
            location: Location::Device,
        };
        let word = |offset: usize| at.offset(offset as u64);
        Some(Self {
            // SAFETY: a word of the block.
            written: unsafe {
                SharedWord::attach(word(core::mem::offset_of!(MirrorBlock, written)))
            },
            // SAFETY: as above.
            read: unsafe { SharedWord::attach(word(core::mem::offset_of!(MirrorBlock, read))) },
            // SAFETY: as above.
            lost: unsafe { SharedCounter::attach(word(core::mem::offset_of!(MirrorBlock, lost))) },
            // SAFETY: the slots, by the promise.
            slots: unsafe { Area::attach(slots) },
            depth: block.depth,
        })
    }

    /// *Collective.* Copies a packet a lane, `length` bytes in the pieces that `piece` gives; of
    /// lanes that have one.
    #[inline(never)]
    pub(crate) fn take<'p, S: Simt>(
        &self,
        simt: &S,
        now_ns: u64,
        has_packet: bool,
        length: u32,
        piece: impl Fn(u32) -> Option<Piece<'p>>,
    ) {
        let lanes = simt.ballot(has_packet);
        let below = (1u32 << simt.lane()) - 1;
        let number = (lanes & below).count_ones();
        let written = simt.shuffle(self.written.load(), 0);
        // pairs with: the host's release of what it has read.
        let read = simt.shuffle(self.read.load(), 0);
        let room = self.depth - written.wrapping_sub(read).min(self.depth);
        if has_packet && number < room {
            let slot = written.wrapping_add(number) & (self.depth - 1);
            self.write(slot, now_ns, length, piece);
        }
        simt.sync_warp();
        if simt.is_leader() {
            let count = lanes.count_ones();
            let taken = count.min(room);
            self.lost.add_alone(u64::from(count - taken));
            // pairs with: the host's acquire before it reads copies.
            self.written.store(written.wrapping_add(taken));
        }
        simt.sync_warp();
    }

    fn write<'p>(
        &self,
        slot: u32,
        now_ns: u64,
        length: u32,
        piece: impl Fn(u32) -> Option<Piece<'p>>,
    ) {
        let offset = u64::from(slot) * u64::from(MIRROR_SLOT_BYTES);
        let Some(to) = self.slots.piece(offset, MIRROR_SLOT_BYTES) else {
            return;
        };
        let (mut done, mut part) = (0, 0);
        while done < length
            && let Some(from) = piece(part)
        {
            let count = from.length().min(length - done);
            let to = to.part(MIRROR_BYTES_AT + done, count);
            if let Some((from, to)) = from.part(0, count).zip(to) {
                from.copy_to(&to);
            }
            done += count;
            part += 1;
        }
        to.copy_in(0, &now_ns.to_le_bytes());
        to.copy_in(8, &done.to_le_bytes());
    }
}
