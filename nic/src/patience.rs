//! How long somebody waits for a NIC to open, whatever the NIC's own limits are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::Error;

/// When to give up. The default waits as long as the NIC's own limits allow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience<'a> {
    /// Ends the wait once it is set.
    pub stop: Option<&'a AtomicBool>,
    /// Ends the wait then.
    pub until: Option<Instant>,
}

impl Patience<'_> {
    /// Goes on, or says why not.
    ///
    /// # Errors
    /// [`Error::Stopped`], with what `nic` was waiting for.
    pub fn check(&self, nic: &str, action: impl FnOnce() -> String) -> Result<(), Error> {
        let stopped = self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        let late = self.until.is_some_and(|until| Instant::now() >= until);
        let reason = match (stopped, late) {
            (false, false) => return Ok(()),
            (true, _) => "was interrupted",
            (_, true) => {
                "took longer than it may; start the other end, in the other role, or wait longer"
            }
        };
        Err(Error::Stopped {
            nic: nic.to_owned(),
            action: action(),
            reason,
        })
    }

    /// The end of a part of a wait: after it, ask [`Patience::check`] and wait on.
    pub fn step(&self, end: Instant) -> Instant {
        end.min(Instant::now() + STEP)
    }
}

/// How long nobody looks whether to give up.
const STEP: Duration = Duration::from_millis(50);
