//! States of a connection, how it ends, and what is counted.

use bitflags::bitflags;
use core::fmt;

/// The states of RFC 9293 section 3.3.2, without LISTEN: a [`Listener`](super::Listener) is no
/// connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum State {
    /// No connection any more; the value may be dropped.
    #[default]
    Closed,
    /// SYN was sent.
    SynSent,
    /// SYN came and went, the peer's acknowledgement did not come.
    SynReceived,
    /// Data flows both ways.
    Established,
    /// We closed; FIN is to be acknowledged.
    FinWait1,
    /// We closed; the peer did not.
    FinWait2,
    /// The peer closed; we did not.
    CloseWait,
    /// Both closed at once; our FIN is to be acknowledged.
    Closing,
    /// The peer closed, then we did; our FIN is to be acknowledged.
    LastAck,
    /// Both closed; old segments are waited for.
    TimeWait,
}

impl State {
    /// Whether both ends know each other's first number.
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::Closed | Self::SynSent | Self::SynReceived)
    }

    /// Whether bytes of the peer may still come.
    pub const fn receives(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}

bitflags! {
    /// What happened to a connection, several things at a time.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    #[repr(transparent)]
    pub struct Events: u8 {
        /// It is established.
        const CONNECTED = 1;
        /// The peer sends no more: what is readable is all.
        const PEER_CLOSED = 2;
        /// It is over; [`Connection::cause`](super::Connection::cause) says why.
        const CLOSED = 4;
    }
}

/// Why a connection is over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Cause {
    /// Both ends closed, and all was acknowledged.
    Finished,
    /// The peer reset it.
    Reset,
    /// The peer refused it.
    Refused,
    /// The peer did not answer in time.
    TimedOut,
    /// It was aborted at this end.
    Aborted,
    /// The network says that there is no way to the peer.
    Unreachable,
}

impl Cause {
    /// A sentence without its end.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Finished => "both ends closed",
            Self::Reset => "the peer reset the connection",
            Self::Refused => "the peer refused the connection",
            Self::TimedOut => "the peer did not answer in time",
            Self::Aborted => "aborted at this end",
            Self::Unreachable => "there is no way to the peer",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.explanation())
    }
}

/// What is to be counted of a segment, in whole or in part, that was not simply taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Note {
    /// Bytes that are held already.
    Duplicate,
    /// Bytes after a gap.
    OutOfOrder,
    /// Outside the window.
    OutsideWindow,
    /// Bytes that do not fit: the ring or the list of ranges is full.
    NoRoom,
    /// An acknowledgement of what was not sent, or too old.
    BadAcknowledgement,
    /// Its timestamp is old (RFC 7323 section 5).
    OldTimestamp,
    /// It has no timestamp, though they were agreed.
    NoTimestamp,
    /// RST or SYN that was not believed (RFC 5961).
    Challenged,
    /// It has neither ACK nor anything else that the state takes.
    Unexpected,
    /// It met congestion.
    Marked,
    /// An acknowledgement that says nothing new, while data is under way.
    DuplicateAcknowledgement,
    /// A SYN for a connection that lingers in TIME-WAIT ended it: hand it to the listener.
    NewIncarnation,
    /// Bytes for a connection that takes none any more.
    NotReceiving,
}
