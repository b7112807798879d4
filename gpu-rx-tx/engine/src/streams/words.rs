//! The words of a stream: what the application wants, and what it is told.
#![expect(
    unsafe_code,
    reason = "reads and writes words by the addresses that the host gave"
)]

use core::mem::offset_of;

use warpwire_protocols::tcp::{Statistics, Tuple};
use warpwire_ring::{DeviceAddress, memory};

use super::tables::{Figures, StreamWords};
use crate::tables::Path;

/// The words of a place, for who carries its stream. By one lane at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words(DeviceAddress);

/// What the application stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// [`StreamWords::written`].
    pub written: u32,
    /// [`StreamWords::consumed`].
    pub consumed: u32,
    /// [`StreamWords::wishes`].
    pub wishes: u32,
}

impl Words {
    /// Names the words of a place.
    ///
    /// # Safety
    /// At the address lie live [`StreamWords`] for as long as the value is used; nobody else writes
    /// the line that is not the application's.
    pub const unsafe fn attach(at: DeviceAddress) -> Self {
        Self(at)
    }

    fn at(self, offset: usize) -> DeviceAddress {
        self.0.offset(offset as u64)
    }

    fn store(self, offset: usize, value: u32) {
        // SAFETY: a word of the line that the engine writes.
        unsafe { memory::store_u32(self.at(offset), value) };
    }

    fn release(self, offset: usize, value: u32) {
        // SAFETY: a word of the line that the engine writes. pairs with: the application's acquire.
        unsafe { memory::store_release_u32(self.at(offset), value) };
    }

    fn acquire(self, offset: usize) -> u32 {
        // SAFETY: a word of the application's. pairs with: its release.
        unsafe { memory::load_acquire_u32(self.at(offset)) }
    }

    /// A connection begins here: nobody else looks at the place now.
    pub fn begin(self, tuple: &Tuple, generation: u32) {
        for offset in (0..size_of::<StreamWords>()).step_by(4) {
            self.store(offset, 0);
        }
        let at = self.at(offset_of!(StreamWords, tuple)).value() as *mut Tuple;
        // SAFETY: words of the engine's line, which nobody looks at before there is a generation.
        unsafe { at.write(*tuple) };
        self.generation(generation);
    }

    /// Tells which connection this is, after everything else that its application will look at.
    pub fn generation(self, generation: u32) {
        self.release(offset_of!(StreamWords, generation), generation);
    }

    /// The place has no connection any more.
    pub fn end(self) {
        self.release(offset_of!(StreamWords, generation), 0);
    }

    /// What the application wants. Wishes are read first: positions that it stored before a wish
    /// are those that go with it.
    pub fn wanted(self) -> Wanted {
        let wishes = self.acquire(offset_of!(StreamWords, wishes));
        Wanted {
            wishes,
            written: self.acquire(offset_of!(StreamWords, written)),
            consumed: self.acquire(offset_of!(StreamWords, consumed)),
        }
    }

    /// Tells where the rings lie.
    pub fn rings(self, receive: (DeviceAddress, u32), send: (DeviceAddress, u32)) {
        let rings = [
            (offset_of!(StreamWords, receive_ring), receive.0),
            (offset_of!(StreamWords, send_ring), send.0),
        ];
        for (offset, address) in rings {
            // SAFETY: a word of the engine's line.
            unsafe { memory::store_u64(self.at(offset), address.value()) };
        }
        self.store(offset_of!(StreamWords, receive_bytes), receive.1);
        self.store(offset_of!(StreamWords, send_bytes), send.1);
    }

    /// Tells how far bytes came.
    pub fn readable(self, position: u32) {
        self.release(offset_of!(StreamWords, readable), position);
    }

    /// Tells how far bytes were acknowledged.
    pub fn freed(self, position: u32) {
        self.release(offset_of!(StreamWords, freed), position);
    }

    /// Tells state, cause and flags, flags last.
    pub fn flags(self, state: u32, cause: u32, flags: u32) {
        self.store(offset_of!(StreamWords, cause), cause);
        self.store(offset_of!(StreamWords, state), state);
        self.release(offset_of!(StreamWords, flags), flags);
    }

    /// Tells how the queue pair beneath failed; before the flags that say that the stream is over.
    pub fn beneath(self, cause: u32) {
        self.store(offset_of!(StreamWords, beneath), cause);
    }

    /// Tells figures.
    pub fn figures(self, statistics: &Statistics) {
        let figure = |offset, value| self.store(offset_of!(StreamWords, figures) + offset, value);
        let us = |ns: u64| (ns / 1000).min(u64::from(u32::MAX)) as u32;
        figure(offset_of!(Figures, srtt_us), us(statistics.srtt_ns));
        figure(offset_of!(Figures, rttvar_us), us(statistics.rttvar_ns));
        figure(offset_of!(Figures, cwnd), statistics.cwnd);
        figure(offset_of!(Figures, ssthresh), statistics.ssthresh);
        figure(offset_of!(Figures, in_flight), statistics.in_flight);
        figure(offset_of!(Figures, retransmits), statistics.retransmits);
        figure(offset_of!(Figures, timeouts), statistics.timeouts);
        figure(offset_of!(Figures, recoveries), statistics.recoveries);
        figure(offset_of!(Figures, out_of_order), statistics.out_of_order);
        figure(offset_of!(Figures, reordered), statistics.reordered);
    }
}

/// Both ends, as the protocol names them.
pub(super) fn tuple(path: &Path, remote_port: u16) -> Tuple {
    Tuple {
        local: sixteen(&path.local, path.ip_version),
        remote: sixteen(&path.remote, path.ip_version),
        local_port: path.source_port,
        remote_port,
    }
}

fn sixteen(words: &[u32; 4], ip_version: u8) -> [u8; 16] {
    let [a, b, c, d] = *words;
    let words = match ip_version {
        4 => [0, 0, 0xffff, a],
        _ => [a, b, c, d],
    };
    let whole = words
        .iter()
        .fold(0u128, |whole, word| whole << 32 | u128::from(*word));
    whole.to_be_bytes()
}
