//! Where each counter of a block lies in its row of words.

use core::mem::offset_of;

use warpwire_device::{SharedCounters, Simt};
use warpwire_protocols::DropReason;
use warpwire_protocols::tcp::Note;

use super::tables::StreamCounters;

macro_rules! counters {
    ($($name:ident = $field:ident;)*) => {
        $(pub(super) const $name: u32 = place(offset_of!(StreamCounters, $field));)*
    };
}

counters! {
    TURNS = turns;
    IDLE_TURNS = idle_turns;
    RECEIVED = received;
    SENT = sent;
    PLACED_BYTES = placed_bytes;
    SENT_BYTES = sent_bytes;
    SLOW = slow;
    SLOW_LOST = slow_lost;
    INJECTED = injected;
    INJECT_REFUSED = inject_refused;
    CONNECTED = connected;
    CLOSED = closed;
    FAILED = failed;
    RESETS = resets;
    RESETS_HELD = resets_held;
    COOKIES = cookies;
    ACCEPT_FULL = accept_full;
    NO_PLACE = no_place;
    NO_CHUNK = no_chunk;
    ANSWERS_LOST = answers_lost;
    DISPLACED = displaced;
    MOVED = moved;
    HANDED = handed;
    TAKEN = taken;
    DROPS = drops;
    NOTES = notes;
}

pub(super) const ENTRIES: u32 = (size_of::<StreamCounters>() / 8) as u32;

const fn place(offset: usize) -> u32 {
    (offset / 8) as u32
}

/// The counters of a block.
#[derive(Clone, Copy)]
pub(super) struct Counts(SharedCounters);

impl Counts {
    pub(super) const fn new(counters: SharedCounters) -> Self {
        Self(counters)
    }

    /// Adds to a counter that lanes may add to at the same time.
    pub(super) fn add<S: Simt>(&self, simt: &S, index: u32, value: u64) {
        if let Some(counter) = self.0.at(index) {
            simt.add(counter, value);
        }
    }

    pub(super) fn drop<S: Simt>(&self, simt: &S, reason: DropReason) {
        self.add(simt, DROPS + reason.index() as u32, 1);
    }

    /// Adds to a counter that the leader alone adds to.
    pub(super) fn count(&self, index: u32, value: u64) {
        if let Some(counter) = self.0.at(index) {
            counter.add_alone(value);
        }
    }

    pub(super) fn note(&self, note: Note) {
        self.count(NOTES + note as u32, 1);
    }
}
