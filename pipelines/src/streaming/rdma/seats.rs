//! What all threads of an endpoint over messages share: its ground, and who has which place.
#![expect(
    unsafe_code,
    reason = "writes what a stream begins with into its seat, which the host alone has then"
)]

use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use warpwire_core::carrier::tables::{CarrierBlock, Opening, Report, SeatBlock, Standing};
use warpwire_core::messaging::Remote;
use warpwire_gpu::Arena;
use warpwire_protocols::rdma::Access;
use warpwire_protocols::stream::credits::Terms;
use warpwire_protocols::tcp::Tuple;
use warpwire_ring::{DeviceAddress, Location};

use super::settings::RdmaConfig;
use super::{Ground, RingMemory};
use crate::connect::cm::chance;
use crate::messaging::{MemoryRegion, Pair, PairConfig};
use crate::streaming::endpoint::{full, lock};
use crate::streaming::error::Error;
use crate::streaming::places::Places;

/// See the module's text.
pub(super) struct Core {
    pub(super) ground: Mutex<Box<dyn Ground>>,
    pub(super) config: RdmaConfig,
    pub(super) places: Places,
    /// The [`CarrierBlock`].
    pub(super) block: DeviceAddress,
    /// The [`SeatBlock`]s.
    seats: DeviceAddress,
    /// The rings of each place: those that are sent from, and those that are received into.
    pub(super) rings: Vec<[MemoryRegion; 2]>,
    seated: Mutex<Vec<Seated>>,
}

/// A place, as the host has it.
enum Seated {
    Free {
        /// The stream that was there last.
        number: u32,
    },
    /// Two ends are about to agree.
    Taken { number: u32 },
    /// The carrier has it.
    Lent { number: u32, pair: Box<Pair> },
    /// The engine did not give the queue pair back.
    Lost,
}

/// What a stream begins with, as two ends agreed on it.
pub(super) struct Agreed {
    pub(super) remote: Remote,
    pub(super) terms: Terms,
    pub(super) tuple: Tuple,
}

impl Core {
    pub(super) fn new(
        ground: Box<dyn Ground>,
        memory: &RingMemory,
        config: &RdmaConfig,
    ) -> Result<Self, Error> {
        let count = config.connections;
        let accepts = count.next_power_of_two();
        let bytes = Places::size(count, config.listeners, accepts)
            + count as usize * size_of::<SeatBlock>()
            + 8192;
        let arena = Arc::new(Arena::new(bytes, Location::PinnedHost)?);
        let chunks = memory.arena();
        // As many may wait to be accepted as there are places: nobody finds the ring full.
        let places = Places::lay_out(&arena, chunks, (count, config.listeners, accepts))?;
        let seats = arena.allocate(u64::from(count) * size_of::<SeatBlock>() as u64, 128)?;
        let [asked, told] = places.bitmaps;
        let block = CarrierBlock {
            header: CarrierBlock::HEADER,
            seats: seats.address,
            words: places.words,
            asked,
            told,
            accepts: places.accept_block(0),
            counters: places.counters,
            standing: arena.place(Standing::default())?.address,
            place_count: count,
            listener_count: config.listeners,
            share: config.share,
            reserved: 0,
        };
        let mut rings = Vec::new();
        for place in 0..count {
            // A domain each: the key of a place is of no use to the peers of others.
            let ring = |access| {
                let bytes = u64::from(config.ring_bytes);
                let at = chunks.allocate(bytes, 128)?.address;
                let (domain, chance) = (place + 1, chance());
                let endpoint = ground.endpoint();
                Ok::<_, Error>(endpoint.register_in(domain, (at, bytes), access, chance)?)
            };
            rings.push([ring(Access::NONE)?, ring(Access::REMOTE_WRITE)?]);
        }
        let free = || Seated::Free { number: 0 };
        Ok(Self {
            ground: Mutex::new(ground),
            config: config.clone(),
            block: arena.place(block)?.address,
            seats: seats.address,
            seated: Mutex::new((0..count).map(|_| free()).collect()),
            rings,
            places,
        })
    }

    /// A queue pair, and a place for its stream.
    pub(super) fn take(&self) -> Result<(u32, Pair), Error> {
        let mut seated = lock(&self.seated);
        let mut free = None;
        for (seat, place) in seated.iter_mut().zip(0..) {
            self.reclaim(place, seat)?;
            if let Seated::Free { number } = seat {
                let number = *number;
                free = Some(place);
                *seat = Seated::Taken { number };
                break;
            }
        }
        drop(seated);
        let place = free.ok_or_else(|| full("a connection", "connections"))?;
        let pair = lock(&self.ground).endpoint().pair(PairConfig::default());
        let pair = pair.inspect_err(|_| self.put_back(place, true))?;
        Ok((place, pair))
    }

    /// Takes a place back whose stream is over.
    fn reclaim(&self, place: u32, seat: &mut Seated) -> Result<(), Error> {
        let (number, is_vacated) = match seat {
            Seated::Lent { number, .. } => (*number, self.vacated(place)? == *number),
            _ => return Ok(()),
        };
        if !is_vacated {
            return Ok(());
        }
        if let Seated::Lent { mut pair, .. } = std::mem::replace(seat, Seated::Lost) {
            pair.take_back();
            // Nothing comes for it any more once this is done; or it is lost, and its rings too.
            if pair.close().is_ok() {
                *seat = Seated::Free { number };
            }
        }
        Ok(())
    }

    /// Two ends did not agree.
    pub(super) fn give_back(&self, place: u32, pair: Pair) {
        let is_closed = pair.close().is_ok();
        self.put_back(place, is_closed);
    }

    fn put_back(&self, place: u32, is_whole: bool) {
        if let Some(seat) = lock(&self.seated).get_mut(place as usize)
            && let Seated::Taken { number } = *seat
        {
            *seat = match is_whole {
                true => Seated::Free { number },
                false => Seated::Lost,
            };
        }
    }

    /// Has the carrier begin a stream, unless its listener has ended. Returns its number.
    pub(super) fn begin(
        &self,
        place: u32,
        mut pair: Pair,
        agreed: &Agreed,
        (listener, stop): (u32, &AtomicBool),
    ) -> Result<Option<u32>, Error> {
        let mut seated = lock(&self.seated);
        let seat = seated.get_mut(place as usize);
        let (Some(seat), Some([send, receive])) = (seat, self.rings.get(place as usize)) else {
            return Ok(None);
        };
        if stop.load(Ordering::Relaxed) {
            drop(seated);
            self.give_back(place, pair);
            return Ok(None);
        }
        let number = match seat {
            Seated::Taken { number } => number.wrapping_add(1).max(1),
            _ => return Ok(None),
        };
        let nanoseconds =
            |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let opening = Opening {
            number: self.word(place, NUMBER)?.load(Ordering::Relaxed),
            listener,
            channel: pair.lend()?,
            send: send.gather(0, self.config.ring_bytes),
            receive: receive.gather(0, self.config.ring_bytes),
            remote: agreed.remote,
            terms: agreed.terms,
            tuple: agreed.tuple,
            orphan_ns: nanoseconds(self.config.orphan),
            linger_ns: nanoseconds(self.config.linger),
        };
        let at = self.seat(place).value() as *mut Opening;
        // SAFETY: the seat lies in the arena, as its first word does; the carrier looks at nothing
        // but that before the store below.
        unsafe { at.write(opening) };
        // pairs with: the carrier's acquire.
        self.word(place, NUMBER)?.store(number, Ordering::Release);
        self.places.asked.set(place);
        let pair = Box::new(pair);
        *seat = Seated::Lent { number, pair };
        Ok(Some(number))
    }

    /// The number of the last stream of a place that is over and given back.
    pub(super) fn vacated(&self, place: u32) -> Result<u32, Error> {
        // pairs with: the carrier's release after it touched the place for the last time.
        Ok(self.word(place, VACATED)?.load(Ordering::Acquire))
    }

    fn seat(&self, place: u32) -> DeviceAddress {
        let offset = u64::from(place) * size_of::<SeatBlock>() as u64;
        self.seats.offset(offset)
    }

    fn word(&self, place: u32, offset: usize) -> Result<&std::sync::atomic::AtomicU32, Error> {
        let at = self.seat(place).offset(offset as u64);
        Ok(self.places.arena.half_word(at)?)
    }

    /// No listener whose flag this is begins a stream after this.
    pub(super) fn stop(&self, flag: &AtomicBool) {
        let _seated = lock(&self.seated);
        flag.store(true, Ordering::Relaxed);
    }
}

const NUMBER: usize = offset_of!(SeatBlock, opening) + offset_of!(Opening, number);
const VACATED: usize = offset_of!(SeatBlock, report) + offset_of!(Report, vacated);
