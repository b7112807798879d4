//! Captures, which a pipeline counts and tshark judges.

use super::cases::Case;
use super::counts::{Counts, Field};
use super::differences::{self, Differences};
use super::tshark::Judgement;
use crate::Error;
use std::path::{Path, PathBuf};

/// What became of a capture on our side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ours {
    /// The counts of its frames.
    Ethernet(Counts),
    /// It was refused for this link type.
    LinkType(u16),
}

/// A capture and the name that the table of differences has for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capture {
    /// Its folder and file name.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
}

/// The captures one folder below `folder`, sorted by name.
///
/// # Errors
/// When a folder cannot be read.
pub fn find(folder: &Path) -> Result<Vec<Capture>, Error> {
    let mut found = Vec::new();
    for path in crate::repository::files(folder)? {
        let is_capture = path
            .extension()
            .is_some_and(|end| end == "pcap" || end == "pcapng");
        if is_capture {
            let name = path.to_string_lossy().into_owned();
            let path = folder.join(path);
            found.push(Capture { name, path });
        }
    }
    found.sort();
    Ok(found)
}

/// Compares what both sides say of captures, each once.
pub struct Court {
    table: Differences,
    proposals: String,
    judged: Vec<String>,
}

impl Court {
    /// With this table.
    #[must_use]
    pub fn new(table: Differences) -> Self {
        Self {
            table,
            proposals: String::new(),
            judged: Vec::new(),
        }
    }

    /// The cases of a capture: one where both agree, else one a field that differs.
    pub fn judge(&mut self, capture: &Capture, ours: &Ours, judgement: &Judgement) -> Vec<Case> {
        self.judged.push(capture.name.clone());
        let (ours, judge) = match (ours, judgement) {
            (Ours::Ethernet(ours), Judgement::Ethernet(judge)) => (ours, judge),
            _ => return vec![self.other(capture, ours, judgement)],
        };
        let mut cases = Vec::new();
        for field in Field::ALL {
            let Some((we, they)) = ours.difference(judge, field) else {
                continue;
            };
            let reason = self.table.explain(&capture.name, field, &we, &they);
            let explanation = reason.map(str::to_owned);
            if explanation.is_none() {
                self.proposals += &differences::proposal(&capture.name, field, &we, &they);
            }
            let name = format!("{} {}", capture.name, field.name());
            cases.push(Case {
                name,
                ours: we,
                judge: they,
                explanation,
            });
        }
        if cases.is_empty() {
            let told = |counts: &Counts| format!("{} frames", counts.frames());
            cases.push(Case {
                name: format!("{} all fields", capture.name),
                ours: told(ours),
                judge: told(judge),
                explanation: None,
            });
        }
        cases
    }

    /// A capture that either side takes for other than Ethernet: both must.
    fn other(&self, capture: &Capture, ours: &Ours, judgement: &Judgement) -> Case {
        let ethernet = |counts: &Counts| format!("{} Ethernet frames", counts.frames());
        let (we, link_type) = match ours {
            Ours::Ethernet(counts) => (ethernet(counts), None),
            Ours::LinkType(number) => ("not Ethernet, refused".to_owned(), Some(number)),
        };
        let (they, encapsulation) = match judgement {
            Judgement::Ethernet(counts) => (ethernet(counts), None),
            Judgement::Other(number) => ("not Ethernet, refused".to_owned(), Some(number)),
        };
        let numbers = match (link_type, encapsulation) {
            (Some(link), Some(other)) => format!(" (link type {link}, wiretap {other})"),
            _ => String::new(),
        };
        let name = format!("{}{numbers}", capture.name);
        Case {
            name,
            ours: we,
            judge: they,
            explanation: None,
        }
    }

    /// The rows that no difference used, as cases that fail.
    #[must_use]
    pub fn unused(&self) -> Vec<Case> {
        let rows = self
            .table
            .unused(|capture| self.judged.iter().any(|name| name == capture));
        let case = |row: &differences::Row| Case {
            name: format!("{} {}", row.capture, row.field),
            ours: "the same".to_owned(),
            judge: "the same".to_owned(),
            explanation: Some(format!(
                "unused row of {}: ours {}, judge {}",
                self.table.path().display(),
                row.ours,
                row.judge
            )),
        };
        rows.map(case).collect()
    }

    /// Rows for the differences that have none, but for their reasons.
    #[must_use]
    pub fn proposals(&self) -> &str {
        &self.proposals
    }
}
