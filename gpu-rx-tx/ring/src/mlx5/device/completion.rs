//! The device half of a completion queue.

use super::Fault;
use crate::device_memory::{Denied, DeviceMemory, Place};
use crate::mlx5::layout::{self, Cqe};
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
    /// # Errors [`Fault::CompletionOverrun`] if it does not fit, [`Fault::Index`] if the consumer
    /// index is impossible, [`Fault::Denied`] if memory refused. Nothing was written that the
    /// driver could see.
    #[inline(always)]
    pub fn write<M: DeviceMemory>(&mut self, memory: &M, cqe: &Cqe) -> Result<(), Fault> {
        if self.produced - self.consumed >= 1 << self.log_depth {
            self.refresh(memory)?;
        }
        let owner = layout::owner(self.produced, self.log_depth);
        let mut cqe = *cqe;
        cqe.op_own = cqe.op_own & !1 | owner;
        let slot = self.produced & ((1 << self.log_depth) - 1);
        let place = self.ring.offset(slot * layout::CQE_BYTES);
        let words: [u64; 8] = zerocopy::transmute!(cqe);
        let [body @ .., last] = words;
        let body: [u8; 56] = zerocopy::transmute!(body);
        memory.write(place, &body)?;
        // pairs with: after_observe in the driver, once it saw the owner bit.
        memory.store_u64(place.offset(56), last)?;
        self.produced += 1;
        Ok(())
    }

    #[cold]
    fn refresh<M: DeviceMemory>(&mut self, memory: &M) -> Result<(), Fault> {
        let word = self.consumer(memory)?;
        let consumed = widen_u24(self.consumed, word & layout::CONSUMER_MASK);
        if consumed > self.produced {
            return Err(Fault::Index);
        }
        self.consumed = consumed;
        if self.produced - consumed >= 1 << self.log_depth {
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
