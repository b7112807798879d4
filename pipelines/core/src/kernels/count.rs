//! Where each counter of [`BlockCounters`] lies in its row of words.

use core::mem::offset_of;

use warpwire_device::SharedCounters;

use crate::block::BlockCounters;

pub(crate) const TURNS: u32 = place(offset_of!(BlockCounters, turns));
pub(crate) const IDLE_TURNS: u32 = place(offset_of!(BlockCounters, idle_turns));
pub(crate) const COMPLETED: u32 = place(offset_of!(BlockCounters, checksums_completed));
pub(crate) const DROPS: u32 = place(offset_of!(BlockCounters, drops));
pub(crate) const CAUSES: u32 = place(offset_of!(BlockCounters, causes));

const fn place(offset: usize) -> u32 {
    (offset / 8) as u32
}

/// Sets a word of a row that has this warp as its only writer; one lane calls it.
#[inline(always)]
pub(crate) fn set(counters: SharedCounters, index: u32, value: u64) {
    if let Some(counter) = counters.at(index) {
        counter.add_alone(value.wrapping_sub(counter.value()));
    }
}
