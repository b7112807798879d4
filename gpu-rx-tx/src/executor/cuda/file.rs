//! Whether the file that the loader would take is whole: it maps a library before it reads it, and
//! a process that reads behind the end of a mapped file dies of SIGBUS.
//!
//! Looked for as the loader does, but for its cache: in the folders of `LD_LIBRARY_PATH`, then
//! where systems keep libraries. What is no ELF file for this machine is left to the loader, which
//! refuses or passes over it by itself.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Why the library must not be loaded, with the cure; `None` if it looks whole, or was not found.
pub(super) fn cut_short(name: &str) -> Option<String> {
    let listed = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let listed = std::env::split_paths(&listed).filter(|folder| !folder.as_os_str().is_empty());
    let folders = listed.chain(FOLDERS.iter().map(PathBuf::from));
    let mut files = folders.map(|folder| folder.join(name));
    let found = files.find_map(|path| Some((lengths(&path).ok()??, path)));
    let (Lengths { have, need }, path) = found?;
    (have < need).then(|| {
        format!(
            "{} ends after {have} of the {need} bytes that its headers name: install the driver \
             again, or take that folder out of LD_LIBRARY_PATH",
            path.display()
        )
    })
}

/// Bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lengths {
    have: u64,
    /// What its segments need.
    need: u64,
}

/// `None` for what is no 64-bit little-endian ELF file.
fn lengths(path: &Path) -> io::Result<Option<Lengths>> {
    let file = File::open(path)?;
    let have = file.metadata()?.len();
    let mut header = [0; HEADER_BYTES];
    let count = file.read_at(&mut header, 0)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Ok(None);
    }
    let table = number(&header, 32, 8);
    let (stride, rows) = (number(&header, 54, 2), number(&header, 56, 2));
    let mut need = table.saturating_add(stride * rows).max(HEADER_BYTES as u64);
    if count < HEADER_BYTES || have < need {
        return Ok(Some(Lengths { have, need }));
    }
    for row in 0..rows {
        let mut entry = [0; ENTRY_BYTES];
        file.read_exact_at(&mut entry, table + row * stride)?;
        if number(&entry, 0, 4) == LOAD {
            let end = number(&entry, 8, 8).saturating_add(number(&entry, 32, 8));
            need = need.max(end);
        }
    }
    Ok(Some(Lengths { have, need }))
}

/// A number of `size` bytes, the lowest first; bytes that are not there count as zero.
fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let bytes = bytes.iter().skip(at).take(size);
    bytes
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

const HEADER_BYTES: usize = 64;
/// Of a row of the table of segments.
const ENTRY_BYTES: usize = 56;
/// The type of a segment that is mapped.
const LOAD: u64 = 1;
const FOLDERS: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_as_long_as_its_segments_or_not() {
        let program = std::env::current_exe().expect("has a path");
        let bytes = std::fs::read(&program).expect("can be read");
        let whole = lengths(&program).expect("can be read").expect("is ELF");
        assert!(whole.have >= whole.need && whole.need > HEADER_BYTES as u64);
        let path = std::env::temp_dir().join(format!("warpwire-cut-{}", std::process::id()));
        // Without its last mapped byte, half of it, parts of its headers.
        for length in [whole.need - 1, whole.need / 2, 100, 64, 63, 6] {
            std::fs::write(&path, &bytes[..length as usize]).expect("can be written");
            let cut = lengths(&path).expect("can be read").expect("is ELF");
            assert_eq!(cut.have, length);
            assert!(cut.need > length, "{cut:?}");
        }
        for other in [
            &b"no library"[..],
            b"",
            b"\x7fELF\x01\x01 for 32 bits",
            b"\x7fEL",
        ] {
            std::fs::write(&path, other).expect("can be written");
            assert_eq!(lengths(&path).expect("can be read"), None);
        }
        std::fs::remove_file(&path).expect("is there");
        assert!(lengths(&path).is_err(), "is gone");
    }
}
