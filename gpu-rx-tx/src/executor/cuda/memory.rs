//! Memory that the driver gives: on the device, and on the host within the device's reach.
#![expect(unsafe_code, reason = "lends the driver's memory to an arena")]

use std::hint;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use warpwire_ring::{DeviceAddress, Location, Region};

use crate::arena::{Arena, ArenaError};
use crate::executor::cuda::code::{CallError, Code};
use crate::executor::cuda::driver::{DeviceBlock, HostBlock};
use crate::executor::cuda::error::Error;
use crate::executor::cuda::session::{Lane, Session, lock};

/// Memory of the device: zeroed at the start, given out in pieces, freed as a whole when nobody
/// holds it. The host reaches it by copies only.
#[derive(Debug)]
pub struct DeviceArena {
    session: Arc<Session>,
    block: Option<DeviceBlock>,
    whole: Region,
    used: Mutex<u64>,
}

impl DeviceArena {
    pub(super) fn new(session: &Arc<Session>, bytes: u64) -> Result<Self, Error> {
        let driver = session.driver()?;
        let made = driver.allocate_device(bytes.max(1));
        let block = made.map_err(|source| Error::memory(bytes, "device memory", source))?;
        let arena = Self {
            session: Arc::clone(session),
            whole: Region {
                address: DeviceAddress::new(block.address),
                length: block.bytes,
                key: 0,
                location: Location::Device,
            },
            block: Some(block),
            used: Mutex::new(0),
        };
        if let Some(block) = &arena.block {
            driver.zero(block)?;
        }
        Ok(arena)
    }

    /// All of it.
    pub fn whole(&self) -> Region {
        self.whole
    }

    /// Cuts `bytes` off, aligned to `alignment` (a power of two up to 256, as the driver aligns).
    ///
    /// # Errors
    /// [`ArenaError::Exhausted`] or [`ArenaError::Alignment`].
    pub fn allocate(&self, bytes: u64, alignment: u64) -> Result<Region, ArenaError> {
        if !alignment.is_power_of_two() || alignment > 256 {
            return Err(ArenaError::Alignment(alignment));
        }
        let mut used = lock(&self.used);
        let start = used.next_multiple_of(alignment);
        let need = bytes.saturating_add(start - *used);
        let have = self.whole.length - *used;
        if need > have {
            return Err(ArenaError::Exhausted { need, have });
        }
        *used += need;
        Ok(Region {
            address: self.whole.address.offset(start),
            length: bytes,
            ..self.whole
        })
    }

    /// Copies bytes to the device. A kernel that runs sees any mixture of old and new.
    ///
    /// # Errors
    /// [`ArenaError::Bounds`] outside the arena, [`Error::Call`] for what the driver refuses.
    pub fn write(&self, address: DeviceAddress, bytes: &[u8]) -> Result<(), Error> {
        let offset = self.offset(address, bytes.len() as u64)?;
        if let Some(block) = &self.block {
            self.session.driver()?.copy_in(block, offset, bytes)?;
        }
        Ok(())
    }

    /// Copies bytes from the device.
    ///
    /// # Errors
    /// As [`DeviceArena::write`].
    pub fn read(&self, address: DeviceAddress, into: &mut [u8]) -> Result<(), Error> {
        let offset = self.offset(address, into.len() as u64)?;
        if let Some(block) = &self.block {
            self.session.driver()?.copy_out(block, offset, into)?;
        }
        Ok(())
    }

    /// Copies as many bytes as both arenas have from the start of this one to the start of another
    /// of the same device, `times` times one after the other, and says how long that took by the
    /// host's clock. Waits busily.
    ///
    /// # Errors
    /// [`Error::Call`] for what the driver refuses; with [`Code::NOT_READY`] if the copies did not
    /// end within 20 s.
    pub fn copy_to(&self, to: &DeviceArena, times: u32) -> Result<Duration, Error> {
        let (Some(from), Some(target)) = (&self.block, &to.block) else {
            return Ok(Duration::ZERO);
        };
        let bytes = from.bytes.min(target.bytes);
        let lane = Lane::open(&self.session)?;
        let began = Instant::now();
        lane.with(|driver, stream, event| {
            for _ in 0..times {
                driver.copy_across(from, target, bytes, stream)?;
            }
            driver.record(event, stream)
        })?;
        while lane.with(|driver, _, event| driver.is_done(event))? == Some(false) {
            if began.elapsed() > LONGEST_COPY {
                return Err(Error::Call(CallError {
                    call: "cuMemcpyDtoDAsync",
                    code: Code::NOT_READY,
                }));
            }
            hint::spin_loop();
        }
        Ok(began.elapsed())
    }

    fn offset(&self, address: DeviceAddress, length: u64) -> Result<u64, ArenaError> {
        if !self.whole.contains(address, length) {
            return Err(ArenaError::Bounds {
                address,
                length,
                have: self.whole.length,
            });
        }
        Ok(address.value() - self.whole.address.value())
    }
}

impl Drop for DeviceArena {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.session.give_back(|driver| driver.free_device(block));
        }
    }
}

/// Host memory that the driver allocated.
#[derive(Debug)]
pub(super) struct Pinned {
    session: Arc<Session>,
    block: Option<HostBlock>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.session.give_back(|driver| driver.free_host(block));
        }
    }
}

/// An arena of host memory, locked and mapped into the device at the host's own addresses.
pub(super) fn pinned(session: &Arc<Session>, bytes: usize) -> Result<Arena, Error> {
    let driver = session.driver()?;
    let bytes = bytes.max(1).next_multiple_of(PAGE) as u64;
    // Room to begin at a page: pieces are aligned up to one.
    let made = driver.allocate_host(bytes + PAGE as u64);
    let block = made.map_err(|source| Error::memory(bytes, "locked host memory", source))?;
    let host = block.address;
    let pinned = Pinned {
        session: Arc::clone(session),
        block: Some(block),
    };
    let device = driver.device_pointer(host)?;
    if device != host {
        return Err(Error::Elsewhere {
            host: DeviceAddress::new(host),
            device: DeviceAddress::new(device),
        });
    }
    let first = host.next_multiple_of(PAGE as u64);
    // SAFETY: the driver's allocation holds so many bytes from there on, it is ours alone, and the
    // owner frees it.
    let arena = unsafe { Arena::lent(first, bytes as usize, Box::new(pinned)) };
    Ok(arena?)
}

const PAGE: usize = 4096;

/// How long copies may take.
const LONGEST_COPY: Duration = Duration::from_secs(20);
