//! The queue pairs of a block, as one warp serves them: what the leader decides about packets that
//! came, and what is looked after between packets. Nothing here depends on a ring's format: one
//! copy of the code serves all formats.
#![expect(
    unsafe_code,
    reason = "reads queues and tables by the addresses that the host gave"
)]

use warpwire_device::{SharedWord, Simt};
use warpwire_protocols::rdma::{
    Delivery, Fetched, Landing, Note, QueuePair, ROUTE_HEADER_BYTES, Received, Service, State,
};
use warpwire_protocols::wire::opcode::Opcode;
use warpwire_ring::mlx5::serve::{Bytes, Walk};
use warpwire_ring::{DeviceAddress, memory};

use crate::around::{Around, RegionTable};
use crate::arrive::Arrival;
use crate::care::{care, command, has_to_flush};
use crate::count::{self, Counts};
use crate::crew::Crew;
use crate::tables::{EngineBlock, PairBlock, ReceiveBlock};
use crate::tell;

/// The queue pairs of a block.
pub(crate) struct Pairs<'a> {
    pub(crate) block: &'a EngineBlock,
    pub(crate) counts: Counts,
    pub(crate) crew: Crew,
    /// The queue pair that may send next.
    pub(crate) turn: u32,
    /// Packets that it sent since its turn came.
    pub(crate) taken: u32,
    /// The time, as of the half of a round that is under way: reading a clock takes as long as a
    /// tenth of a packet. In every lane.
    pub(crate) now_ns: u64,
}

/// What the warp has to do for a packet, told by the leader.
#[derive(Clone, Copy, Default)]
pub(crate) struct Order {
    /// Where the payload goes.
    pub(crate) kind: u32,
    pub(crate) pair: u32,
    /// Memory: its address. Else the number of the request or receive.
    pub(crate) at: u64,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

pub(crate) const NOTHING: u32 = 0;
const MEMORY: u32 = 1;
const RECEIVE: u32 = 2;
const REQUEST: u32 = 3;
/// A receive, with where the datagram came from before it.
pub(crate) const DATAGRAM: u32 = 4;

impl Order {
    /// Whether it is for eight aligned bytes of memory: a word that somebody may wait for.
    pub(crate) const fn is_word(&self) -> bool {
        self.kind == MEMORY && self.length == 8 && self.at.is_multiple_of(8)
    }

    /// *Collective.* The order of the leader, in every lane.
    fn of_leader<S: Simt>(self, simt: &S) -> Self {
        if S::WIDTH == 1 {
            return self;
        }
        Self {
            kind: simt.shuffle(self.kind, 0),
            pair: simt.shuffle(self.pair, 0),
            at: simt.shuffle_u64(self.at, 0),
            offset: simt.shuffle(self.offset, 0),
            length: simt.shuffle(self.length, 0),
        }
    }
}

impl<'a> Pairs<'a> {
    /// The queue pair at a place.
    ///
    /// # Safety
    /// Called by the leader alone, which holds one at a time, and of a crew by the warp whose own
    /// it is.
    pub(crate) unsafe fn pair(&self, place: u32) -> &'a mut PairBlock {
        let place = u64::from(place & (self.block.pair_count - 1));
        let at = self
            .block
            .pairs
            .offset(place * size_of::<PairBlock>() as u64);
        // SAFETY: within the table, live by the engine's promise; one reference at a time.
        unsafe { &mut *(at.value() as *mut PairBlock) }
    }

    /// The group of the queue pair at a place, where several warps run the engine: by it one hands
    /// a queue pair to another.
    fn group(&self, place: u32) -> SharedWord {
        let place = u64::from(place & (self.block.pair_count - 1));
        let at = self.block.groups.offset(place * 4);
        // SAFETY: a word of the table, live by the engine's promise.
        unsafe { SharedWord::attach(at) }
    }

    /// Whether the queue pair at a place is this warp's. By any lane.
    pub(crate) fn is_own(&self, place: u32) -> bool {
        // pairs with: `hand_over` of the warp that had it.
        self.crew.is_alone() || self.crew.owns(self.group(place).load())
    }

    /// The last that a warp does with a queue pair which the host wants to be of another group.
    fn hand_over(&self, place: u32, group: u32) {
        if !self.crew.is_alone() && self.group(place).load() != group {
            self.group(place).store(group);
        }
    }

    pub(crate) fn regions(&self) -> RegionTable {
        RegionTable {
            first: self.block.regions,
            count: self.block.region_count,
        }
    }

    /// *Collective.* Hands a packet to its queue pair: what the warp has to do then, and what the
    /// leader has to [tell](Self::tell) after that.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    pub(crate) fn take<S: Simt>(&self, simt: &S, arrival: &Arrival) -> (Order, Option<Received>) {
        let mut order = Order::default();
        let mut received = None;
        if simt.is_leader() {
            (order, received) = self.decide(simt, arrival);
        }
        (order.of_leader(simt), received)
    }

    /// *Collective.* Tells what came of a packet, once its payload is in its place.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    pub(crate) fn tell<S: Simt>(&self, simt: &S, order: &Order, received: &Option<Received>) {
        if simt.is_leader() {
            // SAFETY: the leader, which holds no other.
            let block = unsafe { self.pair(order.pair) };
            if let Some(received) = received {
                tell::tell_receive(block, received);
            }
            tell::tell_sends(block);
        }
        // pairs with: lanes that look at queue pairs afterwards.
        simt.sync_warp();
    }

    /// The leader's part: what the queue pair makes of a packet.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    fn decide<S: Simt>(&self, simt: &S, arrival: &Arrival) -> (Order, Option<Received>) {
        let nothing = (Order::default(), None);
        let packet = arrival
            .bth()
            .and_then(|bth| Ok((bth, arrival.incoming(&bth)?)));
        let (bth, packet) = match packet {
            Ok(both) => both,
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
        let (pair, mut around) = Around::of(block, self.regions());
        let is_marked = arrival.is_marked();
        let tuning = &self.block.tuning;
        let delivery = pair.on_packet(self.now_ns, &packet, is_marked, tuning, &mut around);
        if let Some(note) = delivery.note {
            self.counts.note(simt, note);
        }
        let order = order(place, &delivery, pair, &mut around);
        (order, delivery.received)
    }

    /// *Collective.* The next bytes of the memory that an order names; no bytes behind the last.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    pub(crate) fn target<S: Simt>(
        &self,
        simt: &S,
        order: &Order,
        pieces: &mut Pieces,
    ) -> Option<Bytes> {
        let mut bytes = None;
        if simt.is_leader() {
            // SAFETY: the leader, which holds no other.
            let block = unsafe { self.pair(order.pair) };
            bytes = pieces.next(block, order);
        }
        let there = bytes.is_some();
        let bytes = bytes.unwrap_or(NO_BYTES);
        simt.any(there).then(|| Bytes {
            address: DeviceAddress::new(simt.shuffle_u64(bytes.address.value(), 0)),
            length: simt.shuffle(bytes.length, 0),
            ..NO_BYTES
        })
    }

    /// *Collective.* Obeys the host and looks at the clocks of all queue pairs, a lane each.
    #[inline(never)]
    pub(crate) fn look_after<S: Simt>(&self, simt: &S, most_bytes: u32) -> bool {
        let mut busy = false;
        let now_ns = self.now_ns;
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
                    care(block, now_ns, most_bytes, &self.block.tuning);
                    let group = block.group;
                    self.hand_over(row + lane, group);
                }
            }
            simt.sync_warp();
            row += S::WIDTH;
        }
        busy
    }

    /// Whether a queue pair has mail, or a timer that ran out. By any lane.
    fn wants_care(&self, place: u32, now_ns: u64) -> bool {
        if !self.is_own(place) {
            return false;
        }
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
#[cfg_attr(target_arch = "nvptx64", inline(never))]
#[cfg_attr(not(target_arch = "nvptx64"), inline)]
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
        ) => {
            let is_datagram = pair.attributes().service == Service::Ud;
            let kind = match is_datagram && offset == ROUTE_HEADER_BYTES {
                true => DATAGRAM,
                false => RECEIVE,
            };
            order(kind, index, offset, length)
        }
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

/// Walks over the memory that an order names.
#[derive(Default)]
pub(crate) struct Pieces {
    part: u32,
    walk: Walk,
}

impl Pieces {
    fn next(&mut self, block: &PairBlock, order: &Order) -> Option<Bytes> {
        let part = self.part;
        self.part += 1;
        match order.kind {
            MEMORY => (part == 0).then_some(Bytes {
                address: DeviceAddress::new(order.at),
                length: order.length,
                ..NO_BYTES
            }),
            REQUEST => {
                let posted = block.head.wrapping_sub(order.at);
                // SAFETY: live by the engine's promise; the request is under way.
                let entry = unsafe { block.send.entry(order.at, posted, false) }.ok()?;
                // SAFETY: as above.
                unsafe { block.send.bytes(order.at, &entry, &mut self.walk) }.ok()?
            }
            _ => {
                let at = block.receives.value() as *const ReceiveBlock;
                // SAFETY: a receive block by the engine's promise.
                let receives = unsafe { &*at };
                // SAFETY: as above; the receive was taken and is not complete.
                unsafe { receives.queue.receive_bytes(order.at, part) }
            }
        }
    }
}

const NO_BYTES: Bytes = Bytes {
    address: DeviceAddress::NULL,
    length: 0,
    key: 0,
    is_inline: false,
};
