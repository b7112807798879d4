//! The tables of a carrier, as its lanes reach them.
#![expect(
    unsafe_code,
    reason = "reads and writes tables by the addresses that the host gave"
)]

use core::mem::offset_of;

use warpwire_engine::streams::Words;
use warpwire_engine::streams::tables::{AcceptBlock, StreamWords};
use warpwire_ring::{DeviceAddress, memory};

use super::tables::{CarrierBlock, Opening, Report, SeatBlock, SeatState, Standing};

/// The seats of a block. Each is touched by one lane at a time.
#[derive(Clone, Copy)]
pub(super) struct Seats<'a> {
    block: &'a CarrierBlock,
}

impl<'a> Seats<'a> {
    /// # Safety
    /// *The carrier's promise*, see [`super::StreamCarrier::attach`].
    pub(super) const unsafe fn attach(block: &'a CarrierBlock) -> Self {
        Self { block }
    }

    fn at(&self, place: u32) -> Option<DeviceAddress> {
        let offset = u64::from(place) * size_of::<SeatBlock>() as u64;
        (place < self.block.place_count).then(|| self.block.seats.offset(offset))
    }

    /// The number of the stream that the host wants to begin, if no stream is there and that one
    /// did not begin yet. What the host wrote before is seen after.
    pub(super) fn ordered(&self, place: u32) -> Option<u32> {
        let at = self.at(place)?;
        // SAFETY: a word of the seat, by the promise. pairs with: the host's release.
        let wanted = unsafe { memory::load_acquire_u32(at) };
        // SAFETY: words of the seat that the carrier alone writes.
        let number = unsafe { memory::load_u32(at.offset(NUMBER)) };
        // SAFETY: as above.
        let begun = unsafe { memory::load_u32(at.offset(BEGUN)) };
        (wanted != 0 && number == 0 && wanted != begun).then_some(wanted)
    }

    /// What the host wrote for the stream of a place.
    pub(super) fn opening(&self, place: u32) -> Option<&'a Opening> {
        let at = self.at(place)?;
        // SAFETY: within the table; the host leaves it alone until the place is vacated.
        Some(unsafe { &*(at.value() as *const Opening) })
    }

    /// Where the stream of a place stands, if there is one.
    pub(super) fn state(&self, place: u32) -> Option<&'a mut SeatState> {
        let at = self.at(place)?;
        // SAFETY: a word of the seat that the carrier alone writes.
        if unsafe { memory::load_u32(at.offset(NUMBER)) } == 0 {
            return None;
        }
        let at = at.offset(STATE).value() as *mut SeatState;
        // SAFETY: within the table, and written when the stream began; one reference at a time, by
        // the lane that visits the seat.
        Some(unsafe { &mut *at })
    }

    /// A stream begins.
    pub(super) fn begin(&self, place: u32, state: SeatState) {
        if let Some(at) = self.at(place) {
            let at = at.offset(STATE).value() as *mut SeatState;
            // SAFETY: within the table; no stream is there.
            unsafe { at.write(state) };
        }
    }

    /// Nobody touches anything of a stream any more.
    pub(super) fn vacate(&self, place: u32, number: u32) {
        let Some(at) = self.at(place) else {
            return;
        };
        // SAFETY: words of the seat that the carrier alone writes.
        unsafe { memory::store_u32(at.offset(NUMBER), 0) };
        // SAFETY: as above.
        unsafe { memory::store_u32(at.offset(BEGUN), number) };
        self.words(place).end();
        // SAFETY: as above. pairs with: the host's acquire before it uses the place again.
        unsafe { memory::store_release_u32(at.offset(VACATED), number) };
    }

    /// The words of a place, which there is.
    pub(super) fn words(&self, place: u32) -> Words {
        let offset = u64::from(place) * size_of::<StreamWords>() as u64;
        // SAFETY: within the table, by the promise.
        unsafe { Words::attach(self.block.words.offset(offset)) }
    }

    /// Tells a listener of a stream. By one lane at a time. Says whether there was room.
    pub(super) fn accept(&self, listener: u32, place: u32, number: u32) -> bool {
        if listener >= self.block.listener_count {
            return false;
        }
        let offset = u64::from(listener) * size_of::<AcceptBlock>() as u64;
        let at = self.block.accepts.offset(offset);
        let field = |offset: usize| at.offset(offset as u64);
        // SAFETY: words of the listener's ring, by the promise; the carrier alone writes this one.
        let written = unsafe { memory::load_u32(field(offset_of!(AcceptBlock, written))) };
        // SAFETY: as above. pairs with: the reader's release.
        let read = unsafe { memory::load_acquire_u32(field(offset_of!(AcceptBlock, read))) };
        // SAFETY: as above; nobody changes it.
        let depth = unsafe { memory::load_u32(field(offset_of!(AcceptBlock, depth))) };
        if written.wrapping_sub(read) >= depth {
            return false;
        }
        // SAFETY: as above; nobody changes it.
        let entries = unsafe { memory::load_u64(field(offset_of!(AcceptBlock, entries))) };
        let slot = u64::from(written & depth.wrapping_sub(1));
        let entry = u64::from(number) << 32 | u64::from(place);
        let at = DeviceAddress::new(entries).offset(slot * 8);
        // SAFETY: a slot of the ring that the reader is done with.
        unsafe { memory::store_u64(at, entry) };
        let at = field(offset_of!(AcceptBlock, written));
        // SAFETY: the carrier's word. pairs with: the reader's acquire.
        unsafe { memory::store_release_u32(at, written.wrapping_add(1)) };
        true
    }

    /// Where the carrier stood.
    pub(super) fn standing(&self) -> Standing {
        // SAFETY: the block's, by the promise; this warp alone has it.
        unsafe { *(self.block.standing.value() as *const Standing) }
    }

    /// Leaves where it stands. By the leader.
    pub(super) fn leave(&self, standing: Standing) {
        let at = self.block.standing.value() as *mut Standing;
        // SAFETY: as above.
        unsafe { at.write(standing) };
    }
}

const STATE: u64 = offset_of!(SeatBlock, state) as u64;
const NUMBER: u64 = STATE + offset_of!(SeatState, number) as u64;
const BEGUN: u64 = STATE + offset_of!(SeatState, begun) as u64;
const VACATED: u64 = (offset_of!(SeatBlock, report) + offset_of!(Report, vacated)) as u64;

const _: () = assert!(offset_of!(SeatBlock, opening) == 0);
const _: () = assert!(offset_of!(Opening, number) == 0);
