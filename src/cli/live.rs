//! What commands tell while connections last: a line each for people, an object a line for
//! programs.

use std::fmt;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Map, Value};
use warpwire_pipelines::streaming::serving::Glimpse;
use warpwire_pipelines::streaming::{self, State, Stream};

use super::{Failure, complain};

/// Words that say what is told, and how.
#[derive(clap::Args)]
pub(super) struct Telling {
    /// Print what every connection does, again after every such time, such as 500ms; 1s if none is
    /// said: bytes, round trip, congestion window, repetitions, order. Behind them `serve` prints
    /// what was served until then
    #[arg(
        long, value_name = "TIME", num_args = 0..=1, require_equals = true,
        default_missing_value = "1s", value_parser = super::run::duration
    )]
    live: Option<Duration>,
    /// Print JSON, an object a line
    #[arg(long)]
    json: bool,
}

impl Telling {
    /// Tells one thing.
    pub(super) fn say<Line: Serialize + fmt::Display>(&self, line: &Line) -> Result<(), Failure> {
        self.say_all([line])
    }

    /// Tells several things at once.
    pub(super) fn say_all<Line: Serialize + fmt::Display>(
        &self,
        lines: impl IntoIterator<Item = Line>,
    ) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        for line in lines {
            match self.json {
                true => {
                    serde_json::to_writer(&mut out, &line).map_err(io::Error::from)?;
                    writeln!(out)?;
                }
                false => writeln!(out, "{line}")?,
            }
        }
        Ok(out.flush()?)
    }

    /// Says what may pass: to people who look at errors, and in its turn to programs.
    pub(super) fn warn(&self, words: &str) -> Result<(), Failure> {
        complain(&words);
        self.note_for_programs("warning", words)
    }

    /// Says to programs why the command ends early; people are told by who called it.
    pub(super) fn ended<T>(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(failure) = &outcome {
            // Whoever does not read any more hears of nothing.
            let _ = self.note_for_programs("error", &failure.to_string());
        }
        outcome
    }

    fn note_for_programs(&self, event: &'static str, words: &str) -> Result<(), Failure> {
        match self.json {
            true => self.say(&Note::new(event, words.to_owned())),
            false => Ok(()),
        }
    }

    /// A clock that says when connections are to be told of.
    pub(super) fn pulse(&self) -> Pulse {
        let now = Instant::now();
        Pulse {
            period: self.live,
            started: now,
            next: now,
        }
    }
}

/// When connections are to be told of.
pub(super) struct Pulse {
    period: Option<Duration>,
    started: Instant,
    next: Instant,
}

impl Pulse {
    /// The time since the beginning, if they are to be told of now.
    pub(super) fn due(&mut self) -> Option<Duration> {
        let period = self.period?;
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        // Times that were missed are left out.
        self.next = now.checked_add(period)?;
        Some(now.duration_since(self.started))
    }
}

/// A connection as it is now.
#[derive(Debug, Serialize)]
pub(super) struct Connection {
    event: &'static str,
    /// Since the beginning.
    seconds: f64,
    local: SocketAddr,
    peer: SocketAddr,
    state: String,
    /// Bytes that were read of it.
    came_bytes: u64,
    /// Bytes that were written to it.
    left_bytes: u64,
    /// None over messages.
    #[serde(flatten)]
    figures: Option<Figures>,
}

/// What its engine counts, see [`warpwire_engine::streams::tables::Figures`].
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    rtt_us: u32,
    rtt_variation_us: u32,
    cwnd_bytes: u32,
    ssthresh_bytes: u32,
    in_flight_bytes: u32,
    retransmits: u32,
    timeouts: u32,
    recoveries: u32,
    out_of_order: u32,
    reordered: u32,
}

impl Connection {
    /// As it is so long after the beginning; none if it is not there any more. What carries it
    /// takes figures, or not.
    pub(super) fn now(stream: &Stream, since: Duration, has_figures: bool) -> Option<Self> {
        let ends = (stream.local(), stream.peer());
        Self::of(
            since,
            ends,
            stream.state(),
            stream.moved(),
            has_figures.then(|| stream.figures()),
        )
    }

    /// One that device code has.
    pub(super) fn served(stream: &Glimpse, since: Duration) -> Option<Self> {
        let ends = (stream.local(), stream.peer());
        Self::of(
            since,
            ends,
            stream.state(),
            stream.moved(),
            Some(stream.figures()),
        )
    }

    fn of(
        since: Duration,
        (local, peer): (SocketAddr, SocketAddr),
        state: Result<State, streaming::Error>,
        (came_bytes, left_bytes): (u64, u64),
        figures: Option<Result<streaming::Figures, streaming::Error>>,
    ) -> Option<Self> {
        Some(Self {
            event: "connection",
            seconds: since.as_secs_f64(),
            local,
            peer,
            state: format!("{:?}", state.ok()?),
            came_bytes,
            left_bytes,
            figures: match figures {
                Some(figures) => Some(Figures::of(&figures.ok()?)),
                None => None,
            },
        })
    }
}

impl Figures {
    pub(super) const fn of(figures: &streaming::Figures) -> Self {
        Self {
            rtt_us: figures.srtt_us,
            rtt_variation_us: figures.rttvar_us,
            cwnd_bytes: figures.cwnd,
            ssthresh_bytes: figures.ssthresh,
            in_flight_bytes: figures.in_flight,
            retransmits: figures.retransmits,
            timeouts: figures.timeouts,
            recoveries: figures.recoveries,
            out_of_order: figures.out_of_order,
            reordered: figures.reordered,
        }
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seconds,
            peer,
            state,
            came_bytes,
            left_bytes,
            figures,
            ..
        } = self;
        write!(
            out,
            "{seconds:.1} s {peer} {state}: {came_bytes} bytes came, {left_bytes} left"
        )?;
        match figures {
            Some(figures) => write!(out, ", {figures}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rtt_us,
            rtt_variation_us,
            cwnd_bytes,
            ssthresh_bytes,
            in_flight_bytes,
            retransmits,
            timeouts,
            recoveries,
            out_of_order,
            reordered,
        } = self;
        write!(
            out,
            "rtt {rtt_us} us +- {rtt_variation_us}, cwnd {cwnd_bytes}, ssthresh {ssthresh_bytes}, \
             in flight {in_flight_bytes}, repeated {retransmits}, recoveries {recoveries}, \
             timeouts {timeouts}, after gaps {out_of_order}, reordered {reordered}"
        )
    }
}

/// Words that stand for themselves.
#[derive(Debug, Serialize)]
pub(super) struct Note {
    /// What they are about.
    event: &'static str,
    text: String,
    /// What is in the words, for programs.
    #[serde(flatten)]
    facts: Map<String, Value>,
}

impl Note {
    pub(super) fn new(event: &'static str, text: String) -> Self {
        Self::with(event, text, Map::new())
    }

    pub(super) const fn with(event: &'static str, text: String, facts: Map<String, Value>) -> Self {
        Self { event, text, facts }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_told_of_at_once_and_after_every_period() {
        let telling = |live| Telling { live, json: false };
        assert_eq!(telling(None).pulse().due(), None);
        let mut pulse = telling(Some(Duration::from_secs(3600))).pulse();
        assert!(pulse.due().is_some());
        assert_eq!(pulse.due(), None);
        let mut pulse = telling(Some(Duration::from_nanos(1))).pulse();
        assert!(pulse.due().is_some());
        std::thread::sleep(Duration::from_millis(1));
        assert!(
            pulse
                .due()
                .is_some_and(|since| since >= Duration::from_millis(1))
        );
    }
}
