//! A connection: how it begins, what the application does with it, and what it tells of itself.

use super::config::{Config, LEAST_SEGMENT};
use super::control::{Congestion, Control, initial_window};
use super::cookie::Established;
use super::hot::{Cold, Flags, Hot, Phase};
use super::initial::Initial;
use super::round_trip::RoundTrip;
use super::segment::Segment;
use super::state::{Cause, Events, State};
use super::statistics::Statistics;
use crate::wire::tcp::TcpSequence;

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(128))]
pub struct Connection {
    pub(super) hot: Hot,
    pub(super) cold: Cold,
}

impl Connection {
    /// Opens: SYN is the first thing to be sent.
    pub fn connect(config: &Config, initial: Initial, now_ns: u64) -> Self {
        let mut new = Self::new(config, initial, now_ns, State::SynSent);
        new.hot.flags.insert(Flags::ACTIVE | Flags::SYN_DUE);
        new
    }

    /// Answers a SYN that a [`Listener`](super::Listener) let in.
    pub fn answer(config: &Config, initial: Initial, syn: &Segment, now_ns: u64) -> Self {
        let mut new = Self::new(config, initial, now_ns, State::SynReceived);
        new.hot.flags.insert(Flags::SYN_DUE);
        new.agree(syn, config);
        new
    }

    /// Goes on after a handshake of which a cookie told. The segment that brought the cookie is to
    /// be handed to [`on_segment`](Self::on_segment) next, which makes it established.
    pub fn established(config: &Config, handshake: &Established, now_ns: u64) -> Self {
        let mut new = Self::new(config, handshake.initial, now_ns, State::SynReceived);
        let hot = &mut new.hot;
        hot.nxt = hot.iss.wrapping_add(1);
        hot.flags
            .set(Flags::SCALED, handshake.window_scale.is_some());
        hot.flags.set(Flags::SACK, handshake.sack);
        hot.flags.set(Flags::ECN, handshake.ecn);
        hot.flags
            .set(Flags::TIMESTAMPS, handshake.timestamp.is_some());
        hot.ts_recent = handshake.timestamp.unwrap_or(0);
        match handshake.window_scale {
            Some(shift) => hot.their_shift = shift,
            None => hot.our_shift = 0,
        }
        hot.segment_bytes = segment_bytes(handshake.maximum_segment_size, config);
        new.begin_receiving(handshake.peer);
        new
    }

    fn new(config: &Config, initial: Initial, now_ns: u64, state: State) -> Self {
        let iss = initial.sequence;
        let hot = Hot {
            timer_ns: 0,
            probe_ns: 0,
            ack_ns: 0,
            slow_ns: 0,
            give_up_ns: after(now_ns, config.handshake_timeout_ns),
            heard_ns: now_ns,
            sent_ns: 0,
            timed_ns: 0,
            trip: RoundTrip::default(),
            control: Control::new(config.control, initial_window(536)),
            una: iss,
            nxt: iss,
            write_end: iss.wrapping_add(1),
            iss,
            window: 0,
            max_window: 0,
            wl1: TcpSequence(0),
            wl2: TcpSequence(0),
            lost_to: iss,
            recover: iss,
            reduced_to: iss,
            timed_end: iss,
            duplicates: 0,
            irs: TcpSequence(0),
            rcv_nxt: TcpSequence(1),
            consumed: TcpSequence(1),
            edge: TcpSequence(1),
            acknowledged: TcpSequence(1),
            ts_recent: 0,
            ts_offset: initial.timestamp,
            flags: Flags::empty(),
            segment_bytes: segment_bytes(config.default_peer_mss(), config),
            state,
            phase: Phase::Open,
            cause: None,
            tolerance: TOLERANCE,
            their_shift: 0,
            our_shift: match config.window_scaling {
                true => config.window_shift(),
                false => 0,
            },
            send_bits: bits(config.send_bytes),
            receive_bits: bits(config.receive_bytes),
            pending: 0,
        };
        let mut cold = Cold::default();
        cold.board.clear(iss);
        Self { hot, cold }
    }

    /// Keeps what the peer's SYN says, and what both ends can do.
    pub(super) fn agree(&mut self, syn: &Segment, config: &Config) {
        let (options, hot) = (&syn.options, &mut self.hot);
        let timestamps = options.timestamps.filter(|_| config.timestamps);
        hot.flags
            .set(Flags::SACK, config.sack && options.sack_permitted);
        hot.flags.set(Flags::TIMESTAMPS, timestamps.is_some());
        hot.ts_recent = timestamps.map_or(0, |timestamps| timestamps.value);
        let scale = options.window_scale.filter(|_| config.window_scaling);
        hot.flags.set(Flags::SCALED, scale.is_some());
        match scale {
            Some(shift) => hot.their_shift = shift.min(14),
            None => hot.our_shift = 0,
        }
        hot.flags.set(Flags::ECN, config.ecn && offers_ecn(syn));
        let mss = options.maximum_segment_size;
        hot.segment_bytes = segment_bytes(mss.unwrap_or(config.default_peer_mss()), config);
        // Windows of SYN segments are never scaled.
        hot.window = u32::from(syn.window);
        hot.max_window = hot.window;
        hot.wl1 = syn.sequence;
        hot.wl2 = hot.iss;
        self.begin_receiving(syn.sequence);
    }

    fn begin_receiving(&mut self, peer: TcpSequence) {
        let hot = &mut self.hot;
        let first = peer.wrapping_add(1);
        hot.irs = peer;
        hot.rcv_nxt = first;
        hot.consumed = first;
        hot.acknowledged = first;
        let window = self.receive_bytes().min(u32::from(u16::MAX));
        self.hot.edge = first.wrapping_add(window);
    }

    /// Both ends know each other's numbers.
    pub(super) fn establish(&mut self, now_ns: u64, config: &Config) -> Events {
        let mss = self.mss();
        let hot = &mut self.hot;
        let is_lossy = hot.flags.contains(Flags::SYN_REPEATED);
        hot.trip.is_slow = is_lossy && hot.trip.smoothed_ns == 0;
        hot.trip.backoff = 0;
        hot.flags.remove(Flags::SYN_DUE);
        let window = if is_lossy { mss } else { initial_window(mss) };
        hot.control = Control::new(config.control, window);
        hot.state = match hot.flags.contains(Flags::CLOSING) {
            true => State::FinWait1,
            false => State::Established,
        };
        hot.timer_ns = 0;
        hot.give_up_ns = 0;
        hot.lost_to = hot.una;
        hot.recover = hot.una;
        hot.reduced_to = hot.una;
        self.cold.board.clear(hot.una);
        self.heard(now_ns, config);
        Events::CONNECTED
    }

    /// The application put so many bytes into the send ring, behind those before. Says how many
    /// of them are taken: [`writable`](Self::writable) at most.
    pub fn write(&mut self, bytes: u32) -> u32 {
        let taken = bytes.min(self.writable());
        self.hot.write_end = self.hot.write_end.wrapping_add(taken);
        taken
    }

    /// The application is done with so many readable bytes; of more, those that are readable.
    pub fn consume(&mut self, bytes: u32) {
        let taken = bytes.min(self.readable());
        if taken > 0 {
            self.hot.consumed = self.hot.consumed.wrapping_add(taken);
            self.offer_window();
        }
    }

    /// The application writes no more: FIN follows what was written. Reading goes on. A connection
    /// that is being opened, and on which nothing was written, is closed at once.
    pub fn close(&mut self) {
        let hot = &mut self.hot;
        match hot.state {
            State::SynSent if hot.write_end == hot.iss.wrapping_add(1) => {
                self.end(Cause::Aborted);
                return;
            }
            State::Established => hot.state = State::FinWait1,
            State::CloseWait => hot.state = State::LastAck,
            _ => {}
        }
        self.hot.flags.insert(Flags::CLOSING);
    }

    /// The application gives up: the peer is told by RST at the next [`poll`](Self::poll), and the
    /// connection is closed at once. [`Events::CLOSED`] is not told.
    pub fn abort(&mut self) {
        match self.hot.state {
            State::Closed => {}
            State::SynSent => {
                self.end(Cause::Aborted);
            }
            State::TimeWait => {
                self.end(Cause::Finished);
            }
            _ => {
                self.end(Cause::Aborted);
                self.hot.flags.insert(Flags::RESET_DUE);
            }
        }
    }

    /// The end.
    pub(super) fn end(&mut self, cause: Cause) -> Events {
        let hot = &mut self.hot;
        if hot.state == State::Closed {
            return Events::empty();
        }
        hot.state = State::Closed;
        hot.cause = Some(cause);
        hot.flags
            .remove(Flags::SYN_DUE | Flags::ACK_DUE | Flags::PACED);
        hot.timer_ns = 0;
        hot.probe_ns = 0;
        hot.ack_ns = 0;
        hot.slow_ns = 0;
        hot.give_up_ns = 0;
        Events::CLOSED
    }

    /// A segment was taken: the peer lives.
    pub(super) fn heard(&mut self, now_ns: u64, config: &Config) {
        self.hot.heard_ns = now_ns;
        if let Some(keep_alive) = config.keep_alive
            && self.hot.state != State::TimeWait
        {
            self.cold.idle_probes = 0;
            self.hot.slow_ns = after(now_ns, keep_alive.idle_ns);
        }
    }

    /// Its state.
    pub const fn state(&self) -> State {
        self.hot.state
    }

    /// Why it is over.
    pub const fn cause(&self) -> Option<Cause> {
        self.hot.cause
    }

    /// Bytes that came in order and were not consumed.
    pub const fn readable(&self) -> u32 {
        let numbers = self.hot.rcv_nxt.diff(self.hot.consumed) as u32;
        numbers.saturating_sub(self.is_peer_closed() as u32)
    }

    /// Bytes that can be written now; 0 once the application closed.
    pub const fn writable(&self) -> u32 {
        let is_open = matches!(
            self.hot.state,
            State::SynSent | State::SynReceived | State::Established | State::CloseWait
        );
        if !is_open || self.hot.flags.contains(Flags::CLOSING) {
            return 0;
        }
        let ring: u32 = 1 << (self.hot.send_bits as u32 % 32);
        ring.saturating_sub(self.unacknowledged())
    }

    /// Stream position of the first readable byte, modulo 2^32.
    pub const fn read_position(&self) -> u32 {
        self.hot
            .consumed
            .0
            .wrapping_sub(self.hot.irs.0)
            .wrapping_sub(1)
    }

    /// Stream position of the next byte to be written, modulo 2^32.
    pub const fn write_position(&self) -> u32 {
        self.position(self.hot.write_end)
    }

    /// Whether the peer sends no more: what is readable is all.
    pub const fn is_peer_closed(&self) -> bool {
        self.hot.flags.contains(Flags::PEER_CLOSED)
    }

    /// Bytes that were written and not acknowledged.
    pub const fn unacknowledged(&self) -> u32 {
        self.hot.write_end.diff(self.first_kept()) as u32
    }

    /// Its figures.
    pub fn statistics(&self) -> Statistics {
        let (hot, counts) = (&self.hot, &self.cold.counts);
        Statistics {
            srtt_ns: hot.trip.smoothed_ns,
            rttvar_ns: hot.trip.variation_ns,
            cwnd: hot.control.window(),
            ssthresh: hot.control.threshold(),
            in_flight: self.in_flight(),
            peer_window: hot.window,
            segment_bytes: hot.segment_bytes,
            retransmits: counts.retransmits,
            timeouts: counts.timeouts.into(),
            recoveries: counts.recoveries,
            tail_probes: counts.tail_probes.into(),
            lost_repetitions: counts.lost_repetitions.into(),
            marks: counts.marks,
            out_of_order: counts.out_of_order,
            reordered: counts.reordered.into(),
            duplicate_acks: counts.duplicate_acks,
            challenges: counts.challenges.into(),
        }
    }

    /// Stream position of a number of ours.
    pub(super) const fn position(&self, sequence: TcpSequence) -> u32 {
        sequence.0.wrapping_sub(self.hot.iss.0).wrapping_sub(1)
    }

    /// Number of the first byte of the send ring.
    pub(super) const fn first_kept(&self) -> TcpSequence {
        let hot = &self.hot;
        if hot.una.0 == hot.iss.0 {
            hot.iss.wrapping_add(1)
        } else if hot.write_end.is_before(hot.una) {
            hot.write_end
        } else {
            hot.una
        }
    }

    /// Payload of a whole segment, but for SACK: what congestion is counted in.
    pub(super) const fn mss(&self) -> u32 {
        let size = self.hot.segment_bytes as u32;
        match self.hot.flags.contains(Flags::TIMESTAMPS) {
            true => size.saturating_sub(TIMESTAMPS_BYTES),
            false => size,
        }
    }

    /// Numbers that were sent and not acknowledged.
    pub(super) const fn in_flight(&self) -> u32 {
        self.hot.nxt.diff(self.hot.una) as u32
    }

    /// Bytes of the receive ring.
    pub(super) const fn receive_bytes(&self) -> u32 {
        1 << (self.hot.receive_bits as u32 % 32)
    }
}

/// What a segment carries at most, by what both ends say. A peer's smaller wish than any way
/// demands is not heard.
fn segment_bytes(peer: u16, config: &Config) -> u16 {
    peer.min(config.maximum_segment_size).max(LEAST_SEGMENT)
}

/// Whether a SYN offers ECN, or the answer to one accepts it. RFC 3168 section 6.1.1.
fn offers_ecn(syn: &Segment) -> bool {
    use crate::wire::tcp::TcpFlags;
    let both = TcpFlags::ECE | TcpFlags::CWR;
    match syn.has(TcpFlags::ACK) {
        true => syn.flags & both == TcpFlags::ECE,
        false => syn.flags.contains(both),
    }
}

/// Binary logarithm of a ring's length.
const fn bits(bytes: u32) -> u8 {
    let bits = 31 - (bytes | 1).leading_zeros();
    if bits < 10 {
        10
    } else if bits > 30 {
        30
    } else {
        bits as u8
    }
}

/// A time in the future, which is not 0.
pub(super) const fn after(now_ns: u64, ns: u64) -> u64 {
    let then = now_ns.saturating_add(ns);
    if then == 0 { 1 } else { then }
}

/// Bytes of a timestamps option, padded.
const TIMESTAMPS_BYTES: u32 = 12;
/// Segments that may overtake another one, to begin with. RFC 6675, DupThresh.
pub(super) const TOLERANCE: u8 = 3;

const _: () = assert!(size_of::<Connection>() <= 768);
