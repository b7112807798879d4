//! Rounds of a carrier: which places are visited, a lane each.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that all tables are live"
)]

use core::mem::offset_of;

use warpwire_device::{SharedCounters, Simt, Solo};
use warpwire_engine::streams::Bits;
use warpwire_engine::streams::tables::{AcceptBlock, CONNECTED, NONE, StreamCounters, StreamWords};
use warpwire_protocols::tcp::State;
use warpwire_ring::{Cause, DeviceAddress};

use super::count::{self, Counts, Tally};
use super::seat::Seats;
use super::stream::Visit;
use super::tables::{CarrierBlock, SeatBlock, SeatState, Standing};
use crate::messaging::Channel;

/// The streams of a block, as one warp carries them.
pub struct StreamCarrier<'a> {
    block: &'a CarrierBlock,
    seats: Seats<'a>,
    asked: Bits,
    told: Option<Bits>,
    counts: Counts,
    standing: Standing,
}

impl<'a> StreamCarrier<'a> {
    /// Attaches to a block where it stands.
    ///
    /// # Errors
    /// [`Cause::LayoutMismatch`] if it is none, or its tables lie off their alignment.
    ///
    /// # Safety
    /// *The carrier's promise*: everything that the block names is live memory for as long as the
    /// value is used: tables, bitmaps, and of each seat whose stream began the queue pair and both
    /// rings; and nobody but this warp drives the block, or posts to its queue pairs.
    pub unsafe fn attach(block: &'a CarrierBlock) -> Result<Self, Cause> {
        let tables = [
            (block.seats, align_of::<SeatBlock>()),
            (block.words, align_of::<StreamWords>()),
            (block.asked, 8),
            (block.counters, align_of::<StreamCounters>()),
            (block.standing, align_of::<Standing>()),
        ];
        let lies =
            |(at, align): &(DeviceAddress, usize)| !at.is_null() && at.is_aligned(*align as u64);
        let accepts = (block.accepts, align_of::<AcceptBlock>());
        let is_sound = block.header == CarrierBlock::HEADER
            && tables.iter().all(lies)
            && (block.listener_count == 0 || lies(&accepts))
            && block.share > 0;
        if !is_sound {
            return Err(Cause::LayoutMismatch);
        }
        // SAFETY: the block's tables, by the promise.
        let seats = unsafe { Seats::attach(block) };
        // SAFETY: as above.
        let counters = unsafe { SharedCounters::attach(block.counters, count::ENTRIES) };
        let numbers = block.place_count.saturating_add(block.listener_count);
        let has_told = !block.told.is_null();
        Ok(Self {
            // SAFETY: as above.
            asked: unsafe { Bits::attach(block.asked, block.place_count) },
            // SAFETY: as above.
            told: has_told.then(|| unsafe { Bits::attach(block.told, numbers) }),
            standing: seats.standing(),
            counts: Counts::new(counters),
            seats,
            block,
        })
    }

    /// *Collective.* Leaves where it stands in memory, for who attaches next.
    pub fn save<S: Simt>(&self, simt: &S) {
        if simt.is_leader() {
            self.seats.leave(self.standing);
        }
        simt.sync_warp();
    }

    /// *Collective.* One round. Says whether there was anything to do.
    pub fn step<S: Simt>(&mut self, simt: &S) -> bool {
        let now_ns = simt.shuffle_u64(simt.now_ns(), 0);
        let mut busy = false;
        for index in 0..self.asked.summaries() {
            let mut summary = self.take(simt, |asked| asked.take_summary(index));
            while summary != 0 {
                let group = index * 64 + summary.trailing_zeros();
                summary &= summary - 1;
                let bits = self.take(simt, |asked| asked.take(group));
                busy |= self.visit_group(simt, group, bits, true, now_ns);
            }
        }
        busy |= self.scan(simt, now_ns);
        if simt.is_leader() {
            self.counts.count(offset_of!(StreamCounters, turns), 1);
            let idle = u64::from(!busy);
            self.counts
                .count(offset_of!(StreamCounters, idle_turns), idle);
        }
        busy
    }

    /// *Collective.* What the leader takes of the bitmap.
    fn take<S: Simt>(&self, simt: &S, take: impl FnOnce(&Bits) -> u64) -> u64 {
        let mut taken = 0;
        if simt.is_leader() {
            taken = take(&self.asked);
        }
        simt.shuffle_u64(taken, 0)
    }

    /// *Collective.* Looks at some places that nobody asked for: peers may have sent something, and
    /// time passes.
    fn scan<S: Simt>(&mut self, simt: &S, now_ns: u64) -> bool {
        let used = self.standing.used;
        let groups = used.div_ceil(64);
        let mut busy = false;
        for _ in 0..groups.min(SCANNED) {
            let group = match self.standing.scan < groups {
                true => self.standing.scan,
                false => 0,
            };
            self.standing.scan = group + 1;
            let bits = match used - group * 64 {
                count @ 0..64 => (1 << count) - 1,
                _ => u64::MAX,
            };
            busy |= self.visit_group(simt, group, bits, false, now_ns);
        }
        busy
    }

    /// *Collective.* Visits places of a group of 64, a lane each.
    fn visit_group<S: Simt>(
        &mut self,
        simt: &S,
        group: u32,
        bits: u64,
        is_asked: bool,
        now_ns: u64,
    ) -> bool {
        let mut left = bits;
        let mut busy = false;
        while left != 0 {
            let mut mine = left;
            for lane in 0..S::WIDTH {
                if lane < simt.lane() {
                    mine &= mine.wrapping_sub(1);
                }
                left &= left.wrapping_sub(1);
            }
            let place = match mine {
                0 => NONE,
                bits => group * 64 + bits.trailing_zeros(),
            };
            if is_asked {
                busy |= self.begin(simt, place);
            }
            let mut tally = Tally::default();
            let did = self.visit(simt, place, is_asked, now_ns, &mut tally);
            busy |= simt.any(did);
            self.counts.add(simt, &tally);
            // pairs with: a lane that visits the seat later.
            simt.sync_warp();
        }
        busy
    }

    /// *Collective.* Begins the streams that the host wants to begin at the lanes' places, one
    /// after the other: listeners hear of them in turn.
    fn begin<S: Simt>(&mut self, simt: &S, place: u32) -> bool {
        let number = self.seats.ordered(place);
        let mut beginning = simt.ballot(number.is_some());
        let any = beginning != 0;
        while beginning != 0 {
            let lane = beginning.trailing_zeros();
            beginning &= beginning - 1;
            let place = simt.shuffle(place, lane);
            self.standing.used = self.standing.used.max(place.saturating_add(1));
            if simt.is_leader() {
                self.open(place);
            }
        }
        if any {
            // pairs with: the lanes that visit the seats.
            simt.sync_warp();
        }
        any
    }

    /// By the leader.
    #[inline(never)]
    fn open(&self, place: u32) {
        let Some(opening) = self.seats.opening(place) else {
            return;
        };
        let words = self.seats.words(place);
        words.begin(&opening.tuple, 0);
        let Some(mut state) = SeatState::begin(opening) else {
            return self.seats.vacate(place, opening.number);
        };
        let ring = |gather: &warpwire_ring::mlx5::post::Gather, bytes| {
            (DeviceAddress::new(gather.address), bytes)
        };
        let terms = &opening.terms;
        words.rings(
            ring(&opening.receive, terms.own.bytes),
            ring(&opening.send, terms.send_bytes),
        );
        let established = State::Established as u32;
        words.flags(established, 0, CONNECTED);
        state.told = CONNECTED | established << 16;
        self.seats.begin(place, state);
        words.generation(opening.number);
        self.counts.count(offset_of!(StreamCounters, connected), 1);
        self.tell(place);
        if opening.listener == NONE {
            return;
        }
        let is_told = self.seats.accept(opening.listener, place, opening.number);
        if is_told {
            self.tell(self.block.place_count.saturating_add(opening.listener));
        } else {
            // Nobody will ever take it.
            self.counts
                .count(offset_of!(StreamCounters, accept_full), 1);
            if let Some(state) = self.seats.state(place) {
                state.give_up();
            }
        }
    }

    /// Serves the stream of a place, if there is one. By one lane for itself.
    fn visit<S: Simt>(
        &self,
        simt: &S,
        place: u32,
        is_asked: bool,
        now_ns: u64,
        tally: &mut Tally,
    ) -> bool {
        let (Some(state), Some(opening)) = (self.seats.state(place), self.seats.opening(place))
        else {
            return false;
        };
        let mut visit = Visit {
            opening,
            state,
            words: self.seats.words(place),
            now_ns,
            tally: *tally,
        };
        let mut busy = is_asked && visit.obey();
        // SAFETY: the seat's queue pair, by the promise.
        let has_news = unsafe { Channel::has_news(opening.channel) };
        let is_due = busy || visit.state.is_aborting || visit.state.is_blocked;
        if has_news || is_due {
            // SAFETY: as above; this lane alone has it.
            busy |= match unsafe { Channel::attach(opening.channel) } {
                Ok(mut channel) => {
                    let solo = Solo(simt);
                    let did = visit.exchange(&solo, &mut channel, self.block.share);
                    channel.save(&solo);
                    did
                }
                Err(failure) => visit.fail(failure),
            };
        }
        visit.settle();
        let has_news = visit.tell();
        *tally = visit.tally;
        if has_news {
            self.tell(place);
        }
        let (number, is_vacant) = (visit.state.number, visit.state.is_vacant(now_ns));
        if is_vacant {
            self.seats.vacate(place, number);
        } else if visit.state.is_pending() {
            self.asked.set(place);
        }
        busy | has_news | is_vacant
    }

    /// Somebody may wait for news of this number.
    fn tell(&self, number: u32) {
        if let Some(told) = &self.told {
            told.set(number);
        }
    }
}

/// Groups of 64 places that are looked at in a round without being asked.
const SCANNED: u32 = 4;
