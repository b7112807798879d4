//! Arrays of two dimensions in files: NumPy's format, version 1.0, or bare rows.

use std::fs::File;
use std::io::{self, ErrorKind};
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
    /// Rows that wait to be written, from `begun` on; only the first one may be in parts.
    waiting: Vec<u8>,
    begun: usize,
    /// Bytes of rows that lie in the file.
    written: u64,
    /// Of these, the bytes that the header tells of: whole rows only.
    told: u64,
}

/// A file that could not be written.
pub(super) struct Refused {
    pub(super) path: PathBuf,
    pub(super) source: io::Error,
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
                waiting: Vec::new(),
                begun: 0,
                written: 0,
                told: 0,
            };
            array.put_header(0)?;
            Ok(array)
        };
        let path = path.to_owned();
        create().map_err(|source| Error::File { path, source })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of a row.
    pub(super) fn row_bytes(&self) -> u64 {
        (u64::from(self.columns) * self.element.bytes()).max(1)
    }

    /// Appends whole rows to those that wait.
    pub(super) fn append(&mut self, rows: &[u8]) {
        self.waiting.extend_from_slice(rows);
    }

    /// Bytes that wait to be written.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() - self.begun
    }

    /// Writes some of the rows that wait. The header does not tell of them yet.
    ///
    /// # Errors
    /// What the system says. What was written before is counted.
    pub(super) fn write(&mut self, rows: u64) -> Result<(), Refused> {
        let piece = self.waiting.get(self.begun..).unwrap_or_default();
        let most = usize::try_from(rows.saturating_mul(self.row_bytes())).unwrap_or(usize::MAX);
        let mut piece = piece.get(..most).unwrap_or(piece);
        while !piece.is_empty() {
            let at = self.header_bytes() + self.written;
            let count = match self.file.write_at(piece, at) {
                Ok(0) => return Err(self.refused(ErrorKind::WriteZero.into())),
                Ok(count) => count,
                Err(source) if source.kind() == ErrorKind::Interrupted => continue,
                Err(source) => return Err(self.refused(source)),
            };
            self.begun += count;
            self.written += count as u64;
            piece = piece.get(count..).unwrap_or_default();
        }
        if self.waiting() == 0 {
            self.waiting.clear();
            self.begun = 0;
        }
        Ok(())
    }

    /// Tells of all whole rows in the header.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn tell(&mut self) -> Result<(), Refused> {
        let rows = self.written / self.row_bytes();
        let whole = rows * self.row_bytes();
        if whole != self.told {
            self.put_header(rows)
                .map_err(|source| self.refused(source))?;
            self.told = whole;
        }
        Ok(())
    }

    /// Rows that the header tells of.
    pub(super) fn rows(&self) -> u64 {
        self.told / self.row_bytes()
    }

    /// Ends the file behind so many rows, of those that the header tells of; what waits is lost.
    pub(super) fn end_at(&mut self, rows: u64) {
        self.waiting.clear();
        self.begun = 0;
        self.written = self.told.min(rows * self.row_bytes());
        // What of this can be done is done: why it ends is told in any case.
        let _ = self.tell();
        let _ = self.file.set_len(self.header_bytes() + self.told);
    }

    fn refused(&self, source: io::Error) -> Refused {
        let path = self.path.clone();
        Refused { path, source }
    }

    fn header_bytes(&self) -> u64 {
        if self.is_numpy {
            HEADER_BYTES as u64
        } else {
            0
        }
    }

    /// Writes the header, with a number of rows: it has room for any.
    fn put_header(&self, rows: u64) -> io::Result<()> {
        if !self.is_numpy {
            return Ok(());
        }
        let header = header(self.element, rows, self.columns);
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

/// What a file begins with: the word, and version 1.0.
const MAGIC: [u8; 8] = *b"\x93NUMPY\x01\x00";
/// Bytes before the words of a header.
const PREFIX_BYTES: usize = MAGIC.len() + 2;
/// Bytes before the rows: a multiple of 64, with room for 20 digits of rows and 10 of columns.
const HEADER_BYTES: usize = 128;
