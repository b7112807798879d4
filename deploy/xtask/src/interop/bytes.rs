//! scapy and zlib as judges of bytes: what our stages build or rewrite, and the ICRC.

use super::captures::Capture;
use super::cases::Case;
use super::product::{Product, Run};
use crate::Error;
use crate::process::{self, Show};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Debian's Python, which has Debian's scapy; another one may come first on `PATH`.
const PYTHON: &str = "/usr/bin/python3";
const LIMIT: Duration = Duration::from_secs(300);

/// The judge's script.
#[derive(Clone, Debug)]
pub struct Script {
    path: PathBuf,
}

impl Script {
    /// The one of this repository.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        Self {
            path: root.join("bench/judges/frames.py"),
        }
    }

    fn run(&self, words: &[&str], captures: &[Capture], folder: &Path) -> Result<String, Error> {
        let mut command = Command::new(PYTHON);
        // No compiled copies beside the script.
        command.arg("-B").arg(&self.path).args(words).arg(folder);
        command.args(captures.iter().map(|capture| &capture.path));
        process::run_well(&mut command, LIMIT, Show::Nothing).map(|outcome| outcome.stdout)
    }
}

/// Frames that stages build and rewrite, byte by byte.
///
/// # Errors
/// When a program fails in a way that is no verdict.
pub fn rewritten(product: &Product, script: &Script) -> Result<Vec<Case>, Error> {
    script.run(&["build"], &[], product.folder())?;
    for (group, stages) in GROUPS {
        let pipeline = format!(
            "name = \"{group}\"\n\n[nic.file]\nopen = \"pcap:{group}.in.pcap\"\n\
             record = \"{group}.out.pcap\"\n{}\n[[receive]]\nfrom = \"file\"\n{stages}",
            if group == "respond" { ADDRESSES } else { "" },
        );
        if let Run::Refused(words) = product.run(group, &pipeline)? {
            return Err(Error::content(format!("{group}.toml"), words));
        }
    }
    let told = script.run(&["judge"], &[], product.folder())?;
    let cases = told.lines().map(|line| {
        let mut cells = line.split('\t').map(str::to_owned);
        let mut next = || cells.next().unwrap_or_default();
        Case {
            name: format!("scapy: {}", next()),
            ours: next(),
            judge: next(),
            explanation: None,
        }
    });
    Ok(cases.collect())
}

/// The ICRC of Soft-RoCE's packets: every one holds, and none does with a flipped bit.
///
/// # Errors
/// When a program fails in a way that is no verdict.
pub fn icrc(product: &Product, script: &Script, captures: &[Capture]) -> Result<Vec<Case>, Error> {
    let told = script.run(&["flip"], captures, product.folder())?;
    let numbers: Vec<u64> = told
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let &[right, flipped, right_though_flipped] = numbers.as_slice() else {
        return Err(Error::content(&script.path, format!("prints {told}")));
    };
    let report = match product.run("icrc", VERIFY)? {
        Run::Report(report) => report,
        Run::Refused(words) => return Err(Error::content("icrc.toml", words)),
    };
    let passed = report.number("/receives/0/stages/1/frames")?;
    let kinds = format!("{right} kinds of packet");
    Ok(vec![
        Case {
            name: format!("icrc: {kinds} and {flipped} copies with one bit flipped: right"),
            ours: passed.to_string(),
            judge: (right + right_though_flipped).to_string(),
            explanation: None,
        },
        Case {
            name: "icrc: every frame was looked at".to_owned(),
            ours: report.number("/receives/0/received")?.to_string(),
            judge: (right + flipped).to_string(),
            explanation: None,
        },
    ])
}

/// The ICRC of every RoCEv2 packet of the captures of Soft-RoCE holds.
///
/// # Errors
/// When a program fails in a way that is no verdict.
pub fn soft_roce(
    product: &Product,
    script: &Script,
    captures: &[Capture],
) -> Result<Vec<Case>, Error> {
    let told = script.run(&["icrc"], captures, product.folder())?;
    let mut cases = Vec::new();
    for (capture, line) in captures.iter().zip(told.lines()) {
        super::play::show(product, capture)?;
        let report = match product.run("verify", VERIFY_CAPTURE)? {
            Run::Report(report) => report,
            Run::Refused(words) => return Err(Error::content(&capture.path, words)),
        };
        let right = report.number("/receives/0/stages/1/frames")?;
        let dropped = report.table("/receives/0/dropped")?;
        let wrong = dropped
            .iter()
            .find(|(name, _)| *name == "icrc")
            .map_or(0, |(_, n)| *n);
        cases.push(Case {
            name: format!("icrc: {}: right, wrong", capture.name),
            ours: format!("{right}, {wrong}"),
            judge: line.to_owned(),
            explanation: None,
        });
    }
    Ok(cases)
}

const ADDRESSES: &str = "addresses = [\"10.78.0.2/24\", \"fd78::2/64\"]\n";

/// What each group of the script's cases goes through.
const GROUPS: [(&str, &str); 5] = [
    (
        "respond",
        "\n[[receive.stage]]\ndo = \"respond\"\n\n[[receive.stage]]\ndo = \"drop\"\n",
    ),
    (
        "macswap",
        "\n[[receive.stage]]\ndo = \"rewrite\"\nswap_macs = true\n\n\
         [[receive.stage]]\ndo = \"reply\"\n",
    ),
    (
        "hop",
        "\n[[receive.stage]]\ndo = \"rewrite\"\nswap_macs = true\ndecrement_ttl = true\n\n\
         [[receive.stage]]\ndo = \"reply\"\n",
    ),
    (
        "rewrite",
        "\n[[receive.stage]]\ndo = \"rewrite\"\nsource_mac = \"02:00:00:00:00:0c\"\n\
         destination_mac = \"02:00:00:00:00:0d\"\nsource = \"192.0.2.7\"\n\
         destination = \"198.51.100.9\"\nsource_port = 4444\nttl = 77\ndscp = 26\nvlan = 99\n\n\
         [[receive.stage]]\ndo = \"reply\"\n",
    ),
    (
        "rewrite6",
        "\n[[receive.stage]]\ndo = \"rewrite\"\nswap_macs = true\nsource = \"2001:db8::7\"\n\
         destination = \"2001:db8::9\"\ndestination_port = 5555\n\n\
         [[receive.stage]]\ndo = \"reply\"\n",
    ),
];

const VERIFY: &str = r#"
name = "icrc"

[nic.file]
open = "pcap:icrc.in.pcap"

[[receive]]
from = "file"

[[receive.stage]]
do = "verify"
checks = ["icrc"]

[[receive.stage]]
do = "count"
name = "right"
when = { roce_opcode = "0x00-0xff", malformed = false }

[[receive.stage]]
do = "drop"
"#;

const VERIFY_CAPTURE: &str = r#"
name = "verify"

[nic.file]
open = "pcap:capture"

[[receive]]
from = "file"

[[receive.stage]]
do = "verify"

[[receive.stage]]
do = "count"
name = "right"
when = { roce_opcode = "0x00-0xff", malformed = false }

[[receive.stage]]
do = "drop"
"#;
