//! What carries the streams of an endpoint, as the endpoint sees it.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use warpwire_ring::Cause;

use super::error::Error;
use super::slow::SlowCounters;
use crate::messaging::Idle;

/// Who carries streams.
pub(super) trait Carriage: Send + Sync {
    /// One step. Says whether there was work; no if another thread is at it.
    fn step(&self) -> bool;

    /// Why it ended, if it did.
    fn ended(&self) -> Option<Cause>;

    /// Opens a stream: its place and generation. It may not be connected yet.
    fn connect(&self, to: SocketAddr, patience: Duration) -> Result<(u32, u32), Error>;

    /// Whether there is a way to an address at all, without asking anybody.
    fn check_way(&self, _to: IpAddr) -> Result<(), Error> {
        Ok(())
    }

    /// Goes on with the opening of a stream: its place and generation, once it has them. It may not
    /// be connected yet. Waits only where two ends meet before there is a stream.
    fn open(&self, attempt: &mut Attempt) -> Result<Option<(u32, u32)>, Error> {
        self.connect(attempt.to, MEETING).map(Some)
    }

    /// Takes a listener and listens: its number, and where that is.
    fn listen(&self, at: SocketAddr, patience: Duration) -> Result<(u32, SocketAddr), Error>;

    /// Listens no more: streams that wait to be accepted are all that there will be. No if it may
    /// listen still.
    fn unlisten(&self, listener: u32) -> bool;

    /// A listener that listens no more may be taken again.
    fn leave(&self, listener: u32);

    /// What the slow path counted, where there is one.
    fn slow_counters(&self) -> SlowCounters {
        SlowCounters::default()
    }
}

/// A stream that is being opened.
pub(super) struct Attempt {
    pub(super) to: SocketAddr,
    /// The engine that shall have it; one is chosen if none is said.
    pub(super) engine: Option<usize>,
    /// The number of a command that was not answered yet.
    pub(super) command: Option<u32>,
    /// Ports that were tried in vain.
    pub(super) tried: u32,
}

impl Attempt {
    pub(super) const fn new(to: SocketAddr, engine: Option<usize>) -> Self {
        Self {
            to,
            engine,
            command: None,
            tried: 0,
        }
    }
}

/// Steps until `look` finds something.
pub(super) fn wait<T>(
    carriage: &dyn Carriage,
    idle: &Idle,
    (what, patience): (&'static str, Duration),
    mut look: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    let started = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if carriage.step() {
            continue;
        }
        check_running(carriage)?;
        if started.elapsed() >= patience {
            return Err(Error::Deadline {
                what,
                waited: patience,
            });
        }
        idle();
    }
}

/// How long two ends may take to meet.
const MEETING: Duration = Duration::from_secs(5);

/// Nothing more comes of an engine that ended.
pub(super) fn check_running(carriage: &dyn Carriage) -> Result<(), Error> {
    match carriage.ended() {
        Some(cause) => Err(Error::Ended { cause }),
        None => Ok(()),
    }
}
