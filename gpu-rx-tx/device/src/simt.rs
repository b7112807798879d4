//! Warps: how code finds out which lane it is, and how lanes agree.

use crate::shared::SharedCounter;

/// Where a warp stands in its launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Number of the warp within its block.
    pub warp: u32,
    /// Warps in the block, at least 1.
    pub warps: u32,
    /// Number of the block.
    pub block: u32,
    /// Blocks in the launch, at least 1.
    pub blocks: u32,
}

impl Place {
    /// The only warp of its launch.
    pub const ALONE: Self = Self {
        warp: 0,
        warps: 1,
        block: 0,
        blocks: 1,
    };
}

/// The machine under the code: a warp of lanes, a block of warps, a clock.
///
/// Functions take `simt: &S` and are monomorphised for each backend: [`crate::Scalar`] (one lane a
/// warp), [`crate::Lockstep`] (32 scheduled lanes, for tests) and, on the GPU, `Ptx`.
///
/// # The collective contract
/// `ballot`, `shuffle`, `sync_warp` and everything made of them (`any`, `all`, `sum`,
/// `exclusive_sum`, …) are *collective*: every lane of the warp that has not returned from the
/// kernel makes the same call, in the same order. `sync_block` is collective over the block: every
/// lane of every warp of the block that has not returned. Elsewhere in the house a function says
/// *collective* in its text if it makes collective calls; such functions are called by all lanes,
/// with the same arguments unless the text says otherwise, and never inside a branch that lanes may
/// take differently.
///
/// Lanes leave a kernel together. A lane that has returned counts as a vote of `false` in `ballot`,
/// and the value that `shuffle` takes from it is undefined on the GPU. Lanes that disagree about
/// which collective comes next hang a GPU; `Lockstep` ends the run instead, and says which lane
/// stood where.
///
/// `now_ns`, `cycles`, `pause` and `add` are not collective.
pub trait Simt {
    /// Lanes in a warp: 1 or 32.
    const WIDTH: u32;

    /// This lane's number within its warp, below [`Simt::WIDTH`].
    fn lane(&self) -> u32;

    /// Where this lane's warp stands in the launch.
    fn place(&self) -> Place;

    /// *Collective.* One bit a lane, lane 0 lowest: how each voted.
    fn ballot(&self, vote: bool) -> u32;

    /// *Collective.* The `value` that lane `source` passed. `source` may differ from lane to lane;
    /// it is taken modulo the width. Orders no memory.
    fn shuffle(&self, value: u32, source: u32) -> u32;

    /// *Collective.* [`Simt::shuffle`] for 64 bits.
    fn shuffle_u64(&self, value: u64, source: u32) -> u64;

    /// *Collective.* The warp meets: what any of its lanes wrote before is seen by all of them
    /// after.
    fn sync_warp(&self);

    /// *Collective over the block.* The block meets: what any lane wrote before is seen by all
    /// after.
    fn sync_block(&self);

    /// Nanoseconds of a clock that never runs backwards and that all warps of a launch share.
    fn now_ns(&self) -> u64;

    /// Ticks of a counter that runs while this lane's warp does. Only differences within one run of
    /// a kernel mean something; a machine without such a counter counts nanoseconds. Not
    /// collective.
    #[inline(always)]
    fn cycles(&self) -> u64 {
        self.now_ns()
    }

    /// There is nothing to do right now: others may run. A scheduling point on the CPU, a short
    /// sleep on the GPU. Not collective.
    fn pause(&self);

    /// Work was done and there may be more: others may have a turn. A scheduling point on the CPU,
    /// nothing on the GPU. A loop that may find work for ever calls it once a round, so that a
    /// service on the same thread (a kick proxy, a device model) is not starved. Not collective.
    #[inline(always)]
    fn give_way(&self) {}

    /// Adds to a counter that many lanes and warps share.
    #[inline(always)]
    fn add(&self, counter: SharedCounter, value: u64) {
        counter.add(value);
    }

    /// Lanes in a warp.
    #[inline(always)]
    fn width(&self) -> u32 {
        Self::WIDTH
    }

    /// Number of the warp within its block.
    #[inline(always)]
    fn warp(&self) -> u32 {
        self.place().warp
    }

    /// Warps in the block.
    #[inline(always)]
    fn warps(&self) -> u32 {
        self.place().warps
    }

    /// Number of the block.
    #[inline(always)]
    fn block(&self) -> u32 {
        self.place().block
    }

    /// Blocks in the launch.
    #[inline(always)]
    fn blocks(&self) -> u32 {
        self.place().blocks
    }

    /// Whether this lane does what one lane does for its warp.
    #[inline(always)]
    fn is_leader(&self) -> bool {
        self.lane() == 0
    }

    /// *Collective.* Whether any lane votes yes.
    #[inline(always)]
    fn any(&self, vote: bool) -> bool {
        self.ballot(vote) != 0
    }

    /// *Collective.* Whether every lane votes yes. A lane that has returned votes no.
    #[inline(always)]
    fn all(&self, vote: bool) -> bool {
        self.ballot(!vote) == 0
    }

    /// *Collective.* The sum of all lanes' values, modulo 2^32, in every lane.
    #[inline(always)]
    fn sum(&self, value: u32) -> u32 {
        let mut total = value;
        let mut distance = Self::WIDTH / 2;
        while distance > 0 {
            total = total.wrapping_add(self.shuffle(total, self.lane() ^ distance));
            distance /= 2;
        }
        total
    }

    /// *Collective.* For values that add up lane by lane: the sum of the lanes before this one, and
    /// the sum of all, both modulo 2^32. This is how lanes divide a range among themselves.
    #[inline(always)]
    fn exclusive_sum(&self, value: u32) -> (u32, u32) {
        let mut upto = value;
        let mut distance = 1;
        while distance < Self::WIDTH {
            let below = self.shuffle(upto, self.lane().wrapping_sub(distance));
            if self.lane() >= distance {
                upto = upto.wrapping_add(below);
            }
            distance *= 2;
        }
        let total = self.shuffle(upto, Self::WIDTH - 1);
        (upto.wrapping_sub(value), total)
    }
}
