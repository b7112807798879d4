//! Copies of frames for the host: a ring that one warp fills and the host drains.
//!
//! A full ring loses the copy and says so; the frame goes on.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that the ring is live"
)]

use warpwire_ring::{DeviceAddress, Location, Region, memory};

use crate::area::Area;
use crate::piece::Piece;
use crate::shared::{SharedCounter, SharedWord};
use crate::simt::Simt;

/// The two ends of a ring of copies, each in a line of its own. Indices wrap at 2^32.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(128))]
pub struct CopyBlock {
    /// Copies written so far; the kernel's.
    pub written: u32,
    /// How many slots there are; a power of two.
    pub depth: u32,
    /// Frames that were offered, whether or not they were wanted; the kernel's.
    pub offered: u64,
    /// The slots, aligned to 64: a [`CopyHead`], and the frame's bytes from [`COPY_AT`] on.
    pub slots: DeviceAddress,
    /// Bytes of a slot, a multiple of 64.
    pub slot_bytes: u32,
    /// Written as zero.
    pub reserved: [u32; 25],
    /// Copies read so far; the host's.
    pub read: u32,
    /// Written as zero.
    pub reserved_read: [u32; 31],
}

const _: () = assert!(size_of::<CopyBlock>() == 256);
const _: () = assert!(core::mem::offset_of!(CopyBlock, read) == 128);

/// What stands before the bytes of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct CopyHead {
    /// When the frame was seen, in nanoseconds of the kernel's clock.
    pub time_ns: u64,
    /// The frame's place among those of its queue.
    pub sequence: u64,
    /// Bytes of the frame.
    pub length: u32,
    /// Bytes of it that follow.
    pub kept: u32,
}

const _: () = assert!(size_of::<CopyHead>() == 24);

/// Where in its slot the bytes of a copy start.
pub const COPY_AT: u32 = 64;

/// The writing end of a ring.
#[derive(Clone, Copy, Debug)]
pub struct Copies {
    written: SharedWord,
    read: SharedWord,
    offered: SharedCounter,
    slots: Area,
    depth: u32,
    slot_bytes: u32,
}

/// What became of a lane's frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// It was not wanted, or there is none.
    No,
    /// It lies in the ring.
    Yes,
    /// The ring is full.
    Lost,
}

impl Copies {
    /// Attaches to a ring; `None` for null and for a block that is none.
    ///
    /// # Safety
    /// At an aligned address lies a [`CopyBlock`], which is live with its slots for as long as the
    /// value is used; depth, slots and their size do not change, and no other kernel writes there.
    #[inline(always)]
    pub unsafe fn attach(at: DeviceAddress) -> Option<Self> {
        if at.is_null() || !at.is_aligned(align_of::<CopyBlock>() as u64) {
            return None;
        }
        let word = |offset: usize| at.offset(offset as u64);
        // SAFETY: words of the block, by the promise.
        let depth = unsafe { memory::load_u32(word(core::mem::offset_of!(CopyBlock, depth))) };
        let slot_bytes = word(core::mem::offset_of!(CopyBlock, slot_bytes));
        // SAFETY: as above.
        let slot_bytes = unsafe { memory::load_u32(slot_bytes) };
        // SAFETY: as above.
        let slots = unsafe { memory::load_u64(word(core::mem::offset_of!(CopyBlock, slots))) };
        if !depth.is_power_of_two() || slot_bytes < COPY_AT {
            return None;
        }
        let region = Region {
            address: DeviceAddress::new(slots),
            length: u64::from(depth) * u64::from(slot_bytes),
            key: 0,
            location: Location::PinnedHost,
        };
        let offered = word(core::mem::offset_of!(CopyBlock, offered));
        let written = word(core::mem::offset_of!(CopyBlock, written));
        let read = word(core::mem::offset_of!(CopyBlock, read));
        Some(Self {
            // SAFETY: words of the block, touched through atomic accesses by both ends.
            written: unsafe { SharedWord::attach(written) },
            // SAFETY: as above.
            read: unsafe { SharedWord::attach(read) },
            // SAFETY: as above.
            offered: unsafe { SharedCounter::attach(offered) },
            // SAFETY: the slots, by the promise.
            slots: unsafe { Area::attach(region) },
            depth,
            slot_bytes,
        })
    }

    /// Bytes of a frame that a copy can hold.
    #[inline(always)]
    pub const fn room(&self) -> u32 {
        self.slot_bytes - COPY_AT
    }

    /// *Collective.* Offers a frame a lane. Of those that are there, `wants` is told their place
    /// among all that were ever offered, and says whether to copy. Of a frame that is wanted the
    /// first `head.kept` bytes are copied, as far as there is room and as `piece` gives them.
    #[inline]
    pub fn offer<'p, S: Simt>(
        &self,
        simt: &S,
        is_there: bool,
        head: &CopyHead,
        wants: impl Fn(u64) -> bool,
        piece: impl Fn(u32) -> Option<Piece<'p>>,
    ) -> Copied {
        let lanes = simt.ballot(is_there);
        if lanes == 0 {
            return Copied::No;
        }
        let below = (1u32 << simt.lane()) - 1;
        let offered = simt.shuffle_u64(self.offered.value(), 0);
        let place = offered + u64::from((lanes & below).count_ones());
        let wanted = is_there && wants(place);
        let takers = simt.ballot(wanted);
        let written = simt.shuffle(self.written.load(), 0);
        // pairs with: the host's release of what it has read.
        let read = simt.shuffle(self.read.load(), 0);
        let room = self.depth - written.wrapping_sub(read).min(self.depth);
        let number = (takers & below).count_ones();
        let copied = if !wanted {
            Copied::No
        } else if number < room {
            let slot = written.wrapping_add(number) & (self.depth - 1);
            self.write(slot, head, piece)
        } else {
            Copied::Lost
        };
        simt.sync_warp();
        if simt.is_leader() {
            self.offered.add_alone(u64::from(lanes.count_ones()));
            let count = takers.count_ones().min(room);
            // pairs with: the host's acquire before it reads copies.
            self.written.store(written.wrapping_add(count));
        }
        simt.sync_warp();
        copied
    }

    #[inline]
    fn write<'p>(
        &self,
        slot: u32,
        head: &CopyHead,
        piece: impl Fn(u32) -> Option<Piece<'p>>,
    ) -> Copied {
        let offset = u64::from(slot) * u64::from(self.slot_bytes);
        let Some(to) = self.slots.piece(offset, self.slot_bytes) else {
            return Copied::Lost;
        };
        let most = head.kept.min(self.room());
        let (mut kept, mut index) = (0, 0);
        while kept < most
            && let Some(from) = piece(index)
        {
            let count = from.length().min(most - kept);
            if let (Some(from), Some(to)) = (from.part(0, count), to.part(COPY_AT + kept, count)) {
                kept += from.copy_to(&to);
            }
            index += 1;
        }
        to.copy_in(0, &head.time_ns.to_ne_bytes());
        to.copy_in(8, &head.sequence.to_ne_bytes());
        to.copy_in(16, &head.length.to_ne_bytes());
        to.copy_in(20, &kept.to_ne_bytes());
        Copied::Yes
    }
}

/// The reading end of a ring that the host fills with frames: the same layout, with the roles
/// swapped.
#[derive(Clone, Copy, Debug)]
pub struct CopyReader(Copies);

impl CopyReader {
    /// Attaches to a ring; `None` for null and for a block that is none.
    ///
    /// # Safety
    /// As [`Copies::attach`], but for who writes: no other kernel reads there.
    #[inline(always)]
    pub unsafe fn attach(at: DeviceAddress) -> Option<Self> {
        // SAFETY: passed on.
        unsafe { Copies::attach(at) }.map(Self)
    }

    /// *Collective.* How many frames wait; the same number in every lane.
    #[inline]
    pub fn waiting<S: Simt>(&self, simt: &S) -> u32 {
        // pairs with: the host's release of what it has written.
        let written = simt.shuffle(self.0.written.load(), 0);
        let waiting = written.wrapping_sub(self.0.read.load());
        simt.shuffle(waiting.min(self.0.depth), 0)
    }

    /// The frame behind the first `index` of those that wait. `None` if its slot has no such bytes.
    #[inline]
    pub fn frame(&self, index: u32) -> Option<Piece<'_>> {
        let slot = self.0.read.load().wrapping_add(index) & (self.0.depth - 1);
        let offset = u64::from(slot) * u64::from(self.0.slot_bytes);
        let whole = self.0.slots.piece(offset, self.0.slot_bytes)?;
        let mut kept = [0; 4];
        whole.copy_out(core::mem::offset_of!(CopyHead, kept) as u32, &mut kept);
        whole.part(COPY_AT, u32::from_ne_bytes(kept))
    }

    /// *Collective.* Gives the first `count` of those that wait back to the host.
    #[inline]
    pub fn give_back<S: Simt>(&self, simt: &S, count: u32) {
        simt.sync_warp();
        if simt.is_leader() {
            // pairs with: the host's acquire before it writes another frame.
            self.0.read.store(self.0.read.load().wrapping_add(count));
        }
        simt.sync_warp();
    }
}
