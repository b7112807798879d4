//! TCP options. RFC 9293 section 3.2 (MSS), RFC 7323 (window scale, timestamps), RFC 2018 (SACK).
//!
//! ```text
//!   0 end | 1 no operation            one byte
//!   2 maximum segment size            02 04 size(2)
//!   3 window scale                    03 03 shift
//!   4 SACK permitted                  04 02
//!   5 SACK                            05 length, then blocks of left edge(4), right edge(4)
//!   8 timestamps                      08 0a value(4) echo(4)
//! ```
//! Emitted in this order, each behind as many no-operations as make it end at a multiple of 4.

use super::{BufferTooShort, TcpSequence};
use crate::DropReason;

/// Blocks that an acknowledgement can carry; three beside timestamps.
pub const MAX_SACK_BLOCKS: usize = 4;

/// The largest shift of a window (RFC 7323 section 2.3); larger ones are read as this.
pub const MAX_WINDOW_SCALE: u8 = 14;

/// The options that the stack knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The largest segment that the sender takes; in a SYN.
    pub maximum_segment_size: Option<u16>,
    /// How far the sender's windows are shifted: 0 to 14; in a SYN.
    pub window_scale: Option<u8>,
    /// The sender takes SACK; in a SYN.
    pub sack_permitted: bool,
    /// What the sender has beyond its acknowledgement.
    pub sack: SackBlocks,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
}

/// A timestamps option.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timestamps {
    /// The sender's clock.
    pub value: u32,
    /// The clock value of the peer that is echoed.
    pub echo: u32,
}

/// A range of bytes that arrived out of order: from `left` up to but without `right`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlock {
    /// The first byte.
    pub left: TcpSequence,
    /// The byte after the last.
    pub right: TcpSequence,
}

/// Up to four blocks, the newest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlocks {
    blocks: [SackBlock; MAX_SACK_BLOCKS],
    count: u8,
}

impl SackBlocks {
    /// Appends a block; `false` if there are four already.
    pub fn push(&mut self, block: SackBlock) -> bool {
        let Some(free) = self.blocks.get_mut(usize::from(self.count)) else {
            return false;
        };
        *free = block;
        self.count += 1;
        true
    }

    /// The blocks.
    pub fn as_slice(&self) -> &[SackBlock] {
        self.blocks.get(..usize::from(self.count)).unwrap_or(&[])
    }
}

impl Options {
    /// Reads the options of a header. Unknown ones are skipped; of one that comes twice the last
    /// counts.
    ///
    /// # Errors
    /// [`DropReason::TcpOption`] if a length is illegal.
    pub fn parse(bytes: &[u8]) -> Result<Self, DropReason> {
        let mut options = Self::default();
        for option in TcpOptions::new(bytes) {
            match option? {
                TcpOption::MaximumSegmentSize(size) => options.maximum_segment_size = Some(size),
                TcpOption::WindowScale(shift) => {
                    options.window_scale = Some(shift.min(MAX_WINDOW_SCALE));
                }
                TcpOption::SackPermitted => options.sack_permitted = true,
                TcpOption::Sack(blocks) => options.sack = blocks,
                TcpOption::Timestamps(timestamps) => options.timestamps = Some(timestamps),
                TcpOption::Other { .. } => {}
            }
        }
        Ok(options)
    }

    /// Bytes that `emit` writes: 0 to 40, a multiple of 4.
    pub const fn length(&self) -> usize {
        self.length_without_sack() + self.sack_length()
    }

    /// Writes the options to the start of `buffer`; returns the bytes written. SACK blocks that do
    /// not fit 40 bytes are left out, from the oldest on.
    ///
    /// # Errors
    /// [`BufferTooShort`] if `buffer` cannot hold them.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooShort> {
        let (need, have) = (self.length(), buffer.len());
        let target = buffer
            .get_mut(..need)
            .ok_or(BufferTooShort { need, have })?;
        let mut words = target.as_chunks_mut::<4>().0.iter_mut();
        let mut put = |word: [u8; 4]| {
            if let Some(slot) = words.next() {
                *slot = word;
            }
        };
        if let Some(size) = self.maximum_segment_size {
            let [high, low] = size.to_be_bytes();
            put([MAXIMUM_SEGMENT_SIZE, 4, high, low]);
        }
        if let Some(shift) = self.window_scale {
            put([NO_OPERATION, WINDOW_SCALE, 3, shift]);
        }
        if self.sack_permitted {
            put([NO_OPERATION, NO_OPERATION, SACK_PERMITTED, 2]);
        }
        let blocks = self.sack_length() / 8;
        if blocks > 0 {
            put([NO_OPERATION, NO_OPERATION, SACK, 2 + 8 * blocks as u8]);
            for block in self.sack.as_slice().iter().take(blocks) {
                put(block.left.0.to_be_bytes());
                put(block.right.0.to_be_bytes());
            }
        }
        if let Some(Timestamps { value, echo }) = self.timestamps {
            put([NO_OPERATION, NO_OPERATION, TIMESTAMPS, 10]);
            put(value.to_be_bytes());
            put(echo.to_be_bytes());
        }
        Ok(need)
    }

    const fn length_without_sack(&self) -> usize {
        4 * self.maximum_segment_size.is_some() as usize
            + 4 * self.window_scale.is_some() as usize
            + 4 * self.sack_permitted as usize
            + 12 * self.timestamps.is_some() as usize
    }

    /// Bytes of the SACK option with as many blocks as fit.
    const fn sack_length(&self) -> usize {
        let room = (MAX_LENGTH - self.length_without_sack() - 4) / 8;
        let count = self.sack.count as usize;
        match if count < room { count } else { room } {
            0 => 0,
            blocks => 4 + 8 * blocks,
        }
    }
}

/// An option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpOption<'a> {
    /// The largest segment that the sender takes.
    MaximumSegmentSize(u16),
    /// How far the sender's windows are shifted; above 14 to be read as 14.
    WindowScale(u8),
    /// The sender takes SACK.
    SackPermitted,
    /// What arrived out of order.
    Sack(SackBlocks),
    /// Timestamps.
    Timestamps(Timestamps),
    /// An option that is not modelled.
    Other {
        /// The kind.
        kind: u8,
        /// What follows the length.
        data: &'a [u8],
    },
}

/// Walks options, at most 40: `Err` once, and then the end, if a length is illegal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpOptions<'a>(&'a [u8]);

impl<'a> TcpOptions<'a> {
    /// The options in `bytes`, which reach from the fixed header to the data; of more than 40 bytes
    /// the first 40 count.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.get(..MAX_LENGTH).unwrap_or(bytes))
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = Result<TcpOption<'a>, DropReason>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (kind, rest) = self.0.split_first()?;
            match *kind {
                END => {
                    self.0 = &[];
                    return None;
                }
                NO_OPERATION => self.0 = rest,
                kind => {
                    // The length counts kind and length itself.
                    let length = rest.first().map_or(0, |length| usize::from(*length));
                    let whole = (length >= 2)
                        .then(|| self.0.split_at_checked(length))
                        .flatten();
                    let data = whole.and_then(|(option, _)| option.get(2..));
                    let option = data.and_then(|data| read(kind, data));
                    self.0 = match (option, whole) {
                        (Some(_), Some((_, rest))) => rest,
                        _ => &[],
                    };
                    return Some(option.ok_or(DropReason::TcpOption));
                }
            }
        }
    }
}

/// Reads one option; `None` if the length is not the kind's.
fn read(kind: u8, data: &[u8]) -> Option<TcpOption<'_>> {
    match (kind, data) {
        (MAXIMUM_SEGMENT_SIZE, &[high, low]) => {
            Some(TcpOption::MaximumSegmentSize(u16::from_be_bytes([
                high, low,
            ])))
        }
        (WINDOW_SCALE, &[shift]) => Some(TcpOption::WindowScale(shift)),
        (SACK_PERMITTED, []) => Some(TcpOption::SackPermitted),
        (SACK, data) => {
            let (blocks, rest) = data.as_chunks::<8>();
            let mut sack = SackBlocks::default();
            let is_legal = !blocks.is_empty() && rest.is_empty();
            let fits = blocks.iter().all(|&[a, b, c, d, e, f, g, h]| {
                sack.push(SackBlock {
                    left: TcpSequence(u32::from_be_bytes([a, b, c, d])),
                    right: TcpSequence(u32::from_be_bytes([e, f, g, h])),
                })
            });
            (is_legal && fits).then_some(TcpOption::Sack(sack))
        }
        (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => Some(TcpOption::Timestamps(Timestamps {
            value: u32::from_be_bytes([a, b, c, d]),
            echo: u32::from_be_bytes([e, f, g, h]),
        })),
        (MAXIMUM_SEGMENT_SIZE | WINDOW_SCALE | SACK_PERMITTED | TIMESTAMPS, _) => None,
        (kind, data) => Some(TcpOption::Other { kind, data }),
    }
}

const MAX_LENGTH: usize = 40;
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MAXIMUM_SEGMENT_SIZE: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;

    fn blocks(count: u32) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        for index in 0..count {
            let left = TcpSequence(100 + 200 * index);
            assert!(blocks.push(SackBlock {
                left,
                right: left.wrapping_add(100)
            }));
        }
        blocks
    }

    #[test]
    fn golden_acknowledgement() {
        // scapy: options=[("NOP", None), ("NOP", None), ("Timestamp", (5, 6)), ("NOP", None),
        // ("NOP", None), ("SAck", (100, 200, 300, 400))]
        let bytes = hex("0101080a00000005000000060101051200000064000000c80000012c00000190");
        let options = Options::parse(&bytes).unwrap();
        assert_eq!(options.timestamps, Some(Timestamps { value: 5, echo: 6 }));
        assert_eq!(options.sack, blocks(2));
    }

    #[test]
    fn emit_then_parse() {
        let timestamps = Some(Timestamps {
            value: 1,
            echo: u32::MAX,
        });
        for (options, length) in [
            (Options::default(), 0),
            (
                Options {
                    maximum_segment_size: Some(1460),
                    ..Options::default()
                },
                4,
            ),
            (
                Options {
                    window_scale: Some(14),
                    sack_permitted: true,
                    ..Options::default()
                },
                8,
            ),
            (
                Options {
                    timestamps,
                    ..Options::default()
                },
                12,
            ),
            (
                Options {
                    timestamps,
                    sack: blocks(3),
                    ..Options::default()
                },
                40,
            ),
            (
                Options {
                    sack: blocks(4),
                    ..Options::default()
                },
                36,
            ),
            (
                Options {
                    maximum_segment_size: Some(8960),
                    window_scale: Some(0),
                    sack_permitted: true,
                    timestamps,
                    sack: blocks(1),
                },
                36,
            ),
        ] {
            assert_eq!(options.length(), length);
            let bytes = check_emit(length, |buffer| options.emit(buffer));
            assert_eq!(Options::parse(&bytes), Ok(options));
        }
    }

    #[test]
    fn blocks_that_do_not_fit_are_left_out() {
        let timestamps = Some(Timestamps::default());
        let options = Options {
            timestamps,
            sack: blocks(4),
            ..Options::default()
        };
        let bytes = check_emit(40, |buffer| options.emit(buffer));
        assert_eq!(Options::parse(&bytes).unwrap().sack, blocks(3));
        let syn = Options {
            maximum_segment_size: Some(1),
            window_scale: Some(1),
            sack_permitted: true,
            ..options
        };
        assert_eq!(syn.length(), 36);
        assert!(!blocks(4).push(SackBlock::default()));
    }

    #[test]
    fn lengths_are_checked() {
        let other = Ok(TcpOption::Other {
            kind: 30,
            data: &[7],
        });
        let bad = Err(DropReason::TcpOption);
        for (text, expected) in [
            ("", vec![]),
            ("0101", vec![]),
            ("00 0204", vec![]),
            ("1e0307 00", vec![other]),
            ("1e0307 02", vec![other, bad]),
            ("0200", vec![bad]),
            ("0201", vec![bad]),
            ("0203 05", vec![bad]),
            ("0205 050505", vec![bad]),
            ("0204 05", vec![bad]),
            ("0302", vec![bad]),
            ("0403 00", vec![bad]),
            ("0502", vec![bad]),
            ("0509 00000000000000", vec![bad]),
            (
                "080a 0000000000000000",
                vec![Ok(TcpOption::Timestamps(Timestamps::default()))],
            ),
            ("0809 00000000000000", vec![bad]),
        ] {
            let bytes = hex(text);
            assert_eq!(
                TcpOptions::new(&bytes).collect::<Vec<_>>(),
                expected,
                "{text}"
            );
        }
        assert_eq!(
            Options::parse(&hex("03030f")).unwrap().window_scale,
            Some(14)
        );
    }
}
