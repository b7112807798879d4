//! Every committed input through its oracle: what fuzzing once reached, each test run reaches.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use warpwire_fuzz::{TARGETS, capture, parser};
use warpwire_nic::pcap::Reader;

fn own(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)
}

/// Every file below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    for entry in entries.map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => found.extend(files(&entry)),
            false => found.push(entry),
        }
    }
    found.sort();
    found
}

/// Runs every file of a folder through `check`. Returns how many, and which failed.
fn replay(folder: &Path, check: fn(&[u8])) -> (usize, Vec<PathBuf>) {
    let files = files(folder);
    let count = files.len();
    let fails = |file: &PathBuf| {
        let data = fs::read(file).unwrap();
        catch_unwind(|| check(&data)).is_err()
    };
    (count, files.into_iter().filter(fails).collect())
}

#[test]
fn every_target_has_a_corpus_that_passes() {
    let mut all = Vec::new();
    for target in TARGETS {
        let (count, failed) = replay(&own("corpus").join(target.name), target.check);
        assert!(count > 0, "the corpus of {} is empty", target.name);
        println!("{}: {count} files, {} fail", target.name, failed.len());
        all.extend(failed);
    }
    assert!(all.is_empty(), "findings, told above: {all:#?}");
}

#[test]
fn every_corpus_has_a_target_and_is_small() {
    let corpus = own("corpus");
    let folders = files(&corpus).into_iter().map(|file| {
        let folder = file.strip_prefix(&corpus).unwrap().parent().unwrap();
        folder.display().to_string()
    });
    let folders: BTreeSet<String> = folders.collect();
    let names = TARGETS.iter().map(|target| target.name.to_owned());
    assert_eq!(folders, names.collect::<BTreeSet<_>>());
    let sizes = files(&corpus)
        .into_iter()
        .map(|file| fs::metadata(file).unwrap().len());
    assert!(
        sizes.sum::<u64>() < 2 << 20,
        "the corpora are too large to be committed"
    );
}

#[test]
fn captures_pass_whole_and_frame_by_frame() {
    let mut frames = 0;
    for folder in ["../testdata/captures", "../../protocols/testdata"] {
        let (count, failed) = replay(&own(folder), capture::check);
        assert!(count > 10 && failed.is_empty(), "{folder}: {failed:#?}");
        for file in files(&own(folder)) {
            let data = fs::read(&file).unwrap();
            let Ok(mut reader) = Reader::new(&data[..]) else {
                continue;
            };
            while let Ok(Some(record)) = reader.next_record() {
                parser::check(record.bytes);
                frames += 1;
            }
        }
    }
    assert!(frames > 500, "only {frames} frames");
}
