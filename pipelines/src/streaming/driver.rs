//! The engine of streams as the host steps it, over rings of any format.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that all tables are live"
)]

use warpwire_core::format::{MemifClient, MemifServer, Mlx5, RingFormat, Xdp};
use warpwire_device::{Scalar, ScalarHost};
use warpwire_engine::Crew;
use warpwire_engine::streams::StreamEngine;
use warpwire_engine::streams::tables::StreamBlock;
use warpwire_gpu::executor::Clock;
use warpwire_ring::{Cause, DeviceAddress, Receive, Transmit};

/// An engine.
pub(super) trait Driver: Send {
    /// One round. Says whether there was work.
    fn step(&mut self) -> Result<bool, Cause>;
}

/// Takes the engines of a block over rings of a format: the one of one warp, or those of a crew of
/// so many warps, which lie one after the other.
///
/// # Errors
/// What attaching to the block says; [`Cause::LayoutMismatch`] for an unknown format.
///
/// # Safety
/// *The engine's promise*, see [`StreamEngine::attach`], for as long as the value lives.
pub(super) unsafe fn attach(
    format: &str,
    blocks: DeviceAddress,
    warps: u32,
    clock: &Clock,
) -> Result<Box<dyn Driver>, Cause> {
    match format {
        // SAFETY: passed on.
        "mlx5" => unsafe { of::<Mlx5>(blocks, warps, clock) },
        // SAFETY: passed on.
        "xdp" => unsafe { of::<Xdp>(blocks, warps, clock) },
        // SAFETY: passed on.
        "memif_client" => unsafe { of::<MemifClient>(blocks, warps, clock) },
        // SAFETY: passed on.
        "memif_server" => unsafe { of::<MemifServer>(blocks, warps, clock) },
        _ => Err(Cause::LayoutMismatch),
    }
}

struct Driven<R, T> {
    crew: Vec<StreamEngine<'static, R, T>>,
    host: Thread,
}

impl<R: Receive + Send, T: Transmit + Send> Driver for Driven<R, T> {
    fn step(&mut self) -> Result<bool, Cause> {
        StreamEngine::step_all(&mut self.crew, &Scalar::new(&self.host))
    }
}

/// # Safety
/// As [`attach`].
unsafe fn of<F: RingFormat>(
    blocks: DeviceAddress,
    warps: u32,
    clock: &Clock,
) -> Result<Box<dyn Driver>, Cause>
where
    F::Receive: Send + 'static,
    F::Transmit: Send + 'static,
{
    let first = blocks.value() as *const StreamBlock;
    // SAFETY: as many blocks lie there, by the caller's promise.
    let blocks = unsafe { std::slice::from_raw_parts(first, engines(warps) as usize) };
    // SAFETY: passed on.
    let member = |crew| unsafe { StreamEngine::<F::Receive, F::Transmit>::attach(blocks, crew) };
    let crew = Crew::all(warps).map(member).collect::<Result<_, _>>()?;
    let host = Thread(clock.clone());
    Ok(Box::new(Driven { crew, host }))
}

/// Engines of a block that so many warps run.
pub(super) fn engines(warps: u32) -> u32 {
    Crew::all(warps).next().map_or(1, Crew::engines)
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
