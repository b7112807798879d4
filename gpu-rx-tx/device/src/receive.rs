//! Receiving: batches of whole frames under a lease, given back in order.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use warpwire_ring::{Cause, Meta, QueueBlock, Receive, RxCursor};

use crate::batch::{Batch, Look, MAX_BATCH, Marks, Opened, Rows, Verdict, low};
use crate::piece::Piece;
use crate::queue::rx;
use crate::reader::{Frame, Lent, Reader};
use crate::simt::Simt;
use crate::wait::{Wait, wait_until};

/// The driver of a receive queue: one warp has it, each lane a copy, all copies equal.
///
/// ```text
///   released          head              produced
///  ────┬────────────────┬───────────────────┬──────────
///  NIC │ lent: batches  │ ready: not looked │ NIC's
///      │ and leases     │ at yet            │
/// ```
///
/// `peek` or `wait` takes a batch; `frame` reads it; `release` gives it back whole, or `lend`
/// splits it into leases that any warp gives back one by one. Whatever the order, slots go back to
/// the NIC in order and never while they are lent. Unread memory is never handed out: a batch is a
/// contiguous prefix of what has arrived, and made of whole frames.
#[derive(Clone, Copy)]
pub struct Receiver<R> {
    pub(crate) reader: Reader<R>,
    /// Next slot to look at.
    head: u64,
    /// Every slot before this one was given back.
    released: u64,
    /// The producer's index when it was last looked at.
    produced: u64,
    /// Slots that a frame may have.
    limit: u32,
    /// Calls that the counters do not know of yet.
    pub(crate) calls: u32,
    /// Whether done bits may be set between `released` and `head`.
    scattered: bool,
    /// Whether the rest of a frame that is too long is being thrown away.
    skipping: bool,
    /// Whether the peer broke the ring.
    corrupted: bool,
}

impl<R: Receive> Receiver<R> {
    /// Attaches to a queue and goes on where its cursor stands.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if the block is not of this format, direction, version or layout,
    /// or one of its words is missing or not aligned; [`Cause::RingCorrupted`] if the cursor is
    /// impossible.
    ///
    /// # Safety
    /// *The queue's promise*, see [`Receive::attach`].
    pub unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause> {
        // SAFETY: passed on.
        let reader: Reader<R> = unsafe { Reader::attach(block) }?;
        let cursor = reader.queue.restore();
        let depth = reader.queue.depth();
        let lent = cursor.head.wrapping_sub(cursor.released);
        if lent > u64::from(depth) {
            return Err(Cause::RingCorrupted);
        }
        Ok(Self {
            reader,
            head: cursor.head,
            released: cursor.released,
            produced: cursor.head,
            limit: depth.min(MAX_BATCH),
            calls: 0,
            scattered: lent > 0,
            skipping: cursor.skipping != 0,
            corrupted: false,
        })
    }

    /// Drops frames that take more than `slots` slots, instead of more than a batch may hold.
    /// Counted in [`RxCursor::too_long`].
    #[must_use]
    pub fn limit_frames(self, slots: u32) -> Self {
        let limit = slots.clamp(1, self.reader.queue.depth().min(MAX_BATCH));
        Self { limit, ..self }
    }

    /// The reading half.
    #[inline(always)]
    pub const fn reader(&self) -> &Reader<R> {
        &self.reader
    }

    /// Where the queue stands, and what it has counted. Counters are in memory all the time, for
    /// the host that watches; where the queue stands gets there by [`Receiver::save`].
    #[inline(always)]
    pub fn cursor(&self) -> RxCursor {
        RxCursor {
            head: self.head,
            released: self.released,
            skipping: u32::from(self.skipping),
            ..self.reader.queue.restore()
        }
    }

    /// Slots that are lent now.
    #[inline(always)]
    pub const fn lent(&self) -> u64 {
        self.head.wrapping_sub(self.released)
    }

    /// *Collective.* Writes where the queue stands to its place in memory, for the kernel that
    /// attaches next.
    #[inline(always)]
    pub fn save<S: Simt>(&mut self, simt: &S) {
        if simt.is_leader() {
            let queue = &self.reader.queue;
            queue.store(self.head, self.released, self.skipping);
            let counters = self.reader.queue.provenance();
            counters.device_calls.add(u64::from(self.calls));
        }
        self.calls = 0;
        simt.sync_warp();
    }

    /// *Collective.* Takes what has arrived, without waiting: up to `max` slots and up to
    /// [`MAX_BATCH`], of whole frames. Only a first frame that has more slots by itself makes the
    /// batch longer than `max`. An empty batch says that no whole frame has arrived, or `max` is 0.
    ///
    /// Frames at fault are in the batch, so that their slots go back, but cannot be read; they are
    /// counted here with their cause, as are frames and bytes.
    ///
    /// # Errors
    /// [`Cause::RingCorrupted`] if the peer's index is impossible; from then on always.
    #[inline(always)]
    pub fn peek<S: Simt>(&mut self, simt: &S, max: u32) -> Result<Batch, Cause> {
        Ok(self.arrived(simt, max)?.unwrap_or(Batch::EMPTY))
    }

    /// *Collective.* [`Receiver::peek`], with nothing in the place of an empty batch, which would
    /// cost a loop on a GPU as many instructions as it has fields.
    ///
    /// # Errors
    /// As [`Receiver::peek`].
    #[inline(always)]
    pub fn arrived<S: Simt>(&mut self, simt: &S, max: u32) -> Result<Option<Batch>, Cause> {
        self.calls += 1;
        if self.scattered {
            self.collect(simt);
        }
        let wanted = max.min(self.reader.queue.depth()).min(MAX_BATCH);
        if wanted == 0 {
            return Ok(None);
        }
        let (ready, words) = self.ready(simt, wanted)?;
        if ready == 0 {
            return Ok(None);
        }
        let (plain, bytes, opened) = self.scan(simt, ready, &words);
        if plain && !self.skipping {
            let batch = self.take(simt, ready, ready, 0, bytes, Marks::default());
            return Ok(Some(Batch { opened, ..batch }));
        }
        let batch = self.arrived_frames(simt, wanted, ready)?;
        Ok(batch.map(|batch| Batch {
            opened: self.open(simt, &batch),
            ..batch
        }))
    }

    /// *Collective.* [`Receiver::peek`] that waits: returns as soon as a whole frame has arrived.
    /// `max` is at least 1, or nothing ever arrives.
    ///
    /// # Errors
    /// [`Cause::RingCorrupted`], or one of [`wait_until`].
    #[inline(always)]
    pub fn wait<S: Simt>(&mut self, simt: &S, max: u32, wait: &Wait) -> Result<Batch, Cause> {
        wait_until(simt, wait, || match self.peek(simt, max) {
            Ok(batch) if batch.is_empty() => None,
            result => Some(result),
        })?
    }

    /// The frame that starts in the `i`-th slot of a batch; `None` if none does, or it cannot be
    /// read. Not collective: each lane asks for its own.
    #[inline(always)]
    pub fn frame<'a>(&self, batch: &'a Batch, i: u32) -> Option<Frame<'a>> {
        self.reader.frame(batch, i)
    }

    /// The frame that starts in this lane's slot of a row, see [`Reader::lane_frame`].
    #[inline(always)]
    pub fn lane_frame<'a, S: Simt>(
        &self,
        simt: &S,
        batch: &'a Batch,
        base: u32,
    ) -> Option<Frame<'a>> {
        self.reader.lane_frame(simt, batch, base)
    }

    /// What the NIC found out about a frame.
    #[inline(always)]
    pub fn meta(&self, frame: &Frame<'_>) -> Meta {
        self.reader.meta(frame)
    }

    /// Piece `index` of a frame, see [`Reader::piece`].
    #[inline(always)]
    pub fn piece<'a>(&self, frame: &Frame<'a>, index: u32) -> Option<Piece<'a>> {
        self.reader.piece(frame, index)
    }

    /// Copies a frame's bytes across its pieces, see [`Reader::copy_out`].
    #[inline(always)]
    pub fn copy_out(&self, frame: &Frame<'_>, offset: u32, into: &mut [u8]) -> usize {
        self.reader.copy_out(frame, offset, into)
    }

    /// *Collective.* Gives a whole batch back. Cheap in the order of `peek`; a batch out of order
    /// goes back when those before it have, at the next `peek`.
    #[inline(always)]
    pub fn release<S: Simt>(&mut self, simt: &S, batch: Batch) {
        self.calls += 1;
        if batch.slots > 0 {
            self.hand_back(simt, batch.first, batch.slots);
        }
    }

    /// *Collective.* Splits a batch into leases of single frames, which any warp may give back in
    /// any order. `peek` collects what came back. Slots that cannot be read go back at once.
    #[inline(always)]
    pub fn lend<S: Simt>(&mut self, simt: &S, batch: Batch) -> Lent {
        self.calls += 1;
        let mut i = simt.lane();
        while i < batch.slots && batch.marks.fault != 0 {
            if batch.marks.fault >> i & 1 != 0 {
                self.reader
                    .queue
                    .set_done(batch.first.wrapping_add(u64::from(i)));
            }
            i += S::WIDTH;
        }
        self.scattered |= batch.slots > 0;
        simt.sync_warp();
        Lent {
            first: batch.first,
            slots: batch.slots,
            marks: batch.marks,
        }
    }

    /// *Collective.* Puts the batch that was taken last back unread: the next `peek` sees its
    /// frames again. Its frames, bytes and faults no longer count.
    ///
    /// # Errors
    /// The batch, if another one was taken after it.
    #[inline(always)]
    pub fn put_back<S: Simt>(&mut self, simt: &S, batch: Batch) -> Result<(), Batch> {
        if batch.slots == 0 {
            return Ok(());
        }
        let end = batch.first.wrapping_add(u64::from(batch.slots));
        if end != self.head {
            return Err(batch);
        }
        self.head = batch.first;
        if simt.is_leader() {
            let queue = &self.reader.queue;
            queue.count(rx::FRAMES, u64::from(batch.frames).wrapping_neg());
            queue.count(rx::BYTES, u64::from(batch.bytes).wrapping_neg());
            queue.count(rx::FAULTS, u64::from(batch.faults).wrapping_neg());
        }
        Ok(())
    }

    /// *Collective.* Gives leases that came back to the NIC, in order, up to the first that is
    /// still out. `peek` does so by itself; a warp that does not peek for long calls this.
    #[inline(always)]
    pub fn collect<S: Simt>(&mut self, simt: &S) {
        let queue = self.reader.queue;
        let per_word = queue.depth().min(32);
        let mut upto = self.released;
        while upto != self.head {
            // Lane 0 looks for all, so that all lanes come to the same end.
            // pairs with: Reader::give_back
            let (word, bit) = queue.done(upto);
            let word = simt.shuffle(word, 0);
            simt.sync_warp();
            let lent = self.head.wrapping_sub(upto);
            let run = ((word >> bit).trailing_ones()).min(lent.min(32) as u32);
            if run == 0 {
                break;
            }
            if simt.is_leader() {
                queue.clear_done(upto, (low(run) as u32) << bit);
            }
            self.refill(simt, upto, run);
            upto = upto.wrapping_add(u64::from(run));
            if bit + run < per_word {
                break;
            }
        }
        if upto != self.released {
            self.advance(simt, upto);
        }
        self.scattered = upto != self.head;
    }

    /// Frames of several slots, frames at fault, and frames that are too long.
    #[inline(always)]
    fn arrived_frames<S: Simt>(
        &mut self,
        simt: &S,
        wanted: u32,
        ready: u32,
    ) -> Result<Option<Batch>, Cause> {
        let mut window = wanted.min(self.limit);
        let mut ready = ready.min(window);
        let mut rounds = 0;
        while ready > 0 && rounds < MAX_ROUNDS {
            let look = Look {
                marks: self.marks(simt, ready),
                ready,
                window,
                limit: self.limit,
                wanted,
                skipping: self.skipping,
            };
            match look.judge() {
                Verdict::Take {
                    slots,
                    frames,
                    faults,
                    marks: taken,
                } => {
                    if faults > 0 && simt.is_leader() {
                        let bad = u64::from((look.marks.fault & low(slots)).trailing_zeros());
                        let queue = &self.reader.queue;
                        queue.set_cause(queue.ring.fault(self.head.wrapping_add(bad)));
                    }
                    let bytes = self.bytes(simt, slots, taken.fault);
                    let frames = frames - faults;
                    return Ok(Some(self.take(simt, slots, frames, faults, bytes, taken)));
                }
                Verdict::Wait => return Ok(None),
                Verdict::Widen => window = self.limit,
                Verdict::Discard {
                    slots,
                    starts,
                    goes_on,
                } => {
                    if starts && simt.is_leader() {
                        self.reader.queue.count(rx::TOO_LONG, 1);
                        self.reader.queue.set_cause(Cause::FrameTooLong);
                    }
                    self.skipping = goes_on;
                    let first = self.head;
                    self.head = first.wrapping_add(u64::from(slots));
                    self.hand_back(simt, first, slots);
                }
            }
            ready = self.ready(simt, window)?.0;
            rounds += 1;
        }
        Ok(None)
    }

    #[inline(always)]
    fn take<S: Simt>(
        &mut self,
        simt: &S,
        slots: u32,
        frames: u32,
        faults: u32,
        bytes: u32,
        marks: Marks,
    ) -> Batch {
        let first = self.head;
        self.head = first.wrapping_add(u64::from(slots));
        if simt.is_leader() {
            let queue = &self.reader.queue;
            queue.count(rx::FRAMES, u64::from(frames));
            queue.count(rx::BYTES, u64::from(bytes));
            if faults > 0 {
                queue.count(rx::FAULTS, u64::from(faults));
            }
        }
        Batch {
            first,
            slots,
            frames,
            bytes,
            faults,
            marks,
            opened: Rows::NONE,
        }
    }

    /// Slots from the head on that are ready, up to `window`: the same number in every lane. And
    /// the words by which the lane's own ones said so.
    #[inline(always)]
    fn ready<S: Simt>(&mut self, simt: &S, window: u32) -> Result<(u32, Rows<u32>), Cause> {
        if R::PHASED {
            return Ok(self.ready_by_phase(simt, window));
        }
        let mut there = self.produced.wrapping_sub(self.head);
        if there < u64::from(window) {
            self.look(simt)?;
            there = self.produced.wrapping_sub(self.head);
        }
        Ok((there.min(u64::from(window)) as u32, Rows::default()))
    }

    /// Looks at the producer's index: one lane for all, one load for a batch.
    #[inline(always)]
    fn look<S: Simt>(&mut self, simt: &S) -> Result<(), Cause> {
        let ring = &self.reader.queue.ring;
        let mut seen = self.produced;
        if simt.is_leader() {
            // pairs with: the producer's publish
            seen = ring.produced(self.produced);
        }
        seen = simt.shuffle_u64(seen, 0);
        // What lane 0 acquired is seen by all lanes after this.
        simt.sync_warp();
        let out = seen.wrapping_sub(self.released);
        self.corrupted |= out > u64::from(self.reader.queue.depth());
        if self.corrupted {
            self.reader.queue.set_cause(Cause::RingCorrupted);
            return Err(Cause::RingCorrupted);
        }
        self.produced = seen;
        Ok(())
    }

    /// Each lane looks at the phase of a slot of its own; what counts is the prefix without a gap.
    #[inline(always)]
    fn ready_by_phase<S: Simt>(&self, simt: &S, window: u32) -> (u32, Rows<u32>) {
        let ring = &self.reader.queue.ring;
        let free = u64::from(self.reader.queue.depth()).wrapping_sub(self.lent());
        let window = window.min(free.min(u64::from(MAX_BATCH)) as u32);
        let mut words = Rows::default();
        let mut ready = 0;
        while ready < window {
            // Lanes behind the window look at its last slot, and have no vote.
            let i = ready + simt.lane();
            let index = self.head.wrapping_add(u64::from(i.min(window - 1)));
            let phase = ring.owned(index);
            words.put::<S>(ready, phase.word);
            let votes = simt.ballot(i < window && phase.is_ready);
            let run = votes.trailing_ones();
            ready += run;
            if run < S::WIDTH {
                break;
            }
        }
        if ready > 0 {
            // pairs with: the producer's write of the phase
            ring.observe();
            simt.sync_warp();
        }
        (ready, words)
    }

    /// Whether each of the `ready` slots from the head on is a frame of its own that can be read,
    /// and the bytes of all. And the lane's own frames.
    #[inline(always)]
    fn scan<S: Simt>(&self, simt: &S, ready: u32, words: &Rows<u32>) -> (bool, u32, Rows<Opened>) {
        let ring = &self.reader.queue.ring;
        let mut opened = Rows::NONE;
        let mut plain = true;
        let mut bytes = 0u32;
        let mut base = 0;
        while base < ready {
            // A lane without a slot of its own looks at the last one, and counts nothing: so no
            // lane parts from the others.
            let i = base + simt.lane();
            let index = self.head.wrapping_add(u64::from(i.min(ready - 1)));
            let segment = match R::PHASED && Rows::are_kept::<S>() {
                true => ring.first_segment(index, words.at(base)),
                false => ring.segment(index, 0),
            };
            opened.put::<S>(base, Opened::plain(&segment, i < ready));
            plain &= i >= ready || !(segment.fault() || segment.more());
            bytes = bytes.wrapping_add(if i < ready { segment.length } else { 0 });
            self.reader.queue.piece(&segment).prefetch();
            base += S::WIDTH;
        }
        (simt.all(plain), simt.sum(bytes), opened)
    }

    /// The lane's own frames of a batch, whatever they are made of.
    #[inline(always)]
    fn open<S: Simt>(&self, simt: &S, batch: &Batch) -> Rows<Opened> {
        let mut opened = Rows::NONE;
        let mut base = 0;
        while Rows::are_kept::<S>() && base < batch.slots {
            if let Some(frame) = self.reader.frame(batch, base + simt.lane()) {
                opened.put::<S>(base, frame.opened());
            }
            base += S::WIDTH;
        }
        opened
    }

    /// What the descriptors of the `ready` slots from the head on say.
    #[inline(always)]
    fn marks<S: Simt>(&self, simt: &S, ready: u32) -> Marks {
        let mut marks = Marks::default();
        let mut base = 0;
        while base < ready {
            let i = base + simt.lane();
            let (mut more, mut fault) = (false, false);
            if i < ready {
                let index = self.head.wrapping_add(u64::from(i));
                let segment = self.reader.queue.ring.segment(index, 0);
                more = segment.more() && !R::SCATTER;
                fault = segment.fault();
                if R::SCATTER && segment.more() {
                    fault |= self.reader.slot_length(index).is_none();
                }
            }
            marks.more |= u64::from(simt.ballot(more)) << base;
            marks.fault |= u64::from(simt.ballot(fault)) << base;
            base += S::WIDTH;
        }
        marks
    }

    /// Bytes of the first `slots` slots from the head on, those marked in `except` left out.
    #[inline(always)]
    fn bytes<S: Simt>(&self, simt: &S, slots: u32, except: u64) -> u32 {
        let mut bytes = 0u32;
        let mut i = simt.lane();
        while i < slots {
            if except >> i & 1 == 0 {
                let index = self.head.wrapping_add(u64::from(i));
                bytes = bytes.wrapping_add(self.reader.slot_bytes(index));
            }
            i += S::WIDTH;
        }
        simt.sum(bytes)
    }

    /// Ends the loan of `slots` slots from `first` on.
    #[inline(always)]
    fn hand_back<S: Simt>(&mut self, simt: &S, first: u64, slots: u32) {
        if first == self.released {
            self.refill(simt, first, slots);
            self.advance(simt, first.wrapping_add(u64::from(slots)));
        } else {
            let mut i = simt.lane();
            while i < slots {
                self.reader.queue.set_done(first.wrapping_add(u64::from(i)));
                i += S::WIDTH;
            }
            self.scattered = true;
            simt.sync_warp();
        }
    }

    #[inline(always)]
    fn refill<S: Simt>(&self, simt: &S, first: u64, slots: u32) {
        if !R::REFILLS {
            return;
        }
        let mut i = simt.lane();
        while i < slots {
            self.reader
                .queue
                .ring
                .refill(first.wrapping_add(u64::from(i)));
            i += S::WIDTH;
        }
    }

    /// Gives all slots before `upto` to the NIC.
    #[inline(always)]
    fn advance<S: Simt>(&mut self, simt: &S, upto: u64) {
        // All lanes have read and refilled what lane 0 gives back.
        simt.sync_warp();
        self.released = upto;
        if simt.is_leader() {
            let trigger = self.reader.queue.ring.release(upto);
            let counters = self.reader.queue.provenance();
            counters.triggered(trigger);
            counters.device_calls.add(u64::from(self.calls));
        }
        self.calls = 0;
    }
}

/// Rounds of one `peek` at most: a peer that sends one endless frame cannot hold a warp for ever.
const MAX_ROUNDS: u32 = 16;
