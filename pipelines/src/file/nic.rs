//! Reading the NICs of a file.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use warpwire_core::program::{MAX_NICS, MAX_PORTS};
use warpwire_core::spec::PackedAddress;
use warpwire_nic::{NicKind, NicSpec};

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
    /// The Ethernet address to answer with, of soft and capture NICs; the NIC's own if absent. To
    /// other NICs it is an option.
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
    let nics: Vec<NicEntry> = entries.iter().take(MAX_NICS).filter_map(read).collect();
    check_peers(&table, &nics);
    check_interfaces(&table, &nics);
    nics
}

/// Cables have two ends, and both are soft NICs.
fn check_peers(table: &Section<'_>, nics: &[NicEntry]) {
    let peer_of = |nic: &NicEntry| {
        let soft = nic.spec.kind == NicKind::Soft;
        let peer = nic
            .spec
            .option("peer")
            .filter(|peer| soft && *peer != "loop");
        peer.map(str::to_owned)
    };
    for nic in nics {
        let Some(peer) = peer_of(nic) else {
            continue;
        };
        let others = nics.iter().filter(|other| other.name != nic.name);
        let others = others.filter(|other| other.spec.kind == NicKind::Soft);
        let names: Vec<&str> = others.map(|other| other.name.as_str()).collect();
        let field = format!("{}.peer", nic.name);
        let other = nics.iter().find(|other| other.name == peer);
        let other = other.filter(|other| names.contains(&other.name.as_str()));
        let Some(other) = other else {
            let cure = format!("write loop, or another soft NIC: {}", names.join(", "));
            table.note(
                &field,
                format!("no other soft NIC is called `{peer}`"),
                cure,
            );
            continue;
        };
        let back = peer_of(other);
        let rivals = nics.iter().filter(|rival| rival.name != nic.name);
        let rival = rivals
            .into_iter()
            .find(|rival| peer_of(rival).as_ref() == Some(&peer));
        let taken = match (back, rival) {
            (Some(back), _) if back != nic.name => back,
            (_, Some(rival)) => rival.name.clone(),
            _ => continue,
        };
        let problem = format!("`{peer}` is plugged into `{taken}`");
        table.note(
            &field,
            problem,
            "give each cable two ends of its own".to_owned(),
        );
    }
}

/// An interface takes one XDP program, and its owner is one NIC.
fn check_interfaces(table: &Section<'_>, nics: &[NicEntry]) {
    let place = |nic: &NicEntry| {
        (
            nic.spec.address.clone(),
            nic.spec.option("netns").map(str::to_owned),
        )
    };
    let xdp: Vec<&NicEntry> = nics
        .iter()
        .filter(|nic| nic.spec.kind == NicKind::Xdp)
        .collect();
    for (index, nic) in xdp.iter().enumerate() {
        let earlier = xdp
            .iter()
            .take(index)
            .find(|other| place(other) == place(nic));
        if let Some(earlier) = earlier {
            let problem = format!("opens the interface that `{}` opens", earlier.name);
            let cure = "use one NIC with `queues` for all that the interface receives";
            table.note(&format!("{}.open", nic.name), problem, cure.to_owned());
        }
    }
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
    let addresses = match section.take("addresses") {
        Some(entry) => stage::addresses(&entry),
        None => Vec::new(),
    };
    let Some((open, mut spec)) = open(&section) else {
        // Stands in the place of the NIC that was meant: what names it is not to blame.
        return Some(NicEntry {
            name: name.to_owned(),
            line: entry.line(),
            spec: NicSpec::from_str(NicKind::Soft.word()).ok()?,
            addresses,
            mac: None,
            queues: MAX_PORTS as u32,
        });
    };
    let mac = match spec.kind {
        NicKind::Soft | NicKind::Pcap => section.take("mac").and_then(|entry| read_mac(&entry)),
        _ => None,
    };
    let noted = entry.document.noted();
    let options = options(&section, &mut spec);
    let sound = entry.document.noted() == noted;
    if spec.kind == NicKind::Xdp {
        // What the stages answer for is what the interface must be told to take.
        for address in &addresses {
            spec.options.push(("address".to_owned(), unpack(address)));
        }
    }
    let checked =
        warpwire_nic::check(&spec).and_then(|()| spec.number("queues", 1, 1..=MAX_PORTS as u64));
    let queues = match checked {
        Ok(queues) => queues as u32,
        // What was noted about the options says enough.
        Err(_) if !sound => MAX_PORTS as u32,
        Err(error) => {
            let (field, problem, cure) = blame(&error);
            let option = options.iter().find(|(key, _)| *key == field);
            match option {
                Some((_, entry)) => entry.note(problem, cure),
                None => open.note(format!("{field}: {problem}"), cure),
            }
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

/// Reads what to open, or notes what is wrong with it.
fn open<'d>(section: &Section<'d>) -> Option<(Entry<'d>, NicSpec)> {
    let cure = "write open = \"soft\", \"xdp:IFACE\", \"memif:SOCKET\"";
    let open = section.need("open", cure)?;
    let words = open.text("a NIC such as \"soft\" or \"xdp:IFACE\"")?;
    match NicSpec::from_str(words) {
        Ok(spec) => Some((open, spec)),
        Err(error) => {
            let (field, problem, cure) = blame(&error);
            open.note(format!("{field}: {problem}"), cure);
            None
        }
    }
}

fn read_mac(entry: &Entry<'_>) -> Option<[u8; 6]> {
    let wanted = "an Ethernet address of one host such as \"02:00:00:00:00:01\"";
    entry.read(wanted, |words| {
        values::mac(words).filter(|[first, ..]| first & 1 == 0)
    })
}

/// Takes every other key as an option of the NIC and returns them.
fn options<'d>(section: &Section<'d>, spec: &mut NicSpec) -> Vec<(&'d str, Entry<'d>)> {
    let rest = section.rest();
    for (key, entry) in &rest {
        match entry.words() {
            Some(_) if spec.option(key).is_some() => entry.note(
                "is given in the words after `open` too",
                "write it in one place",
            ),
            Some(words) if !words.contains(',') => spec.options.push(((*key).to_owned(), words)),
            Some(_) => entry.note("holds a comma", "write a value without commas"),
            None => entry.note(
                "is neither a word nor a number",
                "write an option's value, or leave it out",
            ),
        }
    }
    rest
}

/// An address in words.
fn unpack(address: &PackedAddress) -> String {
    let [a, b, c, d] = address.words.map(u128::from);
    match address.version {
        4 => Ipv4Addr::from_bits(a as u32).to_string(),
        _ => Ipv6Addr::from_bits(a << 96 | b << 64 | c << 32 | d).to_string(),
    }
}

/// The field, what is wrong and what to do, in the words of the NIC's error.
fn blame(error: &warpwire_nic::Error) -> (String, String, String) {
    match error {
        warpwire_nic::Error::Spec {
            field,
            problem,
            cure,
            ..
        } => (field.clone(), problem.clone(), cure.clone()),
        other => (
            "open".to_owned(),
            other.to_string(),
            "see the error".to_owned(),
        ),
    }
}
