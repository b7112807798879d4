//! How a thread rests that finds nothing to do.

use std::time::Duration;

/// Rest: the longer there was nothing to do, the deeper.
#[derive(Default)]
pub(super) struct Rest {
    idle: u32,
}

impl Rest {
    /// Rests after a look that found work, or none.
    pub(super) fn after(&mut self, busy: bool) {
        self.idle = match busy {
            true => 0,
            false => self.idle.saturating_add(1),
        };
        match self.idle {
            0..64 => std::hint::spin_loop(),
            64..256 => std::thread::yield_now(),
            _ => std::thread::sleep(NAP),
        }
    }
}

/// A short rest.
const NAP: Duration = Duration::from_micros(50);
