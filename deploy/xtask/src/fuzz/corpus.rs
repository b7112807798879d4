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

/// Replaces a committed corpus by a small one that reaches every edge that any input reaches.
pub(super) fn minimise(harness: &Path, folders: &Folders) -> Result<(), Error> {
    let fresh = folders
        .findings
        .with_file_name(format!("{}.new", folders.target));
    // Left over from a run that was stopped.
    let _ = std::fs::remove_dir_all(&fresh);
    std::fs::create_dir_all(&fresh).map_err(|source| Error::file(&fresh, source))?;
    let mut command = harness_for(harness, &folders.target);
    command.args(["-set_cover_merge=1", "-use_counters=0", MAX_LENGTH]);
    command.arg(&fresh).args(folders.inputs());
    process::run_well(&mut command, MERGE_LIMIT, Show::Nothing)?;
    let files = repository::files(&fresh)?;
    if files.is_empty() || files.len() > MAX_FILES {
        let problem = format!("{} files, and 1 to {MAX_FILES} are kept", files.len());
        return Err(Error::content(&fresh, problem));
    }
    let committed = &folders.committed;
    std::fs::remove_dir_all(committed).map_err(|source| Error::file(committed, source))?;
    std::fs::rename(&fresh, committed).map_err(|source| Error::file(committed, source))?;
    println!("{}: {} files kept", folders.target, files.len());
    Ok(())
}

/// Most files of a committed corpus: its replay takes seconds.
const MAX_FILES: usize = 300;

const MERGE_LIMIT: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

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
