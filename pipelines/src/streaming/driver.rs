//! The engine of streams as the host steps it, over rings of any format.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that all tables are live"
)]

use warpwire_core::format::{MemifClient, MemifServer, Mlx5, RingFormat, Xdp};
use warpwire_device::{Scalar, ScalarHost};
use warpwire_engine::streams::StreamEngine;
use warpwire_engine::streams::tables::StreamBlock;
use warpwire_gpu::executor::Clock;
use warpwire_ring::{Cause, DeviceAddress, Receive, Transmit};

/// An engine.
pub(super) trait Driver: Send {
    /// One round. Says whether there was work.
    fn step(&mut self) -> Result<bool, Cause>;
}

/// Takes the engine of a block over rings of a format.
///
/// # Errors
/// What attaching to the block says; [`Cause::LayoutMismatch`] for an unknown format.
///
/// # Safety
/// *The engine's promise*, see [`StreamEngine::attach`], for as long as the value lives.
pub(super) unsafe fn attach(
    format: &str,
    block: DeviceAddress,
    clock: &Clock,
) -> Result<Box<dyn Driver>, Cause> {
    match format {
        // SAFETY: passed on.
        "mlx5" => unsafe { of::<Mlx5>(block, clock) },
        // SAFETY: passed on.
        "xdp" => unsafe { of::<Xdp>(block, clock) },
        // SAFETY: passed on.
        "memif_client" => unsafe { of::<MemifClient>(block, clock) },
        // SAFETY: passed on.
        "memif_server" => unsafe { of::<MemifServer>(block, clock) },
        _ => Err(Cause::LayoutMismatch),
    }
}

struct Driven<R, T> {
    engine: StreamEngine<'static, R, T>,
    host: Thread,
}

impl<R: Receive + Send, T: Transmit + Send> Driver for Driven<R, T> {
    fn step(&mut self) -> Result<bool, Cause> {
        self.engine.step(&Scalar::new(&self.host))
    }
}

/// # Safety
/// As [`attach`].
unsafe fn of<F: RingFormat>(block: DeviceAddress, clock: &Clock) -> Result<Box<dyn Driver>, Cause>
where
    F::Receive: Send + 'static,
    F::Transmit: Send + 'static,
{
    // SAFETY: such a block lies there, by the caller's promise.
    let block = unsafe { &*(block.value() as *const StreamBlock) };
    // SAFETY: passed on.
    let engine = unsafe { StreamEngine::<F::Receive, F::Transmit>::attach(block) }?;
    let host = Thread(clock.clone());
    Ok(Box::new(Driven { engine, host }))
}

/// A thread of the host as a warp of one lane, which never waits inside a round.
pub(super) struct Thread(pub(super) Clock);

impl ScalarHost for Thread {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    fn pause(&self) {
        std::hint::spin_loop();
    }

    fn give_way(&self) {}

    fn sync_block(&self) {}
}
