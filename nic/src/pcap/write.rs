//! Writing captures.

use std::io::Write;

/// The kinds of file that are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// pcap with nanoseconds.
    Pcap,
    /// pcapng with nanoseconds.
    Pcapng,
}

impl Format {
    /// The format that a file's name asks for: `.pcap` means pcap, all else pcapng.
    pub fn of(path: &std::path::Path) -> Self {
        if path
            .extension()
            .is_some_and(|extension| extension == "pcap")
        {
            Self::Pcap
        } else {
            Self::Pcapng
        }
    }
}

/// Writes Ethernet frames to a stream, little-endian.
pub struct Writer<W> {
    sink: W,
    format: Format,
}

const SNAP_LENGTH: u32 = 256 * 1024;

impl<W: Write> Writer<W> {
    /// Writes the head.
    ///
    /// # Errors
    /// What the stream said.
    pub fn new(mut sink: W, format: Format) -> std::io::Result<Self> {
        let head: Vec<u8> = match format {
            Format::Pcap => [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, SNAP_LENGTH, 1]
                .into_iter()
                .flat_map(u32::to_le_bytes)
                .collect(),
            Format::Pcapng => {
                // Section: no length given. Interface: Ethernet, option 9 = 9 (nanoseconds).
                let section = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
                let interface = [1, 32, 1, SNAP_LENGTH, 1 << 16 | 9, 9, 0, 32];
                section
                    .into_iter()
                    .chain(interface)
                    .flat_map(u32::to_le_bytes)
                    .collect()
            }
        };
        sink.write_all(&head)?;
        Ok(Self { sink, format })
    }

    /// Writes a frame, captured at `timestamp_ns` since 1970.
    ///
    /// # Errors
    /// What the stream said.
    pub fn write(&mut self, timestamp_ns: u64, frame: &[u8]) -> std::io::Result<()> {
        let length = u32::try_from(frame.len()).map_err(std::io::Error::other)?;
        self.write_cut(timestamp_ns, frame, length)
    }

    /// Writes a frame with words about it, which pcap has no place for.
    ///
    /// # Errors
    /// What the stream said.
    pub fn write_with(
        &mut self,
        timestamp_ns: u64,
        frame: &[u8],
        comment: &str,
    ) -> std::io::Result<()> {
        let length = u32::try_from(frame.len()).map_err(std::io::Error::other)?;
        self.record(timestamp_ns, frame, length, comment)
    }

    /// Writes the first bytes of a frame that was `original` bytes long.
    ///
    /// # Errors
    /// What the stream said.
    pub fn write_cut(
        &mut self,
        timestamp_ns: u64,
        frame: &[u8],
        original: u32,
    ) -> std::io::Result<()> {
        self.record(timestamp_ns, frame, original, "")
    }

    fn record(
        &mut self,
        timestamp_ns: u64,
        frame: &[u8],
        original: u32,
        comment: &str,
    ) -> std::io::Result<()> {
        let length = u32::try_from(frame.len()).map_err(std::io::Error::other)?;
        let words = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        match self.format {
            Format::Pcap => {
                let seconds = (timestamp_ns / 1_000_000_000) as u32;
                let nanos = (timestamp_ns % 1_000_000_000) as u32;
                self.sink
                    .write_all(&words(&[seconds, nanos, length, original]))?;
                self.sink.write_all(frame)
            }
            Format::Pcapng => {
                let options = comment_option(comment);
                let padded = length.next_multiple_of(4);
                let whole = padded + 32 + options.len() as u32;
                let (high, low) = ((timestamp_ns >> 32) as u32, timestamp_ns as u32);
                self.sink
                    .write_all(&words(&[6, whole, 0, high, low, length, original]))?;
                self.sink.write_all(frame)?;
                let padding = [0; 3];
                let missing = (padded - length) as usize;
                self.sink
                    .write_all(padding.get(..missing).unwrap_or_default())?;
                self.sink.write_all(&options)?;
                self.sink.write_all(&words(&[whole]))
            }
        }
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// What the stream said.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }
}

/// The options of a packet with a comment: option 1, padded, and the end of options. Of a long one
/// the start.
fn comment_option(comment: &str) -> Vec<u8> {
    if comment.is_empty() {
        return Vec::new();
    }
    let most = comment.floor_char_boundary(MOST_COMMENT);
    let text = comment.get(..most).unwrap_or_default().as_bytes();
    let mut options = Vec::with_capacity(8 + text.len().next_multiple_of(4));
    options.extend(1u16.to_le_bytes());
    options.extend((text.len() as u16).to_le_bytes());
    options.extend(text);
    options.resize(options.len().next_multiple_of(4), 0);
    options.extend([0; 4]);
    options
}

/// Bytes of the longest comment.
const MOST_COMMENT: usize = 1024;
