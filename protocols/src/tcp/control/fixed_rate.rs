//! A sender of a fixed rate: it knows what the network carries, and nothing changes it.

use super::{Congestion, LARGEST_WINDOW, Progress};
use core::num::NonZeroU64;

/// Paces to a rate; the window is what the rate fills in two round trips.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct FixedRate {
    bytes_per_s: NonZeroU64,
    /// When the next segment may leave, in ns.
    next_ns: u64,
    window: u32,
}

impl FixedRate {
    /// One that has sent nothing.
    pub fn new(bytes_per_s: NonZeroU64) -> Self {
        let mut new = Self {
            bytes_per_s,
            next_ns: 0,
            window: 0,
        };
        new.set_window(0, 0);
        new
    }

    fn set_window(&mut self, round_trip_ns: u64, mss: u32) {
        let ms = (2 * round_trip_ns / 1_000_000).max(LEAST_MS);
        let bytes = self.bytes_per_s.get().saturating_mul(ms) / 1000;
        let least = 10 * mss.clamp(536, 65_536);
        self.window = bytes.clamp(u64::from(least), u64::from(LARGEST_WINDOW)) as u32;
    }
}

impl Congestion for FixedRate {
    fn window(&self) -> u32 {
        self.window
    }

    fn threshold(&self) -> u32 {
        self.window
    }

    fn on_acknowledged(&mut self, progress: &Progress) {
        self.set_window(progress.round_trip_ns, progress.mss);
    }

    fn on_loss(&mut self, _in_flight: u32, _mss: u32) {}

    fn on_timeout(&mut self, _in_flight: u32, _mss: u32, _is_first: bool) {}

    fn on_idle(&mut self, _mss: u32) {}

    fn on_sent(&mut self, now_ns: u64, bytes: u32) {
        let gap = u64::from(bytes).saturating_mul(1_000_000_000) / self.bytes_per_s;
        // Who is called a little late catches up; who was silent does not.
        let from = self.next_ns.max(now_ns.saturating_sub(LATE_NS));
        self.next_ns = from.saturating_add(gap);
    }

    fn next_ns(&self) -> u64 {
        self.next_ns
    }

    fn burst(&self) -> u32 {
        (self.bytes_per_s.get() / BURSTS_PER_S).min(u64::from(u32::MAX)) as u32
    }
}

/// The window is for so long at least, in ms: acknowledgements wait.
const LEAST_MS: u64 = 100;
/// Calls are late by so much without loss of rate, in ns.
const LATE_NS: u64 = 1_000_000;
/// A train takes a millisecond.
const BURSTS_PER_S: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes_per_s: u64) -> FixedRate {
        FixedRate::new(NonZeroU64::new(bytes_per_s).unwrap())
    }

    #[test]
    fn bytes_leave_at_the_rate() {
        let mut rate = of(1_000_000);
        let (mut now_ns, mut sent) = (50_000_000, 0);
        let end_ns = now_ns + 1_000_000_000;
        while now_ns < end_ns {
            rate.on_sent(now_ns, 1460);
            sent += 1460;
            // Called late by up to 400 microseconds.
            now_ns = rate.next_ns().max(now_ns) + sent % 400_000;
        }
        assert!(
            (995_000..=1_005_000).contains(&sent),
            "{sent} bytes in a second"
        );
        assert_eq!(of(10_000_000).burst(), 10_000);
    }

    #[test]
    fn the_window_is_two_round_trips_and_loss_changes_nothing() {
        let mut rate = of(10_000_000);
        assert_eq!(rate.window(), 1_000_000, "100 ms of it");
        let progress = Progress {
            now_ns: 0,
            bytes: 1,
            round_trip_ns: 200_000_000,
            mss: 1460,
            is_limited: false,
        };
        rate.on_acknowledged(&progress);
        assert_eq!(rate.window(), 4_000_000);
        let before = rate;
        rate.on_loss(5, 1460);
        rate.on_timeout(5, 1460, true);
        rate.on_idle(1460);
        assert_eq!(rate, before);
        let mut slow = of(1);
        slow.on_acknowledged(&progress);
        assert_eq!(slow.window(), 14_600);
        let mut fast = of(u64::MAX);
        fast.on_acknowledged(&progress);
        fast.on_sent(u64::MAX, u32::MAX);
        assert_eq!((fast.window(), fast.burst()), (1 << 30, u32::MAX));
    }
}
