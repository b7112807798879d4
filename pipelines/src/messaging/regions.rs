//! Registered memory of an endpoint: keys that come and go while the engine runs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use warpwire_core::messaging::Remote;
use warpwire_gpu::Arena;
use warpwire_protocols::rdma::{Access, Region};
use warpwire_ring::DeviceAddress;
use warpwire_ring::mlx5::post::Gather;

use super::endpoint::Endpoint;
use crate::messaging::Error;

/// A registered piece of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRegion {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// The key, for the own requests and for peers.
    pub key: u32,
}

impl MemoryRegion {
    /// `length` bytes from byte `at` on, for one's own requests.
    pub const fn gather(&self, at: u64, length: u32) -> Gather {
        Gather {
            address: self.address.wrapping_add(at),
            length,
            key: self.key,
        }
    }

    /// What lies from byte `at` on, for a peer's requests.
    pub const fn remote(&self, at: u64) -> Remote {
        Remote::new(self.address.wrapping_add(at), self.key)
    }
}

impl Endpoint {
    /// Registers memory, for own requests and, as far as `access` says, for peers. `chance` decides
    /// what the key is, besides the place in the engine's table that it names.
    ///
    /// # Errors
    /// [`Error::OutOfReach`], [`Error::Regions`].
    pub fn register(
        &self,
        address: DeviceAddress,
        length: u64,
        access: Access,
        chance: u64,
    ) -> Result<MemoryRegion, Error> {
        self.register_in(0, (address, length), access, chance)
    }

    /// [`Endpoint::register`], of a protection domain: queue pairs of others cannot use the key.
    ///
    /// # Errors
    /// As [`Endpoint::register`].
    pub fn register_in(
        &self,
        domain: u32,
        (address, length): (DeviceAddress, u64),
        access: Access,
        chance: u64,
    ) -> Result<MemoryRegion, Error> {
        reach(&self.memory, address, length)?;
        let mut keys = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        // Place 0 stays empty: a key of 0 is none, and zeroed memory names none.
        let free = keys.iter().skip(1).position(|one| !one.is_used);
        let Some(free) = free else {
            return Err(Error::Regions {
                most: self.config.regions - 1,
            });
        };
        let place = free + 1;
        let slot = keys.get_mut(place).ok_or(Error::Regions {
            most: self.config.regions - 1,
        })?;
        let places = self.table.region_count;
        let upper = chance as u32 & !(places * 256 - 1);
        let key = upper | (place as u32) << 8 | slot.next_generation(chance);
        *slot = Registered { key, is_used: true };
        let region = Region {
            address: address.value(),
            length,
            key: 0,
            domain,
            access,
            may_invalidate: 0,
        };
        self.put_region(place, &region)?;
        // The key last: the engine finds the region by it.
        self.region_key(place)?.store(key, Ordering::Release);
        Ok(MemoryRegion {
            address: address.value(),
            length,
            key,
        })
    }

    /// Takes a registration back. What was under way with the key fails; the memory may be used for
    /// something else when this returns.
    ///
    /// # Errors
    /// [`Error::OutOfReach`] if there is no such registration; [`Error::Deadline`] if the engine
    /// does not come around.
    pub fn release(&self, region: &MemoryRegion, patience: Duration) -> Result<(), Error> {
        let place = self.place(region);
        let missing = || Error::OutOfReach {
            address: region.address,
            length: region.length,
        };
        if place == 0 || place >= self.config.regions as usize {
            return Err(missing());
        }
        if !self.is_registered(region) {
            return Err(missing());
        }
        let word = self.region_key(place)?;
        let taken = word.compare_exchange(region.key, 0, Ordering::AcqRel, Ordering::Relaxed);
        // No key: a peer took it away, and the place is still ours.
        taken
            .or_else(|found| if found == 0 { Ok(0) } else { Err(missing()) })
            .map(drop)?;
        // Two rounds: the one under way may have looked before.
        self.rounds(2, patience)?;
        let mut keys = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = keys.get_mut(place) {
            slot.is_used = false;
        }
        Ok(())
    }

    /// Whether the host's table still has a registration, with or without a key.
    fn is_registered(&self, region: &MemoryRegion) -> bool {
        let keys = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let key = region.key;
        keys.get(self.place(region)).copied() == Some(Registered { key, is_used: true })
    }

    /// The place that a registration has in the table.
    const fn place(&self, region: &MemoryRegion) -> usize {
        (region.key >> 8 & (self.table.region_count - 1)) as usize
    }

    /// Lets peers take the key of a registration away, by a send that names it; the memory stays
    /// registered, without a key, until it is released.
    ///
    /// # Errors
    /// [`Error::OutOfReach`] if there is no such registration.
    pub fn let_peers_invalidate(&self, region: &MemoryRegion) -> Result<(), Error> {
        if !self.is_registered(region) {
            return Err(Error::OutOfReach {
                address: region.address,
                length: region.length,
            });
        }
        let offset = std::mem::offset_of!(Region, may_invalidate) as u64;
        let at = self.region_at(self.place(region)).offset(offset);
        let word = self.table.arena.half_word(at)?;
        word.store(1, Ordering::Release);
        Ok(())
    }

    /// Whether a registration has its key: peers may have taken it away.
    ///
    /// # Errors
    /// [`Error::OutOfReach`] if there is no such registration.
    pub fn has_key(&self, region: &MemoryRegion) -> Result<bool, Error> {
        if !self.is_registered(region) {
            return Err(Error::OutOfReach {
                address: region.address,
                length: region.length,
            });
        }
        let word = self.region_key(self.place(region))?;
        Ok(word.load(Ordering::Acquire) == region.key)
    }

    fn region_at(&self, place: usize) -> DeviceAddress {
        self.table
            .regions
            .offset((place * size_of::<Region>()) as u64)
    }

    fn region_key(&self, place: usize) -> Result<&AtomicU32, Error> {
        let offset = std::mem::offset_of!(Region, key) as u64;
        let at = self.region_at(place).offset(offset);
        Ok(self.table.arena.half_word(at)?)
    }

    fn put_region(&self, place: usize, region: &Region) -> Result<(), Error> {
        let at = self.region_at(place);
        let words: [(usize, u64); 2] = [
            (std::mem::offset_of!(Region, address), region.address),
            (std::mem::offset_of!(Region, length), region.length),
        ];
        for (offset, value) in words {
            let word = self.table.arena.word(at.offset(offset as u64))?;
            word.store(value, Ordering::Relaxed);
        }
        let words: [(usize, u32); 3] = [
            (std::mem::offset_of!(Region, domain), region.domain),
            (std::mem::offset_of!(Region, access), region.access.0),
            (
                std::mem::offset_of!(Region, may_invalidate),
                region.may_invalidate,
            ),
        ];
        for (offset, value) in words {
            let word = self.table.arena.half_word(at.offset(offset as u64))?;
            word.store(value, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Whether memory lies in one of the arenas.
///
/// # Errors
/// [`Error::OutOfReach`].
pub(super) fn reach(
    memory: &[Arc<Arena>],
    address: DeviceAddress,
    length: u64,
) -> Result<(), Error> {
    let holds = |arena: &Arc<Arena>| arena.whole().contains(address, length);
    match memory.iter().any(holds) {
        true => Ok(()),
        false => Err(Error::OutOfReach {
            address: address.value(),
            length,
        }),
    }
}

/// A place of the table of keys, as the host keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Registered {
    /// The last key that named the place; 0 if none did.
    key: u32,
    /// Whether the place is taken.
    is_used: bool,
}

impl Registered {
    /// The lower bits of the next key: others than those of the last, and never 0.
    const fn next_generation(self, chance: u64) -> u32 {
        let next = match self.key & 0xff {
            0 => chance as u32 & 0xff,
            last => (last + 1) & 0xff,
        };
        if next == 0 { 1 } else { next }
    }
}
