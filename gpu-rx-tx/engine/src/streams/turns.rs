//! Who sends next: connections in turn, a share of segments each.

use warpwire_device::Simt;
use warpwire_protocols::tcp::Outgoing;

use super::count;
use super::flow::Flow;
use super::job::Job;

/// A train of segments that a connection gave, and how far it was sent; and how many segments the
/// connection sent since its turn came.
#[derive(Clone, Copy, Default)]
pub(super) struct Turns {
    train: Option<Outgoing>,
    place: u32,
    next: u32,
    count: u32,
    taken: u32,
}

impl Flow<'_> {
    /// *Collective.* Asks connections in turn for up to a segment a lane; lane `i` gets the `i`-th
    /// in `mine`. `left` says how many may still be sent. Returns how many there are.
    pub(super) fn jobs<S: Simt>(&mut self, simt: &S, left: u32, mine: &mut Job) -> u32 {
        let most = left.min(S::WIDTH);
        let mut asked = Job::default();
        let mut count = 0;
        while count < most {
            let mut there = false;
            if S::WIDTH == 1 {
                there = self.ask(left, mine);
            } else if simt.is_leader() {
                there = self.ask(left - count, &mut asked);
            }
            if !simt.any(there) {
                break;
            }
            if S::WIDTH > 1 {
                let asked = asked.of_leader(simt);
                if simt.lane() == count {
                    *mine = asked;
                }
            }
            count += 1;
        }
        // What the leader changed is seen by the lanes that write the segments.
        simt.sync_warp();
        count
    }

    /// The leader's part: the next segment of any connection, if there is one.
    fn ask(&mut self, left: u32, job: &mut Job) -> bool {
        if !self.follows() && !self.next_train(left) {
            return false;
        }
        let turns = &mut self.turns;
        let piece = turns.train.and_then(|train| train.piece(turns.next));
        let (Some(piece), Some(block)) = (piece, self.book.connection(turns.place)) else {
            turns.train = None;
            return false;
        };
        turns.next += 1;
        job.set(
            turns.place,
            &piece,
            block.path.source_port,
            block.remote_port,
        );
        let bytes = u64::from(piece.payload.length);
        self.counts.count(count::SENT, 1);
        self.counts.count(count::SENT_BYTES, bytes);
        true
    }

    /// Whether the train has another segment.
    fn follows(&self) -> bool {
        self.turns.train.is_some() && self.turns.next < self.turns.count
    }

    /// Asks connections in turn for a train of `left` segments at most.
    fn next_train(&mut self, left: u32) -> bool {
        let share = self.book.block.share.max(1);
        let standing = self.book.standing();
        while let Some(place) = self.ready.next(standing.turn) {
            if place != standing.turn {
                self.turns.taken = 0;
                standing.turn = place;
            }
            if self.turns.taken >= share {
                self.turns.taken = 0;
                standing.turn = place.wrapping_add(1);
                continue;
            }
            let most = (share - self.turns.taken).min(left);
            if let Some(train) = self.poll(place, most) {
                let count = train.segments();
                self.turns.taken += count;
                self.turns = Turns {
                    train: Some(train),
                    place,
                    next: 0,
                    count,
                    taken: self.turns.taken,
                };
                return true;
            }
            self.tell(place);
            // Also without news: repetitions into silence, and what the application asks for.
            self.tell_figures(place);
            self.finish(place);
            self.turns.taken = 0;
            standing.turn = place.wrapping_add(1);
        }
        false
    }

    /// Asks a connection for a train of so many segments at most.
    fn poll(&mut self, place: u32, most: u32) -> Option<Outgoing> {
        let block = self.book.connection(place)?;
        let config = self.book.config(block.config);
        let most_bytes = block.segment_bytes.saturating_mul(most).max(1);
        let train = block.connection.poll(self.now_ns, config, most_bytes)?;
        if train.payload.length > 0 {
            block.segment_bytes = u32::from(train.segment_bytes);
        }
        Some(train)
    }
}
