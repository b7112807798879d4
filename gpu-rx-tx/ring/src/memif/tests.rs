//! Client against server in memory, both directions, and both against a peer that misbehaves.
#![expect(unsafe_code, reason = "tests own the memory that they attach to")]

mod trust;

use std::boxed::Box;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::address::DeviceAddress;
use crate::block::{ABI, Direction, Format, RxCursor, TxCursor};
use crate::cause::Cause;
use crate::frame::{Post, PostFlags};
use crate::memory;
use crate::provenance::Trigger;
use crate::region::{Location, Region};
use crate::verbs::{Receive, Transmit};

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

/// One connection with a ring each way, in memory of the test.
struct Wire {
    plan: RegionPlan,
    region: Box<[Page]>,
    tables: [Vec<u32>; 2],
    regions: Vec<Region>,
    written: Vec<u32>,
    kick: Box<u64>,
}

fn address<T>(value: &[T]) -> DeviceAddress {
    DeviceAddress::new(value.as_ptr() as u64)
}

impl Wire {
    fn new(depth: u32, slot_bytes: u32) -> Self {
        let plan = RegionPlan {
            to_server: 1,
            to_client: 1,
            depth,
            slot_bytes,
        };
        assert!(plan.is_sound());
        let pages = plan.bytes().div_ceil(4096) as usize;
        let region = vec![Page([0xA5; 4096]); pages].into_boxed_slice();
        let tables = [vec![0; depth as usize], vec![0; depth as usize]];
        let regions = vec![Region {
            address: address(&region),
            length: plan.bytes(),
            key: 0,
            location: Location::PageableHost,
        }];
        let wire = Self {
            plan,
            region,
            tables,
            regions,
            written: vec![0; depth as usize],
            kick: Box::new(0),
        };
        for (kind, table) in KINDS.iter().zip(&wire.tables) {
            let (region, table) = (address(&wire.region), address(table));
            // SAFETY: region and table are ours, of the plan's size.
            unsafe { plan.format_ring(region, table, *kind, 0, 0) };
        }
        wire
    }

    /// Moves both indices of both rings to where they stand after `start` frames.
    fn start_at(&self, start: u64) {
        let depth = self.plan.depth as u16;
        for (kind, ahead) in KINDS.iter().zip([0, depth]) {
            let ring = self.ring(*kind);
            let head = (start as u16).wrapping_add(ahead);
            // SAFETY: indices of a ring that is ours.
            unsafe { memory::store_release_u16(ring.offset(6), head) };
            // SAFETY: as above.
            unsafe { memory::store_release_u16(ring.offset(64), start as u16) };
        }
    }

    fn ring(&self, kind: RingKind) -> DeviceAddress {
        address(&self.region).offset(self.plan.ring_offset(kind, 0))
    }

    fn descriptor(&self, kind: RingKind, slot: u32) -> DeviceAddress {
        self.ring(kind).offset(ring_bytes(slot))
    }

    fn overwrite(&self, kind: RingKind, slot: u32, value: Descriptor) {
        // SAFETY: a descriptor of a ring that is ours.
        unsafe { memory::store_quad(self.descriptor(kind, slot), value.quad()) };
    }

    fn block(&self, role: Role, kind: RingKind) -> QueueBlock {
        let sends = (role == Role::Client) == (kind == RingKind::ClientToServer);
        let kick = DeviceAddress::new(&raw const *self.kick as u64);
        let body = match role {
            Role::Client => ClientBody {
                ring: self.ring(kind),
                buffers: address(&self.tables[usize::from(kind == RingKind::ServerToClient)]),
                region: address(&self.region),
                region_bytes: self.plan.bytes(),
                pool_offset: self.plan.pool_offset(),
                region_number: 0,
                kick,
            }
            .words(),
            Role::Server => ServerBody {
                ring: self.ring(kind),
                regions: address(&self.regions),
                region_count: self.regions.len() as u64,
                kick,
                written: address(&self.written),
            }
            .words(),
        };
        QueueBlock {
            abi: ABI,
            format: Format::Memif as u32,
            direction: if sends {
                Direction::Transmit
            } else {
                Direction::Receive
            } as u32,
            scope: 2,
            layout: if role == Role::Client {
                CLIENT_LAYOUT
            } else {
                SERVER_LAYOUT
            },
            depth: self.plan.depth,
            slot_bytes: self.plan.slot_bytes,
            cursor: DeviceAddress::NULL,
            provenance: DeviceAddress::NULL,
            done: DeviceAddress::NULL,
            location: Location::PageableHost as u32,
            reserved: 0,
            body,
        }
    }

    fn sender<T: Transmit>(&self, role: Role, kind: RingKind, cursor: TxCursor) -> Sender<T> {
        // SAFETY: the block points into memory of the test.
        let queue = unsafe { T::attach(&self.block(role, kind)) }.unwrap();
        Sender { queue, cursor }
    }

    fn receiver<R: Receive>(&self, role: Role, kind: RingKind, cursor: RxCursor) -> Receiver<R> {
        // SAFETY: the block points into memory of the test.
        let queue = unsafe { R::attach(&self.block(role, kind)) }.unwrap();
        Receiver { queue, cursor }
    }

    fn to_server(&self, start: u64) -> (Sender<ClientTx>, Receiver<ServerRx>) {
        (
            self.sender(
                Role::Client,
                RingKind::ClientToServer,
                tx_cursor(start, start),
            ),
            self.receiver(Role::Server, RingKind::ClientToServer, rx_cursor(start)),
        )
    }

    fn to_client(&self, start: u64) -> (Sender<ServerTx>, Receiver<ClientRx>) {
        (
            self.sender(
                Role::Server,
                RingKind::ServerToClient,
                tx_cursor(start, start),
            ),
            self.receiver(Role::Client, RingKind::ServerToClient, rx_cursor(start)),
        )
    }
}

const KINDS: [RingKind; 2] = [RingKind::ClientToServer, RingKind::ServerToClient];

fn tx_cursor(next: u64, completed: u64) -> TxCursor {
    TxCursor {
        reserved: next,
        published: next,
        completed,
        completions: completed,
        ..TxCursor::default()
    }
}

fn rx_cursor(next: u64) -> RxCursor {
    RxCursor {
        head: next,
        released: next,
        ..RxCursor::default()
    }
}

/// The least that a driver does over the transmit verbs.
struct Sender<T> {
    queue: T,
    cursor: TxCursor,
}

impl<T: Transmit> Sender<T> {
    fn poll(&mut self) -> Result<(), Cause> {
        let now = self.queue.completions(self.cursor.completions);
        if now > self.cursor.reserved {
            return Err(Cause::RingCorrupted);
        }
        for entry in self.cursor.completions..now {
            self.queue.recycle(entry);
        }
        self.queue.retire(now);
        self.cursor.completions = now;
        self.cursor.completed = now;
        Ok(())
    }

    fn free(&self) -> u64 {
        u64::from(self.queue.depth()) - (self.cursor.reserved - self.cursor.completed)
    }

    /// Sends a frame in as many pieces as its list says; all of it or nothing.
    fn send(&mut self, pieces: &[&[u8]]) -> Result<(), Cause> {
        if self.free() < pieces.len() as u64 {
            self.poll()?;
        }
        if self.free() < pieces.len() as u64 {
            return Err(Cause::NoResource);
        }
        for (part, piece) in pieces.iter().enumerate() {
            let index = self.cursor.reserved;
            let buffer = self.queue.buffer(index);
            assert!(piece.len() <= buffer.capacity as usize);
            // SAFETY: the buffer of a free slot, big enough.
            unsafe { memory::copy_in(piece, buffer.address) };
            let post = Post {
                address: buffer.address,
                length: piece.len() as u32,
                part: part as u32,
                parts: pieces.len() as u32,
                ..Post::default()
            };
            self.queue.write(index, &post)?;
            self.cursor.reserved += 1;
        }
        Ok(())
    }

    fn publish(&mut self) -> Trigger {
        self.cursor.published = self.cursor.reserved;
        self.queue.publish(self.cursor.published);
        self.queue.ring(self.cursor.published)
    }
}

/// The least that a driver does over the receive verbs.
struct Receiver<R> {
    queue: R,
    cursor: RxCursor,
}

impl<R: Receive> Receiver<R> {
    fn ready(&self) -> Result<u64, Cause> {
        let now = self.queue.produced(self.cursor.head);
        if now - self.cursor.released > u64::from(self.queue.depth()) {
            return Err(Cause::RingCorrupted);
        }
        Ok(now - self.cursor.head)
    }

    /// Takes the next frame as its pieces.
    fn receive(&mut self) -> Result<Option<Vec<Vec<u8>>>, Cause> {
        let ready = self.ready()?;
        let mut pieces = Vec::new();
        for index in self.cursor.head..self.cursor.head + ready {
            let segment = self.queue.segment(index, 0);
            if segment.fault() {
                self.cursor.head = index + 1;
                return Err(self.queue.fault(index));
            }
            let mut piece = vec![0; segment.length as usize];
            // SAFETY: a checked piece within the memory of the test.
            unsafe { memory::copy_out(segment.address, &mut piece) };
            pieces.push(piece);
            if !segment.more() {
                self.cursor.head = index + 1;
                return Ok(Some(pieces));
            }
        }
        Ok(None)
    }

    fn release(&mut self, upto: u64) {
        assert!(self.cursor.released <= upto && upto <= self.cursor.head);
        for index in self.cursor.released..upto {
            self.queue.refill(index);
        }
        self.queue.release(upto);
        self.cursor.released = upto;
    }

    fn release_all(&mut self) {
        self.release(self.cursor.head);
    }
}

/// The index where a test starts, and its name in messages. A server's may not lie below [`FIRST`].
const STARTS: [u64; 4] = [FIRST, (1 << 17) - 3, (1 << 32) - 3, u64::MAX / 2];

/// Runs a scenario on both kinds of ring, from each start.
macro_rules! both_kinds {
    ($depth:expr, $slot:expr, |$tx:ident, $rx:ident| $body:block) => {
        for start in STARTS {
            let wire = Wire::new($depth, $slot);
            wire.start_at(start);
            {
                let (mut $tx, mut $rx) = wire.to_server(start);
                $body
            }
            let (mut $tx, mut $rx) = wire.to_client(start);
            $body
        }
    };
}

#[test]
fn frames_arrive_in_order_over_every_wrap() {
    both_kinds!(8, 64, |tx, rx| {
        for number in 0..3 * (1_u64 << 16) / 8 {
            let frame = number.to_le_bytes();
            for _ in 0..8 {
                tx.send(&[&frame]).unwrap();
            }
            assert_eq!(tx.send(&[&frame]), Err(Cause::NoResource));
            tx.publish();
            for _ in 0..8 {
                assert_eq!(rx.receive(), Ok(Some(vec![frame.to_vec()])));
            }
            assert_eq!(rx.receive(), Ok(None));
            rx.release_all();
            tx.poll().unwrap();
            assert_eq!(tx.free(), 8);
        }
    });
}

#[test]
fn an_exactly_full_ring_takes_no_more_and_loses_nothing() {
    both_kinds!(16, 128, |tx, rx| {
        let mut sent = 0_u8;
        while tx.send(&[&[sent; 100]]).is_ok() {
            sent += 1;
        }
        assert_eq!(sent, 16);
        tx.publish();
        assert_eq!(tx.send(&[&[99; 100]]), Err(Cause::NoResource));
        assert_eq!(rx.ready(), Ok(16));
        // One slot back makes room for exactly one frame: depth plus one in all.
        assert_eq!(rx.receive(), Ok(Some(vec![vec![0; 100]])));
        rx.release_all();
        tx.send(&[&[16; 100]]).unwrap();
        assert_eq!(tx.send(&[&[99; 100]]), Err(Cause::NoResource));
        tx.publish();
        for number in 1..=16 {
            assert_eq!(rx.receive(), Ok(Some(vec![vec![number; 100]])));
        }
        assert_eq!(rx.receive(), Ok(None));
        rx.release_all();
    });
}

#[test]
fn the_deepest_ring_tells_full_from_empty() {
    let wire = Wire::new(MAX_DEPTH, 64);
    wire.start_at(FIRST);
    let (mut tx, mut rx) = wire.to_server(FIRST);
    for _ in 0..MAX_DEPTH {
        tx.send(&[b"x"]).unwrap();
    }
    tx.publish();
    assert_eq!(rx.ready(), Ok(u64::from(MAX_DEPTH)));
    assert_eq!(tx.send(&[b"x"]), Err(Cause::NoResource));
    while rx.receive().unwrap().is_some() {}
    rx.release_all();
    tx.poll().unwrap();
    assert_eq!(tx.free(), u64::from(MAX_DEPTH));
    assert_eq!(rx.ready(), Ok(0));
}

#[test]
fn chains_keep_their_pieces_together_and_apart_from_their_neighbours() {
    both_kinds!(8, 64, |tx, rx| {
        for lap in 0..7_u8 {
            let long = [lap; 64];
            let chain: [&[u8]; 3] = [&long, &long, &[lap, 1, 2]];
            tx.send(&[b"before"]).unwrap();
            tx.send(&chain).unwrap();
            tx.send(&[b"after"]).unwrap();
            assert_eq!(rx.receive(), Ok(None), "not published yet");
            tx.publish();
            assert_eq!(rx.receive(), Ok(Some(vec![b"before".to_vec()])));
            let want: Vec<Vec<u8>> = chain.iter().map(|piece| piece.to_vec()).collect();
            assert_eq!(rx.receive(), Ok(Some(want)));
            assert_eq!(rx.receive(), Ok(Some(vec![b"after".to_vec()])));
            rx.release_all();
        }
    });
}

#[test]
fn a_refilled_slot_offers_its_full_capacity_again() {
    let wire = Wire::new(4, 256);
    wire.start_at(FIRST);
    let (mut tx, mut rx) = wire.to_client(FIRST);
    for _ in 0..9 {
        assert_eq!(tx.queue.buffer(tx.cursor.reserved).capacity, 256);
        tx.send(&[b"short"]).unwrap();
        tx.publish();
        rx.receive().unwrap().unwrap();
        rx.release_all();
    }
}

#[test]
fn a_client_passes_frames_on_by_exchange_of_buffers() {
    let wire = Wire::new(4, 64);
    wire.start_at(FIRST);
    let (mut far_tx, mut rx) = wire.to_client(FIRST);
    let (mut tx, mut far_rx) = wire.to_server(FIRST);
    assert_eq!(rx.queue.pool(), tx.queue.pool());
    assert_ne!(rx.queue.pool(), 0);
    for number in 0..1000_u32 {
        let frame = number.to_le_bytes();
        far_tx.send(&[&frame]).unwrap();
        far_tx.publish();
        assert_eq!(rx.ready(), Ok(1));
        tx.poll().unwrap();
        let (from, to) = (rx.cursor.head, tx.cursor.reserved);
        let segment = rx.queue.segment(from, 0);
        // An address inside the buffer names the buffer.
        let old = tx.queue.exchange(to, segment.address.offset(3));
        rx.queue.exchange(from, old);
        let post = Post {
            address: segment.address,
            length: segment.length,
            parts: 1,
            ..Post::default()
        };
        tx.queue.write(to, &post).unwrap();
        rx.cursor.head += 1;
        rx.release_all();
        tx.cursor.reserved += 1;
        tx.publish();
        assert_eq!(far_rx.receive(), Ok(Some(vec![frame.to_vec()])));
        far_rx.release_all();
    }
    let mut owned: Vec<u32> = wire.tables.iter().flatten().copied().collect();
    owned.sort_unstable();
    let first = wire.plan.pool_offset() as u32;
    let want: Vec<u32> = (0..8).map(|buffer| first + buffer * 64).collect();
    assert_eq!(owned, want, "every buffer is in exactly one slot");
}

#[test]
fn a_peer_is_interrupted_only_if_it_does_not_poll() {
    let wire = Wire::new(4, 64);
    wire.start_at(FIRST);
    for (flags, want) in [(1_u16, Trigger::PolledIndex), (0, Trigger::SystemCall)] {
        for kind in KINDS {
            // SAFETY: the flags of a ring that is ours.
            unsafe { memory::store_release_u16(wire.ring(kind).offset(4), flags) };
        }
        let (mut client, _) = wire.to_server(FIRST);
        let (mut server, _) = wire.to_client(FIRST);
        assert_eq!(client.publish(), want);
        assert_eq!(server.publish(), want);
        let kick = DeviceAddress::new(&raw const *wire.kick as u64);
        // SAFETY: the kick word is the test's.
        let asked = unsafe { memory::load_u64(kick) };
        assert_eq!(asked, if flags == 1 { 0 } else { FIRST });
    }
}

#[test]
fn a_server_starts_where_the_ring_stands() {
    let cases = [
        (0_u16, 0_u16, Some(0)),
        (8, 0, Some(8)),
        (3, 0xFFFE, Some(5)),
        (9, 0, None),
        (0, 1, None),
    ];
    for (head, tail, offered) in cases {
        let cursor = server_tx_cursor(head, tail, 8);
        assert_eq!(cursor.is_ok(), offered.is_some(), "{head} {tail}");
        let Ok(cursor) = cursor else { continue };
        let wire = Wire::new(8, 64);
        let ring = wire.ring(RingKind::ServerToClient);
        // SAFETY: indices of a ring that is ours.
        unsafe { memory::store_release_u16(ring.offset(6), head) };
        // SAFETY: as above.
        unsafe { memory::store_release_u16(ring.offset(64), tail) };
        let mut tx: Sender<ServerTx> = wire.sender(Role::Server, KINDS[1], cursor);
        assert_eq!(Some(tx.free()), offered);
        tx.poll().unwrap();
        assert_eq!(Some(tx.free()), offered);
        // The client offers the rest later.
        // SAFETY: as above.
        unsafe { memory::store_release_u16(ring.offset(6), tail.wrapping_add(8)) };
        tx.poll().unwrap();
        assert_eq!(tx.free(), 8);
        assert_eq!(server_rx_cursor(tail).head as u16, tail);
    }
}

#[test]
fn blocks_of_another_role_direction_or_shape_are_refused() {
    let wire = Wire::new(8, 64);
    let client = wire.block(Role::Client, RingKind::ClientToServer);
    let server = wire.block(Role::Server, RingKind::ClientToServer);
    assert_eq!(Role::of(&client), Some(Role::Client));
    assert_eq!(Role::of(&server), Some(Role::Server));
    let mut other = client;
    other.format = Format::Xdp as u32;
    assert_eq!(Role::of(&other), None);

    let refused = Err(Cause::LayoutMismatch);
    // SAFETY: a refused block is not used.
    let attach = |block: &QueueBlock| unsafe { ClientTx::attach(block) }.map(|_| ());
    assert_eq!(attach(&client), Ok(()));
    assert_eq!(attach(&server), refused);
    // SAFETY: as above.
    let receive = unsafe { ClientRx::attach(&client) }.map(|_| ());
    assert_eq!(receive, refused);
    let changes: [fn(&mut QueueBlock); 7] = [
        |block| block.abi += 1,
        |block| block.depth = 2 * MAX_DEPTH,
        |block| block.depth = 7,
        |block| block.slot_bytes = 100,
        |block| block.slot_bytes = 32,
        |block| block.body[0] += 8,
        |block| block.body[1] = 0,
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut block = client;
        change(&mut block);
        assert_eq!(attach(&block), refused, "change {number}");
    }
}

#[test]
fn plans_keep_rings_and_buffers_apart_and_within_32_bits() {
    let cases = [
        (1, 1, 1024, 2048, true),
        (4, 3, 8, 64, true),
        (1, 0, MAX_DEPTH, 65536, true),
        (1, 1, MAX_DEPTH, 65536, false),
        (0, 0, 1024, 2048, false),
        (1, 1, 1000, 2048, false),
        (1, 1, 1024, 2000, false),
        (1, 1, 2 * MAX_DEPTH, 2048, false),
        (u32::MAX, u32::MAX, 2, 64, false),
    ];
    for (to_server, to_client, depth, slot_bytes, sound) in cases {
        let plan = RegionPlan {
            to_server,
            to_client,
            depth,
            slot_bytes,
        };
        // One ring of this depth and size is 2 GiB of buffers and some rings: within 2^32.
        assert_eq!(plan.is_sound(), sound, "{plan:?}");
        if !sound || to_server + to_client > 8 {
            continue;
        }
        let mut spans = Vec::new();
        for (kind, count) in [(KINDS[0], to_server), (KINDS[1], to_client)] {
            for queue in 0..count {
                let ring = plan.ring_offset(kind, queue);
                spans.push((ring, ring + ring_bytes(depth)));
                let buffers = plan.buffer_offset(kind, queue, 0);
                spans.push((buffers, buffers + u64::from(depth) * u64::from(slot_bytes)));
            }
        }
        spans.sort_unstable();
        assert!(
            spans.windows(2).all(|pair| pair[0].1 <= pair[1].0),
            "{spans:?}"
        );
        assert!(spans.last().unwrap().1 <= plan.bytes());
    }
}

/// What happens next in a random run.
#[derive(Clone, Debug)]
enum Step {
    Send(Vec<u8>),
    Publish,
    Receive(usize),
    Release(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => prop::collection::vec(1_u8..=64, 1..5).prop_map(Step::Send),
        2 => Just(Step::Publish),
        2 => (1_usize..6).prop_map(Step::Receive),
        2 => (1_usize..9).prop_map(Step::Release),
    ];
    prop::collection::vec(step, 0..200)
}

/// Runs steps on a ring and on two queues of whole frames, and compares after each.
fn follow_model<T: Transmit, R: Receive>(
    mut tx: Sender<T>,
    mut rx: Receiver<R>,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let depth = u64::from(tx.queue.depth());
    let (mut written, mut visible) = (VecDeque::new(), VecDeque::new());
    let mut held: VecDeque<u64> = VecDeque::new();
    let (mut used, mut stamp) = (0_u64, 0_u8);
    for step in steps {
        match step {
            Step::Send(lengths) => {
                let frame: Vec<Vec<u8>> = lengths
                    .iter()
                    .map(|length| {
                        stamp = stamp.wrapping_add(1);
                        vec![stamp; usize::from(*length)]
                    })
                    .collect();
                let pieces: Vec<&[u8]> = frame.iter().map(Vec::as_slice).collect();
                let fits = used + frame.len() as u64 <= depth;
                let want = if fits { Ok(()) } else { Err(Cause::NoResource) };
                prop_assert_eq!(tx.send(&pieces), want);
                if fits {
                    used += frame.len() as u64;
                    written.push_back(frame);
                }
            }
            Step::Publish => {
                tx.publish();
                visible.append(&mut written);
            }
            Step::Receive(count) => {
                for _ in 0..*count {
                    let before = rx.cursor.head;
                    let got = rx.receive();
                    prop_assert_eq!(&got, &Ok(visible.pop_front()));
                    held.extend(before..rx.cursor.head);
                }
            }
            Step::Release(count) => {
                let count = (*count).min(held.len());
                held.drain(..count);
                used -= count as u64;
                rx.release(rx.cursor.released + count as u64);
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn random_operations_follow_the_model(
        steps in steps(),
        start in prop::sample::select(STARTS.to_vec()),
        depth in prop::sample::select(vec![4_u32, 8, 16]),
    ) {
        let wire = Wire::new(depth, 64);
        wire.start_at(start);
        let (tx, rx) = wire.to_server(start);
        follow_model(tx, rx, &steps)?;
        let (tx, rx) = wire.to_client(start);
        follow_model(tx, rx, &steps)?;
    }

    #[test]
    fn no_descriptor_leads_a_server_out_of_bounds(
        first in any::<u64>(),
        second in any::<u64>(),
    ) {
        let wire = Wire::new(4, 64);
        wire.start_at(FIRST);
        let descriptor = Descriptor::from_words(first, second);
        wire.overwrite(RingKind::ClientToServer, 0, descriptor);
        wire.overwrite(RingKind::ServerToClient, 0, descriptor);
        let segment = wire.to_server(FIRST).1.queue.segment(FIRST, 0);
        let buffer = wire.to_client(FIRST).0.queue.buffer(FIRST);
        let region = wire.regions[0];
        prop_assert!(segment.fault() || region.contains(segment.address, segment.length.into()));
        let is_inside = region.contains(buffer.address, buffer.capacity.into());
        prop_assert!(buffer.capacity == 0 || is_inside);
    }
}

/// Two threads, a consumer that is slower and now and then holds its frames: nothing is lost,
/// reordered or changed under a lease.
fn across_threads<T: Transmit + Send, R: Receive + Send>(mut tx: Sender<T>, mut rx: Receiver<R>) {
    const FRAMES: u64 = 200_000;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut number = 0_u64;
            while number < FRAMES {
                let piece = number.to_le_bytes();
                let split = number.is_multiple_of(5);
                let pieces: &[&[u8]] = if split { &[&piece, &piece] } else { &[&piece] };
                match tx.send(pieces) {
                    Ok(()) => number += 1,
                    Err(Cause::NoResource) => {
                        tx.publish();
                        std::thread::yield_now();
                    }
                    Err(cause) => panic!("{cause}"),
                }
                if number.is_multiple_of(7) {
                    tx.publish();
                }
            }
            tx.publish();
        });
        let mut number = 0_u64;
        while number < FRAMES {
            let Some(pieces) = rx.receive().unwrap() else {
                rx.release_all();
                std::thread::yield_now();
                continue;
            };
            let want = if number.is_multiple_of(5) { 2 } else { 1 };
            assert_eq!(pieces, vec![number.to_le_bytes().to_vec(); want]);
            number += 1;
            if number.is_multiple_of(11) {
                rx.release_all();
            }
        }
        rx.release_all();
    });
}

#[test]
fn a_slower_consumer_loses_nothing() {
    let wire = Wire::new(32, 64);
    wire.start_at(FIRST);
    let (tx, rx) = wire.to_server(FIRST);
    across_threads(tx, rx);
    let (tx, rx) = wire.to_client(FIRST);
    across_threads(tx, rx);
}
