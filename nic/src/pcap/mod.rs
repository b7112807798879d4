//! Capture files: pcap and pcapng, read and written, and as ports of a fabric.
//!
//! Own code, because the crate at hand takes every pcapng tick for a nanosecond and panics on some
//! files. Reading is bounded: a record is at most [`MAX_RECORD_BYTES`], and nothing else is kept.

use std::path::PathBuf;

use crate::error::Error;
use crate::spec::NicSpec;

mod file;
mod port;
mod read;
mod write;

pub use file::{create_file, open_file};
pub use port::{CapturePort, Pace};
pub use read::{Reader, Record};
pub use write::{Format, Writer};

/// The words of a `pcap` NIC: `pcap:FILE[,record=FILE][,pace=taken|captured]`. What FILE holds
/// arrives; what is sent goes into the other file, if one is named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Words {
    /// The capture to play.
    pub play: PathBuf,
    /// The capture to write.
    pub record: Option<PathBuf>,
    /// When frames arrive.
    pub pace: Pace,
}

impl Words {
    /// Reads the options.
    ///
    /// # Errors
    /// [`Error::Spec`].
    pub fn of(spec: &NicSpec) -> Result<Self, Error> {
        spec.only(&["record", "pace", "queues"])?;
        spec.number("queues", 1, 1..=16)?;
        let pace = match spec.option("pace") {
            None | Some("taken") => Pace::AsTaken,
            Some("captured") => Pace::AsCaptured,
            Some(other) => {
                let problem = format!("`{other}` is neither taken nor captured");
                return Err(spec.wrong("pace", problem, "write pace=taken".to_owned()));
            }
        };
        Ok(Self {
            play: PathBuf::from(&spec.address),
            record: spec.option("record").map(PathBuf::from),
            pace,
        })
    }
}

/// Checks a `pcap` NIC's options without opening a file.
///
/// # Errors
/// [`Error::Spec`].
pub fn check(spec: &NicSpec) -> Result<(), Error> {
    Words::of(spec).map(|_| ())
}

/// Longest record that is read.
pub const MAX_RECORD_BYTES: usize = 256 * 1024;

/// The link type of Ethernet.
const ETHERNET: u16 = 1;

/// Why a capture cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file system said no.
    #[error("{action}: {source}")]
    File {
        /// What was tried.
        action: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The first bytes are those of no capture.
    #[error("starts with {0:#010x}: neither pcap nor pcapng")]
    Magic(u32),
    /// The file ends within a record.
    #[error("ends within the record at byte {offset}; the file was cut")]
    Cut {
        /// Where the record starts.
        offset: u64,
    },
    /// A record contradicts itself.
    #[error("the record at byte {offset}: {problem}")]
    Record {
        /// Where the record starts.
        offset: u64,
        /// What is wrong.
        problem: &'static str,
    },
    /// The frames are not Ethernet frames.
    #[error("link type {0} is not Ethernet (1); convert the capture")]
    LinkType(u16),
}

#[cfg(test)]
mod tests;
