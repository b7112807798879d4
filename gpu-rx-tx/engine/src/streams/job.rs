//! A segment to be written by some lane, as the leader hands it over.

use warpwire_device::Simt;
use warpwire_protocols::tcp::Outgoing;
use warpwire_protocols::wire::tcp_option::Options;

use super::arrive::{HEADER_WORDS, TIMESTAMPS};
use super::tables::NONE;
use crate::tables::Path;

/// A segment: its header and where its payload lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// Place of its connection; [`NONE`] of an answer that belongs to none.
    pub(super) place: u32,
    /// Words of the header; above 8 bits whether it leaves as capable of ECN.
    count: u32,
    /// Header and options, with a checksum of zero.
    words: [u32; HEADER_WORDS],
    /// Stream position of the payload's first byte.
    pub(super) at: u32,
    /// Bytes of payload.
    pub(super) length: u32,
    /// The way, of an answer. Not handed to other lanes.
    pub(super) path: Path,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            place: NONE,
            count: 0,
            words: [0; HEADER_WORDS],
            at: 0,
            length: 0,
            path: Path::default(),
        }
    }
}

impl Job {
    /// Makes it that of a segment of the connection at `place`.
    #[inline]
    pub(super) fn set(&mut self, place: u32, segment: &Outgoing, local_port: u16, port: u16) {
        let options = segment.options.length() as u32 / 4;
        let count = FIXED_WORDS + options;
        let [
            ports,
            sequence,
            acknowledgement,
            control,
            urgent,
            first,
            value,
            echo,
            ..,
        ] = &mut self.words;
        *ports = u32::from(local_port) << 16 | u32::from(port);
        *sequence = segment.sequence.0;
        *acknowledgement = segment.acknowledgement.0;
        let flags = u32::from(segment.flags.bits());
        *control = count << 28 | flags << 16 | u32::from(segment.window);
        *urgent = 0;
        match segment.options.timestamps {
            Some(timestamps) if options == 3 => {
                *first = TIMESTAMPS;
                *value = timestamps.value;
                *echo = timestamps.echo;
            }
            _ if options == 0 => {}
            _ => self.options(&segment.options),
        }
        self.place = place;
        self.count = count | u32::from(segment.is_capable) << 8;
        self.at = segment.payload.at;
        self.length = segment.payload.length;
    }

    #[cold]
    #[inline(never)]
    fn options(&mut self, options: &Options) {
        let mut bytes = [0; (HEADER_WORDS - FIXED_WORDS as usize) * 4];
        // There is room for as many as a header can have.
        let _ = options.emit(&mut bytes);
        let words = self.words.iter_mut().skip(FIXED_WORDS as usize);
        for (word, chunk) in words.zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*chunk);
        }
    }

    /// *Collective.* The job of the leader, in every lane.
    pub(super) fn of_leader<S: Simt>(&self, simt: &S) -> Self {
        let shuffle = |word: u32| simt.shuffle(word, 0);
        Self {
            place: shuffle(self.place),
            count: shuffle(self.count),
            words: self.words.map(shuffle),
            at: shuffle(self.at),
            length: shuffle(self.length),
            path: self.path,
        }
    }

    /// Header and options.
    pub(super) fn words(&self) -> &[u32] {
        let count = (self.count & 0xff) as usize;
        self.words.get(..count).unwrap_or(&[])
    }

    /// Whether it leaves as capable of ECN.
    pub(super) const fn is_capable(&self) -> bool {
        self.count >> 8 != 0
    }
}

const FIXED_WORDS: u32 = 5;
