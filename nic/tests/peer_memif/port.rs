//! A queue pair driven by device code on the test's thread, every frame accounted for.

use std::time::Instant;

use warpwire_device::{Receiver, Scalar, ScalarHost, Sender};
use warpwire_nic::QueuePair;
use warpwire_ring::{Post, Receive, Transmit};

/// Both halves of a queue pair.
pub(crate) struct Port<R, T> {
    receiver: Receiver<R>,
    sender: Sender<T>,
    host: Alone,
    slot_bytes: usize,
}

/// A warp that has its thread for itself.
struct Alone(Instant);

impl ScalarHost for Alone {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn pause(&self) {
        std::thread::yield_now();
    }

    fn sync_block(&self) {}
}

impl<R: Receive, T: Transmit> Port<R, T> {
    /// Attaches to a pair, which must outlive the port and be driven by nobody else.
    pub(crate) fn attach(pair: &QueuePair) -> Self {
        // SAFETY: the caller holds the pair and its memory.
        let receiver = unsafe { Receiver::attach(&pair.receive) }.expect("a queue of this role");
        // SAFETY: as above.
        let sender = unsafe { Sender::attach(&pair.transmit) }.expect("a queue of this role");
        Self {
            receiver,
            sender,
            host: Alone(Instant::now()),
            slot_bytes: pair.transmit.slot_bytes as usize,
        }
    }

    /// Frames received so far.
    pub(crate) fn received(&self) -> u64 {
        self.receiver.cursor().frames
    }

    /// Frames sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sender.cursor().frames
    }

    /// Whether the other end has taken all that was sent.
    pub(crate) fn is_drained(&mut self) -> bool {
        let simt = Scalar::new(&self.host);
        self.sender.poll(&simt).expect("a sound ring");
        self.sender.in_flight() == 0
    }

    /// Sends as many of the frames as find room, each in as many slots as it needs. They are of one
    /// size. Returns how many.
    pub(crate) fn send(&mut self, frames: &[Vec<u8>]) -> usize {
        let Some(first) = frames.first() else {
            return 0;
        };
        let simt = Scalar::new(&self.host);
        let parts = first.len().div_ceil(self.slot_bytes) as u32;
        let want = parts * frames.len() as u32;
        let room = self.sender.credits(&simt, want).expect("a sound ring") / parts;
        if room == 0 {
            return 0;
        }
        let reserved = self.sender.reserve(&simt, room * parts);
        reserved.expect("the credits just seen");
        self.sender.prepare(&simt);
        for frame in &frames[..room as usize] {
            let claim = self.sender.claim(&simt, parts).expect("reserved");
            for (part, bytes) in frame.chunks(self.slot_bytes).enumerate() {
                let part = part as u32;
                let slot = self.sender.slot(&claim, part).expect("a buffer");
                let address = slot.address();
                assert!(slot.copy_in(0, bytes), "a short buffer");
                let post = Post {
                    address,
                    length: bytes.len() as u32,
                    part,
                    ..Post::default()
                };
                self.sender.write(&claim, &post).expect("its own buffer");
            }
        }
        assert_eq!(self.sender.publish(&simt), Ok(room * parts));
        self.sender.ring(&simt);
        room as usize
    }

    /// Hands what has arrived, up to `limit` slots, to `with`. Returns how many frames.
    pub(crate) fn receive(&mut self, limit: u32, mut with: impl FnMut(&[u8])) -> usize {
        let simt = Scalar::new(&self.host);
        let batch = self.receiver.peek(&simt, limit).expect("a sound ring");
        let frames = batch.frames() as usize;
        let mut bytes = Vec::new();
        for i in 0..batch.slots() {
            if let Some(frame) = self.receiver.frame(&batch, i) {
                bytes.resize(frame.length() as usize, 0);
                let copied = self.receiver.copy_out(&frame, 0, &mut bytes);
                assert_eq!(copied, bytes.len());
                with(&bytes);
            }
        }
        self.receiver.release(&simt, batch);
        frames
    }

    /// Sends what has arrived, up to `limit` frames, back with its addresses swapped. What finds no
    /// room stays in its ring.
    pub(crate) fn swap_addresses(&mut self, limit: u32) {
        let simt = Scalar::new(&self.host);
        let room = self.sender.credits(&simt, limit).expect("a sound ring");
        let batch = self.receiver.peek(&simt, room).expect("a sound ring");
        if batch.is_empty() {
            return;
        }
        let reader = *self.receiver.reader();
        let slots = batch.slots();
        self.sender.reserve(&simt, slots).expect("the credits seen");
        self.sender.prepare_pass(&simt, &reader);
        for i in 0..slots {
            let frame = self.receiver.frame(&batch, i).expect("one slot a frame");
            let mut addresses = [0; 12];
            assert_eq!(frame.head().copy_out(0, &mut addresses), 12);
            addresses.rotate_left(6);
            assert!(frame.head().copy_in(0, &addresses));
            let parts = self.sender.parts_for(&reader, &frame);
            let claim = self.sender.claim(&simt, parts).expect("reserved");
            let passed = self.sender.pass(&reader, frame, &claim);
            passed.expect("a frame that fits");
        }
        assert_eq!(self.sender.publish(&simt), Ok(slots));
        self.sender.ring(&simt);
        self.receiver.release(&simt, batch);
    }

    /// Leaves the queue's state where the NIC reports it from.
    pub(crate) fn save(&mut self) {
        let simt = Scalar::new(&self.host);
        self.receiver.save(&simt);
        self.sender.save(&simt);
    }
}
