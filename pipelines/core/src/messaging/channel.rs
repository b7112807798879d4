//! Channels: one queue pair, posted to and polled by a warp, a thread, or the host.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use warpwire_device::{Heartbeat, SharedWord, Simt, Wait};
use warpwire_ring::mlx5::post::{Gather, ReceiveQueue, SendQueue};
use warpwire_ring::{Cause, DeviceAddress};

use super::arrival::{self, Arrival, Ring};
use super::block::{ChannelBlock, Cursor};
use super::progress::{Progress, keep_on};
use super::request::{Remote, Request};

/// A queue pair for code that posts and polls. See the module's text.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    pub(super) sends: SendQueue,
    receives: Option<ReceiveQueue>,
    sent: Ring,
    arrived: Ring,
    /// Completions will tell of every send slot before this one.
    tracked_to: u64,
    /// The next request waits for all fetches before it.
    fence: bool,
    fault: Option<Fault>,
    pub(super) scratch: Gather,
    heartbeat: Option<Heartbeat>,
    block: DeviceAddress,
}

/// How the queue pair failed.
#[derive(Clone, Copy, Debug)]
struct Fault {
    cause: Cause,
    /// The slot of the request.
    at: u64,
}

/// A request that was posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// Its number: the slot that it begins in.
    pub first: u64,
    /// The slot behind it.
    pub end: u64,
}

/// A completion of sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// The number of the request that it names; all before it are done too. `u64::MAX` if no such
    /// request is under way.
    pub index: u64,
    /// Why it failed.
    pub failed: Option<Cause>,
}

/// Counts requests of one channel, to wait for them together: a local completion counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counter {
    /// Requests that were added.
    pub requests: u64,
    last: Option<Ticket>,
}

impl Counter {
    /// Counts a request; later ones are added later.
    #[inline(always)]
    pub const fn add(&mut self, ticket: Ticket) {
        self.requests = self.requests.wrapping_add(1);
        self.last = Some(ticket);
    }

    /// The request that is complete last.
    pub const fn last(&self) -> Option<Ticket> {
        self.last
    }
}

/// What became of a lane's request while lanes wait for room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posting {
    is_left: bool,
    pub(super) outcome: Result<Option<Ticket>, Cause>,
}

impl Posting {
    /// Nothing so far.
    pub(super) const fn of(request: Option<&Request<'_>>) -> Self {
        Self {
            is_left: request.is_some(),
            outcome: Ok(None),
        }
    }
}

impl Channel {
    /// Attaches to a queue pair where its block stands.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if there is no such block.
    ///
    /// # Safety
    /// *The channel's promise*: at `block` lies a [`ChannelBlock`], or at least a header; its
    /// queues, its scratch and its heartbeat are live memory for as long as the value is used, and
    /// nobody else posts to the queue pair or polls it meanwhile. The lanes of a warp do so
    /// together, each with a copy.
    #[inline(always)]
    pub unsafe fn attach(block: DeviceAddress) -> Result<Self, Cause> {
        if block.is_null() || !block.is_aligned(align_of::<ChannelBlock>() as u64) {
            return Err(Cause::LayoutMismatch);
        }
        // SAFETY: a header lies there by the promise, and any bits are one.
        let header = unsafe { *(block.value() as *const crate::block::Header) };
        if header != ChannelBlock::HEADER {
            return Err(Cause::LayoutMismatch);
        }
        // SAFETY: the header says that it is such a block; who had it before is done with it.
        let own = unsafe { &*(block.value() as *const ChannelBlock) };
        // SAFETY: passed on.
        Ok(unsafe { Self::of(own, block) })
    }

    /// A channel where a block stands; [`Channel::save`] writes to `home`.
    ///
    /// # Safety
    /// As [`Channel::attach`], for the block's queues; at `home` is room for the block, or it is
    /// null.
    pub unsafe fn of(block: &ChannelBlock, home: DeviceAddress) -> Self {
        let cursor = &block.cursor;
        let (freed, next) = (cursor.receive_freed, cursor.receive_next);
        let receives = match block.receive.ring.is_null() {
            true => None,
            // SAFETY: passed on.
            false => Some(unsafe { ReceiveQueue::resume(block.receive, freed, next) }),
        };
        let cause = Cause::from_number(cursor.fault);
        let heartbeat = (!block.heartbeat.is_null()).then(|| Heartbeat {
            // SAFETY: passed on.
            word: unsafe { SharedWord::attach(block.heartbeat) },
            stale_ns: block.stale_ns,
        });
        Self {
            // SAFETY: passed on.
            sends: unsafe { SendQueue::resume(block.send, cursor.send_freed, cursor.send_next) },
            receives,
            // SAFETY: passed on.
            sent: unsafe { Ring::attach(&block.sent, cursor.sent_next) },
            // SAFETY: passed on.
            arrived: unsafe { Ring::attach(&block.arrived, cursor.arrived_next) },
            tracked_to: cursor.tracked_to,
            fence: cursor.fence != 0,
            fault: cause.map(|cause| Fault {
                cause,
                at: cursor.fault_at,
            }),
            scratch: block.scratch,
            heartbeat,
            block: home,
        }
    }

    /// Where it stands.
    pub fn cursor(&self) -> Cursor {
        Cursor {
            send_next: self.sends.next(),
            send_freed: self.sends.freed(),
            tracked_to: self.tracked_to,
            receive_next: self.receives.map_or(0, |queue| queue.next()),
            receive_freed: self.receives.map_or(0, |queue| queue.freed()),
            sent_next: self.sent.next(),
            arrived_next: self.arrived.next(),
            fault_at: self.fault.map_or(0, |fault| fault.at),
            fault: self.fault.map_or(0, |fault| fault.cause as u32),
            fence: u32::from(self.fence),
        }
    }

    /// *Collective.* Leaves in its block where it stands, for who attaches next.
    #[inline(always)]
    pub fn save<S: Simt>(&self, simt: &S) {
        if simt.is_leader() && !self.block.is_null() {
            let at = core::mem::offset_of!(ChannelBlock, cursor) as u64;
            let at = self.block.offset(at).value() as *mut Cursor;
            // SAFETY: within the block, by the channel's promise; whoever attaches next does so
            // after this warp is done.
            unsafe { *at = self.cursor() };
        }
        simt.sync_warp();
    }

    /// Number of the queue pair.
    pub const fn number(&self) -> u32 {
        self.sends.number()
    }

    /// Send slots.
    pub const fn depth(&self) -> u32 {
        self.sends.depth()
    }

    /// Send slots that are free, as far as completions were polled.
    pub const fn free(&self) -> u32 {
        self.sends.free()
    }

    /// The send slot that the next request begins in.
    pub const fn next(&self) -> u64 {
        self.sends.next()
    }

    /// Receives that can be posted; 0 if the receives are shared.
    pub fn free_receives(&self) -> u32 {
        self.receives.map_or(0, |queue| queue.free())
    }

    /// How the queue pair failed, as far as completions were polled.
    pub fn fault(&self) -> Option<Cause> {
        self.fault.map(|fault| fault.cause)
    }

    /// Goes on as if nothing had failed: the queue pair sends again. Failures that are polled later
    /// count as new ones.
    pub const fn forgive(&mut self) {
        self.fault = None;
    }

    /// The same wait, ended as well when the engine's heart stops.
    #[inline(always)]
    pub(super) fn guarded(&self, wait: &Wait) -> Wait {
        Wait {
            heartbeat: wait.heartbeat.or(self.heartbeat),
            ..*wait
        }
    }

    /// *Collective.* Posts the request of each lane that has one, in the order of the lanes, as far
    /// as there are free slots: those of the first lanes. Returns the lane's own ticket.
    ///
    /// # Errors
    /// For the lane's own request, of which nothing was posted then: [`Cause::NoResource`] if there
    /// was no room, [`Cause::LocalLength`] if it has more pieces or inline bytes than a request
    /// can, or how the queue pair failed.
    #[inline(always)]
    pub fn post<S: Simt>(
        &mut self,
        simt: &S,
        request: Option<&Request<'_>>,
    ) -> Result<Option<Ticket>, Cause> {
        let outcome = self.write(simt, request);
        self.publish(simt);
        outcome
    }

    /// *Collective.* [`Channel::post`] without its last step: nobody sees the requests before
    /// [`Channel::publish`], which several of them may share.
    ///
    /// # Errors
    /// As [`Channel::post`].
    pub fn write<S: Simt>(
        &mut self,
        simt: &S,
        request: Option<&Request<'_>>,
    ) -> Result<Option<Ticket>, Cause> {
        let plan = match request {
            Some(request) => request.slots(),
            None => Ok(0),
        };
        let slots = plan.unwrap_or(0);
        let (before, total) = simt.exclusive_sum(slots);
        if total > self.sends.free() {
            self.collect(simt);
        }
        let free = match self.fault {
            None => self.sends.free(),
            Some(_) => 0,
        };
        let fits = slots > 0 && before + slots <= free;
        let taken = match total <= free {
            true => total,
            false => simt.sum(if fits { slots } else { 0 }),
        };
        let posting = simt.ballot(fits);
        let tracked = self.track(simt, request, posting, taken, before + slots);
        let at = self.sends.next().wrapping_add(u64::from(before));
        let mut written = Ok(());
        if fits && let Some(request) = request {
            let fenced = self.fence && simt.lane() == posting.trailing_zeros();
            let scratch = core::slice::from_ref(&self.scratch);
            let scratch = scratch.get(..usize::from(self.scratch.length > 0));
            let scratch = scratch.unwrap_or(&[]);
            written = request.write(&self.sends, at, fenced, tracked, scratch);
        }
        self.sends.advance(taken);
        self.fence &= posting == 0;
        let ticket = Ticket {
            first: at,
            end: at.wrapping_add(u64::from(slots)),
        };
        match (plan.and(written), request, self.fault) {
            (Err(cause), _, _) => Err(cause),
            (Ok(_), None, _) => Ok(None),
            (Ok(_), Some(_), Some(fault)) => Err(fault.cause),
            (Ok(_), Some(_), None) if fits => Ok(Some(ticket)),
            (Ok(_), Some(_), None) => Err(Cause::NoResource),
        }
    }

    /// *Collective.* Whether a completion is to tell of the lane's request: if it wants so, and of
    /// the last one at least once in half a queue, so that slots become free.
    #[inline(always)]
    fn track<S: Simt>(
        &mut self,
        simt: &S,
        request: Option<&Request<'_>>,
        posting: u32,
        taken: u32,
        upto: u32,
    ) -> bool {
        if posting == 0 {
            return false;
        }
        let end = self.sends.next().wrapping_add(u64::from(taken));
        let is_due = end.wrapping_sub(self.tracked_to) >= u64::from(self.sends.depth() / 2).max(1);
        let last = 31 - posting.leading_zeros();
        let mine = posting >> simt.lane() & 1 != 0;
        let wants = request.is_some_and(|request| request.order.signal);
        let is_exact = request.is_some_and(|request| request.is_exact);
        let tracked = mine && (wants || (is_due && !is_exact && simt.lane() == last));
        let tracking = simt.ballot(tracked);
        if tracking != 0 {
            let upto = simt.shuffle(upto, 31 - tracking.leading_zeros());
            self.tracked_to = self.sends.next().wrapping_add(u64::from(upto));
        }
        tracked
    }

    /// *Collective.* [`Channel::post`], and waits for room where there is none.
    ///
    /// # Errors
    /// As [`Channel::post`], but for [`Cause::NoResource`]; for the warp, what ends waits.
    pub fn post_waiting<S: Simt, P: Progress>(
        &mut self,
        simt: &S,
        request: Option<&Request<'_>>,
        wait: &Wait,
        progress: &mut P,
    ) -> Result<Option<Ticket>, Cause> {
        let wait = self.guarded(wait);
        let mut posting = Posting::of(request);
        keep_on(simt, &wait, progress, |_| {
            self.try_post(simt, request, &mut posting).then_some(())
        })?;
        posting.outcome
    }

    /// *Collective.* One look of [`Channel::post_waiting`]: posts what fits. Says whether no lane
    /// has anything left.
    pub(super) fn try_post<S: Simt>(
        &mut self,
        simt: &S,
        request: Option<&Request<'_>>,
        posting: &mut Posting,
    ) -> bool {
        loop {
            let left = request.filter(|_| posting.is_left);
            let posted = self.post(simt, left);
            if left.is_some() && posted != Err(Cause::NoResource) {
                (posting.is_left, posting.outcome) = (false, posted);
            }
            if !simt.any(posting.is_left) {
                return true;
            }
            let free = self.free();
            self.collect(simt);
            if is_behind(self.next(), self.tracked_to) {
                self.ask(simt);
            }
            if self.fault.is_none() && self.free() <= free {
                return false;
            }
        }
    }

    /// *Collective.* Makes everything that was written visible to who carries it out.
    #[inline(always)]
    pub fn publish<S: Simt>(&self, simt: &S) {
        // What the other lanes wrote is the leader's to publish.
        simt.sync_warp();
        if simt.is_leader() {
            self.sends.publish();
        }
    }

    /// *Collective.* The next completion of sends, if there is one.
    pub fn poll_sent<S: Simt>(&mut self, simt: &S) -> Option<Sent> {
        let told = self.sent.poll(simt)?;
        let before = self.sends.freed();
        let index = self.sends.retire(told.counter());
        let failed = match index {
            Some(_) => told.failed(),
            // It names no request: what it says of others cannot be believed.
            None => Some(Cause::RingCorrupted),
        };
        if let (Some(cause), None) = (failed, self.fault) {
            let at = index.unwrap_or(before);
            self.fault = Some(Fault { cause, at });
        }
        Some(Sent {
            index: index.unwrap_or(u64::MAX),
            failed,
        })
    }

    /// *Collective.* Polls all completions of sends that are there.
    #[inline(always)]
    pub fn collect<S: Simt>(&mut self, simt: &S) {
        let mut most = self.sends.depth();
        while most > 0 && self.poll_sent(simt).is_some() {
            most -= 1;
        }
    }

    /// Whether a request is complete, as far as completions were polled: its source may be used
    /// again, what it fetched is there, and what it put is placed at the peer.
    ///
    /// # Errors
    /// How it failed, or the request before it that did.
    pub fn is_done(&self, ticket: Ticket) -> Result<bool, Cause> {
        match self.fault {
            Some(fault) if is_behind(ticket.end, fault.at) => Err(fault.cause),
            _ => Ok(!is_behind(ticket.end, self.sends.freed())),
        }
    }

    /// *Collective.* Waits until the request of each lane that names one is complete, see
    /// [`Channel::is_done`].
    ///
    /// # Errors
    /// For the lane's own request, how it failed; for the warp, what ends waits.
    pub fn wait<S: Simt, P: Progress>(
        &mut self,
        simt: &S,
        ticket: Option<Ticket>,
        wait: &Wait,
        progress: &mut P,
    ) -> Result<(), Cause> {
        let wait = self.guarded(wait);
        keep_on(simt, &wait, progress, |_| self.try_wait(simt, ticket))?
    }

    /// *Collective.* One look of [`Channel::wait`].
    pub(super) fn try_wait<S: Simt>(
        &mut self,
        simt: &S,
        ticket: Option<Ticket>,
    ) -> Option<Result<(), Cause>> {
        self.collect(simt);
        let state = match ticket {
            Some(ticket) => self.is_done(ticket),
            None => Ok(true),
        };
        if simt.all(state != Ok(false)) {
            return Some(state.map(|_| ()));
        }
        let untold = ticket.is_some_and(|ticket| is_behind(ticket.end, self.tracked_to));
        if simt.any(untold) {
            self.ask(simt);
        }
        None
    }

    /// *Collective.* Waits until all requests of a counter are complete.
    ///
    /// # Errors
    /// As [`Channel::wait`].
    pub fn wait_counter<S: Simt, P: Progress>(
        &mut self,
        simt: &S,
        counter: &Counter,
        wait: &Wait,
        progress: &mut P,
    ) -> Result<(), Cause> {
        self.wait(simt, counter.last(), wait, progress)
    }

    /// *Collective.* Waits until everything that was posted is complete.
    ///
    /// # Errors
    /// How the queue pair failed; what ends waits.
    pub fn quiet<S: Simt, P: Progress>(
        &mut self,
        simt: &S,
        wait: &Wait,
        progress: &mut P,
    ) -> Result<(), Cause> {
        self.wait(simt, Some(self.all()), wait, progress)
    }

    /// Stands for everything that was posted.
    pub(super) const fn all(&self) -> Ticket {
        let end = self.sends.next();
        Ticket { first: end, end }
    }

    /// The next request begins only when all gets and atomics before it are done. Puts, sends and
    /// signals are in order without it.
    #[inline(always)]
    pub const fn fence(&mut self) {
        self.fence = true;
    }

    /// *Collective.* Has a completion tell of everything that was posted: a write of no bytes, if
    /// there is room for it.
    fn ask<S: Simt>(&mut self, simt: &S) {
        let nothing = warpwire_ring::mlx5::post::Payload::Pieces(&[]);
        let request = Request::put(nothing, Remote::default()).tracked();
        let fence = core::mem::take(&mut self.fence);
        // Without room it is asked again: completions that make room are due, unless whoever posted
        // exact requests did not ask for them.
        let _ = self.post(simt, simt.is_leader().then_some(&request));
        self.fence = fence;
    }

    /// *Collective.* Posts a receive for each lane that has one, over pieces of registered memory,
    /// as far as there is room. Returns the number of the lane's own.
    ///
    /// # Errors
    /// For the lane's own: [`Cause::NoResource`], [`Cause::LocalLength`] if it has more pieces than
    /// a receive can or an empty one, [`Cause::LocalQpOperation`] if the receives are shared.
    pub fn post_receive<S: Simt>(
        &mut self,
        simt: &S,
        pieces: Option<&[Gather]>,
    ) -> Result<Option<u64>, Cause> {
        match &mut self.receives {
            Some(queue) => arrival::post(simt, queue, pieces),
            None if pieces.is_none() => Ok(None),
            None => Err(Cause::LocalQpOperation),
        }
    }

    /// *Collective.* The next receive that came back, if there is one; of a queue that is shared it
    /// comes back there, see [`super::SharedReceives`].
    pub fn poll_arrival<S: Simt>(&mut self, simt: &S) -> Option<Arrival> {
        let queue = self.receives.as_mut()?;
        let told = self.arrived.poll(simt)?;
        let index = queue.retire(told.counter());
        Some(told.arrival(index))
    }

    /// *Collective.* Waits for the next receive to come back with a message.
    ///
    /// # Errors
    /// Why it came back without one; how the queue pair failed; what ends waits.
    pub fn wait_arrival<S: Simt, P: Progress>(
        &mut self,
        simt: &S,
        wait: &Wait,
        progress: &mut P,
    ) -> Result<Arrival, Cause> {
        let wait = self.guarded(wait);
        keep_on(simt, &wait, progress, |_| self.try_arrival(simt))?
    }

    /// *Collective.* One look of [`Channel::wait_arrival`].
    pub(super) fn try_arrival<S: Simt>(&mut self, simt: &S) -> Option<Result<Arrival, Cause>> {
        if let Some(arrival) = self.poll_arrival(simt) {
            return Some(match arrival.failed {
                Some(cause) => Err(cause),
                None => Ok(arrival),
            });
        }
        self.collect(simt);
        self.fault().map(Err)
    }
}

/// Whether slot index `one` lies behind `other`.
#[inline(always)]
const fn is_behind(one: u64, other: u64) -> bool {
    one.wrapping_sub(other) as i64 > 0
}
