//! What the sender does about loss: RFC 6675 and RFC 6582 (fast recovery), RFC 8985 section 7 (the
//! tail), RFC 5681 (timeouts).

use super::acknowledge::Sacked;
use super::config::Config;
use super::connection::{Connection, TOLERANCE, after};
use super::control::Congestion;
use super::hot::{Flags, Phase};
use super::scoreboard::Flight;
use super::segment::Segment;
use super::state::State;

impl Connection {
    pub(super) fn flight(&self) -> Flight {
        let hot = &self.hot;
        Flight {
            una: hot.una,
            nxt: hot.nxt,
            lost_to: hot.lost_to,
            tolerance: u32::from(hot.tolerance),
            mss: self.mss(),
        }
    }

    /// Bytes that are thought to be in the network.
    pub(super) fn pipe(&self) -> u32 {
        let hot = &self.hot;
        let is_simple = self.cold.board.is_empty() && hot.lost_to == hot.una;
        let pipe = match is_simple {
            true => self.in_flight(),
            false => self.cold.board.pipe(&self.flight()),
        };
        // Without SACK every acknowledgement that says nothing new is of a segment that arrived.
        if hot.flags.contains(Flags::SACK) || hot.duplicates == 0 {
            return pipe;
        }
        pipe.saturating_sub(hot.duplicates.saturating_mul(self.mss()))
    }

    /// After acknowledgement and SACK were taken: is something lost?
    pub(super) fn after_acknowledgement(
        &mut self,
        now_ns: u64,
        sacked: &Sacked,
        segment: &Segment,
        config: &Config,
    ) {
        if sacked.is_twice {
            self.on_twice();
        }
        self.settle_tail_probe(now_ns, sacked, segment, config);
        if self.hot.una == self.hot.nxt {
            return;
        }
        match self.hot.phase {
            Phase::Open => {
                let flight = self.flight();
                let enough = self.hot.duplicates >= u32::from(self.hot.tolerance);
                let is_sack = self.hot.flags.contains(Flags::SACK);
                let is_lost = match is_sack {
                    true => self.cold.board.sees_loss(&flight),
                    // RFC 6582 section 4.1: not for what a timeout repeated.
                    false => enough && !self.hot.una.is_before(self.hot.recover),
                };
                if is_lost {
                    self.recover(now_ns, config);
                } else if sacked.news > 0 {
                    self.schedule_probe(now_ns);
                }
            }
            Phase::Recovery | Phase::Loss => {
                self.judge_repetitions(now_ns);
                if sacked.is_progress || sacked.news > 0 {
                    self.schedule_judgement(now_ns);
                }
            }
        }
    }

    /// Looks for repetitions that were lost as well.
    fn judge_repetitions(&mut self, now_ns: u64) -> bool {
        let flight = self.flight();
        let lost = self.cold.board.judge(&flight, now_ns, self.longest_ns());
        let counts = &mut self.cold.counts;
        let lost = lost.min(u32::from(u16::MAX)) as u16;
        counts.lost_repetitions = counts.lost_repetitions.saturating_add(lost);
        lost > 0
    }

    /// As old as this a repetition would have been acknowledged. Growing queues are no loss.
    fn longest_ns(&self) -> u64 {
        let trip = &self.hot.trip;
        2 * trip.smoothed_ns + 4 * trip.variation_ns + LATE_NS
    }

    /// Once after each news, repetitions are judged by the clock: with little under way nothing
    /// else may come that tells of their loss.
    fn schedule_judgement(&mut self, now_ns: u64) {
        let judged_ns = after(now_ns, self.longest_ns() + LATE_NS);
        let hot = &mut self.hot;
        let is_useful = hot.phase == Phase::Recovery
            && hot.flags.contains(Flags::SACK)
            && hot.trip.smoothed_ns > 0
            && judged_ns < hot.timer_ns;
        hot.probe_ns = if is_useful { judged_ns } else { 0 };
    }

    /// Something is lost: less is sent, and the lost is repeated.
    pub(super) fn recover(&mut self, now_ns: u64, config: &Config) {
        let (mss, flight) = (self.mss(), self.in_flight());
        let hot = &mut self.hot;
        if hot.reduced_to.is_before(hot.una) || hot.reduced_to == hot.una {
            hot.control.on_loss(flight, mss);
            hot.reduced_to = hot.nxt;
            if hot.flags.contains(Flags::ECN) {
                hot.flags.insert(Flags::REDUCED_DUE);
            }
        }
        hot.phase = Phase::Recovery;
        hot.recover = hot.nxt;
        hot.flags.insert(Flags::REPEAT_DUE);
        hot.flags.remove(Flags::TAIL_PROBE_DUE | Flags::TAIL_PROBED);
        hot.probe_ns = 0;
        self.lose_first(mss);
        self.hot.timer_ns = after(now_ns, self.hot.trip.timeout_ns(config));
        self.schedule_judgement(now_ns);
        self.cold.counts.recoveries = self.cold.counts.recoveries.wrapping_add(1);
    }

    /// The oldest segment is lost.
    fn lose_first(&mut self, mss: u32) {
        let hot = &mut self.hot;
        let first = hot
            .una
            .wrapping_add(mss.min(hot.nxt.diff(hot.una).max(0) as u32));
        if hot.lost_to.is_before(first) {
            hot.lost_to = first;
        }
    }

    /// Something new was acknowledged while loss is dealt with.
    pub(super) fn leave_recovery(&mut self, bytes: u32, mss: u32) {
        let hot = &mut self.hot;
        let is_over = !hot.una.is_before(hot.recover);
        match hot.phase {
            Phase::Open => hot.duplicates = 0,
            _ if is_over => {
                hot.phase = Phase::Open;
                hot.duplicates = 0;
            }
            Phase::Recovery if !hot.flags.contains(Flags::SACK) => {
                // RFC 6582 section 3.2 step 3: the next segment is lost as well.
                let arrived = bytes.saturating_sub(mss).div_ceil(mss.max(1));
                hot.duplicates = hot.duplicates.saturating_sub(arrived);
                hot.flags.insert(Flags::REPEAT_DUE);
                self.lose_first(mss);
            }
            Phase::Recovery | Phase::Loss => {}
        }
    }

    /// The peer got bytes twice that we sent twice: what looked like loss was another order.
    fn on_twice(&mut self) {
        let (hot, counts) = (&mut self.hot, &mut self.cold.counts);
        if u32::from(counts.reordered) >= counts.retransmits
            || hot.flags.contains(Flags::TAIL_PROBED)
        {
            return;
        }
        counts.reordered = counts.reordered.saturating_add(1);
        hot.tolerance = hot.tolerance.saturating_add(1).min(MOST_TOLERANCE);
    }

    /// Nothing came back in time. RFC 6298 section 5.4 to 5.7.
    pub(super) fn on_timeout(&mut self, now_ns: u64, config: &Config) {
        let (mss, flight) = (self.mss(), self.in_flight());
        let hot = &mut self.hot;
        hot.control.on_timeout(flight, mss, hot.trip.backoff == 0);
        if hot.trip.backoff >= DOUBTS {
            self.cold.board.clear(hot.una);
        }
        hot.trip.back_off();
        hot.phase = Phase::Loss;
        hot.recover = hot.nxt;
        hot.reduced_to = hot.nxt;
        hot.lost_to = hot.nxt;
        hot.duplicates = 0;
        hot.tolerance = TOLERANCE;
        hot.probe_ns = 0;
        hot.flags.insert(Flags::REPEAT_DUE);
        hot.flags
            .remove(Flags::TIMING | Flags::TAIL_PROBE_DUE | Flags::TAIL_PROBED);
        if hot.flags.contains(Flags::ECN) {
            hot.flags.insert(Flags::REDUCED_DUE);
        }
        hot.timer_ns = after(now_ns, hot.trip.timeout_ns(config));
        let flight = self.flight();
        self.cold.board.forget_repetitions(&flight);
        self.cold.counts.timeouts = self.cold.counts.timeouts.saturating_add(1);
    }

    /// Sets the timer that probes for a lost tail. RFC 8985 section 7.2.
    pub(super) fn schedule_probe(&mut self, now_ns: u64) {
        let flight = self.in_flight();
        let hot = &mut self.hot;
        let is_useful = hot.phase == Phase::Open
            && hot.flags.contains(Flags::SACK)
            && !hot.flags.intersects(Flags::TAIL_PROBED | Flags::PERSIST)
            && hot.trip.smoothed_ns > 0
            && hot.trip.backoff == 0
            && flight > 0;
        if !is_useful {
            return;
        }
        let is_alone = flight <= u32::from(hot.segment_bytes) && self.cold.board.is_empty();
        let delay_ns = if is_alone { PEER_DELAY_NS } else { 0 };
        let wait_ns = 2 * hot.trip.smoothed_ns + LATE_NS + delay_ns;
        let probe_ns = after(now_ns, wait_ns);
        // The timer of repetitions is never later than it would be without the probe.
        hot.probe_ns = if probe_ns < hot.timer_ns { probe_ns } else { 0 };
    }

    /// Twice the round trip passed without news.
    pub(super) fn on_probe_timer(&mut self, now_ns: u64, config: &Config) {
        self.hot.probe_ns = 0;
        if self.hot.phase == Phase::Recovery && self.judge_repetitions(now_ns) {
            self.hot.flags.insert(Flags::REPEAT_DUE);
        }
        let hot = &mut self.hot;
        if hot.una == hot.nxt || hot.phase != Phase::Open || hot.state == State::TimeWait {
            return;
        }
        hot.timer_ns = after(now_ns, hot.trip.timeout_ns(config));
        if let Some(end) = self.cold.board.end() {
            // What was overtaken this long ago is lost.
            hot.lost_to = end;
            self.recover(now_ns, config);
        } else {
            hot.flags.insert(Flags::TAIL_PROBE_DUE);
        }
    }

    /// What came of a probe. RFC 8985 section 7.4.
    fn settle_tail_probe(
        &mut self,
        now_ns: u64,
        sacked: &Sacked,
        segment: &Segment,
        config: &Config,
    ) {
        let (end, mss) = (self.cold.tail_end, self.mss());
        let hot = &mut self.hot;
        if !hot.flags.contains(Flags::TAIL_PROBED) {
            return;
        }
        let acknowledgement = segment.acknowledgement;
        if let Some(last) = self.cold.board.end()
            && !last.is_before(end)
            && hot.phase == Phase::Open
        {
            // The probe arrived, and what was sent long before did not.
            hot.flags.remove(Flags::TAIL_PROBED);
            hot.lost_to = last;
            self.recover(now_ns, config);
            return;
        }
        if acknowledgement.is_before(end) {
            return;
        }
        let both_came = sacked.is_twice || !sacked.is_progress;
        if !hot.flags.contains(Flags::TAIL_REPEATED) || both_came {
            // Nothing was lost.
            hot.flags.remove(Flags::TAIL_PROBED);
        } else if end.is_before(acknowledgement) {
            // The probe mended a loss, which counts as one.
            hot.flags.remove(Flags::TAIL_PROBED);
            // What was under way when it was lost is not known any more: the window was.
            hot.control.on_loss(hot.control.window(), mss);
        }
    }
}

/// Timers of peers and schedulers are late by so much, in ns.
const LATE_NS: u64 = 2_000_000;
/// A peer's acknowledgement of a single segment waits for so long. RFC 8985, WCDelAckT.
const PEER_DELAY_NS: u64 = 200_000_000;
/// So many timeouts in a row: a peer that told of bytes may have dropped them.
const DOUBTS: u8 = 2;
/// The tolerance grows to this, in segments.
const MOST_TOLERANCE: u8 = 16;
