//! What host and engine share of streams, whatever carries them: words, bitmaps, and rings of those
//! that wait to be accepted.
#![expect(
    unsafe_code,
    reason = "naming bitmaps carries the promise that they are live"
)]

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use warpwire_core::streaming::TableBlock;
use warpwire_engine::streams::Bits;
use warpwire_engine::streams::tables::{AcceptBlock, StreamCounters, StreamWords};
use warpwire_gpu::Arena;
use warpwire_gpu::arena::ArenaError;
use warpwire_ring::DeviceAddress;

/// The places of an endpoint.
#[derive(Clone)]
pub(super) struct Places {
    /// What all of this lies in.
    pub(super) arena: Arc<Arena>,
    /// What the rings of streams lie in.
    pub(super) chunks: Arc<Arena>,
    /// The [`StreamWords`].
    pub(super) words: DeviceAddress,
    /// The [`StreamCounters`].
    pub(super) counters: DeviceAddress,
    /// The bitmaps, as an engine's block names them.
    pub(super) bitmaps: [DeviceAddress; 2],
    /// Applications did something.
    pub(super) asked: Bits,
    /// The engine did something.
    pub(super) told: Bits,
    /// A listener each.
    accepts: Vec<AcceptPlaces>,
    pub(super) connections: u32,
    /// Listeners.
    pub(super) listeners: u32,
    /// The [`TableBlock`] for kernels that use the streams.
    pub(super) table: DeviceAddress,
}

/// The places of all blocks of an endpoint under one row of numbers: those of a block follow those
/// of the block before it, and listeners, which all blocks have, follow all places.
pub(super) struct Tables {
    first: Places,
    others: Vec<Places>,
    /// Whose turn it is to have a connection accepted.
    turn: AtomicUsize,
}

/// What the host needs of a ring of accepted connections.
#[derive(Clone, Copy, Debug)]
struct AcceptPlaces {
    block: DeviceAddress,
    entries: DeviceAddress,
    depth: u32,
}

impl Places {
    /// Lays out places for so many connections and listeners, each with `accepts` that may wait.
    pub(super) fn lay_out(
        arena: &Arc<Arena>,
        chunks: &Arc<Arena>,
        (connections, listeners, accepts): (u32, u32, u32),
    ) -> Result<Self, ArenaError> {
        let line = |bytes: u64| Ok::<_, ArenaError>(arena.allocate(bytes, 128)?.address);
        let bytes = u64::from(connections) * size_of::<StreamWords>() as u64;
        let numbers = connections + listeners;
        let asked = line(Bits::bytes(connections))?;
        let told = line(Bits::bytes(numbers))?;
        let words = line(bytes)?;
        let counters = arena.place(StreamCounters::default())?.address;
        // One at least, so that the rings lie somewhere.
        let count = listeners.max(1) as usize;
        let (mut blocks, mut places) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let entries = line(u64::from(accepts) * 8)?;
            blocks.push(AcceptBlock {
                written: 0,
                depth: accepts,
                entries,
                reserved: [0; 28],
                read: 0,
                reserved_read: [0; 31],
            });
        }
        let first = arena.place_all(&blocks)?.address;
        for (index, block) in blocks.iter().enumerate() {
            places.push(AcceptPlaces {
                block: first.offset((index * size_of::<AcceptBlock>()) as u64),
                entries: block.entries,
                depth: accepts,
            });
        }
        let rings: Vec<u64> = places.iter().map(|ring| ring.block.value()).collect();
        let accept_rings = arena.place_all(&rings)?.address;
        let mut laid = Self {
            table: DeviceAddress::NULL,
            arena: Arc::clone(arena),
            chunks: Arc::clone(chunks),
            words,
            counters,
            bitmaps: [asked, told],
            // SAFETY: zeros of the arena of that size, which is kept; touched as bits alone.
            asked: unsafe { Bits::attach(asked, connections) },
            // SAFETY: as above.
            told: unsafe { Bits::attach(told, numbers) },
            accepts: places,
            connections,
            listeners,
        };
        laid.table = arena.place(laid.block(accept_rings))?.address;
        Ok(laid)
    }

    /// The streams, for kernels that use them, with these rings of accepted ones.
    pub(super) fn block(&self, accepts: DeviceAddress) -> TableBlock {
        let [asked, told] = self.bitmaps;
        TableBlock {
            header: TableBlock::HEADER,
            words: self.words,
            asked,
            told,
            accepts,
            heartbeat: DeviceAddress::NULL,
            stale_ns: 0,
            place_count: self.connections,
            listener_count: self.listeners,
        }
    }

    /// Bytes that this takes, with room for alignment.
    pub(super) fn size(connections: u32, listeners: u32, accepts: u32) -> usize {
        let listener = size_of::<AcceptBlock>() + accepts as usize * 8 + 256 + 8;
        connections as usize * size_of::<StreamWords>()
            + listeners.max(1) as usize * listener
            + 2 * Bits::bytes(connections + listeners) as usize
            + size_of::<StreamCounters>()
            + 4096
    }

    /// The [`AcceptBlock`] of a listener.
    pub(super) fn accept_block(&self, listener: usize) -> DeviceAddress {
        let places = self.accepts.get(listener);
        places.map_or(DeviceAddress::NULL, |places| places.block)
    }

    /// A word of a stream, by its offset in [`StreamWords`].
    pub(super) fn word(&self, place: u32, offset: usize) -> Result<&AtomicU32, ArenaError> {
        self.arena.half_word(self.word_at(place, offset))
    }

    /// A word of 64 bits of a stream.
    pub(super) fn long(&self, place: u32, offset: usize) -> Result<&AtomicU64, ArenaError> {
        self.arena.word(self.word_at(place, offset))
    }

    /// Bytes of a stream's words.
    pub(super) fn bytes<const N: usize>(
        &self,
        place: u32,
        offset: usize,
    ) -> Result<[u8; N], ArenaError> {
        let mut bytes = [0; N];
        self.arena.read(self.word_at(place, offset), &mut bytes)?;
        Ok(bytes)
    }

    fn word_at(&self, place: u32, offset: usize) -> DeviceAddress {
        let offset = u64::from(place) * size_of::<StreamWords>() as u64 + offset as u64;
        self.words.offset(offset)
    }

    /// A counter, by its offset in [`StreamCounters`].
    pub(super) fn counter(&self, offset: usize) -> u64 {
        let word = self.arena.word(self.counters.offset(offset as u64));
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Takes the oldest connection that waits to be accepted: place and generation.
    pub(super) fn accept(&self, listener: usize) -> Result<Option<(u32, u32)>, ArenaError> {
        let Some(places) = self.accepts.get(listener) else {
            return Ok(None);
        };
        let word = |offset: usize| self.arena.half_word(places.block.offset(offset as u64));
        let read = word(offset_of!(AcceptBlock, read))?;
        // pairs with: the engine's release of an entry.
        let written = word(offset_of!(AcceptBlock, written))?.load(Ordering::Acquire);
        let index = read.load(Ordering::Relaxed);
        if written == index {
            return Ok(None);
        }
        let slot = u64::from(index & (places.depth - 1));
        let entry = self.arena.word(places.entries.offset(slot * 8))?;
        let entry = entry.load(Ordering::Relaxed);
        // pairs with: the engine's acquire before it writes an entry again.
        read.store(index.wrapping_add(1), Ordering::Release);
        Ok(Some((entry as u32, (entry >> 32) as u32)))
    }
}

impl Tables {
    /// The places of a first block, and of others, which have as many each.
    pub(super) const fn new(first: Places, others: Vec<Places>) -> Self {
        Self {
            first,
            others,
            turn: AtomicUsize::new(0),
        }
    }

    /// Places of all blocks.
    pub(super) fn connections(&self) -> u32 {
        self.first.connections * (1 + self.others.len() as u32)
    }

    /// The places of every block.
    pub(super) fn all(&self) -> impl Iterator<Item = &Places> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The places of a block.
    pub(super) fn block(&self, block: usize) -> Option<&Places> {
        self.all().nth(block)
    }

    /// The block of a place, and its number there.
    fn at(&self, place: u32) -> (&Places, u32) {
        let each = self.first.connections.max(1);
        let other = (place / each).checked_sub(1);
        let other = other.and_then(|other| self.others.get(other as usize));
        other.map_or((&self.first, place), |other| (other, place % each))
    }

    /// The block of a place, and its number there.
    pub(super) fn split(&self, place: u32) -> (usize, u32) {
        let each = self.first.connections.max(1);
        ((place / each) as usize, place % each)
    }

    /// The number of a place of a block among all.
    pub(super) fn place(&self, block: usize, place: u32) -> u32 {
        block as u32 * self.first.connections + place
    }

    /// See [`Places::word`].
    pub(super) fn word(&self, place: u32, offset: usize) -> Result<&AtomicU32, ArenaError> {
        let (block, place) = self.at(place);
        block.word(place, offset)
    }

    /// See [`Places::long`].
    pub(super) fn long(&self, place: u32, offset: usize) -> Result<&AtomicU64, ArenaError> {
        let (block, place) = self.at(place);
        block.long(place, offset)
    }

    /// See [`Places::bytes`].
    pub(super) fn bytes<const N: usize>(
        &self,
        place: u32,
        offset: usize,
    ) -> Result<[u8; N], ArenaError> {
        let (block, place) = self.at(place);
        block.bytes(place, offset)
    }

    /// The application of a place did something.
    pub(super) fn ask(&self, place: u32) {
        let (block, place) = self.at(place);
        block.asked.set(place);
    }

    /// Calls `each` with the number of every place and listener of which the engine did something.
    pub(super) fn drain_told(&self, mut each: impl FnMut(u32)) {
        let all = self.connections();
        for (index, block) in self.all().enumerate() {
            block
                .told
                .drain(|number| match number.checked_sub(block.connections) {
                    None => each(self.place(index, number)),
                    Some(listener) => each(all + listener),
                });
        }
    }

    /// A counter of all blocks together, by its offset in [`StreamCounters`].
    pub(super) fn counter(&self, offset: usize) -> u64 {
        self.all().map(|block| block.counter(offset)).sum()
    }

    /// Takes the oldest connection of some block that waits to be accepted: place and generation.
    pub(super) fn accept(&self, listener: usize) -> Result<Option<(u32, u32)>, ArenaError> {
        let count = 1 + self.others.len();
        let turn = self.turn.load(Ordering::Relaxed);
        for index in (0..count).map(|step| (turn + step) % count) {
            let block = index
                .checked_sub(1)
                .and_then(|other| self.others.get(other));
            let block = block.unwrap_or(&self.first);
            if let Some((place, generation)) = block.accept(listener)? {
                self.turn.store((index + 1) % count, Ordering::Relaxed);
                return Ok(Some((self.place(index, place), generation)));
            }
        }
        Ok(None)
    }
}

/// The offset of the words' generation.
pub(super) const GENERATION: usize = offset_of!(StreamWords, generation);
