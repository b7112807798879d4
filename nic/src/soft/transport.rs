//! The transport of the device model: work queues of messages that the NIC itself carries out.
//!
//! The engine is that of the kernels, over queues of the NIC that nobody else uses. The application
//! sees what it would see of a NIC with such a transport in hardware: it rings, and the NIC, here a
//! thread of the host, reads the request, makes the packets and places what comes.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that all tables are live"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use warpwire_device::{Scalar, ScalarHost};
use warpwire_engine::tables::EngineBlock;
use warpwire_engine::{Crew, Engine};
use warpwire_gpu::executor::Clock;
use warpwire_gpu::{Arena, Service};
use warpwire_protocols::checksum::Host;
use warpwire_ring::{Cause, DeviceAddress, mlx5};

/// The transport, to be put on a thread of an executor.
pub struct Transport {
    engine: Engine<'static, mlx5::Rx, mlx5::Tx, Host>,
    seat: Seat,
    state: TransportState,
    /// What the engine drives lies here; it goes after the engine.
    _memory: Vec<Arc<Arena>>,
}

/// How a transport is, for whoever gave it to an executor.
#[derive(Clone, Debug, Default)]
pub struct TransportState(Arc<AtomicU32>);

impl TransportState {
    /// Why it carries nothing out any more, if it ended by itself.
    pub fn ended(&self) -> Option<Cause> {
        Cause::from_number(self.0.load(Ordering::Acquire))
    }
}

impl Transport {
    /// A transport over the queues of a soft NIC. The block lies in `memory` with all that it
    /// points to; `clock` is that of the executor.
    ///
    /// # Errors
    /// What the engine refuses: [`Cause::LayoutMismatch`] for queues of another NIC.
    ///
    /// # Safety
    /// The block holds what [`Engine::attach`] asks for, and nobody else drives it.
    pub unsafe fn new(
        block: DeviceAddress,
        memory: Vec<Arc<Arena>>,
        clock: Clock,
    ) -> Result<Self, Cause> {
        // SAFETY: such a block lies there by the caller's promise, as long as `_memory` stays.
        let block = unsafe { &*(block.value() as *const EngineBlock) };
        Ok(Self {
            // SAFETY: passed on.
            engine: unsafe { Engine::attach(block, Crew::ALONE) }?,
            seat: Seat(clock),
            state: TransportState::default(),
            _memory: memory,
        })
    }

    /// How it is, also once an executor has it.
    pub fn state(&self) -> TransportState {
        self.state.clone()
    }
}

impl Service for Transport {
    fn name(&self) -> &str {
        "transport of a soft NIC"
    }

    fn run(&mut self, _budget: u32) -> u32 {
        if self.state.ended().is_some() {
            return 0;
        }
        let simt = Scalar::new(&self.seat);
        match self.engine.step(&simt) {
            Ok(busy) => u32::from(busy),
            Err(cause) => {
                self.state.0.store(cause as u32, Ordering::Release);
                0
            }
        }
    }

    /// It has clocks of its own, one for each queue pair, and looks at all of them as often as the
    /// shortest may run out.
    fn next_event_ns(&self) -> Option<u64> {
        Some(self.seat.0.now_ns().saturating_add(TICK_NS))
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        // Where the rings stand, for whoever drives them next.
        self.engine.save(&Scalar::new(&self.seat));
    }
}

/// A warp that is alone on a thread of the executor.
struct Seat(Clock);

impl ScalarHost for Seat {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    fn pause(&self) {}

    fn sync_block(&self) {}
}

/// The unit of the transport's timeouts.
const TICK_NS: u64 = 4096;
