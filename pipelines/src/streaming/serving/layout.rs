//! What device code serves, in memory.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpwire_core::serving::{Seat, ServeBlock, ServeCounters, Service, Stand};
use warpwire_engine::streams::tables::AcceptBlock;
use warpwire_gpu::Arena;
use warpwire_gpu::arena::ArenaError;
use warpwire_protocols::stream::http::Limits;
use warpwire_ring::{DeviceAddress, Location};

use super::super::places::{Places, Tables};
use super::Application;

/// The memory of a server.
pub(super) struct Layout {
    pub(super) arena: Arc<Arena>,
    /// [`ServeBlock`]s, one for each engine of the endpoint.
    pub(super) blocks: DeviceAddress,
    pub(super) each: Vec<Laid>,
}

/// What the host looks at of a block.
pub(super) struct Laid {
    seats: DeviceAddress,
    counters: DeviceAddress,
    places: u32,
    pub(super) pairs: Option<Pairs>,
}

/// Where the host says what is to be spliced.
#[derive(Clone, Copy)]
pub(super) struct Pairs {
    block: DeviceAddress,
    entries: DeviceAddress,
}

/// What a seat says of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seated {
    pub(super) place: u32,
    pub(super) generation: u32,
    /// Bytes that came, and bytes that were written.
    pub(super) moved: (u64, u64),
}

impl Layout {
    /// Lays out a server for the streams of an endpoint that these listeners accept. `epoch_ns` is
    /// from 1970 to the zero of the clock, or all ones.
    pub(super) fn new(
        tables: &Tables,
        listeners: &[u32],
        application: &Application,
        epoch_ns: u64,
    ) -> Result<Self, ArenaError> {
        let bytes: usize = tables.all().map(size).sum();
        let arena = Arc::new(Arena::new(bytes + PATTERN_BYTES + 8192, Location::Device)?);
        let pattern = match application {
            Application::Source { .. } => arena.place_all(&pattern())?.address,
            _ => DeviceAddress::NULL,
        };
        let (mut blocks, mut each) = (Vec::new(), Vec::new());
        for places in tables.all() {
            let accepted = |listener: u32| match listeners.contains(&listener) {
                true => places.accept_block(listener as usize).value(),
                false => 0,
            };
            // Streams that are spliced are accepted by the host.
            let accepts = match application {
                Application::Splice { .. } => DeviceAddress::NULL,
                _ => {
                    let rings: Vec<u64> = (0..places.listeners).map(accepted).collect();
                    arena.place_all(&rings)?.address
                }
            };
            let pairs = match application {
                Application::Splice { .. } => Some(Pairs::lay_out(&arena)?),
                _ => None,
            };
            let seats = u64::from(places.connections) * size_of::<Seat>() as u64;
            let laid = Laid {
                seats: arena.allocate(seats, 128)?.address,
                counters: arena.place(ServeCounters::default())?.address,
                places: places.connections,
                pairs,
            };
            let table = places.block(accepts);
            blocks.push(ServeBlock {
                table: arena.place(table)?.address,
                seats: laid.seats,
                counters: laid.counters,
                site: match application {
                    Application::Http(site) => site.block,
                    _ => DeviceAddress::NULL,
                },
                pattern,
                pattern_bytes: PATTERN_BYTES as u32,
                pattern_period: PATTERN as u32,
                source_bytes: match application {
                    Application::Source { bytes } => bytes.unwrap_or(u64::MAX),
                    _ => 0,
                },
                epoch_ns,
                limits: Limits::default(),
                pairs: laid.pairs.map_or(DeviceAddress::NULL, |pairs| pairs.block),
                share: SHARE,
                most: MOST,
                service: application.service() as u32,
                reserved: 0,
            });
            each.push(laid);
        }
        Ok(Self {
            blocks: arena.place_all(&blocks)?.address,
            arena,
            each,
        })
    }

    /// What was counted so far, of all blocks.
    pub(super) fn counters(&self) -> ServeCounters {
        let at = |offset: usize| {
            let words = self.each.iter().map(|laid| {
                let word = self.arena.word(laid.counters.offset(offset as u64));
                word.map_or(0, |word| word.load(Ordering::Relaxed))
            });
            words.sum()
        };
        let mut counters = ServeCounters::default();
        macro_rules! read {
            ($($field:ident)*) => {
                $(counters.$field = at(offset_of!(ServeCounters, $field));)*
            };
        }
        read!(accepted ended broken came left turns held answers refusals);
        counters
    }

    /// The streams of a block that are served.
    pub(super) fn seated(&self, laid: &Laid) -> Result<Vec<Seated>, ArenaError> {
        let mut seated = Vec::new();
        for place in 0..laid.places {
            let seat = laid
                .seats
                .offset(u64::from(place) * size_of::<Seat>() as u64);
            let word = |offset: usize| self.arena.word(seat.offset(offset as u64));
            let generation = seat.offset(offset_of!(Stand, generation) as u64);
            let generation = self.arena.half_word(generation)?.load(Ordering::Relaxed);
            if generation != 0 {
                seated.push(Seated {
                    place,
                    generation,
                    moved: (
                        word(offset_of!(Stand, came))?.load(Ordering::Relaxed),
                        word(offset_of!(Stand, went))?.load(Ordering::Relaxed),
                    ),
                });
            }
        }
        Ok(seated)
    }
}

impl Pairs {
    fn lay_out(arena: &Arena) -> Result<Self, ArenaError> {
        let entries = arena.allocate(u64::from(PAIR_NAMES) * 8, 128)?.address;
        let block = AcceptBlock {
            written: 0,
            depth: PAIR_NAMES,
            entries,
            reserved: [0; 28],
            read: 0,
            reserved_read: [0; 31],
        };
        let block = arena.place(block)?.address;
        Ok(Self { block, entries })
    }

    /// Says that two streams of the block, by place and generation, are to be spliced. No if there
    /// is no room to say so now.
    pub(super) fn push(self, arena: &Arena, names: [(u32, u32); 2]) -> Result<bool, ArenaError> {
        let word = |offset: usize| arena.half_word(self.block.offset(offset as u64));
        let written = word(offset_of!(AcceptBlock, written))?;
        let next = written.load(Ordering::Relaxed);
        // pairs with: the kernel's release after it read an entry.
        let read = word(offset_of!(AcceptBlock, read))?.load(Ordering::Acquire);
        if next.wrapping_sub(read) > PAIR_NAMES - 2 {
            return Ok(false);
        }
        for ((place, generation), at) in names.into_iter().zip(next..) {
            let entry = u64::from(generation) << 32 | u64::from(place);
            let slot = self.slot(arena, at)?;
            slot.store(entry, Ordering::Relaxed);
        }
        // pairs with: the kernel's acquire before it reads the entries.
        written.store(next.wrapping_add(2), Ordering::Release);
        Ok(true)
    }

    /// Takes back those that no kernel takes any more: place and generation each.
    pub(super) fn take_back(self, arena: &Arena) -> Result<Vec<(u32, u32)>, ArenaError> {
        let word = |offset: usize| arena.half_word(self.block.offset(offset as u64));
        let written = word(offset_of!(AcceptBlock, written))?.load(Ordering::Relaxed);
        let read = word(offset_of!(AcceptBlock, read))?;
        let mut names = Vec::new();
        let mut at = read.load(Ordering::Relaxed);
        while at != written && names.len() < PAIR_NAMES as usize {
            let entry = self.slot(arena, at)?.load(Ordering::Relaxed);
            names.push((entry as u32, (entry >> 32) as u32));
            at = at.wrapping_add(1);
        }
        read.store(written, Ordering::Relaxed);
        Ok(names)
    }

    fn slot(self, arena: &Arena, at: u32) -> Result<&std::sync::atomic::AtomicU64, ArenaError> {
        let slot = u64::from(at % PAIR_NAMES);
        arena.word(self.entries.offset(slot * 8))
    }
}

impl Application {
    const fn service(&self) -> Service {
        match self {
            Self::Echo => Service::Echo,
            Self::Discard => Service::Discard,
            Self::Source { .. } => Service::Source,
            Self::Http(_) => Service::Http,
            Self::Splice { .. } => Service::Splice,
        }
    }
}

/// Bytes for a engine of the endpoint, with room for alignment.
fn size(places: &Places) -> usize {
    places.connections as usize * size_of::<Seat>()
        + places.listeners as usize * 8
        + PAIR_NAMES as usize * 8
        + size_of::<ServeBlock>()
        + size_of::<ServeCounters>()
        + 4096
}

fn pattern() -> Vec<u8> {
    (0..PATTERN_BYTES).map(|at| (at % PATTERN) as u8).collect()
}

/// Bytes after which the pattern of a source begins again.
const PATTERN: usize = 251;
/// Bytes of the pattern, many times.
const PATTERN_BYTES: usize = PATTERN * 64;
/// Names in a ring of pairs; a power of two.
const PAIR_NAMES: u32 = 128;
/// Bytes that a stream may have read and written before others have their turn.
const SHARE: u32 = 1 << 16;
/// Streams that are looked at in a turn.
const MOST: u32 = 64;
