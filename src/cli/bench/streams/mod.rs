//! `warpwire bench streams --against linux,smoltcp`: TCP, ours and others'.
//!
//! Two ends, a thread each at most: the near one asks and measures, the far one serves. Over veth
//! the near end is Linux for all, so that sides differ in the far end only.

mod count;
mod link;
mod linux;
mod memory;
mod ours;
mod smoltcp_end;

use super::comparison::{self, AFTER_HELP, Options};
use super::error::Error;
use super::row::Need::{Ethtool, Root, TwoProcessors};
use super::row::{self, Need, Row, Sample, Side, Target, Unit};
use super::setting::Setting;
use crate::cli::Failure;
use link::{Far, Offloads};
use memory::Terms;

/// Measure streams over TCP, against others in the same run
///
/// Sides take turns, round by round; figures are medians. At most two threads spin, one of each
/// end. Goodput stands with the processor time of both ends, latency with percentiles.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    /// Whom to measure against
    #[arg(long, value_delimiter = ',', default_value = "linux,smoltcp")]
    against: Vec<Against>,
    /// Rows to measure, all if absent: engine, xdp or memif, or single ones such as
    /// xdp-send-linux-gso
    #[arg(long, value_delimiter = ',', value_name = "ROW", value_parser = known_row)]
    rows: Vec<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Against {
    /// The TCP of this machine's Linux
    Linux,
    /// smoltcp, as this program was built with it
    Smoltcp,
}

impl Against {
    const ALL: [Self; 2] = [Self::Linux, Self::Smoltcp];

    const fn word(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Smoltcp => "smoltcp",
        }
    }

    /// Whom a row is against: its name says so.
    fn is_of(self, row: &Row) -> bool {
        row.name.split('-').any(|word| word == self.word())
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let chosen = row::choose(STREAMS, &arguments.rows).map_err(Failure::Bench)?;
    let wanted = |row: &&'static Row| arguments.against.iter().any(|one| one.is_of(row));
    let rows: Vec<&'static Row> = chosen.into_iter().filter(wanted).collect();
    if rows.is_empty() {
        return Err(Failure::Words(
            "--rows: none of them is against one of --against; write --against linux,smoltcp"
                .to_owned(),
        ));
    }
    let all = Against::ALL.into_iter();
    let named = all.filter(|one| arguments.against.contains(one));
    let words: Vec<&str> = named.map(Against::word).collect();
    let record = comparison::begin("streams", words.join(","), &arguments.options);
    comparison::run(record, rows, &arguments.options)
}

fn known_row(word: &str) -> Result<String, String> {
    row::choose(STREAMS, &[word.to_owned()]).map(|_| word.to_owned())
}

/// What the near end does with the far one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// The far end sends without end.
    Send,
    /// The far end receives without end.
    Receive,
    /// [`QUESTION`] bytes there, as many back.
    Ask,
    /// A connection opened, and closed by both ends.
    Greet,
}

impl What {
    /// The service that the far end offers, in the words of `warpwire serve`.
    const fn service(self) -> &'static str {
        match self {
            Self::Send => "source",
            Self::Receive | Self::Greet => "discard",
            Self::Ask => "echo",
        }
    }
}

type Measure = fn(&Setting, Side) -> Result<Sample, Error>;

/// All rows, in the order of the table.
pub(super) const STREAMS: &[Row] = &[
    engine("engine-smoltcp-benchmark", BENCHMARK, as_published),
    engine("engine-1500-smoltcp", SUMMED, in_memory::<1500, true>),
    engine(
        "engine-1500-smoltcp-unsummed",
        UNSUMMED,
        in_memory::<1500, false>,
    ),
    engine("engine-9000-smoltcp", SUMMED, in_memory::<9000, true>),
    engine(
        "engine-9000-smoltcp-unsummed",
        UNSUMMED,
        in_memory::<9000, false>,
    ),
    Row {
        target: Target::AtLeast(1.5),
        ..goodput(
            "xdp-send-smoltcp",
            OURS_SENDS,
            "smoltcp over AF_XDP, to Linux",
            |setting, side| over_veth(setting, side, Far::Smoltcp, What::Send),
        )
    },
    Row {
        target: Target::AtLeast(1.5),
        ..goodput(
            "xdp-receive-smoltcp",
            OURS_RECEIVES,
            "smoltcp over AF_XDP, from Linux",
            |setting, side| over_veth(setting, side, Far::Smoltcp, What::Receive),
        )
    },
    goodput(
        "xdp-send-linux-gso",
        OURS_SENDS,
        LINUX_GSO,
        |setting, side| over_veth(setting, side, GSO, What::Send),
    ),
    goodput(
        "xdp-send-linux-plain",
        OURS_SENDS,
        LINUX_PLAIN,
        |setting, side| over_veth(setting, side, PLAIN, What::Send),
    ),
    goodput(
        "xdp-receive-linux-gso",
        OURS_RECEIVES,
        LINUX_GSO,
        |setting, side| over_veth(setting, side, GSO, What::Receive),
    ),
    goodput(
        "xdp-receive-linux-plain",
        OURS_RECEIVES,
        LINUX_PLAIN,
        |setting, side| over_veth(setting, side, PLAIN, What::Receive),
    ),
    memif("memif-1500-linux-gso", MEMIF_1500, over_memif::<1500>),
    memif("memif-9000-linux-gso", MEMIF_9000, over_memif::<9000>),
    latency(
        "xdp-echo-64-smoltcp",
        XDP_ECHO,
        "Linux, smoltcp over AF_XDP and back",
        |setting, side| over_veth(setting, side, Far::Smoltcp, What::Ask),
    ),
    latency(
        "xdp-echo-64-linux",
        XDP_ECHO,
        LINUX_ECHO,
        |setting, side| over_veth(setting, side, GSO, What::Ask),
    ),
    latency(
        "memif-echo-64-linux",
        "64 bytes from a warpwire to another over memif and back",
        LINUX_ECHO,
        |setting, side| match side {
            Side::Ours => ours::over_memif(setting, 1500, What::Ask),
            Side::Peer => link::measure(setting, GSO, What::Ask),
        },
    ),
    connections(
        "xdp-connect-smoltcp",
        "Linux to smoltcp over AF_XDP",
        |setting, side| over_veth(setting, side, Far::Smoltcp, What::Greet),
    ),
    connections(
        "xdp-connect-linux",
        "Linux to Linux over veth",
        |setting, side| over_veth(setting, side, GSO, What::Greet),
    ),
];

const SUMMED: &str = "smoltcp over its loopback, one thread, same MTU and buffers, with checksums";
const UNSUMMED: &str = "smoltcp over its loopback as it is: same MTU and buffers, no checksums";
const BENCHMARK: &str =
    "smoltcp's loopback benchmark with the devices that it puts in between: same MTU and buffers";
const OURS_SENDS: &str = "warpwire over AF_XDP on a veth pair, to Linux";
const OURS_RECEIVES: &str = "warpwire over AF_XDP on a veth pair, from Linux";
const LINUX_GSO: &str = "Linux to Linux over veth, GSO and GRO on";
const LINUX_PLAIN: &str = "Linux to Linux over veth, TSO, GSO and GRO off";
const MEMIF_1500: &str = "a warpwire to another over memif, MTU 1500";
const MEMIF_9000: &str = "a warpwire to another over memif, MTU 9000";
const XDP_ECHO: &str = "64 bytes from Linux to warpwire over AF_XDP and back";
const LINUX_ECHO: &str = "64 bytes from Linux to Linux over veth and back";
const GSO: Far = Far::Linux(Offloads::On);
const PLAIN: Far = Far::Linux(Offloads::Off);

/// Bytes of a question and of its answer.
const QUESTION: usize = 64;
/// Bytes of the rings of our connections, and of the buffers of smoltcp's.
const RING_BYTES: u32 = 1 << 18;

const fn goodput(
    name: &'static str,
    ours: &'static str,
    peer: &'static str,
    measure: Measure,
) -> Row {
    Row {
        name,
        ours,
        peer,
        unit: Unit::Gigabits,
        target: Target::None,
        needs: &[Root, Ethtool, TwoProcessors],
        measure,
    }
}

const fn engine(name: &'static str, peer: &'static str, measure: Measure) -> Row {
    const NONE: &[Need] = &[];
    Row {
        target: Target::AtLeast(2.0),
        needs: NONE,
        ..goodput(
            name,
            "two engines over memif in memory, one thread",
            peer,
            measure,
        )
    }
}

const fn memif(name: &'static str, ours: &'static str, measure: Measure) -> Row {
    Row {
        target: Target::AtLeast(1.0),
        ..goodput(name, ours, LINUX_GSO, measure)
    }
}

const fn latency(
    name: &'static str,
    ours: &'static str,
    peer: &'static str,
    measure: Measure,
) -> Row {
    Row {
        unit: Unit::Microseconds,
        ..goodput(name, ours, peer, measure)
    }
}

const fn connections(name: &'static str, peer: &'static str, measure: Measure) -> Row {
    const OURS: &str = "Linux to warpwire over AF_XDP, opened and closed, one after the other";
    Row {
        unit: Unit::Thousands,
        ..goodput(name, OURS, peer, measure)
    }
}

fn in_memory<const MTU: u16, const IS_SUMMED: bool>(
    setting: &Setting,
    side: Side,
) -> Result<Sample, Error> {
    let terms = Terms {
        mtu: MTU,
        buffer_bytes: RING_BYTES,
        is_summed: IS_SUMMED,
    };
    match side {
        Side::Ours => memory::ours(setting, terms),
        Side::Peer => {
            note_smoltcp(setting);
            memory::smoltcp(setting, terms)
        }
    }
}

/// smoltcp as in its published benchmark, ours on the same terms.
fn as_published(setting: &Setting, side: Side) -> Result<Sample, Error> {
    match side {
        Side::Ours => memory::ours(setting, memory::PUBLISHED),
        Side::Peer => {
            note_smoltcp(setting);
            memory::smoltcp_as_published(setting)
        }
    }
}

/// Linux at the near end; at the far one warpwire, or another.
fn over_veth(setting: &Setting, side: Side, peer: Far, what: What) -> Result<Sample, Error> {
    if peer == Far::Smoltcp {
        note_smoltcp(setting);
    }
    match side {
        Side::Ours => link::measure(setting, Far::Warpwire, what),
        Side::Peer => link::measure(setting, peer, what),
    }
}

fn over_memif<const MTU: u16>(setting: &Setting, side: Side) -> Result<Sample, Error> {
    match side {
        Side::Ours => ours::over_memif(setting, MTU, What::Receive),
        Side::Peer => link::measure(setting, GSO, What::Receive),
    }
}

/// The version that this program was built with.
fn note_smoltcp(setting: &Setting) {
    const LOCK: &str = include_str!("../../../../Cargo.lock");
    let mut lines = LOCK
        .lines()
        .skip_while(|line| *line != "name = \"smoltcp\"");
    let version = lines.nth(1).and_then(|line| line.split('"').nth(1));
    setting.note_version(format!("smoltcp {}", version.unwrap_or("unknown")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_against_one() {
        for row in STREAMS {
            let count = Against::ALL.iter().filter(|one| one.is_of(row)).count();
            assert_eq!(count, 1, "{}", row.name);
        }
    }
}
