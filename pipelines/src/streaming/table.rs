//! The memory of an endpoint of streams, laid out once.
#![expect(
    unsafe_code,
    reason = "naming bitmaps carries the promise that they are live"
)]

use std::mem::offset_of;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use warpwire_device::COPY_AT;
use warpwire_engine::streams::Bits;
use warpwire_engine::streams::tables::{
    ADDRESSES, AcceptBlock, Address, CommandSlot, ConnectionBlock, LAYOUT, ListenerBlock, Standing,
    StreamBlock, StreamCounters, StreamWords, TRUST_META,
};
use warpwire_gpu::Arena;
use warpwire_gpu::arena::ArenaError;
use warpwire_nic::{Caps, Features, QueuePair as Rings};
use warpwire_protocols::checksum::Policy;
use warpwire_protocols::tcp::{Config as TcpConfig, Listener as TcpListener, Secret};
use warpwire_ring::{DeviceAddress, Location};

use super::settings::StreamConfig;
use crate::copies::CopyRing;

/// The tables of an endpoint.
pub(super) struct Table {
    /// What all but the rings of streams lie in.
    pub(super) arena: Arc<Arena>,
    /// What the rings of streams lie in.
    pub(super) chunks: Arc<Arena>,
    /// The [`StreamBlock`].
    pub(super) block: DeviceAddress,
    words: DeviceAddress,
    counters: DeviceAddress,
    /// The [`CommandSlot`]s.
    pub(super) commands: DeviceAddress,
    /// The [`AcceptBlock`]s' entries, a listener each.
    pub(super) accepts: Vec<AcceptPlaces>,
    /// Frames for the host.
    pub(super) slow: CopyRing,
    /// Frames of the host.
    pub(super) inject: CopyRing,
    /// Applications did something.
    pub(super) asked: Bits,
    /// The engine did something.
    pub(super) told: Bits,
    pub(super) connections: u32,
    /// Handshakes of a listener.
    pub(super) backlog: u32,
}

/// What the host needs of a ring of accepted connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct AcceptPlaces {
    block: DeviceAddress,
    entries: DeviceAddress,
    depth: u32,
}

impl Table {
    /// Lays out the memory of an endpoint over one pair of rings.
    pub(super) fn lay_out(
        rings: &Rings,
        caps: &Caps,
        config: &StreamConfig,
    ) -> Result<Self, ArenaError> {
        let arena = Arc::new(Arena::new(bytes(config), Location::PageableHost)?);
        let chunk_count = config.open * 2;
        let chunk_bytes = u64::from(chunk_count) * u64::from(config.ring_bytes);
        let chunks = Arc::new(Arena::new(chunk_bytes as usize + 4096, Location::Device)?);
        let connections = config.connections;
        let line = |bytes: u64| Ok::<_, ArenaError>(arena.allocate(bytes, 128)?.address);
        let row = |count: u32, bytes: usize| line(u64::from(count) * bytes as u64);
        let bitmap = |count: u32| line(Bits::bytes(count));
        let words = row(connections, size_of::<StreamWords>())?;
        let (accepts, listeners) = listeners(&arena, config)?;
        let slow = copies(&arena, SLOW_FRAMES, slot_bytes(u32::from(config.mtu)))?;
        let inject = copies(&arena, INJECTED, slot_bytes(u32::from(config.mtu)))?;
        let counters = arena.place(StreamCounters::default())?.address;
        let commands = row(COMMANDS, size_of::<CommandSlot>())?;
        let (asked, told) = (
            bitmap(connections)?,
            bitmap(connections + config.listeners)?,
        );
        let configs: [TcpConfig; 2] = [false, true].map(|is_six| config.of_version(is_six));
        let downwards = |count: u32| (0..count).rev().collect::<Vec<u32>>();
        let block = StreamBlock {
            receive: rings.receive,
            transmit: rings.transmit,
            layout: LAYOUT,
            connections: row(connections, size_of::<ConnectionBlock>())?,
            words,
            buckets: row(buckets(config), 4)?,
            listeners: arena.place_all(&listeners)?.address,
            configs: arena.place_all(&configs)?.address,
            chunks: chunks.allocate(chunk_bytes, 4096)?.address,
            free_chunks: aligned(&arena, &downwards(chunk_count))?,
            free_places: aligned(&arena, &downwards(connections))?,
            asked,
            told,
            ready: bitmap(connections)?,
            deadlines: aligned(&arena, &vec![u64::MAX; connections as usize])?,
            commands,
            slow: slow.block,
            inject: inject.block,
            mirror: DeviceAddress::NULL,
            counters,
            standing: arena
                .place(Standing::new(connections, chunk_count))?
                .address,
            secret: config.secret,
            connection_count: connections,
            bucket_count: buckets(config),
            listener_count: config.listeners,
            config_count: configs.len() as u32,
            chunk_count,
            chunk_bytes: config.ring_bytes,
            command_count: COMMANDS,
            share: config.share,
            policy: policy(caps),
            offloads: 0,
            resets_a_second: config.resets_a_second,
            address_count: config.addresses.len().min(ADDRESSES) as u32,
            addresses: addresses(config),
        };
        let block = arena.place(block)?.address;
        Ok(Self {
            // SAFETY: zeros of the arena of that size, which `Table` keeps; touched as bits alone.
            asked: unsafe { Bits::attach(asked, connections) },
            // SAFETY: as above.
            told: unsafe { Bits::attach(told, connections + config.listeners) },
            backlog: config.backlog,
            arena,
            chunks,
            block,
            words,
            counters,
            commands,
            accepts,
            slow,
            inject,
            connections,
        })
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
        word.map_or(0, |word| word.load(std::sync::atomic::Ordering::Relaxed))
    }

    /// Takes the oldest connection that waits to be accepted: place and generation.
    pub(super) fn accept(&self, listener: usize) -> Result<Option<(u32, u32)>, ArenaError> {
        use std::sync::atomic::Ordering;
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

/// The words of an address: IPv4 in the first, in the order of the host.
pub(super) fn address_words(address: IpAddr) -> Address {
    match address {
        IpAddr::V4(address) => Address {
            words: [u32::from(address), 0, 0, 0],
            ip_version: 4,
        },
        IpAddr::V6(address) => {
            let whole = u128::from(address);
            Address {
                words: [96, 64, 32, 0].map(|shift| (whole >> shift) as u32),
                ip_version: 6,
            }
        }
    }
}

fn addresses(config: &StreamConfig) -> [Address; ADDRESSES] {
    let mut all = [Address::default(); ADDRESSES];
    for (slot, own) in all.iter_mut().zip(&config.addresses) {
        *slot = address_words(own.address);
    }
    all
}

fn listeners(
    arena: &Arena,
    config: &StreamConfig,
) -> Result<(Vec<AcceptPlaces>, Vec<ListenerBlock>), ArenaError> {
    let (mut places, mut blocks) = (Vec::new(), Vec::new());
    // One at least, so that the table lies somewhere.
    for _ in 0..config.listeners.max(1) {
        let depth = accepts(config);
        let entries = arena.allocate(u64::from(depth) * 8, 128)?.address;
        let block = arena.place(AcceptBlock {
            written: 0,
            depth,
            entries,
            reserved: [0; 28],
            read: 0,
            reserved_read: [0; 31],
        })?;
        let block = block.address;
        places.push(AcceptPlaces {
            block,
            entries,
            depth,
        });
        blocks.push(ListenerBlock {
            listener: TcpListener::new(Secret([0; 2]), 0),
            address: Address::default(),
            port: 0,
            config: 0,
            backlog: 0,
            accepts: block,
        });
    }
    Ok((places, blocks))
}

fn copies(arena: &Arc<Arena>, depth: u32, slot_bytes: u32) -> Result<CopyRing, ArenaError> {
    let bytes = u64::from(depth) * u64::from(slot_bytes);
    let slots = arena.allocate(bytes, 128)?.address;
    let block = CopyRing::block(slots, depth, slot_bytes);
    Ok(CopyRing {
        arena: Arc::clone(arena),
        block: arena.place(block)?.address,
        slots_arena: Arc::clone(arena),
        slots,
        depth,
        slot_bytes,
    })
}

fn aligned<T: Copy>(arena: &Arena, values: &[T]) -> Result<DeviceAddress, ArenaError> {
    // A piece of no bytes moves the arena on to a line.
    arena.allocate(0, 128)?;
    Ok(arena.place_all(values)?.address)
}

/// What is done about checksums of what comes.
fn policy(caps: &Caps) -> u32 {
    let partial = caps.features.contains(Features::RX_PARTIAL_CHECKSUM);
    let policy = match partial {
        true => Policy::AcceptPartial,
        false => Policy::Verify,
    };
    let meta = match caps.features.contains(Features::RX_CHECKSUM) {
        true => TRUST_META,
        false => 0,
    };
    policy as u32 | meta
}

/// Connections of a port that can wait to be accepted: handshakes under way have a place each, and
/// were there no more, a full backlog would leave none for whom a cookie brings.
const fn accepts(config: &StreamConfig) -> u32 {
    config.backlog * 2
}

const fn buckets(config: &StreamConfig) -> u32 {
    (config.connections * 2).next_power_of_two()
}

/// Bytes of the slot of a copy: a frame of the MTU, with tags.
const fn slot_bytes(mtu: u32) -> u32 {
    (COPY_AT + mtu + 14 + 8).next_multiple_of(128)
}

/// Bytes of everything but the rings of streams, with room for alignment.
fn bytes(config: &StreamConfig) -> usize {
    let place = size_of::<ConnectionBlock>() + size_of::<StreamWords>() + 4 + 8 + 4;
    let listener =
        size_of::<ListenerBlock>() + size_of::<AcceptBlock>() + accepts(config) as usize * 8 + 256;
    let copies = (SLOW_FRAMES + INJECTED) as usize * slot_bytes(u32::from(config.mtu)) as usize;
    config.connections as usize * (place + 4)
        + buckets(config) as usize * 4
        + config.open as usize * 8
        + (config.listeners.max(1)) as usize * listener
        + copies
        + COMMANDS as usize * size_of::<CommandSlot>()
        + 3 * Bits::bytes(config.connections + config.listeners) as usize
        + size_of::<StreamBlock>()
        + size_of::<StreamCounters>()
        + 16384
}

/// Slots for commands.
pub(super) const COMMANDS: u32 = 64;
/// Frames that wait for the host at most.
const SLOW_FRAMES: u32 = 256;
/// Frames of the host that wait to be sent.
const INJECTED: u32 = 64;
