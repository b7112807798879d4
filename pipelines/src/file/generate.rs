//! Reading the `generate` tables: traffic to be made.

use warpwire_core::kernels::{MAX_TEMPLATES, TEMPLATE_BYTES};
use warpwire_protocols::wire::opcode::Opcode;

use super::document::{Entry, Section};
use super::nic::NicEntry;
use super::values;
use crate::traffic::{Frame, Kind, Recipe};

/// Traffic that one NIC sends.
#[derive(Clone, Debug)]
pub struct GenerateEntry {
    /// The NIC, by its place in the file.
    pub nic: usize,
    /// The line of the table, from 1.
    pub line: usize,
    /// Frames a second and queue; 0 for as many as there are slots for.
    pub rate: u64,
    /// Frames a queue; 0 for no end.
    pub count: u64,
    /// The frames, sent in turn by their weights.
    pub frames: Vec<FrameEntry>,
}

/// One kind of frame that a NIC sends.
#[derive(Clone, Debug)]
pub struct FrameEntry {
    /// The name in reports.
    pub name: String,
    /// How often it is sent compared with the others.
    pub weight: u32,
    /// Flows that it is spread over.
    pub flows: u32,
    /// The frame.
    pub frame: Frame,
}

/// Reads every `[[generate]]`.
pub(super) fn read_all(root: &Section<'_>, nics: &[NicEntry]) -> Vec<GenerateEntry> {
    let Some(entry) = root.take("generate") else {
        return Vec::new();
    };
    let entries = entry.list("[[generate]] tables", nics.len().max(1));
    let mut generators: Vec<GenerateEntry> = Vec::new();
    for entry in entries.unwrap_or_default() {
        let Some(generator) = read(&entry, nics) else {
            continue;
        };
        if generators.iter().any(|other| other.nic == generator.nic) {
            entry.note(
                "sends from a NIC that another [[generate]] has",
                "put all frames of a NIC into one [[generate]]",
            );
        }
        generators.push(generator);
    }
    generators
}

fn read(entry: &Entry<'_>, nics: &[NicEntry]) -> Option<GenerateEntry> {
    let section = entry.section()?;
    let from = section.need("from", "write from = \"NIC\"")?;
    let rate = section
        .take("rate")
        .and_then(|entry| entry.number(1..=1_000_000_000));
    let count = section
        .take("count")
        .and_then(|entry| entry.number(1..=1 << 62));
    let frames = section.need("frame", "write at least one [[generate.frame]]");
    section.finish();
    let text = from.text("the name of a NIC")?;
    let Some(nic) = nics.iter().position(|nic| nic.name == text) else {
        let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
        let cure = format!("write one of {}", names.join(", "));
        from.note(format!("no NIC is called `{text}`"), cure);
        return None;
    };
    let entries = frames?.list("[[generate.frame]] tables", MAX_TEMPLATES)?;
    let frames: Vec<FrameEntry> = entries.iter().filter_map(read_frame).collect();
    let weight: u32 = frames.iter().map(|frame| frame.weight).sum();
    if weight as usize > MAX_TEMPLATES {
        entry.note(
            format!("its weights sum up to {weight}"),
            format!("write weights that sum up to {MAX_TEMPLATES} at most"),
        );
    }
    Some(GenerateEntry {
        nic,
        line: entry.line(),
        rate: rate.unwrap_or(0),
        count: count.unwrap_or(0),
        frames,
    })
}

fn read_frame(entry: &Entry<'_>) -> Option<FrameEntry> {
    let section = entry.section()?;
    let words: Vec<&str> = Kind::ALL.iter().map(|(word, _)| *word).collect();
    let wanted = format!("one of {}", words.join(", "));
    let kind = section.need("kind", &format!("write {wanted}"))?;
    let kind = kind.read(&wanted, |words| {
        let found = Kind::ALL.iter().find(|(word, _)| *word == words);
        found.map(|(_, kind)| *kind)
    })?;
    let noted = entry.document.noted();
    let name = section.take("name").and_then(|entry| entry.text("a name"));
    let number = |key, low, high| section.take(key).and_then(|entry| entry.number(low..=high));
    let weight = number("weight", 1, MAX_TEMPLATES as u64);
    let flows = number("flows", 1, 65_536);
    let recipe = recipe(&section, kind);
    section.finish();
    if entry.document.noted() > noted {
        return None;
    }
    if recipe.source.is_ipv4() != recipe.destination.is_ipv4() {
        entry.note(
            "has a source and a destination of different families",
            "write both as IPv4 or both as IPv6",
        );
        return None;
    }
    let frame = recipe.build();
    if frame.bytes.len() > TEMPLATE_BYTES {
        entry.note(
            format!("makes a frame of {} bytes", frame.bytes.len()),
            format!("write a length or text for at most {TEMPLATE_BYTES} bytes"),
        );
        return None;
    }
    let word = Kind::ALL.iter().find(|(_, known)| *known == kind);
    Some(FrameEntry {
        name: name.map_or_else(
            || word.map_or("", |(word, _)| word).to_owned(),
            str::to_owned,
        ),
        weight: weight.map_or(1, |weight| weight as u32),
        flows: flows.map_or(1, |flows| flows as u32),
        frame,
    })
}

/// Whether a text is a name that a question can hold.
fn is_dns_name(text: &str) -> bool {
    let labels = text.split('.');
    text.len() <= 253
        && labels
            .into_iter()
            .all(|label| (1..=63).contains(&label.len()))
}

const DNS_NAME: &str = "a name of at most 253 bytes whose labels have 1 to 63 bytes";

fn recipe(section: &Section<'_>, kind: Kind) -> Recipe {
    let plain = Recipe::default();
    let mac = |key, default| {
        let wanted = "an address such as \"02:00:00:00:00:01\"";
        let entry = section.take(key);
        entry
            .and_then(|entry| entry.read(wanted, values::mac))
            .unwrap_or(default)
    };
    let address = |key, default| {
        let entry = section.take(key);
        entry
            .and_then(|entry| entry.read("an IP address", values::host_address))
            .unwrap_or(default)
    };
    let number = |key, low, high, default| {
        let entry = section.take(key);
        entry
            .and_then(|entry| entry.number(low..=high))
            .unwrap_or(default)
    };
    let text = section.take("text").and_then(|entry| {
        let text = entry.text("a text")?;
        if kind == Kind::Dns && !is_dns_name(text) {
            entry.note(
                "is no name that a question can hold",
                format!("write {DNS_NAME}"),
            );
        }
        Some(text)
    });
    let text = text.unwrap_or(match kind {
        Kind::Dns => "www.example.org",
        Kind::Http => "GET / HTTP/1.1\r\nHost: www.example.org\r\n\r\n",
        _ => "",
    });
    let opcode = section.take("opcode").and_then(|entry| {
        entry.read("a BTH opcode of RC, UC or UD, such as \"0x0a\"", |words| {
            let within = values::within(words, 255, &[])?;
            Opcode::new(
                u8::try_from(within.low)
                    .ok()
                    .filter(|_| within.low == within.high)?,
            )
        })
    });
    Recipe {
        kind,
        source_mac: mac("source_mac", plain.source_mac),
        destination_mac: mac("destination_mac", plain.destination_mac),
        source: address("source", plain.source),
        destination: address("destination", plain.destination),
        source_port: number("source_port", 1, 65535, u64::from(plain.source_port)) as u16,
        destination_port: number("destination_port", 1, 65535, u64::from(kind.port())) as u16,
        vlan: match number("vlan", 0, 4095, u64::MAX) {
            u64::MAX => None,
            id => Some(id as u16),
        },
        length: number("length", 14, TEMPLATE_BYTES as u64, u64::from(plain.length)) as u32,
        text: text.to_owned(),
        opcode: opcode.unwrap_or(plain.opcode),
        qp: number("qp", 0, (1 << 24) - 1, u64::from(plain.qp)) as u32,
    }
}
