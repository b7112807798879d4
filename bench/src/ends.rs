//! Engines of the transport over wires, a launch of some turns at a time, and the application at
//! their queues.
#![expect(
    unsafe_code,
    reason = "attaches to queues of an end's own memory, which nobody else drives"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpwire::pipelines::messaging::table::{self, PairPlaces, Table};
use warpwire::pipelines::messaging::{EndpointConfig, Path};
use warpwire_core::block::Steering;
use warpwire_core::kernels::TransportParameters;
use warpwire_core::messaging::{ChannelBlock, CompletionRing, Cursor};
use warpwire_device::KernelRow;
use warpwire_engine::tables::{EngineBlock, EngineCounters, Mail, PairBlock, Wanted};
use warpwire_gpu::Arena;
use warpwire_nic::QueuePair as Rings;
use warpwire_protocols::rdma::{Access, Attributes, Region, Start, State};
use warpwire_protocols::wire::bth::Qpn;
use warpwire_ring::mlx5::layout::{Cqe, CqeOpcode};
use warpwire_ring::mlx5::post::{Completions, Gather, ReceiveQueue, SendQueue};
use warpwire_ring::{DeviceAddress, Scope};

use crate::machine::Ready;
use crate::stage::Stage;
use crate::wires::Wire;

/// An engine over the queues of a wire.
pub(crate) struct End<W> {
    pub(crate) wire: W,
    pub(crate) stage: Stage,
    pub(crate) table: Table,
    pub(crate) pairs: Vec<Application>,
    /// What payload lies in: one region with the key [`KEY`].
    pub(crate) memory: Arc<Arena>,
    row: &'static KernelRow,
}

/// The application's half of a queue pair.
pub(crate) struct Application {
    pub(crate) places: PairPlaces,
    pub(crate) sends: SendQueue,
    pub(crate) receives: ReceiveQueue,
    sent: Completions,
    arrived: Completions,
}

/// The key of an end's memory.
pub(crate) const KEY: u32 = 1 << 8 | 0x5a;

impl<W: Wire> End<W> {
    /// With `pairs` queue pairs, whose numbers have the bits `first_number` and whose work queues
    /// have 2^`log_queue` slots.
    pub(crate) fn new(
        row: &'static KernelRow,
        wire: W,
        memory: &Arc<Arena>,
        log_queue: u32,
        pairs: u32,
        first_number: u32,
    ) -> Result<Self, String> {
        let ground = Arc::clone(&wire.pages().ground.0);
        let rings = Rings {
            index: 0,
            receive: wire.rx_block(),
            transmit: wire.tx_block(),
            memory: vec![Arc::clone(&ground)],
        };
        let config = EndpointConfig {
            pairs,
            management: false,
            regions: 4,
            first_number,
            log_send: log_queue,
            log_receive: log_queue,
            log_stride: 2,
            share: 3,
            shared: 0,
            ..EndpointConfig::default()
        };
        let table = table::lay_out(&rings, &config).map_err(|error| error.to_string())?;
        let stage = Stage::new(vec![ground, Arc::clone(&table.arena), Arc::clone(memory)]);
        let whole = memory.whole();
        let region = Region {
            address: whole.address.value(),
            length: whole.length,
            key: KEY,
            domain: 0,
            access: Access::ALL,
            may_invalidate: 0,
        };
        let at = table.regions.offset(size_of::<Region>() as u64).value() as *mut Region;
        // SAFETY: the second of the table's regions; no kernel runs.
        unsafe { at.write(region) };
        Ok(Self {
            wire,
            stage,
            pairs: table.places.iter().map(Application::at).collect(),
            memory: Arc::clone(memory),
            table,
            row,
        })
    }

    /// The parameters of a launch of so many turns.
    pub(crate) fn parameters(&self, turns: u64) -> TransportParameters {
        let at = self.table.parameters.value() as *const TransportParameters;
        // SAFETY: the table's own parameters.
        let parameters = unsafe { at.read() };
        TransportParameters {
            steering: Steering {
                heartbeats: self.stage.heartbeat,
                turns,
                ..Steering::default()
            },
            ..parameters
        }
    }

    /// Runs the engine for some turns; what ended it before that, or 0.
    pub(crate) fn run(&self, ready: &Ready, turns: u64) -> Result<u32, String> {
        let block = self.stage.place(self.parameters(turns));
        self.run_block(ready, block)
    }

    /// [`End::run`] with parameters that lie in the stage already.
    pub(crate) fn run_block(&self, ready: &Ready, block: DeviceAddress) -> Result<u32, String> {
        let job = self.stage.job::<TransportParameters>(self.row, block);
        ready.run(job)?;
        Ok(self.stage.take_cause())
    }

    /// Connects a queue pair with `remote`, by its mail.
    pub(crate) fn connect(
        &mut self,
        ready: &Ready,
        place: usize,
        connection: (Attributes, Start, Path),
    ) -> Result<(), String> {
        let (attributes, start, path) = connection;
        let places = self.pairs[place].places;
        let attributes = Attributes {
            local_qp: Qpn::new(places.number()),
            ..attributes
        };
        for state in [State::Init, State::ReadyToReceive, State::ReadyToSend] {
            let connects = state == State::ReadyToReceive;
            self.ask(&places, state, connects, (attributes, start, path));
            match self.run(ready, 1)? {
                0 => {}
                cause => return Err(format!("cause {cause} when connecting")),
            }
            let word = |offset: usize| {
                let at = places.mail.offset(offset as u64);
                let word = self.table.arena.half_word(at).expect("inside");
                word.load(Ordering::Relaxed)
            };
            let [answer, command, refused] = [
                std::mem::offset_of!(Mail, answer),
                std::mem::offset_of!(Mail, command),
                std::mem::offset_of!(Mail, refused),
            ]
            .map(word);
            if answer != command || refused != 0 {
                return Err(format!("{state:?}: answer {answer}, refused {refused}"));
            }
        }
        Ok(())
    }

    fn ask(
        &self,
        places: &PairPlaces,
        state: State,
        connects: bool,
        (attributes, start, path): (Attributes, Start, Path),
    ) {
        let wanted = Wanted {
            state: state as u32,
            connects: u32::from(connects),
            receives: places.receives,
            receive_completions: places.receive_completions,
            group: places.number(),
            attributes,
            start,
            path,
        };
        let offset = std::mem::offset_of!(Mail, wanted) as u64;
        let at = places.mail.offset(offset).value() as *mut Wanted;
        // SAFETY: the mail lies in the table's memory; no kernel runs.
        unsafe { at.write(wanted) };
        let offset = std::mem::offset_of!(Mail, command) as u64;
        let command = self.table.arena.half_word(places.mail.offset(offset));
        command.expect("inside").fetch_add(1, Ordering::Relaxed);
    }

    /// Where a queue pair stands.
    pub(crate) fn block(&self, place: usize) -> PairBlock {
        let at = self.parameters(0).blocks.value() as *const EngineBlock;
        // SAFETY: the table's only block; no kernel runs.
        let block = unsafe { at.read() };
        let offset = (place * size_of::<PairBlock>()) as u64;
        let at = block.pairs.offset(offset).value() as *const PairBlock;
        // SAFETY: one of the block's queue pairs.
        unsafe { at.read() }
    }

    /// Where a queue pair stands for kernels that it is given to.
    pub(crate) fn cursor(&self, place: usize) -> Cursor {
        let at = self.pairs[place].places.home.value() as *const ChannelBlock;
        // SAFETY: the table's own block; no kernel runs.
        unsafe { at.read() }.cursor
    }

    /// Posts receives without bytes, and leaves the queue pair to a kernel that is given it.
    pub(crate) fn post_receives(&mut self, place: usize, count: u32) -> Result<(), String> {
        let pair = &mut self.pairs[place];
        for _ in 0..count {
            let posted = pair.receives.write(&[]);
            posted.map_err(|cause| format!("receive: {cause:?}"))?;
        }
        pair.receives.publish();
        let at = pair.places.home.value() as *mut ChannelBlock;
        // SAFETY: the table's own block; no kernel runs.
        unsafe { (*at).cursor.receive_next = u64::from(count) };
        Ok(())
    }

    /// What the engine counted.
    pub(crate) fn counters(&self) -> EngineCounters {
        let at = self.table.counters.value() as *const EngineCounters;
        // SAFETY: the table's counters; no kernel runs.
        unsafe { at.read() }
    }

    /// A piece of the end's memory.
    pub(crate) fn gather(&self, at: u64, length: u32) -> Gather {
        Gather {
            address: self.memory.whole().address.value() + at,
            length,
            key: KEY,
        }
    }
}

impl Application {
    fn at(places: &PairPlaces) -> Self {
        let completions = |ring: &CompletionRing| {
            // SAFETY: a queue of the table, which lives as long; this is its only user, and its
            // memory was set up.
            unsafe { Completions::attach(ring.ring, ring.record, ring.log_depth, Scope::System, 0) }
        };
        let block = &places.block;
        Self {
            // SAFETY: as above.
            sends: unsafe { SendQueue::attach(block.send, 0) },
            // SAFETY: as above.
            receives: unsafe { ReceiveQueue::attach(block.receive, 0) },
            sent: completions(&block.sent),
            arrived: completions(&block.arrived),
            places: *places,
        }
    }

    /// The next completion, of sends first, whose request or receive is free again.
    pub(crate) fn poll(&mut self) -> Option<Cqe> {
        let cqe = self.sent.poll().or_else(|| self.arrived.poll())?;
        let counter = cqe.wqe_counter.get();
        match cqe.opcode() {
            CqeOpcode::REQUEST | CqeOpcode::REQUEST_ERROR => self.sends.retire(counter),
            _ => self.receives.retire(counter),
        };
        Some(cqe)
    }
}

/// The way from one end to another: addresses and Ethernet addresses by their last bytes.
pub(crate) fn path(local: u8, remote: u8, ip_version: u8) -> Path {
    let address = |last: u8| match ip_version {
        4 => [0x0a00_0000 | u32::from(last), 0, 0, 0],
        _ => [0x2001_0db8, 0, 7, u32::from(last)],
    };
    Path {
        local: address(local),
        remote: address(remote),
        next_hop: [2, 0, 0, 0, 0, remote],
        mac: [2, 0, 0, 0, 0, local],
        source_port: 0xc000 | u16::from(local),
        ip_version,
        traffic_class: 2,
        hop_limit: 64,
        ..Path::default()
    }
}
