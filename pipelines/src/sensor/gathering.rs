//! A sensor whose rows go to files, and what is told of it.
#![expect(
    unsafe_code,
    reason = "settling carries the promise that nobody else gathers"
)]

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;
use warpwire_core::sensor::{Gap as Told, SensorCounters, Why};
use warpwire_ring::Location;

use super::error::Error;
use super::files::{Arrays, Files};
use super::records::Records;
use super::tensors::Tensors;

/// A sensor: tensors that device code fills, drained to files.
///
/// After a file could not be written, rows are still given back, so that what is gathered is
/// counted to the end; [`Gathering::finish`] says why. Rows and gaps that are told are then those
/// of the files, which have the rows that came first, whole.
#[derive(Debug)]
pub struct Gathering {
    tensors: Tensors,
    log: Log,
}

/// All but the memory.
#[derive(Debug)]
struct Log {
    arrays: Arrays,
    rows: u64,
    /// Rows that the files get at most. Those that they have, once one could not be written.
    most: u64,
    /// Those that are listed.
    gaps: Vec<Gap>,
    unlisted: u64,
    missing_rows: u64,
    /// The gaps that were noted last, up to those whose rows all files have.
    unwritten: VecDeque<Gap>,
    failure: Option<Error>,
    flushed: Instant,
}

/// Records that did not come, and their rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Gap {
    /// The first row of theirs, from 0 on.
    pub from_row: u64,
    /// The row behind their last one, `end_row` in JSON. As `from_row` if they have none: the
    /// sensor was believed to have gone on from far ahead, or to count anew.
    #[serde(rename = "end_row")]
    pub to_row: u64,
    /// The number of the first of them, or of the record from which on it counts anew. Numbers go
    /// on for ever: of one that began anew at 0, it has the lowest bits.
    pub first_number: u64,
    /// How many records they are; 0 if the sensor counts anew.
    pub records: u64,
}

/// What came of a sensor's records so far.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Figures {
    /// Rows that were drained: those of the files. After one could not be written, those that both
    /// have.
    pub rows: u64,
    /// Of these, those whose record did not come.
    pub missing_rows: u64,
    /// Records that have a row in memory or did have one.
    pub placed: u64,
    /// Records that were dropped, by reason: `doubled`, `late`, `early` (further ahead than there
    /// are rows), `full` (the host was behind), `length` (short or long), `scattered`.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Gaps that were told.
    pub gaps: u64,
    /// Records that did not come.
    pub missing_records: u64,
    /// Times that the sensor counted anew, or went on from far ahead.
    pub restarts: u64,
}

/// In words, for people.
impl fmt::Display for Gap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from_row,
            to_row,
            first_number,
            records,
        } = self;
        let last = |first: u64, count: u64| first.saturating_add(count.saturating_sub(1));
        match (to_row - from_row, records) {
            (0, 0) => write!(
                out,
                "from row {from_row} on the sensor counts anew, from number {first_number} on"
            ),
            (0, _) => write!(
                out,
                "before row {from_row} records {first_number} to {} are missing, and have no rows",
                last(*first_number, *records)
            ),
            (rows, _) => write!(
                out,
                "rows {from_row} to {} are missing: records {first_number} to {}",
                last(*from_row, rows),
                last(*first_number, rows)
            ),
        }
    }
}

impl Gathering {
    /// Makes the files and the memory. `most` rows are written at most, all if none.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Memory`], [`Error::File`].
    pub fn new(
        records: &Records,
        files: &Files,
        most: Option<u64>,
        location: Location,
    ) -> Result<Self, Error> {
        let tensors = Tensors::new(records, location)?;
        Self::over(tensors, files, most)
    }

    /// Makes the files for tensors.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(crate) fn over(tensors: Tensors, files: &Files, most: Option<u64>) -> Result<Self, Error> {
        Ok(Self {
            log: Log {
                arrays: Arrays::create(files, tensors.records())?,
                rows: 0,
                most: most.unwrap_or(u64::MAX),
                gaps: Vec::new(),
                unlisted: 0,
                missing_rows: 0,
                unwritten: VecDeque::new(),
                failure: None,
                flushed: Instant::now(),
            },
            tensors,
        })
    }

    /// The tensors.
    pub const fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    /// Writes the rows that are final, and gives them back. Says whether there were any. A file
    /// that cannot be written any more is told by [`Gathering::failure`].
    pub fn drain(&mut self) -> bool {
        let drained = self.log.drain(&self.tensors);
        if drained && self.log.flushed.elapsed() >= FLUSH_PERIOD {
            self.log.flush();
        }
        drained
    }

    /// Why a file could not be written.
    pub const fn failure(&self) -> Option<&Error> {
        self.log.failure.as_ref()
    }

    /// Whether as many rows were drained as there shall be, or can be.
    pub const fn is_full(&self) -> bool {
        self.log.rows >= self.log.most
    }

    /// The gaps that were told so far: of very many, the first ones, see [`Gathering::unlisted`].
    pub fn gaps(&self) -> &[Gap] {
        &self.log.gaps
    }

    /// Gaps that are not listed because they were very many.
    pub const fn unlisted(&self) -> u64 {
        self.log.unlisted
    }

    /// The files.
    pub fn files(&self) -> Files {
        self.log.arrays.files()
    }

    /// What came so far.
    pub fn figures(&self) -> Figures {
        let SensorCounters {
            placed,
            dropped,
            gaps,
            missing,
            restarts,
        } = self.tensors.counters();
        let named = Why::NAMES.into_iter().zip(dropped);
        Figures {
            rows: self.log.rows,
            missing_rows: self.log.missing_rows,
            placed,
            dropped: named.filter(|(_, count)| *count > 0).collect(),
            gaps,
            missing_records: missing,
            restarts,
        }
    }

    /// Settles what came and waits for what is missing, once nobody gathers any more.
    ///
    /// # Safety
    /// See [`Tensors::settle`].
    pub(crate) unsafe fn settle(&mut self) {
        let log = &mut self.log;
        // SAFETY: passed on.
        unsafe {
            self.tensors.settle(|tensors| {
                log.drain(tensors);
            });
        }
    }

    /// Writes what still waits.
    ///
    /// # Errors
    /// [`Error::Cut`] for the first file that could not be written.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.log.drain(&self.tensors);
        self.log.flush();
        self.log.failure.take().map_or(Ok(()), Err)
    }
}

impl Log {
    /// Takes rows, and the gaps of these, which were told before.
    fn drain(&mut self, tensors: &Tensors) -> bool {
        let row = tensors.records().row_bytes();
        let header = u64::from(tensors.records().header_bytes());
        let drained = tensors.drain(|headers, samples| {
            if self.failure.is_some() {
                return;
            }
            let count = (samples.len() as u64 / row).min(self.most - self.rows);
            self.rows += count;
            let part = |bytes: u64| ..(count * bytes) as usize;
            let headers = headers.get(part(header)).unwrap_or_default();
            let samples = samples.get(part(row)).unwrap_or_default();
            let appended = self.arrays.append(headers, samples);
            self.heed(appended);
        });
        tensors.drain_gaps(|gap| self.note(gap));
        drained > 0
    }

    /// Notes a gap, as far as its rows are written.
    fn note(&mut self, told: &Told) {
        if told.position >= self.most {
            return;
        }
        let rows = told.rows.min(self.most - told.position);
        self.missing_rows += rows;
        let gap = Gap {
            from_row: told.position,
            to_row: told.position + rows,
            first_number: told.first,
            records: told.count,
        };
        let written = self.arrays.rows();
        let is_written = |gap: &Gap| gap.to_row.max(gap.from_row + 1) <= written;
        while self.unwritten.pop_front_if(|gap| is_written(gap)).is_some() {}
        self.unwritten.push_back(gap);
        if self.gaps.len() >= MOST_LISTED {
            self.unlisted += 1;
            return;
        }
        self.gaps.push(gap);
    }

    fn flush(&mut self) {
        self.flushed = Instant::now();
        if self.failure.is_none() {
            let flushed = self.arrays.flush();
            self.heed(flushed);
        }
    }

    /// After a failure, what is told is what the files have.
    fn heed(&mut self, outcome: Result<(), Error>) {
        let Err(error) = outcome else {
            return;
        };
        self.failure = Some(error);
        let kept = self.arrays.rows();
        (self.rows, self.most) = (kept, kept);
        for gap in std::mem::take(&mut self.unwritten) {
            self.missing_rows -= gap.to_row.saturating_sub(gap.from_row.max(kept));
            match gap.from_row < kept {
                true => {}
                // Those that are not listed are the last ones.
                false if self.unlisted > 0 => self.unlisted -= 1,
                false => drop(self.gaps.pop()),
            }
        }
        if let Some(last) = self.gaps.last_mut() {
            last.to_row = last.to_row.min(kept);
        }
    }
}

/// Gaps that are listed.
const MOST_LISTED: usize = 10_000;
/// After which rows that wait are written, though they are few.
const FLUSH_PERIOD: Duration = Duration::from_secs(1);
