//! Counters of who did what: they stand where the action happens, and reports are made from them
//! alone.

use core::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer and any number of readers.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `value`. One writer only: a plain load and store, no locked operation.
    #[inline(always)]
    pub fn add(&self, value: u64) {
        let now = self.0.load(Ordering::Relaxed);
        self.0.store(now.wrapping_add(value), Ordering::Relaxed);
    }

    /// The value now.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What made a queue's consumer look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Trigger {
    /// A store to a doorbell register, by the code that posted.
    Mmio = 0,
    /// An index in memory that the consumer polls.
    PolledIndex = 1,
    /// A system call by the host, which a word in memory asked for.
    SystemCall = 2,
}

/// Who called, who built, who triggered, and which way the bytes went: one block a queue.
///
/// Counted by the code that does the thing, never derived from configuration.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Provenance {
    /// Calls of the queue's verbs from device code.
    pub device_calls: Counter,
    /// Descriptors that device code wrote.
    pub descriptors_built: Counter,
    /// Packet headers that device code wrote or changed.
    pub headers_built: Counter,
    /// Triggers by kind, indexed by [`Trigger`].
    pub triggers: [Counter; 3],
    /// Payload bytes that device code copied within its own memory.
    pub bytes_copied_device: Counter,
    /// Payload bytes that device code moved to or from host memory.
    pub bytes_copied_host: Counter,
    /// Payload bytes passed on by reference.
    pub bytes_by_reference: Counter,
    reserved: [Counter; 7],
}

const _: () = assert!(size_of::<Provenance>() == 128);

impl Provenance {
    /// Counts one trigger.
    #[inline(always)]
    pub fn triggered(&self, trigger: Trigger) {
        let [mmio, polled, system_call] = &self.triggers;
        match trigger {
            Trigger::Mmio => mmio.add(1),
            Trigger::PolledIndex => polled.add(1),
            Trigger::SystemCall => system_call.add(1),
        }
    }
}
