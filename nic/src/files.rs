//! The files that a NIC's words name.

use std::path::PathBuf;

use crate::pcap::Words;
use crate::spec::{NicKind, NicSpec};

/// A file that a NIC reads or writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NicFile {
    /// The option that names it; `open` for the words themselves.
    pub field: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Whether it is written; what it held is lost then.
    pub is_written: bool,
}

/// The captures that a NIC plays and records, those of a soft NIC's uplink included. Words that are
/// wrong name none.
pub fn files(spec: &NicSpec) -> Vec<NicFile> {
    let (capture, fields) = match spec.kind {
        NicKind::Pcap => (Some(spec.clone()), ["open", "record"]),
        NicKind::Soft => (uplink(spec), ["uplink", "uplink"]),
        _ => (None, ["", ""]),
    };
    let words = capture.and_then(|capture| Words::of(&capture).ok());
    let Some(Words { play, record, .. }) = words else {
        return Vec::new();
    };
    let paths = [(Some(play), false), (record, true)];
    paths
        .into_iter()
        .zip(fields)
        .filter_map(|((path, is_written), field)| {
            Some(NicFile {
                field,
                path: path?,
                is_written,
            })
        })
        .collect()
}

/// The capture that a soft NIC is plugged into.
fn uplink(spec: &NicSpec) -> Option<NicSpec> {
    let words = spec.option("uplink")?;
    let uplink: NicSpec = words.replace('+', ",").parse().ok()?;
    (uplink.kind == NicKind::Pcap).then_some(uplink)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_named_with_their_fields() {
        let cases = [
            ("pcap:/a", "open reads /a"),
            ("pcap:/a,record=/b", "open reads /a, record writes /b"),
            (
                "soft,uplink=pcap:/a+record=/b",
                "uplink reads /a, uplink writes /b",
            ),
            ("soft,uplink=tap:t0", ""),
        ];
        for (words, want) in cases {
            let found = files(&words.parse().expect(words));
            let found = found.iter().map(|file| {
                let verb = if file.is_written { "writes" } else { "reads" };
                format!("{} {verb} {}", file.field, file.path.display())
            });
            let found: Vec<String> = found.collect();
            assert_eq!(found.join(", "), want, "{words}");
        }
    }
}
