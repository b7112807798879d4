//! The words through which host and kernel talk while the kernel runs: stop and heartbeats.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use warpwire_device::VERDICT_OFFSET;
use warpwire_ring::DeviceAddress;

use crate::arena::{Arena, ArenaError};

/// A stop word, and one heartbeat for each warp, in memory that kernels can reach.
///
/// Made before a launch, so that the addresses can go into the kernel's parameter block: the stop
/// word as the abort word of its waits, a heartbeat as what another kernel's waits look at. All
/// words are 32 bits wide and lie on lines of their own.
#[derive(Clone, Debug)]
pub struct Control {
    arena: Arc<Arena>,
    stop: DeviceAddress,
    warps: u32,
}

impl Control {
    /// Cuts the words for `warps` warps (of all blocks together) out of `arena`.
    ///
    /// # Errors
    /// [`ArenaError::Exhausted`].
    pub fn allocate(arena: &Arc<Arena>, warps: u32) -> Result<Self, ArenaError> {
        let region = arena.allocate(Self::bytes(warps), LINE)?;
        Ok(Self {
            arena: Arc::clone(arena),
            stop: region.address,
            warps,
        })
    }

    /// Bytes that [`Control::allocate`] takes.
    pub const fn bytes(warps: u32) -> u64 {
        (warps as u64 + 1) * LINE
    }

    /// Where the stop word lies: 0 while the kernel may run, 1 when it shall end.
    pub fn stop_address(&self) -> DeviceAddress {
        self.stop
    }

    /// Where the heartbeat of warp `warp` (counted over all blocks) lies: it changes with every
    /// pause.
    pub fn heartbeat_address(&self, warp: u32) -> Option<DeviceAddress> {
        (warp < self.warps).then(|| self.stop.offset((u64::from(warp) + 1) * LINE))
    }

    /// Warps that there are heartbeats for.
    pub fn warps(&self) -> u32 {
        self.warps
    }

    /// Asks every kernel that looks at the stop word to end.
    pub fn stop(&self) {
        if let Ok(word) = self.arena.half_word(self.stop) {
            // pairs with: the acquire load in the kernel's waits.
            word.store(1, Ordering::Release);
        }
    }

    /// Whether somebody asked for the end.
    pub fn stopped(&self) -> bool {
        self.arena
            .half_word(self.stop)
            .is_ok_and(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Pauses of warp `warp` so far, modulo 2^32.
    pub fn heartbeat(&self, warp: u32) -> Option<u32> {
        self.heartbeat_word(warp)
            .map(|word| word.load(Ordering::Relaxed))
    }

    /// What ended the block whose heartbeat is that of warp `block`: the number of a
    /// [`warpwire_ring::Cause`], or 0. Only kernels on a GPU tell it here.
    pub(crate) fn verdict(&self, block: u32) -> Option<u32> {
        let word = self.verdict_word(block)?;
        Some(word.load(Ordering::Acquire))
    }

    /// Before a slice: a beat that no turn makes, and no verdict.
    pub(crate) fn expect_beat(&self, block: u32, never: u32) {
        if let Some(word) = self.heartbeat_word(block) {
            word.store(never, Ordering::Relaxed);
        }
        if let Some(word) = self.verdict_word(block) {
            word.store(0, Ordering::Relaxed);
        }
    }

    fn verdict_word(&self, block: u32) -> Option<&AtomicU32> {
        let address = self.heartbeat_address(block)?.offset(VERDICT_OFFSET);
        self.arena.half_word(address).ok()
    }

    pub(crate) fn memory(&self) -> &Arc<Arena> {
        &self.arena
    }

    pub(crate) fn heartbeat_word(&self, warp: u32) -> Option<&AtomicU32> {
        let address = self.heartbeat_address(warp)?;
        self.arena.half_word(address).ok()
    }
}

const LINE: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use warpwire_ring::Location;

    #[test]
    fn words_lie_apart_and_within() {
        let arena = Arc::new(Arena::new(4096, Location::PinnedHost).expect("maps"));
        let control = Control::allocate(&arena, 3).expect("fits");
        let mut addresses = vec![control.stop_address()];
        addresses.extend((0..3).filter_map(|warp| control.heartbeat_address(warp)));
        assert_eq!(addresses.len(), 4);
        for pair in addresses.windows(2) {
            assert_eq!(pair[1].value() - pair[0].value(), LINE);
        }
        assert_eq!(control.heartbeat_address(3), None);
        assert!(!control.stopped());
        control.stop();
        assert!(control.stopped());
        assert_eq!(control.heartbeat(0), Some(0), "stop touches nothing else");
    }
}
