//! Congestion control of a sender: DCQCN ("Congestion Control for Large-Scale RDMA Deployments",
//! Zhu et al., SIGCOMM 2015, section 3.1), with the parameters that NICs ship with.
//!
//! A notification of congestion cuts the rate; time and bytes without one bring it back: halfway to
//! the rate before the cut (fast recovery), then beyond it, by small steps and then by large ones.

/// What the algorithm is tuned by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Tuning {
    /// Rate of the link, in kbit/s: nothing is faster.
    pub line: u32,
    /// The lowest rate, in kbit/s.
    pub least: u32,
    /// Small step, in kbit/s.
    pub additive: u32,
    /// Large step, in kbit/s.
    pub hyper: u32,
    /// Time after which the rate grows, in ns.
    pub grow_ns: u32,
    /// Time after which congestion is forgotten a little, in ns.
    pub forget_ns: u32,
    /// Bytes after which the rate grows.
    pub grow_bytes: u32,
    /// Steps of fast recovery.
    pub recovery: u8,
    /// Whether it is on. Off, nothing is paced and notifications change nothing.
    pub is_on: bool,
}

impl Tuning {
    /// The values of NICs, for a link of this rate in kbit/s.
    pub const fn of_link(line: u32) -> Self {
        Self {
            line,
            least: 10_000,
            additive: 40_000,
            hyper: 200_000,
            grow_ns: 55_000,
            forget_ns: 55_000,
            grow_bytes: 10_000_000,
            recovery: 5,
            is_on: true,
        }
    }

    /// No control.
    pub const OFF: Self = Self {
        is_on: false,
        ..Self::of_link(u32::MAX)
    };
}

/// The rate of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Rate {
    /// When the next packet may leave.
    next_ns: u64,
    /// When congestion is forgotten a little more.
    forget_at_ns: u64,
    /// When the rate grows.
    grow_at_ns: u64,
    /// In kbit/s.
    current: u32,
    /// Where it is to come back to, in kbit/s.
    target: u32,
    /// How much congestion there is, in 1/65536.
    alpha: u32,
    /// Bytes since they last made the rate grow.
    bytes: u32,
    /// How often time made it grow since the last cut.
    time_steps: u8,
    /// How often bytes did.
    byte_steps: u8,
    /// Whether the rate is below the link's.
    is_cut: bool,
}

impl Rate {
    /// As fast as the link.
    pub const fn new(tuning: &Tuning) -> Self {
        Self {
            next_ns: 0,
            forget_at_ns: 0,
            grow_at_ns: 0,
            current: tuning.line,
            target: tuning.line,
            alpha: ONE,
            bytes: 0,
            time_steps: 0,
            byte_steps: 0,
            is_cut: false,
        }
    }

    /// The rate now, in kbit/s.
    pub const fn current(&self) -> u32 {
        self.current
    }

    /// The rate that it comes back to, in kbit/s.
    pub const fn target(&self) -> u32 {
        self.target
    }

    /// How much congestion there is, in 1/65536.
    pub const fn alpha(&self) -> u32 {
        self.alpha
    }

    /// When a packet may leave that may not leave now.
    pub fn wait_until_ns(&self, now_ns: u64) -> Option<u64> {
        (self.is_cut && now_ns < self.next_ns).then_some(self.next_ns)
    }

    /// A notification of congestion came.
    pub fn on_congestion(&mut self, now_ns: u64, tuning: &Tuning) {
        if !tuning.is_on {
            return;
        }
        self.advance(now_ns, tuning);
        self.target = self.current;
        let cut = (u64::from(self.current) * u64::from(self.alpha)) >> 17;
        self.current = self.current.saturating_sub(cut as u32).max(tuning.least);
        self.alpha = self.alpha - (self.alpha >> GAIN) + (ONE >> GAIN);
        self.time_steps = 0;
        self.byte_steps = 0;
        self.bytes = 0;
        self.is_cut = true;
        self.forget_at_ns = now_ns.saturating_add(u64::from(tuning.forget_ns));
        self.grow_at_ns = now_ns.saturating_add(u64::from(tuning.grow_ns));
    }

    /// A packet of so many bytes leaves.
    pub fn on_sent(&mut self, now_ns: u64, bytes: u32, tuning: &Tuning) {
        if !self.is_cut {
            return;
        }
        self.advance(now_ns, tuning);
        let gap_ns = u64::from(bytes) * 8_000_000 / u64::from(self.current.max(1));
        self.next_ns = self.next_ns.max(now_ns).saturating_add(gap_ns);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes >= tuning.grow_bytes {
            self.bytes = 0;
            self.byte_steps = self.byte_steps.saturating_add(1);
            self.grow(tuning);
        }
    }

    /// Lets time pass.
    pub fn advance(&mut self, now_ns: u64, tuning: &Tuning) {
        if !self.is_cut {
            return;
        }
        let steps = due(&mut self.forget_at_ns, now_ns, tuning.forget_ns);
        for _ in 0..steps {
            self.alpha -= self.alpha >> GAIN;
        }
        let steps = due(&mut self.grow_at_ns, now_ns, tuning.grow_ns);
        for _ in 0..steps {
            self.time_steps = self.time_steps.saturating_add(1);
            self.grow(tuning);
        }
    }

    fn grow(&mut self, tuning: &Tuning) {
        let (most, least) = match self.time_steps > self.byte_steps {
            true => (self.time_steps, self.byte_steps),
            false => (self.byte_steps, self.time_steps),
        };
        let step = if most <= tuning.recovery {
            0
        } else if least > tuning.recovery {
            tuning.hyper
        } else {
            tuning.additive
        };
        self.target = self.target.saturating_add(step).min(tuning.line);
        let sum = u64::from(self.current) + u64::from(self.target);
        self.current = sum.div_ceil(2) as u32;
        self.is_cut = self.current < tuning.line;
    }
}

/// How many periods ended, and when the next one does. After a long time a bounded number is told:
/// by then everything is forgotten or has grown.
fn due(at_ns: &mut u64, now_ns: u64, period_ns: u32) -> u64 {
    let Some(late) = now_ns.checked_sub(*at_ns) else {
        return 0;
    };
    let period = u64::from(period_ns.max(1));
    let steps = late / period + 1;
    *at_ns = at_ns.saturating_add(steps * period);
    steps.min(MOST_STEPS)
}

/// Limits how often a sender is told of congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Notifier {
    /// When the next notification may be sent, in ns, above a bit: one is to be sent.
    state: u64,
}

impl Notifier {
    /// A packet came that met congestion.
    pub fn on_mark(&mut self, now_ns: u64) {
        if now_ns >= self.state >> 1 {
            self.state = now_ns.saturating_add(NOTIFY_PERIOD_NS) << 1 | 1;
        }
    }

    /// Whether one is to be sent now; it counts as sent.
    pub fn take(&mut self) -> bool {
        let is_due = self.state & 1 != 0;
        self.state &= !1;
        is_due
    }
}

/// Congestion 1.
const ONE: u32 = 1 << 16;
/// A notification counts 1/256.
const GAIN: u32 = 8;
/// Periods that are looked at one by one.
const MOST_STEPS: u64 = 4096;
/// One notification in this time.
const NOTIFY_PERIOD_NS: u64 = 50_000;

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u32 = 100_000_000;

    fn tuning() -> Tuning {
        Tuning::of_link(LINE)
    }

    #[test]
    fn a_first_notification_halves_and_recovery_comes_back() {
        let tuning = tuning();
        let mut rate = Rate::new(&tuning);
        rate.on_congestion(0, &tuning);
        assert_eq!((rate.current(), rate.target()), (LINE / 2, LINE));
        let mut want = LINE / 2;
        for step in 1..=5 {
            rate.advance(step * 55_000, &tuning);
            want = (want + LINE).div_ceil(2);
            assert_eq!(rate.current(), want, "step {step}");
        }
        // Congestion is forgotten by 1/256 a period.
        let mut alpha = ONE;
        (0..5).for_each(|_| alpha -= alpha >> 8);
        assert_eq!(rate.alpha(), alpha);
        rate.advance(1_000_000_000, &tuning);
        assert_eq!(rate.current(), LINE);
        assert_eq!(rate.wait_until_ns(1_000_000_000), None, "no longer paced");
    }

    #[test]
    fn many_notifications_reach_the_least_and_no_less() {
        let tuning = tuning();
        let mut rate = Rate::new(&tuning);
        for now in 0..400 {
            let before = rate.current();
            rate.on_congestion(now, &tuning);
            assert!(rate.current() <= before);
        }
        assert_eq!(rate.current(), tuning.least);
        assert_eq!(rate.alpha(), ONE, "as much congestion as there can be");
    }

    #[test]
    fn packets_leave_at_the_rate() {
        let tuning = tuning();
        let mut rate = Rate::new(&tuning);
        rate.on_sent(0, 1000, &tuning);
        assert_eq!(rate.wait_until_ns(0), None);
        (0..400).for_each(|_| rate.on_congestion(0, &tuning));
        // 10 Mbit/s: 1250 bytes a millisecond.
        rate.on_sent(0, 1250, &tuning);
        assert_eq!(rate.wait_until_ns(0), Some(1_000_000));
        assert_eq!(rate.wait_until_ns(1_000_000), None);
    }

    #[test]
    fn bytes_make_it_grow_as_time_does() {
        let tuning = Tuning {
            grow_ns: u32::MAX,
            ..tuning()
        };
        let mut rate = Rate::new(&tuning);
        rate.on_congestion(0, &tuning);
        rate.on_sent(0, 10_000_000, &tuning);
        assert_eq!(rate.current(), LINE / 4 * 3);
    }

    #[test]
    fn off_is_off() {
        let mut rate = Rate::new(&Tuning::OFF);
        rate.on_congestion(5, &Tuning::OFF);
        rate.on_sent(5, u32::MAX, &Tuning::OFF);
        assert_eq!(rate, Rate::new(&Tuning::OFF));
    }

    #[test]
    fn one_notification_in_a_period() {
        let mut notifier = Notifier::default();
        assert!(!notifier.take());
        let cases = [(0, true), (1, false), (49_999, false), (50_000, true)];
        for (now, want) in cases {
            notifier.on_mark(now);
            assert_eq!(notifier.take(), want, "{now}");
            assert!(!notifier.take(), "once");
        }
    }
}
