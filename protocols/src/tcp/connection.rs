//! A connection: what is kept of it, how it begins, and what the application does with it.

use super::config::Config;
use super::cookie::Established;
use super::initial::Initial;
use super::segment::{Delivery, Outgoing, Segment};
use super::state::{Cause, Events, State};
use super::statistics::Statistics;
use crate::wire::tcp::TcpSequence;

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(128))]
pub struct Connection {
    state: State,
    cause: Option<Cause>,
}

impl Connection {
    /// Opens: SYN is the first thing to be sent.
    pub fn connect(_config: &Config, _initial: Initial, _now_ns: u64) -> Self {
        Self {
            state: State::SynSent,
            cause: None,
        }
    }

    /// Answers a SYN that a [`Listener`](super::Listener) let in.
    pub fn answer(_config: &Config, _initial: Initial, _syn: &Segment, _now_ns: u64) -> Self {
        Self {
            state: State::SynReceived,
            cause: None,
        }
    }

    /// Goes on after a handshake of which a cookie told. The segment that brought the cookie is to
    /// be handed to [`on_segment`](Self::on_segment) next, which makes it established.
    pub fn established(_config: &Config, _handshake: &Established, _now_ns: u64) -> Self {
        Self {
            state: State::SynReceived,
            cause: None,
        }
    }

    /// Takes a segment that arrived. RFC 9293 section 3.10.7.
    pub fn on_segment(&mut self, _now_ns: u64, _segment: &Segment, _config: &Config) -> Delivery {
        Delivery::default()
    }

    /// The next segment, if one may be sent now. Data of up to `most_bytes` in one train of
    /// segments, if that is more than a segment holds; else one segment.
    pub fn poll(&mut self, _now_ns: u64, _config: &Config, _most_bytes: u32) -> Option<Outgoing> {
        None
    }

    /// Looks at the clock.
    pub fn on_timer(&mut self, _now_ns: u64, _config: &Config) -> Events {
        Events::empty()
    }

    /// When [`on_timer`](Self::on_timer) and then [`poll`](Self::poll) want to be called at the
    /// latest; `None` if only a segment or the application can change anything.
    pub fn timeout_ns(&self) -> Option<u64> {
        None
    }

    /// The application put so many bytes into the send ring, behind those before. Says how many
    /// of them are taken: [`writable`](Self::writable) at most.
    pub fn write(&mut self, _bytes: u32) -> u32 {
        0
    }

    /// The application is done with so many readable bytes.
    pub fn consume(&mut self, _bytes: u32) {}

    /// The application writes no more: FIN follows what was written. Reading goes on.
    pub fn close(&mut self) {}

    /// The application gives up: the peer is told by RST at the next [`poll`](Self::poll), and the
    /// connection is closed at once. [`Events::CLOSED`] is not told.
    pub fn abort(&mut self) {}

    /// The network said that a segment of this number found no way (ICMP destination unreachable).
    /// Ends a connection that is being opened; RFC 5927 section 5.2 makes the others go on.
    pub fn on_unreachable(&mut self, _sequence: TcpSequence) -> Events {
        Events::empty()
    }

    /// The network said that a segment of this number was longer than the `mtu` of a link, in bytes
    /// with IP header. What is under way is cut anew and repeated; a number that is not under way
    /// changes nothing (RFC 5927 section 7).
    pub fn on_too_big(&mut self, _sequence: TcpSequence, _mtu: u16, _config: &Config) {}

    /// Its state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Why it is over.
    pub const fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// Bytes that came in order and were not consumed.
    pub const fn readable(&self) -> u32 {
        0
    }

    /// Bytes that can be written now; 0 once the application closed.
    pub const fn writable(&self) -> u32 {
        0
    }

    /// Stream position of the first readable byte, modulo 2^32.
    pub const fn read_position(&self) -> u32 {
        0
    }

    /// Stream position of the next byte to be written, modulo 2^32.
    pub const fn write_position(&self) -> u32 {
        0
    }

    /// Whether the peer sends no more: what is readable is all.
    pub const fn is_peer_closed(&self) -> bool {
        false
    }

    /// Bytes that were written and not acknowledged.
    pub const fn unacknowledged(&self) -> u32 {
        0
    }

    /// Its figures.
    pub fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}
