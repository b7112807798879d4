//! What the leader makes of a segment: connections and listeners, and what the warp has to do then.

use warpwire_device::{Piece, Simt, copy_across};
use warpwire_protocols::tcp::{
    Answer, Connection, Delivery, Events, Note, Outgoing, Segment, answer_unknown,
};
use warpwire_protocols::wire::tcp::TcpFlags;

use super::arrive::Arrival;
use super::book::Ends;
use super::count;
use super::flow::Flow;
use super::job::Job;
use super::tables::{Address, ConnectionBlock, NONE};
use super::words;
use crate::tables::Path;

/// What the warp has to do for a segment, told by the leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// The connection, or [`NONE`] if there is nothing to tell.
    pub(super) place: u32,
    /// The chunk of its receive ring.
    pub(super) chunk: u32,
    /// Bytes of the ring.
    pub(super) ring_bytes: u32,
    /// Stream position of the first byte to be copied.
    pub(super) at: u32,
    /// Its offset in the payload.
    pub(super) from: u32,
    /// Bytes to be copied.
    pub(super) length: u32,
    /// 1 if an answer is to be sent that belongs to no connection.
    pub(super) answers: u32,
    /// The block that it is for, or [`NONE`] if it is for this one.
    pub(super) home: u32,
}

impl Order {
    pub(super) const NOTHING: Self = Self {
        place: NONE,
        chunk: NONE,
        ring_bytes: 0,
        at: 0,
        from: 0,
        length: 0,
        answers: 0,
        home: NONE,
    };

    /// The parts of the ring that payload goes to: where each begins, where its bytes lie in the
    /// frame, and how many these are. Two where the ring ends between.
    #[inline(always)]
    pub(super) fn pieces(&self, payload: u32) -> [(u32, u32, u32); 2] {
        let offset = self.at & (self.ring_bytes.wrapping_sub(1));
        let first = self.length.min(self.ring_bytes.wrapping_sub(offset));
        let from = payload + self.from;
        [
            (offset, from, first),
            (0, from + first, self.length - first),
        ]
    }

    /// *Collective.* The order of the leader, in every lane.
    pub(super) fn of_leader<S: Simt>(self, simt: &S) -> Self {
        if S::WIDTH == 1 {
            return self;
        }
        let shuffle = |word| simt.shuffle(word, 0);
        Self {
            place: shuffle(self.place),
            chunk: shuffle(self.chunk),
            ring_bytes: shuffle(self.ring_bytes),
            at: shuffle(self.at),
            from: shuffle(self.from),
            length: shuffle(self.length),
            answers: shuffle(self.answers),
            home: shuffle(self.home),
        }
    }
}

impl Flow<'_> {
    /// *Collective.* What becomes of a segment, in every lane. The leader gets the answer.
    #[inline(always)]
    pub(super) fn judge<S: Simt>(
        &mut self,
        simt: &S,
        arrival: &Arrival,
        head: &Piece<'_>,
        answer: &mut Option<Job>,
    ) -> Order {
        let mut order = Order::NOTHING;
        if simt.is_leader() {
            order = self.decide(arrival, head, answer);
        }
        order.of_leader(simt)
    }

    /// *Collective.* Spreads payload of a frame that lies in one piece over a receive ring.
    #[cold]
    #[inline(never)]
    pub(super) fn place<S: Simt>(&self, simt: &S, frame: &Piece<'_>, payload: u32, order: &Order) {
        let Some(ring) = self.book.ring(order.chunk, order.ring_bytes) else {
            return;
        };
        for (offset, from, count) in order.pieces(payload) {
            let to = ring.piece(u64::from(offset), count);
            if let (Some(from), Some(to)) = (frame.part(from, count), to) {
                copy_across(simt, &from, &to);
            }
        }
        simt.sync_warp();
    }

    /// The leader's part: what becomes of a segment. An answer that belongs to no connection is
    /// then in `answer`.
    #[inline(always)]
    pub(super) fn decide(
        &mut self,
        arrival: &Arrival,
        head: &Piece<'_>,
        answer: &mut Option<Job>,
    ) -> Order {
        let segment = match arrival.segment() {
            Ok(segment) => segment,
            Err(reason) => {
                self.counts.count(count::DROPS + reason.index() as u32, 1);
                return Order::NOTHING;
            }
        };
        self.counts.count(count::RECEIVED, 1);
        let ends = ends(arrival);
        if let Some(place) = self.book.find(arrival.hash, &ends) {
            let (order, note) = self.deliver(place, &segment, head);
            if note != Some(Note::NewIncarnation) {
                return order;
            }
            // The old one is over; what it says to its application is told.
            self.tell(place);
            self.finish(place);
        }
        if let Some(home) = self.book.elsewhere(arrival.hash) {
            return Order {
                home,
                ..Order::NOTHING
            };
        }
        self.welcome(arrival, head, &segment, answer)
    }

    /// Hands a segment to its connection.
    #[inline(always)]
    fn deliver(
        &mut self,
        place: u32,
        segment: &Segment,
        head: &Piece<'_>,
    ) -> (Order, Option<Note>) {
        let Some(block) = self.book.connection(place) else {
            return (Order::NOTHING, None);
        };
        let config = self.book.config(block.config);
        let delivery = block.connection.on_segment(self.now_ns, segment, config);
        match delivery.note {
            Some(note) => self.counts.note(note),
            None => self.follow(block, head),
        }
        if !delivery.events.is_empty() {
            self.happened(place, block, delivery.events);
        }
        self.ready.set(place);
        (self.order(place, block, &delivery), delivery.note)
    }

    /// Sends where a segment came from, which was the right one, if the connection does so.
    #[inline(always)]
    fn follow(&mut self, block: &mut ConnectionBlock, head: &Piece<'_>) {
        let mut words = [0; 2];
        let [a, b, c, d, e, f] = block.path.next_hop;
        let known = [
            u32::from_be_bytes([0, 0, a, b]),
            u32::from_be_bytes([c, d, e, f]),
        ];
        if !block.follows || !head.be_words(SOURCE_AT, &mut words) {
            return;
        }
        let [before, rest] = words;
        if [before & 0xffff, rest] != known {
            self.move_to(block, before, rest);
        }
    }

    #[cold]
    #[inline(never)]
    fn move_to(&mut self, block: &mut ConnectionBlock, first: u32, rest: u32) {
        let ([_, _, a, b], [c, d, e, f]) = (first.to_be_bytes(), rest.to_be_bytes());
        if a & 1 == 0 {
            block.path.next_hop = [a, b, c, d, e, f];
            self.counts.count(count::MOVED, 1);
        }
    }

    /// What the warp has to do.
    #[inline(always)]
    fn order(&self, place: u32, block: &mut ConnectionBlock, delivery: &Delivery) -> Order {
        let mut order = Order {
            place,
            ..Order::NOTHING
        };
        if delivery.readable > 0 && block.is_released {
            // Nobody takes these bytes: the peer shall know.
            block.connection.abort();
        } else if let Some(bytes) = delivery.place
            && block.receive_chunk != NONE
        {
            order.chunk = block.receive_chunk;
            order.ring_bytes = self.book.config(block.config).receive_bytes;
            order.at = bytes.at;
            order.from = bytes.from;
            order.length = bytes.length;
            self.counts
                .count(count::PLACED_BYTES, u64::from(bytes.length));
        }
        order
    }

    /// What follows when a connection is established.
    #[cold]
    #[inline(never)]
    pub(super) fn happened(&mut self, place: u32, block: &mut ConnectionBlock, events: Events) {
        if !events.contains(Events::CONNECTED) {
            return;
        }
        self.settle(block);
        if block.listener != NONE && !self.accept(place, block) {
            block.is_released = true;
            block.connection.abort();
            return;
        }
        self.counts.count(count::CONNECTED, 1);
    }

    /// Gives an established connection its rings and offers it to whoever accepts.
    fn accept(&mut self, place: u32, block: &mut ConnectionBlock) -> bool {
        let Some(listener) = self.book.listener(block.listener) else {
            return false;
        };
        if self.book.accept_room(listener) == 0 {
            self.counts.count(count::ACCEPT_FULL, 1);
            return false;
        }
        if !self.book.take_chunks(block) {
            self.counts.count(count::NO_CHUNK, 1);
            return false;
        }
        self.tell_rings(place, block);
        // Whoever accepts it finds it connected.
        self.tell_state(place, block);
        self.book.offer(listener, place, block.generation);
        self.told(self.book.block.connection_count + block.listener);
        true
    }

    /// A handshake of a listener is over.
    pub(super) fn settle(&mut self, block: &mut ConnectionBlock) {
        if block.is_embryonic {
            block.is_embryonic = false;
            if let Some(listener) = self.book.listener(block.listener) {
                listener.listener.settled();
            }
        }
    }

    /// A segment that belongs to no connection.
    #[cold]
    #[inline(never)]
    fn welcome(
        &mut self,
        arrival: &Arrival,
        head: &Piece<'_>,
        segment: &Segment,
        answer: &mut Option<Job>,
    ) -> Order {
        let Some(path) = arrival.way_back(head) else {
            return Order::NOTHING;
        };
        let address = Address {
            words: arrival.destination,
            ip_version: u32::from(arrival.ip_version()),
        };
        let remote_port = arrival.remote_port();
        let index = self.book.listener_of(&address, arrival.local_port());
        let made = match index {
            Some(index) => self.ask_listener(index, &path, remote_port, segment),
            None => Err(answer_unknown(segment).filter(|_| self.may_reset())),
        };
        match (index, made) {
            (Some(index), Ok(connection)) => {
                let new = ConnectionBlock {
                    is_embryonic: segment.flags.contains(TcpFlags::SYN),
                    follows: true,
                    listener: index,
                    hash: arrival.hash,
                    ..blank(connection, path, remote_port)
                };
                self.house(new, segment, head)
            }
            (_, Err(Some(outgoing))) => {
                let job = answer.insert(Job::default());
                job.set(NONE, &outgoing, path.source_port, remote_port);
                job.path = path;
                Order {
                    answers: 1,
                    ..Order::NOTHING
                }
            }
            _ => Order::NOTHING,
        }
    }

    /// What a listener makes of a segment: a connection, or what to answer.
    fn ask_listener(
        &mut self,
        index: u32,
        path: &Path,
        remote_port: u16,
        segment: &Segment,
    ) -> Result<Connection, Option<Outgoing>> {
        if segment.flags.contains(TcpFlags::SYN) && !self.has_room(index) {
            return Err(None);
        }
        let block = self.book.listener(index).ok_or(None)?;
        let config = self.book.config(block.config);
        let tuple = words::tuple(path, remote_port);
        let now_ns = self.now_ns;
        match block.listener.on_segment(now_ns, &tuple, segment, config) {
            Answer::Nothing => Err(None),
            Answer::Reset(outgoing) => Err(self.may_reset().then_some(outgoing)),
            Answer::Cookie(outgoing) => {
                self.counts.count(count::COOKIES, 1);
                Err(Some(outgoing))
            }
            Answer::Connection(initial) => Ok(Connection::answer(config, initial, segment, now_ns)),
            // The peer's data bring the cookie again, when there is room perhaps.
            Answer::Established(_) if !self.has_room(index) => Err(None),
            Answer::Established(handshake) => {
                Ok(Connection::established(config, &handshake, now_ns))
            }
        }
    }

    /// Gives a connection of a listener a place.
    fn house(&mut self, new: ConnectionBlock, segment: &Segment, head: &Piece<'_>) -> Order {
        let Some(listener) = self.book.listener(new.listener) else {
            return Order::NOTHING;
        };
        let config = listener.config;
        let Some(place) = self.take_place(ConnectionBlock { config, ..new }) else {
            self.counts.count(count::NO_PLACE, 1);
            if new.is_embryonic {
                listener.listener.settled();
            }
            return Order::NOTHING;
        };
        self.ready.set(place);
        match new.is_embryonic {
            true => Order {
                place,
                ..Order::NOTHING
            },
            // The segment that brought the cookie makes it established.
            false => self.deliver(place, segment, head).0,
        }
    }

    /// Whether a connection of a listener could be had, were it established.
    fn has_room(&self, index: u32) -> bool {
        let Some(listener) = self.book.listener(index) else {
            return false;
        };
        let standing = self.book.standing();
        let embryonic = listener.listener.embryonic();
        let lack = if self.book.accept_room(listener) <= embryonic {
            count::ACCEPT_FULL
        } else if standing.free_places == 0 && standing.oldest == NONE {
            count::NO_PLACE
        } else if standing.free_chunks < 2 {
            count::NO_CHUNK
        } else {
            return true;
        };
        self.counts.count(lack, 1);
        false
    }

    /// Whether a reset to nobody's segment may be sent, of which there are so many in a second.
    fn may_reset(&mut self) -> bool {
        let standing = self.book.standing();
        if self.now_ns >= standing.second_ns {
            standing.second_ns = self.now_ns.saturating_add(SECOND_NS);
            standing.resets = self.book.block.resets_a_second;
        }
        let Some(left) = standing.resets.checked_sub(1) else {
            self.counts.count(count::RESETS_HELD, 1);
            return false;
        };
        standing.resets = left;
        self.counts.count(count::RESETS, 1);
        true
    }
}

/// A connection that nobody knows of.
pub(super) const fn blank(connection: Connection, path: Path, remote_port: u16) -> ConnectionBlock {
    ConnectionBlock {
        connection,
        path,
        remote_port,
        is_used: false,
        is_released: false,
        is_embryonic: false,
        is_over: false,
        is_lingering: false,
        follows: false,
        generation: 0,
        hash: 0,
        segment_bytes: 0,
        config: 0,
        listener: NONE,
        receive_chunk: NONE,
        send_chunk: NONE,
        written: 0,
        consumed: 0,
        wishes: 0,
        told_readable: 0,
        told_freed: 0,
        told: 0,
        older: NONE,
        newer: NONE,
        orphan_ns: u64::MAX,
        figures_ns: 0,
    }
}

fn ends(arrival: &Arrival) -> Ends {
    Ends {
        local: arrival.destination,
        remote: arrival.source,
        local_port: arrival.local_port(),
        remote_port: arrival.remote_port(),
        ip_version: arrival.ip_version(),
    }
}

const SECOND_NS: u64 = 1_000_000_000;
/// Two bytes before the source address in an Ethernet header.
const SOURCE_AT: u32 = 4;
