//! AF_XDP. The NIC is the kernel's half.

use std::collections::VecDeque;

use warpwire_ring::xdp::{
    Descriptor, FLAG_NEED_WAKEUP, Kernel, OPTION_CONTINUED, PACKET_HEADROOM, Ring, RxBody, RxQueue,
    TxBody, TxQueue, Umem,
};
use warpwire_ring::{Cause, DeviceAddress, QueueBlock, memory};

use super::{Pages, Span, Wire, Words, bytes_at, put_bytes};

pub(crate) struct Xdp {
    pages: Pages,
    kernel: Kernel,
    rx: QueueBlock,
    tx: QueueBlock,
    /// Chunks of each frame that was taken and is not complete.
    taken: VecDeque<Vec<u64>>,
}

const CHUNK: u32 = 2048;
const PIECE: u32 = CHUNK - PACKET_HEADROOM;

impl Wire for Xdp {
    type Rx = RxQueue;
    type Tx = TxQueue;

    fn with_slots(depth: u32, start: u64, _slot_bytes: u32) -> Self {
        let chunks = depth as usize * 2;
        let mut pages = Pages::new(chunks * CHUNK as usize + depth as usize * 128 + (64 << 10));
        let umem = Umem {
            base: pages.cut(chunks * CHUNK as usize, CHUNK as usize),
            bytes: chunks as u64 * u64::from(CHUNK),
            pool: 7,
            chunk_bytes: CHUNK,
            reserved: 0,
        };
        let rx = RxBody {
            umem,
            receive: ring(&mut pages, depth, 16),
            fill: ring(&mut pages, depth, 8),
            kick: pages.cut(8, 128),
            primed: depth.into(),
        };
        let tx = TxBody {
            umem,
            transmit: ring(&mut pages, depth, 16),
            completion: ring(&mut pages, depth, 8),
            free: pages.cut(depth as usize * 8, 128),
            kick: pages.cut(8, 128),
            headroom: 64,
            metadata_bytes: 0,
            max_parts: 17,
            reserved: 0,
        };
        prime(&rx, &tx, start);
        let kernel = Kernel {
            umem,
            fill: rx.fill,
            receive: rx.receive,
            transmit: tx.transmit,
            completion: tx.completion,
            multi_buffer: true,
            metadata_bytes: 0,
            invalid_fill: 0,
            invalid_transmit: 0,
        };
        let (mut rx, mut tx) = (rx.block(), tx.block());
        let words = Words::cut(&mut pages, depth);
        words.receive_at(start);
        words.put(&mut rx);
        let words = Words::cut(&mut pages, depth);
        words.transmit_at(start);
        words.put(&mut tx);
        Self {
            pages,
            kernel,
            rx,
            tx,
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
        PIECE as usize
    }

    fn slots_for(&self, length: usize) -> u32 {
        let slots = length.div_ceil(PIECE as usize) as u32;
        if slots as usize > Kernel::MAX_PIECES {
            0
        } else {
            slots
        }
    }

    fn deliver(&mut self, frame: &[u8]) -> bool {
        // SAFETY: the wire's memory lives, and nobody else drives the kernel's half.
        unsafe { self.kernel.deliver(frame) }.is_ok()
    }

    fn has_room(&mut self) -> bool {
        let Ring {
            producer, consumer, ..
        } = self.kernel.fill;
        // SAFETY: an index of the fill ring.
        let offered = unsafe { memory::load_u32(producer) };
        // SAFETY: as above.
        let taken = unsafe { memory::load_u32(consumer) };
        offered != taken
    }

    fn deliver_bad(&mut self) -> Cause {
        let receive = self.kernel.receive;
        // SAFETY: an index of the ring.
        let index = unsafe { memory::load_u32(receive.producer) };
        assert!(self.deliver(&[0; 60]), "room for a bad slot");
        let entry = u64::from(index & receive.mask()) * 16;
        // A length that leaves the chunk; the address stays, so that the chunk is not lost.
        // SAFETY: the length word of the descriptor just written.
        unsafe { memory::store_u32(receive.entries.offset(entry + 8), u32::MAX) };
        Cause::RingCorrupted
    }

    fn deliver_part(&mut self, _pieces: &[&[u8]], _last: bool) -> bool {
        false
    }

    fn break_receive(&mut self) -> bool {
        let word = self.kernel.receive.producer;
        // SAFETY: an index of the ring.
        let index = unsafe { memory::load_u32(word) };
        let beyond = index.wrapping_add(self.kernel.receive.size + 1);
        // SAFETY: as above.
        unsafe { memory::store_release_u32(word, beyond) };
        true
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let (mut frame, mut chunks) = (Vec::new(), Vec::new());
        loop {
            // SAFETY: the wire's memory lives, and nobody else drives the kernel's half.
            let Some(descriptor) = (unsafe { self.kernel.take() }) else {
                assert!(chunks.is_empty(), "only whole frames are published");
                assert_eq!(self.kernel.invalid_transmit, 0, "we send what is valid");
                return None;
            };
            let Descriptor {
                address,
                length,
                options,
            } = descriptor;
            frame.extend(bytes_at(self.kernel.umem.base.offset(address), length));
            chunks.push(address);
            if options & OPTION_CONTINUED == 0 {
                self.taken.push_back(chunks);
                return Some(frame);
            }
        }
    }

    /// Completions name chunks in any order: of two frames, the later one is done first.
    fn complete(&mut self) -> bool {
        if let Some([first, second]) = self.taken.make_contiguous().get_mut(..2)
            && first.len() == second.len()
        {
            std::mem::swap(first, second);
        }
        let Some(chunks) = self.taken.pop_front() else {
            return false;
        };
        for address in chunks {
            // SAFETY: the wire's memory lives, and nobody else drives the kernel's half.
            assert!(unsafe { self.kernel.complete(address) }, "never too many");
        }
        true
    }

    fn complete_bad(&mut self) -> Option<Cause> {
        None
    }

    fn break_transmit(&mut self) -> bool {
        let word = self.kernel.completion.producer;
        // SAFETY: an index of the ring.
        let index = unsafe { memory::load_u32(word) };
        let beyond = index.wrapping_add(self.kernel.completion.size + 1);
        // SAFETY: as above.
        unsafe { memory::store_release_u32(word, beyond) };
        true
    }

    fn fall_asleep(&mut self) {
        for ring in [&self.kernel.fill, &self.kernel.transmit] {
            // SAFETY: the flags of a ring.
            unsafe { memory::store_u32(ring.flags, FLAG_NEED_WAKEUP) };
        }
    }

    fn exposed(&self) -> Vec<Span> {
        let Kernel {
            fill,
            receive,
            transmit,
            completion,
            ..
        } = &self.kernel;
        let mut spans = Vec::new();
        for (ring, entry) in [(fill, 8), (receive, 16), (transmit, 16), (completion, 8)] {
            let word = |address| Span { address, bytes: 4 };
            spans.extend([ring.producer, ring.consumer, ring.flags].map(word));
            spans.push(Span {
                address: ring.entries,
                bytes: u64::from(ring.size) * entry,
            });
        }
        spans
    }

    fn buffers(&self) -> Vec<Span> {
        vec![Span {
            address: self.kernel.umem.base,
            bytes: self.kernel.umem.bytes,
        }]
    }

    fn forge(&mut self, receive: bool, words: [u32; 4]) {
        let [steps, low, length, options] = words;
        let address = u64::from(low) | u64::from(steps >> 24) << 32;
        let (ring, entry) = if receive {
            (&self.kernel.receive, 16)
        } else {
            (&self.kernel.completion, 8)
        };
        // SAFETY: an index of the ring.
        let at = unsafe { memory::load_u32(ring.producer) };
        let place = ring.entries.offset(u64::from(at & ring.mask()) * entry);
        put_bytes(&address.to_le_bytes(), place);
        if receive {
            put_bytes(&length.to_le_bytes(), place.offset(8));
            put_bytes(&options.to_le_bytes(), place.offset(12));
        }
        // SAFETY: an index of the ring.
        unsafe { memory::store_release_u32(ring.producer, at.wrapping_add(steps & 0xffff)) };
    }

    fn work(&mut self) {
        for length in [60, 3 * PIECE as usize] {
            // SAFETY: the wire's memory lives, and nobody else drives the kernel's half.
            let _ = unsafe { self.kernel.deliver(&vec![0x5a; length]) };
        }
        for _ in 0..4 {
            // SAFETY: as above.
            let Some(sent) = (unsafe { self.kernel.take() }) else {
                break;
            };
            let piece = self.kernel.umem.piece(sent.address, sent.length);
            bytes_at(piece.expect("lies in the memory"), sent.length);
            // SAFETY: as above.
            let _ = unsafe { self.kernel.complete(sent.address) };
        }
    }

    fn pages(&self) -> &Pages {
        &self.pages
    }
}

fn ring(pages: &mut Pages, size: u32, entry: usize) -> Ring {
    Ring {
        producer: pages.cut(4, 128),
        consumer: pages.cut(4, 128),
        flags: pages.cut(4, 128),
        entries: pages.cut(size as usize * entry, 128),
        size,
        reserved: 0,
    }
}

/// All receive chunks in the fill ring, all transmit chunks in the free list, all indices at
/// `start`.
fn prime(rx: &RxBody, tx: &TxBody, start: u64) {
    let depth = u64::from(rx.receive.size);
    for slot in 0..depth {
        let entry = (start + slot) & u64::from(rx.fill.mask());
        let chunk = slot * u64::from(CHUNK);
        // SAFETY: an entry of the fill ring.
        unsafe { memory::store_u64(rx.fill.entries.offset(entry * 8), chunk) };
        let chunk = (depth + slot) * u64::from(CHUNK);
        // SAFETY: a word of the free list.
        unsafe { memory::store_u64(tx.free.offset(slot * 8), chunk) };
    }
    let start = start as u32;
    let words: [(DeviceAddress, u32); 8] = [
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
        // SAFETY: an index word.
        unsafe { memory::store_u32(word, value) };
    }
}
