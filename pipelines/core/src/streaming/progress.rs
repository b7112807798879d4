//! A carrier that the waiting warp steps itself.

use warpwire_device::Simt;
use warpwire_engine::streams::StreamEngine;
use warpwire_ring::{Cause, Receive, Transmit};

use crate::messaging::Progress;

/// The warp that waits steps the engine of TCP itself.
pub struct Stepping<'a, R, T>(pub StreamEngine<'a, R, T>);

impl<R: Receive, T: Transmit> Progress for Stepping<'_, R, T> {
    #[inline(always)]
    fn progress<S: Simt>(&mut self, simt: &S) -> Result<bool, Cause> {
        self.0.step(simt)
    }
}
