//! Work queues of messages as the application sees them: send and receive requests are written
//! here, completions polled, by host or device code alike.
//!
//! The verbs: `reserve` (by way of [`SendQueue::free`]), `write`, `publish`, `poll`. A queue that
//! is full says [`Cause::NoResource`] and is never overrun; a slot is free again when a completion
//! at or behind it was polled.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use zerocopy::byteorder::big_endian::U32;

use super::layout::{
    self, AtomicSegment, ControlSegment, Cqe, DataSegment, DatagramSegment, FENCE, INLINE, Opcode,
    RemoteAddressSegment, SEGMENT_BYTES, SOLICITED, WQEBB_BYTES,
};
use super::serve::WorkQueue;
use crate::address::DeviceAddress;
use crate::barrier::{self, Scope};
use crate::cause::Cause;
use crate::memory::{self, Quad};

/// A piece of registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Gather {
    /// First byte.
    pub address: u64,
    /// Bytes, at least one.
    pub length: u32,
    /// Its key.
    pub key: u32,
}

/// What a send request says besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// The operation.
    pub opcode: Opcode,
    /// It completes in any case, not by errors alone.
    pub signal: bool,
    /// It begins after all reads and atomics before it.
    pub fence: bool,
    /// The peer's completion raises an event.
    pub solicited: bool,
    /// The immediate, or the key to take away.
    pub immediate: u32,
    /// The peer's address.
    pub address: u64,
    /// The peer's key.
    pub key: u32,
    /// Operand of an atomic: what is added or replaces.
    pub value: u64,
    /// Operand of an atomic: what must be there.
    pub compare: u64,
    /// Where a datagram goes.
    pub datagram: Option<DatagramSegment>,
}

impl Order {
    /// An order without flags and operands.
    pub const fn new(opcode: Opcode) -> Self {
        Self {
            opcode,
            signal: true,
            fence: false,
            solicited: false,
            immediate: 0,
            address: 0,
            key: 0,
            value: 0,
            compare: 0,
            datagram: None,
        }
    }

    const fn is_atomic(&self) -> bool {
        matches!(self.opcode, Opcode::COMPARE_SWAP | Opcode::FETCH_ADD)
    }

    const fn has_address(&self) -> bool {
        self.is_atomic()
            || matches!(
                self.opcode,
                Opcode::WRITE | Opcode::WRITE_IMM | Opcode::READ
            )
    }
}

/// The bytes of a send request.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Pieces of registered memory; none is a message without bytes.
    Pieces(&'a [Gather]),
    /// Bytes that are copied into the queue.
    Inline(&'a [u8]),
}

impl Payload<'_> {
    /// Bytes that its segments take.
    fn bytes(&self) -> usize {
        match self {
            Self::Pieces(pieces) => pieces.len() * SEGMENT_BYTES as usize,
            Self::Inline([]) => 0,
            Self::Inline(bytes) => (4 + bytes.len()).next_multiple_of(SEGMENT_BYTES as usize),
        }
    }
}

/// The application's half of a send queue.
#[derive(Clone, Copy, Debug)]
pub struct SendQueue {
    queue: WorkQueue,
    /// The next slot to be written.
    next: u64,
    /// Every slot before this one is free again.
    freed: u64,
}

impl SendQueue {
    /// Attaches to a queue at slot `at`: everything before it is free.
    ///
    /// # Safety
    /// *The queue's promise*: its memory is live for as long as the value is used, and nobody else
    /// posts to it.
    pub const unsafe fn attach(queue: WorkQueue, at: u64) -> Self {
        Self {
            queue,
            next: at,
            freed: at,
        }
    }

    /// Attaches to a queue of which the slots from `freed` to `next` are under way.
    ///
    /// # Safety
    /// As [`SendQueue::attach`]; and what is under way was written by such a value.
    pub const unsafe fn resume(queue: WorkQueue, freed: u64, next: u64) -> Self {
        Self { queue, next, freed }
    }

    /// Slots.
    #[inline(always)]
    pub const fn depth(&self) -> u32 {
        1 << self.queue.log_depth
    }

    /// Slots that are free.
    #[inline(always)]
    pub const fn free(&self) -> u32 {
        self.depth()
            .wrapping_sub(self.next.wrapping_sub(self.freed) as u32)
    }

    /// The slot that the next request begins in.
    #[inline(always)]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Every slot before this one is free again.
    #[inline(always)]
    pub const fn freed(&self) -> u64 {
        self.freed
    }

    /// Number of the queue pair.
    #[inline(always)]
    pub const fn number(&self) -> u32 {
        self.queue.number
    }

    /// Slots that a request takes.
    ///
    /// # Errors
    /// [`Cause::LocalLength`] if it has more pieces or inline bytes than a request can, or an empty
    /// piece.
    #[inline(always)]
    pub fn slots(order: &Order, payload: &Payload<'_>) -> Result<u32, Cause> {
        Ok(layout::wqebbs(segments(order, payload)?))
    }

    /// Writes a request; nobody sees it before [`SendQueue::publish`]. Returns its number.
    ///
    /// # Errors
    /// [`Cause::NoResource`] if not enough slots are free, [`Cause::LocalLength`] if it has more
    /// pieces or inline bytes than a request can, or an empty piece. Nothing was written then.
    pub fn write(&mut self, order: &Order, payload: Payload<'_>) -> Result<u64, Cause> {
        let slots = Self::slots(order, &payload)?;
        if slots > self.free() {
            return Err(Cause::NoResource);
        }
        let index = self.next;
        self.write_at(index, order, payload)?;
        self.advance(slots);
        Ok(index)
    }

    /// The slots up to here are written: by this value, or by a copy of it in another lane.
    #[inline(always)]
    pub const fn advance(&mut self, slots: u32) {
        self.next = self.next.wrapping_add(slots as u64);
    }

    /// Writes a request that begins in slot `index`, which is free, as are those behind it that the
    /// request takes. For lanes that post together: who called it says [`SendQueue::advance`].
    ///
    /// # Errors
    /// [`Cause::LocalLength`] as [`SendQueue::slots`]. Nothing was written then.
    #[inline(always)]
    pub fn write_at(&self, index: u64, order: &Order, payload: Payload<'_>) -> Result<(), Cause> {
        let segments = segments(order, &payload)?;
        let mut control = ControlSegment::new(
            order.opcode,
            index,
            self.queue.number,
            segments,
            order.signal,
        );
        control.fm_ce_se |= if order.fence { FENCE } else { 0 };
        control.fm_ce_se |= if order.solicited { SOLICITED } else { 0 };
        control.imm = U32::new(order.immediate);
        let mut at = self.put(index, 0, control.to_quad());
        if let Some(datagram) = order.datagram {
            let quads: [[u32; 4]; 3] = zerocopy::transmute!(datagram);
            for quad in quads {
                at = self.put(index, at, Quad(quad));
            }
        }
        if order.has_address() {
            let remote = RemoteAddressSegment {
                raddr: order.address.into(),
                rkey: order.key.into(),
                reserved: U32::new(0),
            };
            at = self.put(index, at, remote.to_quad());
        }
        if order.is_atomic() {
            let atomic = AtomicSegment {
                swap_add: order.value.into(),
                compare: order.compare.into(),
            };
            at = self.put(index, at, atomic.to_quad());
        }
        match payload {
            Payload::Pieces(pieces) => {
                for piece in pieces {
                    let data = DataSegment::new(piece.length, piece.key, piece.address);
                    at = self.put(index, at, data.to_quad());
                }
            }
            Payload::Inline(bytes) => self.put_inline(index, at, bytes),
        }
        Ok(())
    }

    fn place(&self, index: u64, at: u32) -> DeviceAddress {
        let bytes = WQEBB_BYTES << self.queue.log_depth;
        let at = index.wrapping_mul(WQEBB_BYTES).wrapping_add(u64::from(at));
        self.queue.ring.offset(at & (bytes - 1))
    }

    fn put(&self, index: u64, at: u32, quad: Quad) -> u32 {
        // SAFETY: the queue's promise; masked to the ring, and the slot is free.
        unsafe { memory::store_quad(self.place(index, at), quad) }
        at + SEGMENT_BYTES as u32
    }

    fn put_inline(&self, index: u64, at: u32, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        // The first piece stands behind the count; the rest in whole segments.
        let mut segment = [0; SEGMENT_BYTES as usize];
        let count = (bytes.len() as u32 | INLINE).to_be_bytes();
        let mut rest = count.iter().chain(bytes).copied();
        let mut at = at;
        let mut left = 4 + bytes.len();
        while left > 0 {
            for byte in &mut segment {
                *byte = rest.next().unwrap_or(0);
            }
            at = self.put(index, at, Quad(zerocopy::transmute!(segment)));
            left = left.saturating_sub(segment.len());
        }
    }

    /// Makes everything that was written visible.
    pub fn publish(&self) {
        barrier::before_publish(scope(self.queue.scope));
        let producer = u32::from(self.next as u16).to_be();
        // SAFETY: the queue's promise. pairs with: after_observe in the engine.
        unsafe { memory::store_u32(self.queue.record, producer) }
    }

    /// A completion of this queue says that its request, and all before it, are done. Returns the
    /// request's number; `None` if there is no such request under way.
    pub fn retire(&mut self, counter: u16) -> Option<u64> {
        let distance = counter.wrapping_sub(self.freed as u16);
        let index = self.freed.wrapping_add(u64::from(distance));
        if u64::from(distance) >= self.next.wrapping_sub(self.freed) {
            return None;
        }
        // SAFETY: the queue's promise; masked to the ring.
        let control = unsafe { memory::load_quad(self.place(index, 0)) };
        let segments = ControlSegment::from_quad(control).segments();
        let slots = layout::wqebbs(segments.max(1));
        self.freed = index.wrapping_add(u64::from(slots));
        Some(index)
    }
}

/// The application's half of a receive queue. Its slots are given back in order.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveQueue {
    queue: WorkQueue,
    next: u64,
    freed: u64,
}

impl ReceiveQueue {
    /// Attaches to a queue at slot `at`.
    ///
    /// # Safety
    /// As [`SendQueue::attach`].
    pub const unsafe fn attach(queue: WorkQueue, at: u64) -> Self {
        Self {
            queue,
            next: at,
            freed: at,
        }
    }

    /// Attaches to a queue of which the slots from `freed` to `next` are posted.
    ///
    /// # Safety
    /// As [`SendQueue::resume`].
    pub const unsafe fn resume(queue: WorkQueue, freed: u64, next: u64) -> Self {
        Self { queue, next, freed }
    }

    /// Slots.
    #[inline(always)]
    pub const fn depth(&self) -> u32 {
        1 << self.queue.log_depth
    }

    /// Receives that can be posted.
    #[inline(always)]
    pub const fn free(&self) -> u32 {
        self.depth()
            .wrapping_sub(self.next.wrapping_sub(self.freed) as u32)
    }

    /// The number of the next receive.
    #[inline(always)]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Every receive before this one came back.
    #[inline(always)]
    pub const fn freed(&self) -> u64 {
        self.freed
    }

    /// The receives up to here are written: by this value, or by a copy of it in another lane.
    #[inline(always)]
    pub const fn advance(&mut self, receives: u32) {
        self.next = self.next.wrapping_add(receives as u64);
    }

    /// Every receive before `freed` came back, as whoever keeps account of them found.
    #[inline(always)]
    pub const fn free_to(&mut self, freed: u64) {
        self.freed = freed;
    }

    /// The posted receive that a completion names, if there is one. It is not free by that.
    #[inline(always)]
    pub const fn find(&self, counter: u16) -> Option<u64> {
        let distance = counter.wrapping_sub(self.freed as u16) as u64;
        if distance >= self.next.wrapping_sub(self.freed) {
            return None;
        }
        Some(self.freed.wrapping_add(distance))
    }

    /// Writes a receive; nobody sees it before [`ReceiveQueue::publish`]. Returns its number.
    ///
    /// # Errors
    /// [`Cause::NoResource`] if none is free, [`Cause::LocalLength`] if it has more pieces than a
    /// slot can, or an empty one.
    pub fn write(&mut self, pieces: &[Gather]) -> Result<u64, Cause> {
        self.check(pieces)?;
        if self.free() == 0 {
            return Err(Cause::NoResource);
        }
        let index = self.next;
        self.write_at(index, pieces)?;
        self.advance(1);
        Ok(index)
    }

    /// Whether a slot holds such pieces.
    ///
    /// # Errors
    /// [`Cause::LocalLength`] if there are more than it can hold, or an empty one.
    #[inline(always)]
    pub fn check(&self, pieces: &[Gather]) -> Result<(), Cause> {
        let most = 1usize << self.queue.log_stride;
        if pieces.len() > most || pieces.iter().any(|one| one.length == 0) {
            return Err(Cause::LocalLength);
        }
        Ok(())
    }

    /// Writes receive `index`, whose slot is free. For lanes that post together: who called it says
    /// [`ReceiveQueue::advance`].
    ///
    /// # Errors
    /// As [`ReceiveQueue::check`]. Nothing was written then.
    #[inline(always)]
    pub fn write_at(&self, index: u64, pieces: &[Gather]) -> Result<(), Cause> {
        self.check(pieces)?;
        let most = 1usize << self.queue.log_stride;
        let slot = index & ((1 << self.queue.log_depth) - 1);
        let first = self
            .queue
            .ring
            .offset((slot << self.queue.log_stride) * SEGMENT_BYTES);
        let segments = pieces
            .iter()
            .map(|one| DataSegment::new(one.length, one.key, one.address));
        let end = DataSegment::new(0, layout::INVALID_LKEY, 0);
        for (data, place) in segments.chain([end]).take(most).zip(0u64..) {
            // SAFETY: the queue's promise; masked to the ring, and the slot is free.
            unsafe { memory::store_quad(first.offset(place * SEGMENT_BYTES), data.to_quad()) }
        }
        Ok(())
    }

    /// Makes everything that was written visible.
    pub fn publish(&self) {
        barrier::before_publish(scope(self.queue.scope));
        let producer = u32::from(self.next as u16).to_be();
        // SAFETY: the queue's promise. pairs with: after_observe in the engine.
        unsafe { memory::store_u32(self.queue.record, producer) }
    }

    /// A completion of this queue. Returns the receive's number; `None` if none is posted.
    pub const fn retire(&mut self, counter: u16) -> Option<u64> {
        let Some(index) = self.find(counter) else {
            return None;
        };
        self.freed = index.wrapping_add(1);
        Some(index)
    }
}

/// The application's half of a completion queue.
#[derive(Clone, Copy, Debug)]
pub struct Completions {
    ring: DeviceAddress,
    record: DeviceAddress,
    log_depth: u32,
    scope: Scope,
    next: u64,
}

impl Completions {
    /// Attaches to a queue at entry `at`, whose memory started as
    /// [`layout::NEVER_WRITTEN`] in every last byte.
    ///
    /// # Safety
    /// As [`SendQueue::attach`].
    pub const unsafe fn attach(
        ring: DeviceAddress,
        record: DeviceAddress,
        log_depth: u32,
        scope: Scope,
        at: u64,
    ) -> Self {
        Self {
            ring,
            record,
            log_depth,
            scope,
            next: at,
        }
    }

    /// The entry that is looked at next.
    #[inline(always)]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// A copy of this value in another lane polled a completion.
    #[inline(always)]
    pub const fn skip(&mut self) {
        self.next = self.next.wrapping_add(1);
    }

    /// Whether the next completion is there.
    #[inline(always)]
    pub fn is_there(&self) -> bool {
        let mask = (1u64 << self.log_depth) - 1;
        let at = self.ring.offset((self.next & mask) * layout::CQE_BYTES);
        // SAFETY: the queue's promise; masked to the ring.
        let word = unsafe { memory::load_u32(at.offset(layout::CQE_LAST_WORD)) };
        layout::is_owned(word, self.next, self.log_depth)
    }

    /// The next completion, if it is there; it counts as consumed.
    pub fn poll(&mut self) -> Option<Cqe> {
        let mask = (1u64 << self.log_depth) - 1;
        let at = self.ring.offset((self.next & mask) * layout::CQE_BYTES);
        // SAFETY: the queue's promise; masked to the ring.
        let word = unsafe { memory::load_u32(at.offset(layout::CQE_LAST_WORD)) };
        if !layout::is_owned(word, self.next, self.log_depth) {
            return None;
        }
        // pairs with: before_publish in the engine's write.
        barrier::after_observe(self.scope);
        let quads = [0, 16, 32, 48].map(|byte| {
            // SAFETY: as above; nobody writes it before it is retired.
            unsafe { memory::load_quad(at.offset(byte)) }.0
        });
        self.next = self.next.wrapping_add(1);
        barrier::before_release(self.scope);
        let consumer = (self.next as u32 & layout::CONSUMER_MASK).to_be();
        // SAFETY: the queue's promise. pairs with: after_observe in the engine.
        unsafe { memory::store_u32(self.record, consumer) }
        Some(zerocopy::transmute!(quads))
    }
}

const fn scope(number: u32) -> Scope {
    if number == Scope::Gpu as u32 {
        Scope::Gpu
    } else {
        Scope::System
    }
}

/// Segments of a request.
fn segments(order: &Order, payload: &Payload<'_>) -> Result<u32, Cause> {
    let mut bytes = SEGMENT_BYTES as usize;
    bytes += order.datagram.map_or(0, |datagram| size_of_val(&datagram));
    bytes += usize::from(order.has_address()) * SEGMENT_BYTES as usize;
    bytes += usize::from(order.is_atomic()) * SEGMENT_BYTES as usize;
    bytes += payload.bytes();
    let segments = bytes / SEGMENT_BYTES as usize;
    let empty = match payload {
        Payload::Pieces(pieces) => pieces.iter().any(|one| one.length == 0),
        Payload::Inline(_) => false,
    };
    if segments > layout::MAX_SEGMENTS as usize || empty {
        return Err(Cause::LocalLength);
    }
    Ok(segments as u32)
}
