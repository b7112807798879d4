//! Receives that several queue pairs share: posted once for all of them, taken by whichever a
//! message comes to.
//!
//! Messages of several queue pairs end in any order. A slot is free again when its receive and all
//! that were posted before it came back; so one slow message holds the slots behind it, and
//! [`SharedReceives::post`] says [`Cause::NoResource`] until it ends.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use warpwire_device::{Heartbeat, SharedCounters, SharedWord, Simt, Wait};
use warpwire_ring::mlx5::post::{Gather, ReceiveQueue};
use warpwire_ring::{Cause, DeviceAddress};

use super::arrival::{self, Arrival, Ring};
use super::block::SharedBlock;
use super::progress::{Progress, keep_on};

/// A receive queue that queue pairs share. A warp holds one, each lane a copy, all copies equal.
#[derive(Clone, Copy, Debug)]
pub struct SharedReceives {
    queue: ReceiveQueue,
    arrived: Ring,
    /// A bit a receive, 64 to a word.
    done: SharedBits,
    /// Receives that came back.
    returned: u64,
    /// Below so many posted receives somebody wants to know; 0: nobody.
    limit: u32,
    heartbeat: Option<Heartbeat>,
    block: DeviceAddress,
}

impl SharedReceives {
    /// Attaches where the block stands.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if there is no such block.
    ///
    /// # Safety
    /// As [`super::Channel::attach`], for the queue of a [`SharedBlock`].
    #[inline(always)]
    pub unsafe fn attach(block: DeviceAddress) -> Result<Self, Cause> {
        if block.is_null() || !block.is_aligned(align_of::<SharedBlock>() as u64) {
            return Err(Cause::LayoutMismatch);
        }
        // SAFETY: a header lies there by the promise, and any bits are one.
        let header = unsafe { *(block.value() as *const crate::block::Header) };
        if header != SharedBlock::HEADER {
            return Err(Cause::LayoutMismatch);
        }
        // SAFETY: the header says that it is such a block; who had it before is done with it.
        let own = unsafe { &*(block.value() as *const SharedBlock) };
        // SAFETY: passed on.
        Ok(unsafe { Self::of(own, block) })
    }

    /// A queue where a block stands; [`SharedReceives::save`] writes to `home`.
    ///
    /// # Safety
    /// As [`SharedReceives::attach`]; at `home` is room for the block, or it is null.
    pub unsafe fn of(block: &SharedBlock, home: DeviceAddress) -> Self {
        let words = 1u32 << block.receive.log_depth.saturating_sub(6);
        Self {
            // SAFETY: passed on.
            queue: unsafe { ReceiveQueue::resume(block.receive, block.freed, block.next) },
            // SAFETY: passed on.
            arrived: unsafe { Ring::attach(&block.arrived, block.arrived_next) },
            done: SharedBits {
                // SAFETY: passed on.
                words: unsafe { SharedCounters::attach(block.done, words) },
            },
            returned: block.returned,
            limit: 0,
            heartbeat: (!block.heartbeat.is_null()).then(|| Heartbeat {
                // SAFETY: passed on.
                word: unsafe { SharedWord::attach(block.heartbeat) },
                stale_ns: block.stale_ns,
            }),
            block: home,
        }
    }

    /// *Collective.* Leaves in its block where it stands, for who attaches next.
    pub fn save<S: Simt>(&self, simt: &S) {
        if simt.is_leader() && !self.block.is_null() {
            // SAFETY: the block, by the promise; whoever attaches next does so after this warp.
            let block = unsafe { &mut *(self.block.value() as *mut SharedBlock) };
            block.next = self.queue.next();
            block.freed = self.queue.freed();
            block.arrived_next = self.arrived.next();
            block.returned = self.returned;
        }
        simt.sync_warp();
    }

    /// Receives that can be posted.
    pub const fn free(&self) -> u32 {
        self.queue.free()
    }

    /// Receives that are posted and did not come back.
    pub const fn posted(&self) -> u32 {
        self.queue.next().wrapping_sub(self.returned) as u32
    }

    /// Asks to be told once when fewer than `limit` receives are posted.
    pub const fn arm(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Whether the limit of [`SharedReceives::arm`] was passed; says yes once, and is armed no more
    /// then.
    pub const fn is_low(&mut self) -> bool {
        let is_low = self.posted() < self.limit;
        if is_low {
            self.limit = 0;
        }
        is_low
    }

    /// *Collective.* Posts a receive for each lane that has one, as far as there is room. Returns
    /// the number of the lane's own.
    ///
    /// # Errors
    /// For the lane's own: [`Cause::NoResource`]; [`Cause::LocalLength`] if it has more pieces than
    /// a receive can, or an empty one.
    pub fn post<S: Simt>(
        &mut self,
        simt: &S,
        pieces: Option<&[Gather]>,
    ) -> Result<Option<u64>, Cause> {
        arrival::post(simt, &mut self.queue, pieces)
    }

    /// *Collective.* The next receive that came back, if there is one; [`Arrival::pair`] says which
    /// queue pair its message came to.
    pub fn poll<S: Simt>(&mut self, simt: &S) -> Option<Arrival> {
        let told = self.arrived.poll(simt)?;
        let index = self.queue.find(told.counter());
        if let Some(index) = index {
            let mut freed = self.queue.freed();
            if simt.is_leader() {
                freed = self
                    .done
                    .set(index, freed, self.queue.next(), self.queue.depth());
            }
            self.queue.free_to(simt.shuffle_u64(freed, 0));
            self.returned = self.returned.wrapping_add(1);
        }
        Some(told.arrival(index))
    }

    /// *Collective.* Waits for the next receive to come back with a message.
    ///
    /// # Errors
    /// Why it came back without one; what ends waits.
    pub fn wait<S: Simt, P: Progress>(
        &mut self,
        simt: &S,
        wait: &Wait,
        progress: &mut P,
    ) -> Result<Arrival, Cause> {
        let wait = Wait {
            heartbeat: wait.heartbeat.or(self.heartbeat),
            ..*wait
        };
        keep_on(simt, &wait, progress, |_| {
            let arrival = self.poll(simt)?;
            Some(match arrival.failed {
                Some(cause) => Err(cause),
                None => Ok(arrival),
            })
        })?
    }
}

/// Which receives came back before one that was posted earlier. The leader's alone.
#[derive(Clone, Copy, Debug)]
struct SharedBits {
    words: SharedCounters,
}

impl SharedBits {
    /// Receive `index`, of those from `freed` to `next`, came back. Returns the first that did not.
    fn set(&self, index: u64, freed: u64, next: u64, depth: u32) -> u64 {
        self.flip(index, depth);
        let mut freed = freed;
        while freed != next && self.is_set(freed, depth) {
            self.flip(freed, depth);
            freed = freed.wrapping_add(1);
        }
        freed
    }

    fn is_set(&self, index: u64, depth: u32) -> bool {
        let (word, bit) = place(index, depth);
        let word = self.words.at(word);
        word.is_some_and(|word| word.value() >> bit & 1 != 0)
    }

    /// Sets a bit that is not set, or clears one that is.
    fn flip(&self, index: u64, depth: u32) {
        let is_set = self.is_set(index, depth);
        let (word, bit) = place(index, depth);
        let Some(word) = self.words.at(word) else {
            return;
        };
        let bit = 1u64 << bit;
        word.add_alone(match is_set {
            true => bit.wrapping_neg(),
            false => bit,
        });
    }
}

/// Word and bit of a receive.
const fn place(index: u64, depth: u32) -> (u32, u32) {
    let slot = index as u32 & (depth - 1);
    (slot / 64, slot % 64)
}
