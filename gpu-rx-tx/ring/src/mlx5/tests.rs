//! Driver half against device half, in one thread, over memory with keys.
#![expect(unsafe_code, reason = "attaches to queues whose memory the test owns")]

mod rig;

use std::collections::VecDeque;
use std::vec;

use super::device::Fault;
use super::layout::{self, ControlSegment, Cqe, CqeOpcode, DataSegment, ErrorCqe, Opcode};
use super::{Rx, Tx, TxBody};
use crate::address::DeviceAddress;
use crate::block::QueueBlock;
use crate::cause::Cause;
use crate::device_memory::{Denied, DeviceMemory, Place};
use crate::frame::{MetaFlags, Post, PostFlags, SegmentFlags};
use crate::verbs::{Receive, Transmit};

use rig::{BUFFER_KEY, Memory, NUMBER, RING_KEY, Receiving, Sending, ring_place};

/// A small generator; a failing case prints its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Indices at which both halves start: fresh, and just before each narrowing wraps.
const STARTS: [u64; 4] = [0, (1 << 16) - 5, (1 << 24) - 5, (1 << 32) - 5];

#[test]
fn transmit_meets_a_naive_model() {
    for seed in 0..64 {
        for start in STARTS {
            transmit_run(seed, start);
        }
    }
}

fn transmit_run(seed: u64, start: u64) {
    let depth = 1 << (seed % 5 + 3);
    let mut sending = Sending::new(depth, start);
    let (mut dice, mut next, mut free, mut entry) = (Dice(seed), start, start, start);
    let (mut expected, mut signals) = (VecDeque::new(), VecDeque::new());
    for step in 0..400 {
        let context = std::format!("seed {seed} start {start} step {step}");
        let parts = 1 + dice.roll(u64::from(depth.min(9))) as u32;
        let room = u64::from(depth) - (next - free);
        if u64::from(parts) <= room && dice.roll(4) > 0 {
            let signal = dice.roll(3) == 0 || u64::from(parts) == room;
            expected.push_back(sending.post(next, parts, dice.roll(256) as u8, signal));
            next += u64::from(parts);
            if signal {
                signals.push_back(next);
            }
        } else {
            if next > sending.queue.next() {
                sending.ring(next);
            }
            for frame in sending.execute() {
                assert_eq!(Some(frame), expected.pop_front(), "{context}");
            }
            while let Some(completion) = sending.tx.completion(entry, free) {
                assert_eq!(completion.fault, None, "{context}");
                assert_eq!(Some(completion.upto), signals.pop_front(), "{context}");
                (free, entry) = (completion.upto, entry + 1);
            }
            sending.tx.retire(entry);
        }
    }
}

#[test]
fn receive_meets_a_naive_model() {
    for seed in 0..64 {
        for start in STARTS {
            receive_run(seed, start);
        }
    }
}

fn receive_run(seed: u64, start: u64) {
    let (depth, segments) = (1 << (seed % 5 + 1), 1 + (seed % 3) as u32);
    let mut receiving = Receiving::new(depth, segments, start);
    let mut dice = Dice(seed ^ 0x5eed);
    let (mut head, mut released) = (start, start);
    let mut expected = VecDeque::new();
    for step in 0..400 {
        let context = std::format!("seed {seed} start {start} step {step}");
        match dice.roll(3) {
            0 => {
                let length = 1 + dice.roll(u64::from(segments) * 64) as usize;
                let frame = vec![dice.roll(256) as u8; length];
                let lent = head - released + expected.len() as u64;
                let fits = receiving.deliver(&frame);
                assert_eq!(fits, lent < u64::from(depth), "{context}");
                if fits {
                    expected.push_back(frame);
                }
            }
            1 => {
                let there = receiving.rx.owned(head).is_ready;
                assert_eq!(there, !expected.is_empty(), "{context}");
                if let Some(frame) = expected.pop_front() {
                    assert_eq!(receiving.take(head), Ok(frame), "{context}");
                    head += 1;
                }
            }
            _ => {
                released += dice.roll(head - released + 1);
                receiving.rx.release(released);
            }
        }
    }
}

#[test]
fn receive_queue_is_full_at_its_depth() {
    let mut receiving = Receiving::new(4, 1, 0);
    assert!(
        !receiving.rx.owned(0).is_ready,
        "fresh memory is no completion"
    );
    for byte in 0..4 {
        assert!(receiving.deliver(&[byte; 60]));
    }
    assert!(!receiving.deliver(&[9; 60]), "depth plus one");
    for (index, byte) in (0u64..).zip(0..4) {
        assert_eq!(receiving.take(index), Ok(vec![byte; 60]));
    }
    assert!(
        !receiving.rx.owned(4).is_ready,
        "the old lap's completion is no news"
    );
    receiving.rx.release(1);
    assert!(receiving.deliver(&[9; 60]) && !receiving.deliver(&[10; 60]));
    assert_eq!(receiving.take(4), Ok(vec![9; 60]));
    assert_eq!(
        receiving.take(1),
        Ok(vec![1; 60]),
        "a lent slot does not change"
    );
}

#[test]
fn completions_overrun_is_told() {
    let mut sending = Sending::new(4, 0);
    let cqe = Cqe::new(CqeOpcode::REQUEST, 0);
    let table = sending.memory.table();
    for _ in 0..4 {
        sending.completions.write(&table, &cqe).expect("fits");
    }
    let fault = sending.completions.write(&table, &cqe);
    assert_eq!(fault, Err(Fault::CompletionOverrun));
    sending.tx.retire(1);
    assert_eq!(sending.completions.write(&table, &cqe), Ok(()));
    sending.tx.retire(9);
    for _ in 0..3 {
        let _ = sending.completions.write(&table, &cqe);
    }
    let fault = sending.completions.write(&table, &cqe);
    assert_eq!(fault, Err(Fault::Index), "more retired than produced");
}

#[test]
fn errors_in_a_batch_keep_their_slot() {
    for (start, cause) in STARTS
        .into_iter()
        .zip(Cause::ALL.iter().filter(|c| c.syndrome().is_some()))
    {
        let syndrome = cause.syndrome().expect("filtered");
        let mut sending = Sending::new(8, start);
        for slot in 0..8 {
            sending.post(start + slot, 1, slot as u8, slot == 7);
        }
        sending.ring(start + 8);
        let table = sending.memory.table();
        let error = ErrorCqe::new(CqeOpcode::REQUEST_ERROR, start + 3, syndrome).as_cqe();
        sending.completions.write(&table, &error).expect("fits");
        let last = Cqe::new(CqeOpcode::REQUEST, start + 7);
        sending.completions.write(&table, &last).expect("fits");
        let first = sending.tx.completion(start, start).expect("there");
        assert_eq!((first.upto, first.fault), (start + 4, Some(*cause)));
        let second = sending.tx.completion(start + 1, first.upto).expect("there");
        assert_eq!((second.upto, second.fault), (start + 8, None));
        assert_eq!(sending.tx.completion(start + 2, second.upto), None);
    }
}

#[test]
fn receive_errors_and_lies_are_faults() {
    let good = |index| {
        let mut cqe = Cqe::new(CqeOpcode::RESPONSE_SEND, index);
        cqe.byte_cnt = 60.into();
        cqe
    };
    let mut too_long = good(1);
    too_long.byte_cnt = 65.into();
    let error = ErrorCqe::new(CqeOpcode::RESPONSE_ERROR, 1, 0x04).as_cqe();
    let cases = [
        ("error", error, Cause::LocalProtection),
        ("length", too_long, Cause::RingCorrupted),
        ("counter", good(2), Cause::RingCorrupted),
        (
            "opcode",
            Cqe::new(CqeOpcode::REQUEST, 1),
            Cause::RingCorrupted,
        ),
        (
            "empty",
            Cqe::new(CqeOpcode::RESPONSE_SEND, 1),
            Cause::RingCorrupted,
        ),
    ];
    for (name, cqe, cause) in cases {
        let mut receiving = Receiving::new(4, 1, 0);
        receiving.deliver(&[1; 60]);
        receiving.complete(&cqe);
        receiving.deliver(&[3; 60]);
        assert_eq!(receiving.take(0), Ok(vec![1; 60]), "{name}");
        assert_eq!(receiving.take(1), Err(cause), "{name}");
        assert_eq!(receiving.take(2), Ok(vec![3; 60]), "{name}");
    }
}

#[test]
fn metadata_comes_from_the_completion() {
    let mut receiving = Receiving::new(4, 1, 0);
    let mut cqe = Cqe::new(CqeOpcode::RESPONSE_SEND, 0);
    cqe.byte_cnt = 60.into();
    cqe.timestamp = (3 << 32 | 25).into();
    cqe.rx_hash_res = 0xdead_beef.into();
    cqe.rx_hash_type = 1;
    cqe.sop_drop_qpn = 0x0012_3456.into();
    cqe.vlan_info = 0x2007.into();
    cqe.l4_hdr_type_etc = layout::CQE_VLAN_STRIPPED | layout::CQE_L3_IPV4 | layout::CQE_L4_UDP;
    cqe.hds_ip_ext = layout::CQE_L3_OK;
    receiving.complete(&cqe);
    receiving.deliver(&[1; 60]);
    let meta = receiving.rx.meta(0);
    assert_eq!(meta.timestamp_ns, 3_000_000_025);
    assert_eq!(
        (meta.hash, meta.flow_tag, meta.vlan_tci),
        (0xdead_beef, 0x0012_3456, 0x2007)
    );
    assert_eq!(meta.present, MetaFlags::all() - MetaFlags::L4_OK);
    assert_eq!(receiving.rx.meta(1).present, MetaFlags::TIMESTAMP);
}

#[test]
fn exchanged_buffers_are_used() {
    let mut receiving = Receiving::new(2, 1, 0);
    let sending = Sending::new(2, 0);
    receiving.deliver(&[5; 60]);
    let lent = receiving.rx.segment(0, 0).address;
    let spare = receiving.memory.region(BUFFER_KEY).address.offset(2 * 64);
    receiving.rx.exchange(0, spare);
    receiving.rx.refill(0);
    receiving.rx.release(1);
    receiving.deliver(&[6; 60]);
    receiving.deliver(&[7; 60]);
    assert_eq!(receiving.rx.segment(2, 0).address, spare);
    assert_eq!(receiving.take(2), Ok(vec![7; 60]));
    let own = sending.tx.buffer(1).address;
    assert_eq!(sending.tx.exchange(1, lent), own);
    assert_eq!(
        sending.tx.buffer(3).address,
        lent,
        "slot 1 again, one lap on"
    );
}

#[test]
fn posts_that_cannot_be_expressed_are_refused() {
    let sending = Sending::new(8, 0);
    let address = sending.tx.buffer(0).address;
    let region = sending.memory.region(BUFFER_KEY);
    let good = Post {
        address,
        length: 64,
        part: 0,
        parts: 1,
        ..Post::default()
    };
    let cases = [
        ("good", good, true),
        ("empty", Post { length: 0, ..good }, false),
        (
            "outside",
            Post {
                address: region.address.offset(region.length),
                ..good
            },
            false,
        ),
        (
            "over the end",
            Post {
                address: region.address.offset(region.length - 63),
                ..good
            },
            false,
        ),
        ("no parts", Post { parts: 0, ..good }, false),
        ("part of none", Post { part: 1, ..good }, false),
        (
            "most parts",
            Post {
                parts: super::MAX_PARTS,
                ..good
            },
            true,
        ),
        (
            "too many parts",
            Post {
                parts: super::MAX_PARTS + 1,
                ..good
            },
            false,
        ),
        (
            "signal inside",
            Post {
                part: 1,
                parts: 6,
                flags: PostFlags::SIGNAL,
                ..good
            },
            false,
        ),
        (
            "signal behind",
            Post {
                part: 2,
                parts: 6,
                flags: PostFlags::SIGNAL,
                ..good
            },
            true,
        ),
    ];
    for (name, post, fine) in cases {
        let want = if fine {
            Ok(())
        } else {
            Err(Cause::LocalProtection)
        };
        assert_eq!(
            sending.tx.write(u64::from(post.part), &post),
            want,
            "{name}"
        );
    }
}

#[test]
fn inline_bytes_are_gathered_across_the_ring_end() {
    let mut sending = Sending::new(4, 3);
    let table = sending.memory.table();
    let ring = ring_place(sending.setup.places.ring);
    // Slot 3 and on at slot 0: control, Ethernet with 18 bytes inline, 21 bytes inline, one
    // segment.
    let mut wqe = [0u8; 128];
    let control = ControlSegment::new(Opcode::SEND, 3, NUMBER, 6, true);
    wqe[..16].copy_from_slice(zerocopy::IntoBytes::as_bytes(&control));
    wqe[28..30].copy_from_slice(&18u16.to_be_bytes());
    wqe[30..48].copy_from_slice(&[1; 18]);
    wqe[48..52].copy_from_slice(&(layout::INLINE | 21).to_be_bytes());
    wqe[52..73].copy_from_slice(&[2; 21]);
    let buffer = sending.tx.buffer(0).address;
    table
        .write(
            Place {
                key: BUFFER_KEY,
                address: buffer,
            },
            &[3; 5],
        )
        .expect("buffer");
    let data = DataSegment::new(5, BUFFER_KEY, buffer.value());
    wqe[80..96].copy_from_slice(zerocopy::IntoBytes::as_bytes(&data));
    table.write(ring.offset(192), &wqe[..64]).expect("ring");
    table.write(ring, &wqe[64..]).expect("ring");
    // A NOP behind it is what the driver rings with.
    let nop = Post {
        address: buffer,
        length: 1,
        part: 1,
        parts: 2,
        ..Post::default()
    };
    sending.tx.write(5, &nop).expect("posts");
    sending.ring(6);
    let want = [&[1; 18][..], &[2; 21], &[3; 5]].concat();
    assert_eq!(sending.execute(), vec![want]);
}

#[test]
fn malformed_wqes_are_faults() {
    type Spoil = fn(&mut ControlSegment);
    let cases: [(&str, Spoil, Fault); 4] = [
        (
            "index",
            |c| c.opmod_idx_opcode = (5 << 8 | 0x0a).into(),
            Fault::Wqe,
        ),
        ("number", |c| c.qpn_ds = (77 << 8 | 3).into(), Fault::Wqe),
        (
            "no segments",
            |c| c.qpn_ds = (NUMBER << 8).into(),
            Fault::Wqe,
        ),
        (
            "too many segments",
            |c| c.qpn_ds = (NUMBER << 8 | 9).into(),
            Fault::Wqe,
        ),
    ];
    for (name, spoil, fault) in cases {
        let mut sending = Sending::new(4, 0);
        sending.post(0, 1, 1, false);
        sending.post(1, 1, 2, false);
        sending.ring(2);
        let mut control = ControlSegment::new(Opcode::SEND, 0, NUMBER, 3, false);
        spoil(&mut control);
        let ring = ring_place(sending.setup.places.ring);
        let bytes = zerocopy::IntoBytes::as_bytes(&control);
        sending.memory.table().write(ring, bytes).expect("ring");
        let got = sending.queue.fetch(&sending.memory.table());
        assert_eq!(got.map(|wqe| wqe.index), Err(fault), "{name}");
        sending.queue.skip();
        assert!(
            sending.queue.fetch(&sending.memory.table()).is_ok(),
            "{name}"
        );
    }
}

#[test]
fn doorbells_are_compared_with_their_record() {
    let mut sending = Sending::new(4, 0);
    sending.post(0, 1, 1, false);
    sending.tx.publish(1);
    assert_eq!(
        sending.queue.rung(&sending.memory.table()),
        Ok(None),
        "not rung yet"
    );
    sending.tx.ring(1);
    let record = ring_place(sending.setup.places.record);
    let table = sending.memory.table();
    let doorbell = sending.queue.rung(&table).expect("in reach").expect("rung");
    table
        .write(record, &[0, 0, 0, 1, 0, 0, 0, 0])
        .expect("record");
    let swapped = sending.queue.accept(&table, doorbell);
    assert_eq!(
        swapped,
        Err(Fault::Index),
        "the words of the record are swapped"
    );
    table
        .write(record, &[0, 0, 0, 0, 0, 0, 0, 9])
        .expect("record");
    let beyond = sending.queue.accept(&table, doorbell);
    assert_eq!(beyond, Err(Fault::Index), "more than the depth");
    // A doorbell that was lost is made good by the next one.
    assert_eq!(sending.queue.pending(), 0);
    sending.post(1, 1, 2, false);
    sending.ring(2);
    assert_eq!(sending.execute().len(), 2);
}

#[test]
fn memory_refuses_what_was_not_granted() {
    let mut memory = Memory::new();
    let region = memory.region(BUFFER_KEY);
    if let Some(Some(grant)) = memory.grants.get_mut(0) {
        grant.writable = false;
    }
    let ring = memory.region(RING_KEY).address;
    let table = memory.table();
    let buffer = Place {
        key: BUFFER_KEY,
        address: region.address,
    };
    let cases = [
        (
            "old key",
            Place {
                key: BUFFER_KEY ^ 1,
                ..buffer
            },
            Err(Denied::Key),
        ),
        (
            "no such key",
            Place {
                key: 0xffff_ff00,
                ..buffer
            },
            Err(Denied::Key),
        ),
        (
            "before",
            Place {
                address: DeviceAddress::new(region.address.value() - 1),
                ..buffer
            },
            Err(Denied::Bounds),
        ),
        (
            "over the end",
            buffer.offset(region.length - 7),
            Err(Denied::Bounds),
        ),
        ("the last eight", buffer.offset(region.length - 8), Ok(())),
        ("read only", ring_place(ring), Err(Denied::Right)),
    ];
    for (name, place, want) in cases {
        assert_eq!(table.write(place, &[0; 8]), want, "{name}");
    }
    assert_eq!(table.load_u64(buffer.offset(4)), Err(Denied::Alignment));
    assert_eq!(
        table.copy(buffer, buffer.offset(8), 9),
        Err(Denied::Bounds),
        "overlap"
    );
    assert_eq!(table.copy(buffer, buffer.offset(8), 8), Ok(()));
}

#[test]
fn blocks_that_do_not_fit_are_refused() {
    type Spoil = fn(&mut QueueBlock);
    let cases: [(&str, Spoil); 5] = [
        ("direction", |b| b.direction = 1),
        ("layout", |b| b.layout ^= 1),
        ("depth", |b| b.depth = 12),
        ("too deep", |b| b.depth = 1 << 16),
        ("few completions", |b| {
            let mut body: TxBody = zerocopy::transmute!(b.body);
            body.log_completions = 1;
            b.body = zerocopy::transmute!(body);
        }),
    ];
    for (name, spoil) in cases {
        let mut block = Sending::new(4, 0).block;
        spoil(&mut block);
        // SAFETY: refused before any access.
        let got = unsafe { Tx::attach(&block) };
        assert_eq!(got.err(), Some(Cause::LayoutMismatch), "{name}");
    }
    let mut block = Receiving::new(4, 3, 0).block;
    let mut body: super::RxBody = zerocopy::transmute!(block.body);
    body.segments = 5;
    block.body = zerocopy::transmute!(body);
    // SAFETY: refused before any access.
    let got = unsafe { Rx::attach(&block) };
    assert_eq!(
        got.err(),
        Some(Cause::LayoutMismatch),
        "more segments than the stride"
    );
}

#[test]
fn unreadable_slots_have_no_address() {
    let mut receiving = Receiving::new(2, 1, 0);
    let error = ErrorCqe::new(CqeOpcode::RESPONSE_ERROR, 0, 0x05).as_cqe();
    receiving.complete(&error);
    let segment = receiving.rx.segment(0, 0);
    assert_eq!(segment.flags, SegmentFlags::FAULT);
    assert!(segment.address.is_null());
    assert_eq!(receiving.take(0), Err(Cause::Flushed));
}
