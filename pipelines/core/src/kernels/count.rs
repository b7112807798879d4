//! Where each counter lies in its row of words.

use core::mem::offset_of;

use warpwire_device::SharedCounters;

use crate::block::{BlockCounters, PortCounters};

/// Of [`BlockCounters`].
pub(crate) const TURNS: u32 = place(offset_of!(BlockCounters, turns));
pub(crate) const IDLE_TURNS: u32 = place(offset_of!(BlockCounters, idle_turns));

/// Of [`PortCounters`].
pub(crate) const DROPS: u32 = place(offset_of!(PortCounters, drops));
pub(crate) const COMPLETED: u32 = place(offset_of!(PortCounters, checksums_completed));
pub(crate) const RECEIVE_CAUSE: u32 = place(offset_of!(PortCounters, receive_cause));
pub(crate) const TRANSMIT_CAUSE: u32 = place(offset_of!(PortCounters, transmit_cause));

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
