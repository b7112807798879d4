//! The engine of one block: a step receives what came, obeys the host, looks at clocks and
//! doorbells, and sends what may be sent.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that all tables are live"
)]

use core::marker::PhantomData;

use warpwire_device::{Area, Frame, MAX_BATCH, Receiver, Sender, SharedCounters, Simt};
use warpwire_protocols::checksum::Engine as Sum;
use warpwire_protocols::rdma::{
    Delivery, Fetched, Landing, Note, QueuePair, ROUTE_HEADER_BYTES, Received, Service, State,
};
use warpwire_protocols::wire::opcode::Opcode;
use warpwire_ring::mlx5::serve::{Bytes, Walk};
use warpwire_ring::{Cause, DeviceAddress, Location, Receive, Region, Transmit, memory};

use crate::around::{Around, RegionTable};
use crate::arrive::{Arrival, Seen, look, packets};
use crate::care::{care, command, has_to_flush};
use crate::count::{self, Counts};
use crate::tables::{EngineBlock, EngineCounters, PairBlock, ReceiveBlock};
use crate::tell;

/// Runs the queue pairs of one block. `E` sums bytes.
pub struct Engine<'a, R, T, E> {
    pub(crate) receiver: Receiver<R>,
    pub(crate) sender: Sender<T>,
    pub(crate) block: &'a EngineBlock,
    pub(crate) counts: Counts,
    /// The queue pair that may send next.
    pub(crate) turn: u32,
    /// Bytes of a transmit slot.
    pub(crate) capacity: u32,
    /// Slots of the largest frame.
    pub(crate) most_parts: u32,
    pub(crate) sums: PhantomData<E>,
}

/// What the warp has to do for a packet, told by the leader.
#[derive(Clone, Copy, Default)]
struct Order {
    /// Where the payload goes.
    kind: u32,
    pair: u32,
    /// Memory: its address. Else the number of the request or receive.
    at: u64,
    offset: u32,
    length: u32,
}

const NOTHING: u32 = 0;
const MEMORY: u32 = 1;
const RECEIVE: u32 = 2;
const REQUEST: u32 = 3;

impl<'a, R: Receive, T: Transmit, E: Sum> Engine<'a, R, T, E> {
    /// Goes on where the block stands.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if a table is missing or the rings are of another format; what
    /// attaching to them refuses.
    ///
    /// # Safety
    /// *The engine's promise*: the rings and everything that the block points to is live memory for
    /// `'a`; nobody else drives these rings, and nobody but the engine touches its queue pairs,
    /// except through their mail.
    pub unsafe fn attach(block: &'a EngineBlock) -> Result<Self, Cause> {
        let sound = !block.pairs.is_null()
            && block.pairs.is_aligned(align_of::<PairBlock>() as u64)
            && !block.counters.is_null()
            && block.pair_count.is_power_of_two();
        if !sound {
            return Err(Cause::LayoutMismatch);
        }
        // SAFETY: the rings, by the promise.
        let sender: Sender<T> = unsafe { Sender::attach(&block.transmit) }?;
        let capacity = sender.slot_bytes();
        if capacity < LEAST_SLOT {
            return Err(Cause::FrameTooLong);
        }
        let most_parts = LARGEST.div_ceil(capacity);
        Ok(Self {
            // SAFETY: as above.
            receiver: unsafe { Receiver::attach(&block.receive) }?,
            most_parts: most_parts.min(sender.max_parts()).min(sender.depth()),
            capacity,
            sender,
            block,
            // SAFETY: the block's counters, by the promise.
            counts: Counts::new(unsafe { SharedCounters::attach(block.counters, count::ENTRIES) }),
            turn: 0,
            sums: PhantomData,
        })
    }

    /// *Collective.* Writes where the rings stand to memory, for who attaches next.
    pub fn save<S: Simt>(&mut self, simt: &S) {
        self.receiver.save(simt);
        self.sender.save(simt);
    }

    /// *Collective.* One round. Says whether there was anything to do.
    ///
    /// # Errors
    /// Why a ring can no longer be used.
    pub fn step<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        let received = self.receive(simt)?;
        let looked = self.look_after(simt);
        let sent = self.transmit(simt)?;
        let busy = received || looked || sent;
        if simt.is_leader() {
            self.counts.add(simt, count::TURNS, 1);
            if !busy {
                self.counts.add(simt, count::IDLE_TURNS, 1);
            }
        }
        Ok(busy)
    }

    /// The queue pair at a place.
    ///
    /// # Safety
    /// Called by the leader alone, which holds one at a time.
    pub(crate) unsafe fn pair(&self, place: u32) -> &'a mut PairBlock {
        let place = u64::from(place & (self.block.pair_count - 1));
        let at = self
            .block
            .pairs
            .offset(place * size_of::<PairBlock>() as u64);
        // SAFETY: within the table, live by the engine's promise; one reference at a time.
        unsafe { &mut *(at.value() as *mut PairBlock) }
    }

    pub(crate) fn regions(&self) -> RegionTable {
        RegionTable {
            first: self.block.regions,
            count: self.block.region_count,
        }
    }

    /// *Collective.* Takes a batch of frames.
    #[inline(never)]
    fn receive<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        let batch = self.receiver.peek(simt, MAX_BATCH)?;
        if batch.is_empty() {
            return Ok(false);
        }
        let reader = *self.receiver.reader();
        let mut row = 0;
        while row < batch.slots() {
            let frame = reader.frame(&batch, row + simt.lane());
            let seen = match &frame {
                Some(frame) => look::<R, E>(&reader, frame),
                None => Seen::Nothing,
            };
            let arrival = match seen {
                Seen::Packet(arrival) => arrival,
                Seen::Dropped(reason) => {
                    self.counts
                        .add(simt, count::DROPS + reason.index() as u32, 1);
                    Arrival::default()
                }
                Seen::Foreign => {
                    self.counts.add(simt, count::FOREIGN, 1);
                    Arrival::default()
                }
                Seen::Nothing => Arrival::default(),
            };
            // One after the other, as they came: later ones must not be seen before.
            let mut waiting = packets(simt, &seen);
            while waiting != 0 {
                let lane = waiting.trailing_zeros();
                waiting &= waiting - 1;
                let arrival = arrival.of_lane(simt, lane);
                if let Some(frame) = reader.frame(&batch, row + lane) {
                    self.serve(simt, &frame, &arrival);
                }
            }
            row += S::WIDTH;
        }
        self.receiver.release(simt, batch);
        Ok(true)
    }

    /// *Collective.* Hands a packet to its queue pair and does what that says.
    #[inline(never)]
    fn serve<S: Simt>(&mut self, simt: &S, frame: &Frame<'_>, arrival: &Arrival) {
        let mut order = Order::default();
        let mut received = None;
        if simt.is_leader() {
            (order, received) = self.decide(simt, arrival);
        }
        order = Order {
            kind: simt.shuffle(order.kind, 0),
            pair: simt.shuffle(order.pair, 0),
            at: simt.shuffle_u64(order.at, 0),
            offset: simt.shuffle(order.offset, 0),
            length: simt.shuffle(order.length, 0),
        };
        if order.kind != NOTHING {
            self.place(simt, frame, arrival, &order);
        }
        if simt.is_leader() {
            // SAFETY: the leader, which holds no other.
            let block = unsafe { self.pair(order.pair) };
            if let Some(received) = received {
                tell::tell_receive(block, &received);
            }
            tell::tell_sends(block);
        }
    }

    /// The leader's part: what the queue pair makes of a packet.
    #[inline(never)]
    fn decide<S: Simt>(&mut self, simt: &S, arrival: &Arrival) -> (Order, Option<Received>) {
        let nothing = (Order::default(), None);
        let bth = match arrival.bth() {
            Ok(bth) => bth,
            Err(reason) => {
                self.counts
                    .add(simt, count::DROPS + reason.index() as u32, 1);
                return nothing;
            }
        };
        let packet = match arrival.incoming(&bth) {
            Ok(packet) => packet,
            Err(reason) => {
                self.counts
                    .add(simt, count::DROPS + reason.index() as u32, 1);
                return nothing;
            }
        };
        let number = bth.destination_qp.value();
        // SAFETY: the leader, which holds no other.
        let block = unsafe { self.pair(number) };
        let place = number & (self.block.pair_count - 1);
        if let Some(note) = stranger(block, number, &bth.pkey, arrival) {
            self.counts.note(simt, note);
            return nothing;
        }
        // A packet that would complete a receive waits for room to say so: the peer repeats it.
        if completes_receive(packet.opcode) && !tell::has_room(block) {
            self.counts.note(simt, Note::NoReceive);
            return nothing;
        }
        self.counts.add(simt, count::RECEIVED, 1);
        let now_ns = simt.now_ns();
        let tuning = self.block.tuning;
        let (pair, mut around) = Around::of(block, self.regions());
        let is_marked = arrival.is_marked();
        let delivery = pair.on_packet(now_ns, &packet, is_marked, &tuning, &mut around);
        if let Some(note) = delivery.note {
            self.counts.note(simt, note);
        }
        let order = order(place, &delivery, pair, &mut around);
        (order, delivery.received)
    }

    /// *Collective.* Puts a packet's payload where it belongs.
    fn place<S: Simt>(&mut self, simt: &S, frame: &Frame<'_>, arrival: &Arrival, order: &Order) {
        let from = arrival.payload_at();
        match order.kind {
            MEMORY => {
                let bytes = Bytes {
                    address: DeviceAddress::new(order.at),
                    length: order.length,
                    key: 0,
                    is_inline: false,
                };
                self.fill(simt, frame, from, &bytes, 0, order.length);
            }
            RECEIVE => {
                self.scatter(simt, frame, from, order, order.offset, order.length);
                if order.offset == ROUTE_HEADER_BYTES {
                    self.route_header(simt, frame, arrival, order);
                }
            }
            _ => self.scatter(simt, frame, from, order, order.offset, order.length),
        }
    }

    /// *Collective.* Before a datagram stands where it came from.
    fn route_header<S: Simt>(
        &mut self,
        simt: &S,
        frame: &Frame<'_>,
        arrival: &Arrival,
        order: &Order,
    ) {
        let mut is_datagram = false;
        if simt.is_leader() {
            // SAFETY: the leader, which holds no other.
            let block = unsafe { self.pair(order.pair) };
            is_datagram = block.pair.attributes().service == Service::Ud;
        }
        if !simt.any(is_datagram) {
            return;
        }
        let (offset, length) = match arrival.ip_version() {
            4 => (ROUTE_HEADER_BYTES - IPV4_BYTES, IPV4_BYTES),
            _ => (0, ROUTE_HEADER_BYTES),
        };
        self.scatter(simt, frame, arrival.l3(), order, offset, length);
    }

    /// *Collective.* Spreads `length` bytes of a frame over the pieces of a receive or a request,
    /// from byte `offset` of them on.
    #[inline(never)]
    fn scatter<S: Simt>(
        &mut self,
        simt: &S,
        frame: &Frame<'_>,
        from: u32,
        order: &Order,
        offset: u32,
        length: u32,
    ) {
        let mut pieces = Pieces::default();
        let (mut skip, mut left, mut from) = (offset, length, from);
        while left > 0 {
            let mut bytes = None;
            if simt.is_leader() {
                // SAFETY: the leader, which holds no other.
                let block = unsafe { self.pair(order.pair) };
                bytes = pieces.next(block, order);
            }
            let there = bytes.is_some();
            let bytes = bytes.unwrap_or(NO_BYTES);
            if !simt.any(there) {
                break;
            }
            let bytes = Bytes {
                address: DeviceAddress::new(simt.shuffle_u64(bytes.address.value(), 0)),
                length: simt.shuffle(bytes.length, 0),
                ..NO_BYTES
            };
            if skip >= bytes.length {
                skip -= bytes.length;
                continue;
            }
            let count = (bytes.length - skip).min(left);
            self.fill(simt, frame, from, &bytes, skip, count);
            from += count;
            left -= count;
            skip = 0;
        }
    }

    /// *Collective.* Fills `count` bytes of memory from byte `skip` on.
    #[inline(never)]
    fn fill<S: Simt>(
        &mut self,
        simt: &S,
        frame: &Frame<'_>,
        from: u32,
        bytes: &Bytes,
        skip: u32,
        count: u32,
    ) {
        let area = area(bytes);
        if let Some(to) = area.piece(u64::from(skip), count) {
            self.receiver
                .spread(simt, frame, from, &to, area.location());
        }
    }

    /// *Collective.* Obeys the host and looks at the clocks of all queue pairs, a lane each.
    #[inline(never)]
    fn look_after<S: Simt>(&mut self, simt: &S) -> bool {
        let mut busy = false;
        let now_ns = simt.now_ns();
        let mut row = 0;
        while row < self.block.pair_count {
            let place = row + simt.lane();
            let wants = place < self.block.pair_count && self.wants_care(place, now_ns);
            let mut waiting = simt.ballot(wants);
            busy |= waiting != 0;
            while waiting != 0 {
                let lane = waiting.trailing_zeros();
                waiting &= waiting - 1;
                if simt.is_leader() {
                    // SAFETY: the leader, which holds no other.
                    let block = unsafe { self.pair(row + lane) };
                    care(block, now_ns, self.capacity * self.most_parts);
                }
            }
            simt.sync_warp();
            row += S::WIDTH;
        }
        busy
    }

    /// Whether a queue pair has mail, or a timer that ran out. By any lane.
    fn wants_care(&self, place: u32, now_ns: u64) -> bool {
        // SAFETY: lanes only read here, between two meetings of the warp.
        let block: &PairBlock = unsafe { self.pair(place) };
        if block.number == 0 {
            return false;
        }
        let mail = command(block).is_some_and(|word| word.load() != block.obeyed);
        let timer = block.pair.timeout_ns(now_ns).is_some_and(|at| at <= now_ns);
        let flushes = block.pair.state() == State::Error;
        mail || timer || (flushes && has_to_flush(block))
    }
}

/// Whether a packet with such an opcode completes a receive.
const fn completes_receive(opcode: Opcode) -> bool {
    // Ends of sends, with and without immediate or key, and of writes with immediate.
    matches!(opcode.operation(), 0x02..=0x05 | 0x09 | 0x0b | 0x16 | 0x17)
}

/// Why a packet is not a queue pair's, if it is not.
fn stranger(
    block: &PairBlock,
    number: u32,
    pkey: &warpwire_protocols::wire::bth::PKey,
    arrival: &Arrival,
) -> Option<Note> {
    if block.number != number || number == 0 {
        return Some(Note::UnknownQueuePair);
    }
    let attributes = block.pair.attributes();
    if !attributes.pkey.matches(*pkey) {
        return Some(Note::PartitionKey);
    }
    let path = &block.path;
    let is_peer = arrival.source == path.remote && arrival.destination == path.local;
    if attributes.service != Service::Ud && !is_peer {
        return Some(Note::WrongSource);
    }
    None
}

/// What the warp has to do, after the leader has done what one lane does: atomics, and values that
/// they found.
#[inline(never)]
fn order(place: u32, delivery: &Delivery, pair: &mut QueuePair, around: &mut Around<'_>) -> Order {
    let order = |kind, at, offset, length| Order {
        kind,
        pair: place,
        at,
        offset,
        length,
    };
    match (delivery.landing, delivery.fetched) {
        (Some(Landing::Memory { address, length }), _) => order(MEMORY, address, 0, length),
        (
            Some(Landing::Receive {
                index,
                offset,
                length,
            }),
            _,
        ) => order(RECEIVE, index, offset, length),
        (
            Some(Landing::Atomic {
                address,
                value,
                compare,
                slot,
            }),
            _,
        ) => {
            let found = atomic(DeviceAddress::new(address), value, compare);
            pair.found(around, slot, found);
            order(NOTHING, 0, 0, 0)
        }
        (
            None,
            Some(Fetched::Payload {
                index,
                offset,
                length,
            }),
        ) if length > 0 => order(REQUEST, index, offset, length),
        (None, Some(Fetched::Value { index, value })) => {
            around.put_value(index, value);
            order(NOTHING, 0, 0, 0)
        }
        _ => order(NOTHING, 0, 0, 0),
    }
}

/// Carries an atomic out on a word of memory, whose alignment was checked.
#[inline(never)]
fn atomic(at: DeviceAddress, value: u64, compare: Option<u64>) -> u64 {
    match compare {
        // SAFETY: within a region, whose memory is live by the engine's promise; aligned.
        None => unsafe { memory::remote_add_u64(at, value) },
        // SAFETY: as above.
        Some(compare) => unsafe { memory::remote_compare_swap_u64(at, compare, value) },
    }
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

/// Walks over the pieces of a receive or a request.
#[derive(Default)]
struct Pieces {
    part: u32,
    walk: Walk,
}

impl Pieces {
    fn next(&mut self, block: &PairBlock, order: &Order) -> Option<Bytes> {
        if order.kind == RECEIVE {
            let at = block.receives.value() as *const ReceiveBlock;
            // SAFETY: a receive block by the engine's promise.
            let receives = unsafe { &*at };
            // SAFETY: as above; the receive was taken and is not complete.
            let bytes = unsafe { receives.queue.receive_bytes(order.at, self.part) };
            self.part += 1;
            return bytes;
        }
        let posted = block.head.wrapping_sub(order.at);
        // SAFETY: live by the engine's promise; the request is under way.
        let entry = unsafe { block.send.entry(order.at, posted, false) }.ok()?;
        // SAFETY: as above.
        unsafe { block.send.bytes(order.at, &entry, &mut self.walk) }.ok()?
    }
}

const NO_BYTES: Bytes = Bytes {
    address: DeviceAddress::NULL,
    length: 0,
    key: 0,
    is_inline: false,
};

const IPV4_BYTES: u32 = 20;

/// Bytes of headers and invariant CRC of any packet, with a tag and IPv6.
pub(crate) const LARGEST_HEADERS: u32 = 18 + 40 + 8 + 40 + 4;
/// Bytes of the largest frame.
const LARGEST: u32 = 4096 + LARGEST_HEADERS;
/// The smallest slots that an engine works with: headers lie in one.
const LEAST_SLOT: u32 = 128;

const _: () = assert!(size_of::<EngineCounters>().is_multiple_of(8));
