//! Completions: how slots at the NIC turn into credits again.

use warpwire_ring::{Cause, Transmit};

use crate::queue::tx;
use crate::simt::Simt;
use crate::transmit::Sender;

impl<T: Transmit> Sender<T> {
    /// *Collective.* Turns completions into credits.
    ///
    /// # Errors
    /// The [`Cause`] of the last error completion among those found, once; they are counted and
    /// their slots are free. [`Cause::RingCorrupted`] if a completion is impossible; from then on
    /// always.
    #[inline(always)]
    pub fn poll<S: Simt>(&mut self, simt: &S) -> Result<(), Cause> {
        self.calls += 1;
        self.harvest(simt)
    }

    #[inline(always)]
    pub(crate) fn harvest<S: Simt>(&mut self, simt: &S) -> Result<(), Cause> {
        if self.corrupted {
            return Err(Cause::RingCorrupted);
        }
        if T::PHASED {
            self.harvest_by_phase(simt)
        } else {
            self.harvest_by_index(simt)
        }
    }

    #[inline(always)]
    fn harvest_by_index<S: Simt>(&mut self, simt: &S) -> Result<(), Cause> {
        let ring = &self.queue.ring;
        let old = self.completions;
        let mut seen = old;
        if simt.is_leader() {
            // pairs with: the consumer's completion index
            seen = ring.completions(old);
        }
        seen = simt.shuffle_u64(seen, 0);
        // What lane 0 acquired is seen by all lanes after this.
        simt.sync_warp();
        let new = seen.wrapping_sub(old);
        if new > self.in_flight() {
            return self.corrupt();
        }
        if new == 0 {
            return Ok(());
        }
        let mut i = u64::from(simt.lane());
        while i < new {
            ring.recycle(old.wrapping_add(i));
            i += u64::from(S::WIDTH);
        }
        simt.sync_warp();
        if simt.is_leader() {
            ring.retire(seen);
        }
        self.completions = seen;
        self.completed = self.completed.wrapping_add(new);
        Ok(())
    }

    /// Each lane looks at a completion of its own; what counts is the prefix without a gap.
    #[inline(always)]
    fn harvest_by_phase<S: Simt>(&mut self, simt: &S) -> Result<(), Cause> {
        let start = self.completions;
        let mut fault = None;
        let mut run = S::WIDTH;
        // Every completion frees a slot, so there are at most as many as slots in flight.
        while run == S::WIDTH && self.in_flight() > 0 {
            let near = self.completed;
            let index = self.completions.wrapping_add(u64::from(simt.lane()));
            let there = u64::from(simt.lane()) < self.in_flight();
            let completion = if there {
                self.queue.ring.completion(index, near)
            } else {
                None
            };
            run = simt.ballot(completion.is_some()).trailing_ones();
            if run == 0 {
                break;
            }
            let mine = completion.filter(|_| simt.lane() < run);
            let upto = simt.shuffle_u64(mine.map_or(near, |entry| entry.upto), run - 1);
            let freed = upto.wrapping_sub(near);
            let code = mine
                .and_then(|entry| entry.fault)
                .map_or(0, |cause| cause as u32);
            let faults = simt.ballot(code != 0);
            if faults != 0 {
                let last = simt.shuffle(code, 31 - faults.leading_zeros());
                fault = Cause::from_number(last);
                self.corrupted |= fault == Some(Cause::RingCorrupted);
                if let (Some(cause), true) = (fault, simt.is_leader()) {
                    self.queue.set_cause(cause);
                    self.queue.count(tx::FAULTS, faults.count_ones().into());
                }
            }
            if freed > self.in_flight() {
                return self.corrupt();
            }
            self.completions = self.completions.wrapping_add(u64::from(run));
            self.completed = upto;
        }
        if self.completions != start {
            // All lanes have read the entries that lane 0 gives back.
            simt.sync_warp();
            if simt.is_leader() {
                self.queue.ring.retire(self.completions);
            }
        }
        match fault {
            None => Ok(()),
            Some(cause) => Err(cause),
        }
    }

    #[cold]
    #[inline(always)]
    fn corrupt(&mut self) -> Result<(), Cause> {
        self.corrupted = true;
        self.queue.set_cause(Cause::RingCorrupted);
        Err(Cause::RingCorrupted)
    }
}
