//! The memory of an endpoint, laid out once: what the engine drives and what the host shares with
//! it. For endpoints, and for who launches an engine's kernel by itself.

use std::sync::Arc;

use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::kernels::TransportParameters;
use warpwire_engine::tables::{
    EngineBlock, EngineCounters, Mail, PairBlock, Path, ReceiveBlock, Wanted,
};
use warpwire_gpu::Arena;
use warpwire_gpu::arena::ArenaError;
use warpwire_gpu::executor::Control;
use warpwire_nic::QueuePair as Rings;
use warpwire_protocols::rdma::{Attributes, Fetch, QueuePair, Region, Start, State};
use warpwire_ring::mlx5::layout::{CQE_BYTES, NEVER_WRITTEN, SEGMENT_BYTES, WQEBB_BYTES};
use warpwire_ring::mlx5::serve::{CompletionQueue, WorkQueue};
use warpwire_ring::{DeviceAddress, Location, Scope};

use super::endpoint::EndpointConfig;

/// The tables of an endpoint.
#[derive(Clone, Debug)]
pub struct Table {
    /// What they all lie in.
    pub arena: Arc<Arena>,
    /// The kernel's [`TransportParameters`].
    pub parameters: DeviceAddress,
    /// The stop word that the parameters name.
    pub control: Control,
    /// The [`Region`]s, as many as were asked for.
    pub regions: DeviceAddress,
    /// The [`EngineCounters`].
    pub counters: DeviceAddress,
    /// The queue pairs for messages, in their first state.
    pub places: Vec<PairPlaces>,
    /// Queue pair 1, if it was asked for.
    pub management: Option<PairPlaces>,
}

/// What the host needs of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct PairPlaces {
    /// Its number.
    pub number: u32,
    /// Its [`Mail`].
    pub mail: DeviceAddress,
    /// Its send queue.
    pub send: WorkQueue,
    /// Its receive queue.
    pub receive: WorkQueue,
    /// Where both complete.
    pub completions: CompletionQueue,
}

/// Lays out the memory of an endpoint over one pair of rings.
///
/// # Errors
/// Memory that cannot be had.
pub fn lay_out(rings: &Rings, config: &EndpointConfig) -> Result<Table, ArenaError> {
    let arena = Arc::new(Arena::new(bytes(config), Location::PinnedHost)?);
    let control = Control::allocate(&arena, 1)?;
    let regions = arena.place_all(&vec![Region::default(); config.regions as usize])?;
    let counters = arena.place(EngineCounters::default())?;
    let mut places = Vec::new();
    let mut management = None;
    let mut pairs = Vec::new();
    for place in 0..config.pairs {
        // A queue pair lies where the lower bits of its number say.
        let number = match place {
            MANAGEMENT if config.management => MANAGEMENT,
            // Queue pairs 0 and 1 are not for messages.
            place => config.first_number & !(config.pairs - 1) | place,
        };
        let (block, shared) = pair(&arena, config, number)?;
        pairs.push(block);
        match number {
            MANAGEMENT => management = Some(shared),
            _ => places.push(shared),
        }
    }
    let pairs = arena.place_all(&pairs)?;
    let block = EngineBlock {
        receive: rings.receive,
        transmit: rings.transmit,
        pairs: pairs.address,
        regions: regions.address,
        counters: counters.address,
        pair_count: config.pairs,
        region_count: config.regions,
        tuning: config.tuning,
        share: config.share,
        reserved: 0,
    };
    let parameters = TransportParameters {
        header: TransportParameters::HEADER,
        steering: Steering {
            stop: control.stop_address(),
            heartbeats: DeviceAddress::NULL,
            turns: 0,
        },
        blocks: arena.place(block)?.address,
        block_count: 1,
        reserved: 0,
    };
    Ok(Table {
        parameters: arena.place(parameters)?.address,
        control,
        regions: regions.address,
        counters: counters.address,
        places,
        management,
        arena,
    })
}

fn pair(
    arena: &Arena,
    config: &EndpointConfig,
    number: u32,
) -> Result<(PairBlock, PairPlaces), ArenaError> {
    let line = |bytes: u64| arena.allocate(bytes, 128).map(|region| region.address);
    let send_bytes = WQEBB_BYTES << config.log_send;
    let receive_bytes = SEGMENT_BYTES << (config.log_receive + config.log_stride);
    let log_completions = (config.log_send.max(config.log_receive)) + 1;
    let record = line(16)?;
    let queue = |ring, offset, log_depth| WorkQueue {
        ring,
        record: record.offset(offset),
        log_depth,
        log_stride: config.log_stride,
        number,
        scope: Scope::System as u32,
    };
    let send = queue(line(send_bytes)?, 4, config.log_send);
    let receive = queue(line(receive_bytes)?, 0, config.log_receive);
    let ring = line(CQE_BYTES << log_completions)?;
    for entry in 0..1u64 << log_completions {
        let last = ring.offset(entry * CQE_BYTES + 56);
        arena.write(last, &[0, 0, 0, 0, 0, 0, 0, NEVER_WRITTEN])?;
    }
    let completions = CompletionQueue {
        ring,
        record: record.offset(8),
        produced: 0,
        consumed: 0,
        log_depth: log_completions,
        scope: Scope::System as u32,
    };
    let queue = arena.place(completions)?.address;
    let receives = arena.place(ReceiveBlock {
        queue: receive,
        next: 0,
        head: 0,
    })?;
    let fetches = vec![Fetch::default(); FETCHES as usize];
    let mail = arena.place(blank_mail())?.address;
    let block = PairBlock {
        pair: QueuePair::new(),
        path: Path::default(),
        send,
        mail,
        receives: receives.address,
        send_completions: queue,
        receive_completions: queue,
        fetches: arena.place_all(&fetches)?.address,
        fetch_slots: FETCHES,
        number,
        told: 0,
        head: 0,
        obeyed: 0,
        failed: false,
    };
    let places = PairPlaces {
        number,
        mail,
        send,
        receive,
        completions,
    };
    Ok((block, places))
}

/// A mail in which nothing is wanted.
fn blank_mail() -> Mail {
    Mail {
        command: 0,
        answer: 0,
        state: State::Reset as u32,
        fault: 0,
        refused: 0,
        reserved: [0; 27],
        wanted: Wanted {
            state: State::Reset as u32,
            connects: 0,
            attributes: Attributes::default(),
            start: Start::default(),
            path: Path::default(),
        },
    }
}

/// Bytes of everything, with room for alignment.
fn bytes(config: &EndpointConfig) -> usize {
    let send = 64usize << config.log_send;
    let receive = 16usize << (config.log_receive + config.log_stride);
    let completions = 64usize << (config.log_send.max(config.log_receive) + 1);
    let fetches = FETCHES as usize * size_of::<Fetch>();
    let blocks = size_of::<PairBlock>() + size_of::<Mail>() + size_of::<ReceiveBlock>();
    let pair = send + receive + completions + fetches + blocks + 16 * 128;
    let regions = config.regions as usize * size_of::<Region>();
    config.pairs as usize * pair + regions + size_of::<EngineBlock>() + 16384
}

/// The queue pair through which connections are managed.
pub(super) const MANAGEMENT: u32 = 1;
/// Reads and atomics that a queue pair keeps for its peer.
const FETCHES: u32 = 16;
