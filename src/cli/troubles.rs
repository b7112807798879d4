//! What goes wrong with a NIC while streams move over it.

use std::time::{Duration, Instant};

use warpwire_nic::Severity;
use warpwire_pipelines::streaming::StreamDevice;

use super::Failure;
use super::live::Telling;

/// Looks at a NIC from time to time.
pub(super) struct Troubles {
    next: Instant,
    /// What was said of it.
    told: Vec<String>,
}

impl Troubles {
    pub(super) fn new() -> Self {
        Self {
            next: Instant::now(),
            told: Vec::new(),
        }
    }

    /// Looks, if it is time to. Says once what may pass; returns why nothing will pass the NIC any
    /// more.
    ///
    /// # Errors
    /// Nobody hears what is said.
    pub(super) fn look(
        &mut self,
        device: &StreamDevice,
        telling: &Telling,
    ) -> Result<Option<String>, Failure> {
        let now = Instant::now();
        if now < self.next {
            return Ok(None);
        }
        self.next = now + LOOK_PERIOD;
        for trouble in device.troubles() {
            let words = trouble.error.to_string();
            if trouble.severity == Severity::Fatal {
                return Ok(Some(words));
            }
            if !self.told.contains(&words) {
                telling.warn(&words)?;
                self.told.push(words);
            }
        }
        Ok(None)
    }
}

/// Time between two looks.
const LOOK_PERIOD: Duration = Duration::from_millis(250);
