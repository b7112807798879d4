//! The engine of one block of streams: a step receives what came, does what applications and the
//! host asked for, looks at clocks, and sends what may be sent.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that all tables are live"
)]

use core::num::NonZeroU32;

use warpwire_device::{
    Copied, Copies, CopyHead, CopyReader, Frame, MAX_BATCH, Receiver, Sender, SharedCounters, Simt,
};
use warpwire_ring::{Cause, Receive, Transmit};

use super::arrive::{Arrival, Seen, Slots, look, look_at};
use super::bits::{Bits, OwnBits};
use super::book::Book;
use super::count::{self, Counts};
use super::crew::{Board, Post};
use super::decide::Order;
use super::flow::Flow;
use super::job::Job;
use super::tables::{HANDED, NONE, StreamBlock};
use super::turns::Turns;
use crate::crew::Crew;
use crate::engine::slots;
use crate::sheet::Sheet;

/// Runs the streams of one block, by one warp; or is one of a crew that does.
pub struct StreamEngine<'a, R, T> {
    pub(super) receiver: Receiver<R>,
    pub(super) sender: Sender<T>,
    pub(super) flow: Flow<'a>,
    /// Bytes of a transmit slot.
    pub(super) capacity: NonZeroU32,
    /// Slots of the largest frame.
    pub(super) most_parts: NonZeroU32,
    /// Where frames go that are the host's.
    slow: Option<Copies>,
    /// Where frames come from that the host wants to be sent.
    pub(super) inject: Option<CopyReader>,
    /// Where segments come from that came to queues of other blocks.
    handed: Option<CopyReader>,
    /// Where copies of frames that leave go.
    pub(super) mirror: Option<Copies>,
    pub(super) post: Post,
}

impl<'a, R: Receive, T: Transmit> StreamEngine<'a, R, T> {
    /// Goes on where the block stands, as one of `crew`, all of which do: one warp alone with the
    /// one of `blocks`, or several with as many as [`Crew::engines`], which name the same rings,
    /// board and secret.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if a table is missing, a configuration has rings that are no power
    /// of two or longer than a chunk, the rings are of another format, or there are not as many
    /// blocks or more warps than [`Crew::MOST`];
    /// [`Cause::FrameTooLong`] if segments do not fit transmit slots; what attaching to the rings
    /// refuses. All of the crew find the same.
    ///
    /// # Safety
    /// *The engine's promise*: the rings and everything that the blocks point to is live memory of
    /// the size that the block says for `'a`; nobody but the crew drives these rings or touches
    /// what is the engine's own.
    pub unsafe fn attach(blocks: &'a [StreamBlock], crew: Crew) -> Result<Self, Cause> {
        let block = blocks.get(crew.engine() as usize);
        let block = block.ok_or(Cause::LayoutMismatch)?;
        // SAFETY: the block's board, by the promise.
        let board = unsafe { Sheet::attach::<Board>(block.board) }.filter(|_| !crew.is_alone());
        if blocks.len() != crew.engines() as usize || !crew.fits(board.is_some()) {
            return Err(Cause::LayoutMismatch);
        }
        let mut largest = 0;
        for block in blocks {
            // SAFETY: the block's tables, by the promise.
            let book = unsafe { Book::attach(block) }.ok_or(Cause::LayoutMismatch)?;
            largest = book.largest_frame().max(largest);
        }
        // SAFETY: the block's tables, by the promise.
        let book = unsafe { Book::attach(block) }.ok_or(Cause::LayoutMismatch)?;
        // SAFETY: the rings, by the promise.
        let sender: Sender<T> = unsafe { Sender::attach(&block.transmit) }?;
        let capacity = NonZeroU32::new(sender.slot_bytes());
        let capacity = capacity.filter(|capacity| capacity.get() >= LEAST_SLOT);
        let capacity = capacity.ok_or(Cause::FrameTooLong)?;
        let most_parts = slots(largest, capacity);
        if most_parts > sender.max_parts().min(sender.depth()) {
            return Err(Cause::FrameTooLong);
        }
        let count = block.connection_count;
        let has_told = !block.told.is_null();
        // SAFETY: the block's counters, by the promise.
        let counters = unsafe { SharedCounters::attach(block.counters, count::ENTRIES) };
        let flow = Flow {
            book,
            counts: Counts::new(counters),
            // SAFETY: a bitmap of the block's, by the promise.
            asked: unsafe { Bits::attach(block.asked, count) },
            // SAFETY: as above.
            told: has_told
                .then(|| unsafe { Bits::attach(block.told, count + block.listener_count) }),
            // SAFETY: as above; the engine's own.
            ready: unsafe { OwnBits::attach(block.ready, count) },
            turns: Turns::default(),
            now_ns: 0,
        };
        Ok(Self {
            // SAFETY: the rings, by the promise.
            receiver: unsafe { Receiver::attach(&block.receive) }?,
            most_parts: NonZeroU32::new(most_parts).ok_or(Cause::LayoutMismatch)?,
            capacity,
            sender,
            flow,
            // SAFETY: a ring of the block's, by the promise.
            slow: unsafe { Copies::attach(block.slow) },
            // SAFETY: as above.
            inject: unsafe { CopyReader::attach(block.inject) },
            // SAFETY: as above.
            handed: unsafe { CopyReader::attach(block.handed) },
            // SAFETY: as above.
            mirror: unsafe { Copies::attach(block.mirror) },
            post: Post::new(crew, board),
        })
    }

    /// *Collective.* Writes where the rings stand to memory, for who attaches next.
    pub fn save<S: Simt>(&mut self, simt: &S) {
        if self.post.crew.dispatches() {
            self.receiver.save(simt);
            self.sender.save(simt);
        }
    }

    /// *Collective over the crew.* One round. Says whether there was anything to do for this warp.
    ///
    /// # Errors
    /// Why a ring can no longer be used. Of several warps the dispatcher is told, and the others
    /// hear of it by [`StreamEngine::agree`].
    pub fn step<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        if self.post.board.is_some() {
            return self.together(simt);
        }
        let busy = self.alone(simt)?;
        self.count_turn(simt, busy);
        Ok(busy)
    }

    /// Counts a round.
    pub(super) fn count_turn<S: Simt>(&self, simt: &S, busy: bool) {
        if simt.is_leader() {
            self.flow.counts.count(count::TURNS, 1);
            if !busy {
                self.flow.counts.count(count::IDLE_TURNS, 1);
            }
        }
    }

    /// *Collective.* A round of a warp that does everything.
    #[inline(always)]
    fn alone<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        self.flow.now_ns = simt.shuffle_u64(simt.now_ns(), 0);
        let mut busy = self.receive(simt)?;
        busy |= self.take_handed(simt)?;
        busy |= self.flow.listen(simt);
        busy |= self.flow.command(simt);
        busy |= self.inject(simt)?;
        busy |= self.flow.watch(simt);
        busy |= self.transmit(simt)?;
        Ok(busy)
    }

    /// *Collective.* Takes a batch of frames.
    #[inline(never)]
    fn receive<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        let Some(batch) = self.receiver.arrived(simt, MAX_BATCH)? else {
            return Ok(false);
        };
        let reader = *self.receiver.reader();
        let mut arrival = Arrival::default();
        let mut row = 0;
        while row < batch.slots() {
            let frame = reader.lane_frame(simt, &batch, row);
            let seen = match &frame {
                Some(frame) => {
                    let reader = &reader;
                    look(&Slots { reader, frame }, self.flow.book.block, &mut arrival)
                }
                None => Seen::Nothing,
            };
            if let Seen::Dropped(reason) = seen {
                self.flow.counts.drop(simt, reason);
            }
            self.pass(simt, frame.as_ref(), seen == Seen::Foreign);
            // One after the other, as they came: later ones must not be seen before.
            let mut waiting = simt.ballot(seen == Seen::Segment);
            while waiting != 0 {
                let lane = waiting.trailing_zeros();
                waiting &= waiting - 1;
                let told;
                let arrival = match S::WIDTH {
                    1 => &arrival,
                    _ => {
                        told = arrival.of_lane(simt, lane);
                        &told
                    }
                };
                let frame = reader.frame(&batch, row + lane);
                self.serve(simt, frame.as_ref(), arrival)?;
            }
            row += S::WIDTH;
        }
        self.receiver.release(simt, batch);
        Ok(true)
    }

    /// *Collective.* Hands frames that are none of the engine's to the host.
    #[inline(always)]
    pub(super) fn pass<S: Simt>(&mut self, simt: &S, frame: Option<&Frame<'_>>, is_foreign: bool) {
        if !simt.any(is_foreign) {
            return;
        }
        self.hand_over(simt, frame, is_foreign, 0);
    }

    #[inline(never)]
    fn hand_over<S: Simt>(
        &mut self,
        simt: &S,
        frame: Option<&Frame<'_>>,
        is_foreign: bool,
        sequence: u64,
    ) {
        let reader = *self.receiver.reader();
        let length = frame.map_or(0, Frame::length);
        let mut copied = Copied::No;
        if let Some(slow) = &self.slow {
            let head = CopyHead {
                time_ns: self.flow.now_ns,
                sequence,
                length,
                kept: length,
            };
            let fits = is_foreign && length <= slow.room();
            let piece = |index| reader.piece(frame?, index);
            copied = slow.offer(simt, fits, &head, |_| true, piece);
        }
        if is_foreign {
            let lost = copied != Copied::Yes;
            let counter = match (lost, sequence) {
                (true, _) => count::SLOW_LOST,
                (false, 0) => count::SLOW,
                (false, _) => count::HANDED,
            };
            self.flow.counts.add(simt, counter, 1);
        }
    }

    /// *Collective.* Hands a segment to its connection and does what that says. A peer that takes
    /// the frame back meanwhile takes it from all lanes: then nothing is done.
    #[inline(always)]
    pub(super) fn serve<S: Simt>(
        &mut self,
        simt: &S,
        frame: Option<&Frame<'_>>,
        arrival: &Arrival,
    ) -> Result<(), Cause> {
        let is_gone = simt.any(frame.is_none());
        let Some(frame) = frame.filter(|_| !is_gone) else {
            return Ok(());
        };
        let mut answer = None;
        let order = self.flow.judge(simt, arrival, &frame.head(), &mut answer);
        if order.length > 0 {
            self.scatter(simt, frame, arrival.payload_at(), &order);
        }
        if order.home != NONE {
            let sequence = HANDED | u64::from(order.home);
            self.hand_over(simt, Some(frame), simt.is_leader(), sequence);
        }
        self.settle(simt, &order, answer)
    }

    /// *Collective.* Serves segments that came to queues of other blocks.
    pub(super) fn take_handed<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        match self.handed {
            Some(handed) => self.serve_handed(simt, &handed),
            None => Ok(false),
        }
    }

    #[cold]
    #[inline(never)]
    fn serve_handed<S: Simt>(&mut self, simt: &S, handed: &CopyReader) -> Result<bool, Cause> {
        let count = handed.waiting(simt).min(MAX_BATCH);
        for index in 0..count {
            let Some(frame) = handed.frame(index) else {
                continue;
            };
            let mut arrival = Arrival::default();
            // Every lane sees the same.
            if look_at(&frame, self.flow.book.block, &mut arrival) == Seen::Segment {
                let mut answer = None;
                let order = self.flow.judge(simt, &arrival, &frame, &mut answer);
                self.flow.place(simt, &frame, arrival.payload_at(), &order);
                self.settle(simt, &order, answer)?;
            }
        }
        if count > 0 {
            handed.give_back(simt, count);
            if simt.is_leader() {
                self.flow.counts.count(count::TAKEN, u64::from(count));
            }
        }
        Ok(count > 0)
    }

    /// *Collective.* What is left to do for a segment once its bytes are placed.
    #[inline(always)]
    fn settle<S: Simt>(
        &mut self,
        simt: &S,
        order: &Order,
        answer: Option<Job>,
    ) -> Result<(), Cause> {
        if simt.is_leader() && order.place != NONE {
            self.flow.tell(order.place);
        }
        // pairs with: lanes that look at connections afterwards.
        simt.sync_warp();
        if order.answers != 0 {
            let answer = answer.unwrap_or_default();
            self.reply(simt, &answer)?;
        }
        Ok(())
    }

    /// *Collective.* Spreads payload of a frame over the receive ring that an order names: two
    /// pieces where the ring ends between.
    #[inline(always)]
    fn scatter<S: Simt>(&mut self, simt: &S, frame: &Frame<'_>, payload: u32, order: &Order) {
        let Some(ring) = self.flow.book.ring(order.chunk, order.ring_bytes) else {
            return;
        };
        for (offset, from, count) in order.pieces(payload) {
            if count > 0
                && let Some(to) = ring.piece(u64::from(offset), count)
            {
                self.receiver
                    .spread(simt, frame, from, &to, ring.location());
            }
        }
    }

    /// *Collective.* Sends an answer of the leader that belongs to no connection, if there is a
    /// slot.
    #[cold]
    #[inline(never)]
    fn reply<S: Simt>(&mut self, simt: &S, answer: &Job) -> Result<(), Cause> {
        let mut sent = Ok(());
        let has_slot;
        if let Some(board) = self.post.board {
            has_slot = self.ask_answer(simt, board, answer);
        } else {
            has_slot = self.credits(simt)? > 0;
            if has_slot {
                self.depart(simt, answer, &answer.path, None, simt.is_leader());
                sent = self.sender.publish(simt).map(|_| ());
            }
        }
        if simt.is_leader() {
            let counter = match has_slot {
                true => count::SENT,
                false => count::ANSWERS_LOST,
            };
            self.flow.counts.count(counter, 1);
        }
        sent
    }
}

/// The smallest slots that an engine works with: headers lie in one.
const LEAST_SLOT: u32 = 256;
