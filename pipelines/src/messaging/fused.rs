//! Engines that the host steps itself: application and engine are one thread.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that all tables are live"
)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use warpwire_core::format::{MemifClient, MemifServer, Mlx5, RingFormat, Xdp};
use warpwire_core::kernels::Sum;
use warpwire_device::Scalar;
use warpwire_engine::tables::EngineBlock;
use warpwire_engine::{Crew, Engine};
use warpwire_gpu::Arena;
use warpwire_gpu::executor::Clock;
use warpwire_ring::{Cause, DeviceAddress, Receive, Transmit};

use super::host::HostWarp;

/// An engine that whoever waits steps. Clones are handles on the same one.
#[derive(Clone)]
pub struct FusedEngine {
    seat: Arc<Mutex<Seat>>,
    _memory: Arc<[Arc<Arena>]>,
}

struct Seat {
    /// The engine; none while a kernel has it, and after its end.
    driver: Option<Box<dyn Driver>>,
    ended: Option<Cause>,
}

impl FusedEngine {
    /// Takes the engine of a block over rings of a format, all of which lies in `memory`.
    ///
    /// # Errors
    /// What attaching to the block says; [`Cause::LayoutMismatch`] for an unknown format.
    ///
    /// # Safety
    /// *The engine's promise*, see [`Engine::attach`], for as long as the value lives.
    pub(super) unsafe fn attach(
        format: &str,
        block: DeviceAddress,
        clock: &Clock,
        memory: &[Arc<Arena>],
    ) -> Result<Self, Cause> {
        // SAFETY: passed on.
        let driver = unsafe { driver(format, block, clock) }?;
        let seat = Seat {
            driver: Some(driver),
            ended: None,
        };
        Ok(Self {
            seat: Arc::new(Mutex::new(seat)),
            _memory: memory.into(),
        })
    }

    /// One step. Says whether there was work; no if another thread is at it.
    pub fn step(&self) -> bool {
        let mut seat = match self.seat.try_lock() {
            Ok(seat) => seat,
            Err(TryLockError::Poisoned(seat)) => seat.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let Some(driver) = &mut seat.driver else {
            return false;
        };
        match driver.step() {
            Ok(busy) => busy,
            Err(cause) => {
                seat.ended = Some(cause);
                seat.driver = None;
                false
            }
        }
    }

    /// Why the engine ended, if it did.
    pub(super) fn ended(&self) -> Option<Cause> {
        self.seat().ended
    }

    /// Leaves the engine to somebody else, where it stands. Says whether there was one.
    pub(super) fn leave(&self) -> bool {
        let driver = self.seat().driver.take();
        driver.is_some_and(|mut driver| {
            driver.save();
            true
        })
    }

    /// Takes the engine back, from where it was left.
    ///
    /// # Errors
    /// As [`FusedEngine::attach`].
    ///
    /// # Safety
    /// As [`FusedEngine::attach`].
    pub(super) unsafe fn take_back(
        &self,
        format: &str,
        block: DeviceAddress,
        clock: &Clock,
    ) -> Result<(), Cause> {
        // SAFETY: passed on.
        self.seat().driver = Some(unsafe { driver(format, block, clock) }?);
        Ok(())
    }

    fn seat(&self) -> MutexGuard<'_, Seat> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An engine over rings of any format.
trait Driver: Send {
    fn step(&mut self) -> Result<bool, Cause>;
    fn save(&mut self);
}

struct Driven<R, T> {
    engine: Engine<'static, R, T, Sum>,
    host: HostWarp,
}

impl<R: Receive + Send, T: Transmit + Send> Driver for Driven<R, T> {
    fn step(&mut self) -> Result<bool, Cause> {
        self.engine.step(&Scalar::new(&self.host))
    }

    fn save(&mut self) {
        self.engine.save(&Scalar::new(&self.host));
    }
}

/// # Safety
/// As [`FusedEngine::attach`].
unsafe fn driver(
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

/// # Safety
/// As [`FusedEngine::attach`].
unsafe fn of<F: RingFormat>(block: DeviceAddress, clock: &Clock) -> Result<Box<dyn Driver>, Cause>
where
    F::Receive: Send + 'static,
    F::Transmit: Send + 'static,
{
    // SAFETY: such a block lies there, by the caller's promise.
    let block = unsafe { &*(block.value() as *const EngineBlock) };
    let host = HostWarp {
        clock: clock.clone(),
        idle: Arc::new(|| {}),
    };
    // SAFETY: passed on.
    let engine = unsafe { Engine::attach(block, Crew::ALONE) }?;
    Ok(Box::new(Driven::<F::Receive, F::Transmit> { engine, host }))
}
