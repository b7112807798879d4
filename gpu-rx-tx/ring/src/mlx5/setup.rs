//! Fresh memory to a queue's first state.
//!
//! The host cuts the memory, the structs here say how much, fill it and make the [`QueueBlock`].
//! Receive queues start with every slot posted; completion queues start in a phase that no lap
//! has.
#![expect(unsafe_code, reason = "fills queue memory")]

use super::layout::{self, DataSegment};
use super::rx::{MAX_LOG_STRIDE, RX_LAYOUT, RxBody, TimestampFormat};
use super::tx::{TX_LAYOUT, TxBody, Window};
use crate::address::DeviceAddress;
use crate::barrier::{self, Scope};
use crate::block::{ABI, Direction, Format, QueueBlock};
use crate::cause::Cause;
use crate::memory;
use crate::region::Region;

/// The addresses that both kinds of queue have; all are multiples of 64.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places {
    /// The work queue.
    pub ring: DeviceAddress,
    /// The completion queue.
    pub completions: DeviceAddress,
    /// The work queue's doorbell record, 8 bytes.
    pub record: DeviceAddress,
    /// The completion queue's doorbell record, 8 bytes.
    pub completion_record: DeviceAddress,
    /// The cursor, 128 bytes.
    pub cursor: DeviceAddress,
    /// The provenance counters, 128 bytes.
    pub provenance: DeviceAddress,
}

/// A receive queue to be set up.
#[derive(Clone, Copy, Debug)]
pub struct RxSetup {
    /// Slots; a power of two up to [`super::MAX_DEPTH`].
    pub depth: u32,
    /// Data segments of a slot, 1 to 16.
    pub segments: u32,
    /// Bytes of each data segment, a multiple of 64.
    pub segment_bytes: u32,
    /// Where everything lies.
    pub places: Places,
    /// The done bitmap: depth bits in whole 32-bit words.
    pub done: DeviceAddress,
    /// The buffers: depth times segments times `segment_bytes` are used from its first byte on.
    pub buffers: Region,
    /// What the buffers may be exchanged for: a region that holds `buffers` under the same key.
    pub window: Region,
    /// Name of the pool; not used if a slot has several segments.
    pub pool: u64,
    /// Number of the queue, 24 bits.
    pub number: u32,
    /// What the NIC's timestamps count.
    pub timestamps: TimestampFormat,
    /// Who is at the other end.
    pub scope: Scope,
}

/// A transmit queue to be set up.
#[derive(Clone, Copy, Debug)]
pub struct TxSetup {
    /// Slots; a power of two up to [`super::MAX_DEPTH`].
    pub depth: u32,
    /// Bytes of a slot's buffer, a multiple of 64.
    pub slot_bytes: u32,
    /// Where everything lies. The completion queue has as many entries as there are slots.
    pub places: Places,
    /// The doorbell register, or the word that stands for it.
    pub doorbell: DeviceAddress,
    /// The table of buffers: 8 bytes a slot.
    pub table: DeviceAddress,
    /// The buffers: depth times `slot_bytes` are used from its first byte on.
    pub buffers: Region,
    /// What the queue may read. The first one holds `buffers` under the same key.
    pub windows: [Region; 4],
    /// Name of the pool.
    pub pool: u64,
    /// Number of the queue, 24 bits.
    pub number: u32,
    /// Who is at the other end.
    pub scope: Scope,
}

/// Bytes of a receive work queue.
pub const fn rx_ring_bytes(depth: u32, segments: u32) -> u64 {
    depth as u64 * segments.next_power_of_two() as u64 * layout::SEGMENT_BYTES
}

/// Bytes of a send work queue.
pub const fn tx_ring_bytes(depth: u32) -> u64 {
    depth as u64 * layout::WQEBB_BYTES
}

/// Bytes of a completion queue.
pub const fn completion_bytes(depth: u32) -> u64 {
    depth as u64 * layout::CQE_BYTES
}

impl RxSetup {
    fn check(&self) -> Result<(), Cause> {
        let slot_bytes = self.segments.checked_mul(self.segment_bytes);
        let slot_bytes = slot_bytes.ok_or(Cause::LayoutMismatch)?;
        let buffer_bytes = u64::from(self.depth) * u64::from(slot_bytes);
        let good = good_depth(self.depth)
            && (1..=1 << MAX_LOG_STRIDE).contains(&self.segments)
            && good_buffer(self.segment_bytes)
            && buffer_bytes <= self.buffers.length
            && self.window.contains(self.buffers.address, buffer_bytes);
        good.then_some(()).ok_or(Cause::LayoutMismatch)
    }

    /// Fills the memory, posts every slot, and returns the queue as a block.
    ///
    /// # Errors [`Cause::LayoutMismatch`] if depth, segments or sizes are out of range or do not
    /// fit the regions.
    ///
    /// # Safety
    /// Every address is live, writable memory of the size documented, unshared until this returns.
    pub unsafe fn initialise(&self) -> Result<QueueBlock, Cause> {
        self.check()?;
        let stride = self.segments.next_power_of_two();
        for slot in 0..self.depth {
            for part in 0..stride {
                let place = u64::from(slot * stride + part) * layout::SEGMENT_BYTES;
                let data = if part < self.segments {
                    let number = u64::from(slot * self.segments + part);
                    let buffer = number * u64::from(self.segment_bytes);
                    let address = self.buffers.address.offset(buffer).value();
                    DataSegment::new(self.segment_bytes, self.window.key, address)
                } else {
                    DataSegment::new(0, layout::INVALID_LKEY, 0)
                };
                // SAFETY: inside the ring, which the caller promises.
                unsafe { memory::store_quad(self.places.ring.offset(place), data.to_quad()) }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { clear(&self.places, self.depth) }
        for word in 0..self.depth.div_ceil(32) {
            // SAFETY: inside the bitmap, which the caller promises.
            unsafe { memory::store_u32(self.done.offset(u64::from(word) * 4), 0) }
        }
        // pairs with: the NIC's acquire of the producer index.
        barrier::before_publish(self.scope);
        let record = self.places.record.offset(layout::RECORD_RECEIVE);
        // SAFETY: the record, which the caller promises.
        unsafe { memory::store_u32(record, self.depth.to_be()) }
        Ok(self.block())
    }

    fn block(&self) -> QueueBlock {
        let body = RxBody {
            ring: self.places.ring.value(),
            completions: self.places.completions.value(),
            record: self.places.record.value(),
            completion_record: self.places.completion_record.value(),
            pool: if self.segments == 1 { self.pool } else { 0 },
            number: self.number,
            log_stride: self.segments.next_power_of_two().trailing_zeros(),
            segments: self.segments,
            timestamp_format: self.timestamps as u32,
            window: Window::new(&self.window),
            reserved: [0; 14],
        };
        QueueBlock {
            abi: ABI,
            format: Format::Mlx5 as u32,
            direction: Direction::Receive as u32,
            scope: self.scope as u32,
            layout: RX_LAYOUT,
            depth: self.depth,
            slot_bytes: self.segments * self.segment_bytes,
            cursor: self.places.cursor,
            provenance: self.places.provenance,
            done: self.done,
            location: self.window.location as u32,
            reserved: 0,
            body: zerocopy::transmute!(body),
        }
    }
}

impl TxSetup {
    fn check(&self) -> Result<(), Cause> {
        let buffer_bytes = u64::from(self.depth) * u64::from(self.slot_bytes);
        let [window, ..] = self.windows;
        let good = good_depth(self.depth)
            && good_buffer(self.slot_bytes)
            && buffer_bytes <= self.buffers.length
            && window.contains(self.buffers.address, buffer_bytes);
        good.then_some(()).ok_or(Cause::LayoutMismatch)
    }

    /// Fills the memory and returns the queue as a block.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if depth or sizes are out of range or do not fit the regions.
    ///
    /// # Safety
    /// As for [`RxSetup::initialise`].
    pub unsafe fn initialise(&self) -> Result<QueueBlock, Cause> {
        self.check()?;
        for slot in 0..self.depth {
            let buffer = u64::from(slot) * u64::from(self.slot_bytes);
            let (entry, buffer) = (
                self.table.offset(u64::from(slot) * 8),
                self.buffers.address.offset(buffer),
            );
            // SAFETY: inside the table, which the caller promises.
            unsafe { memory::store_u64(entry, buffer.value()) }
        }
        // SAFETY: the caller's promise.
        unsafe { clear(&self.places, self.depth) }
        // SAFETY: the doorbell, which the caller promises; an ordinary word until the NIC is told
        // of it.
        unsafe { memory::store_u64(self.doorbell, 0) }
        Ok(self.block())
    }

    fn block(&self) -> QueueBlock {
        let body = TxBody {
            ring: self.places.ring.value(),
            completions: self.places.completions.value(),
            record: self.places.record.value(),
            completion_record: self.places.completion_record.value(),
            doorbell: self.doorbell.value(),
            buffers: self.table.value(),
            pool: self.pool,
            number: self.number,
            log_completions: self.depth.trailing_zeros(),
            windows: self.windows.map(|region| Window::new(&region)),
            reserved: [0; 4],
        };
        QueueBlock {
            abi: ABI,
            format: Format::Mlx5 as u32,
            direction: Direction::Transmit as u32,
            scope: self.scope as u32,
            layout: TX_LAYOUT,
            depth: self.depth,
            slot_bytes: self.slot_bytes,
            cursor: self.places.cursor,
            provenance: self.places.provenance,
            done: DeviceAddress::NULL,
            location: self.buffers.location as u32,
            reserved: 0,
            body: zerocopy::transmute!(body),
        }
    }
}

fn good_depth(depth: u32) -> bool {
    depth.is_power_of_two() && depth <= super::MAX_DEPTH
}

fn good_buffer(bytes: u32) -> bool {
    bytes > 0 && bytes.is_multiple_of(64) && bytes < layout::INLINE
}

/// Completions to the phase that no lap has, records, cursor and counters to zero.
///
/// # Safety
/// As for [`RxSetup::initialise`].
unsafe fn clear(places: &Places, depth: u32) {
    for entry in 0..u64::from(depth) {
        for offset in (0..layout::CQE_BYTES).step_by(8) {
            let last = offset == layout::CQE_BYTES - 8;
            let word = if last {
                u64::from(layout::NEVER_WRITTEN)
            } else {
                0
            };
            let address = places
                .completions
                .offset(entry * layout::CQE_BYTES + offset);
            // SAFETY: inside the completion queue, which the caller promises.
            unsafe { memory::store_u64(address, word.to_be()) }
        }
    }
    for address in [places.record, places.completion_record] {
        // SAFETY: a record, which the caller promises.
        unsafe { memory::store_u64(address, 0) }
    }
    for address in [places.cursor, places.provenance] {
        for offset in (0..128).step_by(8) {
            // SAFETY: 128 bytes, which the caller promises.
            unsafe { memory::store_u64(address.offset(offset), 0) }
        }
    }
}
