//! Splices: what comes of one stream goes to another.

use core::mem::offset_of;

use warpwire_device::Simt;
use warpwire_ring::DeviceAddress;

use super::block::{ServeCounters, Stand};
use super::server::{Counted, Outcome, Server};
use crate::streaming::{Ended, Name, Stream, Told};

impl Server<'_> {
    /// *Collective.* Takes pairs of streams that are to be spliced. Says whether there were any.
    pub(super) fn pair<S: Simt>(&mut self, simt: &S) -> bool {
        let mut busy = false;
        let Some(pairs) = self.pairs else {
            return false;
        };
        for _ in 0..self.block.most {
            let Some(near) = pairs.take(simt) else {
                break;
            };
            // Both are told at once.
            let far = pairs.take(simt).unwrap_or_default();
            for (one, other) in [(near, far), (far, near)] {
                if one.generation != 0 {
                    self.seat(simt, one, other);
                }
            }
            self.count(simt, offset_of!(ServeCounters, accepted), 1);
            self.go_on(simt, near.place);
            busy = true;
        }
        busy
    }

    /// *Collective.* A turn of a stream and its partner.
    pub(super) fn join<S: Simt>(
        &self,
        simt: &S,
        (at, mut stand): (DeviceAddress, Stand),
        mut near: Stream,
    ) {
        let partner = stand.partner;
        let (mut there, mut counted) = (self.seat_of(partner), Counted::default());
        let Ok(mut far) = self.table.stream(simt, partner) else {
            // It never was: nobody reads on.
            near.release(simt);
            stand.generation = 0;
            self.tally(simt, Outcome::Over, true, &counted);
            self.save(simt, at, &stand);
            return;
        };
        let share = self.block.share;
        let came = u64::from(near.splice(simt, &mut far, share));
        let went = u64::from(far.splice(simt, &mut near, share));
        (counted.came, counted.left) = (came, went);
        (stand.came, stand.went) = (stand.came + came, stand.went + went);
        let (outcome, is_broken) = fate(simt, &mut near, &mut far);
        self.tally(simt, outcome, is_broken, &counted);
        if let Some((_, other)) = &mut there {
            (other.came, other.went) = (other.came + went, other.went + came);
        }
        if outcome == Outcome::Over {
            near.release(simt);
            far.release(simt);
            stand.generation = 0;
            if let Some((_, other)) = &mut there {
                other.generation = 0;
            }
        } else {
            near.ring(simt);
            far.ring(simt);
            if outcome == Outcome::Again {
                self.table.again(simt, Told::Place(near.name().place));
            }
        }
        self.save(simt, at, &stand);
        if let Some((at, other)) = &there {
            self.save(simt, *at, other);
        }
    }

    /// The seat of a stream, if it has one.
    fn seat_of(&self, name: Name) -> Option<(DeviceAddress, Stand)> {
        let at = self.seat_at(name.place)?;
        let stand = self.stand(at);
        (stand.generation == name.generation).then_some((at, stand))
    }
}

/// *Collective.* Passes ends and breaks on; what becomes of both streams, and whether one broke.
fn fate<S: Simt>(simt: &S, near: &mut Stream, far: &mut Stream) -> (Outcome, bool) {
    let broke = |one: &Stream| one.ended(simt).is_some_and(|how| how != Ended::Finished);
    let moves = |from: &Stream, to: &Stream| from.readable() > 0 && to.writable() > 0;
    if moves(near, far) || moves(far, near) {
        return (Outcome::Again, false);
    }
    if broke(near) || broke(far) {
        for one in [near, far].into_iter().filter(|one| !one.is_over()) {
            one.abort(simt);
        }
        return (Outcome::Over, true);
    }
    let (near_ends, far_ends) = (near.is_at_end(), far.is_at_end());
    if near_ends && !far.is_closed() {
        far.close(simt);
    }
    if far_ends && !near.is_closed() {
        near.close(simt);
    }
    match near_ends && far_ends {
        true => (Outcome::Over, false),
        false => (Outcome::Waits, false),
    }
}
