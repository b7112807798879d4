//! Endpoints: an engine over one pair of rings of a NIC.
#![expect(
    unsafe_code,
    reason = "a launch carries the promise that its parameters are laid out right"
)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use warpwire_core::block::Parameters as _;
use warpwire_core::kernels::TransportParameters;
use warpwire_engine::tables::EngineCounters;
use warpwire_gpu::executor::{Grid, Launch, Parameters, Placement};
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_nic::Nic;
use warpwire_protocols::rdma::{Access, Region, Tuning};
use warpwire_ring::DeviceAddress;

use super::pair::{Pair, PairConfig};
use super::table::{self, Table};
use crate::messaging::Error;
use crate::runtime::{Kit, format_word};

/// How an endpoint is made.
#[derive(Clone, Copy, Debug)]
pub struct EndpointConfig {
    /// Queue pairs; a power of two.
    pub pairs: u32,
    /// One of them is queue pair 1, through which connections are managed; then there are two at
    /// least.
    pub management: bool,
    /// Regions of memory, at most 2^16.
    pub regions: u32,
    /// The upper bits of the numbers of queue pairs.
    pub first_number: u32,
    /// Binary logarithm of the slots of a send queue, 64 bytes each.
    pub log_send: u32,
    /// Binary logarithm of the slots of a receive queue.
    pub log_receive: u32,
    /// Binary logarithm of the pieces that a receive may have.
    pub log_stride: u32,
    /// Packets that a queue pair sends before the next one may.
    pub share: u32,
    /// How senders are slowed by congestion.
    pub tuning: Tuning,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            pairs: 16,
            management: false,
            regions: 256,
            first_number: 0x0100,
            log_send: 8,
            log_receive: 8,
            log_stride: 2,
            share: 16,
            tuning: Tuning::OFF,
        }
    }
}

impl EndpointConfig {
    fn check(&self) -> Result<(), Error> {
        let settings = [
            (
                "pairs",
                self.pairs,
                1 + u32::from(self.management),
                1 << 14,
                true,
            ),
            ("regions", self.regions, 1, 1 << 16, false),
            // Else lower bits would make numbers of it that are not for messages.
            (
                "first_number",
                self.first_number,
                self.pairs.max(2),
                0x00ff_ffff,
                false,
            ),
            ("log_send", self.log_send, 1, 15, false),
            ("log_receive", self.log_receive, 1, 15, false),
            ("log_stride", self.log_stride, 0, 4, false),
            ("share", self.share, 1, 1 << 16, false),
        ];
        for (field, value, least, most, is_power) in settings {
            let fits = (least..=most).contains(&value);
            if !fits || (is_power && !value.is_power_of_two()) {
                return Err(Error::Setting {
                    field,
                    value: u64::from(value),
                    must: match is_power {
                        true => "a power of two up to 16384, and 2 at least with queue pair 1",
                        false => "within what the queues' formats have",
                    },
                });
            }
        }
        Ok(())
    }
}

/// An engine that runs. Dropping it stops the engine.
pub struct Endpoint {
    launch: Option<Launch>,
    table: Table,
    config: EndpointConfig,
    /// Arenas that regions may lie in.
    memory: Vec<Arc<Arena>>,
    regions: Mutex<Vec<u32>>,
    taken: Mutex<u32>,
    is_managed: AtomicBool,
    idle: Idle,
}

/// What a thread does that waits for an engine: gives way, or drives virtual time.
pub type Idle = Arc<dyn Fn() + Send + Sync>;

/// A registered piece of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRegion {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// The key, for the own requests and for peers.
    pub key: u32,
}

impl Endpoint {
    /// Starts an engine over the first pair of rings of a NIC. Regions may lie in `memory`.
    ///
    /// # Errors
    /// [`Error::Setting`], memory that cannot be had, a format without a kernel, an executor that
    /// refuses.
    pub fn start(
        executor: &CpuExecutor,
        nic: &dyn Nic,
        memory: &[Arc<Arena>],
        config: EndpointConfig,
        placement: Placement,
    ) -> Result<Self, Error> {
        config.check()?;
        let rings = nic.queues().first().ok_or(Error::Setting {
            field: "nic",
            value: 0,
            must: "one with queues",
        })?;
        let row = Kit::transport(format_word(&rings.receive).unwrap_or("unknown"))?;
        let table = table::lay_out(rings, &config)?;
        let mut arenas = vec![Arc::clone(&table.arena)];
        arenas.extend(rings.memory.iter().chain(memory).cloned());
        // SAFETY: the table holds a block of this layout and all that it points to; the rings are
        // the NIC's first, driven by this engine alone.
        let parameters =
            unsafe { Parameters::new(table.parameters, TransportParameters::LAYOUT, arenas) };
        let parameters = parameters.control(table.control.clone());
        let launch = executor.launch_on(row, Grid::ONE, parameters, placement)?;
        Ok(Self {
            launch: Some(launch),
            table,
            config,
            memory: memory.to_vec(),
            regions: Mutex::new(vec![0; config.regions as usize]),
            taken: Mutex::new(0),
            is_managed: AtomicBool::new(false),
            idle: Arc::new(std::thread::yield_now),
        })
    }

    /// Waits otherwise than by giving way: where time is virtual, somebody has to drive it.
    #[must_use]
    pub fn idle_by(mut self, idle: Idle) -> Self {
        self.idle = idle;
        self
    }

    /// Registers memory, for own requests and, as far as `access` says, for peers. `chance` decides
    /// the key's generation.
    ///
    /// # Errors
    /// [`Error::OutOfReach`], [`Error::Regions`].
    pub fn register(
        &self,
        address: DeviceAddress,
        length: u64,
        access: Access,
        chance: u64,
    ) -> Result<MemoryRegion, Error> {
        let holds = |arena: &&Arc<Arena>| arena.whole().contains(address, length);
        if !self.memory.iter().any(|arena| holds(&arena)) {
            return Err(Error::OutOfReach {
                address: address.value(),
                length,
            });
        }
        let mut keys = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        // Place 0 stays empty: a key of 0 is none, and zeroed memory names none.
        let free = keys.iter().skip(1).position(|key| *key & IN_USE == 0);
        let Some(free) = free else {
            return Err(Error::Regions {
                most: self.config.regions - 1,
            });
        };
        let place = free + 1;
        let last = keys.get(place).copied().unwrap_or(0) & 0xff;
        let generation = match last {
            0 => chance as u32 & 0xff,
            last => (last + 1) & 0xff,
        };
        let key = (place as u32) << 8 | generation.max(1);
        if let Some(slot) = keys.get_mut(place) {
            *slot = generation.max(1) | IN_USE;
        }
        let region = Region {
            address: address.value(),
            length,
            key: 0,
            domain: 0,
            access,
            may_invalidate: 0,
        };
        self.put_region(place, &region)?;
        // The key last: the engine finds the region by it.
        self.region_key(place)?.store(key, Ordering::Release);
        Ok(MemoryRegion {
            address: address.value(),
            length,
            key,
        })
    }

    /// Takes a registration back. What was under way with the key fails; the memory may be used for
    /// something else when this returns.
    ///
    /// # Errors
    /// [`Error::OutOfReach`] if there is no such registration; [`Error::Deadline`] if the engine
    /// does not come around.
    pub fn release(&self, region: &MemoryRegion, patience: Duration) -> Result<(), Error> {
        let place = (region.key >> 8) as usize;
        let missing = || Error::OutOfReach {
            address: region.address,
            length: region.length,
        };
        if place == 0 || place >= self.config.regions as usize {
            return Err(missing());
        }
        if !self.is_registered(region) {
            return Err(missing());
        }
        let word = self.region_key(place)?;
        let taken = word.compare_exchange(region.key, 0, Ordering::AcqRel, Ordering::Relaxed);
        // No key: a peer took it away, and the place is still ours.
        taken
            .or_else(|found| if found == 0 { Ok(0) } else { Err(missing()) })
            .map(drop)?;
        // Two rounds: the one under way may have looked before.
        self.rounds(2, patience)?;
        let mut keys = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = keys.get_mut(place) {
            *slot &= !IN_USE;
        }
        Ok(())
    }

    /// Whether the host's table still has a registration, with or without a key.
    fn is_registered(&self, region: &MemoryRegion) -> bool {
        let keys = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (region.key >> 8) as usize;
        keys.get(place).copied() == Some(region.key & 0xff | IN_USE)
    }

    /// Lets peers take the key of a registration away, by a send that names it; the memory stays
    /// registered, without a key, until it is released.
    ///
    /// # Errors
    /// [`Error::OutOfReach`] if there is no such registration.
    pub fn let_peers_invalidate(&self, region: &MemoryRegion) -> Result<(), Error> {
        if !self.is_registered(region) {
            return Err(Error::OutOfReach {
                address: region.address,
                length: region.length,
            });
        }
        let offset = std::mem::offset_of!(Region, may_invalidate) as u64;
        let at = self.region_at((region.key >> 8) as usize).offset(offset);
        let word = self.table.arena.half_word(at)?;
        word.store(1, Ordering::Release);
        Ok(())
    }

    /// Whether a registration has its key: peers may have taken it away.
    ///
    /// # Errors
    /// [`Error::OutOfReach`] if there is no such registration.
    pub fn has_key(&self, region: &MemoryRegion) -> Result<bool, Error> {
        if !self.is_registered(region) {
            return Err(Error::OutOfReach {
                address: region.address,
                length: region.length,
            });
        }
        let word = self.region_key((region.key >> 8) as usize)?;
        Ok(word.load(Ordering::Acquire) == region.key)
    }

    /// Waits until the engine has begun so many rounds more.
    fn rounds(&self, more: u64, patience: Duration) -> Result<(), Error> {
        let started = std::time::Instant::now();
        let first = self.counters().turns;
        while self.counters().turns.wrapping_sub(first) < more {
            if started.elapsed() >= patience {
                return Err(Error::Deadline {
                    number: 0,
                    what: "the engine made no round",
                    waited: patience,
                });
            }
            (self.idle)();
        }
        Ok(())
    }

    fn region_at(&self, place: usize) -> DeviceAddress {
        self.table
            .regions
            .offset((place * size_of::<Region>()) as u64)
    }

    fn region_key(&self, place: usize) -> Result<&AtomicU32, Error> {
        let offset = std::mem::offset_of!(Region, key) as u64;
        let at = self.region_at(place).offset(offset);
        Ok(self.table.arena.half_word(at)?)
    }

    fn put_region(&self, place: usize, region: &Region) -> Result<(), Error> {
        let at = self.region_at(place);
        let words: [(usize, u64); 2] = [
            (std::mem::offset_of!(Region, address), region.address),
            (std::mem::offset_of!(Region, length), region.length),
        ];
        for (offset, value) in words {
            let word = self.table.arena.word(at.offset(offset as u64))?;
            word.store(value, Ordering::Relaxed);
        }
        let words: [(usize, u32); 3] = [
            (std::mem::offset_of!(Region, domain), region.domain),
            (std::mem::offset_of!(Region, access), region.access.0),
            (
                std::mem::offset_of!(Region, may_invalidate),
                region.may_invalidate,
            ),
        ];
        for (offset, value) in words {
            let word = self.table.arena.half_word(at.offset(offset as u64))?;
            word.store(value, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A queue pair in its first state.
    ///
    /// # Errors
    /// [`Error::Pairs`] if all are taken.
    pub fn pair(&self, config: PairConfig) -> Result<Pair, Error> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let places = self.table.places.get(*taken as usize).copied();
        let places = places.ok_or(Error::Pairs {
            most: self.table.places.len() as u32,
        })?;
        *taken += 1;
        let arena = Arc::clone(&self.table.arena);
        Ok(Pair::new(arena, places, config, Arc::clone(&self.idle)))
    }

    /// Queue pair 1, in its first state: there is one, if the endpoint was made so.
    ///
    /// # Errors
    /// [`Error::Management`] if there is none, or it is taken.
    pub fn management_pair(&self, config: PairConfig) -> Result<Pair, Error> {
        let places = self.table.management.ok_or(Error::Management)?;
        if self.is_managed.swap(true, Ordering::AcqRel) {
            return Err(Error::Management);
        }
        let arena = Arc::clone(&self.table.arena);
        Ok(Pair::new(arena, places, config, Arc::clone(&self.idle)))
    }

    /// What the engine counted so far.
    pub fn counters(&self) -> EngineCounters {
        let mut counters = EngineCounters::default();
        let at = |index: usize| {
            let word = self.table.counters.offset(index as u64 * 8);
            let word = self.table.arena.word(word);
            word.map_or(0, |word| word.load(Ordering::Relaxed))
        };
        let place = |offset: usize| offset / 8;
        counters.turns = at(place(std::mem::offset_of!(EngineCounters, turns)));
        counters.idle_turns = at(place(std::mem::offset_of!(EngineCounters, idle_turns)));
        counters.received = at(place(std::mem::offset_of!(EngineCounters, received)));
        counters.sent = at(place(std::mem::offset_of!(EngineCounters, sent)));
        counters.foreign = at(place(std::mem::offset_of!(EngineCounters, foreign)));
        let drops = place(std::mem::offset_of!(EngineCounters, drops));
        for (index, drop) in counters.drops.iter_mut().enumerate() {
            *drop = at(drops + index);
        }
        let notes = place(std::mem::offset_of!(EngineCounters, notes));
        for (index, note) in counters.notes.iter_mut().enumerate() {
            *note = at(notes + index);
        }
        counters
    }

    /// Whether the engine still runs.
    pub fn is_running(&self) -> bool {
        self.launch.as_ref().is_some_and(|one| !one.is_finished())
    }

    /// Stops the engine and waits for its end.
    ///
    /// # Errors
    /// [`Error::Ended`] if it had ended by itself, [`Error::Executor`] if it does not end in time.
    pub fn stop(mut self, deadline: Duration) -> Result<EngineCounters, Error> {
        let counters = self.counters();
        if let Some(launch) = self.launch.take() {
            launch.stop();
            if let Some(cause) = launch.join(deadline)?.cause() {
                return Err(Error::Ended { cause });
            }
        }
        Ok(counters)
    }
}

/// In the host's table of keys: the place is taken.
const IN_USE: u32 = 1 << 31;
