//! What two ends agree on before the first byte.

use super::word::MOST_CREDIT;

/// What one end has, and what its peer has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Terms {
    /// Bytes of the ring out of which this end sends: a power of two.
    pub send_bytes: u32,
    /// The ring into which the peer writes.
    pub own: Inbox,
    /// The ring into which this end writes.
    pub peer: Inbox,
    /// The most bytes of one write.
    pub write_bytes: u32,
}

/// What takes a stream in, at one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Inbox {
    /// Bytes of the ring: a power of two.
    pub bytes: u32,
    /// The most words that tell of data and that the writer does not know to be heard: at most
    /// [`MOST_WORDS`].
    pub words: u32,
}

/// Terms that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Illegal {
    /// A ring whose bytes are no power of two, or more than [`MOST_RING`].
    Ring {
        /// Its bytes.
        bytes: u32,
    },
    /// No words, or more than [`MOST_WORDS`].
    Words {
        /// How many.
        words: u32,
    },
    /// Writes of no bytes.
    NoWrite,
}

impl Inbox {
    /// From so many bytes on that were read, credit is returned: four messages for each time that
    /// the ring is read through.
    pub(super) const fn due_bytes(&self) -> u32 {
        match self.bytes / 4 {
            0 => 1,
            quarter if quarter > MOST_CREDIT / 2 => MOST_CREDIT / 2,
            quarter => quarter,
        }
    }

    /// From so many words on that were heard, credit is returned, so that a writer of few bytes
    /// goes on too.
    pub(super) const fn due_words(&self) -> u32 {
        match self.words / 2 {
            0 => 1,
            half => half,
        }
    }

    /// The most credits under way from this end: together they give back no more than the ring and
    /// the words.
    const fn credits(&self) -> u32 {
        let words = match self.words.checked_div(self.due_words()) {
            Some(words) => words,
            None => 0,
        };
        let bytes = match self.bytes.checked_div(self.due_bytes()) {
            Some(bytes) => bytes,
            None => 0,
        };
        words + bytes
    }

    const fn check(&self) -> Result<(), Illegal> {
        let words = self.words;
        if words == 0 || words > MOST_WORDS as u32 {
            return Err(Illegal::Words { words });
        }
        check_ring(self.bytes)
    }
}

impl Terms {
    /// Whether streams can be carried on these terms.
    ///
    /// # Errors
    /// [`Illegal`].
    pub const fn check(&self) -> Result<(), Illegal> {
        if self.write_bytes == 0 {
            return Err(Illegal::NoWrite);
        }
        match (check_ring(self.send_bytes), self.own.check()) {
            (Err(illegal), _) | (_, Err(illegal)) => Err(illegal),
            _ => self.peer.check(),
        }
    }

    /// So many receives must be posted when the stream begins, and each one anew when its word is
    /// heard: the peer never has more messages under way that take one.
    pub const fn receives(&self) -> u32 {
        self.own.words + self.peer.credits() + LAST_WORDS
    }

    /// The other end's view of the same terms, if it sends out of a ring of `send_bytes`.
    pub const fn mirrored(&self, send_bytes: u32) -> Self {
        Self {
            send_bytes,
            own: self.peer,
            peer: self.own,
            write_bytes: self.write_bytes,
        }
    }
}

const fn check_ring(bytes: u32) -> Result<(), Illegal> {
    match bytes.is_power_of_two() && bytes <= MOST_RING {
        true => Ok(()),
        false => Err(Illegal::Ring { bytes }),
    }
}

/// The most bytes of a ring.
pub const MOST_RING: u32 = 1 << 30;
/// The most words of data that nobody knows to be heard.
pub const MOST_WORDS: u8 = 63;
/// The end of the data, and the end of everything.
const LAST_WORDS: u32 = 2;
