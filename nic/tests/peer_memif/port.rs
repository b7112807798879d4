//! The least that a driver does over the verbs: batches in, batches out, every frame accounted for.

use warpwire_nic::QueuePair;
use warpwire_ring::{DeviceAddress, Post, Receive, RxCursor, Segment, Transmit, TxCursor, memory};

/// Both halves of a queue pair.
pub(crate) struct Port<R, T> {
    receive: R,
    transmit: T,
    rx: RxCursor,
    tx: TxCursor,
}

impl<R: Receive, T: Transmit> Port<R, T> {
    /// Attaches to a pair, which must outlive the port and be driven by nobody else.
    pub(crate) fn attach(pair: &QueuePair) -> Self {
        // SAFETY: the caller holds the pair and its memory.
        let receive = unsafe { R::attach(&pair.receive) }.expect("a receive queue of this role");
        // SAFETY: as above.
        let transmit = unsafe { T::attach(&pair.transmit) }.expect("a transmit queue of this role");
        // SAFETY: the block's cursor, written by the host.
        let rx = unsafe { (pair.receive.cursor.value() as *const RxCursor).read() };
        // SAFETY: as above.
        let tx = unsafe { (pair.transmit.cursor.value() as *const TxCursor).read() };
        Self {
            receive,
            transmit,
            rx,
            tx,
        }
    }

    /// Frames received so far.
    pub(crate) fn received(&self) -> u64 {
        self.rx.frames
    }

    /// Frames sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.tx.frames
    }

    /// Whether the other end has taken all that was sent.
    pub(crate) fn is_drained(&mut self) -> bool {
        self.poll();
        self.tx.completed == self.tx.published
    }

    /// Sends a frame in pieces of at most a buffer each; false if the ring is full.
    pub(crate) fn send(&mut self, frame: &[u8]) -> bool {
        let size = self.transmit.buffer(self.tx.reserved).capacity.max(1) as usize;
        let parts = frame.len().div_ceil(size) as u32;
        if !self.reserve(parts) {
            return false;
        }
        for (part, piece) in frame.chunks(size).enumerate() {
            let buffer = self.transmit.buffer(self.tx.reserved);
            assert!(piece.len() <= buffer.capacity as usize, "buffers differ");
            // SAFETY: the buffer of a free slot, long enough.
            unsafe { memory::copy_in(piece, buffer.address) };
            self.post(buffer.address, piece.len() as u32, part as u32, parts);
        }
        true
    }

    /// Lets the other end see what was sent.
    pub(crate) fn flush(&mut self) {
        if self.tx.published != self.tx.reserved {
            self.tx.published = self.tx.reserved;
            self.transmit.publish(self.tx.published);
            self.transmit.ring(self.tx.published);
        }
    }

    /// Hands up to `limit` frames to `with`, and their slots back.
    pub(crate) fn receive(&mut self, limit: usize, mut with: impl FnMut(&[u8])) -> usize {
        let mut frame = Vec::with_capacity(2048);
        self.walk(limit, |_, segments| {
            frame.clear();
            for (_, segment) in segments {
                let start = frame.len();
                frame.resize(start + segment.length as usize, 0);
                // SAFETY: a checked piece of a leased slot.
                unsafe { memory::copy_out(segment.address, &mut frame[start..]) };
            }
            with(&frame);
            true
        })
    }

    /// Sends up to `limit` received frames back with their addresses swapped. Whatever finds no
    /// room stays in its ring.
    pub(crate) fn swap_addresses(&mut self, limit: usize) -> usize {
        let same = self.receive.pool() == self.transmit.pool() && self.receive.pool() != 0;
        let count = self.walk(limit, |port, segments| {
            if !port.reserve(segments.len() as u32) {
                return false;
            }
            let parts = segments.len() as u32;
            for (part, (index, segment)) in segments.iter().enumerate() {
                let slot = port.tx.reserved;
                let address = if same {
                    let empty = port.transmit.exchange(slot, segment.address);
                    port.receive.exchange(*index, empty);
                    segment.address
                } else {
                    let buffer = port.transmit.buffer(slot);
                    assert!(segment.length <= buffer.capacity, "buffers differ");
                    // SAFETY: a leased piece and the buffer of a free slot, long enough.
                    unsafe { memory::copy(segment.address, buffer.address, segment.length) };
                    buffer.address
                };
                if part == 0 {
                    swap(address);
                }
                port.post(address, segment.length, part as u32, parts);
            }
            true
        });
        self.flush();
        count
    }

    fn walk(
        &mut self,
        limit: usize,
        mut with: impl FnMut(&mut Self, &[(u64, Segment)]) -> bool,
    ) -> usize {
        let produced = self.receive.produced(self.rx.head);
        let ready = produced - self.rx.released;
        assert!(ready <= u64::from(self.receive.depth()), "index jumped");
        let mut count = 0;
        let mut segments = Vec::with_capacity(8);
        let mut next = self.rx.head;
        while count < limit && next < produced {
            let segment = self.receive.segment(next, 0);
            assert!(!segment.fault(), "{:?}", self.receive.fault(next));
            segments.push((next, segment));
            next += 1;
            if segment.more() {
                continue;
            }
            if !with(self, &segments) {
                break;
            }
            self.rx.head = next;
            self.rx.frames += 1;
            segments.clear();
            count += 1;
        }
        for index in self.rx.released..self.rx.head {
            self.receive.refill(index);
        }
        if self.rx.released != self.rx.head {
            self.rx.released = self.rx.head;
            self.receive.release(self.rx.released);
        }
        count
    }

    fn post(&mut self, address: DeviceAddress, length: u32, part: u32, parts: u32) {
        let post = Post {
            address,
            length,
            part,
            parts,
            ..Post::default()
        };
        let written = self.transmit.write(self.tx.reserved, &post);
        written.expect("a buffer of the queue's own");
        self.tx.reserved += 1;
        self.tx.frames += u64::from(part + 1 == parts);
    }

    fn reserve(&mut self, slots: u32) -> bool {
        if self.free() < u64::from(slots) {
            self.poll();
        }
        self.free() >= u64::from(slots)
    }

    fn free(&self) -> u64 {
        u64::from(self.transmit.depth()) - (self.tx.reserved - self.tx.completed)
    }

    fn poll(&mut self) {
        let now = self.transmit.completions(self.tx.completions);
        assert!(now <= self.tx.published, "completed what was not sent");
        for entry in self.tx.completions..now {
            self.transmit.recycle(entry);
        }
        self.transmit.retire(now);
        self.tx.completions = now;
        self.tx.completed = now;
    }
}

/// Swaps the two Ethernet addresses at the start of a frame.
fn swap(frame: DeviceAddress) {
    let mut addresses = [0; 12];
    // SAFETY: a piece of at least an Ethernet header that is ours for now.
    unsafe { memory::copy_out(frame, &mut addresses) };
    addresses.rotate_left(6);
    // SAFETY: as above.
    unsafe { memory::copy_in(&addresses, frame) };
}
