//! What can be measured: a table of rows.

use super::error::Error;
use super::setting::Setting;
use super::{memif, soft, wire, xdp};

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
}

impl Unit {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Mpps => "Mpps",
            Self::Nanoseconds => "ns",
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
            Self::AtMost(ratio) => format!("<= {ratio}"),
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
    /// Frames that it was given in the whole run.
    pub(super) offered: u64,
}

/// What a row cannot be measured without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    Root,
    Testpmd,
    TwoProcessors,
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
pub(super) fn choose(words: &[String]) -> Result<Vec<&'static Row>, String> {
    let known = |word: &str| ROWS.iter().any(|row| is_meant(row, word));
    if let Some(unknown) = words.iter().find(|word| !known(word)) {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        return Err(format!(
            "--rows: no row is called `{unknown}`; write some of {}",
            names.join(", ")
        ));
    }
    let chosen = |row: &&Row| words.is_empty() || words.iter().any(|word| is_meant(row, word));
    Ok(ROWS.iter().filter(chosen).collect())
}

fn is_meant(row: &Row, word: &str) -> bool {
    let rest = row.name.strip_prefix(word);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

const XDP: &[Need] = &[Need::Root, Need::Testpmd, Need::TwoProcessors];
const MEMIF: &[Need] = &[Need::Testpmd, Need::TwoProcessors];

/// All rows, in the order of the table.
const ROWS: &[Row] = &[
    Row {
        name: "memif-transmit",
        ours: "transmit kernel to testpmd rxonly",
        peer: "testpmd txonly to testpmd rxonly",
        unit: Unit::Mpps,
        target: Target::AtLeast(1.15),
        needs: MEMIF,
        measure: memif::transmit,
    },
    Row {
        name: "memif-round-trip",
        ours: "transmit kernel, testpmd macswap, receive_count kernel",
        peer: "testpmd flowgen, testpmd macswap, the same flowgen",
        unit: Unit::Mpps,
        target: Target::AtLeast(1.15),
        needs: MEMIF,
        measure: memif::round_trip,
    },
    Row {
        name: "memif-receive",
        ours: "transmit kernel to receive_count kernel",
        peer: "transmit kernel to testpmd rxonly",
        unit: Unit::Mpps,
        target: Target::AtLeast(1.15),
        needs: MEMIF,
        measure: memif::receive,
    },
    Row {
        name: "memif-swap",
        ours: "transmit and receive_count kernels around mac_swap kernel",
        peer: "transmit and receive_count kernels around testpmd macswap",
        unit: Unit::Mpps,
        target: Target::AtLeast(1.15),
        needs: MEMIF,
        measure: memif::swap,
    },
    Row {
        name: "xdp-receive",
        ours: "receive_count kernel on what the kernel generates",
        peer: "testpmd rxonly on net_af_xdp, the same generator",
        unit: Unit::Mpps,
        target: Target::AtLeast(1.2),
        needs: XDP,
        measure: xdp::receive,
    },
    Row {
        name: "xdp-transmit",
        ours: "transmit kernel to Linux",
        peer: "testpmd txonly on net_af_xdp to Linux",
        unit: Unit::Mpps,
        target: Target::AtLeast(1.15),
        needs: XDP,
        measure: xdp::transmit,
    },
    Row {
        name: "xdp-swap",
        ours: "mac_swap kernel between the generator in the kernel and Linux",
        peer: "testpmd macswap on net_af_xdp, the same generator and Linux",
        unit: Unit::Mpps,
        target: Target::AtLeast(1.1),
        needs: XDP,
        measure: xdp::swap,
    },
    Row {
        name: "soft",
        ours: "transmit and receive_count kernels around the device model",
        peer: "a bare ring between the processors, payload written and read",
        unit: Unit::Mpps,
        target: Target::Either {
            figure: 20.0,
            ratio: 1.0 / 3.0,
        },
        needs: &[Need::TwoProcessors],
        measure: soft::soft,
    },
    Row {
        name: "parse-mixed",
        ours: "fast path, eight kinds of frame mixed",
        peer: "etherparse SlicedPacket, the same frames",
        unit: Unit::Nanoseconds,
        target: Target::AtMost(0.5),
        needs: &[],
        measure: wire::parse_mixed,
    },
    Row {
        name: "parse-tag",
        ours: "slow path, one VLAN tag",
        peer: "etherparse SlicedPacket, the same frames",
        unit: Unit::Nanoseconds,
        target: Target::AtMost(0.5),
        needs: &[],
        measure: wire::parse_tag,
    },
    Row {
        name: "parse-ipv6-extensions",
        ours: "slow path, two IPv6 extension headers",
        peer: "etherparse SlicedPacket, the same frames",
        unit: Unit::Nanoseconds,
        target: Target::AtMost(0.5),
        needs: &[],
        measure: wire::parse_extensions,
    },
    icrc("icrc-device-64", DEVICE, wire::icrc_device::<64>),
    icrc("icrc-host-64", HOST, wire::icrc_host::<64>),
    icrc("icrc-device-256", DEVICE, wire::icrc_device::<256>),
    icrc("icrc-host-256", HOST, wire::icrc_host::<256>),
    icrc("icrc-device-1024", DEVICE, wire::icrc_device::<1024>),
    icrc("icrc-host-1024", HOST, wire::icrc_host::<1024>),
    icrc("icrc-device-4096", DEVICE, wire::icrc_device::<4096>),
    icrc("icrc-host-4096", HOST, wire::icrc_host::<4096>),
];

const DEVICE: &str = "invariant CRC by the arithmetic of device code";
const HOST: &str = "invariant CRC on the host";

const fn icrc(
    name: &'static str,
    ours: &'static str,
    measure: fn(&Setting, Side) -> Result<Sample, Error>,
) -> Row {
    Row {
        name,
        ours,
        peer: "crc32fast over as many bytes",
        unit: Unit::Nanoseconds,
        target: Target::None,
        needs: &[],
        measure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_rows() {
        let names = |words: &[&str]| -> Result<Vec<&str>, String> {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Ok(choose(&words)?.iter().map(|row| row.name).collect())
        };
        assert_eq!(names(&[]).map(|all| all.len()), Ok(ROWS.len()));
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
        for row in ROWS {
            let same = ROWS.iter().filter(|other| other.name == row.name);
            assert_eq!(same.count(), 1, "{}", row.name);
        }
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
