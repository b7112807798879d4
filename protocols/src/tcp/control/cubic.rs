//! CUBIC in whole numbers. RFC 9438 section 4.
//!
//! ```text
//! W(t) = C (t - K)^3 + W_max     in segments, t in seconds since this growth began
//! K    = cbrt((W_max - cwnd at the beginning) / C),   C = 0.4,   after loss cwnd = 0.7 cwnd
//! ```
//! Here windows are bytes and times milliseconds.

use super::{Congestion, LARGEST_WINDOW, Progress};
use core::num::NonZeroU64;

/// The state of CUBIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Cubic {
    /// When this stage of congestion avoidance began, in ns; 0 before it did.
    epoch_ns: u64,
    /// Growth that is not yet a byte, in units of 1 / window.
    credit: u64,
    window: u32,
    threshold: u32,
    /// The window before it was reduced last (W_max); 0 after a timeout.
    plateau: u32,
    /// K in ms.
    plateau_ms: u32,
    /// What Reno would have (W_est).
    reno: u32,
    /// Acknowledged bytes that count for Reno's next segment.
    reno_credit: u32,
}

impl Cubic {
    /// One that begins with this window, in bytes.
    pub const fn new(window: u32) -> Self {
        Self {
            epoch_ns: 0,
            credit: 0,
            window,
            threshold: LARGEST_WINDOW,
            plateau: 0,
            plateau_ms: 0,
            reno: 0,
            reno_credit: 0,
        }
    }

    fn begin(&mut self, now_ns: u64, mss: u32) {
        self.epoch_ns = now_ns.max(1);
        self.credit = 0;
        self.reno = self.window;
        self.reno_credit = 0;
        if self.plateau <= self.window {
            self.plateau = self.window;
            self.plateau_ms = 0;
            return;
        }
        let gap = u64::from(self.plateau - self.window);
        let mss = NonZeroU64::new(u64::from(mss)).unwrap_or(NonZeroU64::MIN);
        self.plateau_ms = cube_root(gap * CUBE_MS / mss);
    }

    /// W(t), in bytes.
    fn at(&self, ms: u64, mss: u32) -> u32 {
        let plateau_ms = u64::from(self.plateau_ms);
        let far = ms.abs_diff(plateau_ms).min(FARTHEST_MS);
        let bytes = ((far * far * far) >> 6) * u64::from(mss) / (CUBE_MS >> 6);
        let bytes = bytes.min(u64::from(LARGEST_WINDOW)) as u32;
        match ms >= plateau_ms {
            true => self.plateau.saturating_add(bytes),
            false => self.plateau.saturating_sub(bytes),
        }
    }

    /// Reno's window grows by a segment a window, more slowly until it is where it was.
    fn grow_reno(&mut self, bytes: u32, mss: u32) {
        let counts = match self.reno < self.plateau {
            true => (u64::from(bytes) * 9 / 17) as u32,
            false => bytes,
        };
        self.reno_credit = self.reno_credit.saturating_add(counts);
        if self.reno_credit >= self.window {
            self.reno_credit -= self.window;
            self.reno_credit = self.reno_credit.min(self.window);
            self.reno = self.reno.saturating_add(mss).min(LARGEST_WINDOW);
        }
    }

    fn avoid(&mut self, progress: &Progress) {
        let &Progress { now_ns, mss, .. } = progress;
        if self.epoch_ns == 0 {
            self.begin(now_ns, mss);
        }
        self.grow_reno(progress.bytes, mss);
        let since_ns = now_ns.saturating_sub(self.epoch_ns);
        if self.at(since_ns / 1_000_000, mss) < self.reno {
            self.window = self.window.max(self.reno);
            return;
        }
        let then_ms = since_ns.saturating_add(progress.round_trip_ns) / 1_000_000;
        let most = self.window.saturating_add(self.window / 2);
        let target = self.at(then_ms, mss).clamp(self.window, most);
        let window = u64::from(self.window.max(1));
        let bytes = u64::from(progress.bytes.min(self.window));
        self.credit = self
            .credit
            .saturating_add(u64::from(target - self.window) * bytes);
        if self.credit >= window {
            let grown = self.credit / NonZeroU64::new(window).unwrap_or(NonZeroU64::MIN);
            self.credit -= grown * window;
            self.window = self.window.saturating_add(grown as u32).min(LARGEST_WINDOW);
        }
    }

    fn reduce(&mut self, in_flight: u32, mss: u32) {
        let reduced = (u64::from(in_flight.min(self.window)) * 7 / 10) as u32;
        self.threshold = reduced.max(2 * mss);
        self.epoch_ns = 0;
    }
}

impl Congestion for Cubic {
    fn window(&self) -> u32 {
        self.window
    }

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn on_acknowledged(&mut self, progress: &Progress) {
        if !progress.is_limited {
            return;
        }
        if self.window < self.threshold {
            let grown = self.window.saturating_add(progress.bytes);
            self.window = grown.min(self.threshold.max(self.window));
        } else {
            self.avoid(progress);
        }
    }

    fn on_loss(&mut self, in_flight: u32, mss: u32) {
        // Fast convergence: who gets less than before leaves room for others.
        let window = u64::from(self.window);
        self.plateau = match self.window < self.plateau {
            true => (window * 17 / 20) as u32,
            false => self.window,
        };
        self.reduce(in_flight, mss);
        self.window = self.threshold;
    }

    fn on_timeout(&mut self, in_flight: u32, mss: u32, is_first: bool) {
        if is_first {
            self.reduce(in_flight, mss);
        }
        self.plateau = 0;
        self.epoch_ns = 0;
        self.window = mss;
    }

    fn on_idle(&mut self, mss: u32) {
        self.threshold = self.threshold.max(self.window / 4 * 3);
        self.window = self.window.min(super::initial_window(mss));
        self.epoch_ns = 0;
    }
}

/// The largest number whose cube is not above `value`; two bits of three a step.
const fn cube_root(value: u64) -> u32 {
    let mut root: u64 = 0;
    let mut bit: u64 = 1 << 20;
    while bit > 0 {
        let next = root | bit;
        if next * next * next <= value {
            root = next;
        }
        bit >>= 1;
    }
    root as u32
}

/// 1 / C in cubic milliseconds: 2.5 seconds cubed.
const CUBE_MS: u64 = 2_500_000_000;
/// Longer times give no larger windows, in ms.
const FARTHEST_MS: u64 = 131_071;

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1460;

    #[test]
    fn cube_roots() {
        for root in [0u64, 1, 2, 3, 10, 1000, 123_456, 2_097_151] {
            let cube = root * root * root;
            assert_eq!(u64::from(cube_root(cube)), root);
            assert_eq!(u64::from(cube_root(cube + 3 * root * root)), root);
            if root > 0 {
                assert_eq!(u64::from(cube_root(cube - 1)), root - 1);
            }
        }
    }

    /// W(t) after a loss at a window of so many segments; computed with floating point from the
    /// formula of the RFC, outside of this program: (W_max, t in ms, W(t) in segments).
    const TABLE: [(u32, u64, f64); 21] = [
        (100, 0, 70.0),
        (100, 500, 79.456),
        (100, 1000, 86.681),
        (100, 2000, 95.64),
        (100, 5000, 100.192),
        (100, 10000, 177.354),
        (100, 20000, 1672.589),
        (1000, 0, 700.0),
        (1000, 500, 746.853),
        (1000, 1000, 788.555),
        (1000, 2000, 857.705),
        (1000, 5000, 972.721),
        (1000, 10000, 1000.306),
        (1000, 20000, 1520.067),
        (20000, 0, 14000.0),
        (20000, 500, 14357.583),
        (20000, 1000, 14700.67),
        (20000, 2000, 15344.55),
        (20000, 5000, 16959.458),
        (20000, 10000, 18739.188),
        (20000, 20000, 19959.467),
    ];

    #[test]
    fn the_curve_is_that_of_the_formula() {
        for (plateau, ms, want) in TABLE {
            let mut cubic = Cubic::new(plateau * MSS);
            cubic.on_loss(plateau * MSS, MSS);
            cubic.begin(1, MSS);
            let got = f64::from(cubic.at(ms, MSS)) / f64::from(MSS);
            let differs = (got - want).abs() / want;
            assert!(
                differs < 0.002,
                "W_max {plateau}, {ms} ms: {got}, not {want}"
            );
        }
    }

    fn progress(now_ns: u64, bytes: u32) -> Progress {
        Progress {
            now_ns,
            bytes,
            round_trip_ns: 100_000_000,
            mss: MSS,
            is_limited: true,
        }
    }

    #[test]
    fn slow_start_doubles_a_round_trip_up_to_the_threshold() {
        let mut cubic = Cubic::new(10 * MSS);
        for _ in 0..10 {
            cubic.on_acknowledged(&progress(1, MSS));
        }
        assert_eq!(cubic.window(), 20 * MSS);
        let idle = Progress {
            is_limited: false,
            ..progress(1, MSS)
        };
        cubic.on_acknowledged(&idle);
        assert_eq!(cubic.window(), 20 * MSS, "only what is used grows");
        cubic.on_loss(20 * MSS, MSS);
        assert_eq!((cubic.window(), cubic.threshold()), (14 * MSS, 14 * MSS));
        cubic.on_timeout(14 * MSS, MSS, true);
        assert_eq!(cubic.window(), MSS);
        assert_eq!(cubic.threshold(), 14 * MSS / 10 * 7);
        cubic.on_timeout(MSS, MSS, false);
        assert_eq!(
            cubic.threshold(),
            14 * MSS / 10 * 7,
            "one reduction for all"
        );
        cubic.on_acknowledged(&progress(2, 100 * MSS));
        assert_eq!(
            cubic.window(),
            14 * MSS / 10 * 7,
            "no further than the threshold"
        );
    }

    #[test]
    fn short_ways_grow_as_reno_does() {
        let mut cubic = Cubic::new(100 * MSS);
        cubic.on_loss(100 * MSS, MSS);
        let mut now_ns = 1;
        // 1 ms a round trip: 30 of them give Reno 9/17 of 30 segments, and cubic almost none.
        for _ in 0..30 {
            let window = cubic.window();
            for _ in 0..window.div_ceil(MSS) {
                let progress = Progress {
                    round_trip_ns: 1_000_000,
                    ..progress(now_ns, MSS)
                };
                cubic.on_acknowledged(&progress);
            }
            now_ns += 1_000_000;
        }
        let grown = (cubic.window() - 70 * MSS) / MSS;
        assert!((14..=17).contains(&grown), "{grown} segments");
    }

    #[test]
    fn fast_convergence_leaves_room() {
        let mut cubic = Cubic::new(100 * MSS);
        cubic.on_loss(100 * MSS, MSS);
        cubic.on_loss(70 * MSS, MSS);
        assert_eq!(cubic.plateau, 70 * MSS * 17 / 20);
        assert_eq!(cubic.window(), 49 * MSS);
    }

    #[test]
    fn extremes_do_not_overflow() {
        for mss in [1, 65_535] {
            let mut cubic = Cubic::new(LARGEST_WINDOW);
            cubic.on_loss(u32::MAX, mss);
            for now_ns in [1, u64::MAX / 2, u64::MAX] {
                let progress = Progress {
                    now_ns,
                    bytes: u32::MAX,
                    round_trip_ns: u64::MAX,
                    mss,
                    is_limited: true,
                };
                cubic.on_acknowledged(&progress);
                assert!(cubic.window() <= LARGEST_WINDOW + LARGEST_WINDOW / 2);
            }
            cubic.on_timeout(0, mss, true);
            cubic.on_idle(mss);
        }
    }
}
