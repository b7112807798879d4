//! Cuts the memory of a queue pair and brings both halves to their first state.
#![expect(
    unsafe_code,
    reason = "sets queues up in arenas that were made for them"
)]

use std::sync::Arc;

use warpwire_gpu::Arena;
use warpwire_gpu::arena::ArenaError;
use warpwire_ring::mlx5::TimestampFormat;
use warpwire_ring::mlx5::device::{CompletionQueue, ReceiveQueue, SendQueue};
use warpwire_ring::mlx5::setup::{self, Places, RxSetup, TxSetup};
use warpwire_ring::{DeviceAddress, Location, Place, QueueBlock, Region, Scope};

use super::adapter::{ReceiveSide, SendSide, Staged};
use super::config::AdapterConfig;
use super::memory::Keys;

/// The memory of an adapter's queues.
#[derive(Debug)]
pub(super) struct QueueMemory {
    pub(super) rings: Arc<Arena>,
    pub(super) buffers: Arc<Arena>,
    ring_region: Region,
    buffer_region: Region,
    next_buffer: u64,
}

/// One queue pair, both halves.
pub(super) struct Pair {
    pub(super) receive_block: QueueBlock,
    pub(super) transmit_block: QueueBlock,
    pub(super) receive: ReceiveSide,
    pub(super) send: SendSide,
}

const LINE: u64 = 128;

impl QueueMemory {
    /// Maps memory for all queues of an adapter and registers it.
    pub(super) fn new(config: &AdapterConfig, keys: &mut Keys) -> Result<Self, ArenaError> {
        let depth = u64::from(config.depth);
        let queues = u64::from(config.queues);
        let fixed = 12 * LINE + depth / 8 + depth * 8;
        let rings = setup::rx_ring_bytes(config.depth, config.segments)
            + setup::tx_ring_bytes(config.depth)
            + 2 * setup::completion_bytes(config.depth);
        // Every piece may lose up to a line to its alignment.
        let ring_bytes = queues * (rings + fixed + 16 * LINE);
        let buffer_bytes = queues * 2 * depth * u64::from(config.slot_bytes);
        let rings = Arc::new(Arena::new(ring_bytes as usize, Location::Device)?);
        let buffers = Arc::new(Arena::new(buffer_bytes as usize, Location::Device)?);
        let ring_region = keys.register(&rings, true);
        let buffer_region = keys.register(&buffers, true);
        Ok(Self {
            rings,
            buffers,
            ring_region,
            buffer_region,
            next_buffer: 0,
        })
    }

    /// The keys that open the memory.
    pub(super) fn keys(&self) -> Vec<u32> {
        vec![self.ring_region.key, self.buffer_region.key]
    }

    fn cut(&self, bytes: u64) -> Result<DeviceAddress, ArenaError> {
        Ok(self.rings.allocate(bytes, LINE)?.address)
    }

    fn place(&self, address: DeviceAddress) -> Place {
        Place {
            key: self.ring_region.key,
            address,
        }
    }

    fn buffers(&mut self, config: &AdapterConfig) -> Region {
        let length = u64::from(config.depth) * u64::from(config.slot_bytes);
        let address = self.buffer_region.address.offset(self.next_buffer);
        self.next_buffer += length;
        Region {
            address,
            length,
            ..self.buffer_region
        }
    }

    /// The words that one side writes and the other reads share a line as far as they are written
    /// together: the doorbell with its record, the two records of a receive queue.
    fn places(
        &self,
        ring: u64,
        depth: u32,
        receive: bool,
    ) -> Result<(Places, DeviceAddress), ArenaError> {
        let words = self.cut(LINE)?;
        let completion_record = if receive {
            words.offset(16)
        } else {
            self.cut(LINE)?
        };
        let places = Places {
            ring: self.cut(ring)?,
            completions: self.cut(setup::completion_bytes(depth))?,
            record: words,
            completion_record,
            cursor: self.cut(LINE)?,
            provenance: self.cut(LINE)?,
        };
        Ok((places, words.offset(32)))
    }

    /// Cuts and initialises queue pair `index`.
    pub(super) fn pair(&mut self, config: &AdapterConfig, index: u32) -> Result<Pair, ArenaError> {
        let (receive_block, receive) = self.receive(config, index)?;
        let (transmit_block, send) = self.transmit(config, index)?;
        Ok(Pair {
            receive_block,
            transmit_block,
            receive,
            send,
        })
    }

    fn receive(
        &mut self,
        config: &AdapterConfig,
        index: u32,
    ) -> Result<(QueueBlock, ReceiveSide), ArenaError> {
        let ring = setup::rx_ring_bytes(config.depth, config.segments);
        let (places, _) = self.places(ring, config.depth, true)?;
        let setup = RxSetup {
            depth: config.depth,
            segments: config.segments,
            segment_bytes: config.slot_bytes / config.segments,
            places,
            done: self.cut(u64::from(config.depth.div_ceil(32)) * 4)?,
            buffers: self.buffers(config),
            window: self.buffer_region,
            pool: self.buffer_region.address.value(),
            number: receive_number(index),
            timestamps: TimestampFormat::Nanoseconds,
            scope: Scope::System,
        };
        // SAFETY: every piece was cut from a fresh arena with the size asked for.
        let block = unsafe { setup.initialise() }.map_err(|_| self.unfit())?;
        let log_depth = config.depth.trailing_zeros();
        let log_stride = config.segments.next_power_of_two().trailing_zeros();
        let side = ReceiveSide {
            queue: ReceiveQueue::new(
                self.place(places.ring),
                self.place(places.record),
                setup.number,
                log_depth,
                log_stride,
            ),
            completions: self.completions(&places, log_depth),
            flush: 0,
            frames: 0,
            broken: false,
            staged: Staged::new(),
        };
        Ok((block, side))
    }

    fn transmit(
        &mut self,
        config: &AdapterConfig,
        index: u32,
    ) -> Result<(QueueBlock, SendSide), ArenaError> {
        let ring = setup::tx_ring_bytes(config.depth);
        let (places, doorbell) = self.places(ring, config.depth, false)?;
        let none = Region::default();
        let setup = TxSetup {
            depth: config.depth,
            slot_bytes: config.slot_bytes,
            places,
            doorbell,
            table: self.cut(u64::from(config.depth) * 8)?,
            buffers: self.buffers(config),
            windows: [self.buffer_region, none, none, none],
            pool: self.buffer_region.address.value(),
            number: send_number(index),
            scope: Scope::System,
        };
        // SAFETY: every piece was cut from a fresh arena with the size asked for.
        let block = unsafe { setup.initialise() }.map_err(|_| self.unfit())?;
        let log_depth = config.depth.trailing_zeros();
        let side = SendSide {
            queue: SendQueue::new(
                self.place(places.ring),
                self.place(places.record),
                self.place(doorbell),
                setup.number,
                log_depth,
            ),
            completions: self.completions(&places, log_depth),
            flush: 0,
            sends: 0,
            doorbells: 0,
            stalled_until_ns: 0,
            broken: false,
        };
        Ok((block, side))
    }

    fn completions(&self, places: &Places, log_depth: u32) -> CompletionQueue {
        let (ring, record) = (places.completions, places.completion_record);
        CompletionQueue::new(self.place(ring), self.place(record), log_depth)
    }

    /// The set-up's sizes were checked before; should they not fit all the same, memory was short.
    fn unfit(&self) -> ArenaError {
        ArenaError::Exhausted {
            need: self.next_buffer,
            have: self.buffer_region.length,
        }
    }
}

fn receive_number(index: u32) -> u32 {
    0x100 + index
}

fn send_number(index: u32) -> u32 {
    0x200 + index
}
