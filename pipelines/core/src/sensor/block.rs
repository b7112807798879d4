//! What the host hands to a gatherer, and what both write, as plain data.

use warpwire_protocols::stream::samples::{Conversion, Format, Window};
use warpwire_ring::layout::fold;
use warpwire_ring::{DeviceAddress, layout_hash};

/// What a gatherer gathers, and where to. The host writes it before, nobody writes it after.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct SensorBlock {
    /// Zeros, so that nobody takes this for a ring of copies.
    pub reserved: u64,
    /// [`SensorBlock::LAYOUT`].
    pub layout: u64,
    /// The tensor of headers.
    pub headers: DeviceAddress,
    /// The tensor of values, aligned to 16.
    pub values: DeviceAddress,
    /// [`Gap`]s, [`SensorBlock::gap_count`] of them.
    pub gaps: DeviceAddress,
    /// [`SensorWords`].
    pub words: DeviceAddress,
    /// [`SensorState`].
    pub state: DeviceAddress,
    /// [`SensorCounters`].
    pub counters: DeviceAddress,
    /// How long a record may be overtaken before it is given up.
    pub patience_ns: u64,
    /// Where in a record its number and its samples stand.
    pub format: Format,
    /// What samples stand for.
    pub conversion: Conversion,
    /// Bytes of a header.
    pub header_bytes: u32,
    /// Samples of every record, 1 at least.
    pub samples: u32,
    /// Rows of the tensors, a power of two.
    pub rows: u32,
    /// Gaps that can wait to be read, a power of two.
    pub gap_count: u32,
    /// Records in a row that may be too far ahead before the gatherer believes them.
    pub far_limit: u32,
    /// Records in a row that may be late before the gatherer believes that the sensor counts anew;
    /// 0 for any number.
    pub late_limit: u32,
    /// Written as zero.
    pub reserved_end: [u32; 20],
}

/// The words by which host and gatherer tell each other how far they are; one writer a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(128))]
pub struct SensorWords {
    /// Positions before this may be written again; the host's.
    pub consumed: u64,
    /// Gaps that were read so far; the host's.
    pub gaps_read: u64,
    /// Written as zero.
    pub reserved: [u64; 14],
    /// Positions before this are final; the gatherer's.
    pub whole: u64,
    /// Gaps that were written so far; the gatherer's. Those of all rows before `whole` are.
    pub gaps_written: u64,
    /// Written as zero.
    pub reserved_whole: [u64; 14],
}

/// Where a gatherer stands; its own, from one kernel to the next.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct SensorState {
    /// Which records came.
    pub window: Window<WINDOW_WORDS>,
    /// What is added to a number for its position.
    pub shift: u64,
    /// What has been overtaken since `since_ns`.
    pub mark: u64,
    /// Since when the oldest record that is not settled is missing; 0 if none is.
    pub since_ns: u64,
    /// Records in a row that were too far ahead.
    pub far_in_row: u32,
    /// Written as zero.
    pub reserved: u32,
}

/// Records that did not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Gap {
    /// The number of the first.
    pub first: u64,
    /// How many; 0 if the sensor counts anew from `first` on.
    pub count: u64,
    /// Where they would lie.
    pub position: u64,
    /// Rows that they have: `count`, or 0 if the gatherer went on behind them.
    pub rows: u64,
}

/// What came of records. Each has one writer, the gatherer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct SensorCounters {
    /// Records that were placed.
    pub placed: u64,
    /// Records that were dropped, by [`Why`].
    pub dropped: [u64; Why::ALL.len()],
    /// Gaps that were told.
    pub gaps: u64,
    /// Records that did not come.
    pub missing: u64,
    /// Times that the sensor counted anew, or from far ahead.
    pub restarts: u64,
}

/// Why a record was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Why {
    /// It came before.
    Doubled = 0,
    /// Its row was settled.
    Late = 1,
    /// It is further ahead than there are rows.
    Early = 2,
    /// Its row was not given back yet, or gaps were not read: the host is behind.
    Full = 3,
    /// It has another length.
    Length = 4,
    /// Its bytes lie in more pieces than can be looked at, or are not all there.
    Scattered = 5,
}

impl Why {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Doubled,
        Self::Late,
        Self::Early,
        Self::Full,
        Self::Length,
        Self::Scattered,
    ];

    /// Names, in the order of their numbers.
    pub const NAMES: [&'static str; 6] =
        ["doubled", "late", "early", "full", "length", "scattered"];
}

/// Where the rows lie, and how many bytes they take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tensors {
    /// Bytes of the tensor of headers.
    pub header_bytes: u64,
    /// Bytes of the tensor of values.
    pub value_bytes: u64,
}

impl SensorBlock {
    /// Hash of the layout, of this block and of all that it names.
    pub const LAYOUT: u64 = {
        let parts = [
            layout_hash!(SensorBlock {
                headers,
                values,
                gaps,
                words,
                state,
                counters,
                patience_ns,
                format,
                conversion,
                header_bytes,
                samples,
                rows,
                gap_count,
                far_limit,
                late_limit,
            }),
            layout_hash!(SensorWords {
                consumed,
                gaps_read,
                whole,
                gaps_written
            }),
            layout_hash!(SensorState {
                window,
                shift,
                mark,
                since_ns,
                far_in_row
            }),
            layout_hash!(Gap {
                first,
                count,
                position,
                rows
            }),
            layout_hash!(SensorCounters {
                placed,
                dropped,
                gaps,
                missing,
                restarts
            }),
        ];
        let mut hash = warpwire_ring::layout::SEED;
        let mut index = 0;
        while index < parts.len() {
            hash = fold(hash, parts[index] as usize);
            index += 1;
        }
        hash
    };

    /// Bytes of a record.
    pub const fn record_bytes(&self) -> u32 {
        self.header_bytes
            .saturating_add(self.samples.saturating_mul(2))
    }

    /// Bytes of the tensors.
    pub const fn tensors(&self) -> Tensors {
        let rows = self.rows as u64;
        Tensors {
            header_bytes: rows * self.header_bytes as u64,
            value_bytes: rows * self.samples as u64 * 4,
        }
    }

    /// Whether the numbers make sense.
    pub const fn is_sound(&self) -> bool {
        self.samples > 0
            && self.samples <= MOST_SAMPLES
            && self.header_bytes <= MOST_HEADER_BYTES
            && self.rows.is_power_of_two()
            && self.rows as u64 <= MOST_ROWS
            && self.gap_count.is_power_of_two()
    }
}

impl SensorCounters {
    /// Counters, as a row of 64-bit words.
    pub const ENTRIES: u32 = (size_of::<Self>() / 8) as u32;
}

const _: () = assert!(size_of::<SensorBlock>() == 256);
const _: () = assert!(size_of::<SensorWords>() == 256);
const _: () = assert!(size_of::<Gap>() == 32);

/// Words of a window.
pub const WINDOW_WORDS: usize = 64;
/// Records that a window can hold.
pub const SPAN: u32 = WINDOW_WORDS as u32 * 64;
/// Samples that a record can have.
pub(super) const MOST_SAMPLES: u32 = 1 << 20;
/// Bytes that a header can have.
pub(super) const MOST_HEADER_BYTES: u32 = 1 << 12;
/// Rows that a tensor can have.
pub(super) const MOST_ROWS: u64 = 1 << 30;
