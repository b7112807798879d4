//! What `warpwire serve` prints.

use std::io::{self, Write};
use std::time::Duration;

use warpwire_pipelines::streaming::{Listener, StreamDevice};

use super::super::Failure;
use super::service::Served;
use super::site::Site;

/// What was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    /// Connections.
    pub(super) accepted: u64,
    /// Of these, those that broke.
    pub(super) broken: u64,
    /// Bytes that came.
    pub(super) came: u64,
    /// Bytes that were written.
    pub(super) left: u64,
}

/// Says where it is served.
pub(super) fn begin(
    device: &StreamDevice,
    listeners: &[Listener],
    site: Option<&Site>,
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if let Some((files, bytes)) = site.map(Site::size) {
        writeln!(out, "{files} files, {bytes} bytes")?;
    }
    for listener in listeners {
        writeln!(out, "serving at {}", listener.address())?;
    }
    writeln!(out, "MTU {}; {}", device.mtu(), device.choices().join("; "))?;
    Ok(out.flush()?)
}

/// A line for every connection.
pub(super) fn live(streams: &[Option<Served>]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    for served in streams.iter().flatten() {
        let stream = &served.stream;
        let (Ok(figures), Ok(state)) = (stream.figures(), stream.state()) else {
            continue;
        };
        writeln!(
            out,
            "{} {state:?}: rtt {} us +- {}, cwnd {}, in flight {}, repeated {}, timeouts {}, \
             after gaps {}, reordered {}",
            stream.peer(),
            figures.srtt_us,
            figures.rttvar_us,
            figures.cwnd,
            figures.in_flight,
            figures.retransmits,
            figures.timeouts,
            figures.out_of_order,
            figures.reordered
        )?;
    }
    Ok(out.flush()?)
}

/// Why the engine ended.
pub(super) fn ended(device: &StreamDevice) -> String {
    let troubles = device.troubles();
    let first = troubles.first().map(|trouble| trouble.error.to_string());
    first.unwrap_or_else(|| "the engine of streams ended".to_owned())
}

/// What was served and counted.
pub(super) fn end(device: &StreamDevice, tally: &Tally, time: Duration) -> Result<(), Failure> {
    let counters = device.endpoint().counters();
    let slow = device.endpoint().slow_counters();
    let Tally {
        accepted,
        broken,
        came,
        left,
    } = *tally;
    let mut out = io::stdout().lock();
    let seconds = time.as_secs_f64();
    writeln!(
        out,
        "{accepted} connections, {broken} broke; {came} bytes came, {left} were written, in \
         {seconds:.1} s"
    )?;
    writeln!(
        out,
        "engine: {} segments came, {} left with {} bytes, {} resets, {} cookies; not answered: \
         {} accept rings full, {} without place, {} without memory",
        counters.received,
        counters.sent,
        counters.sent_bytes,
        counters.resets,
        counters.cookies,
        counters.accept_full,
        counters.no_place,
        counters.no_chunk
    )?;
    let dropped: u64 = counters.drops.iter().sum();
    writeln!(
        out,
        "host: {} frames, {} answered, {} not, {} lost on the way; dropped as malformed: {dropped}",
        slow.frames,
        slow.answered,
        slow.unanswered,
        slow.lost + counters.slow_lost
    )?;
    Ok(out.flush()?)
}
