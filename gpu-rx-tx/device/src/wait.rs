//! Waits that end: with a value, with a cause, or at their deadline.

use warpwire_ring::Cause;

use crate::shared::SharedWord;
use crate::simt::Simt;

/// What ends a wait besides its value.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// When to give up, in nanoseconds of [`Simt::now_ns`].
    pub deadline_ns: u64,
    /// A word that is not 0 once the wait shall end at once.
    pub abort: Option<SharedWord>,
    /// Whose work the value depends on.
    pub heartbeat: Option<Heartbeat>,
}

/// A word that its owner changes as long as it runs.
#[derive(Clone, Copy, Debug)]
pub struct Heartbeat {
    /// The word; which values it takes does not matter.
    pub word: SharedWord,
    /// The owner counts as gone when the word stood still for this long.
    pub stale_ns: u64,
}

impl Wait {
    /// A wait until a time of the clock.
    #[inline(always)]
    pub const fn until(deadline_ns: u64) -> Self {
        Self {
            deadline_ns,
            abort: None,
            heartbeat: None,
        }
    }

    /// A wait for a while from now on.
    #[inline(always)]
    pub fn within<S: Simt>(simt: &S, timeout_ns: u64) -> Self {
        Self::until(simt.now_ns().saturating_add(timeout_ns))
    }

    /// The same wait, ended by a word as well.
    #[inline(always)]
    #[must_use]
    pub const fn abort_on(self, word: SharedWord) -> Self {
        Self {
            abort: Some(word),
            ..self
        }
    }

    /// The same wait, ended as well when the heart that it depends on stops.
    #[inline(always)]
    #[must_use]
    pub const fn while_beating(self, heartbeat: Heartbeat) -> Self {
        Self {
            heartbeat: Some(heartbeat),
            ..self
        }
    }
}

/// *Collective.* Calls `poll` until it gives a value; always at least once.
///
/// `poll` may make collective calls. All lanes get `Some` in the same round or none does. Lane 0's
/// clock and its view of the abort word and the heartbeat decide for the warp; the deadline of the
/// other lanes is not looked at.
///
/// # Errors
/// [`Cause::Aborted`], [`Cause::EngineNotRunning`] or [`Cause::DeadlineExceeded`], looked at in
/// this order after a round without a value.
#[inline(always)]
pub fn wait_until<S: Simt, T>(
    simt: &S,
    wait: &Wait,
    mut poll: impl FnMut() -> Option<T>,
) -> Result<T, Cause> {
    // The heart's last beat, and when it was seen.
    let mut beat: Option<(u32, u64)> = None;
    loop {
        if let Some(value) = poll() {
            return Ok(value);
        }
        let verdict = if simt.is_leader() {
            judge(wait, simt.now_ns(), &mut beat)
        } else {
            GO_ON
        };
        match simt.shuffle(verdict, 0) {
            GO_ON => simt.pause(),
            ABORTED => return Err(Cause::Aborted),
            STALE => return Err(Cause::EngineNotRunning),
            _ => return Err(Cause::DeadlineExceeded),
        }
    }
}

#[inline(always)]
fn judge(wait: &Wait, now_ns: u64, beat: &mut Option<(u32, u64)>) -> u32 {
    if wait.abort.is_some_and(|word| word.load() != 0) {
        return ABORTED;
    }
    if let Some(heartbeat) = wait.heartbeat {
        let value = heartbeat.word.load();
        match *beat {
            Some((last, since)) if last == value => {
                if now_ns.saturating_sub(since) >= heartbeat.stale_ns {
                    return STALE;
                }
            }
            _ => *beat = Some((value, now_ns)),
        }
    }
    if now_ns >= wait.deadline_ns {
        return EXPIRED;
    }
    GO_ON
}

const GO_ON: u32 = 0;
const ABORTED: u32 = 1;
const STALE: u32 = 2;
const EXPIRED: u32 = 3;
