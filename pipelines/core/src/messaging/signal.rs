//! Signals: words that peers set or add to, and waits for them.

use warpwire_device::{SharedSignal, Simt, Wait};
use warpwire_ring::{Cause, DeviceAddress};

use super::channel::Channel;
use super::progress::{Progress, keep_on};

/// Whether a signal has come as far as `epoch`: `value - epoch`, as a signed number, is not
/// negative.
#[inline(always)]
pub const fn reached(value: u64, epoch: u64) -> bool {
    value.wrapping_sub(epoch) as i64 >= 0
}

/// What a wait is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// All signals reached the epoch.
    All,
    /// At least one did; the first of them is told.
    Any,
    /// At least one did; all of them are told.
    Some,
}

/// A row of signals.
#[derive(Clone, Copy, Debug)]
pub struct Signals {
    first: DeviceAddress,
    count: u32,
    stride: u32,
    ignored: u64,
}

impl Signals {
    /// Names `count` words, one every `stride` bytes.
    ///
    /// # Safety
    /// *The word's promise*, see [`SharedSignal::attach`], for each of them.
    #[expect(
        unsafe_code,
        reason = "attaching carries the promise that words are live memory"
    )]
    pub const unsafe fn attach(first: DeviceAddress, count: u32, stride: u32) -> Self {
        Self {
            first,
            count,
            stride,
            ignored: 0,
        }
    }

    /// The same row without those of the first 64 whose bit is set, the lowest the first: for who
    /// has dealt with them.
    #[must_use]
    pub const fn without(self, ignored: u64) -> Self {
        Self { ignored, ..self }
    }

    /// How many there are.
    pub const fn count(&self) -> u32 {
        self.count
    }

    #[inline(always)]
    #[expect(
        unsafe_code,
        reason = "attaching carried the promise that words are live memory"
    )]
    fn at(&self, index: u32) -> Option<SharedSignal> {
        let is_ignored = index < 64 && self.ignored >> index & 1 != 0;
        let offset = u64::from(index) * u64::from(self.stride);
        // SAFETY: one of the row, by the promise.
        let signal = || unsafe { SharedSignal::attach(self.first.offset(offset)) };
        (index < self.count && !is_ignored).then(signal)
    }

    /// The value of a signal, if there are that many and it is not left out. What its writer did
    /// before is seen after.
    #[inline(always)]
    pub fn value(&self, index: u32) -> Option<u64> {
        self.at(index).map(SharedSignal::load)
    }

    /// Sets a signal, at a time when no peer does.
    #[inline(always)]
    pub fn reset(&self, index: u32, value: u64) {
        if let Some(signal) = self.at(index) {
            signal.store(value);
        }
    }

    /// *Collective.* Looks at all signals, a lane each, and says which of the first 64 reached the
    /// epoch, if the goal is met. Only [`Goal::All`] looks at more than 64.
    #[inline(always)]
    pub fn look<S: Simt>(&self, simt: &S, goal: Goal, epoch: u64) -> Option<u64> {
        let count = match goal {
            Goal::All => self.count,
            Goal::Any | Goal::Some => self.count.min(64),
        };
        let mut there = 0u64;
        let mut is_met = goal == Goal::All;
        let mut row = 0;
        while row < count {
            let signal = self.at(row.wrapping_add(simt.lane()));
            let is_there = signal.is_some_and(|signal| reached(signal.load(), epoch));
            let bits = simt.ballot(is_there);
            if row < 64 {
                there |= u64::from(bits) << row;
            }
            match goal {
                Goal::All if simt.any(signal.is_some() && !is_there) => {
                    is_met = false;
                    break;
                }
                Goal::Any if bits != 0 => return Some(1 << there.trailing_zeros()),
                Goal::Some => is_met |= bits != 0,
                Goal::All | Goal::Any => {}
            }
            row += S::WIDTH;
        }
        is_met.then_some(there)
    }

    /// *Collective.* Waits until the goal is met. Returns which of the first 64 reached the epoch.
    ///
    /// # Errors
    /// What ends waits.
    pub fn wait<S: Simt, P: Progress>(
        &self,
        simt: &S,
        goal: Goal,
        epoch: u64,
        wait: &Wait,
        progress: &mut P,
    ) -> Result<u64, Cause> {
        keep_on(simt, wait, progress, |_| self.look(simt, goal, epoch))
    }
}

impl Channel {
    /// *Collective.* [`Signals::wait`] for signals that come over this queue pair: it ends as well
    /// when the queue pair fails, or its engine stops.
    ///
    /// # Errors
    /// How the queue pair failed; what ends waits.
    pub fn wait_signals<S: Simt, P: Progress>(
        &mut self,
        simt: &S,
        (signals, goal, epoch): (&Signals, Goal, u64),
        wait: &Wait,
        progress: &mut P,
    ) -> Result<u64, Cause> {
        let wait = self.guarded(wait);
        keep_on(simt, &wait, progress, |_| {
            self.try_signals(simt, signals, (goal, epoch))
        })?
    }

    /// *Collective.* One look of [`Channel::wait_signals`].
    pub(super) fn try_signals<S: Simt>(
        &mut self,
        simt: &S,
        signals: &Signals,
        (goal, epoch): (Goal, u64),
    ) -> Option<Result<u64, Cause>> {
        if let Some(there) = signals.look(simt, goal, epoch) {
            return Some(Ok(there));
        }
        self.collect(simt);
        self.fault().map(Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_wrap_around() {
        let cases = [
            (0, 0, true),
            (4, 5, false),
            (5, 5, true),
            (6, 5, true),
            (3, u64::MAX - 1, true),
            (u64::MAX, 2, false),
            (u64::MAX, u64::MAX, true),
            (1 << 63, 1, true),
            ((1 << 63) + 1, 1, false),
        ];
        for (value, epoch, want) in cases {
            assert_eq!(reached(value, epoch), want, "{value} {epoch}");
        }
    }
}
