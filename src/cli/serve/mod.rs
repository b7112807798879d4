//! `warpwire serve`: services over TCP that an engine of ours terminates, on an interface of its
//! own addresses.

mod http;
mod iperf3;
mod report;
mod service;
mod site;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warpwire_pipelines::streaming::{self, InterfaceAddress, Listener, News, StreamDevice};

use super::live::{Note, Telling};
use super::rest::Rest;
use super::station::Station;
use super::{Failure, signals};
use report::Tally;
use service::{Served, Service};
use site::Site;

/// Serve TCP from an engine of warpwire, on addresses of its own
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// What to serve
    #[arg(value_enum)]
    service: Service,
    #[command(flatten)]
    station: Station,
    /// The port; the service's own if absent
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Connections at a time
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1 << 18))]
    connections: u32,
    /// `source`: bytes for each connection, then its end; without end if absent
    #[arg(long, value_name = "COUNT")]
    bytes: Option<u64>,
    /// `http`: the folder whose files are served; they are read once, at the beginning
    #[arg(long, value_name = "FOLDER", required_if_eq("service", "http"))]
    root: Option<PathBuf>,
    #[command(flatten)]
    telling: Telling,
    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

impl Arguments {
    /// Words for another service.
    fn check(&self) -> Result<(), Failure> {
        let wrong = |option, service| {
            let words = format!("{option}: only `serve {service}` has it; leave it out");
            Err(Failure::Words(words))
        };
        if self.bytes.is_some() && self.service != Service::Source {
            return wrong("--bytes", "source");
        }
        if self.root.is_some() && self.service != Service::Http {
            return wrong("--root", "http");
        }
        Ok(())
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stop = signals::Heed::begin()?;
    arguments.check()?;
    let site = arguments.root.as_deref().map(Site::read).transpose()?;
    let site = site.map(Arc::new);
    let device = arguments.station.open(arguments.connections, PATIENCE)?;
    let mut server = Server::open(arguments, site, &device)?;
    let telling = &arguments.telling;
    report::begin(telling, &device, &server.listeners, server.site.as_deref())?;
    let started = Instant::now();
    let is_over = || {
        let elapsed = started.elapsed().as_secs();
        stop.is_stopped() || arguments.seconds.is_some_and(|most| elapsed >= most)
    };
    let mut rest = Rest::default();
    let mut pulse = telling.pulse();
    while !is_over() {
        // Clocks and signals need a look from time to time only.
        for _ in 0..LOOK_PERIOD {
            let busy = device.endpoint().step() | server.serve()?;
            rest.after(busy);
        }
        for text in server.iperf3.iter_mut().flat_map(iperf3::Server::said) {
            let event = "iperf3";
            telling.say(&Note { event, text })?;
        }
        if !device.endpoint().is_running() {
            return Err(Failure::Serve(report::ended(&device)));
        }
        if let Some(since) = pulse.due() {
            report::live(telling, since, &device, &server.streams)?;
        }
    }
    if let Some(iperf3) = &mut server.iperf3 {
        iperf3.stop(&mut server.streams);
    }
    server.streams.clear();
    server.listeners.clear();
    // What is still to be said to peers.
    let until = Instant::now() + FAREWELL;
    while Instant::now() < until {
        rest.after(device.endpoint().step());
    }
    report::end(telling, &device, &server.tally, started.elapsed())
}

/// A service with its connections.
struct Server {
    service: Service,
    bytes: u64,
    site: Option<Arc<Site>>,
    iperf3: Option<iperf3::Server>,
    listeners: Vec<Listener>,
    news: Option<News>,
    /// By their numbers.
    streams: Vec<Option<Served>>,
    told: Vec<u32>,
    tally: Tally,
}

impl Server {
    fn open(
        arguments: &Arguments,
        site: Option<Arc<Site>>,
        device: &StreamDevice,
    ) -> Result<Self, Failure> {
        let port = arguments.port.unwrap_or(arguments.service.port());
        let listen = |own: &InterfaceAddress| {
            let at = SocketAddr::new(own.address, port);
            device.endpoint().listen(at, PATIENCE)
        };
        let listeners = arguments.station.addresses.iter().map(listen);
        Ok(Self {
            service: arguments.service,
            bytes: arguments.bytes.unwrap_or(u64::MAX),
            site: site.filter(|_| arguments.service == Service::Http),
            iperf3: (arguments.service == Service::Iperf3).then(iperf3::Server::new),
            listeners: listeners.collect::<Result<_, _>>()?,
            news: device.endpoint().news(),
            streams: Vec::new(),
            told: Vec::new(),
            tally: Tally::default(),
        })
    }

    /// Serves those of whom the engine has news. Says whether there were any.
    fn serve(&mut self) -> Result<bool, streaming::Error> {
        let mut told = std::mem::take(&mut self.told);
        if let Some(news) = &self.news {
            news.drain(|number| told.push(number));
        }
        let busy = !told.is_empty();
        for number in told.drain(..) {
            let streams = self.streams.len();
            match self.streams.get_mut(number as usize) {
                Some(slot) => match &mut self.iperf3 {
                    Some(iperf3) => {
                        iperf3.go_on(&mut self.streams, number as usize, &mut self.tally);
                    }
                    None => serve_one(slot, &mut self.tally),
                },
                None if streams == 0 || number as usize >= streams => self.welcome(number)?,
                None => {}
            }
        }
        self.told = told;
        if let Some(iperf3) = &mut self.iperf3 {
            iperf3.look(&mut self.streams, &mut self.tally);
        }
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
                *slot = Some(Served::new(
                    self.service,
                    stream,
                    self.bytes,
                    self.site.as_ref(),
                ));
                match &mut self.iperf3 {
                    Some(iperf3) => iperf3.welcome(&mut self.streams, place, &mut self.tally),
                    None => serve_one(slot, &mut self.tally),
                }
            }
        }
        Ok(())
    }
}

/// Does for a connection what can be done now.
fn serve_one(slot: &mut Option<Served>, tally: &mut Tally) {
    let Some(served) = slot else {
        return;
    };
    match served.go_on(tally) {
        Ok(true) => {}
        Ok(false) => *slot = None,
        Err(_) => {
            tally.broken += 1;
            *slot = None;
        }
    }
}

/// How long the NIC and the engine may take to begin.
const PATIENCE: Duration = Duration::from_secs(5);
/// Steps between two looks at clocks.
const LOOK_PERIOD: u32 = 64;
/// For ends and resets to leave.
const FAREWELL: Duration = Duration::from_millis(200);
