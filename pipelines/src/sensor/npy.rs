//! Arrays of two dimensions in files: NumPy's format, version 1.0, or bare rows.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use warpwire_nic::pcap::create_file;

use super::error::Error;

/// What the elements of an array are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Element {
    /// `float32`, as this machine has it.
    Float,
    /// `uint8`.
    Byte,
}

impl Element {
    /// The word of NumPy for it.
    const fn word(self) -> &'static str {
        match self {
            Self::Float if cfg!(target_endian = "little") => "<f4",
            Self::Float => ">f4",
            Self::Byte => "|u1",
        }
    }

    const fn bytes(self) -> u64 {
        match self {
            Self::Float => 4,
            Self::Byte => 1,
        }
    }
}

/// A file that rows are appended to.
#[derive(Debug)]
pub(super) struct Array {
    path: PathBuf,
    file: File,
    element: Element,
    columns: u32,
    is_numpy: bool,
    /// Rows that wait to be written.
    buffer: Vec<u8>,
    /// Bytes of rows that lie in the file, whole rows only.
    written: u64,
}

impl Array {
    /// Makes the file, or empties the one that is there.
    ///
    /// # Errors
    /// [`Error::File`]; a file that is refused is left as it is.
    pub(super) fn create(path: &Path, element: Element, columns: u32) -> Result<Self, Error> {
        let create = || {
            let array = Self {
                path: path.to_owned(),
                file: create_file(path)?,
                element,
                columns,
                is_numpy: path.extension().is_some_and(|end| end == "npy"),
                buffer: Vec::new(),
                written: 0,
            };
            array.put_header()?;
            Ok(array)
        };
        create().map_err(|source| wrong(path, source))
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole rows.
    ///
    /// # Errors
    /// [`Error::File`]. The file then has the rows of the last flush that went well.
    pub(super) fn append(&mut self, rows: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(rows);
        match self.buffer.len() < BUFFER_BYTES {
            true => Ok(()),
            false => self.flush(),
        }
    }

    /// Writes what waits, and how many rows there are.
    ///
    /// # Errors
    /// As [`Array::append`].
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.buffer);
        let before = self.written;
        self.written += waiting.len() as u64;
        let at = self.header_bytes() + before;
        let written = self.file.write_all_at(&waiting, at);
        let written = written.and_then(|()| self.put_header());
        self.buffer = waiting;
        self.buffer.clear();
        written.map_err(|source| {
            self.written = before;
            // What of this can be done is done: the error is told in any case.
            let _ = self.file.set_len(at);
            let _ = self.put_header();
            wrong(&self.path, source)
        })
    }

    fn header_bytes(&self) -> u64 {
        if self.is_numpy {
            HEADER_BYTES as u64
        } else {
            0
        }
    }

    /// Writes the header, with the number of rows: it has room for any.
    fn put_header(&self) -> io::Result<()> {
        if !self.is_numpy {
            return Ok(());
        }
        let row = u64::from(self.columns) * self.element.bytes();
        let header = header(self.element, self.written / row.max(1), self.columns);
        self.file.write_all_at(&header, 0)
    }
}

/// The header of an array.
fn header(element: Element, rows: u64, columns: u32) -> [u8; HEADER_BYTES] {
    let mut header = [b' '; HEADER_BYTES];
    let words = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({rows}, {columns}), }}",
        element.word()
    );
    let length = (HEADER_BYTES - PREFIX_BYTES) as u16;
    let start = MAGIC.iter().copied().chain(length.to_le_bytes());
    for (to, from) in header.iter_mut().zip(start.chain(words.bytes())) {
        *to = from;
    }
    if let Some(last) = header.last_mut() {
        *last = b'\n';
    }
    header
}

fn wrong(path: &Path, source: io::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        source,
    }
}

/// What a file begins with: the word, and version 1.0.
const MAGIC: [u8; 8] = *b"\x93NUMPY\x01\x00";
/// Bytes before the words of a header.
const PREFIX_BYTES: usize = MAGIC.len() + 2;
/// Bytes before the rows: a multiple of 64, with room for 20 digits of rows and 10 of columns.
const HEADER_BYTES: usize = 128;
/// Bytes that wait to be written together.
const BUFFER_BYTES: usize = 1 << 20;
