//! memif rings in mapped memory, and the peer that moves nothing but their indices.
#![expect(
    unsafe_code,
    reason = "formats rings before a kernel sees them and moves their indices after"
)]

use std::hint;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use warpwire_gpu::Arena;
use warpwire_ring::memif::{
    CLIENT_LAYOUT, ClientBody, Descriptor, RegionPlan, RingHeader, RingKind, SERVER_LAYOUT,
    ServerBody, server_rx_cursor,
};
use warpwire_ring::{
    DeviceAddress, Direction, Format, Location, QueueBlock, RxCursor, TxCursor, memory,
};

use crate::scene::words;
use crate::setting::Setting;

/// A ring for each block, all of one direction.
pub(crate) struct Rings {
    plan: RegionPlan,
    direction: Direction,
    /// Rings and buffers.
    region: Arc<Arena>,
    /// What lies beside the rings.
    beside: Arc<Arena>,
    queues: Vec<QueueBlock>,
}

impl Rings {
    /// Rings that a kernel receives `frame` from, again and again.
    pub(crate) fn to_receive(setting: &Setting, blocks: u32, frame: &[u8]) -> Result<Self, String> {
        let mut rings = Self::new(setting, Direction::Receive, blocks, frame.len() as u32)?;
        for queue in 0..blocks {
            rings.fill(queue, frame)?;
            let queue = rings.server_queue(queue)?;
            rings.queues.push(queue);
        }
        Ok(rings)
    }

    /// Rings that a kernel sends frames of so many bytes to.
    pub(crate) fn to_send(setting: &Setting, blocks: u32, length: u32) -> Result<Self, String> {
        let mut rings = Self::new(setting, Direction::Transmit, blocks, length)?;
        for queue in 0..blocks {
            let queue = rings.client_queue(queue)?;
            rings.queues.push(queue);
        }
        Ok(rings)
    }

    fn new(
        setting: &Setting,
        direction: Direction,
        blocks: u32,
        length: u32,
    ) -> Result<Self, String> {
        let plan = RegionPlan {
            to_server: blocks,
            to_client: 0,
            depth: DEPTH,
            slot_bytes: length.next_power_of_two().max(LEAST_SLOT),
        };
        if !plan.is_sound() {
            return Err(format!("{plan:?} is no plan"));
        }
        let region = setting.cuda.pinned(plan.bytes() as usize).map_err(words)?;
        let beside = blocks as usize * (DEPTH as usize * 8 + 2048) + 8192;
        Ok(Self {
            plan,
            direction,
            region,
            beside: setting.cuda.pinned(beside).map_err(words)?,
            queues: Vec::new(),
        })
    }

    /// The block of each ring.
    pub(crate) fn queues(&self) -> &[QueueBlock] {
        &self.queues
    }

    /// All memory of the rings.
    pub(crate) fn memory(&self) -> [Arc<Arena>; 2] {
        [Arc::clone(&self.region), Arc::clone(&self.beside)]
    }

    /// Frames that went through all rings, once no kernel runs; an error if a queue met a fault.
    pub(crate) fn frames(&self) -> Result<u64, String> {
        let mut frames = 0;
        for queue in &self.queues {
            let (count, faults) = match self.direction {
                Direction::Receive => {
                    let at = queue.cursor.value() as *const RxCursor;
                    // SAFETY: the cursor that was placed there; no kernel runs.
                    let cursor = unsafe { at.read() };
                    (cursor.frames, cursor.faults + cursor.too_long)
                }
                Direction::Transmit => {
                    let at = queue.cursor.value() as *const TxCursor;
                    // SAFETY: as above.
                    let cursor = unsafe { at.read() };
                    (cursor.frames, cursor.faults)
                }
            };
            if faults > 0 {
                return Err(format!("a queue met {faults} faults"));
            }
            frames += count;
        }
        Ok(frames)
    }

    /// The peer: lets the kernel have all slots again that it is done with, until it is told that
    /// all is over. One of `peers` that share the rings.
    pub(crate) fn serve(&self, peer: usize, peers: usize, over: &AtomicBool, yields: bool) {
        while !over.load(Ordering::Relaxed) {
            for queue in (peer..self.queues.len()).step_by(peers.max(1)) {
                self.refill(queue as u32);
            }
            match yields {
                true => thread::yield_now(),
                false => hint::spin_loop(),
            }
        }
    }

    /// Once for one ring.
    fn refill(&self, queue: u32) {
        let ring = self.ring(queue);
        let (head, tail) = (ring.offset(HEAD), ring.offset(TAIL));
        match self.direction {
            Direction::Receive => {
                // SAFETY: an index of a ring of ours. pairs with: the kernel's release of slots.
                let done = unsafe { memory::load_acquire_u16(tail) };
                let offered = done.wrapping_add(DEPTH as u16);
                // SAFETY: as above; only this thread moves it. pairs with: the kernel's look.
                unsafe { memory::store_release_u16(head, offered) };
            }
            Direction::Transmit => {
                // SAFETY: an index of a ring of ours. pairs with: the kernel's publishing.
                let sent = unsafe { memory::load_acquire_u16(head) };
                // SAFETY: as above; only this thread moves it. pairs with: the kernel's look.
                unsafe { memory::store_release_u16(tail, sent) };
            }
        }
    }

    fn ring(&self, queue: u32) -> DeviceAddress {
        let offset = self.plan.ring_offset(KIND, queue);
        self.region.whole().address.offset(offset)
    }

    fn cut(&self, bytes: usize) -> Result<DeviceAddress, String> {
        let region = self.beside.allocate(bytes as u64, 128).map_err(words)?;
        Ok(region.address)
    }

    fn put<T: Copy>(&self, value: T) -> Result<DeviceAddress, String> {
        Ok(self.beside.place(value).map_err(words)?.address)
    }

    /// Formats a ring; the table of its buffers.
    fn format(&self, queue: u32) -> Result<DeviceAddress, String> {
        let table = self.cut(DEPTH as usize * 4)?;
        let region = self.region.whole().address;
        // SAFETY: the region has the plan's bytes and begins a page, the table has a word a slot,
        // and no kernel knows either yet.
        unsafe { self.plan.format_ring(region, table, KIND, queue, 0) };
        Ok(table)
    }

    /// Puts the frame into every buffer of a ring and offers all of them.
    fn fill(&self, queue: u32, frame: &[u8]) -> Result<(), String> {
        self.format(queue)?;
        let (ring, region) = (self.ring(queue), self.region.whole().address);
        for slot in 0..DEPTH {
            let buffer = self.plan.buffer_offset(KIND, queue, slot);
            self.region
                .write(region.offset(buffer), frame)
                .map_err(words)?;
            let length = DESCRIPTORS + u64::from(slot) * 16 + offset_of!(Descriptor, length) as u64;
            let word = self.region.half_word(ring.offset(length)).map_err(words)?;
            word.store(frame.len() as u32, Ordering::Relaxed);
        }
        self.refill(queue);
        Ok(())
    }

    fn server_queue(&self, queue: u32) -> Result<QueueBlock, String> {
        let regions = self.put(self.region.whole())?;
        let body = ServerBody {
            ring: self.ring(queue),
            regions,
            region_count: 1,
            kick: DeviceAddress::NULL,
            written: DeviceAddress::NULL,
        };
        let cursor = self.put(server_rx_cursor(0))?;
        self.queue(SERVER_LAYOUT, cursor, body.words())
    }

    fn client_queue(&self, queue: u32) -> Result<QueueBlock, String> {
        let body = ClientBody {
            buffers: self.format(queue)?,
            ring: self.ring(queue),
            region: self.region.whole().address,
            region_bytes: self.plan.bytes(),
            pool_offset: self.plan.pool_offset(),
            region_number: 0,
            kick: DeviceAddress::NULL,
        };
        let cursor = self.put(TxCursor::default())?;
        self.queue(CLIENT_LAYOUT, cursor, body.words())
    }

    fn queue(
        &self,
        layout: u64,
        cursor: DeviceAddress,
        body: [u64; 24],
    ) -> Result<QueueBlock, String> {
        Ok(QueueBlock {
            abi: warpwire_ring::block::ABI,
            format: Format::Memif as u32,
            direction: self.direction as u32,
            scope: warpwire_ring::Scope::System as u32,
            layout,
            depth: DEPTH,
            slot_bytes: self.plan.slot_bytes,
            cursor,
            provenance: self.cut(128)?,
            done: self.cut(DEPTH as usize / 8)?,
            location: Location::PinnedHost as u32,
            reserved: 0,
            body,
        })
    }
}

const KIND: RingKind = RingKind::ClientToServer;
/// Slots of a ring.
const DEPTH: u32 = 1024;
/// Bytes that every receive slot has.
const LEAST_SLOT: u32 = 128;
const HEAD: u64 = offset_of!(RingHeader, head) as u64;
const TAIL: u64 = offset_of!(RingHeader, tail) as u64;
const DESCRIPTORS: u64 = size_of::<RingHeader>() as u64;
