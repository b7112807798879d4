//! The words of a stream, as who uses it reads and writes them; and rings of accepted streams.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that words and rings are live memory"
)]

use core::mem::offset_of;

use warpwire_device::{Area, Simt};
use warpwire_engine::streams::tables::{AcceptBlock, StreamWords};
use warpwire_ring::{DeviceAddress, Location, Region, memory};

use super::table::Name;

/// The words of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words(DeviceAddress);

/// What who uses a stream said last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Own {
    pub(super) written: u32,
    pub(super) consumed: u32,
    pub(super) wishes: u32,
}

/// What the carrier said last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Seen {
    pub(super) flags: u32,
    pub(super) readable: u32,
    pub(super) freed: u32,
}

impl Words {
    /// # Safety
    /// At the address lie live [`StreamWords`], and so do the rings that they name.
    pub(super) const unsafe fn attach(at: DeviceAddress) -> Self {
        Self(at)
    }

    fn at(self, offset: usize) -> DeviceAddress {
        self.0.offset(offset as u64)
    }

    fn load(self, offset: usize) -> u32 {
        // SAFETY: a word of the stream, by the promise.
        unsafe { memory::load_u32(self.at(offset)) }
    }

    fn acquire(self, offset: usize) -> u32 {
        // SAFETY: as above. pairs with: the carrier's release.
        unsafe { memory::load_acquire_u32(self.at(offset)) }
    }

    fn release(self, offset: usize, value: u32) {
        // SAFETY: a word of the line that is ours. pairs with: the carrier's acquire.
        unsafe { memory::store_release_u32(self.at(offset), value) };
    }

    /// Which stream of the place it is.
    pub(super) fn generation(self) -> u32 {
        self.acquire(offset_of!(StreamWords, generation))
    }

    /// What who had the stream before said.
    pub(super) fn own(self) -> Own {
        Own {
            written: self.load(offset_of!(StreamWords, written)),
            consumed: self.load(offset_of!(StreamWords, consumed)),
            wishes: self.load(offset_of!(StreamWords, wishes)),
        }
    }

    /// What the carrier says: flags first, so that the positions behind an end are those that go
    /// with it.
    pub(super) fn seen(self) -> Seen {
        Seen {
            flags: self.acquire(offset_of!(StreamWords, flags)),
            readable: self.acquire(offset_of!(StreamWords, readable)),
            freed: self.acquire(offset_of!(StreamWords, freed)),
        }
    }

    /// Tells the carrier: positions before wishes.
    pub(super) fn tell(self, own: &Own) {
        self.release(offset_of!(StreamWords, written), own.written);
        self.release(offset_of!(StreamWords, consumed), own.consumed);
        self.release(offset_of!(StreamWords, wishes), own.wishes);
    }

    pub(super) fn state(self) -> u32 {
        self.load(offset_of!(StreamWords, state))
    }

    pub(super) fn cause(self) -> u32 {
        self.load(offset_of!(StreamWords, cause))
    }

    /// Where the receive ring lies, once the stream is connected.
    pub(super) fn receive_ring(self) -> Area {
        self.ring(
            offset_of!(StreamWords, receive_ring),
            offset_of!(StreamWords, receive_bytes),
        )
    }

    /// Where the send ring lies, once the stream is connected.
    pub(super) fn send_ring(self) -> Area {
        self.ring(
            offset_of!(StreamWords, send_ring),
            offset_of!(StreamWords, send_bytes),
        )
    }

    fn ring(self, address: usize, bytes: usize) -> Area {
        // SAFETY: a word of the stream, by the promise.
        let address = DeviceAddress::new(unsafe { memory::load_u64(self.at(address)) });
        let bytes = self.load(bytes);
        match bytes.is_power_of_two() && !address.is_null() {
            true => area(address, bytes),
            false => no_ring(),
        }
    }
}

/// A ring without bytes: a stream that is not connected.
pub(super) const fn no_ring() -> Area {
    area(DeviceAddress::NULL, 0)
}

const fn area(address: DeviceAddress, bytes: u32) -> Area {
    let region = Region {
        address,
        length: bytes as u64,
        key: 0,
        location: Location::Device,
    };
    // SAFETY: a ring that the words name, live by their promise, or nothing; positions say which
    // bytes are whose.
    unsafe { Area::attach(region) }
}

/// A ring of names of streams, which one reader has: those that wait to be accepted.
#[derive(Clone, Copy, Debug)]
pub struct Accepts(DeviceAddress);

impl Accepts {
    /// Names a ring; `None` for null and for an address off its alignment.
    ///
    /// # Safety
    /// *The ring's promise*: at an aligned address lies a live [`AcceptBlock`] with its entries,
    /// which nobody else reads.
    pub unsafe fn attach(ring: DeviceAddress) -> Option<Self> {
        let is_there = !ring.is_null() && ring.is_aligned(align_of::<AcceptBlock>() as u64);
        is_there.then_some(Self(ring))
    }

    /// The ring whose address lies at an address.
    ///
    /// # Safety
    /// At `at` lies such a word; and the ring's promise.
    pub(super) unsafe fn of_word(at: DeviceAddress) -> Option<Self> {
        // SAFETY: passed on.
        let ring = DeviceAddress::new(unsafe { memory::load_u64(at) });
        // SAFETY: passed on.
        unsafe { Self::attach(ring) }
    }

    /// *Collective.* Takes the oldest name, if there is one.
    pub fn take<S: Simt>(self, simt: &S) -> Option<Name> {
        let entry = match simt.is_leader() {
            true => self.oldest().unwrap_or(0),
            false => 0,
        };
        let entry = simt.shuffle_u64(entry, 0);
        let generation = (entry >> 32) as u32;
        (generation != 0).then_some(Name {
            place: entry as u32,
            generation,
        })
    }

    /// Takes the oldest entry: generation above place.
    fn oldest(self) -> Option<u64> {
        let at = |offset: usize| self.0.offset(offset as u64);
        // SAFETY: a word of the ring, by the promise.
        let read = unsafe { memory::load_u32(at(offset_of!(AcceptBlock, read))) };
        // SAFETY: as above. pairs with: the carrier's release of an entry.
        let written = unsafe { memory::load_acquire_u32(at(offset_of!(AcceptBlock, written))) };
        if read == written {
            return None;
        }
        // SAFETY: as above.
        let depth = unsafe { memory::load_u32(at(offset_of!(AcceptBlock, depth))) };
        // SAFETY: as above.
        let entries = unsafe { memory::load_u64(at(offset_of!(AcceptBlock, entries))) };
        let slot = u64::from(read & depth.wrapping_sub(1));
        // SAFETY: an entry of the ring that was written.
        let entry = unsafe { memory::load_u64(DeviceAddress::new(entries).offset(slot * 8)) };
        let read = read.wrapping_add(1);
        // SAFETY: the reader's word. pairs with: the carrier's acquire before it writes there.
        unsafe { memory::store_release_u32(at(offset_of!(AcceptBlock, read)), read) };
        Some(entry)
    }
}
