//! 32 lanes under a scheduler: the backend that tests run to see what a warp would do.

use crate::simt::{Place, Simt};

/// What 32 lanes need from the executor that schedules them.
///
/// Each lane is a coroutine of its own; the host decides which runs next, from a seed. A collective
/// call comes from every lane that has not returned; the host answers when the last of them
/// arrived. If lanes meet in different collectives, or in `shuffle` name a lane that has returned,
/// the host ends the run and names lanes and calls: on a GPU that would be a hang or an undefined
/// value.
pub trait WarpHost {
    /// Where the warp stands in its launch. Constant; read once when a lane starts.
    fn place(&self) -> Place;

    /// See [`Simt::now_ns`].
    fn now_ns(&self, lane: u32) -> u64;

    /// See [`Simt::pause`]: a scheduling point of this lane alone.
    fn pause(&self, lane: u32);

    /// See [`Simt::give_way`]: a scheduling point of this lane alone.
    fn give_way(&self, lane: u32) {
        self.pause(lane);
    }

    /// See [`Simt::ballot`]: a lane that has returned counts as `false`.
    fn ballot(&self, lane: u32, vote: bool) -> u32;

    /// See [`Simt::shuffle_u64`]; `source` is below 32.
    fn shuffle(&self, lane: u32, value: u64, source: u32) -> u64;

    /// See [`Simt::sync_warp`].
    fn sync_warp(&self, lane: u32);

    /// See [`Simt::sync_block`].
    fn sync_block(&self, lane: u32);
}

/// The test backend: one of 32 lanes that run under a seeded schedule.
#[derive(Clone, Copy)]
pub struct Lockstep<'a> {
    host: &'a dyn WarpHost,
    place: Place,
    lane: u32,
}

impl<'a> Lockstep<'a> {
    /// Lane `lane`, below 32, of the warp that `host` schedules.
    pub fn new(host: &'a dyn WarpHost, lane: u32) -> Self {
        let place = host.place();
        Self { host, place, lane }
    }
}

impl Simt for Lockstep<'_> {
    const WIDTH: u32 = 32;

    #[inline]
    fn lane(&self) -> u32 {
        self.lane
    }

    #[inline]
    fn place(&self) -> Place {
        self.place
    }

    fn ballot(&self, vote: bool) -> u32 {
        self.host.ballot(self.lane, vote)
    }

    fn shuffle(&self, value: u32, source: u32) -> u32 {
        self.shuffle_u64(u64::from(value), source) as u32
    }

    fn shuffle_u64(&self, value: u64, source: u32) -> u64 {
        self.host.shuffle(self.lane, value, source % Self::WIDTH)
    }

    fn sync_warp(&self) {
        self.host.sync_warp(self.lane);
    }

    fn sync_block(&self) {
        self.host.sync_block(self.lane);
    }

    fn now_ns(&self) -> u64 {
        self.host.now_ns(self.lane)
    }

    fn pause(&self) {
        self.host.pause(self.lane);
    }

    fn give_way(&self) {
        self.host.give_way(self.lane);
    }
}
