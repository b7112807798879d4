//! Reading a TOML document with an eye on where things stand, and noting all that is wrong.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::Problem;

/// A key of a file as a message may show it: control characters escaped, the tail of a long one
/// cut, an empty one in quotes.
pub(super) fn printable(key: &str) -> String {
    const LONGEST: usize = 64;
    let mut shown: String = key.chars().take(LONGEST).collect();
    if shown.len() < key.len() {
        shown.push('…');
    }
    match shown.trim() {
        "" => format!("\"{}\"", escaped(&shown)),
        _ => escaped(&shown),
    }
}

/// Words that may quote the file, fit for a terminal: control characters escaped.
fn escaped(words: &str) -> String {
    let mut shown = String::with_capacity(words.len());
    for letter in words.chars() {
        match letter.is_control() {
            true => shown.extend(letter.escape_debug()),
            false => shown.push(letter),
        }
    }
    shown
}

/// The text of a file, and the problems noted so far.
pub(super) struct Document<'t> {
    text: &'t str,
    problems: RefCell<Vec<Problem>>,
}

impl<'t> Document<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            problems: RefCell::default(),
        }
    }

    /// Notes a problem at a place in the text.
    pub(super) fn note(&self, span: Range<usize>, field: &str, problem: String, cure: String) {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let column = before
            .get(line_start..)
            .map_or(0, |line| line.chars().count());
        self.problems.borrow_mut().push(Problem {
            line: before.matches('\n').count() + 1,
            column: column + 1,
            field: escaped(field),
            problem: escaped(&problem),
            cure: escaped(&cure),
        });
    }

    /// How many problems were noted so far.
    pub(super) fn noted(&self) -> usize {
        self.problems.borrow().len()
    }

    /// The line of a place in the text, from 1.
    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        before.matches('\n').count() + 1
    }

    /// What was noted, in the order of lines.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| (problem.line, problem.column));
        problems
    }
}

/// A table of the document.
pub(super) struct Section<'d> {
    pub(super) document: &'d Document<'d>,
    /// The path of the table, empty for the document itself.
    pub(super) path: String,
    pub(super) span: Range<usize>,
    table: &'d DeTable<'d>,
    /// Keys that somebody asked for.
    known: RefCell<HashSet<&'d str>>,
    names: RefCell<Vec<&'static str>>,
}

/// A value of the document.
pub(super) struct Entry<'d> {
    pub(super) document: &'d Document<'d>,
    pub(super) path: String,
    pub(super) span: Range<usize>,
    value: &'d DeValue<'d>,
}

impl<'d> Section<'d> {
    pub(super) fn root(document: &'d Document<'d>, table: &'d Spanned<DeTable<'d>>) -> Self {
        Self::new(document, String::new(), table.span(), table.get_ref())
    }

    fn new(
        document: &'d Document<'d>,
        path: String,
        span: Range<usize>,
        table: &'d DeTable<'d>,
    ) -> Self {
        Self {
            document,
            path,
            span,
            table,
            known: RefCell::default(),
            names: RefCell::default(),
        }
    }

    fn join(&self, key: &str) -> String {
        let key = printable(key);
        match self.path.as_str() {
            "" => key,
            path => format!("{path}.{key}"),
        }
    }

    /// The value of a key, if it is there. Asking makes the key known.
    pub(super) fn take(&self, key: &'static str) -> Option<Entry<'d>> {
        self.names.borrow_mut().push(key);
        let (name, value) = self.table.get_key_value(key)?;
        self.known.borrow_mut().insert(name.get_ref().as_ref());
        Some(Entry {
            document: self.document,
            path: self.join(key),
            span: value.span(),
            value: value.get_ref(),
        })
    }

    /// The value of a key that must be there.
    pub(super) fn need(&self, key: &'static str, cure: &str) -> Option<Entry<'d>> {
        let entry = self.take(key);
        if entry.is_none() {
            self.note(key, "is missing".to_owned(), cure.to_owned());
        }
        entry
    }

    /// Every key that nobody asked for so far, with its value. Makes them known.
    pub(super) fn rest(&self) -> Vec<(&'d str, Entry<'d>)> {
        let mut rest = Vec::new();
        for (name, value) in self.table {
            let key = name.get_ref().as_ref();
            if !self.known.borrow_mut().insert(key) {
                continue;
            }
            let entry = Entry {
                document: self.document,
                path: self.join(key),
                span: value.span(),
                value: value.get_ref(),
            };
            rest.push((key, entry));
        }
        rest
    }

    /// Whether the table holds no key at all.
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Notes every key that nobody asked for.
    pub(super) fn finish(&self) {
        for (name, _) in self.table {
            let key = name.get_ref().as_ref();
            if self.known.borrow().contains(key) {
                continue;
            }
            let names = self.names.borrow();
            let cure = match nearest(key, &names) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("known here: {}", names.join(", ")),
            };
            self.document.note(
                name.span(),
                &self.join(key),
                "is not known here".to_owned(),
                cure,
            );
        }
    }

    /// Notes a problem with a key of this table at the table's own place.
    pub(super) fn note(&self, key: &str, problem: String, cure: String) {
        self.document
            .note(self.span.clone(), &self.join(key), problem, cure);
    }
}

impl<'d> Entry<'d> {
    /// Notes a problem with this value.
    pub(super) fn note(&self, problem: impl Into<String>, cure: impl Into<String>) {
        self.document
            .note(self.span.clone(), &self.path, problem.into(), cure.into());
    }

    pub(super) fn line(&self) -> usize {
        self.document.line(&self.span)
    }

    fn mismatch<T>(&self, wanted: &str) -> Option<T> {
        let found = self.value.type_str();
        self.note(format!("is {found}"), format!("write {wanted}"));
        None
    }

    /// A string, or a note that it is none.
    pub(super) fn text(&self, wanted: &str) -> Option<&'d str> {
        match self.value {
            DeValue::String(text) => Some(text.as_ref()),
            _ => self.mismatch(wanted),
        }
    }

    /// A whole number within bounds, or a note.
    pub(super) fn number(&self, bounds: RangeInclusive<u64>) -> Option<u64> {
        let (low, high) = (bounds.start(), bounds.end());
        let wanted = format!("a number from {low} to {high}");
        let DeValue::Integer(integer) = self.value else {
            return self.mismatch(&wanted);
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number = number.filter(|number| bounds.contains(number));
        if number.is_none() {
            self.note(
                format!("{integer} is out of range"),
                format!("write {wanted}"),
            );
        }
        number
    }

    /// `true` or `false`, or a note.
    pub(super) fn boolean(&self) -> Option<bool> {
        match self.value {
            DeValue::Boolean(value) => Some(*value),
            _ => self.mismatch("true or false"),
        }
    }

    /// A string, number or boolean as words; `None` for anything else, without a note.
    pub(super) fn words(&self) -> Option<String> {
        match self.value {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(integer) if integer.radix() == 10 => Some(integer.to_string()),
            DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix())
                .ok()
                .map(|number| number.to_string()),
            DeValue::Boolean(value) => Some(value.to_string()),
            _ => None,
        }
    }

    /// A table, or a note.
    pub(super) fn section(&self) -> Option<Section<'d>> {
        match self.value {
            DeValue::Table(table) => Some(Section::new(
                self.document,
                self.path.clone(),
                self.span.clone(),
                table,
            )),
            _ => self.mismatch("a table"),
        }
    }

    /// The elements of a list of at most `limit`, or a note.
    pub(super) fn list(&self, wanted: &str, limit: usize) -> Option<Vec<Entry<'d>>> {
        let DeValue::Array(array) = self.value else {
            return self.mismatch(wanted);
        };
        if array.len() > limit {
            self.note(
                format!("has {} entries", array.len()),
                format!("write at most {limit}"),
            );
            return None;
        }
        Some(self.elements(array))
    }

    /// The elements of a list, or the value itself if it is no list.
    pub(super) fn one_or_list(&self, limit: usize) -> Option<Vec<Entry<'d>>> {
        match self.value {
            DeValue::Array(_) => self.list("a list", limit),
            _ => Some(vec![Entry {
                path: self.path.clone(),
                span: self.span.clone(),
                ..*self
            }]),
        }
    }

    fn elements(&self, array: &'d toml::de::DeArray<'d>) -> Vec<Entry<'d>> {
        let element = |(index, value): (usize, &'d Spanned<DeValue<'d>>)| Entry {
            document: self.document,
            path: format!("{}[{index}]", self.path),
            span: value.span(),
            value: value.get_ref(),
        };
        array.iter().enumerate().map(element).collect()
    }

    /// What `read` makes of the words of a string or number, or a note of its complaint.
    pub(super) fn read<T>(&self, wanted: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let Some(words) = self.words() else {
            return self.mismatch(wanted);
        };
        let value = read(&words);
        if value.is_none() {
            self.note(
                format!("`{words}` cannot be read"),
                format!("write {wanted}"),
            );
        }
        value
    }
}

/// The known name that differs from `word` by the fewest edits, if those are few.
fn nearest(word: &str, names: &[&'static str]) -> Option<&'static str> {
    let letters = word.chars().count();
    let limit = letters / 3 + usize::from(letters > 3);
    names
        .iter()
        .map(|name| (edits(word, name), *name))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| name)
}

/// Insertions, deletions and replacements that turn one word into the other.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (done, letter) in from.chars().enumerate() {
        let mut previous = done + 1;
        let mut diagonal = done;
        for (cell, other) in row.iter_mut().skip(1).zip(&to) {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = *cell;
            *cell = replaced.min(previous + 1).min(*cell + 1);
            previous = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = done + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        let cases = [
            ("", "", 0),
            ("stage", "stage", 0),
            ("stges", "stage", 2),
            ("", "abc", 3),
            ("forword", "forward", 1),
        ];
        for (from, to, want) in cases {
            assert_eq!(edits(from, to), want, "{from} {to}");
        }
        assert_eq!(
            nearest("adresses", &["mac", "addresses"]),
            Some("addresses")
        );
        assert_eq!(nearest("colour", &["mac", "addresses"]), None);
    }
}
