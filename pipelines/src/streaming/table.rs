//! The memory of an endpoint of streams, laid out once.

use std::net::IpAddr;
use std::sync::Arc;

use warpwire_device::COPY_AT;
use warpwire_engine::streams::tables::{
    ADDRESSES, Address, CommandSlot, ConnectionBlock, LAYOUT, ListenerBlock, Standing, StreamBlock,
    TRUST_META,
};
use warpwire_engine::streams::{Bits, Board};
use warpwire_gpu::Arena;
use warpwire_gpu::arena::ArenaError;
use warpwire_gpu::executor::Control;
use warpwire_nic::{Caps, Features, QueuePair as Rings};
use warpwire_protocols::checksum::Policy;
use warpwire_protocols::tcp::{Config as TcpConfig, Listener as TcpListener, Secret};
use warpwire_ring::{DeviceAddress, Location};

use super::driver;
use super::error::Error;
use super::places::Places;
use super::settings::StreamConfig;
use crate::copies::CopyRing;

/// The tables of an endpoint.
pub(super) struct Table {
    /// What applications use.
    pub(super) places: Places,
    /// The block, which lies beside those of the other engines.
    pub(super) block: StreamBlock,
    /// The [`CommandSlot`]s.
    pub(super) commands: DeviceAddress,
    /// Frames for the host.
    pub(super) slow: CopyRing,
    /// Frames of the host.
    pub(super) inject: CopyRing,
    /// Segments that came to other pairs of rings; if there are any.
    pub(super) handed: Option<CopyRing>,
}

/// What the engines of an endpoint share.
pub(super) struct Family {
    pub(super) arena: Arc<Arena>,
    /// Engines of a pair of rings.
    pub(super) each: u32,
    /// Null for one pair of rings.
    homes: DeviceAddress,
    home_count: u32,
    /// Of each pair of rings, if several warps run its engines.
    boards: Vec<DeviceAddress>,
}

impl Family {
    /// Lays out what the engines over so many pairs of rings share, with room for their blocks and
    /// what names them.
    pub(super) fn lay_out(pairs: u32, config: &StreamConfig) -> Result<Self, ArenaError> {
        let each = driver::engines(config.warps);
        let engines = pairs * each;
        // Few connections should meet in one home.
        let most = u64::from(config.connections) * u64::from(engines) * 8;
        let home_count = most.next_power_of_two().min(1 << 22) as u32;
        let homes = if pairs > 1 {
            home_count as usize * 8
        } else {
            0
        };
        let has_boards = config.warps > 1;
        let board_count = if has_boards { pairs as usize } else { 0 };
        let bytes = homes
            + board_count * size_of::<Board>()
            + engines as usize * size_of::<StreamBlock>()
            + Control::bytes(pairs * config.warps) as usize
            + 8192;
        let arena = Arc::new(Arena::new(bytes, Location::PageableHost)?);
        let homes = match pairs {
            0 | 1 => DeviceAddress::NULL,
            _ => arena.allocate(homes as u64, 128)?.address,
        };
        let board = |_| {
            let bytes = size_of::<Board>() as u64;
            let board = arena.allocate(bytes, align_of::<Board>() as u64);
            Ok::<_, ArenaError>(board?.address)
        };
        let boards = (0..board_count).map(board).collect::<Result<_, _>>()?;
        Ok(Self {
            arena,
            each,
            homes,
            home_count,
            boards,
        })
    }

    /// The board of an engine.
    fn board(&self, number: u32) -> DeviceAddress {
        let board = self.boards.get((number / self.each.max(1)) as usize);
        board.copied().unwrap_or(DeviceAddress::NULL)
    }
}

impl Table {
    /// Lays out the memory of an engine over one pair of rings, the `number`-th of a family.
    pub(super) fn lay_out(
        rings: &Rings,
        caps: &Caps,
        config: &StreamConfig,
        family: &Family,
        number: u32,
    ) -> Result<Self, ArenaError> {
        let arena = Arc::new(Arena::new(bytes(config), Location::PageableHost)?);
        let chunk_count = config.open * 2;
        let chunk_bytes = u64::from(chunk_count) * u64::from(config.ring_bytes);
        let chunks = Arc::new(Arena::new(chunk_bytes as usize + 4096, Location::Device)?);
        let connections = config.connections;
        let line = |bytes: u64| Ok::<_, ArenaError>(arena.allocate(bytes, 128)?.address);
        let row = |count: u32, bytes: usize| line(u64::from(count) * bytes as u64);
        let bitmap = |count: u32| line(Bits::bytes(count));
        let numbers = (connections, config.listeners, accepts(config));
        let places = Places::lay_out(&arena, &chunks, numbers)?;
        let listeners = listeners(&places, config);
        let slow = copies(&arena, SLOW_FRAMES, slot_bytes(u32::from(config.mtu)))?;
        let inject = copies(&arena, INJECTED, slot_bytes(u32::from(config.mtu)))?;
        let handed = match family.homes.is_null() {
            true => None,
            false => Some(copies(
                &arena,
                HANDED_OVER,
                slot_bytes(u32::from(config.mtu)),
            )?),
        };
        let commands = row(COMMANDS, size_of::<CommandSlot>())?;
        let [asked, told] = places.bitmaps;
        let configs: [TcpConfig; 2] = [false, true].map(|is_six| config.of_version(is_six));
        let downwards = |count: u32| (0..count).rev().collect::<Vec<u32>>();
        let block = StreamBlock {
            receive: rings.receive,
            transmit: rings.transmit,
            layout: LAYOUT,
            connections: row(connections, size_of::<ConnectionBlock>())?,
            words: places.words,
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
            counters: places.counters,
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
            homes: family.homes,
            handed: handed
                .as_ref()
                .map_or(DeviceAddress::NULL, |ring| ring.block),
            home_count: family.home_count,
            number,
            board: family.board(number),
        };
        Ok(Self {
            places,
            block,
            commands,
            slow,
            inject,
            handed,
        })
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

fn listeners(places: &Places, config: &StreamConfig) -> Vec<ListenerBlock> {
    // One at least, so that the table lies somewhere.
    let all = 0..config.listeners.max(1) as usize;
    let listener = |index| ListenerBlock {
        listener: TcpListener::new(Secret([0; 2]), 0),
        address: Address::default(),
        port: 0,
        config: 0,
        backlog: 0,
        accepts: places.accept_block(index),
    };
    all.map(listener).collect()
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

/// Refuses tables of so many engines that want more than so many MiB, if anybody knows how many
/// there are.
pub(super) fn check(
    config: &StreamConfig,
    engines: u32,
    left_mib: Option<u64>,
) -> Result<(), Error> {
    let rings = u64::from(config.open) * 2 * u64::from(config.ring_bytes);
    let need = (rings + bytes(config) as u64).saturating_mul(engines.into()) >> 20;
    match left_mib {
        Some(have) if need > have => Err(Error::TooMuch { need, have }),
        _ => Ok(()),
    }
}

/// Bytes of everything but the rings of streams, with room for alignment.
fn bytes(config: &StreamConfig) -> usize {
    let place = size_of::<ConnectionBlock>() + 4 + 8 + 4;
    let copies = (SLOW_FRAMES + INJECTED + HANDED_OVER) as usize
        * slot_bytes(u32::from(config.mtu)) as usize;
    Places::size(config.connections, config.listeners, accepts(config))
        + config.connections as usize * (place + 4)
        + buckets(config) as usize * 4
        + config.open as usize * 8
        + (config.listeners.max(1)) as usize * size_of::<ListenerBlock>()
        + copies
        + COMMANDS as usize * size_of::<CommandSlot>()
        + Bits::bytes(config.connections) as usize
        + 16384
}

/// Slots for commands.
pub(super) const COMMANDS: u32 = 64;
/// Frames that wait for the host at most.
const SLOW_FRAMES: u32 = 256;
/// Frames of the host that wait to be sent.
const INJECTED: u32 = 64;
/// Segments of other pairs of rings that wait for an engine.
const HANDED_OVER: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_machine_has_is_refused() {
        let config = |open, ring_bytes| StreamConfig {
            connections: open * 2,
            open,
            ring_bytes,
            ..StreamConfig::new(Vec::new())
        };
        for (config, engines, left_mib, want) in [
            (config(1 << 18, 1 << 30), 1, Some(1 << 20), true),
            (config(1 << 18, 1 << 30), 62, Some(1 << 20), true),
            (config(1 << 18, 1 << 30), 1, None, false),
            // Rings of 1024 MiB, and what else an engine has.
            (config(512, 1 << 20), 1, Some(1024), true),
            (config(512, 1 << 20), 1, Some(1100), false),
            (config(512, 1 << 20), 2, Some(1100), true),
        ] {
            let said = check(&config, engines, left_mib).map_err(|error| error.to_string());
            assert_eq!(said.is_err(), want, "{said:?}");
            if let Err(said) = said {
                assert!(said.starts_with("`ring_bytes` and `open` want "), "{said}");
            }
        }
    }
}
