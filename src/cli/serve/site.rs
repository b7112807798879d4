//! The files of a site, in memory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use super::super::Failure;

/// Files by their paths.
#[derive(Debug, Default)]
pub(super) struct Site {
    pages: BTreeMap<Vec<u8>, Page>,
}

/// A file.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) bytes: Arc<[u8]>,
    /// Its media type.
    pub(super) kind: &'static str,
}

impl Site {
    /// Reads all files below a folder; links are left out.
    pub(super) fn read(root: &Path) -> Result<Self, Failure> {
        let mut site = Self::default();
        site.add(root, &mut b"/".to_vec())?;
        Ok(site)
    }

    fn add(&mut self, folder: &Path, path: &mut Vec<u8>) -> Result<(), Failure> {
        let wrong = |source| Failure::File {
            path: folder.to_owned(),
            source,
        };
        for entry in fs::read_dir(folder).map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            let kind = entry.file_type().map_err(wrong)?;
            let length = path.len();
            path.extend_from_slice(entry.file_name().as_bytes());
            if kind.is_dir() {
                path.push(b'/');
                self.add(&entry.path(), path)?;
            } else if kind.is_file() {
                let bytes = fs::read(entry.path()).map_err(|source| Failure::File {
                    path: entry.path(),
                    source,
                })?;
                let page = Page {
                    bytes: bytes.into(),
                    kind: media_type(path),
                };
                self.pages.insert(path.clone(), page);
            }
            path.truncate(length);
        }
        Ok(())
    }

    /// The file of a path; of a folder, its `index.html`.
    pub(super) fn page(&self, path: &[u8]) -> Option<&Page> {
        match path.last() {
            Some(b'/') => self.pages.get(&[path, b"index.html"].concat()),
            _ => self.pages.get(path),
        }
    }

    /// How many files there are, and their bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        let bytes = self.pages.values().map(|page| page.bytes.len());
        (self.pages.len(), bytes.sum())
    }
}

fn media_type(path: &[u8]) -> &'static str {
    let known = KINDS.iter().find(|(end, _)| path.ends_with(end));
    known.map_or("application/octet-stream", |(_, kind)| kind)
}

const KINDS: [(&[u8], &str); 11] = [
    (b".html", "text/html; charset=utf-8"),
    (b".htm", "text/html; charset=utf-8"),
    (b".txt", "text/plain; charset=utf-8"),
    (b".css", "text/css"),
    (b".js", "text/javascript"),
    (b".json", "application/json"),
    (b".png", "image/png"),
    (b".jpg", "image/jpeg"),
    (b".svg", "image/svg+xml"),
    (b".wasm", "application/wasm"),
    (b".pdf", "application/pdf"),
];
