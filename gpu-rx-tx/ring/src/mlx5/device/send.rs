//! The device half of a send queue.

use super::{Fault, Piece};
use crate::address::DeviceAddress;
use crate::device_memory::{DeviceMemory, Place};
use crate::mlx5::layout::{
    self, ControlSegment, DataSegment, Doorbell, EthernetSegment, INLINE, Opcode,
};
use crate::mlx5::widen_u16;

/// Fetches WQEs after doorbells.
#[derive(Clone, Debug)]
pub struct SendQueue {
    ring: Place,
    record: Place,
    doorbell: Place,
    number: u32,
    log_depth: u32,
    next: u64,
    end: u64,
    seen: u64,
}

/// A work queue entry's head: what the first basic block says.
#[derive(Clone, Copy, Debug)]
pub struct Wqe {
    /// Its index.
    pub index: u64,
    /// The operation.
    pub opcode: Opcode,
    /// Segments, control segment included.
    pub segments: u32,
    /// Whether it completes in any case.
    pub signal: bool,
    /// [`layout::CHECKSUM_L3`] and [`layout::CHECKSUM_L4`]; 0 unless it is a send.
    pub checksum_flags: u8,
    inline_header: u16,
    words: [u64; 8],
}

impl Wqe {
    /// Basic blocks that it takes.
    #[inline(always)]
    pub fn blocks(&self) -> u32 {
        layout::wqebbs(self.segments)
    }

    /// The piece of a send that has nothing but one data segment: the usual case, without a loop.
    #[inline(always)]
    pub fn only_piece(&self) -> Option<Piece> {
        if self.segments != 3 || self.inline_header != 0 {
            return None;
        }
        let [.., first, second, _, _] = self.words;
        piece(zerocopy::transmute!([first, second]))
    }
}

/// Where the walk over a WQE's pieces stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    at: u32,
    inline_left: u32,
    inline_at: u32,
}

impl SendQueue {
    /// A queue of 2^`log_depth` basic blocks.
    pub fn new(ring: Place, record: Place, doorbell: Place, number: u32, log_depth: u32) -> Self {
        Self {
            ring,
            record,
            doorbell,
            number,
            log_depth: log_depth.min(15),
            next: 0,
            end: 0,
            seen: 0,
        }
    }

    /// Like [`Self::new`], at index `at`: as if that many basic blocks had come and gone.
    pub fn at(mut self, at: u64) -> Self {
        (self.next, self.end) = (at, at);
        self
    }

    /// Number of the queue.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The basic block that is fetched next.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Basic blocks that were rung for and not fetched.
    #[inline(always)]
    pub fn pending(&self) -> u32 {
        (self.end - self.next) as u32
    }

    /// Looks at the doorbell; returns its content if it was rung since the last look. The caller
    /// hands it to [`Self::accept`], unless it plays a NIC that lost it.
    ///
    /// # Errors
    /// [`Fault::Denied`] if the doorbell is out of reach.
    #[inline(always)]
    pub fn rung<M: DeviceMemory>(&mut self, memory: &M) -> Result<Option<Doorbell>, Fault> {
        // pairs with: before_doorbell in the driver.
        let word = memory.load_u64(self.doorbell)?;
        if word == self.seen {
            return Ok(None);
        }
        self.seen = word;
        Ok(Some(Doorbell::from_word(word)))
    }

    /// Takes a doorbell: blocks up to its index are pending, as far as the record says the same.
    ///
    /// # Errors [`Fault::Wqe`] if the doorbell is another queue's, [`Fault::Index`] if it or the
    /// record is impossible (a record behind its doorbell, or more blocks than the queue has),
    /// [`Fault::Denied`] if the record is out of reach.
    pub fn accept<M: DeviceMemory>(&mut self, memory: &M, doorbell: Doorbell) -> Result<(), Fault> {
        if doorbell.number() != self.number {
            return Err(Fault::Wqe);
        }
        // pairs with: before_publish in the driver.
        let word = memory.load_u32(self.record.offset(layout::RECORD_SEND))?;
        let recorded = widen_u16(self.next, u32::from_be(word) as u16);
        let end = widen_u16(self.next, doorbell.end());
        if recorded - self.next > 1 << self.log_depth || end > recorded {
            return Err(Fault::Index);
        }
        self.end = self.end.max(end);
        Ok(())
    }

    /// Hints that up to `most` pending blocks are fetched soon, so that their lines come together.
    #[inline(always)]
    pub fn prefetch<M: DeviceMemory>(&self, memory: &M, most: u32) {
        for offset in 0..u64::from(self.pending().min(most)) {
            memory.prefetch(self.block(self.next + offset));
        }
    }

    #[inline(always)]
    fn block(&self, index: u64) -> Place {
        let slot = index & ((1 << self.log_depth) - 1);
        self.ring.offset(slot * layout::WQEBB_BYTES)
    }

    /// Reads the next WQE; there is one if `pending` is not 0.
    ///
    /// # Errors [`Fault::Wqe`] if its head contradicts itself or the queue, [`Fault::Denied`] if
    /// the ring is out of reach.
    #[inline(always)]
    pub fn fetch<M: DeviceMemory>(&self, memory: &M) -> Result<Wqe, Fault> {
        let mut bytes = [0; 64];
        memory.read(self.block(self.next), &mut bytes)?;
        // Whole words: they stay in registers, and are stored for the slow path alone.
        let words: [u64; 8] = zerocopy::transmute!(bytes);
        let [first, second, third, fourth, ..] = words;
        let control: ControlSegment = zerocopy::transmute!([first, second]);
        let (segments, opcode) = (control.segments(), control.opcode());
        let fits = segments >= 1 && layout::wqebbs(segments) <= self.pending();
        let ours = control.number() == self.number && control.index() == self.next as u16;
        if !fits || !ours {
            return Err(Fault::Wqe);
        }
        let mut wqe = Wqe {
            index: self.next,
            opcode,
            segments,
            signal: control.signal(),
            checksum_flags: 0,
            inline_header: 0,
            words,
        };
        if opcode == Opcode::SEND && segments >= 2 {
            let ethernet: EthernetSegment = zerocopy::transmute!([third, fourth]);
            wqe.checksum_flags = ethernet.cs_flags;
            wqe.inline_header = ethernet.inline_hdr_sz.get();
        }
        Ok(wqe)
    }

    /// The next piece of a send: inline header, data segments and inline data in their order.
    /// Start with `Cursor::default()`.
    ///
    /// # Errors
    /// [`Fault::Wqe`] if the segments do not add up, [`Fault::Denied`] if the ring is out of reach.
    pub fn piece<M: DeviceMemory>(
        &self,
        memory: &M,
        wqe: &Wqe,
        cursor: &mut Cursor,
    ) -> Result<Option<Piece>, Fault> {
        let total = wqe.segments * layout::SEGMENT_BYTES as u32;
        if cursor.at == 0 {
            self.start(wqe, cursor, total)?;
        }
        if cursor.inline_left > 0 {
            return Ok(Some(self.inline_piece(wqe, cursor)));
        }
        if cursor.at >= total {
            return Ok(None);
        }
        let data = self.segment(memory, wqe, cursor.at)?;
        let count = data.byte_count.get();
        if count & INLINE == 0 {
            cursor.at += layout::SEGMENT_BYTES as u32;
            return piece(data).map(Some).ok_or(Fault::Wqe);
        }
        let length = count & !INLINE;
        (cursor.inline_at, cursor.inline_left) = (cursor.at + 4, length);
        let end = length.checked_add(cursor.at + 4).ok_or(Fault::Wqe)?;
        cursor.at = end.checked_next_multiple_of(16).ok_or(Fault::Wqe)?;
        if length == 0 || cursor.at > total {
            return Err(Fault::Wqe);
        }
        Ok(Some(self.inline_piece(wqe, cursor)))
    }

    fn start(&self, wqe: &Wqe, cursor: &mut Cursor, total: u32) -> Result<(), Fault> {
        let control = layout::SEGMENT_BYTES as u32;
        let mut ethernet = EthernetSegment::new(0);
        ethernet.inline_hdr_sz = wqe.inline_header.into();
        cursor.at = control + ethernet.bytes();
        cursor.inline_at = control + layout::INLINE_HEADER_OFFSET;
        cursor.inline_left = u32::from(wqe.inline_header);
        let well_formed = wqe.opcode == Opcode::SEND && cursor.at <= total;
        well_formed.then_some(()).ok_or(Fault::Wqe)
    }

    /// Inline bytes lie in the ring itself, and may go on at its start.
    fn inline_piece(&self, wqe: &Wqe, cursor: &mut Cursor) -> Piece {
        let ring_bytes = layout::WQEBB_BYTES << self.log_depth;
        let start = wqe.index.wrapping_mul(layout::WQEBB_BYTES);
        let offset = start.wrapping_add(u64::from(cursor.inline_at)) & (ring_bytes - 1);
        let length = u64::from(cursor.inline_left).min(ring_bytes - offset) as u32;
        cursor.inline_at += length;
        cursor.inline_left -= length;
        Piece {
            place: self.ring.offset(offset),
            length,
        }
    }

    fn segment<M: DeviceMemory>(
        &self,
        memory: &M,
        wqe: &Wqe,
        at: u32,
    ) -> Result<DataSegment, Fault> {
        let (segments, _) = wqe.words.as_chunks::<2>();
        if let Some(&words) = segments.get(at as usize / 16) {
            return Ok(zerocopy::transmute!(words));
        }
        let index = wqe.index.wrapping_add(u64::from(at / 64));
        let mut bytes = [0; 16];
        memory.read(self.block(index).offset(u64::from(at % 64)), &mut bytes)?;
        Ok(zerocopy::transmute!(bytes))
    }

    /// Moves on behind a WQE that `fetch` returned.
    #[inline(always)]
    pub fn advance(&mut self, wqe: &Wqe) {
        self.next = self
            .next
            .wrapping_add(u64::from(wqe.blocks()))
            .min(self.end);
    }

    /// Moves on by one basic block: behind a WQE that cannot be read.
    pub fn skip(&mut self) {
        self.next = self.next.wrapping_add(1).min(self.end);
    }
}

#[inline(always)]
fn piece(data: DataSegment) -> Option<Piece> {
    let length = data.byte_count.get();
    if length == 0 || length & INLINE != 0 {
        return None;
    }
    let (key, address) = (data.lkey.get(), DeviceAddress::new(data.addr.get()));
    let place = Place { key, address };
    Some(Piece { place, length })
}
