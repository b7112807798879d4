//! Reading a matcher: `{ protocol = "udp", destination_port = "1000-2000" }`.

use warpwire_core::rule::{Looks, Rule, Within};
use warpwire_protocols::parse::Kind;

use super::document::{Entry, Section};
use super::values;

/// Reads one matcher, or notes what is wrong with it.
pub(super) fn read(entry: &Entry<'_>) -> Option<Rule> {
    let section = entry.section()?;
    let mut rule = Rule::default();
    ranges(&section, &mut rule);
    kinds(&section, &mut rule);
    switches(&section, &mut rule);
    prefixes(&section, &mut rule);
    section.finish();
    if section.is_empty() {
        entry.note(
            "says nothing to look at",
            "name at least one field, such as protocol",
        );
        return None;
    }
    Some(rule)
}

/// Reads one matcher or a list of them.
pub(super) fn read_all(entry: &Entry<'_>, limit: usize) -> Vec<Rule> {
    let Some(entries) = entry.one_or_list(limit) else {
        return Vec::new();
    };
    if entries.is_empty() {
        entry.note("is empty", "write at least one matcher, or leave it out");
    }
    entries.iter().filter_map(read).collect()
}

fn ranges(section: &Section<'_>, rule: &mut Rule) {
    let mut one = |key: &'static str,
                   look: Looks,
                   most: u32,
                   names: &[(&str, u32)],
                   wanted: &str,
                   place: fn(&mut Rule) -> &mut Within| {
        let Some(entry) = section.take(key) else {
            return;
        };
        if let Some(range) = entry.read(wanted, |words| values::within(words, most, names)) {
            rule.looks |= look;
            *place(rule) = range;
        }
    };
    let ports = "a port such as 53 or \"1000-2000\", up to 65535";
    let types = "a type such as \"ipv4\" or \"0x88cc\", up to 0xffff";
    let protocols = "a protocol such as \"udp\" or 89, up to 255";
    let vlans = "a VLAN id such as 10 or \"10-20\", up to 4095";
    let opcodes = "a BTH opcode such as 4 or \"0x06-0x0b\", up to 255";
    let queues = "a queue pair number such as 17 or \"0x11-0x20\", below 2^24";
    one(
        "ether_type",
        Looks::ETHER_TYPE,
        0xffff,
        values::ETHER_TYPES,
        types,
        |rule| &mut rule.ether_type,
    );
    one("vlan", Looks::VLAN, 4095, &[], vlans, |rule| &mut rule.vlan);
    one(
        "protocol",
        Looks::PROTOCOL,
        255,
        values::PROTOCOLS,
        protocols,
        |rule| &mut rule.protocol,
    );
    one(
        "source_port",
        Looks::SOURCE_PORT,
        65535,
        &[],
        ports,
        |rule| &mut rule.source_port,
    );
    one(
        "destination_port",
        Looks::DESTINATION_PORT,
        65535,
        &[],
        ports,
        |rule| &mut rule.destination_port,
    );
    one("port", Looks::PORT, 65535, &[], ports, |rule| {
        &mut rule.port
    });
    one("roce_opcode", Looks::OPCODE, 255, &[], opcodes, |rule| {
        &mut rule.opcode
    });
    one("qp", Looks::QP, (1 << 24) - 1, &[], queues, |rule| {
        &mut rule.qp
    });
}

fn kinds(section: &Section<'_>, rule: &mut Rule) {
    let Some(entry) = section.take("kind") else {
        return;
    };
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    let wanted = format!("one or more of {}", names.join(", "));
    for element in entry.one_or_list(Kind::COUNT).unwrap_or_default() {
        let found = element.read(&wanted, |words| {
            Kind::ALL.iter().find(|kind| kind.name() == words).copied()
        });
        if let Some(kind) = found {
            rule.looks |= Looks::KIND;
            rule.kinds |= 1 << kind.index();
        }
    }
}

fn switches(section: &Section<'_>, rule: &mut Rule) {
    if let Some(value) = section.take("malformed").and_then(|entry| entry.boolean()) {
        rule.looks |= Looks::MALFORMED;
        rule.malformed = u16::from(value);
    }
    if let Some(value) = section.take("fragment").and_then(|entry| entry.boolean()) {
        rule.looks |= Looks::FRAGMENT;
        rule.fragment = u16::from(value);
    }
}

fn prefixes(section: &Section<'_>, rule: &mut Rule) {
    let wanted = "a prefix such as \"10.0.0.0/8\" or \"2001:db8::/32\"";
    for (key, look) in [
        ("source", Looks::SOURCE),
        ("destination", Looks::DESTINATION),
    ] {
        let Some(entry) = section.take(key) else {
            continue;
        };
        let Some((prefix, version)) = entry.read(wanted, values::prefix) else {
            continue;
        };
        if rule.version != 0 && rule.version != version {
            entry.note(
                "is of another family than `source`",
                "write both as IPv4 or both as IPv6, or two rules",
            );
            continue;
        }
        rule.looks |= look;
        rule.version = version;
        if look == Looks::SOURCE {
            rule.source = prefix;
        } else {
            rule.destination = prefix;
        }
    }
}
