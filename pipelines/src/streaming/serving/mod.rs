//! Applications of device code over the streams of an endpoint: echo, discard, source, files over
//! HTTP/1.1 and splices, see [`warpwire_core::serving`].
//!
//! Whoever waits steps them by turns with the endpoint, or they are the blocks of a kernel on an
//! executor, one for each engine of the endpoint. The host says where to listen, lays memory out,
//! and looks at counters; it does not touch a byte that is served.

mod glimpse;
mod layout;
mod run;
mod site;
mod splices;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use warpwire_core::serving::ServeCounters;
use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::{Clock, Placement};
use warpwire_ring::Cause;

use super::endpoint::{News, Shared, StreamEndpoint};
use super::error::Error;
use super::listener::Listener;
use super::stream::Stream;
pub use glimpse::Glimpse;
use layout::Layout;
use run::Run;
pub use site::Site;
use splices::Splices;
pub use splices::Unspliced;

/// What is served.
#[derive(Clone, Debug)]
pub enum Application {
    /// What comes goes back: RFC 862.
    Echo,
    /// What comes is thrown away: RFC 863.
    Discard,
    /// Bytes that count from 0 to 250, again and again.
    Source {
        /// Bytes of each stream, then its end; without end if absent.
        bytes: Option<u64>,
    },
    /// Files, over HTTP/1.1.
    Http(Site),
    /// Each stream that is accepted is spliced to one that the endpoint opens.
    Splice {
        /// To where.
        to: SocketAddr,
        /// How long that may take.
        patience: Duration,
    },
}

/// An application that serves all streams that its listeners accept. Dropped, it ends: streams are
/// closed, and its listeners listen no more.
pub struct Serving {
    // In the order in which they must go.
    run: Option<Run>,
    splices: Option<Splices>,
    listeners: Vec<Listener>,
    layout: Layout,
    shared: Arc<Shared>,
    _news: News,
    _application: Application,
}

impl Serving {
    /// Serves the streams of these listeners of an endpoint, by who calls [`Serving::step`].
    ///
    /// # Errors
    /// [`Error::Used`], [`Error::Memory`], [`Error::Ended`] if device code refuses its memory;
    /// [`Error::NoWay`] if there is none to where streams are spliced.
    pub fn start_fused(
        clock: &Clock,
        endpoint: &StreamEndpoint,
        listeners: Vec<Listener>,
        application: Application,
    ) -> Result<Self, Error> {
        Self::start(endpoint, listeners, application, clock, |layout| {
            Run::stepped(layout, clock)
        })
    }

    /// The same by a kernel on an executor, a block for each engine of the endpoint. `placement` is
    /// that of their warps. [`Serving::step`] is called all the same where streams are spliced.
    ///
    /// # Errors
    /// As [`Serving::start_fused`]; an executor that refuses.
    pub fn start_on(
        executor: &CpuExecutor,
        endpoint: &StreamEndpoint,
        listeners: Vec<Listener>,
        application: Application,
        placement: Placement,
    ) -> Result<Self, Error> {
        let mut memory = Vec::new();
        for places in endpoint.shared.table.all() {
            memory.extend([&places.arena, &places.chunks].map(Arc::clone));
        }
        if let Application::Http(site) = &application {
            memory.push(Arc::clone(&site.arena));
        }
        let clock = executor.clock();
        Self::start(endpoint, listeners, application, &clock, |layout| {
            Run::kernel(layout, memory, executor, placement)
        })
    }

    fn start(
        endpoint: &StreamEndpoint,
        listeners: Vec<Listener>,
        application: Application,
        clock: &Clock,
        run: impl FnOnce(&Layout) -> Result<Run, Error>,
    ) -> Result<Self, Error> {
        if let Application::Splice { to, .. } = &application {
            endpoint.shared.carriage.check_way(to.ip())?;
        }
        let news = endpoint.news().ok_or(Error::Used)?;
        let shared = Arc::clone(&endpoint.shared);
        let places = shared.table.connections();
        let numbers = listeners.iter().map(|one| one.number() - places);
        let numbers: Vec<u32> = numbers.collect();
        let layout = Layout::new(&shared.table, &numbers, &application, epoch_ns(clock))?;
        let splices = match application {
            Application::Splice { to, patience } => Some(Splices::new(to, patience)),
            _ => None,
        };
        Ok(Self {
            run: Some(run(&layout)?),
            splices,
            listeners,
            layout,
            shared,
            _news: news,
            _application: application,
        })
    }

    /// One turn, and what the host does beside. Says whether there was work.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn step(&mut self) -> Result<bool, Error> {
        let mut busy = self.run.as_mut().is_some_and(Run::step);
        if let Some(splices) = &mut self.splices {
            busy |= splices.step(&self.shared, &self.listeners, &self.layout)?;
        }
        Ok(busy)
    }

    /// Where streams are accepted.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(Listener::address).collect()
    }

    /// What was counted so far. Of splices, bytes of both streams: what came of one of them, of
    /// either, left by the other.
    pub fn counters(&self) -> ServeCounters {
        let counters = self.layout.counters();
        let ServeCounters { came, left, .. } = counters;
        match self.splices {
            None => counters,
            // A turn counts one direction as what came and the other one as what left, by whose
            // turn it is.
            Some(_) => ServeCounters {
                came: came + left,
                left: came + left,
                ..counters
            },
        }
    }

    /// How many streams were accepted and could not be spliced.
    pub fn unspliced(&self) -> u64 {
        self.splices.as_ref().map_or(0, Splices::failed)
    }

    /// Streams that could not be spliced, and why, since the last time; of very many, the first.
    pub fn take_unspliced(&mut self) -> Vec<Unspliced> {
        let splices = self.splices.as_mut();
        splices.map(Splices::take_failures).unwrap_or_default()
    }

    /// The streams that are served now.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn glimpses(&self) -> Result<Vec<Glimpse>, Error> {
        let mut glimpses = Vec::new();
        for (block, laid) in self.layout.each.iter().enumerate() {
            for seated in self.layout.seated(laid)? {
                let place = self.shared.table.place(block, seated.place);
                let stream = Stream::glimpse(&self.shared, place, seated.generation)?;
                glimpses.extend(stream.map(|stream| Glimpse::new(stream, seated.moved)));
            }
        }
        Ok(glimpses)
    }

    /// Why it ended, if it did by itself.
    pub fn ended(&self) -> Option<Cause> {
        self.run.as_ref().and_then(Run::ended)
    }

    /// Ends it, closes all its streams, and says what it counted.
    ///
    /// # Errors
    /// A kernel that does not end; its streams stay then.
    pub fn finish(mut self) -> Result<ServeCounters, Error> {
        self.end()?;
        Ok(self.counters())
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(run) = self.run.take() else {
            return Ok(());
        };
        run.end()?;
        self.give_up()?;
        for (block, laid) in self.layout.each.iter().enumerate() {
            let seated = self.layout.seated(laid)?;
            let seated = seated.iter().map(|one| (one.place, one.generation));
            let pairs = laid.pairs.map(|pairs| pairs.take_back(&self.layout.arena));
            let untaken = pairs.transpose()?.unwrap_or_default();
            for (place, generation) in seated.chain(untaken) {
                let place = self.shared.table.place(block, place);
                // One that device code gave back is somebody else's.
                if let Some(mut stream) = Stream::glimpse(&self.shared, place, generation)? {
                    // Dropping it closes it.
                    stream.is_lent = false;
                }
            }
        }
        Ok(())
    }

    /// Gives up streams that wait to be spliced.
    fn give_up(&mut self) -> Result<(), Error> {
        let until = Instant::now() + LAST_PATIENCE;
        if let Some(splices) = &mut self.splices {
            while splices.are_asked_for() && Instant::now() < until {
                self.shared.step();
                splices.step(&self.shared, &[], &self.layout)?;
            }
            splices.give_up();
        }
        Ok(())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // What cannot be ended keeps its memory and its streams.
        let _ = self.end();
    }
}

/// Nanoseconds from 1970 to the zero of a clock, or all ones if nobody knows.
fn epoch_ns(clock: &Clock) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok();
    let now = now.and_then(|now| u64::try_from(now.as_nanos()).ok());
    let zero = now.and_then(|now| now.checked_sub(clock.now_ns()));
    zero.filter(|_| !clock.is_virtual()).unwrap_or(u64::MAX)
}

/// How long the engine may take for what is given up.
const LAST_PATIENCE: Duration = Duration::from_secs(1);
