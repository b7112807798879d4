//! The sender learns what arrived: acknowledgements, windows, round trips, marks.

use super::config::Config;
use super::connection::{Connection, after};
use super::control::{Congestion, Progress};
use super::cookie::clock;
use super::hot::{Flags, Phase};
use super::round_trip::GRANULARITY_NS;
use super::segment::{Delivery, Segment};
use super::state::{Cause, Events, Note, State};
use crate::wire::tcp::{TcpFlags, TcpSequence};

impl Connection {
    /// Takes the acknowledgement of a segment. `false` if the segment is to be dropped.
    pub(super) fn on_acknowledgement(
        &mut self,
        now_ns: u64,
        segment: &Segment,
        config: &Config,
        delivery: &mut Delivery,
    ) -> bool {
        let (una, nxt) = (self.hot.una, self.hot.nxt);
        let acknowledgement = segment.acknowledgement;
        let behind = una.diff(acknowledgement);
        if nxt.is_before(acknowledgement) || behind > self.hot.max_window.min(1 << 30) as i32 {
            // RFC 5961 section 5.2.
            self.challenge(now_ns);
            delivery.note = Some(Note::BadAcknowledgement);
            return false;
        }
        let mut sacked = self.take_sack(segment);
        sacked.is_progress = una.is_before(acknowledgement);
        let had_window = self.hot.window;
        let is_update = self.take_window(now_ns, segment, config);
        if sacked.is_progress {
            let kept = self.first_kept();
            self.on_progress(now_ns, segment, config);
            delivery.freed = self.first_kept().diff(kept) as u32;
            delivery.events |= self.on_fin_acknowledged(now_ns, config);
        } else if behind == 0 {
            let is_plain = segment.length == 0 && !segment.has(TcpFlags::FIN);
            let says_loss = match self.hot.flags.contains(Flags::SACK) {
                true => sacked.news > 0 || sacked.is_twice,
                false => is_plain && !is_update && had_window > 0,
            };
            if says_loss && una != nxt {
                self.hot.duplicates = self.hot.duplicates.saturating_add(1);
                self.cold.counts.duplicate_acks = self.cold.counts.duplicate_acks.wrapping_add(1);
                delivery.note = Some(Note::DuplicateAcknowledgement);
            }
        }
        self.take_echo(segment);
        self.after_acknowledgement(now_ns, &sacked, segment, config);
        self.hot.state != State::Closed
    }

    /// RFC 2018 section 5, RFC 2883 section 4.
    fn take_sack(&mut self, segment: &Segment) -> Sacked {
        let mut sacked = Sacked::default();
        if !self.hot.flags.contains(Flags::SACK) {
            return sacked;
        }
        let blocks = segment.options.sack.as_slice();
        let (una, nxt) = (self.hot.una, self.hot.nxt);
        let acknowledgement = segment.acknowledgement;
        for (index, block) in blocks.iter().enumerate() {
            let within = blocks.get(1).filter(|_| index == 0).is_some_and(|second| {
                !block.left.is_before(second.left) && !second.right.is_before(block.right)
            });
            if !acknowledgement.is_before(block.right) || within {
                sacked.is_twice |= index == 0;
                continue;
            }
            let is_sane = block.left.is_before(block.right)
                && una.is_before(block.left)
                && !nxt.is_before(block.right)
                && acknowledgement.is_before(block.left);
            if is_sane {
                sacked.news += self.cold.board.mark(block.left, block.right);
            }
        }
        sacked
    }

    /// RFC 9293 section 3.10.7.4, fifth. Says whether the window changed.
    fn take_window(&mut self, now_ns: u64, segment: &Segment, config: &Config) -> bool {
        let hot = &mut self.hot;
        let is_probing = hot.flags.contains(Flags::PERSIST) || hot.window == 0;
        if is_probing && hot.give_up_ns != 0 {
            hot.give_up_ns = after(now_ns, config.user_timeout_ns);
        }
        let (sequence, acknowledgement) = (segment.sequence, segment.acknowledgement);
        let is_old = acknowledgement.is_before(hot.una);
        // What acknowledges more tells of a later time, whatever its number: a repetition. Its
        // window belongs to its acknowledgement.
        let is_newer = hot.una.is_before(acknowledgement)
            || hot.wl1.is_before(sequence)
            || (hot.wl1 == sequence && !acknowledgement.is_before(hot.wl2));
        if is_old || !is_newer {
            return false;
        }
        let window = u32::from(segment.window) << (u32::from(hot.their_shift) % 32);
        let changes = window != hot.window;
        let opens = changes && hot.window == 0;
        hot.window = window;
        hot.max_window = hot.max_window.max(window);
        hot.wl1 = sequence;
        hot.wl2 = acknowledgement;
        if opens || (window > 0 && hot.flags.contains(Flags::PERSIST)) {
            self.reopened(now_ns, config, acknowledgement);
        }
        changes
    }

    /// The peer's window is open again: what probed it may have been dropped.
    fn reopened(&mut self, now_ns: u64, config: &Config, acknowledgement: TcpSequence) {
        let hot = &mut self.hot;
        if hot.flags.contains(Flags::PERSIST) {
            hot.trip.backoff = 0;
            hot.timer_ns = 0;
        }
        if hot.flags.contains(Flags::WINDOW_PROBED) && acknowledgement.is_before(hot.nxt) {
            hot.lost_to = hot.nxt;
            let flight = self.flight();
            self.cold.board.forget_repetitions(&flight);
            self.hot.flags.insert(Flags::REPEAT_DUE);
            self.hot.timer_ns = after(now_ns, self.hot.trip.timeout_ns(config));
        }
        let done = Flags::PERSIST | Flags::WINDOW_PROBED | Flags::WINDOW_PROBE_DUE;
        self.hot.flags.remove(done);
    }

    /// Something new was acknowledged.
    fn on_progress(&mut self, now_ns: u64, segment: &Segment, config: &Config) {
        let flight = self.in_flight();
        self.time_acknowledgement(now_ns, segment, config);
        let acknowledgement = segment.acknowledgement;
        let bytes = acknowledgement.diff(self.hot.una) as u32;
        let hot = &mut self.hot;
        hot.una = acknowledgement;
        if hot.lost_to.is_before(acknowledgement) {
            hot.lost_to = acknowledgement;
        }
        if !self.cold.board.advance(acknowledgement) {
            hot.lost_to = hot.nxt;
        }
        let mss = self.mss();
        self.leave_recovery(bytes, mss);
        let hot = &mut self.hot;
        if hot.phase != Phase::Recovery {
            let window = hot.control.window();
            let is_limited = match window < hot.control.threshold() {
                true => flight.saturating_mul(2) >= window,
                false => flight.saturating_add((window / 8).max(3 * mss)) >= window,
            };
            // After a timeout an acknowledgement may be of bytes that arrived long ago.
            let most = if hot.phase == Phase::Loss {
                2 * mss
            } else {
                u32::MAX
            };
            hot.control.on_acknowledged(&Progress {
                now_ns,
                bytes: bytes.min(most),
                round_trip_ns: hot.trip.smoothed_ns,
                mss,
                is_limited,
            });
        }
        self.restart_timers(now_ns, config);
    }

    /// RFC 6298 section 5.2 and 5.3; RFC 8985 section 7.2.
    fn restart_timers(&mut self, now_ns: u64, config: &Config) {
        let hot = &mut self.hot;
        hot.flags.remove(Flags::TAIL_PROBE_DUE);
        hot.probe_ns = 0;
        if hot.una == hot.nxt {
            hot.timer_ns = 0;
            hot.give_up_ns = 0;
            return;
        }
        hot.give_up_ns = after(now_ns, config.user_timeout_ns);
        hot.timer_ns = after(now_ns, hot.trip.timeout_ns(config));
        self.schedule_probe(now_ns);
    }

    /// Measures the round trip if the acknowledgement tells it. RFC 6298 section 3, RFC 7323
    /// section 4.
    pub(super) fn time_acknowledgement(&mut self, now_ns: u64, segment: &Segment, config: &Config) {
        let hot = &mut self.hot;
        let is_timed =
            hot.flags.contains(Flags::TIMING) && !segment.acknowledgement.is_before(hot.timed_end);
        if is_timed {
            hot.flags.remove(Flags::TIMING);
            hot.trip.measured(now_ns.saturating_sub(hot.timed_ns));
            return;
        }
        let is_wanted = hot.trip.smoothed_ns == 0 || hot.trip.backoff > 0;
        let Some(timestamps) = segment.options.timestamps else {
            return;
        };
        if !is_wanted || !hot.flags.contains(Flags::TIMESTAMPS) {
            return;
        }
        let ms = clock(now_ns, hot.ts_offset).wrapping_sub(timestamps.echo);
        match ms {
            // Shorter than the clock tells, which is enough where nothing was measured: RFC 6298
            // section 5.7 is for when nothing is known.
            0 if hot.trip.smoothed_ns == 0 => hot.trip.measured(GRANULARITY_NS),
            // What is acknowledged was sent just now.
            0 => hot.trip.backoff = 0,
            1..=LONGEST_MS => {
                // An acknowledgement that was lost makes the way look long: by steps only.
                let most_ns = hot.trip.expected_ns(config);
                hot.trip.measured((u64::from(ms) * 1_000_000).min(most_ns));
            }
            _ => {}
        }
    }

    /// Our FIN was acknowledged, perhaps.
    fn on_fin_acknowledged(&mut self, now_ns: u64, config: &Config) -> Events {
        let hot = &mut self.hot;
        if !hot.flags.contains(Flags::FIN_SENT) || hot.una != hot.write_end.wrapping_add(1) {
            return Events::empty();
        }
        match hot.state {
            State::FinWait1 => hot.state = State::FinWait2,
            State::Closing => self.linger(now_ns, config),
            State::LastAck => return self.end(Cause::Finished),
            _ => {}
        }
        Events::empty()
    }

    /// The peer saw marks. RFC 3168 section 6.1.2: one reduction a window.
    fn take_echo(&mut self, segment: &Segment) {
        let (mss, flight) = (self.mss(), self.in_flight());
        let hot = &mut self.hot;
        let is_news = hot.flags.contains(Flags::ECN)
            && segment.has(TcpFlags::ECE)
            && hot.reduced_to.is_before(segment.acknowledgement);
        if !is_news {
            return;
        }
        self.cold.counts.marks = self.cold.counts.marks.wrapping_add(1);
        hot.reduced_to = hot.nxt;
        hot.flags.insert(Flags::REDUCED_DUE);
        if hot.phase == Phase::Open {
            hot.control.on_loss(flight, mss);
        }
    }
}

/// What the SACK option of a segment said.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sacked {
    /// Bytes that were not known to be there.
    pub(super) news: u32,
    /// Bytes came twice.
    pub(super) is_twice: bool,
    /// The acknowledgement number is news.
    pub(super) is_progress: bool,
}

/// Longer echoes are none of ours, in ms.
const LONGEST_MS: u32 = 600_000;
