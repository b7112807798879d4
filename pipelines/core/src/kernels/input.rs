//! One receive queue of a block: a batch through the stages.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a port's memory is live"
)]

use warpwire_device::{Copies, Frame, MAX_BATCH, Reader, Receiver, SharedCounters, Simt};
use warpwire_ring::{Cause, DeviceAddress, Receive};

use crate::block::{Block, PARTIAL_CHECKSUMS, Port, PortCounters};
use crate::context::{Context, Tables, add, any_or_none};
use crate::format::RingFormat;
use crate::kernels::count::{COMPLETED, DROPS, RECEIVE_CAUSE, set};
use crate::packet::Packet;
use crate::program::{MAX_ADDRESSES, MAX_RULES, MAX_STAGES, Op};
use crate::reason::Reason;
use crate::sensor::Gatherer;
use crate::stage::{StageSet, Verdict};

/// A receive queue and the stages for its frames.
pub(crate) struct Input<'a, F: RingFormat> {
    receiver: Receiver<F::Receive>,
    port: &'a Port,
    number: u32,
    tables: Tables<'a>,
    /// The port's [`PortCounters`].
    counters: SharedCounters,
    is_dead: bool,
}

/// Where frames go that stages send.
pub(crate) trait Outputs {
    /// *Collective.* Sends a frame a lane from port `port`, the same in every lane; `room` slots
    /// are wanted for the batch at most. Returns why this lane's frame was not sent, if it was not.
    fn send<S: Simt, R: Receive>(
        &mut self,
        simt: &S,
        port: u32,
        reader: &Reader<R>,
        frame: Option<(Frame<'_>, u32)>,
        room: u32,
    ) -> Option<Reason>;

    /// *Collective.* Publishes what was sent.
    fn close<S: Simt>(&mut self, simt: &S, counters: SharedCounters);
}

impl<'a, F: RingFormat> Input<'a, F> {
    /// # Safety
    /// *The port's promise*: its queues' and its program's memory is live for `'a`.
    #[inline(never)]
    pub(crate) unsafe fn attach(port: &'a Port, number: u32) -> Result<Self, Cause> {
        // SAFETY: passed on.
        let receiver = unsafe { Receiver::attach(&port.receive) }?;
        let program = &port.program;
        // SAFETY: the program's operations, by the promise.
        let ops = unsafe { table(program.ops, program.op_count, MAX_STAGES) }?;
        // SAFETY: the program's rules.
        let rules = unsafe { table(program.rules, program.rule_count, MAX_RULES) }?;
        // SAFETY: the program's addresses.
        let addresses = unsafe { table(program.addresses, program.address_count, MAX_ADDRESSES) }?;
        Ok(Self {
            receiver,
            port,
            number,
            tables: Tables {
                ops,
                rules,
                addresses,
            },
            // SAFETY: the port's counters, by the promise.
            counters: unsafe { SharedCounters::attach(port.counters, PortCounters::ENTRIES) },
            is_dead: false,
        })
    }

    /// *Collective.* Takes a batch, runs the stages over it and gives its slots back. Returns
    /// whether there was one.
    #[inline(never)]
    pub(crate) fn turn<S: Simt, Set: StageSet>(
        &mut self,
        simt: &S,
        block: &Block,
        outputs: &mut impl Outputs,
    ) -> bool {
        if self.is_dead {
            return false;
        }
        let counters = self.counters;
        let batch = match self.receiver.arrived(simt, MAX_BATCH) {
            Ok(Some(batch)) => batch,
            Ok(None) => {
                idle(simt, self.tables.ops);
                return false;
            }
            Err(cause) => {
                self.is_dead = true;
                if simt.is_leader() {
                    set(counters, RECEIVE_CAUSE, cause as u64);
                }
                return false;
            }
        };
        let reader = *self.receiver.reader();
        let running = Running {
            tables: self.tables,
            block,
            port: self.port,
            number: self.number,
        };
        let room = batch.slots().saturating_mul(2);
        let mut row = 0;
        while row < batch.slots() {
            let place = row + simt.lane();
            let frame = reader.lane_frame(simt, &batch, row);
            let mut packet = frame.map(|frame| {
                let rest = F::rest(&reader, frame);
                let sequence = batch.first().wrapping_add(u64::from(place));
                Packet::parse(frame.head(), rest, frame.length(), sequence)
            });
            let verdict = judge::<S, Set>(simt, &running, packet.as_mut());
            let reason = self.dispatch(simt, outputs, frame, packet.as_ref(), verdict, room);
            if let Some(reason) = reason {
                add(simt, counters, DROPS + reason.index(), 1);
            }
            row += S::WIDTH;
        }
        outputs.close(simt, counters);
        self.receiver.release(simt, batch);
        true
    }

    /// *Collective.* Sends frames, port by port; returns why this lane's frame was not sent.
    #[inline(always)]
    fn dispatch<S: Simt>(
        &self,
        simt: &S,
        outputs: &mut impl Outputs,
        frame: Option<Frame<'_>>,
        packet: Option<&Packet<'_>>,
        verdict: Verdict,
        room: u32,
    ) -> Option<Reason> {
        let (port, reason) = match (packet, verdict) {
            (Some(_), Verdict::Send(port)) => (port, None),
            (Some(_), Verdict::Drop(reason)) => (NO_PORT, Some(reason)),
            (Some(_), Verdict::Next) => (NO_PORT, Some(Reason::UNCLAIMED)),
            // Lanes without a frame take part in what the others send.
            (None, _) => (NO_PORT, None),
        };
        let mut sent = None;
        if let (Some(frame), Some(packet)) = (frame, packet)
            && port != NO_PORT
        {
            let partial = self.port.flags & PARTIAL_CHECKSUMS != 0;
            if partial && packet.complete_checksum() {
                add(simt, self.counters, COMPLETED, 1);
            }
            // A stage may have given the frame another length.
            let frame = match packet.length() == frame.length() {
                true => frame,
                false => frame.resized(packet.length()).unwrap_or(frame),
            };
            sent = Some((frame, packet.edits()));
        }
        reason.or(self.send_all(simt, outputs, sent, port, room))
    }

    /// *Collective.* Sends a frame a lane, each from a port of its own.
    #[inline(always)]
    fn send_all<S: Simt>(
        &self,
        simt: &S,
        outputs: &mut impl Outputs,
        frame: Option<(Frame<'_>, u32)>,
        port: u32,
        room: u32,
    ) -> Option<Reason> {
        let mut failure = None;
        let mut waiting = simt.ballot(port != NO_PORT);
        while waiting != 0 {
            let target = simt.shuffle(port, waiting.trailing_zeros());
            let mine = port == target;
            waiting &= !simt.ballot(mine);
            let reader = self.receiver.reader();
            let failed = outputs.send(simt, target, reader, frame.filter(|_| mine), room);
            failure = failure.or(failed);
        }
        failure
    }

    /// *Collective.* Writes the queue's cursor for the next run.
    #[inline(never)]
    pub(crate) fn save<S: Simt>(&mut self, simt: &S) {
        self.receiver.save(simt);
    }
}

/// *Collective.* What stages have to do when no frames come: what gatherers wait for may be late.
#[inline(never)]
fn idle<S: Simt>(simt: &S, ops: &[Op]) {
    for op in ops.iter().filter(|op| !op.samples.is_null()) {
        // SAFETY: the operation's gatherer, live by the port's promise.
        if let Some(gatherer) = unsafe { Gatherer::attach(op.samples) } {
            gatherer.turn(simt);
        }
    }
}

/// What stages run with, the same for every frame of a port.
struct Running<'a> {
    tables: Tables<'a>,
    block: &'a Block,
    port: &'a Port,
    number: u32,
}

/// *Collective.* The verdict of the stages on a frame a lane. Not inlined: one copy for all ring
/// formats.
#[inline(never)]
fn judge<S: Simt, Set: StageSet>(
    simt: &S,
    running: &Running<'_>,
    mut packet: Option<&mut Packet<'_>>,
) -> Verdict {
    let mut verdict = Verdict::Next;
    for op in running.tables.ops {
        let open = packet.is_some() && verdict == Verdict::Next;
        if !simt.any(open) {
            break;
        }
        let context = Context {
            simt,
            op,
            // SAFETY: the operation's counters, live by the port's promise.
            counters: unsafe { SharedCounters::attach(op.counters, op.counter_count) },
            // SAFETY: the operation's ring, live by the port's promise.
            samples: unsafe { Copies::attach(op.samples) },
            // SAFETY: the operation's gatherer, live by the port's promise.
            gatherer: unsafe { Gatherer::attach(op.samples) },
            tables: running.tables,
            block: running.block,
            port: running.port,
            number: running.number,
        };
        let rules = context.rules(op.when);
        let seen = packet
            .as_deref_mut()
            .filter(|packet| open && any_or_none(rules, &**packet));
        let is_seen = seen.is_some();
        let said = Set::run(&context, seen);
        if is_seen {
            verdict = said;
        }
    }
    match (verdict, packet.and_then(|packet| packet.fault())) {
        (Verdict::Next, Some(fault)) => Verdict::Drop(Reason::malformed(fault)),
        (Verdict::Next, None) => Verdict::Drop(Reason::UNCLAIMED),
        (verdict, _) => verdict,
    }
}

/// A table of the program.
///
/// # Safety
/// `count` values of the type lie at `address` for `'a`, and nobody writes them; or `count` is 0.
unsafe fn table<'a, T>(address: DeviceAddress, count: u32, most: usize) -> Result<&'a [T], Cause> {
    let count = count as usize;
    if count == 0 {
        return Ok(&[]);
    }
    let sound = count <= most && !address.is_null() && address.is_aligned(align_of::<T>() as u64);
    if !sound {
        return Err(Cause::LayoutMismatch);
    }
    // SAFETY: aligned, not null, and live by the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts(address.value() as *const T, count) })
}

/// No port at all.
const NO_PORT: u32 = u32::MAX;
