//! Gauges of work over frames in memory: parsing, and the invariant CRC. A frame a lane; blocks
//! divide the frames among themselves in rows of 32.
#![expect(
    unsafe_code,
    reason = "a kernel reads its blocks by the addresses that it is given"
)]

use core::mem::offset_of;

use warpwire_device::{Area, Piece, SharedCounters, Simt};
use warpwire_protocols::parse::{Fast, Headers, Kind};
use warpwire_ring::{Cause, DeviceAddress, Location, Region, memory};

use super::{place, word};
use crate::block::{Header, Parameters, Steering};
use crate::context::add;
use crate::kernel::{Course, Kernel};
use crate::kernels::count::set;
use crate::packet::{Packet, Rest, parse_head, parse_slowly};
use crate::repair::icrc_holds;

/// Parses every frame.
#[derive(Clone, Copy, Debug)]
pub struct ParseSweep;

/// Parses every frame and checks the ICRC of those that are RoCEv2.
#[derive(Clone, Copy, Debug)]
pub struct IcrcSweep;

/// The parameters of both.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct SweepParameters {
    /// The header.
    pub header: Header,
    /// What the kernel obeys.
    pub steering: Steering,
    /// Slots with a frame each, `stride` bytes apart, a multiple of 16.
    pub frames: DeviceAddress,
    /// How long each frame is: words of 32 bits.
    pub lengths: DeviceAddress,
    /// [`SweepCounters`], one a block.
    pub counters: DeviceAddress,
    /// Frames.
    pub frame_count: u32,
    /// Bytes of a slot: a multiple of 16, and not less than the longest frame.
    pub stride: u32,
    /// Rows of [`ROW`] frames that a turn takes; 0 means 1.
    pub rows: u32,
    /// Times that every frame is looked at.
    pub laps: u32,
    /// Rows of counters.
    pub block_count: u32,
    /// Written as zero.
    pub reserved: u32,
}

/// What a block counted, and what it goes on from in its next slice. Each word has one writer, the
/// block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(128))]
pub struct SweepCounters {
    /// Turns.
    pub turns: u64,
    /// Rows done.
    pub rows: u64,
    /// 1 once all rows are done.
    pub is_done: u64,
    /// When the first row was begun, by the clock of the device.
    pub started_ns: u64,
    /// When the last row was done.
    pub ended_ns: u64,
    /// Frames that the parser took; whose ICRC is right.
    pub good: u64,
    /// Frames that the parser refused; whose ICRC is wrong or that have none.
    pub bad: u64,
    /// A sum over what was found in each frame, weighted by the frame's place.
    pub digest: u64,
}

/// Frames of a row.
pub const ROW: u32 = 32;

// SAFETY: repr(C), a header first, made of integers only.
unsafe impl Parameters for SweepParameters {
    const LAYOUT: u64 = warpwire_ring::layout::fold(
        warpwire_ring::layout_hash!(SweepParameters {
            steering,
            frames,
            lengths,
            counters,
            frame_count,
            stride,
            rows,
            laps,
            block_count,
        }),
        warpwire_ring::layout_hash!(SweepCounters {
            turns,
            rows,
            is_done,
            started_ns,
            ended_ns,
            good,
            bad,
            digest,
        }) as usize,
    );

    #[inline(always)]
    fn steering(&self) -> &Steering {
        &self.steering
    }
}

/// What is done with a frame.
trait Work {
    /// What was found, and whether it is good.
    fn look(frame: Piece<'_>, slot: Piece<'_>) -> (u32, bool);
}

impl Work for ParseSweep {
    #[inline(always)]
    fn look(frame: Piece<'_>, slot: Piece<'_>) -> (u32, bool) {
        match parse_head(frame, frame.length()) {
            Fast::Parsed(headers) => (found(&headers), true),
            Fast::Slow => slow(slot, frame.length()),
        }
    }
}

/// Outlined, so that what the slow path keeps in memory does not belong to the fast path's frame.
#[cold]
#[inline(never)]
fn slow(slot: Piece<'_>, length: u32) -> (u32, bool) {
    let Some(frame) = slot.resized(length) else {
        return (0, false);
    };
    let (headers, fault) = parse_slowly(frame, &Rest::None, length);
    (found(&headers), fault.is_none())
}

/// What the parser found, in a word.
#[inline(always)]
fn found(headers: &Headers) -> u32 {
    let kind = headers.kind.index() as u32;
    kind | u32::from(headers.l3) << 8 | u32::from(headers.l4) << 16
}

impl Work for IcrcSweep {
    #[inline(always)]
    fn look(frame: Piece<'_>, _slot: Piece<'_>) -> (u32, bool) {
        let packet = Packet::parse(frame, Rest::None, frame.length(), 0);
        let headers = packet.headers();
        let is_roce = headers.kind == Kind::RoceV2 && packet.fault().is_none();
        let is_right = is_roce && icrc_holds(&packet);
        (u32::from(is_roce) << 1 | u32::from(is_right), is_right)
    }
}

impl Kernel for ParseSweep {
    type Parameters = SweepParameters;

    unsafe fn run<S: Simt>(simt: &S, parameters: &SweepParameters) -> Result<(), Cause> {
        // SAFETY: passed on.
        unsafe { sweep::<S, Self>(simt, parameters) }
    }
}

impl Kernel for IcrcSweep {
    type Parameters = SweepParameters;

    unsafe fn run<S: Simt>(simt: &S, parameters: &SweepParameters) -> Result<(), Cause> {
        // SAFETY: passed on.
        unsafe { sweep::<S, Self>(simt, parameters) }
    }
}

/// *Collective.* Works on the block's rows, turn by turn.
///
/// # Safety
/// *The kernel's promise*.
#[inline(always)]
unsafe fn sweep<S: Simt, W: Work>(simt: &S, parameters: &SweepParameters) -> Result<(), Cause> {
    let number = simt.block();
    let named = [parameters.frames, parameters.lengths, parameters.counters];
    let sound = number < parameters.block_count
        && simt.warps() == 1
        && parameters.stride.is_multiple_of(16)
        && parameters.frames.is_aligned(16)
        && named.iter().all(|address| !address.is_null());
    if !sound {
        return Err(Cause::LayoutMismatch);
    }
    let offset = u64::from(number) * size_of::<SweepCounters>() as u64;
    let counters = parameters.counters.offset(offset);
    // SAFETY: the block's counters.
    let counters = unsafe { SharedCounters::attach(counters, ENTRIES) };
    // SAFETY: stop word and heartbeats.
    let mut course = unsafe { Course::attach(&parameters.steering, number) };
    // SAFETY: the frames and their lengths, which nobody writes.
    let frames = unsafe { Frames::attach(parameters) };
    let own = Own::of(number, simt.blocks(), parameters);
    let mut done = word(simt, counters, ROWS);
    if simt.is_leader() && done == 0 {
        set(counters, STARTED, simt.now_ns().max(1));
    }
    while course.goes_on(simt) && done < own.total {
        let rows = u64::from(parameters.rows.max(1)).min(own.total - done);
        let mut tally = Tally::default();
        let mut row = own.row(done);
        let mut left = rows;
        while left > 0 {
            tally.row::<S, W>(simt, &frames, row);
            row = own.after(row);
            left -= 1;
        }
        done += rows;
        tally.turn(simt, counters);
        if simt.is_leader() {
            set(counters, ROWS, done);
            if done == own.total {
                set(counters, ENDED, simt.now_ns());
                set(counters, IS_DONE, 1);
            }
        }
        simt.give_way();
    }
    Ok(())
}

/// The rows of one block: every so many, from its own number on.
struct Own {
    first: u32,
    blocks: u32,
    /// All rows, of all blocks.
    rows: u32,
    /// Rows of this block in one lap.
    count: u32,
    /// Rows of this block in all laps.
    total: u64,
}

impl Own {
    #[inline(always)]
    fn of(first: u32, blocks: u32, parameters: &SweepParameters) -> Self {
        let rows = parameters.frame_count.div_ceil(ROW);
        let blocks = blocks.max(1);
        let count = rows.saturating_sub(first).div_ceil(blocks);
        Self {
            first,
            blocks,
            rows,
            count,
            total: u64::from(count) * u64::from(parameters.laps),
        }
    }

    /// The row behind `done` of the block's own.
    #[inline(always)]
    fn row(&self, done: u64) -> u32 {
        let within = match self.count {
            0 => 0,
            count => (done % u64::from(count)) as u32,
        };
        self.first.wrapping_add(within.wrapping_mul(self.blocks))
    }

    #[inline(always)]
    fn after(&self, row: u32) -> u32 {
        match row.checked_add(self.blocks) {
            Some(next) if next < self.rows => next,
            _ => self.first,
        }
    }
}

/// The frames, and how long they are.
struct Frames {
    area: Area,
    lengths: DeviceAddress,
    count: u32,
    stride: u32,
}

impl Frames {
    /// # Safety
    /// *The kernel's promise*.
    #[inline(always)]
    unsafe fn attach(parameters: &SweepParameters) -> Self {
        let region = Region {
            address: parameters.frames,
            length: u64::from(parameters.frame_count) * u64::from(parameters.stride),
            key: 0,
            location: Location::Device,
        };
        Self {
            // SAFETY: the slots, by the promise.
            area: unsafe { Area::attach(region) },
            lengths: parameters.lengths,
            count: parameters.frame_count,
            stride: parameters.stride,
        }
    }

    /// A frame, and its whole slot; `None` if there is none, or it is longer than its slot.
    #[inline(always)]
    fn at(&self, place: u32) -> Option<(Piece<'_>, Piece<'_>)> {
        if place >= self.count {
            return None;
        }
        let address = self.lengths.offset(u64::from(place) * 4);
        // SAFETY: there are as many lengths as frames, by the promise.
        let length = unsafe { memory::load_u32(address) };
        let offset = u64::from(place) * u64::from(self.stride);
        let slot = self.area.piece(offset, self.stride)?;
        Some((slot.resized(length)?, slot))
    }
}

/// What a turn found, a lane.
#[derive(Default)]
struct Tally {
    good: u32,
    bad: u32,
    digest: u32,
}

impl Tally {
    #[inline(always)]
    fn row<S: Simt, W: Work>(&mut self, simt: &S, frames: &Frames, row: u32) {
        let first = row.wrapping_mul(ROW);
        let mut lane = simt.lane();
        while lane < ROW {
            let place = first.wrapping_add(lane);
            lane += S::WIDTH;
            let Some((frame, slot)) = frames.at(place) else {
                continue;
            };
            let (found, good) = W::look(frame, slot);
            self.good += u32::from(good);
            self.bad += u32::from(!good);
            let weight = place.wrapping_mul(2).wrapping_add(1);
            let found = found << 1 | u32::from(good);
            self.digest = self.digest.wrapping_add(found.wrapping_mul(weight));
        }
    }

    /// *Collective.* Writes the turn to memory.
    #[inline(always)]
    fn turn<S: Simt>(&self, simt: &S, counters: SharedCounters) {
        let good = simt.sum(self.good);
        let bad = simt.sum(self.bad);
        let digest = simt.sum(self.digest);
        if simt.is_leader() {
            add(simt, counters, TURNS, 1);
            add(simt, counters, GOOD, u64::from(good));
            add(simt, counters, BAD, u64::from(bad));
            add(simt, counters, DIGEST, u64::from(digest));
        }
    }
}

const ENTRIES: u32 = (size_of::<SweepCounters>() / 8) as u32;
const TURNS: u32 = place(offset_of!(SweepCounters, turns));
const ROWS: u32 = place(offset_of!(SweepCounters, rows));
const IS_DONE: u32 = place(offset_of!(SweepCounters, is_done));
const STARTED: u32 = place(offset_of!(SweepCounters, started_ns));
const ENDED: u32 = place(offset_of!(SweepCounters, ended_ns));
const GOOD: u32 = place(offset_of!(SweepCounters, good));
const BAD: u32 = place(offset_of!(SweepCounters, bad));
const DIGEST: u32 = place(offset_of!(SweepCounters, digest));
