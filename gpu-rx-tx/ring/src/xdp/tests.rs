//! Driver half against kernel half, over one piece of memory.
#![expect(unsafe_code, reason = "plays both halves over memory of its own")]

mod rig;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::frame::{Post, PostFlags};
use crate::memory::{copy_out, load_u16, load_u32, load_u64, store_u32, store_u64};
use crate::provenance::Trigger;
use crate::verbs::{Receive, Transmit};

use rig::{Bench, CHUNK, HEADROOM, PIECE, frame};

/// Where indices start: zero, and just before a lap of the ring, 2^32 and 2^33.
const STARTS: [u64; 5] = [0, 3, u32::MAX as u64 - 2, (1 << 32) - 1, (1 << 33) - 5];

#[test]
fn frames_come_in_and_buffers_go_back_across_2_to_the_32() {
    for start in STARTS {
        let mut bench = Bench::new(8, start);
        for round in 0..40 {
            let (one, two) = (frame(round, 60 + round), frame(round + 99, 1));
            bench.deliver(&one).expect("room");
            bench.deliver(&two).expect("room");
            assert_eq!(bench.ready(), 2, "start {start} round {round}");
            assert_eq!(bench.next_frame().expect("first").0, one);
            assert_eq!(bench.next_frame().expect("second").0, two);
            assert_eq!(bench.release_all(), Trigger::PolledIndex);
        }
        assert_eq!(bench.head, start + 80);
        assert_eq!(bench.kernel.invalid_fill, 0);
    }
}

#[test]
fn exactly_full_is_taken_and_one_more_is_refused() {
    for start in STARTS {
        let mut bench = Bench::new(4, start);
        (0..4).for_each(|seed| assert_eq!(bench.deliver(&frame(seed, 64)), Ok(1)));
        assert_eq!(bench.deliver(&frame(4, 64)), Err(Refusal::ReceiveRingFull));
        assert_eq!(bench.ready(), 4, "start {start}");
        for seed in 0..4 {
            assert_eq!(bench.next_frame().expect("there").0, frame(seed, 64));
        }
        bench.release_all();
        assert_eq!(bench.deliver(&frame(5, 64)), Ok(1));

        for seed in 0..4 {
            bench
                .post(&frame(seed, 64), 1024, PostFlags::empty())
                .expect("fits");
        }
        assert_eq!(bench.credits(), 0);
        for seed in 0..4 {
            let (bytes, pieces) = bench.sent().expect("published");
            assert_eq!(bytes, frame(seed, 64), "start {start}");
            bench.complete(&pieces[0]);
        }
        bench.poll_completions();
        assert_eq!(bench.credits(), 4, "start {start}");
    }
}

#[test]
fn completions_in_any_order_bring_every_chunk_back() {
    for start in STARTS {
        let mut bench = Bench::new(8, start);
        let mut pending = Vec::new();
        for round in 0..64_usize {
            while bench.credits() > 0 {
                let seed = bench.reserved as usize;
                bench
                    .post(&frame(seed, 100), 1024, PostFlags::empty())
                    .expect("fits");
                let (bytes, pieces) = bench.sent().expect("published");
                assert_eq!(bytes, frame(seed, 100));
                pending.extend(pieces);
            }
            let chunks: BTreeSet<u64> = pending.iter().map(|d| d.address).collect();
            assert_eq!(chunks.len(), pending.len(), "no chunk is in two hands");
            for _ in 0..=round % 5 {
                let one = pending.swap_remove((round * 7 + 3) % pending.len());
                bench.complete(&one);
            }
            bench.poll_completions();
        }
        assert_eq!(bench.kernel.invalid_transmit, 0);
    }
}

#[test]
fn fragments_keep_their_order_both_ways() {
    let mut bench = Bench::new(16, (1 << 32) - 2);
    for round in 0..20 {
        let jumbo = frame(round, PIECE * 2 + 1 + round);
        assert_eq!(bench.deliver(&jumbo), Ok(3));
        let (bytes, slots) = bench.next_frame().expect("whole frame");
        assert_eq!((bytes, slots.end - slots.start), (jumbo.clone(), 3));
        bench.release_all();
        bench.post(&jumbo, 1500, PostFlags::empty()).expect("fits");
        let (bytes, pieces) = bench.sent().expect("whole frame");
        assert_eq!((bytes, pieces.len()), (jumbo, 3));
        pieces.iter().rev().for_each(|piece| bench.complete(piece));
        bench.poll_completions();
    }
    bench.kernel.multi_buffer = false;
    assert_eq!(bench.deliver(&frame(0, PIECE + 1)), Err(Refusal::TooLong));
}

#[test]
fn a_frame_that_is_not_whole_yet_waits() {
    let mut bench = Bench::new(8, 0);
    bench.deliver(&frame(1, PIECE + 10)).expect("room");
    let producer = bench.rx_body.receive.producer;
    // SAFETY: an index word of the bench's memory.
    unsafe { store_u32(producer, 1) }
    assert_eq!(bench.next_frame(), None);
    // SAFETY: as above.
    unsafe { store_u32(producer, 2) }
    assert_eq!(bench.next_frame().expect("whole").0, frame(1, PIECE + 10));
}

#[test]
fn descriptors_outside_their_chunk_are_faults_and_cost_no_other_slot() {
    let bytes = 16 * u64::from(CHUNK);
    let cases = [
        (bytes, 64, "just behind the memory"),
        (u64::MAX - 3, 64, "wraps"),
        (256, CHUNK - 255, "crosses its chunk"),
        (0, u32::MAX, "length is absurd"),
        (bytes - 1, 2, "last byte and one more"),
    ];
    for (address, length, what) in cases {
        let mut bench = Bench::new(8, 0);
        assert!((0..3).all(|seed| bench.deliver(&frame(seed, 64)).is_ok()));
        let bad = Descriptor {
            address,
            length,
            options: 0,
        };
        let ring = bench.rx_body.receive;
        // SAFETY: an entry of the ring, ours for the test.
        unsafe { bad.store(ring.entries, 1, ring.mask()) }
        let segments: Vec<_> = (0..3).map(|slot| bench.rx.segment(slot, 0)).collect();
        let faults: Vec<_> = segments.iter().map(|s| s.fault()).collect();
        assert_eq!(faults, [false, true, false], "{what}");
        assert_eq!(
            (segments[1].address, segments[1].length),
            (DeviceAddress::NULL, 0)
        );
        assert_eq!(bench.rx.fault(1), Cause::RingCorrupted);
        bench.head = 3;
        bench.release_all();
        let lost = bench.kernel.umem.chunk_of(address) == NO_CHUNK;
        let taken = (0..8).filter(|&seed| bench.deliver(&frame(seed, 64)).is_ok());
        assert_eq!(taken.count(), if lost { 7 } else { 8 }, "{what}");
        assert_eq!(bench.kernel.invalid_fill, u64::from(lost), "{what}");
    }
}

#[test]
fn a_completion_of_no_chunk_gives_an_empty_buffer_and_no_access() {
    let mut bench = Bench::new(2, 0);
    for seed in 0..2 {
        bench
            .post(&frame(seed, 64), 64, PostFlags::empty())
            .expect("fits");
    }
    for address in [1 << 40, 0] {
        let bad = Descriptor {
            address,
            ..Descriptor::default()
        };
        bench.complete(&bad);
    }
    bench.poll_completions();
    assert_eq!(bench.tx.buffer(2), crate::frame::Buffer::default());
    let post = Post {
        address: bench.tx.buffer(2).address,
        length: 64,
        parts: 1,
        ..Post::default()
    };
    assert_eq!(bench.tx.write(2, &post), Err(Cause::LocalProtection));
    assert_ne!(bench.tx.buffer(3).capacity, 0);
}

#[test]
fn an_impossible_index_keeps_the_kernels_half_for_a_lap_alone() {
    let mut bench = Bench::new(8, 0);
    let (transmit, fill) = (bench.kernel.transmit, bench.kernel.fill);
    for slot in 0..8 {
        // SAFETY: the length word of an entry of the ring.
        unsafe { store_u32(transmit.entries.offset(slot * 16 + 8), u32::MAX) }
        // SAFETY: an entry of the ring.
        unsafe { store_u64(fill.entries.offset(slot * 8), u64::MAX) }
    }
    for producer in [transmit.producer, fill.producer] {
        // SAFETY: an index of the ring.
        unsafe { store_u32(producer, u32::MAX) }
    }
    assert_eq!(bench.take(), None);
    assert_eq!(bench.kernel.invalid_transmit, 8);
    assert_eq!(bench.deliver(&[0; 60]), Err(Refusal::FillRingEmpty));
}

#[test]
fn what_the_kernel_would_swallow_is_refused_by_name() {
    let bench = Bench::new(4, 0);
    let own = bench.tx.buffer(0).address;
    let good = Post {
        address: own,
        length: 64,
        parts: 1,
        checksum_start: 34,
        checksum_offset: 6,
        ..Post::default()
    };
    let base = bench.kernel.umem.base;
    let l4 = PostFlags::OFFLOAD_L4;
    let refuse = Err(Cause::LocalProtection);
    let cases = [
        ("good", good, Ok(())),
        ("with checksum", Post { flags: l4, ..good }, Ok(())),
        ("empty", Post { length: 0, ..good }, refuse),
        (
            "longer than the chunk",
            Post {
                length: CHUNK - HEADROOM + 1,
                ..good
            },
            refuse,
        ),
        (
            "fills the chunk",
            Post {
                length: CHUNK - HEADROOM,
                ..good
            },
            Ok(()),
        ),
        (
            "another slot's chunk",
            Post {
                address: bench.tx.buffer(1).address,
                ..good
            },
            refuse,
        ),
        (
            "outside",
            Post {
                address: DeviceAddress::new(64),
                ..good
            },
            refuse,
        ),
        (
            "before the memory",
            Post {
                address: base.offset(u64::MAX),
                ..good
            },
            refuse,
        ),
        (
            "no room for the request",
            Post {
                address: own.offset(64_u64.wrapping_neg()),
                ..good
            },
            refuse,
        ),
        ("part of none", Post { parts: 0, ..good }, refuse),
        ("part past the end", Post { part: 1, ..good }, refuse),
        (
            "too many parts",
            Post { parts: 18, ..good },
            Err(Cause::FrameTooLong),
        ),
        (
            "header checksum",
            Post {
                flags: PostFlags::OFFLOAD_L3,
                ..good
            },
            refuse,
        ),
        (
            "checksum outside",
            Post {
                flags: l4,
                checksum_start: 57,
                ..good
            },
            refuse,
        ),
    ];
    for (what, post, want) in cases {
        assert_eq!(bench.tx.write(0, &post), want, "{what}");
    }
}

#[test]
fn checksum_request_stands_before_the_first_piece_alone() {
    for shift in [0_u64, 2] {
        let mut bench = Bench::new(4, 0);
        let at = bench.tx.buffer(0).address.offset(shift);
        let post = Post {
            address: at,
            length: 100,
            parts: 2,
            flags: PostFlags::OFFLOAD_L4,
            checksum_start: 34,
            checksum_offset: 16,
            ..Post::default()
        };
        bench.tx.write(0, &post).expect("fits");
        let second = Post {
            address: bench.tx.buffer(1).address,
            part: 1,
            ..post
        };
        bench.tx.write(1, &second).expect("fits");
        bench.tx.publish(2);
        let (first, second) = (bench.take().expect("first"), bench.take().expect("second"));
        assert_eq!(first.options, OPTION_METADATA | OPTION_CONTINUED);
        assert_eq!(second.options, 0);
        let mut request = [0xff; 24];
        let before = DeviceAddress::new(at.value() - 24);
        // SAFETY: within the slot's chunk.
        unsafe { copy_out(before, &mut request) }
        let mut want = [0; 24];
        want[0] = 2;
        want[8] = 34;
        want[10] = 16;
        assert_eq!(request, want, "shift {shift}");
        if shift == 0 {
            // SAFETY: within the slot's chunk, aligned.
            assert_eq!(unsafe { load_u16(before.offset(8)) }, 34);
        }
    }
}

#[test]
fn the_kick_word_is_written_only_when_the_kernel_sleeps() {
    let mut bench = Bench::new(4, 0);
    bench
        .post(&frame(0, 64), 64, PostFlags::empty())
        .expect("fits");
    // SAFETY: a word of the bench's memory.
    let kicked = |word| unsafe { load_u64(word) };
    assert_eq!(bench.tx.ring(1), Trigger::PolledIndex);
    assert_eq!(kicked(bench.tx_body.kick), 0);
    for ring in [bench.kernel.transmit, bench.kernel.fill] {
        // SAFETY: the bench's memory lives.
        unsafe { bench.kernel.want_wakeup(&ring, true) }
    }
    assert_eq!(bench.tx.ring(1), Trigger::SystemCall);
    assert_eq!(kicked(bench.tx_body.kick), 1);
    bench.deliver(&frame(0, 64)).expect("room");
    bench.next_frame().expect("there");
    assert_eq!(bench.release_all(), Trigger::SystemCall);
    assert_eq!(kicked(bench.rx_body.kick), 1);
    // SAFETY: the bench's memory lives.
    unsafe { bench.kernel.want_wakeup(&bench.kernel.transmit, false) }
    assert_eq!(bench.tx.ring(2), Trigger::PolledIndex);
    assert_eq!(kicked(bench.tx_body.kick), 1);
}

#[test]
fn blocks_of_another_layout_are_refused() {
    let bench = Bench::new(4, 0);
    let (rx, tx) = (bench.rx_body, bench.tx_body);
    let rx_blocks = [
        tx.block(),
        QueueBlock {
            layout: 1,
            ..rx.block()
        },
        QueueBlock {
            abi: 99,
            ..rx.block()
        },
        QueueBlock {
            depth: 8,
            ..rx.block()
        },
        RxBody { primed: 5, ..rx }.block(),
        RxBody {
            umem: Umem {
                chunk_bytes: 3000,
                ..rx.umem
            },
            ..rx
        }
        .block(),
        RxBody {
            umem: Umem { pool: 0, ..rx.umem },
            ..rx
        }
        .block(),
        RxBody {
            fill: Ring { size: 3, ..rx.fill },
            ..rx
        }
        .block(),
    ];
    for (number, block) in rx_blocks.iter().enumerate() {
        // SAFETY: nothing is accessed: the block is refused.
        let got = unsafe { RxQueue::attach(block) };
        assert_eq!(
            got.err(),
            Some(Cause::LayoutMismatch),
            "receive case {number}"
        );
    }
    let tx_blocks = [
        rx.block(),
        TxBody { headroom: 8, ..tx }.block(),
        TxBody {
            headroom: CHUNK,
            ..tx
        }
        .block(),
        TxBody {
            metadata_bytes: 16,
            ..tx
        }
        .block(),
        TxBody { max_parts: 0, ..tx }.block(),
        TxBody {
            completion: Ring {
                size: 2,
                ..tx.completion
            },
            ..tx
        }
        .block(),
    ];
    for (number, block) in tx_blocks.iter().enumerate() {
        // SAFETY: nothing is accessed: the block is refused.
        let got = unsafe { TxQueue::attach(block) };
        assert_eq!(
            got.err(),
            Some(Cause::LayoutMismatch),
            "transmit case {number}"
        );
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Deliver(usize),
    Receive,
    Release,
    Post(usize),
    /// Receives a frame and sends it from the very buffer it arrived in.
    Forward,
    Transmit,
    Complete(usize),
    Poll,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        (1_usize..PIECE * 4).prop_map(Operation::Deliver),
        Just(Operation::Receive),
        Just(Operation::Release),
        (1_usize..1900 * 3).prop_map(Operation::Post),
        Just(Operation::Forward),
        Just(Operation::Transmit),
        any::<usize>().prop_map(Operation::Complete),
        Just(Operation::Poll),
    ]
}

/// Queues of whole frames: what the rings must be equal to.
#[derive(Default)]
struct Naive {
    arrived: VecDeque<Vec<u8>>,
    posted: VecDeque<Vec<u8>>,
    held: usize,
    pending: Vec<Descriptor>,
}

fn forward(bench: &mut Bench, naive: &mut Naive) {
    let first = bench.head;
    let Some((bytes, slots)) = bench.next_frame() else {
        return;
    };
    if slots.end - slots.start > bench.credits() {
        bench.head = first;
        return;
    }
    assert_eq!(naive.arrived.pop_front(), Some(bytes.clone()));
    let parts = (slots.end - slots.start) as u32;
    for (part, from) in slots.enumerate() {
        let to = bench.reserved + part as u64;
        let segment = bench.rx.segment(from, 0);
        let old = bench.tx.exchange(to, segment.address);
        bench.rx.exchange(from, old);
        let post = Post {
            address: segment.address,
            length: segment.length,
            part: part as u32,
            parts,
            ..Post::default()
        };
        bench
            .tx
            .write(to, &post)
            .expect("the slot owns the chunk now");
    }
    bench.reserved += u64::from(parts);
    bench.tx.publish(bench.reserved);
    naive.held += parts as usize;
    naive.posted.push_back(bytes);
}

fn step(bench: &mut Bench, naive: &mut Naive, number: usize, operation: &Operation) {
    match *operation {
        Operation::Deliver(length) => {
            let bytes = frame(number, length);
            let in_use = bench.rx.produced(bench.head) - bench.released;
            let fits = in_use + length.div_ceil(PIECE) as u64 <= u64::from(bench.rx.depth());
            let taken = bench.deliver(&bytes);
            assert_eq!(taken.is_ok(), fits, "{taken:?} with {in_use} in use");
            if fits {
                naive.arrived.push_back(bytes);
            }
        }
        Operation::Receive => match bench.next_frame() {
            Some((bytes, slots)) => {
                assert_eq!(naive.arrived.pop_front(), Some(bytes));
                naive.held += (slots.end - slots.start) as usize;
            }
            None => assert!(naive.arrived.is_empty()),
        },
        Operation::Release => {
            assert_eq!(bench.head - bench.released, naive.held as u64);
            naive.held = 0;
            bench.release_all();
        }
        Operation::Post(length) => {
            if length.div_ceil(1900) as u64 <= bench.credits() {
                let bytes = frame(number, length);
                bench.post(&bytes, 1900, PostFlags::empty()).expect("fits");
                naive.posted.push_back(bytes);
            }
        }
        Operation::Forward => forward(bench, naive),
        Operation::Transmit => match bench.sent() {
            Some((bytes, pieces)) => {
                assert_eq!(naive.posted.pop_front(), Some(bytes));
                naive.pending.extend(pieces);
            }
            None => assert!(naive.posted.is_empty()),
        },
        Operation::Complete(which) => {
            if !naive.pending.is_empty() {
                let one = naive.pending.swap_remove(which % naive.pending.len());
                bench.complete(&one);
            }
        }
        Operation::Poll => bench.poll_completions(),
    }
}

/// Every chunk is in one place: fill ring, receive ring, free list, transmit ring, kernel, or
/// completion ring.
fn count_chunks(bench: &Bench, naive: &Naive) {
    let mut seen = BTreeMap::<u64, u32>::new();
    let umem = bench.kernel.umem;
    // SAFETY: words of the bench's memory.
    let word = |address| unsafe { load_u32(address) };
    // SAFETY: as above.
    let long = |address| unsafe { load_u64(address) };
    let mut add = |offset| *seen.entry(umem.chunk_of(offset)).or_default() += 1;
    for (ring, entry) in [
        (&bench.kernel.fill, 8),
        (&bench.kernel.receive, 16),
        (&bench.kernel.transmit, 16),
        (&bench.kernel.completion, 8),
    ] {
        let (mut at, end) = (word(ring.consumer), word(ring.producer));
        while at != end {
            add(long(
                ring.entries.offset(u64::from(at & ring.mask()) * entry),
            ));
            at = at.wrapping_add(1);
        }
    }
    naive.pending.iter().for_each(|d| add(d.address));
    let depth = u64::from(bench.tx.depth());
    for slot in bench.reserved..bench.completed + depth {
        add(long(bench.tx_body.free.offset((slot % depth) * 8)));
    }
    let chunks = umem.bytes / u64::from(umem.chunk_bytes);
    assert_eq!(seen.len() as u64, chunks);
    assert!(seen.values().all(|&count| count == 1), "{seen:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn random_operations_equal_queues_of_frames(
        operations in prop::collection::vec(operation(), 1..400),
        start in prop_oneof![Just(0_u64), Just((1 << 32) - 20), any::<u64>().prop_map(|n| n >> 1)],
        log_depth in 2_u32..6,
    ) {
        let mut bench = Bench::new(1 << log_depth, start);
        let mut naive = Naive::default();
        for (number, operation) in operations.iter().enumerate() {
            step(&mut bench, &mut naive, number, operation);
            count_chunks(&bench, &naive);
        }
        prop_assert_eq!(bench.kernel.invalid_fill + bench.kernel.invalid_transmit, 0);
    }
}
