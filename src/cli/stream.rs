//! `warpwire stream`: a file over a TCP connection of our own, or over messages of RDMA. Over TCP
//! the other end is another warpwire, or any program with a socket; over messages it is another
//! warpwire. The bytes of the file are all that is sent, and the end of the stream is its end.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Map;
use warpwire_pipelines::messaging;
use warpwire_pipelines::streaming::slow::NoWay;
use warpwire_pipelines::streaming::{
    Error, Listener, RdmaConfig, Stream, StreamDevice, StreamEndpoint,
};

use super::Failure;
use super::live::{Connection, Figures, Note, Pulse, Telling};
use super::rest::Rest;
use super::signals::Heed;
use super::station::{Station, no_way};
use super::troubles::Troubles;
use super::words::{number, peer};

/// Send or receive a file over TCP of our own, or over RDMA
#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    side: Side,
}

#[derive(clap::Subcommand)]
enum Side {
    /// Wait for a connection, and write what comes to a file
    Recv {
        /// The file; what it held is lost once somebody has connected
        file: PathBuf,
        /// The port that is listened at, on all own addresses
        #[arg(
            long, default_value_t = PORT, allow_negative_numbers = true,
            value_parser = number(1u16, u16::MAX)
        )]
        port: u16,
        #[command(flatten)]
        shared: Shared,
    },
    /// Connect, and send a file
    Send {
        /// The file
        file: PathBuf,
        /// Who receives it, such as 192.0.2.9:5300
        #[arg(long, value_name = "ADDRESS:PORT", value_parser = peer)]
        to: SocketAddr,
        #[command(flatten)]
        shared: Shared,
    },
}

#[derive(clap::Args)]
struct Shared {
    #[command(flatten)]
    station: Station,
    /// What carries the stream. With rdma, `--addr` is an address that the operating system has:
    /// there the two ends meet; gateway, MTU and congestion control are not ours then. Both ends
    /// need the same carrier
    #[arg(long, value_enum, default_value_t = Carrier::Tcp)]
    carrier: Carrier,
    /// Longest wait for the other end to be there, in seconds
    #[arg(
        long, value_name = "SECONDS", default_value_t = 60,
        allow_negative_numbers = true, value_parser = number(1, LONGEST)
    )]
    wait: u64,
    /// Longest time in which no byte moves, in seconds
    #[arg(
        long, value_name = "SECONDS", default_value_t = 30,
        allow_negative_numbers = true, value_parser = number(1, LONGEST)
    )]
    patience: u64,
    #[command(flatten)]
    telling: Telling,
}

/// What carries a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Carrier {
    /// TCP of our own, on addresses of our own
    Tcp,
    /// Messages over a reliable connection of RDMA (RoCEv2)
    Rdma,
}

/// An endpoint, with what it stands on.
enum Ground {
    Tcp(Box<StreamDevice>),
    Rdma(StreamEndpoint),
}

impl Ground {
    fn endpoint(&self) -> &StreamEndpoint {
        match self {
            Self::Tcp(device) => device.endpoint(),
            Self::Rdma(endpoint) => endpoint,
        }
    }
}

impl Shared {
    fn open(&self, patience: Duration) -> Result<Ground, Failure> {
        if self.carrier == Carrier::Rdma && self.station.warps.is_some() {
            let words = "--warps: one warp carries streams over RDMA; leave it out";
            return Err(Failure::Words(words.to_owned()));
        }
        if self.carrier == Carrier::Tcp {
            let device = self.station.open_for(CONNECTIONS, patience, "--ring")?;
            return Ok(Ground::Tcp(Box::new(device)));
        }
        let config = RdmaConfig {
            connections: CONNECTIONS,
            ring_bytes: self.station.ring,
            ..RdmaConfig::default()
        };
        let own = self.station.addresses.first().map(|own| own.address);
        let own = own.ok_or_else(|| Failure::Words("write --addr ADDRESS/LENGTH".to_owned()))?;
        messaging::check(Some(&self.station.nic))?;
        let endpoint =
            StreamEndpoint::open_over_messages(&self.station.nic, own, &config, patience)?;
        Ok(Ground::Rdma(endpoint))
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let heed = Heed::begin()?;
    // Nothing is there yet that would have to end well.
    heed.end();
    match &arguments.side {
        Side::Recv { file, port, shared } => {
            let outcome = receive(file, *port, shared, &heed);
            shared.telling.ended(outcome)
        }
        Side::Send { file, to, shared } => {
            let outcome = send(file, *to, shared, &heed);
            shared.telling.ended(outcome)
        }
    }
}

fn receive(path: &Path, port: u16, shared: &Shared, heed: &Heed) -> Result<(), Failure> {
    look_at(path).map_err(|source| wrong(path, source))?;
    let wait = Duration::from_secs(shared.wait);
    let ground = shared.open(wait)?;
    let mut listeners = Vec::new();
    for own in &shared.station.addresses {
        let at = SocketAddr::new(own.address, port);
        listeners.push(ground.endpoint().listen(at, wait)?);
        let facts = [("address".to_owned(), at.to_string().into())];
        let note = Note::with("waiting", format!("waiting at {at}"), Map::from_iter(facts));
        shared.telling.say(&note)?;
    }
    let mut transfer = Transfer::begin(&ground, shared, heed);
    let stream = transfer.until("nobody connected", &mut listeners, |listeners| {
        let mut waiting = listeners.iter().map(|listener| listener.try_accept());
        waiting.find_map(Result::transpose).transpose()
    });
    let stream = stream.map_err(|failure| match failure {
        Failure::Streaming(error @ Error::Deadline { .. }) => Failure::Stream(format!(
            "{error}; start who sends to here, with the same --carrier, or wait longer with --wait"
        )),
        failure => failure,
    })?;
    // One file, one sender.
    listeners.clear();
    let mut file = File::create(path).map_err(|source| wrong(path, source))?;
    heed.go_on();
    transfer.start();
    let outcome = take(&mut transfer, stream, path, &mut file);
    outcome.map_err(|failure| transfer.incomplete(failure, &format!("{} has", path.display())))
}

/// Writes what comes to a file, until its end.
fn take(
    transfer: &mut Transfer<'_>,
    mut stream: Stream,
    path: &Path,
    file: &mut File,
) -> Result<(), Failure> {
    loop {
        let came = transfer.until("nothing came", &mut stream, |stream| {
            let came: usize = stream.peek()?.iter().map(|piece| piece.len()).sum();
            Ok((came > 0 || stream.is_at_end()?).then_some(came))
        })?;
        if came == 0 {
            break;
        }
        let mut count = 0;
        for piece in stream.peek()? {
            let (written, outcome) = put(file, piece);
            // Also those before a failure: the file has them.
            transfer.bytes += written as u64;
            count += written;
            outcome.map_err(|source| wrong(path, source))?;
        }
        stream.consume(count)?;
    }
    file.flush().map_err(|source| wrong(path, source))?;
    transfer.tell("received", "from", &stream)?;
    // The sender has said all that it has to say: it may be gone before it acknowledges our end.
    let _ = stream.finish(FAREWELL);
    Ok(())
}

/// Writes all of it; says how much of it was written, also if that failed.
fn put(out: &mut impl Write, all: &[u8]) -> (usize, std::io::Result<()>) {
    let mut rest = all;
    let outcome = loop {
        if rest.is_empty() {
            break Ok(());
        }
        match out.write(rest) {
            Ok(0) => break Err(ErrorKind::WriteZero.into()),
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(source) if source.kind() == ErrorKind::Interrupted => {}
            Err(source) => break Err(source),
        }
    };
    (all.len() - rest.len(), outcome)
}

fn send(path: &Path, to: SocketAddr, shared: &Shared, heed: &Heed) -> Result<(), Failure> {
    let mut file = File::open(path).map_err(|source| wrong(path, source))?;
    let about = file.metadata().map_err(|source| wrong(path, source))?;
    if about.is_dir() {
        return Err(wrong(path, ErrorKind::IsADirectory.into()));
    }
    let wait = Duration::from_secs(shared.wait);
    let ground = shared.open(wait)?;
    let mut transfer = Transfer::begin(&ground, shared, heed);
    let mut stream = connect(&mut transfer, to)?;
    heed.go_on();
    transfer.start();
    let length = about.is_file().then_some(about.len());
    give(&mut transfer, &mut stream, path, &mut file, length).map_err(|failure| {
        // What only waits to be sent was given to nobody.
        transfer.bytes -= stream
            .unacknowledged()
            .map_or(0, u64::from)
            .min(transfer.bytes);
        // Otherwise a part would look like all of it. Who is not there any more is not told.
        let _ = stream.abort();
        transfer.incomplete(failure, "the other end acknowledged")
    })
}

/// Connects, again and again while nobody listens.
fn connect(transfer: &mut Transfer<'_>, to: SocketAddr) -> Result<Stream, Failure> {
    loop {
        let refused = match transfer.endpoint.connect(to, transfer.left()) {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        let is_early = matches!(
            &refused,
            Error::Over { .. } | Error::NoWay(NoWay::Silent { .. })
        );
        if !is_early || transfer.left() < AGAIN {
            let waited = transfer.patience;
            let why = match refused {
                // The last try had less time than all of them.
                Error::Deadline { what, .. } => {
                    format!("{to}: {}", Error::Deadline { what, waited })
                }
                Error::Over { .. } => format!("{refused}, for {waited:?}"),
                Error::NoWay(error @ (NoWay::NoRoute { .. } | NoWay::NotAHost { .. })) => {
                    let words = format!("--to: {}", no_way(&error));
                    return Err(Failure::Words(words));
                }
                refused => return Err(refused.into()),
            };
            let cure = "start who receives there, or wait longer with --wait";
            return Err(Failure::Stream(format!("{why}; {cure}")));
        }
        transfer.pass(AGAIN);
    }
}

/// Sends a file and its end; it has so many bytes at first, if that is known.
fn give(
    transfer: &mut Transfer<'_>,
    stream: &mut Stream,
    path: &Path,
    file: &mut File,
    length: Option<u64>,
) -> Result<(), Failure> {
    loop {
        transfer.until("the peer took nothing", stream, |stream| {
            // What it says is of no interest, but may not fill its window.
            discard(stream)?;
            let room: usize = stream.room()?.iter().map(|piece| piece.len()).sum();
            Ok((room > 0).then_some(()))
        })?;
        let [first, _] = stream.room()?;
        let count = match file.read(first) {
            Ok(0) => break,
            Ok(count) => count,
            Err(source) if source.kind() == ErrorKind::Interrupted => continue,
            Err(source) => return Err(wrong(path, source)),
        };
        stream.commit(count)?;
        transfer.bytes += count as u64;
    }
    if let Some(length) = length.filter(|length| transfer.bytes < *length) {
        let words = format!("it had {length} bytes at first and was cut");
        return Err(wrong(
            path,
            std::io::Error::new(ErrorKind::UnexpectedEof, words),
        ));
    }
    stream.close()?;
    let mut before = u32::MAX;
    loop {
        // Patience begins anew with every acknowledgement.
        let left = transfer.until("the peer did not acknowledge", stream, |stream| {
            discard(stream)?;
            stream.is_flushed()?;
            let left = stream.unacknowledged()?;
            Ok((left < before || left == 0).then_some(left))
        })?;
        if left == 0 {
            break;
        }
        before = left;
    }
    stream.finish(transfer.patience)?;
    transfer.tell("sent", "to", stream)?;
    // All is acknowledged, the end as well; the peer's end gets its answer if it comes soon.
    let until = Instant::now() + FAREWELL;
    while !stream.is_over()? && Instant::now() < until {
        let came = discard(stream);
        if came.is_err() || stream.is_at_end()? {
            break;
        }
        transfer.pass(Duration::from_millis(1));
    }
    transfer.pass(LAST_WORD);
    Ok(())
}

/// A transfer under way.
struct Transfer<'a> {
    endpoint: &'a StreamEndpoint,
    ground: &'a Ground,
    troubles: Troubles,
    heed: &'a Heed,
    shared: &'a Shared,
    patience: Duration,
    started: Instant,
    pulse: Pulse,
    bytes: u64,
}

/// What is waited for has a connection that is told of, or not yet.
trait Seen {
    fn stream(&self) -> Option<&Stream>;
}

impl Seen for Stream {
    fn stream(&self) -> Option<&Stream> {
        Some(self)
    }
}

impl Seen for Vec<Listener> {
    fn stream(&self) -> Option<&Stream> {
        None
    }
}

impl<'a> Transfer<'a> {
    /// The other end is looked for.
    fn begin(ground: &'a Ground, shared: &'a Shared, heed: &'a Heed) -> Self {
        Self {
            endpoint: ground.endpoint(),
            ground,
            troubles: Troubles::new(),
            heed,
            shared,
            patience: Duration::from_secs(shared.wait),
            started: Instant::now(),
            pulse: shared.telling.pulse(),
            bytes: 0,
        }
    }

    /// The other end is there.
    fn start(&mut self) {
        self.patience = Duration::from_secs(self.shared.patience);
        self.started = Instant::now();
        self.pulse = self.shared.telling.pulse();
    }

    /// Time that is left to find the other end.
    fn left(&self) -> Duration {
        self.patience.saturating_sub(self.started.elapsed())
    }

    /// Steps until `look` finds something.
    fn until<S: Seen, T>(
        &mut self,
        what: &'static str,
        seen: &mut S,
        mut look: impl FnMut(&mut S) -> Result<Option<T>, Error>,
    ) -> Result<T, Failure> {
        let begun = Instant::now();
        let mut rest = Rest::default();
        loop {
            // Also before the first look: there may be something whenever it is looked.
            if self.heed.is_stopped() {
                return Err(Failure::Stream("interrupted".to_owned()));
            }
            if !self.endpoint.is_running() {
                return Err(Failure::Stream("the NIC or its peer is gone".to_owned()));
            }
            if let Ground::Tcp(device) = self.ground {
                let why = self.troubles.look(device, &self.shared.telling)?;
                if let Some(why) = why {
                    return Err(Failure::Stream(why));
                }
            }
            self.tell_live(seen)?;
            for _ in 0..LOOK_PERIOD {
                if let Some(found) = look(seen)? {
                    return Ok(found);
                }
                rest.after(self.endpoint.step());
            }
            if begun.elapsed() >= self.patience {
                let waited = self.patience;
                return Err(Error::Deadline { what, waited }.into());
            }
        }
    }

    /// Says what the connection does, if that is wanted now.
    fn tell_live(&mut self, seen: &impl Seen) -> Result<(), Failure> {
        let Some(stream) = seen.stream() else {
            return Ok(());
        };
        match self.pulse.due() {
            Some(since) => {
                // What is asked for here is there after a step.
                stream.figures()?;
                self.endpoint.step();
                let has_figures = self.shared.carrier == Carrier::Tcp;
                let now = Connection::now(stream, since, has_figures);
                self.shared.telling.say_all(now)
            }
            None => Ok(()),
        }
    }

    /// Lets the engine work for a time.
    fn pass(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut rest = Rest::default();
        while Instant::now() < until {
            rest.after(self.endpoint.step());
        }
    }

    fn tell(
        &self,
        event: &'static str,
        side: &'static str,
        stream: &Stream,
    ) -> Result<(), Failure> {
        let seconds = self.started.elapsed().as_secs_f64();
        // Those of the end are there once the engine was asked for them.
        stream.figures()?;
        self.pass(Duration::from_millis(1));
        self.shared.telling.say(&Summary {
            event,
            side,
            bytes: self.bytes,
            peer: stream.peer(),
            seconds,
            bits_per_second: self.bytes as f64 * 8.0 / seconds.max(f64::MIN_POSITIVE),
            figures: match self.shared.carrier {
                Carrier::Tcp => Some(Figures::of(&stream.figures()?)),
                Carrier::Rdma => None,
            },
        })
    }

    /// Why it ended early, and what was moved before.
    fn incomplete(&self, failure: Failure, who: &str) -> Failure {
        self.pass(LAST_WORD);
        let failure = match failure {
            Failure::Stream(words) => words,
            failure => failure.to_string(),
        };
        Failure::Stream(format!(
            "{failure}; {who} the first {} bytes, not all",
            self.bytes
        ))
    }
}

/// What was moved.
#[derive(Serialize)]
struct Summary {
    event: &'static str,
    #[serde(skip)]
    side: &'static str,
    bytes: u64,
    peer: SocketAddr,
    seconds: f64,
    bits_per_second: f64,
    /// None over messages.
    #[serde(flatten)]
    figures: Option<Figures>,
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            event,
            side,
            bytes,
            peer,
            seconds,
            bits_per_second,
            figures,
        } = self;
        write!(
            out,
            "{event} {bytes} bytes {side} {peer} in {seconds:.3} s, {:.0} Mbit/s; ",
            bits_per_second / 1e6
        )?;
        match figures {
            Some(figures) => figures.fmt(out),
            None => out.write_str("by writes of RDMA"),
        }
    }
}

/// Whether a file can be written, before anybody is asked to send: what it holds stays for now.
fn look_at(path: &Path) -> std::io::Result<()> {
    if path.try_exists()? {
        // Who opens a pipe waits for its reader.
        return match path.is_file() || path.is_dir() {
            true => OpenOptions::new().append(true).open(path).map(drop),
            false => Ok(()),
        };
    }
    let folder = path.parent();
    match folder.filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => std::fs::metadata(folder).map(drop),
        None => Ok(()),
    }
}

fn discard(stream: &mut Stream) -> Result<(), Error> {
    let came = stream.peek()?.iter().map(|piece| piece.len()).sum();
    stream.consume(came)
}

fn wrong(path: &Path, source: std::io::Error) -> Failure {
    Failure::File {
        path: path.to_owned(),
        source,
    }
}

/// The port of files, if nobody says another.
const PORT: u16 = 5300;
/// Connections at a time: one that counts, and those that are sent away.
const CONNECTIONS: u32 = 4;
/// Seconds of the longest patience.
const LONGEST: u64 = 1 << 20;
/// Looks between two looks at clocks and signals.
const LOOK_PERIOD: u32 = 64;
/// After which it is tried again to connect.
const AGAIN: Duration = Duration::from_millis(100);
/// For the other end to close.
const FAREWELL: Duration = Duration::from_secs(1);
/// For what was said last to leave.
const LAST_WORD: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    /// Has room for so many bytes, and takes a few at a time.
    struct Small(usize);

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let count = bytes.len().min(self.0).min(3);
            self.0 -= count;
            match count {
                0 => Err(ErrorKind::StorageFull.into()),
                count => Ok(count),
            }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_was_written_before_a_failure_is_counted() {
        let (written, outcome) = put(&mut Small(100), &[1; 10]);
        assert!(written == 10 && outcome.is_ok());
        let (written, outcome) = put(&mut Small(7), &[1; 10]);
        assert_eq!(written, 7);
        assert_eq!(outcome.expect_err("is full").kind(), ErrorKind::StorageFull);
    }
}
