//! The receive queue: receive ring in, fill ring back.
#![expect(
    unsafe_code,
    reason = "reads and writes ring memory under the queue's promise"
)]

use super::{Descriptor, FLAG_NEED_WAKEUP, OPTION_CONTINUED, RxBody, widen};
use crate::address::DeviceAddress;
use crate::barrier::{self, Scope};
use crate::block::{Format, QueueBlock};
use crate::cause::Cause;
use crate::frame::{Meta, Segment, SegmentFlags};
use crate::memory::{load_acquire_u32, load_u32, load_u64};
use crate::memory::{store_release_u32, store_release_u64, store_u64};
use crate::provenance::Trigger;
use crate::verbs::{Phase, Receive};

/// The receive queue of an AF_XDP socket. A frame's pieces lie in consecutive slots.
#[derive(Clone, Copy, Debug)]
pub struct RxQueue {
    body: RxBody,
    scope: Scope,
}

impl RxQueue {
    #[inline(always)]
    fn descriptor(&self, index: u64) -> Descriptor {
        let ring = &self.body.receive;
        // SAFETY: a masked entry of the ring, which the queue's promise covers.
        unsafe { Descriptor::load(ring.entries, index, ring.mask()) }
    }
}

impl Receive for RxQueue {
    const FORMAT: Format = Format::Xdp;
    const PHASED: bool = false;
    const SCATTER: bool = false;

    unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause> {
        // One way out with a cause: a compiler that shares its store among several keeps the cause,
        // and with it a word of local memory.
        let (body, fault) = RxBody::of(block);
        match fault {
            Some(cause) => Err(cause),
            None => Ok(Self {
                body,
                scope: block.scope(),
            }),
        }
    }

    #[inline(always)]
    fn depth(&self) -> u32 {
        self.body.receive.size
    }

    #[inline(always)]
    fn pool(&self) -> u64 {
        self.body.umem.pool
    }

    #[inline(always)]
    fn produced(&self, near: u64) -> u64 {
        // SAFETY: the producer's word, which the queue's promise covers.
        // pairs with: the kernel's release of the producer index after it wrote descriptors and
        // frames.
        widen(near, unsafe {
            load_acquire_u32(self.body.receive.producer)
        })
    }

    #[inline(always)]
    fn owned(&self, _index: u64) -> Phase {
        Phase::default()
    }

    #[inline(always)]
    fn observe(&self) {
        barrier::after_observe(self.scope);
    }

    #[inline(always)]
    fn segment(&self, index: u64, _part: u32) -> Segment {
        let descriptor = self.descriptor(index);
        let mut flags = SegmentFlags::empty();
        flags.set(
            SegmentFlags::MORE,
            descriptor.options & OPTION_CONTINUED != 0,
        );
        match self.body.umem.piece(descriptor.address, descriptor.length) {
            Some(address) => Segment {
                address,
                length: descriptor.length,
                flags,
                room: self.body.umem.room(descriptor.address),
            },
            None => Segment {
                flags: flags | SegmentFlags::FAULT,
                ..Segment::default()
            },
        }
    }

    #[inline(always)]
    fn meta(&self, _index: u64) -> Meta {
        Meta::default()
    }

    #[inline(always)]
    fn fault(&self, _index: u64) -> Cause {
        Cause::RingCorrupted
    }

    #[inline(always)]
    fn exchange(&self, index: u64, buffer: DeviceAddress) {
        let ring = &self.body.receive;
        let entry = (index & u64::from(ring.mask())) * size_of::<Descriptor>() as u64;
        let chunk = self.body.umem.chunk(buffer);
        // SAFETY: the address word of a masked entry, which is ours until the consumer index passes
        // it.
        unsafe { store_u64(ring.entries.offset(entry), chunk) }
    }

    #[inline(always)]
    fn refill(&self, index: u64) {
        let ring = &self.body.receive;
        let entry = (index & u64::from(ring.mask())) * size_of::<Descriptor>() as u64;
        // SAFETY: the address word of a masked entry, which is ours until the consumer index passes
        // it.
        let offset = unsafe { load_u64(ring.entries.offset(entry)) };
        // A chunk that is none is refused and counted by the kernel; the slot goes on without it.
        let chunk = self.body.umem.chunk_of(offset);
        let fill = &self.body.fill;
        let place = self.body.primed.wrapping_add(index) & u64::from(fill.mask());
        // SAFETY: a masked entry of the fill ring. The kernel took it before it could deliver slot
        // `index`.
        unsafe { store_u64(fill.entries.offset(place * 8), chunk) }
    }

    #[inline(always)]
    fn release(&self, upto: u64) -> Trigger {
        barrier::before_release(self.scope);
        let filled = self.body.primed.wrapping_add(upto) as u32;
        // SAFETY: our index of the fill ring.
        // pairs with: the kernel's acquire of the fill ring's producer before it reads entries.
        unsafe { store_release_u32(self.body.fill.producer, filled) }
        // SAFETY: our index of the receive ring.
        // pairs with: the kernel's acquire of the consumer before it overwrites descriptors.
        unsafe { store_release_u32(self.body.receive.consumer, upto as u32) }
        barrier::before_doorbell(self.scope);
        // SAFETY: the kernel's flags of the fill ring.
        let flags = unsafe { load_u32(self.body.fill.flags) };
        if flags & FLAG_NEED_WAKEUP == 0 {
            return Trigger::PolledIndex;
        }
        // SAFETY: the queue's kick word.
        // pairs with: the host proxy's acquire of the word.
        unsafe { store_release_u64(self.body.kick, upto) }
        Trigger::SystemCall
    }
}
