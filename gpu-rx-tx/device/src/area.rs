//! Memory that payload goes to or comes from: a registered region, a stream buffer, a tensor.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a region's memory is live"
)]

use warpwire_ring::{Location, Region};

use crate::piece::Piece;

/// A region that device code may read and write.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    region: Region,
}

impl Area {
    /// Names a region.
    ///
    /// # Safety
    /// *The area's promise*: the region is live memory, which stays so for as long as the value is
    /// used, and whoever else writes to it does so at a time on which both sides agreed.
    pub const unsafe fn attach(region: Region) -> Self {
        Self { region }
    }

    /// Bytes.
    #[inline(always)]
    pub const fn length(&self) -> u64 {
        self.region.length
    }

    /// Where the bytes lie.
    #[inline(always)]
    pub const fn location(&self) -> Location {
        self.region.location
    }

    /// `length` bytes from `offset` on, if they lie within the area.
    #[inline(always)]
    pub fn piece(&self, offset: u64, length: u32) -> Option<Piece<'_>> {
        let address = self.region.at(offset, u64::from(length))?;
        // SAFETY: within the region, which is live by the area's promise.
        Some(unsafe { Piece::new(address, length, length) })
    }
}
