//! The server's halves: every buffer is the client's, and every descriptor is checked when it is
//! used.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use crate::address::DeviceAddress;
use crate::block::{Direction, Format, QueueBlock};
use crate::cause::Cause;
use crate::frame::{Buffer, Meta, Post, PostFlags, Segment, SegmentFlags};
use crate::memif::layout::{Descriptor, DescriptorFlags, SERVER_LAYOUT, ServerBody};
use crate::memif::ring::{Ring, widen};
use crate::memory;
use crate::provenance::Trigger;
use crate::region::{Location, Region};
use crate::verbs::{Completion, Phase, Receive, Transmit};

/// Receives from a ring client → server.
#[derive(Clone, Copy, Debug)]
pub struct ServerRx {
    ring: Ring,
    regions: Regions,
}

/// Transmits on a ring server → client: a slot is free when the client offered a buffer in it.
///
/// Of `Post`, address and length must lie at the start of the slot's own buffer: the server fills
/// what it was offered and cannot point elsewhere. A slot whose descriptor is bad cannot be sent,
/// and slots go back in order, so the queue ends there.
#[derive(Clone, Copy, Debug)]
pub struct ServerTx {
    ring: Ring,
    regions: Regions,
    slot_bytes: u32,
    kick: DeviceAddress,
    written: DeviceAddress,
}

impl Receive for ServerRx {
    const FORMAT: Format = Format::Memif;
    const PHASED: bool = false;
    const REFILLS: bool = false;
    const SCATTER: bool = false;

    unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause> {
        // SAFETY: passed on.
        let (ring, regions, _) = unsafe { attach(block, Direction::Receive) }?;
        Ok(Self { ring, regions })
    }

    #[inline(always)]
    fn depth(&self) -> u32 {
        self.ring.depth()
    }

    #[inline(always)]
    fn pool(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn produced(&self, near: u64) -> u64 {
        // pairs with: ClientTx::publish
        widen(near, self.ring.head())
    }

    #[inline(always)]
    fn owned(&self, _index: u64) -> Phase {
        Phase::default()
    }

    #[inline(always)]
    fn observe(&self) {}

    #[inline(always)]
    fn segment(&self, index: u64, _part: u32) -> Segment {
        let descriptor = self.ring.descriptor(index);
        let more = if descriptor.next() {
            SegmentFlags::MORE
        } else {
            SegmentFlags::empty()
        };
        match self.regions.resolve(&descriptor) {
            Some((address, room)) => Segment {
                address,
                length: descriptor.length,
                room,
                flags: more,
            },
            None => Segment {
                address: DeviceAddress::NULL,
                length: 0,
                room: 0,
                flags: more | SegmentFlags::FAULT,
            },
        }
    }

    #[inline(always)]
    fn meta(&self, _index: u64) -> Meta {
        Meta::default()
    }

    fn fault(&self, _index: u64) -> Cause {
        Cause::RingCorrupted
    }

    /// Does nothing: the buffers are the client's, and pool 0 matches nothing.
    #[inline(always)]
    fn exchange(&self, _index: u64, _buffer: DeviceAddress) {}

    #[inline(always)]
    fn refill(&self, _index: u64) {}

    #[inline(always)]
    fn release(&self, upto: u64) -> Trigger {
        // pairs with: ClientTx::completions
        self.ring.set_tail(upto as u16);
        Trigger::PolledIndex
    }
}

impl Transmit for ServerTx {
    const FORMAT: Format = Format::Memif;
    const PHASED: bool = false;

    unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause> {
        // SAFETY: passed on.
        let (ring, regions, body) = unsafe { attach(block, Direction::Transmit) }?;
        if body.written.is_null() || !body.written.is_aligned(4) {
            return Err(Cause::LayoutMismatch);
        }
        Ok(Self {
            ring,
            regions,
            slot_bytes: block.slot_bytes,
            kick: body.kick,
            written: body.written,
        })
    }

    #[inline(always)]
    fn depth(&self) -> u32 {
        self.ring.depth()
    }

    #[inline(always)]
    fn pool(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn max_parts(&self) -> u32 {
        self.ring.depth()
    }

    /// The buffer that the client offered; address null and capacity 0 if its descriptor is bad.
    #[inline(always)]
    fn buffer(&self, index: u64) -> Buffer {
        let descriptor = self.empty(index);
        match self.offered(&descriptor) {
            Some(address) => Buffer {
                address,
                capacity: descriptor.length.min(self.slot_bytes),
                reserved: 0,
            },
            None => Buffer::default(),
        }
    }

    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    fn prepare(&self, index: u64) {
        if let Some((address, _)) = self.regions.resolve(&self.ring.descriptor(index)) {
            memory::prefetch_write(address);
            self.ring.prepare(index);
        }
    }

    /// Does nothing and returns `buffer`: the buffers are the client's, and pool 0 matches nothing.
    #[inline(always)]
    fn exchange(&self, _index: u64, buffer: DeviceAddress) -> DeviceAddress {
        buffer
    }

    #[inline(always)]
    fn write(&self, index: u64, post: &Post) -> Result<(), Cause> {
        let descriptor = self.empty(index);
        let Some(offered) = self.offered(&descriptor) else {
            return Err(Cause::RingCorrupted);
        };
        let fits = offered == post.address
            && post.length <= descriptor.length
            && !post.flags.intersects(OFFLOADS);
        if !fits {
            return Err(Cause::LocalProtection);
        }
        let next = post.part + 1 < post.parts;
        let sent = Descriptor {
            flags: u16::from(next) * DescriptorFlags::NEXT.bits(),
            length: post.length,
            ..descriptor
        };
        self.keep(index, descriptor.length);
        self.ring.set_descriptor_length(index, &sent);
        Ok(())
    }

    #[inline(always)]
    fn publish(&self, upto: u64) {
        // pairs with: ClientRx::produced
        self.ring.set_tail(upto as u16);
    }

    #[inline(always)]
    fn ring(&self, upto: u64) -> Trigger {
        self.ring.interrupt(self.kick, upto)
    }

    #[inline(always)]
    fn completions(&self, near: u64) -> u64 {
        // The head counts the buffers that were ever offered. The slot one lap before an offer is
        // free. pairs with: ClientRx::release
        let free = self.ring.head().wrapping_sub(self.ring.depth() as u16);
        widen(near, free)
    }

    #[inline(always)]
    fn completion(&self, _index: u64, _near: u64) -> Option<Completion> {
        None
    }

    /// The client offers the slot anew: its descriptor holds the buffer's length.
    #[inline(always)]
    fn recycle(&self, index: u64) {
        self.keep(index, 0);
    }

    #[inline(always)]
    fn retire(&self, _upto: u64) {}
}

impl ServerTx {
    /// A free slot's descriptor with the length of its buffer.
    #[inline(always)]
    fn empty(&self, index: u64) -> Descriptor {
        let descriptor = self.ring.descriptor(index);
        // SAFETY: the table has a word for each slot, by the queue's promise.
        let kept = unsafe { memory::load_u32(self.written_word(index)) };
        let length = if kept == 0 { descriptor.length } else { kept };
        Descriptor {
            length,
            ..descriptor
        }
    }

    /// Keeps the length of a buffer; 0 if its descriptor has it.
    #[inline(always)]
    fn keep(&self, index: u64, length: u32) {
        // SAFETY: the table has a word for each slot, by the queue's promise.
        unsafe { memory::store_u32(self.written_word(index), length) }
    }

    #[inline(always)]
    fn written_word(&self, index: u64) -> DeviceAddress {
        self.written.offset(u64::from(self.ring.slot(index)) * 4)
    }

    /// Where the buffer that a descriptor offers lies, if it is in bounds and aligned for our
    /// stores.
    #[inline(always)]
    fn offered(&self, descriptor: &Descriptor) -> Option<DeviceAddress> {
        let (address, _) = self.regions.resolve(descriptor)?;
        address.is_aligned(16).then_some(address)
    }
}

/// The client's regions as they are mapped here.
#[derive(Clone, Copy, Debug)]
struct Regions {
    table: DeviceAddress,
    count: u32,
}

impl Regions {
    /// Where a descriptor's bytes lie and how many bytes the region has from there on, if they lie
    /// in a region that the client announced.
    #[inline(always)]
    fn resolve(&self, descriptor: &Descriptor) -> Option<(DeviceAddress, u32)> {
        let number = u32::from(descriptor.region);
        if number >= self.count {
            return None;
        }
        let entry = self
            .table
            .offset(u64::from(number) * size_of::<Region>() as u64);
        // SAFETY: an entry of the table, which is live by the queue's promise.
        let address = unsafe { memory::load_u64(entry) };
        // SAFETY: the length behind the address in the same entry.
        let length = unsafe { memory::load_u64(entry.offset(LENGTH)) };
        let region = Region {
            address: DeviceAddress::new(address),
            length,
            key: 0,
            location: Location::PageableHost,
        };
        let offset = u64::from(descriptor.offset);
        let at = region.at(offset, u64::from(descriptor.length))?;
        let room = (length - offset).min(u64::from(u32::MAX));
        Some((at, room as u32))
    }
}

/// # Safety
/// *The queue's promise*, see [`Receive::attach`].
unsafe fn attach(
    block: &QueueBlock,
    direction: Direction,
) -> Result<(Ring, Regions, ServerBody), Cause> {
    block.check(Format::Memif, direction, SERVER_LAYOUT)?;
    let body = ServerBody::from_words(&block.body);
    // SAFETY: passed on.
    let ring = unsafe { Ring::attach(body.ring, block.depth) }?;
    let sound = body.region_count <= 1 << 16
        && body.regions.is_aligned(align_of::<Region>() as u64)
        && !body.regions.is_null();
    if !sound {
        return Err(Cause::LayoutMismatch);
    }
    let regions = Regions {
        table: body.regions,
        count: body.region_count as u32,
    };
    Ok((ring, regions, body))
}

/// What memif has no word for.
const OFFLOADS: PostFlags = PostFlags::OFFLOAD_L3.union(PostFlags::OFFLOAD_L4);

const LENGTH: u64 = core::mem::offset_of!(Region, length) as u64;
const _: () = assert!(core::mem::offset_of!(Region, address) == 0);
