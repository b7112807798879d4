//! Plain kernels that measure: receive and count, and exchange Ethernet addresses. One queue pair
//! a block.
#![expect(
    unsafe_code,
    reason = "a kernel reads its blocks by the addresses that it is given"
)]

use core::marker::PhantomData;

use warpwire_device::{Frame, Lease, MAX_BATCH, Reader, Receiver, Sender, SharedCounters, Simt};
use warpwire_protocols::parse::{Fast, Kind};
use warpwire_ring::{Cause, DeviceAddress, QueueBlock};

use crate::block::{Header, Parameters, Steering};
use crate::context::add;
use crate::format::RingFormat;
use crate::kernel::{Course, Kernel};
use crate::packet::{parse_head, parse_slowly, swap_macs};

/// Receives, parses every header, counts, gives back.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveCount<F>(PhantomData<F>);

/// Receives, parses every header, exchanges the Ethernet addresses, sends back.
#[derive(Clone, Copy, Debug)]
pub struct MacSwap<F>(PhantomData<F>);

/// The parameters of both.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct MeasureParameters {
    /// The header.
    pub header: Header,
    /// What the kernel obeys.
    pub steering: Steering,
    /// [`MeasurePort`]s, one a block.
    pub ports: DeviceAddress,
    /// How many.
    pub port_count: u32,
    /// Frames of a batch, at most 64; 0 means 64.
    pub batch: u32,
}

/// One block of a measuring kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct MeasurePort {
    /// The receive queue.
    pub receive: QueueBlock,
    /// The transmit queue.
    pub transmit: QueueBlock,
    /// The block's [`MeasureCounters`].
    pub counters: DeviceAddress,
}

/// What a measuring block counted, besides what the cursors of its queues count. Each word has one
/// writer, the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(128))]
pub struct MeasureCounters {
    /// Frames that were received and could be read.
    pub received: u64,
    /// Frames that found no free transmit slot.
    pub not_sent: u64,
    /// Frames that the parser refused.
    pub malformed: u64,
    /// Frames received by [`Kind`].
    pub kinds: [u64; Kind::COUNT],
    /// Rounds over the queue.
    pub turns: u64,
    /// Rounds that found nothing.
    pub idle_turns: u64,
}

impl MeasureCounters {
    const ENTRIES: u32 = (size_of::<Self>() / 8) as u32;
}

// SAFETY: repr(C), a header first, made of integers only.
unsafe impl Parameters for MeasureParameters {
    const LAYOUT: u64 = warpwire_ring::layout::fold(
        warpwire_ring::layout_hash!(MeasureParameters {
            steering,
            ports,
            port_count,
            batch
        }),
        warpwire_ring::layout_hash!(MeasurePort {
            receive,
            transmit,
            counters
        }) as usize
            ^ size_of::<MeasureCounters>(),
    );

    #[inline(always)]
    fn steering(&self) -> &Steering {
        &self.steering
    }
}

impl<F: RingFormat> Kernel for ReceiveCount<F> {
    type Parameters = MeasureParameters;

    unsafe fn run<S: Simt>(simt: &S, parameters: &MeasureParameters) -> Result<(), Cause> {
        // SAFETY: passed on.
        let (port, counters, mut course) = unsafe { port(simt, parameters) }?;
        // SAFETY: the port's queue, by the kernel's promise.
        let mut receiver = unsafe { Receiver::<F::Receive>::attach(&port.receive) }?;
        let most = batch_size(parameters);
        while course.goes_on(simt) {
            let Some(batch) = receiver.arrived(simt, most)? else {
                Tally::default().turn_received(simt, counters, 0);
                rest(simt, false);
                continue;
            };
            let mut tally = Tally::default();
            let mut row = 0;
            while row < batch.slots() {
                if let Some(frame) = receiver.lane_frame(simt, &batch, row) {
                    let kind = kind_of::<F>(port, &frame);
                    tally.parsed(simt, counters, kind);
                }
                row += S::WIDTH;
            }
            let frames = batch.frames();
            receiver.release(simt, batch);
            tally.turn_received(simt, counters, frames);
            rest(simt, true);
        }
        receiver.save(simt);
        Ok(())
    }
}

impl<F: RingFormat> Kernel for MacSwap<F> {
    type Parameters = MeasureParameters;

    unsafe fn run<S: Simt>(simt: &S, parameters: &MeasureParameters) -> Result<(), Cause> {
        // SAFETY: passed on.
        let (port, counters, mut course) = unsafe { port(simt, parameters) }?;
        // SAFETY: the port's queue, by the kernel's promise.
        let mut receiver = unsafe { Receiver::<F::Receive>::attach(&port.receive) }?;
        // SAFETY: as above.
        let mut sender = unsafe { Sender::<F::Transmit>::attach(&port.transmit) }?;
        let most = batch_size(parameters);
        while course.goes_on(simt) {
            let Some(batch) = receiver.arrived(simt, most)? else {
                Tally::default().turn(simt, counters, 0);
                rest(simt, false);
                continue;
            };
            let want = batch.slots().min(sender.depth());
            let free = sender.credits(simt, want)?;
            sender.reserve(simt, free)?;
            sender.prepare_pass(simt, receiver.reader());
            let mut tally = Tally::default();
            let mut row = 0;
            while row < batch.slots() {
                let frame = receiver.lane_frame(simt, &batch, row);
                row += S::WIDTH;
                let reader = receiver.reader();
                let parts = frame.map_or(0, |frame| sender.parts_for(reader, &frame));
                let claim = sender.claim(simt, parts);
                let Some(frame) = frame else {
                    continue;
                };
                tally.not_sent += u32::from(claim.is_none());
                let kind = kind_of::<F>(port, &frame);
                tally.parsed(simt, counters, kind);
                if let Some(claim) = claim {
                    swap_macs(&frame.head());
                    sender.count_headers(1);
                    // A frame that fails here cuts the batch, and is counted below.
                    let _ = sender.pass(reader, frame, &claim);
                }
            }
            // The cause of a cut is in the queue's cursor.
            let _ = sender.publish(simt);
            sender.ring(simt);
            let frames = batch.frames();
            receiver.release(simt, batch);
            tally.turn(simt, counters, frames);
            rest(simt, true);
        }
        receiver.save(simt);
        sender.save(simt);
        Ok(())
    }
}

/// What a turn counts before it is written to memory.
#[derive(Default)]
struct Tally {
    malformed: u32,
    not_sent: u32,
}

impl Tally {
    /// Counts a frame that this lane parsed.
    #[inline(always)]
    fn parsed<S: Simt>(&mut self, simt: &S, counters: SharedCounters, kind: u32) {
        self.malformed += u32::from(kind & FAULT != 0);
        add(simt, counters, KINDS + (kind & !FAULT), 1);
    }

    /// *Collective.* Writes the turn of a kernel that sends to memory; `frames` were received.
    #[inline(always)]
    fn turn<S: Simt>(&self, simt: &S, counters: SharedCounters, frames: u32) {
        let not_sent = simt.sum(self.not_sent);
        if not_sent > 0 && simt.is_leader() {
            add(simt, counters, NOT_SENT, u64::from(not_sent));
        }
        self.turn_received(simt, counters, frames);
    }

    /// *Collective.* Writes the turn to memory; `frames` were received.
    #[inline(always)]
    fn turn_received<S: Simt>(&self, simt: &S, counters: SharedCounters, frames: u32) {
        let malformed = simt.sum(self.malformed);
        if !simt.is_leader() {
            return;
        }
        add(simt, counters, TURNS, 1);
        if frames == 0 {
            add(simt, counters, IDLE_TURNS, 1);
            return;
        }
        add(simt, counters, RECEIVED, u64::from(frames));
        if malformed > 0 {
            add(simt, counters, MALFORMED, u64::from(malformed));
        }
    }
}

/// The kind of a frame, with [`FAULT`] if the parser refused it.
#[inline(always)]
fn kind_of<F: RingFormat>(port: &MeasurePort, frame: &Frame<'_>) -> u32 {
    match parse_head(frame.head(), frame.length()) {
        Fast::Parsed(headers) => headers.kind.index() as u32,
        Fast::Slow => slow_kind::<F>(&port.receive, frame.first(), frame.slots()),
    }
}

/// [`kind_of`] for what the fast path does not take.
///
/// Outlined, and given nothing but words: it attaches a reader of its own, so that the fast path's
/// stays in registers.
#[cold]
#[inline(never)]
fn slow_kind<F: RingFormat>(block: &QueueBlock, first: u64, slots: u32) -> u32 {
    // SAFETY: the kernel's promise for the port's queue, which is attached already.
    let reader = unsafe { Reader::<F::Receive>::attach(block) };
    // SAFETY: the frame's slots are lent to this lane for the length of the call.
    let lease = unsafe { Lease::from_words([first, u64::from(slots)]) };
    let Ok(reader) = reader else {
        return FAULT;
    };
    let Some(frame) = reader.leased(&lease) else {
        return FAULT;
    };
    let rest = F::rest(&reader, frame);
    let (headers, fault) = parse_slowly(frame.head(), &rest, frame.length());
    let fault = if fault.is_some() { FAULT } else { 0 };
    headers.kind.index() as u32 | fault
}

/// Set in the number of a kind: the parser refused the frame.
const FAULT: u32 = 1 << 31;

/// The block's port, counters and course.
///
/// # Safety
/// *The kernel's promise*.
unsafe fn port<'a, S: Simt>(
    simt: &S,
    parameters: &'a MeasureParameters,
) -> Result<(&'a MeasurePort, SharedCounters, Course), Cause> {
    let number = simt.block();
    if number >= parameters.port_count || simt.warps() != 1 || parameters.ports.is_null() {
        return Err(Cause::LayoutMismatch);
    }
    let offset = u64::from(number) * size_of::<MeasurePort>() as u64;
    let address = parameters.ports.offset(offset).value();
    // SAFETY: that many ports lie there, and nobody writes them.
    let port = unsafe { &*(address as *const MeasurePort) };
    // SAFETY: the block's counters.
    let counters = unsafe { SharedCounters::attach(port.counters, MeasureCounters::ENTRIES) };
    // SAFETY: stop word and heartbeats.
    let course = unsafe { Course::attach(&parameters.steering, number) };
    Ok((port, counters, course))
}

#[inline(always)]
fn batch_size(parameters: &MeasureParameters) -> u32 {
    match parameters.batch {
        0 => MAX_BATCH,
        batch => batch.min(MAX_BATCH),
    }
}

#[inline(always)]
fn rest<S: Simt>(simt: &S, found: bool) {
    if found {
        simt.give_way();
    } else {
        simt.pause();
    }
}

const RECEIVED: u32 = place(core::mem::offset_of!(MeasureCounters, received));
const NOT_SENT: u32 = place(core::mem::offset_of!(MeasureCounters, not_sent));
const MALFORMED: u32 = place(core::mem::offset_of!(MeasureCounters, malformed));
const KINDS: u32 = place(core::mem::offset_of!(MeasureCounters, kinds));
const TURNS: u32 = place(core::mem::offset_of!(MeasureCounters, turns));
const IDLE_TURNS: u32 = place(core::mem::offset_of!(MeasureCounters, idle_turns));

const fn place(offset: usize) -> u32 {
    (offset / 8) as u32
}
