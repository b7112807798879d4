//! Round-trip time and the time before a repetition. RFC 6298.

use super::config::Config;

/// What is known of the way to the peer and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(super) struct RoundTrip {
    /// Smoothed, in ns; 0 if nothing was measured.
    pub(super) smoothed_ns: u64,
    /// Variation, in ns.
    pub(super) variation_ns: u64,
    /// How often the time before a repetition was doubled.
    pub(super) backoff: u8,
    /// SYN had to be repeated: 3 seconds before the first repetition of data.
    pub(super) is_slow: bool,
}

impl RoundTrip {
    /// A segment that was sent once was acknowledged after so long.
    pub(super) fn measured(&mut self, ns: u64) {
        let ns = ns.clamp(1, LONGEST_NS);
        if self.smoothed_ns == 0 {
            self.smoothed_ns = ns;
            self.variation_ns = ns / 2;
        } else {
            let differs = self.smoothed_ns.abs_diff(ns);
            self.variation_ns = self.variation_ns - self.variation_ns / 4 + differs / 4;
            self.smoothed_ns = (self.smoothed_ns - self.smoothed_ns / 8 + ns / 8).max(1);
        }
        self.backoff = 0;
        self.is_slow = false;
    }

    /// Time before a repetition without backing off, in ns.
    pub(super) fn base_ns(&self, config: &Config) -> u64 {
        if self.smoothed_ns == 0 {
            let least = if self.is_slow { SLOW_NS } else { 0 };
            return config.initial_rto_ns.max(least).min(config.max_rto_ns);
        }
        let variation = (4 * self.variation_ns).max(GRANULARITY_NS);
        let rto = self.smoothed_ns + variation;
        rto.max(config.min_rto_ns).min(config.max_rto_ns)
    }

    /// The longest round trip that is no surprise, in ns.
    pub(super) fn expected_ns(&self, config: &Config) -> u64 {
        match self.smoothed_ns {
            0 => config.max_rto_ns,
            smoothed => smoothed + (4 * self.variation_ns).max(GRANULARITY_NS),
        }
    }

    /// Time before the next repetition, in ns.
    pub(super) fn timeout_ns(&self, config: &Config) -> u64 {
        let base = self.base_ns(config);
        base.saturating_mul(1 << self.backoff.min(16))
            .min(config.max_rto_ns)
    }

    pub(super) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }
}

/// What a measurement is cut to: more says nothing of the network.
const LONGEST_NS: u64 = 1 << 40;
/// Clock granularity G, of timestamps too.
pub(super) const GRANULARITY_NS: u64 = 1_000_000;
/// RFC 6298 section 5.7.
const SLOW_NS: u64 = 3_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_follows_rfc_6298() {
        let config = Config {
            min_rto_ns: 0,
            ..Config::default()
        };
        let mut trip = RoundTrip::default();
        assert_eq!(trip.timeout_ns(&config), 1_000_000_000);
        trip.is_slow = true;
        assert_eq!(trip.timeout_ns(&config), 3_000_000_000);
        // (measurement, SRTT, RTTVAR) in ms, by hand.
        let cases = [
            (80.0, 80.0, 40.0),
            (80.0, 80.0, 30.0),
            (160.0, 90.0, 42.5),
            (10.0, 80.0, 51.875),
        ];
        for (measured, smoothed, variation) in cases {
            trip.measured((measured * 1e6) as u64);
            assert_eq!(trip.smoothed_ns, (smoothed * 1e6) as u64);
            assert_eq!(trip.variation_ns, (variation * 1e6) as u64);
            let rto = smoothed + 4.0 * variation;
            assert_eq!(trip.timeout_ns(&config), (rto * 1e6) as u64);
        }
    }

    #[test]
    fn backing_off_doubles_up_to_the_longest() {
        let config = Config::default();
        let mut trip = RoundTrip::default();
        trip.measured(1000);
        for want in [200, 400, 800, 1600] {
            assert_eq!(trip.timeout_ns(&config), want * 1_000_000);
            trip.back_off();
        }
        (0..300).for_each(|_| trip.back_off());
        assert_eq!(trip.timeout_ns(&config), config.max_rto_ns);
        trip.measured(u64::MAX);
        assert_eq!(trip.timeout_ns(&config), config.max_rto_ns);
    }
}
