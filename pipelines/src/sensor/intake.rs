//! Records out of streams: the kernel `gather_streams`, beside whatever carries the streams.
#![expect(
    unsafe_code,
    reason = "a launch carries the promise that its parameters are laid out right"
)]

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::kernels::{GatherParameters, entries};
use warpwire_core::sensor::{IntakeBlock, IntakeCounters};
use warpwire_core::streaming::TableBlock;
use warpwire_gpu::executor::{Control, Grid, Launch, Parameters, Placement};
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_protocols::stream::framing::Framing;
use warpwire_ring::{Cause, DeviceAddress, Location};

use super::error::Error;
use super::gathering::Gathering;
use crate::streaming::StreamEndpoint;

/// A kernel that gathers the records of the streams that an endpoint's listeners accept. While it
/// runs, nobody else accepts there. Dropped, it is stopped.
///
/// A stream may be behind another: what of it the window has passed is dropped as late, and only
/// after 1 MiB of late records without one in time the sensor is believed to count anew (out of
/// datagrams, after 64 records).
pub struct Intake<'e> {
    endpoint: &'e StreamEndpoint,
    launch: Launch,
    gathering: Gathering,
    arena: Arc<Arena>,
    counters: DeviceAddress,
    /// A word for each place: which stream there is read.
    seats: DeviceAddress,
    places: u32,
}

impl<'e> Intake<'e> {
    /// Starts the kernel on an executor. `framing` says how records stand in a stream. Who carries
    /// the streams is stepped as ever.
    ///
    /// # Errors
    /// [`Error::Queues`] if the endpoint has several blocks; [`Error::Memory`]; an executor that
    /// refuses.
    pub fn start(
        (executor, placement): (&CpuExecutor, Placement),
        endpoint: &'e StreamEndpoint,
        gathering: Gathering,
        framing: Framing,
    ) -> Result<Self, Error> {
        let blocks = (0..).take_while(|block| endpoint.table(*block).is_some());
        let queues = blocks.count();
        let Some((table, [words, rings])) = endpoint.table(0).filter(|_| queues == 1) else {
            return Err(Error::Queues { queues });
        };
        let count = table.offset(offset_of!(TableBlock, place_count) as u64);
        let places = words.half_word(count)?.load(Ordering::Relaxed);
        let bytes = places as usize * 4 + OTHER_BYTES;
        let arena = Arc::new(Arena::new(bytes, Location::PinnedHost)?);
        let seats = arena.allocate(u64::from(places) * 4, 128)?.address;
        let counters = arena.place(IntakeCounters::default())?.address;
        gathering.tensors().expect_streams()?;
        let block = IntakeBlock {
            table,
            sensor: gathering.tensors().address(),
            seats,
            counters,
            framing,
            share: SHARE,
            most: MOST,
        };
        let control = Control::allocate(&arena, 1)?;
        let parameters = GatherParameters {
            header: GatherParameters::HEADER,
            steering: Steering {
                stop: control.stop_address(),
                heartbeats: DeviceAddress::NULL,
                turns: 0,
            },
            blocks: arena.place(block)?.address,
            block_count: 1,
            reserved: 0,
        };
        let at = arena.place(parameters)?.address;
        let sensor = gathering.tensors().memory();
        let memory = vec![Arc::clone(&arena), Arc::clone(sensor), words, rings];
        // SAFETY: such parameters lie there; the block's table is the endpoint's, whose streams the
        // host leaves alone as long as this lives; the tensors are of this kernel alone.
        let parameters = unsafe { Parameters::new(at, GatherParameters::LAYOUT, memory) };
        let [row] = entries::gatherers() else {
            return Err(Error::Ended {
                cause: Cause::LayoutMismatch,
            });
        };
        let parameters = parameters.control(control);
        let launch = executor.launch_on(row, Grid::ONE, parameters, placement)?;
        Ok(Self {
            endpoint,
            launch,
            gathering,
            arena,
            counters,
            seats,
            places,
        })
    }

    /// The sensor.
    pub const fn gathering(&mut self) -> &mut Gathering {
        &mut self.gathering
    }

    /// What was counted of the streams so far.
    pub fn counters(&self) -> IntakeCounters {
        counters(&self.arena, self.counters)
    }

    /// Whether the kernel ended by itself: [`Intake::finish`] says why.
    pub fn is_finished(&self) -> bool {
        self.launch.is_finished()
    }

    /// Ends the kernel, gives up the streams that are not over, and settles what came.
    ///
    /// # Errors
    /// [`Error::Ended`] if the kernel ended by itself; [`Error::Executor`] if it does not end.
    pub fn finish(mut self) -> Result<(Gathering, IntakeCounters), Error> {
        let is_early = self.launch.is_finished();
        self.launch.stop();
        let report = self.launch.join(END)?;
        if let Some(cause) = report.cause().filter(|_| is_early) {
            return Err(Error::Ended { cause });
        }
        // SAFETY: the kernel ended, and no other has these tensors.
        unsafe { self.gathering.settle() };
        let counters = counters(&self.arena, self.counters);
        for place in 0..self.places {
            let seat = self
                .arena
                .half_word(self.seats.offset(u64::from(place) * 4));
            match seat?.load(Ordering::Relaxed) {
                0 => {}
                generation => self.endpoint.take_over(place, generation)?.abort()?,
            }
        }
        Ok((self.gathering, counters))
    }
}

/// What was counted at a place of an arena.
fn counters(arena: &Arena, at: DeviceAddress) -> IntakeCounters {
    let count = |offset: usize| {
        let word = arena.word(at.offset(offset as u64));
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    };
    IntakeCounters {
        accepted: count(offset_of!(IntakeCounters, accepted)),
        ended: count(offset_of!(IntakeCounters, ended)),
        broken: count(offset_of!(IntakeCounters, broken)),
        unframed: count(offset_of!(IntakeCounters, unframed)),
        records: count(offset_of!(IntakeCounters, records)),
        bytes: count(offset_of!(IntakeCounters, bytes)),
        held: count(offset_of!(IntakeCounters, held)),
    }
}

/// Records that a stream is read for in a turn.
const SHARE: u32 = 64;
/// Streams that are looked at in a turn.
const MOST: u32 = 64;
/// Room for blocks and words.
const OTHER_BYTES: usize = 8192;
/// How long the kernel may take to end.
const END: Duration = Duration::from_secs(5);
