//! A peer that writes what it likes, when it likes, to all memory that it shares with us. Property
//! tests make the lists of operations at random, fuzz targets from arbitrary bytes.
//!
//! What must hold: no panic, no access outside of what the queue was given, no frame that lies
//! elsewhere, no wait without end, and counters that add up.

use warpwire_device::{Batch, Claim, Lease, Piece, Receiver, Scalar, Sender, Wait};
use warpwire_ring::{Cause, DeviceAddress, Location, Post};

use super::desk::{Desk, PAUSE_NS};
use super::wires::{Pages, Span, Wire, area, put_bytes};

/// What either side does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// The peer writes up to eight bytes somewhere in what it shares.
    Poke {
        at: u32,
        value: u64,
        bytes: u32,
    },
    /// The peer announces an entry of the receive or transmit queue, made of these words.
    Forge {
        receive: bool,
        words: [u32; 4],
    },
    Peek(u32),
    /// Peek until a deadline so many pauses from now.
    Wait {
        max: u32,
        pauses: u32,
    },
    /// Release, lend or gather the n-th batch that is held.
    Release(usize),
    Lend(usize),
    Gather(usize),
    /// Read the n-th lease and give it back.
    GiveBack(usize),
    PutBack,
    /// Send what the n-th batch holds, and release it.
    Pass(usize),
    /// Send frames of these parts.
    Send {
        frames: u32,
        parts: u32,
    },
    Poll,
    /// The NIC's own half works on what all the pokes made of the rings.
    Work,
    /// Both halves are saved and attached anew.
    Restart,
}

/// Runs a list of operations; panics if something does not hold.
pub(crate) fn survives<W: Wire>(depth: u32, start: u64, ops: &[Op]) {
    let wire = W::new(depth, start);
    let mut scratch = Pages::new(64 << 10);
    let desk = Desk::new();
    let simt = Scalar::new(&desk);
    let (receiver, sender) = (wire.receiver(), wire.sender());
    let mut stand = Stand {
        exposed: wire.exposed(),
        buffers: wire.buffers(),
        depth: u64::from(depth),
        scratch: scratch.cut(SCRATCH as usize, 4096),
        wire,
        receiver,
        sender,
        held: Vec::new(),
        leases: Vec::new(),
        frames: 0,
        faults: 0,
    };
    for op in ops {
        stand.play(&simt, *op);
        stand.check();
    }
    stand.wire.check_untouched();
}

struct Stand<W: Wire> {
    exposed: Vec<Span>,
    buffers: Vec<Span>,
    depth: u64,
    scratch: DeviceAddress,
    wire: W,
    receiver: Receiver<W::Rx>,
    sender: Sender<W::Tx>,
    held: Vec<Batch>,
    leases: Vec<Lease>,
    /// What the receiver's cursor must have counted.
    frames: u64,
    faults: u64,
}

impl<W: Wire> Stand<W> {
    fn play(&mut self, simt: &Scalar<'_>, op: Op) {
        match op {
            Op::Poke { at, value, bytes } => self.poke(at, value, bytes),
            Op::Forge { receive, words } => self.wire.forge(receive, words),
            Op::Peek(max) => {
                let result = self.receiver.peek(simt, max);
                self.took(result, Some(max));
            }
            Op::Wait { max, pauses } => {
                let timeout_ns = u64::from(pauses) * PAUSE_NS;
                let wait = Wait::within(simt, timeout_ns);
                let result = self.receiver.wait(simt, max, &wait);
                self.took(result, Some(max));
            }
            Op::Release(n) if n < self.held.len() => {
                let batch = self.held.remove(n);
                self.look(&batch);
                self.receiver.release(simt, batch);
            }
            Op::Lend(n) if n < self.held.len() => {
                let batch = self.held.remove(n);
                self.look(&batch);
                let lent = self.receiver.lend(simt, batch);
                self.leases
                    .extend((0..lent.slots()).filter_map(|i| lent.lease(i)));
            }
            Op::Gather(n) if n < self.held.len() => self.gather(simt, n),
            Op::GiveBack(n) if n < self.leases.len() => {
                let lease = self.leases.remove(n);
                if let Some(frame) = self.receiver.reader().leased(&lease) {
                    self.within(&frame.head());
                    let mut bytes = [0; 2048];
                    let got = self.receiver.copy_out(&frame, 0, &mut bytes);
                    assert!(got <= bytes.len());
                }
                self.receiver.reader().give_back(lease);
            }
            Op::PutBack => self.put_back(simt),
            Op::Pass(n) if n < self.held.len() => self.pass(simt, n),
            Op::Send { frames, parts } => self.send(simt, frames, parts),
            Op::Poll => {
                let _ = self.sender.poll(simt);
            }
            Op::Work => self.wire.work(),
            Op::Restart => {
                self.receiver.save(simt);
                self.sender.save(simt);
                self.receiver = self.wire.receiver();
                self.sender = self.wire.sender();
            }
            Op::Release(_) | Op::Lend(_) | Op::Gather(_) | Op::GiveBack(_) | Op::Pass(_) => (),
        }
    }

    /// What holds after every operation.
    fn check(&self) {
        assert!(
            self.receiver.lent() <= self.depth,
            "more is lent than there is"
        );
        let cursor = self.receiver.cursor();
        let counted = (cursor.frames, cursor.faults);
        assert_eq!(
            counted,
            (self.frames, self.faults),
            "frames and faults taken"
        );
        assert!(
            self.sender.in_flight() <= self.depth,
            "more is sent than there is"
        );
    }

    fn poke(&mut self, at: u32, value: u64, bytes: u32) {
        let total: u64 = self.exposed.iter().map(|span| span.bytes).sum();
        let mut at = u64::from(at) % total;
        for span in &self.exposed {
            if at < span.bytes {
                let value = value.to_le_bytes();
                let fits = (span.bytes - at).min(u64::from(bytes)).min(8) as usize;
                put_bytes(&value[..fits], span.address.offset(at));
                return;
            }
            at -= span.bytes;
        }
    }

    fn took(&mut self, result: Result<Batch, Cause>, max: Option<u32>) {
        let batch = match result {
            Ok(batch) => batch,
            Err(cause) => {
                let expected = matches!(cause, Cause::RingCorrupted | Cause::DeadlineExceeded);
                assert!(expected, "{cause:?}");
                return;
            }
        };
        let slots = u64::from(batch.slots());
        assert!(slots <= self.depth, "a batch of {slots} slots");
        assert!(max != Some(0) || batch.is_empty(), "nothing was asked for");
        assert!(batch.frames() <= batch.slots());
        self.frames += u64::from(batch.frames());
        self.look(&batch);
        self.faults = self.receiver.cursor().faults;
        if !batch.is_empty() {
            self.held.push(batch);
        }
    }

    /// Reads all that a batch gives, wherever the peer says that it lies.
    fn look(&self, batch: &Batch) {
        for i in 0..batch.slots() {
            let Some(frame) = self.receiver.frame(batch, i) else {
                continue;
            };
            self.within(&frame.head());
            let _ = (frame.window(), self.receiver.meta(&frame));
            let mut index = 0;
            while let Some(piece) = self.receiver.piece(&frame, index) {
                self.within(&piece);
                index += 1;
                assert!(index <= 64, "a frame of endless pieces");
            }
            let mut bytes = [0; 512];
            let got = self.receiver.copy_out(&frame, 0, &mut bytes);
            assert!(got <= bytes.len());
        }
    }

    /// A piece and the room behind it lie in one buffer span.
    fn within(&self, piece: &Piece<'_>) {
        let at = piece.address().value();
        let home = self.buffers.iter().find_map(|span| {
            let offset = at.checked_sub(span.address.value())?;
            let rest = span.bytes.checked_sub(offset)?;
            (u64::from(piece.length()) <= rest).then_some(rest)
        });
        let rest = home.unwrap_or_else(|| panic!("a piece outside of all buffers: {piece:?}"));
        let beyond = u32::try_from(rest + 1)
            .ok()
            .and_then(|length| piece.resized(length));
        assert!(beyond.is_none(), "room behind the buffers: {piece:?}");
    }

    fn gather(&mut self, simt: &Scalar<'_>, n: usize) {
        let batch = &self.held[n];
        let target = area(self.scratch, SCRATCH, Location::PageableHost);
        for i in 0..batch.slots() {
            let Some(frame) = self.receiver.frame(batch, i) else {
                continue;
            };
            let total = frame.length();
            match self.receiver.gather(simt, &frame, 3, &target, 1) {
                Ok(bytes) => assert!(bytes <= total.saturating_sub(3)),
                Err(cause) => assert_eq!(cause, Cause::LocalLength),
            }
        }
    }

    fn put_back(&mut self, simt: &Scalar<'_>) {
        let Some(batch) = self.held.pop() else {
            return;
        };
        let frames = u64::from(batch.frames());
        match self.receiver.put_back(simt, batch) {
            Ok(()) => {
                self.frames -= frames;
                self.faults = self.receiver.cursor().faults;
            }
            Err(batch) => self.held.push(batch),
        }
    }

    fn pass(&mut self, simt: &Scalar<'_>, n: usize) {
        let batch = self.held.remove(n);
        let mut need = 0;
        for i in 0..batch.slots() {
            if let Some(frame) = self.receiver.frame(&batch, i) {
                need += self.sender.parts_for(self.receiver.reader(), &frame);
            }
        }
        if self.reserve(simt, need) {
            for i in 0..batch.slots() {
                let Some(frame) = self.receiver.frame(&batch, i) else {
                    continue;
                };
                let parts = self.sender.parts_for(self.receiver.reader(), &frame);
                if let Some(claim) = self.sender.claim(simt, parts) {
                    let _ = self.sender.pass(self.receiver.reader(), frame, &claim);
                }
            }
            self.publish(simt, need);
        }
        self.receiver.release(simt, batch);
    }

    fn send(&mut self, simt: &Scalar<'_>, frames: u32, parts: u32) {
        let need = frames * parts;
        if !self.reserve(simt, need) {
            return;
        }
        for _ in 0..frames {
            let Some(claim) = self.sender.claim(simt, parts) else {
                continue;
            };
            self.fill(&claim, parts);
        }
        self.publish(simt, need);
    }

    /// Writes the parts of a frame as far as the peer lets us: its buffers may lie over its own
    /// descriptors, so that what is written into one takes the next away.
    fn fill(&mut self, claim: &Claim, parts: u32) {
        for part in 0..parts {
            let Some(slot) = self.sender.slot(claim, part) else {
                return;
            };
            self.within(&slot);
            let fits = slot.length() as usize >= PART.len();
            assert_eq!(slot.copy_in(0, &PART), fits, "copies what fits");
            if !fits {
                return;
            }
            let post = Post {
                address: slot.address(),
                length: PART.len() as u32,
                part,
                ..Post::default()
            };
            if self.sender.write(claim, &post).is_err() {
                return;
            }
        }
    }

    fn reserve(&mut self, simt: &Scalar<'_>, need: u32) -> bool {
        match self.sender.reserve(simt, need) {
            Ok(()) => {
                let taken = self.sender.in_flight() + u64::from(need);
                assert!(taken <= self.depth, "more is reserved than there is");
                true
            }
            Err(_) => false,
        }
    }

    fn publish(&mut self, simt: &Scalar<'_>, most: u32) {
        if let Ok(slots) = self.sender.publish(simt) {
            assert!(slots <= most, "more was published than reserved");
        }
        self.sender.ring(simt);
    }
}

/// What every part that is sent holds.
const PART: [u8; 50] = [7; 50];
/// Bytes that frames are gathered into.
const SCRATCH: u64 = 32 << 10;
