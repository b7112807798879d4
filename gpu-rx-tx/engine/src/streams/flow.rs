//! The connections of a block, as one warp serves them: what applications want, clocks, and what
//! applications are told. Nothing here depends on a ring's format: one copy of the code serves all
//! formats.

use warpwire_device::Simt;
use warpwire_protocols::tcp::{Cause, State};

use super::bits::{Bits, OwnBits};
use super::book::Book;
use super::count::{self, Counts};
use super::tables::{ABORT, CLOSE, CLOSED, CONNECTED, ConnectionBlock, NONE, PEER_CLOSED, RELEASE};
use super::turns::Turns;

/// The connections of a block.
pub(super) struct Flow<'a> {
    pub(super) book: Book<'a>,
    pub(super) counts: Counts,
    pub(super) asked: Bits,
    pub(super) told: Option<Bits>,
    pub(super) ready: OwnBits,
    pub(super) turns: Turns,
    /// The time, as of the part of a round that is under way. In every lane.
    pub(super) now_ns: u64,
}

impl Flow<'_> {
    /// *Collective.* Does what applications asked for since the last time.
    #[inline(never)]
    pub(super) fn listen<S: Simt>(&mut self, simt: &S) -> bool {
        let mut busy = false;
        if simt.is_leader() {
            let asked = self.asked;
            asked.drain(|place| {
                busy = true;
                self.obey(place);
            });
        }
        // pairs with: lanes that look at connections afterwards.
        simt.sync_warp();
        simt.any(busy)
    }

    /// Takes what the application of a stream did.
    fn obey(&mut self, place: u32) {
        let Some(block) = self.book.connection(place).filter(|one| !one.is_released) else {
            return;
        };
        let wanted = self.book.words(place).wanted();
        let connection = &mut block.connection;
        let written = wanted.written.wrapping_sub(block.written);
        if written > 0 {
            block.written = block.written.wrapping_add(connection.write(written));
        }
        let consumed = wanted.consumed.wrapping_sub(block.consumed);
        let consumed = consumed.min(connection.readable());
        if consumed > 0 {
            connection.consume(consumed);
            block.consumed = block.consumed.wrapping_add(consumed);
        }
        let wishes = wanted.wishes & !block.wishes;
        block.wishes |= wishes;
        if wishes & CLOSE != 0 {
            connection.close();
        }
        if wishes & ABORT != 0 {
            connection.abort();
        }
        if wishes & RELEASE != 0 {
            block.is_released = true;
            let is_closing = block.wishes & CLOSE != 0 && connection.readable() == 0;
            if !is_closing && connection.state() != State::Closed {
                connection.abort();
            }
            let patience = self.book.config(block.config).time_wait_ns;
            block.orphan_ns = self.now_ns.saturating_add(patience.max(LEAST_PATIENCE_NS));
        }
        self.ready.set(place);
    }

    /// *Collective.* Looks at the clocks of some connections, a lane each, and of the next ones the
    /// next time.
    #[inline(never)]
    pub(super) fn watch<S: Simt>(&mut self, simt: &S) -> bool {
        let mut busy = false;
        let standing = self.book.standing();
        let used = simt.shuffle(standing.used, 0);
        let first = simt.shuffle(standing.clock, 0);
        let window = used.min(WINDOW);
        let mut row = 0;
        while row < window {
            let offset = row + simt.lane();
            let place = wrapped(first.wrapping_add(offset), used);
            let is_due = offset < window && self.book.deadline(place) <= self.now_ns;
            let mut due = simt.ballot(is_due);
            busy |= due != 0;
            while due != 0 {
                let lane = due.trailing_zeros();
                due &= due - 1;
                if simt.is_leader() {
                    self.ring_out(wrapped(first.wrapping_add(row + lane), used));
                }
            }
            row += S::WIDTH;
        }
        // pairs with: lanes that read deadlines before the leader changes any.
        simt.sync_warp();
        if simt.is_leader() && used > 0 {
            self.book.standing().clock = wrapped(first.wrapping_add(window), used);
        }
        simt.sync_warp();
        busy
    }

    /// The time of a connection has come.
    #[cold]
    #[inline(never)]
    fn ring_out(&mut self, place: u32) {
        self.book.set_deadline(place, u64::MAX);
        let Some(block) = self.book.connection(place) else {
            return;
        };
        let config = self.book.config(block.config);
        let events = block.connection.on_timer(self.now_ns, config);
        if block.is_released && self.now_ns >= block.orphan_ns {
            block.orphan_ns = u64::MAX;
            // Nobody waits for what the peer may still say.
            if matches!(block.connection.state(), State::FinWait2) {
                block.connection.abort();
            }
        }
        self.happened(place, block, events);
        self.ready.set(place);
    }

    /// Tells the application where its stream stands.
    #[inline(always)]
    pub(super) fn tell(&mut self, place: u32) {
        let Some(block) = self.book.connection(place) else {
            return;
        };
        let connection = &block.connection;
        let readable = connection
            .read_position()
            .wrapping_add(connection.readable());
        let freed = connection
            .write_position()
            .wrapping_sub(connection.unacknowledged());
        let words = self.book.words(place);
        let mut news = false;
        if readable != block.told_readable {
            block.told_readable = readable;
            words.readable(readable);
            news = true;
        }
        if freed != block.told_freed {
            block.told_freed = freed;
            words.freed(freed);
            news = true;
        }
        news |= self.tell_state(place, block);
        if news {
            self.tell_figures(place);
            self.told(place);
        }
    }

    /// Tells figures, unless those that were told are young.
    #[inline(never)]
    pub(super) fn tell_figures(&self, place: u32) {
        let Some(block) = self.book.connection(place) else {
            return;
        };
        if self.now_ns.wrapping_sub(block.figures_ns) >= FIGURES_NS {
            block.figures_ns = self.now_ns;
            let words = self.book.words(place);
            words.figures(&block.connection.statistics());
        }
    }

    /// Tells state and flags, if they changed.
    pub(super) fn tell_state(&self, place: u32, block: &mut ConnectionBlock) -> bool {
        let connection = &block.connection;
        let state = connection.state();
        let mut flags = block.told & (CONNECTED | CLOSED);
        if state.is_synchronized() && block.receive_chunk != NONE {
            flags |= CONNECTED;
        }
        if connection.is_peer_closed() {
            flags |= PEER_CLOSED;
        }
        if state == State::Closed {
            flags |= CLOSED;
        }
        let told = flags | (state as u32) << 16;
        if told == block.told {
            return false;
        }
        block.told = told;
        let cause = connection.cause().map_or(0, |cause| cause as u32 + 1);
        self.book.words(place).flags(state as u32, cause, flags);
        true
    }

    /// Tells where the rings of a connection lie.
    pub(super) fn tell_rings(&self, place: u32, block: &ConnectionBlock) {
        let config = self.book.config(block.config);
        let ring = |chunk, bytes| (self.book.chunk(chunk), bytes);
        self.book.words(place).rings(
            ring(block.receive_chunk, config.receive_bytes),
            ring(block.send_chunk, config.send_bytes),
        );
    }

    /// Somebody may wait for news of this number.
    pub(super) fn told(&self, number: u32) {
        if let Some(told) = &self.told {
            told.set(number);
        }
    }

    /// A connection has nothing to send for now: what it waits for, and what is not needed any
    /// more.
    #[inline(always)]
    pub(super) fn finish(&mut self, place: u32) {
        self.ready.clear(place);
        let Some(block) = self.book.connection(place) else {
            return;
        };
        match block.connection.state() {
            State::Closed => return self.bury(place),
            State::TimeWait if block.is_released => {
                self.book.free_chunks(block);
                self.book.linger(place);
            }
            _ => {}
        }
        let timeout_ns = block.connection.timeout_ns().unwrap_or(u64::MAX);
        let deadline_ns = timeout_ns.min(block.orphan_ns);
        self.book.set_deadline(place, deadline_ns);
    }

    /// Takes a place for a connection; that of one which lingers, if no other is free. `None` also
    /// if another block has such connections meanwhile.
    pub(super) fn take_place(&self, new: ConnectionBlock) -> Option<u32> {
        let hash = new.hash;
        if !self.book.claim(hash) {
            return None;
        }
        let place = self.take_any_place(new);
        if place.is_none() {
            self.book.unclaim(hash);
        }
        place
    }

    fn take_any_place(&self, new: ConnectionBlock) -> Option<u32> {
        let standing = self.book.standing();
        if standing.free_places == 0 && standing.oldest != NONE {
            let place = standing.oldest;
            self.book.leave(place);
            self.ready.clear(place);
            if let Some(hash) = self.book.connection(place).map(|block| block.hash) {
                self.book.remove(hash, place);
            }
            self.book.free_place(place);
            self.counts.count(count::CLOSED, 1);
            self.counts.count(count::DISPLACED, 1);
        }
        self.book.take_place(new)
    }

    /// A connection is over. Its place is free once nobody looks at it.
    #[cold]
    #[inline(never)]
    fn bury(&mut self, place: u32) {
        let Some(block) = self.book.connection(place) else {
            return;
        };
        self.settle(block);
        self.book.set_deadline(place, u64::MAX);
        self.book.leave(place);
        let is_known = block.listener == NONE || block.told & CONNECTED != 0;
        let hash = block.hash;
        let is_released = block.is_released || !is_known;
        if !block.is_over {
            block.is_over = true;
            let cause = block.connection.cause();
            self.counts.count(count::CLOSED, 1);
            if cause != Some(Cause::Finished) {
                self.counts.count(count::FAILED, 1);
            }
            self.book.remove(hash, place);
        }
        if is_released {
            self.book.free_place(place);
        }
    }
}

/// A place, counted from the first again behind the last.
const fn wrapped(place: u32, used: u32) -> u32 {
    if place >= used {
        place.wrapping_sub(used)
    } else {
        place
    }
}

/// Places whose clocks are looked at in a round.
const WINDOW: u32 = 128;
/// The least time for which a connection that nobody has waits for its peer.
const LEAST_PATIENCE_NS: u64 = 1_000_000_000;
/// How old figures may become.
const FIGURES_NS: u64 = 1_000_000;
