//! Gauges: kernels that measure the machine and not a queue. The step of the clock, the time from
//! publishing to completion, and what parsing and the invariant CRC take over frames in memory.

mod sweep;
mod timing;

pub use sweep::{IcrcSweep, ParseSweep, ROW, SweepCounters, SweepParameters};
pub use timing::{ClockStep, DESCRIPTOR_WORDS, PublishTime, TimingCounters, TimingParameters};
pub use timing::{TimingPort, WINDOW_READS};

use warpwire_device::{SharedCounter, SharedCounters, Simt};

/// *Collective.* A word of the counters, the same in every lane.
#[inline(always)]
fn word<S: Simt>(simt: &S, counters: SharedCounters, index: u32) -> u64 {
    let value = counters.at(index).map_or(0, SharedCounter::value);
    simt.shuffle_u64(value, 0)
}

const fn place(offset: usize) -> u32 {
    (offset / 8) as u32
}
