//! memif, either role. The NIC is the other role's half, driven through its verbs.

use warpwire_ring::memif::{
    CLIENT_LAYOUT, ClientBody, ClientRx, ClientTx, RegionPlan, RingKind, SERVER_LAYOUT, ServerBody,
    ServerRx, ServerTx,
};
use warpwire_ring::{
    Cause, DeviceAddress, Direction, Format, Location, Post, QueueBlock, Receive, Region, Transmit,
    block, memory,
};

use super::{Pages, Span, Wire, Words, bytes_at, put_bytes};

/// Which roles we and the NIC play.
pub(crate) trait Role {
    type Rx: Receive;
    type Tx: Transmit;
    type NicRx: Receive;
    type NicTx: Transmit;
    /// Whether we are the client.
    const CLIENT: bool;
}

pub(crate) struct Client;
pub(crate) struct Server;

impl Role for Client {
    type Rx = ClientRx;
    type Tx = ClientTx;
    type NicRx = ServerRx;
    type NicTx = ServerTx;
    const CLIENT: bool = true;
}

impl Role for Server {
    type Rx = ServerRx;
    type Tx = ServerTx;
    type NicRx = ClientRx;
    type NicTx = ClientTx;
    const CLIENT: bool = false;
}

pub(crate) struct Memif<R: Role> {
    pages: Pages,
    plan: RegionPlan,
    rx: QueueBlock,
    tx: QueueBlock,
    nic_rx: R::NicRx,
    nic_tx: R::NicTx,
    region: DeviceAddress,
    /// Slots that the NIC published, and those that it may fill.
    sent: u64,
    free: u64,
    /// Slots that the NIC took, and those of them that it gave back.
    taken: u64,
    released: u64,
    /// Slots of each frame that was taken and not given back.
    frames: Vec<u32>,
}

impl<R: Role> Memif<R> {
    fn kind(receive: bool) -> RingKind {
        if receive == R::CLIENT {
            RingKind::ServerToClient
        } else {
            RingKind::ClientToServer
        }
    }

    /// Looks which slots came back.
    fn look(&mut self) {
        let free = self.nic_tx.completions(self.free);
        (self.free..free).for_each(|slot| self.nic_tx.recycle(slot));
        self.free = free;
    }

    /// Sends slots; `pieces` of a frame that goes on unless `last`.
    fn send(&mut self, pieces: &[&[u8]], last: bool) -> bool {
        self.look();
        let depth = u64::from(self.plan.depth);
        if depth - (self.sent - self.free) < pieces.len() as u64 {
            return false;
        }
        for (part, piece) in (0u32..).zip(pieces) {
            let index = self.sent + u64::from(part);
            let buffer = self.nic_tx.buffer(index);
            assert!(piece.len() <= buffer.capacity as usize);
            put_bytes(piece, buffer.address);
            let post = Post {
                address: buffer.address,
                length: piece.len() as u32,
                part,
                parts: pieces.len() as u32 + u32::from(!last),
                ..Post::default()
            };
            self.nic_tx.write(index, &post).expect("writes");
        }
        self.sent += pieces.len() as u64;
        self.nic_tx.publish(self.sent);
        true
    }

    fn ring(&self, receive: bool) -> DeviceAddress {
        let offset = self.plan.ring_offset(Self::kind(receive), 0);
        self.region.offset(offset)
    }
}

impl<R: Role> Wire for Memif<R> {
    type Rx = R::Rx;
    type Tx = R::Tx;

    fn with_slots(depth: u32, start: u64, slot_bytes: u32) -> Self {
        let plan = RegionPlan {
            to_server: 1,
            to_client: 1,
            depth,
            slot_bytes,
        };
        assert!(plan.is_sound());
        let mut pages = Pages::new(plan.bytes() as usize + depth as usize * 8 + (64 << 10));
        let region = pages.cut(plan.bytes() as usize, 4096);
        let regions = pages.cut(size_of::<Region>(), 128);
        let value = Region {
            address: region,
            length: plan.bytes(),
            key: 0,
            location: Location::PageableHost,
        };
        // SAFETY: memory that was cut for it.
        unsafe { core::ptr::write(regions.value() as *mut Region, value) };
        let mut make = |receive: bool| {
            let kind = Self::kind(receive);
            let table = pages.cut(depth as usize * 4, 128);
            // SAFETY: region and table are cut for the plan.
            unsafe { plan.format_ring(region, table, kind, 0, 0) };
            let ring = region.offset(plan.ring_offset(kind, 0));
            let offered = match kind {
                RingKind::ServerToClient => start.wrapping_add(u64::from(depth)),
                RingKind::ClientToServer => start,
            };
            // SAFETY: the head and the tail of the ring.
            unsafe { memory::store_release_u16(ring.offset(HEAD), offered as u16) };
            // SAFETY: as above.
            unsafe { memory::store_release_u16(ring.offset(TAIL), start as u16) };
            // SAFETY: the flags of the ring: its reader polls.
            unsafe { memory::store_release_u16(ring.offset(FLAGS), 1) };
            let kick = pages.cut(8, 128);
            let written = pages.cut(depth as usize * 4, 128);
            let words = Words::cut(&mut pages, depth);
            if receive {
                words.receive_at(start);
            } else {
                words.transmit_at(start);
            }
            let client = ClientBody {
                ring,
                buffers: table,
                region,
                region_bytes: plan.bytes(),
                pool_offset: plan.pool_offset(),
                region_number: 0,
                kick,
            };
            let server = ServerBody {
                ring,
                regions,
                region_count: 1,
                kick,
                written,
            };
            let block = |ours: bool, receive: bool| {
                let mut block = block_of(ours == R::CLIENT, receive, depth, slot_bytes);
                block.body = if ours == R::CLIENT {
                    client.words()
                } else {
                    server.words()
                };
                words.put(&mut block);
                block
            };
            (block(true, receive), block(false, !receive))
        };
        let (rx, nic_tx) = make(true);
        let (tx, nic_rx) = make(false);
        Self {
            pages,
            plan,
            rx,
            tx,
            // SAFETY: the blocks name memory of this wire.
            nic_rx: unsafe { R::NicRx::attach(&nic_rx) }.expect("attaches"),
            // SAFETY: as above.
            nic_tx: unsafe { R::NicTx::attach(&nic_tx) }.expect("attaches"),
            region,
            sent: start,
            free: start,
            taken: start,
            released: start,
            frames: Vec::new(),
        }
    }

    fn rx_block(&self) -> QueueBlock {
        self.rx
    }

    fn tx_block(&self) -> QueueBlock {
        self.tx
    }

    fn slot_bytes(&self) -> usize {
        self.plan.slot_bytes as usize
    }

    fn slots_for(&self, length: usize) -> u32 {
        length.div_ceil(self.slot_bytes()) as u32
    }

    fn deliver(&mut self, frame: &[u8]) -> bool {
        let pieces: Vec<&[u8]> = frame.chunks(self.slot_bytes()).collect();
        self.send(&pieces, true)
    }

    fn has_room(&mut self) -> bool {
        self.look();
        self.sent - self.free < u64::from(self.plan.depth)
    }

    fn deliver_bad(&mut self) -> Cause {
        let index = self.sent;
        assert!(self.send(&[&[0; 60]], true), "room for a bad slot");
        // A length that no buffer and no region has.
        let slot = index & u64::from(self.plan.depth - 1);
        let descriptor = self.ring(true).offset(DESCRIPTORS + slot * 16);
        // SAFETY: the length word of the descriptor.
        unsafe { memory::store_u32(descriptor.offset(4), u32::MAX) };
        Cause::RingCorrupted
    }

    fn deliver_part(&mut self, pieces: &[&[u8]], last: bool) -> bool {
        self.send(pieces, last)
    }

    fn break_receive(&mut self) -> bool {
        let word = if R::CLIENT { TAIL } else { HEAD };
        let beyond = (self.sent as u16).wrapping_add(self.plan.depth as u16 + 1);
        // SAFETY: an index of the ring.
        unsafe { memory::store_release_u16(self.ring(true).offset(word), beyond) };
        true
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let ready = self.nic_rx.produced(self.taken);
        let mut frame = Vec::new();
        let mut slots = 0;
        while self.taken + u64::from(slots) < ready {
            let segment = self.nic_rx.segment(self.taken + u64::from(slots), 0);
            assert!(!segment.fault(), "we send what can be read");
            frame.extend(bytes_at(segment.address, segment.length));
            slots += 1;
            if !segment.more() {
                self.taken += u64::from(slots);
                self.frames.push(slots);
                return Some(frame);
            }
        }
        assert_eq!(slots, 0, "only whole frames are published");
        None
    }

    fn complete(&mut self) -> bool {
        if self.frames.is_empty() {
            return false;
        }
        let slots = self.frames.remove(0);
        for slot in 0..u64::from(slots) {
            self.nic_rx.refill(self.released + slot);
        }
        self.released += u64::from(slots);
        self.nic_rx.release(self.released);
        true
    }

    fn complete_bad(&mut self) -> Option<Cause> {
        None
    }

    fn break_transmit(&mut self) -> bool {
        let word = if R::CLIENT { TAIL } else { HEAD };
        let depth = if R::CLIENT { 0 } else { self.plan.depth as u16 };
        let beyond = (self.taken as u16).wrapping_add(depth + self.plan.depth as u16 + 1);
        // SAFETY: an index of the ring.
        unsafe { memory::store_release_u16(self.ring(false).offset(word), beyond) };
        true
    }

    fn fall_asleep(&mut self) {
        for receive in [false, true] {
            // SAFETY: the flags of a ring.
            unsafe { memory::store_release_u16(self.ring(receive).offset(FLAGS), 0) };
        }
    }

    fn exposed(&self) -> Vec<Span> {
        // Rings and buffers lie in one region, which both sides have mapped.
        vec![Span {
            address: self.region,
            bytes: self.plan.bytes(),
        }]
    }

    fn buffers(&self) -> Vec<Span> {
        // The client reads its own buffers alone; a server goes where the client's region is.
        let from = if R::CLIENT {
            self.plan.pool_offset()
        } else {
            0
        };
        vec![Span {
            address: self.region.offset(from),
            bytes: self.plan.bytes() - from,
        }]
    }

    fn forge(&mut self, receive: bool, words: [u32; 4]) {
        let ring = self.ring(receive);
        let index = ring.offset(if R::CLIENT { TAIL } else { HEAD });
        // SAFETY: an index of the ring.
        let at = unsafe { memory::load_u16(index) };
        let [steps, head, length, offset] = words;
        let slot = u64::from(at) & u64::from(self.plan.depth - 1);
        let descriptor = [head, length, offset, 0].map(u32::to_le_bytes).concat();
        put_bytes(&descriptor, ring.offset(DESCRIPTORS + slot * 16));
        // SAFETY: an index of the ring.
        unsafe { memory::store_release_u16(index, at.wrapping_add(steps as u16)) };
    }

    fn pages(&self) -> &Pages {
        &self.pages
    }
}

fn block_of(client: bool, receive: bool, depth: u32, slot_bytes: u32) -> QueueBlock {
    let direction = if receive {
        Direction::Receive
    } else {
        Direction::Transmit
    };
    QueueBlock {
        abi: block::ABI,
        format: Format::Memif as u32,
        direction: direction as u32,
        scope: 2,
        layout: if client { CLIENT_LAYOUT } else { SERVER_LAYOUT },
        depth,
        slot_bytes,
        cursor: DeviceAddress::NULL,
        provenance: DeviceAddress::NULL,
        done: DeviceAddress::NULL,
        location: Location::PageableHost as u32,
        reserved: 0,
        body: [0; 24],
    }
}

const FLAGS: u64 = 4;
const HEAD: u64 = 6;
const TAIL: u64 = 64;
const DESCRIPTORS: u64 = 128;
