//! `warpwire serve`: services over TCP that an engine of ours terminates, on an interface of its
//! own addresses.

mod iperf3;
mod report;
mod sensor;
mod server;
mod service;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use warpwire_pipelines::streaming::serving::{Application, Site};
use warpwire_pipelines::streaming::{Error, InterfaceAddress};

use super::live::Telling;
use super::rest::Rest;
use super::station::{Station, no_way};
use super::troubles::Troubles;
use super::words::{number, peer};
use super::{Failure, signals};
use server::Server;
use service::Service;

/// Serve TCP from an engine of warpwire, on addresses of its own
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// What to serve
    #[arg(value_enum)]
    service: Service,
    #[command(flatten)]
    station: Station,
    /// The port; the service's own if absent
    #[arg(long, allow_negative_numbers = true, value_parser = number(1u16, u16::MAX))]
    port: Option<u16>,
    /// Connections at a time
    #[arg(
        long, default_value_t = 512, allow_negative_numbers = true,
        value_parser = number(1, MOST_CONNECTIONS)
    )]
    connections: u32,
    /// `source`: bytes for each connection, then its end; without end if absent
    #[arg(
        long, value_name = "COUNT", allow_negative_numbers = true,
        value_parser = number(0, u64::MAX)
    )]
    bytes: Option<u64>,
    /// `http`: the folder whose files are served; they are read into device memory once, at the
    /// beginning
    #[arg(long, value_name = "FOLDER", required_if_eq("service", "http"))]
    root: Option<PathBuf>,
    /// `http`: device memory that the files may have, in MiB; 1024 if absent
    #[arg(
        long, value_name = "MIB", allow_negative_numbers = true,
        value_parser = number(1u64, 1 << 20)
    )]
    memory: Option<u64>,
    /// `splice`: where each connection is joined to, such as 192.0.2.7:80
    #[arg(
        long, value_name = "ADDRESS:PORT", required_if_eq("service", "splice"), value_parser = peer
    )]
    to: Option<SocketAddr>,
    /// Serve by a kernel on so many threads beside the engine, not by turns with it in one thread
    #[arg(
        long, value_name = "COUNT", allow_negative_numbers = true,
        value_parser = number(1, MOST_THREADS)
    )]
    threads: Option<usize>,
    #[command(flatten)]
    sensor: sensor::Words,
    #[command(flatten)]
    telling: Telling,
    /// Stop after so many seconds
    #[arg(
        long, value_name = "SECONDS", allow_negative_numbers = true,
        value_parser = number(0, u64::MAX)
    )]
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
        if self.memory.is_some() && self.service != Service::Http {
            return wrong("--memory", "http");
        }
        if self.to.is_some() && self.service != Service::Splice {
            return wrong("--to", "splice");
        }
        if self.threads.is_some() && self.service == Service::Iperf3 {
            let words = "--threads: the host serves iperf3, without a kernel; leave it out";
            return Err(Failure::Words(words.to_owned()));
        }
        if self.threads.is_some() && self.service == Service::Sensor {
            let words = "--threads: the kernel of a sensor has one of its own; leave it out";
            return Err(Failure::Words(words.to_owned()));
        }
        if let Some(warps) = self.station.warps
            && self.service == Service::Sensor
        {
            let wrong = match (self.sensor.udp, warps) {
                (true, _) => Some("datagrams have no connections to serve; leave it out"),
                (false, 3..) => Some("records are gathered from one warp's connections; write 2"),
                (false, _) => None,
            };
            if let Some(wrong) = wrong {
                return Err(Failure::Words(format!("--warps: {wrong}")));
            }
        }
        if let Some(word) = self.sensor.said()
            && self.service != Service::Sensor
        {
            return wrong(word, "sensor");
        }
        if self.connections.saturating_mul(self.service.each()) > MOST_CONNECTIONS {
            let most = MOST_CONNECTIONS / self.service.each();
            let words = format!("--connections: each is two streams here; write at most {most}");
            return Err(Failure::Words(words));
        }
        match self.to {
            Some(to) if to.ip().is_unspecified() => {
                let words = format!("--to: nobody is at {to}; write one such as 192.0.2.7:80");
                Err(Failure::Words(words))
            }
            _ => Ok(()),
        }
    }

    fn port(&self) -> u16 {
        self.port.unwrap_or_else(|| self.service.port(self.to))
    }

    /// What device code is to serve; none for iperf3 and sensors.
    fn application(&self) -> Result<Option<Application>, Failure> {
        let most = self.memory.unwrap_or(MEMORY_MIB) << 20;
        let files = || self.root.as_deref().map(|root| site(root, most));
        Ok(match self.service {
            Service::Echo => Some(Application::Echo),
            Service::Discard => Some(Application::Discard),
            Service::Source => Some(Application::Source { bytes: self.bytes }),
            Service::Http => files().transpose()?.map(Application::Http),
            Service::Splice => self.to.map(|to| Application::Splice {
                to,
                patience: PATIENCE,
            }),
            Service::Iperf3 | Service::Sensor => None,
        })
    }
}

/// The files of a folder, of so many bytes at most.
fn site(root: &Path, most: u64) -> Result<Site, Failure> {
    Site::read(root, most).map_err(|error| {
        let options = match error {
            Error::Large { .. } => "--root, --memory",
            _ => "--root",
        };
        Failure::Serve(format!("{options}: {error}"))
    })
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.telling.ended(serve(arguments))
}

fn serve(arguments: &Arguments) -> Result<(), Failure> {
    let stop = signals::Heed::begin()?;
    arguments.check()?;
    if arguments.service == Service::Sensor {
        return sensor::run(arguments, &stop);
    }
    // Nothing is there yet that would have to end well.
    stop.end();
    let application = arguments.application()?;
    let site = match &application {
        Some(Application::Http(site)) => Some((site.files(), site.bytes())),
        _ => None,
    };
    let connections = arguments.connections * arguments.service.each();
    let device = arguments.station.open(connections, PATIENCE)?;
    let port = arguments.port();
    let listen = |own: &InterfaceAddress| {
        let at = SocketAddr::new(own.address, port);
        device.endpoint().listen(at, PATIENCE)
    };
    let listeners = arguments.station.addresses.iter().map(listen);
    let listeners = listeners.collect::<Result<_, _>>()?;
    let server = Server::open(&device, listeners, application, arguments.threads);
    let mut server = server.map_err(|failure| match failure {
        Failure::Streaming(Error::NoWay(error)) => {
            Failure::Words(format!("--to: {}", no_way(&error)))
        }
        failure => failure,
    })?;
    let telling = &arguments.telling;
    stop.go_on();
    report::begin(telling, &device, server.addresses(), site)?;
    let started = Instant::now();
    let is_over = || {
        let elapsed = started.elapsed().as_secs();
        stop.is_stopped() || arguments.seconds.is_some_and(|most| elapsed >= most)
    };
    let mut rest = Rest::default();
    let mut pulse = telling.pulse();
    let mut troubles = Troubles::new();
    let mut why = None;
    while why.is_none() && !is_over() {
        // Clocks and signals need a look from time to time only.
        for _ in 0..LOOK_PERIOD {
            let busy = device.endpoint().step() | server.step()?;
            rest.after(busy);
        }
        telling.say_all(server.said())?;
        let is_running = device.endpoint().is_running();
        why = troubles.look(&device, telling)?;
        why = why.or_else(|| (!is_running).then(|| report::ended(&device)));
        why = why.or_else(|| server.ended());
        if let Some(since) = pulse.due() {
            telling.say_all(server.connections(&device, since)?)?;
            telling.say(&server.totals(since))?;
        }
    }
    let elapsed = started.elapsed();
    let tally = server.end();
    if let Some(why) = why {
        // What was served until then.
        if let Ok(tally) = tally {
            report::end(telling, &device, &tally, elapsed)?;
        }
        return Err(Failure::Serve(why));
    }
    let tally = tally?;
    // What is still to be said to peers.
    let until = Instant::now() + FAREWELL;
    while Instant::now() < until {
        rest.after(device.endpoint().step());
    }
    report::end(telling, &device, &tally, started.elapsed())
}

/// Device memory that files may have, in MiB.
const MEMORY_MIB: u64 = 1024;
/// Streams at a time.
const MOST_CONNECTIONS: u32 = 1 << 18;
/// Threads that a kernel may have.
const MOST_THREADS: usize = 64;
/// How long the NIC and the engine may take to begin.
const PATIENCE: Duration = Duration::from_secs(5);
/// Steps between two looks at clocks.
const LOOK_PERIOD: u32 = 64;
/// For ends and resets to leave.
const FAREWELL: Duration = Duration::from_millis(200);
