//! Gatherers by hand, and against a map of what came.
#![expect(
    unsafe_code,
    reason = "tests own the memory that they attach to, and play the host"
)]

use core::cell::Cell;
use core::mem::offset_of;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use warpwire_device::{Area, Piece, Scalar, ScalarHost};
use warpwire_protocols::stream::ByteOrder;
use warpwire_protocols::stream::samples::{Conversion, Format};
use warpwire_ring::{DeviceAddress, Location, Region, memory};

use super::*;

/// A host whose clock says what the test says.
#[derive(Default)]
struct Host(Cell<u64>);

impl ScalarHost for Host {
    fn now_ns(&self) -> u64 {
        self.0.get()
    }

    fn pause(&self) {}

    fn sync_block(&self) {}
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }
}

#[repr(C, align(128))]
#[derive(Clone, Copy)]
struct Line([u8; 128]);

/// A gatherer with all its memory, and the host's end of it.
struct Rig {
    _memory: Vec<Vec<Line>>,
    at: DeviceAddress,
    block: SensorBlock,
    clock: Host,
}

const HEADER: u32 = 10;
const ROWS: u32 = 16;
const SPAN: u32 = 8;
const GAPS: u32 = 4;
const PATIENCE: u64 = 1000;
const SCALE: f32 = 0.5;

impl Rig {
    fn new(samples: u32, change: impl FnOnce(&mut SensorBlock)) -> Self {
        Self::beginning(samples, None, change)
    }

    fn beginning(samples: u32, first: Option<u64>, change: impl FnOnce(&mut SensorBlock)) -> Self {
        let mut memory = Vec::new();
        let mut cut = |bytes: usize| {
            let mut lines = vec![Line([0xa5; 128]); bytes.div_ceil(128)];
            let at = DeviceAddress::new(lines.as_mut_ptr() as u64);
            memory.push(lines);
            at
        };
        let mut block = SensorBlock {
            reserved: 0,
            layout: SensorBlock::LAYOUT,
            headers: DeviceAddress::NULL,
            values: DeviceAddress::NULL,
            gaps: cut(size_of::<Gap>() * GAPS as usize),
            words: cut(size_of::<SensorWords>()),
            state: cut(size_of::<SensorState>()),
            counters: cut(size_of::<SensorCounters>()),
            patience_ns: PATIENCE,
            format: Format::new(HEADER, 2, 4, ByteOrder::Big).expect("is legal"),
            conversion: Conversion {
                scale: SCALE,
                offset: 0.0,
                order: ByteOrder::Little,
            },
            header_bytes: HEADER,
            samples,
            rows: ROWS,
            gap_count: GAPS,
            far_limit: 2,
            late_limit: 3,
            reserved_end: [0; 20],
        };
        change(&mut block);
        let tensors = block.tensors();
        block.headers = cut(tensors.header_bytes as usize);
        block.values = cut(tensors.value_bytes as usize);
        let at = cut(size_of::<SensorBlock>());
        let state = SensorState::new(32, SPAN, first).expect("is legal");
        // SAFETY: cut for these; nobody else has them.
        unsafe { (block.words.value() as *mut SensorWords).write(SensorWords::default()) };
        // SAFETY: as above.
        unsafe { (block.state.value() as *mut SensorState).write(state) };
        // SAFETY: as above.
        unsafe { (block.counters.value() as *mut SensorCounters).write(SensorCounters::default()) };
        // SAFETY: as above.
        unsafe { (at.value() as *mut SensorBlock).write(block) };
        Self {
            _memory: memory,
            at,
            block,
            clock: Host::default(),
        }
    }

    fn with<T>(&self, call: impl FnOnce(&Scalar<'_>, &Gatherer<'_>) -> T) -> T {
        // SAFETY: the rig's own memory, used by nobody else meanwhile.
        let gatherer = unsafe { Gatherer::attach(self.at) }.expect("attaches");
        call(&Scalar::new(&self.clock), &gatherer)
    }

    /// Offers a record, in pieces that begin at these places.
    fn offer_in(&self, record: &[u8], cuts: &[usize]) -> Became {
        let area = area(record);
        let mut pieces = [Piece::EMPTY; MOST_PARTS];
        let mut from = 0;
        let ends = cuts.iter().copied().chain([record.len()]);
        for (slot, end) in pieces.iter_mut().zip(ends) {
            let piece = area.piece(from as u64, (end - from) as u32);
            *slot = piece.expect("is there");
            from = end;
        }
        self.with(|simt, gatherer| gatherer.offer(simt, &Parts::new(pieces)))
    }

    fn offer(&self, number: u32) -> Became {
        self.offer_in(&record(number, self.block.samples), &[])
    }

    fn turn(&self, now_ns: u64) {
        self.clock.0.set(now_ns);
        self.with(|simt, gatherer| gatherer.turn(simt));
    }

    fn word(&self, offset: usize) -> u64 {
        // SAFETY: a word of the rig.
        unsafe { memory::load_acquire_u64(self.block.words.offset(offset as u64)) }
    }

    fn whole(&self) -> u64 {
        self.word(offset_of!(SensorWords, whole))
    }

    /// The host gives all rows before this back.
    fn consume(&self, position: u64) {
        let at = self
            .block
            .words
            .offset(offset_of!(SensorWords, consumed) as u64);
        // SAFETY: the host's word.
        unsafe { memory::store_release_u64(at, position) };
    }

    /// Gaps that the host did not read, which it has then.
    fn gaps(&self) -> Vec<Gap> {
        let written = self.word(offset_of!(SensorWords, gaps_written));
        let read = self.word(offset_of!(SensorWords, gaps_read));
        let gap = |number: u64| {
            let slot = number % u64::from(GAPS);
            let at = self.block.gaps.offset(slot * size_of::<Gap>() as u64);
            // SAFETY: an entry that was written.
            unsafe { *(at.value() as *const Gap) }
        };
        let gaps = (read..written).map(gap).collect();
        let at = self
            .block
            .words
            .offset(offset_of!(SensorWords, gaps_read) as u64);
        // SAFETY: the host's word.
        unsafe { memory::store_release_u64(at, written) };
        gaps
    }

    fn counters(&self) -> SensorCounters {
        // SAFETY: the rig's counters.
        unsafe { *(self.block.counters.value() as *const SensorCounters) }
    }

    /// The row of a position.
    fn row(&self, position: u64) -> (Vec<u8>, Vec<f32>) {
        let row = position % u64::from(self.block.rows);
        let read = |at: DeviceAddress, bytes: u32| {
            let at = at.offset(row * u64::from(bytes));
            let mut found = vec![0; bytes as usize];
            // SAFETY: a row of the rig.
            unsafe { memory::copy_out(at, &mut found) };
            found
        };
        let values = read(self.block.values, self.block.samples * 4);
        let values = values
            .chunks(4)
            .map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap()));
        (read(self.block.headers, HEADER), values.collect())
    }

    fn check_row(&self, position: u64, number: Option<u32>) {
        let (header, values) = self.row(position);
        let Some(number) = number else {
            assert_eq!(header, [0; HEADER as usize], "{position}");
            assert!(values.iter().all(|value| value.is_nan()), "{position}");
            return;
        };
        let record = record(number, self.block.samples);
        let (want, payload) = record.split_at(HEADER as usize);
        assert_eq!(header, want, "{position}");
        let sample = |two: &[u8]| f32::from(i16::from_le_bytes([two[0], two[1]])) * SCALE;
        let want: Vec<f32> = payload.chunks(2).map(sample).collect();
        assert_eq!(values, want, "{position}");
    }
}

fn record(number: u32, samples: u32) -> Vec<u8> {
    let mut dice = Dice(u64::from(number));
    let bytes = HEADER + samples * 2;
    let mut record: Vec<u8> = (0..bytes).map(|_| dice.below(256) as u8).collect();
    record[2..6].copy_from_slice(&number.to_be_bytes());
    record
}

fn area(bytes: &[u8]) -> Area {
    let region = Region {
        address: DeviceAddress::new(bytes.as_ptr() as u64),
        length: bytes.len() as u64,
        key: 0,
        location: Location::PageableHost,
    };
    // SAFETY: the bytes outlive what is done with them, and are only read.
    unsafe { Area::attach(region) }
}

fn gap(first: u64, count: u64, position: u64, rows: u64) -> Gap {
    Gap {
        first,
        count,
        position,
        rows,
    }
}

#[test]
fn records_have_their_rows_wherever_their_bytes_lie() {
    for samples in [1, 3, 4, 7, 8, 9, 33, 64] {
        let length = (HEADER + samples * 2) as usize;
        for cut in 0..=length {
            let rig = Rig::new(samples, |_| ());
            for number in 5..8 {
                let record = record(number, samples);
                let last = cut.max(length - 1);
                let became = rig.offer_in(&record, &[cut / 2, cut, last]);
                assert_eq!(became, Became::Placed);
            }
            assert_eq!(rig.whole(), 0, "told too early");
            rig.turn(1);
            assert_eq!(rig.whole(), 3);
            for position in 0..3 {
                rig.check_row(position, Some(5 + position as u32));
            }
        }
    }
}

#[test]
fn records_are_dropped_for_reasons() {
    use Became::{Dropped, Full, Placed};
    let rig = Rig::new(4, |_| ());
    for (number, became) in [
        (100, Placed),
        (101, Placed),
        (101, Dropped(Why::Doubled)),
        (103, Placed),
        (99, Dropped(Why::Late)),
        // 100 to 115 have rows.
        (116, Dropped(Why::Early)),
        (115, Placed),
        (102, Dropped(Why::Late)),
        (115, Dropped(Why::Doubled)),
    ] {
        assert_eq!(rig.offer(number), became, "{number}");
    }
    rig.turn(1);
    // 115 needs a window that ends behind 107.
    assert_eq!(rig.gaps(), [gap(102, 1, 2, 1), gap(104, 4, 4, 4)]);
    assert_eq!(rig.whole(), 8);
    assert_eq!(rig.offer(116), Full, "the host gave nothing back");
    rig.consume(1);
    assert_eq!(rig.offer(116), Placed);
    let short = record(117, 3);
    assert_eq!(rig.offer_in(&short, &[]), Dropped(Why::Length));
    assert_eq!(rig.offer_in(&[], &[]), Dropped(Why::Length));
    let counters = rig.counters();
    assert_eq!(counters.placed, 5);
    assert_eq!(counters.dropped, [2, 2, 1, 0, 2, 0]);
    assert_eq!((counters.gaps, counters.missing), (3, 6));
}

#[test]
fn what_is_missing_is_given_up_when_its_time_has_passed() {
    let rig = Rig::beginning(4, Some(10), |_| ());
    for number in [11, 12, 14] {
        assert_eq!(rig.offer(number), Became::Placed);
    }
    rig.turn(5);
    rig.turn(5 + PATIENCE - 1);
    assert_eq!((rig.whole(), rig.gaps()), (0, vec![]));
    rig.turn(5 + PATIENCE);
    // Both were overtaken for so long.
    assert_eq!(rig.gaps(), [gap(10, 1, 0, 1), gap(13, 1, 3, 1)]);
    assert_eq!(rig.whole(), 5);
    for (position, number) in [(0, None), (1, Some(11)), (3, None), (4, Some(14))] {
        rig.check_row(position, number);
    }
    // What is overtaken later has its own time.
    assert_eq!(rig.offer(16), Became::Placed);
    rig.turn(9000);
    assert_eq!(rig.offer(18), Became::Placed);
    rig.turn(9000 + PATIENCE);
    assert_eq!(rig.whole(), 7);
    rig.turn(9000 + 2 * PATIENCE);
    assert_eq!(rig.gaps(), [gap(15, 1, 5, 1), gap(17, 1, 7, 1)]);
}

#[test]
fn who_counts_anew_is_believed_after_some_records() {
    let rig = Rig::new(4, |_| ());
    assert_eq!(rig.offer(50), Became::Placed);
    // Ahead: two are not believed, the third is.
    for number in [1000, 1001] {
        assert_eq!(rig.offer(number), Became::Dropped(Why::Early));
    }
    assert_eq!(rig.offer(1002), Became::Placed);
    rig.turn(1);
    assert_eq!(rig.gaps(), [gap(51, 951, 1, 0)]);
    assert_eq!(rig.whole(), 2);
    rig.check_row(1, Some(1002));
    // One in between says that the others are wrong.
    for number in [2000, 2001, 1003, 2002, 2003] {
        let becomes = rig.offer(number) == Became::Placed;
        assert_eq!(becomes, number == 1003);
    }
    // Behind: three are late, the fourth is believed.
    for number in 0..3 {
        assert_eq!(rig.offer(number), Became::Dropped(Why::Late));
    }
    assert_eq!(rig.offer(3), Became::Placed);
    rig.turn(2);
    assert_eq!(rig.gaps(), [gap(3, 0, 3, 0)]);
    rig.check_row(3, Some(3));
    assert_eq!(rig.counters().restarts, 2);
}

#[test]
fn gaps_that_nobody_reads_hold_records_back() {
    let rig = Rig::new(4, |_| ());
    let mut held = 0;
    for number in (0..80).step_by(2) {
        if rig.offer(number) == Became::Full {
            held = number;
            break;
        }
        rig.turn(u64::from(number) * PATIENCE * 3 + 1);
        rig.turn(u64::from(number) * PATIENCE * 3 + 1 + PATIENCE);
        rig.consume(rig.whole());
    }
    assert!(held > 8, "{held}");
    let gaps = rig.gaps();
    assert_eq!(gaps.len(), GAPS as usize);
    rig.turn(u64::MAX);
    rig.consume(rig.whole());
    assert_eq!(rig.offer(held), Became::Placed);
}

/// Numbers wrap, records are repeated, lost and change their order; the host reads when it likes.
/// Every row is what was placed there, or told as a gap.
#[test]
fn rows_are_what_came_and_gaps_what_did_not() {
    for seed in 0..64 {
        let mut dice = Dice(seed);
        let start = u32::MAX - dice.below(200) as u32;
        let samples = 1 + dice.below(20) as u32;
        let rig = Rig::beginning(samples, Some(u64::from(start)), |block| {
            block.late_limit = 0
        });
        let mut placed = BTreeMap::new();
        let (mut offered, mut now, mut read) = (0, 1, 0);
        let mut missing = Vec::new();
        for step in 0..600 {
            now += dice.below(PATIENCE / 2);
            let number = start.wrapping_add(step / 2 + dice.below(10) as u32);
            let position = number.wrapping_sub(start);
            let became = rig.offer(number);
            offered += u64::from(became != Became::Full);
            if became == Became::Placed {
                assert_eq!(placed.insert(position, number), None, "seed {seed}");
            }
            rig.turn(now);
            if dice.below(3) == 0 {
                missing.extend(rig.gaps());
                let whole = rig.whole();
                for position in read..whole {
                    let number = placed.get(&(position as u32)).copied();
                    rig.check_row(position, number);
                    let is_told =
                        |gap: &Gap| (gap.position..gap.position + gap.rows).contains(&position);
                    let told = missing.iter().filter(|gap| is_told(gap)).count();
                    assert_eq!(told, usize::from(number.is_none()), "seed {seed}");
                }
                read = whole;
                rig.consume(read);
            }
        }
        let counters = rig.counters();
        let dropped: u64 = counters.dropped.iter().sum();
        assert_eq!(counters.placed + dropped, offered);
        assert_eq!(counters.placed, placed.len() as u64);
        assert!(read > 200, "seed {seed}: {read} rows");
    }
}
