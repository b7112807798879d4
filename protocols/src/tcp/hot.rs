//! What is kept of a connection: what every segment touches, and what few do.

use super::control::Control;
use super::reassembly::Reassembly;
use super::round_trip::RoundTrip;
use super::scoreboard::Scoreboard;
use super::state::{Cause, State};
use crate::wire::tcp::TcpSequence;
use crate::wire::tcp_option::SackBlock;
use bitflags::bitflags;

/// What every segment touches. Times are 0 for never.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct Hot {
    /// When to repeat or, with [`Flags::PERSIST`], to probe the peer's window.
    pub(super) timer_ns: u64,
    /// When to probe for a lost tail.
    pub(super) probe_ns: u64,
    /// When the acknowledgement may wait no longer.
    pub(super) ack_ns: u64,
    /// The end of TIME-WAIT, or the next probe of an idle peer.
    pub(super) slow_ns: u64,
    /// When the peer is given up.
    pub(super) give_up_ns: u64,
    /// When a segment was last taken.
    pub(super) heard_ns: u64,
    /// When data was last sent.
    pub(super) sent_ns: u64,
    /// When the segment left whose acknowledgement is timed.
    pub(super) timed_ns: u64,
    pub(super) trip: RoundTrip,
    pub(super) control: Control,

    /// The oldest number that is not acknowledged.
    pub(super) una: TcpSequence,
    /// The next number that was never sent.
    pub(super) nxt: TcpSequence,
    /// The number behind what was written: FIN's.
    pub(super) write_end: TcpSequence,
    /// Our SYN's number.
    pub(super) iss: TcpSequence,
    /// The peer's window in bytes, from una on.
    pub(super) window: u32,
    /// The largest that it was.
    pub(super) max_window: u32,
    /// Sequence number of the segment that told the window.
    pub(super) wl1: TcpSequence,
    /// Its acknowledgement number.
    pub(super) wl2: TcpSequence,
    /// What is before it and missing at the peer is lost.
    pub(super) lost_to: TcpSequence,
    /// Recovery is over when this is acknowledged.
    pub(super) recover: TcpSequence,
    /// Marks say nothing new before this is acknowledged.
    pub(super) reduced_to: TcpSequence,
    /// The acknowledgement that is timed.
    pub(super) timed_end: TcpSequence,
    /// Acknowledgements in a row that said nothing new.
    pub(super) duplicates: u32,

    /// The peer's SYN's number.
    pub(super) irs: TcpSequence,
    /// The next number expected.
    pub(super) rcv_nxt: TcpSequence,
    /// The first number that the application did not consume.
    pub(super) consumed: TcpSequence,
    /// The right edge of the window that the peer knows.
    pub(super) edge: TcpSequence,
    /// What was acknowledged last.
    pub(super) acknowledged: TcpSequence,
    /// The peer's timestamp to be echoed.
    pub(super) ts_recent: u32,
    /// Is added to our clock.
    pub(super) ts_offset: u32,

    pub(super) flags: Flags,
    /// Payload of a segment without options, in bytes.
    pub(super) segment_bytes: u16,
    pub(super) state: State,
    pub(super) phase: Phase,
    pub(super) cause: Option<Cause>,
    /// Segments that may overtake another one without its being lost.
    pub(super) tolerance: u8,
    /// How far the peer's windows are shifted.
    pub(super) their_shift: u8,
    /// How far ours are.
    pub(super) our_shift: u8,
    /// Binary logarithm of the bytes of the send ring.
    pub(super) send_bits: u8,
    /// The same of the receive ring.
    pub(super) receive_bits: u8,
    /// Segments that came since the last acknowledgement.
    pub(super) pending: u8,
}

impl Hot {
    /// Whether the handshake is under way.
    pub(super) const fn is_opening(&self) -> bool {
        matches!(self.state, State::SynSent | State::SynReceived)
    }
}

/// What few segments touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(super) struct Cold {
    pub(super) board: Scoreboard,
    pub(super) reassembly: Reassembly,
    /// The number of the peer's FIN, if that came before its turn.
    pub(super) fin: TcpSequence,
    /// What was sent before the tail was probed.
    pub(super) tail_end: TcpSequence,
    /// The number of a RST that answers a stray segment.
    pub(super) stray: TcpSequence,
    /// Bytes that came twice, to be told (RFC 2883).
    pub(super) twice: SackBlock,
    pub(super) challenges: Budget,
    pub(super) answers: Budget,
    pub(super) counts: Counts,
    /// Probes of an idle peer that it did not answer.
    pub(super) idle_probes: u8,
}

/// Limits how often something is done: ten times in 5 seconds. RFC 5961 section 7.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(super) struct Budget {
    /// Where the time began, in units of 2^20 ns, modulo 2^16: 69 seconds.
    start: u16,
    spent: u8,
}

impl Budget {
    /// Whether it may be done once more.
    pub(super) fn spend(&mut self, now_ns: u64) -> bool {
        let now = (now_ns >> 20) as u16;
        if self.spent == 0 || now.wrapping_sub(self.start) >= BUDGET_TIME {
            self.start = now;
            self.spent = 0;
        }
        if self.spent >= BUDGET {
            return false;
        }
        self.spent += 1;
        true
    }
}

/// Counters, the rare ones up to 65535; see [`Statistics`](super::Statistics).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(super) struct Counts {
    pub(super) retransmits: u32,
    pub(super) recoveries: u32,
    pub(super) marks: u32,
    pub(super) out_of_order: u32,
    pub(super) duplicate_acks: u32,
    pub(super) timeouts: u16,
    pub(super) tail_probes: u16,
    pub(super) lost_repetitions: u16,
    pub(super) reordered: u16,
    pub(super) challenges: u16,
}

/// What the sender does about loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(super) enum Phase {
    /// Nothing is known to be lost.
    #[default]
    Open,
    /// Fast recovery: what is lost is repeated while the rest flows.
    Recovery,
    /// A timeout: everything is repeated, slowly at first.
    Loss,
}

bitflags! {
    /// Conditions of a connection.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[repr(transparent)]
    pub(super) struct Flags: u32 {
        /// SACK was agreed.
        const SACK = 1 << 0;
        /// Timestamps were agreed.
        const TIMESTAMPS = 1 << 1;
        /// ECN was agreed.
        const ECN = 1 << 2;
        /// We began.
        const ACTIVE = 1 << 3;
        /// SYN, or SYN and ACK, is to be sent.
        const SYN_DUE = 1 << 4;
        /// SYN was repeated.
        const SYN_REPEATED = 1 << 5;
        /// An acknowledgement is to be sent now.
        const ACK_DUE = 1 << 6;
        /// RST is to be sent, the last thing.
        const RESET_DUE = 1 << 7;
        /// RST is to be sent to a segment that is not of this connection.
        const STRAY_DUE = 1 << 8;
        /// The oldest lost bytes are to be repeated, whatever the window of congestion.
        const REPEAT_DUE = 1 << 9;
        /// The peer's window is to be probed.
        const WINDOW_PROBE_DUE = 1 << 10;
        /// The tail is to be probed.
        const TAIL_PROBE_DUE = 1 << 11;
        /// An idle peer is to be probed.
        const IDLE_PROBE_DUE = 1 << 12;
        /// The application writes no more.
        const CLOSING = 1 << 13;
        /// FIN was sent.
        const FIN_SENT = 1 << 14;
        /// The peer's FIN came before its turn.
        const FIN_KNOWN = 1 << 15;
        /// The peer's FIN came.
        const PEER_CLOSED = 1 << 16;
        /// Marks are to be echoed.
        const ECHO_MARKS = 1 << 17;
        /// That the window was reduced is to be told.
        const REDUCED_DUE = 1 << 18;
        /// A segment is timed.
        const TIMING = 1 << 19;
        /// The tail was probed, and nothing is known of it.
        const TAIL_PROBED = 1 << 20;
        /// With bytes that had been sent before.
        const TAIL_REPEATED = 1 << 21;
        /// The timer is that of the peer's window.
        const PERSIST = 1 << 22;
        /// The peer's window was probed, with a byte that it may have dropped.
        const WINDOW_PROBED = 1 << 23;
        /// Data waits for the pacer.
        const PACED = 1 << 24;
        /// Bytes came twice, which is to be told.
        const TWICE_DUE = 1 << 25;
        /// Scaled windows were agreed.
        const SCALED = 1 << 26;
    }
}

const BUDGET: u8 = 10;
/// 5 seconds in units of 2^20 ns.
const BUDGET_TIME: u16 = 4768;

const _: () = assert!(size_of::<Hot>() <= 256);
const _: () = assert!(size_of::<Cold>() <= 536);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_in_five_seconds() {
        let mut budget = Budget::default();
        let spent = |budget: &mut Budget, now_ns| (0..100).filter(|_| budget.spend(now_ns)).count();
        assert_eq!(spent(&mut budget, 7), 10);
        assert_eq!(spent(&mut budget, 4_900_000_000), 0);
        assert_eq!(spent(&mut budget, 5_100_000_000), 10);
    }
}
