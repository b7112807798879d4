//! What a wait does while it waits.

use warpwire_device::{Simt, Wait, wait_until};
use warpwire_engine::Engine;
use warpwire_protocols::checksum::Engine as Sum;
use warpwire_ring::{Cause, Receive, Transmit};

/// What brings about that for which somebody waits.
pub trait Progress {
    /// *Collective.* Does some of the work, and says whether there was any; the same to all lanes.
    ///
    /// # Errors
    /// Why it cannot go on.
    fn progress<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause>;
}

/// The engine runs elsewhere: in a kernel of its own, in another thread, in a NIC.
#[derive(Clone, Copy, Debug, Default)]
pub struct Elsewhere;

impl Progress for Elsewhere {
    #[inline(always)]
    fn progress<S: Simt>(&mut self, _simt: &S) -> Result<bool, Cause> {
        Ok(false)
    }
}

/// The warp that waits steps the engine itself: application and engine are one thread.
pub struct Stepping<'a, R, T, E>(pub Engine<'a, R, T, E>);

impl<R: Receive, T: Transmit, E: Sum> Progress for Stepping<'_, R, T, E> {
    #[inline(always)]
    fn progress<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        self.0.step(simt)
    }
}

/// *Collective.* Calls `poll` until it gives a value, with `progress` in between; `poll` gives all
/// lanes one in the same round.
///
/// # Errors
/// What [`wait_until`] and `progress` say.
#[inline(always)]
pub fn keep_on<S: Simt, P: Progress, T>(
    simt: &S,
    wait: &Wait,
    progress: &mut P,
    mut poll: impl FnMut(&mut P) -> Option<T>,
) -> Result<T, Cause> {
    wait_until(simt, wait, || {
        let mut rounds = 0;
        loop {
            if let Some(value) = poll(progress) {
                return Some(Ok(value));
            }
            match progress.progress(simt) {
                Err(cause) => return Some(Err(cause)),
                Ok(true) if rounds < MOST_ROUNDS => rounds += 1,
                Ok(true) => {
                    simt.give_way();
                    return None;
                }
                Ok(false) => return None,
            }
        }
    })?
}

/// Rounds with work between two looks at clock and abort word.
const MOST_ROUNDS: u32 = 16;
