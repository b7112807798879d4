//! Records out of streams: one warp reads the streams that listeners accept, and offers what they
//! hold to a gatherer.
#![expect(
    unsafe_code,
    reason = "reads and writes seats by the addresses that the host gave"
)]

use core::mem::offset_of;

use warpwire_device::{SharedCounters, SharedWord, Simt};
use warpwire_protocols::stream::framing::{Framing, Next};
use warpwire_ring::layout::fold;
use warpwire_ring::{Cause, DeviceAddress, layout_hash};

use super::block::SensorBlock;
use super::gatherer::{Became, Gatherer};
use super::parts::Parts;
use crate::streaming::{Ended, Name, News, Stream, Table, TableBlock, Told};

/// What the host hands to an intake.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct IntakeBlock {
    /// The [`TableBlock`] whose listeners are served.
    pub table: DeviceAddress,
    /// The [`SensorBlock`] that records are gathered by.
    pub sensor: DeviceAddress,
    /// A word of 32 bits a place, zero at first.
    pub seats: DeviceAddress,
    /// [`IntakeCounters`].
    pub counters: DeviceAddress,
    /// How records stand in a stream.
    pub framing: Framing,
    /// Records that a stream is read for in a turn, 1 at least.
    pub share: u32,
    /// Streams that are looked at in a turn, 1 at least.
    pub most: u32,
}

/// What an intake counted. Each has one writer, the intake.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct IntakeCounters {
    /// Streams that were accepted.
    pub accepted: u64,
    /// Of these, those that are over.
    pub ended: u64,
    /// Of these, those that broke, or ended within a record.
    pub broken: u64,
    /// Of these, those that were given up because they are not framed as they should be.
    pub unframed: u64,
    /// Records that were taken.
    pub records: u64,
    /// Their bytes, and those of lengths.
    pub bytes: u64,
    /// Times that a stream had to wait for the host.
    pub held: u64,
}

/// One warp that reads the records of a table's streams.
pub struct Intake<'a> {
    block: &'a IntakeBlock,
    table: Table,
    gatherer: Gatherer<'a>,
    news: News,
    counters: SharedCounters,
}

/// What becomes of a stream after a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Nothing is to be done before there are news.
    Waits,
    /// There is more to read.
    Again,
    /// The host is behind.
    Held,
    /// It is over.
    Over,
    /// It is over in the middle of a record, or broke.
    Broken,
    /// It cannot be understood.
    Unframed,
}

impl<'a> Intake<'a> {
    /// Attaches to a block.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if something is missing, or a number makes no sense.
    ///
    /// # Safety
    /// *The intake's promise*: the table's promise, see [`Table::attach`], for all streams that its
    /// listeners accept; the gatherer's, see [`Gatherer::attach`]; seats and counters are live
    /// memory for `'a`, and nobody else changes them.
    pub unsafe fn attach(block: &'a IntakeBlock) -> Result<Self, Cause> {
        let is_there = |at: DeviceAddress, align: u64| !at.is_null() && at.is_aligned(align);
        let sound = is_there(block.seats, 4) && is_there(block.counters, 8);
        if !sound || block.share == 0 || block.most == 0 {
            return Err(Cause::LayoutMismatch);
        }
        // SAFETY: passed on.
        let gatherer = unsafe { Gatherer::attach(block.sensor) };
        Ok(Self {
            block,
            // SAFETY: passed on.
            table: unsafe { Table::attach(block.table) }?,
            gatherer: gatherer.ok_or(Cause::LayoutMismatch)?,
            news: News::default(),
            // SAFETY: the block's counters, by the promise.
            counters: unsafe { SharedCounters::attach(block.counters, IntakeCounters::ENTRIES) },
        })
    }

    /// *Collective.* Reads some of the streams that have news, and settles. Says whether anything
    /// was done.
    pub fn turn<S: Simt>(&mut self, simt: &S) -> bool {
        let mut busy = false;
        for _ in 0..self.block.most {
            let mut news = self.news;
            let told = self.table.next_news(simt, &mut news);
            self.news = news;
            match told {
                None => break,
                Some(Told::Place(place)) => busy |= self.go_on(simt, place),
                Some(Told::Listener(listener)) => {
                    self.welcome(simt, listener);
                    busy = true;
                }
            }
        }
        busy | self.gatherer.turn(simt)
    }

    /// *Collective.* Leaves those with news who were not read yet to the next kernel.
    pub fn leave<S: Simt>(&mut self, simt: &S) {
        let news = core::mem::take(&mut self.news);
        self.table.put_back(simt, news);
    }

    fn welcome<S: Simt>(&self, simt: &S, listener: u32) {
        for _ in 0..MOST_ACCEPTED {
            let Some(name) = self.table.accept(simt, listener) else {
                return;
            };
            self.sit(simt, name.place, name.generation);
            self.count(simt, offset_of!(IntakeCounters, accepted), 1);
            // What it sent before may not be told again.
            self.go_on(simt, name.place);
        }
        self.table.again(simt, Told::Listener(listener));
    }

    /// *Collective.* A turn of a stream. Says whether anything was done.
    fn go_on<S: Simt>(&self, simt: &S, place: u32) -> bool {
        let Some(seat) = self.seat(place) else {
            return false;
        };
        let generation = simt.shuffle(seat.load(), 0);
        let Ok(mut stream) = self.table.stream(simt, Name { place, generation }) else {
            return false;
        };
        let (outcome, records) = self.read(simt, &mut stream);
        self.count(simt, offset_of!(IntakeCounters, records), records);
        let at = match outcome {
            Outcome::Waits | Outcome::Again | Outcome::Held => {
                stream.ring(simt);
                if outcome != Outcome::Waits {
                    self.table.again(simt, Told::Place(place));
                }
                if outcome == Outcome::Held {
                    self.count(simt, offset_of!(IntakeCounters, held), 1);
                }
                return outcome != Outcome::Held || records > 0;
            }
            Outcome::Over => None,
            Outcome::Broken => Some(offset_of!(IntakeCounters, broken)),
            Outcome::Unframed => Some(offset_of!(IntakeCounters, unframed)),
        };
        self.sit(simt, place, 0);
        self.count(simt, offset_of!(IntakeCounters, ended), 1);
        match at {
            // What is not closed is given up, and the peer is told.
            Some(at) => self.count(simt, at, 1),
            None => stream.close(simt),
        }
        stream.release(simt);
        true
    }

    /// *Collective.* Takes the records that are there, as many as the share says. How many that
    /// were.
    fn read<S: Simt>(&self, simt: &S, stream: &mut Stream) -> (Outcome, u64) {
        let mut records = 0;
        for _ in 0..self.block.share {
            let record = match stream.record(simt, &self.block.framing) {
                Next::Record(record) => record,
                Next::Wrong(_) => return (Outcome::Unframed, records),
                Next::NeedMore { bytes } => return (self.lacking(simt, stream, bytes), records),
            };
            let part = stream.unread().part(record.at, record.length);
            let became = match part {
                Some(part) => self.gatherer.offer(simt, &Parts::from(part)),
                None => return (Outcome::Unframed, records),
            };
            if became == Became::Full {
                return (Outcome::Held, records);
            }
            stream.consume(simt, record.end());
            self.count(
                simt,
                offset_of!(IntakeCounters, bytes),
                u64::from(record.end()),
            );
            records += 1;
        }
        (Outcome::Again, records)
    }

    /// *Collective.* What becomes of a stream whose next record is not all there.
    fn lacking<S: Simt>(&self, simt: &S, stream: &Stream, bytes: u32) -> Outcome {
        let (readable, most) = (stream.readable(), stream.most_readable());
        if most != 0 && most - readable < bytes {
            return Outcome::Unframed;
        }
        if !stream.is_last() {
            return Outcome::Waits;
        }
        let is_clean = readable == 0 && matches!(stream.ended(simt), None | Some(Ended::Finished));
        if is_clean {
            Outcome::Over
        } else {
            Outcome::Broken
        }
    }

    fn seat(&self, place: u32) -> Option<SharedWord> {
        let at = self.block.seats.offset(u64::from(place) * 4);
        // SAFETY: a seat of the block, by its promise.
        (place < self.table.places()).then(|| unsafe { SharedWord::attach(at) })
    }

    /// *Collective.* Says which stream of a place is read.
    fn sit<S: Simt>(&self, simt: &S, place: u32, generation: u32) {
        if let Some(seat) = self.seat(place)
            && simt.is_leader()
        {
            seat.store(generation);
        }
        simt.sync_warp();
    }

    fn count<S: Simt>(&self, simt: &S, offset: usize, value: u64) {
        if simt.is_leader()
            && value > 0
            && let Some(counter) = self.counters.at((offset / 8) as u32)
        {
            counter.add_alone(value);
        }
    }
}

impl IntakeBlock {
    /// Hash of the layout, of this block and of all that it names.
    pub const LAYOUT: u64 = {
        let block = layout_hash!(IntakeBlock {
            table,
            sensor,
            seats,
            counters,
            framing,
            share,
            most,
        });
        let counters = layout_hash!(IntakeCounters {
            accepted,
            ended,
            broken,
            unframed,
            records,
            bytes,
            held,
        });
        let hash = fold(fold(block, counters as usize), TableBlock::LAYOUT as usize);
        fold(hash, SensorBlock::LAYOUT as usize)
    };
}

impl IntakeCounters {
    /// Counters, as a row of 64-bit words.
    pub const ENTRIES: u32 = (size_of::<Self>() / 8) as u32;
}

/// Streams that are accepted when a listener is named once.
const MOST_ACCEPTED: u32 = 32;
