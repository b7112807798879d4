//! The committed corpora.

use super::{Folders, MAX_LENGTH, build, harness_for};
use crate::process::{self, Show};
use crate::{Error, repository};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the corpora lie, a folder a target.
pub(super) fn folder(root: &Path) -> PathBuf {
    root.join(build::OWN).join("corpus")
}

/// The names of all targets. A test of warpwire-fuzz compares the folders with its targets.
pub(super) fn targets(root: &Path) -> Result<Vec<String>, Error> {
    let folder = folder(root);
    let mut names = Vec::new();
    for file in repository::files(&folder)? {
        if let Some(target) = file.parent().filter(|parent| *parent != Path::new("")) {
            names.push(target.display().to_string());
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Replaces a committed corpus by a small one: inputs that together reach every edge that any input
/// reaches, then the smallest of those that reach edges more often, up to [`MAX_FILES`]; and those
/// that were put there by hand.
pub(super) fn minimise(harness: &Path, folders: &Folders) -> Result<(), Error> {
    let edges = merge(harness, folders, "edges", "-use_counters=0")?;
    let counts = merge(harness, folders, "counts", "-use_counters=1")?;
    let mut more = Vec::new();
    for file in repository::files(&counts)? {
        let path = counts.join(&file);
        let size = std::fs::metadata(&path).map_err(|source| Error::file(&path, source))?;
        more.push((size.len(), file));
    }
    more.sort();
    let committed = &folders.committed;
    let mut named = repository::files(committed)?;
    named.retain(|file| is_named(file));
    let mut count = repository::files(&edges)?.len() + named.len();
    for (_, file) in more {
        let (from, to) = (counts.join(&file), edges.join(&file));
        if count < MAX_FILES && !to.exists() {
            std::fs::rename(&from, &to).map_err(|source| Error::file(&from, source))?;
            count += 1;
        }
    }
    if !(1..=MAX_FILES).contains(&count) {
        let problem = format!("{count} files, and 1 to {MAX_FILES} are kept");
        return Err(Error::content(&edges, problem));
    }
    for file in &named {
        let (from, to) = (committed.join(file), edges.join(file));
        std::fs::rename(&from, &to).map_err(|source| Error::file(&from, source))?;
    }
    std::fs::remove_dir_all(committed).map_err(|source| Error::file(committed, source))?;
    std::fs::rename(&edges, committed).map_err(|source| Error::file(committed, source))?;
    println!("{}: {count} files kept", folders.target);
    Ok(())
}

/// Whether a person named the file: libFuzzer calls its own by their hash. Those stay.
fn is_named(file: &Path) -> bool {
    let name = file.to_string_lossy();
    name.len() != 40 || !name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A small set of inputs that reaches what all of them reach; `measure` says what counts. Returns
/// its folder.
fn merge(harness: &Path, folders: &Folders, name: &str, measure: &str) -> Result<PathBuf, Error> {
    let name = format!("{}.{name}", folders.target);
    let fresh = folders.findings.with_file_name(name);
    // Left over from a run before.
    let _ = std::fs::remove_dir_all(&fresh);
    std::fs::create_dir_all(&fresh).map_err(|source| Error::file(&fresh, source))?;
    let mut command = harness_for(harness, &folders.target);
    command.args(["-set_cover_merge=1", measure, MAX_LENGTH]);
    command.arg(&fresh).args(folders.inputs());
    process::run_well(&mut command, MERGE_LIMIT, Show::Nothing)?;
    Ok(fresh)
}

/// Most files of a committed corpus: its replay takes seconds.
const MAX_FILES: usize = 300;

const MERGE_LIMIT: Duration = Duration::from_secs(1800);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_a_person_named_are_known() {
        let hash = "0123456789abcdef0123456789abcdef01234567";
        let cases = [(hash, false), ("udp-length-7", true), (&hash[1..], true)];
        for (name, expected) in cases {
            assert_eq!(is_named(Path::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn every_corpus_is_a_target_and_small() {
        let root = repository::root();
        let targets = targets(&root).unwrap();
        assert!(targets.contains(&"parser".to_owned()), "{targets:?}");
        for target in targets {
            let folder = folder(&root).join(&target);
            let count = repository::files(&folder).unwrap().len();
            assert!((1..=MAX_FILES).contains(&count), "{target}: {count} files");
        }
    }
}
