//! A contiguous piece of memory that is ours to read and write for now.
#![expect(
    unsafe_code,
    reason = "the accesses to frame bytes stand here, under the promise of who lent them"
)]

use core::marker::PhantomData;

use warpwire_ring::memory::{self, Quad};
use warpwire_ring::{DeviceAddress, Segment};

use crate::simt::Simt;

/// Bytes that lie one behind the other: a piece of a received frame, the buffer of a transmit slot,
/// or a part of an [`crate::Area`].
///
/// It is lent: its lifetime ends with the lease or slot it came from. Nobody else touches the bytes
/// until then, except a peer that breaks the rules of its ring; so there is no `&[u8]` over them,
/// only accesses by value. Offsets count bytes from the start of the piece.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    address: DeviceAddress,
    length: u32,
    room: u32,
    lent: PhantomData<&'a ()>,
}

impl<'a> Piece<'a> {
    /// No bytes, nowhere.
    pub const EMPTY: Self = Self {
        address: DeviceAddress::NULL,
        length: 0,
        room: 0,
        lent: PhantomData,
    };

    /// # Safety
    /// `room` bytes from `address` on are live memory for `'a`, the first `length` of them are ours
    /// for that long, and `length <= room`.
    #[inline(always)]
    pub(crate) unsafe fn new(address: DeviceAddress, length: u32, room: u32) -> Self {
        Self {
            address,
            length,
            room,
            lent: PhantomData,
        }
    }

    /// # Safety
    /// The segment comes from a queue whose promise holds, and its slot is ours for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn of(segment: &Segment) -> Self {
        // SAFETY: the queue checked the segment's bounds; a segment at fault has no bytes.
        unsafe { Self::new(segment.address, segment.length, segment.room) }
    }

    /// Where it starts. A number to post, not a right to read.
    #[inline(always)]
    pub const fn address(&self) -> DeviceAddress {
        self.address
    }

    /// Bytes.
    #[inline(always)]
    pub const fn length(&self) -> u32 {
        self.length
    }

    /// Bytes from the start that may be read.
    #[inline(always)]
    pub(crate) const fn room(&self) -> u32 {
        self.room
    }

    /// Whether there are no bytes.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// `length` bytes from `offset` on, if there are that many.
    #[inline(always)]
    pub const fn part(&self, offset: u32, length: u32) -> Option<Self> {
        if !within(self.length, offset, length) {
            return None;
        }
        Some(Self {
            address: self.address.offset(offset as u64),
            length,
            room: self.room - offset,
            lent: PhantomData,
        })
    }

    /// The same start with another length; `None` if the memory behind it has no room.
    #[inline(always)]
    pub const fn resized(&self, length: u32) -> Option<Self> {
        if length > self.room {
            return None;
        }
        Some(Self { length, ..*self })
    }

    /// *Collective.* The piece that lane `source` passed. All lanes pass pieces that are lent for
    /// the same time, such as frames of one batch.
    #[inline(always)]
    pub fn of_lane<S: Simt>(&self, simt: &S, source: u32) -> Self {
        if S::WIDTH == 1 {
            return *self;
        }
        Self {
            address: DeviceAddress::new(simt.shuffle_u64(self.address.value(), source)),
            length: simt.shuffle(self.length, source),
            room: simt.shuffle(self.room, source),
            lent: PhantomData,
        }
    }

    /// The first 64 bytes by four aligned 16-byte loads: word `i` is bytes `4i` to `4i + 3`, the
    /// lowest first. `None` if the start is no multiple of 16, or less than 64 bytes from there may
    /// be read: then the caller takes its slow path over [`Piece::copy_out`].
    ///
    /// What lies behind the piece's length has no meaning; the caller checks lengths.
    #[inline(always)]
    pub fn window(&self) -> Option<[u32; 16]> {
        self.window_with(|_| true)
    }

    /// [`Piece::window`], with the last 16 bytes zeros unless `wants` them of a frame that starts
    /// with the words it is given.
    #[inline(always)]
    pub fn window_with(&self, wants: impl FnOnce(&[u32; 12]) -> bool) -> Option<[u32; 16]> {
        if self.room < 64 || !self.address.is_aligned(16) {
            return None;
        }
        // SAFETY: aligned, and within the readable room of the piece.
        let Quad([a, b, c, d]) = unsafe { memory::load_quad(self.address) };
        // SAFETY: as above.
        let Quad([e, f, g, h]) = unsafe { memory::load_quad(self.address.offset(16)) };
        // SAFETY: as above.
        let Quad([i, j, k, l]) = unsafe { memory::load_quad(self.address.offset(32)) };
        let mut last = Quad([0; 4]);
        if wants(&[a, b, c, d, e, f, g, h, i, j, k, l]) {
            // SAFETY: as above.
            last = unsafe { memory::load_quad(self.address.offset(48)) };
        }
        let Quad([m, n, o, p]) = last;
        Some([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
    }

    /// Aligned 16 bytes, `index` of them from the start; what lies behind the piece's length has no
    /// meaning. `None` if unaligned or not readable.
    #[inline(always)]
    pub fn quad(&self, index: u32) -> Option<Quad> {
        let offset = u64::from(index) * 16;
        if u64::from(self.room) < offset + 16 || !self.address.is_aligned(16) {
            return None;
        }
        // SAFETY: aligned, and within the readable room of the piece.
        Some(unsafe { memory::load_quad(self.address.offset(offset)) })
    }

    /// Stores aligned 16 bytes, `index` of them from the start. Says no, and stores nothing, if
    /// unaligned or not wholly within the length.
    #[inline(always)]
    pub fn set_quad(&self, index: u32, value: Quad) -> bool {
        let offset = u64::from(index) * 16;
        if u64::from(self.length) < offset + 16 || !self.address.is_aligned(16) {
            return false;
        }
        // SAFETY: aligned, and within the piece, which is ours for now.
        unsafe { memory::store_quad(self.address.offset(offset), value) };
        true
    }

    /// The byte at `offset`.
    #[inline(always)]
    pub fn byte(&self, offset: u32) -> Option<u8> {
        let at = self.at(offset, 1)?;
        // SAFETY: within the piece.
        Some(unsafe { memory::load_u8(at) })
    }

    /// The big-endian number in the two bytes at `offset`.
    #[inline(always)]
    pub fn be16(&self, offset: u32) -> Option<u16> {
        let at = self.at(offset, 2)?;
        if at.is_aligned(2) {
            // SAFETY: within the piece, aligned.
            return Some(u16::from_be(unsafe { memory::load_u16(at) }));
        }
        Some(u16::from(self.byte(offset)?) << 8 | u16::from(self.byte(offset + 1)?))
    }

    /// The big-endian number in the four bytes at `offset`.
    #[inline(always)]
    pub fn be32(&self, offset: u32) -> Option<u32> {
        let at = self.at(offset, 4)?;
        if at.is_aligned(4) {
            // SAFETY: within the piece, aligned.
            return Some(u32::from_be(unsafe { memory::load_u32(at) }));
        }
        Some(u32::from(self.be16(offset)?) << 16 | u32::from(self.be16(offset + 2)?))
    }

    /// The whole words from `offset` on, to be taken one behind the other; wherever they start, an
    /// aligned load each.
    #[inline(always)]
    pub fn words(&self, offset: u32) -> Words<'a> {
        let there = self.length.saturating_sub(offset);
        let start = self.address.offset(u64::from(offset));
        let mut words = Words {
            next: DeviceAddress::new(start.value() & !3),
            left: there / 4,
            before: 0,
            shift: (start.value() as u32 & 3) * 8,
            lent: PhantomData,
        };
        if words.shift != 0 && words.left > 0 {
            words.before = words.load();
        }
        words
    }

    /// Stores the byte at `offset`. Says no if there is none.
    #[inline(always)]
    pub fn set_byte(&self, offset: u32, value: u8) -> bool {
        let Some(at) = self.at(offset, 1) else {
            return false;
        };
        // SAFETY: within the piece.
        unsafe { memory::store_u8(at, value) };
        true
    }

    /// Stores a big-endian number in the two bytes at `offset`. Says no, and stores nothing, if
    /// they are not there.
    #[inline(always)]
    pub fn set_be16(&self, offset: u32, value: u16) -> bool {
        let Some(at) = self.at(offset, 2) else {
            return false;
        };
        if at.is_aligned(2) {
            // SAFETY: within the piece, aligned.
            unsafe { memory::store_u16(at, value.to_be()) };
            return true;
        }
        self.set_byte(offset, (value >> 8) as u8) && self.set_byte(offset + 1, value as u8)
    }

    /// Stores a big-endian number in the four bytes at `offset`. Says no, and stores nothing, if
    /// they are not there.
    #[inline(always)]
    pub fn set_be32(&self, offset: u32, value: u32) -> bool {
        let Some(at) = self.at(offset, 4) else {
            return false;
        };
        if at.is_aligned(4) {
            // SAFETY: within the piece, aligned.
            unsafe { memory::store_u32(at, value.to_be()) };
            return true;
        }
        self.set_be16(offset, (value >> 16) as u16) && self.set_be16(offset + 2, value as u16)
    }

    /// Loads big-endian words from `offset` on, wherever they start. Says no, and loads nothing, if
    /// they are not all there.
    #[inline(always)]
    pub fn be_words(&self, offset: u32, into: &mut [u32]) -> bool {
        let Some(at) = self.at(offset, into.len() as u32 * 4) else {
            return false;
        };
        if cfg!(target_arch = "nvptx64") {
            let mut words = self.words(offset);
            for word in into {
                *word = words.take().swap_bytes();
            }
            return true;
        }
        for (word, index) in into.iter_mut().zip(0u64..) {
            let mut bytes = [0; 4];
            // SAFETY: within the piece.
            unsafe { memory::copy_out(at.offset(index * 4), &mut bytes) };
            *word = u32::from_be_bytes(bytes);
        }
        true
    }

    /// Stores big-endian words from `offset` on, wherever they start. Says no, and stores nothing,
    /// if there is no room for all.
    #[inline(always)]
    pub fn set_be_words(&self, offset: u32, words: &[u32]) -> bool {
        let Some(at) = self.at(offset, words.len() as u32 * 4) else {
            return false;
        };
        for (word, index) in words.iter().zip(0u32..) {
            if cfg!(target_arch = "nvptx64") {
                self.set_be32(offset + index * 4, *word);
            } else {
                // SAFETY: within the piece.
                unsafe { memory::copy_in(&word.to_be_bytes(), at.offset(u64::from(index) * 4)) };
            }
        }
        true
    }

    /// Stores eight bytes at the start by one access that releases: what was done before is seen by
    /// whoever acquires the value. Says no, and stores nothing, if they are not there or not
    /// aligned.
    #[inline(always)]
    pub(crate) fn release_word(&self, value: u64) -> bool {
        let at = self.at(0, 8).filter(|at| at.is_aligned(8));
        let Some(at) = at else {
            return false;
        };
        // SAFETY: within the piece, aligned. pairs with: SharedSignal::load.
        unsafe { memory::store_release_u64(at, value) };
        true
    }

    /// Copies bytes from `offset` on into `into`; as many as there are and fit. Returns how many.
    #[inline(always)]
    pub fn copy_out(&self, offset: u32, into: &mut [u8]) -> usize {
        let there = self.length.saturating_sub(offset) as usize;
        let count = there.min(into.len());
        let Some(into) = into.get_mut(..count) else {
            return 0;
        };
        // SAFETY: `count` bytes from `offset` on lie within the piece, which is ours for now.
        unsafe { memory::copy_out(self.address.offset(u64::from(offset)), into) };
        count
    }

    /// Copies `bytes` to `offset`. Says no, and stores nothing, if they do not fit.
    #[inline(always)]
    pub fn copy_in(&self, offset: u32, bytes: &[u8]) -> bool {
        let there = u64::from(self.length.saturating_sub(offset));
        if bytes.len() as u64 > there {
            return false;
        }
        // SAFETY: all bytes lie within the piece, which is ours for now.
        unsafe { memory::copy_in(bytes, self.address.offset(u64::from(offset))) };
        true
    }

    /// Asks for the first bytes to be fetched while other work is done.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        memory::prefetch(self.address);
    }

    /// Copies to the start of `to`, which overlaps nowhere, by this lane alone; as many bytes as
    /// there are and fit. Returns how many.
    #[inline(always)]
    pub fn copy_to(&self, to: &Piece<'_>) -> u32 {
        let count = self.length.min(to.length);
        if cfg!(target_arch = "nvptx64") {
            self.copy_words(to, count, 0, 1);
        } else {
            // SAFETY: `count` bytes lie within both pieces, which are ours for now; different
            // slots and areas do not overlap.
            unsafe { memory::copy(self.address, to.address, count) };
        }
        count
    }

    /// The sum of all words of 32 bits, as little-endian loads give them; bytes that fill no word
    /// count as if zeros followed. By this lane alone.
    #[inline(always)]
    pub fn sum(&self) -> u64 {
        if cfg!(target_arch = "nvptx64") {
            return self.sum_words();
        }
        // SAFETY: within the piece, which is ours for now.
        unsafe { memory::sum(self.address, None, self.length) }
    }

    /// [`Piece::copy_to`], and [`Piece::sum`] of what was copied: the source may change meanwhile.
    #[inline(always)]
    pub fn copy_and_sum(&self, to: &Piece<'_>) -> u64 {
        let count = self.length.min(to.length);
        if cfg!(target_arch = "nvptx64") {
            self.copy_words(to, count, 0, 1);
            return Piece {
                length: count,
                ..*to
            }
            .sum_words();
        }
        // SAFETY: `count` bytes lie within both pieces, which are ours for now; different slots and
        // areas do not overlap.
        unsafe { memory::sum(self.address, Some(to.address), count) }
    }

    #[inline(always)]
    fn sum_words(&self) -> u64 {
        let count = self.length / 4;
        let mut words = self.words(0);
        let mut sum = 0u64;
        for _ in 0..count {
            sum = sum.wrapping_add(u64::from(words.take()));
        }
        let (mut at, mut shift) = (count * 4, 0);
        while let Some(byte) = self.byte(at) {
            sum = sum.wrapping_add(u64::from(byte) << shift);
            at += 1;
            shift += 8;
        }
        sum
    }

    /// Copies `count` bytes, at most the length of both, as lane `lane` of `lanes` lanes that share
    /// the work.
    ///
    /// Where both starts lie alike within 16 bytes, the middle goes 16 bytes a lane. Otherwise each
    /// 16 bytes of the destination are put together from five aligned words of the source, so that
    /// no access is narrower than a word except at the two ends.
    #[inline(always)]
    pub(crate) fn copy_words(&self, to: &Piece<'_>, count: u32, lane: u32, lanes: u32) {
        let count = count.min(self.length).min(to.length);
        // Bytes up to the first multiple of 16 in the destination, and whole quads from there on.
        let before = (to.address.value().wrapping_neg() as u32 & 15).min(count);
        let quads = (count - before) / 16;
        let behind = before + quads * 16;
        let mut i = lane;
        while i < before {
            self.copy_byte(to, i);
            i += lanes;
        }
        let from = self.address.offset(u64::from(before));
        let shift = (from.value() as u32 & 3) * 8;
        let aligned = from.is_aligned(16);
        let mut i = lane;
        while i < quads {
            let offset = u64::from(i) * 16;
            let at = from.offset(offset);
            let value = if aligned {
                // SAFETY: aligned, and within the first `count` bytes.
                unsafe { memory::load_quad(at) }
            } else {
                self.shifted(at, shift)
            };
            // SAFETY: aligned, and within the first `count` bytes of the destination.
            unsafe { memory::store_quad(to.address.offset(u64::from(before) + offset), value) };
            i += lanes;
        }
        let mut i = behind + lane;
        while i < count {
            self.copy_byte(to, i);
            i += lanes;
        }
    }

    /// 16 bytes at `at`, which need not be aligned, from aligned words. Every word that is read has
    /// a byte of the 16, so it lies on a page that the piece lies on.
    #[inline(always)]
    fn shifted(&self, at: DeviceAddress, shift: u32) -> Quad {
        let start = DeviceAddress::new(at.value() & !3);
        let word = |index: u64| {
            // SAFETY: aligned, and at least one of its bytes is within the piece.
            unsafe { memory::load_u32(start.offset(index * 4)) }
        };
        let (a, b, c, d) = (word(0), word(1), word(2), word(3));
        if shift == 0 {
            return Quad([a, b, c, d]);
        }
        let e = word(4);
        let join = |low: u32, high: u32| low >> shift | high << (32 - shift);
        Quad([join(a, b), join(b, c), join(c, d), join(d, e)])
    }

    #[inline(always)]
    fn copy_byte(&self, to: &Piece<'_>, offset: u32) {
        if let Some(byte) = self.byte(offset) {
            to.set_byte(offset, byte);
        }
    }

    #[inline(always)]
    fn at(&self, offset: u32, length: u32) -> Option<DeviceAddress> {
        if within(self.length, offset, length) {
            Some(self.address.offset(u64::from(offset)))
        } else {
            None
        }
    }
}

/// Words of a piece that are taken one behind the other, see [`Piece::words`].
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    next: DeviceAddress,
    /// Words that were not taken yet.
    left: u32,
    /// The aligned word before `next`, of words that are not aligned.
    before: u32,
    /// Bits of it that were taken already.
    shift: u32,
    lent: PhantomData<&'a ()>,
}

impl Words<'_> {
    /// The next word, as a little-endian load gives it; 0 behind the last one.
    #[inline(always)]
    pub fn take(&mut self) -> u32 {
        let Some(left) = self.left.checked_sub(1) else {
            return 0;
        };
        self.left = left;
        let word = self.load();
        if self.shift == 0 {
            return word;
        }
        let joined = self.before >> self.shift | word << (32 - self.shift);
        self.before = word;
        joined
    }

    /// The aligned word at `next`, which has a byte of a word that is left.
    #[inline(always)]
    fn load(&mut self) -> u32 {
        // SAFETY: aligned, and at least one of its bytes is within the piece.
        let word = unsafe { memory::load_u32(self.next) };
        self.next = self.next.offset(4);
        u32::from_le(word)
    }
}

#[inline(always)]
const fn within(total: u32, offset: u32, length: u32) -> bool {
    offset <= total && length <= total - offset
}
