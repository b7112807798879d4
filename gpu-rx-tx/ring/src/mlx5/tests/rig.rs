//! Both halves of a queue, over memory with keys.
#![expect(unsafe_code, reason = "attaches to queues whose memory the test owns")]

use std::vec;
use std::vec::Vec;

use super::super::device::{CompletionQueue, Cursor, Fault, ReceiveQueue, SendQueue, Wqe};
use super::super::layout::{Cqe, CqeOpcode, Opcode};
use super::super::setup::{self, Places, RxSetup, TxSetup};
use super::super::{Rx, TimestampFormat, Tx};
use crate::address::DeviceAddress;
use crate::barrier::Scope;
use crate::block::QueueBlock;
use crate::cause::Cause;
use crate::device_memory::{DeviceMemory, Grant, KeyTable, Place};
use crate::frame::{Post, PostFlags};
use crate::region::{Location, Region};
use crate::verbs::{Receive, Transmit};

pub(super) const RING_KEY: u32 = 0x0042;
pub(super) const BUFFER_KEY: u32 = 0x0107;
pub(super) const NUMBER: u32 = 0x00ab_cdef;

/// One line of test memory, aligned as queues need it.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub(super) struct Line([u8; 128]);

/// Memory in two regions: rings, and buffers.
pub(super) struct Memory {
    pub(super) lines: Vec<Line>,
    pub(super) grants: Vec<Option<Grant>>,
    pub(super) used: u64,
}

impl Memory {
    pub(super) fn new() -> Self {
        let lines = vec![Line([0xa5; 128]); 4096];
        let base = DeviceAddress::new(lines.as_ptr() as u64);
        let half = lines.len() as u64 * 64;
        let grant = |address, key| {
            let region = Region {
                address,
                length: half,
                key,
                location: Location::Device,
            };
            Some(Grant {
                region,
                writable: true,
            })
        };
        let grants = vec![grant(base, RING_KEY), grant(base.offset(half), BUFFER_KEY)];
        Self {
            lines,
            grants,
            used: 0,
        }
    }

    pub(super) fn cut(&mut self, bytes: u64) -> DeviceAddress {
        let at = self.used;
        self.used += bytes.next_multiple_of(128);
        assert!(
            self.used <= self.lines.len() as u64 * 64,
            "test memory is too small"
        );
        self.region(RING_KEY).address.offset(at)
    }

    pub(super) fn region(&self, key: u32) -> Region {
        self.grants[(key >> 8) as usize].expect("granted").region
    }

    pub(super) fn table(&self) -> KeyTable<'_> {
        // SAFETY: the regions are the test's own lines, used by one thread.
        unsafe { KeyTable::new(&self.grants) }
    }

    pub(super) fn places(&mut self, ring: u64, depth: u32) -> Places {
        Places {
            ring: self.cut(ring),
            completions: self.cut(setup::completion_bytes(depth)),
            record: self.cut(8),
            completion_record: self.cut(8),
            cursor: self.cut(128),
            provenance: self.cut(128),
        }
    }
}

pub(super) fn ring_place(address: DeviceAddress) -> Place {
    Place {
        key: RING_KEY,
        address,
    }
}

/// Both halves of a transmit queue.
pub(super) struct Sending {
    pub(super) memory: Memory,
    pub(super) setup: TxSetup,
    pub(super) block: QueueBlock,
    pub(super) tx: Tx,
    pub(super) queue: SendQueue,
    pub(super) completions: CompletionQueue,
}

impl Sending {
    /// `start` is the index at which both halves begin.
    pub(super) fn new(depth: u32, start: u64) -> Self {
        let mut memory = Memory::new();
        let places = memory.places(setup::tx_ring_bytes(depth), depth);
        let setup = TxSetup {
            depth,
            slot_bytes: 128,
            places,
            doorbell: memory.cut(8),
            table: memory.cut(u64::from(depth) * 8),
            buffers: memory.region(BUFFER_KEY),
            windows: [
                memory.region(BUFFER_KEY),
                Region::default(),
                Region::default(),
                Region::default(),
            ],
            pool: 7,
            number: NUMBER,
            scope: Scope::System,
        };
        // SAFETY: cut from the test's memory with the sizes documented.
        let block = unsafe { setup.initialise() }.expect("sizes fit");
        // SAFETY: as above; this is the only driver.
        let tx = unsafe { Tx::attach(&block) }.expect("attaches");
        tx.retire(start);
        let log = depth.trailing_zeros();
        let queue = SendQueue::new(
            ring_place(places.ring),
            ring_place(places.record),
            ring_place(setup.doorbell),
            NUMBER,
            log,
        )
        .at(start);
        let completions = CompletionQueue::new(
            ring_place(places.completions),
            ring_place(places.completion_record),
            log,
        )
        .at(start);
        Self {
            memory,
            setup,
            block,
            tx,
            queue,
            completions,
        }
    }

    /// Posts a frame of `parts` pieces at slot `first`, with the bytes `tag`, `tag + 1`, …
    pub(super) fn post(&self, first: u64, parts: u32, tag: u8, signal: bool) -> Vec<u8> {
        let mut frame = Vec::new();
        for part in 0..parts {
            let index = first + u64::from(part);
            let bytes = [tag.wrapping_add(part as u8); 21];
            let address = self.tx.buffer(index).address;
            let place = Place {
                key: BUFFER_KEY,
                address,
            };
            self.memory.table().write(place, &bytes).expect("buffer");
            let last = part + 1 == parts;
            let flags = if last && signal {
                PostFlags::SIGNAL
            } else {
                PostFlags::empty()
            };
            let post = Post {
                address,
                length: 21,
                part,
                parts,
                flags,
                ..Post::default()
            };
            self.tx.write(index, &post).expect("posts");
            frame.extend_from_slice(&bytes);
        }
        frame
    }

    /// Publishes and rings; the device takes the doorbell.
    pub(super) fn ring(&mut self, upto: u64) {
        self.tx.publish(upto);
        self.tx.ring(upto);
        let table = self.memory.table();
        let doorbell = self.queue.rung(&table).expect("in reach").expect("rung");
        self.queue.accept(&table, doorbell).expect("accepted");
    }

    pub(super) fn gather(&self, wqe: &Wqe) -> Result<Vec<u8>, Fault> {
        let table = self.memory.table();
        let (mut frame, mut cursor) = (Vec::new(), Cursor::default());
        while let Some(piece) = self.queue.piece(&table, wqe, &mut cursor)? {
            let start = frame.len();
            frame.resize(start + piece.length as usize, 0);
            table.read(piece.place, &mut frame[start..])?;
        }
        Ok(frame)
    }

    /// The device executes all it was rung for; returns the frames.
    pub(super) fn execute(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while self.queue.pending() > 0 {
            let wqe = self.queue.fetch(&self.memory.table()).expect("well formed");
            if wqe.opcode == Opcode::SEND {
                frames.push(self.gather(&wqe).expect("readable"));
            }
            if wqe.signal {
                let cqe = Cqe::new(CqeOpcode::REQUEST, wqe.index);
                self.completions
                    .write(&self.memory.table(), &cqe)
                    .expect("fits");
            }
            self.queue.advance(&wqe);
        }
        frames
    }
}

/// Both halves of a receive queue.
pub(super) struct Receiving {
    pub(super) memory: Memory,
    pub(super) block: QueueBlock,
    pub(super) rx: Rx,
    pub(super) queue: ReceiveQueue,
    pub(super) completions: CompletionQueue,
}

impl Receiving {
    pub(super) fn new(depth: u32, segments: u32, start: u64) -> Self {
        let mut memory = Memory::new();
        let places = memory.places(setup::rx_ring_bytes(depth, segments), depth);
        let setup = RxSetup {
            depth,
            segments,
            segment_bytes: 64,
            places,
            done: memory.cut(u64::from(depth.div_ceil(32)) * 4),
            buffers: memory.region(BUFFER_KEY),
            window: memory.region(BUFFER_KEY),
            pool: 7,
            number: NUMBER,
            timestamps: TimestampFormat::RealTime,
            scope: Scope::System,
        };
        // SAFETY: cut from the test's memory with the sizes documented.
        let block = unsafe { setup.initialise() }.expect("sizes fit");
        // SAFETY: as above; this is the only driver.
        let rx = unsafe { Rx::attach(&block) }.expect("attaches");
        if start > 0 {
            rx.release(start);
        }
        let log = depth.trailing_zeros();
        let log_stride = segments.next_power_of_two().trailing_zeros();
        let (ring, record) = (ring_place(places.ring), ring_place(places.record));
        let queue = ReceiveQueue::new(ring, record, NUMBER, log, log_stride).at(start);
        let (ring, record) = (
            ring_place(places.completions),
            ring_place(places.completion_record),
        );
        let completions = CompletionQueue::new(ring, record, log).at(start);
        Self {
            memory,
            block,
            rx,
            queue,
            completions,
        }
    }

    /// The device receives a frame; false if no WQE is posted.
    pub(super) fn deliver(&mut self, frame: &[u8]) -> bool {
        let table = self.memory.table();
        if self.queue.posted(&table).expect("index is possible") == 0 {
            return false;
        }
        let (mut rest, mut part) = (frame, 0);
        while !rest.is_empty() {
            let piece = self
                .queue
                .piece(&table, part)
                .expect("in reach")
                .expect("has room");
            let (here, after) = rest.split_at(rest.len().min(piece.length as usize));
            table.write(piece.place, here).expect("buffer");
            (rest, part) = (after, part + 1);
        }
        let mut cqe = Cqe::new(CqeOpcode::RESPONSE_SEND, self.queue.next());
        cqe.byte_cnt = (frame.len() as u32).into();
        self.complete(&cqe);
        true
    }

    pub(super) fn complete(&mut self, cqe: &Cqe) {
        let table = self.memory.table();
        assert_ne!(self.queue.posted(&table), Ok(0), "posted");
        self.completions
            .write(&self.memory.table(), cqe)
            .expect("fits");
        self.queue.advance();
    }

    /// The driver reads the frame in slot `index`.
    pub(super) fn take(&self, index: u64) -> Result<Vec<u8>, Cause> {
        assert!(self.rx.owned(index).is_ready, "slot {index} is not there");
        self.rx.observe();
        let (mut frame, mut part) = (Vec::new(), 0);
        loop {
            let segment = self.rx.segment(index, part);
            if segment.fault() {
                return Err(self.rx.fault(index));
            }
            let start = frame.len();
            frame.resize(start + segment.length as usize, 0);
            let place = Place {
                key: BUFFER_KEY,
                address: segment.address,
            };
            self.memory
                .table()
                .read(place, &mut frame[start..])
                .expect("in bounds");
            if !segment.more() {
                return Ok(frame);
            }
            part += 1;
        }
    }
}
