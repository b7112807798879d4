//! Reading a stage by what its [`Spec`] says, and packing its arguments.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use warpwire_core::program::{ARGS_BYTES, MAX_ADDRESSES, MAX_RULES};
use warpwire_core::rule::Rule;
use warpwire_core::spec::{Field, FieldKind, Outcome, PackedAddress, PackedPorts, Span, Spec};
use warpwire_core::stages::gather::Args;

use super::document::{Entry, Section};
use super::{Catalogue, rule, values};
use crate::sensor::{self, Files, Records};

/// One stage of a file, its arguments packed.
#[derive(Clone, Debug)]
pub struct StageEntry {
    /// The stage's place in the catalogue, which the kernel knows it by.
    pub kind: u32,
    /// What the stage says about itself.
    pub spec: &'static Spec,
    /// The name in reports: the one given, or the stage's word and its place.
    pub name: String,
    /// The line of the stage, from 1.
    pub line: usize,
    /// Rules of which one must match, in the receive's table.
    pub when: Span,
    /// The arguments, as the stage's code reads them.
    pub args: [u8; ARGS_BYTES],
    /// The NIC that frames may leave from, by its place in the file.
    pub to: Option<usize>,
    /// The file that the host writes the stage's samples to.
    pub file: Option<PathBuf>,
    /// What the stage gathers, if it does.
    pub gather: Option<GatherEntry>,
}

/// What a stage gathers, and where to.
#[derive(Clone, Debug)]
pub struct GatherEntry {
    /// What records look like.
    pub records: Records,
    /// The files that the host writes their rows to.
    pub files: Files,
}

impl StageEntry {
    /// A stage that samples every frame into a file; none if the catalogue has no such stage.
    pub(super) fn capture(path: &Path, line: usize, catalogue: &Catalogue) -> Option<Self> {
        let (kind, spec) = catalogue.find("sample")?;
        let bit = spec.fields.iter().position(|field| field.name == "file")?;
        let mut args = [0; ARGS_BYTES];
        put(&mut args, 0, &(1u32 << bit).to_ne_bytes());
        Some(Self {
            kind,
            spec,
            name: "capture".to_owned(),
            line,
            when: Span::default(),
            args,
            to: None,
            file: Some(path.to_owned()),
            gather: None,
        })
    }
}

/// The tables that the stages of one receive share, and what their fields refer to.
pub(super) struct Tables<'n> {
    pub(super) rules: Vec<Rule>,
    pub(super) addresses: Vec<PackedAddress>,
    /// Names of all NICs of the file.
    pub(super) nics: &'n [String],
    /// The NIC that the frames come from.
    pub(super) from: usize,
    /// Its addresses.
    pub(super) own: &'n [PackedAddress],
}

/// Reads one stage, or notes what is wrong with it.
pub(super) fn read(
    entry: &Entry<'_>,
    place: usize,
    catalogue: &Catalogue,
    tables: &mut Tables<'_>,
) -> Option<StageEntry> {
    let section = entry.section()?;
    let words = catalogue.names().join(", ");
    let does = section.need("do", &format!("write one of {words}"))?;
    let (kind, spec) = does.read(&format!("one of {words}"), |word| catalogue.find(word))?;
    let name = section.take("name").and_then(|entry| label(&entry));
    let when = match section.take("when") {
        Some(when) => tables.add_rules(&when),
        None => Span::default(),
    };
    let mut stage = StageEntry {
        kind,
        spec,
        name: name.unwrap_or_else(|| format!("{} {place}", spec.name)),
        line: entry.line(),
        when,
        args: [0; ARGS_BYTES],
        to: None,
        file: None,
        gather: None,
    };
    let noted = entry.document.noted();
    let mut rows = Files::default();
    let given = fields(&section, &mut stage, tables, &mut rows);
    put(&mut stage.args, 0, &given.to_ne_bytes());
    if entry.document.noted() == noted {
        stage.gather = gather(&section, &stage, rows);
    }
    section.finish();
    if entry.document.noted() > noted {
        return None;
    }
    if spec.one_of.is_empty() || spec.one_of.iter().any(|name| has(spec, given, name)) {
        return Some(stage);
    }
    let cure = format!("write at least one of {}", spec.one_of.join(", "));
    entry.note(format!("`{}` has nothing to do", spec.name), cure);
    None
}

/// Whether a frame that enters the stage can come out at its other end.
pub(super) fn continues(stage: &StageEntry) -> bool {
    stage.spec.outcome != Outcome::Ends || stage.when.count > 0
}

/// What a stage gathers that has files for rows.
fn gather(section: &Section<'_>, stage: &StageEntry, files: Files) -> Option<GatherEntry> {
    files.samples.as_ref()?;
    let args = Args::of(&stage.args)?;
    let checked = Records::of_stage(&args).and_then(|records| {
        records.check()?;
        Ok(records)
    });
    match checked {
        Ok(records) => Some(GatherEntry { records, files }),
        Err(sensor::Error::Setting {
            field,
            problem,
            cure,
        }) => {
            section.note(field, problem, cure);
            None
        }
        Err(error) => {
            section.note("do", error.to_string(), "change what it says".to_owned());
            None
        }
    }
}

fn has(spec: &Spec, given: u32, name: &str) -> bool {
    let place = spec.fields.iter().position(|field| field.name == name);
    place.is_some_and(|bit| given >> bit & 1 != 0)
}

fn label(entry: &Entry<'_>) -> Option<String> {
    let text = entry.text("a name")?;
    let fits = !text.is_empty() && text.chars().count() <= 40;
    if !fits {
        entry.note("is empty or too long", "write a name of 1 to 40 letters");
    }
    fits.then(|| text.to_owned())
}

/// Reads every field; returns the bits of those that were there.
fn fields(
    section: &Section<'_>,
    stage: &mut StageEntry,
    tables: &mut Tables<'_>,
    rows: &mut Files,
) -> u32 {
    let mut given = 0;
    for (bit, field) in stage.spec.fields.iter().enumerate() {
        let entry = match field.required {
            true => section.need(field.name, &format!("write {}", field.about)),
            false => section.take(field.name),
        };
        let packed = match (entry, field.kind) {
            (Some(entry), _) => read_field(&entry, field, (stage, rows), tables),
            (None, FieldKind::OwnAddresses) => {
                let span = tables.add_addresses(tables.own.to_vec());
                put(&mut stage.args, field.at, &span_bytes(span));
                if span.count == 0 {
                    let cure = "write addresses = [\"10.0.0.1\"] here or in the NIC's table";
                    section.note(
                        field.name,
                        "the NIC has no addresses".to_owned(),
                        cure.to_owned(),
                    );
                }
                None
            }
            (None, _) => None,
        };
        if packed.is_some() {
            given |= 1 << bit;
        }
    }
    given
}

/// Reads and packs one field; `None` if it does not count as given.
fn read_field(
    entry: &Entry<'_>,
    field: &Field,
    (stage, rows): (&mut StageEntry, &mut Files),
    tables: &mut Tables<'_>,
) -> Option<()> {
    let packed: Vec<u8> = match field.kind {
        FieldKind::Flag => return entry.boolean()?.then_some(()),
        FieldKind::File => {
            stage.file = Some(file(entry)?);
            return Some(());
        }
        FieldKind::Rows => {
            rows.samples = Some(file(entry)?);
            return Some(());
        }
        FieldKind::Headers => {
            rows.headers = Some(file(entry)?);
            return Some(());
        }
        FieldKind::Nic => {
            let nic = tables.nic(entry)?;
            stage.to = Some(nic);
            u32::try_from(nic).ok()?.to_ne_bytes().to_vec()
        }
        FieldKind::Words(words) => union(entry, words)?.to_ne_bytes().to_vec(),
        FieldKind::Number { bytes, low, high } => number_bytes(entry.number(low..=high)?, bytes),
        FieldKind::Mac => entry
            .read("an address such as \"02:00:00:00:00:01\"", values::mac)?
            .to_vec(),
        FieldKind::Address => address_bytes(values::pack(
            entry.read("an IP address", values::host_address)?,
        )),
        FieldKind::Ports => ports(entry)?,
        FieldKind::Rules => span_bytes(tables.add_rules(entry)),
        FieldKind::OwnAddresses => {
            let addresses = addresses(entry);
            span_bytes(tables.add_addresses(addresses))
        }
        FieldKind::Hex(count) => entry.read(&format!("{count} bytes in hexadecimal"), |words| {
            values::hex(words, count)
        })?,
    };
    put(&mut stage.args, field.at, &packed);
    Some(())
}

impl Tables<'_> {
    /// Reads rules and appends them to the table.
    fn add_rules(&mut self, entry: &Entry<'_>) -> Span {
        let room = MAX_RULES - self.rules.len().min(MAX_RULES);
        let rules = rule::read_all(entry, room);
        append(&mut self.rules, rules)
    }

    fn add_addresses(&mut self, addresses: Vec<PackedAddress>) -> Span {
        append(&mut self.addresses, addresses)
    }

    /// The NIC that an entry names, other than the one that the frames come from.
    fn nic(&self, entry: &Entry<'_>) -> Option<usize> {
        let wanted = format!("the name of a NIC: {}", self.nics.join(", "));
        let text = entry.text(&wanted)?;
        let place = self.nics.iter().position(|name| name == text);
        match place {
            None => entry.note(
                format!("no NIC is called `{text}`"),
                format!("write {wanted}"),
            ),
            Some(place) if place == self.from => {
                entry.note(
                    "is the NIC that the frames come from",
                    "write do = \"reply\" to send them back",
                );
                return None;
            }
            Some(_) => {}
        }
        place
    }
}

/// Reads a list of host addresses.
pub(super) fn addresses(entry: &Entry<'_>) -> Vec<PackedAddress> {
    let entries = entry.one_or_list(MAX_ADDRESSES).unwrap_or_default();
    let wanted = "an address of a host, such as \"10.0.0.1\" or \"fd00::1\"";
    // An address that was refused stands for one all the same: nothing else is to blame for it.
    let read = |entry: &Entry<'_>| {
        let address = entry.read(wanted, values::host_address);
        values::pack(address.unwrap_or(Ipv4Addr::LOCALHOST.into()))
    };
    entries.iter().map(read).collect()
}

fn append<T>(table: &mut Vec<T>, entries: Vec<T>) -> Span {
    let span = Span {
        first: table.len() as u32,
        count: entries.len() as u32,
    };
    table.extend(entries);
    span
}

/// The name of a file that may be written.
fn file(entry: &Entry<'_>) -> Option<PathBuf> {
    const WANTED: &str = "the name of a file";
    let text = entry.text(WANTED)?;
    let path = PathBuf::from(text);
    let problem = match text {
        "" => "is empty",
        text if text.contains('\0') => "holds a character that no file name has",
        text if text.ends_with('/') || path.is_dir() => "is a folder",
        _ => return Some(path),
    };
    entry.note(problem, format!("write {WANTED}"));
    None
}

fn union(entry: &Entry<'_>, words: &[(&str, u32)]) -> Option<u32> {
    let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
    let wanted = format!("one or more of {}", names.join(", "));
    let find = |text: &str| words.iter().find(|(name, _)| *name == text);
    let entries = entry.one_or_list(words.len())?;
    if entries.is_empty() {
        entry.note("is empty", format!("write {wanted}"));
        return None;
    }
    let bits = entries.iter().map(|entry| {
        let found = entry.read(&wanted, |text| find(text).map(|(_, bits)| *bits));
        found.unwrap_or(0)
    });
    Some(bits.fold(0, |union, bits| union | bits))
}

fn ports(entry: &Entry<'_>) -> Option<Vec<u8>> {
    let entries = entry.one_or_list(PackedPorts::MAX)?;
    if entries.is_empty() {
        entry.note("is empty", "write at least one port, or leave it out");
        return None;
    }
    let mut packed = PackedPorts::default();
    for (slot, element) in packed.ports.iter_mut().zip(&entries) {
        *slot = u16::try_from(element.number(1..=65535)?).ok()?;
    }
    packed.count = u16::try_from(entries.len()).ok()?;
    Some(zerocopy::IntoBytes::as_bytes(&packed).to_vec())
}

fn number_bytes(number: u64, bytes: usize) -> Vec<u8> {
    match bytes {
        1 => (number as u8).to_ne_bytes().to_vec(),
        2 => (number as u16).to_ne_bytes().to_vec(),
        4 => (number as u32).to_ne_bytes().to_vec(),
        _ => number.to_ne_bytes().to_vec(),
    }
}

fn address_bytes(address: PackedAddress) -> Vec<u8> {
    zerocopy::IntoBytes::as_bytes(&address).to_vec()
}

fn span_bytes(span: Span) -> Vec<u8> {
    zerocopy::IntoBytes::as_bytes(&span).to_vec()
}

fn put(args: &mut [u8; ARGS_BYTES], at: usize, bytes: &[u8]) {
    for (to, from) in args.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
}
