//! The shape of the house: arrows, unsafe code, sizes, documents. Runs without network.

mod arrows;
mod documents;
mod sources;

use std::path::PathBuf;
use xtask::repository;

/// Fails with every violation, one a line.
#[track_caller]
fn expect_none(rule: &str, violations: &[String]) {
    assert!(
        violations.is_empty(),
        "{rule}:\n  {}\n",
        violations.join("\n  ")
    );
}

/// The repository's Rust files with their text.
fn rust_files() -> Vec<(PathBuf, String)> {
    let root = repository::root();
    repository::files(&root)
        .unwrap()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| {
            let text = repository::text(&root.join(&path)).unwrap();
            (path, text)
        })
        .collect()
}
