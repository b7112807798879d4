//! Words and counters in memory that warps, the host and other kernels share.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a word's memory is live"
)]

use warpwire_ring::{DeviceAddress, memory};

/// A 32-bit word that somebody else writes or reads at the same time: an abort word, a heartbeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct SharedWord(DeviceAddress);

impl SharedWord {
    /// Names a word.
    ///
    /// # Safety
    /// *The word's promise*: `address` is a multiple of 4 and points to live memory, which stays so
    /// for as long as the value is used and is touched through atomic accesses only.
    pub const unsafe fn attach(address: DeviceAddress) -> Self {
        Self(address)
    }

    /// The value now. What its writer did before a release store of it is seen after.
    /// pairs with: `store` of the other side.
    #[inline(always)]
    pub fn load(self) -> u32 {
        // SAFETY: the word's promise, given at attach.
        unsafe { memory::load_acquire_u32(self.0) }
    }

    /// Stores a value; what was done before is seen by whoever loads it. pairs with: `load` of the
    /// other side.
    #[inline(always)]
    pub fn store(self, value: u32) {
        // SAFETY: the word's promise, given at attach.
        unsafe { memory::store_release_u32(self.0, value) }
    }
}

/// A 64-bit word that a peer or another warp sets or adds to, and that somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct SharedSignal(DeviceAddress);

impl SharedSignal {
    /// Names a word.
    ///
    /// # Safety
    /// *The word's promise*, see [`SharedWord::attach`], for an `address` that is a multiple of 8.
    pub const unsafe fn attach(address: DeviceAddress) -> Self {
        Self(address)
    }

    /// The value now. What its writer did before the signal is seen after.
    /// pairs with: the release store, or the addition, by which an engine places a signal.
    #[inline(always)]
    pub fn load(self) -> u64 {
        // SAFETY: the word's promise, given at attach.
        unsafe { memory::load_acquire_u64(self.0) }
    }

    /// Stores a value; what was done before is seen by whoever loads it. pairs with: `load`.
    #[inline(always)]
    pub fn store(self, value: u64) {
        // SAFETY: the word's promise, given at attach.
        unsafe { memory::store_release_u64(self.0, value) }
    }
}

/// A 64-bit counter that many lanes, warps and blocks add to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct SharedCounter(DeviceAddress);

impl SharedCounter {
    /// Names a counter.
    ///
    /// # Safety
    /// *The counter's promise*: `address` is a multiple of 8 and points to live memory, which stays
    /// so for as long as the value is used and is touched through atomic accesses only.
    pub const unsafe fn attach(address: DeviceAddress) -> Self {
        Self(address)
    }

    /// Adds `value`, modulo 2^64. Relaxed: a reader may see counters in any mixture.
    #[inline(always)]
    pub fn add(self, value: u64) {
        // SAFETY: the counter's promise, given at attach.
        unsafe { memory::fetch_add_u64(self.0, value) };
    }

    /// Adds `value` to a counter that nobody else adds to: no locked operation. A reader sees whole
    /// values.
    #[inline(always)]
    pub fn add_alone(self, value: u64) {
        let sum = self.value().wrapping_add(value);
        // SAFETY: the counter's promise, given at attach.
        unsafe { memory::store_u64(self.0, sum) };
    }

    /// The value now.
    #[inline(always)]
    pub fn value(self) -> u64 {
        // SAFETY: the counter's promise, given at attach.
        unsafe { memory::load_u64(self.0) }
    }
}

/// A row of [`SharedCounter`]s, addressed by index: one a drop reason, a port, a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedCounters {
    first: DeviceAddress,
    count: u32,
}

impl SharedCounters {
    /// Names `count` counters, one behind the other.
    ///
    /// # Safety
    /// *The counter's promise*, see [`SharedCounter::attach`], for each of them.
    pub const unsafe fn attach(first: DeviceAddress, count: u32) -> Self {
        Self { first, count }
    }

    /// How many there are.
    #[inline(always)]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// Counter `index`, if there are that many.
    #[inline(always)]
    pub const fn at(self, index: u32) -> Option<SharedCounter> {
        if index < self.count {
            Some(SharedCounter(self.first.offset(index as u64 * 8)))
        } else {
            None
        }
    }
}
