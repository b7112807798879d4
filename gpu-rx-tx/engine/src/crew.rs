//! Several warps to a block: one dispatches, the others own the queue pairs.
//!
//! ```text
//!             │ first part        │ second part         │ third part        │
//!  dispatcher │ takes frames,     │                     │ writes packets,   │
//!             │ looks at them     │                     │ lets the NIC know │
//!  owners     │ look after their  │ serve their frames, │                   │
//!             │ queue pairs       │ say what to send    │                   │
//! ```
//! The block meets between the parts of a round, so that each table of the [`Board`] and each queue
//! pair has one user at a time. Which warp owns a queue pair, its group says; queue pairs that
//! share receives are of one group.
#![expect(
    unsafe_code,
    reason = "takes leases from words that another warp of the block wrote"
)]

use core::mem::offset_of;
use core::num::NonZeroU32;

use warpwire_device::{Lease, MAX_BATCH, Simt};
use warpwire_protocols::checksum::Engine as Sum;
use warpwire_ring::{Cause, Receive, Transmit};

use crate::arrive::{Arrival, Seen, look};
use crate::engine::Engine;
use crate::job::Job;
use crate::sheet::{Field, Sheet};

/// Which of the warps that run an engine this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crew {
    warp: u32,
    warps: u32,
}

impl Crew {
    /// One warp runs the engine, whatever others of its block do.
    pub const ALONE: Self = Self { warp: 0, warps: 1 };

    /// All warps of the block run the engine together.
    pub fn of_block<S: Simt>(simt: &S) -> Self {
        Self {
            warp: simt.warp(),
            warps: simt.warps(),
        }
    }

    /// All of so many warps, the dispatcher first.
    pub fn all(warps: u32) -> impl Iterator<Item = Self> {
        let warps = if warps == 0 { 1 } else { warps };
        (0..warps).map(move |warp| Self { warp, warps })
    }

    /// Warps that one engine can have.
    pub const MOST: u32 = 32;

    /// Whether an engine with or without a board can have such a crew.
    pub(crate) const fn fits(self, has_board: bool) -> bool {
        self.is_alone() || (has_board && self.warps <= Self::MOST)
    }

    pub(crate) const fn is_alone(self) -> bool {
        self.warps == 1
    }

    /// Engines of streams in a block of such a crew: one for each warp that owns connections.
    pub const fn engines(self) -> u32 {
        match self.owners() {
            0 => 1,
            owners => owners,
        }
    }

    /// Which of these engines' tables the warp works with: its own, and the first's if it has the
    /// rings.
    pub(crate) const fn engine(self) -> u32 {
        self.warp.saturating_sub(1)
    }

    /// Whether this warp has the rings.
    pub(crate) const fn dispatches(self) -> bool {
        self.warp == 0
    }

    /// Whether this warp has the queue pairs of a group.
    pub(crate) const fn owns(self, group: u32) -> bool {
        match self.owners() {
            0 => true,
            owners => group % owners + 1 == self.warp,
        }
    }

    /// Warps that own queue pairs; none where one warp does everything.
    pub(crate) const fn owners(self) -> u32 {
        self.warps - 1
    }

    /// Packets that the `owner`-th owner may ask for in a round when there are credits for so many:
    /// an equal part, and what does not divide goes round.
    pub(crate) fn quota(self, owner: u32, credits: u32, round: u32) -> u32 {
        let owners = self.divisor();
        let luck = owner.wrapping_add(round) % owners;
        let quota = credits / owners + (luck < credits % owners) as u32;
        if quota < self.room() {
            quota
        } else {
            self.room()
        }
    }

    /// Packets of one owner that the board has room for.
    pub(crate) fn room(self) -> u32 {
        MAX_BATCH / self.divisor()
    }

    /// Warps that own queue pairs, by which one can divide without a look at zero.
    fn divisor(self) -> NonZeroU32 {
        NonZeroU32::new(self.owners()).unwrap_or(NonZeroU32::MIN)
    }
}

/// What warps of a block tell each other between two meetings.
#[repr(C, align(128))]
pub struct Board {
    /// Whether there is another round; the dispatcher's.
    goes_on: bool,
    /// Slots of frames; the dispatcher's.
    came: u32,
    /// Packets that may be sent; the dispatcher's.
    credits: u32,
    /// Packets that are to be sent, by owner.
    wanted: [u32; Crew::MOST as usize],
    /// What came, by slot; the dispatcher's.
    arrivals: [Row; MAX_BATCH as usize],
    /// What is to be sent; a part is each owner's.
    jobs: [Job; MAX_BATCH as usize],
}

/// A packet that came.
#[derive(Clone, Copy, Default)]
struct Row {
    arrival: Arrival,
    /// The lease of its frame, in words.
    lease: [u64; 2],
    /// Whether there is one.
    is_packet: bool,
}

const GOES_ON: Field<bool> = Field::new(offset_of!(Board, goes_on), 1);
const CAME: Field<u32> = Field::new(offset_of!(Board, came), 1);
const CREDITS: Field<u32> = Field::new(offset_of!(Board, credits), 1);
const WANTED: Field<u32> = Field::new(offset_of!(Board, wanted), Crew::MOST);
const ARRIVALS: Field<Row> = Field::new(offset_of!(Board, arrivals), MAX_BATCH);
const JOBS: Field<Job> = Field::new(offset_of!(Board, jobs), MAX_BATCH);

impl<R: Receive, T: Transmit, E: Sum> Engine<'_, R, T, E> {
    /// *Collective over the crew.* Whether there is another round: what the dispatcher finds.
    /// Before every [`Engine::step`], and false once and for all ends the run.
    pub fn agree<S: Simt>(&self, simt: &S, goes_on: impl FnOnce() -> bool) -> bool {
        let Some(board) = self.board else {
            return goes_on();
        };
        if self.crew.dispatches() {
            let goes_on = goes_on();
            if simt.is_leader() {
                board.set(&GOES_ON, 0, goes_on);
            }
        }
        simt.sync_block();
        board.get(&GOES_ON, 0)
    }

    /// *Collective.* A round of the warp that has the rings.
    #[inline(never)]
    pub(crate) fn dispatch<S: Simt>(&mut self, simt: &S, board: Sheet) -> Result<bool, Cause> {
        let came = self.hand_out(simt, board);
        let credits = match came {
            Ok(_) => self.credits(simt),
            Err(cause) => Err(cause),
        };
        if simt.is_leader() {
            board.set(&CAME, 0, came.unwrap_or(0));
            board.set(&CREDITS, 0, credits.unwrap_or(0));
        }
        simt.sync_block();
        // The owners' part.
        simt.sync_block();
        let mut sent = 0;
        for owner in 0..self.crew.owners() {
            let count = board.get(&WANTED, owner);
            let mut row = 0;
            while row < count {
                let number = row + simt.lane();
                let has_job = number < count;
                let job = match has_job {
                    true => board.get(&JOBS, owner * self.crew.room() + number),
                    false => Job::default(),
                };
                self.depart(simt, &job, has_job);
                row += S::WIDTH;
            }
            sent += count;
        }
        let published = self.publish(simt);
        let busy = came? > 0 || sent > 0;
        credits?;
        published?;
        Ok(busy)
    }

    /// *Collective.* Takes a batch of frames and says on the board which are packets. Returns its
    /// slots.
    fn hand_out<S: Simt>(&mut self, simt: &S, board: Sheet) -> Result<u32, Cause> {
        let Some(batch) = self.receiver.arrived(simt, MAX_BATCH)? else {
            return Ok(0);
        };
        let reader = *self.receiver.reader();
        let mut row = 0;
        while row < batch.slots() {
            let mut arrival = Arrival::default();
            let seen = match reader.lane_frame(simt, &batch, row) {
                Some(frame) => look::<R, E>(&reader, &frame, &mut arrival),
                None => Seen::Nothing,
            };
            self.count_seen(simt, &seen);
            let arrival = Row {
                arrival,
                lease: [0; 2],
                is_packet: matches!(seen, Seen::Packet),
            };
            if row + simt.lane() < batch.slots() {
                board.set(&ARRIVALS, row + simt.lane(), arrival);
            }
            row += S::WIDTH;
        }
        let lent = self.receiver.lend(simt, batch);
        let mut slot = simt.lane();
        while slot < lent.slots() {
            if let Some(lease) = lent.lease(slot) {
                let arrival = board.get(&ARRIVALS, slot);
                if arrival.is_packet {
                    let lease = lease.into_words();
                    board.set(&ARRIVALS, slot, Row { lease, ..arrival });
                } else {
                    reader.give_back(lease);
                }
            }
            slot += S::WIDTH;
        }
        Ok(lent.slots())
    }

    /// *Collective.* A round of a warp that has queue pairs.
    #[inline(never)]
    pub(crate) fn own<S: Simt>(&mut self, simt: &S, board: Sheet) -> bool {
        let most_bytes = self.most_bytes();
        let looked = self.pairs.look_after(simt, most_bytes);
        simt.sync_block();
        let served = self.serve_own(simt, board);
        let wanted = self.ask_own(simt, board);
        simt.sync_block();
        looked || served || wanted
    }

    /// *Collective.* Serves the packets that came for the warp's queue pairs, in their order.
    fn serve_own<S: Simt>(&mut self, simt: &S, board: Sheet) -> bool {
        let came = board.get(&CAME, 0);
        let reader = *self.receiver.reader();
        let mut served = false;
        let mut row = 0;
        while row < came {
            let slot = row + simt.lane();
            let is_own = slot < came && {
                let Row {
                    arrival, is_packet, ..
                } = board.get(&ARRIVALS, slot);
                is_packet && self.pairs.is_own(arrival.number())
            };
            let mut waiting = simt.ballot(is_own);
            served |= waiting != 0;
            while waiting != 0 {
                let slot = row + waiting.trailing_zeros();
                waiting &= waiting - 1;
                let Row { arrival, lease, .. } = board.get(&ARRIVALS, slot);
                // SAFETY: a lease of this queue, whose frame this warp alone has; its leader ends
                // it below.
                let lease = unsafe { Lease::from_words(lease) };
                let frame = reader.leased(&lease);
                self.serve(simt, frame.as_ref(), &arrival);
                // All lanes have read it.
                simt.sync_warp();
                if simt.is_leader() {
                    reader.give_back(lease);
                }
            }
            row += S::WIDTH;
        }
        served
    }

    /// *Collective.* Says on the board what the warp's queue pairs may send.
    fn ask_own<S: Simt>(&mut self, simt: &S, board: Sheet) -> bool {
        let owner = self.crew.warp - 1;
        let credits = board.get(&CREDITS, 0);
        let quota = self.crew.quota(owner, credits, self.round);
        self.round = self.round.wrapping_add(1);
        let (mut made, mut quiet, mut job) = (0, 0, Job::default());
        while made < quota {
            let most = (quota - made).min(S::WIDTH);
            let count = self.pairs.jobs(simt, most, &mut quiet, &mut job);
            if count == 0 {
                break;
            }
            if simt.lane() < count {
                let row = owner * self.crew.room() + made + simt.lane();
                board.set(&JOBS, row, job);
            }
            made += count;
        }
        if simt.is_leader() {
            board.set(&WANTED, owner, made);
        }
        made > 0
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn all_credits_are_given_out_and_each_owner_has_a_turn() {
        for warps in 2..=Crew::MOST {
            for credits in 0..=MAX_BATCH {
                let crew = Crew { warp: 1, warps };
                let mut had = vec![0; crew.owners() as usize];
                for round in 0..crew.owners() {
                    let quotas = (0..crew.owners()).map(|owner| crew.quota(owner, credits, round));
                    let quotas: Vec<u32> = quotas.collect();
                    let total: u32 = quotas.iter().sum();
                    let most = crew.room() * crew.owners();
                    assert!(
                        total <= credits,
                        "{warps} warps, {credits} credits: {total}"
                    );
                    assert!(
                        total >= credits.min(most - crew.owners()),
                        "{warps}, {credits}"
                    );
                    for (had, quota) in had.iter_mut().zip(quotas) {
                        *had += quota;
                    }
                }
                let each = had[0];
                assert!(
                    had.iter().all(|had| *had == each),
                    "{warps}, {credits}: {had:?}"
                );
                assert!(credits == 0 || each > 0, "{warps}, {credits}");
            }
        }
    }

    #[test]
    fn every_group_has_one_owner_and_it_is_not_the_dispatcher() {
        for warps in 1..=Crew::MOST {
            for group in [0, 1, 5, 31, 0x1234, u32::MAX] {
                let owners = (0..warps).filter(|warp| Crew { warp: *warp, warps }.owns(group));
                let owners: Vec<u32> = owners.collect();
                assert_eq!(owners.len(), 1, "{warps} warps, group {group}");
                assert!(warps == 1 || owners[0] != 0, "{warps} warps, group {group}");
            }
        }
    }
}
