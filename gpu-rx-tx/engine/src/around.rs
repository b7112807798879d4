//! What surrounds a queue pair, as the transport asks for it: requests, receives, regions and kept
//! reads, where they lie in memory.
#![expect(
    unsafe_code,
    reason = "reads queues and tables by the addresses that the host gave"
)]

use warpwire_protocols::rdma::{
    Access, Fetch, Fetches, Operation, PostedReceive, Receives, Region, Regions, Request, Requests,
    Service, Status, Wanted,
};
use warpwire_ring::DeviceAddress;
use warpwire_ring::memory;
use warpwire_ring::mlx5::layout::{FENCE, Opcode, SOLICITED};
use warpwire_ring::mlx5::serve::{Bytes, Entry, Walk, WorkQueue};

use crate::tables::{PairBlock, ReceiveBlock};

/// The regions of an engine block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionTable {
    pub(crate) first: DeviceAddress,
    /// A power of two.
    pub(crate) count: u32,
}

impl RegionTable {
    /// Where the region lies that a key may name. The rest of the key is chance: a region has the
    /// key that lies in it.
    fn at(&self, key: u32) -> DeviceAddress {
        let place = key >> 8 & (self.count - 1);
        let offset = u64::from(place) * size_of::<Region>() as u64;
        self.first.offset(offset)
    }
}

impl Regions for RegionTable {
    /// Reads the key before and after the rest: the host takes a region away by its key first, and
    /// gives a new one its key last.
    fn region(&self, key: u32) -> Option<Region> {
        let at = self.at(key);
        let key_at = at.offset(core::mem::offset_of!(Region, key) as u64);
        // SAFETY: within the table, which is live by the engine's promise.
        let before = unsafe { memory::load_acquire_u32(key_at) };
        if before != key || key == 0 {
            return None;
        }
        // SAFETY: as above; a region that changes meanwhile is thrown away below.
        let region = unsafe { core::ptr::read_volatile(at.value() as *const Region) };
        core::sync::atomic::fence(core::sync::atomic::Ordering::Acquire);
        // SAFETY: as above.
        let after = unsafe { memory::load_u32(key_at) };
        (after == key && region.key == key).then_some(region)
    }

    /// The host gives the place a new key only after rounds of the engine behind the one in which
    /// it took the old key away itself: nothing newer is overwritten here.
    fn remove(&mut self, key: u32) {
        let at = self.at(key);
        let key_at = at.offset(core::mem::offset_of!(Region, key) as u64);
        // SAFETY: within the table, which is live by the engine's promise.
        unsafe { memory::store_release_u32(key_at, 0) };
    }
}

/// Everything but the queue pair itself.
pub(crate) struct Around<'a> {
    pub(crate) send: &'a WorkQueue,
    pub(crate) head: u64,
    pub(crate) service: Service,
    pub(crate) domain: u32,
    pub(crate) receives: DeviceAddress,
    pub(crate) fetches: DeviceAddress,
    pub(crate) fetch_slots: u32,
    pub(crate) regions: RegionTable,
}

impl<'a> Around<'a> {
    /// Splits a block into the queue pair and the rest.
    pub(crate) fn of(
        block: &'a mut PairBlock,
        regions: RegionTable,
    ) -> (&'a mut warpwire_protocols::rdma::QueuePair, Self) {
        let attributes = *block.pair.attributes();
        let around = Self {
            send: &block.send,
            head: block.head,
            service: attributes.service,
            domain: attributes.domain,
            receives: block.receives,
            fetches: block.fetches,
            fetch_slots: block.fetch_slots,
            regions,
        };
        (&mut block.pair, around)
    }

    fn fetch_at(&self, slot: u32) -> DeviceAddress {
        let offset = u64::from(slot) * size_of::<Fetch>() as u64;
        self.fetches.offset(offset)
    }

    /// Stores what an atomic found into the first piece of its request.
    pub(crate) fn put_value(&self, index: u64, value: u64) {
        let posted = self.head.wrapping_sub(index);
        // SAFETY: live by the engine's promise; the request is under way.
        let entry = unsafe { self.send.entry(index, posted, false) };
        let Ok(entry) = entry else {
            return;
        };
        // SAFETY: as above.
        let bytes = unsafe { self.send.bytes(index, &entry, &mut Walk::default()) };
        if let Ok(Some(bytes)) = bytes
            && bytes.length == 8
            && self.may_use(&bytes, Access::LOCAL_WRITE)
        {
            // SAFETY: eight bytes of a region whose key and bounds were checked just now.
            unsafe { memory::copy_in(&value.to_ne_bytes(), bytes.address) };
        }
    }

    /// Whether bytes of a request may be used so.
    fn may_use(&self, bytes: &Bytes, access: Access) -> bool {
        if bytes.is_inline {
            return access == Access::NONE;
        }
        let wanted = Wanted {
            key: bytes.key,
            domain: self.domain,
            access,
        };
        let address = bytes.address.value();
        self.regions.check(&wanted, address, bytes.length).is_ok()
    }

    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    fn read(&self, index: u64) -> Result<Request, Status> {
        let posted = self.head.wrapping_sub(index);
        let is_datagram = self.service == Service::Ud;
        // SAFETY: live by the engine's promise; the slot is posted.
        let entry = unsafe { self.send.entry(index, posted, is_datagram) };
        let entry = entry.map_err(|_| Status::LocalQpOperation)?;
        let operation = operation(entry.opcode).ok_or(Status::LocalQpOperation)?;
        let length = self.length(index, &entry, operation)?;
        let mut request = Request {
            operation,
            fence: entry.modes & FENCE != 0,
            solicited: entry.modes & SOLICITED != 0,
            length,
            address: entry.address,
            key: entry.key,
            immediate: entry.immediate,
            value: entry.value,
            compare: entry.compare,
            destination_qp: 0,
            qkey: 0,
            more_slots: entry.slots - 1,
        };
        if is_datagram {
            // SAFETY: as above.
            let datagram = unsafe { self.send.datagram(index) };
            request.destination_qp = datagram.dqp_dct.get() & 0x00ff_ffff;
            request.qkey = datagram.qkey.get();
        }
        Ok(request)
    }

    /// The bytes of a request, each of whose pieces it may use.
    fn length(&self, index: u64, entry: &Entry, operation: Operation) -> Result<u32, Status> {
        let access = match operation.is_fetch() {
            true => Access::LOCAL_WRITE,
            false => Access::NONE,
        };
        let mut walk = Walk::default();
        let mut length = 0u32;
        loop {
            // SAFETY: live by the engine's promise; the request is posted.
            let bytes = unsafe { self.send.bytes(index, entry, &mut walk) };
            match bytes.map_err(|_| Status::LocalQpOperation)? {
                None => return Ok(length),
                Some(bytes) if !self.may_use(&bytes, access) => {
                    return Err(Status::LocalProtection);
                }
                Some(bytes) => {
                    let sum = length.checked_add(bytes.length);
                    length = sum.ok_or(Status::LocalLength)?;
                }
            }
        }
    }
}

impl Requests for Around<'_> {
    fn request(&self, index: u64) -> Option<Result<Request, Status>> {
        let posted = self.head.wrapping_sub(index);
        if posted == 0 || posted > 1 << self.send.log_depth {
            return None;
        }
        Some(self.read(index))
    }
}

impl Regions for Around<'_> {
    fn region(&self, key: u32) -> Option<Region> {
        self.regions.region(key)
    }

    fn remove(&mut self, key: u32) {
        self.regions.remove(key);
    }
}

impl Receives for Around<'_> {
    #[inline(never)]
    fn take_receive(&mut self) -> Option<PostedReceive> {
        let at = self.receives.value() as *mut ReceiveBlock;
        if at.is_null() {
            return None;
        }
        // SAFETY: a receive block by the engine's promise, driven by this block alone.
        let block = unsafe { &mut *at };
        if block.next == block.head {
            // SAFETY: the queue's memory is live by the engine's promise.
            block.head = unsafe { block.queue.head(block.head) };
        }
        if block.next == block.head {
            return None;
        }
        let index = block.next;
        block.next = index.wrapping_add(1);
        Some(self.taken_receive(index))
    }

    fn taken_receive(&self, index: u64) -> PostedReceive {
        let at = self.receives.value() as *const ReceiveBlock;
        // SAFETY: a receive block by the engine's promise: a receive was taken from it.
        let queue = unsafe { (*at).queue };
        let mut capacity = 0u32;
        let mut may_use = true;
        let mut part = 0;
        // SAFETY: live by the engine's promise; the slot is posted.
        while let Some(bytes) = unsafe { queue.receive_bytes(index, part) } {
            capacity = capacity.saturating_add(bytes.length);
            may_use &= self.may_use(&bytes, Access::LOCAL_WRITE);
            part += 1;
        }
        PostedReceive {
            index,
            capacity,
            may_use,
        }
    }
}

impl Fetches for Around<'_> {
    fn slots(&self) -> u32 {
        self.fetch_slots
    }

    fn fetch(&self, slot: u32) -> Fetch {
        if slot >= self.fetch_slots {
            return Fetch::default();
        }
        let at = self.fetch_at(slot).value() as *const Fetch;
        // SAFETY: within the table, which is live by the engine's promise and this block's own.
        unsafe { *at }
    }

    fn set_fetch(&mut self, slot: u32, fetch: Fetch) {
        if slot < self.fetch_slots {
            let at = self.fetch_at(slot).value() as *mut Fetch;
            // SAFETY: as above.
            unsafe { *at = fetch }
        }
    }
}

/// What an opcode of the queue asks for.
pub(crate) const fn operation(opcode: Opcode) -> Option<Operation> {
    Some(match opcode {
        Opcode::SEND => Operation::Send,
        Opcode::SEND_IMM => Operation::SendImmediate,
        Opcode::SEND_INVALIDATE => Operation::SendInvalidate,
        Opcode::WRITE => Operation::Write,
        Opcode::WRITE_IMM => Operation::WriteImmediate,
        Opcode::READ => Operation::Read,
        Opcode::COMPARE_SWAP => Operation::CompareSwap,
        Opcode::FETCH_ADD => Operation::FetchAdd,
        _ => return None,
    })
}
