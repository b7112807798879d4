//! Results as JSON, in a file that was seen to be writable before anything was measured.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use super::Failure;

/// A file for results. What stood there stays until there are some; a new one goes if there are
/// none.
pub(super) struct Record {
    path: PathBuf,
    file: File,
    is_to_go: bool,
}

impl Record {
    pub(super) fn open(path: PathBuf) -> Result<Self, Failure> {
        let is_new = !path.exists();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        match file {
            Ok(file) => Ok(Self {
                path,
                file,
                is_to_go: is_new,
            }),
            Err(source) => Err(Failure::File { path, source }),
        }
    }

    pub(super) fn write(mut self, value: &serde_json::Value) -> Result<(), Failure> {
        self.is_to_go = false;
        let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
        let is_file = self.file.metadata().is_ok_and(|about| about.is_file());
        let emptied = if is_file {
            self.file.set_len(0)
        } else {
            Ok(())
        };
        let written = emptied.and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(|source| Failure::File {
            path: self.path.clone(),
            source,
        })
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.is_to_go {
            // What cannot be removed is empty.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
