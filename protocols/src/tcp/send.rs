//! What is sent next: RST, SYN, probes, what was lost, what is new, acknowledgements.

use super::config::Config;
use super::connection::{Connection, after};
use super::control::Congestion;
use super::cookie::clock;
use super::hot::{Flags, Phase};
use super::segment::{Outgoing, Payload};
use super::state::State;
use crate::wire::tcp::{TcpFlags, TcpSequence};
use crate::wire::tcp_option::{Options, SackBlocks, Timestamps};
use core::num::NonZeroU32;

impl Connection {
    /// The next segment, if one may be sent now. Data of up to `most_bytes` in one train of
    /// segments, if that is more than a segment holds; else one segment.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    pub fn poll(&mut self, now_ns: u64, config: &Config, most_bytes: u32) -> Option<Outgoing> {
        if self
            .hot
            .flags
            .intersects(Flags::RESET_DUE | Flags::STRAY_DUE)
        {
            return Some(self.reset());
        }
        match self.hot.state {
            State::Closed => None,
            State::SynSent | State::SynReceived => self.poll_handshake(now_ns, config),
            State::FinWait2 | State::TimeWait => self
                .poll_probe(now_ns, config)
                .or_else(|| self.poll_answer(now_ns)),
            _ => self
                .poll_probe(now_ns, config)
                .or_else(|| self.poll_data(now_ns, config, most_bytes))
                .or_else(|| self.poll_answer(now_ns)),
        }
    }

    /// RST: the end, or the answer to a segment that is not of this connection.
    fn reset(&mut self) -> Outgoing {
        let hot = &mut self.hot;
        let mut segment = Outgoing {
            sequence: self.cold.stray,
            acknowledgement: TcpSequence(0),
            flags: TcpFlags::RST,
            window: 0,
            options: Options::default(),
            payload: Payload::default(),
            segment_bytes: hot.segment_bytes,
            is_capable: false,
        };
        if !hot.flags.contains(Flags::RESET_DUE) {
            hot.flags.remove(Flags::STRAY_DUE);
            return segment;
        }
        hot.flags.remove(Flags::RESET_DUE | Flags::STRAY_DUE);
        segment.sequence = hot.nxt;
        segment.acknowledgement = hot.rcv_nxt;
        segment.flags = TcpFlags::RST | TcpFlags::ACK;
        segment
    }

    /// SYN, or SYN and ACK.
    fn poll_handshake(&mut self, now_ns: u64, config: &Config) -> Option<Outgoing> {
        if !self.hot.flags.contains(Flags::SYN_DUE) {
            return match self.hot.state {
                State::SynReceived => self.poll_answer(now_ns),
                _ => None,
            };
        }
        let is_answer = self.hot.state == State::SynReceived;
        let hot = &mut self.hot;
        hot.flags.remove(Flags::SYN_DUE);
        if hot.nxt == hot.iss {
            hot.nxt = hot.iss.wrapping_add(1);
            self.time(now_ns);
        }
        let hot = &mut self.hot;
        hot.timer_ns = after(now_ns, hot.trip.timeout_ns(config));
        let flags = hot.flags;
        let has = |flag: Flags, offered: bool| match is_answer {
            true => flags.contains(flag),
            false => offered,
        };
        let is_scaled = match is_answer {
            true => flags.contains(Flags::SCALED),
            false => config.window_scaling,
        };
        let options = Options {
            maximum_segment_size: Some(config.maximum_segment_size),
            window_scale: is_scaled.then_some(hot.our_shift),
            sack_permitted: has(Flags::SACK, config.sack),
            timestamps: has(Flags::TIMESTAMPS, config.timestamps).then(|| Timestamps {
                value: clock(now_ns, hot.ts_offset),
                echo: hot.ts_recent,
            }),
            ..Options::default()
        };
        let sequence = hot.iss;
        let mut segment = self.segment(sequence, options, TcpFlags::SYN);
        // Repeated without, for ways on which such SYNs vanish: RFC 3168 section 6.1.1.1.
        let has_ecn = has(
            Flags::ECN,
            config.ecn && !flags.contains(Flags::SYN_REPEATED),
        );
        segment.flags.set(TcpFlags::ECE, has_ecn);
        segment.flags.set(TcpFlags::CWR, has_ecn && !is_answer);
        if !is_answer {
            segment.flags.remove(TcpFlags::ACK);
            segment.acknowledgement = TcpSequence(0);
        }
        Some(segment)
    }

    /// Probes: of an idle peer, of a closed window.
    fn poll_probe(&mut self, now_ns: u64, config: &Config) -> Option<Outgoing> {
        let probes = Flags::IDLE_PROBE_DUE | Flags::WINDOW_PROBE_DUE;
        if !self.hot.flags.intersects(probes) {
            return None;
        }
        let is_idle = self.hot.flags.contains(Flags::IDLE_PROBE_DUE);
        let una = self.hot.una;
        if is_idle {
            self.hot.flags.remove(Flags::IDLE_PROBE_DUE);
            let options = self.options(now_ns);
            let before = self.hot.nxt.wrapping_add(u32::MAX);
            return Some(self.segment(before, options, TcpFlags::ACK));
        }
        self.hot.flags.remove(Flags::WINDOW_PROBE_DUE);
        let end = self.send_end();
        if !una.is_before(end) {
            return None;
        }
        // What the window takes, and a byte at least: RFC 9293 section 3.8.6.1.
        let options = self.options(now_ns);
        let most = self.hot.window.min(self.payload_bytes(&options)).max(1);
        let length = most.min(end.diff(una) as u32);
        let to = una.wrapping_add(length);
        let hot = &mut self.hot;
        hot.flags.insert(Flags::WINDOW_PROBED);
        hot.flags.remove(Flags::TIMING);
        // An acknowledgement that came before the probe left may have stopped the timers.
        if hot.timer_ns == 0 {
            hot.timer_ns = after(now_ns, hot.trip.timeout_ns(config));
            hot.flags.insert(Flags::PERSIST);
        }
        if hot.give_up_ns == 0 {
            hot.give_up_ns = after(now_ns, config.user_timeout_ns);
        }
        if hot.nxt.is_before(to) {
            hot.nxt = to;
        } else {
            self.count_repeated(1);
        }
        Some(self.piece(una, to, options))
    }

    fn poll_data(&mut self, now_ns: u64, config: &Config, most_bytes: u32) -> Option<Outgoing> {
        let hot = &mut self.hot;
        let has_lost = hot.una != hot.lost_to || hot.phase != Phase::Open;
        let end = self.send_end();
        if !has_lost && !self.hot.nxt.is_before(end) && !self.probes_tail() {
            return None;
        }
        if now_ns < self.hot.control.next_ns() {
            self.hot.flags.insert(Flags::PACED);
            return None;
        }
        self.hot.flags.remove(Flags::PACED);
        let lost = if has_lost { self.next_lost() } else { None };
        let segment = match lost {
            // Nothing new before what was lost.
            Some((from, to)) => self.poll_lost(now_ns, config, most_bytes, from, to)?,
            None => self
                .poll_tail_probe(now_ns)
                .or_else(|| self.poll_new(now_ns, config, most_bytes))?,
        };
        let hot = &mut self.hot;
        hot.control.on_sent(now_ns, segment.payload.length);
        if hot.timer_ns == 0 {
            hot.timer_ns = after(now_ns, hot.trip.timeout_ns(config));
        }
        if hot.give_up_ns == 0 {
            hot.give_up_ns = after(now_ns, config.user_timeout_ns);
        }
        Some(segment)
    }

    fn probes_tail(&self) -> bool {
        self.hot.flags.contains(Flags::TAIL_PROBE_DUE)
    }

    /// What was lost and not repeated.
    fn next_lost(&mut self) -> Option<(TcpSequence, TcpSequence)> {
        let lost = self.cold.board.next_lost(&self.flight());
        if lost.is_none() {
            self.hot.flags.remove(Flags::REPEAT_DUE);
        }
        lost
    }

    /// Repeats `[from, to)`, or a part.
    fn poll_lost(
        &mut self,
        now_ns: u64,
        config: &Config,
        most_bytes: u32,
        from: TcpSequence,
        to: TcpSequence,
    ) -> Option<Outgoing> {
        let is_forced = self.hot.flags.contains(Flags::REPEAT_DUE);
        let flight = self.flight();
        let options = self.options(now_ns);
        let size = self.payload_bytes(&options);
        let lost = to.diff(from).max(0) as u32;
        let room = self.hot.control.window().saturating_sub(self.pipe());
        if !is_forced && room < size.min(lost) {
            return None;
        }
        // A window that was drawn back: what is outside waits for the timer.
        let open = self.hot.una.wrapping_add(self.hot.window).diff(from);
        let open = if from == self.hot.una {
            open.max(1)
        } else {
            open
        };
        if open <= 0 {
            return None;
        }
        let train = self.train(size, most_bytes);
        let length = lost.min(train).min(room.max(size)).min(open as u32);
        let length = if length < lost && length > size {
            whole(length, size)
        } else {
            length
        };
        let to = from.wrapping_add(length);
        self.cold.board.repeated(&flight, to, now_ns);
        let hot = &mut self.hot;
        hot.flags.remove(Flags::TIMING);
        if is_forced {
            hot.flags.remove(Flags::REPEAT_DUE);
            hot.timer_ns = after(now_ns, hot.trip.timeout_ns(config));
        }
        let segment = self.piece(from, to, options);
        self.count_repeated(segment.segments());
        Some(segment)
    }

    /// A new segment beyond the window of congestion, or the last one again. RFC 8985 section 7.3.
    fn poll_tail_probe(&mut self, now_ns: u64) -> Option<Outgoing> {
        if !self.probes_tail() {
            return None;
        }
        let options = self.options(now_ns);
        let size = self.payload_bytes(&options);
        let hot = &mut self.hot;
        hot.flags.remove(Flags::TAIL_PROBE_DUE);
        let (una, nxt) = (hot.una, hot.nxt);
        if una == nxt {
            return None;
        }
        hot.flags.insert(Flags::TAIL_PROBED);
        let data = hot.write_end.diff(nxt).max(0) as u32;
        let open = una.wrapping_add(hot.window).diff(nxt).max(0) as u32;
        let is_new = data > 0 && open >= size.min(data);
        let (from, to) = match is_new {
            true => (nxt, nxt.wrapping_add(size.min(data))),
            false => {
                let back = size.min(nxt.diff(una) as u32);
                (nxt.wrapping_add(back.wrapping_neg()), nxt)
            }
        };
        hot.flags.set(Flags::TAIL_REPEATED, !is_new);
        hot.nxt = to;
        self.cold.tail_end = to;
        self.cold.counts.tail_probes = self.cold.counts.tail_probes.saturating_add(1);
        if !is_new {
            self.hot.flags.remove(Flags::TIMING);
            self.count_repeated(1);
        }
        Some(self.piece(from, to, options))
    }

    /// Data that was never sent, and FIN.
    fn poll_new(&mut self, now_ns: u64, config: &Config, most_bytes: u32) -> Option<Outgoing> {
        let (nxt, end) = (self.hot.nxt, self.send_end());
        if !nxt.is_before(end) {
            return None;
        }
        let options = self.options(now_ns);
        let data = self.hot.write_end.diff(nxt).max(0) as u32;
        let length = self.new_length(now_ns, config, most_bytes, &options, data)?;
        let is_idle = self.in_flight() == 0;
        let with_fin = length == data && self.hot.write_end.is_before(end);
        let to = nxt.wrapping_add(length + u32::from(with_fin));
        let hot = &mut self.hot;
        hot.nxt = to;
        hot.sent_ns = now_ns;
        if is_idle {
            hot.timer_ns = 0;
            hot.flags.remove(Flags::PERSIST);
        }
        // Behind bytes that are missing an acknowledgement comes late; with timestamps others tell.
        let is_telling = match hot.phase {
            Phase::Open => true,
            Phase::Loss => !hot.flags.contains(Flags::TIMESTAMPS),
            Phase::Recovery => false,
        };
        if is_telling && !hot.flags.contains(Flags::TIMING) {
            self.time(now_ns);
        }
        let hot = &mut self.hot;
        if hot.timer_ns == 0 {
            hot.timer_ns = after(now_ns, hot.trip.timeout_ns(config));
        }
        self.schedule_probe(now_ns);
        let mut segment = self.piece(nxt, to, options);
        if self.hot.flags.contains(Flags::ECN) && length > 0 {
            // Only what is sent for the first time: RFC 3168 section 6.1.5.
            segment.is_capable = true;
            let reduced = self.hot.flags.contains(Flags::REDUCED_DUE);
            segment.flags.set(TcpFlags::CWR, reduced);
            self.hot.flags.remove(Flags::REDUCED_DUE);
        }
        Some(segment)
    }

    /// How much of `data` new bytes is sent now: windows, Nagle (RFC 9293 section 3.7.4), and no
    /// silly segments (section 3.8.6.2.1).
    fn new_length(
        &mut self,
        now_ns: u64,
        config: &Config,
        most_bytes: u32,
        options: &Options,
        data: u32,
    ) -> Option<u32> {
        if data == 0 {
            return Some(0);
        }
        let size = self.payload_bytes(options);
        let flight = self.in_flight();
        self.restart_after_idle(now_ns, config, flight);
        let hot = &self.hot;
        let open = hot.una.wrapping_add(hot.window).diff(hot.nxt).max(0) as u32;
        let is_closing = hot.flags.contains(Flags::CLOSING);
        let may_be_small = config.no_delay || is_closing || flight == 0;
        let allowed = data.min(open);
        let room = hot.control.window().saturating_sub(self.pipe());
        let length = allowed.min(room).min(self.train(size, most_bytes));
        let full = whole(length, size);
        let is_all = length == data;
        if length > 0 && is_all && (full == length || config.no_delay || is_closing) {
            return Some(length);
        }
        if full > 0 {
            return Some(full);
        }
        if length > 0 && is_all && may_be_small {
            return Some(length);
        }
        let is_much = length == allowed && length >= hot.max_window / 2;
        if length > 0 && is_much && may_be_small {
            return Some(length);
        }
        if flight == 0 {
            // Only the peer can end this: it is asked from time to time.
            let hot = &mut self.hot;
            if hot.timer_ns == 0 {
                hot.timer_ns = after(now_ns, hot.trip.timeout_ns(config));
                hot.flags.insert(Flags::PERSIST);
            }
            if hot.give_up_ns == 0 {
                hot.give_up_ns = after(now_ns, config.user_timeout_ns);
            }
        }
        None
    }

    /// RFC 5681 section 4.1.
    fn restart_after_idle(&mut self, now_ns: u64, config: &Config, flight: u32) {
        let mss = self.mss();
        let hot = &mut self.hot;
        let silence_ns = now_ns.saturating_sub(hot.sent_ns);
        if flight == 0 && hot.sent_ns != 0 && silence_ns > hot.trip.timeout_ns(config) {
            hot.control.on_idle(mss);
            hot.sent_ns = now_ns;
        }
    }

    /// A bare acknowledgement, if one is due.
    fn poll_answer(&mut self, now_ns: u64) -> Option<Outgoing> {
        if !self.hot.flags.contains(Flags::ACK_DUE) {
            return None;
        }
        let options = self.options(now_ns);
        let nxt = self.hot.nxt;
        Some(self.segment(nxt, options, TcpFlags::ACK))
    }

    /// The number behind everything that is to be sent: FIN included.
    fn send_end(&self) -> TcpSequence {
        let closes = self.hot.flags.contains(Flags::CLOSING);
        self.hot.write_end.wrapping_add(u32::from(closes))
    }

    /// The longest train in bytes: a segment at least.
    fn train(&self, size: u32, most_bytes: u32) -> u32 {
        whole(most_bytes.min(self.hot.control.burst()), size).max(size)
    }

    /// Payload of a segment with these options: RFC 6691.
    fn payload_bytes(&self, options: &Options) -> u32 {
        let options = options.length() as u32;
        u32::from(self.hot.segment_bytes)
            .saturating_sub(options)
            .max(1)
    }

    /// Times the acknowledgement of everything sent.
    fn time(&mut self, now_ns: u64) {
        let hot = &mut self.hot;
        hot.timed_end = hot.nxt;
        hot.timed_ns = now_ns;
        hot.flags.insert(Flags::TIMING);
    }

    fn count_repeated(&mut self, segments: u32) {
        let counts = &mut self.cold.counts;
        counts.retransmits = counts.retransmits.wrapping_add(segments);
    }

    /// The numbers `[from, to)`: data, and FIN if they reach that far.
    fn piece(&mut self, from: TcpSequence, to: TcpSequence, options: Options) -> Outgoing {
        let end = self.hot.write_end;
        let has_fin = end.is_before(to);
        let data_to = if has_fin { end } else { to };
        let length = data_to.diff(from).max(0) as u32;
        let mut segment = self.segment(from, options, TcpFlags::ACK);
        segment.payload = Payload {
            at: self.position(from),
            length,
        };
        if has_fin {
            segment.flags.insert(TcpFlags::FIN);
            self.hot.flags.insert(Flags::FIN_SENT);
        }
        segment
            .flags
            .set(TcpFlags::PSH, length > 0 && data_to == end);
        segment
    }

    /// The options of a segment that is no SYN.
    fn options(&self, now_ns: u64) -> Options {
        let (hot, cold) = (&self.hot, &self.cold);
        let mut options = Options::default();
        if hot.flags.contains(Flags::TIMESTAMPS) {
            options.timestamps = Some(Timestamps {
                value: clock(now_ns, hot.ts_offset),
                echo: hot.ts_recent,
            });
        }
        if hot.flags.contains(Flags::SACK) && !hot.is_opening() {
            let mut blocks = SackBlocks::default();
            let twice = hot.flags.contains(Flags::TWICE_DUE);
            let twice = twice.then_some(cold.twice);
            // On narrow ways blocks would leave no room for payload.
            let room = usize::from(hot.segment_bytes).saturating_sub(LEAST_PAYLOAD);
            let most = match hot.flags.contains(Flags::TIMESTAMPS) {
                true => 3.min(room.saturating_sub(12 + 4) / 8),
                false => 4.min(room.saturating_sub(4) / 8),
            };
            let ranges = cold.reassembly.ranges().iter().copied();
            for block in twice.into_iter().chain(ranges).take(most) {
                blocks.push(block);
            }
            options.sack = blocks;
        }
        options
    }

    /// A segment without payload, which acknowledges all that came.
    fn segment(&mut self, sequence: TcpSequence, options: Options, flags: TcpFlags) -> Outgoing {
        let is_syn = flags.contains(TcpFlags::SYN);
        let window = self.advertise(!is_syn);
        let segment_bytes = self.payload_bytes(&options).min(u32::from(u16::MAX)) as u16;
        let hot = &mut self.hot;
        hot.flags.remove(Flags::ACK_DUE | Flags::TWICE_DUE);
        hot.ack_ns = 0;
        hot.pending = 0;
        hot.acknowledged = hot.rcv_nxt;
        let mut flags = flags | TcpFlags::ACK;
        flags.set(TcpFlags::ECE, hot.flags.contains(Flags::ECHO_MARKS));
        Outgoing {
            sequence,
            acknowledgement: hot.rcv_nxt,
            flags,
            window,
            options,
            payload: Payload::default(),
            segment_bytes,
            is_capable: false,
        }
    }
}

/// Payload that options leave room for.
const LEAST_PAYLOAD: usize = 8;

/// Whole segments.
fn whole(bytes: u32, size: u32) -> u32 {
    let size = NonZeroU32::new(size).unwrap_or(NonZeroU32::MIN);
    bytes - bytes % size
}
