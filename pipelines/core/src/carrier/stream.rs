//! A stream of the carrier, as the lane that visits it serves it.

use warpwire_device::Simt;
use warpwire_engine::streams::Words;
use warpwire_engine::streams::tables::{ABORT, CLOSE, CLOSED, CONNECTED, PEER_CLOSED, RELEASE};
use warpwire_protocols::stream::credits::{self, Carrier, Ending, Event, Post, Word};
use warpwire_protocols::tcp::{Cause, State};
use warpwire_ring::Cause as Failure;
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Gather, Order, Payload};

use super::count::Tally;
use super::tables::{LAST, MARKS, Mark, Opening, SeatState};
use crate::messaging::{Arrival, Channel, Request, Ticket};

/// A stream that is visited.
pub(super) struct Visit<'a> {
    pub(super) opening: &'a Opening,
    pub(super) state: &'a mut SeatState,
    pub(super) words: Words,
    pub(super) now_ns: u64,
    pub(super) tally: Tally,
}

impl SeatState {
    /// A stream that begins; `None` if what was agreed on cannot be, or does not fit its rings.
    pub(super) fn begin(opening: &Opening) -> Option<Self> {
        let terms = opening.terms;
        let fits = opening.send.length >= terms.send_bytes
            && opening.receive.length >= terms.own.bytes
            && terms.check().is_ok();
        fits.then(|| Self {
            carrier: Carrier::new(terms),
            marks: [Mark::default(); MARKS],
            mark_first: 0,
            mark_count: 0,
            number: opening.number,
            begun: opening.number,
            written: 0,
            consumed: 0,
            wishes: 0,
            readable: 0,
            freed: 0,
            told_readable: 0,
            told_freed: 0,
            told: 0,
            cause: 0,
            beneath: 0,
            is_peer_closed: false,
            is_end_heard: false,
            is_released: false,
            is_aborting: false,
            is_blocked: false,
            is_counted: false,
            reserved: [false; 2],
            orphan_ns: u64::MAX,
            settled_ns: u64::MAX,
        })
    }

    /// Nobody has it, and nobody will.
    pub(super) fn give_up(&mut self) {
        self.is_released = true;
        self.abort(GIVEN_UP, Cause::Aborted);
    }

    /// Whether it has to be looked at in the next round.
    pub(super) const fn is_pending(&self) -> bool {
        self.mark_count > 0 || self.is_aborting || self.is_blocked
    }

    /// Whether its place is free.
    pub(super) const fn is_vacant(&self, now_ns: u64) -> bool {
        self.is_released && now_ns >= self.settled_ns
    }

    fn is_over(&self) -> bool {
        match self.carrier.ending() {
            _ if self.beneath != 0 => true,
            Some(Ending::Closed) => self.is_end_heard,
            Some(_) => true,
            None => false,
        }
    }

    /// The state of TCP that an application would find.
    fn state(&self) -> State {
        let is_closing = self.wishes & CLOSE != 0;
        match (is_closing, self.is_end_heard, self.is_peer_closed) {
            _ if self.is_over() => State::Closed,
            (false, _, false) => State::Established,
            (false, _, true) => State::CloseWait,
            (true, false, false) => State::FinWait1,
            (true, false, true) => State::LastAck,
            (true, true, _) => State::FinWait2,
        }
    }

    /// Says why it is over, if nothing was said before.
    const fn blame(&mut self, cause: Cause) {
        if self.cause == 0 {
            self.cause = cause as u32 + 1;
        }
    }

    fn abort(&mut self, why: credits::Cause, cause: Cause) {
        if self.carrier.ending().is_none() {
            self.carrier.abort(why);
            self.blame(cause);
            self.is_aborting = true;
        }
    }

    /// The queue pair failed.
    fn lose(&mut self, failure: Failure) {
        if self.beneath != 0 {
            return;
        }
        let is_through = self.carrier.ending() == Some(Ending::Closed) && self.mark_count <= 1;
        if !self.is_over() {
            self.blame(match failure {
                // The peer has said all, and so have we; that it did not acknowledge the end alone
                // takes nothing from anybody.
                _ if is_through && self.oldest().is_none_or(|mark| mark.kind == LAST) => {
                    Cause::Finished
                }
                Failure::RetryExceeded | Failure::RnrRetryExceeded => Cause::TimedOut,
                _ => Cause::Reset,
            });
        }
        self.beneath = failure as u32;
        self.carrier.lose();
        self.mark_count = 0;
        self.is_aborting = false;
        self.is_blocked = false;
    }

    fn oldest(&self) -> Option<Mark> {
        let mark = self.marks.get(self.mark_first as usize % MARKS);
        mark.copied().filter(|_| self.mark_count > 0)
    }

    fn mark(&mut self, mark: Mark) {
        let at = self.mark_first.wrapping_add(self.mark_count);
        if let Some(slot) = self.marks.get_mut(at as usize % MARKS) {
            *slot = mark;
            self.mark_count += 1;
        }
    }
}

impl Visit<'_> {
    /// Takes what the application did. Says whether that was anything.
    pub(super) fn obey(&mut self) -> bool {
        let state = &mut *self.state;
        if state.is_released {
            return false;
        }
        let wanted = self.words.wanted();
        let mut busy = false;
        let written = wanted.written.wrapping_sub(state.written);
        if written > 0 {
            let taken = state.carrier.write(written);
            state.written = state.written.wrapping_add(taken);
            busy |= taken > 0;
        }
        let consumed = wanted.consumed.wrapping_sub(state.consumed);
        if consumed > 0 {
            let taken = state.carrier.consume(consumed);
            state.consumed = state.consumed.wrapping_add(taken);
            busy |= taken > 0;
        }
        let wishes = wanted.wishes & !state.wishes;
        state.wishes |= wishes;
        if wishes & CLOSE != 0 {
            state.carrier.close();
        }
        if wishes & ABORT != 0 {
            state.abort(GIVEN_UP, Cause::Aborted);
        }
        if wishes & RELEASE != 0 {
            state.is_released = true;
            if state.wishes & CLOSE == 0 || state.carrier.readable() > 0 {
                state.abort(GIVEN_UP, Cause::Aborted);
            }
            state.orphan_ns = self.now_ns.saturating_add(self.opening.orphan_ns);
        }
        busy | (wishes != 0)
    }

    /// Hears what came, and sends what may be sent. Says whether there was anything.
    pub(super) fn exchange<S: Simt>(
        &mut self,
        simt: &S,
        channel: &mut Channel,
        share: u32,
    ) -> bool {
        let mut busy = self.complete(simt, channel);
        for _ in 0..self.opening.terms.receives() {
            let Some(arrival) = channel.poll_arrival(simt) else {
                break;
            };
            busy = true;
            self.hear(&arrival);
            // A queue pair that failed takes none; that is told by its completions.
            let _ = channel.post_receive(simt, Some(&[]));
        }
        if let Some(failure) = channel.fault() {
            self.state.lose(failure);
        }
        busy | self.send(simt, channel, share)
    }

    /// Takes completions of what was sent.
    fn complete<S: Simt>(&mut self, simt: &S, channel: &mut Channel) -> bool {
        let free = channel.free();
        channel.collect(simt);
        while let Some(mark) = self.state.oldest() {
            let (first, end) = (mark.first, mark.end);
            match channel.is_done(Ticket { first, end }) {
                Ok(true) => {
                    let state = &mut *self.state;
                    state.mark_first = state.mark_first.wrapping_add(1) % MARKS as u32;
                    state.mark_count -= 1;
                    state.carrier.on_complete(mark.bytes);
                    state.freed = state.freed.wrapping_add(mark.bytes);
                    state.is_end_heard |= mark.kind == LAST;
                }
                Ok(false) => break,
                Err(failure) => {
                    self.state.lose(failure);
                    break;
                }
            }
        }
        channel.free() != free
    }

    /// Takes a message.
    fn hear(&mut self, arrival: &Arrival) {
        let state = &mut *self.state;
        if let Some(failure) = arrival.failed {
            // Of the others, the first failure of a request says more.
            if failure != Failure::Flushed {
                state.lose(failure);
            } else if state.mark_count == 0 {
                state.lose(Failure::Disconnected);
            }
            return;
        }
        self.tally.received += 1;
        let Some(word) = arrival.immediate else {
            return state.abort(credits::Cause::PROTOCOL, Cause::Aborted);
        };
        match state.carrier.on_word(word) {
            Event::Data(bytes) => {
                state.readable = state.readable.wrapping_add(bytes);
                self.tally.placed_bytes += bytes;
                if state.is_released {
                    // Nobody reads it.
                    state.abort(GIVEN_UP, Cause::Aborted);
                }
            }
            Event::PeerEnded => state.is_peer_closed = true,
            Event::Aborted => match state.carrier.ending() {
                Some(Ending::AbortedByPeer(_)) => state.blame(Cause::Reset),
                // It broke the rules, and is told.
                _ => {
                    state.blame(Cause::Aborted);
                    state.is_aborting = true;
                }
            },
            Event::Credit(_) | Event::Ignored => {}
        }
    }

    /// Posts what is to be sent now.
    fn send<S: Simt>(&mut self, simt: &S, channel: &mut Channel, share: u32) -> bool {
        self.state.is_blocked = false;
        let mut posted = 0;
        while self.state.beneath == 0 {
            let has_room = (self.state.mark_count as usize) < MARKS && channel.free() >= SLOTS;
            if posted == share || !has_room {
                // Without room, completions that bring some are due.
                self.state.is_blocked = true;
                break;
            }
            let Some(post) = self.state.carrier.poll() else {
                break;
            };
            posted += 1;
            if let Err(failure) = self.post(simt, channel, &post) {
                self.state.lose(failure);
            }
        }
        if posted > 0 {
            channel.publish(simt);
        }
        self.tally.sent += posted;
        posted > 0
    }

    fn post<S: Simt>(
        &mut self,
        simt: &S,
        channel: &mut Channel,
        post: &Post,
    ) -> Result<(), Failure> {
        let is_last = matches!(post.word, Some(Word::End { .. }));
        let is_abort = matches!(post.word, Some(Word::Abort(_)));
        let is_marked = post.write.is_some() || is_last || is_abort;
        let opcode = match (post.write, post.word) {
            (Some(_), Some(_)) => Opcode::WRITE_IMM,
            (Some(_), None) => Opcode::WRITE,
            (None, _) => Opcode::SEND_IMM,
        };
        let mut order = Order::new(opcode);
        order.signal = is_marked;
        order.immediate = post.word.map_or(0, Word::value);
        let mut pieces = [Gather::default()];
        if let Some(write) = post.write {
            let (own, terms) = (&self.opening.send, &self.opening.terms);
            let fits = |from: u32, whole: u32| {
                let end = from.checked_add(write.length);
                end.is_some_and(|end| end <= whole)
            };
            if !fits(write.from, terms.send_bytes) || !fits(write.to, terms.peer.bytes) {
                return Err(Failure::LocalLength);
            }
            order.address = self.opening.remote.offset(u64::from(write.to)).address;
            order.key = self.opening.remote.key;
            pieces = [Gather {
                address: own.address.wrapping_add(u64::from(write.from)),
                length: write.length,
                key: own.key,
            }];
        }
        let pieces: &[Gather] = match post.write {
            Some(_) => &pieces,
            None => &[],
        };
        let request = Request {
            order,
            payload: Payload::Pieces(pieces),
            signal: None,
            is_exact: false,
        };
        let ticket = channel.write(simt, Some(&request))?;
        let ticket = ticket.ok_or(Failure::NoResource)?;
        self.tally.sent_bytes += post.bytes();
        if is_abort {
            self.state.is_aborting = false;
        }
        if is_marked {
            self.state.mark(Mark {
                first: ticket.first,
                end: ticket.end,
                bytes: post.bytes(),
                kind: if is_last { LAST } else { 0 },
            });
        }
        Ok(())
    }

    /// There is no such queue pair.
    pub(super) fn fail(&mut self, failure: Failure) -> bool {
        self.state.lose(failure);
        true
    }

    /// Looks at the clocks of a stream, and whether it is over.
    pub(super) fn settle(&mut self) {
        let state = &mut *self.state;
        if state.is_released && self.now_ns >= state.orphan_ns && !state.is_over() {
            state.orphan_ns = u64::MAX;
            state.abort(credits::Cause::DEADLINE, Cause::TimedOut);
        }
        if !state.is_over() {
            return;
        }
        if !state.is_counted {
            state.is_counted = true;
            state.blame(Cause::Finished);
            self.tally.closed += 1;
            self.tally.failed += u32::from(state.cause != Cause::Finished as u32 + 1);
        }
        let is_through = state.mark_count == 0 && !state.is_aborting;
        if is_through && state.settled_ns == u64::MAX {
            let linger_ns = match state.beneath {
                0 => self.opening.linger_ns,
                _ => 0,
            };
            state.settled_ns = self.now_ns.saturating_add(linger_ns);
        }
    }

    /// Tells the application where its stream stands. Says whether there was news.
    pub(super) fn tell(&mut self) -> bool {
        let state = &mut *self.state;
        let mut news = false;
        if state.readable != state.told_readable {
            state.told_readable = state.readable;
            self.words.readable(state.readable);
            news = true;
        }
        if state.freed != state.told_freed {
            state.told_freed = state.freed;
            self.words.freed(state.freed);
            news = true;
        }
        let number = state.state() as u32;
        let mut flags = CONNECTED;
        if state.is_peer_closed {
            flags |= PEER_CLOSED;
        }
        if state.is_over() {
            flags |= CLOSED;
        }
        let told = flags | number << 16;
        if told != state.told {
            state.told = told;
            self.words.beneath(state.beneath);
            self.words.flags(number, state.cause, flags);
            news = true;
        }
        news
    }
}

/// What a peer is told that the application gave the stream up.
const GIVEN_UP: credits::Cause = credits::Cause(256);
/// Slots that must be free: a message takes one, and what makes room when there is none another.
const SLOTS: u32 = 2;
