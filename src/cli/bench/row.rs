//! What can be measured: a table of rows.

use super::error::Error;
use super::setting::Setting;

/// One comparison.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// What the product does.
    pub(super) ours: &'static str,
    /// What it is compared with.
    pub(super) peer: &'static str,
    pub(super) unit: Unit,
    pub(super) target: Target,
    pub(super) needs: &'static [Need],
    /// Measures one side once.
    pub(super) measure: fn(&Setting, Side) -> Result<Sample, Error>,
}

/// Whose figure is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Ours,
    Peer,
}

/// What a figure counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub(super) enum Unit {
    /// Million frames a second.
    #[serde(rename = "Mpps")]
    Mpps,
    /// Nanoseconds a packet: less is better.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Million messages a second.
    #[serde(rename = "Mmsg/s")]
    Mmps,
    /// Gigabytes a second.
    #[serde(rename = "GB/s")]
    Gigabytes,
    /// Microseconds one way, or there and back where the row says so: less is better.
    #[serde(rename = "us")]
    Microseconds,
    /// Gigabits a second, of what applications get.
    #[serde(rename = "Gbit/s")]
    Gigabits,
    /// Connections a second, in thousands.
    #[serde(rename = "k/s")]
    Thousands,
}

impl Unit {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Mpps => "Mpps",
            Self::Nanoseconds => "ns",
            Self::Mmps => "Mmsg/s",
            Self::Gigabytes => "GB/s",
            Self::Microseconds => "us",
            Self::Gigabits => "Gbit/s",
            Self::Thousands => "k/s",
        }
    }
}

/// What a row is meant to reach.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Target {
    /// Our figure over the peer's is this or more.
    AtLeast(f64),
    /// Our figure over the peer's is this or less.
    AtMost(f64),
    /// Nothing: the figure is for information.
    None,
    /// Our figure is this or more, or its ratio to the peer's is.
    Either { figure: f64, ratio: f64 },
}

impl Target {
    /// In the words of the table.
    pub(super) fn words(self) -> String {
        match self {
            Self::AtLeast(ratio) => format!(">= {ratio}"),
            Self::AtMost(ratio) => format!("<= {}", (ratio * 100.0).round() / 100.0),
            Self::None => String::new(),
            Self::Either { figure, ratio } => format!("{figure} or >= {ratio:.2}"),
        }
    }

    /// Whether our median and the median ratio reach it; `None` if there is nothing to reach.
    pub(super) fn reached(self, ours: f64, ratio: f64) -> Option<bool> {
        match self {
            Self::AtLeast(least) => Some(ratio >= least),
            Self::AtMost(most) => Some(ratio <= most),
            Self::None => None,
            Self::Either {
                figure: enough,
                ratio: least,
            } => Some(ours >= enough || ratio >= least),
        }
    }
}

/// One figure of one side.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub(super) struct Sample {
    /// In the row's unit.
    pub(super) value: f64,
    /// Frames that the side lost in the whole run, its start and end included.
    pub(super) dropped: u64,
    /// Frames that it was given in the whole run; messages, bytes, requests or connections where
    /// these are counted.
    pub(super) offered: u64,
    #[serde(flatten)]
    pub(super) beside: Beside,
}

/// What else was found while a figure was taken.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize)]
pub(super) struct Beside {
    /// Processor time of both ends for 1,024 bytes, in nanoseconds, spinning included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ns_per_kib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) percentiles_us: Option<Percentiles>,
}

/// How long each of many took, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize)]
pub(super) struct Percentiles {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p99_9: f64,
    pub(super) max: f64,
}

impl Percentiles {
    /// Of times in nanoseconds, in any order; all 0 if there are none.
    pub(super) fn of(mut times_ns: Vec<u64>) -> Self {
        times_ns.sort_unstable();
        let at = |per_mille: usize| {
            let last = times_ns.len().saturating_sub(1);
            let place = (times_ns.len() * per_mille / 1000).min(last);
            times_ns.get(place).map_or(0.0, |time| *time as f64 / 1e3)
        };
        Self {
            p50: at(500),
            p90: at(900),
            p99: at(990),
            p99_9: at(999),
            max: at(1000),
        }
    }
}

impl Beside {
    /// Medians of several, of each that all have.
    pub(super) fn medians(all: &[Self]) -> Self {
        let median = |value: fn(&Self) -> Option<f64>| {
            let mut values: Vec<f64> = all.iter().filter_map(value).collect();
            values.sort_unstable_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        let time = |value: fn(&Percentiles) -> f64| {
            let all = all.iter().filter_map(|one| one.percentiles_us.as_ref());
            let mut values: Vec<f64> = all.map(value).collect();
            values.sort_unstable_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        let percentiles = || {
            Some(Percentiles {
                p50: time(|one| one.p50)?,
                p90: time(|one| one.p90)?,
                p99: time(|one| one.p99)?,
                p99_9: time(|one| one.p99_9)?,
                max: time(|one| one.max)?,
            })
        };
        Self {
            ns_per_kib: median(|one| one.ns_per_kib),
            percentiles_us: percentiles(),
        }
    }

    /// In words; empty if nothing was found.
    pub(super) fn words(&self) -> String {
        if let Some(times) = &self.percentiles_us {
            let Percentiles {
                p50,
                p90,
                p99,
                p99_9,
                max,
            } = times;
            return format!(
                "p50 {p50:.1}, p90 {p90:.1}, p99 {p99:.1}, p99.9 {p99_9:.1}, max {max:.1} us"
            );
        }
        self.ns_per_kib
            .map_or_else(String::new, |time| format!("{time:.0} ns a KiB"))
    }
}

/// What a row cannot be measured without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    Root,
    Testpmd,
    TwoProcessors,
    Ucx,
    Libfabric,
    Ethtool,
}

impl Need {
    /// Whether it is there.
    pub(super) fn check(self) -> Result<(), Error> {
        let (there, what, cure) = match self {
            Self::Root => (
                warpwire_ptx::process::is_root(),
                "root, for network namespaces and AF_XDP",
                "run it as root",
            ),
            Self::Testpmd => (
                super::machine::has_program("dpdk-testpmd"),
                "dpdk-testpmd",
                "apt-get install dpdk-dev",
            ),
            Self::Ucx => (
                super::machine::has_program("ucx_perftest"),
                "ucx_perftest",
                "apt-get install ucx-utils",
            ),
            Self::Libfabric => (
                super::machine::has_program("fi_pingpong"),
                "fi_pingpong",
                "apt-get install libfabric-bin",
            ),
            Self::Ethtool => (
                super::machine::has_program("ethtool"),
                "ethtool",
                "apt-get install ethtool",
            ),
            Self::TwoProcessors => (
                super::machine::processors() >= 2,
                "two processors",
                "run it where this process may use two",
            ),
        };
        match there {
            true => Ok(()),
            false => Err(Error::Missing { what, cure }),
        }
    }
}

/// The rows that some words choose: each word is a row, or the start of several up to a hyphen.
/// None chooses all.
pub(super) fn choose(rows: &'static [Row], words: &[String]) -> Result<Vec<&'static Row>, String> {
    let known = |word: &str| rows.iter().any(|row| is_meant(row, word));
    if let Some(unknown) = words.iter().find(|word| !known(word)) {
        let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        return Err(format!(
            "--rows: no row is called `{unknown}`; write some of {}",
            names.join(", ")
        ));
    }
    let chosen = |row: &&Row| words.is_empty() || words.iter().any(|word| is_meant(row, word));
    Ok(rows.iter().filter(chosen).collect())
}

fn is_meant(row: &Row, word: &str) -> bool {
    let rest = row.name.strip_prefix(word);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::messages::MESSAGES;
    use crate::cli::bench::packets::PACKETS;
    use crate::cli::bench::streams::STREAMS;

    #[test]
    fn words_choose_rows() {
        let names = |words: &[&str]| -> Result<Vec<&str>, String> {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Ok(choose(PACKETS, &words)?
                .iter()
                .map(|row| row.name)
                .collect())
        };
        assert_eq!(names(&[]).map(|all| all.len()), Ok(PACKETS.len()));
        assert_eq!(names(&["soft"]), Ok(vec!["soft"]));
        let both = names(&["memif-swap", "memif-transmit"]);
        assert_eq!(both, Ok(vec!["memif-transmit", "memif-swap"]));
        assert_eq!(names(&["memif"]).map(|some| some.len()), Ok(4));
        for wrong in ["mem", "memif-", "soft-nic", ""] {
            let error = names(&["soft", wrong]).expect_err(wrong);
            assert!(error.contains(&format!("`{wrong}`")), "{error}");
            assert!(error.contains("memif-transmit, "), "{error}");
        }
    }

    #[test]
    fn rows_have_names_of_their_own() {
        for rows in [PACKETS, MESSAGES, STREAMS] {
            for row in rows {
                let same = rows.iter().filter(|other| other.name == row.name);
                assert_eq!(same.count(), 1, "{}", row.name);
            }
        }
    }

    #[test]
    fn times_become_percentiles_and_medians_of_them() {
        let all =
            |from: u64| Percentiles::of((from..from + 1000).rev().map(|n| n * 1000).collect());
        let (one, other) = (all(0), all(10));
        assert_eq!((one.p50, one.p90, one.p99), (500.0, 900.0, 990.0));
        assert_eq!((one.p99_9, one.max), (999.0, 999.0));
        assert_eq!(Percentiles::of(Vec::new()), Percentiles::default());
        let beside = |ns_per_kib, percentiles_us| Beside {
            ns_per_kib,
            percentiles_us,
        };
        let rounds = [one, other, other].map(|times| beside(None, Some(times)));
        assert_eq!(Beside::medians(&rounds), beside(None, Some(other)));
        let rounds = [3.0, 1.0, 2.0].map(|time| beside(Some(time), None));
        assert_eq!(Beside::medians(&rounds), beside(Some(2.0), None));
        assert_eq!(Beside::medians(&[]), Beside::default());
        assert_eq!(Beside::default().words(), "");
    }

    #[test]
    fn targets_say_what_reaches_them() {
        let either = Target::Either {
            figure: 20.0,
            ratio: 0.3,
        };
        let cases = [
            (Target::None, 1.0, 9.0, None),
            (Target::AtMost(0.5), 9.0, 0.5, Some(true)),
            (Target::AtMost(0.5), 0.1, 0.51, Some(false)),
            (Target::AtLeast(1.15), 1.0, 1.15, Some(true)),
            (Target::AtLeast(1.15), 99.0, 1.14, Some(false)),
            (either, 20.0, 0.1, Some(true)),
            (either, 19.0, 0.3, Some(true)),
            (either, 19.0, 0.2, Some(false)),
        ];
        for (target, ours, ratio, want) in cases {
            assert_eq!(
                target.reached(ours, ratio),
                want,
                "{target:?} {ours} {ratio}"
            );
        }
    }
}
