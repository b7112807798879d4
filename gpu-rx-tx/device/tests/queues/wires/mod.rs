//! A receive and a transmit queue of each format, with the format's other half as the NIC.
//!
//! The memory is the `ground` of whoever names this module.
#![expect(
    unsafe_code,
    reason = "tests own the memory that queues and NICs work on"
)]

mod memif;
mod mlx5;
mod xdp;

use warpwire_device::{Area, Receiver, Sender, SharedWord};
use warpwire_ring::{
    Cause, DeviceAddress, Location, Provenance, QueueBlock, Receive, Region, RxCursor, Transmit,
    TxCursor, memory,
};

use super::ground::Ground;

pub(crate) use memif::{Client, Memif, Server};
pub(crate) use mlx5::Mlx5;
pub(crate) use xdp::Xdp;

/// Both queues of one port, and the NIC behind them.
pub(crate) trait Wire: Sized {
    type Rx: Receive;
    type Tx: Transmit;
    /// Whether every completion is told of, and not one in an interval.
    const COMPLETES_ALL: bool = true;

    /// Queues of `depth` slots, all indices at `start`.
    fn new(depth: u32, start: u64) -> Self {
        Self::with_slots(depth, start, 256)
    }
    /// [`Wire::new`], with so many bytes in a slot where the format has no size of its own.
    fn with_slots(depth: u32, start: u64, slot_bytes: u32) -> Self;
    fn rx_block(&self) -> QueueBlock;
    fn tx_block(&self) -> QueueBlock;

    /// Bytes that one receive slot holds.
    fn slot_bytes(&self) -> usize;
    /// Receive slots that a frame of this length takes; 0 if it cannot be received.
    fn slots_for(&self, length: usize) -> u32;

    /// The NIC receives a frame. Says no if too few slots are free; then nothing changed.
    fn deliver(&mut self, frame: &[u8]) -> bool;
    /// Whether a frame of one slot would be accepted.
    fn has_room(&mut self) -> bool;
    /// The NIC delivers something that cannot be read; why that is so.
    fn deliver_bad(&mut self) -> Cause;
    /// The NIC makes the first `pieces` slots of a longer frame visible. Says no if it never would.
    fn deliver_part(&mut self, pieces: &[&[u8]], last: bool) -> bool;
    /// The NIC's receive index becomes impossible. Says no if the format has none.
    fn break_receive(&mut self) -> bool;

    /// The next frame that was sent.
    fn take(&mut self) -> Option<Vec<u8>>;
    /// The oldest frame that was taken is done with. Says no if there is none.
    fn complete(&mut self) -> bool;
    /// The oldest frame that was taken failed; why. `None` if the format cannot say so.
    fn complete_bad(&mut self) -> Option<Cause>;
    /// The NIC's completion index becomes impossible. Says no if the format has none.
    fn break_transmit(&mut self) -> bool;

    /// The NIC sleeps, and wants to be told of what it gets. Does nothing where NICs never do.
    fn fall_asleep(&mut self) {}

    /// Memory that the NIC may write at any time: rings, and buffers where they are shared.
    fn exposed(&self) -> Vec<Span>;
    /// Memory that a frame may lie in.
    fn buffers(&self) -> Vec<Span>;
    /// The NIC makes an entry of the receive or transmit queue visible; what it says, and how far
    /// the NIC's index moves, is in the words.
    fn forge(&mut self, receive: bool, words: [u32; 4]);
    /// The NIC works on whatever it finds in the rings. Does nothing where its half is another
    /// driver, or has an oracle of its own.
    fn work(&mut self) {}
    /// All memory of the wire.
    fn pages(&self) -> &Pages;

    /// Panics if memory that belongs to nothing was written.
    fn check_untouched(&self) {
        self.pages().check_marks();
    }

    /// Whether receive and transmit buffers can change places.
    fn shares_a_pool(&self) -> bool {
        // SAFETY: the block names memory of the wire; nothing is driven.
        let rx = unsafe { Self::Rx::attach(&self.rx_block()) }.expect("attaches");
        // SAFETY: as above.
        let tx = unsafe { Self::Tx::attach(&self.tx_block()) }.expect("attaches");
        rx.pool() != 0 && rx.pool() == tx.pool()
    }

    fn receiver(&self) -> Receiver<Self::Rx> {
        // SAFETY: the block names memory of the wire, and the test drives one receiver at a time.
        unsafe { Receiver::attach(&self.rx_block()) }.expect("attaches")
    }

    fn sender(&self) -> Sender<Self::Tx> {
        // SAFETY: as above.
        unsafe { Sender::attach(&self.tx_block()) }.expect("attaches")
    }
}

/// Starting indices: fresh, and just before each width wraps.
pub(crate) const STARTS: [u64; 4] = [0, (1 << 16) - 5, (1 << 24) - 5, (1 << 32) - 5];

/// A piece of a wire's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) address: DeviceAddress,
    pub(crate) bytes: u64,
}

/// Zeroed memory that is handed out in pieces, every one on lines of its own, with a line of marks
/// before and behind it.
pub(crate) struct Pages {
    pub(crate) ground: Ground,
    used: usize,
    marks: Vec<DeviceAddress>,
}

impl Pages {
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            ground: Ground::new(bytes),
            used: 0,
            marks: Vec::new(),
        }
    }

    pub(crate) fn cut(&mut self, bytes: usize, alignment: usize) -> DeviceAddress {
        let start = self.ground.start();
        // A line of marks before the piece, and one behind it.
        let at = (self.used + MARKS.len()).next_multiple_of(alignment.max(128));
        self.used = at + bytes + MARKS.len();
        assert!(self.used <= self.ground.bytes(), "test memory is too small");
        for place in [at - MARKS.len(), at + bytes] {
            let mark = start.offset(place as u64);
            put_bytes(&MARKS, mark);
            self.marks.push(mark);
        }
        start.offset(at as u64)
    }

    /// Panics if somebody wrote beside a piece.
    pub(crate) fn check_marks(&self) {
        for &mark in &self.marks {
            let found = bytes_at(mark, MARKS.len() as u32);
            assert_eq!(found, MARKS, "somebody wrote beside a piece");
        }
    }
}

const MARKS: [u8; 128] = [0xd7; 128];

/// The words beside a queue: cursor, counters, done bitmap.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub(crate) cursor: DeviceAddress,
    pub(crate) provenance: DeviceAddress,
    pub(crate) done: DeviceAddress,
}

impl Words {
    pub(crate) fn cut(pages: &mut Pages, depth: u32) -> Self {
        Self {
            cursor: pages.cut(128, 128),
            provenance: pages.cut(128, 128),
            done: pages.cut(depth.div_ceil(32) as usize * 4, 128),
        }
    }

    /// The receive cursor at `start`.
    pub(crate) fn receive_at(&self, start: u64) {
        let cursor = RxCursor {
            head: start,
            released: start,
            ..RxCursor::default()
        };
        // SAFETY: 128 bytes that were cut for a cursor.
        unsafe { core::ptr::write(self.cursor.value() as *mut RxCursor, cursor) };
    }

    /// The transmit cursor at `start`.
    pub(crate) fn transmit_at(&self, start: u64) {
        let cursor = TxCursor {
            reserved: start,
            published: start,
            completed: start,
            completions: start,
            ..TxCursor::default()
        };
        // SAFETY: 128 bytes that were cut for a cursor.
        unsafe { core::ptr::write(self.cursor.value() as *mut TxCursor, cursor) };
    }

    pub(crate) fn put(&self, block: &mut QueueBlock) {
        block.cursor = self.cursor;
        block.provenance = self.provenance;
        block.done = self.done;
    }
}

/// The bytes at an address of a wire's memory.
pub(crate) fn bytes_at(address: DeviceAddress, length: u32) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    // SAFETY: the NIC checked the bounds, and the slot is its own for now.
    unsafe { memory::copy_out(address, &mut bytes) };
    bytes
}

/// Puts bytes at an address of a wire's memory.
pub(crate) fn put_bytes(bytes: &[u8], address: DeviceAddress) {
    // SAFETY: the NIC checked the bounds, and the slot is its own for now.
    unsafe { memory::copy_in(bytes, address) };
}

/// A shared word of its own.
pub(crate) fn word(pages: &mut Pages) -> SharedWord {
    // SAFETY: an aligned word of memory that the caller keeps.
    unsafe { SharedWord::attach(pages.cut(4, 128)) }
}

/// Memory of a test as an area.
pub(crate) fn area(address: DeviceAddress, length: u64, location: Location) -> Area {
    let region = Region {
        address,
        length,
        key: 0,
        location,
    };
    // SAFETY: memory that the caller keeps.
    unsafe { Area::attach(region) }
}

/// The counters of a queue of a wire.
pub(crate) fn counters(_wire: &impl Wire, block: QueueBlock) -> &Provenance {
    // SAFETY: memory of the wire, made of atomics.
    unsafe { &*(block.provenance.value() as *const Provenance) }
}

/// The receive cursor in a wire's memory.
pub(crate) fn rx_cursor(wire: &impl Wire) -> RxCursor {
    // SAFETY: memory of the wire that was cut for a cursor; no kernel runs.
    unsafe { core::ptr::read(wire.rx_block().cursor.value() as *const RxCursor) }
}

/// The transmit cursor in a wire's memory.
pub(crate) fn tx_cursor(wire: &impl Wire) -> TxCursor {
    // SAFETY: memory of the wire that was cut for a cursor; no kernel runs.
    unsafe { core::ptr::read(wire.tx_block().cursor.value() as *const TxCursor) }
}
