//! One warp that serves the streams of a table.
#![expect(
    unsafe_code,
    reason = "reads and writes seats by the addresses that the host gave"
)]

use core::mem::offset_of;

use warpwire_device::{Area, SharedCounters, Simt};
use warpwire_protocols::stream::http::Parser;
use warpwire_ring::{Cause, DeviceAddress, Location, Region};

use super::Service;
use super::block::{Seat, ServeBlock, ServeCounters, Stand};
use super::site::Site;
use crate::streaming::{Accepts, Ended, Name, News, Table, Told};

/// One warp that serves the streams of a table.
pub struct Server<'a> {
    pub(super) block: &'a ServeBlock,
    pub(super) table: Table,
    service: Service,
    pub(super) site: Option<Site>,
    news: News,
    pub(super) pairs: Option<Accepts>,
    counters: SharedCounters,
}

/// What becomes of a stream after a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// There is nothing to do before there are news.
    Waits,
    /// There is more to do.
    Again,
    /// The server is done with it.
    Over,
}

/// What a turn counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) came: u64,
    pub(super) left: u64,
    pub(super) answers: u64,
    pub(super) refusals: u64,
}

impl<'a> Server<'a> {
    /// Serves what a block says.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if a table is missing, or a number makes no sense.
    ///
    /// # Safety
    /// *The server's promise*: the table's promise, see [`Table::attach`], for all its streams that
    /// its listeners accept; seats, counters, site, pattern and pairs are live memory of the size
    /// that the block says for `'a`, and nobody else changes them.
    pub unsafe fn attach(block: &'a ServeBlock) -> Result<Self, Cause> {
        let service = Service::from_number(block.service).ok_or(Cause::LayoutMismatch)?;
        let is_there =
            |at: DeviceAddress, align: usize| !at.is_null() && at.is_aligned(align as u64);
        let sound = is_there(block.seats, align_of::<Seat>())
            && is_there(block.counters, align_of::<ServeCounters>())
            && block.share > 0
            && block.most > 0;
        if !sound {
            return Err(Cause::LayoutMismatch);
        }
        let has_pattern = !block.pattern.is_null()
            && block.pattern_period > 0
            && block.pattern_bytes >= block.pattern_period;
        if service == Service::Source && !has_pattern {
            return Err(Cause::LayoutMismatch);
        }
        // SAFETY: passed on.
        let site = unsafe { Site::attach(block.site) };
        if service == Service::Http && site.is_none() {
            return Err(Cause::LayoutMismatch);
        }
        Ok(Self {
            block,
            // SAFETY: passed on.
            table: unsafe { Table::attach(block.table) }?,
            service,
            site,
            news: News::default(),
            // SAFETY: the block's ring of pairs, by the promise.
            pairs: unsafe { Accepts::attach(block.pairs) },
            // SAFETY: the block's counters, by the promise.
            counters: unsafe { SharedCounters::attach(block.counters, ServeCounters::ENTRIES) },
        })
    }

    /// *Collective.* Serves some of those who have news. Says whether there were any.
    pub fn turn<S: Simt>(&mut self, simt: &S) -> bool {
        let mut busy = self.pair(simt);
        for _ in 0..self.block.most {
            let mut news = self.news;
            let told = self.table.next_news(simt, &mut news);
            self.news = news;
            match told {
                None => break,
                Some(Told::Place(place)) => self.go_on(simt, place),
                Some(Told::Listener(listener)) => self.welcome(simt, listener),
            }
            busy = true;
        }
        busy
    }

    /// *Collective.* Leaves those with news who were not served yet to the next server.
    pub fn leave<S: Simt>(&mut self, simt: &S) {
        let news = core::mem::take(&mut self.news);
        self.table.put_back(simt, news);
    }

    /// *Collective.* Takes those who wait at a listener, and serves each once: what they sent
    /// before may not be told again.
    fn welcome<S: Simt>(&mut self, simt: &S, listener: u32) {
        for _ in 0..MOST_ACCEPTED {
            let Some(name) = self.table.accept(simt, listener) else {
                return;
            };
            self.seat(simt, name, Name::default());
            self.count(simt, offset_of!(ServeCounters, accepted), 1);
            self.go_on(simt, name.place);
        }
        self.table.again(simt, Told::Listener(listener));
    }

    /// *Collective.* Gives a stream a seat.
    pub(super) fn seat<S: Simt>(&self, simt: &S, name: Name, partner: Name) {
        if let Some(at) = self.seat_at(name.place)
            && simt.is_leader()
        {
            let stand = Stand {
                generation: name.generation,
                partner,
                ..Stand::default()
            };
            // SAFETY: a seat of the block, by its promise; the leader alone writes it.
            unsafe { (at.value() as *mut Stand).write(stand) };
            // SAFETY: as above; the words behind hold a parser.
            unsafe { (parser_at(at).value() as *mut Parser).write(Parser::new()) };
        }
        // What the leader wrote is read by all lanes.
        simt.sync_warp();
    }

    /// *Collective.* A turn of a stream, if it is one that is served.
    pub(super) fn go_on<S: Simt>(&mut self, simt: &S, place: u32) {
        let Some(at) = self.seat_at(place) else {
            return;
        };
        let mut stand = self.stand(at);
        if stand.generation == 0 {
            return;
        }
        let name = Name {
            place,
            generation: stand.generation,
        };
        let Ok(mut stream) = self.table.stream(simt, name) else {
            stand.generation = 0;
            self.save(simt, at, &stand);
            return;
        };
        let mut counted = Counted::default();
        if self.service == Service::Splice {
            return self.join(simt, (at, stand), stream);
        }
        let mut outcome = match self.service {
            Service::Echo => self.echo(simt, &mut stream, &mut counted),
            Service::Discard | Service::Splice => self.discard(simt, &mut stream, &mut counted),
            Service::Source => self.pour(simt, &mut stream, &stand, &mut counted),
            Service::Http => {
                let parser = parser_at(at);
                self.converse(simt, &mut stream, (&mut stand, parser), &mut counted)
            }
        };
        let mut is_broken = false;
        if stream.is_over() && outcome != Outcome::Again {
            is_broken = stream.ended(simt) != Some(Ended::Finished);
            outcome = Outcome::Over;
        }
        stand.came = stand.came.wrapping_add(counted.came);
        stand.went = stand.went.wrapping_add(counted.left);
        self.tally(simt, outcome, is_broken, &counted);
        match outcome {
            Outcome::Waits => stream.ring(simt),
            Outcome::Again => {
                stream.ring(simt);
                self.table.again(simt, Told::Place(place));
            }
            Outcome::Over => {
                stand.generation = 0;
                // One that was closed still sends what was written; one that broke is given up.
                stream.release(simt);
            }
        }
        self.save(simt, at, &stand);
    }

    /// The pattern of a source.
    pub(super) fn pattern(&self) -> Area {
        let region = Region {
            address: self.block.pattern,
            length: u64::from(self.block.pattern_bytes),
            key: 0,
            location: Location::Device,
        };
        // SAFETY: the block's pattern, by its promise.
        unsafe { Area::attach(region) }
    }

    /// Where the stream of a seat stands.
    pub(super) fn stand(&self, at: DeviceAddress) -> Stand {
        // SAFETY: a seat of the block, by its promise; the leader wrote it before the warp met.
        unsafe { (at.value() as *const Stand).read() }
    }

    pub(super) fn save<S: Simt>(&self, simt: &S, at: DeviceAddress, stand: &Stand) {
        // All lanes have read what the leader writes again.
        simt.sync_warp();
        if simt.is_leader() {
            // SAFETY: a seat of the block, by its promise; the leader alone writes it.
            unsafe { (at.value() as *mut Stand).write(*stand) };
        }
        simt.sync_warp();
    }

    pub(super) fn seat_at(&self, place: u32) -> Option<DeviceAddress> {
        let offset = u64::from(place) * size_of::<Seat>() as u64;
        (place < self.table.places()).then(|| self.block.seats.offset(offset))
    }

    pub(super) fn tally<S: Simt>(
        &self,
        simt: &S,
        outcome: Outcome,
        is_broken: bool,
        counted: &Counted,
    ) {
        let count = |offset, value| self.count(simt, offset, value);
        count(offset_of!(ServeCounters, turns), 1);
        let is_over = u64::from(outcome == Outcome::Over);
        count(offset_of!(ServeCounters, ended), is_over);
        let is_held = u64::from(outcome == Outcome::Again);
        count(offset_of!(ServeCounters, held), is_held);
        let is_broken = u64::from(is_broken);
        count(offset_of!(ServeCounters, broken), is_broken);
        count(offset_of!(ServeCounters, came), counted.came);
        count(offset_of!(ServeCounters, left), counted.left);
        let (answers, refusals) = (counted.answers, counted.refusals);
        count(offset_of!(ServeCounters, answers), answers);
        count(offset_of!(ServeCounters, refusals), refusals);
    }

    /// *Collective.* Counts.
    pub(super) fn count<S: Simt>(&self, simt: &S, offset: usize, value: u64) {
        if value > 0
            && simt.is_leader()
            && let Some(counter) = self.counters.at((offset / 8) as u32)
        {
            counter.add_alone(value);
        }
    }
}

/// Where the parser of a seat lies.
const fn parser_at(seat: DeviceAddress) -> DeviceAddress {
    seat.offset(offset_of!(Seat, parser) as u64)
}

/// Streams that are accepted when a listener is named once.
const MOST_ACCEPTED: u32 = 32;
