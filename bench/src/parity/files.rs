//! Pipeline files as users write them: the examples, in a reduced size, with somebody at the other
//! end of every cable.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use warpwire::pipelines::{Ended, Kit, PipelineFile, Report, Runtime};
use warpwire_nic::pcap::Reader;

use super::seen::Seen;
use super::{Case, Machine};

/// A file, and what is changed of it.
struct Subject {
    name: &'static str,
    over: &'static str,
    text: &'static str,
    /// Each stands in the text once.
    changes: &'static [(&'static str, &'static str)],
    /// More tables.
    more: &'static str,
    /// Whether frames go over several queues, which have no order among themselves.
    spreads: bool,
}

/// Every comparison of files.
pub(super) fn cases() -> Vec<Case> {
    let case = |subject: &'static Subject| {
        Case::new(subject.name, subject.over, |machine, seed| {
            let (cpu, frames) = run(subject, &Machine::SCALAR, seed)
                .map_err(|error| format!("on the CPU: {error}"))?;
            let (found, _) = run(subject, machine, seed)?;
            found.compare(&cpu)?;
            Ok(frames)
        })
    };
    SUBJECTS.iter().map(case).collect()
}

/// Runs a file until its generators are done; what was seen, and frames that NICs received.
fn run(subject: &Subject, machine: &Machine, seed: u64) -> Result<(Seen, u64), String> {
    let folder = Folder::new()?;
    let kit = Kit::built_in();
    let text = text(subject, &folder.0, seed)?;
    let file = PipelineFile::parse(subject.name, &text, kit.catalogue());
    let mut file = file.map_err(|problems| problems.to_string())?;
    file.seed = seed;
    for generator in &mut file.generators {
        generator.count = FRAMES;
        // From a frame now and then to all of them at once.
        generator.rate = [100_000, 700_000, 5_000_000, 0][seed as usize % 4];
    }
    let words = |error: warpwire::pipelines::runtime::Error| error.to_string();
    let settings = machine.settings(seed);
    let mut runtime = Runtime::start_with(&file, &kit, settings).map_err(words)?;
    let ended = runtime.run(Some(LONGEST), &AtomicBool::new(false), |_| {});
    if ended == Ended::Failed {
        return Err(format!("failed: {:?}", runtime.warnings()));
    }
    let report = runtime.finish().whole().map_err(words)?;
    let mut seen = Seen::default();
    for receive in &file.receives {
        let name = &file.nics[receive.nic].name;
        let mut frames = captured(&folder.file(name))?;
        if subject.spreads {
            frames.sort();
        }
        seen.sent(name, frames);
    }
    facts(&report, &mut seen);
    let frames = report.receives.iter().map(|receive| receive.received).sum();
    Ok((seen, frames))
}

/// The text of a file, with a capture in front of everything that is received.
fn text(subject: &Subject, folder: &Path, seed: u64) -> Result<String, String> {
    let mut text = subject.text.to_owned();
    for (from, to) in subject.changes {
        if text.matches(from).count() != 1 {
            return Err(format!("`{from}` does not stand in it once"));
        }
        text = text.replace(from, to);
    }
    text.push_str(subject.more);
    text = text.replace("FOLDER", &folder.display().to_string());
    // Roles change sides.
    let roles = ["client", "server"];
    for (place, word) in ["ROLE-A", "ROLE-B"].iter().enumerate() {
        text = text.replace(word, roles[(place + seed as usize) % 2]);
    }
    let mut whole = String::new();
    let mut receives = false;
    for line in text.lines() {
        whole.push_str(line);
        whole.push('\n');
        if let Some(name) = line.strip_prefix("from = ").filter(|_| receives) {
            let name = name.trim_matches('"');
            let file = folder.join(name).display().to_string();
            whole.push_str(&format!(
                "[[receive.stage]]\ndo = \"sample\"\nname = \"capture\"\nfile = \"{file}\"\n"
            ));
        }
        receives = line == "[[receive]]";
    }
    Ok(whole)
}

fn captured(path: &Path) -> Result<Vec<Vec<u8>>, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut reader = Reader::new(&bytes[..]).map_err(|error| error.to_string())?;
    let mut frames = Vec::new();
    while let Some(record) = reader.next_record().map_err(|error| error.to_string())? {
        frames.push(record.bytes.to_vec());
    }
    Ok(frames)
}

/// All figures of a report but those that say how long things took and how often somebody looked.
fn facts(report: &Report, seen: &mut Seen) {
    let value = serde_json::to_value(report).unwrap_or_default();
    leaves("", &value, &mut |name, value| {
        if !UNSTEADY.iter().any(|word| name.contains(word)) {
            seen.fact(name, value);
        }
    });
}

fn leaves(name: &str, value: &Value, tell: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                leaves(&format!("{name}.{key}"), value, tell);
            }
        }
        Value::Array(list) => {
            for (place, value) in list.iter().enumerate() {
                leaves(&format!("{name}[{place}]"), value, tell);
            }
        }
        _ => tell(name, value),
    }
}

/// A folder that is gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("warpwire-parity-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is the system's to clean.
        let _ = fs::remove_dir_all(&self.0);
    }
}

const UNSTEADY: &[&str] = &[
    "elapsed",
    "executor",
    "threads",
    ".memory",
    ".file",
    "turns",
    "device_calls",
    "triggers",
    "choices",
    "open",
    "doorbells",
    "copied by the model",
];

macro_rules! example {
    ($name:literal) => {
        include_str!(concat!("../../../examples/pipelines/", $name))
    };
}

const SUBJECTS: &[Subject] = &[
    Subject {
        name: "demonstration.toml",
        over: "soft",
        text: example!("demonstration.toml"),
        changes: &[
            ("every = 1000", "every = 10"),
            ("warpwire-demonstration.pcapng", "FOLDER/shown.pcapng"),
        ],
        more: "",
        spreads: false,
    },
    Subject {
        name: "bump.toml",
        over: "soft",
        text: example!("bump.toml"),
        changes: &[
            (
                "open = \"xdp:veth0\"\nall = true",
                "open = \"soft\"\npeer = \"left\"",
            ),
            (
                "open = \"xdp:veth1\"\nall = true",
                "open = \"soft\"\npeer = \"right\"",
            ),
            ("every = 1000", "every = 10"),
            ("inside.pcapng", "FOLDER/shown.pcapng"),
        ],
        more: BOTH_SIDES,
        spreads: false,
    },
    Subject {
        name: "responder.toml",
        over: "soft",
        text: example!("responder.toml"),
        changes: &[("open = \"xdp:veth0\"", "open = \"soft\"\npeer = \"left\"")],
        more: CALLERS,
        spreads: false,
    },
    Subject {
        name: "rdma-gate.toml",
        over: "soft",
        text: example!("rdma-gate.toml"),
        changes: &[
            ("open = \"soft:fabric\"", "open = \"soft\"\npeer = \"left\""),
            ("open = \"soft:host\"", "open = \"soft\"\npeer = \"right\""),
        ],
        more: WRITERS,
        spreads: false,
    },
    Subject {
        name: "spread.toml",
        over: "soft",
        text: example!("spread.toml"),
        changes: &[
            ("open = \"soft:wire\"", "open = \"soft\"\npeer = \"left\""),
            (
                "open = \"soft:workers\"",
                "open = \"soft\"\npeer = \"right\"",
            ),
        ],
        more: FLOWS,
        spreads: true,
    },
    Subject {
        name: "macswap.toml",
        over: "memif",
        text: example!("macswap.toml"),
        changes: &[
            (
                "open = \"memif:/tmp/memif.sock\"",
                "open = \"memif:FOLDER/socket\"",
            ),
            ("role = \"server\"", "role = \"ROLE-A\""),
        ],
        more: OTHER_END,
        spreads: false,
    },
    Subject {
        name: "every stage",
        over: "soft scattered",
        text: EVERY_STAGE,
        changes: &[],
        more: "",
        spreads: true,
    },
];

const BOTH_SIDES: &str = r#"
[nic.left]
open = "soft"
peer = "inside"
[nic.right]
open = "soft"
peer = "outside"
[[generate]]
from = "left"
[[generate.frame]]
kind = "dns"
flows = 5
[[generate.frame]]
kind = "http"
weight = 2
flows = 3
[[generate.frame]]
kind = "cut"
[[generate.frame]]
kind = "udp"
vlan = 7
length = 1200
[[generate]]
from = "right"
[[generate.frame]]
kind = "tcp"
flows = 9
[[generate.frame]]
kind = "ping"
[[receive]]
from = "left"
[[receive.stage]]
do = "drop"
[[receive]]
from = "right"
[[receive.stage]]
do = "drop"
"#;

const CALLERS: &str = r#"
[nic.left]
open = "soft"
peer = "wire"
[[generate]]
from = "left"
[[generate.frame]]
kind = "arp"
source = "10.78.0.1"
destination = "10.78.0.2"
[[generate.frame]]
kind = "ping"
source = "10.78.0.1"
destination = "10.78.0.2"
flows = 4
length = 333
[[generate.frame]]
kind = "ping"
name = "ping6"
source = "fd78::1"
destination = "fd78::2"
[[generate.frame]]
kind = "ping"
name = "stranger"
destination = "10.78.0.9"
[[generate.frame]]
kind = "cut"
[[receive]]
from = "left"
[[receive.stage]]
do = "classify"
[[receive.stage]]
do = "verify"
[[receive.stage]]
do = "drop"
"#;

const WRITERS: &str = r#"
[nic.left]
open = "soft"
peer = "fabric"
[nic.right]
open = "soft"
peer = "host"
[[generate]]
from = "left"
[[generate.frame]]
kind = "roce"
opcode = "0x06"
qp = 0x11
length = 1082
[[generate.frame]]
kind = "roce"
name = "ack"
opcode = "0x11"
qp = 0x1f
[[generate.frame]]
kind = "roce"
name = "elsewhere"
opcode = "0x0a"
qp = 0x20
[[generate.frame]]
kind = "roce"
name = "refused"
source = "192.0.2.5"
opcode = "0x0a"
qp = 0x12
[[generate.frame]]
kind = "udp"
[[generate.frame]]
kind = "cut"
[[receive]]
from = "right"
[[receive.stage]]
do = "verify"
[[receive.stage]]
do = "drop"
"#;

const FLOWS: &str = r#"
[nic.left]
open = "soft"
peer = "wire"
[nic.right]
open = "soft"
peer = "workers"
[[generate]]
from = "left"
[[generate.frame]]
kind = "udp"
weight = 3
flows = 64
[[generate.frame]]
kind = "tcp"
flows = 16
[[generate.frame]]
kind = "roce"
[[generate.frame]]
kind = "cut"
[[receive]]
from = "right"
[[receive.stage]]
do = "classify"
[[receive.stage]]
do = "drop"
"#;

const OTHER_END: &str = r#"
[nic.near]
open = "memif:FOLDER/socket"
role = "ROLE-B"
[[generate]]
from = "near"
[[generate.frame]]
kind = "udp"
flows = 7
length = 700
[[generate.frame]]
kind = "ping"
[[generate.frame]]
kind = "cut"
[[receive]]
from = "near"
[[receive.stage]]
do = "classify"
[[receive.stage]]
do = "drop"
"#;

const EVERY_STAGE: &str = r#"
[nic.gen]
open = "soft"
peer = "a"
[nic.a]
open = "soft"
peer = "gen"
segments = 4
addresses = ["10.0.0.1", "fd00::1"]
[nic.b]
open = "soft"
peer = "sink"
queues = 2
segments = 4
[nic.sink]
open = "soft"
peer = "b"
[[generate]]
from = "gen"
[[generate.frame]]
kind = "udp"
weight = 3
flows = 64
length = 1400
[[generate.frame]]
kind = "tcp"
flows = 16
destination_port = 2000
[[generate.frame]]
kind = "dns"
[[generate.frame]]
kind = "http"
[[generate.frame]]
kind = "roce"
opcode = "0x04"
[[generate.frame]]
kind = "ping"
destination = "10.0.0.1"
length = 1000
[[generate.frame]]
kind = "udp"
name = "refused"
vlan = 99
[[generate.frame]]
kind = "cut"
[[receive]]
from = "a"
[[receive.stage]]
do = "classify"
[[receive.stage]]
do = "count"
name = "udp"
when = { protocol = "udp" }
[[receive.stage]]
do = "verify"
[[receive.stage]]
do = "respond"
[[receive.stage]]
do = "dns"
[[receive.stage]]
do = "http"
[[receive.stage]]
do = "filter"
deny = [{ vlan = 99 }]
allow = [{ kind = ["udp", "tcp", "rocev2", "icmpv4"] }]
[[receive.stage]]
do = "rewrite"
when = { destination_port = 2000 }
destination = "198.51.100.9"
decrement_ttl = true
[[receive.stage]]
do = "reply"
when = { roce_opcode = "0x04" }
[[receive.stage]]
do = "spread"
to = "b"
when = { protocol = "udp" }
[[receive.stage]]
do = "forward"
to = "b"
[[receive]]
from = "sink"
[[receive.stage]]
do = "verify"
[[receive.stage]]
do = "drop"
[[receive]]
from = "gen"
[[receive.stage]]
do = "drop"
"#;

/// Frames that each generator sends: fewer than any ring has slots, so that none is lost for the
/// time that a kernel takes.
const FRAMES: u64 = 120;
/// Of virtual time, where nothing says that all is done.
const LONGEST: Duration = Duration::from_millis(40);
