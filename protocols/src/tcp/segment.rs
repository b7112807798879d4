//! What comes in and goes out: segments without ports and payload, and where payload lies.

use super::state::{Events, Note};
use crate::wire::tcp::{Repr, TcpFlags, TcpSequence};
use crate::wire::tcp_option::Options;

/// A segment that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Number of the first byte, or of SYN.
    pub sequence: TcpSequence,
    /// Number of the next byte that the peer expects.
    pub acknowledgement: TcpSequence,
    /// Flags.
    pub flags: TcpFlags,
    /// Window, not yet scaled.
    pub window: u16,
    /// Options.
    pub options: Options,
    /// Bytes of payload. May be those of several segments of the wire that were joined.
    pub length: u32,
    /// It met congestion on the way (ECN field 3).
    pub is_marked: bool,
}

impl Segment {
    /// A segment of this header and so many bytes of payload.
    pub const fn new(header: &Repr, length: u32, is_marked: bool) -> Self {
        Self {
            sequence: header.sequence,
            acknowledgement: header.acknowledgement,
            flags: header.flags,
            window: header.window,
            options: header.options,
            length,
            is_marked,
        }
    }

    /// Sequence numbers that it takes: payload, SYN and FIN.
    pub fn span(&self) -> u32 {
        let flags = u32::from(self.has(TcpFlags::SYN)) + u32::from(self.has(TcpFlags::FIN));
        self.length.saturating_add(flags)
    }

    pub(super) const fn has(&self, flag: TcpFlags) -> bool {
        self.flags.contains(flag)
    }
}

/// Bytes of a segment's payload that go to the receive ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Stream position of the first byte, modulo 2^32.
    pub at: u32,
    /// Its offset in the payload.
    pub from: u32,
    /// Bytes.
    pub length: u32,
}

/// What came of a segment, in the order in which it is to be done: bytes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivery {
    /// Bytes to be copied.
    pub place: Option<Place>,
    /// Bytes that came into order, and may be read once the copy is done.
    pub readable: u32,
    /// Bytes of the send ring that the peer acknowledged.
    pub freed: u32,
    /// What happened to the connection.
    pub events: Events,
    /// What is to be counted.
    pub note: Option<Note>,
}

/// Bytes of the send ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Payload {
    /// Stream position of the first byte, modulo 2^32.
    pub at: u32,
    /// Bytes.
    pub length: u32,
}

/// A segment to be sent, or a train of segments: payload of more than
/// [`segment_bytes`](Self::segment_bytes) is cut by the NIC, or by [`piece`](Self::piece).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// Number of the first byte.
    pub sequence: TcpSequence,
    /// Number of the next byte expected.
    pub acknowledgement: TcpSequence,
    /// Flags. Of a train: FIN and PSH are the last one's, CWR the first one's.
    pub flags: TcpFlags,
    /// Window, scaled.
    pub window: u16,
    /// Options.
    pub options: Options,
    /// Payload.
    pub payload: Payload,
    /// Payload bytes of a segment of the train; of a segment that is none, the most that it may
    /// have. Not 0.
    pub segment_bytes: u16,
    /// Leaves with ECN field ECT(0), not 0.
    pub is_capable: bool,
}

impl Outgoing {
    /// The header between these ports.
    pub const fn repr(&self, source_port: u16, destination_port: u16) -> Repr {
        Repr {
            source_port,
            destination_port,
            sequence: self.sequence,
            acknowledgement: self.acknowledgement,
            flags: self.flags,
            window: self.window,
            urgent: 0,
            options: self.options,
        }
    }

    /// Segments of the wire: 1 or more.
    pub const fn segments(&self) -> u32 {
        let size = if self.segment_bytes == 0 {
            1
        } else {
            self.segment_bytes
        };
        let count = self.payload.length.div_ceil(size as u32);
        if count == 0 { 1 } else { count }
    }

    /// A segment of the train, by its index.
    pub fn piece(&self, index: u32) -> Option<Self> {
        let size = u32::from(self.segment_bytes.max(1));
        let offset = index.checked_mul(size)?;
        if offset >= self.payload.length && index > 0 {
            return None;
        }
        let left = self.payload.length.saturating_sub(offset);
        let mut piece = *self;
        piece.sequence = self.sequence.wrapping_add(offset);
        piece.payload.at = self.payload.at.wrapping_add(offset);
        piece.payload.length = left.min(size);
        if left > size {
            piece.flags.remove(TcpFlags::FIN | TcpFlags::PSH);
        }
        if index > 0 {
            piece.flags.remove(TcpFlags::CWR);
        }
        Some(piece)
    }
}
