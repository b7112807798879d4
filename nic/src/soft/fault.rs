//! Faults of the device itself, each on a schedule.

use warpwire_ring::Cause;

use super::dice::Dice;

/// When something happens, counted in its own events (work queue entries, frames, doorbells).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Schedule {
    /// Never.
    #[default]
    Never,
    /// Once, at this event, counted from 0.
    At(u64),
    /// At every n-th event; never if 0.
    Every(u64),
    /// At each event with this chance in a million.
    Chance(u32),
}

impl Schedule {
    /// Whether it happens at `event`.
    #[inline(always)]
    pub fn happens(self, event: u64, dice: &mut Dice) -> bool {
        match self {
            Self::Never => false,
            Self::At(at) => event == at,
            Self::Every(period) => period != 0 && (event + 1).is_multiple_of(period),
            Self::Chance(parts) => dice.chance(parts),
        }
    }
}

/// An error completion in place of a success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorCompletion {
    /// Which WQEs fail.
    pub when: Schedule,
    /// What the completion says; a cause without a syndrome becomes 0x77, which nobody knows.
    pub cause: Cause,
    /// WQEs after it that are flushed, before the queue works again.
    pub flush: u32,
}

impl Default for ErrorCompletion {
    fn default() -> Self {
        Self {
            when: Schedule::Never,
            cause: Cause::LocalQpOperation,
            flush: 0,
        }
    }
}

/// What goes wrong in an adapter. The default is nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Sends that fail; the frame is not sent.
    pub send_error: ErrorCompletion,
    /// Receives that fail; the frame is lost.
    pub receive_error: ErrorCompletion,
    /// Frames whose completion is visible before their payload, as relaxed PCIe ordering allows.
    pub payload_late: Schedule,
    /// How much later the payload comes, in nanoseconds of the fabric's clock.
    pub payload_late_ns: u64,
    /// Doorbells that the NIC does not notice; the next one makes up for it.
    pub doorbell_lost: Schedule,
    /// Doorbells at which the adapter stops to send for `stall_ns`.
    pub stall: Schedule,
    /// How long it stops, in nanoseconds of the fabric's clock.
    pub stall_ns: u64,
}

impl Faults {
    /// Whether nothing goes wrong.
    pub fn none(&self) -> bool {
        *self == Self::default()
    }
}

/// The syndrome that stands for a cause.
pub(super) fn syndrome(cause: Cause) -> u8 {
    cause.syndrome().unwrap_or(0x77)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_keep_their_time() {
        let mut dice = Dice::new(3);
        let cases = [
            (Schedule::Never, vec![]),
            (Schedule::At(2), vec![2]),
            (Schedule::Every(3), vec![2, 5, 8]),
            (Schedule::Every(0), vec![]),
            (Schedule::Chance(1_000_000), (0..10).collect()),
        ];
        for (schedule, want) in cases {
            let got: Vec<u64> = (0..10)
                .filter(|&at| schedule.happens(at, &mut dice))
                .collect();
            assert_eq!(got, want, "{schedule:?}");
        }
    }
}
