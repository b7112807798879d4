//! Opening files of captures: regular ones only, so that nothing blocks and no device is written.

use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a regular file to read.
///
/// # Errors
/// What the system said, or what the path names instead of a regular file.
pub fn open_file(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}

/// Makes a regular file to write, or empties the one that is there.
///
/// # Errors
/// As [`open_file`]; a file that is refused is left as it is.
pub fn create_file(path: &Path) -> io::Result<File> {
    let file = open(path, OpenOptions::new().write(true).create(true))?;
    file.set_len(0)?;
    Ok(file)
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Opening a device may already do something, and a pipe without a reader says little.
    if let Ok(there) = std::fs::metadata(path) {
        check(there.file_type())?;
    }
    // What the path names may have changed since: then this does not block either.
    let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    check(file.metadata()?.file_type())?;
    Ok(file)
}

fn check(kind: FileType) -> io::Result<()> {
    let word = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a folder",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    };
    let problem = format!("is {word}, not a regular file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}
