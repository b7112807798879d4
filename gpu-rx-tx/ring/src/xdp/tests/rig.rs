//! One socket in memory, with both halves.
#![expect(unsafe_code, reason = "plays both halves over memory of its own")]

use std::vec;
use std::vec::Vec;

use super::super::*;
use crate::frame::{Post, PostFlags};
use crate::memory::{copy_in, copy_out, store_u32, store_u64};
use crate::provenance::Trigger;
use crate::verbs::{Receive, Transmit};

pub(super) const CHUNK: u32 = 2048;
pub(super) const PIECE: usize = (CHUNK - PACKET_HEADROOM) as usize;
pub(super) const HEADROOM: u32 = 64;

/// One socket in memory: both halves, and where the driver half stands.
pub(super) struct Bench {
    pub(super) _memory: Vec<u128>,
    pub(super) kernel: Kernel,
    pub(super) rx: RxQueue,
    pub(super) tx: TxQueue,
    pub(super) rx_body: RxBody,
    pub(super) tx_body: TxBody,
    pub(super) head: u64,
    pub(super) released: u64,
    pub(super) reserved: u64,
    pub(super) completed: u64,
}

/// Cuts pieces off memory.
pub(super) struct Cutter(u64);

impl Cutter {
    pub(super) fn cut(&mut self, bytes: u64, alignment: u64) -> DeviceAddress {
        let at = self.0.next_multiple_of(alignment);
        self.0 = at + bytes;
        DeviceAddress::new(at)
    }

    pub(super) fn ring(&mut self, size: u32, entry: u64) -> Ring {
        Ring {
            producer: self.cut(64, 64),
            consumer: self.cut(64, 64),
            flags: self.cut(64, 64),
            entries: self.cut(u64::from(size) * entry, 64),
            size,
            reserved: 0,
        }
    }
}

impl Bench {
    /// `depth` slots each way, all indices at `start`, one chunk a slot.
    pub(super) fn new(depth: u32, start: u64) -> Self {
        let chunks = u64::from(depth) * 2;
        let bytes = chunks * u64::from(CHUNK) + 4096 * 8 + u64::from(depth) * 64;
        let mut memory = vec![0_u128; bytes as usize / 16];
        let mut cutter = Cutter(memory.as_mut_ptr() as u64);
        let umem = Umem {
            base: cutter.cut(chunks * u64::from(CHUNK), CHUNK.into()),
            bytes: chunks * u64::from(CHUNK),
            pool: 7,
            chunk_bytes: CHUNK,
            reserved: 0,
        };
        let rx_body = RxBody {
            umem,
            receive: cutter.ring(depth, 16),
            fill: cutter.ring(depth, 8),
            kick: cutter.cut(64, 64),
            primed: depth.into(),
        };
        let tx_body = TxBody {
            umem,
            transmit: cutter.ring(depth, 16),
            completion: cutter.ring(depth, 8),
            free: cutter.cut(u64::from(depth) * 8, 64),
            kick: cutter.cut(64, 64),
            headroom: HEADROOM,
            metadata_bytes: METADATA_BYTES,
            max_parts: 17,
            reserved: 0,
        };
        let kernel = Kernel {
            umem,
            fill: rx_body.fill,
            receive: rx_body.receive,
            transmit: tx_body.transmit,
            completion: tx_body.completion,
            multi_buffer: true,
            metadata_bytes: METADATA_BYTES,
            invalid_fill: 0,
            invalid_transmit: 0,
        };
        prime(&rx_body, &tx_body, start);
        // SAFETY: the memory lives as long as the bench, and the bench alone drives it.
        let rx = unsafe { RxQueue::attach(&rx_body.block()) }.expect("block is sound");
        // SAFETY: as above.
        let tx = unsafe { TxQueue::attach(&tx_body.block()) }.expect("block is sound");
        Self {
            _memory: memory,
            kernel,
            rx,
            tx,
            rx_body,
            tx_body,
            head: start,
            released: start,
            reserved: start,
            completed: start,
        }
    }

    pub(super) fn deliver(&mut self, frame: &[u8]) -> Result<usize, Refusal> {
        // SAFETY: the bench's memory lives and nobody else drives the kernel's half.
        unsafe { self.kernel.deliver(frame) }
    }

    /// Slots that are ready and not yet looked at.
    pub(super) fn ready(&self) -> u64 {
        self.rx.produced(self.head) - self.head
    }

    /// The frame that starts at `head`, and its slots. None if nothing is there.
    pub(super) fn next_frame(&mut self) -> Option<(Vec<u8>, std::ops::Range<u64>)> {
        let first = self.head;
        let mut frame = Vec::new();
        while self.head < self.rx.produced(self.head) {
            let segment = self.rx.segment(self.head, 0);
            assert!(!segment.fault(), "slot {}", self.head);
            let mut piece = vec![0; segment.length as usize];
            // SAFETY: the segment was bounds-checked and the slot is ours.
            unsafe { copy_out(segment.address, &mut piece) }
            frame.extend(piece);
            self.head += 1;
            if !segment.more() {
                return Some((frame, first..self.head));
            }
        }
        self.head = first;
        None
    }

    pub(super) fn release_all(&mut self) -> Trigger {
        (self.released..self.head).for_each(|slot| self.rx.refill(slot));
        self.released = self.head;
        self.rx.release(self.head)
    }

    pub(super) fn credits(&self) -> u64 {
        u64::from(self.tx.depth()) - (self.reserved - self.completed)
    }

    /// Posts a frame in pieces of at most `piece` bytes from the slots' own buffers.
    pub(super) fn post(
        &mut self,
        frame: &[u8],
        piece: usize,
        flags: PostFlags,
    ) -> Result<(), Cause> {
        let parts = frame.len().div_ceil(piece).max(1) as u32;
        assert!(
            u64::from(parts) <= self.credits(),
            "the caller checks credits"
        );
        for (part, bytes) in frame.chunks(piece).enumerate() {
            let slot = self.reserved + part as u64;
            let buffer = self.tx.buffer(slot);
            assert!(bytes.len() <= buffer.capacity as usize);
            // SAFETY: a free slot's buffer is ours and long enough.
            unsafe { copy_in(bytes, buffer.address) }
            let post = Post {
                address: buffer.address,
                length: bytes.len() as u32,
                part: part as u32,
                parts,
                flags,
                checksum_start: 34,
                checksum_offset: 6,
                reserved: 0,
            };
            self.tx.write(slot, &post)?;
        }
        self.reserved += u64::from(parts);
        self.tx.publish(self.reserved);
        Ok(())
    }

    pub(super) fn poll_completions(&mut self) {
        let upto = self.tx.completions(self.completed);
        (self.completed..upto).for_each(|entry| self.tx.recycle(entry));
        self.tx.retire(upto);
        self.completed = upto;
    }

    pub(super) fn take(&mut self) -> Option<Descriptor> {
        // SAFETY: the bench's memory lives and nobody else drives the kernel's half.
        unsafe { self.kernel.take() }
    }

    pub(super) fn complete(&mut self, descriptor: &Descriptor) {
        // SAFETY: the bench's memory lives and nobody else drives the kernel's half.
        let done = unsafe { self.kernel.complete(descriptor.address) };
        assert!(done, "completions never overflow");
    }

    pub(super) fn bytes(&self, descriptor: &Descriptor) -> Vec<u8> {
        let mut bytes = vec![0; descriptor.length as usize];
        let place = self
            .kernel
            .umem
            .piece(descriptor.address, descriptor.length);
        // SAFETY: the piece was bounds-checked; it is the kernel's for now, which is us.
        unsafe { copy_out(place.expect("in bounds"), &mut bytes) }
        bytes
    }

    /// What the kernel would put on the wire next.
    pub(super) fn sent(&mut self) -> Option<(Vec<u8>, Vec<Descriptor>)> {
        let (mut frame, mut pieces) = (Vec::new(), Vec::new());
        while let Some(descriptor) = self.take() {
            frame.extend(self.bytes(&descriptor));
            pieces.push(descriptor);
            if descriptor.options & OPTION_CONTINUED == 0 {
                return Some((frame, pieces));
            }
        }
        assert!(pieces.is_empty(), "frames are published whole");
        None
    }
}

/// Puts all indices at `start`, a chunk into every fill entry and into every word of the free list.
pub(super) fn prime(rx: &RxBody, tx: &TxBody, start: u64) {
    let depth = u64::from(rx.receive.size);
    for slot in 0..depth {
        let entry = (start + slot) & u64::from(rx.fill.mask());
        // SAFETY: an entry of the ring's memory.
        unsafe { store_u64(rx.fill.entries.offset(entry * 8), slot * u64::from(CHUNK)) }
        let chunk = (depth + slot) * u64::from(CHUNK);
        // SAFETY: a word of the free list.
        unsafe { store_u64(tx.free.offset(slot * 8), chunk) }
    }
    let start = start as u32;
    let words = [
        (rx.receive.producer, start),
        (rx.receive.consumer, start),
        (rx.fill.producer, start.wrapping_add(depth as u32)),
        (rx.fill.consumer, start),
        (tx.transmit.producer, start),
        (tx.transmit.consumer, start),
        (tx.completion.producer, start),
        (tx.completion.consumer, start),
    ];
    for (word, value) in words {
        // SAFETY: an index word of the bench's memory.
        unsafe { store_u32(word, value) }
    }
}

pub(super) fn frame(seed: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (seed.wrapping_mul(31) + at * 7) as u8)
        .collect()
}
