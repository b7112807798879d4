//! What two ends tell each other: words of 32 bits, as immediates of messages.
//!
//! ```text
//!  31 30 29                 24 23                                  0
//! +-----+---------------------+-------------------------------------+
//! |  0  |                  bytes of data that were written          |
//! +-----+---------------------+-------------------------------------+
//! |  1  | words of data heard |         bytes that were read        |
//! +-----+---------------------+-------------------------------------+
//! |  2  |                  where the data ends                      |
//! +-----+---------------------+------------------+------------------+
//! |  3  |                  0                     |       cause      |
//! +-----+----------------------------------------+------------------+
//! ```
//! Messages arrive in order and once, so that differences suffice.

use super::Cause;

/// A word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// The next `bytes` bytes of the stream lie in the reader's ring.
    Data {
        /// At most [`MOST_DATA`].
        bytes: u32,
    },
    /// The writer may write more.
    Credit {
        /// So many [`Word::Data`] were heard since the last credit; at most
        /// [`MOST_WORDS`](super::MOST_WORDS).
        words: u8,
        /// So many bytes of the ring are free again; at most [`MOST_CREDIT`].
        bytes: u32,
    },
    /// No data follows.
    End {
        /// The position of the end in the stream, modulo 2^30: what was told adds up to it.
        position: u32,
    },
    /// Nothing follows, and what was not told is lost.
    Abort(Cause),
}

impl Word {
    /// As it is sent.
    pub const fn value(self) -> u32 {
        match self {
            Self::Data { bytes } => bytes & LOW,
            Self::Credit { words, bytes } => {
                1 << 30 | (words as u32 & WORDS) << 24 | bytes & MOST_CREDIT
            }
            Self::End { position } => 2 << 30 | position & LOW,
            Self::Abort(cause) => 3 << 30 | cause.0 as u32,
        }
    }

    /// What a peer sent; `None` if no end of this carrier sends it.
    pub const fn from_value(value: u32) -> Option<Self> {
        match value >> 30 {
            0 => Some(Self::Data { bytes: value }),
            1 => Some(Self::Credit {
                words: (value >> 24 & WORDS) as u8,
                bytes: value & MOST_CREDIT,
            }),
            2 => Some(Self::End {
                position: value & LOW,
            }),
            _ if value & LOW > u16::MAX as u32 => None,
            _ => Some(Self::Abort(Cause(value as u16))),
        }
    }
}

/// The bits that a position in a word has.
pub(super) const LOW: u32 = (1 << 30) - 1;
const WORDS: u32 = super::MOST_WORDS as u32;
/// The most bytes that one word tells to be written.
pub const MOST_DATA: u32 = LOW;
/// The most bytes that one word gives back.
pub const MOST_CREDIT: u32 = (1 << 24) - 1;
