//! `warpwire serve sensor`: records of a sensor, over TCP or UDP, into files of NumPy.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::{IdlePolicy, Placement};
use warpwire_nic::Patience;
use warpwire_pipelines::report::Report;
use warpwire_pipelines::runtime::{Error as RunError, Settings};
use warpwire_pipelines::sensor::{
    self, ByteOrder, Conversion, Error, Figures, Files, Format, Framing, Gap, Gathering, Intake,
    IntakeCounters, Records, Site,
};
use warpwire_pipelines::{Kit, Runtime};
use warpwire_ring::Location;

use super::super::Failure;
use super::super::live::Telling;
use super::super::rest::Rest;
use super::super::signals::Heed;
use super::super::table::count;
use super::super::troubles::Troubles;
use super::{Arguments, FAREWELL, LOOK_PERIOD, PATIENCE, report};

/// Words of `serve sensor` alone. Fields have the names of those of a stage `gather`.
#[derive(clap::Args)]
pub(super) struct Words {
    /// `sensor`: the file to write samples to: float32, a row a record, in NumPy's format if it
    /// ends in .npy. Rows of records that did not come are NaN
    #[arg(long, value_name = "FILE", required_if_eq("service", "sensor"))]
    rows_to: Option<PathBuf>,
    /// `sensor`: the file to write headers to: uint8, a row a record, in NumPy's format if it ends
    /// in .npy. Those that did not come are zeros
    #[arg(long, value_name = "FILE")]
    headers_to: Option<PathBuf>,
    /// `sensor`: samples in every record, behind its header: signed integers of 16 bits, the most
    /// significant byte first. Records of a stream follow each other with nothing in between
    #[arg(long, value_name = "COUNT", required_if_eq("service", "sensor"))]
    samples: Option<u32>,
    /// `sensor`: bytes of a record's header, in which its number stands; 16 if absent
    #[arg(long, value_name = "BYTES")]
    header: Option<u32>,
    /// `sensor`: where in the header the number stands; at its beginning if absent
    #[arg(long, value_name = "OFFSET")]
    number_at: Option<u32>,
    /// `sensor`: bytes of the number: 1, 2, 4 or 8; 8 if absent. Numbers of 8 bytes do not go
    /// round: a record numbered 2^64-1 is not taken
    #[arg(long, value_name = "BYTES")]
    number_bytes: Option<u32>,
    /// `sensor`: the least significant byte of numbers, lengths and samples comes first
    #[arg(long)]
    little: bool,
    /// `sensor`: the least significant byte of samples comes first, whichever does of numbers
    #[arg(long)]
    little_samples: bool,
    /// `sensor`: bits of a sample behind the point, so that a row has the integers divided by 2 to
    /// the power of this; 0 if absent
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(0..=31))]
    fraction_bits: Option<u8>,
    /// `sensor`: records that may be under way out of order; 256 if absent
    #[arg(long, value_name = "RECORDS")]
    window: Option<u32>,
    /// `sensor`: rows in memory, rounded up to a power of two; four windows if absent
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    rows: Option<u32>,
    /// `sensor`: how long a record may be overtaken until it is given up; 50000 if absent
    #[arg(long, value_name = "MICROSECONDS")]
    patience_us: Option<u64>,
    /// `sensor`: the number of the record of row 0; that of the one that comes first if absent:
    /// those that it overtook are late then, and have no rows
    #[arg(long, value_name = "NUMBER")]
    first: Option<u64>,
    /// `sensor`: every record of a stream stands behind its length, of so many bytes: 1, 2, 4 or 8;
    /// the records of a stream follow each other bare if absent
    #[arg(long, value_name = "BYTES", conflicts_with = "udp")]
    length_bytes: Option<u32>,
    /// `sensor`: records come as UDP datagrams, one each, and not over TCP. What is said of
    /// connections is of no account then
    #[arg(long)]
    pub(super) udp: bool,
    /// `sensor`: stop after so many rows
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    records: Option<u64>,
}

impl Words {
    /// A word that was said.
    pub(super) fn said(&self) -> Option<&'static str> {
        let words = [
            ("--rows-to", self.rows_to.is_some()),
            ("--headers-to", self.headers_to.is_some()),
            ("--samples", self.samples.is_some()),
            ("--header", self.header.is_some()),
            ("--number-at", self.number_at.is_some()),
            ("--number-bytes", self.number_bytes.is_some()),
            ("--little", self.little),
            ("--little-samples", self.little_samples),
            ("--fraction-bits", self.fraction_bits.is_some()),
            ("--window", self.window.is_some()),
            ("--rows", self.rows.is_some()),
            ("--patience-us", self.patience_us.is_some()),
            ("--first", self.first.is_some()),
            ("--length-bytes", self.length_bytes.is_some()),
            ("--udp", self.udp),
            ("--records", self.records.is_some()),
        ];
        let said = words.into_iter().find(|(_, said)| *said);
        said.map(|(word, _)| word)
    }

    fn order(&self) -> ByteOrder {
        match self.little {
            true => ByteOrder::Little,
            false => ByteOrder::Big,
        }
    }

    fn shape(&self) -> Result<Records, Error> {
        let header = self.header.unwrap_or(16);
        let (at, bytes) = (self.number_at.unwrap_or(0), self.number_bytes.unwrap_or(8));
        let conversion = Conversion {
            scale: f32::powi(0.5, self.fraction_bits.unwrap_or(0).into()),
            offset: 0.0,
            order: match self.little_samples {
                true => ByteOrder::Little,
                false => self.order(),
            },
        };
        let format = Format::new(header, at, bytes, self.order())?;
        let usual = Records::new(self.samples.unwrap_or(0), format, conversion);
        let window = self.window.unwrap_or(usual.window);
        let rows = self.rows.unwrap_or_else(|| window.saturating_mul(4));
        let records = Records {
            window,
            rows: rows
                .max(window)
                .checked_next_power_of_two()
                .unwrap_or(1 << 31),
            patience: self
                .patience_us
                .map_or(usual.patience, Duration::from_micros),
            first: self.first,
            ..usual
        };
        records.check()?;
        Ok(records)
    }

    fn framing(&self, records: &Records) -> Result<Framing, Failure> {
        let bytes = records.record_bytes();
        let framing = match self.length_bytes {
            None => Framing::fixed(bytes),
            // Records of another length are counted, up to one that no sensor sends.
            Some(width) => {
                let most = match width {
                    1 => bytes.max(u8::MAX.into()),
                    2 => bytes.max(u16::MAX.into()),
                    _ => bytes.max(1 << 20),
                };
                Framing::delimited(width, self.order(), false, most)
            }
        };
        framing.map_err(|_| {
            let words = "write 1, 2, 4 or 8, and so many that the length of a record fits";
            Failure::Words(format!("--length-bytes: {words}"))
        })
    }

    fn files(&self) -> Result<Files, Failure> {
        if self.rows_to == self.headers_to {
            let words = "--headers-to: is the file of --rows-to; name another";
            return Err(Failure::Words(words.to_owned()));
        }
        Ok(Files {
            samples: self.rows_to.clone(),
            headers: self.headers_to.clone(),
        })
    }
}

/// Serves until it is over: by time, by a signal, or with as many rows as there shall be.
pub(super) fn run(arguments: &Arguments, heed: &Heed) -> Result<(), Failure> {
    let words = &arguments.sensor;
    let records = words.shape().map_err(failure)?;
    let files = words.files()?;
    // A ring holds a record, or it would never be whole.
    let most = u64::from(arguments.station.ring) / 2;
    if !words.udp && u64::from(records.record_bytes()) + 8 > most {
        let bytes = records.record_bytes();
        let words = format!("--ring: a record has {bytes} bytes; write more than twice as many");
        return Err(Failure::Words(words));
    }
    match words.udp {
        true => datagrams(arguments, &records, &files, heed),
        false => streams(arguments, &records, &files, heed),
    }
}

/// What cannot be, as the words of the command call it.
fn failure(error: Error) -> Failure {
    match error {
        Error::Setting {
            field,
            problem,
            cure,
        } => {
            let cure = as_options(&cure);
            Failure::Words(format!("--{}: {problem}; {cure}", field.replace('_', "-")))
        }
        error => error.into(),
    }
}

/// Words in which fields stand between backticks, with the options in their place.
fn as_options(words: &str) -> String {
    let parts = words.split('`').enumerate();
    let parts = parts.map(|(place, part)| match place % 2 {
        1 => format!("`--{}`", part.replace('_', "-")),
        _ => part.to_owned(),
    });
    parts.collect()
}

fn streams(
    arguments: &Arguments,
    records: &Records,
    files: &Files,
    heed: &Heed,
) -> Result<(), Failure> {
    let words = &arguments.sensor;
    let framing = words.framing(records)?;
    let device = arguments.station.open(arguments.connections, PATIENCE)?;
    let endpoint = device.endpoint();
    // What the files held is lost once the NIC is there; nobody has sent before.
    let gathering = Gathering::new(records, files, words.records, Location::Device);
    let gathering = gathering.map_err(failure)?;
    let executor = CpuExecutor::builder().threads(1).idle(IdlePolicy::POLITE);
    let executor = executor.build().map_err(Error::Executor)?;
    let placed = (&executor, Placement::Any);
    let mut intake = Intake::start(placed, endpoint, gathering, framing)?;
    let own = arguments.station.addresses.iter();
    let listen = own.map(|own| {
        let at = SocketAddr::new(own.address, arguments.port());
        endpoint.listen(at, PATIENCE)
    });
    let mut listeners = listen.collect::<Result<Vec<_>, _>>()?;
    let telling = &arguments.telling;
    telling.say(&Beginning {
        event: "serving",
        over: "TCP",
        addresses: listeners
            .iter()
            .map(|listener| listener.address())
            .collect(),
        record_bytes: records.record_bytes(),
        choices: device.choices(),
    })?;
    let started = Instant::now();
    let is_over = || {
        let elapsed = started.elapsed().as_secs();
        heed.is_stopped() || arguments.seconds.is_some_and(|most| elapsed >= most)
    };
    let mut rest = Rest::default();
    let mut pulse = telling.pulse();
    let mut told = 0;
    let mut troubles = Troubles::new();
    let mut why = None;
    while why.is_none() && !is_over() && !intake.is_finished() {
        for _ in 0..LOOK_PERIOD {
            let busy = endpoint.step() | intake.gathering().drain();
            rest.after(busy);
        }
        let is_running = endpoint.is_running();
        why = troubles.look(&device, telling)?;
        why = why.or_else(|| (!is_running).then(|| report::ended(&device)));
        let gathering = intake.gathering();
        if gathering.is_full() || gathering.failure().is_some() {
            break;
        }
        if let Some(since) = pulse.due() {
            tell(
                telling,
                since,
                gathering.figures(),
                gathering.gaps(),
                &mut told,
            )?;
        }
    }
    let elapsed = started.elapsed();
    let (mut gathering, counters) = intake.finish()?;
    listeners.clear();
    let until = Instant::now() + FAREWELL;
    while Instant::now() < until {
        rest.after(endpoint.step());
    }
    let written = gathering.finish();
    let lost = device.nic_counters().drops.into_iter();
    let lost = lost.filter(|(_, count)| *count > 0);
    telling.say(&End {
        event: "end",
        seconds: elapsed.as_secs_f64(),
        files: files.into(),
        figures: gathering.figures(),
        gap_list: gathering.gaps(),
        gaps_unlisted: gathering.unlisted(),
        streams: Some(Streams::of(&counters)),
        lost: lost.map(|(why, count)| (why.to_owned(), count)).collect(),
    })?;
    written?;
    why.map_or(Ok(()), |why| Err(Failure::Serve(why)))
}

fn datagrams(
    arguments: &Arguments,
    records: &Records,
    files: &Files,
    heed: &Heed,
) -> Result<(), Failure> {
    arguments.station.check()?;
    let site = Site {
        nic: arguments.station.nic.clone(),
        addresses: arguments.station.addresses.clone(),
        port: arguments.port(),
    };
    let kit = Kit::built_in();
    let file = sensor::datagrams(&site, records, files, kit.catalogue()).map_err(failure)?;
    let settings = Settings {
        rows: arguments.sensor.records,
        ..Settings::default()
    };
    let stop = heed.flag();
    let patience = Patience {
        stop: Some(&stop),
        until: Instant::now().checked_add(PATIENCE),
    };
    let runtime = Runtime::start_within(&file, &kit, settings, patience);
    let mut runtime = runtime.map_err(|error| match error {
        RunError::Sensor(error) => failure(*error),
        error => error.into(),
    })?;
    let telling = &arguments.telling;
    let own = site.addresses.iter();
    telling.say(&Beginning {
        event: "serving",
        over: "UDP",
        addresses: own
            .map(|own| SocketAddr::new(own.address, site.port))
            .collect(),
        record_bytes: records.record_bytes(),
        choices: runtime.choices(),
    })?;
    let limit = arguments.seconds.map(Duration::from_secs);
    let mut pulse = telling.pulse();
    let (mut told, mut warned, mut unsaid) = (0, 0, None);
    runtime.run(limit, &stop, |runtime| {
        for warning in runtime.warnings().iter().skip(warned) {
            unsaid = unsaid.take().or(telling.warn(warning).err());
            warned += 1;
        }
        if let Some(since) = pulse.due() {
            for gathered in runtime.gathered() {
                let (figures, gaps) = (gathered.figures, &gathered.gap_list);
                let said = tell(telling, since, figures, gaps, &mut told);
                unsaid = unsaid.take().or(said.err());
            }
        }
        if unsaid.is_some() {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    let outcome = runtime.finish();
    let Report {
        nics,
        gathered,
        elapsed_s,
        ..
    } = outcome.report;
    for gathered in &gathered {
        telling.say(&End {
            event: "end",
            seconds: elapsed_s,
            files: files.into(),
            figures: gathered.figures.clone(),
            gap_list: &gathered.gap_list,
            gaps_unlisted: gathered.gaps_unlisted,
            streams: None,
            lost: nics.iter().flat_map(|nic| nic.lost.clone()).collect(),
        })?;
    }
    match (unsaid, outcome.failures.into_iter().next()) {
        (Some(unsaid), _) => Err(unsaid),
        (None, Some(failure)) => Err(failure.into()),
        (None, None) => Ok(()),
    }
}

/// Says how far it is, and which gaps there are since the last time.
fn tell(
    telling: &Telling,
    since: Duration,
    figures: Figures,
    gaps: &[Gap],
    told: &mut usize,
) -> Result<(), Failure> {
    let event = "gap";
    let new = gaps.iter().skip(*told);
    telling.say_all(new.map(|gap| Missing { event, gap: *gap }))?;
    *told = gaps.len();
    telling.say(&Progress {
        event: "sensor",
        seconds: since.as_secs_f64(),
        figures,
    })
}

/// Where it is served.
#[derive(Serialize)]
struct Beginning {
    event: &'static str,
    over: &'static str,
    addresses: Vec<SocketAddr>,
    record_bytes: u32,
    choices: Vec<String>,
}

impl fmt::Display for Beginning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for address in &self.addresses {
            writeln!(out, "serving at {address}, over {}", self.over)?;
        }
        let choices = self.choices.join("; ");
        write!(out, "records of {} bytes; {choices}", self.record_bytes)
    }
}

/// A gap, while it goes on.
#[derive(Serialize)]
struct Missing {
    event: &'static str,
    #[serde(flatten)]
    gap: Gap,
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.gap.fmt(out)
    }
}

/// How far it is.
#[derive(Serialize)]
struct Progress {
    event: &'static str,
    seconds: f64,
    #[serde(flatten)]
    figures: Figures,
}

impl fmt::Display for Progress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:.1} s ", self.seconds)?;
        summary(&self.figures, out)
    }
}

/// What came of it.
#[derive(Serialize)]
struct End<'a> {
    event: &'static str,
    seconds: f64,
    #[serde(flatten)]
    files: FilesTold<'a>,
    #[serde(flatten)]
    figures: Figures,
    gap_list: &'a [Gap],
    gaps_unlisted: u64,
    /// Over TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<Streams>,
    /// Frames that the NIC lost, by its own words.
    lost: BTreeMap<String, u64>,
}

/// The files that were written.
#[derive(Serialize)]
struct FilesTold<'a> {
    rows_to: &'a Option<PathBuf>,
    headers_to: &'a Option<PathBuf>,
}

impl<'a> From<&'a Files> for FilesTold<'a> {
    fn from(files: &'a Files) -> Self {
        Self {
            rows_to: &files.samples,
            headers_to: &files.headers,
        }
    }
}

/// What was counted of streams.
#[derive(Serialize)]
struct Streams {
    accepted: u64,
    ended: u64,
    /// Those that broke, or ended within a record.
    broken: u64,
    /// Those that were given up because of a length that cannot be.
    unframed: u64,
    records: u64,
    bytes: u64,
    /// Times that one had to wait for the host.
    held: u64,
}

impl Streams {
    fn of(counters: &IntakeCounters) -> Self {
        Self {
            accepted: counters.accepted,
            ended: counters.ended,
            broken: counters.broken,
            unframed: counters.unframed,
            records: counters.records,
            bytes: counters.bytes,
            held: counters.held,
        }
    }
}

impl fmt::Display for End<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        summary(&self.figures, out)?;
        write!(out, ", in {:.1} s", self.seconds)?;
        let files = [
            ("samples", self.files.rows_to),
            ("headers", self.files.headers_to),
        ];
        for (what, file) in files {
            if let Some(file) = file {
                write!(out, "\n{what} in {}", file.display())?;
            }
        }
        for gap in self.gap_list.iter().take(GAPS) {
            write!(out, "\n{gap}")?;
        }
        let more = self.gap_list.len().saturating_sub(GAPS) as u64 + self.gaps_unlisted;
        if more > 0 {
            write!(out, "\nand {} gaps more", count(more))?;
        }
        if let Some(streams) = &self.streams {
            write!(
                out,
                "\nstreams: {} came with {} records, {} ended, of which {} broke or ended within a \
                 record, {} were not framed",
                streams.accepted,
                count(streams.records),
                streams.ended,
                streams.broken,
                streams.unframed
            )?;
        }
        for (why, frames) in &self.lost {
            write!(out, "\nlost by the NIC: {} ({why})", count(*frames))?;
        }
        Ok(())
    }
}

fn summary(figures: &Figures, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (rows, missing) = (count(figures.rows), count(figures.missing_rows));
    write!(out, "{rows} rows, {missing} of them missing")?;
    let mut separator = "; dropped: ";
    for (why, records) in &figures.dropped {
        write!(out, "{separator}{} {why}", count(*records))?;
        separator = ", ";
    }
    Ok(())
}

/// Gaps that are shown to people at the end.
const GAPS: usize = 20;
