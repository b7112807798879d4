//! What the records of a sensor look like.

use std::time::Duration;

use warpwire_core::sensor::{SPAN, SensorState};
use warpwire_core::stages::gather::Args;
use warpwire_protocols::stream::samples::{Conversion, Format};

use super::error::Error;

/// What the records of a sensor look like, and how many of them may be under way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Records {
    /// Samples of 16 bits in every record, behind its header; 1 to 2^20.
    pub samples: u32,
    /// How many bytes the header has, and where in it the record's number stands. Numbers go round,
    /// but for those of 64 bits, of which the last one, 2^64 - 1, is not taken.
    pub format: Format,
    /// What a sample stands for.
    pub conversion: Conversion,
    /// Records that may be under way out of order: one that is overtaken by so many did not come. 1
    /// to 4096, and no more than half of all numbers.
    pub window: u32,
    /// Rows of the tensors in memory: a power of two, no less than `window`. So many records can
    /// come while the host is busy, and a gap of more of them has no rows.
    pub rows: u32,
    /// How long a record may be overtaken until it did not come; up to 4 hours.
    pub patience: Duration,
    /// The number of the record that has row 0; the one that comes first if none.
    pub first: Option<u64>,
}

impl Records {
    /// Records of so many samples, with what else is usual: 256 may be under way, for 50 ms, and
    /// four times as many have rows in memory.
    pub const fn new(samples: u32, format: Format, conversion: Conversion) -> Self {
        Self {
            samples,
            format,
            conversion,
            window: 256,
            rows: 1024,
            patience: Duration::from_millis(50),
            first: None,
        }
    }

    /// Those of a stage `gather`.
    ///
    /// # Errors
    /// [`Error::Setting`] if the number does not lie within the header, or has a width that there
    /// is not; what else is wrong says [`Records::check`].
    pub fn of_stage(args: &Args) -> Result<Self, Error> {
        Ok(Self {
            samples: args.samples(),
            format: args.format()?,
            conversion: args.conversion(),
            window: args.window(),
            rows: args.rows(),
            patience: Duration::from_nanos(args.patience_ns()),
            first: args.first(),
        })
    }

    /// Bytes of a header.
    pub const fn header_bytes(&self) -> u32 {
        match self.format.split(u32::MAX) {
            Some(split) => split.payload,
            None => u32::MAX,
        }
    }

    /// Bytes of a record: its header and its samples.
    pub const fn record_bytes(&self) -> u32 {
        self.header_bytes()
            .saturating_add(self.samples.saturating_mul(2))
    }

    /// Bytes of a row of samples: four of each.
    pub const fn row_bytes(&self) -> u64 {
        self.samples as u64 * 4
    }

    /// Bytes of both tensors.
    pub const fn tensor_bytes(&self) -> u64 {
        self.rows as u64 * (self.row_bytes() + self.header_bytes() as u64)
    }

    /// Whether all of it makes sense.
    ///
    /// # Errors
    /// [`Error::Setting`] for the first that does not.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |field, value: u64, must: &str| {
            Err(Error::Setting {
                field,
                problem: format!("is {value}"),
                cure: format!("write {must}"),
            })
        };
        let bits = self.format.bits();
        if !(1..=MOST_SAMPLES).contains(&self.samples) {
            return wrong("samples", self.samples.into(), "1 to 1048576");
        }
        if self.header_bytes() > MOST_HEADER_BYTES {
            return wrong("header", self.header_bytes().into(), "at most 4096");
        }
        if !(1..=SPAN).contains(&self.window) {
            return wrong("window", self.window.into(), "1 to 4096");
        }
        if SensorState::new(bits, self.window, None).is_err() {
            let must = "at most half of all numbers, which `number_bytes` bounds";
            return wrong("window", self.window.into(), must);
        }
        if !self.rows.is_power_of_two() || self.rows < self.window || self.rows > MOST_ROWS {
            let must = "a power of two up to 2^30, no less than `window`";
            return wrong("rows", self.rows.into(), must);
        }
        if self.patience > MOST_PATIENCE {
            let micros = u64::try_from(self.patience.as_micros()).unwrap_or(u64::MAX);
            return wrong("patience_us", micros, "at most 4 hours");
        }
        if let Some(first) = self.first
            && first > u64::MAX >> (64 - bits)
        {
            let must = "a number that `number_bytes` has room for";
            return wrong("first", first, must);
        }
        let bytes = self.tensor_bytes();
        if bytes > MOST_BYTES {
            return Err(Error::Setting {
                field: "rows",
                problem: format!("{} rows take {bytes} bytes of memory", self.rows),
                cure: format!("write fewer: there may be {MOST_BYTES}"),
            });
        }
        Ok(())
    }
}

/// Samples that a record can have.
const MOST_SAMPLES: u32 = 1 << 20;
/// Bytes that a header can have.
const MOST_HEADER_BYTES: u32 = 1 << 12;
/// Rows that a tensor can have.
const MOST_ROWS: u32 = 1 << 30;
/// Bytes that the tensors of a sensor can have together.
const MOST_BYTES: u64 = 16 << 30;
/// More is no patience but a mistake.
const MOST_PATIENCE: Duration = Duration::from_secs(4 * 3600);
