//! Forwarding: a received frame goes out again, by exchange of buffers or by copy.

use warpwire_ring::{Cause, Location, Post, Receive, Transmit};

use crate::reader::{Frame, Reader};
use crate::simt::Simt;
use crate::transmit::{Claim, Sender};

impl<T: Transmit> Sender<T> {
    /// How many slots [`Sender::pass`] needs for a frame; 0 if it cannot be sent at all.
    #[inline(always)]
    pub fn parts_for<R: Receive>(&self, from: &Reader<R>, frame: &Frame<'_>) -> u32 {
        if frame.length() == 0 {
            return 0;
        }
        let parts = if self.shares(from, frame) {
            frame.slots()
        } else {
            (frame.length() - 1) / self.queue.slot_bytes() + 1
        };
        if parts > self.most_parts() { 0 } else { parts }
    }

    /// [`Sender::prepare`] before frames of `from` are passed on: does nothing where they will only
    /// change places.
    #[inline(always)]
    pub fn prepare_pass<S: Simt, R: Receive>(&self, simt: &S, from: &Reader<R>) {
        let pool = self.queue.ring.pool();
        if pool == 0 || pool != from.queue.ring.pool() {
            self.prepare(simt);
        }
    }

    /// Passes a received frame on as it is in memory now: buffers change places between the two
    /// queues if they are of one pool, else the bytes are copied. The claim has
    /// [`Sender::parts_for`] parts. After this the frame's bytes are no longer the reader's.
    ///
    /// # Errors
    /// Those of [`Sender::write`], and [`Cause::LocalLength`] if a slot's buffer is shorter than
    /// the queue said.
    #[inline(always)]
    pub fn pass<R: Receive>(
        &mut self,
        from: &Reader<R>,
        frame: Frame<'_>,
        claim: &Claim,
    ) -> Result<(), Cause> {
        if self.shares(from, &frame) {
            self.pass_by_exchange(from, &frame, claim)
        } else {
            self.pass_by_copy(from, &frame, claim)
        }
    }

    /// Slots that a frame may take and still find free some day: what is less than a signalling
    /// interval may be done without having said so.
    #[inline(always)]
    fn most_parts(&self) -> u32 {
        let depth = self.queue.depth();
        let untold = if T::PHASED { depth / 4 } else { 0 };
        self.queue.ring.max_parts().min(depth - untold)
    }

    #[inline(always)]
    fn shares<R: Receive>(&self, from: &Reader<R>, frame: &Frame<'_>) -> bool {
        let pool = self.queue.ring.pool();
        pool != 0 && pool == from.queue.ring.pool() && from.is_exchangeable(frame)
    }

    #[inline(always)]
    fn pass_by_exchange<R: Receive>(
        &mut self,
        from: &Reader<R>,
        frame: &Frame<'_>,
        claim: &Claim,
    ) -> Result<(), Cause> {
        // The first piece is at hand, and nearly always the only one.
        let mut piece = Some(frame.head());
        let mut part = 0;
        while part < claim.parts() {
            let (Some(bytes), Some(index)) = (piece, self.index(claim, part)) else {
                return self.fail(Cause::LocalQpOperation);
            };
            let old = self.queue.ring.exchange(index, bytes.address());
            let slot = frame.first().wrapping_add(u64::from(part));
            from.queue.ring.exchange(slot, old);
            let post = Post {
                address: bytes.address(),
                length: bytes.length(),
                part,
                ..Post::default()
            };
            self.put(claim, &post)?;
            self.lane.by_reference = self.lane.by_reference.wrapping_add(bytes.length());
            part += 1;
            if part < claim.parts() {
                piece = from.piece(frame, part);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn pass_by_copy<R: Receive>(
        &mut self,
        from: &Reader<R>,
        frame: &Frame<'_>,
        claim: &Claim,
    ) -> Result<(), Cause> {
        let mut piece = frame.head();
        let mut next = 1;
        let mut left = frame.length();
        let mut part = 0;
        while part < claim.parts() {
            let Some(slot) = self.slot(claim, part) else {
                return self.fail(Cause::LocalProtection);
            };
            let address = slot.address();
            let want = left.min(self.queue.slot_bytes().get());
            let mut filled = 0;
            while filled < want {
                while piece.is_empty() {
                    let Some(more) = from.piece(frame, next) else {
                        return self.fail(Cause::LocalLength);
                    };
                    piece = more;
                    next += 1;
                }
                let count = piece.length().min(want - filled);
                let behind = piece.length() - count;
                let (Some(bytes), Some(to), Some(rest)) = (
                    piece.part(0, count),
                    slot.part(filled, count),
                    piece.part(count, behind),
                ) else {
                    return self.fail(Cause::LocalLength);
                };
                bytes.copy_to(&to);
                piece = rest;
                filled += count;
            }
            left -= filled;
            self.count_copy(from.queue.location, filled);
            let post = Post {
                address,
                length: filled,
                part,
                ..Post::default()
            };
            self.put(claim, &post)?;
            part += 1;
        }
        if left > 0 {
            return self.fail(Cause::LocalQpOperation);
        }
        Ok(())
    }

    #[inline(always)]
    fn count_copy(&mut self, from: Location, bytes: u32) {
        if from == Location::Device && self.queue.location == Location::Device {
            self.lane.copied_device = self.lane.copied_device.wrapping_add(bytes);
        } else {
            self.lane.copied_host = self.lane.copied_host.wrapping_add(bytes);
        }
    }
}
