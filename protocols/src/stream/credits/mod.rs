//! A stream of bytes, with credits, over messages that arrive in order and once: over reliable
//! connections of RDMA.
//!
//! Each end has a ring into which its peer writes, and knows how far the peer may write. A
//! [`Carrier`] is one end: it says what is to be written where ([`Post`]) and what is to be told
//! ([`Word`]), and hears what the peer told. Whoever runs it:
//!
//! 1. keeps [`Terms::receives`] receives posted;
//! 2. posts what [`Carrier::poll`] gives, in order, until it gives nothing: a write with the word
//!    as its immediate, a write alone, or a message without bytes that has the word as its
//!    immediate;
//! 3. calls [`Carrier::on_word`] for each immediate that comes, in order, and
//!    [`Carrier::on_complete`] for each post that is complete;
//! 4. copies what is to be sent into [`Carrier::room`] and says [`Carrier::write`]; reads
//!    [`Carrier::unread`] where it lies and says [`Carrier::consume`].
//!
//! Credits are returned when enough was read, not each time; data is told when nothing more can be
//! written now, not by each write; and when the peer was told as much as it can hear, small pieces
//! wait to be written together. Everything that waits, waits for a word which the peer sends
//! without waiting: two ends whose applications read never wait for each other.
//!
//! Invariant: nothing is written beyond what the peer granted, and nothing is told before it was
//! written.
//! Invariant: no more words are under way than the peer has receives for.
//! Invariant: a peer that breaks these rules ends the stream with [`Cause::PROTOCOL`], and nothing
//! else.

mod terms;
mod word;

pub use terms::{Illegal, Inbox, MOST_RING, MOST_WORDS, Terms};
pub use word::{MOST_CREDIT, MOST_DATA, Word};

/// Why a stream ended before its end. Below 256: words of the carrier; from there on, whatever the
/// application means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct Cause(pub u16);

impl Cause {
    /// The peer broke the rules of the carrier.
    pub const PROTOCOL: Self = Self(1);
    /// The connection beneath is gone.
    pub const LOST: Self = Self(2);
    /// Time ran out.
    pub const DEADLINE: Self = Self(3);
}

/// One end of a stream.
///
/// Positions run free in 32 bits, and are masked where a ring is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Carrier {
    terms: Terms,
    /// Of what this end sends: how far the application wrote,
    written: u32,
    /// how far was written into the peer's ring,
    sent: u32,
    /// how far the peer was told so,
    told: u32,
    /// how far writes are complete,
    freed: u32,
    /// and how far the peer allows to write.
    limit: u32,
    /// Of what this end receives: how far the peer told,
    arrived: u32,
    /// how far the application read,
    consumed: u32,
    /// and how far that was returned as credit.
    returned: u32,
    /// Words of data that the peer is not known to have heard.
    unheard: u8,
    /// Words of data that were heard and not returned.
    heard: u8,
    output: Output,
    has_peer_ended: bool,
    fate: Fate,
}

const _: () = assert!(size_of::<Carrier>() <= 128);

/// What this end still sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Output {
    Open,
    /// What was written, then the end.
    Closing,
    Ended,
}

/// How a stream ends before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Running,
    /// This end ended it; the peer is to be told.
    Aborting(Cause),
    /// This end ended it.
    Aborted(Cause),
    AbortedByPeer(Cause),
}

/// How a stream ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Both ends said that nothing follows.
    Closed,
    /// This end gave it up.
    Aborted(Cause),
    /// The peer gave it up.
    AbortedByPeer(Cause),
}

/// A part of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    /// Offset from the start of the ring.
    pub at: u32,
    /// Bytes; they do not go past the end of the ring.
    pub length: u32,
}

/// Bytes to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// Offset in the own send ring.
    pub from: u32,
    /// Offset in the peer's receive ring.
    pub to: u32,
    /// Bytes; they go past the end of neither ring.
    pub length: u32,
}

/// A message to be posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Post {
    /// Bytes that it carries.
    pub write: Option<Write>,
    /// The word that it carries; there is at least one of both.
    pub word: Option<Word>,
}

/// What came of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// So many bytes more can be read.
    Data(u32),
    /// So many bytes more may be sent.
    Credit(u32),
    /// The peer sends nothing more; what was not read can be.
    PeerEnded,
    /// The stream ended before its end: [`Carrier::ending`].
    Aborted,
    /// It came after the end of everything, and changes nothing.
    Ignored,
}

impl Carrier {
    /// An end whose terms were [checked](Terms::check) and are the mirror of the peer's. The first
    /// byte that it sends, and the first that it receives, have position 0.
    pub const fn new(terms: Terms) -> Self {
        Self::starting_at(terms, 0, 0)
    }

    const fn starting_at(terms: Terms, send: u32, receive: u32) -> Self {
        Self {
            terms,
            written: send,
            sent: send,
            told: send,
            freed: send,
            limit: send.wrapping_add(terms.peer.bytes),
            arrived: receive,
            consumed: receive,
            returned: receive,
            unheard: 0,
            heard: 0,
            output: Output::Open,
            has_peer_ended: false,
            fate: Fate::Running,
        }
    }

    /// Bytes that can be written now.
    pub const fn writable(&self) -> u32 {
        match (self.output, self.fate) {
            (Output::Open, Fate::Running) => {
                let held = self.written.wrapping_sub(self.freed);
                self.terms.send_bytes.saturating_sub(held)
            }
            _ => 0,
        }
    }

    /// Where bytes that are to be written go: the free parts of the send ring, in order.
    pub const fn room(&self) -> [Extent; 2] {
        extents(self.written, self.writable(), self.terms.send_bytes)
    }

    /// Sends `bytes` bytes that were put into [`room`](Self::room). Returns how many there were
    /// room for.
    pub const fn write(&mut self, bytes: u32) -> u32 {
        let writable = self.writable();
        let bytes = if bytes < writable { bytes } else { writable };
        self.written = self.written.wrapping_add(bytes);
        bytes
    }

    /// Bytes that can be read now.
    pub const fn readable(&self) -> u32 {
        self.arrived.wrapping_sub(self.consumed)
    }

    /// Where they lie: parts of the receive ring, in order.
    pub const fn unread(&self) -> [Extent; 2] {
        extents(self.consumed, self.readable(), self.terms.own.bytes)
    }

    /// Gives `bytes` bytes back that were read. Returns how many there were.
    pub const fn consume(&mut self, bytes: u32) -> u32 {
        let readable = self.readable();
        let bytes = if bytes < readable { bytes } else { readable };
        self.consumed = self.consumed.wrapping_add(bytes);
        bytes
    }

    /// Everything that the peer sends was read.
    pub const fn is_at_end(&self) -> bool {
        self.has_peer_ended && self.readable() == 0
    }

    /// Nothing is written any more; what was written is sent. The peer may go on.
    pub fn close(&mut self) {
        if self.output == Output::Open {
            self.output = Output::Closing;
        }
    }

    /// Gives the stream up: what was not told is lost, and the peer is told why.
    pub fn abort(&mut self, cause: Cause) {
        if self.ending().is_none() {
            self.fate = Fate::Aborting(cause);
        }
    }

    /// The connection beneath is gone: the peer cannot be told.
    pub fn lose(&mut self) {
        match self.fate {
            Fate::Aborting(cause) => self.fate = Fate::Aborted(cause),
            _ if self.ending().is_none() => self.fate = Fate::Aborted(Cause::LOST),
            _ => {}
        }
    }

    /// How the stream ended, if it did.
    pub fn ending(&self) -> Option<Ending> {
        match self.fate {
            Fate::Aborting(cause) | Fate::Aborted(cause) => Some(Ending::Aborted(cause)),
            Fate::AbortedByPeer(cause) => Some(Ending::AbortedByPeer(cause)),
            Fate::Running if self.output == Output::Ended && self.has_peer_ended => {
                Some(Ending::Closed)
            }
            Fate::Running => None,
        }
    }

    /// The next message, if one is to be posted now.
    pub fn poll(&mut self) -> Option<Post> {
        match self.fate {
            Fate::Running => {}
            Fate::Aborting(cause) => {
                self.fate = Fate::Aborted(cause);
                return Some(Post::word(Word::Abort(cause)));
            }
            Fate::Aborted(_) | Fate::AbortedByPeer(_) => return None,
        }
        if let Some(word) = self.credit() {
            return Some(Post::word(word));
        }
        if let Some(write) = self.next_write() {
            self.sent = self.sent.wrapping_add(write.length);
            let more = self.sendable() != 0 && self.untold() < self.terms.peer.due_bytes();
            return Some(Post {
                write: Some(write),
                word: if more { None } else { self.tell() },
            });
        }
        if self.untold() != 0 {
            return self.tell().map(Post::word);
        }
        if self.output == Output::Closing && self.sent == self.written {
            self.output = Output::Ended;
            let position = self.sent & word::LOW;
            return Some(Post::word(Word::End { position }));
        }
        None
    }

    /// Bytes that were written by the application and that the peer has room for.
    const fn sendable(&self) -> u32 {
        let waiting = self.written.wrapping_sub(self.sent);
        let credit = self.limit.wrapping_sub(self.sent);
        if waiting < credit { waiting } else { credit }
    }

    /// Bytes that the peer was not told of.
    const fn untold(&self) -> u32 {
        self.sent.wrapping_sub(self.told)
    }

    const fn may_tell(&self) -> bool {
        (self.unheard as u32) < self.terms.peer.words
    }

    fn next_write(&self) -> Option<Write> {
        let sendable = self.sendable();
        let from = extents(self.sent, sendable, self.terms.send_bytes)[0];
        let to = extents(self.sent, sendable, self.terms.peer.bytes)[0];
        let length = from.length.min(to.length).min(self.terms.write_bytes);
        // What cannot be told yet is not worth a message unless it is a full one.
        let waits = !self.may_tell() && length < self.terms.write_bytes;
        if length == 0 || waits {
            return None;
        }
        Some(Write {
            from: from.at,
            to: to.at,
            length,
        })
    }

    /// Tells the peer of what was sent, if it can hear it.
    fn tell(&mut self) -> Option<Word> {
        if !self.may_tell() {
            return None;
        }
        let bytes = self.untold().min(MOST_DATA);
        self.told = self.told.wrapping_add(bytes);
        self.unheard += 1;
        Some(Word::Data { bytes })
    }

    /// The credit that is to be returned now. A peer that sends nothing more needs none.
    fn credit(&mut self) -> Option<Word> {
        let bytes = self.consumed.wrapping_sub(self.returned);
        let own = &self.terms.own;
        let is_due = bytes >= own.due_bytes() || u32::from(self.heard) >= own.due_words();
        if self.has_peer_ended || !is_due {
            return None;
        }
        let bytes = bytes.min(MOST_CREDIT);
        self.returned = self.returned.wrapping_add(bytes);
        let words = core::mem::take(&mut self.heard);
        Some(Word::Credit { words, bytes })
    }

    /// A post that carried so many bytes is complete: they are not needed any more. Posts complete
    /// in order.
    pub fn on_complete(&mut self, bytes: u32) {
        let under_way = self.sent.wrapping_sub(self.freed);
        self.freed = self.freed.wrapping_add(bytes.min(under_way));
    }

    /// Hears a word: an immediate, as it came.
    pub fn on_word(&mut self, value: u32) -> Event {
        if !matches!(self.fate, Fate::Running) {
            return Event::Ignored;
        }
        let event = match Word::from_value(value) {
            Some(Word::Data { bytes }) => self.on_data(bytes),
            Some(Word::Credit { words, bytes }) => self.on_credit(words, bytes),
            Some(Word::End { position }) => self.on_end(position),
            Some(Word::Abort(cause)) => {
                self.fate = Fate::AbortedByPeer(cause);
                Some(Event::Aborted)
            }
            None => None,
        };
        event.unwrap_or_else(|| {
            self.fate = Fate::Aborting(Cause::PROTOCOL);
            Event::Aborted
        })
    }

    /// `None` if the peer wrote or told more than it may.
    fn on_data(&mut self, bytes: u32) -> Option<Event> {
        let held = self.arrived.wrapping_sub(self.returned);
        let room = self.terms.own.bytes.checked_sub(held)?;
        let is_right = bytes != 0
            && bytes <= room
            && u32::from(self.heard) < self.terms.own.words
            && !self.has_peer_ended;
        if !is_right {
            return None;
        }
        self.heard += 1;
        self.arrived = self.arrived.wrapping_add(bytes);
        Some(Event::Data(bytes))
    }

    /// `None` if the peer returns what it was not told.
    fn on_credit(&mut self, words: u8, bytes: u32) -> Option<Event> {
        let returned = self.limit.wrapping_sub(self.terms.peer.bytes);
        let left = self.unheard.checked_sub(words)?;
        if bytes > self.told.wrapping_sub(returned) {
            return None;
        }
        self.unheard = left;
        self.limit = self.limit.wrapping_add(bytes);
        Some(Event::Credit(bytes))
    }

    /// `None` if the end is not where the data ended, or was there before.
    fn on_end(&mut self, position: u32) -> Option<Event> {
        if position != self.arrived & word::LOW || self.has_peer_ended {
            return None;
        }
        self.has_peer_ended = true;
        Some(Event::PeerEnded)
    }
}

impl Post {
    const fn word(word: Word) -> Self {
        Self {
            write: None,
            word: Some(word),
        }
    }

    /// Bytes that it carries.
    pub const fn bytes(&self) -> u32 {
        match self.write {
            Some(write) => write.length,
            None => 0,
        }
    }
}

/// `length` bytes from a position on, in a ring of `bytes`, which is a power of two.
const fn extents(position: u32, length: u32, bytes: u32) -> [Extent; 2] {
    let at = position & bytes.wrapping_sub(1);
    let before = bytes.saturating_sub(at);
    let first = if length < before { length } else { before };
    let second = length - first;
    [
        Extent { at, length: first },
        Extent {
            at: 0,
            length: second,
        },
    ]
}

#[cfg(test)]
mod tests;
