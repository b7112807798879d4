//! The table of differences that are right: what exactly differs, and why.

use super::counts::Field;
use crate::{Error, repository};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A row: in this capture and field, both sides give these answers, for this reason.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The capture: its folder and name.
    pub capture: String,
    /// The field's name.
    pub field: String,
    /// Our answer.
    pub ours: String,
    /// The judge's answer.
    pub judge: String,
    /// Why the difference is right.
    pub reason: String,
}

/// All rows, each marked when it is used.
#[derive(Debug)]
pub struct Differences {
    path: PathBuf,
    rows: Vec<(Row, bool)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    difference: Vec<Row>,
}

impl Differences {
    /// Reads a table.
    ///
    /// # Errors
    /// When it cannot be read, a field is unknown, a reason is empty or a row is there twice.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = repository::text(path)?;
        Self::of(path, &text).map_err(|problem| Error::content(path, problem))
    }

    fn of(path: &Path, text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        for (index, row) in file.difference.iter().enumerate() {
            let Row { capture, field, .. } = row;
            if Field::named(field).is_none() {
                return Err(format!("{capture}: no field is called `{field}`"));
            }
            if row.reason.trim().is_empty() {
                return Err(format!("{capture} {field}: the reason is empty"));
            }
            let before = file.difference.iter().take(index);
            if before
                .into_iter()
                .any(|other| other.capture == *capture && other.field == *field)
            {
                return Err(format!("{capture} {field}: has two rows"));
            }
        }
        Ok(Self {
            path: path.to_path_buf(),
            rows: file
                .difference
                .into_iter()
                .map(|row| (row, false))
                .collect(),
        })
    }

    /// The reason for exactly this difference, whose row is used from now on.
    pub fn explain(
        &mut self,
        capture: &str,
        field: Field,
        ours: &str,
        judge: &str,
    ) -> Option<&str> {
        let (row, used) = self.rows.iter_mut().find(|(row, _)| {
            row.capture == capture
                && row.field == field.name()
                && row.ours == ours
                && row.judge == judge
        })?;
        *used = true;
        Some(&row.reason)
    }

    /// Rows about the captures that were judged and that no difference used.
    pub fn unused<'a>(
        &'a self,
        judged: impl Fn(&str) -> bool + 'a,
    ) -> impl Iterator<Item = &'a Row> {
        let rows = self
            .rows
            .iter()
            .filter(|(_, used)| !used)
            .map(|(row, _)| row);
        rows.filter(move |row| judged(&row.capture))
    }

    /// Where the table lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A row as it would stand in the table, but for its reason.
#[must_use]
pub fn proposal(capture: &str, field: Field, ours: &str, judge: &str) -> String {
    format!(
        "[[difference]]\ncapture = {capture:?}\nfield = {:?}\nours = {ours:?}\njudge = {judge:?}\n\
         reason = \"\"\n",
        field.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "[[difference]]\ncapture = \"a.pcap\"\nfield = \"vlan\"\nours = \"1: 2\"\n\
                       judge = \"1: 3\"\nreason = \"cut\"\n";

    #[test]
    fn a_row_explains_its_difference_and_no_other() {
        let mut table = Differences::of(Path::new("t"), ROW).unwrap();
        assert_eq!(table.explain("a.pcap", Field::Vlan, "1: 2", "1: 4"), None);
        assert_eq!(table.explain("b.pcap", Field::Vlan, "1: 2", "1: 3"), None);
        assert_eq!(table.unused(|_| true).count(), 1);
        assert_eq!(table.unused(|capture| capture == "b.pcap").count(), 0);
        assert_eq!(
            table.explain("a.pcap", Field::Vlan, "1: 2", "1: 3"),
            Some("cut")
        );
        assert_eq!(table.unused(|_| true).count(), 0);
    }

    #[test]
    fn a_table_that_says_too_little_or_too_much_is_refused() {
        let check = |text: &str, words: &str| {
            let problem = Differences::of(Path::new("t"), text)
                .map(drop)
                .expect_err(words);
            assert!(problem.contains(words), "{problem}");
        };
        check(&format!("{ROW}{ROW}"), "two rows");
        check(&ROW.replace("cut", " "), "reason is empty");
        check(&ROW.replace("vlan", "colour"), "no field");
        check(&format!("{ROW}why = 1\n"), "why");
        let row = proposal("a.pcap", Field::Vlan, "1: 2", "1: 3");
        check(&row, "reason is empty");
    }
}
