//! The device half of a receive queue.

use super::{Fault, Piece};
use crate::address::DeviceAddress;
use crate::device_memory::{DeviceMemory, Place};
use crate::mlx5::layout::{self, DataSegment};
use crate::mlx5::widen_u16;

/// Knows which receive WQEs are posted and where their buffers lie.
#[derive(Clone, Debug)]
pub struct ReceiveQueue {
    ring: Place,
    record: Place,
    number: u32,
    log_depth: u32,
    log_stride: u32,
    next: u64,
    end: u64,
}

impl ReceiveQueue {
    /// A queue of 2^`log_depth` WQEs, each with room for 2^`log_stride` data segments.
    pub fn new(ring: Place, record: Place, number: u32, log_depth: u32, log_stride: u32) -> Self {
        Self {
            ring,
            record,
            number,
            log_depth: log_depth.min(15),
            log_stride: log_stride.min(crate::mlx5::MAX_LOG_STRIDE),
            next: 0,
            end: 0,
        }
    }

    /// Like [`Self::new`], at index `at`: as if that many WQEs had been posted and filled.
    pub fn at(mut self, at: u64) -> Self {
        (self.next, self.end) = (at, at);
        self
    }

    /// Number of the queue.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The WQE that is filled next.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// WQEs that are posted and not filled. Looks at the producer index only when none is known.
    ///
    /// # Errors [`Fault::Index`] if the producer index is impossible, [`Fault::Denied`] if the
    /// record is out of reach.
    #[inline(always)]
    pub fn posted<M: DeviceMemory>(&mut self, memory: &M) -> Result<u32, Fault> {
        if self.next == self.end {
            self.refresh(memory)?;
        }
        Ok((self.end - self.next) as u32)
    }

    #[cold]
    fn refresh<M: DeviceMemory>(&mut self, memory: &M) -> Result<(), Fault> {
        // pairs with: before_publish in the driver's release.
        let word = memory.load_u32(self.record.offset(layout::RECORD_RECEIVE))?;
        let end = widen_u16(self.end, u32::from_be(word) as u16);
        if end - self.next > 1 << self.log_depth {
            return Err(Fault::Index);
        }
        self.end = end;
        Ok(())
    }

    /// Data segment `part` of the next WQE; nothing if the WQE has no more.
    ///
    /// # Errors
    /// [`Fault::Denied`] if the ring is out of reach.
    #[inline(always)]
    pub fn piece<M: DeviceMemory>(&self, memory: &M, part: u32) -> Result<Option<Piece>, Fault> {
        self.piece_of(memory, self.next, part)
    }

    /// Like [`Self::piece`], of any posted WQE.
    ///
    /// # Errors
    /// [`Fault::Denied`] if the ring is out of reach.
    #[inline(always)]
    pub fn piece_of<M: DeviceMemory>(
        &self,
        memory: &M,
        index: u64,
        part: u32,
    ) -> Result<Option<Piece>, Fault> {
        if part >> self.log_stride != 0 {
            return Ok(None);
        }
        let slot = index & ((1 << self.log_depth) - 1);
        let segment = (slot << self.log_stride) + u64::from(part);
        let mut bytes = [0; 16];
        memory.read(
            self.ring.offset(segment * layout::SEGMENT_BYTES),
            &mut bytes,
        )?;
        let data: DataSegment = zerocopy::transmute!(bytes);
        let (length, key) = (data.byte_count.get(), data.lkey.get());
        if length == 0 || key == layout::INVALID_LKEY {
            return Ok(None);
        }
        let address = DeviceAddress::new(data.addr.get());
        let place = Place { key, address };
        Ok(Some(Piece { place, length }))
    }

    /// Moves on to the next WQE; `posted` said that there was one.
    #[inline(always)]
    pub fn advance(&mut self) {
        debug_assert!(self.next < self.end, "advance without a posted WQE");
        self.next = self.next.min(self.end.wrapping_sub(1)) + 1;
    }
}
