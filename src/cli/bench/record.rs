//! What was measured: for programs as JSON, for people as a table.

use std::fmt::Write as _;

use serde::Serialize;

use super::machine::Machine;
use super::rounds::{Others, Placement, Round, Spread};
use super::row::{Beside, Row, Unit};

/// Everything that one run of the command found.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    /// The command's words that matter.
    pub(super) bench: &'static str,
    pub(super) against: String,
    /// What the others call themselves, of those that were used and tell.
    pub(super) versions: Vec<String>,
    pub(super) commit: String,
    /// When the run began, UTC.
    pub(super) date: String,
    pub(super) machine: Machine,
    pub(super) configuration: Configuration,
    pub(super) rows: Vec<RowRecord>,
    pub(super) unmeasured: Vec<Unmeasured>,
}

/// How figures were taken.
#[derive(Debug, Serialize)]
pub(super) struct Configuration {
    /// Rounds that count, of each row.
    pub(super) rounds: usize,
    /// How long each side of a round counts.
    pub(super) seconds: f64,
    /// Bytes of a frame without its check sequence, unless the row says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) frame_bytes: Option<u32>,
    /// Threads that spin while a figure is taken, one on each of these processors.
    pub(super) spinning_on: [usize; 2],
    /// What was done about other programs.
    pub(super) others: Others,
    /// What ran the kernels.
    pub(super) executor: &'static str,
    /// What stood for device memory.
    pub(super) memory: &'static str,
}

/// One row.
#[derive(Debug, Serialize)]
pub(super) struct RowRecord {
    pub(super) row: &'static str,
    pub(super) unit: Unit,
    pub(super) ours: SideRecord,
    pub(super) peer: SideRecord,
    /// Our figure over the peer's in each round that counts.
    pub(super) ratio: Spread,
    /// In words; empty if there is none.
    pub(super) target: String,
    /// Whether the median ratio reaches it; `null` if there is none.
    pub(super) reached: Option<bool>,
    /// The same by where the processors were.
    pub(super) near: Option<Place>,
    pub(super) far: Option<Place>,
    /// All rounds, those that do not count included.
    pub(super) rounds: Vec<Round>,
}

/// Rounds of one placement.
#[derive(Debug, Serialize)]
pub(super) struct Place {
    pub(super) rounds: usize,
    pub(super) ours: Spread,
    pub(super) peer: Spread,
    pub(super) ratio: Spread,
}

impl Place {
    fn of(rounds: &[Round], placement: Placement) -> Option<Self> {
        let here = |round: &&Round| round.counts && round.placement == Some(placement);
        let here: Vec<&Round> = rounds.iter().filter(here).collect();
        let spread = |value: fn(&Round) -> f64| Spread::of(here.iter().map(|round| value(round)));
        (!here.is_empty()).then(|| Self {
            rounds: here.len(),
            ours: spread(|round| round.ours.sample.value),
            peer: spread(|round| round.peer.sample.value),
            ratio: spread(|round| round.ratio),
        })
    }
}

/// One side of a row.
#[derive(Debug, Serialize)]
pub(super) struct SideRecord {
    /// What was measured.
    pub(super) what: &'static str,
    #[serde(flatten)]
    pub(super) spread: Spread,
    /// Frames lost in all rounds that count.
    pub(super) dropped: u64,
    /// Frames offered in all rounds that count.
    pub(super) offered: u64,
    #[serde(flatten)]
    pub(super) beside: Beside,
}

/// A row that could not be measured.
#[derive(Debug, Serialize)]
pub(super) struct Unmeasured {
    pub(super) row: &'static str,
    /// Why, and what helps.
    pub(super) why: String,
}

impl RowRecord {
    pub(super) fn new(row: &Row, rounds: Vec<Round>) -> Self {
        let turns = |peer: bool| {
            let counting = rounds.iter().filter(|round| round.counts);
            counting.map(move |round| if peer { round.peer } else { round.ours })
        };
        let side = |peer: bool, what| SideRecord {
            what,
            spread: Spread::of(turns(peer).map(|turn| turn.sample.value)),
            dropped: turns(peer).map(|turn| turn.sample.dropped).sum(),
            offered: turns(peer).map(|turn| turn.sample.offered).sum(),
            beside: Beside::medians(
                &turns(peer)
                    .map(|turn| turn.sample.beside)
                    .collect::<Vec<_>>(),
            ),
        };
        let (ours, peer) = (side(false, row.ours), side(true, row.peer));
        let counting = rounds.iter().filter(|round| round.counts);
        let ratio = Spread::of(counting.map(|round| round.ratio));
        Self {
            row: row.name,
            unit: row.unit,
            ratio,
            target: row.target.words(),
            reached: row.target.reached(ours.spread.median, ratio.median),
            near: Place::of(&rounds, Placement::Near),
            far: Place::of(&rounds, Placement::Far),
            ours,
            peer,
            rounds,
        }
    }
}

impl Record {
    /// As JSON, over several lines.
    pub(super) fn to_json(&self) -> String {
        // Numbers are finite and maps have strings for keys: this cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// As a table, with what it was taken on above and what is missing below.
    pub(super) fn to_table(&self) -> String {
        let Configuration {
            rounds, seconds, ..
        } = &self.configuration;
        let [near, far] = self.configuration.spinning_on;
        let mut text = format!(
            "commit {}, {}, {} processors, Linux {}, {}\n\
             against {}; medians of {rounds} interleaved rounds of {seconds} s a side; at most two \
             spinning\nthreads, on processors {near} and {far}; CPU executor, {}\n\n",
            self.commit,
            self.machine.processor,
            self.machine.processors,
            self.machine.kernel,
            self.date,
            match self.versions.as_slice() {
                [] => self.against.clone(),
                versions => versions.join(", "),
            },
            self.configuration.memory,
        );
        let head = [
            "row",
            "unit",
            "ours",
            "peer",
            "ratio",
            "target",
            "reached",
            "dropped ours/peer",
            "ours min..max",
            "peer min..max",
            "ratio near",
            "ratio far",
        ];
        let mut lines = vec![head.map(str::to_owned)];
        lines.extend(self.rows.iter().map(cells));
        text.push_str(&aligned(&lines));
        for row in &self.rows {
            let [ours, peer] = [&row.ours, &row.peer].map(|side| side.beside.words());
            if !ours.is_empty() {
                let _ = writeln!(text, "{}: ours {ours}; peer {peer}", row.row);
            }
        }
        for missing in &self.unmeasured {
            let _ = writeln!(text, "{}: not measured: {}", missing.row, missing.why);
        }
        text
    }
}

fn cells(row: &RowRecord) -> [String; 12] {
    let range = |spread: &Spread| format!("{}..{}", short(spread.min), short(spread.max));
    let reached = match row.reached {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    };
    let target = if row.target.is_empty() {
        "-"
    } else {
        &row.target
    };
    [
        row.row.to_owned(),
        row.unit.word().to_owned(),
        short(row.ours.spread.median),
        short(row.peer.spread.median),
        format!("{:.2}", row.ratio.median),
        target.to_owned(),
        reached.to_owned(),
        format!("{}/{}", row.ours.dropped, row.peer.dropped),
        range(&row.ours.spread),
        range(&row.peer.spread),
        placed(&row.near),
        placed(&row.far),
    ]
}

/// The ratio of one placement and its rounds.
fn placed(place: &Option<Place>) -> String {
    let words = |place: &Place| format!("{:.2} ({})", place.ratio.median, place.rounds);
    place.as_ref().map_or_else(|| "-".to_owned(), words)
}

/// A number with three digits or so.
fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Columns one under the other.
fn aligned<const N: usize>(lines: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for line in lines {
        let mut shown = String::new();
        for (cell, width) in line.iter().zip(widths) {
            let _ = write!(shown, "{cell:width$}  ");
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::packets::PACKETS;
    use crate::cli::bench::rounds::Turn;
    use crate::cli::bench::row::{Sample, choose};

    fn round(ours: f64, peer: f64, counts: bool) -> Round {
        let turn = |value, dropped| Turn {
            sample: Sample {
                value,
                dropped,
                offered: 100,
                beside: Beside::default(),
            },
            others_used: 0.1,
        };
        Round {
            ours: turn(ours, 1),
            peer: turn(peer, 2),
            ratio: ours / peer,
            ping_pong_ns: [55.0; 3],
            placement: Some(Placement::Near),
            counts,
        }
    }

    fn record(rounds: Vec<Round>) -> Record {
        let rows = choose(PACKETS, &["memif-transmit".to_owned()]).expect("a row");
        Record {
            bench: "packets",
            against: "testpmd".to_owned(),
            versions: Vec::new(),
            commit: "abc".to_owned(),
            date: "today".to_owned(),
            machine: Machine::here(),
            configuration: Configuration {
                rounds: 3,
                seconds: 1.0,
                frame_bytes: Some(64),
                spinning_on: [0, 1],
                others: Others::Ignore,
                executor: "CPU",
                memory: "host memory",
            },
            rows: rows
                .into_iter()
                .map(|row| RowRecord::new(row, rounds.clone()))
                .collect(),
            unmeasured: vec![Unmeasured {
                row: "xdp-receive",
                why: "needs root; run it as root".to_owned(),
            }],
        }
    }

    #[test]
    fn a_row_is_the_medians_of_the_rounds_that_count() {
        let all = vec![
            round(12.0, 10.0, true),
            round(99.0, 1.0, false),
            round(11.0, 9.0, true),
            round(14.0, 11.0, true),
            // 1.20, 1.22 and 1.27 count.
        ];
        let record = record(all);
        let row = &record.rows[0];
        assert_eq!(
            (row.ours.spread.median, row.peer.spread.median),
            (12.0, 10.0)
        );
        assert_eq!((row.ours.dropped, row.peer.dropped), (3, 6));
        assert_eq!((row.ratio.median, row.reached), (11.0 / 9.0, Some(true)));
        assert_eq!(row.near.as_ref().map(|near| near.rounds), Some(3));
        assert!(row.far.is_none());
        let json: serde_json::Value = serde_json::from_str(&record.to_json()).expect("JSON");
        assert_eq!(json["rows"][0]["rounds"][1]["counts"], false);
        assert_eq!(json["rows"][0]["rounds"][0]["ours"]["value"], 12.0);
        assert_eq!(json["unmeasured"][0]["row"], "xdp-receive");
        assert_eq!(json["configuration"]["others"], "ignore");
    }

    #[test]
    fn a_missed_target_and_a_missing_row_stand_in_the_table() {
        let table = record(vec![round(9.0, 10.0, true)]).to_table();
        let line = table
            .lines()
            .find(|line| line.starts_with("memif-transmit"));
        let words: Vec<&str> = line.expect("a row").split_whitespace().collect();
        let want = ["Mpps", "9.00", "10.0", "0.90", ">=", "1.15", "no", "1/2"];
        assert_eq!(words[1..9], want);
        assert!(
            table.contains("xdp-receive: not measured: needs root"),
            "{table}"
        );
    }
}
