//! Payload on its way to its final place: copied by a whole warp.

use warpwire_ring::{Cause, Location, Receive};

use crate::area::Area;
use crate::piece::Piece;
use crate::reader::Frame;
use crate::receive::Receiver;
use crate::simt::Simt;

impl<R: Receive> Receiver<R> {
    /// *Collective.* Copies a frame from byte `skip` on to `offset` of an area, by the whole warp:
    /// 16 bytes a lane where both lie alike. All lanes name the same frame. Returns how many bytes.
    ///
    /// # Errors
    /// [`Cause::LocalLength`] if the area is too short; then nothing was copied.
    #[inline(always)]
    pub fn gather<S: Simt>(
        &mut self,
        simt: &S,
        frame: &Frame<'_>,
        skip: u32,
        area: &Area,
        offset: u64,
    ) -> Result<u32, Cause> {
        self.calls += 1;
        let total = frame.length().saturating_sub(skip);
        let to = area.piece(offset, total).ok_or(Cause::LocalLength)?;
        Ok(self.spread(simt, frame, skip, &to, area.location()))
    }

    /// *Collective.* Fills a piece of memory with a frame's bytes from byte `skip` on, by the whole
    /// warp, as [`Receiver::gather`] does. All lanes name the same frame and piece; `location` is
    /// where the piece lies. Returns how many bytes; less than the piece only if the frame ends.
    #[inline(always)]
    pub fn spread<S: Simt>(
        &mut self,
        simt: &S,
        frame: &Frame<'_>,
        skip: u32,
        to: &Piece<'_>,
        location: Location,
    ) -> u32 {
        let mut skip = skip;
        let mut done = 0u32;
        let mut index = 0;
        while done < to.length()
            && let Some(piece) = self.reader.piece(frame, index)
        {
            let there = piece.length().saturating_sub(skip);
            let count = there.min(to.length() - done);
            if let (Some(from), Some(to)) = (piece.part(skip, count), to.part(done, count)) {
                copy_across(simt, &from, &to);
                done += count;
            }
            skip = skip.saturating_sub(piece.length());
            index += 1;
        }
        if simt.is_leader() {
            self.count_copied(done, location);
        }
        simt.sync_warp();
        done
    }

    /// *Collective.* [`Receiver::spread`] for an aligned word: who polls it sees the old value or
    /// the new one, and behind the new one everything that was placed before. Says whether the
    /// frame has the bytes and the piece is such a word.
    pub fn spread_word<S: Simt>(
        &mut self,
        simt: &S,
        frame: &Frame<'_>,
        skip: u32,
        to: &Piece<'_>,
        location: Location,
    ) -> bool {
        let mut is_done = false;
        if simt.is_leader() {
            let mut bytes = [0; 8];
            is_done = self.reader.copy_out(frame, skip, &mut bytes) == bytes.len()
                && to.release_word(u64::from_ne_bytes(bytes));
            if is_done {
                self.count_copied(8, location);
            }
        }
        // What other lanes place later comes later.
        simt.any(is_done)
    }

    fn count_copied(&self, bytes: u32, location: Location) {
        let counters = self.reader.queue.provenance();
        let queue = self.reader.queue.location;
        if queue == Location::Device && location == Location::Device {
            counters.bytes_copied_device.add(u64::from(bytes));
        } else {
            counters.bytes_copied_host.add(u64::from(bytes));
        }
    }
}

/// *Collective.* Copies a piece to the start of another, which overlaps nowhere and is as long at
/// least, by the whole warp. Lanes see each other's part after [`Simt::sync_warp`].
// On a GPU one copy of this for all ring formats.
#[cfg_attr(target_arch = "nvptx64", inline(never))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(always))]
pub fn copy_across<S: Simt>(simt: &S, from: &Piece<'_>, to: &Piece<'_>) {
    if S::WIDTH == 1 {
        from.copy_to(to);
    } else {
        from.copy_words(to, from.length(), simt.lane(), S::WIDTH);
    }
}
