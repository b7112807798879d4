//! mlx5. The NIC is the device half, over memory with keys.

use std::collections::VecDeque;

use warpwire_ring::device_memory::{DeviceMemory, Grant, KeyTable, Place};
use warpwire_ring::mlx5::device::{CompletionQueue, Cursor, ReceiveQueue, SendQueue};
use warpwire_ring::mlx5::layout::{Cqe, CqeOpcode, ErrorCqe, Opcode};
use warpwire_ring::mlx5::setup::{self, Places, RxSetup, TxSetup};
use warpwire_ring::mlx5::{Rx, TimestampFormat, Tx};
use warpwire_ring::{Cause, DeviceAddress, Location, QueueBlock, Receive, Region, Scope, Transmit};

use super::{Pages, Span, Wire, Words};

/// Receive slots have `SEGMENTS` buffers each.
pub(crate) struct Mlx5<const SEGMENTS: u32> {
    pages: Pages,
    exposed: [Span; 2],
    buffers: Span,
    grants: Vec<Option<Grant>>,
    rx: QueueBlock,
    tx: QueueBlock,
    receive: ReceiveQueue,
    receive_completions: CompletionQueue,
    send: SendQueue,
    send_completions: CompletionQueue,
    /// What was taken: the index of the last basic block with a signal, if the frame has one.
    taken: VecDeque<Option<u64>>,
}

const RING_KEY: u32 = 0x0042;
const BUFFER_KEY: u32 = 0x0107;
const NUMBER: u32 = 0x00ab_cdef;

impl<const SEGMENTS: u32> Mlx5<SEGMENTS> {
    fn table(&self) -> KeyTable<'_> {
        // SAFETY: the regions are the wire's own memory, used by one thread.
        unsafe { KeyTable::new(&self.grants) }
    }

    fn received(&mut self, cqe: &Cqe) {
        // SAFETY: the regions are the wire's own memory, used by one thread.
        let table = unsafe { KeyTable::new(&self.grants) };
        self.receive_completions.write(&table, cqe).expect("fits");
        self.receive.advance();
    }

    fn sent(&mut self, cqe: &Cqe) {
        // SAFETY: the regions are the wire's own memory, used by one thread.
        let table = unsafe { KeyTable::new(&self.grants) };
        self.send_completions.write(&table, cqe).expect("fits");
    }

    fn posted(&mut self) -> u32 {
        // SAFETY: the regions are the wire's own memory, used by one thread.
        let table = unsafe { KeyTable::new(&self.grants) };
        self.receive.posted(&table).expect("possible index")
    }

    /// Fetches what was rung for.
    fn look(&mut self) {
        // SAFETY: the regions are the wire's own memory, used by one thread.
        let table = unsafe { KeyTable::new(&self.grants) };
        if let Some(doorbell) = self.send.rung(&table).expect("in reach") {
            self.send.accept(&table, doorbell).expect("accepted");
        }
    }
}

fn place(address: DeviceAddress) -> Place {
    Place {
        key: RING_KEY,
        address,
    }
}

impl<const SEGMENTS: u32> Wire for Mlx5<SEGMENTS> {
    type Rx = Rx;
    type Tx = Tx;
    const COMPLETES_ALL: bool = false;

    fn with_slots(depth: u32, start: u64, slot_bytes: u32) -> Self {
        let slots = depth as usize;
        let ring_bytes = slots * 640 + (16 << 10);
        let buffer_bytes = slots * slot_bytes as usize * 2;
        let mut pages = Pages::new(ring_bytes + buffer_bytes + (16 << 10));
        let mut region = |bytes: usize, key: u32| {
            let region = Region {
                address: pages.cut(bytes, 4096),
                length: bytes as u64,
                key,
                location: Location::Device,
            };
            let writable = true;
            (region, Some(Grant { region, writable }))
        };
        let (rings, ring_grant) = region(ring_bytes, RING_KEY);
        let (buffers, buffer_grant) = region(buffer_bytes, BUFFER_KEY);
        let mut used = 0;
        let mut cut = |bytes: u64| {
            let at = rings.address.offset(used);
            used += bytes.next_multiple_of(128);
            assert!(used <= rings.length, "test memory is too small");
            at
        };
        let mut places = |ring: u64| Places {
            ring: cut(ring),
            completions: cut(setup::completion_bytes(depth)),
            record: cut(8),
            completion_record: cut(8),
            cursor: cut(128),
            provenance: cut(128),
        };
        let rx_places = places(setup::rx_ring_bytes(depth, SEGMENTS));
        let tx_places = places(setup::tx_ring_bytes(depth));
        let half = Region {
            length: buffers.length / 2,
            ..buffers
        };
        let rx_setup = RxSetup {
            depth,
            segments: SEGMENTS,
            segment_bytes: slot_bytes / SEGMENTS,
            places: rx_places,
            done: cut(u64::from(depth.div_ceil(32)) * 4),
            buffers: half,
            window: buffers,
            pool: 7,
            number: NUMBER,
            timestamps: TimestampFormat::RealTime,
            scope: Scope::System,
        };
        let tx_setup = TxSetup {
            depth,
            slot_bytes,
            places: tx_places,
            doorbell: cut(8),
            table: cut(u64::from(depth) * 8),
            buffers: Region {
                address: half.address.offset(half.length),
                ..half
            },
            windows: [
                buffers,
                Region::default(),
                Region::default(),
                Region::default(),
            ],
            pool: 7,
            number: NUMBER,
            scope: Scope::System,
        };
        // SAFETY: cut from the wire's memory with the sizes documented.
        let rx = unsafe { rx_setup.initialise() }.expect("sizes fit");
        // SAFETY: as above.
        let tx = unsafe { tx_setup.initialise() }.expect("sizes fit");
        let words = |block: &QueueBlock| Words {
            cursor: block.cursor,
            provenance: block.provenance,
            done: block.done,
        };
        words(&rx).receive_at(start);
        words(&tx).transmit_at(start);
        // SAFETY: attached to tell the NIC that all slots before `start` came and went.
        unsafe { Rx::attach(&rx) }.expect("attaches").release(start);
        // SAFETY: as above.
        unsafe { Tx::attach(&tx) }.expect("attaches").retire(start);
        let log = depth.trailing_zeros();
        let log_stride = SEGMENTS.next_power_of_two().trailing_zeros();
        let completions = |places: &Places| {
            let (ring, record) = (place(places.completions), place(places.completion_record));
            CompletionQueue::new(ring, record, log).at(start)
        };
        let (ring, record) = (place(rx_places.ring), place(rx_places.record));
        let receive = ReceiveQueue::new(ring, record, NUMBER, log, log_stride).at(start);
        let (ring, record) = (place(tx_places.ring), place(tx_places.record));
        let doorbell = place(tx_setup.doorbell);
        let send = SendQueue::new(ring, record, doorbell, NUMBER, log).at(start);
        Self {
            pages,
            exposed: [&rx_places, &tx_places].map(|places| Span {
                address: places.completions,
                bytes: setup::completion_bytes(depth),
            }),
            buffers: Span {
                address: buffers.address,
                bytes: buffers.length,
            },
            grants: vec![ring_grant, buffer_grant],
            rx,
            tx,
            receive,
            receive_completions: completions(&rx_places),
            send,
            send_completions: completions(&tx_places),
            taken: VecDeque::new(),
        }
    }

    fn rx_block(&self) -> QueueBlock {
        self.rx
    }

    fn tx_block(&self) -> QueueBlock {
        self.tx
    }

    fn slot_bytes(&self) -> usize {
        self.tx.slot_bytes as usize
    }

    fn slots_for(&self, length: usize) -> u32 {
        u32::from(length <= self.slot_bytes())
    }

    fn deliver(&mut self, frame: &[u8]) -> bool {
        if self.posted() == 0 {
            return false;
        }
        let (mut rest, mut part) = (frame, 0);
        while !rest.is_empty() {
            let table = self.table();
            let piece = self.receive.piece(&table, part).expect("in reach");
            let piece = piece.expect("the frame fits the slot");
            let (here, after) = rest.split_at(rest.len().min(piece.length as usize));
            table.write(piece.place, here).expect("writable");
            (rest, part) = (after, part + 1);
        }
        let mut cqe = Cqe::new(CqeOpcode::RESPONSE_SEND, self.receive.next());
        cqe.byte_cnt = (frame.len() as u32).into();
        self.received(&cqe);
        true
    }

    fn has_room(&mut self) -> bool {
        self.posted() > 0
    }

    fn deliver_bad(&mut self) -> Cause {
        assert_ne!(self.posted(), 0, "room for a bad slot");
        let cause = Cause::LocalLength;
        let syndrome = cause.syndrome().expect("mlx5 has one");
        let next = self.receive.next();
        let error = ErrorCqe::new(CqeOpcode::RESPONSE_ERROR, next, syndrome);
        self.received(&error.as_cqe());
        cause
    }

    fn deliver_part(&mut self, _pieces: &[&[u8]], _last: bool) -> bool {
        false
    }

    fn break_receive(&mut self) -> bool {
        false
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        self.look();
        let mut frame = None;
        let mut signal = None;
        while self.send.pending() > 0 {
            let table = self.table();
            let wqe = self.send.fetch(&table).expect("well formed");
            if wqe.opcode == Opcode::SEND {
                if frame.is_some() {
                    break;
                }
                let (mut bytes, mut cursor) = (Vec::new(), Cursor::default());
                let mut walk = || self.send.piece(&table, &wqe, &mut cursor);
                while let Some(piece) = walk().expect("well formed") {
                    let start = bytes.len();
                    bytes.resize(start + piece.length as usize, 0);
                    table
                        .read(piece.place, &mut bytes[start..])
                        .expect("readable");
                }
                frame = Some(bytes);
            }
            if wqe.signal {
                signal = Some(wqe.index);
            }
            self.send.advance(&wqe);
        }
        if frame.is_some() {
            self.taken.push_back(signal);
        }
        frame
    }

    fn complete(&mut self) -> bool {
        let Some(signal) = self.taken.pop_front() else {
            return false;
        };
        if let Some(index) = signal {
            self.sent(&Cqe::new(CqeOpcode::REQUEST, index));
        }
        true
    }

    fn complete_bad(&mut self) -> Option<Cause> {
        self.taken.pop_front().expect("something was taken");
        let cause = Cause::LocalProtection;
        let syndrome = cause.syndrome().expect("mlx5 has one");
        // Frames are one block each in the tests that let one fail.
        let index = self.send.next() - 1 - self.taken.len() as u64;
        let error = ErrorCqe::new(CqeOpcode::REQUEST_ERROR, index, syndrome);
        self.sent(&error.as_cqe());
        Some(cause)
    }

    fn break_transmit(&mut self) -> bool {
        let beyond = self.send.next() + 3;
        self.sent(&Cqe::new(CqeOpcode::REQUEST, beyond));
        true
    }

    fn exposed(&self) -> Vec<Span> {
        self.exposed.to_vec()
    }

    fn buffers(&self) -> Vec<Span> {
        vec![self.buffers]
    }

    fn forge(&mut self, receive: bool, words: [u32; 4]) {
        let [kind, counter, count, rest] = words;
        let opcode = [
            CqeOpcode::RESPONSE_SEND,
            CqeOpcode::REQUEST,
            CqeOpcode::RESPONSE_ERROR,
            CqeOpcode::REQUEST_ERROR,
            CqeOpcode((rest & 15) as u8),
        ];
        let opcode = opcode[kind as usize % opcode.len()];
        let next = if receive {
            self.receive.next()
        } else {
            self.send.next()
        };
        let index = next.wrapping_add(u64::from(counter));
        let mut cqe = Cqe::new(opcode, index);
        cqe.byte_cnt = count.into();
        if opcode.is_error() {
            cqe = ErrorCqe::new(opcode, index, rest as u8).as_cqe();
        }
        let completions = if receive {
            &mut self.receive_completions
        } else {
            &mut self.send_completions
        };
        // SAFETY: the regions are the wire's own memory, used by one thread.
        let table = unsafe { KeyTable::new(&self.grants) };
        // No room for one more: even this NIC cannot write it.
        let _ = completions.write(&table, &cqe);
        if receive && kind >> 16 & 1 != 0 && matches!(self.receive.posted(&table), Ok(1..)) {
            self.receive.advance();
        }
    }

    fn pages(&self) -> &Pages {
        &self.pages
    }
}
