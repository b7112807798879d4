//! Reading received frames under a lease, and giving single leases back from any warp.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use warpwire_ring::{Cause, Meta, QueueBlock, Receive, Segment};

use crate::batch::{Batch, MAX_BATCH, Marks, Opened, Rows};
use crate::piece::Piece;
use crate::queue::RxQueue;
use crate::simt::Simt;

/// A received frame under a lease.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    first: u64,
    slots: u32,
    length: u32,
    head: Piece<'a>,
}

impl<'a> Frame<'a> {
    /// Running index of the frame's first slot.
    #[inline(always)]
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Slots that the frame takes.
    #[inline(always)]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Bytes of the whole frame.
    #[inline(always)]
    pub const fn length(&self) -> u32 {
        self.length
    }

    /// The first piece: headers lie here unless the frame was cut very short.
    #[inline(always)]
    pub const fn head(&self) -> Piece<'a> {
        self.head
    }

    /// Bytes of the first piece: what can be looked at contiguously from the frame's start.
    #[inline(always)]
    pub const fn available(&self) -> u32 {
        self.head.length()
    }

    /// Whether the whole frame lies in the first piece.
    #[inline(always)]
    pub const fn is_contiguous(&self) -> bool {
        self.head.length() == self.length
    }

    /// The same frame with another length, to be passed on; `None` if it lies in several pieces or
    /// its slot has no room.
    #[inline(always)]
    pub const fn resized(&self, length: u32) -> Option<Self> {
        if !self.is_contiguous() {
            return None;
        }
        match self.head.resized(length) {
            Some(head) => Some(Self {
                length,
                head,
                ..*self
            }),
            None => None,
        }
    }

    #[inline(always)]
    pub(crate) const fn opened(&self) -> Opened {
        Opened {
            address: self.head.address(),
            available: self.head.length(),
            room: self.head.room(),
            length: self.length,
            slots: self.slots,
        }
    }

    /// The first 64 bytes, see [`Piece::window`]. Bytes from [`Frame::available`] on have no
    /// meaning.
    #[inline(always)]
    pub fn window(&self) -> Option<[u32; 16]> {
        self.head.window()
    }
}

/// The right to one frame's slots, taken from a batch by [`Lent::lease`]. Any warp may hold it; it
/// goes back through [`Reader::give_back`], in any order.
#[derive(Debug)]
#[must_use = "the slots go back to the NIC only through give_back"]
pub struct Lease {
    first: u64,
    slots: u32,
}

impl Lease {
    /// The lease as plain words, to hand it to another warp through memory.
    #[inline(always)]
    pub fn into_words(self) -> [u64; 2] {
        [self.first, u64::from(self.slots)]
    }

    /// The lease back from its words.
    ///
    /// # Safety
    /// The words come from [`Lease::into_words`] of a lease of the same queue, were acquired from
    /// the warp that stored them, and are used once.
    #[inline(always)]
    pub unsafe fn from_words([first, slots]: [u64; 2]) -> Self {
        Self {
            first,
            slots: slots as u32,
        }
    }

    /// Running index of the frame's first slot.
    #[inline(always)]
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Slots that the frame takes.
    #[inline(always)]
    pub const fn slots(&self) -> u32 {
        self.slots
    }
}

/// A batch that was split into leases by [`crate::Receiver::lend`]. Plain data: every lane has it,
/// and for each frame exactly one lane calls [`Lent::lease`].
#[derive(Debug)]
#[must_use = "each frame's slots go back to the NIC only through its lease"]
pub struct Lent {
    pub(crate) first: u64,
    pub(crate) slots: u32,
    pub(crate) marks: Marks,
}

impl Lent {
    /// Running index of the first slot.
    #[inline(always)]
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Slots.
    #[inline(always)]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// The lease of the frame that starts in the `i`-th slot; `None` if none does, or it cannot be
    /// read. Each frame is leased once.
    #[inline(always)]
    pub fn lease(&self, i: u32) -> Option<Lease> {
        if i >= self.slots {
            return None;
        }
        let slots = self.marks.frame(i);
        let first = self.first.wrapping_add(u64::from(i));
        (slots > 0).then_some(Lease { first, slots })
    }
}

/// The reading half of a receive queue. Every warp that holds leases has one; it moves no cursor.
#[derive(Clone, Copy)]
pub struct Reader<R> {
    pub(crate) queue: RxQueue<R>,
}

impl<R: Receive> Reader<R> {
    /// Attaches to a queue whose cursor another warp drives.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if the block is not of this format, direction, version or layout.
    ///
    /// # Safety
    /// *The queue's promise*, see [`Receive::attach`].
    pub unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause> {
        // SAFETY: passed on.
        let queue = unsafe { RxQueue::attach(block) }?;
        Ok(Self { queue })
    }

    /// The frame that starts in the `i`-th slot of a batch; `None` if none does, or it cannot be
    /// read.
    #[inline(always)]
    pub fn frame<'a>(&self, batch: &'a Batch, i: u32) -> Option<Frame<'a>> {
        if i >= batch.slots {
            return None;
        }
        let slots = batch.marks.frame(i);
        if slots == 0 {
            return None;
        }
        self.open(batch.first.wrapping_add(u64::from(i)), slots)
    }

    /// The frame that starts in slot `base` plus the lane's number, of the lane that took part in
    /// taking the batch; `base` is a multiple of the width. As [`Reader::frame`], but what the lane
    /// found in the slot's descriptor when the batch was taken is not read again.
    #[inline(always)]
    pub fn lane_frame<'a, S: Simt>(
        &self,
        simt: &S,
        batch: &'a Batch,
        base: u32,
    ) -> Option<Frame<'a>> {
        let i = base + simt.lane();
        if !Rows::are_kept::<S>() {
            return self.frame(batch, i);
        }
        let opened = batch.opened.at(base);
        if opened.slots == 0 {
            return None;
        }
        Some(Frame {
            first: batch.first.wrapping_add(u64::from(i)),
            slots: opened.slots,
            length: opened.length,
            head: self.queue.piece(&opened.segment()),
        })
    }

    /// The frame of a lease; `None` only if the peer has spoilt its descriptor since.
    #[inline(always)]
    pub fn leased<'a>(&self, lease: &'a Lease) -> Option<Frame<'a>> {
        self.open(lease.first, lease.slots)
    }

    /// What the NIC found out about a frame.
    #[inline(always)]
    pub fn meta(&self, frame: &Frame<'_>) -> Meta {
        self.queue.ring.meta(frame.first)
    }

    /// Piece `index` of a frame, if it has that many. [`Frame::head`] is piece 0.
    #[inline(always)]
    pub fn piece<'a>(&self, frame: &Frame<'a>, index: u32) -> Option<Piece<'a>> {
        let segment = self.segment(frame, index)?;
        Some(self.queue.piece(&segment))
    }

    /// Copies a frame's bytes from `offset` on into `into`, across its pieces. Returns how many;
    /// less than `into` holds only if the frame ends.
    ///
    /// For headers that the window does not show whole. It is the slow path: this lane alone, byte
    /// by byte on the GPU.
    #[inline(always)]
    pub fn copy_out(&self, frame: &Frame<'_>, offset: u32, into: &mut [u8]) -> usize {
        let mut skip = offset;
        let mut done = 0;
        let mut index = 0;
        while let Some(piece) = self.piece(frame, index) {
            let Some(rest) = into.get_mut(done..) else {
                break;
            };
            if rest.is_empty() {
                break;
            }
            done += piece.copy_out(skip, rest);
            skip = skip.saturating_sub(piece.length());
            index += 1;
        }
        done
    }

    /// Ends a lease. What this lane read is read before; the queue's driver gives the slots back to
    /// the NIC in order.
    #[inline(always)]
    pub fn give_back(&self, lease: Lease) {
        let mut i = 0;
        while i < lease.slots {
            self.queue.set_done(lease.first.wrapping_add(u64::from(i)));
            i += 1;
        }
    }

    /// Whether a frame's pieces are slots of their own, so that each can change its buffer.
    #[inline(always)]
    pub(crate) fn is_exchangeable(&self, frame: &Frame<'_>) -> bool {
        !R::SCATTER || frame.is_contiguous()
    }

    /// Segment `index` of a frame, if it has that many and they can be read.
    #[inline(always)]
    pub(crate) fn segment(&self, frame: &Frame<'_>, index: u32) -> Option<Segment> {
        let ring = &self.queue.ring;
        let segment = if R::SCATTER {
            let there = index == 0 || ring.segment(frame.first, index - 1).more();
            if !there || index >= MAX_BATCH {
                return None;
            }
            ring.segment(frame.first, index)
        } else {
            if index >= frame.slots {
                return None;
            }
            ring.segment(frame.first.wrapping_add(u64::from(index)), 0)
        };
        (!segment.fault()).then_some(segment)
    }

    #[inline(always)]
    fn open<'a>(&self, first: u64, slots: u32) -> Option<Frame<'a>> {
        let segment = self.queue.ring.segment(first, 0);
        if segment.fault() {
            return None;
        }
        let alone = slots == 1 && !(R::SCATTER && segment.more());
        let length = if alone {
            segment.length
        } else {
            self.total(first, slots)?
        };
        Some(Frame {
            first,
            slots,
            length,
            head: self.queue.piece(&segment),
        })
    }

    /// Bytes of all pieces.
    #[inline(always)]
    fn total(&self, first: u64, slots: u32) -> Option<u32> {
        if R::SCATTER {
            return self.slot_length(first);
        }
        let mut total = 0u32;
        let mut i = 0;
        while i < slots {
            let segment = self.queue.ring.segment(first.wrapping_add(u64::from(i)), 0);
            if segment.fault() {
                return None;
            }
            total = total.saturating_add(segment.length);
            i += 1;
        }
        Some(total)
    }

    /// Bytes of one slot, 0 if it cannot be read.
    #[inline(always)]
    pub(crate) fn slot_bytes(&self, index: u64) -> u32 {
        if R::SCATTER {
            return self.slot_length(index).unwrap_or(0);
        }
        self.queue.ring.segment(index, 0).length
    }

    /// Bytes of all parts of one slot; `None` if one cannot be read or there are too many.
    #[inline(always)]
    pub(crate) fn slot_length(&self, index: u64) -> Option<u32> {
        let mut total = 0u32;
        let mut part = 0;
        while part < MAX_BATCH {
            let segment = self.queue.ring.segment(index, part);
            if segment.fault() {
                return None;
            }
            total = total.saturating_add(segment.length);
            if !segment.more() {
                return Some(total);
            }
            part += 1;
        }
        None
    }
}
