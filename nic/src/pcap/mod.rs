//! Capture files: pcap and pcapng, read and written, and as ports of a fabric.
//!
//! Own code, because the crate at hand takes every pcapng tick for a nanosecond and panics on some
//! files. Reading is bounded: a record is at most [`MAX_RECORD_BYTES`], and nothing else is kept.

mod port;
mod read;
mod write;

pub use port::{CapturePort, Pace};
pub use read::{Reader, Record};
pub use write::{Format, Writer};

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
