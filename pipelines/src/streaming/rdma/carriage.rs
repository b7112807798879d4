//! RDMA as what carries streams: the carrier, stepped by the host, and threads that listen.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that all tables are live"
)]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warpwire_core::carrier::StreamCarrier;
use warpwire_core::carrier::tables::CarrierBlock;
use warpwire_device::Scalar;
use warpwire_engine::streams::tables::NONE;
use warpwire_gpu::Service;
use warpwire_ring::Cause;

use super::seats::Core;
use super::settings::RdmaConfig;
use super::{Ground, RingMemory};
use crate::connect::perftest::Role;
use crate::connect::{Channel as _, Conversation, Error as MeetError, Listener};
use crate::messaging::{FusedEngine, Idle};
use crate::streaming::carriage::{self, Carriage};
use crate::streaming::driver::Thread;
use crate::streaming::endpoint::{full, lock};
use crate::streaming::error::Error;
use crate::streaming::places::{GENERATION, Places};

/// Streams over messages.
pub(super) struct Rdma {
    /// Goes before the memory that it works on.
    seat: Mutex<Seat>,
    listeners: Mutex<Vec<Option<Listening>>>,
    /// The engine of messages, if nobody else steps it.
    engine: Option<FusedEngine>,
    idle: Idle,
    core: Arc<Core>,
}

struct Seat {
    carrier: StreamCarrier<'static>,
    host: Thread,
    /// The host's part of the NIC, where nobody else has it.
    services: Vec<Box<dyn Service>>,
}

/// A thread that listens; none once it ended.
struct Listening {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Rdma {
    pub(super) fn start(
        ground: Box<dyn Ground>,
        memory: &RingMemory,
        services: Vec<Box<dyn Service>>,
        config: &RdmaConfig,
    ) -> Result<Self, Error> {
        let endpoint = ground.endpoint();
        let (clock, idle) = (endpoint.clock(), endpoint.idle());
        let engine = endpoint.fused().cloned();
        let core = Arc::new(Core::new(ground, memory, config)?);
        let block = core.block.value() as *const CarrierBlock;
        // SAFETY: the block lies in an arena that `core` keeps.
        let block = unsafe { &*block };
        // SAFETY: the core holds the block and all that it points to, and goes after the carrier,
        // which is the only one.
        let carrier = unsafe { StreamCarrier::attach(block) };
        let carrier = carrier.map_err(|cause| Error::Ended { cause })?;
        Ok(Self {
            seat: Mutex::new(Seat {
                carrier,
                host: Thread(clock),
                services,
            }),
            listeners: Mutex::new((0..config.listeners).map(|_| None).collect()),
            engine,
            idle,
            core,
        })
    }

    pub(super) fn places(&self) -> &Places {
        &self.core.places
    }
}

impl Carriage for Rdma {
    fn step(&self) -> bool {
        let mut busy = self.engine.as_ref().is_some_and(FusedEngine::step);
        let mut seat = match self.seat.try_lock() {
            Ok(seat) => seat,
            Err(TryLockError::Poisoned(seat)) => seat.into_inner(),
            Err(TryLockError::WouldBlock) => return busy,
        };
        let seat = &mut *seat;
        busy |= seat.carrier.step(&Scalar::new(&seat.host));
        for service in &mut seat.services {
            busy |= service.run(SERVICE_BUDGET) > 0;
        }
        busy
    }

    fn ended(&self) -> Option<Cause> {
        let ground = self.core.ground.try_lock().ok()?;
        match ground.endpoint().is_running() {
            true => None,
            false => Some(Cause::EngineNotRunning),
        }
    }

    fn connect(&self, to: SocketAddr, patience: Duration) -> Result<(u32, u32), Error> {
        let started = Instant::now();
        let mut conversation = match Conversation::dial_once(to, patience) {
            Err(MeetError::Unreachable { source, .. }) if is_refusal(&source) => {
                let cause = warpwire_protocols::tcp::Cause::Refused;
                return Err(Error::Over { peer: to, cause });
            }
            dialled => dialled?,
        };
        conversation.extend(patience.saturating_sub(started.elapsed()));
        conversation.meanwhile(Arc::clone(&self.idle));
        let goes_on = AtomicBool::new(false);
        let met = self
            .core
            .meet(&mut conversation, Role::Client, (NONE, &goes_on))?;
        let (place, number) = met.ok_or(Error::Ended {
            cause: Cause::NoResource,
        })?;
        let what = ("the carrier did not begin", patience);
        carriage::wait(self, &self.idle, what, || {
            let there = self.core.places.word(place, GENERATION)?;
            if self.core.vacated(place)? == number {
                let cause = Cause::LayoutMismatch;
                return Err(Error::Ended { cause });
            }
            // pairs with: the carrier's release of a stream that begins.
            Ok((there.load(Ordering::Acquire) == number).then_some((place, number)))
        })
    }

    fn listen(&self, at: SocketAddr, _patience: Duration) -> Result<(u32, SocketAddr), Error> {
        let mut listeners = lock(&self.listeners);
        let free = listeners
            .iter_mut()
            .zip(0..)
            .find(|(slot, _)| slot.is_none());
        let (slot, index) = free.ok_or_else(|| full("a listener", "listeners"))?;
        let listener = match Listener::bind(&at.to_string()) {
            Err(MeetError::Address { source, .. }) if is_taken(&source) => {
                return Err(Error::Taken {
                    what: "port",
                    address: at,
                });
            }
            bound => bound?,
        };
        let at = listener.address();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (core, stop) = (Arc::clone(&self.core), Arc::clone(&stop));
            let run = move || answer(&core, &listener, index, &stop);
            let named = std::thread::Builder::new().name("streams-listen".to_owned());
            named
                .spawn(run)
                .map_err(|source| Error::Thread { source })?
        };
        *slot = Some(Listening {
            stop,
            thread: Some(thread),
        });
        Ok((index, at))
    }

    fn unlisten(&self, listener: u32) -> bool {
        let mut listeners = lock(&self.listeners);
        let slot = listeners.get_mut(listener as usize);
        if let Some(Some(listening)) = slot {
            self.core.stop(&listening.stop);
            let thread = listening.thread.take();
            drop(listeners);
            // It looks at its flag; what it is about to agree on has a deadline.
            if let Some(thread) = thread {
                // If it panicked, that was told.
                let _ = thread.join();
            }
        }
        // What it began is told to the listener's ring by a round.
        let seat = &mut *lock(&self.seat);
        seat.carrier.step(&Scalar::new(&seat.host));
        true
    }

    fn leave(&self, listener: u32) {
        if let Some(slot) = lock(&self.listeners).get_mut(listener as usize) {
            *slot = None;
        }
    }
}

impl Drop for Rdma {
    fn drop(&mut self) {
        let listeners = std::mem::take(&mut *lock(&self.listeners));
        for mut listening in listeners.into_iter().flatten() {
            self.core.stop(&listening.stop);
            if let Some(thread) = listening.thread.take() {
                // If it panicked, that was told.
                let _ = thread.join();
            }
        }
    }
}

/// Answers those who dial, some at a time, until it is told to stop.
fn answer(core: &Arc<Core>, listener: &Listener, index: u32, stop: &Arc<AtomicBool>) {
    std::thread::scope(|scope| {
        let mut under_way = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            under_way.retain(|one: &std::thread::ScopedJoinHandle<'_, ()>| !one.is_finished());
            if under_way.len() >= MOST_UNDER_WAY {
                std::thread::sleep(LOOK);
                continue;
            }
            match listener.accept(LOOK, core.config.handshake) {
                Ok(mut conversation) => under_way.push(scope.spawn(move || {
                    // Who dialled is told by the end of the conversation, and tells.
                    let _ = core.meet(&mut conversation, Role::Server, (index, stop));
                })),
                Err(MeetError::NoClient { .. }) => {}
                // The system is short of something; that may pass.
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    });
}

fn is_refusal(source: &std::io::Error) -> bool {
    source.kind() == std::io::ErrorKind::ConnectionRefused
}

fn is_taken(source: &std::io::Error) -> bool {
    source.kind() == std::io::ErrorKind::AddrInUse
}

/// Work of the NIC's services in a round.
const SERVICE_BUDGET: u32 = 256;
/// Peers that a listener agrees with at a time.
const MOST_UNDER_WAY: usize = 16;
/// How often a listener looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);
