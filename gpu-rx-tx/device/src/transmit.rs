//! Transmitting: slots under credits, claimed by lanes, published in order. Completions are in
//! `completion`, forwarding of received frames in `forward`.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use warpwire_ring::{Cause, Post, PostFlags, QueueBlock, Transmit, TxCursor};

use crate::piece::Piece;
use crate::queue::{TxQueue, tx};
use crate::simt::Simt;
use crate::wait::{Wait, wait_until};

/// The driver of a transmit queue: one warp has it, each lane a copy.
///
/// ```text
///  completed        published       claimed        reserved      completed + depth
/// ────┬────────────────┬───────────────┬──────────────┬─────────────────┬──
///     │ at the NIC     │ being written │ to be claimed│ free: credits   │
/// ```
///
/// `reserve` takes credits for a batch; then, round by round, every lane calls `claim` for the
/// slots of its frame and writes them; `publish` makes what was claimed visible and lets go of the
/// rest; `ring` tells the NIC. A slot is written again only after its completion: a full queue is
/// [`Cause::NoResource`], never an overwrite.
///
/// A frame that cannot be written (an address that the queue may not read, an offload that the
/// format cannot express, a claim that was not filled) cuts the batch: it and what was claimed
/// after it is not sent, and `publish` says why. Slots can only go out in order.
#[derive(Clone, Copy)]
pub struct Sender<T> {
    pub(crate) queue: TxQueue<T>,
    /// Every slot before this one was published.
    pub(crate) published: u64,
    /// Every slot before this one is free again.
    pub(crate) completed: u64,
    /// Completion entries that were consumed.
    pub(crate) completions: u64,
    /// Whether something was published that the doorbell did not tell of.
    unrung: bool,
    /// Slots reserved and claimed, counted from `published`.
    reserved: u32,
    claimed: u32,
    /// What this lane wrote and the counters do not know of yet; differs from lane to lane.
    pub(crate) lane: Tally,
    /// The frame that this lane writes.
    open: Open,
    /// Whether no more slots of the reservation are given out.
    ended: bool,
    /// A cut of the batch: slots from `published` on that may be sent, and why no more.
    cut: Option<(u32, Cause)>,
    /// Calls that the counters do not know of yet.
    pub(crate) calls: u32,
    /// Whether the peer broke the ring.
    pub(crate) corrupted: bool,
}

/// The slots of one frame, claimed by one lane. Good until the next `publish`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    first: u64,
    parts: u32,
}

impl Claim {
    /// Running index of the first slot.
    #[inline(always)]
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Slots, and so pieces of the frame.
    #[inline(always)]
    pub const fn parts(&self) -> u32 {
        self.parts
    }
}

/// What one lane did.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    frames: u32,
    bytes: u32,
    headers: u32,
    pub(crate) by_reference: u32,
    pub(crate) copied_device: u32,
    pub(crate) copied_host: u32,
}

/// A claim that is being filled, counted from `published`.
#[derive(Clone, Copy, Default)]
struct Open {
    first: u32,
    parts: u32,
    written: u32,
    bytes: u32,
    /// Whether the caller asked for a completion.
    signal: bool,
    failure: Option<Cause>,
}

impl<T: Transmit> Sender<T> {
    /// Attaches to a queue and goes on where its cursor stands.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if the block is not of this format, direction, version or layout,
    /// or one of its words is missing or not aligned; [`Cause::RingCorrupted`] if the cursor is
    /// impossible.
    ///
    /// # Safety
    /// *The queue's promise*, see [`Transmit::attach`].
    pub unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause> {
        // SAFETY: passed on.
        let queue: TxQueue<T> = unsafe { TxQueue::attach(block) }?;
        // What an earlier kernel reserved and did not publish is free.
        let cursor = queue.restore();
        if cursor.published.wrapping_sub(cursor.completed) > u64::from(queue.depth()) {
            return Err(Cause::RingCorrupted);
        }
        Ok(Self {
            queue,
            published: cursor.published,
            completed: cursor.completed,
            completions: cursor.completions,
            unrung: false,
            reserved: 0,
            claimed: 0,
            lane: Tally::default(),
            open: Open::default(),
            ended: false,
            cut: None,
            calls: 0,
            corrupted: false,
        })
    }

    /// Where the queue stands, and what it has counted. Counters are in memory all the time, for
    /// the host that watches; where the queue stands gets there by [`Sender::save`].
    #[inline(always)]
    pub fn cursor(&self) -> TxCursor {
        TxCursor {
            reserved: self.published.wrapping_add(u64::from(self.reserved)),
            published: self.published,
            completed: self.completed,
            completions: self.completions,
            ..self.queue.restore()
        }
    }

    /// Slots.
    #[inline(always)]
    pub const fn depth(&self) -> u32 {
        self.queue.depth()
    }

    /// Most pieces that a frame may have.
    #[inline(always)]
    pub fn max_parts(&self) -> u32 {
        self.queue.ring.max_parts()
    }

    /// Bytes of the next slot's buffer; all slots are alike.
    #[inline(always)]
    pub fn slot_bytes(&self) -> u32 {
        self.queue.ring.buffer(self.published).capacity
    }

    /// Slots that the NIC has not completed yet.
    #[inline(always)]
    pub const fn in_flight(&self) -> u64 {
        self.published.wrapping_sub(self.completed)
    }

    /// *Collective.* Writes where the queue stands to its place in memory, for the kernel that
    /// attaches next. What is reserved and not published is let go.
    #[inline(always)]
    pub fn save<S: Simt>(&mut self, simt: &S) {
        self.let_go();
        if simt.is_leader() {
            self.queue
                .store(self.published, self.completed, self.completions);
            let counters = self.queue.provenance();
            counters.device_calls.add(u64::from(self.calls));
        }
        self.calls = 0;
        simt.sync_warp();
    }

    /// *Collective.* Slots that can be reserved now, up to `want`; polls completions if there are
    /// less than that.
    ///
    /// # Errors
    /// Those of [`Sender::poll`].
    #[inline(always)]
    pub fn credits<S: Simt>(&mut self, simt: &S, want: u32) -> Result<u32, Cause> {
        self.calls += 1;
        self.free(simt, want)
    }

    /// *Collective.* Takes credits for `slots` slots, all or none. What an earlier call reserved
    /// and `publish` did not send is let go.
    ///
    /// # Errors
    /// [`Cause::NoResource`] if fewer are free: try again after the NIC completed some, or with at
    /// most [`Sender::credits`]. Those of [`Sender::poll`].
    #[inline(always)]
    pub fn reserve<S: Simt>(&mut self, simt: &S, slots: u32) -> Result<(), Cause> {
        self.calls += 1;
        self.let_go();
        if self.free(simt, slots)? < slots {
            self.count_no_resource(simt);
            return Err(Cause::NoResource);
        }
        self.set_reserved(slots);
        Ok(())
    }

    /// Hints that this lane is about to write into the buffers of what was reserved: fetches them
    /// where another core may hold their cache lines. Before [`Sender::pass`], see
    /// [`Sender::prepare_pass`].
    #[inline(always)]
    pub fn prepare<S: Simt>(&self, simt: &S) {
        let mut i = simt.lane();
        while i < self.reserved {
            self.queue
                .ring
                .prepare(self.published.wrapping_add(u64::from(i)));
            i += S::WIDTH;
        }
    }

    /// *Collective.* [`Sender::reserve`] that waits for completions. A queue that asks for
    /// completions selectively (one in depth / 4) never frees all its slots at once: do not wait
    /// for more than three quarters of the depth.
    ///
    /// # Errors
    /// Those of [`wait_until`] and of [`Sender::poll`].
    #[inline(always)]
    pub fn reserve_within<S: Simt>(
        &mut self,
        simt: &S,
        slots: u32,
        wait: &Wait,
    ) -> Result<(), Cause> {
        self.calls += 1;
        self.let_go();
        wait_until(simt, wait, || match self.free(simt, slots) {
            Ok(free) if free < slots => None,
            Ok(_) => Some(Ok(())),
            Err(cause) => Some(Err(cause)),
        })??;
        self.set_reserved(slots);
        Ok(())
    }

    /// *Collective.* Gives every lane the slots of its frame, `parts` of them, one behind the other
    /// in the order of lanes, out of what was reserved. Lanes without a frame pass 0.
    ///
    /// `None` if `parts` is 0, if the reservation has not enough slots left for this lane, or if
    /// the batch was cut. Every slot of a claim is written before the next `claim` or `publish`.
    #[inline(always)]
    pub fn claim<S: Simt>(&mut self, simt: &S, parts: u32) -> Option<Claim> {
        self.seal(simt);
        if self.ended {
            return None;
        }
        let left = self.reserved - self.claimed;
        let (before, total) = divide(simt, parts);
        let fits = before.saturating_add(parts) <= left;
        let mut taken = total;
        if total > left {
            // Lanes that fit come first: what lies before the first that does not is what they
            // have.
            let misfits = simt.ballot(!fits);
            taken = simt.shuffle(before, misfits.trailing_zeros());
            self.ended = true;
            self.count_no_resource(simt);
        }
        let start = self.claimed + before;
        self.claimed += taken;
        if parts == 0 || !fits {
            return None;
        }
        self.open = Open {
            first: start,
            parts,
            ..Open::default()
        };
        Some(Claim {
            first: self.published.wrapping_add(u64::from(start)),
            parts,
        })
    }

    /// The buffer of part `part` of a claim, to write into. `None` if there is no such part, the
    /// claim is over, or the slot has no buffer.
    #[inline(always)]
    pub fn slot(&self, claim: &Claim, part: u32) -> Option<Piece<'_>> {
        let index = self.index(claim, part)?;
        let piece = self.queue.piece(index);
        (!piece.address().is_null()).then_some(piece)
    }

    /// Writes the descriptor of the claim's next part: `post.part` counts up from 0, and `parts` is
    /// that of the claim. The bytes lie in the slot's own buffer, or elsewhere in memory that the
    /// queue may read and that nobody changes before the completion. Asks for completions
    /// selectively by itself; [`PostFlags::SIGNAL`] asks for one more.
    ///
    /// # Errors
    /// [`Cause::LocalQpOperation`] if the claim is over or this part is not the next;
    /// [`Cause::LocalProtection`] or [`Cause::FrameTooLong`] if the format cannot send it. The
    /// frame then cuts the batch.
    #[inline(always)]
    pub fn write(&mut self, claim: &Claim, post: &Post) -> Result<(), Cause> {
        let own = match self.index(claim, post.part) {
            Some(index) => self.queue.ring.buffer(index),
            None => return self.fail(Cause::LocalQpOperation),
        };
        let offset = post.address.value().wrapping_sub(own.address.value());
        self.put(claim, post)?;
        if offset >= u64::from(own.capacity) {
            self.lane.by_reference = self.lane.by_reference.wrapping_add(post.length);
        }
        Ok(())
    }

    /// Counts packet headers that this lane wrote or changed.
    #[inline(always)]
    pub fn count_headers(&mut self, headers: u32) {
        self.lane.headers = self.lane.headers.wrapping_add(headers);
    }

    /// *Collective.* Makes all claimed slots visible to the NIC and lets go of the rest of the
    /// reservation. Returns how many slots that are.
    ///
    /// # Errors
    /// The [`Cause`] of the frame that cut the batch; what was claimed before it has been
    /// published.
    #[inline(always)]
    pub fn publish<S: Simt>(&mut self, simt: &S) -> Result<u32, Cause> {
        self.calls += 1;
        self.seal(simt);
        let slots = match self.cut {
            Some((slots, _)) => slots,
            None => self.claimed,
        };
        if slots > 0 {
            // The slots of all lanes are written.
            simt.sync_warp();
            self.published = self.published.wrapping_add(u64::from(slots));
            self.unrung = true;
            if simt.is_leader() {
                self.queue.ring.publish(self.published);
            }
        }
        self.count(simt, slots);
        let cut = self.cut;
        self.let_go();
        match cut {
            None => Ok(slots),
            Some((_, cause)) => {
                if simt.is_leader() {
                    self.queue.count(tx::FAULTS, 1);
                    self.queue.set_cause(cause);
                }
                Err(cause)
            }
        }
    }

    /// *Collective.* Tells the NIC to look, if anything was published since the last time.
    #[inline(always)]
    pub fn ring<S: Simt>(&mut self, simt: &S) {
        self.calls += 1;
        if !self.unrung {
            return;
        }
        self.unrung = false;
        if simt.is_leader() {
            let trigger = self.queue.ring.ring(self.published);
            let counters = self.queue.provenance();
            counters.triggered(trigger);
            counters.device_calls.add(u64::from(self.calls));
        }
        self.calls = 0;
    }

    /// Slots that are free besides those reserved now.
    #[inline(always)]
    fn free<S: Simt>(&mut self, simt: &S, want: u32) -> Result<u32, Cause> {
        let depth = u64::from(self.queue.depth());
        let mut free = depth.wrapping_sub(self.in_flight());
        if free < u64::from(want) {
            self.harvest(simt)?;
            free = depth.wrapping_sub(self.in_flight());
        }
        Ok(free.min(u64::from(want)) as u32)
    }

    #[inline(always)]
    fn set_reserved(&mut self, slots: u32) {
        self.reserved = slots;
    }

    /// Forgets what was reserved and not published.
    #[inline(always)]
    fn let_go(&mut self) {
        self.reserved = 0;
        self.claimed = 0;
        self.open = Open::default();
        self.ended = false;
        self.cut = None;
    }

    /// The slot of a part of this lane's open claim.
    #[inline(always)]
    pub(crate) fn index(&self, claim: &Claim, part: u32) -> Option<u64> {
        let first = self.published.wrapping_add(u64::from(self.open.first));
        let open = claim.first == first && claim.parts == self.open.parts && part < claim.parts;
        open.then(|| first.wrapping_add(u64::from(part)))
    }

    /// The frame of this lane's claim cannot be written after all: it cuts the batch, and
    /// [`Sender::publish`] says why, to all lanes.
    #[inline(always)]
    pub fn abandon(&mut self, cause: Cause) {
        self.open.failure = Some(cause);
    }

    #[inline(always)]
    pub(crate) fn fail(&mut self, cause: Cause) -> Result<(), Cause> {
        self.open.failure = Some(cause);
        Err(cause)
    }

    /// Writes one descriptor and counts it.
    #[inline(always)]
    pub(crate) fn put(&mut self, claim: &Claim, post: &Post) -> Result<(), Cause> {
        let index = match self.index(claim, post.part) {
            Some(index) if post.part == self.open.written => index,
            _ => return self.fail(Cause::LocalQpOperation),
        };
        let mut post = Post {
            parts: claim.parts,
            ..*post
        };
        if T::PHASED {
            // A frame asks on its last part, whose completion frees all of its slots.
            self.open.signal |= post.flags.contains(PostFlags::SIGNAL);
            let last = post.part + 1 == claim.parts;
            let signal = last && (self.open.signal || self.signals(claim));
            post.flags.set(PostFlags::SIGNAL, signal);
        }
        if let Err(cause) = self.queue.ring.write(index, &post) {
            return self.fail(cause);
        }
        self.open.written += 1;
        self.open.bytes = self.open.bytes.wrapping_add(post.length);
        Ok(())
    }

    #[inline(always)]
    fn count_no_resource<S: Simt>(&self, simt: &S) {
        if simt.is_leader() {
            self.queue.count(tx::NO_RESOURCE, 1);
        }
    }

    /// Whether one of the frame's slots is the last of a signalling interval, a quarter of the
    /// depth.
    #[inline(always)]
    fn signals(&self, claim: &Claim) -> bool {
        let end = claim.first.wrapping_add(u64::from(claim.parts));
        let interval = u64::from((self.queue.depth() / 4).max(1));
        (claim.first ^ end) & !(interval - 1) != 0
    }

    /// *Collective.* Closes the claims of this round: counts frames, or cuts the batch before the
    /// first frame that failed.
    #[inline(always)]
    fn seal<S: Simt>(&mut self, simt: &S) {
        let open = self.open;
        let failed = open.failure.is_some() || open.written != open.parts;
        let mut counts = open.parts > 0;
        if simt.any(failed) {
            let (cut, cause) = first_failure(simt, &open, failed);
            counts &= open.first < cut;
            if self.cut.is_none() {
                self.cut = Some((cut, cause));
                self.ended = true;
            }
        }
        if counts {
            self.lane.frames = self.lane.frames.wrapping_add(1);
            self.lane.bytes = self.lane.bytes.wrapping_add(open.bytes);
        }
        self.open = Open::default();
    }

    /// *Collective.* Adds what the lanes did to the counters.
    #[inline(always)]
    fn count<S: Simt>(&mut self, simt: &S, slots: u32) {
        let lane = self.lane;
        let frames = u64::from(simt.sum(lane.frames));
        let bytes = u64::from(simt.sum(lane.bytes));
        let headers = u64::from(simt.sum(lane.headers));
        let by_reference = u64::from(simt.sum(lane.by_reference));
        let copied_device = u64::from(simt.sum(lane.copied_device));
        let copied_host = u64::from(simt.sum(lane.copied_host));
        self.lane = Tally::default();
        if simt.is_leader() {
            let counters = self.queue.provenance();
            self.queue.count(tx::FRAMES, frames);
            self.queue.count(tx::BYTES, bytes);
            counters.descriptors_built.add(u64::from(slots));
            counters.headers_built.add(headers);
            counters.bytes_by_reference.add(by_reference);
            counters.bytes_copied_device.add(copied_device);
            counters.bytes_copied_host.add(copied_host);
        }
    }
}

/// *Collective.* [`Simt::exclusive_sum`], cheaper where no lane has more than one part.
#[inline(always)]
fn divide<S: Simt>(simt: &S, parts: u32) -> (u32, u32) {
    if S::WIDTH == 1 {
        return (0, parts);
    }
    if simt.any(parts > 1) {
        return simt.exclusive_sum(parts);
    }
    let votes = simt.ballot(parts != 0);
    let below = votes & ((1u32 << simt.lane()) - 1);
    (below.count_ones(), votes.count_ones())
}

/// *Collective.* Where the first frame that failed starts, and why.
#[cold]
#[inline(always)]
fn first_failure<S: Simt>(simt: &S, open: &Open, failed: bool) -> (u32, Cause) {
    let mut cut = if failed { open.first } else { u32::MAX };
    let cause = open.failure.unwrap_or(Cause::LocalQpOperation) as u32;
    let own = cut;
    let mut distance = S::WIDTH / 2;
    while distance > 0 {
        cut = cut.min(simt.shuffle(cut, simt.lane() ^ distance));
        distance /= 2;
    }
    let votes = simt.ballot(own == cut);
    let cause = simt.shuffle(cause, votes.trailing_zeros());
    (
        cut,
        Cause::from_number(cause).unwrap_or(Cause::LocalQpOperation),
    )
}
