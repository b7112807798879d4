//! The clock: repetitions, probes, waiting acknowledgements, idle peers, and the end of patience.

use super::config::Config;
use super::connection::{Connection, after};
use super::control::Congestion;
use super::hot::Flags;
use super::state::{Cause, Events, State};

impl Connection {
    /// Looks at the clock. After [`Events::CLOSED`] one more [`poll`](Self::poll) may give a RST.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    pub fn on_timer(&mut self, now_ns: u64, config: &Config) -> Events {
        let is_due = |at_ns: u64| at_ns != 0 && at_ns <= now_ns;
        let hot = &mut self.hot;
        if hot.state == State::Closed {
            return Events::empty();
        }
        if is_due(hot.give_up_ns) {
            return self.give_up();
        }
        // What waited for its pace may be gone meanwhile; if not, it is found again.
        if hot.control.next_ns() <= now_ns {
            hot.flags.remove(Flags::PACED);
        }
        if is_due(hot.ack_ns) {
            hot.ack_ns = 0;
            hot.flags.insert(Flags::ACK_DUE);
        }
        if is_due(hot.slow_ns) {
            let events = self.on_slow_timer(now_ns, config);
            if !events.is_empty() {
                return events;
            }
        }
        if is_due(self.hot.timer_ns) {
            self.on_repeat_timer(now_ns, config);
        } else if is_due(self.hot.probe_ns) {
            self.on_probe_timer(now_ns, config);
        }
        Events::empty()
    }

    /// When [`on_timer`](Self::on_timer) and then [`poll`](Self::poll) want to be called at the
    /// latest; `None` if only a segment or the application can change anything.
    pub fn timeout_ns(&self) -> Option<u64> {
        let hot = &self.hot;
        let is_paced = hot.flags.contains(Flags::PACED);
        let paced_ns = if is_paced { hot.control.next_ns() } else { 0 };
        let times = [
            hot.timer_ns,
            hot.probe_ns,
            hot.ack_ns,
            hot.slow_ns,
            hot.give_up_ns,
            paced_ns,
        ];
        // 0 is never: one less makes it the last of all.
        let first = times
            .into_iter()
            .fold(u64::MAX, |first, at_ns| first.min(at_ns.wrapping_sub(1)));
        (first != u64::MAX).then(|| first + 1)
    }

    /// The peer does not answer.
    pub(super) fn give_up(&mut self) -> Events {
        let tells = self.hot.state != State::SynSent;
        let events = self.end(Cause::TimedOut);
        self.hot.flags.set(Flags::RESET_DUE, tells);
        events
    }

    /// TIME-WAIT is over, or the peer was silent for long.
    fn on_slow_timer(&mut self, now_ns: u64, config: &Config) -> Events {
        self.hot.slow_ns = 0;
        if self.hot.state == State::TimeWait {
            return self.end(Cause::Finished);
        }
        let Some(keep_alive) = config.keep_alive else {
            return Events::empty();
        };
        if self.cold.idle_probes >= keep_alive.probes {
            return self.give_up();
        }
        self.hot.slow_ns = after(now_ns, keep_alive.interval_ns);
        // While something is under way, its repetitions probe.
        if self.hot.una == self.hot.nxt && self.hot.state.is_synchronized() {
            self.cold.idle_probes = self.cold.idle_probes.saturating_add(1);
            self.hot.flags.insert(Flags::IDLE_PROBE_DUE);
        }
        Events::empty()
    }

    fn on_repeat_timer(&mut self, now_ns: u64, config: &Config) {
        let hot = &mut self.hot;
        hot.timer_ns = 0;
        match hot.state {
            State::SynSent | State::SynReceived => {
                hot.flags.insert(Flags::SYN_DUE | Flags::SYN_REPEATED);
                hot.flags.remove(Flags::TIMING);
                hot.trip.back_off();
                self.cold.counts.retransmits = self.cold.counts.retransmits.wrapping_add(1);
            }
            State::FinWait2 | State::TimeWait | State::Closed => {}
            _ if hot.flags.contains(Flags::PERSIST) || hot.window == 0 => {
                hot.flags.insert(Flags::PERSIST | Flags::WINDOW_PROBE_DUE);
                hot.trip.back_off();
                hot.timer_ns = after(now_ns, hot.trip.timeout_ns(config));
            }
            _ if hot.una != hot.nxt => self.on_timeout(now_ns, config),
            _ => {}
        }
    }
}
