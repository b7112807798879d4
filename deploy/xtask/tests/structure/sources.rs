//! Sizes, names and words of the Rust sources, and the crates' first lines.

use crate::{expect_none, rust_files};
use std::path::Path;
use xtask::repository;

const FILE_LINES: usize = 600;
const TEST_FILE_LINES: usize = 1000;
const FUNCTION_LINES: usize = 90;
const COLUMNS: usize = 100;
const MODULE_NAMES: [&str; 5] = ["util", "utils", "common", "misc", "helpers"];
const TOP_FOLDERS: [&str; 8] = [
    "bench",
    "deploy",
    "examples",
    "gpu-rx-tx",
    "nic",
    "pipelines",
    "protocols",
    "src",
];

/// Words of unfinished work, in two halves so that this file does not hold them.
const UNFINISHED: [(&str, &str); 6] = [
    ("TO", "DO"),
    ("FIX", "ME"),
    ("HA", "CK"),
    ("XX", "X"),
    ("todo", "!("),
    ("unimplemented", "!("),
];

fn is_test_file(path: &Path) -> bool {
    let named = |name: &str| path.components().any(|part| part.as_os_str() == name);
    let stem = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or("");
    named("tests") || named("benches") || stem == "tests" || stem.ends_with("_tests")
}

/// Lines before the tests: up to the first `#[cfg(test)]` at the left margin.
fn product_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| *line != "#[cfg(test)]")
}

fn is_generated(text: &str) -> bool {
    text.lines()
        .next()
        .is_some_and(|line| line.to_lowercase().contains("generated"))
}

#[test]
fn files_are_one_thing() {
    let mut faults = Vec::new();
    for (path, text) in rust_files().iter().filter(|(_, text)| !is_generated(text)) {
        let limit = if is_test_file(path) {
            TEST_FILE_LINES
        } else {
            FILE_LINES
        };
        let count = product_lines(text).count();
        if count > limit {
            faults.push(format!(
                "{}: {count} lines, at most {limit}",
                path.display()
            ));
        }
    }
    expect_none("files that are too long", &faults);
}

/// Name and length of every function, read from rustfmt's shape: the closing brace stands under
/// the first letter of the line that opens the function.
fn functions(text: &str) -> Vec<(usize, String, usize)> {
    let lines: Vec<&str> = product_lines(text).collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let indent = &line[..line.len() - line.trim_start().len()];
        let closing = format!("{indent}}}");
        let rest = lines[start..].iter();
        let end = rest
            .take_while(|line| !(**line == closing || ends_here(line, indent)))
            .count();
        found.push((start + 1, name.to_owned(), end + 1));
    }
    found
}

/// A declaration without body, or a body on one line.
fn ends_here(line: &str, indent: &str) -> bool {
    let own = line
        .strip_prefix(indent)
        .is_some_and(|rest| !rest.starts_with(' '));
    own && (line.ends_with(';') || (line.contains('{') && line.ends_with('}')))
}

fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.trim_start().split_once("fn ")?;
    let qualifiers = ["pub", "const", "unsafe", "async", "extern", "default"];
    let is_item = before.split_whitespace().all(|word| {
        qualifiers
            .iter()
            .any(|qualifier| word.starts_with(qualifier))
            || word.starts_with('"')
            || word.ends_with(')')
    });
    let name = after.split(['(', '<']).next()?;
    // `fn rows:` heads a list of entry points, and no function.
    (is_item && !name.is_empty() && !name.ends_with(':')).then_some(name)
}

#[test]
fn functions_fit_a_page() {
    let mut faults = Vec::new();
    for (path, text) in rust_files().iter().filter(|(path, _)| !is_test_file(path)) {
        for (line, name, count) in functions(text) {
            if count > FUNCTION_LINES {
                let place = path.display();
                faults.push(format!("{place}:{line}: `{name}` has {count} lines"));
            }
        }
    }
    expect_none("functions that are too long", &faults);
}

#[test]
fn functions_are_measured() {
    let text = "pub(crate) const fn a() -> u8 {\n    1\n}\nimpl X {\n    fn b();\n    \
                fn c() {}\n    extern \"C\" fn d(\n        x: u8,\n    ) {\n        x\n    }\n\
                }\n// fn comment(\n";
    let found: Vec<(String, usize)> = functions(text)
        .into_iter()
        .map(|(_, name, count)| (name, count))
        .collect();
    let expected = [("a", 3), ("b", 1), ("c", 1), ("d", 5)];
    assert_eq!(
        found,
        expected.map(|(name, count)| (name.to_owned(), count))
    );
}

#[test]
fn lines_fit_the_page() {
    let mut faults = Vec::new();
    for (path, text) in rust_files().iter().filter(|(_, text)| !is_generated(text)) {
        for (index, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS {
                faults.push(format!(
                    "{}:{}: {columns} columns",
                    path.display(),
                    index + 1
                ));
            }
        }
    }
    expect_none("lines that are too long", &faults);
}

#[test]
fn names_say_what_is_inside() {
    let files = repository::files(&repository::root()).unwrap();
    let vague = |path: &&std::path::PathBuf| {
        let mut parts = path.iter().filter_map(|part| Path::new(part).file_stem());
        parts.any(|part| MODULE_NAMES.iter().any(|name| part == *name))
    };
    let faults: Vec<String> = files
        .iter()
        .filter(vague)
        .map(|path| path.display().to_string())
        .collect();
    expect_none("files and folders whose names say nothing", &faults);
    for (path, text) in rust_files() {
        for name in MODULE_NAMES {
            let inline = text
                .lines()
                .any(|line| line.contains(&format!("mod {name} {{")));
            assert!(!inline, "{}: module `{name}`", path.display());
        }
    }
}

#[test]
fn no_other_top_folder() {
    let mut faults = Vec::new();
    for entry in std::fs::read_dir(repository::root()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let own = name.starts_with('.') || name == "target" || TOP_FOLDERS.contains(&name.as_str());
        if entry.file_type().unwrap().is_dir() && !own {
            faults.push(name);
        }
    }
    expect_none("top-level folders that the map does not have", &faults);
}

#[test]
fn crates_open_with_a_sentence_and_their_invariants() {
    let mut seen = 0;
    for (path, text) in rust_files()
        .iter()
        .filter(|(path, _)| path.ends_with("src/lib.rs"))
    {
        seen += 1;
        let place = path.display();
        let first = text.lines().next().unwrap_or("");
        let paragraph: String = text
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .take_while(|line| !line.is_empty())
            .collect();
        assert!(
            first.starts_with("//! "),
            "{place}: line 1 must say what the crate is"
        );
        assert!(
            paragraph.ends_with('.'),
            "{place}: must open with a sentence"
        );
        // A crate that is still an empty shell has nothing to promise.
        let is_shell = text
            .lines()
            .all(|line| line.is_empty() || line.starts_with("//"));
        let promises = text
            .lines()
            .any(|line| line.starts_with("//! ") && line.contains("Invariant:"));
        assert!(promises || is_shell, "{place}: no `Invariant:` line");
    }
    assert!(seen >= 10, "only {seen} crates found");
}

#[test]
fn nothing_is_marked_as_unfinished() {
    let root = repository::root();
    let mut faults = Vec::new();
    for path in repository::files(&root).unwrap() {
        let is_text = path.extension().and_then(|extension| extension.to_str());
        if !matches!(
            is_text,
            Some("rs" | "md" | "toml" | "sh" | "py" | "c" | "h")
        ) {
            continue;
        }
        let text = repository::text(&root.join(&path)).unwrap();
        for (index, line) in text.lines().enumerate() {
            for (head, tail) in UNFINISHED {
                if holds_word(line, &format!("{head}{tail}")) {
                    faults.push(format!("{}:{}: {}", path.display(), index + 1, line.trim()));
                }
            }
        }
    }
    expect_none("marks of unfinished work", &faults);
}

fn holds_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        !is_letter(before) && (word.ends_with('(') || !is_letter(after))
    })
}
