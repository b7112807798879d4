//! The host as a warp of one lane: the verbs of device code run in its threads as they are.

use warpwire_device::ScalarHost;
use warpwire_gpu::executor::Clock;

use super::endpoint::Idle;

/// A thread of the host that posts, polls and waits.
#[derive(Clone)]
pub(super) struct HostWarp {
    /// The clock of the executor that the engine runs on.
    pub(super) clock: Clock,
    /// What a pause is.
    pub(super) idle: Idle,
}

impl ScalarHost for HostWarp {
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn pause(&self) {
        (self.idle)();
    }

    fn give_way(&self) {}

    fn sync_block(&self) {}
}
