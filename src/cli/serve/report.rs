//! What `warpwire serve` prints.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use warpwire_core::serving::ServeCounters;
use warpwire_pipelines::streaming::StreamDevice;

use super::super::Failure;
use super::super::live::Telling;

/// What was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(super) struct Tally {
    /// Connections.
    #[serde(rename = "connections")]
    pub(super) accepted: u64,
    /// Of these, those that broke.
    pub(super) broken: u64,
    /// Bytes that came.
    #[serde(rename = "came_bytes")]
    pub(super) came: u64,
    /// Bytes that were written.
    #[serde(rename = "left_bytes")]
    pub(super) left: u64,
    /// HTTP: answers, and of these, those without a file.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) answers: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) refusals: u64,
    /// Splices: connections for which none to the target came about.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) unspliced: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What device code counted.
pub(super) const fn of_device(counters: &ServeCounters, unspliced: u64) -> Tally {
    Tally {
        accepted: counters.accepted,
        broken: counters.broken,
        came: counters.came,
        left: counters.left,
        answers: counters.answers,
        refusals: counters.refusals,
        unspliced,
    }
}

/// Where it is served.
#[derive(Serialize)]
struct Beginning {
    event: &'static str,
    addresses: Vec<SocketAddr>,
    mtu: u16,
    choices: Vec<String>,
    /// Of a site.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_bytes: Option<u64>,
}

impl fmt::Display for Beginning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(files), Some(bytes)) = (self.files, self.file_bytes) {
            writeln!(out, "{files} files, {bytes} bytes")?;
        }
        for address in &self.addresses {
            writeln!(out, "serving at {address}")?;
        }
        write!(out, "MTU {}; {}", self.mtu, self.choices.join("; "))
    }
}

/// Says where it is served.
pub(super) fn begin(
    telling: &Telling,
    device: &StreamDevice,
    addresses: Vec<SocketAddr>,
    site: Option<(usize, u64)>,
) -> Result<(), Failure> {
    let (files, file_bytes) = site.unzip();
    telling.say(&Beginning {
        event: "serving",
        addresses,
        mtu: device.mtu(),
        choices: device.choices(),
        files,
        file_bytes,
    })
}

/// Why the engine ended.
pub(super) fn ended(device: &StreamDevice) -> String {
    let troubles = device.troubles();
    let first = troubles.first().map(|trouble| trouble.error.to_string());
    first.unwrap_or_else(|| "the engine of streams ended".to_owned())
}

/// What was served until now.
#[derive(Serialize)]
pub(super) struct Totals {
    event: &'static str,
    /// Since the beginning.
    seconds: f64,
    connections: u64,
    /// Of these, those that are served now.
    open: u64,
    came_bytes: u64,
    left_bytes: u64,
}

impl Totals {
    pub(super) fn new(since: Duration, open: u64, tally: &Tally) -> Self {
        Self {
            event: "totals",
            seconds: since.as_secs_f64(),
            connections: tally.accepted,
            open,
            came_bytes: tally.came,
            left_bytes: tally.left,
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seconds,
            connections,
            open,
            came_bytes,
            left_bytes,
            ..
        } = self;
        write!(
            out,
            "{seconds:.1} s {connections} connections, {open} open: {came_bytes} bytes came, \
             {left_bytes} left"
        )
    }
}

/// What was served and counted.
#[derive(Serialize)]
struct End {
    event: &'static str,
    seconds: f64,
    #[serde(flatten)]
    tally: Tally,
    engine: Engine,
    host: Host,
    nic: Nic,
}

#[derive(Serialize)]
struct Engine {
    segments_came: u64,
    /// Of these, those that came to another queue than their connection's.
    segments_handed_over: u64,
    segments_left: u64,
    bytes_left: u64,
    resets: u64,
    cookies: u64,
    accept_rings_full: u64,
    without_place: u64,
    /// Requests for connections, each as often as it came, while all had their memory.
    beyond_connections: u64,
    malformed: u64,
}

#[derive(Serialize)]
struct Nic {
    frames_came: u64,
    frames_left: u64,
    /// By reason.
    lost: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Host {
    /// The next four are all of these.
    frames: u64,
    answered: u64,
    heard: u64,
    unanswered: u64,
    limited: u64,
    lost: u64,
}

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally {
            accepted,
            broken,
            came,
            left,
            answers,
            refusals,
            unspliced,
        } = self.tally;
        writeln!(
            out,
            "{accepted} connections, {broken} broke; {came} bytes came, {left} were written, in \
             {:.1} s",
            self.seconds
        )?;
        if answers > 0 {
            writeln!(out, "{answers} answers, {refusals} of them without a file")?;
        }
        if unspliced > 0 {
            writeln!(out, "{unspliced} connections were not spliced")?;
        }
        let engine = &self.engine;
        writeln!(
            out,
            "engine: {} segments came, {} of them to another queue than their connection's, {} \
             left with {} bytes, {} resets, {} cookies; not answered: {} accept rings full, {} \
             without place, {} beyond --connections, counted whenever they are repeated",
            engine.segments_came,
            engine.segments_handed_over,
            engine.segments_left,
            engine.bytes_left,
            engine.resets,
            engine.cookies,
            engine.accept_rings_full,
            engine.without_place,
            engine.beyond_connections
        )?;
        let host = &self.host;
        writeln!(
            out,
            "host: {} frames, {} answered, {} heard, {} of no concern, {} beyond the limit of \
             errors; {} lost on the way; dropped as malformed: {}",
            host.frames,
            host.answered,
            host.heard,
            host.unanswered,
            host.limited,
            host.lost,
            engine.malformed
        )?;
        let nic = &self.nic;
        let (came, left) = (nic.frames_came, nic.frames_left);
        write!(out, "NIC: {came} frames came, {left} left; lost: ")?;
        let mut lost = nic.lost.iter();
        match lost.next() {
            None => write!(out, "none"),
            Some((why, count)) => {
                write!(out, "{count} ({why})")?;
                lost.try_for_each(|(why, count)| write!(out, ", {count} ({why})"))
            }
        }
    }
}

/// Says what was served and counted.
pub(super) fn end(
    telling: &Telling,
    device: &StreamDevice,
    tally: &Tally,
    time: Duration,
) -> Result<(), Failure> {
    let counters = device.endpoint().counters();
    let slow = device.endpoint().slow_counters();
    let others = slow.heard_only + slow.unanswered + slow.limited;
    let nic = device.nic_counters();
    let lost = nic.drops.into_iter().filter(|(_, count)| *count > 0);
    telling.say(&End {
        event: "end",
        seconds: time.as_secs_f64(),
        tally: *tally,
        engine: Engine {
            // Whose connection it is counts it again.
            segments_came: counters.received.saturating_sub(counters.taken),
            segments_handed_over: counters.handed,
            segments_left: counters.sent,
            bytes_left: counters.sent_bytes,
            resets: counters.resets,
            cookies: counters.cookies,
            accept_rings_full: counters.accept_full,
            without_place: counters.no_place,
            beyond_connections: counters.no_chunk,
            malformed: counters.drops.iter().sum(),
        },
        host: Host {
            frames: slow.frames,
            answered: slow.frames.saturating_sub(others),
            heard: slow.heard_only,
            unanswered: slow.unanswered,
            limited: slow.limited,
            lost: slow.lost + counters.slow_lost,
        },
        nic: Nic {
            frames_came: nic.rx_frames,
            frames_left: nic.tx_frames,
            lost: lost.collect(),
        },
    })
}
