//! What a lane does by itself, with code that is written for warps.

use crate::shared::SharedCounter;
use crate::simt::{Place, Simt};

/// One lane as a warp of its own: a collective call is one that this lane alone makes.
///
/// Code that takes a [`Simt`] runs at warp scope when it is given the warp, and at thread scope
/// when it is given this. What it works on belongs to the lane then, and not to its warp.
#[derive(Clone, Copy, Debug)]
pub struct Solo<'a, S>(pub &'a S);

impl<S: Simt> Simt for Solo<'_, S> {
    const WIDTH: u32 = 1;

    #[inline(always)]
    fn lane(&self) -> u32 {
        0
    }

    #[inline(always)]
    fn place(&self) -> Place {
        self.0.place()
    }

    #[inline(always)]
    fn ballot(&self, vote: bool) -> u32 {
        u32::from(vote)
    }

    #[inline(always)]
    fn shuffle(&self, value: u32, _source: u32) -> u32 {
        value
    }

    #[inline(always)]
    fn shuffle_u64(&self, value: u64, _source: u32) -> u64 {
        value
    }

    #[inline(always)]
    fn sync_warp(&self) {}

    /// A lane cannot meet a block: nothing happens. Code for lanes does not ask for it.
    #[inline(always)]
    fn sync_block(&self) {}

    #[inline(always)]
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    #[inline(always)]
    fn cycles(&self) -> u64 {
        self.0.cycles()
    }

    #[inline(always)]
    fn pause(&self) {
        self.0.pause();
    }

    #[inline(always)]
    fn give_way(&self) {
        self.0.give_way();
    }

    #[inline(always)]
    fn add(&self, counter: SharedCounter, value: u64) {
        counter.add(value);
    }
}
