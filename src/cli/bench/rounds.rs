//! Rounds of both sides in turn, and what is made of them.

use std::time::{Duration, Instant};

use super::error::Error;
use super::machine::{self, Usage};
use super::row::{Row, Sample, Side};
use super::setting::Setting;

/// What is done about other programs on the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Others {
    /// Wait until they are quiet; repeat rounds in which they used more than half a processor
    Repeat,
    /// Put the threads of both sides before them, by real-time priority (needs root)
    Outrank,
    /// Nothing: take rounds as they come, also if a host moves the processors meanwhile
    Ignore,
}

/// Both sides once.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub(super) struct Round {
    pub(super) ours: Turn,
    pub(super) peer: Turn,
    /// Our figure over the peer's.
    pub(super) ratio: f64,
    /// A line of memory to the other processor and back: before, between and after the sides.
    pub(super) ping_pong_ns: [f64; 3],
    /// Where the two processors were; `null` if they moved during the round.
    pub(super) placement: Option<Placement>,
    /// Whether it counts: the processors stayed where they were, and others left them alone, unless
    /// both are ignored.
    pub(super) counts: bool,
}

/// How far apart the two processors are. A host moves the processors of a virtual machine now and
/// then, and a line of memory takes several times as long between some as between others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Placement {
    /// They share a cache.
    Near,
    /// They do not.
    Far,
}

impl Placement {
    fn of(ping_pong_ns: [f64; 3]) -> Option<Self> {
        let is_near = ping_pong_ns.map(|time| time < NEAR_NS);
        match is_near {
            [true, true, true] => Some(Self::Near),
            [false, false, false] => Some(Self::Far),
            _ => None,
        }
    }
}

/// One side once.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub(super) struct Turn {
    #[serde(flatten)]
    pub(super) sample: Sample,
    /// Processors that other programs used meanwhile.
    pub(super) others_used: f64,
}

/// Takes rounds of a row until enough of them count.
pub(super) fn run(
    setting: &Setting,
    row: &Row,
    rounds: usize,
    others: Others,
    mut tell: impl FnMut(&Round),
) -> Result<Vec<Round>, Error> {
    let mut taken: Vec<Round> = Vec::new();
    let counting = |taken: &[Round]| taken.iter().filter(|round| round.counts).count();
    while taken.len() < rounds * TRIES && counting(&taken) < rounds {
        let round = once(setting, row, others, taken.len().is_multiple_of(2))?;
        tell(&round);
        taken.push(round);
    }
    let (counting, tries) = (counting(&taken), taken.len());
    match counting < rounds {
        true => Err(Error::Busy {
            taken: counting,
            tries,
        }),
        false => Ok(taken),
    }
}

fn once(setting: &Setting, row: &Row, others: Others, ours_first: bool) -> Result<Round, Error> {
    if others == Others::Repeat {
        wait_for_quiet(setting)?;
    }
    let turn = |side| -> Result<Turn, Error> {
        let usage = Usage::start();
        let sample = (row.measure)(setting, side)?;
        Ok(Turn {
            sample,
            others_used: usage.of_others(),
        })
    };
    // In turn, so that neither side has the better half of what drifts.
    let sides = match ours_first {
        true => [Side::Ours, Side::Peer],
        false => [Side::Peer, Side::Ours],
    };
    let before = machine::ping_pong()?;
    let first = turn(sides[0])?;
    let between = machine::ping_pong()?;
    let second = turn(sides[1])?;
    let ping_pong_ns = [before, between, machine::ping_pong()?];
    let (ours, peer) = match ours_first {
        true => (first, second),
        false => (second, first),
    };
    let used = ours.others_used.max(peer.others_used);
    let placement = Placement::of(ping_pong_ns);
    Ok(Round {
        ours,
        peer,
        ratio: ours.sample.value / peer.sample.value,
        ping_pong_ns,
        placement,
        counts: match others {
            Others::Repeat => placement.is_some() && used < MUCH,
            Others::Outrank => placement.is_some(),
            Others::Ignore => true,
        },
    })
}

/// Waits, within bounds, until the rest of the machine is quiet.
fn wait_for_quiet(setting: &Setting) -> Result<(), Error> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let usage = Usage::start();
        setting.pause(LISTEN)?;
        if usage.of_others() < LITTLE {
            break;
        }
    }
    Ok(())
}

/// Median, smallest and largest.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Of some values; zeros if there are none.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
        let last = sorted.len().saturating_sub(1);
        Self {
            // The two in the middle are the same one if the count is odd.
            median: (at(last / 2) + at(sorted.len() / 2)) / 2.0,
            min: at(0),
            max: at(last),
        }
    }
}

/// Rounds that are tried for each that must count.
const TRIES: usize = 3;
/// A line that is faster than this comes out of a cache that both processors share.
const NEAR_NS: f64 = 150.0;
/// Processors that others may use in a round that counts.
const MUCH: f64 = 0.5;
/// Processors that others use on a quiet machine.
const LITTLE: f64 = 0.3;
const LISTEN: Duration = Duration::from_millis(400);
const PATIENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_that_move_have_no_place() {
        let cases = [
            ([60.0, 70.0, 65.0], Some(Placement::Near)),
            ([300.0, 310.0, 390.0], Some(Placement::Far)),
            ([60.0, 310.0, 300.0], None),
            ([300.0, f64::INFINITY, 300.0], Some(Placement::Far)),
        ];
        for (times, want) in cases {
            assert_eq!(Placement::of(times), want, "{times:?}");
        }
    }

    #[test]
    fn medians_are_those_of_sorted_values() {
        let cases: [(&[f64], [f64; 3]); 5] = [
            (&[], [0.0, 0.0, 0.0]),
            (&[3.0], [3.0, 3.0, 3.0]),
            (&[4.0, 1.0], [2.5, 1.0, 4.0]),
            (&[9.0, 1.0, 5.0], [5.0, 1.0, 9.0]),
            (&[10.0, 9.0, 2.0, 4.0, 100.0, 0.5], [6.5, 0.5, 100.0]),
        ];
        for (values, [median, min, max]) in cases {
            let spread = Spread::of(values.iter().copied());
            assert_eq!(spread, Spread { median, min, max }, "{values:?}");
        }
    }
}
