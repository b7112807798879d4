//! Signals that ask for an end, for every subcommand alike.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A flag that is set by the first signal which asks for an end. The second ends the process at
/// once, should the end take too long.
pub(super) fn heed() -> io::Result<Arc<AtomicBool>> {
    Heed::begin().map(|heed| heed.stop)
}

/// Signals that are heeded while something is waited for, and not when it came.
pub(super) struct Heed {
    stop: Arc<AtomicBool>,
    ends_at_once: Arc<AtomicBool>,
}

impl Heed {
    pub(super) fn begin() -> io::Result<Self> {
        let heed = Self {
            stop: Arc::new(AtomicBool::new(false)),
            ends_at_once: Arc::new(AtomicBool::new(false)),
        };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Whoever starts us by `nohup` wants us to stay.
            if signal == SIGHUP && is_ignored(signal) {
                continue;
            }
            let code = 128 + signal;
            let ends = Arc::clone(&heed.ends_at_once);
            signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&ends))?;
            signal_hook::flag::register(signal, ends)?;
            signal_hook::flag::register(signal, Arc::clone(&heed.stop))?;
        }
        Ok(heed)
    }

    /// Whether a signal came.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The flag that is set by the first signal.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Heeds signals again, after [`Heed::end`].
    pub(super) fn go_on(&self) {
        self.ends_at_once.store(false, Ordering::Relaxed);
    }

    /// From now on the first signal ends the process, as if nobody had heeded any.
    pub(super) fn end(&self) {
        self.ends_at_once.store(true, Ordering::Relaxed);
    }
}

/// Whether the process was started with a signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 != 0)
}
