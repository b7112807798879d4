//! The memory of an endpoint, laid out once: what the engine drives and what the host shares with
//! it. For endpoints, and for who launches an engine's kernel by itself.

use std::sync::Arc;

use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::kernels::TransportParameters;
use warpwire_core::messaging::{ChannelBlock, CompletionRing, Cursor, SharedBlock};
use warpwire_device::COPY_AT;
use warpwire_engine::tables::{
    EngineBlock, EngineCounters, Mail, PairBlock, Path, ReceiveBlock, Wanted,
};
use warpwire_engine::{Board, LARGEST_FRAME};
use warpwire_gpu::Arena;
use warpwire_gpu::arena::ArenaError;
use warpwire_gpu::executor::Control;
use warpwire_nic::QueuePair as Rings;
use warpwire_protocols::rdma::{Access, Attributes, Fetch, QueuePair, Region, Start, State};
use warpwire_ring::mlx5::layout::{CQE_BYTES, NEVER_WRITTEN, SEGMENT_BYTES, WQEBB_BYTES};
use warpwire_ring::mlx5::post::Gather;
use warpwire_ring::mlx5::serve::{CompletionQueue, WorkQueue};
use warpwire_ring::{DeviceAddress, Location, Scope};

use super::endpoint::EndpointConfig;
use crate::copies::CopyRing;

/// The tables of an endpoint.
#[derive(Clone, Debug)]
pub struct Table {
    /// What they all lie in.
    pub arena: Arc<Arena>,
    /// The kernel's [`TransportParameters`].
    pub parameters: DeviceAddress,
    /// The [`EngineBlock`] that they name.
    pub block: DeviceAddress,
    /// The stop word that the parameters name, and the engine's heartbeat.
    pub control: Control,
    /// The [`Region`]s: as many as were asked for at least, and the last for what atomics find and
    /// nobody wants.
    pub regions: DeviceAddress,
    /// How many places for regions there are; a power of two.
    pub(crate) region_count: u32,
    /// The [`EngineCounters`].
    pub counters: DeviceAddress,
    /// The queue pairs for messages, in their first state.
    pub places: Vec<PairPlaces>,
    /// Queue pair 1, if it was asked for.
    pub management: Option<PairPlaces>,
    /// The receive queues for sharing, as many as were asked for.
    pub shared: Vec<SharedPlaces>,
    /// The ring of copies of what is sent, if it was asked for.
    pub(crate) mirror: Option<CopyRing>,
}

/// What the host needs of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct PairPlaces {
    /// Its [`Mail`].
    pub mail: DeviceAddress,
    /// The [`ReceiveBlock`] of its own receives.
    pub receives: DeviceAddress,
    /// The [`CompletionQueue`] of its own receives.
    pub receive_completions: DeviceAddress,
    /// Where its block lies for a kernel that is given the queue pair.
    pub home: DeviceAddress,
    /// Its queues, where nothing was posted.
    pub block: ChannelBlock,
}

impl PairPlaces {
    /// Its number.
    pub const fn number(&self) -> u32 {
        self.block.send.number
    }
}

/// What the host needs of receives that are shared.
#[derive(Clone, Copy, Debug)]
pub struct SharedPlaces {
    /// The group of the queue pairs that share them.
    pub group: u32,
    /// The [`ReceiveBlock`].
    pub receives: DeviceAddress,
    /// The [`CompletionQueue`].
    pub receive_completions: DeviceAddress,
    /// Its queues, where nothing was posted.
    pub block: SharedBlock,
}

/// Lays out the memory of an endpoint over one pair of rings.
///
/// # Errors
/// Memory that cannot be had.
pub fn lay_out(rings: &Rings, config: &EndpointConfig) -> Result<Table, ArenaError> {
    let arena = Arc::new(Arena::new(bytes(config), Location::PinnedHost)?);
    let control = Control::allocate(&arena, config.warps)?;
    let heartbeat = match config.stale.is_zero() {
        true => DeviceAddress::NULL,
        false => control.heartbeat_address(0).unwrap_or(DeviceAddress::NULL),
    };
    let scratch = arena.allocate(u64::from(config.pairs) * SCRATCH_BYTES, 128)?;
    let scratch_region = Region {
        address: scratch.address.value(),
        length: scratch.length,
        key: (region_count(config) - 1) << 8 | 1,
        domain: 0,
        access: Access::LOCAL_WRITE,
        may_invalidate: 0,
    };
    // The last place is the endpoint's own.
    let mut regions = vec![Region::default(); region_count(config) as usize - 1];
    regions.push(scratch_region);
    let regions = arena.place_all(&regions)?;
    let counters = arena.place(EngineCounters::default())?;
    let (mut places, mut pairs) = (Vec::new(), Vec::new());
    let mut management = None;
    for place in 0..config.pairs {
        let offset = u64::from(place) * SCRATCH_BYTES;
        let scratch = Gather {
            address: scratch.address.offset(offset).value(),
            length: 8,
            key: scratch_region.key,
        };
        // A queue pair lies where the lower bits of its number say.
        let number = match place {
            MANAGEMENT if config.management => MANAGEMENT,
            // Queue pairs 0 and 1 are not for messages.
            place => config.first_number & !(config.pairs - 1) | place,
        };
        let (block, shared) = pair(&arena, config, number, scratch, heartbeat)?;
        pairs.push(block);
        match number {
            MANAGEMENT => management = Some(shared),
            _ => places.push(shared),
        }
    }
    let shared = (0..config.shared).map(|group| shared(&arena, config, group, heartbeat));
    let shared = shared.collect::<Result<_, _>>()?;
    let mirror = config.is_captured.then(|| mirror(&arena)).transpose()?;
    let (board, groups) = crew(&arena, config, &pairs)?;
    let block = EngineBlock {
        receive: rings.receive,
        transmit: rings.transmit,
        pairs: arena.place_all(&pairs)?.address,
        regions: regions.address,
        counters: counters.address,
        mirror: mirror
            .as_ref()
            .map_or(DeviceAddress::NULL, |ring| ring.block),
        board,
        groups,
        pair_count: config.pairs,
        region_count: region_count(config),
        tuning: config.tuning,
        share: config.share,
        reserved: 0,
    };
    let block = arena.place(block)?.address;
    let parameters = TransportParameters {
        header: TransportParameters::HEADER,
        steering: Steering {
            stop: control.stop_address(),
            heartbeats: DeviceAddress::NULL,
            turns: 0,
        },
        blocks: block,
        block_count: 1,
        reserved: 0,
    };
    Ok(Table {
        parameters: arena.place(parameters)?.address,
        block,
        control,
        regions: regions.address,
        region_count: region_count(config),
        counters: counters.address,
        places,
        management,
        shared,
        mirror,
        arena,
    })
}

/// What warps need that run the engine together: the board, and the groups of queue pairs.
fn crew(
    arena: &Arena,
    config: &EndpointConfig,
    pairs: &[PairBlock],
) -> Result<(DeviceAddress, DeviceAddress), ArenaError> {
    if config.warps == 1 {
        return Ok((DeviceAddress::NULL, DeviceAddress::NULL));
    }
    let board = arena.allocate(size_of::<Board>() as u64, align_of::<Board>() as u64)?;
    let groups: Vec<u32> = pairs.iter().map(|pair| pair.group).collect();
    Ok((board.address, arena.place_all(&groups)?.address))
}

fn mirror(arena: &Arc<Arena>) -> Result<CopyRing, ArenaError> {
    let slots = arena.allocate(mirror_bytes() as u64, 128)?.address;
    let block = CopyRing::block(slots, MIRRORED, MIRROR_BYTES);
    Ok(CopyRing {
        arena: Arc::clone(arena),
        block: arena.place(block)?.address,
        slots_arena: Arc::clone(arena),
        slots,
        depth: MIRRORED,
        slot_bytes: MIRROR_BYTES,
    })
}

fn pair(
    arena: &Arena,
    config: &EndpointConfig,
    number: u32,
    scratch: Gather,
    heartbeat: DeviceAddress,
) -> Result<(PairBlock, PairPlaces), ArenaError> {
    let line = |bytes: u64| arena.allocate(bytes, 128).map(|region| region.address);
    let record = line(16)?;
    let queue = |ring, offset, log_depth| WorkQueue {
        ring,
        record: record.offset(offset),
        log_depth,
        log_stride: config.log_stride,
        number,
        scope: Scope::System as u32,
    };
    let send = queue(line(WQEBB_BYTES << config.log_send)?, 4, config.log_send);
    let ring = line(SEGMENT_BYTES << (config.log_receive + config.log_stride))?;
    let receive = queue(ring, 0, config.log_receive);
    let (sent_block, sent) = completions(arena, config.log_send)?;
    let (arrived_block, arrived) = completions(arena, config.log_receive)?;
    let receives = arena.place(ReceiveBlock {
        queue: receive,
        next: 0,
        head: 0,
    })?;
    let fetches = vec![Fetch::default(); FETCHES as usize];
    let mail = arena.place(blank_mail())?.address;
    let engine = PairBlock {
        pair: QueuePair::new(),
        path: Path::default(),
        send,
        mail,
        receives: receives.address,
        send_completions: sent_block,
        receive_completions: arrived_block,
        fetches: arena.place_all(&fetches)?.address,
        fetch_slots: FETCHES,
        number,
        told: 0,
        head: 0,
        obeyed: 0,
        group: number,
        failed: false,
    };
    let block = ChannelBlock {
        header: ChannelBlock::HEADER,
        send,
        receive,
        sent,
        arrived,
        scratch,
        heartbeat,
        stale_ns: config.stale.as_nanos() as u64,
        cursor: Cursor::default(),
    };
    let places = PairPlaces {
        mail,
        receives: receives.address,
        receive_completions: arrived_block,
        home: arena.place(block)?.address,
        block,
    };
    Ok((engine, places))
}

fn shared(
    arena: &Arena,
    config: &EndpointConfig,
    group: u32,
    heartbeat: DeviceAddress,
) -> Result<SharedPlaces, ArenaError> {
    let line = |bytes: u64| arena.allocate(bytes, 128).map(|region| region.address);
    let receive = WorkQueue {
        ring: line(SEGMENT_BYTES << (config.log_shared + config.log_stride))?,
        record: line(16)?,
        log_depth: config.log_shared,
        log_stride: config.log_stride,
        // Nobody's own.
        number: 0,
        scope: Scope::System as u32,
    };
    let (arrived_block, arrived) = completions(arena, config.log_shared)?;
    let receives = arena.place(ReceiveBlock {
        queue: receive,
        next: 0,
        head: 0,
    })?;
    let block = SharedBlock {
        header: SharedBlock::HEADER,
        receive,
        arrived,
        done: line((8u64 << config.log_shared.saturating_sub(6)).max(8))?,
        heartbeat,
        stale_ns: config.stale.as_nanos() as u64,
        next: 0,
        freed: 0,
        arrived_next: 0,
        returned: 0,
    };
    Ok(SharedPlaces {
        group,
        receives: receives.address,
        receive_completions: arrived_block,
        block,
    })
}

/// A completion queue: the engine's block, and what who polls it needs.
fn completions(
    arena: &Arena,
    log_depth: u32,
) -> Result<(DeviceAddress, CompletionRing), ArenaError> {
    let ring = arena.allocate(CQE_BYTES << log_depth, 128)?.address;
    for entry in 0..1u64 << log_depth {
        let last = ring.offset(entry * CQE_BYTES + 56);
        arena.write(last, &[0, 0, 0, 0, 0, 0, 0, NEVER_WRITTEN])?;
    }
    let record = arena.allocate(16, 128)?.address;
    let scope = Scope::System as u32;
    let block = CompletionQueue {
        ring,
        record,
        produced: 0,
        consumed: 0,
        log_depth,
        scope,
    };
    let ring = CompletionRing {
        ring,
        record,
        log_depth,
        scope,
    };
    Ok((arena.place(block)?.address, ring))
}

/// A mail in which nothing is wanted.
fn blank_mail() -> Mail {
    Mail {
        command: 0,
        answer: 0,
        state: State::Reset as u32,
        fault: 0,
        refused: 0,
        rate: 0,
        target_rate: 0,
        congestion: 0,
        reserved: [0; 24],
        wanted: Wanted {
            state: State::Reset as u32,
            connects: 0,
            receives: DeviceAddress::NULL,
            receive_completions: DeviceAddress::NULL,
            group: 0,
            attributes: Attributes::default(),
            start: Start::default(),
            path: Path::default(),
        },
    }
}

/// Bytes of everything, with room for alignment.
pub(super) fn bytes(config: &EndpointConfig) -> usize {
    let receives = |log: u32| (16usize << (log + config.log_stride)) + (64usize << log);
    let send = 128usize << config.log_send;
    let fetches = FETCHES as usize * size_of::<Fetch>();
    let blocks = size_of::<PairBlock>() + size_of::<Mail>() + size_of::<ChannelBlock>();
    let pair = send + receives(config.log_receive) + fetches + blocks + 20 * 128;
    let shared = receives(config.log_shared) + (1usize << config.log_shared) + 8 * 128;
    let regions = region_count(config) as usize * size_of::<Region>();
    let scratch = config.pairs as usize * SCRATCH_BYTES as usize;
    let crew = size_of::<Board>() + config.pairs as usize * size_of::<u32>();
    config.pairs as usize * pair
        + config.shared as usize * shared
        + regions
        + scratch
        + size_of::<EngineBlock>()
        + crew
        + Control::bytes(config.warps) as usize
        + usize::from(config.is_captured) * (mirror_bytes() + 4096)
        + 16384
}

/// Places for regions: one more than may be registered.
const fn region_count(config: &EndpointConfig) -> u32 {
    (config.regions + 1).next_power_of_two()
}

/// The queue pair through which connections are managed.
const MANAGEMENT: u32 = 1;
/// Reads and atomics that a queue pair keeps for its peer.
const FETCHES: u32 = 16;
/// Bytes of a queue pair for what nobody wants: a line of its own.
const SCRATCH_BYTES: u64 = 64;

/// Packets that wait for the host at most where what is sent is captured.
const MIRRORED: u32 = 1024;
/// Bytes of the slot of a packet that is captured.
const MIRROR_BYTES: u32 = (COPY_AT + LARGEST_FRAME).next_multiple_of(128);

const fn mirror_bytes() -> usize {
    MIRRORED as usize * MIRROR_BYTES as usize
}
