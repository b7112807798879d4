//! One ring in shared memory: its two indices, its flags, its descriptors.
#![expect(
    unsafe_code,
    reason = "the accesses to a ring stand here, on behalf of the queue's promise"
)]

use crate::address::DeviceAddress;
use crate::cause::Cause;
use crate::memif::layout::{Descriptor, MAX_DEPTH, RingFlags, RingHeader};
use crate::memory;
use crate::provenance::Trigger;

/// A ring that was promised to be live, and how deep it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    base: DeviceAddress,
    descriptors: DeviceAddress,
    /// In 64 bits: 32 would be merged with the cause of a refusal at attach, through memory on the
    /// GPU.
    mask: u64,
}

impl Ring {
    /// # Safety
    /// *The queue's promise* for a ring of `depth` descriptors at `base`.
    pub(super) unsafe fn attach(base: DeviceAddress, depth: u32) -> Result<Self, Cause> {
        let sound = !base.is_null() && base.is_aligned(16) && depth.is_power_of_two();
        if !sound || depth > MAX_DEPTH {
            return Err(Cause::LayoutMismatch);
        }
        Ok(Self {
            base,
            descriptors: base.offset(size_of::<RingHeader>() as u64),
            mask: u64::from(depth) - 1,
        })
    }

    #[inline(always)]
    pub(super) fn depth(&self) -> u32 {
        self.mask as u32 + 1
    }

    /// The slot that an index names.
    #[inline(always)]
    pub(super) fn slot(&self, index: u64) -> u32 {
        (index & self.mask) as u32
    }

    /// Acquires the head. pairs with: the client's `set_head`.
    #[inline(always)]
    pub(super) fn head(&self) -> u16 {
        // SAFETY: the head of a live ring, 2-byte aligned.
        unsafe { memory::load_acquire_u16(self.base.offset(HEAD)) }
    }

    /// Acquires the tail. pairs with: the server's `set_tail`.
    #[inline(always)]
    pub(super) fn tail(&self) -> u16 {
        // SAFETY: the tail of a live ring, 2-byte aligned.
        unsafe { memory::load_acquire_u16(self.base.offset(TAIL)) }
    }

    /// Releases a new head, as client. pairs with: the server's `head`.
    #[inline(always)]
    pub(super) fn set_head(&self, head: u16) {
        // SAFETY: the head of a live ring, 2-byte aligned; never wider, flags lie beside it.
        unsafe { memory::store_release_u16(self.base.offset(HEAD), head) }
    }

    /// Releases a new tail, as server. pairs with: the client's `tail`.
    #[inline(always)]
    pub(super) fn set_tail(&self, tail: u16) {
        // SAFETY: the tail of a live ring, 2-byte aligned.
        unsafe { memory::store_release_u16(self.base.offset(TAIL), tail) }
    }

    /// Reads a descriptor once, so that a check and the use after it see the same values.
    #[inline(always)]
    pub(super) fn descriptor(&self, index: u64) -> Descriptor {
        let at = self.descriptor_address(index);
        // SAFETY: within the descriptors of a live ring, 8-byte aligned.
        let first = unsafe { memory::load_u64(at) };
        // SAFETY: the other half of the same descriptor.
        let second = unsafe { memory::load_u64(at.offset(8)) };
        Descriptor::from_words(first, second)
    }

    /// Flags and length of a descriptor; region, offset and metadata read as 0.
    #[inline(always)]
    pub(super) fn descriptor_length(&self, index: u64) -> Descriptor {
        let at = self.descriptor_address(index);
        // SAFETY: within the descriptors of a live ring, 8-byte aligned.
        let first = unsafe { memory::load_u64(at) };
        Descriptor {
            region: 0,
            ..Descriptor::from_words(first, 0)
        }
    }

    /// Writes a whole descriptor, as client.
    #[inline(always)]
    pub(super) fn set_descriptor(&self, index: u64, descriptor: &Descriptor) {
        let at = self.descriptor_address(index);
        // SAFETY: within the descriptors of a live ring, 16-byte aligned; the slot's turn is ours.
        unsafe { memory::store_quad(at, descriptor.quad()) }
    }

    /// [`Ring::set_descriptor`] that leaves alone what is the same already, so that the server
    /// keeps its copy of the line: frames of one size from fixed buffers change no descriptor at
    /// all. On the GPU, where a load from the host is dearer than a store, it always stores.
    #[inline(always)]
    pub(super) fn update_descriptor(&self, index: u64, descriptor: &Descriptor) {
        #[cfg(not(target_arch = "nvptx64"))]
        {
            // A server that writes to it meanwhile breaks the protocol, and can do so at any time.
            if self.descriptor(index) == *descriptor {
                return;
            }
        }
        self.set_descriptor(index, descriptor);
    }

    /// Hints that a descriptor is about to be written.
    #[inline(always)]
    pub(super) fn prepare(&self, index: u64) {
        memory::prefetch_write(self.descriptor_address(index));
    }

    /// Writes flags, region and length of a descriptor, as server.
    #[inline(always)]
    pub(super) fn set_descriptor_length(&self, index: u64, descriptor: &Descriptor) {
        let at = self.descriptor_address(index);
        // SAFETY: within the descriptors of a live ring, 8-byte aligned; the slot's turn is ours.
        unsafe { memory::store_u64(at, descriptor.first_word()) }
    }

    /// Tells the host's proxy to interrupt the reader unless it polls. `kick` may be null.
    ///
    /// Flags are read without a fence after the index was stored, so a reader that unmasks just now
    /// can be missed here; the proxy looks at flags and index itself and does not miss it.
    #[inline(always)]
    pub(super) fn interrupt(&self, kick: DeviceAddress, upto: u64) -> Trigger {
        if kick.is_null() {
            return Trigger::PolledIndex;
        }
        // SAFETY: the flags of a live ring, 2-byte aligned.
        let flags = unsafe { memory::load_u16(self.base.offset(FLAGS)) };
        if flags & RingFlags::MASK_INTERRUPT.bits() != 0 {
            return Trigger::PolledIndex;
        }
        // SAFETY: the queue's kick word, live by the same promise, 8-byte aligned.
        unsafe { memory::store_release_u64(kick, upto) };
        Trigger::SystemCall
    }

    #[inline(always)]
    fn descriptor_address(&self, index: u64) -> DeviceAddress {
        let slot = u64::from(self.slot(index));
        self.descriptors
            .offset(slot * size_of::<Descriptor>() as u64)
    }
}

/// The index that `now`, 16 bits wide, stands for: `near` or up to 65,535 after it.
#[inline(always)]
pub(super) fn widen(near: u64, now: u16) -> u64 {
    near.wrapping_add(u64::from(now.wrapping_sub(near as u16)))
}

const FLAGS: u64 = core::mem::offset_of!(RingHeader, flags) as u64;
const HEAD: u64 = core::mem::offset_of!(RingHeader, head) as u64;
const TAIL: u64 = core::mem::offset_of!(RingHeader, tail) as u64;
