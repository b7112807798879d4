//! The files of a site, in memory of the device.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warpwire_core::serving::{FileEntry, SiteBlock};
use warpwire_gpu::Arena;
use warpwire_ring::{DeviceAddress, Location};

use super::super::error::Error;

/// The files of a site, in memory of the device, where they stay as they were read.
#[derive(Clone, Debug)]
pub struct Site {
    pub(super) arena: Arc<Arena>,
    pub(super) block: DeviceAddress,
    files: usize,
    bytes: u64,
}

/// A file that is there.
struct Found {
    /// As requests name it.
    name: Vec<u8>,
    path: PathBuf,
    bytes: u64,
}

impl Site {
    /// Reads all files below a folder, which have `most` bytes in all or less; links are left out.
    /// A file `index.html` is also the folder's, by a path that ends with `/`.
    ///
    /// # Errors
    /// [`Error::File`] for what cannot be read or changes meanwhile, [`Error::Large`],
    /// [`Error::Memory`].
    pub fn read(root: &Path, most: u64) -> Result<Self, Error> {
        let mut found = Vec::new();
        find(root, &mut b"/".to_vec(), &mut found)?;
        found.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let mut left = most;
        for file in &found {
            let rest = left.checked_sub(file.bytes);
            left = rest.ok_or_else(|| Error::Large {
                path: file.path.clone(),
                bytes: file.bytes,
                most,
                left,
            })?;
        }
        let bytes = most - left;
        let arena = Arena::new(size(&found, bytes), Location::Device)?;
        let mut entries = Vec::new();
        for file in &found {
            let content = copy(&arena, file)?;
            let media = media_type(&file.name).as_bytes();
            let media_at = arena.place_all(media)?.address;
            let folder = file.name.strip_suffix(b"index.html");
            let folder = folder.filter(|name| name.ends_with(b"/"));
            for name in std::iter::once(&file.name[..]).chain(folder) {
                let entry = FileEntry {
                    path: arena.place_all(name)?.address,
                    media: media_at,
                    content,
                    content_bytes: file.bytes,
                    path_bytes: name.len() as u32,
                    media_bytes: media.len() as u32,
                };
                entries.push((name, entry));
            }
        }
        entries.sort_unstable_by_key(|(name, _)| *name);
        let entries: Vec<FileEntry> = entries.into_iter().map(|(_, entry)| entry).collect();
        let block = SiteBlock {
            files: arena.place_all(&entries)?.address,
            file_count: entries.len() as u32,
            reserved: 0,
        };
        Ok(Self {
            block: arena.place(block)?.address,
            arena: Arc::new(arena),
            files: found.len(),
            bytes,
        })
    }

    /// How many files there are.
    pub const fn files(&self) -> usize {
        self.files
    }

    /// Bytes of all files together.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Finds the files below a folder, whose path requests name `name`, with a `/` at its end.
fn find(folder: &Path, name: &mut Vec<u8>, found: &mut Vec<Found>) -> Result<(), Error> {
    let wrong = |path: &Path| {
        let path = path.to_owned();
        |source| Error::File { path, source }
    };
    for entry in fs::read_dir(folder).map_err(wrong(folder))? {
        let entry = entry.map_err(wrong(folder))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(wrong(&path))?;
        let length = name.len();
        name.extend_from_slice(entry.file_name().as_bytes());
        if kind.is_dir() {
            name.push(b'/');
            find(&path, name, found)?;
        } else if kind.is_file() {
            let bytes = entry.metadata().map_err(wrong(&path))?.len();
            found.push(Found {
                name: name.clone(),
                path,
                bytes,
            });
        }
        name.truncate(length);
    }
    Ok(())
}

/// Bytes of an arena for these files, with room for alignment.
fn size(found: &[Found], bytes: u64) -> usize {
    let each = size_of::<FileEntry>() * 2 + CONTENT_ALIGN as usize + MOST_MEDIA;
    let names: usize = found.iter().map(|file| file.name.len() * 2 + each).sum();
    usize::try_from(bytes)
        .unwrap_or(usize::MAX)
        .saturating_add(names + 4096)
}

/// Copies the bytes of a file.
fn copy(arena: &Arena, found: &Found) -> Result<DeviceAddress, Error> {
    let wrong = |source| Error::File {
        path: found.path.clone(),
        source,
    };
    let changed = |how| wrong(io::Error::new(ErrorKind::UnexpectedEof, how));
    let start = arena.allocate(found.bytes, CONTENT_ALIGN)?.address;
    let mut file = File::open(&found.path).map_err(wrong)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    loop {
        let count = match file.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read.map_err(wrong)?,
        };
        if count == 0 {
            break;
        }
        if at + count as u64 > found.bytes {
            return Err(changed("it grew while it was read"));
        }
        let piece = buffer.get(..count).unwrap_or_default();
        arena.write(start.offset(at), piece)?;
        at += count as u64;
    }
    match at == found.bytes {
        true => Ok(start),
        false => Err(changed("it was cut while it was read")),
    }
}

fn media_type(name: &[u8]) -> &'static str {
    let known = KINDS.iter().find(|(end, _)| name.ends_with(end));
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

/// Bytes of the longest media type here.
const MOST_MEDIA: usize = 32;
/// So that warps copy whole words.
const CONTENT_ALIGN: u64 = 64;
/// Bytes that are read at once.
const COPY_BYTES: usize = 1 << 16;
