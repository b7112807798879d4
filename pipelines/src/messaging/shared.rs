//! Receives that several queue pairs share, as the host has them.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use std::sync::Arc;
use std::time::Duration;

use warpwire_core::messaging::{Elsewhere, SharedBlock, SharedReceives as Queue};
use warpwire_device::{Scalar, Wait};
use warpwire_gpu::Arena;
use warpwire_ring::mlx5::post::Gather;
use warpwire_ring::{Cause, DeviceAddress};

use super::completed::{Completed, Message};
use super::host::HostWarp;
use super::table::SharedPlaces;
use crate::messaging::Error;

/// A receive queue that queue pairs of an endpoint share: see
/// [`Endpoint::pair_on`](super::Endpoint::pair_on). Messages to all of them come out here.
pub struct SharedReceives {
    queue: Queue,
    pub(super) places: SharedPlaces,
    host: HostWarp,
    _tables: Arc<Arena>,
}

impl SharedReceives {
    pub(super) fn new(tables: Arc<Arena>, places: SharedPlaces, host: HostWarp) -> Self {
        Self {
            // SAFETY: the queue lies in the arena that is kept, and this is its only user.
            queue: unsafe { Queue::of(&places.block, DeviceAddress::NULL) },
            places,
            host,
            _tables: tables,
        }
    }

    /// The block of the queue, where nothing was posted: for a kernel that has it instead of the
    /// host.
    pub const fn block(&self) -> &SharedBlock {
        &self.places.block
    }

    /// Receives that can be posted.
    pub const fn free(&self) -> u32 {
        self.queue.free()
    }

    /// Receives that are posted and did not come back.
    pub const fn posted(&self) -> u32 {
        self.queue.posted()
    }

    /// Asks to be told once, by [`SharedReceives::is_low`], when fewer than `limit` are posted.
    pub const fn arm(&mut self, limit: u32) {
        self.queue.arm(limit);
    }

    /// Whether the limit was passed; says yes once.
    pub const fn is_low(&mut self) -> bool {
        self.queue.is_low()
    }

    /// Posts a receive over pieces of registered memory. Returns its number.
    ///
    /// # Errors
    /// [`Error::Post`] with queue pair 0.
    pub fn receive(&mut self, pieces: &[Gather]) -> Result<u64, Error> {
        let simt = Scalar::new(&self.host);
        match self.queue.post(&simt, Some(pieces)) {
            Ok(index) => Ok(index.unwrap_or(u64::MAX)),
            Err(cause) => Err(Error::Post { number: 0, cause }),
        }
    }

    /// The next receive that came back, if there is one.
    pub fn poll(&mut self) -> Option<Completed> {
        let arrival = self.queue.poll(&Scalar::new(&self.host))?;
        Some(Completed::of_arrival(&arrival))
    }

    /// Waits for the next message; [`Message::pair`] says which queue pair it came to.
    ///
    /// # Errors
    /// [`Error::Wait`] with queue pair 0: why a receive came back without a message, or
    /// [`Cause::DeadlineExceeded`].
    pub fn wait(&mut self, longest: Duration) -> Result<Message, Error> {
        let simt = Scalar::new(&self.host);
        let wait = Wait::within(&simt, longest.as_nanos() as u64);
        let arrival = self.queue.wait(&simt, &wait, &mut Elsewhere);
        let arrival = arrival.map_err(|cause: Cause| Error::Wait {
            number: 0,
            what: "a message",
            cause,
        })?;
        Ok(Message::of(&arrival))
    }
}
