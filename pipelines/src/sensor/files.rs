//! The files that a sensor's rows go to.

use std::path::PathBuf;

use super::error::Error;
use super::npy::{Array, Element, Refused};
use super::records::Records;

/// The files that rows go to; those that are none are not written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Files {
    /// For samples: `[rows][samples]` of `float32`.
    pub samples: Option<PathBuf>,
    /// For headers: `[rows][header bytes]` of `uint8`.
    pub headers: Option<PathBuf>,
}

/// Files that are written.
#[derive(Debug)]
pub(super) struct Arrays {
    samples: Option<Array>,
    headers: Option<Array>,
}

impl Arrays {
    /// Makes the files.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(super) fn create(files: &Files, records: &Records) -> Result<Self, Error> {
        let make = |path: &Option<PathBuf>, element, columns| {
            let path = path.as_deref();
            path.map(|path| Array::create(path, element, columns))
                .transpose()
        };
        Ok(Self {
            samples: make(&files.samples, Element::Float, records.samples)?,
            headers: make(&files.headers, Element::Byte, records.header_bytes())?,
        })
    }

    /// Appends rows, and writes those that wait if they are many.
    ///
    /// # Errors
    /// As [`Arrays::flush`].
    pub(super) fn append(&mut self, headers: &[u8], samples: &[u8]) -> Result<(), Error> {
        if let Some(array) = &mut self.samples {
            array.append(samples);
        }
        if let Some(array) = &mut self.headers {
            array.append(headers);
        }
        let are_many = self.all().any(|array| array.waiting() >= WAITING_BYTES);
        match are_many {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Writes what waits, a piece of it to each file in turn, and how many rows there are.
    ///
    /// # Errors
    /// [`Error::Cut`] for the first file that cannot grow. All files have the same rows then, whole
    /// ones: as many as were written to each. They are not to be written again.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        let rows = self.all().map(|array| PIECE_BYTES / array.row_bytes());
        let rows = rows.min().unwrap_or(0).max(1);
        let mut outcome = Ok(());
        while outcome.is_ok() && self.all().any(|array| array.waiting() > 0) {
            let written = self.all_mut().map(|array| array.write(rows));
            outcome = written.fold(Ok(()), Result::and);
        }
        let told = self.all_mut().map(Array::tell);
        let outcome = told.fold(outcome, Result::and);
        outcome.map_err(|Refused { path, source }| {
            let rows = self.rows();
            self.all_mut().for_each(|array| array.end_at(rows));
            Error::Cut { path, rows, source }
        })
    }

    /// Rows that all files have; any number if there is no file.
    pub(super) fn rows(&self) -> u64 {
        self.all().map(Array::rows).min().unwrap_or(u64::MAX)
    }

    /// What they are called.
    pub(super) fn files(&self) -> Files {
        let path = |array: &Option<Array>| array.as_ref().map(|array| array.path().to_owned());
        Files {
            samples: path(&self.samples),
            headers: path(&self.headers),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Array> {
        self.samples.iter().chain(&self.headers)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Array> {
        self.samples.iter_mut().chain(&mut self.headers)
    }
}

/// Bytes that wait to be written together.
const WAITING_BYTES: usize = 1 << 20;
/// Bytes that are written to a file before the other one has its turn.
const PIECE_BYTES: u64 = 1 << 16;
