//! The generator: writes frames from templates into transmit slots, at a rate or as fast as it
//! goes.
#![expect(
    unsafe_code,
    reason = "a kernel reads its blocks by the addresses that it is given"
)]

use core::marker::PhantomData;

use warpwire_device::{Claim, Piece, Sender, SharedCounter, SharedCounters, Simt};
use warpwire_protocols::checksum::patch16;
use warpwire_ring::memory::Quad;
use warpwire_ring::{Cause, DeviceAddress, Post, QueueBlock};

use crate::block::{Header, Parameters, Steering};
use crate::context::add;
use crate::format::RingFormat;
use crate::kernel::{Course, Kernel};
use crate::kernels::count::set;

/// Writes frames and sends them. One queue pair a block.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<F>(PhantomData<F>);

/// The parameters of the generator.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct TransmitParameters {
    /// The header.
    pub header: Header,
    /// What the kernel obeys.
    pub steering: Steering,
    /// [`TransmitPort`]s, one a block.
    pub ports: DeviceAddress,
    /// How many.
    pub port_count: u32,
    /// How many templates: frame `n` is made from template `n` modulo this.
    pub template_count: u32,
    /// [`Template`]s.
    pub templates: DeviceAddress,
    /// Frames that each block sends; 0 for no end.
    pub frames: u64,
    /// Frames a second that each block sends; 0 for as many as there are slots for.
    pub rate: u64,
    /// Frames of a batch; 0 means 32.
    pub batch: u32,
    /// Written as zero.
    pub reserved: u32,
}

/// One block of the generator.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct TransmitPort {
    /// The transmit queue.
    pub transmit: QueueBlock,
    /// The block's [`TransmitCounters`].
    pub counters: DeviceAddress,
}

/// What a block of the generator counted, besides what the cursor of its queue counts, and what it
/// goes on from in its next slice. Each word has one writer, the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(128))]
pub struct TransmitCounters {
    /// Rounds that found no free slot.
    pub full_turns: u64,
    /// Rounds.
    pub turns: u64,
    /// 1 once all frames are sent.
    pub is_done: u64,
    /// Frames sent: the next one has this number.
    pub sent: u64,
    /// When the first one was due, by the clock of the device; 0 before the first turn.
    pub started_ns: u64,
    /// Frames sent by template.
    pub templates: [u64; MAX_TEMPLATES],
}

/// Templates that a generator may have.
pub const MAX_TEMPLATES: usize = 32;

/// A frame to send, again and again.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct Template {
    /// Bytes of the frame; at most [`TEMPLATE_BYTES`].
    pub length: u32,
    /// Flows: the 16-bit field at `vary_at` counts up so many times from the value that it holds.
    pub flows: u32,
    /// Offset of the field that tells flows apart, an even number; 0 if none does.
    pub vary_at: u32,
    /// Offset of the checksum to repair, or 0.
    pub checksum_at: u32,
    /// Written as zero.
    pub reserved: [u32; 28],
    /// The frame.
    pub bytes: [u8; TEMPLATE_BYTES],
}

/// Bytes of the longest template.
pub const TEMPLATE_BYTES: usize = 1920;

const _: () = assert!(size_of::<Template>() == 2048);

// SAFETY: repr(C), a header first, made of integers only.
unsafe impl Parameters for TransmitParameters {
    const LAYOUT: u64 = {
        use warpwire_ring::layout::fold;
        let block = warpwire_ring::layout_hash!(TransmitParameters {
            steering,
            ports,
            port_count,
            template_count,
            templates,
            frames,
            rate,
            batch,
        });
        let port = warpwire_ring::layout_hash!(TransmitPort { transmit, counters });
        let template = warpwire_ring::layout_hash!(Template {
            length,
            flows,
            vary_at,
            bytes
        });
        let counters = warpwire_ring::layout_hash!(TransmitCounters {
            full_turns,
            turns,
            is_done,
            sent,
            started_ns,
            templates,
        });
        let hash = fold(fold(block, port as usize), template as usize);
        fold(hash, counters as usize)
    };

    #[inline(always)]
    fn steering(&self) -> &Steering {
        &self.steering
    }
}

impl<F: RingFormat> Kernel for Transmit<F> {
    type Parameters = TransmitParameters;

    unsafe fn run<S: Simt>(simt: &S, parameters: &TransmitParameters) -> Result<(), Cause> {
        let number = simt.block();
        let count = parameters.template_count as usize;
        let sound = number < parameters.port_count
            && simt.warps() == 1
            && (1..=MAX_TEMPLATES).contains(&count)
            && !parameters.ports.is_null()
            && !parameters.templates.is_null();
        if !sound {
            return Err(Cause::LayoutMismatch);
        }
        let offset = u64::from(number) * size_of::<TransmitPort>() as u64;
        let port = parameters.ports.offset(offset).value() as *const TransmitPort;
        // SAFETY: that many ports lie there, by the kernel's promise.
        let port = unsafe { &*port };
        let first = parameters.templates.value() as *const Template;
        // SAFETY: that many templates lie there, by the kernel's promise.
        let templates = unsafe { core::slice::from_raw_parts(first, count) };
        // SAFETY: stop word and heartbeats, by the kernel's promise.
        let course = unsafe { Course::attach(&parameters.steering, number) };
        // SAFETY: the block's counters, by the kernel's promise.
        let counters = unsafe { SharedCounters::attach(port.counters, ENTRIES) };
        // SAFETY: the port's queue, by the kernel's promise.
        let sender = unsafe { Sender::<F::Transmit>::attach(&port.transmit) }?;
        let pace = Pace {
            frames: parameters.frames,
            rate: parameters.rate,
            started_ns: start(simt, counters),
            sent: simt.shuffle_u64(value(counters, SENT), 0),
        };
        generate(
            simt,
            sender,
            templates,
            pace,
            parameters.batch,
            counters,
            course,
        )
    }
}

/// *Collective.* When the generator started; says so if it starts now.
#[inline(always)]
fn start<S: Simt>(simt: &S, counters: SharedCounters) -> u64 {
    let mut started_ns = value(counters, STARTED);
    if started_ns == 0 && simt.is_leader() {
        started_ns = simt.now_ns().max(1);
        set(counters, STARTED, started_ns);
    }
    simt.shuffle_u64(started_ns, 0)
}

/// A word of the counters.
#[inline(always)]
fn value(counters: SharedCounters, index: u32) -> u64 {
    counters.at(index).map_or(0, SharedCounter::value)
}

/// *Collective.* Sends until the pace says that it is enough.
#[inline(always)]
fn generate<S: Simt, T: warpwire_ring::Transmit>(
    simt: &S,
    mut sender: Sender<T>,
    templates: &[Template],
    mut pace: Pace,
    batch: u32,
    counters: SharedCounters,
    mut course: Course,
) -> Result<(), Cause> {
    let most = if batch == 0 { BATCH } else { batch };
    while course.goes_on(simt) && !pace.is_over() {
        let due = pace.due(simt, most);
        let free = sender.credits(simt, due)?;
        sender.reserve(simt, free)?;
        sender.prepare(simt);
        let mut row = 0;
        while row < free {
            let wanted = row + simt.lane() < free;
            let sequence = pace.sent.wrapping_add(u64::from(row + simt.lane()));
            if let Some(claim) = sender.claim(simt, u32::from(wanted)) {
                write(&mut sender, &claim, templates, sequence);
            }
            row += S::WIDTH;
        }
        let before = sender.in_flight();
        let published = sender.publish(simt);
        sender.ring(simt);
        // A frame a slot; of a batch that was cut, what stood before the cut.
        let sent = sender.in_flight().wrapping_sub(before);
        count_templates(simt, counters, templates, pace.sent, sent);
        pace.sent = pace.sent.wrapping_add(sent);
        if simt.is_leader() {
            set(counters, SENT, pace.sent);
        }
        if let Err(cause) = published {
            sender.save(simt);
            return Err(cause);
        }
        if simt.is_leader() {
            add(simt, counters, TURNS, 1);
            if due > 0 && free == 0 {
                add(simt, counters, FULL_TURNS, 1);
            }
        }
        if free > 0 {
            simt.give_way();
        } else {
            simt.pause();
        }
    }
    if simt.is_leader() && pace.is_over() {
        set(counters, DONE, 1);
    }
    sender.save(simt);
    Ok(())
}

/// How many frames are due.
struct Pace {
    frames: u64,
    rate: u64,
    started_ns: u64,
    sent: u64,
}

impl Pace {
    fn is_over(&self) -> bool {
        self.frames != 0 && self.sent >= self.frames
    }

    /// *Collective.* Frames that may be sent now, at most `most`.
    #[inline(always)]
    fn due<S: Simt>(&self, simt: &S, most: u32) -> u32 {
        let mut due = u64::from(most);
        if self.frames != 0 {
            due = due.min(self.frames - self.sent);
        }
        if self.rate != 0 {
            let elapsed = simt
                .shuffle_u64(simt.now_ns(), 0)
                .saturating_sub(self.started_ns);
            let target = u128::from(elapsed) * u128::from(self.rate) / 1_000_000_000;
            let target = u64::try_from(target).unwrap_or(u64::MAX);
            due = due.min(target.saturating_sub(self.sent));
        }
        due as u32
    }
}

/// *Collective.* Counts `sent` frames from `first` on by their templates: lanes divide the
/// templates among themselves.
#[inline(always)]
fn count_templates<S: Simt>(
    simt: &S,
    counters: SharedCounters,
    templates: &[Template],
    first: u64,
    sent: u64,
) {
    let count = templates.len() as u32;
    let mut place = simt.lane();
    while place < count {
        // How far behind the first frame the template's first one is.
        let behind = (place + count - place_of(first, templates)) % count;
        if let Some(more) = sent.checked_sub(u64::from(behind) + 1) {
            let frames = more / u64::from(count) + 1;
            add(simt, counters, TEMPLATES + place, frames);
        }
        place += S::WIDTH;
    }
}

/// Writes one frame into its slot. One that cannot be written cuts the batch.
#[inline(always)]
fn write<T: warpwire_ring::Transmit>(
    sender: &mut Sender<T>,
    claim: &Claim,
    templates: &[Template],
    sequence: u64,
) {
    match fill(sender, claim, templates, sequence) {
        Ok(post) => {
            sender.count_headers(1);
            // What fails here cuts the batch as well.
            let _ = sender.write(claim, &post);
        }
        Err(cause) => sender.abandon(cause),
    }
}

/// Fills the slot of a frame; the descriptor to be written.
#[inline(always)]
fn fill<T: warpwire_ring::Transmit>(
    sender: &Sender<T>,
    claim: &Claim,
    templates: &[Template],
    sequence: u64,
) -> Result<Post, Cause> {
    let place = place_of(sequence, templates) as usize;
    let template = templates.get(place).ok_or(Cause::LocalProtection)?;
    let slot = sender.slot(claim, 0).ok_or(Cause::LocalProtection)?;
    copy(template, &slot)?;
    vary(template, &slot, sequence);
    Ok(Post {
        address: slot.address(),
        length: template.length,
        ..Post::default()
    })
}

#[inline(always)]
fn place_of(sequence: u64, templates: &[Template]) -> u32 {
    match templates.len() as u64 {
        0 | 1 => 0,
        count => (sequence % count) as u32,
    }
}

/// Copies a template, 16 bytes at a time; the last ones may be beyond the frame but not the slot.
#[inline(always)]
fn copy(template: &Template, slot: &Piece<'_>) -> Result<(), Cause> {
    if template.length > slot.length() {
        return Err(Cause::FrameTooLong);
    }
    let (quads, _) = template.bytes.as_chunks::<16>();
    let count = template.length.div_ceil(16);
    let mut fits = true;
    for (bytes, index) in quads.iter().zip(0..count) {
        let (words, _) = bytes.as_chunks::<4>();
        let [a, b, c, d] = words else {
            return Err(Cause::LocalLength);
        };
        let quad = Quad([a, b, c, d].map(|word| u32::from_ne_bytes(*word)));
        fits &= slot.set_quad(index, quad);
    }
    if !fits {
        let bytes = template.bytes.get(..template.length as usize);
        slot.copy_in(0, bytes.ok_or(Cause::LocalLength)?);
    }
    Ok(())
}

/// Makes the frame one of its flow. A field that does not lie within the frame is none: behind the
/// frame the slot holds whatever was there.
#[inline(always)]
fn vary(template: &Template, slot: &Piece<'_>, sequence: u64) {
    let within = |at: u32| at != 0 && at.saturating_add(2) <= template.length;
    if !within(template.vary_at) || template.flows < 2 {
        return;
    }
    let old = slot.be16(template.vary_at).unwrap_or(0);
    let new = old.wrapping_add((sequence % u64::from(template.flows)) as u16);
    slot.set_be16(template.vary_at, new);
    if within(template.checksum_at) {
        let checksum = slot.be16(template.checksum_at).unwrap_or(0);
        slot.set_be16(template.checksum_at, patch16(checksum, old, new));
    }
}

/// Frames of a batch unless told.
const BATCH: u32 = 32;

const ENTRIES: u32 = (size_of::<TransmitCounters>() / 8) as u32;
const FULL_TURNS: u32 = place(core::mem::offset_of!(TransmitCounters, full_turns));
const TURNS: u32 = place(core::mem::offset_of!(TransmitCounters, turns));
const DONE: u32 = place(core::mem::offset_of!(TransmitCounters, is_done));
const SENT: u32 = place(core::mem::offset_of!(TransmitCounters, sent));
const STARTED: u32 = place(core::mem::offset_of!(TransmitCounters, started_ns));
const TEMPLATES: u32 = place(core::mem::offset_of!(TransmitCounters, templates));

const fn place(offset: usize) -> u32 {
    (offset / 8) as u32
}
