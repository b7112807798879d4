//! Who serves: device code, or for iperf3 the host.

use std::net::SocketAddr;
use std::time::Duration;

use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::{Clock, IdlePolicy, Placement};
use warpwire_pipelines::streaming::serving::{Application, Serving, Unspliced};
use warpwire_pipelines::streaming::{self, Listener, News, Stream, StreamDevice};

use super::super::Failure;
use super::super::live::{Connection, Note};
use super::iperf3;
use super::report::{self, Tally, Totals};

/// Who serves.
pub(super) enum Server {
    Device {
        serving: Serving,
        /// What its kernel runs on, if it has one.
        _executor: Option<CpuExecutor>,
    },
    Host(Host),
}

/// iperf3's server, with its connections.
pub(super) struct Host {
    iperf3: iperf3::Server,
    listeners: Vec<Listener>,
    news: Option<News>,
    /// By their numbers.
    streams: Vec<Option<Stream>>,
    told: Vec<u32>,
    tally: Tally,
}

impl Server {
    /// Serves an application by turns with the engine, or on so many threads beside it; iperf3
    /// where no application is said.
    pub(super) fn open(
        device: &StreamDevice,
        listeners: Vec<Listener>,
        application: Option<Application>,
        threads: Option<usize>,
    ) -> Result<Self, Failure> {
        let endpoint = device.endpoint();
        let Some(application) = application else {
            return Ok(Self::Host(Host {
                iperf3: iperf3::Server::new(),
                listeners,
                news: endpoint.news(),
                streams: Vec::new(),
                told: Vec::new(),
                tally: Tally::default(),
            }));
        };
        let Some(threads) = threads else {
            let clock = Clock::machine();
            let serving = Serving::start_fused(&clock, endpoint, listeners, application)?;
            let _executor = None;
            return Ok(Self::Device { serving, _executor });
        };
        let builder = CpuExecutor::builder().threads(threads);
        let executor = builder.idle(IdlePolicy::POLITE).build();
        let executor = executor.map_err(streaming::Error::from)?;
        let any = Placement::Any;
        let serving = Serving::start_on(&executor, endpoint, listeners, application, any)?;
        let _executor = Some(executor);
        Ok(Self::Device { serving, _executor })
    }

    /// Where it is served.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Device { serving, .. } => serving.addresses(),
            Self::Host(host) => host.listeners.iter().map(Listener::address).collect(),
        }
    }

    /// Does what can be done now. Says whether there was work.
    pub(super) fn step(&mut self) -> Result<bool, Failure> {
        Ok(match self {
            Self::Device { serving, .. } => serving.step()?,
            Self::Host(host) => host.serve()?,
        })
    }

    /// What is to be told to who runs it, since the last time.
    pub(super) fn said(&mut self) -> Vec<Note> {
        match self {
            Self::Device { serving, .. } => {
                let all = serving.take_unspliced().into_iter();
                let note = |one: Unspliced| {
                    let (peer, error) = (one.peer.to_string(), one.error.to_string());
                    let text = format!("{peer} is not spliced: {error}");
                    let facts = [("peer", peer), ("error", error)];
                    let facts = facts.map(|(name, fact)| (name.to_owned(), fact.into()));
                    Note::with("unspliced", text, facts.into_iter().collect())
                };
                all.map(note).collect()
            }
            Self::Host(host) => host.iperf3.said().collect(),
        }
    }

    /// Why it ended, if it did by itself.
    pub(super) fn ended(&self) -> Option<String> {
        match self {
            Self::Device { serving, .. } => {
                let cause = serving.ended()?;
                Some(format!("the kernel that serves ended: {cause}"))
            }
            Self::Host(_) => None,
        }
    }

    /// What was served until now, so long after the beginning.
    pub(super) fn totals(&self, since: Duration) -> Totals {
        match self {
            Self::Device { serving, .. } => {
                let counters = serving.counters();
                let open = counters.accepted.saturating_sub(counters.ended);
                let tally = report::of_device(&counters, serving.unspliced());
                Totals::new(since, open, &tally)
            }
            Self::Host(host) => {
                let open = host.streams.iter().flatten().count();
                Totals::new(since, open as u64, &host.tally)
            }
        }
    }

    /// Every connection as it is now, so long after the beginning.
    pub(super) fn connections(
        &self,
        device: &StreamDevice,
        since: Duration,
    ) -> Result<Vec<Connection>, Failure> {
        // What is asked for here is there after a step.
        Ok(match self {
            Self::Device { serving, .. } => {
                let glimpses = serving.glimpses()?;
                glimpses.iter().for_each(|one| drop(one.figures()));
                device.endpoint().step();
                let all = glimpses.iter();
                all.filter_map(|one| Connection::served(one, since))
                    .collect()
            }
            Self::Host(host) => {
                let all = || host.streams.iter().flatten();
                all().for_each(|stream| drop(stream.figures()));
                device.endpoint().step();
                all()
                    .filter_map(|stream| Connection::now(stream, since, true))
                    .collect()
            }
        })
    }

    /// Ends it: nobody is served any more.
    pub(super) fn end(self) -> Result<Tally, Failure> {
        match self {
            Self::Device { serving, .. } => {
                let unspliced = serving.unspliced();
                Ok(report::of_device(&serving.finish()?, unspliced))
            }
            Self::Host(mut host) => {
                host.iperf3.stop(&mut host.streams);
                Ok(host.tally)
            }
        }
    }
}

impl Host {
    /// Serves those of whom the engine has news. Says whether there were any.
    fn serve(&mut self) -> Result<bool, streaming::Error> {
        let mut told = std::mem::take(&mut self.told);
        if let Some(news) = &self.news {
            news.drain(|number| told.push(number));
        }
        let busy = !told.is_empty();
        for number in told.drain(..) {
            let place = number as usize;
            match self.streams.get(place) {
                Some(_) => self.iperf3.go_on(&mut self.streams, place, &mut self.tally),
                None => self.welcome(number)?,
            }
        }
        self.told = told;
        self.iperf3.look(&mut self.streams, &mut self.tally);
        Ok(busy)
    }

    /// Takes who waits at a listener.
    fn welcome(&mut self, number: u32) -> Result<(), streaming::Error> {
        let listener = self.listeners.iter().find(|one| one.number() == number);
        while let Some(stream) = listener.map(Listener::try_accept).transpose()?.flatten() {
            let place = stream.number() as usize;
            if place >= self.streams.len() {
                self.streams.resize_with(place + 1, || None);
            }
            self.tally.accepted += 1;
            if let Some(slot) = self.streams.get_mut(place) {
                *slot = Some(stream);
                let tally = &mut self.tally;
                self.iperf3.welcome(&mut self.streams, place, tally);
            }
        }
        Ok(())
    }
}
