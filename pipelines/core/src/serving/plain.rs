//! Echo, discard and source.

use warpwire_device::{Piece, Simt};

use super::block::Stand;
use super::server::{Counted, Outcome, Server};
use crate::streaming::Stream;

impl Server<'_> {
    /// *Collective.* What comes goes back.
    pub(super) fn echo<S: Simt>(
        &self,
        simt: &S,
        stream: &mut Stream,
        counted: &mut Counted,
    ) -> Outcome {
        let count = stream.reflect(simt, self.block.share);
        counted.came += u64::from(count);
        counted.left += u64::from(count);
        if stream.is_at_end() {
            stream.close(simt);
            return Outcome::Over;
        }
        match stream.readable() > 0 && stream.writable() > 0 {
            true => Outcome::Again,
            false => Outcome::Waits,
        }
    }

    /// *Collective.* What comes is thrown away.
    pub(super) fn discard<S: Simt>(
        &self,
        simt: &S,
        stream: &mut Stream,
        counted: &mut Counted,
    ) -> Outcome {
        let count = stream.readable();
        stream.consume(simt, count);
        counted.came += u64::from(count);
        if stream.is_at_end() {
            stream.close(simt);
            return Outcome::Over;
        }
        Outcome::Waits
    }

    /// *Collective.* The pattern goes, what comes is thrown away.
    pub(super) fn pour<S: Simt>(
        &self,
        simt: &S,
        stream: &mut Stream,
        stand: &Stand,
        counted: &mut Counted,
    ) -> Outcome {
        let came = stream.readable();
        stream.consume(simt, came);
        counted.came += u64::from(came);
        let (pattern, period) = (self.pattern(), u64::from(self.block.pattern_period));
        let mut left = self.block.share;
        let mut went = stand.went;
        while left > 0 {
            let to_come = self.block.source_bytes.saturating_sub(went);
            let start = went.checked_rem(period).unwrap_or(0);
            // To the end of the table, which is the end of a pattern.
            let there = pattern.length().saturating_sub(start);
            let most = there.min(to_come).min(u64::from(left)) as u32;
            let piece = pattern.piece(start, most).unwrap_or(Piece::EMPTY);
            let count = stream.write(simt, &piece.into());
            if count == 0 {
                break;
            }
            went += u64::from(count);
            counted.left += u64::from(count);
            left -= count;
        }
        let is_through = went >= self.block.source_bytes;
        if is_through && !stream.is_closed() {
            stream.close(simt);
        }
        if stream.is_at_end() && is_through {
            return Outcome::Over;
        }
        match !is_through && stream.writable() > 0 {
            true => Outcome::Again,
            false => Outcome::Waits,
        }
    }
}
