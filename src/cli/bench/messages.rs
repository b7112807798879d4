//! `warpwire bench messages --against ucx,libfabric`: how fast messages pass between two processes.
//!
//! Ours: two warpwires over memif, every byte in RoCEv2 packets with their invariant CRC, one
//! thread each that is application and engine. The others: over shared memory, where no packets
//! are made, and over TCP on the loopback interface.

use super::comparison::{self, AFTER_HELP, Options};
use super::engine::{self, Times};
use super::error::Error;
use super::ours::{self, Face};
use super::row::{self, Beside, Need, Row, Sample, Side, Target, Unit};
use super::setting::Setting;
use super::ucx::{self, Over, Test};
use super::{libfabric, row::Need::TwoProcessors};
use crate::cli::Failure;

/// Measure how fast messages pass between two processes, against others in the same run
///
/// Sides take turns, round by round; figures are medians. Two threads spin, one of each process.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    /// Whom to measure against
    #[arg(long, value_delimiter = ',', default_value = "ucx,libfabric")]
    against: Vec<Against>,
    /// Rows to measure, all if absent: put, send or engine, or single ones such as put-rate-8-tcp
    #[arg(long, value_delimiter = ',', value_name = "ROW", value_parser = known_row)]
    rows: Vec<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Against {
    /// ucx_perftest, tag matching
    Ucx,
    /// fi_pingpong
    Libfabric,
}

impl Against {
    const fn need(self) -> Need {
        match self {
            Self::Ucx => Need::Ucx,
            Self::Libfabric => Need::Libfabric,
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let chosen = row::choose(MESSAGES, &arguments.rows).map_err(Failure::Bench)?;
    let needs: Vec<Need> = arguments.against.iter().map(|one| one.need()).collect();
    let rows = chosen.into_iter().filter(|row| {
        let of_others = |need: &&Need| matches!(need, Need::Ucx | Need::Libfabric);
        row.needs
            .iter()
            .filter(of_others)
            .all(|need| needs.contains(need))
    });
    let words: Vec<&str> = [Against::Ucx, Against::Libfabric]
        .into_iter()
        .filter(|one| arguments.against.contains(one))
        .map(|one| match one {
            Against::Ucx => "ucx",
            Against::Libfabric => "libfabric",
        })
        .collect();
    let record = comparison::begin("messages", words.join(","), &arguments.options);
    comparison::run(record, rows.collect(), &arguments.options)
}

fn known_row(word: &str) -> Result<String, String> {
    row::choose(MESSAGES, &[word.to_owned()]).map(|_| word.to_owned())
}

const UCX: &[Need] = &[TwoProcessors, Need::Ucx];
const LIBFABRIC: &[Need] = &[TwoProcessors, Need::Libfabric];

/// All rows, in the order of the table.
pub(super) const MESSAGES: &[Row] = &[
    Row {
        target: Target::AtLeast(10.0),
        ..rate("put-rate-8-tcp", PUTS, UCX_TCP, puts::<8, TCP>)
    },
    Row {
        target: Target::AtLeast(0.5),
        ..rate("put-rate-8-shm", PUTS, UCX_SHM, puts::<8, SHM>)
    },
    Row {
        target: Target::AtMost(1.0 / 3.0),
        ..latency("put-latency-8-tcp", UCX, PUT, UCX_TCP, put_time::<8, TCP>)
    },
    latency("put-latency-8-shm", UCX, PUT, UCX_SHM, put_time::<8, SHM>),
    bytes("put-64-tcp", PUTS, UCX_TCP, put_bytes::<64, TCP>),
    bytes("put-64-shm", PUTS, UCX_SHM, put_bytes::<64, SHM>),
    bytes("put-1024-tcp", PUTS, UCX_TCP, put_bytes::<1024, TCP>),
    bytes("put-1024-shm", PUTS, UCX_SHM, put_bytes::<1024, SHM>),
    bytes("put-8192-tcp", PUTS, UCX_TCP, put_bytes::<8192, TCP>),
    bytes("put-8192-shm", PUTS, UCX_SHM, put_bytes::<8192, SHM>),
    bytes("put-65536-tcp", PUTS, UCX_TCP, put_bytes::<65536, TCP>),
    bytes("put-65536-shm", PUTS, UCX_SHM, put_bytes::<65536, SHM>),
    bytes(
        "put-1048576-tcp",
        PUTS,
        UCX_TCP,
        put_bytes::<1_048_576, TCP>,
    ),
    bytes(
        "put-1048576-shm",
        PUTS,
        UCX_SHM,
        put_bytes::<1_048_576, SHM>,
    ),
    rate("send-rate-8-tcp", SENDS, UCX_TCP, sends::<8, TCP>),
    rate("send-rate-8-shm", SENDS, UCX_SHM, sends::<8, SHM>),
    latency(
        "send-latency-8-tcp",
        UCX,
        SEND,
        UCX_TCP,
        send_time::<8, TCP>,
    ),
    latency(
        "send-latency-8-shm",
        UCX,
        SEND,
        UCX_SHM,
        send_time::<8, SHM>,
    ),
    latency(
        "send-latency-64-fi-tcp",
        LIBFABRIC,
        SEND,
        FI_TCP,
        send_fabric::<64, TCP>,
    ),
    latency(
        "send-latency-64-fi-shm",
        LIBFABRIC,
        SEND,
        FI_SHM,
        send_fabric::<64, SHM>,
    ),
    bytes("send-65536-tcp", SENDS, UCX_TCP, send_bytes::<65536, TCP>),
    bytes("send-65536-shm", SENDS, UCX_SHM, send_bytes::<65536, SHM>),
    bytes(
        "send-1048576-tcp",
        SENDS,
        UCX_TCP,
        send_bytes::<1_048_576, TCP>,
    ),
    bytes(
        "send-1048576-shm",
        SENDS,
        UCX_SHM,
        send_bytes::<1_048_576, SHM>,
    ),
    engine("engine-send-8", ENGINE_SEND, engine_sends::<8>),
    engine("engine-send-4096", ENGINE_SEND, engine_sends::<4096>),
    engine("engine-receive-8", ENGINE_RECEIVE, engine_receives::<8>),
    engine(
        "engine-receive-4096",
        ENGINE_RECEIVE,
        engine_receives::<4096>,
    ),
];

const TCP: bool = true;
const SHM: bool = false;
const PUTS: &str = "RoCEv2 WRITEs over memif, many under way";
const SENDS: &str = "RoCEv2 SENDs over memif, many under way";
const PUT: &str = "a RoCEv2 WRITE over memif, one way";
const SEND: &str = "a RoCEv2 SEND over memif, one way";
const UCX_TCP: &str = "ucx_perftest, tag matching over TCP on loopback";
const UCX_SHM: &str = "ucx_perftest, tag matching over shared memory";
const FI_TCP: &str = "fi_pingpong, messages over TCP on loopback";
const FI_SHM: &str = "fi_pingpong, messages over shared memory";

const ENGINE_SEND: &str = "the engine's time a WRITE packet, sending, both ends on one thread";
const ENGINE_RECEIVE: &str = "the same, receiving";

type Measure = fn(&Setting, Side) -> Result<Sample, Error>;

const fn rate(name: &'static str, ours: &'static str, peer: &'static str, measure: Measure) -> Row {
    Row {
        name,
        ours,
        peer,
        unit: Unit::Mmps,
        target: Target::None,
        needs: UCX,
        measure,
    }
}

const fn bytes(
    name: &'static str,
    ours: &'static str,
    peer: &'static str,
    measure: Measure,
) -> Row {
    Row {
        unit: Unit::Gigabytes,
        ..rate(name, ours, peer, measure)
    }
}

const fn latency(
    name: &'static str,
    needs: &'static [Need],
    ours: &'static str,
    peer: &'static str,
    measure: Measure,
) -> Row {
    Row {
        unit: Unit::Microseconds,
        needs,
        ..rate(name, ours, peer, measure)
    }
}

const fn engine(name: &'static str, ours: &'static str, measure: Measure) -> Row {
    Row {
        name,
        ours,
        peer: "copying and summing as many bytes",
        unit: Unit::Nanoseconds,
        target: Target::None,
        needs: &[],
        measure,
    }
}

const fn over(is_tcp: bool) -> Over {
    match is_tcp {
        true => Over::Tcp,
        false => Over::SharedMemory,
    }
}

/// Million messages a second.
fn puts<const BYTES: u32, const IS_TCP: bool>(
    setting: &Setting,
    side: Side,
) -> Result<Sample, Error> {
    let figure = bandwidth(Face::WriteBandwidth, BYTES, IS_TCP, setting, side)?;
    sample(figure, figure.rate)
}

fn sends<const BYTES: u32, const IS_TCP: bool>(
    setting: &Setting,
    side: Side,
) -> Result<Sample, Error> {
    let figure = bandwidth(Face::SendBandwidth, BYTES, IS_TCP, setting, side)?;
    sample(figure, figure.rate)
}

/// Gigabytes a second.
fn put_bytes<const BYTES: u32, const IS_TCP: bool>(
    setting: &Setting,
    side: Side,
) -> Result<Sample, Error> {
    let figure = bandwidth(Face::WriteBandwidth, BYTES, IS_TCP, setting, side)?;
    sample(figure, figure.rate * f64::from(BYTES) / 1e3)
}

fn send_bytes<const BYTES: u32, const IS_TCP: bool>(
    setting: &Setting,
    side: Side,
) -> Result<Sample, Error> {
    let figure = bandwidth(Face::SendBandwidth, BYTES, IS_TCP, setting, side)?;
    sample(figure, figure.rate * f64::from(BYTES) / 1e3)
}

/// Microseconds one way.
fn put_time<const BYTES: u32, const IS_TCP: bool>(
    setting: &Setting,
    side: Side,
) -> Result<Sample, Error> {
    let figure = match side {
        Side::Ours => ours::measure(setting, Face::WriteLatency, BYTES)?,
        Side::Peer => ucx::measure(setting, over(IS_TCP), Test::Latency, BYTES)?,
    };
    sample(figure, figure.microseconds)
}

fn send_time<const BYTES: u32, const IS_TCP: bool>(
    setting: &Setting,
    side: Side,
) -> Result<Sample, Error> {
    let figure = match side {
        Side::Ours => ours::measure(setting, Face::SendLatency, BYTES)?,
        Side::Peer => ucx::measure(setting, over(IS_TCP), Test::Latency, BYTES)?,
    };
    sample(figure, figure.microseconds)
}

fn send_fabric<const BYTES: u32, const IS_TCP: bool>(
    setting: &Setting,
    side: Side,
) -> Result<Sample, Error> {
    let figure = match side {
        Side::Ours => ours::measure(setting, Face::SendLatency, BYTES)?,
        Side::Peer => libfabric::measure(setting, over(IS_TCP), BYTES)?,
    };
    sample(figure, figure.microseconds)
}

fn engine_sends<const BYTES: u32>(setting: &Setting, side: Side) -> Result<Sample, Error> {
    engine_sample(setting, side, BYTES, |times| times.send)
}

fn engine_receives<const BYTES: u32>(setting: &Setting, side: Side) -> Result<Sample, Error> {
    engine_sample(setting, side, BYTES, |times| times.receive)
}

fn engine_sample(
    setting: &Setting,
    side: Side,
    bytes: u32,
    which: fn(&Times) -> f64,
) -> Result<Sample, Error> {
    let (value, offered) = match side {
        Side::Ours => {
            let times = engine::times(setting, bytes)?;
            (which(&times), times.packets)
        }
        Side::Peer => engine::floor(setting, bytes)?,
    };
    Ok(Sample {
        value,
        dropped: 0,
        offered,
        beside: Beside::default(),
    })
}

fn bandwidth(
    face: Face,
    bytes: u32,
    is_tcp: bool,
    setting: &Setting,
    side: Side,
) -> Result<Figure, Error> {
    match side {
        Side::Ours => ours::measure(setting, face, bytes),
        Side::Peer => ucx::measure(setting, over(is_tcp), Test::Bandwidth, bytes),
    }
}

/// What one run of one side found.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Figure {
    /// Messages that were counted.
    pub(super) messages: u64,
    /// Million messages a second; 0 where times were taken.
    pub(super) rate: f64,
    /// Microseconds one way; 0 where rates were taken.
    pub(super) microseconds: f64,
}

fn sample(figure: Figure, value: f64) -> Result<Sample, Error> {
    // Both sides are reliable: what is lost is sent again.
    Ok(Sample {
        value,
        dropped: 0,
        offered: figure.messages,
        beside: Beside::default(),
    })
}

/// Messages that take about the wanted time, by what such machines do; slower ones take longer.
pub(super) fn messages(seconds: f64, is_latency: bool, bytes: u32) -> u32 {
    let a_second = match is_latency {
        true => 200_000.0,
        false => 1e9 / (300.0 + f64::from(bytes) / 2.0),
    };
    (seconds * a_second).clamp(200.0, 1e8) as u32
}
