//! One stream.

use warpwire_device::{Area, Heartbeat, Piece, Simt, Wait};
use warpwire_engine::streams::Bits;
use warpwire_engine::streams::tables::{ABORT, CLOSE, CLOSED, CONNECTED, PEER_CLOSED, RELEASE};
use warpwire_ring::Cause;

use super::ended::Ended;
use super::extent::Extent;
use super::table::{Name, guarded};
use super::words::{Own, Seen, Words, no_ring};
use crate::messaging::{Progress, keep_on};

/// A stream, as the code has it that reads and writes it. See the module's text.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    words: Words,
    name: Name,
    asked: Bits,
    heartbeat: Option<Heartbeat>,
    receive: Area,
    send: Area,
    own: Own,
    /// What the carrier was told of it.
    told: Own,
    seen: Seen,
}

impl Stream {
    /// *Collective.* The stream of words.
    pub(super) fn of<S: Simt>(
        simt: &S,
        words: Words,
        name: Name,
        asked: Bits,
        heartbeat: Option<Heartbeat>,
    ) -> Self {
        let own = match S::WIDTH {
            1 => words.own(),
            _ => of_leader(simt, words.own()),
        };
        let mut stream = Self {
            words,
            name,
            asked,
            heartbeat,
            receive: no_ring(),
            send: no_ring(),
            own,
            told: own,
            seen: Seen::default(),
        };
        stream.look(simt);
        stream
    }

    /// Which stream it is.
    pub const fn name(&self) -> Name {
        self.name
    }

    /// *Collective.* Finds out what the carrier did. What follows from it stays the same until the
    /// next look.
    pub fn look<S: Simt>(&mut self, simt: &S) {
        let mut seen = Seen::default();
        if simt.is_leader() {
            seen = self.words.seen();
        }
        if S::WIDTH > 1 {
            seen = Seen {
                flags: simt.shuffle(seen.flags, 0),
                readable: simt.shuffle(seen.readable, 0),
                freed: simt.shuffle(seen.freed, 0),
            };
            // The lanes read bytes of which the leader alone knows that they are there.
            simt.sync_warp();
        }
        if seen.flags & CONNECTED != 0 && self.seen.flags & CONNECTED == 0 {
            self.receive = self.words.receive_ring();
            self.send = self.words.send_ring();
        }
        self.seen = seen;
    }

    /// Bytes that came and were not consumed, as of the last look.
    #[inline]
    pub fn readable(&self) -> u32 {
        let there = self.seen.readable.wrapping_sub(self.own.consumed);
        there.min(bytes(&self.receive))
    }

    /// Bytes that can be written, as of the last look. None once this end closed or the stream is
    /// over.
    #[inline]
    pub fn writable(&self) -> u32 {
        if self.seen.flags & CLOSED != 0 || self.own.wishes & (CLOSE | ABORT) != 0 {
            return 0;
        }
        bytes(&self.send).saturating_sub(self.unacknowledged())
    }

    /// Bytes that were written and that the peer did not acknowledge, as of the last look.
    #[inline]
    pub const fn unacknowledged(&self) -> u32 {
        self.own.written.wrapping_sub(self.seen.freed)
    }

    /// Bytes of the receive ring: no more can be readable at a time. 0 before it is connected.
    pub fn most_readable(&self) -> u32 {
        bytes(&self.receive)
    }

    /// Bytes of the send ring: no more can be written at a time. 0 before it is connected.
    pub fn most_writable(&self) -> u32 {
        bytes(&self.send)
    }

    /// Whether the peer sends no more, and everything that it sent is consumed; as of the last
    /// look.
    pub fn is_at_end(&self) -> bool {
        self.seen.flags & (PEER_CLOSED | CLOSED) != 0 && self.readable() == 0
    }

    /// Whether it is over both ways, as of the last look. Bytes that came may still be read.
    pub const fn is_over(&self) -> bool {
        self.seen.flags & CLOSED != 0
    }

    /// Whether this end closed or gave up.
    pub const fn is_closed(&self) -> bool {
        self.own.wishes & (CLOSE | ABORT) != 0
    }

    /// *Collective.* The carrier's state, as a number of its own; for reports.
    pub fn state<S: Simt>(&self, simt: &S) -> u32 {
        simt.shuffle(self.words.state(), 0)
    }

    /// *Collective.* How it ended, if it did; as of the last look.
    pub fn ended<S: Simt>(&self, simt: &S) -> Option<Ended> {
        if !self.is_over() {
            return None;
        }
        let number = simt.shuffle(self.words.cause(), 0);
        Some(Ended::from_number(number).unwrap_or(Ended::Finished))
    }

    /// The bytes that came and were not consumed, as of the last look.
    #[inline]
    pub fn unread(&self) -> Extent<'_> {
        extent(&self.receive, self.own.consumed, self.readable())
    }

    /// *Collective.* Looks, and gives the bytes that came and were not consumed.
    #[inline]
    pub fn peek<S: Simt>(&mut self, simt: &S) -> Extent<'_> {
        self.look(simt);
        self.unread()
    }

    /// *Collective.* Gives the first `count` bytes that came back to the carrier, or all if they
    /// are less. It learns of it by [`Stream::ring`].
    pub fn consume<S: Simt>(&mut self, simt: &S, count: u32) {
        // Lanes may still read what the leader gives back.
        simt.sync_warp();
        self.own.consumed = self.own.consumed.wrapping_add(count.min(self.readable()));
    }

    /// Room for bytes to be written, as of the last look; see [`Stream::commit`].
    #[inline]
    pub fn room(&self) -> Extent<'_> {
        extent(&self.send, self.own.written, self.writable())
    }

    /// *Collective.* Takes the first `count` bytes of the room for written, or all if it is less.
    /// They leave after [`Stream::ring`].
    pub fn commit<S: Simt>(&mut self, simt: &S, count: u32) {
        // What lanes wrote is seen by the leader, which lets the carrier see it.
        simt.sync_warp();
        self.own.written = self.own.written.wrapping_add(count.min(self.writable()));
    }

    /// *Collective.* Copies bytes into the send ring, by the whole warp; as many as there is room
    /// for as of the last look. Returns how many. They leave after [`Stream::ring`].
    pub fn write<S: Simt>(&mut self, simt: &S, from: &Extent<'_>) -> u32 {
        let count = from.copy_to(simt, &self.room());
        self.commit(simt, count);
        count
    }

    /// *Collective.* The same for bytes that every lane has.
    pub fn write_bytes<S: Simt>(&mut self, simt: &S, from: &[u8]) -> u32 {
        let count = self.room().fill(simt, from);
        self.commit(simt, count);
        count
    }

    /// *Collective.* Writes back bytes that came, `most` at most, and consumes them. Returns how
    /// many.
    pub fn reflect<S: Simt>(&mut self, simt: &S, most: u32) -> u32 {
        let receive = self.receive;
        let unread = extent(&receive, self.own.consumed, self.readable());
        let count = self.write(simt, &unread.up_to(most));
        self.consume(simt, count);
        count
    }

    /// *Collective.* Writes bytes that came to another stream, `most` at most, and consumes them.
    /// Returns how many.
    pub fn splice<S: Simt>(&mut self, simt: &S, to: &mut Self, most: u32) -> u32 {
        let count = to.write(simt, &self.unread().up_to(most));
        self.consume(simt, count);
        count
    }

    /// *Collective.* Tells the carrier what was consumed and written, if it does not know.
    pub fn ring<S: Simt>(&mut self, simt: &S) {
        if self.own == self.told {
            return;
        }
        if simt.is_leader() {
            self.words.tell(&self.own);
            self.asked.set(self.name.place);
        }
        self.told = self.own;
    }

    /// *Collective.* Writes no more: the end follows what was written. Reading goes on.
    pub fn close<S: Simt>(&mut self, simt: &S) {
        self.own.wishes |= CLOSE;
        self.ring(simt);
    }

    /// *Collective.* Gives up: what is under way is lost, and the peer is told.
    pub fn abort<S: Simt>(&mut self, simt: &S) {
        self.own.wishes |= ABORT;
        self.ring(simt);
    }

    /// *Collective.* Is done with the stream. One that was not closed is given up; of one that was,
    /// what was written is still sent, and what comes is refused.
    pub fn release<S: Simt>(mut self, simt: &S) {
        self.own.wishes |= RELEASE;
        self.ring(simt);
    }

    /// *Collective.* Waits until it is connected.
    ///
    /// # Errors
    /// How it ended; what ends waits.
    pub fn wait_connected<S: Simt, P: Progress>(
        &mut self,
        simt: &S,
        wait: &Wait,
        progress: &mut P,
    ) -> Result<(), Cause> {
        self.until(simt, wait, progress, |stream, simt| {
            match stream.seen.flags & CONNECTED {
                0 => stream.ended(simt).map(|ended| Err(ended.cause())),
                _ => Some(Ok(())),
            }
        })
    }

    /// *Collective.* Waits until `least` bytes can be read, one at least and no more than the ring
    /// holds. Returns how many can be; less only at the end of the stream, 0 if nothing follows.
    ///
    /// # Errors
    /// How it ended, if not by both ends closing, and nothing is left to be read; what ends waits.
    pub fn wait_readable<S: Simt, P: Progress>(
        &mut self,
        simt: &S,
        least: u32,
        wait: &Wait,
        progress: &mut P,
    ) -> Result<u32, Cause> {
        self.until(simt, wait, progress, |stream, simt| {
            stream.reads(simt, least)
        })
    }

    /// *Collective.* Waits until `least` bytes can be written, one at least and no more than the
    /// ring holds. Returns how many can be.
    ///
    /// # Errors
    /// How it ended; [`Cause::LocalQpOperation`] if this end closed; what ends waits.
    pub fn wait_writable<S: Simt, P: Progress>(
        &mut self,
        simt: &S,
        least: u32,
        wait: &Wait,
        progress: &mut P,
    ) -> Result<u32, Cause> {
        self.until(simt, wait, progress, |stream, simt| {
            stream.writes(simt, least)
        })
    }

    /// *Collective.* Writes all bytes, waiting for room.
    ///
    /// # Errors
    /// As [`Stream::wait_writable`]; then some may be written.
    pub fn write_all<S: Simt, P: Progress>(
        &mut self,
        simt: &S,
        from: &Extent<'_>,
        wait: &Wait,
        progress: &mut P,
    ) -> Result<(), Cause> {
        let mut done = 0;
        while let Some(rest) = from.part(done, from.length() - done)
            && !rest.is_empty()
        {
            self.wait_writable(simt, 1, wait, progress)?;
            done += self.write(simt, &rest);
        }
        self.ring(simt);
        Ok(())
    }

    /// *Collective.* Waits until the peer acknowledged all that was written.
    ///
    /// # Errors
    /// How it ended, if something was not acknowledged; what ends waits.
    pub fn flush<S: Simt, P: Progress>(
        &mut self,
        simt: &S,
        wait: &Wait,
        progress: &mut P,
    ) -> Result<(), Cause> {
        self.until(simt, wait, progress, |stream, simt| {
            match stream.unacknowledged() {
                0 => Some(Ok(())),
                _ => stream.ended(simt).map(|ended| Err(ended.cause())),
            }
        })
    }

    /// *Collective.* Rings, and looks until `poll` gives something.
    pub(super) fn until<S: Simt, P: Progress, T>(
        &mut self,
        simt: &S,
        wait: &Wait,
        progress: &mut P,
        mut poll: impl FnMut(&Self, &S) -> Option<Result<T, Cause>>,
    ) -> Result<T, Cause> {
        self.ring(simt);
        let wait = guarded(wait, self.heartbeat);
        keep_on(simt, &wait, progress, |_| {
            self.look(simt);
            poll(self, simt)
        })?
    }

    /// *Collective.* What [`Stream::wait_readable`] says now.
    pub(super) fn reads<S: Simt>(&self, simt: &S, least: u32) -> Option<Result<u32, Cause>> {
        let readable = self.readable();
        let least = least.clamp(1, self.most_readable().max(1));
        if readable >= least || readable > 0 && self.is_last() {
            return Some(Ok(readable));
        }
        match self.ended(simt) {
            Some(Ended::Finished) => Some(Ok(0)),
            // The peer said that nothing follows before it was gone.
            Some(_) if self.seen.flags & PEER_CLOSED != 0 => Some(Ok(0)),
            Some(ended) => Some(Err(ended.cause())),
            None => self.is_last().then_some(Ok(0)),
        }
    }

    fn writes<S: Simt>(&self, simt: &S, least: u32) -> Option<Result<u32, Cause>> {
        if let Some(ended) = self.ended(simt) {
            return Some(Err(ended.cause()));
        }
        if self.is_closed() {
            return Some(Err(Cause::LocalQpOperation));
        }
        let writable = self.writable();
        let least = least.clamp(1, self.most_writable().max(1));
        (writable >= least).then_some(Ok(writable))
    }

    /// Whether no more bytes come than are there.
    pub(crate) const fn is_last(&self) -> bool {
        self.seen.flags & (PEER_CLOSED | CLOSED) != 0
    }
}

/// Bytes of a ring, which are a power of two, or 0.
#[inline(always)]
fn bytes(ring: &Area) -> u32 {
    ring.length() as u32
}

/// `length` bytes of a ring from a position on.
#[inline]
fn extent(ring: &Area, position: u32, length: u32) -> Extent<'_> {
    let offset = position & bytes(ring).wrapping_sub(1);
    let first = length.min(bytes(ring).saturating_sub(offset));
    let piece = |offset: u32, length: u32| {
        // Only a ring without bytes has no such piece.
        ring.piece(u64::from(offset), length)
            .unwrap_or(Piece::EMPTY)
    };
    Extent {
        first: piece(offset, first),
        second: piece(0, length - first),
    }
}

fn of_leader<S: Simt>(simt: &S, own: Own) -> Own {
    Own {
        written: simt.shuffle(own.written, 0),
        consumed: simt.shuffle(own.consumed, 0),
        wishes: simt.shuffle(own.wishes, 0),
    }
}
