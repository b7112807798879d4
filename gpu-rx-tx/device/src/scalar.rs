//! One lane a warp: the CPU backend.

use crate::simt::{Place, Simt};

/// What a scalar warp needs from the executor that runs it.
pub trait ScalarHost {
    /// Where the warp stands in its launch: alone, unless it is said otherwise. Constant; read once
    /// when the warp starts.
    fn place(&self) -> Place {
        Place::ALONE
    }

    /// See [`Simt::now_ns`].
    fn now_ns(&self) -> u64;

    /// See [`Simt::pause`]: the scheduling point of the warp's coroutine.
    fn pause(&self);

    /// See [`Simt::give_way`]: a scheduling point of a warp that is busy.
    fn give_way(&self) {
        self.pause();
    }

    /// See [`Simt::sync_block`]: returns when every warp of the block that has not returned is
    /// here. What they wrote before is seen after, whichever threads they run on.
    fn sync_block(&self);
}

/// The CPU backend: a warp is one lane, a collective call costs nothing.
#[derive(Clone, Copy)]
pub struct Scalar<'a> {
    host: &'a dyn ScalarHost,
    place: Place,
}

impl<'a> Scalar<'a> {
    /// A warp that runs on `host`.
    pub fn new(host: &'a dyn ScalarHost) -> Self {
        let place = host.place();
        Self { host, place }
    }
}

impl Simt for Scalar<'_> {
    const WIDTH: u32 = 1;

    #[inline(always)]
    fn lane(&self) -> u32 {
        0
    }

    #[inline(always)]
    fn place(&self) -> Place {
        self.place
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

    #[inline]
    fn sync_block(&self) {
        self.host.sync_block();
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    #[inline]
    fn pause(&self) {
        self.host.pause();
    }

    #[inline]
    fn give_way(&self) {
        self.host.give_way();
    }
}
