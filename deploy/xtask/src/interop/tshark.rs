//! tshark as the judge of what is in a capture.
//!
//! It is asked about the outermost headers only, as our parser reads them: every dissector but
//! those of Ethernet, tags, IP, UDP, TCP and InfiniBand is off, so that no tunnel, no heuristic and
//! no reassembly speaks for a frame. Its own configuration folder keeps a user's preferences out.

use super::counts::{Counts, Field};
use crate::Error;
use crate::process::{self, Show};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A tshark that is set up to judge.
#[derive(Clone, Debug)]
pub struct Tshark {
    configuration: PathBuf,
}

/// What tshark says about a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Every frame is an Ethernet frame: the counts.
    Ethernet(Counts),
    /// Some frames are not; the name of the first other encapsulation's number.
    Other(u32),
}

impl Tshark {
    /// Writes the list of dissectors that are off below `folder`.
    ///
    /// # Errors
    /// When tshark does not run or the folder cannot be written.
    pub fn set_up(folder: &Path) -> Result<Self, Error> {
        let configuration = folder.join("tshark");
        std::fs::create_dir_all(&configuration)
            .map_err(|source| Error::file(&configuration, source))?;
        let tshark = Self { configuration };
        let mut command = tshark.command();
        command.args(["-G", "protocols"]);
        let outcome = process::run_well(&mut command, LIMIT, Show::Nothing)?;
        let names = outcome
            .stdout
            .lines()
            .filter_map(|line| line.split('\t').nth(2));
        let off: Vec<&str> = names.filter(|name| !is_kept(name)).collect();
        let path = tshark.configuration.join("disabled_protos");
        std::fs::write(&path, off.join("\n") + "\n")
            .map_err(|source| Error::file(&path, source))?;
        Ok(tshark)
    }

    /// Counts a capture.
    ///
    /// # Errors
    /// When tshark fails, or says what this reader does not understand.
    pub fn judge(&self, capture: &Path) -> Result<Judgement, Error> {
        let mut command = self.command();
        command.arg("-n").arg("-r").arg(capture);
        for preference in PREFERENCES {
            command.args(["-o", preference]);
        }
        command.args(["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"]);
        for column in COLUMNS {
            command.args(["-e", column]);
        }
        let outcome = process::run_well(&mut command, LIMIT, Show::Nothing)?;
        read(&outcome.stdout).map_err(|problem| Error::content(capture, problem))
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tshark");
        command.env("WIRESHARK_CONFIG_DIR", &self.configuration);
        command
    }
}

/// Whether a dissector stays on.
fn is_kept(name: &str) -> bool {
    const KEPT: [&str; 10] = [
        "frame",
        "eth",
        "ethertype",
        "ieee8021ad",
        "vlan",
        "ip",
        "ipv6",
        "udp",
        "tcp",
        "infiniband",
    ];
    // Names with an underscore in front are the program's own, and no protocols.
    let own = ["_ws.", "ipv6.routing", "file"]
        .iter()
        .any(|part| name.starts_with(part));
    let extensions = ["ipv6.hopopts", "ipv6.dstopts", "ipv6.fraghdr"];
    own || KEPT.contains(&name) || extensions.contains(&name)
}

/// Reads the lines of all frames.
fn read(lines: &str) -> Result<Judgement, String> {
    let mut counts = Counts::default();
    for line in lines.lines() {
        let frame = Frame {
            cells: line.split('\t').collect(),
        };
        let encapsulation = frame.number("frame.encap_type", 0)?;
        if encapsulation != Some(ETHERNET) {
            return Ok(Judgement::Other(encapsulation.unwrap_or(0)));
        }
        counts.add(Field::Frames, 0, 1);
        frame.count(&mut counts)?;
    }
    Ok(Judgement::Ethernet(counts))
}

/// A line: one cell a column of [`COLUMNS`], in a cell all occurrences from outside to inside.
struct Frame<'a> {
    cells: Vec<&'a str>,
}

impl<'a> Frame<'a> {
    fn cell(&self, column: &str) -> &'a str {
        let at = COLUMNS.iter().position(|name| *name == column);
        at.and_then(|at| self.cells.get(at)).copied().unwrap_or("")
    }

    /// The occurrence `index` of a column.
    fn number(&self, column: &str, index: usize) -> Result<Option<u32>, String> {
        let cell = self.cell(column);
        let Some(text) = cell.split(',').nth(index).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let number = match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => text.parse(),
        };
        let wrong = |_| format!("tshark says `{text}` for {column}, which is no number");
        number.map(Some).map_err(wrong)
    }

    /// Walks the headers from outside in, as far as our parser follows.
    fn count(&self, counts: &mut Counts) -> Result<(), String> {
        let mut layers = self.cell("frame.protocols").split(':').peekable();
        if layers.next() != Some("eth") {
            return Ok(());
        }
        let mut ether_type = self.number("eth.type", 0)?;
        let (mut vlans, mut provider_tags, mut tags) = (0, 0, 0);
        while let Some(&layer) = layers.peek() {
            let vlan = match layer {
                "ethertype" => {
                    layers.next();
                    continue;
                }
                "vlan" => {
                    ether_type = self.number("vlan.etype", vlans)?;
                    vlans += 1;
                    self.number("vlan.id", vlans - 1)?
                }
                "ieee8021ad" => {
                    // Its dissector borrows this field of 802.1ah.
                    ether_type = self.number("ieee8021ah.etype", provider_tags)?;
                    provider_tags += 1;
                    self.number("ieee8021ad.id", provider_tags - 1)?
                }
                _ => break,
            };
            layers.next();
            tags += 1;
            let field = match tags {
                1 => Field::Vlan,
                2 => Field::InnerVlan,
                _ => continue,
            };
            count(counts, field, vlan);
        }
        count(counts, Field::EtherType, ether_type);
        self.count_network(counts, &mut layers)
    }

    fn count_network<I: Iterator<Item = &'a str>>(
        &self,
        counts: &mut Counts,
        layers: &mut std::iter::Peekable<I>,
    ) -> Result<(), String> {
        let mut protocol = match layers.next() {
            Some("ip") => self.number("ip.proto", 0)?,
            Some("ipv6") => self.number("ipv6.nxt", 0)?,
            _ => return Ok(()),
        };
        let mut seen = Vec::new();
        while let Some(&layer) = layers.peek() {
            let Some(column) = EXTENSIONS
                .iter()
                .find(|name| name.strip_suffix(".nxt") == Some(layer))
            else {
                break;
            };
            let index = seen.iter().filter(|name| *name == column).count();
            // A header that is cut short has no such field: what came before it stands.
            protocol = self.number(column, index)?.or(protocol);
            seen.push(*column);
            layers.next();
        }
        count(counts, Field::Protocol, protocol);
        let (source, destination, columns) = match layers.next() {
            Some("tcp") => {
                let columns = ["tcp.srcport", "tcp.dstport"];
                (Field::TcpSourcePort, Field::TcpDestinationPort, columns)
            }
            Some("udp") => {
                let columns = ["udp.srcport", "udp.dstport"];
                (Field::UdpSourcePort, Field::UdpDestinationPort, columns)
            }
            _ => return Ok(()),
        };
        let [from, to] = columns;
        count(counts, source, self.number(from, 0)?);
        count(counts, destination, self.number(to, 0)?);
        if layers.next() == Some("infiniband") {
            count(
                counts,
                Field::BthOpcode,
                self.number("infiniband.bth.opcode", 0)?,
            );
        }
        Ok(())
    }
}

fn count(counts: &mut Counts, field: Field, value: Option<u32>) {
    if let Some(value) = value {
        counts.add(field, value, 1);
    }
}

/// wiretap's number for Ethernet.
const ETHERNET: u32 = 1;
const LIMIT: Duration = Duration::from_secs(120);

/// Frames stand for themselves.
const PREFERENCES: [&str; 3] = [
    "ip.defragment:FALSE",
    "ipv6.defragment:FALSE",
    "tcp.desegment_tcp_streams:FALSE",
];

const EXTENSIONS: [&str; 4] = [
    "ipv6.hopopts.nxt",
    "ipv6.dstopts.nxt",
    "ipv6.routing.nxt",
    "ipv6.fraghdr.nxt",
];

const COLUMNS: [&str; 18] = [
    "frame.encap_type",
    "frame.protocols",
    "eth.type",
    "vlan.id",
    "vlan.etype",
    "ieee8021ad.id",
    "ieee8021ah.etype",
    "ip.proto",
    "ipv6.nxt",
    "ipv6.hopopts.nxt",
    "ipv6.dstopts.nxt",
    "ipv6.routing.nxt",
    "ipv6.fraghdr.nxt",
    "udp.srcport",
    "udp.dstport",
    "tcp.srcport",
    "tcp.dstport",
    "infiniband.bth.opcode",
];
