//! The engine of one block: a step receives what came, sends what may be sent, obeys the host and
//! looks at clocks.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that all tables are live"
)]

use core::marker::PhantomData;
use core::num::NonZeroU32;

use warpwire_device::{Area, Copies, Frame, MAX_BATCH, Receiver, Sender, SharedCounters, Simt};
use warpwire_protocols::checksum::Engine as Sum;
use warpwire_protocols::rdma::ROUTE_HEADER_BYTES;
use warpwire_ring::mlx5::serve::Bytes;
use warpwire_ring::{Cause, Location, Receive, Region, Transmit};

use crate::arrive::{Arrival, Seen, look, packets};
use crate::count::{self, Counts};
use crate::crew::{Board, Crew};
use crate::pairs::{DATAGRAM, NOTHING, Order, Pairs, Pieces};
use crate::sheet::Sheet;
use crate::tables::{EngineBlock, EngineCounters, PairBlock};

/// Runs the queue pairs of one block, or this warp's part of that. `E` sums bytes.
pub struct Engine<'a, R, T, E> {
    pub(crate) receiver: Receiver<R>,
    pub(crate) sender: Sender<T>,
    pub(crate) pairs: Pairs<'a>,
    /// Bytes of a transmit slot.
    pub(crate) capacity: NonZeroU32,
    /// Slots of the largest frame.
    pub(crate) most_parts: NonZeroU32,
    /// Where copies of packets that leave go.
    pub(crate) mirror: Option<Copies>,
    pub(crate) crew: Crew,
    /// Where the crew meets, if it is more than one warp.
    pub(crate) board: Option<Sheet>,
    /// Counts rounds of a crew.
    pub(crate) round: u32,
    sums: PhantomData<E>,
}

impl<'a, R: Receive, T: Transmit, E: Sum> Engine<'a, R, T, E> {
    /// Goes on where the block stands, as one of `crew`, all of which do.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if a table is missing or the rings are of another format, or the
    /// crew is larger than [`Crew::MOST`]; what attaching to the rings refuses.
    ///
    /// # Safety
    /// *The engine's promise*: the rings and everything that the block points to is live memory for
    /// `'a`; nobody but the crew drives these rings or touches the queue pairs, except through
    /// their mail.
    pub unsafe fn attach(block: &'a EngineBlock, crew: Crew) -> Result<Self, Cause> {
        // SAFETY: the block's board, by the promise.
        let board = unsafe { Sheet::attach::<Board>(block.board) }.filter(|_| !crew.is_alone());
        let sound = !block.pairs.is_null()
            && crew.fits(board.is_some() && !block.groups.is_null())
            && block.pairs.is_aligned(align_of::<PairBlock>() as u64)
            && !block.counters.is_null()
            && block.pair_count.is_power_of_two()
            && block.region_count.is_power_of_two();
        if !sound {
            return Err(Cause::LayoutMismatch);
        }
        // SAFETY: the rings, by the promise.
        let sender: Sender<T> = unsafe { Sender::attach(&block.transmit) }?;
        let capacity = NonZeroU32::new(sender.slot_bytes());
        let capacity = capacity.filter(|capacity| capacity.get() >= LEAST_SLOT);
        let capacity = capacity.ok_or(Cause::FrameTooLong)?;
        let most_parts = slots(LARGEST_FRAME, capacity)
            .min(sender.max_parts())
            .min(sender.depth());
        // SAFETY: the block's counters, by the promise.
        let counters = unsafe { SharedCounters::attach(block.counters, count::ENTRIES) };
        Ok(Self {
            // SAFETY: as above.
            receiver: unsafe { Receiver::attach(&block.receive) }?,
            most_parts: NonZeroU32::new(most_parts).ok_or(Cause::LayoutMismatch)?,
            capacity,
            sender,
            pairs: Pairs {
                block,
                counts: Counts::new(counters),
                crew,
                turn: 0,
                taken: 0,
                now_ns: 0,
            },
            // SAFETY: the block's mirror, by the promise.
            mirror: unsafe { Copies::attach(block.mirror) },
            crew,
            board,
            round: 0,
            sums: PhantomData,
        })
    }

    /// *Collective.* Writes where the rings stand to memory, for who attaches next.
    pub fn save<S: Simt>(&mut self, simt: &S) {
        if self.crew.dispatches() {
            self.receiver.save(simt);
            self.sender.save(simt);
        }
    }

    /// *Collective over the crew.* One round. Says whether there was anything to do for this warp.
    ///
    /// # Errors
    /// Why a ring can no longer be used. Of several warps the dispatcher is told, and the others
    /// hear of it by [`Engine::agree`].
    pub fn step<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        self.pairs.now_ns = simt.now_ns();
        let busy = match self.board {
            None => self.alone(simt)?,
            Some(board) if self.crew.dispatches() => self.dispatch(simt, board)?,
            Some(board) => self.own(simt, board),
        };
        if self.crew.dispatches() && simt.is_leader() {
            let counts = &self.pairs.counts;
            counts.add(simt, count::TURNS, 1);
            if !busy {
                counts.add(simt, count::IDLE_TURNS, 1);
            }
        }
        Ok(busy)
    }

    /// *Collective.* A round of a warp that does everything.
    fn alone<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        let received = self.receive(simt)?;
        if received {
            self.pairs.now_ns = simt.now_ns();
        }
        // Before the host is obeyed: who was told of a message may end its queue pair at once, and
        // the peer shall have its answer.
        let sent = self.transmit(simt)?;
        let most_bytes = self.most_bytes();
        let looked = self.pairs.look_after(simt, most_bytes);
        Ok(received || looked || sent)
    }

    /// Bytes that a frame may have.
    pub(crate) const fn most_bytes(&self) -> u32 {
        self.capacity.get() * self.most_parts.get()
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
                Some(frame) => look::<R, E>(&reader, frame, &mut arrival),
                None => Seen::Nothing,
            };
            self.count_seen(simt, &seen);
            // One after the other, as they came: later ones must not be seen before.
            let mut waiting = packets(simt, &seen);
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
                self.serve(simt, frame.as_ref(), arrival);
            }
            row += S::WIDTH;
        }
        self.receiver.release(simt, batch);
        Ok(true)
    }

    /// Counts what is no packet of the transport.
    pub(crate) fn count_seen<S: Simt>(&self, simt: &S, seen: &Seen) {
        let counter = match seen {
            Seen::Dropped(reason) => count::DROPS + reason.index() as u32,
            Seen::Foreign => count::FOREIGN,
            Seen::Packet | Seen::Nothing => return,
        };
        self.pairs.counts.add(simt, counter, 1);
    }

    /// *Collective.* Hands a packet to its queue pair and does what that says. A peer that takes
    /// the frame back meanwhile takes it from all lanes: then nothing is done.
    #[inline(always)]
    pub(crate) fn serve<S: Simt>(
        &mut self,
        simt: &S,
        frame: Option<&Frame<'_>>,
        arrival: &Arrival,
    ) {
        let is_gone = simt.any(frame.is_none());
        let Some(frame) = frame.filter(|_| !is_gone) else {
            return;
        };
        let (order, received) = self.pairs.take(simt, arrival);
        if order.kind != NOTHING {
            let from = arrival.payload_at();
            self.scatter(simt, frame, from, &order);
            if order.kind == DATAGRAM {
                // Before a datagram stands where it came from.
                let (offset, length) = match arrival.ip_version() {
                    4 => (ROUTE_HEADER_BYTES - IPV4_BYTES, IPV4_BYTES),
                    _ => (0, ROUTE_HEADER_BYTES),
                };
                let before = Order {
                    offset,
                    length,
                    ..order
                };
                self.scatter(simt, frame, arrival.l3(), &before);
            }
        }
        self.pairs.tell(simt, &order, &received);
    }

    /// *Collective.* Spreads bytes of a frame, from `from` on, over the memory that an order names.
    #[inline(never)]
    fn scatter<S: Simt>(&mut self, simt: &S, frame: &Frame<'_>, from: u32, order: &Order) {
        let mut pieces = Pieces::default();
        let (mut skip, mut left, mut from) = (order.offset, order.length, from);
        while left > 0
            && let Some(bytes) = self.pairs.target(simt, order, &mut pieces)
        {
            if skip >= bytes.length {
                skip -= bytes.length;
                continue;
            }
            let count = (bytes.length - skip).min(left);
            let area = area(&bytes);
            if let Some(to) = area.piece(u64::from(skip), count) {
                let location = area.location();
                // Somebody may wait for such a word.
                let is_placed =
                    order.is_word() && self.receiver.spread_word(simt, frame, from, &to, location);
                if !is_placed {
                    self.receiver.spread(simt, frame, from, &to, location);
                }
            }
            from += count;
            left -= count;
            skip = 0;
        }
    }
}

/// Slots that so many bytes take.
pub(crate) fn slots(bytes: u32, capacity: NonZeroU32) -> u32 {
    (bytes + capacity.get() - 1) / capacity
}

/// Memory that was checked against a region, or lies in a queue.
pub(crate) fn area(bytes: &Bytes) -> Area {
    let region = Region {
        address: bytes.address,
        length: u64::from(bytes.length),
        key: 0,
        location: Location::Device,
    };
    // SAFETY: the key and bounds were checked; regions are live by the engine's promise until the
    // host was told that they are not used any more.
    unsafe { Area::attach(region) }
}

/// Bytes of headers and invariant CRC of any packet, with a tag and IPv6.
pub(crate) const LARGEST_HEADERS: u32 = 18 + 40 + 8 + 40 + 4;
/// Bytes of the largest frame that an engine sends.
pub const LARGEST_FRAME: u32 = 4096 + LARGEST_HEADERS;
/// The smallest slots that an engine works with: headers lie in one.
const LEAST_SLOT: u32 = 128;
const IPV4_BYTES: u32 = 20;

const _: () = assert!(size_of::<EngineCounters>().is_multiple_of(8));
