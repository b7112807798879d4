//! Linux as the peer: a responder that it pings, and a bump in the wire that it loads.

use super::cases::Case;
use super::namespaces::{End, Namespace};
use super::product::{Product, Report, Session};
use crate::Error;
use crate::process::Outcome;
use serde_json::Value;
use std::time::Duration;

/// How long loads last.
#[derive(Clone, Copy, Debug)]
pub struct Loads {
    /// Of each load.
    pub seconds: u64,
}

/// Pings, ARP and neighbour discovery against the stage `respond`.
///
/// # Errors
/// When a program fails in a way that is no verdict.
pub fn responder(product: &Product) -> Result<Vec<Case>, Error> {
    let mut cases = Vec::new();
    for (version, address) in [(4, OURS4), (6, OURS6)] {
        cases.extend(flood(product, version, address)?);
        cases.extend(large(product, version, address)?);
        cases.extend(fragments(product, version, address)?);
    }
    cases.extend(arping(product)?);
    cases.extend(ndisc(product)?);
    Ok(cases)
}

/// A Linux host `near`, and the responder at the other end of its cable.
struct Bench {
    near: Namespace,
    // Dropped after the session that runs in it.
    _far: Namespace,
    session: Session,
}

impl Bench {
    fn start(product: &Product) -> Result<Self, Error> {
        let near = Namespace::create("near")?;
        let far = Namespace::create("far")?;
        let own = End {
            name: "v0",
            mac: PEER_MAC,
            addresses: &["10.78.0.1/24", "fd78::1/64"],
        };
        let others = End {
            name: "v1",
            mac: OUR_MAC,
            addresses: &[],
        };
        near.cable(&own, &far, &others)?;
        let mut session = product.start(&far, "respond", RESPOND)?;
        session.wait_until(|| attached(&far, "v1"))?;
        Ok(Self {
            near,
            _far: far,
            session,
        })
    }

    fn attempt(&self, words: &str) -> Result<Outcome, Error> {
        self.near.attempt(words, PING)
    }

    fn finish(self) -> Result<Report, Error> {
        self.session.finish()
    }
}

/// Whether an XDP program is attached and its socket is bound: then frames come to us.
fn attached(space: &Namespace, interface: &str) -> bool {
    let words = format!("ip -details link show dev {interface}");
    space
        .run(&words, SHORT)
        .is_ok_and(|outcome| outcome.stdout.contains("prog/xdp"))
}

fn flood(product: &Product, version: u32, address: &str) -> Result<Vec<Case>, Error> {
    let bench = Bench::start(product)?;
    let words = format!("ping -{version} -q -f -c {FLOOD} -w 90 {address}");
    let (sent, received) = pinged(&bench.attempt(&words)?)?;
    let neighbour = bench.attempt(&format!("ip neigh show {address} dev v0"))?;
    let report = bench.finish()?;
    let answered = report.number(&format!("{RESPONDED}/echo_v{version}"))?;
    let by_kernel = |what: &str| report.number(&format!("/nics/0/{what}"));
    let polled = by_kernel("receive_provenance/device_calls")? > 0
        && by_kernel("transmit_provenance/descriptors_built")? >= answered;
    Ok(vec![
        case(
            format!("ping -{version} -f -c {FLOOD}"),
            format!("{answered} of {FLOOD} answered"),
            format!("{received} of {sent} answered"),
        ),
        case(
            format!("ping -{version} -f: frames lost"),
            lost(&report)?.to_string(),
            (sent - received).to_string(),
        ),
        case(
            format!("ping -{version} -f: who polls the AF_XDP rings, by what was counted"),
            if polled {
                "the kernel"
            } else {
                "somebody else"
            }
            .to_owned(),
            "the kernel".to_owned(),
        ),
        case(
            format!("address of the neighbour {address}"),
            OUR_MAC.to_owned(),
            after(&neighbour.stdout, "lladdr ").to_owned(),
        ),
    ])
}

/// The largest pings that fit a frame. `ping` compares what comes back byte by byte.
fn large(product: &Product, version: u32, address: &str) -> Result<Vec<Case>, Error> {
    let size = if version == 4 { 1472 } else { 1452 };
    let bench = Bench::start(product)?;
    let words = format!("ping -{version} -M do -s {size} -i 0.01 -c 100 -w 20 {address}");
    let outcome = bench.attempt(&words)?;
    let (sent, received) = pinged(&outcome)?;
    let report = bench.finish()?;
    let answered = report.number(&format!("{RESPONDED}/echo_v{version}"))?;
    Ok(vec![
        case(
            format!("ping -{version} -s {size}"),
            format!("{answered} of 100 answered"),
            format!("{received} of {sent} answered"),
        ),
        case(
            format!("ping -{version} -s {size}: wrong bytes"),
            "0".to_owned(),
            outcome
                .stdout
                .matches("wrong data byte")
                .count()
                .to_string(),
        ),
    ])
}

/// Pings in fragments are not answered, and every fragment is counted.
fn fragments(product: &Product, version: u32, address: &str) -> Result<Vec<Case>, Error> {
    let counter = if version == 4 {
        "IpFragCreates"
    } else {
        "Ip6FragCreates"
    };
    let bench = Bench::start(product)?;
    let words = format!("ping -{version} -q -s 4000 -i 0.2 -c 5 -W 1 {address}");
    let (_, received) = pinged(&bench.attempt(&words)?)?;
    let made = bench.near.counter(counter)?;
    let report = bench.finish()?;
    let counted = report.number(&format!("{RESPONDED}/fragments"))?;
    Ok(vec![case(
        format!("ping -{version} -s 4000: fragments counted, pings answered"),
        format!("{counted}, 0"),
        format!("{made}, {received}"),
    )])
}

fn arping(product: &Product) -> Result<Vec<Case>, Error> {
    let bench = Bench::start(product)?;
    let outcome = bench.attempt(&format!("arping -i v0 -c 5 -w 15 {OURS4}"))?;
    let report = bench.finish()?;
    let from = outcome
        .stdout
        .lines()
        .filter(|line| line.contains(&format!("from {OUR_MAC}")));
    Ok(vec![case(
        "arping -c 5: answers from our address".to_owned(),
        report.number(&format!("{RESPONDED}/arp"))?.to_string(),
        from.count().to_string(),
    )])
}

fn ndisc(product: &Product) -> Result<Vec<Case>, Error> {
    let bench = Bench::start(product)?;
    let outcome = bench.attempt(&format!("ndisc6 -1 -r 5 {OURS6} v0"))?;
    let report = bench.finish()?;
    let answers = report.number(&format!("{RESPONDED}/neighbour"))?;
    let target = after(&outcome.stdout, "Target link-layer address: ");
    Ok(vec![case(
        "ndisc6: the target's address".to_owned(),
        if answers > 0 { OUR_MAC } else { "no answer" }.to_owned(),
        target.to_lowercase(),
    )])
}

/// Loads through a forwarding pipeline between two interfaces, in both checksum modes.
///
/// # Errors
/// When a program fails in a way that is no verdict.
pub fn forwarder(product: &Product, loads: Loads) -> Result<Vec<Case>, Error> {
    let mut cases = Vec::new();
    for mode in [Checksums::Offloaded, Checksums::Complete] {
        for load in [Load::Tcp, Load::Udp] {
            for (version, address) in [(4, RIGHT4), (6, RIGHT6)] {
                // One family for the whole time, the other for a glance.
                let seconds = if version == 4 {
                    loads.seconds
                } else {
                    loads.seconds.min(5)
                };
                let wire = Wire::start(product, mode)?;
                cases.extend(wire.load(load, version, address, seconds)?);
            }
        }
    }
    Ok(cases)
}

/// Who completes the checksums of what Linux sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checksums {
    /// Its NIC would: frames come with the pseudo-header sum alone.
    Offloaded,
    /// Linux.
    Complete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Tcp,
    Udp,
}

/// Two Linux hosts, and the pipeline between them.
struct Wire {
    left: Namespace,
    right: Namespace,
    _middle: Namespace,
    session: Session,
    mode: Checksums,
}

impl Wire {
    fn start(product: &Product, mode: Checksums) -> Result<Self, Error> {
        let left = Namespace::create("left")?;
        let middle = Namespace::create("middle")?;
        let right = Namespace::create("right")?;
        for (host, name, mac, addresses) in [
            (
                &left,
                "l",
                "02:00:00:00:00:01",
                ["10.78.0.1/24", "fd78::1/64"],
            ),
            (
                &right,
                "r",
                "02:00:00:00:00:02",
                ["10.78.0.2/24", "fd78::2/64"],
            ),
        ] {
            let (inner, outer) = (format!("{name}0"), format!("{name}1"));
            let ours = mac.replace("02:00", "02:01");
            let own = End {
                name: &inner,
                mac,
                addresses: &addresses,
            };
            let others = End {
                name: &outer,
                mac: &ours,
                addresses: &[],
            };
            host.cable(&own, &middle, &others)?;
            if mode == Checksums::Complete {
                host.run(&format!("ethtool -K {inner} tx off"), SHORT)?;
            }
        }
        let mut session = product.start(&middle, "forward", FORWARD)?;
        session.wait_until(|| attached(&middle, "l1") && attached(&middle, "r1"))?;
        Ok(Self {
            left,
            right,
            _middle: middle,
            session,
            mode,
        })
    }

    fn load(self, load: Load, version: u32, address: &str, s: u64) -> Result<Vec<Case>, Error> {
        let mut server = self.right.start("iperf3 --server --one-off --forceflush")?;
        server.wait_until(SHORT, |stdout, _| stdout.contains("listening"))?;
        let how = match load {
            Load::Tcp => String::new(),
            Load::Udp => format!("--udp --bitrate {UDP_RATE} --length 1400"),
        };
        let words = format!("iperf3 --client {address} -{version} --time {s} --json {how}");
        let client = self.left.attempt(&words, Duration::from_secs(s) + SLACK)?;
        let told = Told::read(&client, load)?;
        drop(server);
        let wrong = self.right.counter(match load {
            Load::Tcp => "TcpInCsumErrors",
            Load::Udp if version == 4 => "UdpInCsumErrors",
            Load::Udp => "Udp6InCsumErrors",
        })?;
        let report = self.session.finish()?;
        let frames = report.number("/receives/0/received")?;
        let completed = report.number("/receives/0/checksums_completed")?;
        let protocol = if load == Load::Tcp { "tcp" } else { "udp" };
        let sums = match self.mode {
            Checksums::Offloaded => "sums left to the NIC",
            Checksums::Complete => "whole sums",
        };
        let name = |what: &str| format!("{protocol} v{version}, {s} s, {sums}: {what}");
        let mut cases = vec![
            case(name("error"), "none".to_owned(), told.error),
            case(
                name("every frame is sent or its drop counted"),
                report.adds_up().to_string(),
                "true".to_owned(),
            ),
            case(
                name("sums completed on the way, wrong sums"),
                format!("{}, 0", share(completed, frames)),
                match self.mode {
                    Checksums::Offloaded => format!("nearly all, {wrong}"),
                    Checksums::Complete => format!("hardly any, {wrong}"),
                },
            ),
        ];
        if load == Load::Udp {
            let full = self.right.counter(if version == 4 {
                "UdpRcvbufErrors"
            } else {
                "Udp6RcvbufErrors"
            })?;
            // iperf3 sees a loss by the datagram behind it, so it may see fewer than we count.
            let known = full + lost(&report)?;
            cases.push(case(
                name("datagrams lost that nobody counted"),
                "0".to_owned(),
                told.lost.saturating_sub(known).to_string(),
            ));
        }
        Ok(cases)
    }
}

/// A share in words. A whole sum is now and then the same as the pseudo-header's alone, and
/// completing it changes nothing: so none is never quite none.
fn share(part: u64, all: u64) -> &'static str {
    match part.saturating_mul(100) {
        hundred if hundred >= all.saturating_mul(80) => "nearly all",
        hundred if hundred <= all => "hardly any",
        _ => "some",
    }
}

/// What iperf3 says.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    error: String,
    lost: u64,
}

impl Told {
    fn read(client: &Outcome, load: Load) -> Result<Self, Error> {
        let value: Value = serde_json::from_str(&client.stdout).map_err(|error| Error::Failed {
            program: "iperf3".to_owned(),
            status: format!(
                "{}, and its words are no JSON: {error}",
                client.end_in_words()
            ),
            output: format!("{}{}", client.stdout, client.stderr),
        })?;
        let number = |pointer: &str| value.pointer(pointer).and_then(Value::as_u64);
        let moved = match load {
            Load::Tcp => number("/end/sum_received/bytes"),
            Load::Udp => number("/end/sum/packets"),
        };
        let error = match (value.pointer("/error").and_then(Value::as_str), moved) {
            (Some(error), _) => error.to_owned(),
            (None, None | Some(0)) => "nothing arrived".to_owned(),
            (None, Some(_)) => "none".to_owned(),
        };
        Ok(Self {
            error,
            lost: number("/end/sum/lost_packets").unwrap_or(0),
        })
    }
}

/// Frames that our side says it lost or dropped for want of room, anywhere.
fn lost(report: &Report) -> Result<u64, Error> {
    let mut lost = 0;
    for index in 0..report.length("/nics") {
        lost += report.sum(&format!("/nics/{index}/lost"))?;
    }
    for index in 0..report.length("/receives") {
        let reasons = report.table(&format!("/receives/{index}/dropped"))?;
        let full = reasons.iter().filter(|(name, _)| *name == "transmit_full");
        lost += full.map(|(_, frames)| frames).sum::<u64>();
    }
    Ok(lost)
}

/// Packets sent and received, as `ping` sums up.
fn pinged(outcome: &Outcome) -> Result<(u64, u64), Error> {
    let before = |word: &str| -> Option<u64> {
        outcome
            .stdout
            .split_once(word)?
            .0
            .rsplit([' ', '\n'])
            .next()?
            .parse()
            .ok()
    };
    match (before(" packets transmitted"), before(" received")) {
        (Some(sent), Some(received)) => Ok((sent, received)),
        _ => Err(Error::Failed {
            program: "ping".to_owned(),
            status: outcome.end_in_words(),
            output: format!("{}{}", outcome.stdout, outcome.stderr),
        }),
    }
}

/// The word behind `words`.
fn after<'a>(text: &'a str, words: &str) -> &'a str {
    let rest = text.split_once(words).map_or("nothing", |(_, rest)| rest);
    rest.split_whitespace().next().unwrap_or("nothing")
}

fn case(name: String, ours: String, judge: String) -> Case {
    Case {
        name: format!("linux: {name}"),
        ours,
        judge,
        explanation: None,
    }
}

const PEER_MAC: &str = "02:00:00:00:00:01";
const OUR_MAC: &str = "02:00:00:00:00:02";
const OURS4: &str = "10.78.0.2";
const OURS6: &str = "fd78::2";
const RIGHT4: &str = "10.78.0.2";
const RIGHT6: &str = "fd78::2";
const FLOOD: u64 = 10_000;
const UDP_RATE: &str = "100M";
const SHORT: Duration = Duration::from_secs(30);
const PING: Duration = Duration::from_secs(120);
const SLACK: Duration = Duration::from_secs(60);
const RESPONDED: &str = "/receives/0/stages/0/counters";

const RESPOND: &str = r#"
name = "respond"

[nic.wire]
open = "xdp:v1"
addresses = ["10.78.0.2/24", "fd78::2/64"]

[[receive]]
from = "wire"

[[receive.stage]]
do = "respond"

[[receive.stage]]
do = "drop"
"#;

const FORWARD: &str = r#"
name = "forward"

[nic.left]
open = "xdp:l1"
all = true

[nic.right]
open = "xdp:r1"
all = true

[[receive]]
from = "left"

[[receive.stage]]
do = "forward"
to = "right"
malformed = true

[[receive]]
from = "right"

[[receive.stage]]
do = "forward"
to = "left"
malformed = true
"#;
