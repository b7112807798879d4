//! Tensors in memory, as the host has them beside the device code that gathers.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that nobody else gathers"
)]

use std::cell::Cell;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpwire_core::sensor::{
    Gap, Gatherer, SensorBlock, SensorCounters, SensorState, SensorWords, Why,
};
use warpwire_device::{Scalar, ScalarHost};
use warpwire_gpu::Arena;
use warpwire_gpu::arena::ArenaError;
use warpwire_ring::{DeviceAddress, Location};

use super::error::Error;
use super::records::Records;

/// The tensors of a sensor: rings of rows that device code fills and the host gives back.
///
/// Device code finds all of it by [`Tensors::address`]; another kernel that works on rows finds
/// them by [`Tensors::headers`] and [`Tensors::values`]: row `p % rows` of both holds position `p`.
#[derive(Debug)]
pub struct Tensors {
    records: Records,
    arena: Arc<Arena>,
    block: SensorBlock,
    at: DeviceAddress,
}

impl Tensors {
    /// Memory for records, in this kind of memory. Nothing has come yet.
    ///
    /// # Errors
    /// [`Error::Setting`], see [`Records::check`]; [`Error::Memory`].
    pub fn new(records: &Records, location: Location) -> Result<Self, Error> {
        records.check()?;
        let header_bytes = records.header_bytes();
        let bits = records.format.bits();
        let state = SensorState::new(bits, records.window, records.first);
        let state = state.map_err(|_| Error::Setting {
            field: "window",
            problem: format!("is {}", records.window),
            cure: "write a smaller one".to_owned(),
        })?;
        let bytes = records.tensor_bytes() as usize + GAPS as usize * size_of::<Gap>();
        let arena = Arc::new(Arena::new(bytes + OTHER_BYTES, location)?);
        let cut = |bytes: u64| Ok::<_, ArenaError>(arena.allocate(bytes, 128)?.address);
        let rows = u64::from(records.rows);
        let block = SensorBlock {
            reserved: 0,
            layout: SensorBlock::LAYOUT,
            headers: cut(rows * u64::from(header_bytes))?,
            values: cut(rows * records.row_bytes())?,
            gaps: cut(u64::from(GAPS) * size_of::<Gap>() as u64)?,
            words: arena.place(SensorWords::default())?.address,
            state: arena.place(state)?.address,
            counters: arena.place(SensorCounters::default())?.address,
            patience_ns: records.patience.as_nanos() as u64,
            format: records.format,
            conversion: records.conversion,
            header_bytes,
            samples: records.samples,
            rows: records.rows,
            gap_count: GAPS,
            far_limit: FAR_LIMIT,
            late_limit: LATE_LIMIT,
            reserved_end: [0; 20],
        };
        let at = arena.place(block)?.address;
        Ok(Self {
            records: *records,
            arena,
            block,
            at,
        })
    }

    /// What is gathered.
    pub const fn records(&self) -> &Records {
        &self.records
    }

    /// Where the [`SensorBlock`] lies, for device code that gathers.
    pub const fn address(&self) -> DeviceAddress {
        self.at
    }

    /// The memory that all of it lies in, for a launch to hold.
    pub const fn memory(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// The tensor of headers: `[rows][header bytes]` of `u8`.
    pub const fn headers(&self) -> DeviceAddress {
        self.block.headers
    }

    /// The tensor of samples: `[rows][samples]` of `f32`.
    pub const fn values(&self) -> DeviceAddress {
        self.block.values
    }

    /// Before device code gathers out of streams. Each of them is in order, but one can be behind
    /// another by all that lies in buffers on the way: so many late records in a row say nothing of
    /// the sensor.
    ///
    /// # Errors
    /// [`ArenaError::Bounds`] if the block is not where it was placed.
    pub(super) fn expect_streams(&self) -> Result<(), ArenaError> {
        let limit = offset_of!(SensorBlock, late_limit) as u64;
        let record = u64::from(self.records.record_bytes());
        let records = (BEHIND_BYTES / record).max(u64::from(LATE_LIMIT));
        let word = self.arena.half_word(self.at.offset(limit))?;
        word.store(records as u32, Ordering::Relaxed);
        Ok(())
    }

    /// Positions before this are final, and stay until they are given back.
    pub fn whole(&self) -> u64 {
        // pairs with: the gatherer's release of rows.
        self.load(offset_of!(SensorWords, whole), Ordering::Acquire)
    }

    /// Positions before this were given back.
    pub fn given_back(&self) -> u64 {
        self.load(offset_of!(SensorWords, consumed), Ordering::Relaxed)
    }

    /// Gives the rows before this position back, to be written again.
    pub fn give_back(&self, before: u64) {
        let before = before.clamp(self.given_back(), self.whole());
        // pairs with: the gatherer's acquire before it writes rows again.
        self.store(offset_of!(SensorWords, consumed), before);
    }

    /// What was counted so far.
    pub fn counters(&self) -> SensorCounters {
        let count = |offset: usize| {
            let word = self.arena.word(self.block.counters.offset(offset as u64));
            word.map_or(0, |word| word.load(Ordering::Relaxed))
        };
        let mut counters = SensorCounters {
            placed: count(offset_of!(SensorCounters, placed)),
            gaps: count(offset_of!(SensorCounters, gaps)),
            missing: count(offset_of!(SensorCounters, missing)),
            restarts: count(offset_of!(SensorCounters, restarts)),
            dropped: [0; Why::ALL.len()],
        };
        for (index, dropped) in counters.dropped.iter_mut().enumerate() {
            *dropped = count(offset_of!(SensorCounters, dropped) + index * 8);
        }
        counters
    }

    /// Hands all final rows that were not given back yet to `take`, some at a time: headers, and
    /// samples as bytes of `f32`. Gives them back; returns how many there were.
    pub fn drain(&self, mut take: impl FnMut(&[u8], &[u8])) -> u64 {
        let (start, end) = (self.given_back(), self.whole());
        let (header, row) = (u64::from(self.block.header_bytes), self.records.row_bytes());
        let rows = u64::from(self.block.rows);
        let most = (PIECE_BYTES / row).max(1);
        let (mut headers, mut values) = (Vec::new(), Vec::new());
        let mut at = start;
        while at < end {
            let first = at & (rows - 1);
            let count = (end - at).min(rows - first).min(most);
            headers.resize((count * header) as usize, 0);
            values.resize((count * row) as usize, 0);
            let read = |from: DeviceAddress, bytes: u64, into: &mut [u8]| {
                self.arena.read(from.offset(first * bytes), into)
            };
            let found = read(self.block.headers, header, &mut headers)
                .and_then(|()| read(self.block.values, row, &mut values));
            if found.is_ok() {
                take(&headers, &values);
            }
            at += count;
            self.give_back(at);
        }
        end - start
    }

    /// Hands all gaps that were told since to `take`. Those of all rows before [`Tensors::whole`],
    /// as it was before, are among those that were ever handed out.
    pub fn drain_gaps(&self, mut take: impl FnMut(&Gap)) {
        // pairs with: the gatherer's release of gaps.
        let end = self.load(offset_of!(SensorWords, gaps_written), Ordering::Acquire);
        let mut at = self.load(offset_of!(SensorWords, gaps_read), Ordering::Relaxed);
        while at < end {
            let slot = (at & u64::from(GAPS - 1)) * size_of::<Gap>() as u64;
            let word = |offset: usize| {
                let word = self.block.gaps.offset(slot + offset as u64);
                let word = self.arena.word(word);
                word.map_or(0, |word| word.load(Ordering::Relaxed))
            };
            take(&Gap {
                first: word(offset_of!(Gap, first)),
                count: word(offset_of!(Gap, count)),
                position: word(offset_of!(Gap, position)),
                rows: word(offset_of!(Gap, rows)),
            });
            at += 1;
            // pairs with: the gatherer's acquire before it writes gaps again.
            self.store(offset_of!(SensorWords, gaps_read), at);
        }
    }

    /// Settles all that came, as if patience were over; calls `drain` in between, which gives rows
    /// and gaps back.
    ///
    /// # Safety
    /// Nobody gathers into these tensors any more, nor will.
    pub(crate) unsafe fn settle(&self, mut drain: impl FnMut(&Self)) {
        // SAFETY: the block and all that it names lie in the arena; nobody else gathers.
        let Some(gatherer) = (unsafe { Gatherer::attach(self.at) }) else {
            return;
        };
        let late = Late(Cell::new(LATE_NS));
        let mut idle = 0;
        while idle < IDLE_TURNS {
            late.0.set(late.0.get() + STEP_NS);
            let moved = gatherer.turn(&Scalar::new(&late));
            drain(self);
            idle = if moved { 0 } else { idle + 1 };
        }
    }

    fn load(&self, offset: usize, order: Ordering) -> u64 {
        self.word(offset).map_or(0, |word| word.load(order))
    }

    fn store(&self, offset: usize, value: u64) {
        if let Some(word) = self.word(offset) {
            word.store(value, Ordering::Release);
        }
    }

    fn word(&self, offset: usize) -> Option<&AtomicU64> {
        let word = self.block.words.offset(offset as u64);
        self.arena.word(word).ok()
    }
}

/// A time at which all patience is over.
struct Late(Cell<u64>);

impl ScalarHost for Late {
    fn now_ns(&self) -> u64 {
        self.0.get()
    }

    fn pause(&self) {}

    fn sync_block(&self) {}
}

/// Gaps that can wait to be read; a power of two.
const GAPS: u32 = 1024;
/// Room for blocks, words and counters, and for alignment.
const OTHER_BYTES: usize = 16384;
/// Bytes of samples that are handed out at a time.
const PIECE_BYTES: u64 = 1 << 18;
/// Records in a row that are too far ahead after which they are believed.
const FAR_LIMIT: u32 = 8;
/// Records in a row that are late after which the sensor counts anew.
const LATE_LIMIT: u32 = 64;
/// The same for streams, if it is more records: what a stream may be behind another.
const BEHIND_BYTES: u64 = 1 << 20;
/// Behind any time of a kernel's clock.
const LATE_NS: u64 = 1 << 62;
/// More than the longest patience, and so little that it can pass again and again.
const STEP_NS: u64 = 1 << 44;
/// Turns without progress after which there will be none: one to see what is missing, one to give
/// it up, one to find nothing.
const IDLE_TURNS: u32 = 3;
