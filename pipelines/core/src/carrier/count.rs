//! What a lane counted in a visit, and where it goes.

use core::mem::offset_of;

use warpwire_device::{SharedCounters, Simt};
use warpwire_engine::streams::tables::StreamCounters;

/// What one lane counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    pub(super) received: u32,
    pub(super) sent: u32,
    pub(super) placed_bytes: u32,
    pub(super) sent_bytes: u32,
    pub(super) closed: u32,
    pub(super) failed: u32,
}

/// The counters of a block, to which its leader adds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts(SharedCounters);

impl Counts {
    pub(super) const fn new(counters: SharedCounters) -> Self {
        Self(counters)
    }

    /// By the leader.
    pub(super) fn count(&self, offset: usize, value: u64) {
        if value > 0
            && let Some(counter) = self.0.at((offset / 8) as u32)
        {
            counter.add_alone(value);
        }
    }

    /// *Collective.* Adds what all lanes counted.
    pub(super) fn add<S: Simt>(&self, simt: &S, tally: &Tally) {
        if !simt.any(*tally != Tally::default()) {
            return;
        }
        let parts = [
            (offset_of!(StreamCounters, received), tally.received),
            (offset_of!(StreamCounters, sent), tally.sent),
            (offset_of!(StreamCounters, placed_bytes), tally.placed_bytes),
            (offset_of!(StreamCounters, sent_bytes), tally.sent_bytes),
            (offset_of!(StreamCounters, closed), tally.closed),
            (offset_of!(StreamCounters, failed), tally.failed),
        ];
        for (offset, mine) in parts {
            // Halves, as sums have 32 bits and bytes of a lane may be many.
            let low = simt.sum(mine & 0xffff);
            let high = simt.sum(mine >> 16);
            if simt.is_leader() {
                self.count(offset, u64::from(low) + (u64::from(high) << 16));
            }
        }
    }
}

/// Words of a block's counters.
pub(super) const ENTRIES: u32 = (size_of::<StreamCounters>() / 8) as u32;
