//! The files that a sensor's rows go to.

use std::path::PathBuf;

use super::error::Error;
use super::npy::{Array, Element};
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

    /// Appends rows.
    pub(super) fn append(&mut self, headers: &[u8], samples: &[u8]) -> Result<(), Error> {
        if let Some(array) = &mut self.samples {
            array.append(samples)?;
        }
        match &mut self.headers {
            Some(array) => array.append(headers),
            None => Ok(()),
        }
    }

    /// Writes what waits, to both.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        let all = self.samples.iter_mut().chain(&mut self.headers);
        all.map(Array::flush).fold(Ok(()), Result::and)
    }

    /// What they are called.
    pub(super) fn files(&self) -> Files {
        let path = |array: &Option<Array>| array.as_ref().map(|array| array.path().to_owned());
        Files {
            samples: path(&self.samples),
            headers: path(&self.headers),
        }
    }
}
