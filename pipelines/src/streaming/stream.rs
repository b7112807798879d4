//! Streams: two rings of bytes, and words that say how far they are filled and read.
#![expect(
    unsafe_code,
    reason = "bytes of rings are lent where the engine leaves them alone"
)]

use std::mem::offset_of;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use warpwire_engine::streams::tables::{
    ABORT, CLOSE, CLOSED, CONNECTED, Figures, PEER_CLOSED, RELEASE, StreamWords,
};
use warpwire_protocols::tcp::{Cause, State, Tuple};

use super::endpoint::Shared;
use super::error::Error;
use super::places::GENERATION;

/// A connection. Dropping it closes it: what was written is still sent; if bytes were not read, the
/// peer is told by a reset that they were lost.
pub struct Stream {
    pub(super) shared: Arc<Shared>,
    place: u32,
    receive: Ring,
    send: Ring,
    /// Positions: what was consumed, and what was written.
    consumed: u32,
    written: u32,
    /// Bytes: those that were consumed, and those that were written.
    moved: (u64, u64),
    wishes: u32,
    local: SocketAddr,
    peer: SocketAddr,
    /// Device code has it: nothing is said when this value goes.
    pub(super) is_lent: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ring {
    at: u64,
    bytes: u32,
}

impl Ring {
    /// Where `length` bytes from a stream position on lie: one piece, or two.
    fn pieces(self, position: u32, length: u32) -> [(u64, usize); 2] {
        let offset = position & self.bytes.saturating_sub(1);
        let first = length.min(self.bytes - offset);
        [
            (self.at + u64::from(offset), first as usize),
            (self.at, (length - first) as usize),
        ]
    }
}

impl Stream {
    /// The stream of a place, which nobody else has.
    pub(super) fn new(shared: &Arc<Shared>, place: u32, generation: u32) -> Result<Self, Error> {
        let there = shared.table.word(place, GENERATION)?;
        // pairs with: the engine's release of a connection that begins.
        let there = there.load(Ordering::Acquire);
        debug_assert_eq!(there, generation, "nobody else gave it back");
        Self::of(shared, place)
    }

    /// A look at the stream of a place, which device code has. `None` if it is another one.
    pub(super) fn glimpse(
        shared: &Arc<Shared>,
        place: u32,
        generation: u32,
    ) -> Result<Option<Self>, Error> {
        let mut stream = Self::of(shared, place)?;
        stream.is_lent = true;
        Ok((stream.generation()? == generation).then_some(stream))
    }

    /// Which stream of its place it is.
    pub(super) fn generation(&self) -> Result<u32, Error> {
        // pairs with: the engine's release of a connection that begins.
        Ok(self.word(GENERATION)?.load(Ordering::Acquire))
    }

    fn of(shared: &Arc<Shared>, place: u32) -> Result<Self, Error> {
        let tuple: [u8; size_of::<Tuple>()] = shared.table.bytes(place, TUPLE)?;
        let (local, peer) = ends(&tuple);
        let mut stream = Self {
            shared: Arc::clone(shared),
            place,
            receive: Ring::default(),
            send: Ring::default(),
            consumed: 0,
            written: 0,
            moved: (0, 0),
            wishes: 0,
            local,
            peer,
            is_lent: false,
        };
        stream.find_rings()?;
        Ok(stream)
    }

    /// Its number among those of [`super::News`]: no other stream of the endpoint has it meanwhile.
    pub const fn number(&self) -> u32 {
        self.place
    }

    /// The address and port here.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// The address and port there.
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Bytes that came and were not consumed, in the order of the stream: two pieces where the
    /// ring's end lies between, else the second is empty. Both are empty while nothing is there,
    /// and at the end, see [`Stream::is_at_end`].
    ///
    /// # Errors
    /// [`Error::Over`] once the connection broke and all that came before is consumed.
    pub fn peek(&self) -> Result<[&[u8]; 2], Error> {
        let readable = self.readable()?;
        if readable == 0 {
            self.broken()?;
        }
        let pieces = self.receive.pieces(self.consumed, readable);
        Ok(pieces.map(|(at, length)| match length {
            0 => &[][..],
            // SAFETY: bytes of the ring that came and were not consumed: the engine writes none of
            // them before `consume`, which needs the stream mutably; the stream holds the memory,
            // and the place until it is dropped.
            _ => unsafe { std::slice::from_raw_parts(at as *const u8, length) },
        }))
    }

    /// Gives the first `count` of the bytes that came back to the engine, or all if they are less.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn consume(&mut self, count: usize) -> Result<(), Error> {
        let readable = self.readable()?;
        let count = u32::try_from(count).map_or(readable, |count| count.min(readable));
        if count == 0 {
            return Ok(());
        }
        self.consumed = self.consumed.wrapping_add(count);
        self.moved.0 += u64::from(count);
        // pairs with: the engine's acquire before it writes there again.
        self.word(CONSUMED)?.store(self.consumed, Ordering::Release);
        self.ask();
        Ok(())
    }

    /// Whether the peer closed and everything that it sent is consumed.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn is_at_end(&self) -> Result<bool, Error> {
        let flags = self.flags()?;
        Ok(flags & (PEER_CLOSED | CLOSED) != 0 && self.readable()? == 0)
    }

    /// Waits for bytes and copies as many as there are and fit; 0 at the end of the stream.
    ///
    /// # Errors
    /// [`Error::Over`] if the connection broke, [`Error::Deadline`], [`Error::Ended`].
    pub fn read(&mut self, into: &mut [u8], patience: Duration) -> Result<usize, Error> {
        if into.is_empty() {
            return Ok(0);
        }
        let shared = Arc::clone(&self.shared);
        shared.wait("nothing came", patience, || {
            let is_at_end = self.is_at_end()?;
            let mut count = 0;
            for piece in self.peek()? {
                let (_, rest) = into.split_at_mut(count);
                let here = piece.len().min(rest.len());
                if let (Some(to), Some(from)) = (rest.get_mut(..here), piece.get(..here)) {
                    to.copy_from_slice(from);
                    count += here;
                }
            }
            self.consume(count)?;
            Ok((count > 0 || is_at_end).then_some(count))
        })
    }

    /// Room for bytes to be written, in the order of the stream; see [`Stream::commit`].
    ///
    /// # Errors
    /// [`Error::Over`] once the connection is over, [`Error::Closed`] after [`Stream::close`].
    pub fn room(&mut self) -> Result<[&mut [u8]; 2], Error> {
        let room = self.writable()?;
        let [first, second] = self.send.pieces(self.written, room);
        // SAFETY: bytes of the ring that were acknowledged or never written: the engine reads none
        // of them before `commit`; the stream is borrowed mutably, and holds memory and place.
        let first = unsafe { lend(first) };
        // SAFETY: as above; the two pieces do not overlap, as there is no more room than bytes.
        let second = unsafe { lend(second) };
        Ok([first, second])
    }

    /// Hands the first `count` bytes of the room to the engine, or all if it is less.
    ///
    /// # Errors
    /// As [`Stream::room`].
    pub fn commit(&mut self, count: usize) -> Result<(), Error> {
        let room = self.writable()?;
        let count = u32::try_from(count).map_or(room, |count| count.min(room));
        if count == 0 {
            return Ok(());
        }
        self.written = self.written.wrapping_add(count);
        self.moved.1 += u64::from(count);
        // pairs with: the engine's acquire before it reads the bytes.
        self.word(WRITTEN)?.store(self.written, Ordering::Release);
        self.ask();
        Ok(())
    }

    /// Writes as many bytes as there is room for; how many these are.
    ///
    /// # Errors
    /// As [`Stream::room`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let mut count = 0;
        for piece in self.room()? {
            let rest = bytes.get(count..).unwrap_or_default();
            let here = rest.len().min(piece.len());
            if let (Some(to), Some(from)) = (piece.get_mut(..here), rest.get(..here)) {
                to.copy_from_slice(from);
                count += here;
            }
        }
        self.commit(count)?;
        Ok(count)
    }

    /// Writes back what came, as far as there is room; how many bytes these are.
    ///
    /// # Errors
    /// As [`Stream::peek`] and [`Stream::room`].
    pub fn reflect(&mut self) -> Result<usize, Error> {
        let mut count = 0;
        // Two pieces here and two there have three ends in the middle at most.
        for _ in 0..4 {
            let came = self.peek()?;
            let piece = came.into_iter().find(|piece| !piece.is_empty());
            let Some(piece) = piece.map(<[u8]>::as_ptr_range) else {
                break;
            };
            let length = (piece.end as usize) - (piece.start as usize);
            // SAFETY: the piece that was lent, which stays until it is consumed below; the room
            // that is written meanwhile lies in another ring.
            let piece = unsafe { std::slice::from_raw_parts(piece.start, length) };
            let written = self.write(piece)?;
            self.consume(written)?;
            count += written;
            if written < length {
                break;
            }
        }
        Ok(count)
    }

    /// Writes all bytes, waiting for room.
    ///
    /// # Errors
    /// As [`Stream::room`]; [`Error::Deadline`] if there is no room for so long, [`Error::Ended`].
    pub fn write_all(&mut self, bytes: &[u8], patience: Duration) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = shared.wait("the peer took nothing", patience, || {
                let count = self.write(rest)?;
                Ok((count > 0).then_some(count))
            })?;
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// Waits until the peer acknowledged all that was written.
    ///
    /// # Errors
    /// [`Error::Over`], [`Error::Deadline`], [`Error::Ended`].
    pub fn flush(&self, patience: Duration) -> Result<(), Error> {
        self.shared
            .wait("the peer did not acknowledge", patience, || {
                Ok(self.is_flushed()?.then_some(()))
            })
    }

    /// Whether the peer acknowledged all that was written.
    ///
    /// # Errors
    /// [`Error::Over`] if it never will.
    pub fn is_flushed(&self) -> Result<bool, Error> {
        let is_through = self.unacknowledged()? == 0;
        if !is_through {
            self.broken()?;
        }
        Ok(is_through)
    }

    /// Bytes that were written and not acknowledged.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn unacknowledged(&self) -> Result<u32, Error> {
        // pairs with: the engine's release after it read the bytes for the last time.
        let freed = self.word(FREED)?.load(Ordering::Acquire);
        Ok(self.written.wrapping_sub(freed))
    }

    /// Writes no more: the end of the stream follows what was written. Reading goes on.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn close(&mut self) -> Result<(), Error> {
        self.wish(CLOSE)
    }

    /// Closes, and waits until the peer acknowledged everything and the end.
    ///
    /// # Errors
    /// [`Error::Over`] if the connection broke before, [`Error::Deadline`], [`Error::Ended`].
    pub fn finish(&mut self, patience: Duration) -> Result<(), Error> {
        self.close()?;
        let what = "the peer did not acknowledge the end";
        self.shared.wait(what, patience, || {
            self.broken()?;
            let is_through = matches!(
                self.state()?,
                State::FinWait2 | State::TimeWait | State::Closed
            );
            Ok(is_through.then_some(()))
        })
    }

    /// Gives up: the peer is told by a reset.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn abort(mut self) -> Result<(), Error> {
        self.wish(ABORT)
    }

    /// Whether it is over, both ways.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn is_over(&self) -> Result<bool, Error> {
        Ok(self.flags()? & CLOSED != 0)
    }

    /// The state of the protocol.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn state(&self) -> Result<State, Error> {
        let number = self.word(STATE)?.load(Ordering::Acquire);
        let state = STATES.iter().find(|state| **state as u32 == number);
        Ok(state.copied().unwrap_or(State::Closed))
    }

    /// Once it is over, of a stream over messages: how its queue pair failed, if it did.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn beneath(&self) -> Result<Option<warpwire_ring::Cause>, Error> {
        // pairs with: the carrier's release of flags, after all other words.
        let is_over = self.is_over()?;
        let number = self.word(BENEATH)?.load(Ordering::Relaxed);
        Ok(warpwire_ring::Cause::from_number(number).filter(|_| is_over))
    }

    /// Bytes that were consumed, and bytes that were written, since it began.
    pub const fn moved(&self) -> (u64, u64) {
        self.moved
    }

    /// Figures, not a millisecond older than the last call: who wants those of now calls twice,
    /// with a step of the engine between.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn figures(&self) -> Result<Figures, Error> {
        self.ask();
        let mut figures = Figures::default();
        macro_rules! read {
            ($($field:ident)*) => {
                $(figures.$field = {
                    let offset = offset_of!(StreamWords, figures) + offset_of!(Figures, $field);
                    self.word(offset)?.load(Ordering::Relaxed)
                };)*
            };
        }
        read!(srtt_us rttvar_us cwnd ssthresh in_flight retransmits timeouts recoveries);
        read!(out_of_order reordered);
        Ok(figures)
    }

    /// Waits until an opened connection is there.
    pub(super) fn wait_connected(&mut self, patience: Duration) -> Result<(), Error> {
        let waited = self.shared.wait("the peer did not answer", patience, || {
            Ok(self.is_connected()?.then_some(()))
        });
        if waited.is_err() {
            self.wish(ABORT)?;
        }
        self.find_rings()?;
        waited
    }

    /// Whether an opened connection is there.
    pub(super) fn is_connected(&self) -> Result<bool, Error> {
        let flags = self.flags()?;
        if flags & CONNECTED == 0 {
            self.broken()?;
        }
        Ok(flags & CONNECTED != 0)
    }

    pub(super) fn find_rings(&mut self) -> Result<(), Error> {
        // pairs with: the engine's release of what goes with `CONNECTED`.
        if self.flags()? & CONNECTED == 0 {
            return Ok(());
        }
        let ring = |at, bytes| {
            Ok::<_, Error>(Ring {
                at: self
                    .shared
                    .table
                    .long(self.place, at)?
                    .load(Ordering::Relaxed),
                bytes: self.word(bytes)?.load(Ordering::Relaxed),
            })
        };
        let receive = ring(RECEIVE_RING, RECEIVE_BYTES)?;
        let send = ring(SEND_RING, SEND_BYTES)?;
        self.receive = receive;
        self.send = send;
        Ok(())
    }

    fn readable(&self) -> Result<u32, Error> {
        // pairs with: the engine's release after it wrote the bytes.
        let readable = self.word(READABLE)?.load(Ordering::Acquire);
        Ok(readable.wrapping_sub(self.consumed).min(self.receive.bytes))
    }

    fn writable(&self) -> Result<u32, Error> {
        if self.flags()? & CLOSED != 0 {
            return Err(self.over(self.cause()?));
        }
        if self.wishes & (CLOSE | ABORT) != 0 {
            return Err(Error::Closed { peer: self.peer });
        }
        Ok(self.send.bytes.saturating_sub(self.unacknowledged()?))
    }

    /// An error if the connection is over otherwise than by both ends closing.
    fn broken(&self) -> Result<(), Error> {
        if self.flags()? & CLOSED == 0 {
            return Ok(());
        }
        match self.cause()? {
            Cause::Finished => Ok(()),
            cause => Err(self.over(cause)),
        }
    }

    const fn over(&self, cause: Cause) -> Error {
        Error::Over {
            peer: self.peer,
            cause,
        }
    }

    fn cause(&self) -> Result<Cause, Error> {
        let number = self.word(CAUSE)?.load(Ordering::Relaxed);
        let cause = CAUSES.iter().find(|cause| **cause as u32 + 1 == number);
        Ok(cause.copied().unwrap_or(Cause::Finished))
    }

    fn flags(&self) -> Result<u32, Error> {
        // pairs with: the engine's release of flags, after all other words.
        Ok(self.word(FLAGS)?.load(Ordering::Acquire))
    }

    fn wish(&mut self, wishes: u32) -> Result<(), Error> {
        self.wishes |= wishes;
        // pairs with: the engine's acquire; positions were stored before.
        self.word(WISHES)?.store(self.wishes, Ordering::Release);
        self.ask();
        Ok(())
    }

    fn ask(&self) {
        self.shared.table.ask(self.place);
    }

    fn word(&self, offset: usize) -> Result<&AtomicU32, Error> {
        Ok(self.shared.table.word(self.place, offset)?)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.is_lent {
            // There is nobody to tell if the words are not there; then the stream is not either.
            let _ = self.wish(CLOSE | RELEASE);
        }
    }
}

/// # Safety
/// The bytes are live, and nobody else reads or writes them for the time that the caller says.
unsafe fn lend<'a>((at, length): (u64, usize)) -> &'a mut [u8] {
    match length {
        0 => &mut [],
        // SAFETY: passed on.
        _ => unsafe { std::slice::from_raw_parts_mut(at as *mut u8, length) },
    }
}

/// Both ends, as they lie in memory.
fn ends(tuple: &[u8; size_of::<Tuple>()]) -> (SocketAddr, SocketAddr) {
    let address = |offset: usize| {
        let bytes = tuple.get(offset..offset + 16);
        let bytes = bytes.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
        let six = Ipv6Addr::from(bytes.unwrap_or_default());
        six.to_ipv4_mapped().map_or(IpAddr::V6(six), IpAddr::V4)
    };
    let port = |offset: usize| {
        let bytes = tuple.get(offset..offset + 2);
        let bytes = bytes.and_then(|bytes| <[u8; 2]>::try_from(bytes).ok());
        u16::from_ne_bytes(bytes.unwrap_or_default())
    };
    let local = (
        address(offset_of!(Tuple, local)),
        port(offset_of!(Tuple, local_port)),
    );
    let peer = (
        address(offset_of!(Tuple, remote)),
        port(offset_of!(Tuple, remote_port)),
    );
    (local.into(), peer.into())
}

const WRITTEN: usize = offset_of!(StreamWords, written);
const CONSUMED: usize = offset_of!(StreamWords, consumed);
const WISHES: usize = offset_of!(StreamWords, wishes);
const READABLE: usize = offset_of!(StreamWords, readable);
const FREED: usize = offset_of!(StreamWords, freed);
const FLAGS: usize = offset_of!(StreamWords, flags);
const STATE: usize = offset_of!(StreamWords, state);
const CAUSE: usize = offset_of!(StreamWords, cause);
const TUPLE: usize = offset_of!(StreamWords, tuple);
const BENEATH: usize = offset_of!(StreamWords, beneath);
const RECEIVE_RING: usize = offset_of!(StreamWords, receive_ring);
const RECEIVE_BYTES: usize = offset_of!(StreamWords, receive_bytes);
const SEND_RING: usize = offset_of!(StreamWords, send_ring);
const SEND_BYTES: usize = offset_of!(StreamWords, send_bytes);

const STATES: [State; 10] = [
    State::Closed,
    State::SynSent,
    State::SynReceived,
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::Closing,
    State::LastAck,
    State::TimeWait,
];

const CAUSES: [Cause; 6] = [
    Cause::Finished,
    Cause::Reset,
    Cause::Refused,
    Cause::TimedOut,
    Cause::Aborted,
    Cause::Unreachable,
];
