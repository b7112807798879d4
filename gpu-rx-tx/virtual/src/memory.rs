//! Memory of the launch, of its blocks and of the module, and the one place where addresses become
//! accesses of the host.
#![expect(
    unsafe_code,
    reason = "the one place where addresses become accesses of the host"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use warpwire_gpu::Arena;
use warpwire_gpu::arena::ArenaError;
use warpwire_ring::Location;

use crate::fault::Reason;
use crate::module::{Space, Tables, Update};
use crate::stack::{Stack, outside};

/// What an access or a fence is ordered with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// Nothing; others must not access at the same time.
    Weak,
    /// Nothing; never left out or torn.
    Volatile,
    /// Memory of a device: never left out, torn or done twice.
    Mmio,
    /// Nothing.
    Relaxed,
    /// What comes after.
    Acquire,
    /// What came before.
    Release,
    /// Both.
    AcquireRelease,
    /// Both, and all of the same kind stand in one order.
    Sequential,
}

/// Whom an order holds for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Scope {
    /// The block.
    Cta,
    /// The cluster of blocks.
    Cluster,
    /// The GPU.
    Gpu,
    /// Everybody.
    Sys,
}

impl Order {
    fn of_load(self) -> Ordering {
        match self {
            Self::Weak | Self::Volatile | Self::Mmio | Self::Relaxed => Ordering::Relaxed,
            Self::Acquire => Ordering::Acquire,
            _ => Ordering::SeqCst,
        }
    }

    fn of_store(self) -> Ordering {
        match self {
            Self::Weak | Self::Volatile | Self::Mmio | Self::Relaxed => Ordering::Relaxed,
            Self::Release => Ordering::Release,
            _ => Ordering::SeqCst,
        }
    }

    /// With success, and without.
    fn of_update(self) -> (Ordering, Ordering) {
        match self {
            Self::Weak | Self::Volatile | Self::Mmio | Self::Relaxed => {
                (Ordering::Relaxed, Ordering::Relaxed)
            }
            Self::Acquire => (Ordering::Acquire, Ordering::Acquire),
            Self::Release => (Ordering::Release, Ordering::Relaxed),
            Self::AcquireRelease => (Ordering::AcqRel, Ordering::Acquire),
            Self::Sequential => (Ordering::SeqCst, Ordering::SeqCst),
        }
    }
}

/// A fence of at least the strength of `order`.
pub(crate) fn order(order: Order) {
    fence(match order {
        Order::Sequential => Ordering::SeqCst,
        _ => Ordering::AcqRel,
    });
}

/// What all warps of a launch share: where there is memory.
#[derive(Debug)]
pub(crate) struct Regions {
    /// Where the arenas below start, and their bytes.
    spans: Vec<(u64, u64)>,
    _arenas: Vec<Arc<Arena>>,
    tables: Arena,
    writable_from: u64,
}

impl Regions {
    /// The arenas of a launch, and a copy of the module's tables.
    pub(crate) fn new(arenas: &[Arc<Arena>], tables: &Tables) -> Result<Self, ArenaError> {
        let memory = Arena::new(tables.bytes.len(), Location::Device)?;
        memory.write(memory.whole().address, &tables.bytes)?;
        let wholes = arenas.iter().map(|arena| arena.whole());
        Ok(Self {
            spans: wholes
                .map(|whole| (whole.address.value(), whole.length))
                .collect(),
            _arenas: arenas.to_vec(),
            tables: memory,
            writable_from: tables.writable_from,
        })
    }

    /// Whether `bytes` bytes at a global address lie in one of the arenas; `recent` is the one to
    /// look into first.
    #[inline(always)]
    fn hold(&self, recent: &mut usize, at: u64, bytes: u64) -> bool {
        let inside = |&(start, length): &(u64, u64)| {
            let offset = at.wrapping_sub(start);
            offset < length && length - offset >= bytes
        };
        if self.spans.get(*recent).is_some_and(inside) {
            return true;
        }
        match self.spans.iter().position(inside) {
            Some(found) => *recent = found,
            None => return false,
        }
        true
    }
}

/// The memory of one block.
#[derive(Debug)]
pub(crate) struct Shared {
    arena: Arena,
    bytes: u64,
}

impl Shared {
    pub(crate) fn new(bytes: u64) -> Result<Self, ArenaError> {
        let arena = Arena::new(bytes as usize, Location::Device)?;
        Ok(Self { arena, bytes })
    }
}

/// All memory that one warp sees.
#[derive(Debug)]
pub(crate) struct Memory {
    regions: Arc<Regions>,
    shared: Arc<Shared>,
    pub(crate) stack: Stack,
    /// Bytes of the stack that frames take.
    pub(crate) top: u64,
    /// The arena that was accessed last.
    recent: usize,
}

/// Where an address leads: made by [`Memory::resolve`] alone, so that it stands for memory that is
/// there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    place: Place,
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// The host's address of memory, and the space that it stands for.
    Host(Space, u64),
    /// An offset into the lane's stack.
    Stack(u64),
}

impl Spot {
    /// The space, and the address that observers and counters know it by.
    pub(crate) fn known_as(self) -> (Space, u64) {
        match self.place {
            Place::Host(space, address) => (space, address),
            Place::Stack(offset) => (Space::Local, offset),
        }
    }

    /// Element `index` of a vector of elements of `bytes` bytes, a power of two; the last one
    /// stands for those behind the end.
    #[inline(always)]
    pub(crate) fn element(self, index: usize, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        let offset = (index as u64 * bytes).min(self.bytes - bytes);
        let place = match self.place {
            Place::Host(space, address) => Place::Host(space, address + offset),
            Place::Stack(start) => Place::Stack(start + offset),
        };
        Self { place, bytes }
    }
}

impl Memory {
    pub(crate) fn new(regions: Arc<Regions>, shared: Arc<Shared>) -> Self {
        Self {
            regions,
            shared,
            stack: Stack::default(),
            top: 0,
            recent: 0,
        }
    }

    /// Where `bytes` bytes, a power of two, at an address of `space` lie, if they do.
    #[inline]
    pub(crate) fn resolve(
        &mut self,
        space: Space,
        address: u64,
        bytes: u64,
        writes: bool,
    ) -> Result<Spot, Reason> {
        if address & (bytes - 1) != 0 {
            return Err(Reason::Misaligned { address, bytes });
        }
        let offset = address & !WINDOW_MASK;
        let place = match (space, address & WINDOW_MASK) {
            (Space::Local | Space::Param, 0) | (Space::Generic, LOCAL_WINDOW) => {
                match offset < self.top && self.top - offset >= bytes {
                    true => Place::Stack(offset),
                    false => return Err(outside(offset, bytes)),
                }
            }
            (Space::Generic | Space::Global, 0) => {
                match self.regions.hold(&mut self.recent, address, bytes) {
                    true => Place::Host(Space::Global, address),
                    false => return Err(nowhere(address, bytes)),
                }
            }
            (Space::Shared, 0) | (Space::Generic, SHARED_WINDOW) => {
                self.in_shared(offset, bytes)?
            }
            (Space::Generic | Space::Global | Space::Const, TABLE_WINDOW) => {
                self.in_tables(offset, bytes, writes)?
            }
            _ => {
                return Err(Reason::OutOfBounds {
                    address,
                    bytes,
                    space,
                });
            }
        };
        Ok(Spot { place, bytes })
    }

    fn in_shared(&self, offset: u64, bytes: u64) -> Result<Place, Reason> {
        if offset >= self.shared.bytes || self.shared.bytes - offset < bytes {
            return Err(Reason::OutOfBounds {
                address: offset,
                bytes,
                space: Space::Shared,
            });
        }
        let host = self.shared.arena.whole().address.offset(offset);
        Ok(Place::Host(Space::Shared, host.value()))
    }

    fn in_tables(&self, offset: u64, bytes: u64, writes: bool) -> Result<Place, Reason> {
        let whole = self.regions.tables.whole();
        let address = TABLE_WINDOW | offset;
        if offset >= whole.length || whole.length - offset < bytes {
            return Err(Reason::OutOfBounds {
                address,
                bytes,
                space: Space::Global,
            });
        }
        let is_constant = offset < self.regions.writable_from;
        if writes && is_constant {
            return Err(Reason::ReadOnly { address, bytes });
        }
        let space = match is_constant {
            true => Space::Const,
            false => Space::Global,
        };
        Ok(Place::Host(space, whole.address.offset(offset).value()))
    }

    /// Loads what lies there: at most 8 bytes.
    #[inline]
    pub(crate) fn load(&self, lane: usize, spot: Spot, order: Order) -> Result<u64, Reason> {
        match spot.place {
            Place::Stack(offset) => self.stack.load(lane, offset, spot.bytes),
            Place::Host(_, at) => Ok(cell(at, spot.bytes).load(order.of_load())),
        }
    }

    /// Stores `value` there: at most 8 bytes.
    #[inline]
    pub(crate) fn store(
        &mut self,
        lane: usize,
        spot: Spot,
        value: u64,
        order: Order,
    ) -> Result<(), Reason> {
        match spot.place {
            Place::Stack(offset) => self.stack.store(lane, offset, spot.bytes, value)?,
            Place::Host(_, at) => cell(at, spot.bytes).store(value, order.of_store()),
        }
        Ok(())
    }

    /// Changes what lies there, as one step, and returns what was there: at most 8 bytes.
    pub(crate) fn update(
        &self,
        spot: Spot,
        order: Order,
        update: Update,
        (a, b): (u64, u64),
    ) -> Result<u64, Reason> {
        let Place::Host(_, at) = spot.place else {
            let (_, address) = spot.known_as();
            return Err(Reason::LocalAtomic { address });
        };
        let cell = cell(at, spot.bytes);
        let orders = order.of_update();
        Ok(match update {
            Update::Apply(f) => cell.update(orders, |old| Some(f(old, a))),
            Update::CompareExchange => cell.update(orders, |old| (old == a).then_some(b)),
        })
    }
}

/// A word of memory that others may access at the same time.
enum Cell<'a> {
    Byte(&'a AtomicU8),
    Half(&'a AtomicU16),
    Word(&'a AtomicU32),
    Long(&'a AtomicU64),
}

/// The word of `bytes` bytes at an address of the host that [`Memory::resolve`] returned.
///
/// The lifetime is that of one access: private to this module, whose only callers are methods of
/// the [`Memory`] that holds what the address leads to.
#[inline(always)]
fn cell<'a>(at: u64, bytes: u64) -> Cell<'a> {
    match bytes {
        // SAFETY: `resolve` found `bytes` bytes from here, aligned, in an arena that the launch
        // holds; all sharing with the host and other warps is through atomics.
        1 => Cell::Byte(unsafe { AtomicU8::from_ptr(at as *mut u8) }),
        // SAFETY: as above.
        2 => Cell::Half(unsafe { AtomicU16::from_ptr(at as *mut u16) }),
        // SAFETY: as above.
        4 => Cell::Word(unsafe { AtomicU32::from_ptr(at as *mut u32) }),
        // SAFETY: as above; there are no other sizes.
        _ => Cell::Long(unsafe { AtomicU64::from_ptr(at as *mut u64) }),
    }
}

macro_rules! updated {
    ($cell:expr, $type:ty, $order:expr, $f:expr) => {
        match $cell.fetch_update($order.0, $order.1, |old| {
            $f(u64::from(old)).map(|new| new as $type)
        }) {
            Ok(old) | Err(old) => u64::from(old),
        }
    };
}

impl Cell<'_> {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        match self {
            Self::Byte(cell) => u64::from(cell.load(order)),
            Self::Half(cell) => u64::from(cell.load(order)),
            Self::Word(cell) => u64::from(cell.load(order)),
            Self::Long(cell) => cell.load(order),
        }
    }

    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        match self {
            Self::Byte(cell) => cell.store(value as u8, order),
            Self::Half(cell) => cell.store(value as u16, order),
            Self::Word(cell) => cell.store(value as u32, order),
            Self::Long(cell) => cell.store(value, order),
        }
    }

    /// Puts `f` of the old value in its place, if `f` gives one; returns the old value.
    fn update(&self, order: (Ordering, Ordering), f: impl Fn(u64) -> Option<u64>) -> u64 {
        match self {
            Self::Byte(cell) => updated!(cell, u8, order, f),
            Self::Half(cell) => updated!(cell, u16, order, f),
            Self::Word(cell) => updated!(cell, u32, order, f),
            Self::Long(cell) => updated!(cell, u64, order, f),
        }
    }
}

fn nowhere(address: u64, bytes: u64) -> Reason {
    match address < 4096 {
        true => Reason::Null { address, bytes },
        false => Reason::OutOfBounds {
            address,
            bytes,
            space: Space::Global,
        },
    }
}

/// The bits of a generic address that tell windows apart. No address of the host has any of them.
pub(crate) const WINDOW_MASK: u64 = 0xf000_0000_0000_0000;
/// Local memory, of each lane its own.
pub(crate) const LOCAL_WINDOW: u64 = 0x2000_0000_0000_0000;
/// Memory of the block.
pub(crate) const SHARED_WINDOW: u64 = 0x3000_0000_0000_0000;
/// Tables of the module.
pub(crate) const TABLE_WINDOW: u64 = 0x4000_0000_0000_0000;
