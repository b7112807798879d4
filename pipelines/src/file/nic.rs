//! Reading the NICs of a file.

use std::str::FromStr;

use warpwire_core::program::{MAX_NICS, MAX_PORTS};
use warpwire_core::spec::PackedAddress;
use warpwire_nic::NicSpec;

use super::document::{Entry, Section};
use super::{stage, values};

/// One NIC of a file.
#[derive(Clone, Debug)]
pub struct NicEntry {
    /// Its name in the file.
    pub name: String,
    /// The line of its table, from 1.
    pub line: usize,
    /// What to open: the words after `open`, with the other keys as options.
    pub spec: NicSpec,
    /// Addresses that stages answer for.
    pub addresses: Vec<PackedAddress>,
    /// The Ethernet address to answer with; the NIC's own if absent.
    pub mac: Option<[u8; 6]>,
    /// Queue pairs.
    pub queues: u32,
}

/// Reads the `nic` tables in the order of the file.
pub(super) fn read_all(root: &Section<'_>) -> Vec<NicEntry> {
    let cure = "write [nic.NAME] with open = \"soft\", \"xdp:IFACE\" or another NIC";
    let Some(table) = root.need("nic", cure).and_then(|entry| entry.section()) else {
        return Vec::new();
    };
    let mut entries = table.rest();
    entries.sort_by_key(|(_, entry)| entry.span.start);
    if entries.is_empty() {
        root.note("nic", "names no NIC".to_owned(), cure.to_owned());
    }
    if let Some((_, entry)) = entries.get(MAX_NICS) {
        entry.note(
            format!("is one NIC too many: a file may name {MAX_NICS}"),
            "leave it out",
        );
    }
    let read = |(name, entry): &(&str, Entry<'_>)| read(name, entry);
    entries.iter().take(MAX_NICS).filter_map(read).collect()
}

fn read(name: &str, entry: &Entry<'_>) -> Option<NicEntry> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    if name.is_empty() || name.len() > 32 || !name.chars().all(plain) {
        entry.note(
            "has a name that cannot be used",
            "use 1 to 32 letters, digits, dashes and underscores",
        );
    }
    let section = entry.section()?;
    let open = section.need(
        "open",
        "write open = \"soft\", \"xdp:IFACE\", \"memif:SOCKET\"",
    )?;
    let words = open.text("a NIC such as \"soft\" or \"xdp:IFACE\"")?;
    let spec = NicSpec::from_str(words);
    let addresses = match section.take("addresses") {
        Some(entry) => stage::addresses(&entry),
        None => Vec::new(),
    };
    let wanted = "an Ethernet address of one host such as \"02:00:00:00:00:01\"";
    let mac = section.take("mac").and_then(|entry| {
        entry.read(wanted, |words| {
            values::mac(words).filter(|[first, ..]| first & 1 == 0)
        })
    });
    let mut spec = match spec {
        Ok(spec) => spec,
        Err(error) => {
            let (problem, cure) = blame(&error);
            open.note(problem, cure);
            return None;
        }
    };
    options(&section, &mut spec);
    let queues = match spec.number("queues", 1, 1..=MAX_PORTS as u64) {
        Ok(queues) => queues as u32,
        Err(error) => {
            let (problem, cure) = blame(&error);
            open.note(problem, cure);
            1
        }
    };
    Some(NicEntry {
        name: name.to_owned(),
        line: entry.line(),
        spec,
        addresses,
        mac,
        queues,
    })
}

/// Takes every other key as an option of the NIC; keys win over options in the words.
fn options(section: &Section<'_>, spec: &mut NicSpec) {
    for (key, entry) in section.rest() {
        match entry.words() {
            Some(words) if !words.contains(',') => spec.options.push((key.to_owned(), words)),
            Some(_) => entry.note("holds a comma", "write a value without commas"),
            None => entry.note(
                "is neither a word nor a number",
                "write an option's value, or leave it out",
            ),
        }
    }
}

/// What is wrong and what to do, in the words of the NIC's error.
pub(super) fn blame(error: &warpwire_nic::Error) -> (String, String) {
    match error {
        warpwire_nic::Error::Spec {
            field,
            problem,
            cure,
            ..
        } => (format!("{field}: {problem}"), cure.clone()),
        other => (other.to_string(), "see the error".to_owned()),
    }
}
