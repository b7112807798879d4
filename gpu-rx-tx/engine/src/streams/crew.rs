//! Several warps to a block: one has the rings, the others have connections, each as an engine of
//! its own.
//!
//! ```text
//!             │ first part          │ second part         │ third part        │
//!  dispatcher │ takes frames, looks │                     │ writes segments,  │
//!             │ at them; sends what │                     │ lets the NIC know │
//!             │ is the host's       │                     │                   │
//!  owners     │ obey applications   │ serve their frames, │                   │
//!             │ and host, look at   │ say what to send    │                   │
//!             │ clocks              │                     │                   │
//! ```
//! The block meets between the parts of a round, so that each row of the [`Board`] has one user at
//! a time, and connections do not change while the dispatcher copies what they send. Who owns a
//! connection, [`owner_of`] says: owners are to each other as blocks are that have queues of their
//! own. The dispatcher works with the tables of the first owner as far as the rings to and from the
//! host and the counters go, which that owner leaves alone in these parts.
#![expect(
    unsafe_code,
    reason = "takes leases and send rings from words that another warp of the block wrote"
)]

use core::mem::offset_of;

use warpwire_device::{Area, Lease, MAX_BATCH, Simt};
use warpwire_protocols::tcp::Secret;
use warpwire_ring::{Cause, DeviceAddress, Location, Receive, Region, Transmit};

use super::arrive::{Arrival, Seen, Slots, hash_of, look};
use super::engine::StreamEngine;
use super::job::Job;
use crate::crew::Crew;
use crate::sheet::{Field, Sheet};
use crate::tables::Path;

/// Which of the `owners` in a block has the connection of a way, its local port with it, to a
/// remote port: what the dispatcher goes by, of whom `secret` is that of
/// [`StreamBlock::secret`](super::tables::StreamBlock::secret). Below `owners`, but for 0 of none.
///
/// It is the keyed hash that also says the bucket, and who owns, its upper bits say.
pub fn owner_of(secret: [u64; 2], path: &Path, remote_port: u16, owners: u32) -> u32 {
    share(hash_of(&Secret(secret), path, remote_port), owners)
}

/// Which part of all hashes one is in, of so many that are as long as each other.
const fn share(hash: u32, parts: u32) -> u32 {
    ((hash as u64 * parts as u64) >> 32) as u32
}

/// What warps of a block tell each other between two meetings.
#[repr(C, align(128))]
pub struct Board {
    /// Whether there is another round; the dispatcher's.
    goes_on: bool,
    /// Slots of frames; the dispatcher's.
    came: u32,
    /// Segments that may be sent; the dispatcher's.
    credits: u32,
    /// Segments that are to be sent, by owner.
    wanted: [u32; Crew::MOST as usize],
    /// What came, by slot; the dispatcher's.
    arrivals: [Row; MAX_BATCH as usize],
    /// What is to be sent; a part is each owner's.
    errands: [Errand; MAX_BATCH as usize],
}

/// A segment that came.
#[derive(Clone, Copy)]
struct Row {
    arrival: Arrival,
    /// The lease of its frame, in words.
    lease: [u64; 2],
    /// Whose it is, or [`NOBODY`].
    owner: u32,
}

/// A segment that is to be sent, with all that whoever writes it has to know: its job has the way.
#[derive(Clone, Copy)]
struct Errand {
    job: Job,
    /// The send ring that its payload lies in; null if it has none.
    ring: DeviceAddress,
    ring_bytes: u32,
}

impl Errand {
    fn ring(&self) -> Option<Area> {
        if self.ring.is_null() {
            return None;
        }
        let region = Region {
            address: self.ring,
            length: u64::from(self.ring_bytes),
            key: 0,
            location: Location::Device,
        };
        // SAFETY: the ring of a connection, as its owner found it in this round; neither changes
        // before the block meets again.
        Some(unsafe { Area::attach(region) })
    }
}

const GOES_ON: Field<bool> = Field::new(offset_of!(Board, goes_on), 1);
const CAME: Field<u32> = Field::new(offset_of!(Board, came), 1);
const CREDITS: Field<u32> = Field::new(offset_of!(Board, credits), 1);
const WANTED: Field<u32> = Field::new(offset_of!(Board, wanted), Crew::MOST);
const ARRIVALS: Field<Row> = Field::new(offset_of!(Board, arrivals), MAX_BATCH);
const ERRANDS: Field<Errand> = Field::new(offset_of!(Board, errands), MAX_BATCH);

/// The row of a frame that is no segment.
const NOBODY: u32 = u32::MAX;

/// What a warp knows of its crew.
#[derive(Clone, Copy)]
pub(super) struct Post {
    pub(super) crew: Crew,
    /// Where the crew meets, if it is more than one warp.
    pub(super) board: Option<Sheet>,
    /// Counts rounds.
    round: u32,
    /// Of the dispatcher: whether there was anything to do in the first part.
    busy: bool,
    /// Of an owner: segments that it may ask for in this round, and has asked for.
    quota: u32,
    made: u32,
}

impl Post {
    pub(super) const fn new(crew: Crew, board: Option<Sheet>) -> Self {
        Self {
            crew,
            board,
            round: 0,
            busy: false,
            quota: 0,
            made: 0,
        }
    }

    /// Which of the owners this is.
    const fn owner(&self) -> u32 {
        self.crew.engine()
    }
}

impl<R: Receive, T: Transmit> StreamEngine<'_, R, T> {
    /// *Collective over the crew.* Whether there is another round: what the dispatcher finds.
    /// Before every [`StreamEngine::step`], and false once and for all ends the run.
    #[inline(always)]
    pub fn agree<S: Simt>(&self, simt: &S, goes_on: impl FnOnce() -> bool) -> bool {
        let Some(board) = self.post.board else {
            return goes_on();
        };
        if self.post.crew.dispatches() {
            let goes_on = goes_on();
            if simt.is_leader() {
                board.set(&GOES_ON, 0, goes_on);
            }
        }
        simt.sync_block();
        board.get(&GOES_ON, 0)
    }

    /// *Collective over the crew.* A round.
    #[inline(never)]
    pub(super) fn together<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        let first = self.first_part(simt);
        simt.sync_block();
        let second = self.second_part(simt);
        simt.sync_block();
        let third = self.third_part(simt);
        Ok(first? | second? | third?)
    }

    /// *Collective.* A round of a whole crew by one warp, which has all of its engines, the
    /// dispatcher's first. Says whether there was anything to do.
    ///
    /// # Errors
    /// As [`StreamEngine::step`].
    pub fn step_all<S: Simt>(crew: &mut [Self], simt: &S) -> Result<bool, Cause> {
        if let [alone] = crew
            && alone.post.board.is_none()
        {
            return alone.step(simt);
        }
        let mut busy = Ok(false);
        for part in [Self::first_part, Self::second_part, Self::third_part] {
            for engine in &mut *crew {
                let done = part(engine, simt);
                busy = busy.and_then(|busy| Ok(busy | done?));
            }
            // This is where a crew meets.
            simt.sync_warp();
        }
        busy
    }

    /// *Collective.* The first part of a round. Says whether there was anything to do.
    ///
    /// # Errors
    /// As [`StreamEngine::step`]. The other parts of the round follow all the same.
    #[inline(never)]
    fn first_part<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        self.flow.now_ns = simt.shuffle_u64(simt.now_ns(), 0);
        let Some(board) = self.post.board else {
            return Ok(false);
        };
        if !self.post.crew.dispatches() {
            let mut busy = self.flow.listen(simt);
            busy |= self.flow.command(simt);
            busy |= self.flow.watch(simt);
            return Ok(busy);
        }
        let came = self.hand_out(simt, board);
        // Before owners are told what they may send, which would leave the host nothing.
        let injected = came.and_then(|_| self.inject(simt));
        let credits = injected.and_then(|_| self.credits(simt));
        if simt.is_leader() {
            board.set(&CAME, 0, came.unwrap_or(0));
            board.set(&CREDITS, 0, credits.unwrap_or(0));
        }
        credits?;
        self.post.busy = came? > 0 || injected?;
        Ok(self.post.busy)
    }

    /// *Collective.* The second part of a round, which is the owners'.
    ///
    /// # Errors
    /// As [`StreamEngine::step`].
    #[inline(never)]
    fn second_part<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        let Some(board) = self.post.board.filter(|_| !self.post.crew.dispatches()) else {
            return Ok(false);
        };
        self.flow.now_ns = simt.shuffle_u64(simt.now_ns(), 0);
        let post = &mut self.post;
        let credits = board.get(&CREDITS, 0);
        post.quota = post.crew.quota(post.owner(), credits, post.round);
        post.round = post.round.wrapping_add(1);
        post.made = 0;
        let mut busy = self.serve_own(simt, board)?;
        busy |= self.take_handed(simt)?;
        self.ask_own(simt, board);
        if simt.is_leader() {
            board.set(&WANTED, self.post.owner(), self.post.made);
        }
        Ok(busy || self.post.made > 0)
    }

    /// *Collective.* The third part of a round, which is the dispatcher's.
    ///
    /// # Errors
    /// As [`StreamEngine::step`].
    #[inline(never)]
    fn third_part<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        let Some(board) = self.post.board.filter(|_| self.post.crew.dispatches()) else {
            return Ok(false);
        };
        let wanted = |owner| board.get(&WANTED, owner).min(self.post.crew.room());
        let total: u32 = (0..self.post.crew.owners()).map(wanted).sum();
        let mut row = 0;
        while row < total {
            let errand = self.errand(board, row + simt.lane());
            let job = errand.map_or_else(Job::default, |errand| errand.job);
            let ring = errand.and_then(|errand| errand.ring());
            self.depart(simt, &job, &job.path, ring.as_ref(), errand.is_some());
            row += S::WIDTH;
        }
        let published = self.sender.publish(simt);
        self.sender.ring(simt);
        let busy = self.post.busy || total > 0;
        self.count_turn(simt, busy);
        published.map(|_| busy)
    }

    /// What is to be sent, by its number among what all owners ask for.
    fn errand(&self, board: Sheet, number: u32) -> Option<Errand> {
        let mut number = number;
        let room = self.post.crew.room();
        for owner in 0..self.post.crew.owners() {
            let count = board.get(&WANTED, owner).min(room);
            if number < count {
                return Some(board.get(&ERRANDS, owner * room + number));
            }
            number -= count;
        }
        None
    }

    /// *Collective.* Takes a batch of frames and says on the board whose each segment is. Returns
    /// its slots.
    #[inline(never)]
    fn hand_out<S: Simt>(&mut self, simt: &S, board: Sheet) -> Result<u32, Cause> {
        let Some(batch) = self.receiver.arrived(simt, MAX_BATCH)? else {
            return Ok(0);
        };
        let reader = *self.receiver.reader();
        let owners = self.post.crew.owners();
        let mut arrival = Arrival::default();
        let mut row = 0;
        while row < batch.slots() {
            let frame = reader.lane_frame(simt, &batch, row);
            let seen = match &frame {
                Some(frame) => {
                    let reader = &reader;
                    look(&Slots { reader, frame }, self.flow.book.block, &mut arrival)
                }
                None => Seen::Nothing,
            };
            if let Seen::Dropped(reason) = seen {
                self.flow.counts.drop(simt, reason);
            }
            self.pass(simt, frame.as_ref(), seen == Seen::Foreign);
            if row + simt.lane() < batch.slots() {
                let owner = match seen {
                    Seen::Segment => share(arrival.hash, owners),
                    _ => NOBODY,
                };
                let lease = [0; 2];
                let came = Row {
                    arrival,
                    lease,
                    owner,
                };
                board.set(&ARRIVALS, row + simt.lane(), came);
            }
            row += S::WIDTH;
        }
        let lent = self.receiver.lend(simt, batch);
        let mut slot = simt.lane();
        while slot < lent.slots() {
            if let Some(lease) = lent.lease(slot) {
                let came = board.get(&ARRIVALS, slot);
                if came.owner == NOBODY {
                    reader.give_back(lease);
                } else {
                    let lease = lease.into_words();
                    board.set(&ARRIVALS, slot, Row { lease, ..came });
                }
            }
            slot += S::WIDTH;
        }
        Ok(lent.slots())
    }

    /// *Collective.* Serves the segments that came for the warp's connections, in their order.
    #[inline(never)]
    fn serve_own<S: Simt>(&mut self, simt: &S, board: Sheet) -> Result<bool, Cause> {
        let came = board.get(&CAME, 0);
        let owner = self.post.owner();
        let reader = *self.receiver.reader();
        let mut served = false;
        let mut row = 0;
        while row < came {
            let slot = row + simt.lane();
            let is_own = slot < came && board.get(&ARRIVALS, slot).owner == owner;
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
                let served = self.serve(simt, frame.as_ref(), &arrival);
                // All lanes have read it.
                simt.sync_warp();
                if simt.is_leader() {
                    reader.give_back(lease);
                }
                served?;
            }
            row += S::WIDTH;
        }
        Ok(served)
    }

    /// *Collective.* Says on the board what the warp's connections may send.
    #[inline(never)]
    fn ask_own<S: Simt>(&mut self, simt: &S, board: Sheet) {
        let mut job = Job::default();
        while self.post.made < self.post.quota {
            let left = self.post.quota - self.post.made;
            let count = self.flow.jobs(simt, left, &mut job);
            if count == 0 {
                break;
            }
            if simt.lane() < count {
                let ring = self.ring(&job);
                let ring = ring.as_ref();
                let ring = ring.and_then(|ring| ring.piece(0, ring.length() as u32));
                let mut whole = job;
                whole.path = self.path(&job);
                let errand = Errand {
                    job: whole,
                    ring: ring.map_or(DeviceAddress::NULL, |ring| ring.address()),
                    ring_bytes: ring.map_or(0, |ring| ring.length()),
                };
                let row = self.errands_at() + simt.lane();
                board.set(&ERRANDS, row, errand);
            }
            self.post.made += count;
            // pairs with: the leader, which changes connections that lanes have read here.
            simt.sync_warp();
        }
    }

    /// *Collective.* Says on the board that an answer of the leader is to be sent, which belongs to
    /// no connection. Says no if the warp has asked for all that it may.
    pub(super) fn ask_answer<S: Simt>(&mut self, simt: &S, board: Sheet, answer: &Job) -> bool {
        if self.post.made >= self.post.quota {
            return false;
        }
        if simt.is_leader() {
            let errand = Errand {
                job: *answer,
                ring: DeviceAddress::NULL,
                ring_bytes: 0,
            };
            board.set(&ERRANDS, self.errands_at(), errand);
        }
        self.post.made += 1;
        true
    }

    /// The next row of the board for what the warp asks for.
    fn errands_at(&self) -> u32 {
        self.post.owner() * self.post.crew.room() + self.post.made
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;

    #[test]
    fn owners_have_about_as_many_connections_each() {
        for owners in 1..Crew::MOST {
            let mut had = vec![0u32; owners as usize];
            for port in 0..4096u16 {
                let path = Path {
                    local: [0x0a00_0001, 0, 0, 0],
                    remote: [0x0a00_0002, 0, 0, 0],
                    source_port: 32_768 + port,
                    ip_version: 4,
                    ..Path::default()
                };
                had[owner_of([3, 4], &path, 80, owners) as usize] += 1;
            }
            let fair = 4096 / owners;
            for had in had {
                assert!(
                    had > fair / 2 && had < fair * 2,
                    "{owners}: {had} of {fair}"
                );
            }
        }
    }

    #[test]
    fn a_hash_is_of_one_part_and_parts_are_in_order() {
        assert_eq!(share(u32::MAX, 31), 30);
        assert_eq!(share(0, 31), 0);
        assert_eq!(share(1 << 31, 2), 1);
        assert_eq!(share(u32::MAX, 1), 0);
        assert_eq!(share(u32::MAX, 0), 0);
    }
}
