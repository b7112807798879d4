//! Where each counter of a block lies in its row of words.

use core::mem::offset_of;

use warpwire_device::{SharedCounters, Simt};
use warpwire_protocols::rdma::Note;

use crate::tables::EngineCounters;

pub(crate) const ENTRIES: u32 = (size_of::<EngineCounters>() / 8) as u32;
pub(crate) const TURNS: u32 = place(offset_of!(EngineCounters, turns));
pub(crate) const IDLE_TURNS: u32 = place(offset_of!(EngineCounters, idle_turns));
pub(crate) const RECEIVED: u32 = place(offset_of!(EngineCounters, received));
pub(crate) const SENT: u32 = place(offset_of!(EngineCounters, sent));
pub(crate) const FOREIGN: u32 = place(offset_of!(EngineCounters, foreign));
pub(crate) const DROPS: u32 = place(offset_of!(EngineCounters, drops));
const NOTES: u32 = place(offset_of!(EngineCounters, notes));

const fn place(offset: usize) -> u32 {
    (offset / 8) as u32
}

/// The counters of a block.
#[derive(Clone, Copy)]
pub(crate) struct Counts(SharedCounters);

impl Counts {
    pub(crate) fn new(counters: SharedCounters) -> Self {
        Self(counters)
    }

    /// Adds to a counter; lanes may do so at the same time.
    pub(crate) fn add<S: Simt>(&self, simt: &S, index: u32, value: u64) {
        if let Some(counter) = self.0.at(index) {
            simt.add(counter, value);
        }
    }

    pub(crate) fn note<S: Simt>(&self, simt: &S, note: Note) {
        self.add(simt, NOTES + note as u32, 1);
    }
}
