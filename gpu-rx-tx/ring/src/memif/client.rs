//! The client's halves: it owns the buffers, and knows them from a private table.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use crate::address::DeviceAddress;
use crate::block::{Direction, Format, QueueBlock};
use crate::cause::Cause;
use crate::frame::{Buffer, Meta, Post, PostFlags, Segment, SegmentFlags};
use crate::memif::layout::{CLIENT_LAYOUT, ClientBody, Descriptor, DescriptorFlags};
use crate::memif::ring::{Ring, widen};
use crate::memory;
use crate::provenance::Trigger;
use crate::region::{Location, Region};
use crate::verbs::{Completion, Phase, Receive, Transmit};

/// Receives from a ring server → client: every slot holds an empty buffer of ours until the server
/// filled it.
#[derive(Clone, Copy, Debug)]
pub struct ClientRx {
    ring: Ring,
    pool: Pool,
}

/// Transmits on a ring client → server.
#[derive(Clone, Copy, Debug)]
pub struct ClientTx {
    ring: Ring,
    pool: Pool,
    kick: DeviceAddress,
}

impl Receive for ClientRx {
    const FORMAT: Format = Format::Memif;
    const PHASED: bool = false;
    const SCATTER: bool = false;

    unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause> {
        // SAFETY: passed on.
        let (ring, pool, _) = unsafe { attach(block, Direction::Receive) }?;
        Ok(Self { ring, pool })
    }

    #[inline(always)]
    fn depth(&self) -> u32 {
        self.ring.depth()
    }

    #[inline(always)]
    fn pool(&self) -> u64 {
        self.pool.region.address.value()
    }

    #[inline(always)]
    fn produced(&self, near: u64) -> u64 {
        // pairs with: ServerTx::publish
        widen(near, self.ring.tail())
    }

    #[inline(always)]
    fn owned(&self, _index: u64) -> Phase {
        Phase::default()
    }

    #[inline(always)]
    fn observe(&self) {}

    #[inline(always)]
    fn segment(&self, index: u64, _part: u32) -> Segment {
        let filled = self.ring.descriptor_length(index);
        let more = if filled.next() {
            SegmentFlags::MORE
        } else {
            SegmentFlags::empty()
        };
        if filled.length > self.pool.slot_bytes {
            return Segment {
                address: DeviceAddress::NULL,
                length: 0,
                room: 0,
                flags: more | SegmentFlags::FAULT,
            };
        }
        let offset = self.pool.offset(self.ring.slot(index));
        Segment {
            address: self.pool.region.address.offset(u64::from(offset)),
            length: filled.length,
            room: self.pool.slot_bytes,
            flags: more,
        }
    }

    #[inline(always)]
    fn meta(&self, _index: u64) -> Meta {
        Meta::default()
    }

    fn fault(&self, _index: u64) -> Cause {
        Cause::RingCorrupted
    }

    #[inline(always)]
    fn exchange(&self, index: u64, buffer: DeviceAddress) {
        if let Some(offset) = self.pool.buffer_offset(buffer) {
            self.pool.set_offset(self.ring.slot(index), offset);
        }
    }

    #[inline(always)]
    fn refill(&self, index: u64) {
        // The server overwrote the length with that of the frame.
        let offered = Descriptor {
            flags: 0,
            region: self.pool.number,
            length: self.pool.slot_bytes,
            offset: self.pool.offset(self.ring.slot(index)),
            metadata: 0,
        };
        self.ring.set_descriptor(index, &offered);
    }

    #[inline(always)]
    fn release(&self, upto: u64) -> Trigger {
        // The head says how many buffers were ever offered: all slots before `upto`, and a lap
        // more. pairs with: ServerTx::completions
        let offered = upto.wrapping_add(u64::from(self.ring.depth()));
        self.ring.set_head(offered as u16);
        Trigger::PolledIndex
    }
}

impl Transmit for ClientTx {
    const FORMAT: Format = Format::Memif;
    const PHASED: bool = false;

    unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause> {
        // SAFETY: passed on.
        let (ring, pool, kick) = unsafe { attach(block, Direction::Transmit) }?;
        Ok(Self { ring, pool, kick })
    }

    #[inline(always)]
    fn depth(&self) -> u32 {
        self.ring.depth()
    }

    #[inline(always)]
    fn pool(&self) -> u64 {
        self.pool.region.address.value()
    }

    #[inline(always)]
    fn max_parts(&self) -> u32 {
        self.ring.depth()
    }

    #[inline(always)]
    fn buffer(&self, index: u64) -> Buffer {
        let offset = self.pool.offset(self.ring.slot(index));
        Buffer {
            address: self.pool.region.address.offset(u64::from(offset)),
            capacity: self.pool.slot_bytes,
            reserved: 0,
        }
    }

    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    fn prepare(&self, index: u64) {
        let offset = self.pool.offset(self.ring.slot(index));
        memory::prefetch_write(self.pool.region.address.offset(u64::from(offset)));
    }

    #[inline(always)]
    fn exchange(&self, index: u64, buffer: DeviceAddress) -> DeviceAddress {
        let slot = self.ring.slot(index);
        let Some(offset) = self.pool.buffer_offset(buffer) else {
            return buffer;
        };
        let old = self.pool.offset(slot);
        self.pool.set_offset(slot, offset);
        self.pool.region.address.offset(u64::from(old))
    }

    #[inline(always)]
    fn write(&self, index: u64, post: &Post) -> Result<(), Cause> {
        let within = self
            .pool
            .region
            .contains(post.address, u64::from(post.length));
        if !within || post.flags.intersects(OFFLOADS) {
            return Err(Cause::LocalProtection);
        }
        let offset = post.address.value() - self.pool.region.address.value();
        let next = post.part + 1 < post.parts;
        let sent = Descriptor {
            flags: u16::from(next) * DescriptorFlags::NEXT.bits(),
            region: self.pool.number,
            length: post.length,
            offset: offset as u32,
            metadata: 0,
        };
        self.ring.update_descriptor(index, &sent);
        Ok(())
    }

    #[inline(always)]
    fn publish(&self, upto: u64) {
        // pairs with: ServerRx::produced
        self.ring.set_head(upto as u16);
    }

    #[inline(always)]
    fn ring(&self, upto: u64) -> Trigger {
        self.ring.interrupt(self.kick, upto)
    }

    #[inline(always)]
    fn completions(&self, near: u64) -> u64 {
        // pairs with: ServerRx::release
        widen(near, self.ring.tail())
    }

    #[inline(always)]
    fn completion(&self, _index: u64, _near: u64) -> Option<Completion> {
        None
    }

    #[inline(always)]
    fn recycle(&self, _index: u64) {}

    #[inline(always)]
    fn retire(&self, _upto: u64) {}
}

/// The buffers of all the client's queues, and which of them are in this queue's slots.
#[derive(Clone, Copy, Debug)]
struct Pool {
    table: DeviceAddress,
    region: Region,
    first: u32,
    slot_bytes: u32,
    number: u16,
}

impl Pool {
    /// The offset of the buffer in `slot`.
    #[inline(always)]
    fn offset(&self, slot: u32) -> u32 {
        // SAFETY: the table has a word for each slot, by the queue's promise.
        unsafe { memory::load_u32(self.table.offset(u64::from(slot) * 4)) }
    }

    #[inline(always)]
    fn set_offset(&self, slot: u32, offset: u32) {
        // SAFETY: the table has a word for each slot, by the queue's promise.
        unsafe { memory::store_u32(self.table.offset(u64::from(slot) * 4), offset) }
    }

    /// The offset of the buffer that `address` lies in, if it lies in one.
    #[inline(always)]
    fn buffer_offset(&self, address: DeviceAddress) -> Option<u32> {
        if !self.region.contains(address, 1) {
            return None;
        }
        let offset = (address.value() - self.region.address.value()) as u32;
        let within = offset.checked_sub(self.first)?;
        Some(self.first + (within & !(self.slot_bytes - 1)))
    }
}

/// # Safety
/// *The queue's promise*, see [`Receive::attach`].
unsafe fn attach(
    block: &QueueBlock,
    direction: Direction,
) -> Result<(Ring, Pool, DeviceAddress), Cause> {
    block.check(Format::Memif, direction, CLIENT_LAYOUT)?;
    let body = ClientBody::from_words(&block.body);
    // SAFETY: passed on.
    let ring = unsafe { Ring::attach(body.ring, block.depth) }?;
    let sound = block.slot_bytes.is_power_of_two()
        && block.slot_bytes >= MIN_SLOT_BYTES
        && body.region_bytes <= 1 << 32
        && body.pool_offset < body.region_bytes
        && body.region_number <= u64::from(u16::MAX)
        && body.buffers.is_aligned(4)
        && !body.buffers.is_null()
        && body.region.offset(body.pool_offset).is_aligned(16);
    if !sound {
        return Err(Cause::LayoutMismatch);
    }
    let pool = Pool {
        table: body.buffers,
        region: Region {
            address: body.region,
            length: body.region_bytes,
            key: 0,
            location: Location::PageableHost,
        },
        first: body.pool_offset as u32,
        slot_bytes: block.slot_bytes,
        number: body.region_number as u16,
    };
    Ok((ring, pool, body.kick))
}

/// What memif has no word for.
const OFFLOADS: PostFlags = PostFlags::OFFLOAD_L3.union(PostFlags::OFFLOAD_L4);

/// Sixteen-byte header loads need at least this much behind a frame's first byte.
const MIN_SLOT_BYTES: u32 = 64;
