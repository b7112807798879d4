//! The verbs of device code, for the host: the same source, run by a warp of one lane.
#![expect(
    unsafe_code,
    reason = "naming words and memory carries the promise that they are live"
)]

use std::sync::Arc;
use std::time::Duration;

use warpwire_core::messaging::{
    Elsewhere, Expected, Goal, Matched, Remote, Request, Signal, Signals, TagBlock, TagSlot, Tags,
    Ticket,
};
use warpwire_device::{Scalar, Wait};
use warpwire_gpu::Arena;
use warpwire_ring::mlx5::post::Gather;
use warpwire_ring::{Cause, DeviceAddress, Location};

use super::completed::Message;
use super::pair::Pair;
use super::regions::reach;
use crate::messaging::Error;

/// Calls a verb of the channel with the host's warp, and says why it was refused.
macro_rules! verb {
    ($pair:ident.$verb:ident($($argument:expr),*)) => {{
        let simt = Scalar::new(&$pair.home.host);
        let outcome = $pair.channel.$verb(&simt, $($argument),*);
        $pair.posted(outcome)
    }};
}

impl Pair {
    fn posted(&self, outcome: Result<Option<Ticket>, Cause>) -> Result<Ticket, Error> {
        match outcome {
            Ok(Some(ticket)) => Ok(ticket),
            Ok(None) => Err(self.refused(Cause::NoResource)),
            Err(cause) => Err(self.refused(cause)),
        }
    }

    fn waited(&self, what: &'static str, cause: Cause) -> Error {
        Error::Wait {
            number: self.number(),
            what,
            cause,
        }
    }

    /// Writes registered bytes into memory of the peer; see [`warpwire_core::messaging`] for what
    /// each verb promises.
    ///
    /// # Errors
    /// [`Error::Post`]: with [`Cause::NoResource`] if the queue is full.
    pub fn put(&mut self, local: Gather, remote: Remote) -> Result<Ticket, Error> {
        verb!(self.put(local, remote))
    }

    /// Writes bytes that are copied into the queue.
    ///
    /// # Errors
    /// As [`Pair::put`].
    pub fn put_inline(&mut self, bytes: &[u8], remote: Remote) -> Result<Ticket, Error> {
        verb!(self.put_inline(bytes, remote))
    }

    /// Writes, and signals when everything before is placed.
    ///
    /// # Errors
    /// As [`Pair::put`].
    pub fn put_signal(
        &mut self,
        local: Gather,
        remote: Remote,
        signal: Signal,
    ) -> Result<Ticket, Error> {
        verb!(self.put_signal(local, remote, signal))
    }

    /// Signals.
    ///
    /// # Errors
    /// As [`Pair::put`].
    pub fn signal(&mut self, signal: Signal) -> Result<Ticket, Error> {
        verb!(self.signal(signal))
    }

    /// Reads memory of the peer into registered bytes.
    ///
    /// # Errors
    /// As [`Pair::put`].
    pub fn get(&mut self, remote: Remote, local: Gather) -> Result<Ticket, Error> {
        verb!(self.get(remote, local))
    }

    /// Adds to a word of the peer's; what was there goes into the eight bytes of `found`.
    ///
    /// # Errors
    /// As [`Pair::put`].
    pub fn fetch_add(
        &mut self,
        remote: Remote,
        value: u64,
        found: Gather,
    ) -> Result<Ticket, Error> {
        verb!(self.fetch_add(remote, value, found))
    }

    /// Replaces a word of the peer's by `value` if it is `compare`; what was there goes into the
    /// eight bytes of `found`.
    ///
    /// # Errors
    /// As [`Pair::put`].
    pub fn compare_swap(
        &mut self,
        remote: Remote,
        (compare, value): (u64, u64),
        found: Gather,
    ) -> Result<Ticket, Error> {
        verb!(self.compare_swap(remote, (compare, value), found))
    }

    /// Sends registered bytes into the peer's next receive.
    ///
    /// # Errors
    /// As [`Pair::put`].
    pub fn send(&mut self, local: Gather, immediate: Option<u32>) -> Result<Ticket, Error> {
        verb!(self.send(local, immediate))
    }

    /// Posts any request, and waits for room if there is none.
    ///
    /// # Errors
    /// [`Error::Post`] if it can never be posted or the queue pair failed; with
    /// [`Cause::DeadlineExceeded`] or [`Cause::EngineNotRunning`] if there was no room in time.
    pub fn post_waiting(
        &mut self,
        request: &Request<'_>,
        longest: Duration,
    ) -> Result<Ticket, Error> {
        let simt = Scalar::new(&self.home.host);
        let wait = within(&simt, longest);
        let outcome = self
            .channel
            .post_waiting(&simt, Some(request), &wait, &mut Elsewhere);
        self.posted(outcome)
    }

    /// The next request begins when all gets and atomics before it are done.
    pub const fn fence(&mut self) {
        self.channel.fence();
    }

    /// Waits until a request is complete: what it put is placed, what it fetched is there.
    ///
    /// # Errors
    /// [`Error::Wait`].
    pub fn wait_for(&mut self, ticket: Ticket, longest: Duration) -> Result<(), Error> {
        let simt = Scalar::new(&self.home.host);
        let wait = within(&simt, longest);
        let outcome = self
            .channel
            .wait(&simt, Some(ticket), &wait, &mut Elsewhere);
        outcome.map_err(|cause| self.waited("a request", cause))
    }

    /// Waits until everything that was posted is complete.
    ///
    /// # Errors
    /// [`Error::Wait`].
    pub fn quiet(&mut self, longest: Duration) -> Result<(), Error> {
        let simt = Scalar::new(&self.home.host);
        let wait = within(&simt, longest);
        let outcome = self.channel.quiet(&simt, &wait, &mut Elsewhere);
        outcome.map_err(|cause| self.waited("all requests", cause))
    }

    /// Waits for the next message. Completions of sends are taken meanwhile.
    ///
    /// # Errors
    /// [`Error::Wait`].
    pub fn wait_message(&mut self, longest: Duration) -> Result<Message, Error> {
        let simt = Scalar::new(&self.home.host);
        let wait = within(&simt, longest);
        let arrival = self.channel.wait_arrival(&simt, &wait, &mut Elsewhere);
        let arrival = arrival.map_err(|cause| self.waited("a message", cause))?;
        Ok(Message::of(&arrival))
    }

    /// Names words for peers to signal: `count` of them, one every `stride` bytes from `first` on.
    ///
    /// # Errors
    /// [`Error::OutOfReach`] outside of the endpoint's memory, or off the words' alignment.
    pub fn signals(
        &self,
        first: DeviceAddress,
        count: u32,
        stride: u32,
    ) -> Result<SignalRow, Error> {
        let length = u64::from(count.saturating_sub(1)) * u64::from(stride) + 8;
        let is_aligned = first.is_aligned(8) && stride.is_multiple_of(8);
        if !is_aligned {
            return Err(Error::OutOfReach {
                address: first.value(),
                length,
            });
        }
        reach(&self.home.memory, first, length)?;
        Ok(SignalRow {
            // SAFETY: words of the endpoint's memory, which the row keeps; peers and engine touch
            // them by whole accesses.
            signals: unsafe { Signals::attach(first, count, stride) },
            _memory: self.home.memory.clone(),
        })
    }

    /// Waits until signals reached `epoch`: all, any or some of them. Returns which of the first 64
    /// did, as bits.
    ///
    /// # Errors
    /// [`Error::Wait`].
    pub fn wait_signals(
        &mut self,
        row: &SignalRow,
        goal: Goal,
        epoch: u64,
        longest: Duration,
    ) -> Result<u64, Error> {
        let simt = Scalar::new(&self.home.host);
        let wait = within(&simt, longest);
        let what = (&row.signals, goal, epoch);
        let outcome = self
            .channel
            .wait_signals(&simt, what, &wait, &mut Elsewhere);
        outcome.map_err(|cause| self.waited("signals", cause))
    }

    /// Tagged messages over this queue pair from now on, which come into the slots that `slots`
    /// holds; a message is at most `slot_bytes` long, and `expected` receives may wait.
    ///
    /// # Errors
    /// [`Error::Setting`] if the slots do not fit the receive queue; [`Error::OutOfReach`].
    pub fn tagged(self, slots: Gather, slot_bytes: u32, expected: u32) -> Result<Tagged, Error> {
        let count = slots.length.checked_div(slot_bytes).unwrap_or(0);
        let receives = self.free_receives();
        if count == 0 || count > receives || !receives.is_power_of_two() {
            return Err(Error::Setting {
                field: "slots",
                value: u64::from(count),
                must: "from 1 to the depth of an unused receive queue",
            });
        }
        let first = DeviceAddress::new(slots.address);
        reach(&self.home.memory, first, u64::from(slots.length))?;
        let bytes = (count + expected) as usize * size_of::<TagSlot>() + receives as usize * 4;
        let arena = Arena::new(bytes + 4096, Location::PinnedHost)?;
        let table = |count: u32| vec![TagSlot::default(); count as usize];
        let block = TagBlock {
            header: TagBlock::HEADER,
            expected: arena.place_all(&table(expected))?.address,
            unexpected: arena.place_all(&table(count))?.address,
            posted: arena.place_all(&vec![0u32; receives as usize])?.address,
            slots,
            slot_bytes,
            slot_count: count,
            expected_count: expected,
            receives,
            order: 0,
        };
        let block = arena.place(block)?.address;
        // SAFETY: the tables lie in the arena, which is kept; the slots in the endpoint's memory.
        let tags = unsafe { Tags::attach(block) };
        let mut tagged = Tagged {
            tags: tags.map_err(|cause| self.refused(cause))?,
            pair: self,
            _arena: Arc::new(arena),
        };
        let pair = &mut tagged.pair;
        let simt = Scalar::new(&pair.home.host);
        let started = tagged.tags.start(&simt, &mut pair.channel);
        started.map_err(|cause| pair.refused(cause))?;
        Ok(tagged)
    }
}

/// Words for peers to signal.
pub struct SignalRow {
    signals: Signals,
    _memory: Vec<Arc<Arena>>,
}

impl SignalRow {
    /// The value of a signal; 0 if there are not so many.
    pub fn value(&self, index: u32) -> u64 {
        self.signals.value(index).unwrap_or(0)
    }

    /// The same row without those of the first 64 whose bit is set.
    #[must_use]
    pub fn without(&self, ignored: u64) -> Self {
        Self {
            signals: self.signals.without(ignored),
            _memory: self._memory.clone(),
        }
    }
}

/// A queue pair for tagged messages.
pub struct Tagged {
    tags: Tags,
    pair: Pair,
    _arena: Arc<Arena>,
}

impl Tagged {
    /// The queue pair, to put, get and signal with. Receives are the matching's.
    pub const fn pair(&mut self) -> &mut Pair {
        &mut self.pair
    }

    /// Sends registered bytes with a tag.
    ///
    /// # Errors
    /// As [`Pair::put`].
    pub fn send(&mut self, local: Gather, tag: u32) -> Result<Ticket, Error> {
        self.pair.send(local, Some(tag))
    }

    /// Wants the first message whose tag is `tag` in the bits of `mask`, in `into`.
    ///
    /// # Errors
    /// [`Error::OutOfReach`]; [`Error::Post`] with [`Cause::NoResource`] if too many receives wait.
    pub fn expect(&mut self, tag: u32, mask: u32, into: Gather) -> Result<Expected, Error> {
        let first = DeviceAddress::new(into.address);
        reach(&self.pair.home.memory, first, u64::from(into.length))?;
        let simt = Scalar::new(&self.pair.home.host);
        let channel = &mut self.pair.channel;
        // SAFETY: the endpoint's memory, which the pair keeps; whoever else touches it agreed on
        // that with its owner.
        let expected = unsafe { self.tags.expect(&simt, channel, (tag, mask), into) };
        expected.map_err(|cause| self.pair.refused(cause))
    }

    /// The next message that met its receive, if there is one.
    ///
    /// # Errors
    /// [`Error::Wait`]: why receives came back without messages.
    pub fn poll(&mut self) -> Result<Option<Matched>, Error> {
        let simt = Scalar::new(&self.pair.home.host);
        let matched = self.tags.poll(&simt, &mut self.pair.channel);
        matched.map_err(|cause| self.pair.waited("a tagged message", cause))
    }

    /// Waits until a message meets its receive.
    ///
    /// # Errors
    /// [`Error::Wait`].
    pub fn wait(&mut self, longest: Duration) -> Result<Matched, Error> {
        let simt = Scalar::new(&self.pair.home.host);
        let wait = within(&simt, longest);
        let channel = &mut self.pair.channel;
        let matched = self.tags.wait(&simt, channel, &wait, &mut Elsewhere);
        matched.map_err(|cause| self.pair.waited("a tagged message", cause))
    }
}

fn within(simt: &Scalar<'_>, longest: Duration) -> Wait {
    Wait::within(simt, u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX))
}
