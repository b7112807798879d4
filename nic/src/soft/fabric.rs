//! A fabric: adapters, uplinks, and the switch between them, run as one service.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpwire_gpu::{Arena, Service};
use warpwire_ring::{DeviceMemory, Region};

use super::adapter::Adapter;
use super::burst::{BURST, Burst};
use super::clock::Clock;
use super::config::{FabricConfig, Impairments};
use super::dice::Dice;
use super::fault::Faults;
use super::link::{Flights, LinkCounts};
use super::memory::Keys;
use super::switch::{Ends, Owner, Switch};
use super::transmit::Step;
use super::uplink::Uplink;
use crate::error::Error;
use crate::trouble::Trouble;

/// A port of a fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PortId(pub(super) u32);

/// What a port counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortCounts {
    /// Frames handed to the uplink at the port.
    pub passed: u64,
    /// Frames lost on the way to the port, or for want of a way from it, by reason.
    pub drops: Vec<(&'static str, u64)>,
    /// What the link did.
    pub link: LinkCounts,
    /// What the uplink counted itself.
    pub uplink: Vec<(&'static str, u64)>,
}

/// Adapters, uplinks and the switch between them. Clones are handles on the same fabric.
#[derive(Clone)]
pub struct Fabric {
    core: Arc<Mutex<Core>>,
}

pub(super) struct Core {
    pub(super) config: FabricConfig,
    pub(super) keys: Keys,
    pub(super) adapters: Vec<Adapter>,
    pub(super) switch: Switch,
    clock: Clock,
    dice: Dice,
    flights: Flights,
    scratch: Box<[u8]>,
    burst: Burst,
    served: bool,
    /// The send queue whose turn it is, counted over all adapters.
    turn: usize,
}

impl Fabric {
    /// An empty fabric.
    pub fn new(config: FabricConfig, clock: Clock) -> Self {
        let core = Core {
            keys: Keys::default(),
            adapters: Vec::new(),
            switch: Switch::new(),
            clock,
            dice: Dice::new(config.seed),
            flights: Flights::new(config.frames_under_way, config.max_frame_bytes),
            scratch: vec![0; config.max_frame_bytes.max(64) as usize].into_boxed_slice(),
            burst: Burst::new(),
            served: false,
            turn: 0,
            config,
        };
        Self {
            core: Arc::new(Mutex::new(core)),
        }
    }

    /// Attaches an uplink behind a link.
    pub fn attach(&self, uplink: Box<dyn Uplink>, link: Impairments) -> PortId {
        PortId(self.lock().switch.add(Owner::Uplink(uplink), link))
    }

    /// Plugs a cable between two ports, past the switch. A port plugged into itself is a loop.
    pub fn cable(&self, one: PortId, other: PortId) {
        let mut core = self.lock();
        for (from, to) in [(one, other), (other, one)] {
            if let Some(port) = core.switch.ports.get_mut(from.0 as usize) {
                port.cable = Some(to.0);
            }
        }
    }

    /// Reads another clock from now on: that of the executor which runs the fabric, so that times
    /// of arrival are the kernels' times. Do so before anything is under way.
    pub fn follow(&self, clock: Clock) {
        self.lock().clock = clock;
    }

    /// Changes what the link to a port does to frames. Frames under way arrive as decided before.
    pub fn impair(&self, port: PortId, impairments: Impairments) {
        if let Some(port) = self.lock().switch.ports.get_mut(port.0 as usize) {
            port.link.impairments = impairments;
        }
    }

    /// Changes what goes wrong in the adapter at a port; nothing happens at a port without one.
    pub fn disturb(&self, port: PortId, faults: Faults) {
        let mut core = self.lock();
        if let Some(adapter) = core.adapter_at(port) {
            adapter.faults = faults;
        }
    }

    /// Fixes where an Ethernet address is, so that it is neither learned nor moved.
    pub fn pin(&self, mac: [u8; 6], port: PortId) {
        self.lock().switch.learn(mac, port.0, true);
    }

    /// Registers memory that send or receive WQEs may name: the region that comes back carries the
    /// key.
    pub fn register(&self, arena: &Arc<Arena>, writable: bool) -> Region {
        self.lock().keys.register(arena, writable)
    }

    /// Takes a key back; WQEs that name it fail from now on. Returns whether it was valid.
    pub fn revoke(&self, key: u32) -> bool {
        self.lock().keys.revoke(key)
    }

    /// The service that runs the fabric. Several may be made; they take turns.
    pub fn service(&self) -> FabricService {
        FabricService {
            core: Arc::clone(&self.core),
        }
    }

    /// What a port counted.
    pub fn port_counts(&self, port: PortId) -> PortCounts {
        let core = self.lock();
        core.switch
            .ports
            .get(port.0 as usize)
            .map_or_else(PortCounts::default, |port| PortCounts {
                passed: port.passed,
                drops: port.drops.named(),
                link: port.link.counts,
                uplink: match &port.owner {
                    Owner::Uplink(uplink) => uplink.counters(),
                    _ => Vec::new(),
                },
            })
    }

    /// What has gone wrong with the uplink at a port; nothing where there is none.
    pub fn troubles(&self, port: PortId) -> Vec<Trouble> {
        let core = self.lock();
        let port = core.switch.ports.get(port.0 as usize);
        match port.map(|port| &port.owner) {
            Some(Owner::Uplink(uplink)) => uplink.troubles(),
            _ => Vec::new(),
        }
    }

    /// When something happens next by itself: a virtual clock may be turned that far.
    pub fn next_event_ns(&self) -> Option<u64> {
        self.lock().next_event_ns()
    }

    /// Frames under way.
    pub fn under_way(&self) -> usize {
        self.lock().flights.len()
    }

    /// Finishes what is at a port and empties it.
    ///
    /// # Errors
    /// What an uplink could not finish.
    pub fn detach(&self, port: PortId) -> Result<(), Error> {
        let mut core = self.lock();
        core.switch.forget(port.0);
        let Some(port) = core.switch.ports.get_mut(port.0 as usize) else {
            return Ok(());
        };
        port.cable = None;
        match std::mem::replace(&mut port.owner, Owner::Nobody) {
            Owner::Adapter(index) => {
                let core = &mut *core;
                if let Some(adapter) = core.adapters.get_mut(index) {
                    adapter.send.clear();
                    adapter.receive.clear();
                    adapter.late.clear();
                    for key in adapter.keys.drain(..) {
                        core.keys.revoke(key);
                    }
                }
                Ok(())
            }
            Owner::Uplink(mut uplink) => uplink.close(),
            Owner::Nobody => Ok(()),
        }
    }

    /// The service, for the first who asks.
    pub(super) fn serve_once(&self) -> Option<FabricService> {
        let served = std::mem::replace(&mut self.lock().served, true);
        (!served).then(|| self.service())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    pub(super) fn adapter_at(&mut self, port: PortId) -> Option<&mut Adapter> {
        match self.switch.ports.get(port.0 as usize)?.owner {
            Owner::Adapter(index) => self.adapters.get_mut(index),
            _ => None,
        }
    }

    /// The first of: a frame at the end of its link, a late payload, the end of a stall, an
    /// uplink's next frame.
    fn next_event_ns(&self) -> Option<u64> {
        let now_ns = self.clock.now_ns();
        let adapters = self
            .adapters
            .iter()
            .filter_map(|adapter| adapter.next_event_ns(now_ns));
        let uplinks = self
            .switch
            .ports
            .iter()
            .filter_map(|port| match &port.owner {
                Owner::Uplink(uplink) => uplink.next_due_ns(),
                _ => None,
            });
        adapters
            .chain(uplinks)
            .chain(self.flights.next_due_ns())
            .min()
    }

    /// One round: frames that are due, frames from uplinks, frames from send queues.
    fn run(&mut self, budget: u32) -> u32 {
        let memory = self.keys.table();
        let mut ends = Ends {
            memory: &memory,
            adapters: &mut self.adapters,
            dice: &mut self.dice,
            now_ns: self.clock.now_ns(),
        };
        let mut done = self.switch.land(&mut ends, &mut self.flights, budget);
        for adapter in ends
            .adapters
            .iter_mut()
            .filter(|adapter| !adapter.late.is_empty())
        {
            done += adapter.write_late(&memory, ends.now_ns);
        }
        let (switch, flights, scratch) = (&mut self.switch, &mut self.flights, &mut self.scratch);
        done += pull(
            switch,
            &mut ends,
            flights,
            scratch,
            budget.saturating_sub(done),
        );
        if done > 0 {
            ends.flush();
        }
        self.turn = self.turn.wrapping_add(1);
        let left = budget.saturating_sub(done);
        let via = (&mut self.burst, &mut **scratch);
        done + push(switch, &mut ends, flights, via, (self.turn, left))
    }
}

/// Takes frames from uplinks into the switch.
fn pull<M: DeviceMemory>(
    switch: &mut Switch,
    ends: &mut Ends<'_, M>,
    flights: &mut Flights,
    scratch: &mut [u8],
    budget: u32,
) -> u32 {
    let mut done = 0;
    for index in 0..switch.ports.len() {
        let mut burst = (BURST as u32).min(budget.saturating_sub(done));
        if let Some(port) = switch.ports.get_mut(index)
            && let Owner::Uplink(uplink) = &mut port.owner
        {
            done += u32::from(uplink.round(ends.now_ns));
        }
        while burst > 0 {
            let Some(port) = switch.ports.get_mut(index) else {
                break;
            };
            let Owner::Uplink(uplink) = &mut port.owner else {
                break;
            };
            let memory = ends.memory;
            let mut ready = ends
                .adapters
                .iter_mut()
                .all(|adapter| adapter.ready(memory));
            ready &= flights.room() > 1;
            if uplink.patient() && !ready {
                break;
            }
            let Some(length) = uplink.receive(scratch, ends.now_ns) else {
                break;
            };
            if let Some(frame) = scratch.get_mut(..length) {
                switch.forward(ends, flights, index as u32, frame);
            }
            (burst, done) = (burst - 1, done + 1);
        }
    }
    done
}

/// Takes frames from send queues, each queue in its turn.
#[inline]
fn push<M: DeviceMemory>(
    switch: &mut Switch,
    ends: &mut Ends<'_, M>,
    flights: &mut Flights,
    (burst, scratch): (&mut Burst, &mut [u8]),
    (turn, budget): (usize, u32),
) -> u32 {
    let ports = switch.ports.len();
    let mut done = 0;
    for port in 0..ports {
        let port = (port + turn) % ports;
        let Some(Owner::Adapter(adapter)) = switch.ports.get(port).map(|port| &port.owner) else {
            continue;
        };
        let (index, now_ns) = (*adapter, ends.now_ns);
        let queues = ends
            .adapters
            .get(index)
            .map_or(0, |adapter| adapter.send.len());
        for queue in 0..queues {
            let limit = (BURST as u32).min(budget.saturating_sub(done));
            let Some(adapter) = ends.adapters.get_mut(index) else {
                continue;
            };
            adapter.listen(ends.memory, queue, now_ns, ends.dice);
            let mut sent = 0;
            if adapter.sends_plainly()
                && let Some(target) = switch.plain_way(ends, port)
            {
                sent = relay(ends, (index, queue), target, limit, burst);
            }
            if sent < limit {
                let from = (port as u32, index, queue);
                sent += drain(switch, ends, flights, scratch, from, limit - sent);
            }
            if sent > 0 {
                ends.flush();
            }
            done += sent;
        }
    }
    done
}

/// Sends a burst of plain frames to another adapter.
#[inline(always)]
fn relay<M: DeviceMemory>(
    ends: &mut Ends<'_, M>,
    (index, queue): (usize, usize),
    target: usize,
    limit: u32,
    burst: &mut Burst,
) -> u32 {
    let (memory, now_ns) = (ends.memory, ends.now_ns);
    let Some(adapter) = ends.adapters.get_mut(index) else {
        return 0;
    };
    adapter.collect(memory, queue, (now_ns, limit as usize), burst);
    if burst.len() == 0 {
        return 0;
    }
    if let Some(receiver) = ends.adapters.get_mut(target) {
        receiver.take(memory, burst, now_ns);
    }
    if let Some(adapter) = ends.adapters.get_mut(index) {
        adapter.finish(memory, queue, burst, now_ns);
    }
    burst.len() as u32
}

/// Sends up to `limit` frames of one queue, one by one.
fn drain<M: DeviceMemory>(
    switch: &mut Switch,
    ends: &mut Ends<'_, M>,
    flights: &mut Flights,
    scratch: &mut [u8],
    (port, index, queue): (u32, usize, usize),
    limit: u32,
) -> u32 {
    for done in 0..limit {
        let Some(adapter) = ends.adapters.get_mut(index) else {
            return done;
        };
        match adapter.step(ends.memory, queue, scratch, ends.now_ns, ends.dice) {
            Step::Idle => return done,
            Step::Consumed => {}
            Step::Frame(length) => {
                if let Some(frame) = scratch.get_mut(..length) {
                    switch.forward(ends, flights, port, frame);
                }
            }
        }
    }
    limit
}

/// Runs a fabric: polled on an executor's thread, or a thread of its own.
pub struct FabricService {
    core: Arc<Mutex<Core>>,
}

impl Service for FabricService {
    fn name(&self) -> &str {
        "soft fabric"
    }

    fn run(&mut self, budget: u32) -> u32 {
        self.core
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .run(budget)
    }

    fn next_event_ns(&self) -> Option<u64> {
        let core = self.core.lock();
        core.unwrap_or_else(PoisonError::into_inner).next_event_ns()
    }
}
