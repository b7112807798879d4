//! What the documents say, compared with what is there.

use crate::{expect_none, rust_files};
use std::collections::BTreeSet;
use xtask::repository;

const README_LINES: usize = 40;

fn document(name: &str) -> String {
    repository::text(&repository::root().join(name)).unwrap()
}

/// The first column of the table between two markers of ARCHITECTURE.md.
fn first_column(marker: &str) -> BTreeSet<String> {
    let text = document("ARCHITECTURE.md");
    let begin = format!("<!-- {marker}: begin -->");
    let (_, rest) = text.split_once(&begin).expect(&begin);
    let (table, _) = rest
        .split_once(&format!("<!-- {marker}: end -->"))
        .expect("an end marker");
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.filter_map(|row| row.split('|').nth(1))
        .map(|cell| cell.trim().to_owned())
        .collect()
}

fn compare(what: &str, listed: &BTreeSet<String>, found: &BTreeSet<String>) {
    let difference = |left: &BTreeSet<String>, right: &BTreeSet<String>, word: &str| {
        left.difference(right)
            .map(|name| format!("{word}: {name}"))
            .collect::<Vec<_>>()
    };
    let mut faults = difference(found, listed, "missing from ARCHITECTURE.md");
    faults.extend(difference(listed, found, "listed, but not there"));
    expect_none(what, &faults);
}

#[test]
fn unsafe_code_lives_where_the_list_says() {
    // In two halves, so that this file is not on the list.
    let marks = ["expect", "allow"].map(|level| format!("{level}({}", "unsafe_code"));
    let opts_in = |text: &str| {
        // An attribute may span lines.
        let dense: String = text.split_whitespace().collect();
        marks.iter().any(|mark| dense.contains(mark.as_str()))
    };
    let found: BTreeSet<String> = rust_files()
        .into_iter()
        .filter(|(_, text)| opts_in(text))
        .map(|(path, _)| path.display().to_string())
        .collect();
    compare(
        "files with unsafe code",
        &first_column("unsafe-modules"),
        &found,
    );
}

#[test]
fn dependencies_have_a_reason() {
    let manifest = repository::toml(&repository::root().join("Cargo.toml")).unwrap();
    let dependencies = manifest["workspace"]["dependencies"].as_table().unwrap();
    let outside =
        |(name, value): (&String, &toml::Value)| value.get("path").is_none().then(|| name.clone());
    let found: BTreeSet<String> = dependencies.iter().filter_map(outside).collect();
    compare("dependencies", &first_column("dependencies"), &found);
}

#[test]
fn every_dependency_is_declared_once_for_all() {
    let root = repository::root();
    let mut faults = Vec::new();
    let files = repository::files(&root).unwrap();
    for path in files.iter().filter(|path| path.ends_with("Cargo.toml")) {
        let manifest = repository::toml(&root.join(path)).unwrap();
        if manifest.contains_key("workspace") && path.components().count() > 1 {
            continue; // A workspace of its own: a fixture or a fuzz target.
        }
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let table = manifest.get(kind).and_then(toml::Value::as_table);
            for (name, value) in table.into_iter().flatten() {
                if value.get("workspace").is_none() {
                    faults.push(format!("{}: {name}", path.display()));
                }
            }
        }
    }
    expect_none(
        "dependencies that do not come from [workspace.dependencies]",
        &faults,
    );
}

#[test]
fn top_folders_explain_themselves_briefly() {
    let root = repository::root();
    let folders = [
        "protocols",
        "gpu-rx-tx",
        "nic",
        "pipelines",
        "examples",
        "bench",
        "deploy",
    ];
    for folder in folders {
        let path = root.join(folder).join("README.md");
        let lines = repository::text(&path).unwrap().lines().count();
        assert!(
            (3..=README_LINES).contains(&lines),
            "{}: {lines} lines",
            path.display()
        );
    }
}

#[test]
fn the_readme_states_what_is_needed() {
    let readme = document("README.md");
    let manifest = repository::toml(&repository::root().join("Cargo.toml")).unwrap();
    let rust = manifest["workspace"]["package"]["rust-version"]
        .as_str()
        .unwrap();
    for needed in [
        &format!("Rust {rust}"),
        "cargo run --release",
        "cargo xtask test",
        "r545",
    ] {
        assert!(readme.contains(needed), "README.md does not say `{needed}`");
    }
    let changelog = document("CHANGELOG.md");
    let (_, gaps) = changelog
        .split_once("## Known gaps")
        .expect("a list of known gaps");
    assert!(gaps.contains("\n1. "), "known gaps are numbered");
    assert!(document("ARCHITECTURE.md").contains("Invariant:"));
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(document(licence).len() > 1000, "{licence}");
    }
}
