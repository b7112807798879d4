//! Gauges of time: the step of the clock, and the way from publishing to completion. One warp a
//! block; a turn takes one sample.
#![expect(
    unsafe_code,
    reason = "a kernel reads its blocks by the addresses that it is given"
)]

use core::mem::offset_of;

use warpwire_device::{Area, SharedCounters, SharedWord, Simt, Wait, wait_until};
use warpwire_ring::memory::Quad;
use warpwire_ring::{Cause, DeviceAddress, Location, Region};

use super::{place, word};
use crate::block::{Header, Parameters, Steering};
use crate::context::add;
use crate::kernel::{Course, Kernel};
use crate::kernels::count::set;

/// Takes the differences of the clock between two readings that differ.
#[derive(Clone, Copy, Debug)]
pub struct ClockStep;

/// Publishes a descriptor, rings a doorbell, waits for the completion, and takes the time of it.
#[derive(Clone, Copy, Debug)]
pub struct PublishTime;

/// The parameters of both.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct TimingParameters {
    /// The header.
    pub header: Header,
    /// What the kernel obeys.
    pub steering: Steering,
    /// [`TimingPort`]s, one a block.
    pub ports: DeviceAddress,
    /// How many.
    pub port_count: u32,
    /// Written as zero.
    pub reserved: u32,
}

/// One block of a gauge of time.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct TimingPort {
    /// Where samples go, in nanoseconds: 64-bit words.
    pub samples: DeviceAddress,
    /// The block's [`TimingCounters`].
    pub counters: DeviceAddress,
    /// The descriptor, [`DESCRIPTOR_WORDS`] words of 32 bits, a multiple of 16. The step of the
    /// clock needs none, nor the three fields below.
    pub descriptor: DeviceAddress,
    /// The doorbell, a word of 32 bits: the number of the last descriptor, from 1.
    pub doorbell: DeviceAddress,
    /// The completion, a word of 32 bits: the number of the last descriptor that is done with.
    pub completion: DeviceAddress,
    /// How long to wait for a completion.
    pub timeout_ns: u64,
    /// Samples to take.
    pub sample_count: u32,
    /// Written as zero.
    pub reserved: u32,
}

/// What a block counted, and what it goes on from in its next slice. Each word has one writer, the
/// block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(128))]
pub struct TimingCounters {
    /// Turns.
    pub turns: u64,
    /// Samples taken.
    pub taken: u64,
    /// 1 once all samples are taken.
    pub is_done: u64,
    /// Nanoseconds in which cycles were counted.
    pub elapsed_ns: u64,
    /// Cycles in that time.
    pub elapsed_cycles: u64,
}

/// Words of a descriptor. All of them hold its number.
pub const DESCRIPTOR_WORDS: u32 = 16;

/// Readings of a clock that does not move; then the sample is 0.
pub const WINDOW_READS: u32 = 1 << 16;

// SAFETY: repr(C), a header first, made of integers only.
unsafe impl Parameters for TimingParameters {
    const LAYOUT: u64 = {
        use warpwire_ring::layout::fold;
        let block = warpwire_ring::layout_hash!(TimingParameters {
            steering,
            ports,
            port_count
        });
        let port = warpwire_ring::layout_hash!(TimingPort {
            samples,
            counters,
            descriptor,
            doorbell,
            completion,
            timeout_ns,
            sample_count,
        });
        let counters = warpwire_ring::layout_hash!(TimingCounters {
            turns,
            taken,
            is_done,
            elapsed_ns,
            elapsed_cycles,
        });
        fold(fold(block, port as usize), counters as usize)
    };

    #[inline(always)]
    fn steering(&self) -> &Steering {
        &self.steering
    }
}

impl Kernel for ClockStep {
    type Parameters = TimingParameters;

    unsafe fn run<S: Simt>(simt: &S, parameters: &TimingParameters) -> Result<(), Cause> {
        // SAFETY: passed on.
        let mut gauge = unsafe { Gauge::attach(simt, parameters) }?;
        let (first_ns, first_cycles) = (simt.now_ns(), simt.cycles());
        while gauge.goes_on(simt) {
            let sample = match simt.is_leader() {
                true => step(simt),
                false => 0,
            };
            gauge.take(simt, sample);
            simt.give_way();
        }
        if simt.is_leader() {
            let elapsed_ns = simt.now_ns().wrapping_sub(first_ns);
            let elapsed_cycles = simt.cycles().wrapping_sub(first_cycles);
            add(simt, gauge.counters, ELAPSED_NS, elapsed_ns);
            add(simt, gauge.counters, ELAPSED_CYCLES, elapsed_cycles);
        }
        Ok(())
    }
}

/// How far the clock moves when it does; 0 if it does not.
#[inline(always)]
fn step<S: Simt>(simt: &S) -> u64 {
    let first = simt.now_ns();
    let mut reads = 0;
    while reads < WINDOW_READS {
        let step = simt.now_ns().wrapping_sub(first);
        if step != 0 {
            return step;
        }
        reads += 1;
    }
    0
}

impl Kernel for PublishTime {
    type Parameters = TimingParameters;

    unsafe fn run<S: Simt>(simt: &S, parameters: &TimingParameters) -> Result<(), Cause> {
        // SAFETY: passed on.
        let mut gauge = unsafe { Gauge::attach(simt, parameters) }?;
        let port = gauge.port;
        let named = [port.descriptor, port.doorbell, port.completion];
        if named.iter().any(|address| address.is_null()) {
            return Err(Cause::LayoutMismatch);
        }
        let descriptor = Region {
            address: port.descriptor,
            length: u64::from(DESCRIPTOR_WORDS) * 4,
            key: 0,
            location: Location::PinnedHost,
        };
        // SAFETY: the host reads it when the doorbell says that it is whole.
        let descriptor = unsafe { Area::attach(descriptor) };
        // SAFETY: the port's doorbell.
        let doorbell = unsafe { SharedWord::attach(port.doorbell) };
        // SAFETY: the port's completion.
        let completion = unsafe { SharedWord::attach(port.completion) };
        while gauge.goes_on(simt) {
            let number = gauge.taken as u32 + 1;
            let began = simt.now_ns();
            if simt.is_leader() {
                publish(&descriptor, number);
                // pairs with: the host's acquire load of the doorbell.
                doorbell.store(number);
            }
            let mut wait = Wait::within(simt, port.timeout_ns);
            wait.abort = gauge.stop;
            let ended = wait_until(simt, &wait, || {
                // pairs with: the host's release store of the completion.
                let is_done = simt.is_leader() && completion.load() == number;
                simt.any(is_done).then(|| simt.now_ns())
            })?;
            gauge.take(simt, ended.wrapping_sub(began));
            simt.give_way();
        }
        Ok(())
    }
}

/// Writes all words of the descriptor; one lane calls it.
#[inline(always)]
fn publish(descriptor: &Area, number: u32) {
    if let Some(bytes) = descriptor.piece(0, DESCRIPTOR_WORDS * 4) {
        let mut quad = 0;
        while quad < DESCRIPTOR_WORDS / 4 {
            bytes.set_quad(quad, Quad([number; 4]));
            quad += 1;
        }
    }
}

/// What both kernels have: port, counters, samples, and how far they are.
struct Gauge<'a> {
    port: &'a TimingPort,
    counters: SharedCounters,
    samples: SharedCounters,
    stop: Option<SharedWord>,
    course: Course,
    taken: u64,
}

impl<'a> Gauge<'a> {
    /// *Collective.*
    ///
    /// # Safety
    /// *The kernel's promise*.
    #[inline(always)]
    unsafe fn attach<S: Simt>(simt: &S, parameters: &'a TimingParameters) -> Result<Self, Cause> {
        let number = simt.block();
        if number >= parameters.port_count || simt.warps() != 1 || parameters.ports.is_null() {
            return Err(Cause::LayoutMismatch);
        }
        let offset = u64::from(number) * size_of::<TimingPort>() as u64;
        let port = parameters.ports.offset(offset).value() as *const TimingPort;
        // SAFETY: that many ports lie there, and nobody writes them.
        let port = unsafe { &*port };
        // SAFETY: the block's counters.
        let counters = unsafe { SharedCounters::attach(port.counters, ENTRIES) };
        let stop = parameters.steering.stop;
        Ok(Self {
            port,
            counters,
            // SAFETY: the block's samples, as many as are to be taken.
            samples: unsafe { SharedCounters::attach(port.samples, port.sample_count) },
            // SAFETY: the launch's stop word.
            stop: (!stop.is_null()).then(|| unsafe { SharedWord::attach(stop) }),
            // SAFETY: stop word and heartbeats.
            course: unsafe { Course::attach(&parameters.steering, number) },
            taken: word(simt, counters, TAKEN),
        })
    }

    /// *Collective.* Whether another sample is to be taken now.
    #[inline(always)]
    fn goes_on<S: Simt>(&mut self, simt: &S) -> bool {
        self.course.goes_on(simt) && self.taken < u64::from(self.port.sample_count)
    }

    /// Counts a turn and keeps lane 0's sample.
    #[inline(always)]
    fn take<S: Simt>(&mut self, simt: &S, sample: u64) {
        let index = self.taken as u32;
        self.taken += 1;
        if !simt.is_leader() {
            return;
        }
        set(self.samples, index, sample);
        set(self.counters, TAKEN, self.taken);
        add(simt, self.counters, TURNS, 1);
        if self.taken == u64::from(self.port.sample_count) {
            set(self.counters, IS_DONE, 1);
        }
    }
}

const ENTRIES: u32 = (size_of::<TimingCounters>() / 8) as u32;
const TURNS: u32 = place(offset_of!(TimingCounters, turns));
const TAKEN: u32 = place(offset_of!(TimingCounters, taken));
const IS_DONE: u32 = place(offset_of!(TimingCounters, is_done));
const ELAPSED_NS: u32 = place(offset_of!(TimingCounters, elapsed_ns));
const ELAPSED_CYCLES: u32 = place(offset_of!(TimingCounters, elapsed_cycles));
