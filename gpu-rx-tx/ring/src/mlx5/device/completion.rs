//! The device half of a completion queue.

use super::Fault;
use crate::device_memory::{Denied, DeviceMemory, Place};
use crate::mlx5::layout::{self, Cqe, CqeWords};
use crate::mlx5::widen_u24;

/// Writes completions, and knows how many fit.
#[derive(Clone, Debug)]
pub struct CompletionQueue {
    ring: Place,
    record: Place,
    log_depth: u32,
    produced: u64,
    consumed: u64,
}

impl CompletionQueue {
    /// A queue of 2^`log_depth` entries at `ring`, whose consumer index stands in the record.
    pub fn new(ring: Place, record: Place, log_depth: u32) -> Self {
        Self {
            ring,
            record,
            log_depth: log_depth.min(layout::CONSUMER_MASK.count_ones() - 1),
            produced: 0,
            consumed: 0,
        }
    }

    /// Like [`Self::new`], at index `at`: as if that many completions had come and gone.
    pub fn at(mut self, at: u64) -> Self {
        (self.produced, self.consumed) = (at, at);
        self
    }

    /// Completions written so far.
    pub fn produced(&self) -> u64 {
        self.produced
    }

    /// Writes a completion: all but its last eight bytes, then those with the owner bit of this
    /// lap.
    ///
    /// # Errors
    /// [`Fault::CompletionOverrun`] if it does not fit, [`Fault::Index`] if the consumer index is
    /// impossible, [`Fault::Denied`] if memory refused. Nothing was written that the driver could
    /// see.
    #[inline(always)]
    pub fn write<M: DeviceMemory>(&mut self, memory: &M, cqe: &Cqe) -> Result<(), Fault> {
        self.write_all(memory, &[cqe.to_words()])
    }

    /// Writes several completions, the first of them last: a driver that polls the first finds all
    /// of them, and the line that it polls changes hands once.
    ///
    /// # Errors
    /// As [`CompletionQueue::write`]; all fit, or none is written. Denied memory may refuse some.
    #[inline(always)]
    pub fn write_all<M: DeviceMemory>(
        &mut self,
        memory: &M,
        cqes: &[CqeWords],
    ) -> Result<(), Fault> {
        let room = (1u64 << self.log_depth) - (self.produced - self.consumed);
        if (cqes.len() as u64) > room {
            self.refresh(memory, cqes.len() as u64)?;
        }
        for (offset, cqe) in cqes.iter().enumerate().rev() {
            self.put(memory, self.produced + offset as u64, cqe)?;
        }
        self.produced += cqes.len() as u64;
        Ok(())
    }

    /// Hints that completion `index` is written soon. Not for the next one: the driver polls its
    /// line, and would take it back.
    #[inline(always)]
    pub fn prefetch<M: DeviceMemory>(&self, memory: &M, index: u64) {
        if index != self.produced {
            memory.prefetch_write(self.place(index));
        }
    }

    #[inline(always)]
    fn place(&self, index: u64) -> Place {
        let slot = index & ((1 << self.log_depth) - 1);
        self.ring.offset(slot * layout::CQE_BYTES)
    }

    #[inline(always)]
    fn put<M: DeviceMemory>(&self, memory: &M, index: u64, cqe: &CqeWords) -> Result<(), Fault> {
        let place = self.place(index);
        let &[a, b, c, d, e, f, g, last] = cqe;
        let owner = u64::from(layout::owner(index, self.log_depth));
        let last = (u64::from_be(last) & !1 | owner).to_be();
        // pairs with: after_observe in the driver, once it saw the owner bit.
        memory.store_line(place, &[a, b, c, d, e, f, g, last])?;
        Ok(())
    }

    #[cold]
    fn refresh<M: DeviceMemory>(&mut self, memory: &M, count: u64) -> Result<(), Fault> {
        let word = self.consumer(memory)?;
        let consumed = widen_u24(self.consumed, word & layout::CONSUMER_MASK);
        if consumed > self.produced {
            return Err(Fault::Index);
        }
        self.consumed = consumed;
        if self.produced - consumed + count > 1 << self.log_depth {
            return Err(Fault::CompletionOverrun);
        }
        Ok(())
    }

    fn consumer<M: DeviceMemory>(&self, memory: &M) -> Result<u32, Denied> {
        // pairs with: before_release in the driver's retire or release.
        let word = memory.load_u32(self.record.offset(layout::RECORD_RECEIVE))?;
        Ok(u32::from_be(word))
    }
}
