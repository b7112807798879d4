//! How the device half of a ring reaches memory: by key, checked on every access.
//!
//! A NIC holds no pointers. It holds keys, and each access names a key, an address and a length,
//! which are compared with what was registered. The device halves in this crate know no other way,
//! so whatever implements [`DeviceMemory`] sees all of it: a checker can wrap another
//! implementation and watch.
#![expect(unsafe_code, reason = "accesses memory that the host registered")]

use crate::address::DeviceAddress;
use crate::memory;
use crate::region::Region;

/// Why an access was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Denied {
    /// There is no such key, or not any more.
    Key,
    /// The bytes lie outside the key's region.
    Bounds,
    /// The key is for reading only.
    Right,
    /// The address is no multiple of the access's size.
    Alignment,
}

/// A place in memory as a device sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The key that opens it.
    pub key: u32,
    /// First byte.
    pub address: DeviceAddress,
}

impl Place {
    /// The place `bytes` further on, under the same key.
    #[inline(always)]
    pub const fn offset(self, bytes: u64) -> Self {
        Self {
            key: self.key,
            address: self.address.offset(bytes),
        }
    }
}

/// Memory as a device may touch it. Every method checks key, bounds and right.
pub trait DeviceMemory {
    /// Reads `into.len()` bytes.
    ///
    /// # Errors
    /// [`Denied`]; nothing was read.
    fn read(&self, from: Place, into: &mut [u8]) -> Result<(), Denied>;

    /// Writes `bytes`.
    ///
    /// # Errors
    /// [`Denied`]; nothing was written.
    fn write(&self, to: Place, bytes: &[u8]) -> Result<(), Denied>;

    /// Copies `length` bytes between places that do not overlap.
    ///
    /// # Errors
    /// [`Denied`]; nothing was written. Pieces that overlap are [`Denied::Bounds`].
    fn copy(&self, from: Place, to: Place, length: u32) -> Result<(), Denied>;

    /// Reads a 32-bit word with acquire order.
    ///
    /// # Errors
    /// [`Denied`].
    fn load_u32(&self, from: Place) -> Result<u32, Denied>;

    /// Reads a 64-bit word with acquire order.
    ///
    /// # Errors
    /// [`Denied`].
    fn load_u64(&self, from: Place) -> Result<u64, Denied>;

    /// Writes a 64-bit word with release order.
    ///
    /// # Errors
    /// [`Denied`].
    fn store_u64(&self, to: Place, value: u64) -> Result<(), Denied>;

    /// Writes a line of eight words. The last one is stored behind the others with release order:
    /// who sees it sees all.
    ///
    /// # Errors
    /// [`Denied`]; the last word was not written.
    #[inline(always)]
    fn store_line(&self, to: Place, line: &[u64; 8]) -> Result<(), Denied> {
        let &[a, b, c, d, e, f, g, last] = line;
        let body: [u8; 56] = zerocopy::transmute!([a, b, c, d, e, f, g]);
        self.write(to, &body)?;
        self.store_u64(to.offset(56), last)
    }

    /// Hints that the line at a place is read soon. A wrong place is no error.
    #[inline(always)]
    fn prefetch(&self, _place: Place) {}

    /// Hints that the line at a place is written soon. A wrong place is no error.
    #[inline(always)]
    fn prefetch_write(&self, _place: Place) {}
}

/// A registered region: what a key opens and for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The memory and its key. The key's upper 24 bits are the grant's place in its table, the
    /// lower eight vary from use to use of that place.
    pub region: Region,
    /// Whether the device may write.
    pub writable: bool,
}

/// A table of grants: the plain implementation of [`DeviceMemory`].
#[derive(Clone, Copy, Debug)]
pub struct KeyTable<'a> {
    grants: &'a [Option<Grant>],
}

impl<'a> KeyTable<'a> {
    /// Opens a table.
    ///
    /// # Safety
    /// Every region is live, writable memory for as long as the value is used, and all who share it
    /// follow the rings' protocols.
    pub unsafe fn new(grants: &'a [Option<Grant>]) -> Self {
        Self { grants }
    }

    /// The address, if the key opens `length` bytes there.
    #[inline(always)]
    fn check(&self, place: Place, length: u64, write: bool) -> Result<DeviceAddress, Denied> {
        let slot = self.grants.get((place.key >> 8) as usize);
        let Some(Some(grant)) = slot else {
            return Err(Denied::Key);
        };
        if grant.region.key != place.key {
            return Err(Denied::Key);
        }
        if !grant.region.contains(place.address, length) {
            return Err(Denied::Bounds);
        }
        if write && !grant.writable {
            return Err(Denied::Right);
        }
        Ok(place.address)
    }

    #[inline(always)]
    fn word(&self, place: Place, bytes: u64, write: bool) -> Result<DeviceAddress, Denied> {
        let address = self.check(place, bytes, write)?;
        if address.is_aligned(bytes) {
            Ok(address)
        } else {
            Err(Denied::Alignment)
        }
    }
}

impl DeviceMemory for KeyTable<'_> {
    #[inline(always)]
    fn read(&self, from: Place, into: &mut [u8]) -> Result<(), Denied> {
        let from = self.check(from, into.len() as u64, false)?;
        // SAFETY: live by the table's promise, in bounds by the check.
        unsafe { copy_out(from, into) }
        Ok(())
    }

    #[inline(always)]
    fn write(&self, to: Place, bytes: &[u8]) -> Result<(), Denied> {
        let to = self.check(to, bytes.len() as u64, true)?;
        // SAFETY: live by the table's promise, in bounds by the check.
        unsafe { copy_in(bytes, to) }
        Ok(())
    }

    #[inline(always)]
    fn copy(&self, from: Place, to: Place, length: u32) -> Result<(), Denied> {
        let from = self.check(from, u64::from(length), false)?;
        let to = self.check(to, u64::from(length), true)?;
        let apart = from.value().abs_diff(to.value());
        if apart < u64::from(length) {
            return Err(Denied::Bounds);
        }
        // SAFETY: live by the table's promise, in bounds and apart by the checks.
        unsafe { memory::copy(from, to, length) }
        Ok(())
    }

    #[inline(always)]
    fn load_u32(&self, from: Place) -> Result<u32, Denied> {
        let from = self.word(from, 4, false)?;
        // SAFETY: live by the table's promise, in bounds and aligned by the check.
        Ok(unsafe { memory::load_acquire_u32(from) })
    }

    #[inline(always)]
    fn load_u64(&self, from: Place) -> Result<u64, Denied> {
        let from = self.word(from, 8, false)?;
        // SAFETY: live by the table's promise, in bounds and aligned by the check.
        Ok(unsafe { memory::load_acquire_u64(from) })
    }

    #[inline(always)]
    fn store_u64(&self, to: Place, value: u64) -> Result<(), Denied> {
        let to = self.word(to, 8, true)?;
        // SAFETY: live by the table's promise, in bounds and aligned by the check.
        unsafe { memory::store_release_u64(to, value) }
        Ok(())
    }

    /// One check for the whole line.
    #[inline(always)]
    fn store_line(&self, to: Place, line: &[u64; 8]) -> Result<(), Denied> {
        let to = self.check(to, 64, true)?;
        if !to.is_aligned(8) {
            return Err(Denied::Alignment);
        }
        let &[a, b, c, d, e, f, g, last] = line;
        let body: [u8; 56] = zerocopy::transmute!([a, b, c, d, e, f, g]);
        // SAFETY: live by the table's promise, in bounds by the check.
        unsafe { memory::copy_in(&body, to) }
        // SAFETY: live by the table's promise, in bounds and aligned by the checks.
        unsafe { memory::store_release_u64(to.offset(56), last) }
        Ok(())
    }

    #[inline(always)]
    fn prefetch(&self, place: Place) {
        memory::prefetch(place.address);
    }

    #[inline(always)]
    fn prefetch_write(&self, place: Place) {
        memory::prefetch_write(place.address);
    }
}

/// [`memory::copy_out`], without a call for what is just one line: the shortest frames.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn copy_out(from: DeviceAddress, into: &mut [u8]) {
    if into.len() == LINE
        && let Some(line) = into.first_chunk_mut::<LINE>()
    {
        // SAFETY: passed on.
        return unsafe { memory::copy_out(from, line) };
    }
    // SAFETY: passed on.
    unsafe { memory::copy_out(from, into) }
}

/// [`memory::copy_in`], likewise.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn copy_in(bytes: &[u8], to: DeviceAddress) {
    if bytes.len() == LINE
        && let Some(line) = bytes.first_chunk::<LINE>()
    {
        // SAFETY: passed on.
        return unsafe { memory::copy_in(line, to) };
    }
    // SAFETY: passed on.
    unsafe { memory::copy_in(bytes, to) }
}

/// Bytes of a cache line.
const LINE: usize = 64;
