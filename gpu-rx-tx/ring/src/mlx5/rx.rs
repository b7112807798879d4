//! The driver half of a receive queue.
#![expect(
    unsafe_code,
    reason = "reads and writes queue memory under the queue's promise"
)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::layout::{self, Cqe, CqeOpcode};
use super::tx::Window;
use crate::address::DeviceAddress;
use crate::barrier::{self, Scope};
use crate::block::{Direction, Format, QueueBlock};
use crate::cause::Cause;
use crate::frame::{Meta, MetaFlags, Segment, SegmentFlags};
use crate::memory;
use crate::provenance::Trigger;
use crate::verbs::{Phase, Receive};

/// What the timestamp of a completion counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum TimestampFormat {
    /// Nothing that we can turn into nanoseconds.
    #[default]
    None = 0,
    /// Nanoseconds.
    Nanoseconds = 1,
    /// Seconds in the upper 32 bits, nanoseconds in the lower.
    RealTime = 2,
}

/// The format's part of a receive [`QueueBlock`].
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RxBody {
    /// The receive queue: depth times 16 bytes times 2^`log_stride`.
    pub ring: u64,
    /// The completion queue: depth times 64 bytes, aligned to 64.
    pub completions: u64,
    /// Doorbell record of the receive queue.
    pub record: u64,
    /// Doorbell record of the completion queue.
    pub completion_record: u64,
    /// Names the memory that the buffers come from; 0 if a slot has several.
    pub pool: u64,
    /// Number of the receive queue, 24 bits.
    pub number: u32,
    /// Binary logarithm of the data segments that a WQE has room for; at most 4.
    pub log_stride: u32,
    /// Data segments that a WQE uses.
    pub segments: u32,
    /// A [`TimestampFormat`].
    pub timestamp_format: u32,
    /// The memory that the buffers lie in.
    pub window: Window,
    /// Written as zero.
    pub reserved: [u64; 14],
}

const _: () = assert!(size_of::<RxBody>() == 192);
const _: () = assert!(core::mem::offset_of!(RxBody, window) == 56);

/// Hash of [`RxBody`]'s layout.
pub const RX_LAYOUT: u64 = crate::layout_hash!(RxBody {
    ring,
    completions,
    record,
    completion_record,
    pool,
    number,
    log_stride,
    segments,
    timestamp_format,
    window,
    reserved
});

/// Most data segments of a slot.
pub(super) const MAX_LOG_STRIDE: u32 = 4;

/// An attached receive queue.
#[derive(Clone, Copy, Debug)]
pub struct Rx {
    body: RxBody,
    mask: u64,
    log_depth: u32,
    slot_bytes: u32,
    scope: Scope,
}

impl Rx {
    #[inline(always)]
    fn cqe_address(&self, index: u64) -> DeviceAddress {
        let offset = (index & self.mask) * layout::CQE_BYTES;
        DeviceAddress::new(self.body.completions).offset(offset)
    }

    #[inline(always)]
    fn data_address(&self, index: u64, part: u32) -> DeviceAddress {
        let segment = ((index & self.mask) << self.body.log_stride) + u64::from(part);
        DeviceAddress::new(self.body.ring).offset(segment * layout::SEGMENT_BYTES)
    }

    #[inline(always)]
    fn quad(&self, address: DeviceAddress) -> [u32; 4] {
        // SAFETY: the queue's promise: a quarter of a completion, which the NIC leaves alone until
        // the slot is released.
        unsafe { memory::load_quad(address) }.0
    }

    /// The completion of a slot that the caller owns. Quads that are not used are not loaded.
    #[inline(always)]
    fn completion(&self, index: u64) -> Cqe {
        let address = self.cqe_address(index);
        // No loop: an array that is filled by a loop lies in memory on the GPU.
        let quads = [
            self.quad(address),
            self.quad(address.offset(16)),
            self.quad(address.offset(32)),
            self.quad(address.offset(48)),
        ];
        zerocopy::transmute!(quads)
    }

    /// Where data segment `part` of a slot points to, and how many bytes it has; `part` is below
    /// `segments`, so below the stride.
    #[inline(always)]
    fn data(&self, index: u64, part: u32) -> (DeviceAddress, u32) {
        // SAFETY: the queue's promise: a data segment, which the NIC leaves alone until the slot is
        // released.
        let [count_and_key, address] = unsafe { memory::load_pair(self.data_address(index, part)) };
        let byte_count = u32::from_be(count_and_key as u32);
        (DeviceAddress::new(u64::from_be(address)), byte_count)
    }

    /// The last word of a completion: counter, signature, opcode and owner.
    #[inline(always)]
    fn last_word(&self, index: u64) -> u32 {
        let address = self.cqe_address(index).offset(layout::CQE_LAST_WORD);
        // SAFETY: the queue's promise; the index is masked to the completion queue.
        unsafe { memory::load_u32(address) }
    }

    /// [`Receive::segment`], with the completion's last word at hand.
    #[inline(always)]
    fn segment_by(&self, index: u64, part: u32, last_word: u32) -> Segment {
        // What is not readable is loaded all the same: the ring has it, and no lane parts from the
        // others.
        let [.., length] = self.quad(self.cqe_address(index).offset(BYTE_COUNT_QUAD));
        let length = u32::from_be(length);
        let is_frame = layout::is_response_to(last_word, index) & (length <= self.slot_bytes);
        self.piece(index, part, length, is_frame)
    }

    /// Piece `part` of a frame of `length` bytes in slot `index`, if there `is_frame`.
    #[inline(always)]
    fn piece(&self, index: u64, part: u32, length: u32, is_frame: bool) -> Segment {
        let mut rest = length;
        let mut at = 0;
        while at < part && at < self.body.segments {
            rest = rest.saturating_sub(self.data(index, at).1);
            at += 1;
        }
        // A slot has a first segment; one behind the last stands for it, and is none.
        let is_there = at < self.body.segments;
        let (address, room) = self.data(index, if is_there { at } else { 0 });
        let here = rest.min(room);
        let is_inside = self.body.window.contains(address, here);
        if !(is_frame & is_there & (here != 0) & is_inside) {
            return FAULT;
        }
        let flags = if rest > room {
            SegmentFlags::MORE
        } else {
            SegmentFlags::empty()
        };
        Segment {
            address,
            length: here,
            flags,
            room,
        }
    }
}

impl Receive for Rx {
    const FORMAT: Format = Format::Mlx5;
    const PHASED: bool = true;
    const REFILLS: bool = false;
    const SCATTER: bool = true;

    unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause> {
        block.check(Self::FORMAT, Direction::Receive, RX_LAYOUT)?;
        let body: RxBody = zerocopy::transmute!(block.body);
        let room = 1u32.checked_shl(body.log_stride).unwrap_or(0);
        let segments = body.segments >= 1 && body.segments <= room;
        if block.depth > super::MAX_DEPTH || body.log_stride > MAX_LOG_STRIDE || !segments {
            return Err(Cause::LayoutMismatch);
        }
        Ok(Self {
            body,
            mask: u64::from(block.depth) - 1,
            log_depth: block.depth.trailing_zeros(),
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
    fn produced(&self, near: u64) -> u64 {
        near
    }

    #[inline(always)]
    fn owned(&self, index: u64) -> Phase {
        let word = self.last_word(index);
        let is_ready = layout::is_owned(word, index, self.log_depth);
        Phase { is_ready, word }
    }

    #[inline(always)]
    fn observe(&self) {
        // pairs with: the NIC's write of a completion, its last eight bytes last.
        barrier::after_observe(self.scope);
    }

    #[inline(always)]
    fn segment(&self, index: u64, part: u32) -> Segment {
        self.segment_by(index, part, self.last_word(index))
    }

    #[inline(always)]
    fn first_segment(&self, index: u64, word: u32) -> Segment {
        self.segment_by(index, 0, word)
    }

    #[inline(always)]
    fn meta(&self, index: u64) -> Meta {
        let cqe = self.completion(index);
        let mut present = MetaFlags::empty();
        present.set(MetaFlags::HASH, cqe.rx_hash_type != 0);
        present.set(MetaFlags::FLOW_TAG, cqe.flow_tag() != 0);
        let types = cqe.l4_hdr_type_etc;
        let stripped = types & layout::CQE_VLAN_STRIPPED != 0;
        present.set(MetaFlags::VLAN_STRIPPED, stripped);
        if types & layout::CQE_L3_MASK != 0 {
            present |= MetaFlags::L3_CHECKED;
            present.set(MetaFlags::L3_OK, cqe.hds_ip_ext & layout::CQE_L3_OK != 0);
        }
        if types & layout::CQE_L4_MASK != 0 {
            present |= MetaFlags::L4_CHECKED;
            present.set(MetaFlags::L4_OK, cqe.hds_ip_ext & layout::CQE_L4_OK != 0);
        }
        let stamp = cqe.timestamp.get();
        let format = self.body.timestamp_format;
        let real_time = format == TimestampFormat::RealTime as u32;
        let timed = real_time || format == TimestampFormat::Nanoseconds as u32;
        present.set(MetaFlags::TIMESTAMP, timed);
        let timestamp_ns = if real_time {
            (stamp >> 32)
                .wrapping_mul(1_000_000_000)
                .wrapping_add(stamp & 0xffff_ffff)
        } else {
            stamp
        };
        Meta {
            timestamp_ns: if timed { timestamp_ns } else { 0 },
            hash: cqe.rx_hash_res.get(),
            flow_tag: cqe.flow_tag(),
            vlan_tci: cqe.vlan_info.get(),
            reserved: 0,
            present,
        }
    }

    fn fault(&self, index: u64) -> Cause {
        let cqe = self.completion(index);
        let error = cqe.as_error();
        let counted = error.wqe_counter.get() == index as u16;
        if cqe.opcode() == CqeOpcode::RESPONSE_ERROR && counted {
            Cause::from_syndrome(error.syndrome)
        } else {
            Cause::RingCorrupted
        }
    }

    #[inline(always)]
    fn exchange(&self, index: u64, buffer: DeviceAddress) {
        let address = self.data_address(index, 0).offset(8);
        // SAFETY: the queue's promise; the slot is lent to the caller.
        unsafe { memory::store_u64(address, buffer.value().to_be()) }
    }

    /// Nothing to do: the WQE stays as it is, and a completion's phase makes it old by itself.
    #[inline(always)]
    fn refill(&self, _index: u64) {}

    #[inline(always)]
    fn release(&self, upto: u64) -> Trigger {
        // pairs with: the NIC's acquire of the producer index before it writes buffers again.
        barrier::before_release(self.scope);
        let consumer = (upto as u32 & layout::CONSUMER_MASK).to_be();
        // SAFETY: the queue's promise.
        unsafe { memory::store_u32(DeviceAddress::new(self.body.completion_record), consumer) }
        // Completions are free before WQEs are: the NIC never finds the completion queue full.
        // pairs with: the NIC's read of the consumer index after it read this producer index.
        barrier::before_publish(self.scope);
        let producer = upto.wrapping_add(self.mask + 1) as u16;
        let record = DeviceAddress::new(self.body.record).offset(layout::RECORD_RECEIVE);
        // SAFETY: the queue's promise.
        unsafe { memory::store_u32(record, u32::from(producer).to_be()) }
        Trigger::PolledIndex
    }
}

const FAULT: Segment = Segment {
    address: DeviceAddress::NULL,
    length: 0,
    flags: SegmentFlags::FAULT,
    room: 0,
};

/// Offset of the quad of a completion that ends with the frame's length.
const BYTE_COUNT_QUAD: u64 = core::mem::offset_of!(Cqe, byte_cnt) as u64 - 12;
