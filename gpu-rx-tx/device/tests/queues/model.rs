//! Lists of operations against naive models. Property tests make the lists at random; the fuzz
//! targets of warpwire-fuzz include this file and make them from arbitrary bytes.

use std::collections::VecDeque;

use warpwire_device::{Batch, Claim, Lease, Receiver, Scalar, Sender};
use warpwire_ring::{Cause, Post, Receive, Transmit};

use super::desk::{Desk, frame};
use super::wires::Wire;

#[derive(Clone, Copy, Debug)]
pub(crate) enum RxOp {
    /// A frame of this length in thirds of a slot.
    Deliver(usize),
    DeliverBad,
    Peek(u32),
    /// Release or lend the n-th batch that is held.
    Release(usize),
    Lend(usize),
    /// Give the n-th lease back.
    GiveBack(usize),
    PutBack,
    Restart,
}

/// What the NIC sent, slot by slot: the frame that starts there, or nothing.
#[derive(Clone, Debug)]
enum Slot {
    Starts(Vec<u8>, u32),
    Continues,
    Bad,
}

struct RxModel {
    depth: u64,
    start: u64,
    /// Every slot that was delivered, and whether it is done.
    slots: Vec<(Slot, bool)>,
    head: usize,
    faults: u64,
    frames: u64,
}

impl RxModel {
    /// Slots from the start on that are done without a gap.
    fn released(&self) -> usize {
        let done = self.slots[..self.head].iter().take_while(|(_, done)| *done);
        done.count()
    }

    /// Slots that the NIC may fill, if the driver has collected what is done up to `released`.
    fn free(&self, released: u64) -> u64 {
        self.depth - (self.slots.len() as u64 - (released - self.start))
    }

    fn finish(&mut self, first: u64, slots: u32) {
        let at = (first - self.start) as usize;
        for (_, done) in &mut self.slots[at..at + slots as usize] {
            assert!(!*done, "given back once");
            *done = true;
        }
    }

    /// What `peek(max)` takes: whole frames up to `max` slots, or the first one alone.
    fn peek(&self, max: u32) -> usize {
        let mut taken = 0;
        for (slot, _) in &self.slots[self.head..] {
            let length = match slot {
                Slot::Starts(_, slots) => *slots as usize,
                Slot::Bad => 1,
                Slot::Continues => continue,
            };
            if max == 0 || taken > 0 && taken + length > max as usize {
                break;
            }
            taken += length;
        }
        taken
    }
}

/// Receives as the model says.
pub(crate) fn receive_agrees<W: Wire>(depth: u32, start: u64, ops: &[RxOp]) {
    let mut wire = W::new(depth, start);
    let desk = Desk::new();
    let simt = Scalar::new(&desk);
    let mut rx = wire.receiver();
    let mut model = RxModel {
        depth: depth.into(),
        start,
        slots: Vec::new(),
        head: 0,
        faults: 0,
        frames: 0,
    };
    let mut held: Vec<Batch> = Vec::new();
    let mut leases: Vec<Lease> = Vec::new();
    for (number, op) in ops.iter().enumerate() {
        match *op {
            RxOp::Deliver(thirds) => {
                let sent = frame(number as u64, thirds * wire.slot_bytes() / 3);
                let slots = wire.slots_for(sent.len());
                if slots == 0 || slots > depth {
                    continue;
                }
                let fits = u64::from(slots) <= model.free(rx.cursor().released);
                assert_eq!(wire.deliver(&sent), fits, "op {number}");
                if fits {
                    model.slots.push((Slot::Starts(sent, slots), false));
                    let rest = (1..slots).map(|_| (Slot::Continues, false));
                    model.slots.extend(rest);
                }
            }
            RxOp::DeliverBad => {
                if model.free(rx.cursor().released) > 0 {
                    wire.deliver_bad();
                    model.slots.push((Slot::Bad, false));
                }
            }
            RxOp::Peek(max) => {
                let batch = rx.peek(&simt, max).expect("the ring is sound");
                let released = start + model.released() as u64;
                assert_eq!(rx.cursor().released, released, "op {number} collects");
                assert_eq!(batch.slots() as usize, model.peek(max), "op {number}");
                model.head += batch.slots() as usize;
                let taken = &model.slots[model.head - batch.slots() as usize..model.head];
                let good = |slot: &Slot| matches!(slot, Slot::Starts(..));
                let frames = taken.iter().filter(|(slot, _)| good(slot)).count();
                assert_eq!(batch.frames() as usize, frames);
                model.frames += frames as u64;
                let bad = taken.iter().filter(|(slot, _)| matches!(slot, Slot::Bad));
                model.faults += bad.count() as u64;
                if !batch.is_empty() {
                    held.push(batch);
                }
            }
            RxOp::Release(n) if n < held.len() => {
                let batch = held.remove(n);
                check_batch(&rx, &batch, &model);
                model.finish(batch.first(), batch.slots());
                rx.release(&simt, batch);
            }
            RxOp::Lend(n) if n < held.len() => {
                let batch = held.remove(n);
                check_batch(&rx, &batch, &model);
                let lent = rx.lend(&simt, batch);
                for i in 0..lent.slots() {
                    leases.extend(lent.lease(i));
                }
                let at = (lent.first() - start) as usize;
                for (slot, done) in &mut model.slots[at..at + lent.slots() as usize] {
                    *done |= matches!(slot, Slot::Bad);
                }
            }
            RxOp::GiveBack(n) if n < leases.len() => {
                let lease = leases.remove(n);
                let seen = rx.reader().leased(&lease).expect("readable");
                let mut got = vec![0; seen.length() as usize];
                rx.copy_out(&seen, 0, &mut got);
                let at = (lease.first() - start) as usize;
                let Slot::Starts(want, slots) = &model.slots[at].0 else {
                    panic!("op {number}: a lease of no frame");
                };
                assert_eq!((&got, lease.slots()), (want, *slots), "op {number}");
                model.finish(lease.first(), lease.slots());
                rx.reader().give_back(lease);
            }
            RxOp::PutBack => {
                if let Some(batch) = held.pop() {
                    let end = batch.first() + u64::from(batch.slots());
                    let (slots, frames) = (batch.slots(), batch.frames());
                    let last = end == start + model.head as u64;
                    match rx.put_back(&simt, batch) {
                        Ok(()) => {
                            assert!(last, "op {number}");
                            model.head -= slots as usize;
                            model.frames -= u64::from(frames);
                            let back = &model.slots[model.head..model.head + slots as usize];
                            let bad = back.iter().filter(|(slot, _)| matches!(slot, Slot::Bad));
                            model.faults -= bad.count() as u64;
                        }
                        Err(batch) => {
                            assert!(!last, "op {number}");
                            held.push(batch);
                        }
                    }
                }
            }
            RxOp::Restart => {
                rx.save(&simt);
                rx = wire.receiver();
            }
            RxOp::Release(_) | RxOp::Lend(_) | RxOp::GiveBack(_) => (),
        }
        let cursor = rx.cursor();
        assert_eq!((cursor.frames, cursor.faults), (model.frames, model.faults));
    }
}

fn check_batch<R: Receive>(rx: &Receiver<R>, batch: &Batch, model: &RxModel) {
    let at = (batch.first() - model.start) as usize;
    for i in 0..batch.slots() {
        let got = bytes(rx, batch, i);
        match &model.slots[at + i as usize].0 {
            Slot::Starts(want, _) => assert_eq!(got.as_ref(), Some(want), "slot {i}"),
            Slot::Continues | Slot::Bad => assert_eq!(got, None, "slot {i}"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum TxOp {
    /// Reserve so many slots more than the frames need, send frames of these parts.
    Send {
        frames: u32,
        parts: u32,
        more: u32,
    },
    /// A batch whose last frame is not filled.
    SendCut {
        frames: u32,
    },
    Take(u32),
    Complete(u32),
    Poll,
    Restart,
}

/// Transmits as the model says.
pub(crate) fn transmit_agrees<W: Wire>(depth: u32, start: u64, ops: &[TxOp]) {
    let mut wire = W::new(depth, start);
    let desk = Desk::new();
    let simt = Scalar::new(&desk);
    let mut tx = wire.sender();
    let mut sent: VecDeque<Vec<u8>> = VecDeque::new();
    // Slots of frames at the NIC: not taken, and taken but not complete.
    let mut waiting: VecDeque<u32> = VecDeque::new();
    let mut taken: VecDeque<u32> = VecDeque::new();
    let (mut frames_sent, mut cuts) = (0, 0);
    for (number, op) in ops.iter().enumerate() {
        let at_nic: u32 = waiting.iter().chain(&taken).sum();
        match *op {
            TxOp::Send {
                frames,
                parts,
                more,
            } => {
                let need = frames * parts + more;
                match tx.reserve(&simt, need) {
                    Ok(()) => assert!(need + at_nic <= depth, "op {number}: never too many"),
                    Err(cause) => {
                        assert_eq!(cause, Cause::NoResource);
                        // An interval less one may be done without having said so.
                        let unsaid = if W::COMPLETES_ALL { 0 } else { depth / 4 + 3 };
                        assert!(
                            need + at_nic + unsaid > depth,
                            "op {number}: {need} {at_nic}"
                        );
                        continue;
                    }
                }
                for i in 0..frames {
                    let bytes = frame(number as u64 * 100 + u64::from(i), 50 * parts as usize);
                    let claim = tx.claim(&simt, parts).expect("reserved");
                    fill(&mut tx, &claim, &bytes, 50).expect("writes");
                    sent.push_back(bytes);
                    waiting.push_back(parts);
                }
                assert_eq!(tx.publish(&simt), Ok(frames * parts));
                tx.ring(&simt);
                frames_sent += u64::from(frames);
            }
            TxOp::SendCut { frames } => {
                if tx.reserve(&simt, frames + 1).is_err() {
                    continue;
                }
                for i in 0..frames {
                    let bytes = frame(number as u64 * 100 + u64::from(i), 50);
                    let claim = tx.claim(&simt, 1).expect("reserved");
                    fill(&mut tx, &claim, &bytes, 50).expect("writes");
                    sent.push_back(bytes);
                    waiting.push_back(1);
                }
                tx.claim(&simt, 1).expect("reserved");
                assert_eq!(tx.publish(&simt), Err(Cause::LocalQpOperation));
                tx.ring(&simt);
                frames_sent += u64::from(frames);
                cuts += 1;
            }
            TxOp::Take(count) => {
                for _ in 0..count {
                    assert_eq!(wire.take(), sent.pop_front(), "op {number} start {start}");
                    taken.extend(waiting.pop_front());
                }
            }
            TxOp::Complete(count) => {
                for _ in 0..count {
                    assert_eq!(wire.complete(), taken.pop_front().is_some());
                }
            }
            TxOp::Poll => assert_eq!(tx.poll(&simt), Ok(())),
            TxOp::Restart => {
                tx.save(&simt);
                tx = wire.sender();
            }
        }
        let cursor = tx.cursor();
        assert_eq!((cursor.frames, cursor.faults), (frames_sent, cuts));
    }
}

/// All bytes of the frame in the `i`-th slot.
pub(crate) fn bytes<R: Receive>(rx: &Receiver<R>, batch: &Batch, i: u32) -> Option<Vec<u8>> {
    let frame = rx.frame(batch, i)?;
    let mut bytes = vec![0; frame.length() as usize];
    let there = rx.copy_out(&frame, 0, &mut bytes);
    assert_eq!(there, bytes.len(), "pieces add up to the length");
    assert_eq!(rx.copy_out(&frame, frame.length(), &mut [0; 4]), 0);
    Some(bytes)
}

/// Writes a frame into the buffers of a claim, `piece` bytes a part.
pub(crate) fn fill<T: Transmit>(
    tx: &mut Sender<T>,
    claim: &Claim,
    bytes: &[u8],
    piece: usize,
) -> Result<(), Cause> {
    for (part, bytes) in (0..).zip(bytes.chunks(piece)) {
        let slot = tx.slot(claim, part).expect("has a buffer");
        assert!(slot.copy_in(0, bytes), "fits the buffer");
        let post = Post {
            address: slot.address(),
            length: bytes.len() as u32,
            part,
            ..Post::default()
        };
        tx.write(claim, &post)?;
    }
    Ok(())
}
