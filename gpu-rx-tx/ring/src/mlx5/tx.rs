//! The driver half of a send queue.
#![expect(
    unsafe_code,
    reason = "reads and writes queue memory under the queue's promise"
)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::layout::{
    self, ControlSegment, CqeOpcode, DataSegment, EthernetSegment, Opcode, SEGMENTS_PER_WQEBB,
};
use crate::address::DeviceAddress;
use crate::barrier::{self, Scope};
use crate::block::{Direction, Format, QueueBlock};
use crate::cause::Cause;
use crate::frame::{Buffer, Post, PostFlags};
use crate::memory;
use crate::provenance::Trigger;
use crate::region::Region;
use crate::verbs::{Completion, Transmit};

/// Memory that a send queue may read, with the key that opens it.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Window {
    /// First byte.
    pub address: u64,
    /// Bytes; 0 for a window that is not used.
    pub length: u64,
    /// Local key.
    pub key: u32,
    /// Written as zero.
    pub reserved: u32,
}

impl Window {
    /// The window over a region.
    pub fn new(region: &Region) -> Self {
        Self {
            address: region.address.value(),
            length: region.length,
            key: region.key,
            reserved: 0,
        }
    }

    /// Whether `length` bytes, at least one, from `address` lie inside.
    #[inline(always)]
    pub(super) fn contains(&self, address: DeviceAddress, length: u32) -> bool {
        let offset = address.value().wrapping_sub(self.address);
        let length = u64::from(length);
        offset < self.length && length <= self.length - offset
    }
}

/// The format's part of a transmit [`QueueBlock`].
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct TxBody {
    /// The send queue: depth times 64 bytes, aligned to 64.
    pub ring: u64,
    /// The completion queue: 64 bytes an entry, aligned to 64.
    pub completions: u64,
    /// Doorbell record of the send queue.
    pub record: u64,
    /// Doorbell record of the completion queue.
    pub completion_record: u64,
    /// Doorbell register, or the word that stands for it.
    pub doorbell: u64,
    /// Table of buffers: one address of eight bytes a slot.
    pub buffers: u64,
    /// Names the memory that the buffers come from.
    pub pool: u64,
    /// Number of the send queue, 24 bits.
    pub number: u32,
    /// Binary logarithm of the completion queue's entries; at least the queue's depth.
    pub log_completions: u32,
    /// What the queue may read. The first one is the pool's.
    pub windows: [Window; 4],
    /// Written as zero.
    pub reserved: [u64; 4],
}

const _: () = assert!(size_of::<TxBody>() == 192);
const _: () = assert!(core::mem::offset_of!(TxBody, windows) == 64);

/// Hash of [`TxBody`]'s layout.
pub const TX_LAYOUT: u64 = crate::layout_hash!(TxBody {
    ring,
    completions,
    record,
    completion_record,
    doorbell,
    buffers,
    pool,
    number,
    log_completions,
    windows,
    reserved
});

/// Most pieces of a frame: a WQE has 63 segments, two of which are control and Ethernet.
pub const MAX_PARTS: u32 = layout::MAX_SEGMENTS - HEADER_SEGMENTS;

const HEADER_SEGMENTS: u32 = 2;

/// An attached send queue.
#[derive(Clone, Copy, Debug)]
pub struct Tx {
    body: TxBody,
    mask: u64,
    slot_bytes: u32,
    scope: Scope,
}

impl Tx {
    #[inline(always)]
    fn segment_address(&self, index: u64, segment: u32) -> DeviceAddress {
        let slot = index.wrapping_add(u64::from(segment / SEGMENTS_PER_WQEBB)) & self.mask;
        let within = u64::from(segment % SEGMENTS_PER_WQEBB) * layout::SEGMENT_BYTES;
        DeviceAddress::new(self.body.ring).offset(slot * layout::WQEBB_BYTES + within)
    }

    #[inline(always)]
    fn buffer_entry(&self, index: u64) -> DeviceAddress {
        DeviceAddress::new(self.body.buffers).offset((index & self.mask) * 8)
    }

    #[inline(always)]
    fn cqe_address(&self, index: u64) -> DeviceAddress {
        let mask = (1u64 << self.body.log_completions) - 1;
        DeviceAddress::new(self.body.completions).offset((index & mask) * layout::CQE_BYTES)
    }

    #[inline(always)]
    fn key(&self, address: DeviceAddress, length: u32) -> Option<u32> {
        // By value and without a loop: what is indexed while running lies in memory on the GPU.
        let [pool, second, third, fourth] = self.body.windows;
        let key = |window: Window| window.contains(address, length).then_some(window.key);
        key(pool)
            .or_else(|| key(second))
            .or_else(|| key(third))
            .or_else(|| key(fourth))
    }

    #[inline(always)]
    fn put_control(&self, index: u64, opcode: Opcode, segments: u32, signal: bool) {
        let control = ControlSegment::new(opcode, index, self.body.number, segments, signal);
        // SAFETY: the queue's promise; the slot is free and this lane's own.
        unsafe { memory::store_quad(self.segment_address(index, 0), control.to_quad()) }
    }

    /// The frame's first slot: control and Ethernet segment.
    #[inline(always)]
    fn put_head(&self, index: u64, post: &Post) {
        let mut flags = 0;
        if post.flags.contains(PostFlags::OFFLOAD_L3) {
            flags |= layout::CHECKSUM_L3;
        }
        if post.flags.contains(PostFlags::OFFLOAD_L4) {
            flags |= layout::CHECKSUM_L4;
        }
        let signal = post.flags.contains(PostFlags::SIGNAL);
        self.put_control(index, Opcode::SEND, HEADER_SEGMENTS + post.parts, signal);
        let quad = EthernetSegment::new(flags).to_quad();
        // SAFETY: the queue's promise; the slot is free and this lane's own.
        unsafe { memory::store_quad(self.segment_address(index, 1), quad) }
    }
}

impl Transmit for Tx {
    const FORMAT: Format = Format::Mlx5;
    const PHASED: bool = true;

    unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause> {
        block.check(Self::FORMAT, Direction::Transmit, TX_LAYOUT)?;
        let body: TxBody = zerocopy::transmute!(block.body);
        let entries = 1u64.checked_shl(body.log_completions).unwrap_or(0);
        if block.depth > super::MAX_DEPTH || entries < u64::from(block.depth) {
            return Err(Cause::LayoutMismatch);
        }
        Ok(Self {
            body,
            mask: u64::from(block.depth) - 1,
            slot_bytes: block.slot_bytes,
            scope: block.scope(),
        })
    }

    #[inline(always)]
    fn depth(&self) -> u32 {
        self.mask as u32 + 1
    }

    #[inline(always)]
    fn pool(&self) -> u64 {
        self.body.pool
    }

    #[inline(always)]
    fn max_parts(&self) -> u32 {
        MAX_PARTS.min(self.depth())
    }

    #[inline(always)]
    fn buffer(&self, index: u64) -> Buffer {
        // SAFETY: the queue's promise; the table has an entry for every slot.
        let address = unsafe { memory::load_u64(self.buffer_entry(index)) };
        Buffer {
            address: DeviceAddress::new(address),
            capacity: self.slot_bytes,
            reserved: 0,
        }
    }

    #[inline(always)]
    fn exchange(&self, index: u64, buffer: DeviceAddress) -> DeviceAddress {
        let old = self.buffer(index).address;
        // SAFETY: the queue's promise; the slot is free and this lane's own.
        unsafe { memory::store_u64(self.buffer_entry(index), buffer.value()) }
        old
    }

    #[inline(always)]
    fn prepare(&self, index: u64) {
        if cfg!(not(target_arch = "nvptx64")) {
            memory::prefetch_write(self.segment_address(index, 0));
            memory::prefetch_write(self.buffer(index).address);
        }
    }

    /// A signal stands on a piece that has a control segment: the first one, and those from the
    /// end of the WQE on; the last piece always has one. Elsewhere it is refused, and so is an
    /// empty piece.
    #[inline(always)]
    fn write(&self, index: u64, post: &Post) -> Result<(), Cause> {
        let key = self.key(post.address, post.length);
        let Some(key) = key else {
            return Err(Cause::LocalProtection);
        };
        let fits = post.part < post.parts && post.parts <= MAX_PARTS;
        if !fits || post.length == 0 || post.length >= layout::INLINE {
            return Err(Cause::LocalProtection);
        }
        let signal = post.flags.contains(PostFlags::SIGNAL);
        if post.part == 0 {
            self.put_head(index, post);
        } else if post.part >= layout::wqebbs(HEADER_SEGMENTS + post.parts) {
            self.put_control(index, Opcode::NOP, 1, signal);
        } else if signal {
            return Err(Cause::LocalProtection);
        }
        let first = index.wrapping_sub(u64::from(post.part));
        let data = DataSegment::new(post.length, key, post.address.value());
        let address = self.segment_address(first, HEADER_SEGMENTS + post.part);
        // SAFETY: the queue's promise; the segment lies in the frame's slots and is this piece's
        // own.
        unsafe { memory::store_quad(address, data.to_quad()) }
        Ok(())
    }

    #[inline(always)]
    fn publish(&self, upto: u64) {
        // pairs with: the NIC's read of WQEs and payload after it read the record.
        barrier::before_publish(self.scope);
        let record = DeviceAddress::new(self.body.record).offset(layout::RECORD_SEND);
        let producer = u32::from(upto as u16).to_be();
        // SAFETY: the queue's promise.
        unsafe { memory::store_u32(record, producer) }
    }

    #[inline(always)]
    fn ring(&self, upto: u64) -> Trigger {
        // pairs with: the NIC's read of the record after the doorbell reached it.
        barrier::before_doorbell(self.scope);
        let last = self.segment_address(upto.wrapping_sub(1), 0);
        // SAFETY: the queue's promise; the last slot starts with the control segment of a WQE.
        let word = unsafe { memory::load_u64(last) };
        // SAFETY: the queue's promise: this is the queue's doorbell.
        unsafe { memory::store_mmio_u64(DeviceAddress::new(self.body.doorbell), word) }
        Trigger::Mmio
    }

    #[inline(always)]
    fn completions(&self, near: u64) -> u64 {
        near
    }

    #[inline(always)]
    fn completion(&self, index: u64, near: u64) -> Option<Completion> {
        let address = self.cqe_address(index);
        // SAFETY: the queue's promise; the index is masked to the completion queue.
        let word = unsafe { memory::load_u32(address.offset(layout::CQE_LAST_WORD)) };
        if !layout::is_owned(word, index, self.body.log_completions) {
            return None;
        }
        // pairs with: the NIC's write of a completion, its last eight bytes last.
        barrier::after_observe(self.scope);
        // SAFETY: the queue's promise; the NIC leaves the completion alone until it is retired.
        let quad = unsafe { memory::load_quad(address.offset(layout::CQE_LAST_QUAD)) };
        let [_, errors, _, last] = quad.0;
        let counter = (u32::from_be(last) >> 16) as u16;
        let distance = u64::from(counter.wrapping_sub(near as u16));
        if distance > self.mask {
            let fault = Some(Cause::RingCorrupted);
            return Some(Completion { upto: near, fault });
        }
        let upto = near.wrapping_add(distance + 1);
        let fault = match CqeOpcode(u32::from_be(last) as u8 >> 4) {
            CqeOpcode::REQUEST => None,
            CqeOpcode::REQUEST_ERROR => Some(Cause::from_syndrome(u32::from_be(errors) as u8)),
            _ => Some(Cause::RingCorrupted),
        };
        Some(Completion { upto, fault })
    }

    #[inline(always)]
    fn recycle(&self, _index: u64) {}

    #[inline(always)]
    fn retire(&self, upto: u64) {
        // pairs with: the NIC's read of the consumer index before it writes completions again.
        barrier::before_release(self.scope);
        let consumer = (upto as u32 & layout::CONSUMER_MASK).to_be();
        // SAFETY: the queue's promise.
        unsafe { memory::store_u32(DeviceAddress::new(self.body.completion_record), consumer) }
    }
}
